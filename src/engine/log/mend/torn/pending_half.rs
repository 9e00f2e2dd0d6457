//! A line's beginning and its end, while they wait for each other.

use super::undecided_lines::PieceOutcome;
use crate::grammar::coll::is_begun;
use crate::grammar::header;
use crate::log::walk::{MESSAGE_END_WAIT_LINES, TailLikeness};

/// A line's beginning.
#[derive(Debug)]
pub(super) struct PendingHead {
    /// Its number: they are numbered in their order.
    pub(super) id: u32,
    pub(super) process: u32,
    pub(super) place: u32,
    pub(super) label: Box<[u8]>,
    pub(super) text: Vec<u8>,
    pub(super) time: Box<[u8]>,
    pub(super) line: u64,
    /// It is a call's.
    pub(super) is_call: bool,
    /// What is after it is another writer's.
    pub(super) clean: bool,
    /// Its end came, and may be one of several: it is given up, and what they may be stays.
    pub(super) lost: bool,
}

/// A line's end.
#[derive(Debug)]
pub(super) struct PendingTail {
    pub(super) text: Box<[u8]>,
    /// The label of the physical line that it is on; empty where it begins the line.
    pub(super) label: Box<[u8]>,
    pub(super) line: u64,
    pub(super) at: u64,
    pub(super) looks: TailLikeness,
    /// What is in front of it on its line is a beginning; whether all of it looks like a whole call.
    pub(super) behind: Option<PrecedingHead>,
    /// That beginning, if it may be its own.
    pub(super) own: Option<u32>,
    pub(super) fits: Vec<TailFit>,
}

/// What an end and the beginning in front of it look like together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PrecedingHead {
    /// A whole call.
    Whole,
    /// No line of NCCL's.
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
            behind: None,
            own: None,
            fits: Vec::new(),
        }
    }

    /// The same after a beginning.
    pub(super) fn after_head(self, behind: PrecedingHead) -> PendingTail {
        let behind = Some(behind);
        PendingTail { behind, ..self }
    }

    /// A beginning is in front of it on its line.
    pub(super) fn is_behind_head(&self) -> bool {
        self.behind.is_some()
    }

    /// It may be one of a NCCL line, and of a call's.
    pub(super) fn is_sure(&self) -> bool {
        self.looks != TailLikeness::Any
    }

    /// Whether it can be the end of the line that `head` begins. Where nothing waits, a walk does
    /// not look for what may be anybody's; so only what it looks for counts here.
    pub(super) fn may_end_head(&self, head: &PendingHead) -> bool {
        match (self.behind, self.looks) {
            (Some(PrecedingHead::Whole), _) => head.is_call,
            (None, TailLikeness::Any) => {
                !head.is_call && self.line < head.line + MESSAGE_END_WAIT_LINES
            }
            _ => true,
        }
    }

    /// What becomes of it where nobody is known to have begun it.
    pub(super) fn outcome_without_head(&self) -> PieceOutcome {
        match (self.behind, self.looks) {
            (_, TailLikeness::Nccl) | (Some(_), TailLikeness::Call) => PieceOutcome::Lost,
            (_, TailLikeness::Any) | (None, TailLikeness::Call) => PieceOutcome::Foreign,
        }
    }
}

/// How an end goes on a beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TailFit {
    /// The beginning's number.
    pub(super) head: u32,
    /// Where in the end's text that line goes on; `None` where text in front of it makes that
    /// unsure.
    pub(super) from: Option<usize>,
    /// The communicator's address, if the line is a call's.
    pub(super) comm: Option<u64>,
    /// The tear is in it, and nobody is known to use it: another end would make another address.
    pub(super) split: bool,
}

impl PendingHead {
    /// Takes what may be the next bytes of its line.
    pub(super) fn extend_head(&mut self, more: &[u8]) {
        let text = [&self.text, more].concat();
        let header = header::find_header(&text, 0);
        if !more.is_empty() && header.is_some_and(|header| is_begun(&text[header.body..])) {
            self.text = text;
        }
    }
}
