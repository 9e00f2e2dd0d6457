//! The tables of real jobs against what those jobs recorded: calls and bytes by operation and size,
//! and what each communicator is for.

use crate::real::captured::truth;
use crate::support::{Csv, captured_logs, run};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Jobs whose whole log is here, with every call. `ep` is left to `captured.rs`: its record has
/// one all-to-all where NCCL has a Send and a Recv for each peer.
const WHOLE: [&str; 12] = [
    "3d",
    "ddp",
    "ddp-noshm",
    "ddp-sockets",
    "fsdp",
    "fsdp-buffered",
    "fsdp-torn",
    "graph",
    "hf",
    "jax",
    "pp",
    "tp-files",
];

/// Calls and bytes.
type Sum = (u64, u64);

fn number(csv: &Csv, row: &[String], column: &str) -> u64 {
    csv.get(row, column).parse().unwrap()
}

/// Bytes of an element.
fn size(datatype: &str) -> u64 {
    match datatype {
        "int8" | "uint8" => 1,
        "fp16" | "bf16" => 2,
        "int32" | "uint32" | "fp32" => 4,
        "int64" | "uint64" | "fp64" => 8,
        other => panic!("no size is known of {other}"),
    }
}

/// The size class, as nccl-hist names it.
fn bucket(bytes: u64) -> &'static str {
    match bytes {
        0..65_536 => "<64KB",
        65_536..1_048_576 => "64KB-1MB",
        1_048_576..16_777_216 => "1MB-16MB",
        _ => ">=16MB",
    }
}

/// The record's calls by operation and size class.
fn recorded(truth: &Value) -> BTreeMap<(String, &'static str), Sum> {
    let mut sums = BTreeMap::new();
    let ranks = truth["ranks"].as_array().unwrap().iter();
    let steps = ranks.flat_map(|rank| rank["steps"].as_array().unwrap());
    for call in steps.flat_map(|step| step["calls"].as_array().unwrap()) {
        let (op, kind) = (call[0].as_str().unwrap(), call[3].as_str().unwrap());
        if op == "coalesced" {
            continue; // the recorder's bracket around calls that it lists one by one
        }
        let (elements, times) = (call[2].as_u64().unwrap(), call[4].as_u64().unwrap());
        let bytes = elements * size(kind);
        let sum: &mut Sum = sums.entry((op.to_owned(), bucket(bytes))).or_default();
        *sum = (sum.0 + times, sum.1 + bytes * times);
    }
    sums
}

#[test]
fn calls_and_bytes_by_operation_and_size_are_those_of_the_record() {
    for name in WHOLE {
        let logs = captured_logs(name);
        let want = recorded(&truth(name));
        let csv = Csv::of(&run("nccl-hist", &logs).calm());
        let hist: BTreeMap<(String, String), Sum> = csv
            .rows
            .iter()
            .map(|row| {
                let key = (
                    csv.get(row, "op").to_owned(),
                    csv.get(row, "bucket").to_owned(),
                );
                (
                    key,
                    (number(&csv, row, "calls"), number(&csv, row, "total_bytes")),
                )
            })
            .collect();
        let of_hist: BTreeMap<(String, String), Sum> = want
            .iter()
            .map(|((op, bucket), sum)| ((op.clone(), (*bucket).to_owned()), *sum))
            .collect();
        assert_eq!(hist, of_hist, "{name}: nccl-hist");

        let mut of_ops: BTreeMap<String, Sum> = BTreeMap::new();
        for ((op, _), (calls, bytes)) in want {
            let sum = of_ops.entry(op).or_default();
            *sum = (sum.0 + calls, sum.1 + bytes);
        }
        let csv = Csv::of(&run("nccl-ops", &logs).calm());
        let ops: BTreeMap<String, Sum> = csv
            .rows
            .iter()
            .map(|row| {
                let sum = (number(&csv, row, "calls"), number(&csv, row, "total_bytes"));
                (csv.get(row, "op").to_owned(), sum)
            })
            .collect();
        assert_eq!(ops, of_ops, "{name}: nccl-ops");

        let csv = Csv::of(&run("nccl-agg", &logs).calm());
        let sum =
            |column: &str| -> u64 { csv.rows.iter().map(|row| number(&csv, row, column)).sum() };
        let all = of_ops.values().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        assert_eq!((sum("calls"), sum("total_bytes")), all, "{name}: nccl-agg");
    }
}

/// What the job's own name of a group means; `None` where it tells no kind.
fn kind(desc: &str) -> Option<&'static str> {
    match desc {
        "tensor" | "mesh_tp" => Some("tensor"),
        "pipeline" => Some("pipeline"),
        "data" | "mesh_fsdp" => Some("data"),
        _ => None,
    }
}

#[test]
fn communicators_are_labelled_as_the_jobs_named_their_groups() {
    for name in [
        "3d",
        "3d-die",
        "3d-skip",
        "ep",
        "pp",
        "pp-recv",
        "torchtitan",
        "tp-count",
        "tp-files",
        "tp-stamps",
    ] {
        let truth = truth(name);
        let logs = captured_logs(name);
        let args: Vec<&str> = std::iter::once("--members")
            .chain(logs.iter().map(String::as_str))
            .collect();
        let csv = Csv::of(&run("nccl-communicators", &args).calm());
        let mut comms: BTreeMap<&str, (&str, BTreeSet<u64>)> = BTreeMap::new();
        for row in &csv.rows {
            let comm = comms
                .entry(csv.get(row, "comm_id"))
                .or_insert((csv.get(row, "label"), BTreeSet::new()));
            comm.1.insert(csv.get(row, "pid").parse().unwrap());
        }
        let pids: Vec<u64> = truth["ranks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|rank| rank["pid"].as_u64().unwrap())
            .collect();
        let mut known = 0;
        for group in truth["groups"].as_array().unwrap() {
            let Some(kind) = kind(group["desc"].as_str().unwrap()) else {
                continue;
            };
            let members: BTreeSet<u64> = group["ranks"]
                .as_array()
                .unwrap()
                .iter()
                .map(|rank| pids[usize::try_from(rank.as_u64().unwrap()).unwrap()])
                .collect();
            let labels: Vec<&str> = comms
                .values()
                .filter(|c| c.1 == members)
                .map(|c| c.0)
                .collect();
            assert!(
                labels.contains(&kind),
                "{name}: {group} is called {labels:?}"
            );
            // A group whose calls are too few to tell is not given another's name.
            let known_labels: BTreeSet<&str> = [kind, "unknown", "world", "expert"].into();
            assert!(
                labels.iter().all(|l| known_labels.contains(l)),
                "{name}: {group}: {labels:?}"
            );
            known += 1;
        }
        assert!(known > 0, "{name}: no group has a name");
    }
}
