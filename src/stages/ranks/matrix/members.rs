//! Who is which rank of which communicator: where that is, and which rank of the job it is.

use super::cells::{EndId, Matrix};
use super::ends::{End, Name};
use super::{Ends, Made};
use crate::members::Process;
use crate::members::comm_id::CommId;
use crate::stages::communicators::{self, Communicator, Gpu, Named, Side, Union, gpu};
use std::collections::{BTreeMap, BTreeSet};

/// A communicator, as far as calls tell which it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Comm {
    /// By the id that its members share.
    Id(CommId),
    /// All ranks of an MPI job.
    World,
    /// A handle of MPI's, which may be another communicator's on another rank.
    Handle(u64),
    /// By its address in one process.
    Own(Box<[u8]>, Option<u64>, u64),
    /// Nothing is known but its size; 0 where not even that is.
    Size(u32),
}

impl Comm {
    /// Its name in front of a rank.
    fn name(&self) -> Name {
        Name::of(self.text().as_bytes())
    }

    /// Its name.
    pub(super) fn text(&self) -> String {
        match self {
            Comm::Id(id) => id.to_string(),
            Comm::World => "world".to_owned(),
            Comm::Handle(comm) | Comm::Own(_, _, comm) => format!("0x{comm:x}"),
            Comm::Size(0) => "unknown".to_owned(),
            Comm::Size(n) => format!("{n}ranks"),
        }
    }

    /// True where different communicators cannot be taken for one.
    pub(super) fn is_known(&self) -> bool {
        matches!(self, Comm::Id(_) | Comm::World)
    }
}

/// Where a rank of a communicator is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seat {
    /// The host; empty where it is not known.
    pub(super) host: Name,
    /// The GPU's number there.
    pub(super) gpu: Option<u64>,
    /// The rank in the job.
    pub(super) rank: Option<u32>,
}

/// Which communicators calls were made on, and who is in them.
#[derive(Debug, Default)]
pub(super) struct Members {
    seats: BTreeMap<(Comm, u32), Seat>,
    /// By host, process and device: the rank in the job, `None` where it has several.
    jobs: BTreeMap<(Name, Option<u64>, Option<u32>), Option<u32>>,
    /// How many ranks a communicator has.
    sizes: BTreeMap<CommId, u32>,
    /// Addresses that are communicators of all ranks of an MPI job.
    worlds: BTreeSet<u64>,
    /// Ends that are no rank of the job, though ranks of the job are asked for.
    pub(super) strange: BTreeSet<Comm>,
}

