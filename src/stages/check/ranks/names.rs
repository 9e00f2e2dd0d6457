//! How ranks, communicators and calls are named in a sentence.

use crate::grammar::values::{Datatype, RedOp, has_redop, has_root};
use crate::members::Process;
use crate::stages::check::finding::About;
use crate::stages::check::streams::compare::Ranked;
use crate::stages::check::streams::reread::Detail;
use crate::stages::check::wording::listed;
use crate::stages::communicators::{Found, gpu};

/// Names of what was found.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) found: &'a Found,
}

impl Names<'_> {
    /// The process of a side.
    pub(crate) fn process(&self, side: usize) -> &Process {
        &self.found.processes[self.found.sides[side].process as usize]
    }

    /// `rank 3 (node1:4123)`; `rank 3 (node1:4123, rank 11 of the job)` where it is another there;
    /// `node1:4123` where the rank is not known.
    pub(crate) fn rank(&self, member: &Ranked) -> String {
        let process = process(self.process(member.side));
        match member.rank {
            Some(rank) => format!("rank {rank} ({process}{})", self.of_job(member.side, rank)),
            None => process,
        }
    }

    /// `, rank 11 of the job`, where a side's rank in the job is another than `rank`.
    pub(crate) fn of_job(&self, side: usize, rank: u32) -> String {
        let job = self.in_job(side).filter(|&job| job != rank);
        job.map_or_else(String::new, |job| format!(", rank {job} of the job"))
    }

    /// The rank in the job of a side's GPU, where a communicator of all ranks gives it.
    pub(crate) fn in_job(&self, side: usize) -> Option<u32> {
        let found = self.found;
        let own = gpu(&found.sides[side]);
        let mut worlds = found
            .communicators
            .iter()
            .filter(|c| c.place.is_all() && c.place.sure);
        worlds.find_map(|world| {
            let mut sides = world.sides.iter().map(|&at| &found.sides[at]);
            sides.find(|side| gpu(side) == own)?.rank
        })
    }

    /// `rank 3 (node1:4123)`, `ranks 1, 2, 3, 4 and 7 more`.
    pub(crate) fn ranks(&self, members: &[Ranked]) -> String {
        let ranks: Option<Vec<String>> = members
            .iter()
            .map(|m| m.rank.map(|rank| rank.to_string()))
            .collect();
        match (members, ranks) {
            ([one], _) => self.rank(one),
            (_, Some(ranks)) => format!("ranks {}", listed(&ranks)),
            (_, None) => {
                let all: Vec<String> = members.iter().map(|m| self.rank(m)).collect();
                listed(&all)
            }
        }
    }

    /// A finding about a member's call.
    pub(crate) fn about(&self, member: &Ranked, communicator: usize, seq: u64) -> About {
        let process = self.process(member.side);
        About {
            host: Some(process.host.clone()),
            pid: process.pid,
            rank: member.rank,
            comm_id: self.id(communicator),
            seq: Some(seq),
            step: None,
        }
    }

    /// The communicator's id, if it is known.
    pub(crate) fn id(&self, communicator: usize) -> Option<String> {
        self.found.communicators[communicator].key.text()
    }

    /// `0x5aa5 (tensor, 8 ranks)`; without an id the address in one process, `0x55e0 in node1:4123
    /// (8 ranks)`.
    pub(crate) fn communicator(&self, communicator: usize) -> String {
        let of = &self.found.communicators[communicator];
        let address = |&side: &usize| {
            let comm = self.found.sides[side].comm;
            format!("{comm:#x} in {}", process(self.process(side)))
        };
        let id = self.id(communicator);
        let id = id.or_else(|| of.sides.first().map(address));
        let id = id.unwrap_or_default();
        let ranks = of.nranks.unwrap_or(0);
        match of.label.of.name() {
            "unknown" => format!("{id} ({ranks} ranks)"),
            label => format!("{id} ({label}, {ranks} ranks)"),
        }
    }
}

/// `node1:4123`.
pub(crate) fn process(process: &Process) -> String {
    let host = String::from_utf8_lossy(&process.host);
    match process.pid {
        Some(pid) => format!("{host}:{pid}"),
        None => host.into_owned(),
    }
}

/// `AllReduce of 1024 fp32 sum`, `Broadcast of 5 int64 from 0`.
pub(crate) fn call(call: &Detail) -> String {
    let mut text = format!(
        "{} of {} {}",
        String::from_utf8_lossy(&call.op),
        call.count,
        Datatype(call.datatype)
    );
    if has_redop(&call.op) {
        text += &format!(" {}", RedOp(call.redop));
    }
    match &call.op[..] {
        b"Send" => text += &format!(" to {}", call.root),
        b"Recv" => text += &format!(" from {}", call.root),
        _ if has_root(&call.op) => text += &format!(" root {}", call.root),
        _ => {}
    }
    text
}
