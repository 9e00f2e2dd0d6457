//! Finds the communicators with members that made different calls, by the hashes of their streams.
//!
//! A difference is judged only if the log shows all calls: all members seen, no bytes overwritten, the job
//! logged from its start. Otherwise the reason is reported.

use super::unjudged_reason::UnjudgedReason;
use super::{CallStream, CallStreams, StreamKind};
use crate::calls::hashes::{HashedCalls, find_first_unequal_block};
use crate::report::account::Account;
use crate::stages::check::finding::Reason;
use crate::stages::check::ranks::unnamed_communicators::{self, UnnamedComms};
use crate::stages::communicators::{CommunicatorsSummary, MergedCommunicator, Named};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};

/// A member of a communicator and its streams.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CommMember {
    /// Its rank, if it is known.
    pub(crate) rank: Option<u32>,
    /// Its place in the list of sides.
    pub(crate) side: usize,
    /// Its number among the callers, if it made a call.
    pub(crate) caller: Option<u32>,
    /// The number of its collectives.
    pub(crate) calls: u64,
    /// Collectives before the hang.
    pub(crate) before: u64,
}

impl CommMember {
    /// Its rank as the peer of a message, or -1.
    pub(crate) fn peer_rank(&self) -> i64 {
        self.rank.map_or(-1, i64::from)
    }

    /// Its collectives.
    pub(crate) fn collectives(&self) -> MemberStream<'_> {
        MemberStream {
            member: self,
            way: StreamKind::Collective,
        }
    }
}

/// A stream of a member.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemberStream<'m> {
    pub(crate) member: &'m CommMember,
    pub(crate) way: StreamKind,
}

/// A communicator with members that made different collectives.
#[derive(Debug)]
pub(crate) struct DifferingComm {
    /// The communicator's number.
    pub(crate) communicator: usize,
    /// Its members by rank.
    pub(crate) members: Vec<CommMember>,
    /// The block of calls in which they begin to differ.
    pub(crate) block: u64,
    /// True if other members have no lines in the log.
    pub(crate) is_partial: bool,
    /// True if the log may begin in the middle of the job.
    pub(crate) is_late: bool,
}

impl DifferingComm {
    /// The reason for doubt.
    pub(crate) fn reason_for_doubt(&self) -> Option<Reason> {
        match (self.is_partial, self.is_late) {
            (true, _) => Some(Reason::MembersMissing),
            (_, true) => Some(Reason::LogBeginsLate),
            _ => None,
        }
    }
}

/// Sends of a rank that differ from the receives of its peer.
#[derive(Debug, Clone)]
pub(crate) struct UnpairedMessages {
    /// The communicator.
    pub(crate) communicator: usize,
    /// The sender.
    pub(crate) from: CommMember,
    /// The receiver.
    pub(crate) to: CommMember,
    /// The number of sends.
    pub(crate) sent: u64,
    /// The number of receives.
    pub(crate) received: u64,
    /// Both before the hang.
    pub(crate) before: (u64, u64),
    /// The block in which they begin to differ.
    pub(crate) block: u64,
}

impl UnpairedMessages {
    /// The messages of the side that made more, and those of the other one, by these numbers of both.
    pub(crate) fn more_and_fewer(&self, counts: (u64, u64)) -> [MemberStream<'_>; 2] {
        match counts.0 < counts.1 {
            true => [self.receives(), self.sends()],
            false => [self.sends(), self.receives()],
        }
    }

    /// The sender's messages.
    pub(crate) fn sends(&self) -> MemberStream<'_> {
        MemberStream {
            member: &self.from,
            way: StreamKind::Send(self.to.peer_rank()),
        }
    }

    /// The receiver's messages.
    pub(crate) fn receives(&self) -> MemberStream<'_> {
        MemberStream {
            member: &self.to,
            way: StreamKind::Recv(self.from.peer_rank()),
        }
    }

    /// True where the log has the communicator on both sides from its initialisation to its end in
    /// order: neither lacks lines, and neither waits for the other.
    pub(crate) fn is_ended_on_both_sides(&self, found: &CommunicatorsSummary) -> bool {
        [self.from.side, self.to.side].into_iter().all(|side| {
            let side = &found.sides[side];
            side.comm_id.is_some() && side.state.is_ended_in_order()
        })
    }
}

