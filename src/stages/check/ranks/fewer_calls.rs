//! Ranks that made fewer calls than the others when the log ends, and which of them the others
//! wait for.
//!
//! A rank that stops makes its neighbours stop, and they theirs: at the end most ranks are behind
//! some other. But who waits is ahead of the one it waits for. So the one to look at is behind
//! somebody and ahead of nobody.

use super::mismatch::spot;
use super::names::{self, Names};
use super::stopped::{Stop, Stops};
use super::whole_steps::Uneven;
use crate::stages::check::finding::{About, Finding, Severity, Sure};
use crate::stages::check::streams::compare::{Apart, Ranked, Unpaired};
use crate::stages::check::streams::reread::Detail;
use crate::stages::check::wording::{counted, verb};
use crate::stages::communicators::State;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What else is known of how the job ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct End {
    /// PyTorch's watchdog or a WARN says that it failed.
    pub(crate) said: bool,
    /// That, or communicators were aborted, as some trainers also end healthy jobs.
    pub(crate) failed: bool,
}

/// Where a process stands on the communicators that are apart.
#[derive(Debug, Default)]
struct Standing {
    behind: Vec<Lag>,
    ahead: bool,
}

/// That a member is behind others on a communicator.
#[derive(Debug, Clone, Copy)]
struct Lag {
    communicator: usize,
    member: Ranked,
    /// How many calls.
    by: u64,
    /// The first collective that others made and it did not.
    lacks: Option<u64>,
}

/// Each process's last call: its communicator, the process's rank there, the call.
pub(crate) type LastCalls<'d> = BTreeMap<u32, (usize, Option<u32>, &'d Detail)>;

/// What was found of ranks that are behind.
pub(crate) struct Behind {
    /// The findings.
    pub(crate) findings: Vec<Finding>,
    /// The processes that the others wait for, and on how many communicators and pairs.
    pub(crate) laggards: BTreeMap<u32, usize>,
    /// The jobs that nothing shows to have stopped: that ranks are behind there is no finding.
    pub(crate) going_on: BTreeSet<u32>,
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
    let ahead: Vec<u32> = standings
        .iter()
        .filter(|(_, s)| s.ahead && s.behind.is_empty())
        .map(|(&process, _)| process)
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
    laggards.retain(|&process, _| !going_on.contains(&stops.job(process)));
    let waiting = standings.values().filter(|s| s.ahead).count();
    let mut findings = Vec::new();
    // Of one host's ranks one is told of in full.
    let mut hosts: BTreeMap<&[u8], Vec<u32>> = BTreeMap::new();
    for &process in laggards.keys() {
        let host = &names.found.processes[process as usize].host;
        hosts.entry(host).or_default().push(process);
    }
    // Who is behind most is told of.
    let by = |process: &u32| {
        let behind = standings.get(process).into_iter().flat_map(|s| &s.behind);
        behind.fold(0_u64, |sum, lag| sum.saturating_add(lag.by))
    };
    for processes in hosts.values_mut() {
        // Processes are numbered as their lines come, which says nothing.
        let pid = |process: u32| names.found.processes[process as usize].pid;
        processes.sort_by_key(|&process| (Reverse(by(&process)), pid(process), process));
    }
    let told = Told {
        standings: &standings,
        last,
        names,
        end,
        stopped: &stopped,
        stops,
        waiting,
        laggards: laggards.len(),
        uneven: stops.uneven(apart.iter().copied()),
    };
    // Where few are ahead of many, those called too much.
    match told.ahead(&ahead, &laggards, apart) {
        Some(finding) => findings.push(finding),
        None => findings.extend(hosts.values().filter_map(|those| told.finding(those))),
    }
    Behind {
        findings,
        laggards,
        going_on,
    }
}

