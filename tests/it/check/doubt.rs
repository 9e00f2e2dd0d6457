//! Where nccl-check must not accuse a rank: the log, not the job, may be at fault.

use crate::support::{
    Csv, Out, Proc, Work, arg, captured_logs, feed, files, nemo, procs, run, run_in, sh,
};

/// Findings that accuse a rank.
const RANKS: [&str; 11] = [
    "deadlock",
    "p2p_wrong_peer",
    "rank_ahead",
    "op_mismatch",
    "count_mismatch",
    "datatype_mismatch",
    "redop_mismatch",
    "root_mismatch",
    "p2p_missing_counterpart",
    "rank_behind",
    "rank_silent",
];

/// What of a program's rows accuses a rank: finding and how sure.
fn accused(out: &Out) -> Vec<(String, String, String)> {
    let csv = Csv::of(out);
    let row = |row: &Vec<String>| {
        let get = |column: &str| csv.get(row, column).to_owned();
        (get("severity"), get("finding"), get("sure"))
    };
    let rows = csv.rows.iter().map(row);
    rows.filter(|(_, finding, _)| RANKS.contains(&&finding[..]))
        .collect()
}

#[test]
fn steps_that_were_cut_out_accuse_nobody() {
    for (job, windows) in [
        ("torchtitan", ["1..3", "6..8", "9..11"]),
        ("ddp-buffered", ["1..2", "4..6", "0..3"]),
        ("pp", ["2..4", "0..3", "5..7"]),
        // Every rank prints its step lines, seconds apart.
        ("ddp-tee", ["1..3", "1..30", "5..10"]),
        // Ranks are at other calls when the line comes, and abort a healthy job's communicators.
        ("hf", ["1..5", "0..3", "3..8"]),
        ("hf-buffered", ["0..3", "1..10", "1..30"]),
    ] {
        let log = &captured_logs(job)[0];
        for window in windows {
            let args = ["--steps", window, "--keep-init", log];
            let part = run("nccl-steps", &args).ends(0);
            let out = feed("nccl-check", &["--format", "csv"], part.stdout).calm();
            assert_eq!(accused(&out), [], "{job} {window}");
        }
    }
}

#[test]
fn where_the_step_number_falls_only_ranks_that_were_in_step_are_judged() {
    // Two epochs of four steps; in the second, rank 1 makes another call.
    let epochs = |ahead: u64| {
        let mut log: Vec<String> = (0..).zip(&procs(2)).map(|(r, p)| p.init(r, 0xe1)).collect();
        let call = |rank: usize, n: u64| {
            let count = if (rank, n) == (1, 20) { 9 } else { 8 };
            let line = procs(2)[rank].call("AllReduce", count, 7);
            line.replace("opCount 2c", "opCount 0")
        };
        for step in 0..8 {
            log.extend((3 * step..3 * step + 3).map(|n| call(0, n)));
            // The other is ahead at the lines within the job.
            let by = |step| if step == 0 || step == 8 { 0 } else { ahead };
            let calls = 3 * step + by(step)..3 * step + 3 + by(step + 1);
            log.extend(calls.map(|n| call(1, n)));
            log.push(nemo(step % 4));
        }
        log.join("\n") + "\n"
    };
    let out = feed("nccl-check", &["--format", "csv"], epochs(0)).ends(1);
    let told = (
        "error".to_owned(),
        "count_mismatch".to_owned(),
        "medium".to_owned(),
    );
    assert_eq!(accused(&out), [told]);
    let out = feed("nccl-check", &["--format", "csv"], epochs(1)).calm();
    assert_eq!(accused(&out), []);
    let text = feed("nccl-check", &["-q", "--format", "text"], epochs(1)).text();
    assert!(
        text.contains("not compared: the step number falls or jumps"),
        "{text}"
    );
}

#[test]
fn one_ranks_log_that_ends_early_is_no_error() {
    let work = Work::new();
    let made = "nccl-synth --ranks 8 --tp 4 --steps 4 --layout per-rank -o logs";
    sh(work.dir(), made).ends(0);
    let logs = files(&work.dir().join("logs"));
    let text = std::fs::read(&logs[2]).unwrap();
    for part in [3, 5, 7] {
        std::fs::write(&logs[2], &text[..text.len() * part / 8]).unwrap();
        let out = run_in(work.dir(), "nccl-check", &["logs", "--format", "csv"]).calm();
        let errors = accused(&out).into_iter().filter(|a| a.0 == "error");
        assert_eq!(errors.count(), 0, "{part}");
    }
}

/// The processes that findings accuse; of `error` only those.
fn accused_pids(csv: &Csv, severity: &str) -> Vec<String> {
    let rows = csv.rows.iter().filter(|row| {
        let accuses = [&RANKS[..], &["dead_process"]].concat();
        let is_it = accuses.contains(&csv.get(row, "finding"));
        is_it && csv.get(row, "severity").contains(severity)
    });
    rows.map(|row| csv.get(row, "pid").to_owned()).collect()
}

