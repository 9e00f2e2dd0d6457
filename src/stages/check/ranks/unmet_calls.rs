//! The first call of each rank that not all members of its communicator have made alike: its GPU gets no further.

use super::difference_context::DifferenceContext;
use crate::stages::check::finding::Finding;
use crate::stages::check::streams::StreamKind;
use crate::stages::check::streams::compare::{MemberStream, StreamComparison};
use crate::stages::check::streams::unjudged_reason::UnjudgedReason;
use crate::stages::check::streams::wanted_streams::CallDetail;
use crate::stages::communicators::{JobGpu, gpu_of_side};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// The place of a call among those of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SideCallPlace {
    /// The caller's side of the communicator.
    pub(crate) side: usize,
    pub(crate) way: StreamKind,
    /// Its number among the side's calls of this kind.
    pub(crate) seq: u64,
}

/// By GPU its first call that not all members have made alike.
pub(super) type UnmetCalls<'d> = BTreeMap<JobGpu, (SideCallPlace, &'d CallDetail)>;

/// Returns the call of a process; of several GPUs, that of the first line.
pub(super) fn unmet_call_of_process<'d>(
    unmet: &UnmetCalls<'d>,
    process: u32,
) -> Option<&'d CallDetail> {
    let own = unmet.range((process, None)..=(process, Some(u32::MAX)));
    own.map(|(_, (_, call))| *call).min_by_key(|call| call.nth)
}

impl<'a> DifferenceContext<'a> {
    /// Finds the calls on pairs of ranks, and on communicators that differ except those in `unjudged`; `different` are
    /// the findings on different calls.
    pub(super) fn find_unmet_calls(
        &self,
        compared: &StreamComparison,
        different: &[(usize, Finding)],
        unjudged: &[(UnjudgedReason, usize)],
    ) -> UnmetCalls<'a> {
        let mut all = Vec::new();
        let mut add = |stream: MemberStream<'_>, seq: u64| {
            let MemberStream { member, way } = stream;
            let side = member.side;
            let place = SideCallPlace { side, way, seq };
            let call = self.calls_of(stream).call_at(seq);
            all.extend(call.map(|call| (gpu_of_side(&self.found.sides[side]), (place, call))));
        };
        let unjudged: FxHashSet<usize> = unjudged.iter().map(|(_, at)| *at).collect();
        let different = different.iter();
        let different = different.filter_map(|(at, finding)| Some((*at, finding.about.seq?)));
        let different: FxHashMap<usize, u64> = different.collect();
        let judged = compared.apart.iter();
        for group in judged.filter(|group| !unjudged.contains(&group.communicator)) {
            let made = group.members.iter().map(|member| member.before);
            let first = different.get(&group.communicator).copied();
            let first = made.chain(first).min().unwrap_or(0);
            for member in group.members.iter().filter(|member| first < member.before) {
                add(member.collectives(), first);
            }
        }
        for pair in compared
            .unpaired
            .iter()
            .filter(|pair| pair.before.0 != pair.before.1)
        {
            let [more, _] = pair.more_and_fewer(pair.before);
            add(more, pair.before.0.min(pair.before.1));
        }
        all.sort_by_key(|(_, (_, call))| call.nth);
        let mut first = UnmetCalls::new();
        for (gpu, call) in all {
            first.entry(gpu).or_insert(call);
        }
        first
    }
}
