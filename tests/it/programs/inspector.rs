//! NCCL Inspector's records: as calls, beside the log of the same job, and their bandwidths.

use crate::support::{Csv, Work, captured, data, run};
use nccl_pipe::count::timed::TimedCalls;
use nccl_pipe::grammar::values::{ByteBasis, op_kind};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The files of a captured job whose names begin so.
fn files(folder: &Path, begin: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    let is = |path: &&PathBuf| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with(begin)
    };
    let mut names: Vec<String> = paths
        .iter()
        .filter(is)
        .map(|p| p.display().to_string())
        .collect();
    names.sort();
    names
}

/// The rows of the call table.
fn calls(inputs: &[String]) -> Vec<BTreeMap<String, String>> {
    let args = [&["--format".to_owned(), "csv".to_owned()], inputs].concat();
    let table = Csv::of(&run("nccl-comms", &args).ends(0));
    let named = |row: Vec<String>| table.columns.iter().cloned().zip(row).collect();
    table.rows.clone().into_iter().map(named).collect()
}

/// Which collective of which communicator, rank and name.
type Which = (String, String, String, u64);

/// Every record is a call of the log: the same communicator, rank, operation and number, with the
/// same bytes. What the log has alone comes back.
fn alone(logs: &[String], records: &[String], expect: usize) -> Vec<Which> {
    let mut numbers: BTreeMap<(String, String, String), u64> = BTreeMap::new();
    let mut logged = BTreeMap::new();
    for row in calls(logs) {
        if ["Send", "Recv"].contains(&&*row["op"]) {
            continue;
        }
        // Inspector's buffer has room for `0x` and 14 digits.
        let id: String = row["comm_id"].chars().take(16).collect();
        let series = (id, row["rank"].clone(), row["op"].clone());
        let number = numbers.entry(series.clone()).or_default();
        logged.insert((series.0, series.1, series.2, *number), row);
        *number += 1;
    }
    let records = calls(records);
    assert_eq!(records.len(), expect);
    let pids: BTreeSet<String> = records.iter().map(|row| row["pid"].clone()).collect();
    for row in records {
        let seq = row["seq"].parse().unwrap();
        let which = (
            row["comm_id"].clone(),
            row["rank"].clone(),
            row["op"].clone(),
            seq,
        );
        let log = logged
            .remove(&which)
            .unwrap_or_else(|| panic!("{which:?} is not in the log"));
        for column in ["bytes", "host", "pid", "nranks"] {
            assert_eq!(row[column], log[column], "{which:?}");
        }
        assert_eq!(
            (&*row["count"], &*row["datatype"], &*row["src"]),
            ("", "", "inspector")
        );
    }
    logged.retain(|_, row| pids.contains(&row["pid"]));
    logged.into_keys().collect()
}

#[test]
fn each_record_is_a_call_of_the_log() {
    let of = |name: &str, records: usize| {
        let folder = captured(name);
        alone(&files(&folder, "nccl."), &files(&folder, "vm-pid"), records)
    };
    assert_eq!(of("fsdp-inspector", 720), []);
    // NCCL 2.28 keeps the last collective between two dumps.
    let which = |op: &str, n: u64| {
        (
            "0xdbe68ee5946ddb".to_owned(),
            "2".to_owned(),
            op.to_owned(),
            n,
        )
    };
    let lost = [which("AllReduce", 42), which("AllReduce", 77)];
    assert_eq!(of("ddp-inspector-2.28", 83), lost);
    let Some(mix) = data("gpu/mix-inspector-2.28.9-2x2") else {
        return;
    };
    let log = [mix.join("nccl.log.gz").display().to_string()];
    let lost = alone(&log, &files(&mix.join("inspector"), "node00"), 75);
    // An AlltoAll has no record.
    let of = |op: &str| {
        lost.iter()
            .filter(|w| w.2 == op)
            .map(|w| w.3)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("Reduce"), [2, 6, 9, 10, 14]);
    assert_eq!((of("AlltoAll").len(), lost.len()), (16, 21));
}

