//! Which process of the job a rank of RAS, or a stack, belongs to, and how it is named.

use crate::formats::ras::{RasCommunicator, RasProcess, RasSnapshot};
use crate::members::comm_id::CommId;
use crate::stages::check::finding::About;
use crate::stages::check::ranks::names::RankNames;
use crate::stages::check::wording::{rank_ranges, verb_form};
use crate::stages::communicators::{CommunicatorsSummary, Named};
use std::collections::{BTreeMap, BTreeSet};

/// A process of the job, by the best that is known of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LiveProcess {
    /// By its rank in the job.
    Rank(u32),
    /// By its host and number.
    Process(RasProcess),
    /// By its number alone, as stacks have it.
    Pid(u64),
    /// By its rank in a communicator.
    Member(CommId, u32),
    /// By nothing but the order of the inputs.
    Unnamed(u64),
}

/// The names of the job's processes, from the log and from RAS.
pub(super) struct ProcessNames<'a> {
    found: &'a CommunicatorsSummary,
    /// The side of the log by communicator and rank.
    sides: BTreeMap<(CommId, u32), usize>,
    /// The ranks in the job of processes.
    ranks: BTreeMap<RasProcess, u32>,
    processes: BTreeMap<u32, RasProcess>,
    /// The ranks by process id, where no two processes share it.
    by_pid: BTreeMap<u64, Option<u32>>,
    /// The communicators with all processes: their ranks are those in the job.
    worlds: BTreeSet<CommId>,
}

impl<'a> ProcessNames<'a> {
    /// Collects what the log and `snapshot` have.
    pub(super) fn new(
        found: &'a CommunicatorsSummary,
        snapshot: Option<&RasSnapshot>,
    ) -> ProcessNames<'a> {
        let mut names = ProcessNames {
            found,
            sides: BTreeMap::new(),
            ranks: BTreeMap::new(),
            processes: BTreeMap::new(),
            by_pid: BTreeMap::new(),
            worlds: BTreeSet::new(),
        };
        for communicator in &found.communicators {
            let Named::Id(id, _) = communicator.key else {
                continue;
            };
            for &side in &communicator.sides {
                if let Some(rank) = found.sides[side].rank {
                    names.sides.insert((id, rank), side);
                }
            }
        }
        for (side, at) in found.sides.iter().zip(0..) {
            let process = &found.processes[side.process as usize];
            if let (Some(pid), Some(rank)) = (process.pid, found.job_rank_of_side(at)) {
                names.add_pid(pid, rank);
            }
        }
        if let Some(snapshot) = snapshot {
            names.add_worlds(snapshot);
            names.add_members(snapshot);
        }
        names
    }

    /// Adds the rank that a file's name gives to a process.
    pub(super) fn add_pid(&mut self, pid: u64, rank: u32) {
        let known = self.by_pid.entry(pid).or_insert(Some(rank));
        if *known != Some(rank) {
            *known = None;
        }
    }

    /// Finds the communicators that hold all processes of the snapshot.
    fn add_worlds(&mut self, snapshot: &RasSnapshot) {
        let named = snapshot.communicators.iter().flat_map(named_processes);
        let all: BTreeSet<&RasProcess> = named.map(|(_, process)| process).collect();
        let least = match snapshot.lists_all_ranks {
            true => u32::try_from(all.len()).unwrap_or(u32::MAX),
            false => snapshot.gpus.unwrap_or(u32::MAX),
        };
        let is_world = |of: &&RasCommunicator| of.size.is_some_and(|size| size >= least);
        self.worlds = snapshot
            .communicators
            .iter()
            .filter(is_world)
            .map(|of| of.id)
            .collect();
    }

    fn add_members(&mut self, snapshot: &RasSnapshot) {
        let mut unclear = BTreeSet::new();
        for communicator in &snapshot.communicators {
            for (rank, process) in named_processes(communicator) {
                let side = self.sides.get(&(communicator.id, rank));
                let of_log = side.and_then(|&side| self.found.job_rank_of_side(side));
                let in_world = self.worlds.contains(&communicator.id).then_some(rank);
                let Some(rank) = of_log.or(in_world) else {
                    continue;
                };
                let known = self.ranks.entry(process.clone()).or_insert(rank);
                if *known != rank {
                    unclear.insert(process.clone());
                }
            }
        }
        self.ranks.retain(|process, _| !unclear.contains(process));
        for (process, &rank) in &self.ranks {
            self.processes.insert(rank, process.clone());
        }
        let pids: Vec<(u64, u32)> = self
            .ranks
            .iter()
            .map(|(of, &rank)| (of.pid, rank))
            .collect();
        for (pid, rank) in pids {
            self.add_pid(pid, rank);
        }
    }

    /// Returns the process of a rank of a communicator.
    pub(super) fn find_member(
        &self,
        communicator: &RasCommunicator,
        rank: u32,
        process: Option<&RasProcess>,
    ) -> LiveProcess {
        let side = self.sides.get(&(communicator.id, rank));
        let of_log = || side.and_then(|&side| self.found.job_rank_of_side(side));
        let in_world = || self.worlds.contains(&communicator.id).then_some(rank);
        let by_process = process.and_then(|process| {
            let by_pid = || self.by_pid.get(&process.pid).copied().flatten();
            self.ranks.get(process).copied().or_else(by_pid)
        });
        match (by_process.or_else(of_log).or_else(in_world), process) {
            (Some(rank), _) => LiveProcess::Rank(rank),
            (None, Some(process)) => LiveProcess::Process(process.clone()),
            (None, None) => LiveProcess::Member(communicator.id, rank),
        }
    }

    /// Returns a process that RAS names without a communicator.
    pub(super) fn find_process(&self, process: &RasProcess) -> LiveProcess {
        let by_pid = || self.by_pid.get(&process.pid).copied().flatten();
        let rank = self.ranks.get(process).copied().or_else(by_pid);
        rank.map_or_else(|| LiveProcess::Process(process.clone()), LiveProcess::Rank)
    }

    /// Returns the process of a stack.
    pub(super) fn find_stack(&self, rank: Option<u32>, pid: Option<u64>) -> Option<LiveProcess> {
        let by_pid = || self.by_pid.get(&pid?).copied().flatten();
        match (rank.or_else(by_pid), pid) {
            (Some(rank), _) => Some(LiveProcess::Rank(rank)),
            (None, Some(pid)) => Some(LiveProcess::Pid(pid)),
            (None, None) => None,
        }
    }

    /// Returns what a finding on a process is about.
    pub(super) fn about_process(&self, process: &LiveProcess) -> About {
        let place = |process: Option<&RasProcess>| About {
            host: process.map(|process| process.host.as_bytes().into()),
            pid: process.map(|process| process.pid),
            ..About::default()
        };
        match process {
            LiveProcess::Rank(rank) => About {
                rank: Some(*rank),
                ..match self.found.side_of_job_rank(*rank) {
                    // The log's names are added last.
                    Some(_) => About::default(),
                    None => place(self.processes.get(rank)),
                }
            },
            LiveProcess::Process(process) => place(Some(process)),
            LiveProcess::Pid(pid) => About {
                pid: Some(*pid),
                ..About::default()
            },
            LiveProcess::Member(id, rank) => About {
                rank: Some(*rank),
                comm_id: Some(id.to_string()),
                ..About::default()
            },
            LiveProcess::Unnamed(_) => About::default(),
        }
    }

    /// `rank 3 (pid 612 on 10.0.0.1)`.
    pub(super) fn describe_process(&self, process: &LiveProcess) -> String {
        let place = |process: &RasProcess| format!("pid {} on {}", process.pid, process.host);
        match process {
            LiveProcess::Rank(rank) => match self.found.side_of_job_rank(*rank) {
                Some(side) => RankNames { found: self.found }.describe_actor(side),
                None => match self.processes.get(rank) {
                    Some(process) => format!("rank {rank} ({})", place(process)),
                    None => format!("rank {rank}"),
                },
            },
            LiveProcess::Process(process) => format!("process {} on {}", process.pid, process.host),
            LiveProcess::Pid(pid) => format!("process {pid}"),
            LiveProcess::Member(id, rank) => format!("rank {rank} of communicator {id}"),
            LiveProcess::Unnamed(_) => "a process".to_owned(),
        }
    }
}