/// The result of comparing hashes.
#[derive(Debug, Default)]
pub(crate) struct StreamComparison {
    /// The number of communicators with equal members.
    pub(crate) same: u64,
    /// Communicators with members that differ.
    pub(crate) apart: Vec<DifferingComm>,
    /// All communicators that can be judged, with their members.
    pub(crate) judged: Vec<(usize, Vec<CommMember>)>,
    /// Pairs of ranks with messages that differ.
    pub(crate) unpaired: Vec<UnpairedMessages>,
    /// Communicators that are not judged, by reason.
    pub(crate) unjudged: BTreeMap<UnjudgedReason, Vec<usize>>,
    /// The difference if sides belong to one communicator with more ranks than the log.
    pub(crate) few: Option<DifferingComm>,
}

/// The place in the job at which a log begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogStart {
    /// The job's first calls, as far as the log shows.
    First,
    /// Perhaps later.
    Unsure,
    /// Later, by NCCL's own count.
    Late,
}

/// Compares the members of all communicators. `open` has the communicators without a name that counting could
/// not group, `accounts` those of the inputs.
pub(crate) fn compare_communicators(
    found: &CommunicatorsSummary,
    open: &UnnamedComms,
    streams: &CallStreams,
    accounts: &[Account],
    late: LogStart,
) -> StreamComparison {
    let callers = callers_by_side(found, streams);
    let quiet = are_most_silent(found, streams);
    let strays = find_stray_addresses(found, streams);
    let mut compared = StreamComparison::default();
    let group = CommSides {
        found,
        open,
        streams,
        callers: &callers,
        accounts,
    };
    for (at, communicator) in found.communicators.iter().enumerate() {
        let used = communicator
            .sides
            .iter()
            .any(|side| callers.contains_key(side));
        if !used || communicator.nranks == Some(1) {
            continue;
        }
        let (members, is_partial) = match group.all_members(communicator) {
            Ok(members) => (members, false),
            Err(why) => {
                compared.unjudged.entry(why).or_default().push(at);
                match group.present_members(communicator, why) {
                    Some(members) => (members, true),
                    None => continue,
                }
            }
        };
        let block = group.first_differing_block(&members);
        if is_partial && block.is_none() {
            compared.judged.push((at, members));
            continue;
        }
        let unpaired = match is_partial {
            true => Vec::new(),
            false => group.find_unpaired(at, &members),
        };
        if block.is_none() && unpaired.is_empty() {
            compared.same += 1;
            compared.judged.push((at, members));
            continue;
        }
        let why = group.reason_for_hidden_lines(&members).or_else(|| {
            let mut callers = members.iter().filter_map(|m| m.caller);
            if callers.any(|caller| strays.contains(&streams.callers.get(caller).comm)) {
                Some(UnjudgedReason::TwoNames)
            } else if quiet {
                Some(UnjudgedReason::Quiet)
            } else {
                (late == LogStart::Late).then_some(UnjudgedReason::Late)
            }
        });
        if let Some(why) = why {
            if !is_partial {
                compared.unjudged.entry(why).or_default().push(at);
            }
            continue;
        }
        compared.judged.push((at, members.clone()));
        compared.unpaired.extend(unpaired);
        compared.apart.extend(block.map(|block| DifferingComm {
            communicator: at,
            members,
            block,
            is_partial,
            is_late: late != LogStart::First,
        }));
    }
    compared.few = open
        .few
        .as_ref()
        .and_then(|sides| group.compare_present_sides(sides));
    compared
}

/// Finds the communicators' addresses in calls of unknown callers: such calls have a damaged header.
fn find_stray_addresses(found: &CommunicatorsSummary, streams: &CallStreams) -> FxHashSet<u64> {
    let counted: FxHashSet<usize> = found
        .communicators
        .iter()
        .filter(|communicator| unnamed_communicators::grouping_of(communicator).is_some())
        .flat_map(|communicator| communicator.sides.iter().copied())
        .collect();
    let callers = streams.callers.items().iter().zip(&streams.member);
    let unknown = callers.filter(|(_, member)| {
        let side = found.side_of.get(*member);
        side.is_none_or(|side| found.sides[*side].rank.is_none() && !counted.contains(side))
    });
    unknown.map(|(caller, _)| caller.comm).collect()
}