#[test]
fn records_that_are_missing_are_reported() {
    let records = files(&captured("ddp-inspector-2.28"), "vm-pid");
    let out = run("nccl-ops", &[&records[..], &["-v".to_owned()]].concat()).ends(0);
    out.says(&[
        "2 collectives up to the last recorded ones have no record",
        "83 lines = 83 calls + 0 other NCCL + 0 foreign + 0 repaired + 0 damaged",
    ]);
    let records = files(&captured("fsdp-inspector"), "vm-pid");
    let out = run("nccl-ops", &records).ends(0);
    assert_eq!(out.stderr, "");
}

#[test]
fn a_log_and_its_records_are_not_one_job_twice() {
    let folder = captured("ddp-inspector-2.28").display().to_string();
    let out = run("nccl-hist", &[folder]).ends(0);
    out.says(&["what is in both is counted twice"]);
}

#[test]
fn records_in_a_folder_of_logs_are_skipped_where_log_lines_are_needed() {
    let folder = captured("ddp-inspector-2.28").display().to_string();
    for program in ["nccl-communicators", "nccl-net", "nccl-steps"] {
        let more: &[&str] = if program == "nccl-steps" {
            &["--list"]
        } else {
            &[]
        };
        let args = [&[&*folder], more].concat();
        run(program, &args)
            .ends(0)
            .says(&["(an NCCL Inspector dump)", "skipped"]);
    }
}

/// The number behind a key of a line.
fn number(line: &str, key: &str) -> f64 {
    let from = line.find(key).unwrap() + key.len();
    let text: String = line[from..].chars().skip(2).collect();
    text.split([',', '}']).next().unwrap().parse().unwrap()
}

/// Inspector's own bandwidths of each record, in its six decimals.
fn own(text: &str) -> Vec<[f64; 2]> {
    let of = |line: &str| {
        let part = if line.contains("\"coll_perf\"") {
            "coll"
        } else {
            "p2p"
        };
        ["algobw", "busbw"].map(|what| number(line, &format!("{part}_{what}_gbs")))
    };
    text.lines().map(of).collect()
}

#[test]
fn bandwidths_are_those_that_inspector_prints() {
    let mut all = files(&captured("fsdp-inspector"), "vm-pid");
    all.extend(files(&captured("ddp-inspector-2.28"), "vm-pid"));
    let stubs = [
        "v2.28.3-verbose1/vm-pid12903.log",
        "v2.30.7-verbose0/vm-pid12936.log",
    ];
    let stubs = stubs
        .iter()
        .filter_map(|name| data(&format!("nccl-inspector/{name}")));
    all.extend(stubs.map(|path| path.display().to_string()));
    for file in all {
        let bytes = std::fs::read(&file).unwrap();
        let text = match file.ends_with(".gz") {
            true => std::io::read_to_string(flate2::read::GzDecoder::new(&bytes[..])).unwrap(),
            false => String::from_utf8(bytes).unwrap(),
        };
        let rows = calls(&[file]);
        assert_eq!(rows.len(), text.lines().count());
        for (row, own) in rows.iter().zip(own(&text)) {
            if row["quality"] == "kernel times withheld" {
                assert_eq!(row["dur_ns"], "");
                continue;
            }
            let (bytes, nranks) = (
                row["bytes"].parse().unwrap(),
                row["nranks"].parse().unwrap(),
            );
            let on = |basis: ByteBasis| {
                basis.bytes_on_basis(op_kind(row["op"].as_bytes()), bytes, Some(nranks))
            };
            let mut timed = TimedCalls::default();
            timed.add_call(
                row["dur_ns"].parse().unwrap(),
                on(ByteBasis::Message),
                on(ByteBasis::Wire),
            );
            for (found, own) in timed.bandwidths().into_iter().zip(own) {
                // Half of the last decimal, and the part of a byte that is rounded down.
                let apart = (found.unwrap() - own).abs();
                assert!(apart <= 0.000_000_6 + own * 1e-6, "{row:?} {own}");
            }
        }
    }
}

