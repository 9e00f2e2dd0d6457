//! The rows of a call table that a copy of it, or its log, has too.

use super::fingerprints::{CallFingerprint, CommOpCount};

/// The facts of a table's rows so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TableRowsProgress {
    pub(super) any: bool,
    /// The highest step.
    pub(super) step: Option<u64>,
    /// The first row's call.
    pub(super) first: Option<CommOpCount>,
    /// NCCL counted on in a later row.
    pub(super) counts: bool,
}

impl TableRowsProgress {
    /// Returns true for the first row, and for the first row of a later step.
    pub(super) fn is_new_place(&self, step: Option<u64>) -> bool {
        !self.any || (step.is_some() && step > self.step)
    }
}

/// The fingerprints of a part of a call table: its first row is a call that its log has first too, and the
/// first row of each step is one that a copy has first.
#[derive(Debug, Clone, Default)]
pub struct RowFingerprints {
    pub(super) rows: TableRowsProgress,
    pub(super) places: Vec<RowFingerprint>,
    /// It was begun before the table's first call was known.
    pub(super) is_ahead: bool,
}

/// The first row of a part, or one of a higher step than all before it there.
#[derive(Debug, Clone)]
pub(super) struct RowFingerprint {
    pub(super) step: Option<u64>,
    /// The hash of its call's process, and the call.
    pub(super) call: Option<(u64, CallFingerprint)>,
}

impl RowFingerprints {
    /// Begins a part that is read ahead of its turn: at most the table's `first` call is known.
    pub fn of_part_ahead(first: Option<CommOpCount>) -> RowFingerprints {
        let rows = TableRowsProgress {
            first,
            ..TableRowsProgress::default()
        };
        RowFingerprints {
            rows,
            places: Vec::new(),
            is_ahead: first.is_none(),
        }
    }

    /// Adds a row: its step, its communicator's address and its opCount; `call` gives the hash of its
    /// call's process, and the call.
    #[inline]
    pub fn add_row(
        &mut self,
        step: Option<u64>,
        comm: Option<u64>,
        op_count: Option<u64>,
        call: impl FnOnce() -> Option<(u64, CallFingerprint)>,
    ) {
        let rows = &mut self.rows;
        rows.counts |= rows
            .first
            .is_some_and(|first| comm == Some(first.comm) && op_count > Some(first.op_count));
        if rows.is_new_place(step) {
            (rows.any, rows.step) = (true, step);
            let call = call();
            if let Some((_, print)) = &call {
                rows.first.get_or_insert(print.count);
            }
            self.places.push(RowFingerprint { step, call });
        }
    }
}
