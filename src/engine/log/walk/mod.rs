//! One walk over a chunk of a log: every call, every step line, every INIT line, every damaged
//! piece, and an account of every line.
//!
//! The walk jumps from one COLL body to the next ([`coll::COLL_ANCHOR`]). A line that is one known
//! header and one whole body takes the short way (`short_way`); every other line takes the long way
//! ([`line`]), which looks for everything that can be on it. Both give the same answer; a property
//! test compares them.

mod fragment;
pub(crate) mod limits;
mod line;
mod open_lines;
mod short_way;
mod small_logs;
mod speaker;
mod tear_position;
mod visit;

pub use fragment::{LineDamage, LineFragment, LineHead, TailLikeness, TornPiece};
pub use limits::TEAR_STRIDE_BYTES;
pub(crate) use limits::{CALL_END_WAIT_LINES, MESSAGE_END_WAIT_LINES};
pub use line::classify_cut;
pub(crate) use line::{is_call, is_call_tail, is_init_tail};
pub use small_logs::{FileSpan, walk_small_files};
pub use visit::insert_at_places;
pub use visit::{LogCall, LogVisitor, MessageLine, RepairedCall};

use crate::grammar::coll;
use crate::grammar::fast_coll::CollTail;
use crate::grammar::message::communicator::init::CommInit;
use crate::grammar::trainer::{Recogniser, TrainerMark, TrainerRecord};
use crate::members::duplicate_inputs::{self, InputLastCall, StepFingerprints};
use crate::members::{InitPosition, SpeakerComm, Speakers};
use crate::report::account::Account;
use crate::source::FlushReason;
use limits::{
    CHUNK_BYTES_PER_SLOT, LAST_CALLS_BYTES, MAX_HEADER_SLOTS, MAX_MEMBER_SLOTS, MIN_TABLE_SLOTS,
};
use memchr::memrchr;
use open_lines::OpenLines;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use short_way::KnownHeader;
use speaker::{HeaderSpeaker, NO_MEMBER};

/// A step line, or another line that ends a stretch of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MarkPosition {
    /// The beginning of its line, or of its record if others are before it on the line, in bytes of
    /// the input.
    pub start: u64,
    /// The beginning of the next stretch, in bytes of the input.
    pub cut: u64,
    /// The mark's line, from 0 in the chunk; in the input once merged.
    pub line: u64,
    /// The line that `cut` is in, counted likewise.
    pub next_line: u64,
    /// Its content.
    pub mark: TrainerMark,
}

/// The results of a walk over a chunk: everything that is merged, so that a chunk may be walked on one
/// machine, written, and merged on another.
#[derive(Debug, Serialize, Deserialize)]
pub struct ChunkResult<V> {
    /// What the stage kept.
    pub visit: V,
    /// The speakers that were met.
    pub origins: Speakers,
    /// INIT lines, in order.
    pub inits: Vec<InitPosition>,
    /// Byte ranges of the lines that identify communicators, if they were asked for.
    pub init_lines: Vec<(u64, u64)>,
    /// Step lines and the like, in order.
    pub marks: Vec<MarkPosition>,
    /// Pieces of torn lines, in order.
    pub fragments: Vec<LineFragment>,
    /// The class of each line, but for those with fragments.
    pub account: Account,
    /// Fingerprints that find the chunk's calls in other inputs.
    pub prints: StepFingerprints,
    /// Results so far may be written after this chunk.
    pub pause: Option<FlushReason>,
    /// The log was found to be written in blocks.
    pub is_in_blocks: bool,
}

/// The place of a chunk in its input.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChunkPlace {
    /// Where the chunk begins, in bytes.
    pub offset: u64,
    /// No line before it waits for a tail in it ([`classify_cut`]).
    pub is_quiet: bool,
}

/// Walks the chunk `bytes`.
pub fn walk_bytes<V: LogVisitor>(
    bytes: &[u8],
    place: ChunkPlace,
    recogniser: &Recogniser,
    keep_init_lines: bool,
    visit: V,
) -> ChunkResult<V> {
    let walk = ChunkWalk::new(bytes, place.offset, recogniser, keep_init_lines, visit);
    walk.walk_all(place.is_quiet)
}

/// Walks the chunk `bytes` without the short way.
#[cfg(fuzzing)]
pub fn walk_bytes_slowly<V: LogVisitor>(
    bytes: &[u8],
    place: ChunkPlace,
    recogniser: &Recogniser,
    keep_init_lines: bool,
    visit: V,
) -> ChunkResult<V> {
    let mut walk = ChunkWalk::new(bytes, place.offset, recogniser, keep_init_lines, visit);
    walk.long_only = true;
    walk.walk_all(place.is_quiet)
}

