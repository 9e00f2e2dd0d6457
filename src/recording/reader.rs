//! A file, read from its first byte to its last, with any bytes in it.

use crate::codec::{DecodedItem, EventDecoder, FrameHead};
use crate::event::{CommFacts, ProcessFacts, TimedEvent};
use crate::frame::{FrameFacts, FrameKind, MAGIC, SYNC, compute_checksum};
use crate::limits::{FRAME_HEAD_BYTES, MAX_BODY_BYTES, MAX_FAILED_BYTES, SEARCH_BYTES};
use std::io::{self, Read};

/// What a file has.
#[derive(Debug)]
pub enum RecordingItem<'r> {
    /// The process, before all else.
    Process(&'r ProcessFacts),
    /// A communicator, by its number: before its first event, and again if more of it is known.
    Comm(u32, CommFacts),
    /// An event, and the system's number of its thread.
    Event(u32, TimedEvent),
    /// Something that cannot be read.
    Damage(RecordingDamage),
    /// The recorder ended in order.
    End,
}

/// A part of a file that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingDamage {
    /// Where it begins: the byte's number in the file, from 0.
    pub at: u64,
    /// Its length.
    pub bytes: u64,
    /// The defect.
    pub why: &'static str,
    /// The file ends there: its writer was killed, or is still writing.
    pub is_end: bool,
}

/// Reads a file.
#[derive(Debug)]
pub struct RecordingReader<R> {
    input: R,
    /// Bytes that were read; those before `from` are used.
    buffer: Vec<u8>,
    from: usize,
    /// The place of byte `from` in the file.
    at: u64,
    is_at_end: bool,
    has_magic: bool,
    process: Option<ProcessFacts>,
    decoder: EventDecoder,
    /// The number that the next frame should have.
    next: u32,
    /// A frame is missing: only a fresh one can be read.
    is_stale: bool,
    /// Bytes of frames with a wrong checksum.
    failed: usize,
}

impl<R: Read> RecordingReader<R> {
    /// Nothing has been read yet.
    pub fn new(input: R) -> RecordingReader<R> {
        RecordingReader {
            input,
            buffer: Vec::new(),
            from: 0,
            at: 0,
            failed: 0,
            is_at_end: false,
            has_magic: false,
            process: None,
            decoder: EventDecoder::default(),
            next: 0,
            is_stale: false,
        }
    }

    /// Reads a frame, or passes damaged bytes, and gives each item to `take`. Returns false at the end.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn read_frame(&mut self, take: impl FnMut(RecordingItem<'_>)) -> io::Result<bool> {
        if !self.has_magic {
            self.has_magic = true;
            self.fill_to(MAGIC.len())?;
            match self.held().starts_with(MAGIC) {
                true => self.skip(MAGIC.len()),
                false => return self.pass_damage("it does not begin as a recording", 0, take),
            }
        }
        self.fill_to(FRAME_HEAD_BYTES)?;
        let Some(head) = self.held().first_chunk::<FRAME_HEAD_BYTES>().copied() else {
            return match self.held().len() {
                0 => Ok(false),
                _ => self.pass_damage("its last frame is cut", 1, take),
            };
        };
        let facts = FrameFacts::from_bytes(&head).filter(|facts| facts.length <= MAX_BODY_BYTES);
        let Some(facts) = facts else {
            return self.pass_damage("no frame begins here", 1, take);
        };
        let length = FRAME_HEAD_BYTES + facts.length;
        self.fill_to(length)?;
        if self.held().len() < length {
            return self.pass_damage("its last frame is cut", 1, take);
        }
        let body = self.held()[FRAME_HEAD_BYTES..length].to_vec();
        if compute_checksum(&head[..FRAME_HEAD_BYTES - 4], &body) != facts.checksum {
            self.failed = self.failed.saturating_add(length);
            // Frames may begin inside of it, but a file of nothing else must not take for ever.
            let passed = if self.failed > MAX_FAILED_BYTES {
                length
            } else {
                1
            };
            return self.pass_damage("a frame has another checksum", passed, take);
        }
        self.take_frame(facts, &body, take);
        self.skip(length);
        Ok(true)
    }

    /// Gives the items of a frame with a right checksum.
    fn take_frame(
        &mut self,
        facts: FrameFacts,
        body: &[u8],
        mut take: impl FnMut(RecordingItem<'_>),
    ) {
        self.is_stale |= facts.number != self.next;
        self.next = facts.number.wrapping_add(1);
        let outcome = match FrameKind::from_byte(facts.kind) {
            Some(FrameKind::Process) => ProcessFacts::decode(body).map(|process| {
                take(RecordingItem::Process(self.process.insert(process)));
            }),
            Some(FrameKind::Events) => FrameHead::decode(body).and_then(|(head, bytes)| {
                self.is_stale &= !head.is_fresh;
                if self.is_stale {
                    let why = "it refers to a frame that is missing";
                    return Err(crate::error::Malformed(why));
                }
                self.decoder.decode_events(head, bytes, |item| match item {
                    DecodedItem::Comm(number, facts) => take(RecordingItem::Comm(number, facts)),
                    DecodedItem::Event(thread, event) => take(RecordingItem::Event(thread, event)),
                })
            }),
            Some(FrameKind::End) => {
                take(RecordingItem::End);
                Ok(())
            }
            // A later version's.
            None => Ok(()),
        };
        if let Err(why) = outcome {
            self.is_stale = true;
            take(RecordingItem::Damage(RecordingDamage {
                at: self.at,
                bytes: (FRAME_HEAD_BYTES + body.len()) as u64,
                why: why.0,
                is_end: false,
            }));
        }
    }

    /// Passes bytes, and goes on to the next place where a frame may begin, or to the end.
    fn pass_damage(
        &mut self,
        why: &'static str,
        passed: usize,
        mut take: impl FnMut(RecordingItem<'_>),
    ) -> io::Result<bool> {
        let at = self.at;
        self.skip(passed.min(self.held().len()));
        let is_end = loop {
            let held = self.held();
            if let Some(found) = held.windows(SYNC.len()).position(|bytes| bytes == SYNC) {
                self.skip(found);
                break false;
            }
            // The first bytes of a frame may be the last ones.
            self.skip(held.len().saturating_sub(SYNC.len() - 1));
            self.fill_to(SEARCH_BYTES)?;
            if self.held().len() < SYNC.len() {
                self.skip(self.held().len());
                break true;
            }
        };
        self.is_stale = true;
        take(RecordingItem::Damage(RecordingDamage {
            at,
            bytes: self.at - at,
            why,
            is_end,
        }));
        Ok(true)
    }

    /// Returns the bytes that were read and not used.
    fn held(&self) -> &[u8] {
        &self.buffer[self.from..]
    }

    /// Reads until `bytes` are held, or to the end.
    fn fill_to(&mut self, bytes: usize) -> io::Result<()> {
        let missing = bytes.saturating_sub(self.held().len());
        if missing > 0 && !self.is_at_end {
            self.buffer.drain(..self.from);
            self.from = 0;
            let input = &mut self.input;
            let read = input.take(missing as u64).read_to_end(&mut self.buffer)?;
            self.is_at_end = read < missing;
        }
        Ok(())
    }

    fn skip(&mut self, bytes: usize) {
        self.from += bytes;
        self.at += bytes as u64;
    }
}
