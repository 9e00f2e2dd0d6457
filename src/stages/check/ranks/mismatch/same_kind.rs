//! Communicators of one kind make the same calls. Where the ranks of a small one call different things
//! and no side has a majority, the others of its kind tell which is usual.

use crate::stages::check::streams::Caller;
use crate::stages::check::streams::compare::{Apart, Whose};
use crate::stages::communicators::{Found, Of};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// How many of its kind are asked of a communicator.
const ASKED: usize = 3;

/// Communicators of more ranks have a majority, if any has.
const SMALL: usize = 4;

/// Of so many communicators that differ: the rest follows from them.
const FIRST: usize = 16;

/// For a communicator one caller of each other that does the same.
pub(crate) type Kin = BTreeMap<usize, Vec<Caller>>;

/// Whom to ask of the communicators that are `apart`.
pub(crate) fn kin(apart: &[Apart], whose: &FxHashMap<Caller, Whose>, found: &Found) -> Kin {
    let small = |apart: &&Apart| apart.members.len() <= SMALL;
    let differ: BTreeSet<usize> = apart.iter().map(|apart| apart.communicator).collect();
    let asking: Vec<usize> = apart
        .iter()
        .filter(small)
        .take(FIRST)
        .map(|apart| apart.communicator)
        .collect();
    if asking.is_empty() {
        return Kin::new();
    }
    let mut first: BTreeMap<usize, Caller> = BTreeMap::new();
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
        (at, those.map(|(_, caller)| *caller).take(ASKED).collect())
    };
    let known = |at: &usize| kind(*at).0 != Of::Unknown;
    asking.into_iter().filter(known).map(of).collect()
}