/// Facts read off the lines by hand.
#[test]
fn rows_are_what_the_lines_say() {
    let row = |file: &str, line: usize| {
        let args = ["--format", "csv", file].map(str::to_owned);
        run("nccl-comms", &args).ends(0).lines()[line].clone()
    };
    let fsdp = files(&captured("fsdp-inspector"), "vm-pid3753").remove(0);
    // Line 1: an AllGather over two channels, launched at 1795182363567040 us.
    assert_eq!(
        row(&fsdp, 1),
        ",,vm,3753,,,0,4,,0xbd140a80d32c2b,0,,AllGather,,,,,2097152,,1,inspector,668626000,unix,\
         \"kernel_gpu, without its launch\",1795182363567040000,,,2,,,,"
    );
    let ddp = files(&captured("ddp-inspector-2.28"), "vm-pid3178").remove(0);
    // Line 2, without --verbose: no start.
    assert_eq!(
        row(&ddp, 2),
        ",,vm,3178,,,2,4,,0xdbe68ee5946ddb,0,,Broadcast,,,,,1088,,1,inspector,6000,,\"kernel_gpu, without its launch, may be another call's\",,,,,,,,"
    );
    let Some(stub) = data("nccl-inspector/v2.30.7-verbose0/vm-pid12936.log") else {
        return;
    };
    // Line 5: a Send to rank 3.
    assert_eq!(
        row(&stub.display().to_string(), 5),
        ",,vm,12936,,,1,4,,0x7f8c496ae9f661,,,Send,,,,3,131072,,1,inspector,33000,,\"kernel_gpu, without its launch, may be another call's\",,,,,,,,"
    );
}

/// `nccl-comms LOG --times RECORD`: each call of the log has its record's duration, and the window and
/// the filter do not change which record a call gets.
#[test]
fn a_logs_calls_get_the_durations_of_their_records() {
    let folder = captured("fsdp-inspector");
    let (logs, records) = (files(&folder, "nccl.vm"), files(&folder, "vm-pid"));
    let times = records
        .iter()
        .flat_map(|file| ["--times".to_owned(), file.clone()]);
    let with: Vec<String> = logs.iter().cloned().chain(times).collect();
    let out = run(
        "nccl-comms",
        &[&["--format".to_owned(), "csv".to_owned()], &with[..]].concat(),
    );
    let out = out
        .ends(0)
        .says(&["720 of 720 calls have a record (--times)"]);
    assert!(!out.is_wild(), "{}", out.text());
    let table = Csv::of(&out);
    let durations: u128 = table.sum("dur_ns");
    let recorded = calls(&records);
    let expected: u128 = recorded
        .iter()
        .filter_map(|row| row["dur_ns"].parse::<u128>().ok())
        .sum();
    assert_eq!((table.rows.len(), durations), (720, expected));
    // The host saw one kernel for less than half of its 8 us.
    let is_withheld = |row: &&Vec<String>| table.get(row, "quality") == "kernel times withheld";
    assert_eq!(table.rows.iter().filter(is_withheld).count(), 1);
    let of = |row: &[String]| ["pid", "seq", "dur_ns"].map(|name| table.get(row, name).to_owned());
    let some = Csv::of(
        &run(
            "nccl-comms",
            &[
                &["-q", "--op", "AllGather", "--format", "csv"].map(str::to_owned)[..],
                &with,
            ]
            .concat(),
        )
        .ends(0),
    );
    let all: Vec<_> = table
        .rows
        .iter()
        .filter(|row| table.get(row, "op") == "AllGather")
        .map(|row| of(row))
        .collect();
    let some: Vec<_> = some.rows.iter().map(|row| of(row)).collect();
    assert_eq!(some, all);
}

