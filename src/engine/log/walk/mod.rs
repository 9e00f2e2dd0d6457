//! One walk over a chunk of a log: every call, every step line, every INIT line, every damaged
//! piece, and an account of every line.
//!
//! The walk jumps from one COLL body to the next ([`coll::ANCHOR`]). A line that is one header
//! already met and one whole body takes the short way (`Scan::short`); every other line goes
//! through [`line`], which looks at all that can be on it. Both give the same answer; a
//! property test holds the short way against the long one.

mod fragment;
mod line;
mod together;
mod torn;
mod visit;
mod waiting;

use crate::members::twice::Prints;
use crate::source::Pause;
pub use fragment::{Begun, Broken, Fragment, Looks, Piece, TEAR};
pub use line::place;
pub(crate) use line::{is_call, is_call_tail};
use serde::{Deserialize, Serialize};
pub use together::{Had, together};
pub use visit::put_in;
pub use visit::{Call, Said, Torn, Visit};

use crate::grammar::coll::{self, Coll};
use crate::grammar::header::{self, Header};
use crate::grammar::hot::{self, Back};
use crate::grammar::message::communicator::init::{Event, Init};
use crate::grammar::trainer::{Found, Mark, Recogniser};
use crate::grammar::values::Datatype;
use crate::grammar::wrap;
use crate::members::twice;
use crate::members::twice::Count;
use crate::members::{InitAt, Member, Origins};
use crate::report::account::{Account, Class};
use memchr::{memchr, memmem, memrchr};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;
use waiting::Waiting;
pub(crate) use waiting::{WAIT, WAIT_FOR_MESSAGE};

/// A step line, or another line that ends a stretch of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MarkAt {
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
    pub mark: Mark,
}

/// What a chunk holds: all that is merged, so that a chunk may be walked on one machine, written, and
/// merged in its turn on another.
#[derive(Debug, Serialize, Deserialize)]
pub struct Scanned<V> {
    /// What the stage kept.
    pub visit: V,
    /// Who spoke.
    pub origins: Origins,
    /// INIT lines, in order.
    pub inits: Vec<InitAt>,
    /// Byte ranges of the lines that identify communicators, if they were asked for.
    pub init_lines: Vec<(u64, u64)>,
    /// Step lines and the like, in order.
    pub marks: Vec<MarkAt>,
    /// Pieces of torn lines, in order.
    pub fragments: Vec<Fragment>,
    /// Where each line went, but for those with fragments.
    pub account: Account,
    /// By what it is known again.
    pub prints: Prints,
    /// What is known so far may be written after it.
    pub pause: Option<Pause>,
    /// The log was found to be written in blocks.
    pub is_in_blocks: bool,
}

/// A header as the walk remembers it.
#[derive(Debug, Clone, Copy, Default)]
struct Speaker {
    place: u32,
    process: u32,
    tid: Option<u64>,
}

/// Walks `bytes`, which begin at `offset` of their input; `quietly` says that no line before it
/// waits for an end in it ([`place`]).
pub fn scan<V: Visit>(
    bytes: &[u8],
    (offset, quietly): (u64, bool),
    recogniser: &Recogniser,
    keep_init_lines: bool,
    visit: V,
) -> Scanned<V> {
    let scan = Scan::new(bytes, offset, recogniser, keep_init_lines, visit);
    scan.whole(quietly)
}

/// The last call in `text`.
fn last_call(text: &[u8]) -> Option<Count> {
    static LAST: LazyLock<memmem::FinderRev<'static>> =
        LazyLock::new(|| memmem::FinderRev::new(coll::ANCHOR));
    let line = memrchr(b'\n', &text[..LAST.rfind(text)?]).map_or(0, |i| i + 1);
    Some(twice::print(&text[line..]).count)
}

/// The same without the short way.
#[cfg(fuzzing)]
pub fn scan_slowly<V: Visit>(
    bytes: &[u8],
    (offset, quietly): (u64, bool),
    recogniser: &Recogniser,
    keep_init_lines: bool,
    visit: V,
) -> Scanned<V> {
    let mut scan = Scan::new(bytes, offset, recogniser, keep_init_lines, visit);
    scan.long_only = true;
    scan.whole(quietly)
}

