//! nccl-skew: who comes late.

use crate::support::{Csv, Work, captured, feed, job, run, run_in};

#[test]
fn a_log_without_time_stamps_is_refused_with_what_would_help() {
    let out = feed("nccl-skew", &[], job(2, 3, 1)).ends(2);
    out.says(&[
        "no collective has a time",
        "NCCL_DEBUG_TIMESTAMP_LEVELS=ALL",
    ]);
}

#[test]
fn whole_seconds_show_little_and_a_warning_says_so() {
    let log = captured("tp-stamps").join("nccl.log.gz");
    let out = run("nccl-skew", &[log]).ends(0);
    let table = Csv::of(&out);
    assert_eq!(table.rows.len(), 4);
    out.says(&["time stamps are multiples of 1000 ms"]);
}

#[test]
fn records_tell_how_late_ranks_are_and_what_calls_take_without_waiting() {
    let folder = captured("fsdp-inspector").display().to_string();
    let args = |more: &[&str]| {
        let args = [&[&*folder, "--glob", "vm-pid*"], more].concat();
        Csv::of(&run("nccl-skew", &args).ends(0))
    };
    // The duration of one call is withheld.
    for (more, of_rank_1) in [(&[][..], "180"), (&["--from", "durations"], "179")] {
        let table = args(more);
        let column = |name: &str| table.columns.iter().position(|c| c == name).unwrap();
        let (rank, calls) = (column("rank"), column("calls"));
        let ranks: Vec<_> = table
            .rows
            .iter()
            .map(|row| (&*row[rank], &*row[calls]))
            .collect();
        assert_eq!(
            ranks,
            [("0", "180"), ("1", of_rank_1), ("2", "180"), ("3", "180")]
        );
    }
    // An AllReduce of 12 floats takes 8 us once all ranks are there; one of twelve has no duration on rank 1.
    let table = args(&["--latency"]);
    let row = table.rows.iter().find(|row| row[0] == "AllReduce").unwrap();
    assert_eq!((&*row[1], &*row[3]), ("11", "8"));
}

/// The last rank of a call may be one that is not there: the others' durations are waits for it.
#[test]
fn a_call_without_all_of_its_ranks_has_no_latency() {
    let record = |pid: u32| captured("fsdp-inspector").join(format!("vm-pid{pid}.log.gz"));
    let some = [record(3753), record(3757)].map(|file| file.display().to_string());
    let some = [&*some[0], &*some[1], "--latency"];
    run("nccl-skew", &some)
        .ends(2)
        .says(&["some ranks of 180 calls are not in the input; name the files of all ranks"]);
    // One rank's first 20 records are lost.
    let work = Work::new();
    for pid in [3753, 3755, 3757, 3759] {
        let text = std::fs::read(record(pid)).unwrap();
        let text = std::io::read_to_string(flate2::read::GzDecoder::new(&text[..])).unwrap();
        let lost = if pid == 3759 { 20 } else { 0 };
        let kept: Vec<&str> = text.lines().skip(lost).collect();
        let kept = kept.join("\n") + "\n";
        std::fs::write(work.dir().join(format!("{pid}.log")), kept).unwrap();
    }
    let files = ["3753.log", "3755.log", "3757.log", "3759.log"];
    let args = [&files[..], &["--latency"]].concat();
    let out = run_in(work.dir(), "nccl-skew", &args).ends(0);
    let out = out.says(&[
        "left out: some ranks of 21 calls have no such time to compare, or are not in the input",
    ]);
    let rows = Csv::of(&out).rows;
    let calls = rows.iter().map(|row| row[1].parse::<usize>().unwrap());
    assert_eq!(calls.sum::<usize>(), 159);
    // Without its starts a rank is there, but has no time to compare.
    let text = std::fs::read_to_string(work.dir().join("3759.log")).unwrap();
    let starts = text.replace("\"coll_start_ts\"", "\"other\"");
    std::fs::write(work.dir().join("3759.log"), starts).unwrap();
    run_in(work.dir(), "nccl-skew", &files).ends(0).says(&[
        "of these calls have no such time to compare",
        "calls of ranks in the input without such a time: 160",
    ]);
}

/// Containers may have one host name and several clocks.
#[test]
fn a_clock_that_all_calls_disprove_makes_no_rank_late() {
    let work = Work::new();
    for pid in [3753, 3755, 3757, 3759] {
        let file = captured("fsdp-inspector").join(format!("vm-pid{pid}.log.gz"));
        let text = std::fs::read(file).unwrap();
        let text = std::io::read_to_string(flate2::read::GzDecoder::new(&text[..])).unwrap();
        let ahead = if pid == 3759 { 3_700_000 } else { 0 };
        let mut parts = text.split("\"coll_start_ts\":");
        let mut shifted = parts.next().unwrap().to_owned();
        for part in parts {
            let (us, rest) = part.split_once(',').unwrap();
            let us = us.parse::<u64>().unwrap() + ahead;
            shifted += &format!("\"coll_start_ts\":{us},{rest}");
        }
        std::fs::write(work.dir().join(format!("{pid}.log")), shifted).unwrap();
    }
    let files = ["3753.log", "3755.log", "3757.log", "3759.log"];
    let out = run_in(work.dir(), "nccl-skew", &files).ends(0);
    let table = Csv::of(&out);
    for row in &table.rows {
        assert!(!table.get(row, "pattern").contains("always"), "{row:?}");
        assert!(
            table.get(row, "p50_us").parse::<f64>().unwrap() < 50_000.0,
            "{row:?}"
        );
    }
    out.says(&[
        "processes of one host have different clocks",
        "vm process 3759 is taken to be 37",
    ]);
    // Three ranks with one clock are believed.
    let out = run_in(work.dir(), "nccl-skew", &files[..3]).ends(0);
    assert!(!out.stderr.contains("clocks"), "{}", out.stderr);
}