impl Members {
    /// Who is who: what the logs say (`sides`), and who made the calls.
    pub(super) fn of(
        mut sides: Vec<Side>,
        mut processes: Vec<Process>,
        calls: &[Made<'_>],
    ) -> Members {
        let mut members = Members {
            worlds: worlds(calls),
            ..Members::default()
        };
        more(&mut sides, &mut processes, calls);
        let ranks = job_ranks(&sides);
        for side in &sides {
            let Some(process) = processes.get(side.process as usize) else {
                continue;
            };
            let host = Name::of(&process.host);
            let rank = ranks.get(&gpu(side)).copied();
            if let (Some(id), Some(n)) = (side.comm_id, side.nranks) {
                members.sizes.insert(id, n);
            }
            if let (Some(id), Some(of)) = (side.comm_id, side.rank) {
                let seat = Seat {
                    host: host.clone(),
                    gpu: side.nvml_dev.or(side.dev).map(u64::from),
                    rank,
                };
                members.sit((Comm::Id(id), of), seat);
            }
            if rank.is_some() {
                let at = (host, process.pid, side.dev);
                let of = members.jobs.entry(at).or_insert(rank);
                *of = of.filter(|_| *of == rank);
            }
        }
        for made in calls {
            let (comm, rank) = members.who(made);
            if let (false, Some(rank)) = (matches!(comm, Comm::Id(_)), rank) {
                let seat = Seat {
                    rank: (comm == Comm::World).then_some(rank),
                    ..here(made)
                };
                members.sit((comm, rank), seat);
            }
        }
        members
    }

    fn sit(&mut self, at: (Comm, u32), seat: Seat) {
        let other = self.seats.entry(at).or_insert_with(|| seat.clone());
        if *other != seat {
            // Where two differ in one thing, the rest is still known.
            let host = (other.host == seat.host).then(|| seat.host.clone());
            *other = Seat {
                host: host.unwrap_or_else(|| Name::of(b"")),
                gpu: seat.gpu.filter(|_| other.gpu == seat.gpu),
                rank: seat.rank.filter(|_| other.rank == seat.rank),
            };
        }
    }

    /// The communicator of calls, and the rank that made them.
    pub(super) fn who(&self, made: &Made<'_>) -> (Comm, Option<u32>) {
        let who = made.who;
        let comm = match (who.comm_id, who.comm) {
            (Some(id), _) => Comm::Id(id),
            (None, Some(comm)) if made.is_mpi() => match self.worlds.contains(&comm) {
                true => Comm::World,
                false => Comm::Handle(comm),
            },
            (None, Some(comm)) => Comm::Own(who.host.clone(), who.pid, comm),
            (None, None) => Comm::Size(made.nranks.unwrap_or(0)),
        };
        (comm, who.rank)
    }

    /// The ranks in the job of each communicator's members, by their ranks in it, where all are known.
    pub(super) fn whole(&self) -> BTreeMap<CommId, Vec<u32>> {
        let mut all: BTreeMap<CommId, Vec<u32>> = BTreeMap::new();
        for ((comm, rank), seat) in &self.seats {
            if let Comm::Id(id) = comm {
                let known = all.entry(*id).or_default();
                // They come in order: a gap leaves the list too short.
                if let Some(job) = seat.rank.filter(|_| known.len() == *rank as usize) {
                    known.push(job);
                }
            }
        }
        all.retain(|id, known| self.sizes.get(id).map(|n| *n as usize) == Some(known.len()));
        all
    }

    /// The rank in the job of a process's device.
    pub(super) fn job_rank(&self, host: &Name, pid: Option<u64>, device: u32) -> Option<u32> {
        let of = self.jobs.get(&(host.clone(), pid, Some(device)));
        of.copied().flatten()
    }

    /// The end that a rank of a communicator is.
    pub(super) fn end(
        &mut self,
        matrix: &mut Matrix,
        ends: Ends,
        comm: &Comm,
        rank: Option<u32>,
    ) -> EndId {
        let Some(rank) = rank else {
            return matrix.end(End::Unknown, &Name::of(b""));
        };
        let seat = self.seats.get(&(comm.clone(), rank)).cloned();
        // One whose log is not there is the job's rank all the same.
        let of_world = (*comm == Comm::World).then(|| Seat {
            host: Name::of(b""),
            gpu: None,
            rank: Some(rank),
        });
        let seat = seat.or(of_world);
        self.seated(matrix, ends, (comm, Some(rank)), seat)
    }

    /// The end that made these calls.
    pub(super) fn own_end(&mut self, matrix: &mut Matrix, ends: Ends, made: &Made<'_>) -> EndId {
        let (comm, rank) = self.who(made);
        match rank {
            Some(_) => self.end(matrix, ends, &comm, rank),
            // Its host and GPU are known all the same.
            None => self.seated(matrix, ends, (&comm, None), Some(here(made))),
        }
    }

    fn seated(
        &mut self,
        matrix: &mut Matrix,
        ends: Ends,
        (comm, rank): (&Comm, Option<u32>),
        seat: Option<Seat>,
    ) -> EndId {
        let none = Name::of(b"");
        let host = seat.as_ref().map_or(&none, |seat| &seat.host);
        let known = seat.as_ref().and_then(|seat| match ends {
            Ends::Ranks => seat.rank.map(End::Rank),
            Ends::Devices => seat.gpu.map(|gpu| End::Gpu(seat.host.clone(), gpu)),
            Ends::Hosts => (!seat.host.is_empty()).then(|| End::Host(seat.host.clone())),
        });
        let end = known.unwrap_or_else(|| {
            self.strange.insert(comm.clone());
            rank.map_or(End::Unknown, |rank| End::Member(comm.name(), rank))
        });
        matrix.end(end, host)
    }
}

/// The ranks of GPUs in their job. A job is what communicators connect. Its ranks are those of the first
/// communicator that has all its GPUs, and all of whose members are known: where some are not, it may
/// be a part of the job.
fn job_ranks(sides: &[Side]) -> BTreeMap<Gpu, u32> {
    let all = communicators::communicators(sides);
    let named = || all.iter().filter(|c| !matches!(c.key, Named::Own(_)));
    let members = |communicator: &Communicator| {
        let of = communicator.sides.iter().filter_map(|&at| sides.get(at));
        of.map(|side| (gpu(side), side.rank)).collect::<Vec<_>>()
    };
    let mut numbers: BTreeMap<Gpu, usize> = BTreeMap::new();
    for (gpu, _) in named().flat_map(members) {
        let next = numbers.len();
        numbers.entry(gpu).or_insert(next);
    }
    let number = |gpu: &Gpu| numbers.get(gpu).copied().unwrap_or(0);
    let mut job = Union::new(numbers.len());
    for communicator in named() {
        let members = members(communicator);
        for pair in members.windows(2) {
            if let [(a, _), (b, _)] = pair {
                job.join(number(a), number(b));
            }
        }
    }
    let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
    for at in 0..numbers.len() {
        *sizes.entry(job.root(at)).or_default() += 1;
    }
    // A larger communicator shows that some of the job's ranks were not seen.
    let mut largest: BTreeMap<usize, usize> = BTreeMap::new();
    for communicator in named() {
        if let (Some((gpu, _)), Some(n)) = (members(communicator).first(), communicator.nranks) {
            let of = largest.entry(job.root(number(gpu))).or_default();
            *of = (n as usize).max(*of);
        }
    }
    let mut known: BTreeSet<usize> = BTreeSet::new();
    let mut ranks = BTreeMap::new();
    for communicator in named() {
        let members = members(communicator);
        let Some(root) = members.first().map(|(gpu, _)| job.root(number(gpu))) else {
            continue;
        };
        let gpus: BTreeSet<Gpu> = members.iter().map(|(gpu, _)| *gpu).collect();
        let of: BTreeSet<u32> = members.iter().filter_map(|(_, rank)| *rank).collect();
        let size = sizes.get(&root).copied().unwrap_or(0);
        let nranks = communicator.nranks.map(|n| n as usize);
        let is_whole = largest.get(&root) == Some(&size)
            && nranks == Some(size)
            && gpus.len() == size
            && of.len() == size;
        if is_whole && known.insert(root) {
            let of = members.into_iter();
            ranks.extend(of.filter_map(|(gpu, rank)| Some((gpu, rank?))));
        }
    }
    ranks
}

/// Who made calls, as they themselves tell.
fn here(made: &Made<'_>) -> Seat {
    Seat {
        host: Name::of(&made.who.host),
        gpu: made.who.dev.map(u64::from),
        rank: None,
    }
}

/// Adds sides that only calls tell of: tables have no INIT lines.
fn more(sides: &mut Vec<Side>, processes: &mut Vec<Process>, calls: &[Made<'_>]) {
    let mut numbers: BTreeMap<(Box<[u8]>, Option<u64>), u32> = BTreeMap::new();
    for (number, process) in (0_u32..).zip(processes.iter()) {
        let name = (process.host.clone(), process.pid);
        numbers.entry(name).or_insert(number);
    }
    let of = |side: &Side| Some((side.process, side.comm_id?, side.rank?));
    let mut known: BTreeSet<(u32, CommId, u32)> = sides.iter().filter_map(of).collect();
    for made in calls {
        let who = made.who;
        let (Some(id), Some(rank)) = (who.comm_id, who.rank) else {
            continue;
        };
        let name = (who.host.clone(), who.pid);
        let number = *numbers.entry(name).or_insert_with(|| {
            processes.push(Process {
                host: who.host.clone(),
                pid: who.pid,
            });
            u32::try_from(processes.len() - 1).unwrap_or(u32::MAX)
        });
        if known.insert((number, id, rank)) {
            sides.push(Side {
                process: number,
                comm: who.comm.unwrap_or(0),
                rank: Some(rank),
                nranks: made.nranks,
                comm_id: Some(id),
                dev: who.dev,
                ..Side::default()
            });
        }
    }
}

/// The addresses of MPI's communicator of all ranks: those of the largest, if each rank has one. Each
/// process has addresses of its own, and a message does not tell the size of its communicator.
fn worlds(calls: &[Made<'_>]) -> BTreeSet<u64> {
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
