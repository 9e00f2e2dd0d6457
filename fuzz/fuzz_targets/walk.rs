//! A log of any bytes: the walk does not panic, accounts for every line, and gives the same
//! answer in one piece and cut at any quiet place.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::formats::account::Account;
use nccl_pipe::formats::log::Log;
use nccl_pipe::grammar::coll::Coll;
use nccl_pipe::grammar::trainer::{Mark, Recogniser};
use nccl_pipe::members::{Merged, Renumbered};
use nccl_pipe::formats::log::walk::{self, Call, Visit};
use std::sync::LazyLock;

static RECOGNISER: LazyLock<Recogniser> = LazyLock::new(Recogniser::all);

/// What is told of a call, without the numbers that depend on the cut.
type Told = (usize, String);

/// Keeps the calls with their gaps, and where calls of torn lines go.
#[derive(Default)]
struct Keep {
    gap: usize,
    calls: Vec<Told>,
    slots: Vec<(usize, usize)>,
}

fn told(coll: &Coll<'_>, tid: Option<u64>, time: &[u8]) -> String {
    format!("{coll:?} {tid:?} {time:?}")
}

impl Visit for Keep {
    fn call(&mut self, call: &Call<'_>) {
        self.calls
            .push((self.gap, told(&call.coll, call.tid, call.time)));
    }

    fn mark(&mut self) {
        self.gap += 1;
    }

    fn slot(&mut self) {
        self.slots.push((self.calls.len(), self.gap));
    }
}

/// What a whole log gives.
#[derive(Debug, PartialEq)]
struct Answer {
    account: Account,
    calls: Vec<Told>,
    marks: Vec<(u64, u64, Mark)>,
}

/// Reads a log that is cut at `cuts`.
fn read(bytes: &[u8], cuts: &[usize]) -> Answer {
    let (mut log, mut merged) = (Log::default(), Merged::default());
    merged.next_input();
    let mut calls = Vec::new();
    let mut from = 0;
    for &to in cuts.iter().chain([&bytes.len()]) {
        let part = &bytes[from..to];
        let scanned = walk::scan(part, (from as u64, true), &RECOGNISER, true, Keep::default());
        let a = &scanned.account;
        let decided = a.call_lines + a.other + a.foreign + a.repaired + a.damaged;
        assert!(decided <= a.lines, "more lines decided than there are");
        assert_eq!(a.lines, lines(part), "lines of a piece");
        let (mut renumbered, mut joined) = (Renumbered::default(), Vec::new());
        let part = log.add(scanned, &mut merged, &mut renumbered, &mut joined);
        let Keep {
            calls: mut kept,
            slots,
            ..
        } = part.visit;
        for call in part.joined.iter().rev() {
            let (coll, (tid, time)) = (call.coll(), call.header());
            let (at, gap) = slots[call.slot as usize];
            kept.insert(at, (gap, told(&coll, tid, time)));
        }
        calls.extend(kept.into_iter().map(|(gap, text)| (part.gap + gap, text)));
        from = to;
    }
    log.end();
    Answer {
        account: log.account,
        calls,
        marks: log
            .marks
            .iter()
            .map(|m| (m.start, m.line, m.mark))
            .collect(),
    }
}

/// Lines as `wc -l` counts them, and a last one without an end.
fn lines(bytes: &[u8]) -> u64 {
    let ends = memchr::memchr_iter(b'\n', bytes).count() as u64;
    ends + u64::from(bytes.last().is_some_and(|&b| b != b'\n'))
}

fuzz_target!(|bytes: &[u8]| {
    let whole = read(bytes, &[]);
    let a = &whole.account;
    let sum = a.call_lines + a.other + a.foreign + a.repaired + a.damaged;
    assert_eq!(
        (sum, a.lines),
        (lines(bytes), lines(bytes)),
        "every line is accounted for"
    );
    let ends = memchr::memchr_iter(b'\n', bytes).map(|i| i + 1);
    let quiet: Vec<usize> = ends
        .filter(|&i| i < bytes.len() && walk::quiet(&bytes[..i]))
        .collect();
    assert_eq!(whole, read(bytes, &quiet), "cut at {quiet:?}");
});
