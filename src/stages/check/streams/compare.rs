//! Which communicators' members made different calls, by the hashes of their streams.
//!
//! A difference is judged only where the log can be trusted to show all calls: all members seen,
//! no bytes overwritten, the job logged from its start. Otherwise the reason is reported.

use super::why::Why;
use super::{BLOCK, Caller, Stream, Streams, Way};
use crate::report::account::Account;
use crate::stages::check::ranks::unnamed_communicators::{self, Open};
use crate::stages::communicators::{Communicator, Found, Named};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};

/// A member of a communicator and its streams.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ranked {
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

impl Ranked {
    /// What others call it as the other side of a message.
    pub(crate) fn peer(&self) -> i64 {
        self.rank.map_or(-1, i64::from)
    }
}

/// A communicator whose members' collectives differ.
#[derive(Debug)]
pub(crate) struct Apart {
    /// Its number.
    pub(crate) communicator: usize,
    /// Its members by rank.
    pub(crate) members: Vec<Ranked>,
    /// The block of calls in which they begin to differ.
    pub(crate) block: u64,
    /// Other members have no lines in the log.
    pub(crate) is_partial: bool,
    /// The log may begin in the middle of the job.
    pub(crate) is_late: bool,
}

impl Apart {
    /// Why a difference is not quite sure.
    pub(crate) fn doubt(&self) -> Option<&'static str> {
        match (self.is_partial, self.is_late) {
            (true, _) => Some("; but not all members' lines are in the log"),
            (_, true) => Some(
                "; but the log may begin in the middle of the job: the calls themselves show the \
                 ranks at the same place",
            ),
            _ => None,
        }
    }
}

/// Sends that are not what the other side receives.
#[derive(Debug, Clone)]
pub(crate) struct Unpaired {
    /// The communicator.
    pub(crate) communicator: usize,
    /// Who sends.
    pub(crate) from: Ranked,
    /// Who receives.
    pub(crate) to: Ranked,
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
pub(crate) struct Compared {
    /// Communicators whose members made the same calls.
    pub(crate) same: u64,
    /// Those whose members did not.
    pub(crate) apart: Vec<Apart>,
    /// All communicators that can be judged, and their members.
    pub(crate) judged: Vec<(usize, Vec<Ranked>)>,
    /// Pairs that do not fit.
    pub(crate) unpaired: Vec<Unpaired>,
    /// Communicators that are not judged.
    pub(crate) unjudged: BTreeMap<Why, Vec<usize>>,
    /// What differs if sides are of one communicator that has more ranks than the log.
    pub(crate) few: Option<Apart>,
}

/// Where a log begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begins {
    /// With the job's first calls, as far as it tells.
    First,
    /// Perhaps behind them.
    Unsure,
    /// Behind them, by NCCL's own count.
    Late,
}

