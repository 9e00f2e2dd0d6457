//! Which lines belong to which step.

mod placed;
mod proposed;
mod restarts;
mod shapes;

use crate::support::{Csv, Work, arg, feed, job, megatron, nemo, procs, run, run_in};

/// A log of one process: `n` calls before each marker.
fn log(markers: &[(usize, String)]) -> String {
    let p = procs(1)[0];
    let mut text = String::new();
    for (i, (n, marker)) in markers.iter().enumerate() {
        for k in 0..*n {
            text.push_str(&p.call("AllReduce", (100 * i + k + 1) as u64, 7));
            text.push('\n');
        }
        if !marker.is_empty() {
            text.push_str(marker);
            text.push('\n');
        }
    }
    text
}

/// `step calls` of each row of the list.
fn list(text: &str, args: &[&str]) -> Vec<String> {
    let args = [&["--list"], args].concat();
    let table = Csv::of(&feed("nccl-steps", &args, text).ends(0));
    table
        .rows
        .iter()
        .map(|r| format!("{} {}", table.get(r, "step"), table.get(r, "calls")))
        .collect()
}

#[test]
fn a_step_out_of_range_is_an_error_that_names_the_steps_there_are() {
    let text = log(&[(1, nemo(3)), (2, nemo(4)), (1, nemo(5)), (1, nemo(8))]);
    let work = Work::new();
    // Of a pipe that rests, lines are passed on before its last step is known.
    work.file("a.log", &text);
    for program in [
        "nccl-steps",
        "nccl-timing",
        "nccl-comms",
        "nccl-ops",
        "nccl-hist",
        "nccl-agg",
    ] {
        for window in ["2..4", "5..9", "70", "90..", "3..2"] {
            let args = ["--steps", window];
            feed(program, &args, text.as_str()).ends(2);
            let out = run_in(work.dir(), program, &["a.log", args[0], args[1]]).ends(2);
            assert!(out.stdout.is_empty(), "{program} {window}");
            if window != "3..2" {
                out.says(&["steps present: 3..5, 8"]);
            }
        }
        for window in ["x", "..", "1..x", "-1..2", "1..2..3", ""] {
            let arg = format!("--steps={window}");
            let out = feed(program, &[&arg], text.as_str()).ends(2);
            out.says(&["invalid window of steps"]);
        }
    }
}

#[test]
fn a_window_of_a_log_without_steps_says_so() {
    let text = log(&[(3, String::new())]);
    for program in ["nccl-steps", "nccl-timing", "nccl-comms", "nccl-hist"] {
        let args = ["--steps", "1..2"];
        feed(program, &args, text.as_str())
            .ends(2)
            .says(&["no step lines", "--trainer"]);
    }
    // Numbers that count no steps are not proposed.
    let out = feed("nccl-steps", &["--list"], text.as_str()).ends(2);
    assert!(!out.stderr.contains("(?P<step>"), "{}", out.stderr);
    // Without a window the calls count all the same, with no step.
    let out = feed("nccl-comms", &[], text.as_str()).ends(0);
    let table = Csv::of(&out);
    assert_eq!(table.column("step"), ["", "", ""]);
}

#[test]
fn calls_before_a_marker_are_its_steps_and_all_are_in_a_row() {
    let text = log(&[(2, nemo(7)), (3, nemo(8)), (4, nemo(9)), (5, String::new())]);
    assert_eq!(list(&text, &[]), ["7 2", "8 3", "9 4", "after 5"]);
    assert_eq!(list(&text, &["--steps", "8..9"]), ["8 3", "9 4"]);
    let table = Csv::of(&feed("nccl-steps", &["--list"], text.as_str()).ends(0));
    assert_eq!(table.column("first_line"), ["1", "4", "8", "13"]);
    assert_eq!(table.column("last_line"), ["3", "7", "12", "17"]);
    assert_eq!(table.get(&table.rows[0], "segment"), "0");
    assert_eq!(table.get(&table.rows[1], "time_s"), "2.5");
    assert_eq!(table.get(&table.rows[1], "tflops_per_gpu"), "408.5");
    let whole = feed("nccl-comms", &[], text.as_str()).ends(0);
    assert_eq!(table.sum("calls"), Csv::of(&whole).rows.len() as u128);
    assert_eq!(table.sum("total_bytes"), Csv::of(&whole).sum("bytes"));
}

