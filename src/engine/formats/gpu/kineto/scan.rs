//! The events of a trace, one after the other, from a stream of bytes. Only a block is held, or one
//! larger event.
//!
//! Every byte of an event is checked. After a damaged event, the next one begins at an object with a
//! first key of events.

use super::json::{JsonCursor, JsonStop};
use super::limits::{KINETO_BLOCK_BYTES, MAX_EVENT_BYTES, MAX_KEY_BYTES};
use crate::error::Result;
use std::io::{self, Read};

/// An event. Values are as they are written, and empty if missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct KinetoEvent<'b> {
    /// Kind: `"X"` has a duration.
    pub(super) ph: &'b [u8],
    /// Category: `"kernel"`.
    pub(super) cat: &'b [u8],
    /// Name.
    pub(super) name: &'b [u8],
    /// Process; for an activity of a GPU the GPU's number.
    pub(super) pid: &'b [u8],
    /// Thread; for an activity of a GPU the stream.
    pub(super) tid: &'b [u8],
    /// µs.
    pub(super) ts: &'b [u8],
    /// µs.
    pub(super) dur: &'b [u8],
    /// An object.
    pub(super) args: &'b [u8],
}

impl<'b> KinetoEvent<'b> {
    fn set_member(&mut self, key: &[u8], value: &'b [u8]) {
        *match key {
            b"ph" => &mut self.ph,
            b"cat" => &mut self.cat,
            b"name" => &mut self.name,
            b"pid" => &mut self.pid,
            b"tid" => &mut self.tid,
            b"ts" => &mut self.ts,
            b"dur" => &mut self.dur,
            b"args" => &mut self.args,
            _ => return,
        } = value;
    }
}

/// What takes a trace.
pub(super) trait KinetoVisitor {
    /// A member of the header, as it is written.
    fn visit_member(&mut self, key: &[u8], value: &[u8]);

    /// An event.
    ///
    /// # Errors
    /// What ends the reading.
    fn visit_event(&mut self, event: &KinetoEvent<'_>) -> Result<()>;

    /// Something damaged, with its first bytes.
    fn visit_damaged(&mut self, what: &'static str, text: &[u8]);

    /// Adds bytes that were read.
    fn progress(&mut self, bytes: u64);
}

/// How a trace ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KinetoTraceEnd {
    /// All its bytes.
    pub(super) bytes: u64,
    /// It ends too soon.
    pub(super) is_cut: bool,
}

/// Where the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KinetoScanState {
    /// Before everything.
    Start,
    /// Among the members of the outermost object.
    Members,
    /// Among events.
    Events,
    /// Behind everything.
    Over,
}

/// The next part of a trace.
enum KinetoScanStep<'b> {
    Member(&'b [u8], &'b [u8]),
    Event(KinetoEvent<'b>),
    /// A bracket or a comma, and the state after it.
    Mark(KinetoScanState),
}

/// Reads a trace.
///
/// # Errors
/// It cannot be read; those of `take`.
pub(super) fn scan_trace(
    reader: &mut dyn Read,
    take: &mut dyn KinetoVisitor,
) -> Result<io::Result<KinetoTraceEnd>> {
    scan_by_blocks(reader, KINETO_BLOCK_BYTES, take)
}

/// Reads a trace in blocks of `block` bytes.
pub(super) fn scan_by_blocks(
    reader: &mut dyn Read,
    block: usize,
    take: &mut dyn KinetoVisitor,
) -> Result<io::Result<KinetoTraceEnd>> {
    let mut held = HeldBytes {
        reader,
        block,
        bytes: Vec::new(),
        at: 0,
        before: 0,
        last: None,
    };
    let (mut state, mut is_list, mut is_cut) = (KinetoScanState::Start, false, false);
    loop {
        let stop = match next_step(state, &held.bytes, held.at) {
            Ok((step, at)) => {
                match step {
                    KinetoScanStep::Event(event) => take.visit_event(&event)?,
                    KinetoScanStep::Member(key, value) => take.visit_member(key, value),
                    KinetoScanStep::Mark(next) => {
                        is_list |=
                            state == KinetoScanState::Start && next == KinetoScanState::Events;
                        state = match next {
                            KinetoScanState::Members if is_list => KinetoScanState::Over,
                            next => next,
                        };
                    }
                }
                held.at = at;
                continue;
            }
            Err(stop) => stop,
        };
        let is_long = held.bytes.len() - held.at.min(held.bytes.len()) > MAX_EVENT_BYTES;
        let mut is_end = false;
        if stop == JsonStop::More && !is_long {
            match held.read_more() {
                Err(cause) => return Ok(Err(cause)),
                Ok(0) if may_end(state, is_list, &held) => break,
                Ok(0) => is_end = true,
                Ok(n) => {
                    take.progress(n as u64);
                    continue;
                }
            }
        }
        let mut begin = JsonCursor::new(&held.bytes, held.at);
        _ = begin.next_byte();
        held.at = begin.at;
        let begun = held.bytes.get(held.at..).unwrap_or_default();
        let text = begun[..begun.len().min(64)].to_vec();
        held.at += 1;
        let is_last = match held.resume_at_event(take) {
            Err(cause) => return Ok(Err(cause)),
            Ok(found) => !found,
        };
        // An incomplete event that runs to the end, with no event inside it, is a cut.
        is_cut = is_end && is_last;
        if !is_cut {
            take.visit_damaged("a whole event", &text);
        }
        if is_last {
            break;
        }
        state = KinetoScanState::Events;
    }
    Ok(Ok(KinetoTraceEnd {
        bytes: held.before + held.bytes.len() as u64,
        is_cut,
    }))
}

