//! The AWK chain's outputs, and the right ones beside them.

use crate::support::{Csv, Out, arg, data, naive_calls, run, sh, sorted};
use std::path::PathBuf;

const LOG: &str = "awk-chain/nemo-4ranks.log";

/// The log, and one of the chain's files.
fn chain(name: &str) -> Option<(PathBuf, Vec<u8>)> {
    let log = data(LOG)?;
    let out = data(&format!("awk-chain/{name}"))?;
    Some((log, std::fs::read(out).unwrap()))
}

/// `program LOG --compat awk --format awk`.
fn compat(program: &str, log: &std::path::Path) -> Out {
    run(program, &[arg(log), "--compat", "awk", "--format", "awk"]).ends(0)
}

/// The last program of the chain over the chain's own lines, piped as the chain is.
fn piped(log: &std::path::Path, last: &str) -> Out {
    let script = format!(
        "nccl-steps nemo-4ranks.log --compat awk | nccl-comms --format awk | {last} --format awk"
    );
    sh(log.parent().unwrap(), &script).ends(0)
}

#[test]
fn the_chains_window_is_reproduced_byte_for_byte() {
    let Some((log, expect)) = chain("1-separate-steps.out") else {
        return;
    };
    let got = run("nccl-steps", &[arg(&log), "--compat", "awk"]).ends(0);
    assert!(got.stdout == expect, "the window differs");
}

#[test]
fn the_chains_lines_are_reproduced_byte_for_byte() {
    let Some((log, expect)) = chain("2-comm_analyzer.out") else {
        return;
    };
    assert!(compat("nccl-comms", &log).stdout == expect);
    let script = "nccl-steps nemo-4ranks.log --compat awk | nccl-comms --format awk";
    assert!(sh(log.parent().unwrap(), script).ends(0).stdout == expect);
}

#[test]
fn the_chains_statistics_are_reproduced_but_for_hash_order() {
    let Some((log, expect)) = chain("3-per-op-stats.out") else {
        return;
    };
    let expect = sorted(&expect);
    assert_eq!(sorted(&compat("nccl-ops", &log).stdout), expect);
    assert_eq!(sorted(&piped(&log, "nccl-ops").stdout), expect);
}

#[test]
fn the_chains_histogram_is_reproduced_byte_for_byte() {
    let Some((log, expect)) = chain("4-histogram.out") else {
        return;
    };
    let expect = String::from_utf8(expect).unwrap();
    assert_eq!(compat("nccl-hist", &log).text(), expect);
    assert_eq!(piped(&log, "nccl-hist").text(), expect);
}

#[test]
fn the_chains_aggregate_is_reproduced_byte_for_byte() {
    let Some((log, expect)) = chain("5-aggregate_comms.out") else {
        return;
    };
    let expect = String::from_utf8(expect).unwrap();
    assert_eq!(compat("nccl-agg", &log).text(), expect);
    assert_eq!(piped(&log, "nccl-agg").text(), expect);
}

#[test]
fn the_chains_averages_are_reproduced_byte_for_byte() {
    let Some((log, expect)) = chain("avg_step_timing_tflops.out") else {
        return;
    };
    let expect = String::from_utf8(expect).unwrap();
    assert_eq!(compat("nccl-timing", &log).text(), expect);
}

#[test]
fn a_whole_log_gives_the_chains_lines() {
    let Some((log, expect)) = chain("whole-log.2-comm_analyzer.out") else {
        return;
    };
    let got = run("nccl-comms", &[arg(&log), "--format", "awk"]).ends(0);
    assert!(got.stdout == expect);
}

#[test]
fn a_log_of_nccl_tests_gives_the_chains_lines_and_histogram() {
    let Some(log) = data("nccl-logs/nccl-tests-2.27.7-2gpu-1process.log") else {
        return;
    };
    for (program, file) in [
        ("nccl-comms", "nccl-tests.2-comm_analyzer.out"),
        ("nccl-hist", "nccl-tests.4-histogram.out"),
    ] {
        let Some((_, expect)) = chain(file) else {
            return;
        };
        let got = run(program, &[arg(&log), "--format", "awk"]).calm();
        assert!(got.stdout == expect, "{program}");
    }
}

#[test]
fn the_right_window_has_the_calls_before_each_step_line() {
    let Some(log) = data(LOG) else { return };
    let text = std::fs::read_to_string(&log).unwrap();
    // By hand: what stands between the line of step N-1 and that of step N is step N's.
    let mut windows: Vec<String> = vec![String::new()];
    for line in text.lines() {
        windows.last_mut().unwrap().push_str(&format!("{line}\n"));
        if line.starts_with("Training epoch") {
            windows.push(String::new());
        }
    }
    let expect: String = windows[45..=49].concat();
    let calls = naive_calls(expect.as_bytes());
    assert!(calls.len() > 500);
    let got = run("nccl-steps", &[arg(&log), "--steps", "45..49"]).ends(0);
    assert!(got.stdout == expect.as_bytes(), "the window's bytes differ");
    let got = run(
        "nccl-comms",
        &[arg(&log), "--steps", "45..49", "--format", "awk"],
    )
    .ends(0);
    assert_eq!(got.lines(), calls);
    let list = Csv::of(&run("nccl-steps", &[arg(&log), "--list"]).ends(0));
    assert_eq!(list.rows.len(), 56);
    for (step, (row, window)) in list.rows.iter().zip(&windows).enumerate() {
        let calls = naive_calls(window.as_bytes());
        let bytes: u128 = calls
            .iter()
            .map(|c| c.rsplit(' ').next().unwrap().parse::<u128>().unwrap())
            .sum();
        assert_eq!(list.get(row, "step"), step.to_string());
        assert_eq!(list.get(row, "calls"), calls.len().to_string());
        assert_eq!(list.get(row, "total_bytes"), bytes.to_string());
    }
}

#[test]
fn the_chains_window_is_one_step_late_and_one_too_long() {
    let Some(log) = data(LOG) else { return };
    let calls = |window: &[&str]| {
        let args = [&[arg(&log), "--format", "awk"], window].concat();
        run("nccl-comms", &args).ends(0).lines()
    };
    assert_eq!(calls(&["--compat", "awk"]), calls(&["--steps", "46..51"]));
}
