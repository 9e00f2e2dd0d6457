use super::{JobWatch, WatchEvent};
use crate::source::AppendedBytes;
use crate::stages::watch::limits::MAX_WAITING_LINE_BYTES;
use crate::testing;
use std::time::Instant;

fn call(rank: u32) -> String {
    format!(
        "n1:{rank}:{rank} [{rank}] NCCL INFO AllReduce: opCount 1 sendbuff 0x1 recvbuff 0x2 count 4 datatype 7 op 0 root 0 \
         comm 0x5 [nranks=3] stream 0x6\n"
    )
}

fn step_line(step: u64) -> String {
    format!(
        " [2026-11-29 06:00:00] iteration {step:8}/       9 | elapsed time per iteration (ms): 7.5 | learning rate: 1.0E-4 |\n"
    )
}

/// The calls of the steps that end in a round in which each input grows by a text.
fn steps_of_round(watch: &mut JobWatch<'_>, texts: &[String], now: Instant) -> Vec<u64> {
    let mut events = Vec::new();
    for (input, text) in texts.iter().enumerate() {
        let grown = AppendedBytes {
            input,
            bytes: text.as_bytes(),
            is_pipe: false,
            anew: false,
        };
        events.extend(watch.read_growth(&grown, now));
    }
    watch.finish_round(&mut events);
    let calls = |event: &WatchEvent| match event {
        WatchEvent::Step(ended) => Some(ended.calls.total().calls),
        _ => None,
    };
    events.iter().filter_map(calls).collect()
}

/// A network file system may show the lines of several steps at once.
#[test]
fn steps_that_come_at_once_share_the_calls_of_files_without_step_lines() {
    let read = testing::options(1, false);
    let now = Instant::now();
    let mut watch = JobWatch::new(&read, None, now);
    let own = |steps: std::ops::Range<u64>| -> String {
        steps.map(|step| call(1) + &step_line(step)).collect()
    };
    let texts = [call(0).repeat(6), own(1..4), call(2).repeat(7)];
    assert_eq!(steps_of_round(&mut watch, &texts, now), [5, 5, 6]);
    // Another rank's lines of the same steps are no new steps; its calls are theirs.
    let texts = [own(4..6), own(4..6), call(2).repeat(4)];
    assert_eq!(steps_of_round(&mut watch, &texts, now), [4, 4]);
    let texts = [own(6..7), own(6..8), call(2)];
    assert_eq!(steps_of_round(&mut watch, &texts, now), [2, 2]);
    assert_eq!(watch.calls().total().calls, 16 + 8 + 4);
}

/// Files of ranks are read one after another, and the one with the step lines is not the last.
#[test]
fn a_step_has_the_calls_of_files_that_are_read_after_its_line() {
    let read = testing::options(1, false);
    let now = Instant::now();
    let mut watch = JobWatch::new(&read, None, now);
    let mut counts = Vec::new();
    for step in 1..5 {
        let line = step_line(step);
        let mut texts = [call(0), call(1) + &line + &call(1), call(2) + &call(2)];
        texts[2] += &call(2);
        counts.extend(steps_of_round(&mut watch, &texts, now));
    }
    // The call after the line is of the next step.
    assert_eq!(counts, [5, 6, 6, 6]);
    assert_eq!(watch.calls().total().calls, 24);
}

/// The rest of a line over the limit is dropped, counted and reported once; what it holds is no call, and the next
/// line is read.
#[test]
fn a_line_over_the_limit_is_reported_and_not_kept() {
    let read = testing::options(1, false);
    let now = Instant::now();
    for begins_anew in [false, true] {
        let mut watch = JobWatch::new(&read, None, now);
        let over = call(2).trim_end().to_owned();
        let long = format!("{}{over}", "x".repeat(MAX_WAITING_LINE_BYTES));
        let end = if begins_anew { "" } else { "\n" };
        let text = format!("{}{long}{end}", call(0));
        let pieces = text.as_bytes().chunks(1 << 20).map(|bytes| (bytes, false));
        let next = call(1);
        let mut events = Vec::new();
        for (bytes, anew) in pieces.chain([(next.as_bytes(), begins_anew)]) {
            let grown = AppendedBytes {
                input: 0,
                bytes,
                is_pipe: false,
                anew,
            };
            events.extend(watch.read_growth(&grown, now));
            assert!(watch.unfinished_line(0).len() <= MAX_WAITING_LINE_BYTES);
        }
        watch.finish_round(&mut events);
        assert_eq!(events, [WatchEvent::Dropped(over.len() as u64)]);
        assert_eq!(watch.calls().total().calls, 2);
        assert!(watch.has_dropped);
    }
}