/// Returns true if a trace may end in that state.
fn may_end(state: KinetoScanState, is_list: bool, held: &HeldBytes<'_>) -> bool {
    let rest = held.bytes.get(held.at..).unwrap_or_default();
    // A bare list may lack its closing bracket.
    rest.iter().all(|b| b.is_ascii_whitespace() || *b == b',')
        && (state == KinetoScanState::Over || is_list && state == KinetoScanState::Events)
}

/// Reads the part that begins at `at`; returns it and its end.
fn next_step(
    state: KinetoScanState,
    bytes: &[u8],
    at: usize,
) -> Result<(KinetoScanStep<'_>, usize), JsonStop> {
    let mut cursor = JsonCursor::new(bytes, at);
    let byte = cursor.next_byte()?;
    let mark = |cursor: &mut JsonCursor<'_>, next| {
        cursor.at += 1;
        Ok((KinetoScanStep::Mark(next), cursor.at))
    };
    match (state, byte) {
        (KinetoScanState::Start, b'{') => mark(&mut cursor, KinetoScanState::Members),
        (KinetoScanState::Start, b'[') => mark(&mut cursor, KinetoScanState::Events),
        (KinetoScanState::Members | KinetoScanState::Events, b',') => mark(&mut cursor, state),
        (KinetoScanState::Members, b'}') => mark(&mut cursor, KinetoScanState::Over),
        (KinetoScanState::Events, b']') => mark(&mut cursor, KinetoScanState::Members),
        (KinetoScanState::Members, b'"') => {
            let key = cursor.pass_key()?;
            if cursor.next_byte()? == b'[' && (key == b"traceEvents" || is_events(cursor)?) {
                return mark(&mut cursor, KinetoScanState::Events);
            }
            let value = cursor.pass_value()?;
            Ok((KinetoScanStep::Member(key, value), cursor.at))
        }
        (KinetoScanState::Events, b'{') => {
            let mut event = KinetoEvent::default();
            cursor.pass_members(|key, value| event.set_member(key, value))?;
            Ok((KinetoScanStep::Event(event), cursor.at))
        }
        _ => Err(JsonStop::Bad(cursor.at)),
    }
}

/// Returns true for a list of events, even if its key is damaged.
fn is_events(mut list: JsonCursor<'_>) -> Result<bool, JsonStop> {
    list.at += 1;
    if list.next_byte()? != b'{' {
        return Ok(false);
    }
    list.at += 1;
    match list.pass_key() {
        Err(JsonStop::Bad(_)) => Ok(false),
        key => Ok(key? == b"ph"),
    }
}

/// The bytes of a stream that are held.
struct HeldBytes<'r> {
    reader: &'r mut dyn Read,
    block: usize,
    bytes: Vec<u8>,
    /// Bytes before this were taken.
    at: usize,
    /// Bytes of the stream before the held ones.
    before: u64,
    /// The last of the bytes before that is no blank.
    last: Option<u8>,
}

impl HeldBytes<'_> {
    /// Reads on; returns the number of bytes, 0 at the end.
    fn read_more(&mut self) -> io::Result<usize> {
        let taken = self.at.min(self.bytes.len());
        self.before += taken as u64;
        self.last = last_non_blank(&self.bytes[..taken]).or(self.last);
        self.bytes.drain(..taken);
        self.at = 0;
        // Doubles the buffer, so that a large event is parsed only a few times.
        let most = self.block.max(self.bytes.len());
        let from = self.bytes.len();
        self.bytes.resize(from + most, 0);
        let mut n = 0;
        let result = loop {
            match self.reader.read(&mut self.bytes[from + n..]) {
                Ok(0) => break Ok(n),
                Ok(more) => n += more,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => break Err(cause),
            }
            if n == most {
                break Ok(n);
            }
        };
        self.bytes.truncate(from + n);
        result
    }

    /// Goes to the next object that looks like an event; returns false if there is none.
    fn resume_at_event(&mut self, take: &mut dyn KinetoVisitor) -> io::Result<bool> {
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let found = memchr::memchr_iter(b'{', rest).map(|at| at + self.at);
            for at in found {
                match event_begins(&self.bytes, at, self.last) {
                    Some(true) => {
                        self.at = at;
                        return Ok(true);
                    }
                    Some(false) => {}
                    None => break,
                }
            }
            // The beginning of an event may be here: it stays.
            self.at = self.at.max(self.bytes.len().saturating_sub(MAX_KEY_BYTES));
            match self.read_more()? {
                0 => return Ok(false),
                n => take.progress(n as u64),
            }
        }
    }
}

/// Returns true if an event begins at the `{` there: it is not the value of a key, and its first key
/// is one of an event. `None` if more bytes decide.
fn event_begins(bytes: &[u8], at: usize, before: Option<u8>) -> Option<bool> {
    if last_non_blank(bytes.get(..at)?).or(before) == Some(b':') {
        return Some(false);
    }
    let mut cursor = JsonCursor::new(bytes, at + 1);
    match cursor.pass_key() {
        Ok(key) => Some(matches!(
            key,
            b"ph" | b"cat" | b"name" | b"pid" | b"tid" | b"ts" | b"dur" | b"args"
        )),
        Err(JsonStop::More) if bytes.len() - at < 64 => None,
        Err(_) => Some(false),
    }
}

/// The last byte that is no blank.
fn last_non_blank(bytes: &[u8]) -> Option<u8> {
    bytes.trim_ascii_end().last().copied()
}