/// The members of a communicator that have a process, answered or not.
fn named_processes(of: &RasCommunicator) -> impl Iterator<Item = (u32, &RasProcess)> {
    let present = of.ranks.iter().map(|rank| (rank.rank, &rank.process));
    let missing = of.missing.iter().map(|rank| (rank.rank, &rank.process));
    let all = present.chain(missing);
    all.filter_map(|(rank, process)| Some((rank, process.as_ref()?)))
}

/// `rank 3`, `ranks 0-2, 5`, `5 processes`: several processes without details.
pub(super) fn list_processes<'p>(all: impl IntoIterator<Item = &'p LiveProcess>) -> String {
    let all: Vec<&LiveProcess> = all.into_iter().collect();
    let rank = |process: &&LiveProcess| match process {
        LiveProcess::Rank(rank) => Some(*rank),
        _ => None,
    };
    let ranks: BTreeSet<u32> = all.iter().filter_map(rank).collect();
    match (&all[..], ranks.len() == all.len()) {
        (_, true) => format!(
            "{} {}",
            verb_form(all.len(), "rank", "ranks"),
            rank_ranges(&ranks)
        ),
        ([LiveProcess::Pid(pid)], _) => format!("process {pid}"),
        ([LiveProcess::Process(process)], _) => {
            format!("process {} on {}", process.pid, process.host)
        }
        ([LiveProcess::Member(id, rank)], _) => format!("rank {rank} of communicator {id}"),
        ([_], _) => "a process".to_owned(),
        _ => format!("{} processes", all.len()),
    }
}
