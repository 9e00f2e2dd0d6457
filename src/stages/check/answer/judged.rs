//! The parts of a job that were judged: it is called well only in the parts that were.

use crate::stages::check::log::job_ends::JobEnds;
use crate::stages::check::streams::compare::StreamComparison;
use crate::stages::check::streams::unjudged_reason::UnjudgedReason;
use crate::stages::check::wording::number_and_noun;
use crate::stages::communicators::{
    CommunicatorSide, CommunicatorsSummary, MergedCommunicator, Named,
};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The parts of a job that were judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JudgedParts {
    /// The communicators with compared calls of their members.
    pub compared: u64,
    /// The processes with these members.
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
    /// The ranks with dumps of the flight recorder.
    pub dumped: u64,
    /// Those with whole dumps only: a dump that is cut or damaged lacks calls, usually the last ones.
    pub dumped_whole: u64,
    /// Records of NCCL Inspector or its profiler: they show the sizes of calls that ended.
    pub has_sizes: bool,
}

impl JudgedRecords {
    /// True where nothing was judged: one rank alone has no other to be compared with.
    pub fn is_nothing(&self) -> bool {
        self.dumped_whole < 2 && !self.has_sizes
    }

    /// `the dumps of 3 of 4 ranks (the other is cut or damaged), the sizes in the records of calls`.
    fn list_parts(&self) -> impl Iterator<Item = String> {
        let JudgedRecords {
            dumped,
            dumped_whole: whole,
            has_sizes,
        } = *self;
        let dumps = match dumped - whole {
            0 => format!("the dumps of {whole} ranks"),
            1 => format!("the dumps of {whole} of {dumped} ranks (the other is cut or damaged)"),
            _ => format!("the dumps of {whole} of {dumped} ranks (the others are cut or damaged)"),
        };
        let dumps = (whole > 1).then_some(dumps);
        let sizes = has_sizes.then(|| "the sizes in the records of calls".to_owned());
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
        let communicators = list_compared(compared);
        let processes = processes_of_communicators(&communicators, found);
        let of_them = |side: &&CommunicatorSide| processes.contains(&side.process);
        let mut states = found.sides.iter().filter(of_them).map(|side| side.state);
        let largest = found.communicators.iter().filter_map(|c| c.nranks).max();
        JudgedParts {
            compared: communicators.len() as u64,
            ranks: processes.len() as u64,
            job_ranks: largest.map_or(0, u64::from),
            jobs: jobs as u64,
            steps: found.steps,
            have_all_ended: !processes.is_empty() && states.all(|s| s.is_ended_in_order()),
            initialised: InitProgress::of_largest(found)
                .filter(|init| init.complete == init.all)
                .map(|init| init.all),
            is_part_of_setup: is_largest_only_a_part(found),
            largest: count_largest(found),
            has_end: ends.reports_done(),
            records: JudgedRecords::default(),
        }
    }

    /// True where nothing was judged.
    pub fn is_nothing(&self) -> bool {
        let JudgedParts {
            compared,
            ranks: _,
            job_ranks: _,
            jobs: _,
            steps: _,
            have_all_ended: _,
            initialised,
            is_part_of_setup: _,
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
            parts.push(match ranks {
                1 => "the initialisation of the only rank".to_owned(),
                _ if !self.is_part_of_setup => format!("the initialisation of all {ranks} ranks"),
                _ if self.largest == 1 => {
                    format!("the initialisation of the largest communicator ({ranks} ranks)")
                }
                _ => format!(
                    "the initialisation of the {} largest communicators ({ranks} ranks each)",
                    self.largest
                ),
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

/// The communicators with compared calls.
fn list_compared(compared: &StreamComparison) -> BTreeSet<usize> {
    let of = |in_part: bool| {
        let unjudged = compared.unjudged.iter();
        let those = unjudged.filter(move |(why, _)| why.is_of_last_calls() == in_part);
        those.flat_map(|(_, those)| those.iter().copied())
    };
    let judged = compared.judged.iter().map(|(at, _)| *at);
    let unjudged: BTreeSet<usize> = of(false).collect();
    judged
        .filter(|at| !unjudged.contains(at))
        .chain(of(true))
        .collect()
}

/// The processes of some communicators' members.
fn processes_of_communicators(
    communicators: &BTreeSet<usize>,
    found: &CommunicatorsSummary,
) -> BTreeSet<u32> {
    let sides = communicators
        .iter()
        .flat_map(|&at| &found.communicators[at].sides);
    sides.map(|&side| found.sides[side].process).collect()
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