/// A real log whose calls are stamped anew: rank 1 comes 20 ms late to every tenth step, rank 3 always
/// 2 ms.
#[test]
fn a_log_with_time_stamps_names_who_is_late_at_times_and_who_always() {
    let log = std::fs::read(captured("tp-stamps").join("nccl.log.gz")).unwrap();
    let log = std::io::read_to_string(flate2::read::GzDecoder::new(&log[..])).unwrap();
    let mut made = std::collections::BTreeMap::new();
    let stamped = log.lines().map(|line| {
        let Some((header, _)) = line.split_once(": opCount ") else {
            return format!("{line}\n");
        };
        let at = header.rfind("[2026-").unwrap();
        let pid = header.rsplit("vm:").next().unwrap();
        let pid: u64 = pid.split(':').next().unwrap().parse().unwrap();
        let n = made.entry(pid).or_insert(0_u64);
        // 45 calls a step, and a few before the first.
        let late = match (pid, *n / 45 % 10) {
            (2569, 9) if (10..30).contains(&(*n % 45)) => 20_000,
            (2571, _) => 2_000,
            _ => 0,
        };
        let us = *n * 30_000 + late + (*n * 7 + pid * 13) % 11 * 10;
        *n += 1;
        let time = format!(
            "14:{:02}:{:02}.{:06}",
            us / 60_000_000,
            us / 1_000_000 % 60,
            us % 1_000_000
        );
        let (before, line) = line.split_at(at);
        let (_, line) = line.split_once(']').unwrap();
        format!("{before}[2026-11-20 {time}]{line}\n")
    });
    let stamped: String = stamped.collect();
    let out = feed("nccl-skew", &["--format", "csv"], stamped).ends(0);
    let table = Csv::of(&out);
    let who = table.pick(&["rank", "pid", "pattern", "every", "which_steps"]);
    let expect = [
        "0 2568   ",
        "1 2569 at times 10 10, 20, 30, 40",
        "2 2570   ",
        "3 2571 always  ",
    ];
    assert_eq!(who, expect, "{}", out.stderr);
}

#[test]
fn dumps_of_the_flight_recorder_are_compared_by_group_and_number() {
    let dumps: Vec<String> = (0..4)
        .map(|rank| format!("testdata/hung/ddp-stall/nccl_trace_rank_{rank}.gz"))
        .collect();
    let out = run("nccl-skew", &dumps).ends(0);
    assert!(out.stderr.contains("no host is named"), "{}", out.stderr);
    let table = Csv::of(&out);
    let rows = table.pick(&["rank", "host", "pid"]);
    assert_eq!(rows, ["0  ", "1  ", "2  ", "3  "]);
    // Each compared call is one that a dump has, and was made on two ranks or more.
    for row in &table.rows {
        let calls: u64 = table.get(row, "calls").parse().unwrap();
        assert!((100..=142).contains(&calls), "{row:?}");
    }
}

/// The reference clock and the numbers of hosts do not depend on the order in which inputs are named.
#[test]
fn the_order_of_inputs_changes_nothing() {
    let work = Work::new();
    let job = [
        "--ranks",
        "8",
        "--nodes",
        "4",
        "--steps",
        "6",
        "--timestamps",
        "time",
        "--fault",
        "stall",
    ];
    let layout = ["--layout", "per-rank", "-o", "logs"];
    run_in(work.dir(), "nccl-synth", &[&job[..], &layout].concat()).ends(0);
    let names = std::fs::read_dir(work.dir().join("logs")).unwrap();
    let names = names.map(|entry| format!("logs/{}", entry.unwrap().file_name().display()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    for program in ["nccl-skew", "nccl-check"] {
        let outputs = [0, 3, 5].map(|first| {
            let mut shuffled = names.clone();
            shuffled.rotate_left(first);
            shuffled.swap(1, 6);
            let args: Vec<&str> = shuffled.iter().map(String::as_str).collect();
            let out = run_in(work.dir(), program, &args);
            (out.text(), out.stderr)
        });
        assert!(!outputs[0].0.is_empty(), "{program}");
        assert_eq!(outputs[0], outputs[1], "{program}");
        assert_eq!(outputs[0], outputs[2], "{program}");
    }
}
