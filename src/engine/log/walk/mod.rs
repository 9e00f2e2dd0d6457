//! One walk over a chunk of a log: every call, every step line, every INIT line, every damaged
//! piece, and an account of every line.
//!
//! The walk jumps from one COLL body to the next ([`coll::COLL_ANCHOR`]). A line that is one header
//! already met and one whole body takes the short way (`Scan::short`); every other line goes
//! through [`line`], which looks at all that can be on it. Both give the same answer; a
//! property test holds the short way against the long one.

mod fragment;
mod line;
mod open_lines;
mod small_logs;
mod tear_position;
mod visit;

use crate::members::duplicate_inputs::StepFingerprints;
use crate::source::FlushReason;
pub use fragment::{
    LineDamage, LineFragment, LineHead, TEAR_STRIDE_BYTES, TailLikeness, TornPiece,
};
pub use line::classify_cut;
pub(crate) use line::{is_call, is_call_tail};
use serde::{Deserialize, Serialize};
pub use small_logs::{FileSpan, walk_small_files};
pub use visit::insert_at_places;
pub use visit::{LogCall, LogVisitor, MessageLine, RepairedCall};

use crate::grammar::coll::{self, Coll};
use crate::grammar::fast_coll::{self, CollTail};
use crate::grammar::header::{self, LineHeader};
use crate::grammar::message::communicator::init::{CommInit, InitEvent};
use crate::grammar::trainer::{Recogniser, TrainerMark, TrainerRecord};
use crate::grammar::values::Datatype;
use crate::grammar::wrap;
use crate::members::duplicate_inputs;
use crate::members::duplicate_inputs::CommOpCount;
use crate::members::{InitPosition, SpeakerComm, Speakers};
use crate::report::account::{Account, LineClass};
use memchr::{memchr, memmem, memrchr};
use open_lines::OpenLines;
pub(crate) use open_lines::{CALL_END_WAIT_LINES, MESSAGE_END_WAIT_LINES};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// A step line, or another line that ends a stretch of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MarkPosition {
    /// Where its own line (or record, if others are before it on the line) begins, in bytes
    /// of the input.
    pub start: u64,
    /// Where the next stretch begins, in bytes of the input.
    pub cut: u64,
    /// The mark's line, from 0 in the chunk; in the input once merged.
    pub line: u64,
    /// The line that `cut` is in, counted likewise.
    pub next_line: u64,
    /// What it says.
    pub mark: TrainerMark,
}

/// What a chunk holds: all that is merged, so that a chunk may be walked on one machine, written, and
/// merged in its turn on another.
#[derive(Debug, Serialize, Deserialize)]
pub struct ChunkResult<V> {
    /// What the stage kept.
    pub visit: V,
    /// Who spoke.
    pub origins: Speakers,
    /// INIT lines, in order.
    pub inits: Vec<InitPosition>,
    /// Byte ranges of the lines that identify communicators, if they were asked for.
    pub init_lines: Vec<(u64, u64)>,
    /// Step lines and the like, in order.
    pub marks: Vec<MarkPosition>,
    /// Pieces of torn lines, in order.
    pub fragments: Vec<LineFragment>,
    /// Where each line went, but for those with fragments.
    pub account: Account,
    /// By what it is known again.
    pub prints: StepFingerprints,
    /// What is known so far may be written after it.
    pub pause: Option<FlushReason>,
    /// The log was found to be written in blocks.
    pub is_in_blocks: bool,
}

/// A header as the walk remembers it.
#[derive(Debug, Clone, Copy, Default)]
struct HeaderSpeaker {
    place: u32,
    process: u32,
    tid: Option<u64>,
}

/// Walks `bytes`, which begin at `offset` of their input; `quietly` says that no line before it
/// waits for an end in it ([`classify_cut`]).
pub fn walk_bytes<V: LogVisitor>(
    bytes: &[u8],
    (offset, quietly): (u64, bool),
    recogniser: &Recogniser,
    keep_init_lines: bool,
    visit: V,
) -> ChunkResult<V> {
    let scan = ChunkWalk::new(bytes, offset, recogniser, keep_init_lines, visit);
    scan.walk_all(quietly)
}

