//! The MPI message logger's lines in the programs that count calls.

use crate::support::{Csv, data, feed, run};

/// Counted by hand in the logs of ranks 0 and 1.
#[test]
fn calls_of_ranks_are_counted() {
    let Some(folder) = data("mpi-logger") else {
        return;
    };
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let out = run("nccl-ops", &[path("r0.log"), path("r1.log")]).ends(0);
    let expected = "op,calls,min_bytes,mean_bytes,p50_bytes,p95_bytes,p99_bytes,max_bytes,total_bytes\n\
                    AllGather,6,64,88768,4096,262144,262144,262144,532608\n\
                    AllReduce,6,128,177536,8192,524288,524288,524288,1065216\n\
                    Broadcast,6,64,88768,4096,262144,262144,262144,532608\n\
                    Recv,9,16,66576,4096,262144,262144,262144,599184\n";
    let text = out.text();
    let ops = |text: &str, op: &str| text.lines().find(|l| l.starts_with(op)).map(str::to_owned);
    for op in ["AllGather", "AllReduce", "Broadcast", "Recv"] {
        assert_eq!(ops(&text, op), ops(expected, op));
    }
    let table = Csv::of(&out);
    assert_eq!(table.column("calls"), ["6", "6", "6", "9", "6", "9"]);
    let rows = Csv::of(&run("nccl-comms", &[path("r0.log")]).ends(0));
    // 18 calls of which 3 are a Send and a Recv; MPI_Init and MPI_Finalize are none.
    assert_eq!(rows.rows.len(), 21);
    assert_eq!(rows.get(&rows.rows[0], "start_ns"), "492000");
    assert_eq!(rows.get(&rows.rows[0], "comm"), "0x5598e4b98480");
    assert_eq!(rows.get(&rows.rows[0], "global_rank"), "0");
    assert_eq!(rows.get(&rows.rows[4], "root"), "1");
}

/// Four ranks wrote into one file: 12 of its lines are whole calls, three more end in one.
#[test]
fn a_file_that_ranks_overwrote_is_read_where_it_is_whole() {
    let Some(folder) = data("mpi-logger") else {
        return;
    };
    let path = folder.join("shared-4ranks-one-file.log");
    let out = run("nccl-comms", &[path.to_str().unwrap()]).ends(1);
    let text = std::fs::read_to_string(&path).unwrap();
    let whole = |line: &&str| {
        line.starts_with("[0.") && line.matches("] MPI_").count() == 1 && line.contains(" comm=0x")
    };
    let whole = text.lines().filter(whole).count();
    let sendrecv = text
        .lines()
        .filter(|l| l.contains("MPI_Sendrecv") && l.contains("recv_bytes"))
        .count();
    let rows = Csv::of(&out).rows.len();
    assert!(
        rows >= whole && rows <= whole + sendrecv + 3,
        "{rows} of {whole}"
    );
    out.says(&["damaged: expected"]);
}

#[test]
fn a_log_of_mpi_has_no_step_lines() {
    let line =
        "[0.000492] MPI_Allreduce: world_rank=0 comm_rank=0 comm_size=4 bytes=128 comm=0x55\n";
    feed("nccl-timing", &[], line)
        .ends(2)
        .says(&["is an MPI message log: it has no step lines"]);
}