struct Scan<'a, V> {
    bytes: &'a [u8],
    offset: u64,
    recogniser: &'a Recogniser,
    keep_init_lines: bool,
    /// What the text in front of a body said, for texts that come again, and where its host is.
    speakers: FxHashMap<&'a [u8], (Speaker, usize)>,
    /// For an address given anew in this chunk: the number of that moment, and what it means now.
    generations: FxHashMap<(u32, u64), (u32, Init)>,
    /// How many moments there were at which addresses may have been given anew.
    moments: u32,
    /// The last of them that may be of any address.
    learnt: u32,
    found: Vec<Found>,
    /// Headers met, by [`hot::slot`].
    slots: Box<[Known<'a>]>,
    /// Ends of bodies met, each with its line's end, by [`hot::back_slot`].
    backs: Box<[(&'a [u8], Back)]>,
    /// Where the bracket of the header before stood in its line.
    bracket: usize,
    /// The prefix met last in front of a host, and the stamp in it.
    prefix: (&'a [u8], &'a [u8]),
    /// Members met, by a mix of their place and address.
    members: Box<[(Member, u32)]>,
    /// Where the gap in hand begins.
    gap: usize,
    /// Where the line in hand begins.
    line: usize,
    /// Lines that were begun and whose ends may still come.
    waiting: Waiting,
    /// The same on the line in hand: whether one was begun, and whether it is no call's.
    here: (bool, bool),
    /// Only whether a line waits at the end is wanted: pieces are not kept.
    is_look: bool,
    /// Never take the short way: the twin it is held against.
    #[cfg(any(test, fuzzing))]
    long_only: bool,
    out: Scanned<V>,
}

/// A header that [`Scan::hot`] knows: the text from its host to its device, and what stood in
/// front of it.
#[derive(Debug, Clone, Copy)]
struct Known<'a> {
    prefix: &'a [u8],
    text: &'a [u8],
    speaker: Speaker,
}

impl Known<'_> {
    /// Where its text begins in a line that has it in front of `bracket`.
    #[inline(always)]
    fn before(&self, line: &[u8], bracket: usize) -> Option<usize> {
        let host = bracket.checked_sub(self.text.len())?;
        hot::same(&line[host..bracket], self.text).then_some(host)
    }
}

/// How many headers [`Scan::hot`] knows at a time, at most: enough for the ranks of some nodes.
const SLOTS: usize = 1024;

/// A member that none is: nobody's place.
const NO_MEMBER: Member = Member {
    place: u32::MAX,
    comm: 0,
    nranks: None,
    identity: 0,
};

/// How many members are found without a hash table, at most.
const MEMBERS: usize = 1024;

/// Texts in front of bodies that are remembered; a log with more (time stamps the grammar does
/// not know) only becomes slower.
const SPEAKERS: usize = 1 << 16;

/// Places of a table for a chunk of `len` bytes: a small file has few ranks, and to clear a large
/// table would take as long as to walk it. A power of two.
fn places(len: usize, most: usize) -> usize {
    (len / 1024).next_power_of_two().clamp(64, most)
}

