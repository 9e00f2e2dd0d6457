//! Ranks that the others wait for.

use super::progress::MemberLag;
use super::{LagContext, ProcessProgress};
use crate::stages::check::finding::{About, Confidence, Finding, JobStage, Kind, Severity};
use crate::stages::check::ranks::last_calls::LastCall;
use crate::stages::check::ranks::mismatch::show_call;
use crate::stages::check::ranks::names;
use crate::stages::check::ranks::stopped::StopEvidence;
use crate::stages::check::ranks::stopped::whole_steps::UnevenSides;
use crate::stages::check::ranks::unmet_calls::unmet_call_of_process;
use crate::stages::check::ranks::unseen_ranks::describe_unseen_ranks;
use crate::stages::check::streams::compare::CommMember;
use crate::stages::check::streams::wanted_streams::CallDetail;
use crate::stages::check::wording::{number_and_noun, verb_form};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The processes of one host that are behind, the first of them in full.
struct LaggardHost<'a> {
    standing: &'a ProcessProgress,
    /// On the first communicator where it is behind.
    lag: &'a MemberLag,
    last: Option<&'a LastCall<'a>>,
    /// How many others of its host are behind.
    others: usize,
    /// None of them made any call.
    all_silent: bool,
}

/// The call that names a rank best: its rank there, the communicator, the call's number.
type LaggardCall = (Option<u32>, usize, Option<u64>);

impl<'a> LaggardHost<'a> {
    /// On which communicators it is behind, and by how many calls at most.
    fn lagging_communicators(&self) -> BTreeSet<usize> {
        let behind = self.standing.behind.iter();
        behind.map(|lag| lag.communicator).collect()
    }

    /// Returns the number of the call that it left out, if it went on elsewhere, and its last call.
    fn find_skipped_call(&self) -> Option<(u64, usize, &'a CallDetail)> {
        let (at, call) = (self.last?.communicator, self.last?.call);
        let is_elsewhere = self.lagging_communicators().len() == 1 && at != self.lag.communicator;
        let number = self.lag.lacks.filter(|_| is_elsewhere)?;
        Some((number, at, call))
    }

    /// The call that it left out; else the one it made last: its number is that communicator's.
    fn naming_call(&self) -> LaggardCall {
        match (self.last, self.find_skipped_call()) {
            (Some(last), None) => (last.rank, last.communicator, Some(last.call.seq)),
            (_, left_out) => {
                let number = left_out.map(|(number, ..)| number);
                (self.lag.member.rank, self.lag.communicator, number)
            }
        }
    }
}

