//! Ranks that made fewer calls than the others when the log ends, and for which of them the others
//! wait.
//!
//! A rank that stops makes its neighbours stop, and these theirs: at the end most ranks are behind
//! some other. But a rank that waits is ahead of the one for which it waits. So the rank to look at
//! is behind some rank and ahead of none.

mod ahead;
mod behind;
mod progress;

use super::difference_context::DifferenceContext;
use super::last_calls::LastCallByProcess;
use super::names::RankNames;
use super::stopped::whole_steps::UnevenSides;
use super::stopped::{JobLiveness, StopDetector, StopEvidence};
use super::unmet_calls::UnmetCalls;
use crate::stages::check::finding::Finding;
use crate::stages::check::streams::compare::{DifferingComm, UnpairedMessages};
use progress::{ProcessProgress, compute_progress};
use std::collections::{BTreeMap, BTreeSet};

/// What else is known of how the job ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct JobEndSignals {
    /// PyTorch's watchdog or a WARN reports that it failed.
    pub(crate) said: bool,
    /// That, or communicators were aborted, as some trainers also end healthy jobs.
    pub(crate) failed: bool,
    /// Missing calls at the end of the log were not cut off.
    pub(crate) uncut: bool,
    /// Connections to a process that ended were lost, and nothing timed out before.
    pub(crate) lost: bool,
}

/// What was found of ranks that are behind.
pub(super) struct LaggardFindings {
    /// The findings.
    pub(crate) findings: Vec<Finding>,
    /// The processes that the others wait for, and on how many communicators and pairs.
    pub(crate) laggards: BTreeMap<u32, usize>,
    /// The jobs that nothing shows to have stopped: that ranks are behind there is no finding.
    pub(crate) going_on: BTreeSet<u32>,
    /// The findings if those jobs stopped, too, where the log was watched and stalled.
    pub(crate) last_resort: Vec<Finding>,
    /// One of the laggards made no call in a step of its own: no cut's doing.
    pub(crate) skipped: bool,
}

impl DifferenceContext<'_> {
    /// Returns the findings on ranks that are behind on `apart`, and on pairs; members of those in `partial` have no lines.
    pub(super) fn find_laggards(
        &self,
        apart: &[&DifferingComm],
        partial: &[&DifferingComm],
        unpaired: &[UnpairedMessages],
        unmet: &UnmetCalls<'_>,
        end: JobEndSignals,
        stops: StopDetector<'_>,
    ) -> LaggardFindings {
        let waits = self.list_waiting_processes();
        let standings = compute_progress(apart, partial, unpaired, &waits, self.names);
        let mut laggards: BTreeMap<u32, usize> = standings
            .iter()
            .filter(|(process, s)| !s.ahead && !s.behind.is_empty() && !waits.contains(process))
            .map(|(&process, s)| (process, s.behind.len()))
            .collect();
        let jobs: BTreeSet<u32> = standings.keys().map(|&p| stops.job_of_process(p)).collect();
        let stop = |&job: &u32| {
            let own = laggards.keys().filter(|&&p| stops.job_of_process(p) == job);
            let own: Vec<u32> = own.copied().collect();
            Some((job, stops.find_stop(job, &own, apart)?))
        };
        let stopped: BTreeMap<u32, StopEvidence> = jobs.iter().filter_map(stop).collect();
        let going_on: BTreeSet<u32> = jobs
            .into_iter()
            .filter(|job| !stopped.contains_key(job))
            .collect();
        // Ranks wait only for those of their own job and attempt.
        let findings = |stopped: &BTreeMap<u32, StopEvidence>, laggards: &BTreeMap<u32, usize>| {
            let mut findings = Vec::new();
            for (&job, &stop) in stopped {
                let is_own = |process: &u32| stops.job_of_process(*process) == job;
                let own = standings.iter().filter(|(process, _)| is_own(process));
                let standings: BTreeMap<u32, &ProcessProgress> =
                    own.map(|(&p, s)| (p, s)).collect();
                let laggards: Vec<u32> = laggards.keys().copied().filter(is_own).collect();
                let apart = apart.iter().copied();
                let apart =
                    apart.filter(|a| stops.job_of_communicator(a.communicator) == Some(job));
                let apart: Vec<&DifferingComm> = apart.collect();
                let told = LagContext {
                    waiting: standings.values().filter(|s| s.ahead).count(),
                    standings,
                    last: self.last,
                    unmet,
                    names: self.names,
                    end,
                    stop,
                    stops,
                    laggards: laggards.len(),
                    uneven: stops.uneven_job_sides(apart.iter().copied()),
                };
                findings.extend(told.report_laggards(&apart, laggards.into_iter()));
            }
            findings
        };
        let mut last_resort = Vec::new();
        if stops.failures.now == JobLiveness::Stalled && !going_on.is_empty() {
            let stalled = going_on.iter().map(|&job| (job, StopEvidence::Stalled));
            let all = stalled.chain(stopped.iter().map(|(&job, &stop)| (job, stop)));
            // The rank that prints step lines waits for its GPU at the end of each step, as the others do not.
            let mut accused = laggards.clone();
            accused.retain(|&process, _| !stops.prints_steps(process));
            if !accused.is_empty() {
                last_resort = findings(&all.collect(), &accused);
            }
        }
        laggards.retain(|&process, _| !going_on.contains(&stops.job_of_process(process)));
        LaggardFindings {
            findings: findings(&stopped, &laggards),
            skipped: laggards
                .keys()
                .any(|&process| stops.has_skipped_step(process)),
            laggards,
            going_on,
            last_resort,
        }
    }
}

