//! The long way: a line that is not simply one header and one body.

mod commit;
mod cut;
mod headless;
mod pieces;
mod prefix;
mod spliced;
mod tail;
mod verdict;
mod written;

use super::{Looks, Scan, Visit};
use crate::grammar::coll;
use crate::grammar::message::setup::version;
use crate::grammar::trainer::{Found, Recogniser};
use crate::grammar::wrap::{self, Unwrapped};
use crate::report::account::Class;
use commit::Text;
pub use cut::place;
use memchr::{memchr, memmem};
pub(super) use prefix::is_prefix;
use std::sync::LazyLock;
pub(crate) use tail::{is_call, is_call_tail};
use tail::{is_init_tail, is_tail};
use verdict::{Thing, Verdict};

// The text of a line may be a copy that does not live as long as the chunk.
impl<'a, V: Visit> Scan<'_, V> {
    /// Takes the line at `start`, and the next one too if a step line was spliced into this
    /// one. Gives where the line after starts.
    pub(super) fn long(&mut self, start: usize) -> usize {
        self.waiting.pass();
        let bytes = self.bytes;
        let end = memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |i| start + i);
        let next = (end + 1).min(bytes.len());
        self.line = start;
        self.here = (false, false);
        let line = &bytes[start..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            if V::FOREIGN {
                self.out.visit.foreign(line, self.out.account.lines);
            }
            self.out.account.line(Class::Foreign);
            return next;
        }
        self.repeats(line);
        let recogniser = self.recogniser;
        if let Some(unwrapped) = wrap::unwrapped(line, &|text| is_wanted(text, recogniser))
            && unwrapped.lines().next().is_some()
            && self.wrapped((start, next), line, &unwrapped)
        {
            return next;
        }
        let mut found = std::mem::take(&mut self.found);
        marks(self.recogniser, line, &mut found);
        let next = match self.spliced(start, line, next, &found) {
            Some(after) => after,
            None => {
                let verdict = self.verdict(line, &found);
                let unwrapped = None;
                let text = line;
                self.commit(
                    &Text {
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

    /// Takes the lines that are in `line`. False where none of them is a step line and `line`
    /// itself is one: then it is the trainer's own.
    fn wrapped(&mut self, (start, next): (usize, usize), line: &[u8], inner: &Unwrapped) -> bool {
        let mut found = std::mem::take(&mut self.found);
        let has_mark = |text: &[u8], found: &mut Vec<Found>| {
            marks(self.recogniser, text, found);
            !found.is_empty()
        };
        let is_own = !inner.lines().any(|(_, text)| has_mark(text, &mut found))
            && has_mark(line, &mut found);
        if !is_own {
            let mut all = Verdict::new();
            for (at, text) in inner.lines() {
                marks(self.recogniser, text, &mut found);
                let verdict = self.verdict(text, &found);
                all.add(at, text, verdict, V::FOREIGN);
            }
            let (text, unwrapped) = (inner.text(), Some(inner));
            self.commit(
                &Text {
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
    fn repeats(&mut self, line: &[u8]) {
        if let Some(n) = ray_repeats(line) {
            let account = &mut self.out.account;
            account.ray_lines += 1;
            account.ray_repeats += n;
            account.firsts.ray.get_or_insert(account.lines);
        }
    }

    /// What a line is, with the step lines that were found on it.
    fn verdict(&mut self, line: &'a [u8], found: &[Found]) -> Verdict<'a> {
        let mut v = Verdict::new();
        v.things
            .extend(found.iter().map(|f| (f.start, Thing::Mark(*f))));
        // RCCL says its version without NCCL's name.
        static CCL: LazyLock<memmem::Finder<'static>> =
            LazyLock::new(|| memmem::Finder::new(b"CCL "));
        if CCL.find(line).is_some() || coll::FINDER.find(line).is_some() {
            self.pieces(line, found, &mut v);
        } else if let Some(version) = version::of_block(line) {
            self.headless_version(line, Some(version), &mut v);
        } else if is_tail(line) {
            v.tail(line, Looks::Nccl);
        } else if self.waits() && is_call_tail(line) {
            v.tail(line, Looks::Call);
        } else if found.is_empty() && (self.waiting.is_message_open() || self.here.1) {
            v.tail(line, Looks::Any);
        }
        v
    }
}

/// Fills `found` with the step lines of a line.
fn marks(recogniser: &Recogniser, line: &[u8], found: &mut Vec<Found>) {
    found.clear();
    if recogniser.may_mark(line) {
        recogniser.marks(line, found);
    }
}

/// True for a string that is worth reading: NCCL's, or a step line.
pub(super) fn is_wanted(text: &[u8], recogniser: &Recogniser) -> bool {
    wrap::is_nccl(text) || is_init_tail(text) || recogniser.may_mark(text)
}

/// How many lines of other workers Ray left out for a line, or for those in it; `None` where it has
/// none of Ray's words.
fn ray_repeats(line: &[u8]) -> Option<u64> {
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
