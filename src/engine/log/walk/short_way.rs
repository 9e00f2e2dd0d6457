//! The short way: a line that is one known header and one whole body.

use super::limits::MAX_HEADER_SLOTS;
use super::speaker::HeaderSpeaker;
use super::{ChunkWalk, LogVisitor, TEAR_STRIDE_BYTES};
use crate::grammar::coll;
use crate::grammar::fast_coll::{self, CollTail};
use crate::grammar::header;
use crate::report::account::LineClass;
use memchr::memchr;

/// A header that the short way recognises: the text from its host to its device, and the text in
/// front of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KnownHeader<'a> {
    prefix: &'a [u8],
    text: &'a [u8],
    speaker: HeaderSpeaker,
}

impl KnownHeader<'_> {
    /// Returns the beginning of its text in a line that has it in front of `bracket`.
    #[inline(always)]
    fn prefix_start(&self, line: &[u8], bracket: usize) -> Option<usize> {
        let host = bracket.checked_sub(self.text.len())?;
        fast_coll::equal_bytes(&line[host..bracket], self.text).then_some(host)
    }
}

impl<'a, V: LogVisitor> ChunkWalk<'a, V> {
    /// Walks the line at `start` if it is a common operation of a known speaker and nothing else is
    /// on it. Returns the beginning of the next line.
    #[inline(always)]
    pub(super) fn walk_repeated_line(&mut self, start: usize) -> Option<usize> {
        #[cfg(any(test, fuzzing))]
        if self.long_only {
            return None;
        }
        let line = &self.bytes[start..];
        let bracket = fast_coll::find_dev_bracket(line, self.bracket)?;
        self.bracket = bracket;
        // Two headers may have one slot: the second takes the slot beside it.
        let slot =
            fast_coll::header_slot(line, bracket, MAX_HEADER_SLOTS)? & (self.slots.len() - 1);
        let mut known = &self.slots[slot];
        let host = match known.prefix_start(line, bracket) {
            Some(host) => host,
            None => {
                known = &self.slots[slot ^ 1];
                known.prefix_start(line, bracket)?
            }
        };
        if known.text.is_empty() {
            return None;
        }
        let speaker = known.speaker;
        // A launcher's label comes again with its rank, a stamp with the lines next to it.
        let time = if host == 0 {
            &line[..0]
        } else if fast_coll::equal_bytes(&line[..host], self.prefix.0) {
            self.prefix.1
        } else if fast_coll::equal_bytes(&line[..host], known.prefix)
            && header::find_time_stamp(known.prefix).is_empty()
        {
            &line[..0]
        } else {
            self.parse_later_stamp(&line[..host])?
        };
        let message = &line[bracket + fast_coll::INFO_MARKER_BYTES..];
        let name = fast_coll::common_op_len(message)?;
        let body = &message[name + coll::COLL_ANCHOR.len()..];
        let (front, at) = fast_coll::parse_coll_head(body)?;
        let rest = &body[at..];
        let (back, end) = self.parse_body_end(rest, speaker.place)?;
        let coll = front.join_tail(&message[..name], back);
        let next = self.bytes.len() - rest.len() + end;
        if self.waiting.may_end_within(1) {
            let len = next - 1 - start;
            // The merge reads a stamp only if it is NCCL's own.
            let stamped = time.is_empty() || line[..host].ends_with(b"] ");
            if !(stamped
                && (!self.waiting.may_end_within(2)
                    || self.is_certain(coll.comm, coll.nranks, speaker)))
            {
                // After a launcher's label the beginning of the piece is not known here.
                return (host == 0 && len > TEAR_STRIDE_BYTES && self.waiting.may_end_within(2))
                    .then(|| {
                        self.waiting.pass_line();
                        self.leave_to_merge(start, &line[..len], speaker.place);
                        next
                    });
            }
            self.waiting.pass_line();
            self.note_speaker(speaker.process, start);
        }
        self.visit_call(coll, speaker, true, time, start);
        self.out.account.count_line(LineClass::Call);
        Some(next)
    }

