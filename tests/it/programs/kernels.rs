//! nccl-kernels: the summary of kernels, against what nsys itself prints.

use crate::support::{Work, arg, data, feed, run};

const RING: &str = "testdata/nsys/ring.sqlite.gz";

#[test]
fn the_table_is_that_of_nsys_to_the_last_digit() {
    let (Some(export), Some(golden)) = (
        data("nsys/mfu_2gpu_before.sqlite"),
        data("nsys/stats-golden-2022.4/mfu_2gpu_before.gpukernsum.csv"),
    ) else {
        return;
    };
    let printed = std::fs::read_to_string(&golden).unwrap();
    // What it works on comes first, a blank line last.
    let expected: Vec<&str> = printed
        .lines()
        .skip(1)
        .filter(|line| !line.is_empty())
        .collect();
    let out = run("nccl-kernels", &[arg(&export), "--by", "grid", "--nsys"]).ends(0);
    assert_eq!(out.lines(), expected);
    assert!(expected.len() > 40);
}

#[test]
fn what_nsys_printed_is_read_in_every_layout() {
    let Some(folder) = data("nsys/stats-golden-2022.4") else {
        return;
    };
    let of = |layout: &str| {
        let path = folder.join(format!("mfu_2gpu_before.gpukernsum.{layout}"));
        run("nccl-kernels", &[arg(&path), "--by", "grid", "--nsys"])
            .ends(0)
            .lines()
    };
    let csv = of("csv");
    assert!(csv.len() > 40);
    assert_eq!(of("json"), csv);
    // Long names are cut in these: their numbers are compared.
    let numbers = |lines: Vec<String>| -> Vec<String> {
        let fields = |line: String| line.splitn(11, ',').take(10).collect::<Vec<_>>().join(",");
        let mut all: Vec<String> = lines.into_iter().map(fields).collect();
        all.sort();
        all
    };
    let expected = numbers(csv);
    for layout in ["table", "column"] {
        assert_eq!(numbers(of(layout)), expected, "{layout}");
    }
}

#[test]
fn old_headers_and_cut_names_are_read() {
    if let Some(old) = data("nsys/nsys_stats_table_seed002.txt") {
        let out = run("nccl-kernels", &[arg(&old)]).ends(0);
        let row = "5448188578,554,9834275.4,,117920,41516012,8461403,AllReduce,";
        assert!(out.text().contains(row), "{}", out.text());
    }
    if let Some(new) = data("nsys/nsys_stats_text_2025.5.2_vllm_tp2_excerpt.txt") {
        let out = run("nccl-kernels", &[arg(&new)]).ends(0);
        assert_eq!(out.lines().len(), 6);
        assert!(
            out.text()
                .contains(",811520,77126.7,33345,8672,200707,55913.1,,")
        );
    }
}

#[test]
fn rows_add_up_however_they_are_grouped() {
    let totals = |by: &[&str]| {
        let out = run("nccl-kernels", &[&[RING, "--format", "csv"], by].concat()).ends(0);
        let number =
            |line: &String, at: usize| line.split(',').nth(at).unwrap().parse::<u64>().unwrap();
        let lines = out.lines();
        let rows = lines.iter().skip(1);
        let sum = |at| rows.clone().map(|line| number(line, at)).sum::<u64>();
        (sum(1), sum(2))
    };
    let all = totals(&[]);
    assert_eq!(all.1, 216);
    assert_eq!(totals(&["--by", "grid"]), all);
    assert_eq!(totals(&["--by", "device,grid"]), all);
    let ops = run("nccl-kernels", &[RING, "--by", "op"]).ends(0);
    assert_eq!(ops.lines().len(), 3);
    assert!(ops.text().contains(",SendRecv\n") && ops.text().contains(",AllReduce\n"));
}

#[test]
fn two_inputs_are_added_up() {
    let once = run("nccl-kernels", &[RING, "--nsys"]).ends(0).text();
    let work = Work::new();
    let printed = work.file("printed.csv", &once);
    let both = run("nccl-kernels", &[RING, arg(&printed), "--format", "csv"]).ends(0);
    let line = both.lines().remove(1);
    let fields: Vec<&str> = line.split(',').collect();
    let first: Vec<&str> = once.lines().nth(1).unwrap().split(',').collect();
    let doubled = |at: usize| (2 * first[at].parse::<u64>().unwrap()).to_string();
    assert_eq!((fields[1], fields[2]), (&doubled(1)[..], &doubled(2)[..]));
    // The median and the deviation of both together are unknown.
    assert_eq!((fields[4], fields[7]), ("", ""));
}

#[test]
fn what_has_no_kernels_is_refused() {
    let out = feed("nccl-kernels", &[], "op,count,datatype\nSend,5,int8\n").ends(2);
    out.says(&["stdin is a call table: it has no times of kernels"]);
    let out = feed("nccl-kernels", &[], "h:1:2 [0] NCCL INFO Bootstrap\n").ends(2);
    out.says(&["stdin is an NCCL log: it has no times of kernels"]);
    // Whatever its name is.
    let work = Work::new();
    let letter = work.file("a.sqlite", "x");
    run("nccl-kernels", &[arg(&letter)])
        .ends(2)
        .says(&["a.sqlite is text without a line of NCCL: it has no times of kernels"]);
    feed("nccl-kernels", &[], "")
        .ends(2)
        .says(&["stdin is empty"]);
    run("nccl-kernels", &["testdata/captured/ddp"])
        .ends(2)
        .says(&["none of the files"]);
    let out = feed(
        "nccl-kernels",
        &[],
        "NVIDIA Tegra Profiler Report 36398880.\n\x0b",
    )
    .ends(2);
    out.says(&["nsys export --type sqlite --include-blobs=true stdin"]);
    feed("nccl-kernels", &[], "SQLite format 3\0").ends(2);
}

#[test]
fn a_trace_of_the_gpu_gives_what_its_summary_gives() {
    let head = "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),\
                Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n";
    let rows = "100,30,11,2,1,1,64,1,1,24,0,0,,,,,NVIDIA H100 (0),1,,7,f\n\
                160,50,12,3,1,1,64,1,1,24,0,0,,,,,NVIDIA H100 (0),1,,7,f\n\
                170,5,13,,,,,,,,,,4.096,1.0,Pageable,Device,NVIDIA H100 (0),1,,7,[CUDA memcpy HtoD]\n";
    let trace = format!("Processing [a.sqlite] with [cuda_gpu_trace.py]... \n{head}{rows}");
    let summary = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n\
                   100.0,80,2,40.0,40.0,30,50,14.142135623730951,f\n";
    let of = |text: &str| feed("nccl-kernels", &[], text).ends(0);
    assert_eq!(of(&trace).text(), of(summary).text());
    assert_eq!(of(&trace).lines().len(), 2);
}

#[test]
fn records_of_other_tools_are_named() {
    for (text, name) in [
        (
            "{\"rocprofiler-sdk-tool\":[{}]}\n",
            "a record of rocprofiler",
        ),
        (
            "V|1|base_timestamp=1714234567.890\nC1|Q|work_id=1|+0.001\n",
            "a log of torchcomms' calls",
        ),
    ] {
        for program in ["nccl-kernels", "nccl-hist", "nccl-overlap"] {
            feed(program, &[], text).ends(2).says(&[name]);
        }
    }
}
