//! Lines that may be step lines, where no known ones are found: they are shown, and none is taken.

use crate::support::{Csv, READERS, STEPLESS, Work, feed, gzip, procs, run, sh};
use std::fmt::Write as _;

/// A job of a trainer that nobody knows: its lines every ten steps, bars of an evaluation between.
fn unknown() -> String {
    let p = procs(1)[0];
    let mut log = String::new();
    let mut say = |line: &str| writeln!(log, "{line}").unwrap();
    (0..12).for_each(|layer| say(&format!("Building layer {layer} of 12")));
    for n in 1..=30_u64 {
        (0..5).for_each(|_| say(&p.call("AllReduce", 1 << 20, 7)));
        let second = 2 * n;
        say(&format!(
            "2024-01-17 13:47:{second:02},000 it's pass no. {:5}/ 300 | 'cost' {}.25 | took 200.5 ms",
            n * 10,
            n * n
        ));
        if n % 5 == 0 {
            let bars =
                (1..=40).map(|k| format!(" {k:3}%|##   | {k}/40 [00:01<00:00, 26.37it/s]\r"));
            say(&bars.collect::<String>());
        }
    }
    log
}

#[test]
fn an_unknown_step_line_is_proposed_and_its_pattern_works_when_pasted() {
    let text = unknown();
    let work = Work::new();
    work.file("nccl.log", text.as_bytes());
    let out = sh(work.dir(), "nccl-steps nccl.log --list").ends(2);
    assert!(out.stdout.is_empty());
    let out = out.says(&[
        "begin again 5 times while the log goes on",
        "the input has no step lines",
        "None is used without --step-regex",
        "1. 30 lines, 10 to 300 by 10:",
        "it's pass no.    10/ 300",
    ]);
    let pasted = out
        .stderr
        .lines()
        .find(|line| line.contains("--step-regex '"))
        .unwrap();
    let list = format!("nccl-steps nccl.log --list --format csv {pasted}");
    let table = Csv::of(&sh(work.dir(), &list).ends(0));
    let steps: Vec<String> = (1..=30).map(|n| (10 * n).to_string()).collect();
    assert_eq!(table.column("step"), steps);
    assert_eq!(table.column("calls"), vec!["5"; 30]);
    // The stamps say that it is the time of a step.
    assert_eq!(table.column("time_s"), vec!["0.2005"; 30]);
    let hist = format!("nccl-hist nccl.log --steps 41..60 {pasted}");
    assert_eq!(Csv::of(&sh(work.dir(), &hist).ends(0)).sum("calls"), 10);
}

#[test]
fn every_program_asked_for_steps_proposes_and_none_takes() {
    let text = unknown();
    let work = Work::new();
    work.file("a.log", text.as_bytes());
    work.file("b.log.gz", gzip(text.as_bytes()));
    for program in READERS.iter().filter(|p| !STEPLESS.contains(p)) {
        for log in [
            "a.log",
            "b.log.gz",
            "a.log b.log.gz",
            "a.log --trainer nemo2",
        ] {
            let out = sh(work.dir(), &format!("{program} {log} --steps 1..2")).ends(2);
            assert!(out.stdout.is_empty());
            out.says(&["no step lines", "1. ", "--step-regex '"]);
        }
        let out = feed(program, &["--steps", "1..2"], text.as_str()).ends(2);
        // The one keeps a pipe, the others were through it when they knew.
        let says = if *program == "nccl-steps" {
            "(?P<step>"
        } else {
            "nccl-steps --list"
        };
        out.says(&[says]);
    }
    // Who asks for no steps is not told of them.
    let out = sh(work.dir(), "nccl-hist a.log").ends(0);
    assert!(!out.stderr.contains("--step-regex"), "{}", out.stderr);
    // A step that is missing among others is no reason to propose anything.
    let args = ["--steps", "7"];
    let known = feed("nccl-hist", &args, crate::support::job(2, 3, 1)).ends(2);
    assert!(!known.stderr.contains("None is used"), "{}", known.stderr);
}

#[test]
fn an_evaluations_bars_are_taken_where_they_are_asked_for() {
    let work = Work::new();
    let log = work.file("nccl.log", unknown().as_bytes());
    let args = ["--list", "--trainer", "hf", crate::support::arg(&log)];
    let table = Csv::of(&run("nccl-steps", &args).ends(0));
    assert!(table.column("segment").contains(&"5".to_owned()));
}
