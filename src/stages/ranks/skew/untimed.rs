//! Calls of ranks without a time to compare: a call that lacks a rank for want of one differs from a call with a rank that is
//! not in the input.

use super::limits::MAX_UNTIMED_CALLS_KEPT;
use crate::members::Interner;
use crate::members::comm_id::CommId;
use crate::output::table::Row;
use std::collections::BTreeSet;

/// The calls of ranks without a time.
#[derive(Default)]
pub(super) struct UntimedCalls {
    /// Their communicators and operations.
    sequences: Interner<(CommId, Vec<u8>)>,
    /// The number of the sequence, the call's number in it, and the rank.
    kept: BTreeSet<[u64; 3]>,
    /// All such calls.
    pub(super) number: u64,
    /// Some have no number or no rank, or are too many.
    pub(super) are_some_unknown: bool,
}

impl UntimedCalls {
    /// Adds a row without a time.
    pub(super) fn add_row(&mut self, row: &Row<'_>) {
        self.number += 1;
        match (row.comm_id, row.seq, row.rank) {
            (Some(id), Some(seq), Some(rank)) if self.kept.len() < MAX_UNTIMED_CALLS_KEPT => {
                let sequence = self.sequences.intern((id, row.op.to_vec()));
                self.kept.insert([sequence.into(), seq, rank.into()]);
            }
            _ => self.are_some_unknown = true,
        }
    }

    /// Returns the number of ranks without a time at call `seq`; `ranks` came with one.
    pub(super) fn count_ranks(
        &mut self,
        id: CommId,
        op: &[u8],
        seq: u64,
        ranks: impl Iterator<Item = u32>,
    ) -> usize {
        let sequence = self.sequences.intern((id, op.to_vec())).into();
        let of_call = self
            .kept
            .range([sequence, seq, 0]..=[sequence, seq, u64::MAX]);
        let came: BTreeSet<u64> = ranks.map(u64::from).collect();
        of_call.filter(|[.., rank]| !came.contains(rank)).count()
    }

    /// True if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}