/// The last call in `text`.
fn find_last_call(text: &[u8]) -> Option<CommOpCount> {
    static LAST: LazyLock<memmem::FinderRev<'static>> =
        LazyLock::new(|| memmem::FinderRev::new(coll::COLL_ANCHOR));
    let line = memrchr(b'\n', &text[..LAST.rfind(text)?]).map_or(0, |i| i + 1);
    Some(duplicate_inputs::fingerprint_call_line(&text[line..]).count)
}

/// Walks `bytes` like [`walk_bytes`], without its fast path.
#[cfg(fuzzing)]
pub fn walk_bytes_slowly<V: LogVisitor>(
    bytes: &[u8],
    (offset, quietly): (u64, bool),
    recogniser: &Recogniser,
    keep_init_lines: bool,
    visit: V,
) -> ChunkResult<V> {
    let mut walk = ChunkWalk::new(bytes, offset, recogniser, keep_init_lines, visit);
    walk.long_only = true;
    walk.walk_all(quietly)
}

struct ChunkWalk<'a, V> {
    bytes: &'a [u8],
    offset: u64,
    recogniser: &'a Recogniser,
    keep_init_lines: bool,
    /// What the text in front of a body said, for texts that come again, and where its host is.
    speakers: FxHashMap<&'a [u8], (HeaderSpeaker, usize)>,
    /// For an address given anew in this chunk: the number of that moment, and what it means now.
    generations: FxHashMap<(u32, u64), (u32, CommInit)>,
    /// How many moments there were at which addresses may have been given anew.
    moments: u32,
    /// The last of them that may be of any address.
    learnt: u32,
    found: Vec<TrainerRecord>,
    /// Headers met, by [`hot::slot`].
    slots: Box<[KnownHeader<'a>]>,
    /// Ends of bodies met, each with its line's end, by [`hot::back_slot`].
    backs: Box<[(&'a [u8], CollTail)]>,
    /// Where the bracket of the header before stood in its line.
    bracket: usize,
    /// The prefix met last in front of a host, and the stamp in it.
    prefix: (&'a [u8], &'a [u8]),
    /// Members met, by a mix of their place and address.
    members: Box<[(SpeakerComm, u32)]>,
    /// Where the gap in hand begins.
    gap: usize,
    /// Where the line in hand begins.
    line: usize,
    /// Lines that were begun and whose ends may still come.
    waiting: OpenLines,
    /// The same on the line in hand: whether one was begun, and whether it is no call's.
    here: (bool, bool),
    /// Only whether a line waits at the end is wanted: pieces are not kept.
    is_look: bool,
    /// Never take the short way: the twin it is held against.
    #[cfg(any(test, fuzzing))]
    long_only: bool,
    out: ChunkResult<V>,
}

/// A header that [`Scan::hot`] knows: the text from its host to its device, and what stood in
/// front of it.
#[derive(Debug, Clone, Copy)]
struct KnownHeader<'a> {
    prefix: &'a [u8],
    text: &'a [u8],
    speaker: HeaderSpeaker,
}

impl KnownHeader<'_> {
    /// Where its text begins in a line that has it in front of `bracket`.
    #[inline(always)]
    fn prefix_start(&self, line: &[u8], bracket: usize) -> Option<usize> {
        let host = bracket.checked_sub(self.text.len())?;
        fast_coll::equal_bytes(&line[host..bracket], self.text).then_some(host)
    }
}

/// How many headers [`Scan::hot`] knows at a time, at most: enough for the ranks of some nodes.
const MAX_HEADER_SLOTS: usize = 1024;

/// A member that none is: nobody's place.
const NO_MEMBER: SpeakerComm = SpeakerComm {
    place: u32::MAX,
    comm: 0,
    nranks: None,
    identity: 0,
};

/// How many members are found without a hash table, at most.
const MAX_MEMBER_SLOTS: usize = 1024;

/// Texts in front of bodies that are remembered; a log with more (time stamps the grammar does
/// not know) only becomes slower.
const MAX_SPEAKER_TEXTS: usize = 1 << 16;

/// Places of a table for a chunk of `len` bytes: a small file has few ranks, and to clear a large
/// table would take as long as to walk it. A power of two.
fn table_size(len: usize, most: usize) -> usize {
    (len / 1024).next_power_of_two().clamp(64, most)
}

