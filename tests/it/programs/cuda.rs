//! nccl-cuda: the timeline and the sums of Alnair's interposer, and whether they agree.

use crate::support::{Csv, Work, arg, data, feed, gzip, run, sh};
use std::path::Path;

#[test]
fn the_runs_of_the_original_agree_where_nothing_was_lost() {
    let Some(folder) = data("alnair/stub_runs") else {
        return;
    };
    let file = |run: &str, name: &str| {
        Path::new(&folder)
            .join(run)
            .join(name)
            .display()
            .to_string()
    };
    let whole = run(
        "nccl-cuda",
        &[file("o1", "timeline.log"), file("o1", "metrics.log")],
    )
    .ends(0);
    assert!(
        whole.stderr.contains("the sums and the timeline agree"),
        "{}",
        whole.stderr
    );
    let csv = Csv::of(&whole);
    let of = |name: &str| {
        csv.rows
            .iter()
            .filter(|row| csv.get(row, "function") == name)
            .map(|row| csv.get(row, "calls"))
            .collect::<Vec<_>>()
    };
    assert_eq!(of("cudaMemcpyAsync"), ["20", "20"]);
    // The tail of this one was lost, and its sums were just emptied.
    let cut = run(
        "nccl-cuda",
        &[file("o0", "timeline.log"), file("o0", "metrics.log")],
    )
    .ends(0);
    assert!(cut.stderr.contains("a file is empty"), "{}", cut.stderr);
    // The sums of a whole run beside the timeline that lacks its tail.
    let gap = run(
        "nccl-cuda",
        &[file("o0", "timeline.log"), file("o1", "metrics.log")],
    )
    .ends(0);
    assert!(gap.stderr.contains("1 of cuMemFree, 1 of cuMemcpyH2D, 1 of cuMemcpyD2H, 1 of cudaMemcpy, 2 of cudaMemcpyAsync"), "{}", gap.stderr);
}

#[test]
fn an_empty_input_is_an_emptied_one_however_it_comes() {
    let work = Work::new();
    let plain = work.file("metrics.log", "");
    let gz = work.file("metrics.log.gz", gzip(b""));
    let dir = work.dir().to_owned();
    for out in [
        run("nccl-cuda", &[arg(&plain)]),
        run("nccl-cuda", &[arg(&gz)]),
        feed("nccl-cuda", &[], ""),
        sh(&dir, "nccl-cuda <metrics.log"),
        sh(&dir, "nccl-cuda <metrics.log.gz"),
    ] {
        let out = out.ends(0).says(&["a file is empty"]);
        assert_eq!(out.lines().len(), 1, "{}", out.text());
    }
}

#[test]
fn times_that_were_never_set_are_left_out() {
    let Some(folder) = data("alnair/readme_samples") else {
        return;
    };
    let file = Path::new(&folder).join("timeline_v4_kind_f44d9eb_GARBAGE_BURST.log");
    let read = run("nccl-cuda", &[file.display().to_string()]).ends(0);
    assert!(
        read.stderr.contains("7 calls are longer than a day"),
        "{}",
        read.stderr
    );
    let csv = Csv::of(&read);
    assert_eq!(csv.get(&csv.rows[2], "no_time"), "7");
}

#[test]
fn cut_lines_are_counted() {
    let whole = std::fs::read("testdata/cuda/timeline.log").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("timeline.log");
    for cut in (0..200)
        .map(|n| n * whole.len() / 200)
        .filter(|&cut| cut > 80)
    {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let is_whole = whole[cut - 1] == b'\n';
        let read = run("nccl-cuda", &[path.display().to_string()]);
        let csv = Csv::of(&read);
        let calls: usize = csv
            .rows
            .iter()
            .map(|row| csv.get(row, "calls").parse::<usize>().unwrap())
            .sum();
        let lines = whole[..cut]
            .split(|&b| b == b'\n')
            .filter(|line| !line.is_empty())
            .count();
        // A cut inside the last number leaves a call of another number.
        assert!(
            calls == lines || (!is_whole && calls + 1 == lines),
            "{cut}: {calls} of {lines}"
        );
    }
}
