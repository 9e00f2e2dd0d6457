//! nccl-skew: who comes late.

use crate::support::{Csv, captured, feed, job, run};

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
    out.says(&["printed to 1000 ms only"]);
}

#[test]
fn records_tell_how_late_ranks_are_and_what_calls_take_without_waiting() {
    let folder = captured("fsdp-inspector").display().to_string();
    let args = |more: &[&str]| {
        let args = [&[&*folder, "--glob", "vm-pid*"], more].concat();
        Csv::of(&run("nccl-skew", &args).ends(0))
    };
    for more in [&[][..], &["--from", "durations"]] {
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
            [("0", "180"), ("1", "180"), ("2", "180"), ("3", "180")]
        );
    }
    // An AllReduce of 12 floats takes 8 us once all ranks are there.
    let table = args(&["--latency"]);
    let row = table.rows.iter().find(|row| row[0] == "AllReduce").unwrap();
    assert_eq!((&*row[1], &*row[3]), ("12", "8"));
}