/// The callers of each side.
fn callers_by_side(
    found: &CommunicatorsSummary,
    streams: &CallStreams,
) -> FxHashMap<usize, Vec<u32>> {
    let mut callers: FxHashMap<usize, Vec<u32>> = FxHashMap::default();
    for (caller, member) in (0..).zip(&streams.member) {
        if let Some(&side) = found.side_of.get(member) {
            callers.entry(side).or_default().push(caller);
        }
    }
    callers
}

/// True if most processes with a communicator log no call at all, which a setting causes and no hang.
fn are_most_silent(found: &CommunicatorsSummary, streams: &CallStreams) -> bool {
    let shared = found
        .communicators
        .iter()
        .filter(|c| c.nranks.is_some_and(|n| n > 1) && !matches!(c.key, Named::Own(_)));
    let all: BTreeSet<u32> = shared
        .flat_map(|c| &c.sides)
        .map(|&side| found.sides[side].process)
        .collect();
    let sides = streams.member.iter().filter_map(|m| found.side_of.get(m));
    let loud: BTreeSet<u32> = sides.map(|&side| found.sides[side].process).collect();
    2 * all.intersection(&loud).count() < all.len()
}

struct CommSides<'a> {
    found: &'a CommunicatorsSummary,
    open: &'a UnnamedComms,
    streams: &'a CallStreams,
    callers: &'a FxHashMap<usize, Vec<u32>>,
    accounts: &'a [Account],
}

