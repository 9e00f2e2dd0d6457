//! The only rank, or the ranks of the only host, that printed nothing after a failure.

use super::FailureEvidence;
use crate::grammar::ending::FailureCause;
use crate::stages::check::finding::{
    About, Confidence, DeadRanks, Evidence, Finding, Kind, Reason,
};
use crate::stages::check::log::job_end_lines::JobEndLine;
use crate::stages::check::ranks::names::RankNames;
use crate::stages::check::words::failures as words;
use crate::stages::net::net_stage::FirstReportLine;
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet};

impl FailureEvidence<'_> {
    /// Returns for each job the only rank, or the ranks of the only host, that printed nothing after its failure when
    /// all others did.
    pub(super) fn find_dead_processes(&self, alarms: &[JobEndLine]) -> Vec<Finding> {
        let mut jobs: BTreeMap<Option<u32>, Vec<&JobEndLine>> = BTreeMap::new();
        for alarm in alarms {
            jobs.entry(self.ranks.job_at(alarm.at))
                .or_default()
                .push(alarm);
        }
        let found = jobs.into_iter();
        found
            .filter_map(|(job, alarms)| self.find_dead_process(job, &alarms))
            .collect()
    }

    fn find_dead_process(&self, job: Option<u32>, alarms: &[&JobEndLine]) -> Option<Finding> {
        let alarm = alarms.first()?;
        // Lines of another job's ranks show nothing of this job.
        let is_own = |at: FirstReportLine| job.is_none() || self.ranks.job_at(at) == job;
        let spoke = alarms
            .iter()
            .flat_map(|alarm| self.ends.ranks_speaking_after(alarm.at));
        // Lines of the watchdog are about the failure also where no line before them reports it.
        let watched = self.watched.iter().filter(|w| is_own(w.at));
        let watched = watched.filter(|w| !alarms.iter().any(|alarm| alarm.at.input == w.at.input));
        let spoke: BTreeSet<u32> = spoke.chain(watched.filter_map(|w| w.global)).collect();
        let is_member = |&side: &usize| {
            let process = self.found.sides[side].process;
            job.is_none_or(|job| self.ranks.job_of(process) == job)
        };
        let worlds = self.found.communicators.iter();
        let worlds =
            worlds.filter(|c| c.place.has_all_job_ranks() && c.sides.iter().any(is_member));
        let world = worlds.filter_map(|c| c.nranks).max()?;
        let silent: BTreeSet<u32> = (0..world).filter(|rank| !spoke.contains(rank)).collect();
        let rank = *silent.first()?;
        let is_one = silent.len() == 1 || self.are_all_of_a_host(&silent, alarm.at);
        if !is_one || spoke.len() < 2 {
            return None;
        }
        let process = self.ranks.process_of_rank(rank, alarm.at);
        let named = process.map(|at| &self.found.processes[at as usize]);
        let lost = self.ends.collect_reported().into_iter().find(|f| {
            let gone = |words: &[u8]| memmem::find(&f.line.text, words).is_some();
            f.what == FailureCause::Nccl && gone(b"ncclRemoteError")
        });
        let dead = DeadRanks {
            is_host: named.is_some() && silent.len() > 1,
            are_many: silent.len() > 1,
            is_connection_lost: lost.is_some(),
        };
        let names = RankNames { found: self.found };
        let place = process.map(|process| names.process_and_gpu(process));
        let says = words::describe_dead_ranks(&dead, place, rank, &silent, &spoke);
        // The lines of a host may be elsewhere.
        let sure = match dead.is_connection_lost && !dead.are_many {
            true => Confidence::High,
            false => Confidence::Medium,
        };
        let mut evidence: Vec<Evidence> = vec![alarm.to_evidence()];
        evidence.extend(
            lost.filter(|f| f.line.at != alarm.at)
                .map(|f| f.line.to_evidence()),
        );
        Some(Finding {
            about: About {
                host: named.map(|p| p.host.clone()),
                pid: named.and_then(|p| p.pid),
                rank: Some(rank),
                ..About::default()
            },
            evidence,
            reasons: vec![Reason::Dead(dead)],
            ..Finding::of_kind(Kind::DeadProcess, sure, says)
        })
    }

    /// True for ranks that are all those of one host.
    fn are_all_of_a_host(&self, ranks: &BTreeSet<u32>, at: FirstReportLine) -> bool {
        let host = |rank: u32| {
            let process = self.ranks.process_of_rank(rank, at)?;
            Some(&self.found.processes[process as usize].host)
        };
        let Some(own) = ranks.first().and_then(|&rank| host(rank)) else {
            return false;
        };
        let there = self
            .ranks
            .iter_ranks()
            .filter(|(rank, _)| host(*rank) == Some(own));
        let there: BTreeSet<u32> = there.map(|(rank, _)| rank).collect();
        *ranks == there
    }
}