#[test]
fn a_log_that_is_missing_makes_no_error_of_a_rank_that_waits() {
    for fault in [
        "--tp 2 --fault stall,rank=5,step=5",
        "--tp 4 --fault die,rank=9,step=4",
    ] {
        let work = Work::new();
        let made =
            "nccl-synth --ranks 16 --nodes 2 --pp 2 --steps 8 --lead 2 --layout per-rank -o logs";
        sh(work.dir(), &format!("{made} {fault}")).ends(0);
        let check = || {
            let out = run_in(work.dir(), "nccl-check", &["-q", "logs", "--format", "csv"]);
            Csv::of(&out.calm())
        };
        let all = accused_pids(&check(), "");
        let stopped = &all[0];
        assert!(all.iter().all(|pid| pid == stopped), "{fault}: {all:?}");
        for log in files(&work.dir().join("logs")) {
            let away = work.dir().join("away");
            std::fs::rename(&log, &away).unwrap();
            let told = accused_pids(&check(), "error");
            std::fs::rename(&away, &log).unwrap();
            let name = arg(&log);
            let is_its = name.contains(&format!(".{stopped}."));
            let right: &[&String] = if is_its { &[] } else { &[stopped] };
            assert_eq!(
                told.iter().collect::<Vec<_>>(),
                right,
                "{fault}, without {name}"
            );
        }
    }
}

#[test]
fn a_line_that_nccls_own_count_misses_is_not_a_call_left_out() {
    // Its opCount counts; of most versions since 2.28 it is always 0.
    let packed = std::fs::File::open(&captured_logs("ddp-sockets")[0]).unwrap();
    let log = std::io::read_to_string(flate2::read::MultiGzDecoder::new(packed)).unwrap();
    let call = |line: &&str| line.contains("AllReduce: opCount ") && line.contains(" vm:440:");
    let all: Vec<&str> = log.lines().filter(call).collect();
    for at in [3, 40, 150] {
        let line = format!("{}\n", all[at]);
        for changed in [log.replace(&line, ""), log.replace(&line, &line.repeat(2))] {
            assert_ne!(changed, log);
            let out = feed("nccl-check", &["--format", "csv"], changed.as_str()).calm();
            assert_eq!(accused(&out), [], "{line}");
            let told = feed("nccl-check", &["-q", "--format", "text"], changed).text();
            assert!(told.contains("NCCL's own count (opCount)"), "{told}");
        }
    }
}

/// A job of two ranks: their communicator, then these calls of each.
fn two(calls: [&[(&str, u64)]; 2]) -> Vec<Vec<String>> {
    let lines = |(rank, p): (u32, &Proc)| {
        let calls = calls[rank as usize].iter();
        let call = |&(op, count): &(&str, u64)| {
            let line = p.call(op, count, 7);
            line.replace("opCount 2c", "opCount 0")
        };
        let init = p.init(rank, 0x9f3b_0c2d_11e5_a7c4);
        std::iter::once(init).chain(calls.map(call)).collect()
    };
    (0..).zip(&procs(2)).map(lines).collect()
}

#[test]
fn calls_that_only_a_tear_put_in_the_other_order_are_in_order() {
    let calls = [("AllReduce", 8), ("AllGather", 4), ("AllReduce", 2)];
    let [a, b] = &two([&calls, &calls])[..] else {
        unreachable!()
    };
    // Two threads of a process: the second's line stands between the pieces of the first's.
    let (head, tail) = b[1].split_at(128);
    let torn = format!("{}\n{head}{}\n{tail}\n{}\n", b[0], b[2], b[3]);
    let log = format!("{}\n{torn}", a.join("\n"));
    let out = feed("nccl-check", &["--format", "csv"], log).calm();
    assert_eq!(accused(&out), []);
    // Whole lines in that order are a fault.
    let swapped = [b[0].clone(), b[2].clone(), b[1].clone(), b[3].clone()];
    let log = format!("{}\n{}\n", a.join("\n"), swapped.join("\n"));
    let out = feed("nccl-check", &["--format", "csv"], log).ends(1);
    assert_eq!(accused(&out).len(), 1);
}

#[test]
fn a_damaged_name_or_header_is_no_other_call() {
    let calls = [("AllReduce", 8), ("AllGather", 4), ("AllReduce", 2)];
    let job = two([&calls, &calls]);
    let log = format!("{}\n{}\n", job[0].join("\n"), job[1].join("\n"));
    let call = &job[1][2];
    for (from, to) in [("AllGather", "AllGathUr"), (":7011:", ":7\u{1}11:")] {
        assert!(call.contains(from));
        let changed = log.replace(call, &call.replace(from, to));
        let out = feed("nccl-check", &["--format", "csv"], changed).calm();
        assert_eq!(accused(&out), [], "{to}");
    }
}

