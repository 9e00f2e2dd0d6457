//! Communicators of one kind make the same calls. If the ranks of a small one call different things
//! and no side has a majority, the others of its kind show which call is usual.

use crate::stages::check::ranks::limits::{
    MAX_COMMS_TO_ASK_FOR, MAX_RANKS_WITHOUT_MAJORITY, MAX_SIMILAR_COMMS_ASKED,
};
use crate::stages::check::streams::ProcessComm;
use crate::stages::check::streams::compare::DifferingComm;
use crate::stages::check::streams::stream_owners::StreamOwner;
use crate::stages::communicators::{CommunicatorPurpose, CommunicatorsSummary};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// For a communicator one caller of each other that does the same.
pub(crate) type SimilarCallers = BTreeMap<usize, Vec<ProcessComm>>;

/// Returns the communicators to compare with those that are `apart`.
pub(crate) fn find_similar_callers(
    apart: &[DifferingComm],
    whose: &FxHashMap<ProcessComm, StreamOwner>,
    found: &CommunicatorsSummary,
) -> SimilarCallers {
    let small = |apart: &&DifferingComm| apart.members.len() <= MAX_RANKS_WITHOUT_MAJORITY;
    let differ: BTreeSet<usize> = apart.iter().map(|apart| apart.communicator).collect();
    let asking: Vec<usize> = apart
        .iter()
        .filter(small)
        .take(MAX_COMMS_TO_ASK_FOR)
        .map(|apart| apart.communicator)
        .collect();
    if asking.is_empty() {
        return SimilarCallers::new();
    }
    let mut first: BTreeMap<usize, ProcessComm> = BTreeMap::new();
    for (&caller, whose) in whose {
        let known = first.entry(whose.communicator).or_insert(caller);
        if (caller.process, caller.comm) < (known.process, known.comm) {
            *known = caller;
        }
    }
    let kind = |at: usize| {
        let communicator = &found.communicators[at];
        (communicator.label.of, communicator.nranks)
    };
    let of = |at: usize| {
        let those = first
            .iter()
            .filter(|(other, _)| !differ.contains(other) && kind(**other) == kind(at));
        (
            at,
            those
                .map(|(_, caller)| *caller)
                .take(MAX_SIMILAR_COMMS_ASKED)
                .collect(),
        )
    };
    let known = |at: &usize| kind(*at).0 != CommunicatorPurpose::Unknown;
    asking.into_iter().filter(known).map(of).collect()
}
