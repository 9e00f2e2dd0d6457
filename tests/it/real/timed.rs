//! Durations and starts of recorded calls against the job's own record of its calls and their CUDA events
//! (../shared/data/gpu).

use super::gpu::unpacked;
use crate::support::{Csv, data, run};
use std::collections::{BTreeMap, BTreeSet};
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

/// A call as the job's own record of it has it: name, group, bytes, the host's time in ns, µs by CUDA events.
type TimedCall = (String, String, u64, u64, f64);

/// A duration is that of the CUDA events around its call, or its `quality` has the limit; and no kernel takes longer
/// than its events, since the host may only be late to launch it. The calls of a group are found by their number,
/// which no other group of the process has.
#[test]
fn durations_are_those_of_their_cuda_events_or_have_their_limit() {
    for (name, records, compared) in [
        ("mix-profiler-2.29.7-2x2", "trace_", 180),
        ("mix-profiler-2.32.3-nvl2", "trace_", 48),
        ("mix-inspector-2.28.9-2x2", "inspector/", 48),
    ] {
        let Some(folder) = data(&format!("gpu/{name}")) else {
            return;
        };
        let place = match records {
            "trace_" => folder.clone(),
            below => folder.join(below),
        };
        let part = if records == "trace_" { records } else { "" };
        let table = call_table(&files_with(&place, part));
        let pids: BTreeSet<&str> = table.rows.iter().map(|row| table.get(row, "pid")).collect();
        let mut calls: BTreeMap<[&str; 3], Vec<_>> = BTreeMap::new();
        for row in &table.rows {
            let of = ["pid", "comm", "op"].map(|name| table.get(row, name));
            calls.entry(of).or_default().push(row);
        }
        let mut seen = 0;
        for ([pid, _, op], mut rows) in calls {
            let process = pids.iter().position(|of| *of == pid).unwrap();
            let events = unpacked(&folder.join(format!("times.{process}.json.gz")));
            let events: Vec<TimedCall> = serde_json::from_str(&events).unwrap();
            let mut groups: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
            for event in events.iter().filter(|event| event.0 == op) {
                groups.entry(&event.1).or_default().push(event.4);
            }
            groups.retain(|_, times| times.len() == rows.len());
            if groups.len() != 1 {
                continue;
            }
            rows.sort_by_key(|row| table.get(row, "seq").parse::<u64>().unwrap_or(0));
            let events = groups.into_values().next().unwrap();
            for (row, event) in rows.into_iter().zip(events) {
                let Ok(ns) = table.get(row, "dur_ns").parse::<f64>() else {
                    continue;
                };
                let (us, limit) = (ns / 1000.0, 20.0_f64.max(event / 20.0));
                let quality = table.get(row, "quality");
                let is_limited = ["without its launch", "to the proxy's end"]
                    .iter()
                    .any(|words| quality.contains(words));
                let is_kernel = table.get(row, "clock") == "gpu";
                assert!(
                    ((us - event).abs() <= limit || is_limited)
                        && (us <= event + limit || !is_kernel),
                    "{name} {row:?}: {event}"
                );
                seen += 1;
            }
        }
        assert_eq!(seen, compared, "{name}");
    }
}
