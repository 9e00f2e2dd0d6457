//! Heads and tails of torn lines, while they wait for each other.

use super::undecided_lines::PieceOutcome;
use crate::grammar::coll::is_begun;
use crate::grammar::header::{self, LineHeader};
use crate::grammar::message;
use crate::log::walk::{MESSAGE_END_WAIT_LINES, TailLikeness};

/// The head of a line: its first bytes.
#[derive(Debug)]
pub(super) struct PendingHead {
    /// Its number; heads are numbered in their order.
    pub(super) id: u32,
    pub(super) process: u32,
    pub(super) place: u32,
    pub(super) label: Box<[u8]>,
    pub(super) text: Vec<u8>,
    pub(super) time: Box<[u8]>,
    pub(super) line: u64,
    /// It begins a call.
    pub(super) is_call: bool,
    /// Another writer wrote what follows it.
    pub(super) clean: bool,
    /// Its tail came and may be one of several: the head is given up, and the tails still count as
    /// fitting it.
    pub(super) lost: bool,
}

/// The tail of a line: its last bytes.
#[derive(Debug)]
pub(super) struct PendingTail {
    pub(super) text: Box<[u8]>,
    /// The launcher's label of the line of the log that it is on; empty if it begins that line.
    pub(super) label: Box<[u8]>,
    pub(super) line: u64,
    pub(super) at: u64,
    pub(super) looks: TailLikeness,
    /// The head in front of it on its line, if there is one, and whether both look like a whole
    /// call.
    pub(super) preceding: Option<PrecedingHead>,
    /// The number of that head, if it may be the tail's own.
    pub(super) own: Option<u32>,
    pub(super) fits: Vec<TailFit>,
}

/// What a tail and the head in front of it look like together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PrecedingHead {
    /// A whole call.
    Whole,
    /// A message without values that are read: it may be whole all the same.
    Message,
    /// No NCCL line.
    Broken,
}

impl PendingTail {
    pub(super) fn new(
        text: Box<[u8]>,
        label: Box<[u8]>,
        line: u64,
        at: u64,
        looks: TailLikeness,
    ) -> PendingTail {
        PendingTail {
            text,
            label,
            line,
            at,
            looks,
            preceding: None,
            own: None,
            fits: Vec::new(),
        }
    }

    /// Returns the tail with a head in front of it.
    pub(super) fn after_head(self, preceding: PrecedingHead) -> PendingTail {
        let preceding = Some(preceding);
        PendingTail { preceding, ..self }
    }

    /// Returns true if a head is in front of it on its line.
    pub(super) fn follows_head(&self) -> bool {
        self.preceding.is_some()
    }

    /// Returns true unless any line may look like it.
    pub(super) fn is_sure(&self) -> bool {
        self.looks != TailLikeness::Any
    }

    /// Returns true if it can be the tail of `head`. A walk looks for tails that any writer may
    /// have written only while a line waits, so no other ones count here.
    pub(super) fn may_end_head(&self, head: &PendingHead) -> bool {
        match (self.preceding, self.looks) {
            (Some(PrecedingHead::Whole), _) => head.is_call,
            (Some(PrecedingHead::Message), _) => !head.is_call,
            (None, TailLikeness::Any) => {
                !head.is_call && self.line < head.line + MESSAGE_END_WAIT_LINES
            }
            _ => true,
        }
    }

    /// Returns its outcome if no head is known.
    pub(super) fn outcome_without_head(&self) -> PieceOutcome {
        match (self.preceding, self.looks) {
            (Some(PrecedingHead::Message), _) => PieceOutcome::Foreign,
            (_, TailLikeness::Nccl) | (Some(_), TailLikeness::Call) => PieceOutcome::Lost,
            (_, TailLikeness::Any) | (None, TailLikeness::Call) => PieceOutcome::Foreign,
        }
    }
}

/// A way to join a tail with a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TailFit {
    /// The head's number.
    pub(super) head: u32,
    /// Where the line goes on in the tail's text; `None` if text in front of it makes that unsure.
    pub(super) from: Option<usize>,
    /// The communicator's address, if the line is a call.
    pub(super) comm: Option<u64>,
    /// The tear is inside the address, which has no known user: another tail would make another
    /// address.
    pub(super) split: bool,
}

impl PendingHead {
    /// Returns its outcome if no tail is known.
    pub(super) fn outcome_without_tail(&self) -> PieceOutcome {
        let header = header::find_header(&self.text, 0);
        let is_unread = |header: LineHeader<'_>| {
            message::is_unread_beginning(header.level, &self.text[header.body..])
        };
        match header.is_some_and(is_unread) {
            true => PieceOutcome::Unread,
            false => PieceOutcome::Lost,
        }
    }

    /// Adds what may be the next bytes of its line.
    pub(super) fn extend_head(&mut self, more: &[u8]) {
        let text = [&self.text, more].concat();
        let header = header::find_header(&text, 0);
        if !more.is_empty() && header.is_some_and(|header| is_begun(&text[header.body..])) {
            self.text = text;
        }
    }
}
