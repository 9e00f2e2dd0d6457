//! What a whole log gives, walked in pieces and merged.

use crate::RECOGNISER;
use nccl_pipe::grammar::coll::Coll;
use nccl_pipe::grammar::trainer::{Recogniser, TrainerMark};
use nccl_pipe::log::LogState;
use nccl_pipe::log::walk::{self, ChunkResult, LogCall, LogVisitor, MessageLine, RepairedCall};
use nccl_pipe::members::{MergedMembers, MergedNumbers};
use nccl_pipe::report::account::Account;
use nccl_pipe::source::CutPlace;

/// Keeps what is told of the calls and of the other lines, each with its gap, and where calls of
/// torn lines go.
#[derive(Debug, Default)]
pub struct Keep {
    gap: usize,
    told: Vec<(usize, String)>,
    foreign: Vec<(u64, String)>,
    slots: Vec<(usize, usize)>,
}

/// What is told of a call, without the numbers that depend on the cut.
fn told(coll: &Coll<'_>, tid: Option<u64>, time: &[u8]) -> String {
    format!("{coll:?} {tid:?} {}", time.escape_ascii())
}

impl LogVisitor for Keep {
    const MESSAGES: bool = true;
    const FOREIGN: bool = true;

    fn message(&mut self, said: &MessageLine<'_>) {
        let (message, at) = (&said.message, said.at);
        self.told.push((self.gap, format!("{at} {message:?}")));
    }

    fn foreign(&mut self, line: &[u8], number: u64) {
        self.foreign.push((number, line.escape_ascii().to_string()));
    }

    fn call(&mut self, call: &LogCall<'_>) {
        let told = told(&call.coll, call.tid, call.time);
        self.told.push((self.gap, told));
    }

    fn mark(&mut self) {
        self.gap += 1;
    }

    fn slot(&mut self) {
        self.slots.push((self.told.len(), self.gap));
    }

    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        for RepairedCall { slot, call, .. } in calls.iter().rev() {
            let (at, gap) = self.slots[*slot as usize];
            let told = told(&call.coll, call.tid, call.time);
            self.told.insert(at, (gap, told));
        }
    }
}

/// What a whole log gives.
#[derive(Debug, PartialEq)]
pub struct Answer {
    /// Where its lines went.
    pub account: Account,
    /// Its calls and messages, each with its gap.
    pub told: Vec<(usize, String)>,
    /// The lines that are not NCCL's, by number.
    pub foreign: Vec<(u64, String)>,
    /// Where its marks begin, and in which line.
    pub marks: Vec<(u64, u64, TrainerMark)>,
}

/// Reads a log that is cut at `cuts`, each piece by `scan`, which is told whether a line may wait
/// for its end where the piece begins.
pub fn read(
    bytes: &[u8],
    cuts: &[usize],
    scan: impl Fn(&[u8], walk::ChunkPlace, &Recogniser, bool, Keep) -> ChunkResult<Keep>,
) -> Answer {
    let (mut log, mut merged) = (LogState::default(), MergedMembers::default());
    merged.begin_next_input();
    let (mut told, mut foreign) = (Vec::new(), Vec::new());
    let mut from = 0;
    for &to in cuts.iter().chain([&bytes.len()]) {
        let part = &bytes[from..to];
        let is_quiet = walk::classify_cut(&bytes[..from], true) == CutPlace::Quiet;
        let scanned = scan(
            part,
            walk::ChunkPlace {
                offset: from as u64,
                is_quiet,
            },
            &RECOGNISER,
            true,
            Keep::default(),
        );
        let a = &scanned.account;
        assert!(
            a.count_decided_lines() <= a.lines,
            "more lines decided than there are"
        );
        assert_eq!(a.lines, lines(part), "lines of a piece");
        let mut renumbered = MergedNumbers::default();
        let part = log.add_chunk(scanned, &mut merged, &mut renumbered);
        let kept = part.visit;
        let (gap, line) = (part.gap, part.line);
        told.extend(kept.told.into_iter().map(|(g, text)| (g + gap, text)));
        foreign.extend(kept.foreign.into_iter().map(|(n, text)| (n + line, text)));
        from = to;
    }
    log.end_log();
    let marks = log
        .marks
        .as_slice()
        .iter()
        .map(|m| (m.start, m.line, m.mark));
    Answer {
        told,
        foreign,
        marks: marks.collect(),
        account: log.account,
    }
}

/// Lines as `wc -l` counts them, and a last one without an end.
pub fn lines(bytes: &[u8]) -> u64 {
    let ends = memchr::memchr_iter(b'\n', bytes).count() as u64;
    ends + u64::from(bytes.last().is_some_and(|&b| b != b'\n'))
}