#[test]
fn windows_and_the_rest_are_the_file_byte_for_byte() {
    let mut text = job(4, 12, 1).into_bytes();
    // Bytes that only a copy keeps: a carriage return, bad UTF-8, NUL, trailing blanks.
    let at = text.iter().position(|&b| b == b'\n').unwrap();
    text.splice(at..at, *b"  \r\n\xff\xfe\x00 \xc3(\n\n  ");
    let work = Work::new();
    let log = work.file("nccl.log", &text);
    for more in [&["--no-mmap"][..], &["-j3"], &[]] {
        let part = |window: &str| {
            let args = [&[arg(&log), "--steps", window], more].concat();
            run("nccl-steps", &args).ends(0).stdout
        };
        let parts = [part("0..4"), part("5"), part("6..")].concat();
        let all = run("nccl-steps", &[&[arg(&log)], more].concat())
            .ends(0)
            .stdout;
        assert!(parts == all);
        // What follows the last step line belongs to no step.
        assert!(text.starts_with(&all));
        let rest = &text[all.len()..];
        assert!(memchr::memmem::find(rest, b"Training epoch").is_none());
    }
}

#[test]
fn a_restart_begins_a_segment_and_its_steps_are_told_apart() {
    let text = log(&[
        (1, megatron(5)),
        (2, megatron(6)),
        (3, megatron(7)),
        (4, megatron(6)),
        (5, megatron(7)),
    ]);
    let table = Csv::of(&feed("nccl-steps", &["--list"], text.as_str()).ends(0));
    assert_eq!(table.column("segment"), ["0", "0", "0", "1", "1"]);
    assert_eq!(table.column("step"), ["5", "6", "7", "6", "7"]);
    assert_eq!(table.column("calls"), ["1", "2", "3", "4", "5"]);
    let out = feed("nccl-hist", &["--by", "step"], text.as_str()).ends(0);
    assert!(out.stderr.contains("begin again 1 time "), "{}", out.stderr);
    assert_eq!(Csv::of(&out).column("step"), ["5", "6", "7", "6", "7"]);
    assert_eq!(Csv::of(&out).column("calls"), ["1", "2", "3", "4", "5"]);
    let out = feed("nccl-comms", &["--steps", "6"], text.as_str()).ends(0);
    assert_eq!(Csv::of(&out).rows.len(), 6);
}

#[test]
fn a_step_that_several_ranks_print_is_one_step() {
    let titan = |rank: usize, step: u64| {
        format!(
            "[rank{rank}]:[titan] 2026-02-03 04:05:{step:02},123 - root - INFO - step: {step:2}  \
             loss:  7.62585  grad_norm:  1.0  memory: 10.00GiB(12.00%)  tps: 1,234  tflops: \
             31{step}.50  mfu: 13.99%"
        )
    };
    let p = procs(2);
    let mut text = String::new();
    for step in 1..=4 {
        for p in &p {
            for _ in 0..3 {
                text.push_str(&p.call("AllGather", 1 << 20, 9));
                text.push('\n');
            }
        }
        for rank in 0..2 {
            text.push_str(&titan(rank, step));
            text.push('\n');
        }
    }
    assert_eq!(list(&text, &[]), ["1 6", "2 6", "3 6", "4 6"]);
    let out = feed("nccl-timing", &["--per-step"], text.as_str()).ends(0);
    let table = Csv::of(&out);
    assert_eq!(table.column("step"), ["1", "2", "3", "4"]);
    assert_eq!(
        table.column("tflops_per_gpu"),
        ["311.5", "312.5", "313.5", "314.5"]
    );
    assert_eq!(table.column("time_s"), ["", "1", "1", "1"]);
    assert!(out.stderr.contains("time stamps"), "{}", out.stderr);
}

