//! The parts of a job that were judged: it is called well only in the parts that were.

use crate::stages::check::log::job_ends::JobEnds;
use crate::stages::check::streams::compare::{CommMember, StreamComparison};
use crate::stages::check::streams::unjudged_reason::UnjudgedReason;
use crate::stages::check::wording::{number_and_noun, verb_form};
use crate::stages::communicators::{
    CommunicatorSide, CommunicatorsSummary, JobGpu, MergedCommunicator, Named, gpu_of_side,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The parts of a job that were judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JudgedParts {
    /// The communicators with compared calls of their members.
    pub compared: u64,
    /// The communicators with calls that were not compared.
    pub uncompared: u64,
    /// The ranks that made them, those of all attempts of a job once: a process may have several GPUs.
    pub ranks: u64,
    /// The ranks of the largest communicator.
    pub job_ranks: u64,
    /// How many jobs the inputs are of, where that is more than one.
    pub jobs: u64,
    /// The most steps that an input has by its lines (0: unknown).
    pub steps: u64,
    /// Each of these processes ended all its communicators in order.
    pub have_all_ended: bool,
    /// The number of ranks, where all ranks of the largest communicator completed its initialisation.
    pub initialised: Option<u32>,
    /// Other ranks are not in it, or other communicators were not seen to complete theirs.
    pub is_part_of_setup: bool,
    /// How many communicators have members that were not seen to complete theirs.
    pub unfinished: u64,
    /// How many communicators are as large.
    pub largest: u64,
    /// A line reports that the job is done.
    pub has_end: bool,
    /// What other tools' records show.
    pub records: JudgedRecords,
}

/// The judged parts of other tools' records of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JudgedRecords {
    /// The ranks that the process groups in the flight recorder's dumps have.
    pub job_ranks: usize,
    /// The ranks with dumps.
    pub dumped: usize,
    /// Those of them with a dump that is cut or damaged: it lacks calls, usually the last ones.
    pub cut: usize,
    /// The ranks with whole dumps and calls that were compared with another rank's.
    pub compared: usize,
    /// The collectives with sizes in the records of several ranks, by NCCL Inspector or a profiler.
    pub sizes: u64,
    /// Those that no record shows the end of.
    pub enqueued: u64,
}

impl JudgedRecords {
    /// True where nothing was judged: one rank alone has no other to be compared with.
    pub fn is_nothing(&self) -> bool {
        self.compared == 0 && self.sizes == 0
    }

    /// `the dumps of 3 of 4 ranks (1 is cut or damaged), the sizes of 12 recorded collectives`.
    fn list_parts(&self) -> impl Iterator<Item = String> {
        let JudgedRecords { cut, compared, .. } = *self;
        let mut dumps = match self.job_ranks {
            all if all > compared => format!("the dumps of {compared} of {all} ranks"),
            _ => format!("the dumps of {compared} ranks"),
        };
        if cut > 0 {
            dumps += &format!(" ({cut} {} cut or damaged)", verb_form(cut, "is", "are"));
        }
        let dumps = (compared > 0).then_some(dumps);
        let collectives = number_and_noun(self.sizes, "recorded collective");
        let sizes = (self.sizes > 0).then(|| format!("the sizes of {collectives}"));
        dumps.into_iter().chain(sizes)
    }
}

impl JudgedParts {
    /// Collects the parts of a log.
    pub(crate) fn of_log(
        compared: &StreamComparison,
        found: &CommunicatorsSummary,
        ends: &JobEnds,
        jobs: usize,
    ) -> JudgedParts {
        let uncompared = list_uncompared(compared);
        let communicators = list_compared(compared, &uncompared, found);
        let sides = || communicators.values().flatten().copied();
        let processes: BTreeSet<u32> = sides().map(|at| found.sides[at].process).collect();
        // In each attempt of one job a rank is another process. Ranks of several jobs are not the same.
        let job_rank = |at| found.job_rank_of_side(at).filter(|_| jobs < 2);
        let rank = |at| job_rank(at).ok_or_else(|| gpu_of_side(&found.sides[at]));
        let ranks: BTreeSet<Result<u32, JobGpu>> = sides().map(rank).collect();
        let of_them = |side: &&CommunicatorSide| processes.contains(&side.process);
        let mut states = found.sides.iter().filter(of_them).map(|side| side.state);
        let largest = found.communicators.iter().filter_map(|c| c.nranks).max();
        JudgedParts {
            compared: communicators.len() as u64,
            uncompared: uncompared.len() as u64,
            ranks: ranks.len() as u64,
            job_ranks: largest.map_or(0, u64::from),
            jobs: jobs as u64,
            steps: found.steps,
            have_all_ended: !processes.is_empty() && states.all(|s| s.is_ended_in_order()),
            initialised: InitProgress::of_largest(found)
                .filter(|init| init.complete == init.all)
                .map(|init| init.all),
            is_part_of_setup: is_largest_only_a_part(found),
            unfinished: count_unfinished(found),
            largest: count_largest(found),
            has_end: ends.reports_done(),
            records: JudgedRecords::default(),
        }
    }

