//! Traces of torch.profiler beside NCCL's log of the same job: the calls of both, one by one.

use crate::support::{Csv, arg, data, run};
use std::path::Path;

/// What both tell of a call.
const COLUMNS: [&str; 7] = ["op", "count", "datatype", "rank", "nranks", "root", "tid"];

/// Compares the calls of a folder's traces with those of its log: how many are equal, all in order.
/// PyTorch's steps begin with 0, the trainer's with `first`.
fn compared(folder: &Path, log: &str, traces: &[&str], first: u64) -> usize {
    let log = Csv::of(&run("nccl-comms", &[arg(&folder.join(log))]).calm());
    let mut equal = 0;
    for name in traces {
        let trace = Csv::of(&run("nccl-comms", &[arg(&folder.join(name))]).ends(0));
        let pid = trace.get(&trace.rows[0], "pid").to_owned();
        let steps: Vec<u64> = trace
            .column("step")
            .iter()
            .map(|s| s.parse().unwrap())
            .collect();
        let is_in = |row: &&Vec<String>| {
            let step = log.get(row, "step").parse::<u64>().ok();
            let step = step.and_then(|step| step.checked_sub(first));
            log.get(row, "pid") == pid && step.is_some_and(|step| steps.contains(&step))
        };
        let logged = log.rows.iter().filter(is_in);
        let logged: Vec<Vec<&str>> = logged
            .map(|row| COLUMNS.map(|c| log.get(row, c)).to_vec())
            .collect();
        let traced = trace
            .rows
            .iter()
            .map(|row| COLUMNS.map(|c| trace.get(row, c)).to_vec());
        let traced: Vec<Vec<&str>> = traced.collect();
        assert_eq!(traced, logged, "{name}");
        equal += traced.len();
    }
    equal
}

#[test]
fn calls_of_traces_are_those_of_the_log() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/kineto");
    let traces = ["ep-rank0.json.gz", "ep-rank1.json.gz"];
    assert_eq!(compared(&here, "ep.log.gz", &traces, 0), 336);
    let Some(folder) = data("gpu/kineto-hsdp-2x2") else {
        return;
    };
    let traces = [0, 1, 2, 3].map(|rank| format!("kineto_rank{rank}.json.gz"));
    let traces = traces.each_ref().map(String::as_str);
    assert_eq!(compared(&folder, "nccl.log.gz", &traces, 1), 320);
}
