//! The lines of the log that pieces are on: each is counted when its last piece is decided.

use crate::log::walk::{LineDamage, LineFragment, TailLikeness, TornPiece};
use crate::report::account::{Account, LineClass};
use std::collections::BTreeMap;

/// How a piece was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceOutcome {
    /// It is what it looks like: a part of the whole line that it is on.
    Own,
    /// It was joined with another.
    Joined,
    /// Its other half is missing.
    Lost,
    /// Its other half is missing, and nothing that is read can have been on it.
    Unread,
    /// It is no part of a NCCL line.
    Foreign,
}

/// Lines that have undecided pieces.
#[derive(Debug, Default)]
pub(super) struct UndecidedLines(BTreeMap<u64, UndecidedLine>);

#[derive(Debug)]
struct UndecidedLine {
    column: usize,
    left: usize,
    /// It has one piece.
    is_alone: bool,
    /// Something else on it is lost already, and its place is noted.
    damaged: bool,
    lost: bool,
    unread: bool,
    joined: bool,
    own: bool,
    /// Its class without its pieces.
    class: LineClass,
    /// Any writer may have written its first pieces: nothing is lost with them.
    weak: bool,
    /// Where its last piece breaks off.
    broken: Option<LineDamage>,
}

impl UndecidedLines {
    /// Adds a piece.
    pub(super) fn add_piece(&mut self, fragment: &LineFragment) {
        let weak = match &fragment.piece {
            TornPiece::Heard { .. } => return,
            TornPiece::Tail { looks, .. } => *looks != TailLikeness::Nccl,
            TornPiece::Head(_) | TornPiece::Doubtful { .. } => false,
        };
        let pending = self
            .0
            .entry(fragment.line)
            .or_insert_with(|| UndecidedLine {
                column: fragment.column,
                left: fragment.of_line,
                is_alone: fragment.of_line == 1,
                damaged: fragment.damaged,
                lost: false,
                unread: false,
                joined: false,
                own: false,
                class: fragment.class,
                weak,
                broken: None,
            });
        if pending.weak && !weak {
            (pending.weak, pending.column) = (false, fragment.column);
        }
        // A head and the tail after it are two pieces.
        pending.left += usize::from(matches!(fragment.piece, TornPiece::Doubtful { .. }));
    }

    /// Returns true if nothing else is on the line of an undecided piece.
    pub(super) fn is_alone(&self, line: u64) -> bool {
        self.0.get(&line).is_some_and(|pending| pending.is_alone)
    }

    /// Notes where the line's last piece breaks off.
    pub(super) fn set_line_damage(&mut self, line: u64, broken: LineDamage) {
        if let Some(pending) = self.0.get_mut(&line) {
            pending.broken = Some(broken);
        }
    }

    /// Decides one piece of a line; counts the line with its last piece.
    pub(super) fn settle_piece(&mut self, line: u64, outcome: PieceOutcome, account: &mut Account) {
        let Some(pending) = self.0.get_mut(&line) else {
            return;
        };
        pending.left = pending.left.saturating_sub(1);
        match outcome {
            PieceOutcome::Own => pending.own = true,
            PieceOutcome::Joined => pending.joined = true,
            PieceOutcome::Lost => pending.lost = true,
            PieceOutcome::Unread => pending.unread = true,
            PieceOutcome::Foreign => {}
        }
        if pending.left > 0 {
            return;
        }
        let Some(pending) = self.0.remove(&line) else {
            return;
        };
        match pending.broken {
            _ if !pending.lost => {}
            Some(LineDamage { at, what, text }) => account.add_damage_place(line, at, what, &text),
            None => {
                let what = "the other half of a torn NCCL line";
                account.add_damage_place(line, pending.column, what, b"");
            }
        }
        account.unread_cuts += u64::from(pending.unread);
        // The line was counted when the walk met it.
        account.lines -= 1;
        account.count_line(match pending {
            UndecidedLine { damaged: true, .. } | UndecidedLine { lost: true, .. } => {
                LineClass::Damaged
            }
            UndecidedLine { joined: true, .. } => LineClass::Repaired,
            UndecidedLine { own: true, .. } => LineClass::Call,
            UndecidedLine { class, .. } => class,
        });
    }
}