    /// True where nothing was judged.
    pub fn is_nothing(&self) -> bool {
        let JudgedParts {
            compared,
            uncompared: _,
            ranks: _,
            job_ranks: _,
            jobs: _,
            steps: _,
            have_all_ended: _,
            initialised,
            is_part_of_setup: _,
            unfinished: _,
            largest: _,
            has_end,
            records,
        } = self;
        *compared == 0 && initialised.is_none() && !has_end && records.is_nothing()
    }

    /// `8 ranks compared over 12 steps, the initialisation of all 8 ranks, the job's own report of its end`.
    pub fn list_parts(&self) -> Vec<String> {
        let mut parts = Vec::new();
        if self.compared > 0 {
            let those = number_and_noun(self.ranks, "rank");
            let is_part = self.jobs < 2 && self.ranks < self.job_ranks;
            let mut says = match self.jobs {
                2.. => format!("{those} of {} jobs compared", self.jobs),
                _ if is_part => format!("{} of {} ranks compared", self.ranks, self.job_ranks),
                _ => format!("{those} compared"),
            };
            if self.jobs < 2 && self.steps > 0 {
                says += &format!(" over {}", number_and_noun(self.steps, "step"));
            }
            if self.jobs < 2 && self.uncompared > 0 {
                let all = self.compared + self.uncompared;
                says += &format!(" in {} of {all} communicators", self.compared);
            }
            if self.have_all_ended {
                says += if is_part {
                    ", all of these ended"
                } else {
                    ", all ended"
                };
            }
            parts.push(says);
        }
        parts.extend(self.records.list_parts());
        // Ranks that ended were initialised.
        if let Some(ranks) = self
            .initialised
            .filter(|_| !self.have_all_ended || self.is_part_of_setup)
        {
            let says = match ranks {
                1 => "the initialisation of the only rank".to_owned(),
                _ if !self.is_part_of_setup => format!("the initialisation of all {ranks} ranks"),
                _ if self.largest == 1 => {
                    format!("the initialisation of the largest communicator ({ranks} ranks)")
                }
                _ => format!(
                    "the initialisation of the {} largest communicators ({ranks} ranks each)",
                    self.largest
                ),
            };
            let others = number_and_noun(self.unfinished, "other communicator");
            parts.push(match self.is_part_of_setup && self.unfinished > 0 {
                true => format!("{says} but not of {others}"),
                false => says,
            });
        }
        if self.has_end {
            parts.push("the job's own report of its end".to_owned());
        }
        parts
    }

    /// The verdict on a job without errors and warnings, in a few words.
    pub fn clean_verdict(&self) -> &'static str {
        match self {
            _ if self.compared > 0 || !self.records.is_nothing() => "no fault found in the calls",
            _ if self.initialised.is_some() => "no fault found in the initialisation",
            _ if self.has_end => "the job reports its end, and no fault was found",
            _ => "not judged",
        }
    }
}

/// Communicators that were not compared, for one reason.
#[derive(Debug)]
pub struct UnjudgedComms {
    /// How many there are.
    pub number: u64,
    /// The reason.
    pub why: Cow<'static, str>,
    /// They were compared, but for their last calls.
    pub is_of_last_calls: bool,
    /// What to give to the program so that they can be.
    pub needs: Option<&'static str>,
}

impl UnjudgedComms {
    /// That this number of communicators was not compared.
    pub(crate) fn new(why: UnjudgedReason, number: usize) -> UnjudgedComms {
        UnjudgedComms {
            number: number as u64,
            why: why.describe_reason(),
            is_of_last_calls: why.is_of_last_calls(),
            needs: why.missing_input(),
        }
    }
}