#[test]
fn a_log_interval_is_a_span_and_is_said() {
    let text = log(&[(1, megatron(10)), (20, megatron(20)), (20, megatron(30))]);
    let out = feed("nccl-steps", &["--list"], text.as_str()).ends(0);
    let table = Csv::of(&out);
    assert_eq!(table.column("steps"), ["10", "10", "10"]);
    assert!(out.stderr.contains("every 10 steps"), "{}", out.stderr);
    let out = feed("nccl-hist", &["--steps", "15..16"], text.as_str()).ends(2);
    out.says(&["steps present: 10, 20, 30", "up to 10"]);
    feed("nccl-hist", &["--steps", "21..30"], text.as_str()).ends(0);
}

#[test]
fn evaluation_between_two_steps_belongs_to_neither() {
    let eval = " validation loss at iteration 2 | lm loss value: 3.100000E+00 | lm loss PPL: \
                2.219795E+01 |";
    let text = log(&[
        (1, megatron(1)),
        (2, megatron(2)),
        (7, eval.to_owned()),
        (3, megatron(3)),
    ]);
    assert_eq!(list(&text, &[]), ["1 1", "2 2", "between 7", "3 3"]);
    let out = feed("nccl-comms", &["--steps", "1..3"], text.as_str()).ends(0);
    assert_eq!(Csv::of(&out).rows.len(), 6);
    let out = feed("nccl-steps", &["--steps", "3"], text.as_str()).ends(0);
    assert_eq!(out.text().matches("opCount").count(), 3);
}

#[test]
fn markers_at_the_start_own_what_follows() {
    let text = log(&[
        (1, ">>> begin step 4 now".to_owned()),
        (2, ">>> begin step 5 now".to_owned()),
        (3, ">>> begin step 6 now".to_owned()),
        (4, String::new()),
    ]);
    let args = [
        "--step-regex",
        r"begin step (?P<step>\d+)",
        "--marker",
        "start",
    ];
    assert_eq!(list(&text, &args), ["before 1", "4 2", "5 3", "6 4"]);
    let end = &args[..2];
    assert_eq!(list(&text, end), ["4 1", "5 2", "6 3", "after 4"]);
    let args = [&args[..], &["--steps", "5"]].concat();
    let out = feed("nccl-steps", &args, text.as_str()).ends(0);
    assert!(out.text().starts_with(">>> begin step 5 now\n"));
    assert_eq!(out.lines().len(), 4);
}

#[test]
fn a_described_step_line_gives_time_and_speed() {
    let lines = "tick n=1 took 250 ms at 99.5 TF\ntick n=2 took 350 ms at 98.5 TF\n";
    let pattern = r"n=(?P<step>\d+) took (?P<time_ms>[\d.]+) ms at (?P<tflops>[\d.]+)";
    let args = ["--per-step", "--step-regex", pattern];
    let table = Csv::of(&feed("nccl-timing", &args, lines).ends(0));
    assert_eq!(table.column("time_s"), ["0.25", "0.35"]);
    assert_eq!(table.column("tflops_per_gpu"), ["99.5", "98.5"]);
    for (bad, why) in [("(", "--step-regex"), (r"n=(\d+)", "step")] {
        let out = feed("nccl-timing", &["--step-regex", bad], lines).ends(2);
        assert!(out.stderr.contains(why), "{}", out.stderr);
    }
    let args = ["--step-regex", pattern, "--trainer", "nemo2"];
    feed("nccl-timing", &args, lines).ends(2);
}

#[test]
fn maxtext_prints_a_step_late() {
    let line = |n: u64| format!("completed step: {n}, seconds: {n}.25, TFLOP/s/device: 13{n}.5");
    // The calls of steps 0 and 1 stand before line 0, those of step 2 before line 1.
    let text = log(&[(2, line(0)), (3, line(1)), (4, line(2)), (5, String::new())]);
    assert_eq!(list(&text, &[]), ["1 2", "2 3", "3 4", "after 5"]);
    let table = Csv::of(&feed("nccl-steps", &["--list"], text.as_str()).ends(0));
    assert_eq!(table.column("steps")[..2], ["2", "1"]);
    // The values of a line are its own step's.
    assert_eq!(table.column("time_s")[..3], ["1.25", "2.25", ""]);
    let table = Csv::of(&feed("nccl-timing", &["--per-step"], text.as_str()).ends(0));
    assert_eq!(table.column("step"), ["0", "1", "2"]);
    assert_eq!(table.column("time_s"), ["0.25", "1.25", "2.25"]);
}

