//! The numbers of calls in their sequences: a process's collectives on a communicator, and its messages by peer.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Send or not, and the peer; `None` for collectives.
pub(super) type MessagePeer = Option<(bool, i64)>;

/// The process, the communicator, its identity, and for Send and Recv which and the peer.
pub(super) type CommSequenceKey = (u32, u64, u32, MessagePeer);

/// How many calls each (process, communicator) made so far; Send and Recv apart, per peer.
#[derive(Debug, Default)]
pub(super) struct CallSequences {
    pub(super) made: FxHashMap<CommSequenceKey, u64>,
}

/// The numbers of a chunk's calls in their sequences, once these are known.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SequenceNumbers {
    /// By sequence of the chunk: how many calls it had before.
    pub(super) before: Vec<u64>,
    /// By call: its number among those of the chunk, where that is not that of its line order.
    pub(super) counted_again: Vec<u64>,
}

impl CallSequences {
    /// Adds the calls of processes that are known by now to be others, as other text was glued to their names,
    /// to those of these.
    pub(super) fn join_renamed(&mut self, renamed: &FxHashMap<u32, u32>) {
        if renamed.is_empty() {
            return;
        }
        let glued = self.made.extract_if(|key, _| renamed.contains_key(&key.0));
        for ((process, comm, identity, peer), calls) in glued.collect::<Vec<_>>() {
            let real = renamed[&process];
            *self.made.entry((real, comm, identity, peer)).or_default() += calls;
        }
    }
}

/// A value that is set once, as the `Option` that it holds.
pub(super) mod once_set {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::OnceLock;

    pub(in crate::stages::calls::comms) fn serialize<T: Serialize, S: Serializer>(
        value: &OnceLock<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.get().serialize(to)
    }

    pub(in crate::stages::calls::comms) fn deserialize<
        'de,
        T: Deserialize<'de>,
        D: Deserializer<'de>,
    >(
        from: D,
    ) -> Result<OnceLock<T>, D::Error> {
        let value = Option::<T>::deserialize(from)?;
        Ok(value.map(OnceLock::from).unwrap_or_default())
    }
}
