//! Joins the pieces of torn lines if only one way of joining them can be true.
//!
//! NCCL 2.29.2+ writes a line in pieces of 128 bytes ([`crate::log::walk::TEAR_STRIDE_BYTES`]). If
//! several processes share a pipe or a file, the bytes of another process may lie between the head
//! and the tail of a line. Nothing is overwritten: each head has one tail, which comes after it and
//! before the next line of its process. `pending_pieces` keeps what waits and rules out what cannot
//! be; `tail_fit` decides whether a head and a tail make one line, and whether the process uses the
//! communicator that the tail names. A line that several processes may have written counts as
//! damaged.

pub(crate) mod pending_half;
pub(crate) mod pending_pieces;
pub(crate) mod tail_fit;
pub(crate) mod undecided_lines;

use crate::grammar::coll::Coll;
use crate::grammar::header;
use crate::log::walk::{
    LineFragment, LineHead, TEAR_STRIDE_BYTES, TailLikeness, TornPiece, is_call, is_call_tail,
    is_init_tail,
};
use crate::members::MergedMembers;
use crate::report::account::Account;
use pending_half::{PendingTail, PrecedingHead};
use pending_pieces::PendingPieces;
use std::ops::Range;
use undecided_lines::UndecidedLines;

/// A call from a line that was not simply whole.
#[derive(Debug, Clone)]
pub struct JoinedCall {
    /// The slot of the chunk that it belongs to.
    pub slot: u32,
    /// The joined line.
    text: Box<[u8]>,
    /// The time stamp in front of it.
    time: Box<[u8]>,
    /// Its call without the operation's name, which is in the line.
    coll: Coll<'static>,
    op: Range<usize>,
    /// The merged number of the member that made the call.
    pub member: u32,
    /// Where the piece that completes it is, in bytes of the input.
    pub at: u64,
    /// It is a line of its own, which begins at `at`; it only might have been two halves.
    pub is_own: bool,
}

impl JoinedCall {
    /// The call.
    pub fn call_line(&self) -> Coll<'_> {
        Coll {
            op: &self.text[self.op.clone()],
            ..self.coll
        }
    }

    /// The joined line.
    pub fn joined_text(&self) -> &[u8] {
        &self.text
    }

    /// The thread that printed it, and the time stamp.
    pub fn thread_and_stamp(&self) -> (Option<u64>, &[u8]) {
        (
            header::find_header(&self.text, 0).and_then(|h| h.tid),
            &self.time,
        )
    }
}

/// The pieces of one input that wait for their other half.
#[derive(Debug, Default)]
pub struct TornLineJoiner {
    open: PendingPieces,
    lines: UndecidedLines,
}

/// A moment of the merge: the place in the input, and the tables so far.
struct JoinMoment<'m> {
    slot: u32,
    at: u64,
    lines: &'m mut UndecidedLines,
    merged: &'m mut MergedMembers,
    account: &'m mut Account,
    out: &'m mut Vec<JoinedCall>,
}

impl TornLineJoiner {
    /// Adds a fragment of a chunk; its line counts from the start of the input, and its place or
    /// process is merged. A call that it completes goes to `out`.
    pub fn add_fragment(
        &mut self,
        fragment: LineFragment,
        merged: &mut MergedMembers,
        account: &mut Account,
        out: &mut Vec<JoinedCall>,
    ) {
        let (line, at) = (fragment.line, fragment.at);
        self.lines.add_piece(&fragment);
        let mut now = JoinMoment {
            slot: fragment.slot,
            at,
            lines: &mut self.lines,
            merged,
            account,
            out,
        };
        self.open.expire_waiting(line, &mut now);
        match fragment.piece {
            TornPiece::Heard { process } => self.open.end_line_of(process, &mut now),
            TornPiece::Head(head) => {
                self.open.note_tear(line);
                let head = self.open.number_head(head, line, now.merged);
                self.open.end_line_of(head.process, &mut now);
                self.open.add_head(head, &mut now);
            }
            TornPiece::Tail { text, looks } => {
                let tail = PendingTail::new(text, Box::default(), line, at, looks);
                self.open.add_tail(tail, None, &mut now);
            }
            TornPiece::Doubtful { begun, broken } => {
                if broken.is_none() && self.open.is_whole_call(&begun, line, &mut now) {
                    return;
                }
                let (own, rest) = begun.text.split_at(TEAR_STRIDE_BYTES.min(begun.text.len()));
                let any = match is_init_tail(rest) {
                    true => TailLikeness::Nccl,
                    false => TailLikeness::Any,
                };
                let (preceding, looks) = match broken {
                    None if !is_call(&begun.text) => (PrecedingHead::Message, any),
                    None => (PrecedingHead::Whole, TailLikeness::Nccl),
                    Some(_) if is_call_tail(rest) => (PrecedingHead::Broken, TailLikeness::Nccl),
                    Some(_) => (PrecedingHead::Broken, TailLikeness::Any),
                };
                if let Some(broken) = broken {
                    self.open.note_tear(line);
                    now.lines.set_line_damage(line, broken);
                }
                let tail = PendingTail::new(rest.into(), begun.label.clone(), line, at, looks)
                    .after_head(preceding);
                let text = own.into();
                let head = self
                    .open
                    .number_head(LineHead { text, ..begun }, line, now.merged);
                self.open.add_tail(tail, Some(head), &mut now);
            }
        }
    }

    /// Gives up all that waits: the input ends.
    pub fn give_up_all(&mut self, account: &mut Account) {
        self.open.give_up_all(&mut self.lines, account);
    }
}
