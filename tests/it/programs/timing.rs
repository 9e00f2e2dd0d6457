//! nccl-timing: steps, their times and speeds.

use crate::support::{Csv, feed, megatron, nemo};

/// Step lines, one a line.
fn log(lines: impl IntoIterator<Item = String>) -> String {
    lines.into_iter().map(|l| l + "\n").collect()
}

#[test]
fn a_summary_has_the_values_with_their_counts() {
    let text = log((0..10).map(nemo));
    let table = Csv::of(&feed("nccl-timing", &[], text.as_str()).ends(0));
    assert_eq!(table.column("field"), ["step_time_s", "tflops_per_gpu"]);
    assert_eq!(table.column("steps"), ["10", "10"]);
    // 1.5 2.5 3.5 4.5 5.5 6.5 7.5 1.5 2.5 3.5
    let row = &table.rows[0];
    assert_eq!(table.get(row, "mean"), "3.9");
    assert_eq!(table.get(row, "min"), "1.5");
    assert_eq!(table.get(row, "p50"), "3.5");
    assert_eq!(table.get(row, "p95"), "7.5");
    assert_eq!(table.get(row, "max"), "7.5");
    let sd: f64 = table.get(row, "sd").parse().unwrap();
    assert!((sd - 2.065_591_117_977_289).abs() < 1e-8, "{sd}");
    let table = Csv::of(&feed("nccl-timing", &["--steps", "3..4"], text.as_str()).ends(0));
    assert_eq!(table.column("steps"), ["2", "2"]);
    assert_eq!(table.column("mean"), ["5", "404"]);
}

#[test]
fn the_top_steps_are_the_slowest() {
    let text = log((0..10).map(nemo));
    let args = ["--per-step", "--top", "2"];
    let table = Csv::of(&feed("nccl-timing", &args, text.as_str()).ends(0));
    assert_eq!(table.column("time_s"), ["7.5", "6.5"]);
}

#[test]
fn a_field_that_is_not_printed_is_empty_and_hides_nothing() {
    let text = log((0..4).map(nemo)).replace(" | TFLOPS_per_GPU: ", " | tokens: ");
    let table = Csv::of(&feed("nccl-timing", &[], text.as_str()).ends(0));
    assert_eq!(table.column("steps"), ["4", "0"]);
    assert_eq!(table.column("mean"), ["3", ""]);
    let table = Csv::of(&feed("nccl-timing", &["--per-step"], text.as_str()).ends(0));
    assert_eq!(table.column("tflops_per_gpu"), [""; 4]);
    assert_eq!(table.column("time_s"), ["1.5", "2.5", "3.5", "4.5"]);
}

#[test]
fn milliseconds_and_the_scientific_form_are_read() {
    let table = Csv::of(&feed("nccl-timing", &["--per-step"], log([megatron(1)])).ends(0));
    assert_eq!(
        table.pick(&["step", "time_s", "tflops_per_gpu"]),
        ["1 1.0015 311.5"]
    );
    let text = nemo(3)
        .replace("TFLOPS_per_GPU: 403.5", "TFLOPS_per_GPU: 1.249e+03")
        .replace("in s: 4.5", "in s: 6");
    let table = Csv::of(&feed("nccl-timing", &["--per-step"], text).ends(0));
    assert_eq!(table.pick(&["time_s", "tflops_per_gpu"]), ["6 1249"]);
}

#[test]
fn a_prefix_or_a_colour_does_not_hide_a_step() {
    for (before, after) in [
        (" 0: ", ""),
        ("[1,6]<stdout>:", ""),
        ("[default0]:", ""),
        ("\u{1b}[36m(Trainer pid=12, ip=10.0.0.1)\u{1b}[0m ", ""),
        ("\u{1b}[31m", "\u{1b}[0m"),
        ("  | 2026-02-03T04:05:06.123-07:00 | ", ""),
        ("garbage before ", "\r"),
    ] {
        let text = format!("{before}{}{after}\n{before}{}{after}\n", nemo(4), nemo(5));
        let table = Csv::of(&feed("nccl-timing", &["--per-step"], text).ends(0));
        assert_eq!(table.column("step"), ["4", "5"], "{before:?}");
    }
}

#[test]
fn what_only_looks_like_a_step_is_none() {
    for line in [
        "Validation: iteration 3/32",
        "Sanity checking Validation: iteration 1/2",
        " validation loss at iteration 2 | lm loss value: 3.1E+00 |",
        "validate step: 10 loss: 3.0",
        "{'eval_loss': 1.2, 'epoch': 0.5}",
        "Map: 100%|##########| 20/20 items",
    ] {
        let out = feed("nccl-timing", &["--per-step"], format!("{line}\n")).calm();
        assert_eq!(out.code, Some(2), "{line}: {}", out.text());
    }
}

#[test]
fn values_that_are_no_numbers_are_not_counted() {
    let text = nemo(3).replace("in s: 4.5", "in s: nan") + "\n" + &nemo(4) + "\n";
    let table = Csv::of(&feed("nccl-timing", &[], text).ends(0));
    assert_eq!(table.column("steps"), ["1", "2"]);
}