impl<'a, V: LogVisitor> ChunkWalk<'a, V> {
    fn new(
        bytes: &'a [u8],
        offset: u64,
        recogniser: &'a Recogniser,
        keep_init_lines: bool,
        visit: V,
    ) -> Self {
        ChunkWalk {
            bytes,
            offset,
            recogniser,
            keep_init_lines,
            speakers: FxHashMap::default(),
            generations: FxHashMap::default(),
            moments: 0,
            learnt: 0,
            found: Vec::new(),
            slots: vec![
                KnownHeader {
                    prefix: b"",
                    text: b"",
                    speaker: HeaderSpeaker::default()
                };
                table_size(bytes.len(), MAX_HEADER_SLOTS)
            ]
            .into(),
            backs: vec![Default::default(); table_size(bytes.len(), MAX_HEADER_SLOTS)].into(),
            bracket: 0,
            prefix: (b"", b""),
            members: vec![(NO_MEMBER, 0); table_size(bytes.len(), MAX_MEMBER_SLOTS)].into(),
            gap: 0,
            line: 0,
            waiting: OpenLines::default(),
            here: (false, false),
            is_look: false,
            #[cfg(any(test, fuzzing))]
            long_only: false,
            out: ChunkResult {
                visit,
                origins: Speakers::default(),
                inits: Vec::new(),
                init_lines: Vec::new(),
                marks: Vec::new(),
                fragments: Vec::new(),
                account: Account::default(),
                prints: StepFingerprints::default(),
                pause: None,
                is_in_blocks: false,
            },
        }
    }

    /// Walks all of the text; see [`scan()`].
    fn walk_all(mut self, quietly: bool) -> ChunkResult<V> {
        self.waiting = OpenLines::new(quietly);
        self.walk_lines_from(0);
        self.out.prints.call = self.first_call_fingerprint(self.bytes.len());
        if self.out.account.calls > 0 {
            self.out.prints.last = find_last_call(self.bytes);
        }
        self.out.account.is_open = self.bytes.last().is_some_and(|&b| b != b'\n');
        self.out
    }

    /// By what the first call of the gap in hand, up to `end`, is known again.
    fn first_call_fingerprint(&self, end: usize) -> Option<u64> {
        let gap = self.bytes.get(self.gap..end)?;
        let line = memrchr(b'\n', &gap[..coll::COLL_ANCHOR_FINDER.find(gap)?]).map_or(0, |i| i + 1);
        Some(duplicate_inputs::fingerprint_call_line(&gap[line..]).hash).filter(|&hash| hash != 0)
    }

    /// Walks the lines from `at` on.
    fn walk_lines_from(&mut self, mut at: usize) {
        let bytes = self.bytes;
        loop {
            if let Some(next) = self.walk_repeated_line(at) {
                at = next;
                continue;
            }
            let Some(hit) = coll::COLL_ANCHOR_FINDER.find(&bytes[at..]).map(|i| at + i) else {
                break;
            };
            let start = memrchr(b'\n', &bytes[at..hit]).map_or(at, |i| at + i + 1);
            at = self.walk_lines_without_body(at, start);
            if at > start {
                // The line was taken as the second half of one before it.
                continue;
            }
            let short = if self.waiting.may_end_within(1) {
                self.remember_header_before(start, hit);
                None
            } else {
                self.walk_plain_line(start, hit)
            };
            at = match short {
                Some(next) => next,
                None => self.walk_any_line(start),
            };
        }
        self.walk_lines_without_body(at, bytes.len());
    }

    /// Lines without a body, from `at` up to `end`. Gives where it stopped: beyond `end` if
    /// the line there was needed too.
    fn walk_lines_without_body(&mut self, mut at: usize, end: usize) -> usize {
        while at < end {
            at = self.walk_any_line(at);
        }
        at
    }

