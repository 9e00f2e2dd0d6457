//! The long way: a line that is not simply one header and one body.

mod commit;
mod cut_place;
mod headless;
mod pieces;
mod prefix;
mod spliced;
mod tail;
mod verdict;
mod writer_spans;

use super::{ChunkWalk, LogVisitor, TailLikeness};
use crate::grammar::coll;
use crate::grammar::message::setup::version;
use crate::grammar::nccl_tests;
use crate::grammar::trainer::{Recogniser, TrainerRecord};
use crate::grammar::wrap::{self, UnwrappedText};
use crate::report::account::LineClass;
use crate::source::contains_utf16_text;
use commit::UnwrappedFileLine;
pub use cut_place::classify_cut;
use memchr::{memchr, memmem};
pub(super) use prefix::is_prefix;
use std::sync::LazyLock;
use tail::is_tail;
pub(crate) use tail::{is_call, is_call_tail, is_init_tail};
use verdict::{LineItem, LineVerdict};

// The text of a line may be a copy that does not live as long as the chunk.
impl<'a, V: LogVisitor> ChunkWalk<'_, V> {
    /// Walks the line at `start`, and the next one too if a step line was printed into this one.
    /// Returns the beginning of the line after.
    pub(super) fn walk_any_line(&mut self, start: usize) -> usize {
        self.waiting.pass_line();
        let bytes = self.bytes;
        let end = memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |i| start + i);
        let next = (end + 1).min(bytes.len());
        self.line = start;
        self.has_head = false;
        self.has_message_head = false;
        let line = &bytes[start..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            if V::FOREIGN {
                self.out.visit.foreign(line, self.out.account.lines);
            }
            self.out.account.count_line(LineClass::Foreign);
            return next;
        }
        if V::BENCHMARKS && nccl_tests::may_be_benchmark_line(line) {
            let number = self.out.account.lines;
            self.out.visit.benchmark_line(line, number);
        }
        self.count_ray_repeats(line);
        let recogniser = self.recogniser;
        if let Some(unwrapped) = wrap::unwrap_line(line, &|text| is_wanted(text, recogniser))
            && unwrapped.lines().next().is_some()
            && self.walk_wrapped_lines(start, next, line, &unwrapped)
        {
            return next;
        }
        let mut found = std::mem::take(&mut self.found);
        find_marks(self.recogniser, line, &mut found);
        let next = match self.walk_spliced_line(start, line, next, &found) {
            Some(after) => after,
            None => {
                let verdict = self.judge_line(line, &found);
                let unwrapped = None;
                let text = line;
                self.commit_line(
                    &UnwrappedFileLine {
                        start,
                        next,
                        text,
                        unwrapped,
                    },
                    verdict,
                );
                next
            }
        };
        self.found = found;
        next
    }

    /// Walks the lines inside `line`. Returns false if none of them is a step line and `line`
    /// itself is one: then it is the trainer's own.
    fn walk_wrapped_lines(
        &mut self,
        start: usize,
        next: usize,
        line: &[u8],
        inner: &UnwrappedText,
    ) -> bool {
        let mut found = std::mem::take(&mut self.found);
        let has_mark = |text: &[u8], found: &mut Vec<TrainerRecord>| {
            find_marks(self.recogniser, text, found);
            !found.is_empty()
        };
        let is_own = !inner.lines().any(|(_, text)| has_mark(text, &mut found))
            && has_mark(line, &mut found);
        if !is_own {
            let mut all = LineVerdict::new();
            for (at, text) in inner.lines() {
                find_marks(self.recogniser, text, &mut found);
                let verdict = self.judge_line(text, &found);
                all.add_line(at, text, verdict, V::FOREIGN);
            }
            let (text, unwrapped) = (inner.text(), Some(inner));
            self.commit_line(
                &UnwrappedFileLine {
                    start,
                    next,
                    text,
                    unwrapped,
                },
                all,
            );
        }
        self.found = found;
        !is_own
    }

    /// Counts the lines that Ray left out for this one.
    fn count_ray_repeats(&mut self, line: &[u8]) {
        if let Some(n) = parse_ray_repeats(line) {
            let account = &mut self.out.account;
            account.ray_lines += 1;
            account.ray_repeats += n;
            account.firsts.ray.get_or_insert(account.lines);
        }
    }

    /// Returns the verdict on a line, with the step lines that were found on it.
    fn judge_line(&mut self, line: &'a [u8], found: &[TrainerRecord]) -> LineVerdict<'a> {
        let mut v = LineVerdict::new();
        v.things
            .extend(found.iter().map(|f| (f.start, LineItem::Mark(*f))));
        // RCCL prints its version without NCCL's name.
        static CCL: LazyLock<memmem::Finder<'static>> =
            LazyLock::new(|| memmem::Finder::new(b"CCL "));
        if CCL.find(line).is_some() || coll::COLL_ANCHOR_FINDER.find(line).is_some() {
            self.read_pieces(line, found, &mut v);
        } else if let Some(version) = version::parse_rccl_block_version(line) {
            self.read_headless_version(line, Some(version), &mut v);
        } else if self.read_short_line(line, &mut v) {
            // NCCL's, though its name is not on it.
        } else if is_tail(line) {
            v.add_tail(line, TailLikeness::Nccl);
        } else if self.may_end_come() && is_call_tail(line) {
            v.add_tail(line, TailLikeness::Call);
        } else if contains_utf16_text(line) {
            v.set_damage(0, "text in one encoding: the line is UTF-16");
        } else if found.is_empty() && (self.waiting.is_message_open() || self.has_message_head) {
            v.add_tail(line, TailLikeness::Any);
        }
        v
    }
}

/// Fills `found` with the step lines of a line.
fn find_marks(recogniser: &Recogniser, line: &[u8], found: &mut Vec<TrainerRecord>) {
    found.clear();
    if recogniser.may_mark(line) {
        recogniser.marks(line, found);
    }
}

/// Returns true for a string that is worth reading: a NCCL line, or a step line.
pub(super) fn is_wanted(text: &[u8], recogniser: &Recogniser) -> bool {
    wrap::contains_nccl_line(text) || is_init_tail(text) || recogniser.may_mark(text)
}

/// Counts the lines of other workers that Ray left out for a line, or for those in it; `None`
/// without Ray's words.
fn parse_ray_repeats(line: &[u8]) -> Option<u64> {
    static ACROSS: LazyLock<memmem::Finder<'static>> =
        LazyLock::new(|| memmem::Finder::new(b"x across cluster]"));
    ACROSS.find(line)?;
    let mut all = None;
    for end in ACROSS.find_iter(line) {
        // `[repeated ` and a number, no more.
        let before = &line[end.saturating_sub(32)..end];
        let Some(start) = memmem::rfind(before, b"[repeated ") else {
            continue;
        };
        let digits = &before[start + b"[repeated ".len()..];
        if let Ok((b"", n)) = crate::grammar::token::dec_u64(digits) {
            let left_out = n.saturating_sub(1);
            all = Some(all.map_or(left_out, |sum: u64| sum.saturating_add(left_out)));
        }
    }
    all
}