#[test]
fn lines_that_say_the_ranks_can_come_along() {
    let p = procs(2);
    let mut text = String::new();
    for (rank, p) in (0..).zip(&p) {
        text.push_str(&format!("{}\n", p.init(rank, 0xabc)));
    }
    for step in 0..3 {
        for p in &p {
            text.push_str(&format!("{}\n", p.call("AllReduce", 5, 7)));
        }
        text.push_str(&format!("{}\n", nemo(step)));
    }
    let ranks = |args: &[&str]| {
        let window = feed("nccl-steps", args, text.as_str()).ends(0);
        let table = Csv::of(&feed("nccl-comms", &[], window.stdout).ends(0));
        (table.column("rank"), table.column("comm_id"))
    };
    let (rank, id) = ranks(&["--steps", "2", "--keep-init"]);
    assert_eq!(rank, ["0", "1"]);
    assert_eq!(id, ["0xabc", "0xabc"]);
    let (rank, id) = ranks(&["--steps", "2"]);
    assert_eq!(rank, ["", ""]);
    assert_eq!(id, ["", ""]);
}

#[test]
fn a_call_behind_a_progress_bar_is_the_next_steps() {
    let bar = |n: u64| {
        format!(
            "\rEpoch 0: : {n:3}%|#         | {n}/100 [00:0{n}<14:12, v_num=0, \
             reduced_train_loss=3.10, global_step={}.0, train_step_timing in s={n}.50]",
            n - 1
        )
    };
    let p = procs(1)[0];
    let call = |n: u64| p.call("AllReduce", n, 7);
    // A bar has no line end: the next call stands behind it on the same line.
    let text = format!(
        "{}\n{}{}\n{}\n{}{}\n",
        call(1),
        bar(1),
        call(2),
        call(3),
        bar(2),
        call(4)
    );
    assert_eq!(list(&text, &[]), ["0 1", "1 2", "after 1"]);
    let table = Csv::of(&feed("nccl-comms", &[], text.as_str()).ends(0));
    assert_eq!(table.column("step"), ["0", "1", "1", ""]);
    assert_eq!(table.column("host"), ["gpu-a"; 4]);
    let first = feed("nccl-steps", &["--steps", "0"], text.as_str())
        .ends(0)
        .stdout;
    let second = feed("nccl-steps", &["--steps", "1"], text.as_str())
        .ends(0)
        .stdout;
    let both = [first, second].concat();
    let both = String::from_utf8(both).unwrap();
    assert!(text.starts_with(&both));
    assert_eq!(text[both.len()..], format!("{}\n", call(4)));
}

#[test]
fn another_trainers_name_finds_other_steps_or_none() {
    let text = log(&[(1, nemo(0)), (1, nemo(1))]);
    let out = feed(
        "nccl-steps",
        &["--list", "--trainer", "megatron"],
        text.as_str(),
    )
    .ends(2);
    out.says(&["no step"]);
    let out = feed("nccl-steps", &["--trainer", "nonsense"], text.as_str()).ends(2);
    out.says(&["torchtitan", "--step-regex"]);
    assert_eq!(list(&text, &["--trainer", "nemo2"]), ["0 1", "1 1"]);
}

#[test]
fn a_log_with_step_lines_alone_has_its_steps() {
    let text: String = (0..4)
        .map(|s| format!("completed step: {s}, seconds: 5.0, TFLOP/s/device: 100.0, loss: 1.0\n"))
        .collect();
    let table = Csv::of(&feed("nccl-steps", &["--list"], text).ends(0));
    assert_eq!(table.column("step"), ["1", "2", "3"]);
    assert_eq!(table.column("steps"), ["2", "1", "1"]);
}
