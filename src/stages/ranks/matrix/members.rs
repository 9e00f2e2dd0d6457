//! The members of communicators: their hosts, GPUs and ranks in the job.

use super::cells::{EndpointId, TrafficMatrix};
use super::endpoints::{Endpoint, HostLabel};
use super::{EndpointLevel, RankCalls};
use crate::members::SpeakerProcess;
use crate::members::comm_id::CommId;
use crate::stages::communicators::{CommunicatorSide, find_job_ranks, gpu_of_side};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// A communicator, as far as calls identify it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum MatrixComm {
    /// The id that its members share.
    Id(CommId),
    /// All ranks of an MPI job.
    World,
    /// A handle of MPI's. Another rank may use it for another communicator.
    Handle(u64),
    /// Its address in one process.
    Own(Box<[u8]>, Option<u64>, u64),
    /// Only its size is known; 0 if unknown.
    Size(u32),
}

impl MatrixComm {
    /// Returns its name as the prefix of a rank.
    fn name_prefix(&self) -> HostLabel {
        HostLabel::from_host(self.to_text().as_bytes())
    }

    /// Returns its name.
    pub(super) fn to_text(&self) -> String {
        match self {
            MatrixComm::Id(id) => id.to_string(),
            MatrixComm::World => "world".to_owned(),
            MatrixComm::Handle(comm) | MatrixComm::Own(_, _, comm) => format!("0x{comm:x}"),
            MatrixComm::Size(0) => "unknown".to_owned(),
            MatrixComm::Size(n) => format!("{n}ranks"),
        }
    }

    /// False if it may be several communicators.
    pub(super) fn is_known(&self) -> bool {
        matches!(self, MatrixComm::Id(_) | MatrixComm::World)
    }
}

/// The place of a rank of a communicator.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RankLocation {
    /// The host; empty if unknown.
    pub(super) host: HostLabel,
    /// The GPU's number on the host.
    pub(super) gpu: Option<u64>,
    /// The rank in the job.
    pub(super) rank: Option<u32>,
}

/// The communicators with calls, and their members.
#[derive(Debug, Default)]
pub(super) struct MatrixMembers {
    seats: BTreeMap<(MatrixComm, u32), RankLocation>,
    /// The rank in the job by host, process and device; `None` if there are several.
    jobs: FxHashMap<(HostLabel, Option<u64>, Option<u32>), Option<u32>>,
    /// The size of each communicator.
    sizes: BTreeMap<CommId, u32>,
    /// Addresses that are communicators of all ranks of an MPI job.
    worlds: BTreeSet<u64>,
    /// Ends without a known rank in the job, if ranks of the job are asked for.
    pub(super) strange: BTreeSet<MatrixComm>,
}

