//! Which communicators' members made different calls, by the hashes of their streams.
//!
//! A difference is judged only where the log can be trusted to show all calls: all members seen,
//! no bytes overwritten, the job logged from its start. Otherwise the reason is reported.

use super::unjudged_reason::UnjudgedReason;
use super::{CALLS_PER_HASH_BLOCK, CallStream, CallStreams, ProcessComm, StreamKind};
use crate::report::account::Account;
use crate::stages::check::finding::Reason;
use crate::stages::check::ranks::unnamed_communicators::{self, UnnamedComms};
use crate::stages::communicators::{CommunicatorsSummary, MergedCommunicator, Named};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};

/// A member of a communicator and its streams.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommMember {
    /// Its rank, if it is known.
    pub(crate) rank: Option<u32>,
    /// Its side.
    pub(crate) side: usize,
    /// Who it is among the callers, if it made a call.
    pub(crate) caller: Option<u32>,
    /// Its collectives.
    pub(crate) calls: u64,
    /// Those it had made when the job hung.
    pub(crate) before: u64,
}

impl CommMember {
    /// What others call it as the other side of a message.
    pub(crate) fn peer_rank(&self) -> i64 {
        self.rank.map_or(-1, i64::from)
    }
}

/// A communicator whose members' collectives differ.
#[derive(Debug)]
pub(crate) struct DifferingComm {
    /// Its number.
    pub(crate) communicator: usize,
    /// Its members by rank.
    pub(crate) members: Vec<CommMember>,
    /// The block of calls in which they begin to differ.
    pub(crate) block: u64,
    /// Other members have no lines in the log.
    pub(crate) is_partial: bool,
    /// The log may begin in the middle of the job.
    pub(crate) is_late: bool,
}

impl DifferingComm {
    /// Why a difference is not quite sure.
    pub(crate) fn reason_for_doubt(&self) -> Option<Reason> {
        match (self.is_partial, self.is_late) {
            (true, _) => Some(Reason::MembersMissing),
            (_, true) => Some(Reason::LogBeginsLate),
            _ => None,
        }
    }
}

/// Sends that are not what the other side receives.
#[derive(Debug, Clone)]
pub(crate) struct UnpairedMessages {
    /// The communicator.
    pub(crate) communicator: usize,
    /// Who sends.
    pub(crate) from: CommMember,
    /// Who receives.
    pub(crate) to: CommMember,
    /// How many are sent.
    pub(crate) sent: u64,
    /// How many are received.
    pub(crate) received: u64,
    /// Both when the job hung.
    pub(crate) before: (u64, u64),
    /// The block in which they begin to differ.
    pub(crate) block: u64,
}

/// What the hashes say.
#[derive(Debug, Default)]
pub(crate) struct StreamComparison {
    /// Communicators whose members made the same calls.
    pub(crate) same: u64,
    /// Those whose members did not.
    pub(crate) apart: Vec<DifferingComm>,
    /// All communicators that can be judged, and their members.
    pub(crate) judged: Vec<(usize, Vec<CommMember>)>,
    /// Pairs that do not fit.
    pub(crate) unpaired: Vec<UnpairedMessages>,
    /// Communicators that are not judged.
    pub(crate) unjudged: BTreeMap<UnjudgedReason, Vec<usize>>,
    /// What differs if sides are of one communicator that has more ranks than the log.
    pub(crate) few: Option<DifferingComm>,
}

/// Where a log begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogStart {
    /// With the job's first calls, as far as it tells.
    First,
    /// Perhaps behind them.
    Unsure,
    /// Behind them, by NCCL's own count.
    Late,
}

/// Compares all communicators' members; `open` is what counting leaves of those without a name,
/// `accounts` are the inputs'; `late` is where the log begins.
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
        let addresses = members.iter().filter_map(|m| m.caller);
        let mut addresses = addresses.map(|caller| streams.callers.get(caller).comm);
        let why = match (
            group.reason_for_hidden_lines(&members),
            quiet,
            late == LogStart::Late,
        ) {
            (Some(why), ..) => Some(why),
            _ if addresses.any(|comm| strays.contains(&comm)) => Some(UnjudgedReason::TwoNames),
            (_, true, _) => Some(UnjudgedReason::Quiet),
            (_, _, true) => Some(UnjudgedReason::Late),
            _ => None,
        };
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