#[test]
fn metrics_have_times_and_no_calls() {
    let Some(folder) = data("nccl-inspector/v2.30.7-prom") else {
        return;
    };
    let [file] = &files(&folder, "nccl_inspector_metrics")[..] else {
        panic!("one file of metrics");
    };
    let refused = run("nccl-ops", &[file]).ends(2);
    assert!(
        refused
            .stderr
            .contains("it has no calls; nccl-ops --time reads its times")
    );
    let timed = run(
        "nccl-ops",
        &["--time", "--by", "proto", "--format", "csv", file],
    )
    .ends(0);
    assert!(
        timed
            .stderr
            .contains("38 of the durations are mean of an interval"),
        "{}",
        timed.stderr
    );
    let table = Csv::of(&timed);
    // Each sample is there as its two lines, and the means are those of the file.
    let text = std::fs::read_to_string(file).unwrap();
    let of = |line: &&str| line.contains("_exec_time_microseconds{");
    let us: f64 = text
        .lines()
        .filter(of)
        .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
        .sum();
    let sum: f64 = table
        .rows
        .iter()
        .filter_map(|row| table.get(row, "total_us").parse::<f64>().ok())
        .sum();
    assert!((us - sum).abs() < 0.1, "{us} {sum}");
    assert!(
        table
            .rows
            .iter()
            .all(|row| table.get(row, "algbw_gbs").is_empty())
    );
}

/// After a torn or lost line the log's numbers are those of other calls: NCCL's own count shows it. Without that count
/// one record too many does.
#[test]
fn a_log_that_lacks_a_line_gives_no_call_the_time_of_another() {
    let folder = captured("fsdp-inspector");
    let log = std::fs::read(folder.join("nccl.vm.3753.log.gz")).unwrap();
    let log = std::io::read_to_string(flate2::read::GzDecoder::new(&log[..])).unwrap();
    let record = folder.join("vm-pid3753.log.gz").display().to_string();
    let work = Work::new();
    let timed = |lines: &[String]| -> Vec<[String; 3]> {
        let path = work.dir().join("nccl.log");
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        let path = path.display().to_string();
        let args = [&*path, "--times", &*record, "-q", "--format", "csv"];
        let table = Csv::of(&run("nccl-comms", &args));
        let of = |row: &Vec<String>| {
            ["op", "op_count", "dur_ns"].map(|name| table.get(row, name).to_owned())
        };
        let rows = table.rows.iter().map(of);
        rows.filter(|[_, _, dur]| !dur.is_empty()).collect()
    };
    let lines: Vec<String> = log.lines().map(str::to_owned).collect();
    let whole = timed(&lines);
    assert_eq!(whole.len(), 180);
    let is_one = |at: &usize| lines[*at].contains("AllReduce: opCount");
    let ones: Vec<usize> = (0..lines.len()).filter(is_one).collect();
    for lost in [ones[0], ones[3], ones[11]] {
        for kept in [0, 1, 2] {
            let mut lines = lines.clone();
            let half = lines[lost].len() / 2;
            match kept {
                0 => drop(lines.remove(lost)),
                1 => lines[lost].truncate(half),
                _ => drop(lines.drain(lost..lines.len().min(lost + 40))),
            }
            let found = timed(&lines);
            assert!(
                found.iter().all(|call| whole.contains(call)),
                "{lost}: {found:?}"
            );
            assert!(found.len() > 10, "{lost}");
        }
    }
    // Up to NCCL 2.27 one node has 0 in all calls.
    let uncounted = |line: &String| match line.split_once(": opCount ") {
        Some((head, call)) => format!("{head}: opCount 0 {}", call.split_once(' ').unwrap().1),
        None => line.clone(),
    };
    let mut lines: Vec<String> = lines.iter().map(uncounted).collect();
    assert_eq!(timed(&lines).len(), 180);
    lines.remove(ones[3]);
    let found = timed(&lines);
    assert!(found.iter().all(|[op, ..]| op != "AllReduce"), "{found:?}");
    assert_eq!(found.len(), 168);
}
