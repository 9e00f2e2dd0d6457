//! A communicator as an INIT line names it.

use crate::grammar::message::communicator::init::{self, CommInit};
use serde::{Deserialize, Serialize};

/// A communicator as an INIT line names it, and where the line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct InitLineComm {
    /// Whether the line begins or ends it.
    pub event: init::InitEvent,
    /// Its address.
    pub comm: u64,
    /// The process's rank in it.
    pub rank: u32,
    /// Its size.
    pub nranks: u32,
    /// Where the line begins, in bytes of the input.
    pub at: u64,
}

impl InitLineComm {
    /// Returns the communicator of the line at `at`.
    pub(crate) fn from_init(init: &CommInit, at: u64) -> InitLineComm {
        InitLineComm {
            event: init.event,
            comm: init.comm,
            rank: init.rank,
            nranks: init.nranks,
            at,
        }
    }
}