/// The communicators with calls that were not compared, also in part.
fn list_uncompared(compared: &StreamComparison) -> BTreeSet<usize> {
    let unjudged = compared.unjudged.iter();
    let unjudged = unjudged.filter(|(why, _)| !why.is_of_last_calls());
    unjudged.flat_map(|(_, those)| those).copied().collect()
}

/// The communicators with compared calls, each with its sides of processes that log their calls.
fn list_compared(
    compared: &StreamComparison,
    uncompared: &BTreeSet<usize>,
    found: &CommunicatorsSummary,
) -> BTreeMap<usize, Vec<usize>> {
    let process = |member: &CommMember| found.sides[member.side].process;
    let members = compared.judged.iter().flat_map(|(_, members)| members);
    let callers = members.filter(|member| member.caller.is_some());
    let loud: BTreeSet<u32> = callers.map(process).collect();
    let judged = compared.judged.iter();
    let judged = judged.filter(|(at, _)| !uncompared.contains(at));
    let sides = judged.map(|(at, members)| {
        let members = members
            .iter()
            .filter(|member| loud.contains(&process(member)));
        (*at, members.map(|member| member.side).collect::<Vec<_>>())
    });
    sides.filter(|(_, sides)| sides.len() > 1).collect()
}

/// How far the initialisation of a communicator came, by the lines of its ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InitProgress {
    /// The ranks that completed it.
    pub(crate) complete: u32,
    /// All ranks of the communicator.
    pub(crate) all: u32,
}

impl InitProgress {
    /// Returns that of the largest communicator; where several are as large, of the one that came least far.
    /// Communicators of one size that no line names may be one: they count together.
    pub(crate) fn of_largest(found: &CommunicatorsSummary) -> Option<InitProgress> {
        let largest = found.communicators.iter().filter_map(|c| c.nranks).max()?;
        let all = found.communicators.iter();
        let all = all.filter(|communicator| communicator.nranks == Some(largest));
        let is_unnamed = |c: &&MergedCommunicator| matches!(c.key, Named::Own(_));
        let (unnamed, named): (Vec<_>, Vec<_>) = all.partition(is_unnamed);
        let named = named.iter().map(|c| ranks_with_setup(found, c).len());
        let unnamed: BTreeSet<u32> = unnamed
            .iter()
            .flat_map(|c| ranks_with_setup(found, c))
            .collect();
        let unnamed = (!unnamed.is_empty()).then_some(unnamed.len());
        let complete = named.chain(unnamed).min().unwrap_or(0) as u32;
        Some(InitProgress {
            complete,
            all: largest,
        })
    }
}

/// True where the largest communicator does not have all processes, or a smaller one is not complete.
fn is_largest_only_a_part(found: &CommunicatorsSummary) -> bool {
    let sides = || found.sides.iter().filter(|side| side.rank.is_some());
    let processes: BTreeSet<u32> = sides().map(|side| side.process).collect();
    let largest = found.communicators.iter().filter_map(|c| c.nranks).max();
    let is_open =
        |side: &CommunicatorSide| side.progress.began.is_some() && !side.state.is_set_up();
    sides().any(is_open) || largest.is_some_and(|all| processes.len() > all as usize)
}

/// Counts the communicators that a line names and that not all their ranks completed.
fn count_unfinished(found: &CommunicatorsSummary) -> u64 {
    let is_open = |c: &&MergedCommunicator| {
        let complete = ranks_with_setup(found, c).len();
        matches!(c.key, Named::Id(_, nranks) if complete < nranks as usize)
    };
    found.communicators.iter().filter(is_open).count() as u64
}

fn count_largest(found: &CommunicatorsSummary) -> u64 {
    let sizes = || found.communicators.iter().filter_map(|c| c.nranks);
    let largest = sizes().max();
    sizes().filter(|size| Some(*size) == largest).count() as u64
}

/// Returns the ranks of a communicator that completed its initialisation.
fn ranks_with_setup(
    found: &CommunicatorsSummary,
    communicator: &MergedCommunicator,
) -> BTreeSet<u32> {
    let sides = communicator.sides.iter().map(|&side| &found.sides[side]);
    let made = sides.filter(|side| side.state.is_set_up());
    made.filter_map(|side| side.rank).collect()
}
