//! The lines of calls for the copy of a pipe, with the notes on lines that are kept.

use super::PipedCall;
use crate::source::NotedLines;
use memchr::memmem::FinderRev;
use std::collections::{VecDeque, vec_deque};
use std::iter::Peekable;
use std::sync::LazyLock;

/// Gives the calls of a note.
pub(super) fn for_each_noted_call(mut note: &[u8], mut sink: impl FnMut(PipedCall)) {
    while let Ok((made, rest)) = postcard::take_from_bytes(note) {
        sink(made);
        note = rest;
    }
}

/// Lines of calls, and the notes on lines that are kept.
pub(super) struct PipedCallLines<'c, F> {
    calls: Peekable<vec_deque::Iter<'c, PipedCall>>,
    is_wanted: &'c F,
    note: Vec<u8>,
    /// The number of kept calls.
    pub(super) kept: u64,
}

impl<'c, F: Fn(&PipedCall) -> bool> PipedCallLines<'c, F> {
    pub(super) fn new(calls: &'c VecDeque<PipedCall>, is_wanted: &'c F) -> PipedCallLines<'c, F> {
        PipedCallLines {
            calls: calls.iter().peekable(),
            is_wanted,
            note: Vec::new(),
            kept: 0,
        }
    }
}

impl<F: Fn(&PipedCall) -> bool> NotedLines for PipedCallLines<'_, F> {
    fn next_line_start(&mut self) -> Option<u64> {
        self.calls.peek().map(|made| made.line.at)
    }

    fn take_note(&mut self) -> Option<&[u8]> {
        let first = self.calls.next()?;
        let is_here = |made: &&PipedCall| made.line.at == first.line.at;
        let mut is_any = (self.is_wanted)(first);
        // Several may be on one line.
        let rest = self.calls.clone();
        let mut all = 1;
        for made in rest.take_while(is_here) {
            is_any |= (self.is_wanted)(made);
            all += 1;
        }
        self.note.clear();
        let mut write = |made: &PipedCall| {
            let note = std::mem::take(&mut self.note);
            self.note = postcard::to_extend(made, note).unwrap_or_default();
        };
        if is_any {
            write(first);
        }
        for _ in 1..all {
            let made = self.calls.next().filter(|_| is_any);
            made.into_iter().for_each(&mut write);
        }
        self.kept += if is_any { all } else { 0 };
        is_any.then_some(&self.note)
    }

    fn is_alone(&self, line: &[u8]) -> bool {
        ends_at_call_end(line)
    }
}

/// True if a line ends where its call ends: the next line may follow without a line break.
fn ends_at_call_end(line: &[u8]) -> bool {
    static STREAM: LazyLock<FinderRev<'static>> = LazyLock::new(|| FinderRev::new(b"] stream "));
    let line = line.trim_ascii_end();
    // Most lines end with an address.
    let digits = line
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_hexdigit())
        .count();
    if line[..line.len() - digits].ends_with(b"] stream 0x") {
        return true;
    }
    let Some(at) = STREAM.rfind(line) else {
        return false;
    };
    let rest = &line[at + b"] stream ".len()..];
    let behind = match rest.strip_prefix(b"0x") {
        Some(rest) => {
            &rest[rest
                .iter()
                .take_while(|byte| byte.is_ascii_hexdigit())
                .count()..]
        }
        None => match rest.strip_prefix(b"(nil)") {
            Some(rest) => rest,
            None => return false,
        },
    };
    let is_rccl = |words: &[u8]| {
        let is_known = |word: &[u8]| {
            word.is_empty()
                || matches!(word, b"task" | b"globalrank")
                || word.iter().all(u8::is_ascii_digit)
        };
        words.split(|&byte| byte == b' ').all(is_known)
    };
    // Collectors that write JSON add text after each line.
    let is_json = behind.starts_with(b"\\n\"") || behind.starts_with(b"\"");
    is_rccl(behind) || is_json && behind.ends_with(b"}")
}
