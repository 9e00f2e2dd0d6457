//! What a whole log gives, walked in pieces and merged.

use crate::RECOGNISER;
use nccl_pipe::formats::log::Log;
use nccl_pipe::formats::log::walk::{self, Call, Said, Scanned, Torn, Visit};
use nccl_pipe::grammar::coll::Coll;
use nccl_pipe::grammar::trainer::{Mark, Recogniser};
use nccl_pipe::members::{Merged, Renumbered};
use nccl_pipe::report::account::Account;
use nccl_pipe::source::Place;

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

impl Visit for Keep {
    const MESSAGES: bool = true;
    const FOREIGN: bool = true;

    fn message(&mut self, said: &Said<'_>) {
        let (message, at) = (&said.message, said.at);
        self.told.push((self.gap, format!("{at} {message:?}")));
    }

    fn foreign(&mut self, line: &[u8], number: u64) {
        self.foreign.push((number, line.escape_ascii().to_string()));
    }

    fn call(&mut self, call: &Call<'_>) {
        let told = told(&call.coll, call.tid, call.time);
        self.told.push((self.gap, told));
    }

    fn mark(&mut self) {
        self.gap += 1;
    }

    fn slot(&mut self) {
        self.slots.push((self.told.len(), self.gap));
    }

    fn torn(&mut self, calls: &[Torn<'_>]) {
        for Torn { slot, call, .. } in calls.iter().rev() {
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
    pub marks: Vec<(u64, u64, Mark)>,
}

/// Reads a log that is cut at `cuts`, each piece by `scan`, which is told whether a line may wait
/// for its end where the piece begins.
pub fn read(
    bytes: &[u8],
    cuts: &[usize],
    scan: impl Fn(&[u8], walk::ChunkPlace, &Recogniser, bool, Keep) -> Scanned<Keep>,
) -> Answer {
    let (mut log, mut merged) = (Log::default(), Merged::default());
    merged.next_input();
    let (mut told, mut foreign) = (Vec::new(), Vec::new());
    let mut from = 0;
    for &to in cuts.iter().chain([&bytes.len()]) {
        let part = &bytes[from..to];
        let is_quiet = walk::place(&bytes[..from], true) == Place::Quiet;
        let scanned = scan(
            part,
            walk::ChunkPlace { offset: from as u64, is_quiet },
            &RECOGNISER,
            true,
            Keep::default(),
        );
        let a = &scanned.account;
        assert!(a.decided() <= a.lines, "more lines decided than there are");
        assert_eq!(a.lines, lines(part), "lines of a piece");
        let mut renumbered = Renumbered::default();
        let part = log.add(scanned, &mut merged, &mut renumbered);
        let kept = part.visit;
        let (gap, line) = (part.gap, part.line);
        told.extend(kept.told.into_iter().map(|(g, text)| (g + gap, text)));
        foreign.extend(kept.foreign.into_iter().map(|(n, text)| (n + line, text)));
        from = to;
    }
    log.end();
    let marks = log.marks.all().iter().map(|m| (m.start, m.line, m.mark));
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