impl CommSides<'_> {
    /// The members by rank, if each is there once.
    fn all_members(
        &self,
        communicator: &MergedCommunicator,
    ) -> Result<Vec<CommMember>, UnjudgedReason> {
        if matches!(communicator.key, Named::Own(_)) {
            return Err(self.open.reason_unknown(communicator.nranks));
        }
        let counted = unnamed_communicators::grouping_of(communicator).is_some();
        let members = self.members_of_sides(&communicator.sides)?;
        if !counted && members.iter().any(|member| member.rank.is_none()) {
            return Err(UnjudgedReason::Unnamed);
        }
        let mut in_order = members.iter().zip(0..);
        let in_order = counted || in_order.all(|(m, rank)| m.rank == Some(rank));
        let whole = communicator.nranks.map(|n| n as usize) == Some(members.len());
        match (whole, in_order) {
            (true, true) => Ok(members),
            (false, _) => Err(UnjudgedReason::Missing),
            (true, false) => Err(UnjudgedReason::TwoNames),
        }
    }

    /// The members with lines, if other members have none.
    fn present_members(
        &self,
        communicator: &MergedCommunicator,
        why: UnjudgedReason,
    ) -> Option<Vec<CommMember>> {
        if why != UnjudgedReason::Missing || !matches!(communicator.key, Named::Id(..)) {
            return None;
        }
        let mut members = self.members_of_sides(&communicator.sides).ok()?;
        members.retain(|member| member.caller.is_some());
        let ranks: BTreeSet<u32> = members.iter().filter_map(|m| m.rank).collect();
        (members.len() > 2 && ranks.len() == members.len()).then_some(members)
    }

    /// The members of some sides.
    fn members_of_sides(&self, sides: &[usize]) -> Result<Vec<CommMember>, UnjudgedReason> {
        let mut members = Vec::with_capacity(sides.len());
        for &side in sides {
            let callers = self.callers.get(&side).map_or(&[][..], |list| list);
            let caller = match callers {
                [] => None,
                [caller] => Some(*caller),
                _ => return Err(UnjudgedReason::TwoNames),
            };
            let stream = caller.and_then(|c| self.stream_number(c, StreamKind::Collective));
            members.push(CommMember {
                rank: self.found.sides[side].rank,
                side,
                caller,
                calls: stream.map_or(0, |at| self.streams.list[at as usize].hashed.calls),
                before: stream.map_or(0, |at| self.streams.calls_until_hang(at)),
            });
        }
        Ok(members)
    }

    /// Compares sides that may belong to one communicator.
    fn compare_present_sides(&self, sides: &[usize]) -> Option<DifferingComm> {
        let members = self.members_of_sides(sides).ok()?;
        let mut callers = members.iter().filter_map(|m| m.caller);
        if !callers.all(|caller| self.streams.begins_at_first_call(caller)) {
            return None;
        }
        let block = self.first_differing_block(&members)?;
        let first = members.first()?.side;
        let all = &self.found.communicators;
        let communicator = all.iter().position(|c| c.sides.contains(&first))?;
        Some(DifferingComm {
            communicator,
            members,
            block,
            is_partial: true,
            is_late: false,
        })
    }

    fn stream_number(&self, caller: u32, way: StreamKind) -> Option<u32> {
        self.streams.at.get(&(caller, way)).copied()
    }

    fn find_stream(&self, caller: u32, way: StreamKind) -> Option<&CallStream> {
        let at = self.stream_number(caller, way)?;
        self.streams.list.get(at as usize)
    }

    fn hashed_calls(&self, member: &CommMember, way: StreamKind) -> Option<&HashedCalls> {
        Some(&self.find_stream(member.caller?, way)?.hashed)
    }

    /// The first block of collectives in which members differ.
    fn first_differing_block(&self, members: &[CommMember]) -> Option<u64> {
        let none = HashedCalls::default();
        let of = |m: &CommMember| {
            self.hashed_calls(m, StreamKind::Collective)
                .unwrap_or(&none)
        };
        let all: Vec<&HashedCalls> = members.iter().map(of).collect();
        find_first_unequal_block(&all)
    }

    /// Finds pairs with sends that differ from the receives.
    fn find_unpaired(&self, communicator: usize, members: &[CommMember]) -> Vec<UnpairedMessages> {
        let mut all = Vec::new();
        let mut ways: BTreeSet<(u32, u32)> = BTreeSet::new();
        let by_caller: FxHashMap<u32, u32> = members
            .iter()
            .filter_map(|m| m.caller.zip(m.rank))
            .collect();
        // A message names its receiver by rank.
        if members.iter().any(|m| m.rank.is_none()) {
            return all;
        }
        let size = members.len();
        let other = |peer: i64| u32::try_from(peer).ok().filter(|&p| (p as usize) < size);
        for caller in by_caller.keys() {
            for &way in self.streams.kinds_of_caller(*caller) {
                let rank = by_caller[caller];
                match way {
                    StreamKind::Send(to) => ways.extend(other(to).map(|to| (rank, to))),
                    StreamKind::Recv(from) => ways.extend(other(from).map(|from| (from, rank))),
                    StreamKind::Collective => {}
                }
            }
        }
        let none = HashedCalls::default();
        let before = |member: &CommMember, way: StreamKind| {
            let at = member.caller.and_then(|c| self.stream_number(c, way));
            at.map_or(0, |at| self.streams.calls_until_hang(at))
        };
        for (from, to) in ways {
            let (from, to) = (members[from as usize], members[to as usize]);
            let sends = self.hashed_calls(&from, StreamKind::Send(to.peer_rank()));
            let receives = self.hashed_calls(&to, StreamKind::Recv(from.peer_rank()));
            let (sends, receives) = (sends.unwrap_or(&none), receives.unwrap_or(&none));
            if let Some(block) = find_first_unequal_block(&[sends, receives]) {
                all.push(UnpairedMessages {
                    communicator,
                    from,
                    to,
                    sent: sends.calls,
                    received: receives.calls,
                    before: (
                        before(&from, StreamKind::Send(to.peer_rank())),
                        before(&to, StreamKind::Recv(from.peer_rank())),
                    ),
                    block,
                });
            }
        }
        all
    }

    /// The reason for which lines of the members may be missing.
    fn reason_for_hidden_lines(&self, members: &[CommMember]) -> Option<UnjudgedReason> {
        let silent = members.iter().any(|m| m.caller.is_none());
        let callers = members.iter().filter_map(|m| m.caller);
        let mut inputs: BTreeSet<u32> = BTreeSet::new();
        for caller in callers {
            for &way in self.streams.kinds_of_caller(caller) {
                let stream = self.find_stream(caller, way);
                if let Some((first, last)) = stream.and_then(|s| s.inputs) {
                    inputs.extend(first..=last);
                }
            }
        }
        let any = |is: fn(&Account) -> bool| {
            // A member without calls may have lost them in any input.
            let in_theirs = |at: u32| silent || inputs.contains(&at);
            let mut all = (0..).zip(self.accounts);
            all.any(|(at, account)| in_theirs(at) && is(account))
        };
        if any(|account| account.overwritten > 1) {
            Some(UnjudgedReason::Overwritten)
        } else if any(|account| account.ray_lines > 0) {
            Some(UnjudgedReason::LeftOut)
        } else {
            None
        }
    }
}