/// Returns the last call at the end of `text` that NCCL counted. Without a network only some of a host's ranks count.
fn find_last_counted_call(text: &[u8]) -> Option<InputLastCall> {
    let end = &text[text.len().saturating_sub(LAST_CALLS_BYTES)..];
    let calls = coll::COLL_ANCHOR_FINDER.find_iter(end);
    let is_counted = |at: &usize| !end[at + coll::COLL_ANCHOR.len()..].starts_with(b"0 ");
    let line = memrchr(b'\n', &end[..calls.filter(is_counted).last()?]).map_or(0, |i| i + 1);
    Some(InputLastCall::in_line(&end[line..]))
}

struct ChunkWalk<'a, V> {
    bytes: &'a [u8],
    offset: u64,
    recogniser: &'a Recogniser,
    keep_init_lines: bool,
    /// Texts in front of bodies, with their speaker and the place of the host.
    speakers: FxHashMap<&'a [u8], (HeaderSpeaker, usize)>,
    /// For an address that this chunk gives a new meaning: the number of that moment, and the meaning.
    generations: FxHashMap<(u32, u64), (u32, CommInit)>,
    /// Counts moments at which addresses may have got a new meaning.
    moments: u32,
    /// The last moment that may concern any address.
    learnt: u32,
    found: Vec<TrainerRecord>,
    /// Known headers, by [`header_slot`](crate::grammar::fast_coll::header_slot).
    slots: Box<[KnownHeader<'a>]>,
    /// Known tails of bodies, each with its line's end, by
    /// [`coll_tail_slot`](crate::grammar::fast_coll::coll_tail_slot).
    backs: Box<[(&'a [u8], CollTail)]>,
    /// The column of the bracket of the last header.
    bracket: usize,
    /// The last prefix in front of a host, and the stamp in it.
    prefix: (&'a [u8], &'a [u8]),
    /// Known members, by a mix of their place and address.
    members: Box<[(SpeakerComm, u32)]>,
    /// The beginning of the current gap.
    gap: usize,
    /// The beginning of the current line.
    line: usize,
    /// Lines without a tail so far.
    waiting: OpenLines,
    /// The current line has the head of another line.
    has_head: bool,
    /// That head may be a message's.
    has_message_head: bool,
    /// Only looks whether a line waits at the end: pieces are not kept.
    is_look: bool,
    /// Never takes the short way.
    #[cfg(any(test, fuzzing))]
    long_only: bool,
    out: ChunkResult<V>,
}

/// Returns the size of a table for a chunk of `len` bytes, a power of two: a small file has few ranks.
fn table_size(len: usize, most: usize) -> usize {
    (len / CHUNK_BYTES_PER_SLOT)
        .next_power_of_two()
        .clamp(MIN_TABLE_SLOTS, most)
}

impl<'a, V: LogVisitor> ChunkWalk<'a, V> {
    fn new(
        bytes: &'a [u8],
        offset: u64,
        recogniser: &'a Recogniser,
        keep_init_lines: bool,
        visit: V,
    ) -> Self {
        let headers = table_size(bytes.len(), MAX_HEADER_SLOTS);
        let members = table_size(bytes.len(), MAX_MEMBER_SLOTS);
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
            slots: vec![KnownHeader::default(); headers].into(),
            backs: vec![Default::default(); headers].into(),
            bracket: 0,
            prefix: (b"", b""),
            members: vec![(NO_MEMBER, 0); members].into(),
            gap: 0,
            line: 0,
            waiting: OpenLines::default(),
            has_head: false,
            has_message_head: false,
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

    /// Walks all of the text; see [`walk_bytes`].
    fn walk_all(mut self, is_quiet: bool) -> ChunkResult<V> {
        self.waiting = OpenLines::new(is_quiet);
        self.walk_lines_from(0);
        self.out.prints.call = self.first_call_fingerprint(self.bytes.len());
        if self.out.account.calls > 0 {
            self.out.prints.last = find_last_counted_call(self.bytes);
        }
        self.out.account.is_open = self.bytes.last().is_some_and(|&b| b != b'\n');
        self.out
    }

    /// Returns the fingerprint of the first call of the current gap, up to `end`.
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
                // The line was taken as the tail of one before it.
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

    /// Walks lines without a body, from `at` up to `end`. Returns where it stopped: beyond `end` if it
    /// needed the line there too.
    fn walk_lines_without_body(&mut self, mut at: usize, end: usize) -> usize {
        while at < end {
            at = self.walk_any_line(at);
        }
        at
    }
}

#[cfg(test)]
pub(crate) mod tests;
