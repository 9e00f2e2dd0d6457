//! How ranks, communicators and calls are named in a sentence.

use crate::grammar::values::{Datatype, RedOp, has_redop, has_root};
use crate::members::SpeakerProcess;
use crate::stages::check::finding::About;
use crate::stages::check::streams::compare::CommMember;
use crate::stages::check::streams::wanted_streams::CallDetail;
use crate::stages::check::wording::list_names;
use crate::stages::communicators::{CommunicatorsSummary, gpu_of_side};

/// Names of what was found.
#[derive(Clone, Copy)]
pub(crate) struct RankNames<'a> {
    pub(crate) found: &'a CommunicatorsSummary,
}

impl RankNames<'_> {
    /// The process of a side.
    pub(crate) fn process_of_side(&self, side: usize) -> &SpeakerProcess {
        &self.found.processes[self.found.sides[side].process as usize]
    }

    /// `rank 3 (node1:4123)`; `rank 3 (node1:4123, rank 11 of the job)` where it is another there;
    /// `node1:4123` where the rank is not known.
    pub(crate) fn describe_member(&self, member: &CommMember) -> String {
        let process = describe_process(self.process_of_side(member.side));
        match member.rank {
            Some(rank) => format!(
                "rank {rank} ({process}{})",
                self.describe_job_rank(member.side, rank)
            ),
            None => process,
        }
    }

    /// `, rank 11 of the job`, where a side's rank in the job is another than `rank`.
    pub(crate) fn describe_job_rank(&self, side: usize, rank: u32) -> String {
        let job = self.job_rank_of_side(side).filter(|&job| job != rank);
        job.map_or_else(String::new, |job| format!(", rank {job} of the job"))
    }

    /// The rank in the job of a side's GPU, where a communicator of all ranks gives it.
    pub(crate) fn job_rank_of_side(&self, side: usize) -> Option<u32> {
        let found = self.found;
        let own = gpu_of_side(&found.sides[side]);
        let mut worlds = found
            .communicators
            .iter()
            .filter(|c| c.place.has_all_job_ranks() && c.place.sure);
        worlds.find_map(|world| {
            let mut sides = world.sides.iter().map(|&at| &found.sides[at]);
            sides.find(|side| gpu_of_side(side) == own)?.rank
        })
    }

    /// `rank 3 (node1:4123)`, `ranks 1, 2, 3, 4 and 7 more`.
    pub(crate) fn describe_members(&self, members: &[CommMember]) -> String {
        let ranks: Option<Vec<String>> = members
            .iter()
            .map(|m| m.rank.map(|rank| rank.to_string()))
            .collect();
        match (members, ranks) {
            ([one], _) => self.describe_member(one),
            (_, Some(ranks)) => format!("ranks {}", list_names(&ranks)),
            (_, None) => {
                let all: Vec<String> = members.iter().map(|m| self.describe_member(m)).collect();
                list_names(&all)
            }
        }
    }

    /// A finding about a member's call.
    pub(crate) fn about_call(&self, member: &CommMember, communicator: usize, seq: u64) -> About {
        let process = self.process_of_side(member.side);
        About {
            host: Some(process.host.clone()),
            pid: process.pid,
            rank: member.rank,
            comm_id: self.communicator_id(communicator),
            seq: Some(seq),
            step: None,
        }
    }

    /// The communicator's id, if it is known.
    pub(crate) fn communicator_id(&self, communicator: usize) -> Option<String> {
        self.found.communicators[communicator].key.format_id()
    }

    /// `0x5aa5 (tensor, 8 ranks)`; without an id the address in one process, `0x55e0 in node1:4123
    /// (8 ranks)`.
    pub(crate) fn describe_communicator(&self, communicator: usize) -> String {
        let of = &self.found.communicators[communicator];
        let address = |&side: &usize| {
            let comm = self.found.sides[side].comm;
            format!(
                "{comm:#x} in {}",
                describe_process(self.process_of_side(side))
            )
        };
        let id = self.communicator_id(communicator);
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
pub(crate) fn describe_process(process: &SpeakerProcess) -> String {
    let host = String::from_utf8_lossy(&process.host);
    match process.pid {
        Some(pid) => format!("{host}:{pid}"),
        None => host.into_owned(),
    }
}

/// `AllReduce of 1024 fp32 sum`, `Broadcast of 5 int64 from 0`.
pub(crate) fn describe_call(call: &CallDetail) -> String {
    let mut text = format!(
        "{} of {} {}",
        String::from_utf8_lossy(&call.op),
        call.line.count,
        Datatype(call.line.datatype)
    );
    if has_redop(&call.op) {
        text += &format!(" {}", RedOp(call.line.redop));
    }
    match &call.op[..] {
        b"Send" => text += &format!(" to {}", call.line.root),
        b"Recv" => text += &format!(" from {}", call.line.root),
        _ if has_root(&call.op) => text += &format!(" root {}", call.line.root),
        _ => {}
    }
    text
}