fn standings(apart: &[&Apart], unpaired: &[Unpaired], names: Names<'_>) -> BTreeMap<u32, Standing> {
    let mut all: BTreeMap<u32, Standing> = BTreeMap::new();
    let process = |member: &Ranked| names.found.sides[member.side].process;
    for group in apart {
        let calls = || group.members.iter().map(|m| m.before);
        let (least, most) = (calls().min().unwrap_or(0), calls().max().unwrap_or(0));
        for member in &group.members {
            let standing = all.entry(process(member)).or_default();
            standing.ahead |= member.before > least;
            if member.before < most {
                standing.behind.push(Lag {
                    communicator: group.communicator,
                    member: *member,
                    by: most - member.before,
                    lacks: Some(member.before),
                });
            }
        }
    }
    for pair in unpaired {
        let (sent, received) = pair.before;
        let (ahead, behind) = if sent > received {
            (&pair.from, &pair.to)
        } else {
            (&pair.to, &pair.from)
        };
        if sent == received {
            continue;
        }
        all.entry(process(ahead)).or_default().ahead = true;
        let standing = all.entry(process(behind)).or_default();
        standing.behind.push(Lag {
            communicator: pair.communicator,
            member: *behind,
            by: sent.abs_diff(received),
            lacks: None,
        });
    }
    all
}

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
    /// The finding on one host's `processes`, which are all behind.
    fn finding(&self, processes: &[u32]) -> Option<Finding> {
        let first = *processes.first()?;
        let standing = self.standings.get(&first)?;
        let lag = standing.behind.first()?;
        let member = &lag.member;
        let process = self.names.process(member.side);
        let last = self.last.get(&first);
        let all_silent = processes.iter().all(|p| !self.last.contains_key(p));
        let communicators: BTreeSet<usize> =
            standing.behind.iter().map(|b| b.communicator).collect();
        let by = standing.behind.iter().map(|b| b.by).max().unwrap_or(0);
        let which = |communicator: usize| self.names.communicator(communicator);
        // One call that it left out, and went on elsewhere.
        let left_out = match last {
            Some((at, _, call)) if communicators.len() == 1 && *at != lag.communicator => {
                lag.lacks.map(|number| (number, *at, call))
            }
            _ => None,
        };
        // Else the call it made last names the rank best: its number is that communicator's.
        let (rank, communicator, seq) = match (last, left_out) {
            (Some((communicator, rank, call)), None) => (*rank, *communicator, Some(call.seq)),
            (_, left_out) => (member.rank, lag.communicator, left_out.map(|l| l.0)),
        };
        let many = match processes.len() {
            1 => String::new(),
            n => format!(" and {} of its host", counted(n as u64 - 1, "other rank")),
        };
        let place = match rank {
            Some(rank) => format!(
                "rank {rank} of communicator {} ({}{})",
                which(communicator),
                names::process(process),
                self.names.of_job(member.side, rank),
            ),
            None => names::process(process),
        };
        let says = match (last, left_out) {
            (_, Some((number, at, call))) => format!(
                "{place}{many} has not made call {number} of this communicator, and {} {} for it; \
                 its last call is {}, call {} of communicator {}",
                counted(self.waiting as u64, "rank"),
                verb(self.waiting, "waits", "wait"),
                names::call(call),
                call.seq,
                which(at),
            ),
            (Some((_, _, call)), None) => format!(
                "{place}{many} made no call after {}, its call {}; the others went on: it is \
                 behind on {}, by up to {}, and {} {} for it",
                names::call(call),
                call.seq,
                counted(communicators.len() as u64, "communicator"),
                counted(by, "call"),
                counted(self.waiting as u64, "rank"),
                verb(self.waiting, "waits", "wait"),
            ),
            (None, None) => format!(
                "{place}{many} made no call at all, and others made up to {by} on the same \
                 communicators",
            ),
        };
        let says = match self.uneven.is_some() {
            true => format!(
                "{says}; its missing calls repeat earlier steps: it ran fewer steps than the \
                 others (uneven data)"
            ),
            false => says,
        };
        let (severity, sure, why) = self.how_sure(member);
        // Of one that made none there is no line: one that went on shows that there were calls.
        let went_on = || {
            let mut ahead = self.standings.iter().filter(|(_, s)| s.ahead);
            ahead.find_map(|(process, _)| self.last.get(process))
        };
        let shown = last.or_else(went_on).map(|(_, _, call)| spot(call));
        Some(Finding {
            id: if all_silent {
                "rank_silent"
            } else {
                "rank_behind"
            },
            severity,
            says,
            about: About {
                host: Some(process.host.clone()),
                pid: process.pid,
                rank,
                comm_id: self.names.id(communicator),
                seq,
                step: None,
            },
            sure,
            why,
            advice: "look at this process first: its own output, its host, a stack (py-spy dump); \
                     the others wait for it"
                .to_owned(),
            evidence: shown.into_iter().collect(),
        })
    }

    /// The finding on ranks that made calls that most others did not.
    fn ahead(
        &self,
        ahead: &[u32],
        laggards: &BTreeMap<u32, usize>,
        apart: &[&Apart],
    ) -> Option<Finding> {
        let process = |member: &Ranked| self.names.found.sides[member.side].process;
        let has_ahead = |group: &&&Apart| group.members.iter().any(|m| ahead.contains(&process(m)));
        // The largest of them, and the first of equal ones.
        let group = apart
            .iter()
            .rev()
            .filter(has_ahead)
            .max_by_key(|group| group.members.len())?;
        if !(self.end.failed || self.uneven.is_some()) || laggards.len() <= ahead.len() {
            return None;
        }
        let least = group.members.iter().map(|m| m.before).min()?;
        let (few, many): (Vec<Ranked>, Vec<Ranked>) =
            group.members.iter().partition(|m| m.before > least);
        let first = few.iter().max_by_key(|m| m.before)?;
        if few.len() >= many.len() {
            return None;
        }
        let steps = match self.uneven.is_some() {
            true => format!(
                "; these calls repeat earlier steps: {} more steps than the others (uneven data)",
                verb(few.len(), "it ran", "they ran")
            ),
            false => String::new(),
        };
        let last = self.last.get(&process(first));
        let made = last.map_or_else(String::new, |(_, _, call)| {
            format!("; its last call is {}", names::call(call))
        });
        let communicator = group.communicator;
        Some(Finding {
            id: "rank_ahead",
            severity: Severity::Error,
            says: format!(
                "{} made {} on communicator {} that {} did not make{steps}{made}",
                self.names.ranks(&few),
                counted(first.before - least, "call"),
                self.names.communicator(communicator),
                self.names.ranks(&many),
            ),
            about: self.names.about(first, communicator, least),
            sure: Sure::Medium,
            why: match self.end.failed {
                true => "few ranks are ahead of many, and the log reports that the job failed",
                false => "few ranks are ahead of many, and these are all at the same call",
            }
            .to_owned(),
            advice: "look in the code for a collective that only some ranks make (rank 0 alone, a \
                     condition on local data), and for uneven data (a rank with one more batch)"
                .to_owned(),
            evidence: last.map(|(_, _, call)| spot(call)).into_iter().collect(),
        })
    }

    fn how_sure(&self, member: &Ranked) -> (Severity, Sure, String) {
        let alone = "it is ahead of no rank on any communicator";
        let process = self.names.found.sides[member.side].process;
        let stop = self.stopped.get(&self.stops.job(process));
        if self.end.failed && stop == Some(&Stop::Failed) {
            let why = format!("{alone}, and the log reports that the job failed");
            let sure = match self.laggards {
                1 => Sure::High,
                _ => Sure::Medium,
            };
            (Severity::Error, sure, why)
        } else if stop == Some(&Stop::Silent) {
            let why = format!(
                "{alone}; no line reports a failure, but it is further behind and has been silent \
                 for longer than any rank before"
            );
            (Severity::Error, Sure::Medium, why)
        } else if stop == Some(&Stop::Steps) {
            let mut why = format!(
                "{alone}; all others are at the same call, whole steps ahead; but no line reports \
                 a failure"
            );
            if self
                .uneven
                .is_some_and(|uneven| uneven.sides.0 == uneven.sides.1)
            {
                why += "; both sides have the same number of ranks, so the others may have run too many";
            }
            (Severity::Error, Sure::Medium, why)
        } else if self.names.found.sides[member.side].state == State::Destroyed {
            let why = format!("{alone}, and it ended the communicator");
            (Severity::Error, Sure::High, why)
        } else {
            let why = format!(
                "{alone}, and all others are at the same call; but no line reports a failure, and the log \
                 may have been copied while the job ran"
            );
            (Severity::Warning, Sure::Low, why)
        }
    }
}