/// One job's ranks that are behind and ahead.
struct LagContext<'a> {
    standings: BTreeMap<u32, &'a ProcessProgress>,
    last: &'a LastCallByProcess<'a>,
    unmet: &'a UnmetCalls<'a>,
    names: RankNames<'a>,
    end: JobEndSignals,
    /// What shows that the job stopped.
    stop: StopEvidence,
    stops: StopDetector<'a>,
    waiting: usize,
    /// The number of ranks that wait for no other.
    laggards: usize,
    /// Two sides that are whole steps apart.
    uneven: Option<&'a UnevenSides>,
}

impl LagContext<'_> {
    /// If few ranks are ahead of many, reports that they made too many calls; else the ranks
    /// behind, host by host.
    fn report_laggards(
        &self,
        apart: &[&DifferingComm],
        laggards: impl Iterator<Item = u32>,
    ) -> Vec<Finding> {
        if let Some(finding) = self.report_ranks_ahead(apart) {
            return vec![finding];
        }
        let hosts = self.group_laggards_by_host(laggards);
        hosts
            .iter()
            .filter_map(|those| self.report_host_behind(those))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::JobLiveness;
    use crate::report::Report;
    use crate::source::InputName;
    use crate::stages::check::check;
    use crate::stages::check::kind::Kind;
    use crate::testing::{Nobody, options};
    use std::io::{BufRead, BufReader, Write};

    /// A stall is no report of a failure: ranks that ran ahead are not to blame.
    #[test]
    fn a_rank_behind_is_blamed_where_the_log_stalled() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/testdata/captured/3d-stall/nccl.log.gz"
        );
        let packed = std::fs::File::open(path).unwrap();
        let lines = BufReader::new(flate2::read::MultiGzDecoder::new(packed)).split(b'\n');
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for line in lines.take(14_000) {
            file.write_all(&line.unwrap()).unwrap();
            file.write_all(b"\n").unwrap();
        }
        let origins = [InputName::Path(file.path().to_owned())];
        let find = |now| {
            let mut report = Report::new("test", false, true);
            let read = options(1, false);
            let checked = check(&origins, &read, now, &mut report, &Nobody).unwrap();
            let bad = checked.is_wrong();
            let first = checked.findings.first().map(|f| (f.kind, f.about.rank));
            first.filter(|_| bad)
        };
        assert_eq!(find(JobLiveness::Unknown), None);
        let behind = Some((Kind::RankBehind, Some(1)));
        assert_eq!(find(JobLiveness::Stalled), behind);
    }
}
