//! Joins the pieces of torn lines where only one way of joining them can be true.
//!
//! NCCL 2.29.2+ writes a line in pieces of 128 bytes ([`crate::log::walk::TEAR`]), so that where several
//! processes share a pipe or a file another process's bytes may be between a line's beginning and
//! its end. Nothing is overwritten: each beginning has one end, after it, and before the next
//! line of the same process. `begun.rs` keeps what waits and rules out what cannot be; `fit.rs` says
//! whether a beginning and an end make one line, and whether the process uses the communicator
//! that the end names. What several processes may have written is nobody's: it is damaged.

pub(crate) mod begun;
pub(crate) mod fit;
pub(crate) mod halves;
pub(crate) mod lines;

use crate::grammar::coll::Coll;
use crate::grammar::header;
use crate::log::walk::{Fragment, Looks, Piece, TEAR, is_call_tail};
use crate::members::Merged;
use crate::report::account::Account;
use begun::Open;
use halves::{Behind, End};
use lines::Lines;
use std::ops::Range;

/// A call whose line was not simply whole.
#[derive(Debug, Clone)]
pub struct Joined {
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

impl Joined {
    /// What the line says.
    pub fn coll(&self) -> Coll<'_> {
        Coll {
            op: &self.text[self.op.clone()],
            ..self.says
        }
    }

    /// Its line, joined.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The thread that said it, and the time stamp.
    pub fn header(&self) -> (Option<u64>, &[u8]) {
        (header::find(&self.text, 0).map(|h| h.tid), &self.time)
    }
}

/// The pieces of one input that wait for their other half.
#[derive(Debug, Default)]
pub struct Joiner {
    open: Open,
    lines: Lines,
}

/// A moment in the walk, and what is known then.
struct Now<'m> {
    slot: u32,
    at: u64,
    merged: &'m mut Merged,
    account: &'m mut Account,
    out: &'m mut Vec<Joined>,
}

impl Joiner {
    /// Takes a chunk's fragment; its line counts from the start of the input, its place or process
    /// is merged. A call that is complete now goes to `out`.
    pub fn feed(
        &mut self,
        fragment: Fragment,
        merged: &mut Merged,
        account: &mut Account,
        out: &mut Vec<Joined>,
    ) {
        let (line, at) = (fragment.line, fragment.at);
        let mut now = Now {
            slot: fragment.slot,
            at,
            merged,
            account,
            out,
        };
        self.lines.meet(&fragment);
        self.open.expire(line, &mut self.lines, &mut now);
        match fragment.piece {
            Piece::Heard { process } => self.open.hear(process, &mut self.lines, &mut now),
            Piece::Head(begun) => {
                self.open.torn(line);
                let head = self.open.head(begun, line, now.merged);
                self.open.hear(head.process, &mut self.lines, &mut now);
                self.open.begin(head, &mut self.lines, &mut now);
            }
            Piece::Tail { text, looks } => {
                let end = End::new(text, Box::default(), line, at, looks);
                self.open.end(end, None, &mut self.lines, &mut now);
            }
            Piece::Doubtful { mut begun, broken } => {
                if broken.is_none() && self.open.whole(&begun, line, &mut self.lines, &mut now) {
                    return;
                }
                let (own, rest) = begun.text.split_at(TEAR.min(begun.text.len()));
                let (behind, looks) = match broken {
                    None => (Behind::Whole, Looks::Nccl),
                    Some(_) if is_call_tail(rest) => (Behind::Broken, Looks::Nccl),
                    Some(_) => (Behind::Broken, Looks::Any),
                };
                if let Some(broken) = broken {
                    self.open.torn(line);
                    self.lines.breaks(line, broken);
                }
                let end =
                    End::new(rest.into(), begun.label.clone(), line, at, looks).behind(behind);
                begun.text = own.into();
                let head = self.open.head(begun, line, now.merged);
                self.open.end(end, Some(head), &mut self.lines, &mut now);
            }
        }
    }

    /// Gives up all that waits: the input ends.
    pub fn close(&mut self, account: &mut Account) {
        self.open.close(&mut self.lines, account);
    }
}
