//! Which ranks are to blame for differing calls, and where.

use super::absent_members;
use super::confidence::has_damage;
use super::confidence::unjudged::{has_ended_ahead, list_running_communicators};
use super::deadlock::Rendezvous;
use super::difference_context::DifferenceContext;
use super::fewer_calls::{JobEndSignals, LaggardFindings};
use super::last_calls::find_odd_process;
use super::messages::{MessageDifferences, wrong_peer};
use super::mismatch::same_kind::SimilarCallers;
use super::mismatch::{self, FirstDifference};
use super::stopped::lone_stop::{self, LoneStop};
use super::stopped::{JobLiveness, StopDetector};
use super::unmet_calls::SideCallPlace;
use crate::grammar::values::has_root;
use crate::report::account::Account;
use crate::stages::check::finding::{Confidence, Finding, Reason};
use crate::stages::check::streams::compare::{
    CommMember, DifferingComm, StreamComparison, UnpairedMessages,
};
use crate::stages::check::streams::unjudged_reason::UnjudgedReason;
use crate::stages::communicators::CommunicatorState;
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, BTreeSet};

/// The findings, and what could not be judged.
pub(super) struct BlameResult {
    pub(super) findings: Vec<Finding>,
    /// Communicators that are not judged.
    pub(super) unjudged: Vec<(UnjudgedReason, usize)>,
    /// Missing calls at the end of the log were not cut off.
    pub(super) uncut: bool,
    /// The first call of each rank that not all members have made alike.
    pub(super) unmet: FxHashSet<SideCallPlace>,
}

/// Communicators with different members' calls, by the difference.
#[derive(Default)]
struct DifferencesByKind<'c> {
    /// Members call different things.
    different: Vec<(usize, Finding)>,
    /// Some made fewer calls.
    late: Vec<&'c DifferingComm>,
    /// Some made fewer calls, and others have no lines.
    partial: Vec<&'c DifferingComm>,
    /// Nothing can be judged.
    unjudged: Vec<(UnjudgedReason, usize)>,
}

/// Ranks that stopped by themselves.
#[derive(Default)]
struct StoppedRanks {
    findings: Vec<Finding>,
    /// They were silent for long enough that no cut explains it, if that was asked.
    is_long: Option<bool>,
}

