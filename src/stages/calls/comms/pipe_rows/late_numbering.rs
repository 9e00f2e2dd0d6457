//! Numbers the calls of a pipe when their rows are written, by the names that are known then.

use crate::members::MergedMembers;
use crate::stages::calls::comms::records::ChunkRecords;
use crate::stages::calls::comms::sequences::CallSequences;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// Chunks that wait for their numbers, since the names of their processes are not yet certain.
#[derive(Default)]
pub(super) struct LateNumbering {
    seqs: CallSequences,
    waiting: VecDeque<Arc<ChunkRecords>>,
}

impl LateNumbering {
    /// Adds the next chunk.
    pub(super) fn push(&mut self, records: Arc<ChunkRecords>) {
        self.waiting.push_back(records);
    }

    /// Numbers the calls of all chunks up to this one by the names known now.
    pub(super) fn number_until(
        &mut self,
        records: &ChunkRecords,
        merged: &MergedMembers,
        renamed: &FxHashMap<u32, u32>,
    ) {
        while !records.is_numbered()
            && let Some(next) = self.waiting.pop_front()
        {
            next.number_in_sequences(merged, renamed, &mut self.seqs);
        }
    }
}