impl MatrixMembers {
    /// Resolves members from logs (`sides`) and from callers.
    pub(super) fn from_sides(
        mut sides: Vec<CommunicatorSide>,
        mut processes: Vec<SpeakerProcess>,
        calls: &[RankCalls<'_>],
    ) -> MatrixMembers {
        let mut members = MatrixMembers {
            worlds: find_mpi_worlds(calls),
            ..MatrixMembers::default()
        };
        add_sides_of_calls(&mut sides, &mut processes, calls);
        let ranks = find_job_ranks(&sides);
        for side in &sides {
            let Some(process) = processes.get(side.process as usize) else {
                continue;
            };
            let host = HostLabel::from_host(&process.host);
            let rank = ranks.get(&gpu_of_side(side)).copied();
            if let (Some(id), Some(n)) = (side.comm_id, side.nranks) {
                members.sizes.insert(id, n);
            }
            if let (Some(id), Some(of)) = (side.comm_id, side.rank) {
                let seat = RankLocation {
                    host: host.clone(),
                    gpu: side.nvml_dev.or(side.dev).map(u64::from),
                    rank,
                };
                members.assign_location((MatrixComm::Id(id), of), seat);
            }
            if rank.is_some() {
                let at = (host, process.pid, side.dev);
                let of = members.jobs.entry(at).or_insert(rank);
                *of = of.filter(|_| *of == rank);
            }
        }
        for made in calls {
            let (comm, rank) = members.caller_of(made);
            if let (false, Some(rank)) = (matches!(comm, MatrixComm::Id(_)), rank) {
                let seat = RankLocation {
                    rank: (comm == MatrixComm::World).then_some(rank),
                    ..location_of_caller(made)
                };
                members.assign_location((comm, rank), seat);
            }
        }
        members
    }

    fn assign_location(&mut self, at: (MatrixComm, u32), seat: RankLocation) {
        let other = self.seats.entry(at).or_insert_with(|| seat.clone());
        if *other != seat {
            // If two sides differ in one value, the others are still known.
            let host = (other.host == seat.host).then(|| seat.host.clone());
            *other = RankLocation {
                host: host.unwrap_or_else(|| HostLabel::from_host(b"")),
                gpu: seat.gpu.filter(|_| other.gpu == seat.gpu),
                rank: seat.rank.filter(|_| other.rank == seat.rank),
            };
        }
    }

    /// Returns the communicator and the rank of a caller.
    pub(super) fn caller_of(&self, made: &RankCalls<'_>) -> (MatrixComm, Option<u32>) {
        let who = made.who;
        let comm = match (who.comm_id, who.comm) {
            (Some(id), _) => MatrixComm::Id(id),
            (None, Some(comm)) if made.is_mpi() => match self.worlds.contains(&comm) {
                true => MatrixComm::World,
                false => MatrixComm::Handle(comm),
            },
            (None, Some(comm)) => MatrixComm::Own(who.host.clone(), who.pid, comm),
            (None, None) => MatrixComm::Size(made.nranks.unwrap_or(0)),
        };
        (comm, who.rank)
    }

    /// Returns the ranks in the job of each communicator's members, in the order of their ranks there, if all
    /// are known.
    pub(super) fn whole_communicators(&self) -> BTreeMap<CommId, Vec<u32>> {
        let mut all: BTreeMap<CommId, Vec<u32>> = BTreeMap::new();
        for ((comm, rank), seat) in &self.seats {
            if let MatrixComm::Id(id) = comm {
                let known = all.entry(*id).or_default();
                // They are in order: a gap leaves the list too short.
                if let Some(job) = seat.rank.filter(|_| known.len() == *rank as usize) {
                    known.push(job);
                }
            }
        }
        all.retain(|id, known| self.sizes.get(id).map(|n| *n as usize) == Some(known.len()));
        all
    }

    /// Returns the rank in the job of a process's device.
    pub(super) fn job_rank(&self, host: &HostLabel, pid: Option<u64>, device: u32) -> Option<u32> {
        let of = self.jobs.get(&(host.clone(), pid, Some(device)));
        of.copied().flatten()
    }

    /// `rank 12 (its rank 4)`, by the rank in the job; `its rank 4` where that is unknown.
    pub(super) fn describe_member(&self, comm: &MatrixComm, rank: u32) -> String {
        let seat = self.seats.get(&(comm.clone(), rank));
        match seat.and_then(|seat| seat.rank) {
            Some(job) if job != rank => format!("rank {job} (its rank {rank})"),
            Some(job) => format!("rank {job}"),
            None => format!("its rank {rank}"),
        }
    }

    /// Returns the end of a rank of a communicator.
    pub(super) fn endpoint_of_rank(
        &mut self,
        matrix: &mut TrafficMatrix,
        ends: EndpointLevel,
        comm: &MatrixComm,
        rank: Option<u32>,
    ) -> EndpointId {
        let Some(rank) = rank else {
            return matrix.intern_endpoint(Endpoint::Unknown, &HostLabel::from_host(b""));
        };
        let seat = self.seats.get(&(comm.clone(), rank)).cloned();
        // A rank without a log is still the job's rank.
        let of_world = (*comm == MatrixComm::World).then(|| RankLocation {
            host: HostLabel::from_host(b""),
            gpu: None,
            rank: Some(rank),
        });
        let seat = seat.or(of_world);
        self.endpoint_at_location(matrix, ends, comm, Some(rank), seat)
    }

    /// Returns the end of a caller.
    pub(super) fn endpoint_of_caller(
        &mut self,
        matrix: &mut TrafficMatrix,
        ends: EndpointLevel,
        made: &RankCalls<'_>,
    ) -> EndpointId {
        let (comm, rank) = self.caller_of(made);
        match rank {
            Some(_) => self.endpoint_of_rank(matrix, ends, &comm, rank),
            // Its host and GPU are known.
            None => {
                self.endpoint_at_location(matrix, ends, &comm, None, Some(location_of_caller(made)))
            }
        }
    }

    fn endpoint_at_location(
        &mut self,
        matrix: &mut TrafficMatrix,
        ends: EndpointLevel,
        comm: &MatrixComm,
        rank: Option<u32>,
        seat: Option<RankLocation>,
    ) -> EndpointId {
        let none = HostLabel::from_host(b"");
        let host = seat.as_ref().map_or(&none, |seat| &seat.host);
        let known = seat.as_ref().and_then(|seat| match ends {
            EndpointLevel::Ranks => seat.rank.map(Endpoint::Rank),
            EndpointLevel::Devices => seat.gpu.map(|gpu| Endpoint::Gpu(seat.host.clone(), gpu)),
            EndpointLevel::Hosts => {
                (!seat.host.is_empty()).then(|| Endpoint::Host(seat.host.clone()))
            }
        });
        let end = known.unwrap_or_else(|| {
            self.strange.insert(comm.clone());
            rank.map_or(Endpoint::Unknown, |rank| {
                Endpoint::Member(comm.name_prefix(), rank)
            })
        });
        matrix.intern_endpoint(end, host)
    }
}

/// Returns the callers of calls.
fn location_of_caller(made: &RankCalls<'_>) -> RankLocation {
    RankLocation {
        host: HostLabel::from_host(&made.who.host),
        gpu: made.who.dev.map(u64::from),
        rank: None,
    }
}

/// Adds sides for callers of tables, which have no INIT lines.
fn add_sides_of_calls(
    sides: &mut Vec<CommunicatorSide>,
    processes: &mut Vec<SpeakerProcess>,
    calls: &[RankCalls<'_>],
) {
    let mut numbers: BTreeMap<(Box<[u8]>, Option<u64>), u32> = BTreeMap::new();
    for (number, process) in (0_u32..).zip(processes.iter()) {
        let name = (process.host.clone(), process.pid);
        numbers.entry(name).or_insert(number);
    }
    let of = |side: &CommunicatorSide| Some((side.process, side.comm_id?, side.rank?));
    let mut known: BTreeSet<(u32, CommId, u32)> = sides.iter().filter_map(of).collect();
    for made in calls {
        let who = made.who;
        let (Some(id), Some(rank)) = (who.comm_id, who.rank) else {
            continue;
        };
        let name = (who.host.clone(), who.pid);
        let number = *numbers.entry(name).or_insert_with(|| {
            processes.push(SpeakerProcess {
                host: who.host.clone(),
                pid: who.pid,
            });
            u32::try_from(processes.len() - 1).unwrap_or(u32::MAX)
        });
        if known.insert((number, id, rank)) {
            sides.push(CommunicatorSide {
                process: number,
                comm: who.comm.unwrap_or(0),
                rank: Some(rank),
                nranks: made.nranks,
                comm_id: Some(id),
                dev: who.dev,
                ..CommunicatorSide::default()
            });
        }
    }
}

/// Returns the addresses of MPI's communicator of all ranks: the addresses of the largest communicator, if each
/// rank has one. Each process has addresses of its own, and a message does not have the size of its
/// communicator.
fn find_mpi_worlds(calls: &[RankCalls<'_>]) -> BTreeSet<u64> {
    let all = || {
        let those = calls.iter().filter(|made| made.is_mpi());
        those.filter_map(|made| Some((made.who.rank?, made.who.comm?, made.nranks)))
    };
    let mut of_rank: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    let largest = all().filter_map(|(.., nranks)| nranks).max();
    let sized: BTreeSet<u64> = all()
        .filter(|(.., nranks)| nranks.is_some() && *nranks == largest)
        .map(|(_, comm, _)| comm)
        .collect();
    for (rank, comm, _) in all() {
        if largest.is_none() || sized.contains(&comm) {
            of_rank.entry(rank).or_default().insert(comm);
        }
    }
    match of_rank.values().all(|comms| comms.len() == 1) {
        true => of_rank.into_values().flatten().collect(),
        false => BTreeSet::new(),
    }
}
