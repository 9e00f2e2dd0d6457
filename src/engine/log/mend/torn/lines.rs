//! What becomes of the physical lines that pieces are on: a line is counted when its last piece
//! is decided.

use crate::log::walk::{Broken, Fragment, Looks, Piece};
use crate::report::account::{Account, Class};
use std::collections::BTreeMap;

/// What became of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is what it looks like: a part of the whole line that it is on.
    Own,
    /// It was put together with another.
    Joined,
    /// Its other half is not there.
    Lost,
    /// It is no piece of NCCL's.
    Foreign,
}

/// Lines whose class depends on their pieces.
#[derive(Debug, Default)]
pub(super) struct Lines(BTreeMap<u64, Pending>);

#[derive(Debug)]
struct Pending {
    column: usize,
    left: usize,
    /// It has one piece.
    is_alone: bool,
    /// Something else on it is lost already, and its place noted.
    damaged: bool,
    lost: bool,
    joined: bool,
    own: bool,
    /// What it is without its pieces.
    class: Class,
    /// Its first pieces may be anybody's: nothing is lost with them.
    weak: bool,
    /// Where its last piece breaks off.
    broken: Option<Broken>,
}

impl Lines {
    /// A piece comes.
    pub(super) fn meet(&mut self, fragment: &Fragment) {
        let weak = match &fragment.piece {
            Piece::Heard { .. } => return,
            Piece::Tail { looks, .. } => *looks != Looks::Nccl,
            Piece::Head(_) | Piece::Doubtful { .. } => false,
        };
        let pending = self.0.entry(fragment.line).or_insert_with(|| Pending {
            column: fragment.column,
            left: fragment.of_line,
            is_alone: fragment.of_line == 1,
            damaged: fragment.damaged,
            lost: false,
            joined: false,
            own: false,
            class: fragment.class,
            weak,
            broken: None,
        });
        if pending.weak && !weak {
            (pending.weak, pending.column) = (false, fragment.column);
        }
        // A beginning and what is after it.
        pending.left += usize::from(matches!(fragment.piece, Piece::Doubtful { .. }));
    }

    /// True where nothing else is on the line of a piece that is not decided.
    pub(super) fn is_alone(&self, line: u64) -> bool {
        self.0.get(&line).is_some_and(|pending| pending.is_alone)
    }

    /// The line's last piece breaks off.
    pub(super) fn breaks(&mut self, line: u64, broken: Broken) {
        if let Some(pending) = self.0.get_mut(&line) {
            pending.broken = Some(broken);
        }
    }

    /// One piece of a line is decided; with its last one the line is counted.
    pub(super) fn settle(&mut self, line: u64, outcome: Outcome, account: &mut Account) {
        let Some(pending) = self.0.get_mut(&line) else {
            return;
        };
        pending.left = pending.left.saturating_sub(1);
        match outcome {
            Outcome::Own => pending.own = true,
            Outcome::Joined => pending.joined = true,
            Outcome::Lost => pending.lost = true,
            Outcome::Foreign => {}
        }
        if pending.left > 0 {
            return;
        }
        let Some(pending) = self.0.remove(&line) else {
            return;
        };
        match pending.broken {
            _ if !pending.lost => {}
            Some(Broken { at, what, text }) => account.place(line, at, what, &text),
            None => {
                let what = "the other half of a torn NCCL line";
                account.place(line, pending.column, what, b"");
            }
        }
        // The line itself was counted when it was met.
        account.lines -= 1;
        account.line(match pending {
            Pending { damaged: true, .. } | Pending { lost: true, .. } => Class::Damaged,
            Pending { joined: true, .. } => Class::Repaired,
            Pending { own: true, .. } => Class::Call,
            Pending { class, .. } => class,
        });
    }
}