    /// The line at `start`, if a speaker met before says a common operation and nothing else
    /// is on it. Gives where the next line starts.
    #[inline(always)]
    fn walk_repeated_line(&mut self, start: usize) -> Option<usize> {
        #[cfg(any(test, fuzzing))]
        if self.long_only {
            return None;
        }
        let line = &self.bytes[start..];
        let bracket = fast_coll::find_dev_bracket(line, self.bracket)?;
        self.bracket = bracket;
        // A second header may want the same place: it has the one beside it.
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
            // The merge sees a stamp only where it is NCCL's own.
            let stamped = time.is_empty() || line[..host].ends_with(b"] ");
            if !(stamped
                && (!self.waiting.may_end_within(2)
                    || self.is_certain((coll.comm, coll.nranks), speaker)))
            {
                // After a launcher's label it is not known here where the piece begins.
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
        self.visit_call(coll, (speaker, true), time, start);
        self.out.account.count_line(LineClass::Call);
        Some(next)
    }

    /// The stamp in `prefix`, where it is the prefix met last at another time: what has digits in the
    /// same places is taken apart in the same way.
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

    /// What a line says from its communicator on, which begins `rest`, and where the next line
    /// begins: mostly as on a line before it.
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

    /// Leaves a whole line that begins with its header to the merge.
    #[cold]
    fn leave_to_merge(&mut self, start: usize, line: &[u8], place: u32) {
        let begun = LineHead {
            place,
            label: Box::default(),
            text: if self.is_look {
                Box::default()
            } else {
                line.into()
            },
            time: Box::default(),
        };
        let piece = TornPiece::Doubtful {
            begun,
            broken: None,
        };
        let number = self.out.account.lines;
        self.add_fragment(piece, number, 0, start);
        self.out.account.lines += 1;
    }

    /// A process writes its next line: one that it may have begun before has its end.
    fn note_speaker(&mut self, process: u32, start: usize) {
        if self.waiting.may_end_within(1) && self.waiting.end_line_of(self.process_if_sure(process))
        {
            let number = self.out.account.lines;
            self.add_fragment(TornPiece::Heard { process }, number, 0, start);
        }
    }

    /// True for a call that the merge would leave to its speaker although a torn line's end may
    /// are in it ([`Piece::Doubtful`]): its process was seen to use this communicator, in this
    /// chunk and for certain.
    fn is_certain(&self, comm: (u64, Option<u32>), speaker: HeaderSpeaker) -> bool {
        let (member, at) = self.find_member(comm, speaker);
        self.members[at].0 == member && self.process_if_sure(speaker.process).is_some()
    }

    /// A process, if its name is sure: else it may be another one's.
    fn process_if_sure(&self, process: u32) -> Option<u32> {
        self.out.origins.is_clean(process).then_some(process)
    }

    /// Who makes a call on a communicator of that size, and the place in `members` of that. The
    /// rest of the call is not handed on: what a stage does not read is then not put together.
    #[inline(always)]
    fn find_member(
        &self,
        (comm, nranks): (u64, Option<u32>),
        speaker: HeaderSpeaker,
    ) -> (SpeakerComm, usize) {
        let generation = if self.generations.is_empty() {
            self.learnt
        } else {
            let given = self.generations.get(&(speaker.process, comm));
            given.map_or(0, |given| given.0).max(self.learnt)
        };
        let member = SpeakerComm {
            place: speaker.place,
            comm,
            nranks,
            identity: generation,
        };
        let mixed = (comm ^ u64::from(speaker.place)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (member, (mixed >> 40) as usize & (self.members.len() - 1))
    }

    /// Remembers the speaker of a clean header, for [`Scan::hot`].
    fn remember_header(
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
        // Old RCCL's header has no such bracket: the one found is the next line's.
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

    /// The line at `start` whose anchor is at `hit`, if it is one known header and one whole
    /// body and nothing else. Gives where the next line starts.
    #[inline]
    fn walk_plain_line(&mut self, start: usize, hit: usize) -> Option<usize> {
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
        self.visit_call(coll, (speaker, true), time, start);
        self.out.account.count_line(LineClass::Call);
        Some(next)
    }

    /// Remembers the header in front of the anchor at `hit`, if it is a clean one: the next line
    /// of its speaker need not go the long way although a line waits.
    fn remember_header_before(&mut self, start: usize, hit: usize) {
        #[cfg(any(test, fuzzing))]
        if self.long_only {
            return;
        }
        if let Some(op) = coll::find_op_name(&self.bytes[start..hit], hit - start) {
            self.parse_speaker(start, start + op);
        }
    }

    /// Who speaks in the text `start..op` if it is a plain header, and the stamp in it.
    #[inline]
    fn parse_speaker(&mut self, start: usize, op: usize) -> Option<(HeaderSpeaker, &'a [u8])> {
        let text = &self.bytes[start..op];
        if let Some(&(speaker, host)) = self.speakers.get(text) {
            self.remember_header(start, host, speaker, b"");
            return Some((speaker, b""));
        }
        // In front of the host there may be a wrapping, such as a colour; from there on none.
        let unwrapped = wrap::unwrap_line(text, &|text| line::is_wanted(text, self.recogniser));
        let plain = unwrapped.as_ref().map_or(text, |text| text.text());
        let header = header::find_header(plain, 0)?;
        let host = text.len().checked_sub(plain.len() - header.start)?;
        let is_clean = header.body == plain.len()
            && line::is_prefix(&plain[..header.start], self.recogniser)
            && text[host..] == plain[header.start..];
        let time = header::find_time_stamp(&text[..host]);
        let is_same_time = unwrapped.is_none()
            || (time.is_empty() && header::find_time_stamp(&plain[..header.start]).is_empty());
        if !is_clean || !is_same_time {
            return None;
        }
        self.line = start;
        let speaker = self.intern_header_speaker(&header, true);
        self.remember_header(start, host, speaker, time);
        if time.is_empty() && self.speakers.len() < MAX_SPEAKER_TEXTS {
            self.speakers.insert(text, (speaker, host));
        }
        Some((speaker, time))
    }

    /// Who speaks in a header; `clean` says that nothing of another's text can be in its host.
    fn intern_header_speaker(&mut self, header: &LineHeader<'_>, clean: bool) -> HeaderSpeaker {
        let at = self.offset + self.line as u64;
        let origins = &mut self.out.origins;
        let process = origins.intern_speaker(header.host, Some(header.pid), clean, at);
        let place = self.out.origins.intern_device(process, header.dev);
        HeaderSpeaker {
            place,
            process,
            tid: Some(header.tid),
        }
    }

    /// The speaker of a body without a header.
    fn unknown_speaker(&mut self) -> HeaderSpeaker {
        let at = self.offset + self.line as u64;
        let process = self.out.origins.intern_speaker(b"", None, true, at);
        HeaderSpeaker {
            place: self.out.origins.intern_device(process, None),
            process,
            tid: None,
        }
    }

    // Inlined whole: a stage that does not ask for a field does not pay for reading it.
    #[inline(always)]
    fn visit_call(
        &mut self,
        coll: Coll<'_>,
        (speaker, is_sure): (HeaderSpeaker, bool),
        time: &[u8],
        at: usize,
    ) {
        let (member, place) = self.find_member((coll.comm, coll.nranks), speaker);
        let slot = &mut self.members[place];
        if slot.0 != member {
            let bytes = &self.bytes[at..];
            let print = || duplicate_inputs::fingerprint_call_line(bytes);
            let at = self.offset + at as u64;
            *slot = (member, self.out.origins.intern_member(member, at, print));
        }
        let member = slot.1;
        self.out.account.calls += 1;
        if Datatype(coll.datatype).size().is_none() {
            *self
                .out
                .account
                .unknown_datatypes
                .entry(coll.datatype)
                .or_default() += 1;
        }
        self.out.visit.call(&LogCall {
            coll,
            member,
            process: speaker.process,
            is_sure,
            tid: speaker.tid,
            time,
            at: self.offset + at as u64,
        });
    }

    fn add_init_line(&mut self, init: CommInit, speaker: HeaderSpeaker, at: usize) {
        let key = (speaker.process, init.comm);
        // Names that are not sure may be this process's, or this one may be another's: only the
        // merge knows what it goes on from.
        let is_sure = !self.out.origins.has_glued();
        let before = self.generations.get(&key);
        if is_sure && before.is_some_and(|(_, before)| before.is_same_life(&init)) {
            return;
        }
        self.moments += 1;
        self.generations.insert(key, (self.moments, init));
        if !is_sure {
            self.learnt = self.moments;
        }
        self.out.inits.push(InitPosition {
            process: speaker.process,
            init,
            at: self.offset + at as u64,
        });
        debug_assert!(matches!(init.event, InitEvent::Init | InitEvent::End));
    }
}

#[cfg(test)]
pub(crate) mod tests;
