//! Ranks that made fewer calls than the others when the log ends, and which of them the others
//! wait for.
//!
//! A rank that stops makes its neighbours stop, and they theirs: at the end most ranks are behind
//! some other. But who waits is ahead of the one it waits for. So the one to look at is behind
//! somebody and ahead of nobody.

mod ahead;
mod behind;
mod standing;

use super::last_calls::LastCalls;
use super::names::Names;
use super::stopped::whole_steps::Uneven;
use super::stopped::{Now, Stop, Stops};
use crate::stages::check::finding::Finding;
use crate::stages::check::streams::compare::{Apart, Unpaired};
use standing::{Standing, standings};
use std::collections::{BTreeMap, BTreeSet};

/// What else is known of how the job ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct End {
    /// PyTorch's watchdog or a WARN says that it failed.
    pub(crate) said: bool,
    /// That, or communicators were aborted, as some trainers also end healthy jobs.
    pub(crate) failed: bool,
    /// What is missing at the end of the log was not cut off.
    pub(crate) uncut: bool,
    /// Connections to a process that ended were lost, and nothing timed out before.
    pub(crate) lost: bool,
}

/// What was found of ranks that are behind.
pub(crate) struct Behind {
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

/// The findings on ranks that are behind on `apart`, and on pairs; `waits` are processes that say
/// themselves that they wait.
pub(crate) fn behind(
    apart: &[&Apart],
    unpaired: &[Unpaired],
    last: &LastCalls<'_>,
    names: Names<'_>,
    (end, stops): (End, Stops<'_>),
    waits: &BTreeSet<u32>,
) -> Behind {
    let standings = standings(apart, unpaired, names);
    let mut laggards: BTreeMap<u32, usize> = standings
        .iter()
        .filter(|(process, s)| !s.ahead && !s.behind.is_empty() && !waits.contains(process))
        .map(|(&process, s)| (process, s.behind.len()))
        .collect();
    let jobs: BTreeSet<u32> = standings.keys().map(|&p| stops.job(p)).collect();
    let stop = |&job: &u32| {
        let own = laggards.keys().filter(|&&p| stops.job(p) == job);
        let own: Vec<u32> = own.copied().collect();
        Some((job, stops.stop(job, &own, apart)?))
    };
    let stopped: BTreeMap<u32, Stop> = jobs.iter().filter_map(stop).collect();
    let going_on: BTreeSet<u32> = jobs
        .into_iter()
        .filter(|job| !stopped.contains_key(job))
        .collect();
    let findings = |stopped: &BTreeMap<u32, Stop>, laggards: &BTreeMap<u32, usize>| {
        let told = Told {
            standings: &standings,
            last,
            names,
            end,
            stopped,
            stops,
            waiting: standings.values().filter(|s| s.ahead).count(),
            laggards: laggards.len(),
            uneven: stops.uneven(apart.iter().copied()),
        };
        told.findings(apart, laggards.keys().copied())
    };
    let mut last_resort = Vec::new();
    if stops.failures.now == Now::Stalled && !going_on.is_empty() {
        let stalled = going_on.iter().map(|&job| (job, Stop::Stalled));
        let all = stalled.chain(stopped.iter().map(|(&job, &stop)| (job, stop)));
        last_resort = findings(&all.collect(), &laggards);
    }
    laggards.retain(|&process, _| !going_on.contains(&stops.job(process)));
    Behind {
        findings: findings(&stopped, &laggards),
        skipped: laggards.keys().any(|&process| stops.has_skipped(process)),
        laggards,
        going_on,
        last_resort,
    }
}

/// What is known of those that are behind and ahead.
struct Told<'a> {
    standings: &'a BTreeMap<u32, Standing>,
    last: &'a LastCalls<'a>,
    names: Names<'a>,
    end: End,
    stopped: &'a BTreeMap<u32, Stop>,
    stops: Stops<'a>,
    waiting: usize,
    /// Ranks that wait for nobody.
    laggards: usize,
    /// Two sides that are whole steps apart.
    uneven: Option<&'a Uneven>,
}

impl Told<'_> {
    /// Where few are ahead of many, those called too much; else who is behind, host by host.
    fn findings(&self, apart: &[&Apart], laggards: impl Iterator<Item = u32>) -> Vec<Finding> {
        if let Some(finding) = self.ahead(apart) {
            return vec![finding];
        }
        let hosts = self.hosts(laggards);
        hosts
            .iter()
            .filter_map(|those| self.behind(those))
            .collect()
    }
}