    /// Returns the stamp in `prefix` if it is the last prefix at another time: with digits at the
    /// same places, it has the stamp at the same place.
    #[inline]
    fn parse_later_stamp(&mut self, prefix: &'a [u8]) -> Option<&'a [u8]> {
        let (last, time) = self.prefix;
        if time.is_empty()
            || !fast_coll::equal_but_digits(prefix, last)
            || self.recogniser.may_mark(prefix)
        {
            return None;
        }
        let at = time.as_ptr().addr().checked_sub(last.as_ptr().addr())?;
        let time = prefix.get(at..at + time.len())?;
        self.prefix = (prefix, time);
        Some(time)
    }

    /// Reads a line from its communicator on, which begins `rest`: mostly as on an earlier line.
    /// Returns the beginning of the next line too.
    #[inline(always)]
    fn parse_body_end(&mut self, rest: &'a [u8], speaker: u32) -> Option<(CollTail, usize)> {
        let slot = fast_coll::coll_tail_slot(rest, speaker) & (self.backs.len() - 1);
        let (text, back) = self.backs[slot];
        let is_known = !text.is_empty()
            && rest
                .get(..text.len())
                .is_some_and(|rest| fast_coll::equal_bytes(rest, text));
        if is_known {
            return Some((back, text.len()));
        }
        self.parse_new_body_end(rest, slot)
    }

    #[inline(never)]
    fn parse_new_body_end(&mut self, rest: &'a [u8], slot: usize) -> Option<(CollTail, usize)> {
        let (back, end) = fast_coll::parse_coll_tail(rest)?;
        let next = end + 1;
        let text = rest
            .get(..next)
            .filter(|text| text.last() == Some(&b'\n'))?;
        self.backs[slot] = (text, back);
        Some((back, next))
    }

    /// Begins another text of the chunk: the speakers of the texts before it are met again in it.
    pub(super) fn begin_text(&mut self, start: usize) {
        self.speakers.clear();
        self.slots.fill(KnownHeader::default());
        self.out.origins.begin_text(self.offset + start as u64);
    }

    /// Remembers the speaker of a clean header for the short way.
    pub(super) fn remember_header(
        &mut self,
        start: usize,
        host: usize,
        speaker: HeaderSpeaker,
        time: &'a [u8],
    ) {
        let line = &self.bytes[start..];
        let Some(bracket) = fast_coll::find_dev_bracket(line, 0).filter(|&bracket| bracket > host)
        else {
            return;
        };
        let Some(slot) = fast_coll::header_slot(line, bracket, MAX_HEADER_SLOTS) else {
            return;
        };
        // Old RCCL's header has no such bracket: this one is on the next line.
        if line[..bracket].contains(&b'\n') {
            return;
        }
        let slot = slot & (self.slots.len() - 1);
        let is_free = |slot: usize| self.slots[slot].text.is_empty();
        let slot = if !is_free(slot) && is_free(slot ^ 1) {
            slot ^ 1
        } else {
            slot
        };
        let prefix = &line[..host];
        self.slots[slot] = KnownHeader {
            prefix,
            text: &line[host..bracket],
            speaker,
        };
        self.prefix = (prefix, time);
    }

    /// Walks the line at `start`, which has its anchor at `hit`, if it is one known header and one
    /// whole body and nothing else. Returns the beginning of the next line.
    #[inline]
    pub(super) fn walk_plain_line(&mut self, start: usize, hit: usize) -> Option<usize> {
        #[cfg(any(test, fuzzing))]
        if self.long_only {
            return None;
        }
        let bytes = self.bytes;
        let op = coll::find_op_name(&bytes[start..hit], hit - start)? + start;
        let (speaker, time) = self.parse_speaker(start, op)?;
        let body = &bytes[hit + coll::COLL_ANCHOR.len()..];
        let (rest, coll) = coll::parse_coll_body(&bytes[op..hit], body).ok()?;
        let end = bytes.len() - rest.len();
        let next = match rest {
            [] => end,
            [b'\n', ..] => end + 1,
            _ => {
                let len = memchr(b'\n', rest).unwrap_or(rest.len());
                if !rest[..len].iter().all(|b| matches!(b, b' ' | b'\r')) {
                    return None;
                }
                (end + len + 1).min(bytes.len())
            }
        };
        self.visit_call(coll, speaker, true, time, start);
        self.out.account.count_line(LineClass::Call);
        Some(next)
    }

    /// Remembers the header in front of the anchor at `hit` if it is clean: the next line of its
    /// speaker can take the short way although a line waits.
    pub(super) fn remember_header_before(&mut self, start: usize, hit: usize) {
        #[cfg(any(test, fuzzing))]
        if self.long_only {
            return;
        }
        if let Some(op) = coll::find_op_name(&self.bytes[start..hit], hit - start) {
            self.parse_speaker(start, start + op);
        }
    }
}