impl<'a, V: Visit> Scan<'a, V> {
    fn new(
        bytes: &'a [u8],
        offset: u64,
        recogniser: &'a Recogniser,
        keep_init_lines: bool,
        visit: V,
    ) -> Self {
        Scan {
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
                Known {
                    prefix: b"",
                    text: b"",
                    speaker: Speaker::default()
                };
                places(bytes.len(), SLOTS)
            ]
            .into(),
            backs: vec![Default::default(); places(bytes.len(), SLOTS)].into(),
            bracket: 0,
            prefix: (b"", b""),
            members: vec![(NO_MEMBER, 0); places(bytes.len(), MEMBERS)].into(),
            gap: 0,
            line: 0,
            waiting: Waiting::default(),
            here: (false, false),
            is_look: false,
            #[cfg(any(test, fuzzing))]
            long_only: false,
            out: Scanned {
                visit,
                origins: Origins::default(),
                inits: Vec::new(),
                init_lines: Vec::new(),
                marks: Vec::new(),
                fragments: Vec::new(),
                account: Account::default(),
                prints: Prints::default(),
                pause: None,
                is_in_blocks: false,
            },
        }
    }

    /// Walks all of the text; see [`scan()`].
    fn whole(mut self, quietly: bool) -> Scanned<V> {
        self.waiting = Waiting::new(quietly);
        self.walk(0);
        self.out.prints.call = self.first_call(self.bytes.len());
        if self.out.account.calls > 0 {
            self.out.prints.last = last_call(self.bytes);
        }
        self.out.account.is_open = self.bytes.last().is_some_and(|&b| b != b'\n');
        self.out
    }

    /// By what the first call of the gap in hand, up to `end`, is known again.
    fn first_call(&self, end: usize) -> Option<u64> {
        let gap = self.bytes.get(self.gap..end)?;
        let line = memrchr(b'\n', &gap[..coll::FINDER.find(gap)?]).map_or(0, |i| i + 1);
        Some(twice::print(&gap[line..]).hash).filter(|&hash| hash != 0)
    }

    /// Walks the lines from `at` on.
    fn walk(&mut self, mut at: usize) {
        let bytes = self.bytes;
        loop {
            if let Some(next) = self.hot(at) {
                at = next;
                continue;
            }
            let Some(hit) = coll::FINDER.find(&bytes[at..]).map(|i| at + i) else {
                break;
            };
            let start = memrchr(b'\n', &bytes[at..hit]).map_or(at, |i| at + i + 1);
            at = self.lines(at, start);
            if at > start {
                // The line was taken as the second half of one before it.
                continue;
            }
            let short = if self.waiting.is_on(1) {
                self.meet(start, hit);
                None
            } else {
                self.short(start, hit)
            };
            at = match short {
                Some(next) => next,
                None => self.long(start),
            };
        }
        self.lines(at, bytes.len());
    }

    /// Lines without a body, from `at` up to `end`. Gives where it stopped: beyond `end` if
    /// the line there was needed too.
    fn lines(&mut self, mut at: usize, end: usize) -> usize {
        while at < end {
            at = self.long(at);
        }
        at
    }

    /// The line at `start`, if a speaker met before says a common operation and nothing else
    /// is on it. Gives where the next line starts.
    #[inline(always)]
    fn hot(&mut self, start: usize) -> Option<usize> {
        #[cfg(any(test, fuzzing))]
        if self.long_only {
            return None;
        }
        let line = &self.bytes[start..];
        let bracket = hot::bracket(line, self.bracket)?;
        self.bracket = bracket;
        // A second header may want the same place: it has the one beside it.
        let slot = hot::slot(line, bracket, SLOTS)? & (self.slots.len() - 1);
        let mut known = &self.slots[slot];
        let host = match known.before(line, bracket) {
            Some(host) => host,
            None => {
                known = &self.slots[slot ^ 1];
                known.before(line, bracket)?
            }
        };
        if known.text.is_empty() {
            return None;
        }
        let speaker = known.speaker;
        // A launcher's label comes again with its rank, a stamp with the lines next to it.
        let time = if host == 0 {
            &line[..0]
        } else if hot::same(&line[..host], self.prefix.0) {
            self.prefix.1
        } else if hot::same(&line[..host], known.prefix) && header::time(known.prefix).is_empty() {
            &line[..0]
        } else {
            self.later(&line[..host])?
        };
        let message = &line[bracket + hot::BEHIND_BRACKET..];
        let name = hot::operation(message)?;
        let body = &message[name + coll::ANCHOR.len()..];
        let (front, at) = hot::front(body)?;
        let rest = &body[at..];
        let (back, end) = self.back(rest, speaker.place)?;
        let coll = front.with(&message[..name], back);
        let next = self.bytes.len() - rest.len() + end;
        if self.waiting.is_on(1) {
            let len = next - 1 - start;
            // The merge sees a stamp only where it is NCCL's own.
            let stamped = time.is_empty() || line[..host].ends_with(b"] ");
            if !(stamped
                && (!self.waiting.is_on(2) || self.is_certain((coll.comm, coll.nranks), speaker)))
            {
                // After a launcher's label it is not known here where the piece begins.
                return (host == 0 && len > TEAR && self.waiting.is_on(2)).then(|| {
                    self.waiting.pass();
                    self.doubtful(start, &line[..len], speaker.place);
                    next
                });
            }
            self.waiting.pass();
            self.heard(speaker.process, start);
        }
        self.call(coll, (speaker, true), time, start);
        self.out.account.line(Class::Call);
        Some(next)
    }

    /// The stamp in `prefix`, where it is the prefix met last at another time: what has digits in the
    /// same places is taken apart in the same way.
    #[inline]
    fn later(&mut self, prefix: &'a [u8]) -> Option<&'a [u8]> {
        let (last, time) = self.prefix;
        if time.is_empty() || !hot::alike(prefix, last) || self.recogniser.may_mark(prefix) {
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
    fn back(&mut self, rest: &'a [u8], speaker: u32) -> Option<(Back, usize)> {
        let slot = hot::back_slot(rest, speaker) & (self.backs.len() - 1);
        let (text, back) = self.backs[slot];
        let is_known = !text.is_empty()
            && rest
                .get(..text.len())
                .is_some_and(|rest| hot::same(rest, text));
        if is_known {
            return Some((back, text.len()));
        }
        self.new_back(rest, slot)
    }

    #[inline(never)]
    fn new_back(&mut self, rest: &'a [u8], slot: usize) -> Option<(Back, usize)> {
        let (back, end) = hot::back(rest)?;
        let next = end + 1;
        let text = rest
            .get(..next)
            .filter(|text| text.last() == Some(&b'\n'))?;
        self.backs[slot] = (text, back);
        Some((back, next))
    }

    /// Leaves a whole line that begins with its header to the merge.
    #[cold]
    fn doubtful(&mut self, start: usize, line: &[u8], place: u32) {
        let begun = Begun {
            place,
            label: Box::default(),
            text: if self.is_look {
                Box::default()
            } else {
                line.into()
            },
            time: Box::default(),
        };
        let piece = Piece::Doubtful {
            begun,
            broken: None,
        };
        let number = self.out.account.lines;
        self.fragment(piece, number, 0, start);
        self.out.account.lines += 1;
    }

    /// A process writes its next line: one that it may have begun before has its end.
    fn heard(&mut self, process: u32, start: usize) {
        if self.waiting.is_on(1) && self.waiting.hears(self.sure(process)) {
            let number = self.out.account.lines;
            self.fragment(Piece::Heard { process }, number, 0, start);
        }
    }

    /// True for a call that the merge would leave to its speaker although a torn line's end may
    /// are in it ([`Piece::Doubtful`]): its process was seen to use this communicator, in this
    /// chunk and for certain.
    fn is_certain(&self, comm: (u64, Option<u32>), speaker: Speaker) -> bool {
        let (member, at) = self.member(comm, speaker);
        self.members[at].0 == member && self.sure(speaker.process).is_some()
    }

    /// A process, if its name is sure: else it may be another one's.
    fn sure(&self, process: u32) -> Option<u32> {
        self.out.origins.is_clean(process).then_some(process)
    }

    /// Who makes a call on a communicator of that size, and the place in `members` of that. The
    /// rest of the call is not handed on: what a stage does not read is then not put together.
    #[inline(always)]
    fn member(&self, (comm, nranks): (u64, Option<u32>), speaker: Speaker) -> (Member, usize) {
        let generation = if self.generations.is_empty() {
            self.learnt
        } else {
            let given = self.generations.get(&(speaker.process, comm));
            given.map_or(0, |given| given.0).max(self.learnt)
        };
        let member = Member {
            place: speaker.place,
            comm,
            nranks,
            identity: generation,
        };
        let mixed = (comm ^ u64::from(speaker.place)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (member, (mixed >> 40) as usize & (self.members.len() - 1))
    }

    /// Remembers the speaker of a clean header, for [`Scan::hot`].
    fn remember(&mut self, start: usize, host: usize, speaker: Speaker, time: &'a [u8]) {
        let line = &self.bytes[start..];
        let Some(bracket) = hot::bracket(line, 0).filter(|&bracket| bracket > host) else {
            return;
        };
        let Some(slot) = hot::slot(line, bracket, SLOTS) else {
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
        self.slots[slot] = Known {
            prefix,
            text: &line[host..bracket],
            speaker,
        };
        self.prefix = (prefix, time);
    }

    /// The line at `start` whose anchor is at `hit`, if it is one known header and one whole
    /// body and nothing else. Gives where the next line starts.
    #[inline]
    fn short(&mut self, start: usize, hit: usize) -> Option<usize> {
        #[cfg(any(test, fuzzing))]
        if self.long_only {
            return None;
        }
        let bytes = self.bytes;
        let op = coll::name_before(&bytes[start..hit], hit - start)? + start;
        let (speaker, time) = self.speaker(start, op)?;
        let body = &bytes[hit + coll::ANCHOR.len()..];
        let (rest, coll) = coll::body(&bytes[op..hit], body).ok()?;
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
        self.call(coll, (speaker, true), time, start);
        self.out.account.line(Class::Call);
        Some(next)
    }

    /// Remembers the header in front of the anchor at `hit`, if it is a clean one: the next line
    /// of its speaker need not go the long way although a line waits.
    fn meet(&mut self, start: usize, hit: usize) {
        #[cfg(any(test, fuzzing))]
        if self.long_only {
            return;
        }
        if let Some(op) = coll::name_before(&self.bytes[start..hit], hit - start) {
            self.speaker(start, start + op);
        }
    }

    /// Who speaks in the text `start..op` if it is a plain header, and the stamp in it.
    #[inline]
    fn speaker(&mut self, start: usize, op: usize) -> Option<(Speaker, &'a [u8])> {
        let text = &self.bytes[start..op];
        if let Some(&(speaker, host)) = self.speakers.get(text) {
            self.remember(start, host, speaker, b"");
            return Some((speaker, b""));
        }
        // In front of the host there may be a wrapping, such as a colour; from there on none.
        let unwrapped = wrap::unwrapped(text, &|text| line::is_wanted(text, self.recogniser));
        let plain = unwrapped.as_ref().map_or(text, |text| text.text());
        let header = header::find(plain, 0)?;
        let host = text.len().checked_sub(plain.len() - header.start)?;
        let is_clean = header.body == plain.len()
            && line::is_prefix(&plain[..header.start], self.recogniser)
            && text[host..] == plain[header.start..];
        let time = header::time(&text[..host]);
        let is_same_time = unwrapped.is_none()
            || (time.is_empty() && header::time(&plain[..header.start]).is_empty());
        if !is_clean || !is_same_time {
            return None;
        }
        self.line = start;
        let speaker = self.speaks(&header, true);
        self.remember(start, host, speaker, time);
        if time.is_empty() && self.speakers.len() < SPEAKERS {
            self.speakers.insert(text, (speaker, host));
        }
        Some((speaker, time))
    }

    /// Who speaks in a header; `clean` says that nothing of another's text can be in its host.
    fn speaks(&mut self, header: &Header<'_>, clean: bool) -> Speaker {
        let at = self.offset + self.line as u64;
        let origins = &mut self.out.origins;
        let process = origins.speaker(header.host, Some(header.pid), clean, at);
        let place = self.out.origins.place(process, header.dev);
        Speaker {
            place,
            process,
            tid: Some(header.tid),
        }
    }

    /// The speaker of a body without a header.
    fn nobody(&mut self) -> Speaker {
        let at = self.offset + self.line as u64;
        let process = self.out.origins.speaker(b"", None, true, at);
        Speaker {
            place: self.out.origins.place(process, None),
            process,
            tid: None,
        }
    }

    // Inlined whole: a stage that does not ask for a field does not pay for reading it.
    #[inline(always)]
    fn call(
        &mut self,
        coll: Coll<'_>,
        (speaker, is_sure): (Speaker, bool),
        time: &[u8],
        at: usize,
    ) {
        let (member, place) = self.member((coll.comm, coll.nranks), speaker);
        let slot = &mut self.members[place];
        if slot.0 != member {
            let bytes = &self.bytes[at..];
            let print = || twice::print(bytes);
            let at = self.offset + at as u64;
            *slot = (member, self.out.origins.member(member, at, print));
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
        self.out.visit.call(&Call {
            coll,
            member,
            process: speaker.process,
            is_sure,
            tid: speaker.tid,
            time,
            at: self.offset + at as u64,
        });
    }

    fn init(&mut self, init: Init, speaker: Speaker, at: usize) {
        let key = (speaker.process, init.comm);
        // Names that are not sure may be this process's, or this one may be another's: only the
        // merge knows what it goes on from.
        let is_sure = !self.out.origins.has_glued();
        let before = self.generations.get(&key);
        if is_sure && before.is_some_and(|(_, before)| before.goes_on(&init)) {
            return;
        }
        self.moments += 1;
        self.generations.insert(key, (self.moments, init));
        if !is_sure {
            self.learnt = self.moments;
        }
        self.out.inits.push(InitAt {
            process: speaker.process,
            init,
            at: self.offset + at as u64,
        });
        debug_assert!(matches!(init.event, Event::Init | Event::End));
    }
}

#[cfg(test)]
pub(crate) mod tests;
