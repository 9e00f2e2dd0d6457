//! How ranks, communicators and calls are named in a sentence.

use crate::calls::same::Content;
use crate::grammar::values::{Datatype, RedOp, has_redop, has_root};
use crate::members::SpeakerProcess;
use crate::stages::check::finding::About;
use crate::stages::check::streams::compare::CommMember;
use crate::stages::check::streams::wanted_streams::CallDetail;
use crate::stages::check::wording::{list_names, list_ranks};
use crate::stages::communicators::{CommunicatorsSummary, gpu_of_side};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Names of what was found.
#[derive(Clone, Copy)]
pub(crate) struct RankNames<'a> {
    pub(crate) found: &'a CommunicatorsSummary,
}

impl<'a> RankNames<'a> {
    /// The process of a side.
    pub(crate) fn process_of_side(&self, side: usize) -> &SpeakerProcess {
        &self.found.processes[self.found.sides[side].process as usize]
    }

    /// [`Self::describe_actor`] with its rank in the communicator: `rank 11 (node1, GPU 3, pid 4123, its rank 3)`
    /// where that is another, `its rank 3 (node1:4123)` where it alone is known.
    pub(crate) fn describe_member(&self, member: &CommMember) -> String {
        let (side, own) = (member.side, member.rank);
        match (self.job_rank_of_side(side), own) {
            (Some(job), Some(own)) if job != own => {
                format!("rank {job} ({}, its rank {own})", self.describe_place(side))
            }
            (None, Some(own)) => {
                format!(
                    "its rank {own} ({})",
                    describe_process(self.process_of_side(side))
                )
            }
            _ => self.describe_actor(side),
        }
    }

    /// `rank 11 (node1, GPU 3, pid 4123)`, by its rank in the job; `node1:4123` where that is unknown.
    pub(crate) fn describe_actor(&self, side: usize) -> String {
        match self.job_rank_of_side(side) {
            Some(rank) => format!("rank {rank} ({})", self.describe_place(side)),
            None => describe_process(self.process_of_side(side)),
        }
    }

    /// `node1, GPU 3, pid 4123`.
    fn describe_place(&self, side: usize) -> String {
        let gpu = self.found.sides[side].gpu_on_host();
        describe_process_and_gpu(self.process_of_side(side), gpu)
    }

    /// A process and its GPU, where it has one.
    pub(crate) fn process_and_gpu(&self, process: u32) -> (&'a SpeakerProcess, Option<u32>) {
        let found = self.found;
        let named = &found.processes[process as usize];
        let sides = found.sides_of_process(&named.host, named.pid).iter();
        let mut gpus = sides.filter_map(|&side| found.sides[side].gpu_on_host());
        let first = gpus.next();
        (named, first.filter(|first| gpus.all(|gpu| gpu == *first)))
    }

    /// The rank of a side's GPU in a communicator.
    pub(crate) fn rank_of_side_in(&self, side: usize, communicator: usize) -> Option<u32> {
        let found = self.found;
        let own = gpu_of_side(&found.sides[side]);
        let members = found.communicators[communicator].sides.iter();
        let mut members = members.map(|&at| &found.sides[at]);
        members.find(|side| gpu_of_side(side) == own)?.rank
    }

    /// The rank in the job of a side's GPU, where a communicator of all ranks gives it.
    pub(crate) fn job_rank_of_side(&self, side: usize) -> Option<u32> {
        self.found.job_rank_of_side(side)
    }

    /// As [`describe_call`], with the peer of a message: `Recv of 5 int64 from rank 44`.
    pub(crate) fn describe_call_on(&self, call: &CallDetail, communicator: usize) -> String {
        describe_call(call) + &self.describe_peer(&call.op, communicator, call.line.root)
    }

    /// ` from rank 44`, by the rank in the job; ` to its rank 1` where that is unknown; empty for a collective.
    pub(crate) fn describe_peer(&self, op: &[u8], communicator: usize, peer: i64) -> String {
        let way = match op {
            b"Send" => "to",
            b"Recv" => "from",
            _ => return String::new(),
        };
        let sides = self.found.communicators[communicator].sides.iter();
        let is_peer = |side: &&usize| self.found.sides[**side].rank.map(i64::from) == Some(peer);
        match sides
            .filter(is_peer)
            .find_map(|&side| self.job_rank_of_side(side))
        {
            Some(job) => format!(" {way} rank {job}"),
            None => format!(" {way} its rank {peer}"),
        }
    }

    /// `rank 11 (node1:4123)`, `ranks 9-12, 15` by their ranks in the job, else `its ranks 1, 2`.
    pub(crate) fn describe_members(&self, members: &[CommMember]) -> String {
        if let [one] = members {
            return self.describe_member(one);
        }
        let of_job = members.iter().map(|m| self.job_rank_of_side(m.side));
        if let Some(ranks) = of_job.collect::<Option<BTreeSet<u32>>>() {
            return list_ranks(&ranks);
        }
        if let Some(ranks) = members
            .iter()
            .map(|m| m.rank)
            .collect::<Option<BTreeSet<u32>>>()
        {
            return format!("its {}", list_ranks(&ranks));
        }
        let all: Vec<String> = members.iter().map(|m| self.describe_member(m)).collect();
        list_names(&all)
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
            ..About::default()
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
        match of.label.describe() {
            None => format!("{id} ({ranks} ranks)"),
            Some(label) => format!("{id} ({label}, {ranks} ranks)"),
        }
    }
}

/// `node1, GPU 3, pid 4123`.
pub(crate) fn describe_process_and_gpu(process: &SpeakerProcess, gpu: Option<u32>) -> String {
    let mut place = vec![String::from_utf8_lossy(&process.host).into_owned()];
    place.extend(gpu.map(|gpu| format!("GPU {gpu}")));
    place.extend(process.pid.map(|pid| format!("pid {pid}")));
    place.join(", ")
}

/// `node1:4123`.
pub(crate) fn describe_process(process: &SpeakerProcess) -> String {
    let host = String::from_utf8_lossy(&process.host);
    match process.pid {
        Some(pid) => format!("{host}:{pid}"),
        None => host.into_owned(),
    }
}

/// `AllReduce of 1024 fp32 sum`, `Broadcast of 5 int64 root 0`; a message without its peer, which is another rank
/// in the job.
pub(crate) fn describe_call(call: &CallDetail) -> String {
    describe_content(&Content {
        op: &call.op,
        count: call.line.count,
        datatype: call.line.datatype,
        redop: call.line.redop,
        root: call.line.root,
    })
}

/// As [`describe_call`].
pub(crate) fn describe_content(call: &Content<'_>) -> String {
    let op = String::from_utf8_lossy(call.op);
    let mut text = format!("{op} of {} {}", call.count, Datatype(call.datatype));
    if has_redop(call.op) {
        let _ = write!(text, " {}", RedOp(call.redop));
    }
    if has_root(call.op) && !matches!(call.op, b"Send" | b"Recv") {
        let _ = write!(text, " root {}", call.root);
    }
    text
}
