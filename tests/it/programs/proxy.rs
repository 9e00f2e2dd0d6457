//! nccl-proxy: what the proxy thread's steps wait for.

use crate::support::{feed, run};

#[test]
fn sums_are_those_of_the_trace() {
    let out = run(
        "nccl-proxy",
        &["testdata/profiler/v1.json.gz", "--by", "op,channel,peer"],
    )
    .ends(0);
    let text = out.text();
    // The trace's lines 4 to 23 and those of the second AllReduce.
    let line = text
        .lines()
        .find(|line| line.starts_with("AllReduce,0,1,send,"))
        .unwrap();
    assert!(
        line.starts_with("AllReduce,0,1,send,2,0,5,5,81920,"),
        "{line}"
    );
    out.says(&["of 28 steps seen", "the GPU is late with the data"]);
}

#[test]
fn an_operation_that_did_not_end_is_listed() {
    let out = run(
        "nccl-proxy",
        &["testdata/profiler/v4-cut.json.gz", "--incomplete"],
    )
    .ends(1);
    let rows: Vec<String> = out.text().lines().skip(1).map(str::to_owned).collect();
    let row = "ReduceScatter,0x14ba61f9a096f33f,0,0,0,1,send,2,1,,,,,waits for the GPU's data,";
    assert_eq!(rows, [row]);
}

#[test]
fn what_is_no_trace_is_refused() {
    let out = feed("nccl-proxy", &[], "op,count,datatype\nSend,5,int8\n").ends(2);
    let error = "nccl-proxy: error: stdin is a call table: it has no operations of NCCL's proxy thread; an \
                 NCCL profiler trace has them; nccl-hist reads this input\n";
    assert_eq!(out.stderr, error);
    run("nccl-proxy", &["testdata/captured/ddp"])
        .ends(2)
        .says(&["none of the files is a trace"]);
}