impl LagContext<'_> {
    /// Groups the laggards by host, the one furthest behind first: it is reported in full.
    pub(super) fn group_laggards_by_host(
        &self,
        laggards: impl Iterator<Item = u32>,
    ) -> Vec<Vec<u32>> {
        let process = |process: u32| &self.names.found.processes[process as usize];
        let mut hosts: BTreeMap<&[u8], Vec<u32>> = BTreeMap::new();
        for laggard in laggards {
            let host = &process(laggard).host;
            hosts.entry(host).or_default().push(laggard);
        }
        let by = |process: &u32| {
            let behind = self.standings.get(process).copied().into_iter();
            let behind = behind.flat_map(|s| &s.behind);
            behind.fold(0_u64, |sum, lag| sum.saturating_add(lag.by))
        };
        let mut hosts: Vec<Vec<u32>> = hosts.into_values().collect();
        for those in &mut hosts {
            // The numbers of processes depend on the order of their lines, so they rank nothing.
            those.sort_by_key(|&at| (Reverse(by(&at)), process(at).pid, at));
        }
        hosts
    }

    /// The finding on one host's `processes`, which are all behind.
    pub(super) fn report_host_behind(&self, processes: &[u32]) -> Option<Finding> {
        let first = *processes.first()?;
        let standing = *self.standings.get(&first)?;
        let laggard = LaggardHost {
            standing,
            lag: standing.behind.first()?,
            last: self.last.get(&first),
            others: processes.len() - 1,
            all_silent: processes.iter().all(|p| !self.last.contains_key(p)),
        };
        let member = &laggard.lag.member;
        let process = self.names.process_of_side(member.side);
        let (rank, communicator, seq) = laggard.naming_call();
        let (severity, sure, why) = self.rate_stop(member);
        // A process without calls has no line: a call of one that went on is shown.
        let went_on = || {
            let mut ahead = self.standings.iter().filter(|(_, s)| s.ahead);
            ahead.find_map(|(process, _)| self.last.get(process))
        };
        let shown = laggard.last.or_else(went_on);
        let kind = match laggard.all_silent {
            true => Kind::RankSilent,
            false => Kind::RankBehind,
        };
        let last_step = laggard.last;
        let last_step =
            last_step.and_then(|last| self.stops.last_step_of_process(first, last.call.input));
        let is_stop =
            severity == Severity::Error && sure != Confidence::Low && self.uneven.is_none();
        let is_stop = is_stop && describe_unseen_ranks(self.names.found, first).is_none();
        let says = self.describe_laggards(&laggard, is_stop);
        Some(Finding {
            about: About {
                host: Some(process.host.clone()),
                pid: process.pid,
                rank,
                comm_id: self.names.communicator_id(communicator),
                seq,
                stage: last_step.map(JobStage::AfterStep),
                ..About::default()
            },
            why,
            evidence: shown.map(|last| show_call(last.call)).into_iter().collect(),
            ..Finding::new(kind, severity, sure, says)
        })
    }

    /// The words for a host's laggards: the rank that stopped and those that wait, then its calls.
    fn describe_laggards(&self, laggard: &LaggardHost<'_>, is_stop: bool) -> String {
        let who = self.name_laggards(laggard);
        let by = laggard.standing.behind.iter().map(|lag| lag.by).max();
        let by = by.unwrap_or(0);
        let waits = self.describe_waits();
        let (_, communicator, _) = laggard.naming_call();
        let there = self.describe_place(&laggard.lag.member, communicator);
        let mut says = match (laggard.last, laggard.find_skipped_call()) {
            (_, Some((number, at, call))) => format!(
                "{who} has not made call {number} of {there}, and {waits}; its last call is {}, call \
                 {} of communicator {}",
                self.names.describe_call_on(call, at),
                call.seq,
                self.names.describe_communicator(at),
            ),
            (Some(&LastCall { call, .. }), None) => format!(
                "{who} {}, and {waits}; its last call is {}, call {} of {there}; it is behind on {}, \
                 by up to {}",
                self.describe_stop(laggard.lag.member.side, call, is_stop),
                self.names.describe_call_on(call, communicator),
                call.seq,
                number_and_noun(laggard.lagging_communicators().len() as u64, "communicator"),
                number_and_noun(by, "call"),
            ),
            (None, None) => format!(
                "{who} made no call at all, and {waits}; the others made up to {by} on the same \
                 communicators"
            ),
        };
        if self.uneven.is_some() {
            says += "; the missing calls are whole steps: it ran fewer steps than the others \
                     (uneven data), or stopped at the end of a step";
        }
        says
    }

    /// `stopped after step 8`; where the log may only end, or the rank ran fewer steps, it may not have stopped.
    fn describe_stop(&self, side: usize, last: &CallDetail, is_stop: bool) -> String {
        if !is_stop {
            return "made no more calls".to_owned();
        }
        let process = self.names.found.sides[side].process;
        match self.stops.last_step_of_process(process, last.input) {
            Some(step) => format!("stopped after step {step}"),
            None => "stopped".to_owned(),
        }
    }

    /// `63 ranks wait for it, 52 of them in AllReduce of 1 fp32 sum or before`, by the first calls of each that it or others
    /// have not made. Its GPU gets no further, but may be in a call before it that another member's GPU has not reached.
    fn describe_waits(&self) -> String {
        let ahead = self.standings.iter().filter(|(_, s)| s.ahead);
        let calls = ahead.filter_map(|(&process, _)| unmet_call_of_process(self.unmet, process));
        let mut made: BTreeMap<String, usize> = BTreeMap::new();
        for call in calls {
            *made.entry(names::describe_call(call)).or_default() += 1;
        }
        let most = made.iter().max_by_key(|(_, n)| **n);
        let place = match most {
            None => String::new(),
            Some((call, &n)) if n == self.waiting => format!(" in {call} or before"),
            Some((call, n)) => format!(", {n} of them in {call} or before"),
        };
        let waiting = number_and_noun(self.waiting as u64, "rank");
        let wait = verb_form(self.waiting, "waits", "wait");
        format!("{waiting} {wait} for it{place}")
    }

    /// `communicator 0x5aa5 (tensor, 8 ranks), where it is rank 4`.
    fn describe_place(&self, member: &CommMember, communicator: usize) -> String {
        let own = self.names.rank_of_side_in(member.side, communicator);
        let place = format!(
            "communicator {}",
            self.names.describe_communicator(communicator)
        );
        match own.filter(|_| own != self.names.job_rank_of_side(member.side)) {
            Some(rank) => format!("{place}, where it is rank {rank}"),
            None => place,
        }
    }

    /// `rank 12 (node1, GPU 4, pid 4123) and 1 other rank of its host`.
    fn name_laggards(&self, laggard: &LaggardHost<'_>) -> String {
        let who = self.names.describe_actor(laggard.lag.member.side);
        match laggard.others {
            0 => who,
            n => format!(
                "{who} and {} of its host",
                number_and_noun(n as u64, "other rank")
            ),
        }
    }

    /// How sure it is that the member stopped.
    fn rate_stop(&self, member: &CommMember) -> (Severity, Confidence, String) {
        let alone = "on every communicator it is behind or level with the others";
        if self.end.failed && self.stop == StopEvidence::Failed {
            let why = format!("{alone}, and the log reports that the job failed");
            // A process that dies takes the work of its GPU with it: those that wait may lag even more.
            let sure = match self.laggards {
                1 if !self.end.lost => Confidence::High,
                _ => Confidence::Medium,
            };
            (Severity::Error, sure, why)
        } else if self.stop == StopEvidence::Stalled {
            let why = format!("{alone}, and no rank wrote anything more while the log was watched");
            let sure = match self.laggards {
                1 => Confidence::Medium,
                _ => Confidence::Low,
            };
            (Severity::Error, sure, why)
        } else if self.stop == StopEvidence::Silent {
            let why = format!(
                "{alone}; no line reports a failure, but it is further behind and has been silent \
                 for longer than any rank before"
            );
            (Severity::Error, Confidence::Medium, why)
        } else if self.stop == StopEvidence::Steps {
            let mut why = format!(
                "{alone}; all others are at the same call, whole steps ahead; but no line reports \
                 a failure"
            );
            let is_even = |uneven: &UnevenSides| uneven.sides.0 == uneven.sides.1;
            if self.uneven.is_some_and(is_even) {
                why += "; both sides have as many ranks, so the others may instead have run too many steps";
            }
            (Severity::Error, Confidence::Medium, why)
        } else if self.names.found.sides[member.side]
            .state
            .is_ended_in_order()
        {
            let why = format!("{alone}, and it ended the communicator");
            (Severity::Error, Confidence::High, why)
        } else {
            let why = format!(
                "{alone}, and all others are at the same call; but no line reports a failure, and \
                 the log may have been copied while the job ran"
            );
            (Severity::Warning, Confidence::Low, why)
        }
    }
}
