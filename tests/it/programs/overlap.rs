//! nccl-overlap: what GPUs do at the same time.

use crate::support::{Csv, data, feed, run};

const RANK0: &str = "testdata/kineto/ep-rank0.json.gz";
const RANK1: &str = "testdata/kineto/ep-rank1.json.gz";

/// ns of a column in ms.
fn ns(table: &Csv, row: &[String], column: &str) -> i64 {
    let ms: f64 = table.get(row, column).parse().unwrap();
    (ms * 1e6).round() as i64
}

/// Summed up in Python over the events' own decimals.
#[test]
fn sums_are_those_of_the_trace() {
    let out = run("nccl-overlap", &[RANK0, RANK1]).ends(0);
    let table = Csv::of(&out);
    assert_eq!(table.column("rank"), ["0", "1", ""]);
    assert_eq!(table.column("device"), ["0", "1", "all"]);
    for row in &table.rows {
        let of = |column| ns(&table, row, column);
        assert_eq!(of("window_ms"), of("active_ms") + of("idle_ms"));
        assert_eq!(of("comm_ms"), of("compute_comm_ms") + of("exposed_comm_ms"));
    }
    out.says(&["kernels that communicate, by their names: ncclDevKernel_"]);
}

#[test]
fn steps_are_rows() {
    let table = Csv::of(&run("nccl-overlap", &[RANK0, "--by", "step"]).ends(0));
    assert_eq!(table.column("step"), ["5", "6", "7", "8"]);
    assert!(
        table
            .column("basis")
            .iter()
            .all(|basis| basis == "gpu range")
    );
    let whole = Csv::of(&run("nccl-overlap", &[RANK0, "--window", "step"]).ends(0));
    let ms = |table: &Csv| -> f64 {
        let column = table.column("comm_ms");
        column.iter().map(|ms| ms.parse::<f64>().unwrap()).sum()
    };
    assert!((ms(&table) - ms(&whole)).abs() < 1e-6);
    run("nccl-overlap", &[RANK0, "--window", "no such range"])
        .ends(0)
        .says(&["there is no such range"]);
}

#[test]
fn which_kernels_communicate_can_be_named() {
    let out = run("nccl-overlap", &[RANK0, "--comm-kernels", "^nothing$"]).ends(0);
    let table = Csv::of(&out);
    assert_eq!(table.column("comm_ms"), ["0"]);
    out.says(&["no kernel communicates"]);
    run("nccl-overlap", &[RANK0, "--comm-kernels", "("])
        .ends(2)
        .says(&["--comm-kernels ("]);
}

#[test]
fn what_has_no_timeline_is_refused() {
    let out = feed("nccl-overlap", &[], "op,count,datatype\nSend,5,int8\n").ends(2);
    let error = "nccl-overlap: error: stdin is a call table: it has no activities of GPUs; an Nsight Systems \
                 export, or a trace of torch.profiler, has them; nccl-hist reads this input\n";
    assert_eq!(out.stderr, error);
    let other =
        r#"{"traceEvents":[{"ph":"X","name":"x","cat":"v8","pid":1,"tid":2,"ts":3,"dur":1}]}"#;
    feed("nccl-overlap", &[], other)
        .ends(2)
        .says(&["not of torch.profiler"]);
}

/// The numbers that the founding script prints of real exports, in seconds.
#[test]
fn merged_devices_are_those_of_the_founding_script() {
    let Some(folder) = data("nsys") else {
        return;
    };
    let printed = std::fs::read_to_string(folder.join("arstgr-scripts-output.txt")).unwrap();
    const LINES: [(&str, &str); 9] = [
        ("Total Session Time", "window_ms"),
        ("GPU Active (any work)", "active_ms"),
        ("GPU Idle Time", "idle_ms"),
        ("Compute (FLOP-ish kernels)", "compute_ms"),
        ("Communication (NCCL kernels)", "comm_ms"),
        ("Memory ops (memcpy/memset)", "memory_ms"),
        ("Compute and Comm overlap", "compute_comm_ms"),
        ("Compute and Mem overlap", "compute_memory_ms"),
        ("Comm and Mem overlap", "comm_memory_ms"),
    ];
    let mut compared = 0;
    for part in printed.split("== ").skip(1) {
        let path = folder.join(format!("{}.sqlite", part.lines().next().unwrap()));
        if !path.exists() {
            continue;
        }
        let path = path.to_str().unwrap();
        let table = Csv::of(&run("nccl-overlap", &[path, "--merge-devices"]).ends(0));
        let row = &table.rows[0];
        for (line, column) in LINES {
            let line = part.lines().find(|l| l.starts_with(line)).unwrap();
            let seconds = line.rsplit_once('|').unwrap().1.trim();
            let ms: f64 = table.get(row, column).parse().unwrap();
            assert_eq!(format!("{:.6}", ms / 1e3), seconds, "{path}: {column}");
            compared += 1;
        }
        // The GPUs do one thing at a time.
        let table = Csv::of(&run("nccl-overlap", &[path]).ends(0));
        assert!(
            table.column("compute_comm_ms").iter().all(|ms| ms == "0"),
            "{path}"
        );
    }
    assert!(compared >= 18, "{compared}");
}
