//! Processes that create their process groups in different orders.
//!
//! PyTorch numbers the groups of a process as it creates them, and processes meet by that number. One
//! that creates its groups in another order meets the members of another group: two processes are
//! then one rank of a communicator, and a rank of another communicator never comes.

use super::SetupContext;
use super::open_setups::OpenCommunicator;
use crate::stages::check::finding::{About, Confidence, Evidence, Finding, Kind};
use crate::stages::check::log::job_end_lines::rank_of_pid;
use crate::stages::check::ranks::names::{RankNames, describe_process};
use crate::stages::check::wording::{list_names, rank_ranges, verb_form};
use crate::stages::communicators::CommunicatorSide;
use std::collections::BTreeSet;

/// Returns the finding that two processes are one `rank` of a communicator.
pub(super) fn report_group_order(
    context: &SetupContext<'_>,
    of: &OpenCommunicator<'_>,
    rank: u32,
    sides: [&CommunicatorSide; 2],
) -> Finding {
    let order = GroupMembers { context, of };
    let names = RankNames {
        found: context.found,
    };
    let odd = order.find_misplaced(sides);
    let name = |side: &CommunicatorSide| order.name_side(side);
    let who = match odd {
        Some(side) => format!(
            "{} creates its process groups in another order than the others: it",
            name(side)
        ),
        None => "processes create their process groups in different orders, or use one id twice: \
                 one of them"
            .to_owned(),
    };
    let waiting: BTreeSet<u32> = of.open.iter().filter_map(|side| side.rank).collect();
    let says = format!(
        "{who} joined communicator {} as a member that it has already; {} are both its rank {rank}, and \
         its {} {} waits for the other ranks",
        names.describe_communicator(of.number),
        list_names(sides.map(name)),
        verb_form(waiting.len(), "rank", "ranks"),
        rank_ranges(&waiting),
    );
    let process = |side: &CommunicatorSide| &context.found.processes[side.process as usize];
    let shown = odd.into_iter().chain(sides);
    let spots = shown.filter_map(|side| side.progress.began.as_ref());
    let mut evidence: Vec<Evidence> = Vec::new();
    for spot in spots.map(|spot| Evidence::from(spot.at)) {
        if !evidence.contains(&spot) {
            evidence.push(spot);
        }
    }
    Finding {
        about: About {
            host: odd.map(|side| process(side).host.clone()),
            pid: odd.and_then(|side| process(side).pid),
            rank: odd.and(Some(rank)),
            comm_id: names.communicator_id(of.number),
            global_rank: odd.and_then(|side| order.job_rank(side)),
            ..About::default()
        },
        evidence,
        ..Finding::of_kind(Kind::GroupOrder, Confidence::High, says)
    }
}

/// A communicator with a rank that two processes are.
struct GroupMembers<'c, 's> {
    context: &'c SetupContext<'s>,
    of: &'c OpenCommunicator<'s>,
}

impl<'s> GroupMembers<'_, 's> {
    /// The one of two sides with one rank that does not belong there: a group's ranks rise with those of
    /// the job, and its place among the others is not that of its rank; or the others were a group with
    /// the other side before.
    fn find_misplaced<'a>(&self, sides: [&'a CommunicatorSide; 2]) -> Option<&'a CommunicatorSide> {
        let others: Vec<&CommunicatorSide> = (self.of.done.iter().chain(&self.of.open))
            .copied()
            .filter(|side| side.rank != sides[0].rank)
            .collect();
        let breaks_order = |side: &CommunicatorSide| {
            let disagrees = |other: &&CommunicatorSide| {
                let is_before = self.is_before(side, other);
                is_before.is_some_and(|is_before| is_before != (side.rank < other.rank))
            };
            others.iter().any(disagrees)
        };
        let is_stranger = |side: &CommunicatorSide| {
            let with = |side: &CommunicatorSide| -> BTreeSet<u32> {
                let processes = others.iter().map(|other| other.process);
                processes.chain([side.process]).collect()
            };
            let [one, two] = sides.map(with);
            let other = if with(side) == one { two } else { one };
            self.is_known_group(&other) && !self.is_known_group(&with(side))
        };
        let only = |is_odd: &dyn Fn(&CommunicatorSide) -> bool| match sides.map(is_odd) {
            [true, false] => Some(sides[0]),
            [false, true] => Some(sides[1]),
            _ => None,
        };
        only(&breaks_order).or_else(|| only(&is_stranger))
    }

    /// The rank in the job, by a communicator of all ranks or by the launcher's report.
    fn job_rank(&self, side: &CommunicatorSide) -> Option<u32> {
        let found = self.context.found;
        let at = found.sides.iter().position(|own| std::ptr::eq(own, side))?;
        let pid = found.processes[side.process as usize].pid;
        let launched = || rank_of_pid(&self.context.reported, pid?);
        found.job_rank_of_side(at).or_else(launched)
    }

    fn name_side(&self, side: &CommunicatorSide) -> String {
        let process = describe_process(&self.context.found.processes[side.process as usize]);
        match self.job_rank(side) {
            Some(rank) => format!("rank {rank} ({process})"),
            None => process,
        }
    }

    /// True if one's rank in the job is before the other's; where no line has these ranks, the other
    /// communicators show it, if they agree.
    fn is_before(&self, one: &CommunicatorSide, other: &CommunicatorSide) -> Option<bool> {
        if let Some((one, other)) = self.job_rank(one).zip(self.job_rank(other)) {
            return Some(one < other);
        }
        let found = self.context.found;
        let host = |side: &CommunicatorSide| &found.processes[side.process as usize].host;
        // All ranks of a host are before all of another, or after them.
        let is_like =
            |side: &CommunicatorSide, own: &CommunicatorSide| match host(one) == host(other) {
                true => side.process == own.process,
                false => host(side) == host(own),
            };
        let members = self.other_groups().flat_map(|sides| {
            let first = sides.iter().filter(|side| is_like(side, one));
            let pairs = first.flat_map(|&a| sides.iter().map(move |&b| (a, b)));
            let pairs = pairs.filter(|(_, b)| is_like(b, other));
            pairs.map(|(a, b)| a.rank < b.rank).collect::<Vec<bool>>()
        });
        let orders: BTreeSet<bool> = members.collect();
        orders.first().copied().filter(|_| orders.len() == 1)
    }

    /// True if these processes are all members of another communicator.
    fn is_known_group(&self, processes: &BTreeSet<u32>) -> bool {
        let mut groups = self.other_groups();
        groups.any(|sides| {
            sides
                .iter()
                .map(|side| side.process)
                .collect::<BTreeSet<u32>>()
                == *processes
        })
    }

    /// The members of the other communicators in which each rank is one process.
    fn other_groups(&self) -> impl Iterator<Item = Vec<&'s CommunicatorSide>> {
        let found = self.context.found;
        let others = found.communicators.iter().enumerate();
        let others = others.filter(|(at, _)| *at != self.of.number);
        others.filter_map(|(_, communicator)| {
            let sides = communicator.sides.iter().map(|&side| &found.sides[side]);
            let sides: Vec<&CommunicatorSide> = sides.collect();
            let ranks: BTreeSet<u32> = sides.iter().filter_map(|side| side.rank).collect();
            (ranks.len() == sides.len()).then_some(sides)
        })
    }
}