/// The communicators' addresses in calls of nobody that is known: what is left of a call whose
/// header is damaged.
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

/// The owner of a caller's calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamOwner {
    /// The process.
    pub(crate) process: u32,
    /// The communicator.
    pub(crate) communicator: usize,
    /// The rank in it, if it is known.
    pub(crate) rank: Option<u32>,
}

/// Whose each caller's calls are, as far as it is known.
pub(crate) fn find_stream_owners(
    found: &CommunicatorsSummary,
    streams: &CallStreams,
) -> FxHashMap<ProcessComm, StreamOwner> {
    let mut of_side: FxHashMap<usize, usize> = FxHashMap::default();
    for (at, communicator) in found.communicators.iter().enumerate() {
        of_side.extend(communicator.sides.iter().map(|&side| (side, at)));
    }
    let mut all = FxHashMap::default();
    for (caller, member) in streams.callers.items().iter().zip(&streams.member) {
        let Some(&side) = found.side_of.get(member) else {
            continue;
        };
        let rank = found.sides[side].rank;
        let known = |at: &&usize| {
            rank.is_some()
                || unnamed_communicators::grouping_of(&found.communicators[**at]).is_some()
        };
        if let Some(&communicator) = of_side.get(&side).filter(known) {
            let process = found.sides[side].process;
            all.insert(
                *caller,
                StreamOwner {
                    process,
                    communicator,
                    rank,
                },
            );
        }
    }
    all
}

/// True where most processes with a communicator log no call at all: then it is the setting, and
/// no hang.
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
    /// The members by rank, if all are there once.
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

    /// The members that are there, where others' lines are missing.
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

    /// Sides with their streams.
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
                calls: stream.map_or(0, |at| self.streams.list[at as usize].calls),
                before: stream.map_or(0, |at| self.streams.calls_until_hang(at)),
            });
        }
        Ok(members)
    }

    /// Where the calls of sides differ that may be some of one communicator's.
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

    /// The first block of collectives that is not the same for all.
    fn first_differing_block(&self, members: &[CommMember]) -> Option<u64> {
        let none = CallStream::default();
        let of = |m: &CommMember| {
            let stream = m
                .caller
                .and_then(|c| self.find_stream(c, StreamKind::Collective));
            stream.unwrap_or(&none)
        };
        let all: Vec<&CallStream> = members.iter().map(of).collect();
        first_unequal_block(&all)
    }

    /// Sends that are not what is received.
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
        let none = CallStream::default();
        let before = |member: &CommMember, way: StreamKind| {
            let at = member.caller.and_then(|c| self.stream_number(c, way));
            at.map_or(0, |at| self.streams.calls_until_hang(at))
        };
        for (from, to) in ways {
            let (from, to) = (members[from as usize], members[to as usize]);
            let sends = from
                .caller
                .and_then(|c| self.find_stream(c, StreamKind::Send(to.peer_rank())));
            let receives = to
                .caller
                .and_then(|c| self.find_stream(c, StreamKind::Recv(from.peer_rank())));
            let (sends, receives) = (sends.unwrap_or(&none), receives.unwrap_or(&none));
            if let Some(block) = first_unequal_block(&[sends, receives]) {
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

    /// Why some of the members' lines may not be there.
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

/// The first block in which the streams are not all the same; `None` where they are.
fn first_unequal_block(all: &[&CallStream]) -> Option<u64> {
    let first = all.first()?;
    if all
        .iter()
        .all(|s| (s.calls, s.hash) == (first.calls, first.hash))
    {
        return None;
    }
    let shortest = all.iter().map(|s| s.calls).min().unwrap_or(0);
    let longest = all.iter().max_by_key(|s| s.blocks.len())?;
    let differs = |block: usize| {
        let those = all.iter().filter_map(|s| s.blocks.get(block));
        those
            .clone()
            .any(|hash| Some(hash) != longest.blocks.get(block))
    };
    // What is forgotten was compared.
    let begin = all
        .iter()
        .map(|s| s.blocks.forgotten_count())
        .max()
        .unwrap_or(0);
    let whole = (begin..longest.blocks.len()).find(|&block| differs(block));
    let short = shortest / CALLS_PER_HASH_BLOCK;
    Some(whole.map_or(short, |block| short.min(block as u64)))
}
