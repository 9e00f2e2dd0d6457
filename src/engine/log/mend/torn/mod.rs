//! Joins the pieces of torn lines where only one way of joining them can be true.
//!
//! NCCL 2.29.2+ writes a line in pieces of 128 bytes ([`crate::log::walk::TEAR_STRIDE_BYTES`]), so that where several
//! processes share a pipe or a file another process's bytes may be between a line's beginning and
//! its end. Nothing is overwritten: each beginning has one end, after it, and before the next
//! line of the same process. `begun.rs` keeps what waits and rules out what cannot be; `fit.rs` says
//! whether a beginning and an end make one line, and whether the process uses the communicator
//! that the end names. What several processes may have written is nobody's: it is damaged.

pub(crate) mod pending_half;
pub(crate) mod pending_pieces;
pub(crate) mod tail_fit;
pub(crate) mod undecided_lines;

use crate::grammar::coll::Coll;
use crate::grammar::header;
use crate::log::walk::{LineFragment, TEAR_STRIDE_BYTES, TailLikeness, TornPiece, is_call_tail};
use crate::members::MergedMembers;
use crate::report::account::Account;
use pending_half::{PendingTail, PrecedingHead};
use pending_pieces::PendingPieces;
use std::ops::Range;
use undecided_lines::UndecidedLines;

/// A call whose line was not simply whole.
#[derive(Debug, Clone)]
pub struct JoinedCall {
    /// The slot of the chunk at which it comes in.
    pub slot: u32,
    /// The line, joined.
    text: Box<[u8]>,
    /// The time stamp in front of it.
    time: Box<[u8]>,
    /// What it says, but for the operation's name, which is in the line.
    says: Coll<'static>,
    op: Range<usize>,
    /// Who said it: a merged member's number.
    pub member: u32,
    /// Where the piece that completes it is, in bytes of the input.
    pub at: u64,
    /// It is a line of its own, which only might have been two halves, and begins at `at`.
    pub is_own: bool,
}

impl JoinedCall {
    /// What the line says.
    pub fn call_line(&self) -> Coll<'_> {
        Coll {
            op: &self.text[self.op.clone()],
            ..self.says
        }
    }

    /// Its line, joined.
    pub fn joined_text(&self) -> &[u8] {
        &self.text
    }

    /// The thread that said it, and the time stamp.
    pub fn thread_and_stamp(&self) -> (Option<u64>, &[u8]) {
        (
            header::find_header(&self.text, 0).map(|h| h.tid),
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

/// A moment in the walk, and what is known then.
struct JoinMoment<'m> {
    slot: u32,
    at: u64,
    merged: &'m mut MergedMembers,
    account: &'m mut Account,
    out: &'m mut Vec<JoinedCall>,
}

impl TornLineJoiner {
    /// Takes a chunk's fragment; its line counts from the start of the input, its place or process
    /// is merged. A call that is complete now goes to `out`.
    pub fn add_fragment(
        &mut self,
        fragment: LineFragment,
        merged: &mut MergedMembers,
        account: &mut Account,
        out: &mut Vec<JoinedCall>,
    ) {
        let (line, at) = (fragment.line, fragment.at);
        let mut now = JoinMoment {
            slot: fragment.slot,
            at,
            merged,
            account,
            out,
        };
        self.lines.add_piece(&fragment);
        self.open.expire_waiting(line, &mut self.lines, &mut now);
        match fragment.piece {
            TornPiece::Heard { process } => {
                self.open.end_line_of(process, &mut self.lines, &mut now);
            }
            TornPiece::Head(begun) => {
                self.open.note_tear(line);
                let head = self.open.number_head(begun, line, now.merged);
                self.open
                    .end_line_of(head.process, &mut self.lines, &mut now);
                self.open.add_head(head, &mut self.lines, &mut now);
            }
            TornPiece::Tail { text, looks } => {
                let end = PendingTail::new(text, Box::default(), line, at, looks);
                self.open.add_tail(end, None, &mut self.lines, &mut now);
            }
            TornPiece::Doubtful { mut begun, broken } => {
                if broken.is_none()
                    && self
                        .open
                        .is_whole_call(&begun, line, &mut self.lines, &mut now)
                {
                    return;
                }
                let (own, rest) = begun.text.split_at(TEAR_STRIDE_BYTES.min(begun.text.len()));
                let (behind, looks) = match broken {
                    None => (PrecedingHead::Whole, TailLikeness::Nccl),
                    Some(_) if is_call_tail(rest) => (PrecedingHead::Broken, TailLikeness::Nccl),
                    Some(_) => (PrecedingHead::Broken, TailLikeness::Any),
                };
                if let Some(broken) = broken {
                    self.open.note_tear(line);
                    self.lines.set_line_damage(line, broken);
                }
                let end = PendingTail::new(rest.into(), begun.label.clone(), line, at, looks)
                    .after_head(behind);
                begun.text = own.into();
                let head = self.open.number_head(begun, line, now.merged);
                self.open
                    .add_tail(end, Some(head), &mut self.lines, &mut now);
            }
        }
    }

    /// Gives up all that waits: the input ends.
    pub fn give_up_all(&mut self, account: &mut Account) {
        self.open.give_up_all(&mut self.lines, account);
    }
}
