//! The process that a finding names: the rank in the job, the process and its GPU, as far as INIT lines give them.

use crate::members::comm_id::CommId;
use crate::stages::check::finding::{About, Finding, LineSpot};
use crate::stages::check::log::job_processes::JobProcesses;
use crate::stages::check::ranks::names::RankNames;
use crate::stages::communicators::CommunicatorsSummary;

/// Completes the process that each finding names.
pub(crate) fn name_actors(
    findings: &mut [Finding],
    found: &CommunicatorsSummary,
    processes: &JobProcesses,
) {
    let names = RankNames { found };
    for finding in findings {
        let rank = find_rank_in_job(found, finding);
        finding.about.global_rank = rank.or(finding.about.global_rank);
        let side = find_side(found, &finding.about);
        let side = side.or_else(|| find_side_of_number(found, processes, finding));
        let about = &mut finding.about;
        let Some(side) = side else { continue };
        let process = names.process_of_side(side);
        if about.host.is_none() && about.pid.is_none() {
            (about.host, about.pid) = (Some(process.host.clone()), process.pid);
        }
        if about.global_rank.is_some() {
            about.gpu = found.sides[side].gpu_on_host();
        }
    }
}

/// Returns a side of the rank of a finding that names no process: of several jobs, in the one at work at its line.
fn find_side_of_number(
    found: &CommunicatorsSummary,
    processes: &JobProcesses,
    finding: &Finding,
) -> Option<usize> {
    let rank = finding.about.global_rank?;
    let at_its_line = || {
        let LineSpot::Line(at) = finding.evidence.first()?.at else {
            return None;
        };
        let process = &found.processes[processes.process_of_rank(rank, at)? as usize];
        let own = found.process_sides(&process.host, process.pid)?;
        own.of_job_rank.get(&rank).copied()
    };
    found.side_of_job_rank(rank).or_else(at_its_line)
}

/// Returns the rank in the job that a finding is about.
pub(crate) fn find_rank_in_job(found: &CommunicatorsSummary, finding: &Finding) -> Option<u32> {
    let about = &finding.about;
    match find_side(found, about) {
        // The finding's own rank may be that in a communicator that no line names.
        Some(side) => found.job_rank_of_side(side),
        None => about.rank.filter(|_| about.comm_id.is_none()),
    }
}

/// Returns the job, or attempt of one, that a finding is about: that of its process, else the one at work at its line.
pub(crate) fn find_job(
    found: &CommunicatorsSummary,
    processes: &JobProcesses,
    finding: &Finding,
) -> Option<u32> {
    let side = find_side(found, &finding.about);
    side.map(|side| processes.job_of(found.sides[side].process))
        .or_else(|| match finding.evidence.first()?.at {
            LineSpot::Line(at) => processes.job_at(at),
            LineSpot::Byte { .. } => None,
        })
}

/// Returns a side of the process: that with the finding's rank in its communicator, else one with a rank in the job.
fn find_side(found: &CommunicatorsSummary, about: &About) -> Option<usize> {
    let own = found.process_sides(about.host.as_ref()?, about.pid)?;
    let of_rank = |rank: Option<u32>| own.of_job_rank.get(&rank?);
    let id = about.comm_id.as_ref();
    let named = match id.map(|id| CommId::parse(id.as_bytes())) {
        Some(id) => own.of_member.get(&(id, about.rank)),
        None => of_rank(about.rank),
    };
    let any = || own.of_job_rank.values().min().or(own.all.first());
    let own = named.or_else(|| of_rank(about.global_rank)).or_else(any);
    own.copied()
}
