//! Durations and starts of recorded calls against the job's own record of its calls and their CUDA events
//! (../shared/data/gpu).

use super::gpu::unpacked;
use crate::support::{Csv, data, run};
use std::collections::BTreeMap;
use std::path::Path;

/// Files of a folder whose name has `part`.
fn files_with(folder: &Path, part: &str) -> Vec<String> {
    let all = std::fs::read_dir(folder).unwrap();
    let mut all: Vec<String> = all
        .map(|file| file.unwrap().path().to_str().unwrap().to_owned())
        .filter(|path| path.contains(part))
        .collect();
    all.sort();
    all
}

fn call_table(files: &[String]) -> Csv {
    let args = ["-q", "--format", "csv"].map(str::to_owned);
    Csv::of(&run("nccl-comms", &[&args[..], files].concat()).ends(0))
}

/// `--times` with records that have no number of NCCL's: each call that gets one began when the job made it. A
/// dump has the time of the enqueue, a trace of torch.profiler that of the kernel, which follows.
#[test]
fn records_in_order_fill_the_calls_that_they_are_of() {
    let cases = [
        ("hsdp-2x2", "fr/", 1364, 1.0),
        ("groups8-split", "fr/", 520, 1.0),
        ("x-direction", "fr/", 802, 1.0),
        ("kineto-hsdp-2x2", "kineto_rank", 272, 200.0),
    ];
    for (name, records, with, late_ms) in cases {
        let Some(folder) = data(&format!("gpu/{name}")) else {
            return;
        };
        let place = if records == "fr/" {
            folder.join("fr")
        } else {
            folder.clone()
        };
        let times = files_with(&place, records).into_iter();
        let times = times.flat_map(|file| ["--times".to_owned(), file]);
        let log = folder.join("nccl.log.gz").to_str().unwrap().to_owned();
        let table = call_table(&[log].into_iter().chain(times).collect::<Vec<_>>());
        let mut made: BTreeMap<[String; 3], Vec<i128>> = BTreeMap::new();
        for line in unpacked(&folder.join("truth.csv.gz")).lines().skip(1) {
            let f: Vec<&str> = line.split(',').collect();
            let call = [f[1], f[5], f[7]].map(str::to_owned);
            made.entry(call).or_default().push(f[3].parse().unwrap());
        }
        let mut joined = 0;
        for row in &table.rows {
            let call = ["pid", "op", "count"].map(|name| table.get(row, name).to_owned());
            let made = made.get_mut(&call).unwrap().remove(0);
            if let Ok(start) = table.get(row, "start_ns").parse::<i128>() {
                let late = (start - made) as f64 / 1e6;
                assert!(
                    (-1.0..late_ms).contains(&late),
                    "{name} {call:?}: {late} ms"
                );
                joined += 1;
            }
        }
        assert_eq!(joined, with, "{name}");
    }
}

/// A kernel takes no longer than the CUDA events around its call; the host may be late to launch it.
#[test]
fn no_kernel_takes_longer_than_its_cuda_events() {
    for (name, first_pid, kernels) in [
        ("mix-profiler-2.29.7-2x2", 1920, 96),
        ("mix-profiler-2.32.3-nvl2", 2424, 48),
    ] {
        let Some(folder) = data(&format!("gpu/{name}")) else {
            return;
        };
        let table = call_table(&files_with(&folder, "trace_"));
        let mut compared = 0;
        for row in &table.rows {
            let get = |name| table.get(row, name);
            let Ok(ns) = get("dur_ns").parse::<f64>() else {
                continue;
            };
            if get("clock") != "gpu" || matches!(get("op"), "Send" | "Recv") {
                continue;
            }
            let process = get("pid").parse::<usize>().unwrap() - first_pid;
            let events = unpacked(&folder.join(format!("times.{process}.json.gz")));
            let events: Vec<(String, String, u64, u64, f64)> =
                serde_json::from_str(&events).unwrap();
            let mut own = events.iter().filter(|event| event.0 == get("op"));
            let event = own.nth(get("seq").parse().unwrap()).unwrap().4;
            assert!(
                ns / 1000.0 <= event + 20.0_f64.max(event / 20.0),
                "{name} {row:?}: {event}"
            );
            compared += 1;
        }
        assert_eq!(compared, kernels, "{name}");
    }
}