/// Compares all communicators' members; `open` is what counting leaves of those without a name,
/// `accounts` are the inputs'; `late` is where the log begins.
pub(crate) fn compare(
    found: &Found,
    open: &Open,
    streams: &Streams,
    accounts: &[Account],
    late: Begins,
) -> Compared {
    let callers = callers_of(found, streams);
    let quiet = is_quiet(found, streams);
    let strays = strays(found, streams);
    let mut compared = Compared::default();
    let group = Group {
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
        let (members, is_partial) = match group.members(communicator) {
            Ok(members) => (members, false),
            Err(why) => {
                compared.unjudged.entry(why).or_default().push(at);
                match group.present(communicator, why) {
                    Some(members) => (members, true),
                    None => continue,
                }
            }
        };
        let block = group.block(&members);
        if is_partial && block.is_none() {
            compared.judged.push((at, members));
            continue;
        }
        let unpaired = match is_partial {
            true => Vec::new(),
            false => group.unpaired(at, &members),
        };
        if block.is_none() && unpaired.is_empty() {
            compared.same += 1;
            compared.judged.push((at, members));
            continue;
        }
        let addresses = members.iter().filter_map(|m| m.caller);
        let mut addresses = addresses.map(|caller| streams.callers.get(caller).comm);
        let why = match (group.hidden(&members), quiet, late == Begins::Late) {
            (Some(why), ..) => Some(why),
            _ if addresses.any(|comm| strays.contains(&comm)) => Some(Why::TwoNames),
            (_, true, _) => Some(Why::Quiet),
            (_, _, true) => Some(Why::Late),
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
        compared.apart.extend(block.map(|block| Apart {
            communicator: at,
            members,
            block,
            is_partial,
            is_late: late != Begins::First,
        }));
    }
    compared.few = open.few.as_ref().and_then(|sides| group.few(sides));
    compared
}

/// The communicators' addresses in calls of nobody that is known: what is left of a call whose
/// header is damaged.
fn strays(found: &Found, streams: &Streams) -> FxHashSet<u64> {
    let counted: FxHashSet<usize> = found
        .communicators
        .iter()
        .filter(|communicator| unnamed_communicators::told(communicator).is_some())
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
fn callers_of(found: &Found, streams: &Streams) -> FxHashMap<usize, Vec<u32>> {
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
pub(crate) struct Whose {
    /// The process.
    pub(crate) process: u32,
    /// The communicator.
    pub(crate) communicator: usize,
    /// The rank in it, if it is known.
    pub(crate) rank: Option<u32>,
}

/// Whose each caller's calls are, as far as it is known.
pub(crate) fn whose(found: &Found, streams: &Streams) -> FxHashMap<Caller, Whose> {
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
            rank.is_some() || unnamed_communicators::told(&found.communicators[**at]).is_some()
        };
        if let Some(&communicator) = of_side.get(&side).filter(known) {
            let process = found.sides[side].process;
            all.insert(
                *caller,
                Whose {
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
fn is_quiet(found: &Found, streams: &Streams) -> bool {
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

struct Group<'a> {
    found: &'a Found,
    open: &'a Open,
    streams: &'a Streams,
    callers: &'a FxHashMap<usize, Vec<u32>>,
    accounts: &'a [Account],
}

impl Group<'_> {
    /// The members by rank, if all are there once.
    fn members(&self, communicator: &Communicator) -> Result<Vec<Ranked>, Why> {
        if matches!(communicator.key, Named::Own(_)) {
            return Err(self.open.why(communicator.nranks));
        }
        let counted = unnamed_communicators::told(communicator).is_some();
        let members = self.ranked(&communicator.sides)?;
        if !counted && members.iter().any(|member| member.rank.is_none()) {
            return Err(Why::Unnamed);
        }
        let mut in_order = members.iter().zip(0..);
        let in_order = counted || in_order.all(|(m, rank)| m.rank == Some(rank));
        let whole = communicator.nranks.map(|n| n as usize) == Some(members.len());
        match (whole, in_order) {
            (true, true) => Ok(members),
            (false, _) => Err(Why::Missing),
            (true, false) => Err(Why::TwoNames),
        }
    }

    /// The members that are there, where others' lines are missing.
    fn present(&self, communicator: &Communicator, why: Why) -> Option<Vec<Ranked>> {
        if why != Why::Missing || !matches!(communicator.key, Named::Id(..)) {
            return None;
        }
        let mut members = self.ranked(&communicator.sides).ok()?;
        members.retain(|member| member.caller.is_some());
        let ranks: BTreeSet<u32> = members.iter().filter_map(|m| m.rank).collect();
        (members.len() > 2 && ranks.len() == members.len()).then_some(members)
    }

    /// Sides with their streams.
    fn ranked(&self, sides: &[usize]) -> Result<Vec<Ranked>, Why> {
        let mut members = Vec::with_capacity(sides.len());
        for &side in sides {
            let callers = self.callers.get(&side).map_or(&[][..], |list| list);
            let caller = match callers {
                [] => None,
                [caller] => Some(*caller),
                _ => return Err(Why::TwoNames),
            };
            let stream = caller.and_then(|c| self.number(c, Way::Collective));
            members.push(Ranked {
                rank: self.found.sides[side].rank,
                side,
                caller,
                calls: stream.map_or(0, |at| self.streams.list[at as usize].calls),
                before: stream.map_or(0, |at| self.streams.calls(at)),
            });
        }
        Ok(members)
    }

    /// Where the calls of sides differ that may be some of one communicator's.
    fn few(&self, sides: &[usize]) -> Option<Apart> {
        let members = self.ranked(sides).ok()?;
        let mut callers = members.iter().filter_map(|m| m.caller);
        if !callers.all(|caller| self.streams.is_from_start(caller)) {
            return None;
        }
        let block = self.block(&members)?;
        let first = members.first()?.side;
        let all = &self.found.communicators;
        let communicator = all.iter().position(|c| c.sides.contains(&first))?;
        Some(Apart {
            communicator,
            members,
            block,
            is_partial: true,
            is_late: false,
        })
    }

    fn number(&self, caller: u32, way: Way) -> Option<u32> {
        self.streams.at.get(&(caller, way)).copied()
    }

    fn stream(&self, caller: u32, way: Way) -> Option<&Stream> {
        let at = self.number(caller, way)?;
        self.streams.list.get(at as usize)
    }

    /// The first block of collectives that is not the same for all.
    fn block(&self, members: &[Ranked]) -> Option<u64> {
        let none = Stream::default();
        let of = |m: &Ranked| {
            let stream = m.caller.and_then(|c| self.stream(c, Way::Collective));
            stream.unwrap_or(&none)
        };
        let all: Vec<&Stream> = members.iter().map(of).collect();
        first_block(&all)
    }

    /// Sends that are not what is received.
    fn unpaired(&self, communicator: usize, members: &[Ranked]) -> Vec<Unpaired> {
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
            for &way in self.streams.ways(*caller) {
                let rank = by_caller[caller];
                match way {
                    Way::Send(to) => ways.extend(other(to).map(|to| (rank, to))),
                    Way::Recv(from) => ways.extend(other(from).map(|from| (from, rank))),
                    Way::Collective => {}
                }
            }
        }
        let none = Stream::default();
        let before = |member: &Ranked, way: Way| {
            let at = member.caller.and_then(|c| self.number(c, way));
            at.map_or(0, |at| self.streams.calls(at))
        };
        for (from, to) in ways {
            let (from, to) = (members[from as usize], members[to as usize]);
            let sends = from
                .caller
                .and_then(|c| self.stream(c, Way::Send(to.peer())));
            let receives = to
                .caller
                .and_then(|c| self.stream(c, Way::Recv(from.peer())));
            let (sends, receives) = (sends.unwrap_or(&none), receives.unwrap_or(&none));
            if let Some(block) = first_block(&[sends, receives]) {
                all.push(Unpaired {
                    communicator,
                    from,
                    to,
                    sent: sends.calls,
                    received: receives.calls,
                    before: (
                        before(&from, Way::Send(to.peer())),
                        before(&to, Way::Recv(from.peer())),
                    ),
                    block,
                });
            }
        }
        all
    }

    /// Why some of the members' lines may not be there.
    fn hidden(&self, members: &[Ranked]) -> Option<Why> {
        let silent = members.iter().any(|m| m.caller.is_none());
        let callers = members.iter().filter_map(|m| m.caller);
        let mut inputs: BTreeSet<u32> = BTreeSet::new();
        for caller in callers {
            for &way in self.streams.ways(caller) {
                let stream = self.stream(caller, way);
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
            Some(Why::Overwritten)
        } else if any(|account| account.ray_lines > 0) {
            Some(Why::LeftOut)
        } else {
            None
        }
    }
}

/// The first block in which the streams are not all the same; `None` where they are.
fn first_block(all: &[&Stream]) -> Option<u64> {
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
    let begin = all.iter().map(|s| s.blocks.gone()).max().unwrap_or(0);
    let whole = (begin..longest.blocks.len()).find(|&block| differs(block));
    let short = shortest / BLOCK;
    Some(whole.map_or(short, |block| short.min(block as u64)))
}
