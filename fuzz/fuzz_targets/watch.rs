//! A log that grows by pieces, and is begun again at times: nccl-watch has the calls and steps of the whole,
//! its lines have no control character, and its metrics are those that Prometheus reads.

#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use nccl_pipe::grammar::header::all_headers;
use nccl_pipe::grammar::trainer::TrainerMark;
use nccl_pipe::source::AppendedBytes;
use nccl_pipe::stages::watch::{JobWatch, messages, metrics};
use nccl_pipe_fuzz::{RECOGNISER, drawn_small, options, pieces};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Fails unless Prometheus would read a line of its text format.
fn check_sample(line: &str) {
    if line.starts_with("# HELP ") || line.starts_with("# TYPE ") {
        return;
    }
    let (head, value) = line.rsplit_once(' ').expect("a value");
    assert!(value.parse::<f64>().is_ok(), "{line}");
    let name = head.split('{').next().unwrap_or_default();
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    assert!(!name.is_empty() && name.bytes().all(is_name), "{line}");
    let Some(labels) = head.strip_prefix(name).filter(|labels| !labels.is_empty()) else {
        return;
    };
    let mut rest = labels
        .strip_prefix('{')
        .and_then(|l| l.strip_suffix('}'))
        .expect("labels");
    while !rest.is_empty() {
        let (key, after) = rest.split_once("=\"").expect("a label");
        assert!(key.trim_start_matches(',').bytes().all(is_name), "{line}");
        let mut is_escaped = false;
        let end = after.find(|c| {
            let is_end = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            is_end
        });
        rest = &after[end.expect("the end of a label") + 1..];
    }
}

fn total<'l>(log: impl IntoIterator<Item = (&'l [u8], bool)>) -> (u64, u64, Option<u64>) {
    let (read, begun) = (options(1, false), Instant::now());
    let mut watch = JobWatch::new(&read, Some(Duration::from_secs(3)), begun);
    let mut events = Vec::new();
    for (bytes, anew) in log {
        let grown = AppendedBytes {
            input: 0,
            bytes,
            is_pipe: false,
            anew,
        };
        events.extend(watch.read_growth(&grown, begun));
    }
    events.extend(watch.read_last_lines(begun));
    for event in &events {
        let line = messages::format_event(event);
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
    let later = begun + Duration::from_secs(60);
    let _ = watch.detect_stall(later);
    messages::format_stall(Duration::from_secs(60), watch.last_step(), watch.calls());
    metrics::format_metrics(&watch, None, later)
        .lines()
        .for_each(check_sample);
    (
        watch.calls().total().calls,
        watch.count_steps(),
        watch.last_step(),
    )
}

/// True where step lines are of one trainer. Of several, those that count are chosen by the lines so far.
fn is_of_one_trainer(log: &[u8]) -> bool {
    let mut marks = Vec::new();
    log.split(|&b| b == b'\n')
        .for_each(|line| RECOGNISER.marks(line, &mut marks));
    let trainers = marks.iter().filter_map(|record| match record.mark {
        TrainerMark::Step(step) => Some(step.trainer),
        _ => None,
    });
    trainers.collect::<BTreeSet<_>>().len() < 2
}

/// True where a process has two names, one of which ends with the other: text that is glued to a host may mean
/// either, and a piece that has only one of them takes that one.
fn has_ambiguous_name(log: &[u8]) -> bool {
    let lines = log.split(|&b| b == b'\n');
    let names: BTreeSet<_> = lines
        .flat_map(all_headers)
        .map(|header| (header.pid, header.host))
        .collect();
    let is_longer = |(pid, host): &(_, &[u8])| {
        let mut same = names.iter().filter(|(other, _)| other == pid);
        same.any(|(_, other)| other != host && other.ends_with(host))
    };
    names.iter().any(is_longer)
}

fuzz_target!(|data: &[u8]| {
    let mut u = Unstructured::new(data);
    let log = drawn_small(&mut u).unwrap_or_default();
    let cut = pieces(&log, &mut u);
    let grown = total(cut.iter().map(|&piece| (piece, false)));
    let whole = total([(&log[..], false)]);
    if !has_ambiguous_name(&log) {
        assert_eq!(whole.0, grown.0, "calls in pieces");
        assert!(
            whole == grown || !is_of_one_trainer(&log),
            "steps in pieces: {whole:?}, {grown:?}"
        );
    }
    let begins_again = |_: usize| u.ratio(1, 3).unwrap_or(false);
    let flags: Vec<bool> = (0..cut.len()).map(begins_again).collect();
    total(cut.iter().copied().zip(flags));
});