impl DifferenceContext<'_> {
    /// Finds the ranks to blame. Leaves those messages in `compared` that stopped the job.
    pub(super) fn find_blamed(
        &self,
        compared: &mut StreamComparison,
        kin: &SimilarCallers,
        end: JobEndSignals,
        stops: StopDetector<'_>,
    ) -> BlameResult {
        let now = stops.failures.now;
        let parts = self.group_by_difference(&compared.apart, kin);
        let is_settled = |pair: &UnpairedMessages| self.is_settled(pair);
        let mut unjudged = parts.unjudged;
        unjudged.extend(self.drop_released_messages(&mut compared.unpaired));
        let unmet = self.find_unmet_calls(compared, &parts.different, &unjudged);
        let mut findings = keep_first_differences(self.met, parts.different);
        findings.extend(self.met.report_circle(self));
        let mut behind = self.find_laggards(
            &parts.late,
            &parts.partial,
            &compared.unpaired,
            &unmet,
            end,
            stops,
        );
        behind
            .findings
            .retain(|finding| !self.waits_in_setup(finding));
        if end.lost {
            self.blame_dead_process(&mut behind, stops);
        }
        let going_on = behind.going_on.clone();
        let last_resort = std::mem::take(&mut behind.last_resort);
        let goes_on = |communicator: usize| {
            let job = stops.job_of_communicator(communicator);
            job.is_some_and(|job| going_on.contains(&job))
        };
        unjudged.extend(list_running_communicators(
            &parts.late,
            &compared.unpaired,
            goes_on,
            is_settled,
        ));
        // A log that is watched is not cut off; nor do settled messages depend on its end.
        let mut uncut = behind.skipped || now == JobLiveness::Stalled;
        if findings.is_empty() {
            uncut |= compared.unpaired.iter().any(is_settled);
            findings.extend(wrong_peer::find_wrong_peers(
                self,
                &compared.unpaired,
                goes_on,
            ));
        }
        // A side that lags is not reported unless its job stopped.
        compared.unpaired.retain(|pair| {
            let is_shown = pair.sent == pair.received || is_settled(pair);
            is_shown || !goes_on(pair.communicator)
        });
        let messages = MessageDifferences {
            unpaired: &compared.unpaired,
            case: self,
        };
        let told = !findings.is_empty();
        findings.extend(messages.report_missing_messages(behind, told));
        if findings.is_empty() {
            let stop = self.find_stopped_ranks(stops, &going_on);
            uncut = stop.is_long.unwrap_or(uncut);
            findings = stop.findings;
        }
        // Only the lag shows for which rank the others wait.
        if findings.is_empty() {
            findings = last_resort;
        }
        BlameResult {
            findings,
            unjudged,
            uncut,
            unmet: unmet.into_values().map(|(place, _)| place).collect(),
        }
    }

    /// Ranks that stopped although no call of theirs is missing: alone, by their silence; of a job that
    /// stalled, those in the middle of a step, however long they are silent.
    fn find_stopped_ranks(
        &self,
        stops: StopDetector<'_>,
        going_on: &BTreeSet<u32>,
    ) -> StoppedRanks {
        let now = stops.failures.now;
        if now == JobLiveness::Running {
            return StoppedRanks::default();
        }
        let report =
            |process, reason| lone_stop::report_lone_stop(process, self.last, self.names, reason);
        let lone = self.find_lone_stops(stops, going_on);
        let silent = lone.iter().map(|lone| lone.process);
        let silent = silent.filter_map(|process| report(process, lone_stop::REASON_RANK_SILENT));
        let mut findings: Vec<Finding> = silent.collect();
        if findings.is_empty() && now == JobLiveness::Stalled {
            let middle = stops.middle.alone.iter();
            let middle = middle.filter(|(job, _)| going_on.contains(job));
            let stalled =
                middle.filter_map(|(_, &process)| report(process, lone_stop::REASON_LOG_STALLED));
            findings.extend(stalled);
        }
        StoppedRanks {
            findings,
            is_long: (now == JobLiveness::Unknown).then(|| lone.iter().all(|lone| lone.is_long)),
        }
    }

    /// True where the process of a finding initialises a communicator that no rank has completed: it
    /// waits for another there, and the initialisation has a finding of its own.
    fn waits_in_setup(&self, finding: &Finding) -> bool {
        let found = self.found;
        let is_open = |&side: &usize| {
            let side = &found.sides[side];
            side.state == CommunicatorState::Started && side.count_calls() == 0
        };
        let open = found.communicators.iter();
        let open = open.filter(|c| c.sides.iter().all(is_open));
        let mut sides = open.flat_map(|c| &c.sides);
        sides.any(|&side| {
            let process = self.names.process_of_side(side);
            process.pid == finding.about.pid && finding.about.host.as_ref() == Some(&process.host)
        })
    }

    /// True where both ranks of a pair are past the place at which their numbers of messages differ.
    pub(super) fn is_settled(&self, pair: &UnpairedMessages) -> bool {
        self.met
            .is_settled_difference(pair, self.found, self.streams)
    }

    /// Drops the pairs with messages of a pipe that could not be read again, unless their numbers alone show
    /// that they differ.
    fn drop_released_messages(
        &self,
        unpaired: &mut Vec<UnpairedMessages>,
    ) -> Vec<(UnjudgedReason, usize)> {
        let is_held = |pair: &UnpairedMessages| {
            !self.is_piped || self.are_messages_reread(pair) || self.is_settled(pair)
        };
        let released = unpaired.iter().filter(|pair| !is_held(pair));
        let released = released.map(|pair| (UnjudgedReason::LetGo, pair.communicator));
        let released = released.collect();
        unpaired.retain(is_held);
        released
    }

    /// True where the messages in which both sides differ could be read again.
    fn are_messages_reread(&self, pair: &UnpairedMessages) -> bool {
        self.are_calls_reread(pair.sends(), pair.block, pair.sent)
            && self.are_calls_reread(pair.receives(), pair.block, pair.received)
    }

    /// Blames a process that died: ranks that wait for its GPU may be further behind than it, but
    /// all of them wait in the same call.
    fn blame_dead_process(&self, behind: &mut LaggardFindings, stops: StopDetector<'_>) {
        let Some(&laggard) = behind.laggards.keys().next() else {
            return;
        };
        let job = stops.job_of_process(laggard);
        let waits = self.list_waiting_processes();
        let odd = find_odd_process(self.last, self.found, |process| {
            stops.job_of_process(process) == job
        });
        let Some(odd) = odd.filter(|odd| !waits.contains(odd)) else {
            return;
        };
        let alone = behind.laggards.len() == 1 && odd == laggard;
        match &mut behind.findings[..] {
            [finding] if alone => {
                finding.sure = Confidence::High;
                finding.reasons.push(Reason::OthersWaitInOneCall);
            }
            [] => {}
            _ => {
                let finding = lone_stop::report_lone_stop(
                    odd,
                    self.last,
                    self.names,
                    lone_stop::REASON_CONNECTIONS_LOST,
                );
                if let Some(finding) = finding {
                    behind.findings = vec![finding];
                    behind.laggards = BTreeMap::from([(odd, 1)]);
                }
            }
        }
    }

    /// How the members of each communicator in `all` part.
    fn group_by_difference<'c>(
        &self,
        all: &'c [DifferingComm],
        kin: &SimilarCallers,
    ) -> DifferencesByKind<'c> {
        let mut parts = DifferencesByKind::default();
        for apart in all {
            let kin = kin.get(&apart.communicator).map_or(&[][..], |kin| kin);
            // The calls of missing members are unknown, as is reported.
            let mut unjudged = |why| {
                let known = (!apart.is_partial).then_some((why, apart.communicator));
                parts.unjudged.extend(known);
            };
            let is_held = |member: &CommMember| {
                self.are_calls_reread(member.collectives(), apart.block, member.calls)
            };
            if self.is_piped && !apart.members.iter().all(is_held) {
                unjudged(UnjudgedReason::LetGo);
                continue;
            }
            match mismatch::find_first_difference(apart, kin, self) {
                FirstDifference::Different(mut finding) => {
                    if let Some(doubt) = apart.reason_for_doubt() {
                        finding.sure = finding.sure.max(Confidence::Medium);
                        finding.reasons.push(doubt);
                    }
                    parts.different.push((apart.communicator, *finding));
                }
                FirstDifference::Behind if has_ended_ahead(apart, self.found) => {
                    unjudged(UnjudgedReason::Ended);
                }
                FirstDifference::Behind if self.may_wait_in_rooted_call(apart) => {
                    unjudged(UnjudgedReason::Rooted);
                }
                FirstDifference::Behind if apart.is_partial => parts.partial.push(apart),
                FirstDifference::Behind => parts.late.push(apart),
                FirstDifference::Unknown(why) => unjudged(why),
            }
        }
        parts
    }

    /// What differs if sides are of one communicator that has more ranks than the log.
    pub(super) fn note_absent_members(
        &self,
        compared: &StreamComparison,
        accounts: &[Account],
    ) -> Option<Finding> {
        // If lines are lost, only NCCL's own numbers identify calls.
        let sound = self.streams.counts || !accounts.iter().any(has_damage);
        let few = compared.few.as_ref().filter(|_| sound)?;
        absent_members::note_visible_differences(few, self)
    }

    /// True if most members made the last call that all made, the others made one more, and the root
    /// leaves that call before the others: they may still be in it, and wait for the faulty rank.
    fn may_wait_in_rooted_call(&self, apart: &DifferingComm) -> bool {
        let calls = || apart.members.iter().map(|m| m.before);
        let (least, most) = (calls().min().unwrap_or(0), calls().max().unwrap_or(0));
        let many = calls().filter(|&n| n == least).count();
        let last = |member: &CommMember| {
            let calls = self.calls_of(member.collectives());
            calls.call_at(least.checked_sub(1)?)
        };
        let mut with_fewest = apart.members.iter().filter(|m| m.before == least);
        let call = with_fewest.next().and_then(last);
        least + 1 == most && 2 * many > apart.members.len() && call.is_some_and(|c| has_root(&c.op))
    }

    /// Processes that alone stopped, of the jobs that otherwise seem to go on.
    fn find_lone_stops(&self, stops: StopDetector<'_>, going_on: &BTreeSet<u32>) -> Vec<LoneStop> {
        let alone = self
            .lone_stop_search(stops.steps, stops.silence)
            .find_lone_stops_by_job();
        let alone = alone.into_iter().filter(|(job, _)| going_on.contains(job));
        alone.map(|(_, lone)| lone).collect()
    }
}

/// The differences before which nothing went wrong: what the ranks call afterwards follows from it.
fn keep_first_differences(met: &Rendezvous, all: Vec<(usize, Finding)>) -> Vec<Finding> {
    let is_first = |(communicator, finding): &(usize, Finding)| {
        finding
            .about
            .seq
            .is_none_or(|seq| met.is_first_difference(*communicator, seq))
    };
    let (mut first, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(is_first);
    if first.is_empty() && !met.is_circle() {
        first = rest;
    } else if let (Some((_, finding)), more @ 1..) = (first.first_mut(), rest.len()) {
        finding.reasons.push(Reason::AlsoDiffer(more as u64));
    }
    first.into_iter().map(|(_, finding)| finding).collect()
}
