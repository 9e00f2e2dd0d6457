//! Which processes are behind others, and which ahead.

use crate::stages::check::ranks::names::RankNames;
use crate::stages::check::streams::compare::{CommMember, DifferingComm, UnpairedMessages};
use std::collections::{BTreeMap, BTreeSet};

/// A process's progress on the communicators that differ.
#[derive(Debug, Default)]
pub(super) struct ProcessProgress {
    pub(super) behind: Vec<MemberLag>,
    pub(super) ahead: bool,
}

/// A member's lag on a communicator.
#[derive(Debug, Clone, Copy)]
pub(super) struct MemberLag {
    pub(super) communicator: usize,
    pub(super) member: CommMember,
    /// How many calls.
    pub(super) by: u64,
    /// The first collective that others made and it did not.
    pub(super) lacks: Option<u64>,
}

/// Computes each process's progress. Where members of a communicator have no lines, one that is behind may wait for these;
/// but one that is ahead of another waits for it, unless that is among those that wait themselves.
pub(super) fn compute_progress(
    apart: &[&DifferingComm],
    partial: &[&DifferingComm],
    unpaired: &[UnpairedMessages],
    waits: &BTreeSet<u32>,
    names: RankNames<'_>,
) -> BTreeMap<u32, ProcessProgress> {
    let mut all: BTreeMap<u32, ProcessProgress> = BTreeMap::new();
    let process = |member: &CommMember| names.found.sides[member.side].process;
    for group in partial {
        let stopped = group
            .members
            .iter()
            .filter(|m| !waits.contains(&process(m)));
        let least = stopped.map(|m| m.before).min().unwrap_or(0);
        for member in group.members.iter().filter(|m| m.before > least) {
            all.entry(process(member)).or_default().ahead = true;
        }
    }
    for group in apart {
        let calls = || group.members.iter().map(|m| m.before);
        let (least, most) = (calls().min().unwrap_or(0), calls().max().unwrap_or(0));
        for member in &group.members {
            let standing = all.entry(process(member)).or_default();
            standing.ahead |= member.before > least;
            if member.before < most {
                standing.behind.push(MemberLag {
                    communicator: group.communicator,
                    member: *member,
                    by: most - member.before,
                    lacks: Some(member.before),
                });
            }
        }
    }
    for pair in unpaired {
        let (sent, received) = pair.before;
        if sent == received {
            continue;
        }
        let [more, fewer] = pair.more_and_fewer(pair.before).map(|side| side.member);
        all.entry(process(more)).or_default().ahead = true;
        let standing = all.entry(process(fewer)).or_default();
        standing.behind.push(MemberLag {
            communicator: pair.communicator,
            member: *fewer,
            by: sent.abs_diff(received),
            lacks: None,
        });
    }
    all
}