#[test]
fn where_lines_are_damaged_no_mismatch_is_quite_sure() {
    let work = Work::new();
    let log = work.dir().join("nccl.log");
    let made = "--ranks 8 --tp 4 --steps 6 --fault skip -o";
    let args: Vec<&str> = made.split(' ').chain([arg(&log)]).collect();
    run("nccl-synth", &args).ends(0);
    let sure = |log: &str| accused(&feed("nccl-check", &["--format", "csv"], log).ends(1));
    let text = std::fs::read_to_string(&log).unwrap();
    assert_eq!(sure(&text)[0].2, "high");
    // The last call's line is cut.
    let at = text.rfind(" recvbuff 0x").unwrap();
    let end = at + text[at..].find('\n').unwrap();
    let cut = format!("{}{}", &text[..at], &text[end..]);
    assert_eq!(sure(&cut)[0].2, "medium");
}

#[test]
fn a_lost_line_makes_no_other_call_and_leaves_none_out_elsewhere() {
    let step = [("AllGather", 8), ("AllReduce", 4), ("AllReduce", 2)];
    let steps = |n: usize| step.iter().copied().cycle().take(3 * n);
    let usual: Vec<(&str, u64)> = steps(6).collect();
    let told = |calls: &[(&str, u64)], cut: Option<usize>| {
        let mut job = two([&usual, calls]);
        if let Some(cut) = cut {
            let line = &mut job[1][cut];
            line.truncate(line.find(" recvbuff").unwrap());
        }
        let log = format!("{}\n{}\n", job[0].join("\n"), job[1].join("\n"));
        let out = feed("nccl-check", &["--format", "csv"], log).calm();
        let sure = accused(&out).into_iter();
        sure.map(|(_, finding, sure)| format!("{finding} {sure}"))
            .collect::<Vec<_>>()
    };
    // The line of a call is cut: it is not in the log, and nobody left it out.
    assert_eq!(told(&usual, Some(8)), [""; 0]);
    // Another call, long after a call was made additionally whose line was cut.
    let mut other = usual.clone();
    other[13].1 = 5;
    other.insert(2, ("Broadcast", 1));
    assert_eq!(told(&other, Some(3)), ["count_mismatch medium"]);
    // A call that was left out, likewise.
    other.remove(14);
    assert_eq!(told(&other, Some(3)).len(), 1);
}

#[test]
fn a_timeout_that_another_line_quotes_is_told_of_once() {
    // The rank that stalls comes back, and waits in vain itself for the others' next call.
    for (job, calls) in [("ddp-die", 1), ("ddp-stall", 2), ("ddp-skip", 1)] {
        let mut args = vec!["-q".to_owned(), "--format".to_owned(), "csv".to_owned()];
        args.extend(captured_logs(job));
        let csv = Csv::of(&run("nccl-check", &args).ends(1));
        let told = csv.column("finding");
        let told = told.iter().filter(|f| *f == "watchdog_timeout").count();
        assert_eq!(told, calls, "{job}");
        let says = csv.column("says");
        let behind = says.iter().filter(|says| says.contains("are behind"));
        let lacking = says
            .iter()
            .filter(|says| says.contains("ranks 0, 2 and 3 had not"));
        let of_the_last = usize::from(job == "ddp-stall");
        assert_eq!(lacking.count(), of_the_last, "{job}: {says:?}");
        assert!(behind.count() <= 1, "{job}: {says:?}");
    }
}

/// Ranks of which the log has no calls are not among those that were compared; a process may have several ranks.
#[test]
fn only_ranks_with_calls_count_as_compared() {
    let ranks = procs(4);
    let log = |ranks: &[Proc], callers: &[Proc]| {
        let mut log: Vec<String> = (0..).zip(ranks).map(|(r, p)| p.init(r, 0xe1)).collect();
        for count in 1..9 {
            let number = format!("opCount {:x}", count - 1);
            let call = |p: &Proc| p.call("AllReduce", count, 7).replace("opCount 2c", &number);
            log.extend(callers.iter().map(call));
        }
        log.extend((0..).zip(ranks).map(|(rank, p)| {
            let made = p.init(rank, 0xe1);
            let (line, _) = made.split_once(" commId").unwrap();
            line.replace("ncclCommInitRank ", "") + " - Destroy COMPLETE"
        }));
        log.join("\n") + "\n"
    };
    let answer = |log: String| {
        let out = feed("nccl-check", &["--format", "text"], log).ends(0);
        out.lines()[0].clone()
    };
    let clean = "no fault found in what this log shows: ";
    assert_eq!(
        answer(log(&ranks, &ranks)),
        format!("{clean}4 ranks compared, all ended")
    );
    assert_eq!(
        answer(log(&ranks, &ranks[1..])),
        format!("{clean}3 of 4 ranks compared, all of these ended")
    );
    let mut one = ranks;
    for (rank, process) in (0..).zip(&mut one) {
        process.pid = 7000;
        process.comm += 0x100_0000 * rank;
    }
    assert_eq!(
        answer(log(&one, &one)),
        format!("{clean}4 ranks compared, all ended")
    );
}
