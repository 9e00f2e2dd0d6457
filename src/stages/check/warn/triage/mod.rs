//! The joint meaning of WARN lines: the first cause, with its consequences folded under it; lines of NCCL at a
//! job's end, or after it; lines that ended the job; harmless lines; unknown lines.

pub(crate) mod end_context;
mod followers;
mod group_findings;

use super::known_warns::source_areas::find_source_area;
use super::known_warns::{WarnMeaning, WarnRole, look_up_sourced_warn};
use super::warn_order::WarnOrder;
use super::warnings::{WarningLines, Warnings};
use crate::members::SpeakerProcess;
use crate::stages::check::finding::{Confidence, Finding, Kind, Severity, WarnKind};
use crate::stages::check::limits::MAX_NAMES_LISTED;
use crate::stages::check::ranks::names::RankNames;
use crate::stages::check::warn::limits::MAX_UNKNOWN_FINDINGS;
use crate::stages::check::watchdog::stalled_tensors::find_stalled_tensors;
use crate::stages::check::watchdog::timed_out;
use crate::stages::check::wording::{
    FollowerCounts, describe_followers as folded_words, number_of_lines,
};
use crate::stages::communicators::CommunicatorsSummary;
use std::collections::{BTreeMap, BTreeSet};

/// Other facts on the end of the job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CommEndCounts {
    /// Communicators that INIT lines report as destroyed.
    pub destroyed: u64,
    /// Communicators that INIT lines report as aborted.
    pub aborted: u64,
    /// Communicators that INIT lines name.
    pub communicators: u64,
}

/// One process's lines of one body.
#[derive(Clone, Copy)]
struct ProcessWarning<'a> {
    /// The process, where it is known: programs relay NCCL's last WARN without their process number.
    process: Option<u32>,
    /// The number of the body.
    body: u32,
    seen: &'a WarningLines,
    known: Option<&'static WarnMeaning>,
}

impl ProcessWarning<'_> {
    /// True for lines of a known cause of failures.
    fn is_failure_cause(&self) -> bool {
        self.known
            .is_some_and(|known| known.role == WarnRole::Cause && known.severity == Severity::Error)
    }

    /// True unless nothing fails by the lines: NCCL's last WARN may be older than the failure.
    fn may_be_failure(&self) -> bool {
        self.known
            .is_none_or(|known| matches!(known.role, WarnRole::Cause | WarnRole::Consequence))
    }
}

/// The meanings of bodies that were looked up, by body and source file.
#[derive(Default)]
struct BodyMeanings<'a>(BTreeMap<(u32, Option<&'a [u8]>), Option<&'static WarnMeaning>>);

impl<'a> BodyMeanings<'a> {
    fn look_up(
        &mut self,
        process: Option<u32>,
        body: u32,
        seen: &'a WarningLines,
    ) -> ProcessWarning<'a> {
        let source = seen.source_file();
        let known = self.0.entry((body, source));
        let known = *known.or_insert_with(|| look_up_sourced_warn(seen.nccl_text(), source));
        ProcessWarning {
            process,
            body,
            seen,
            known,
        }
    }
}

/// All lines of one kind.
#[derive(Clone)]
struct WarningGroup<'a> {
    known: Option<&'static WarnMeaning>,
    /// The earliest first.
    members: Vec<ProcessWarning<'a>>,
}

impl<'a> WarningGroup<'a> {
    fn first(&self) -> &'a WarningLines {
        self.members[0].seen
    }

    /// The number of NCCL's own lines.
    fn count(&self) -> u64 {
        self.own_members().map(|m| m.seen.count).sum()
    }

    /// The members with lines that NCCL printed itself.
    fn own_members(&self) -> impl Iterator<Item = &ProcessWarning<'a>> {
        let all = self.members.iter();
        all.filter(|member| member.seen.relayed_by.is_none())
    }

    fn severity(&self) -> Severity {
        self.known.map_or(Severity::Warning, |known| known.severity)
    }

    fn id(&self) -> &'static str {
        self.known.map_or(WarnKind::UNKNOWN.0, |known| known.id)
    }
}

/// Returns the findings about WARN lines and the watchdog's; `found` has the processes and their ranks.
pub(crate) fn triage_warnings(
    all: &Warnings,
    found: &CommunicatorsSummary,
    ended: CommEndCounts,
) -> Vec<Finding> {
    let processes = &found.processes[..];
    let mut meanings = BodyMeanings::default();
    let own = all.lines_in_order().into_iter();
    let own = own.map(|(process, body, seen)| meanings.look_up(Some(process), body, seen));
    let mut seen: Vec<ProcessWarning<'_>> = own.collect();
    if !seen.iter().any(ProcessWarning::is_failure_cause) {
        // Programs repeat NCCL's last WARN: they add nothing where NCCL's own lines have the cause.
        let relayed = all.relayed_in_order();
        let relayed = relayed.map(|(body, seen)| meanings.look_up(None, body, seen));
        // What a program prints of its own state is no failure where it goes on.
        let is_last = |warning: &ProcessWarning<'_>| {
            let is_own = warning
                .seen
                .relayed_by
                .is_some_and(|program| program.is_own);
            !is_own || all.ends.is_idle_after(warning.seen.last)
        };
        seen.extend(relayed.filter(|warning| warning.may_be_failure() && is_last(warning)));
        seen.sort_by_key(|warning| warning.seen.first);
    }
    let triage = Triage {
        all,
        names: RankNames { found },
        processes,
        addresses: hosts_by_address(all, processes),
        hosts: processes.iter().map(|process| &*process.host).collect(),
        clock: WarnOrder::choose_order(seen.iter().map(|warning| warning.seen)),
        ended,
    };
    triage.find_causes(&seen)
}

/// Returns the one host of each address.
fn hosts_by_address<'a>(
    all: &'a Warnings,
    processes: &'a [SpeakerProcess],
) -> BTreeMap<&'a [u8], Option<&'a [u8]>> {
    let mut hosts: BTreeMap<&[u8], Option<&[u8]>> = BTreeMap::new();
    for (address, process) in all.addresses() {
        let Some(process) = processes.get(*process as usize) else {
            continue;
        };
        let host = hosts.entry(address).or_insert(Some(&process.host));
        // Bridges of containers have equal addresses on all hosts.
        if *host != Some(&process.host) {
            *host = None;
        }
    }
    hosts
}

struct Triage<'a> {
    all: &'a Warnings,
    names: RankNames<'a>,
    processes: &'a [SpeakerProcess],
    /// Returns the one host of each address.
    addresses: BTreeMap<&'a [u8], Option<&'a [u8]>>,
    hosts: BTreeSet<&'a [u8]>,
    clock: WarnOrder,
    ended: CommEndCounts,
}

impl<'a> Triage<'a> {
    fn find_causes(&self, seen: &[ProcessWarning<'a>]) -> Vec<Finding> {
        let (late, groups) = self.split_after_end(self.group_warnings(seen));
        let of = |role: WarnRole| -> Vec<WarningGroup<'a>> {
            let is = |g: &&WarningGroup<'a>| g.known.is_some_and(|known| known.role == role);
            groups.iter().filter(is).cloned().collect()
        };
        let causes = of(WarnRole::Cause);
        let (mut folded, mut alone) = (vec![FollowerCounts::new(); causes.len()], Vec::new());
        for group in of(WarnRole::Consequence) {
            let mut left = Vec::new();
            for &member in &group.members {
                match self.cause_of(member, &causes) {
                    Some(at) => self.fold_follower(&mut folded[at], group.id(), member),
                    None => left.push(member),
                }
            }
            if !left.is_empty() {
                let known = group.known;
                let members = left;
                alone.push(WarningGroup { known, members });
            }
        }
        let watched = self.find_watched();
        let mut out = Vec::new();
        let teardown = of(WarnRole::Teardown);
        // An event of a NIC is a failure only if something follows from it.
        let errors = causes
            .iter()
            .filter(|cause| cause.severity() == Severity::Error);
        let failure = errors
            .chain(&alone)
            .map(WarningGroup::first)
            .min_by(|a, b| self.clock.compare(a, b));
        let (mut tail, mut before) = (FollowerCounts::new(), Vec::new());
        for group in &teardown {
            let (known, mut members) = (group.known, Vec::new());
            for &member in &group.members {
                let is_before = match failure {
                    Some(failure) => self.clock.is_before(member.seen, failure),
                    None => watched.is_empty(),
                };
                if is_before {
                    members.push(member);
                } else {
                    self.fold_follower(&mut tail, group.id(), member);
                }
            }
            if !members.is_empty() {
                before.push(WarningGroup { known, members });
            }
        }
        self.followers_without_cause(&alone, &causes, &mut tail, &groups, &mut out);
        for (at, cause) in causes.iter().enumerate() {
            let tail = std::mem::take(&mut tail);
            out.push(self.cause_finding(cause, &folded[at], &tail, &causes));
        }
        for (at, mut finding) in watched.into_iter().enumerate() {
            if at == 0 && !tail.is_empty() {
                finding.why += &format!("; after it: {}", folded_words(&tail));
            }
            if let Some(first) = causes.first() {
                finding.why += &format!("; a WARN may give the reason: {}", first.id());
            }
            self.note_after_end(&mut finding);
            out.push(finding);
        }
        out.extend(self.shutdown_finding(&before));
        self.find_unknown(&groups, &mut out);
        out.extend(late.iter().map(|group| self.after_end_finding(group)));
        for group in of(WarnRole::Setback).iter().chain(&of(WarnRole::Harmless)) {
            let mut finding = self.group_finding(group, Vec::new());
            self.adjust_severity_by_end(group, &mut finding);
            out.push(finding);
        }
        if self.all.uncounted_lines() > 0 {
            out.push(self.uncounted_finding(&groups));
        }
        out.sort_by_key(|finding| finding.severity);
        out
    }

    /// Finds what the watchdog and other libraries report of ranks that wait.
    fn find_watched(&self) -> Vec<Finding> {
        let lines = self.all.watchdog_lines();
        let stalled = find_stalled_tensors(lines, |at| self.all.ends.is_idle_after(at));
        timed_out::find_timeouts(lines, self.names)
            .into_iter()
            .chain(stalled)
            .collect()
    }

    /// Groups lines by kind, and unknown bodies each by itself; the earliest first.
    fn group_warnings(&self, seen: &[ProcessWarning<'a>]) -> Vec<WarningGroup<'a>> {
        // One kind may have several meanings, each with a finding of its own.
        let mut groups: BTreeMap<(Option<[&str; 2]>, u32), WarningGroup<'a>> = BTreeMap::new();
        for warning in seen {
            let known = warning.known;
            let key = match known {
                Some(known) => (Some([known.id, known.means]), 0),
                None => (None, warning.body),
            };
            let group = groups.entry(key).or_insert_with(|| WarningGroup {
                known,
                members: Vec::new(),
            });
            group.members.push(*warning);
        }
        let mut groups: Vec<WarningGroup<'a>> = groups.into_values().collect();
        for group in &mut groups {
            group
                .members
                .sort_by(|a, b| self.clock.compare(a.seen, b.seen));
        }
        groups.sort_by(|a, b| self.clock.compare(a.first(), b.first()));
        groups
    }

    fn host_of_process(&self, process: Option<u32>) -> &'a [u8] {
        let process = process.and_then(|process| self.processes.get(process as usize));
        process.map_or(&b""[..], |process| &process.host)
    }

    /// Returns the host of a peer's address or name.
    fn host_of_peer(&self, peer: &[u8]) -> Option<&'a [u8]> {
        if let Some(host) = self.addresses.get(peer) {
            return *host;
        }
        // NCCL cuts a host's name at its first dot, the resolver does not.
        let name = memchr::memchr(b'.', peer).map_or(peer, |dot| &peer[..dot]);
        self.hosts.get(name).copied()
    }

    /// Returns the cause that a line follows from: the earliest on the host of its peer, or of all; errors
    /// before warnings.
    fn cause_of(&self, member: ProcessWarning<'_>, causes: &[WarningGroup<'a>]) -> Option<usize> {
        let after = |cause: &ProcessWarning<'a>| !self.clock.is_before(member.seen, cause.seen);
        let peers = member.seen.peers.iter();
        let peers: BTreeSet<&[u8]> = peers
            .filter_map(|(peer, _)| self.host_of_peer(peer))
            .collect();
        let on_peer = |of: &ProcessWarning<'a>| peers.contains(self.host_of_process(of.process));
        let earliest = |fits: &dyn Fn(&ProcessWarning<'a>) -> bool| {
            let fit =
                |group: &WarningGroup<'a>| group.members.iter().any(|of| fits(of) && after(of));
            let error = |group: &&WarningGroup<'a>| group.severity() == Severity::Error;
            let all = || (0..).zip(causes);
            all()
                .find(|(_, group)| error(group) && fit(group))
                .or_else(|| all().find(|(_, group)| fit(group)))
                .map(|(at, _): (usize, _)| at)
        };
        earliest(&on_peer).or_else(|| earliest(&|_| true))
    }

    fn fold_follower(
        &self,
        folded: &mut FollowerCounts<'a>,
        id: &'static str,
        member: ProcessWarning<'_>,
    ) {
        let hosts = folded.entry(id).or_default();
        *hosts
            .entry(self.host_of_process(member.process))
            .or_default() += member.seen.count;
    }

    fn cause_finding(
        &self,
        group: &WarningGroup<'a>,
        folded: &FollowerCounts<'a>,
        tail: &FollowerCounts<'a>,
        causes: &[WarningGroup<'a>],
    ) -> Finding {
        let first = &causes[0];
        let is_first = std::ptr::eq(group.first(), first.first());
        // An error of the same part of NCCL after an event follows from it.
        let area =
            |group: &WarningGroup<'a>| group.first().source_file().and_then(find_source_area);
        let has_led = |later: &WarningGroup<'a>| {
            later.severity() == Severity::Error
                && area(group).is_some()
                && area(later) == area(group)
        };
        let has_led = is_first && causes[1..].iter().any(has_led);
        let mut why = vec![if is_first {
            format!(
                "it is the first cause, {}",
                self.clock.describe_order(group.first())
            )
        } else {
            format!("it comes after {}, which may be its cause", first.id())
        }];
        if !folded.is_empty() {
            why.push(format!("it causes: {}", folded_words(folded)));
        }
        if !tail.is_empty() {
            why.push(format!("then NCCL was shut down: {}", folded_words(tail)));
        }
        let mut finding = self.group_finding(group, why);
        if !folded.is_empty() || has_led {
            finding.severity = Severity::Error;
        }
        self.adjust_severity_by_end(group, &mut finding);
        if !is_first {
            finding.sure = finding.sure.max(Confidence::Medium);
        }
        finding
    }

    fn find_unknown(&self, groups: &[WarningGroup<'a>], out: &mut Vec<Finding>) {
        let unknown: Vec<&WarningGroup<'a>> = groups.iter().filter(|g| g.known.is_none()).collect();
        for group in unknown.iter().take(MAX_UNKNOWN_FINDINGS) {
            let why = format!(
                "its first line was found {}",
                self.clock.describe_order(group.first())
            );
            let mut finding = self.group_finding(group, vec![why]);
            self.adjust_severity_by_end(group, &mut finding);
            out.push(finding);
        }
        let rest = unknown.get(MAX_UNKNOWN_FINDINGS..).unwrap_or_default();
        if !rest.is_empty() {
            let count: u64 = rest.iter().map(|g| g.count()).sum();
            let says = format!(
                "{} more kinds of WARN lines are unknown: {}",
                rest.len(),
                number_of_lines(count)
            );
            out.push(Finding {
                why: "their text matches no known text".to_owned(),
                advice: "read them: grep 'NCCL WARN'".to_owned(),
                evidence: rest
                    .iter()
                    .take(MAX_NAMES_LISTED)
                    .map(|g| g.first().to_evidence())
                    .collect(),
                ..Finding::of_kind(Kind::Warn(WarnKind::UNKNOWN), Confidence::Low, says)
            });
        }
    }

    fn uncounted_finding(&self, groups: &[WarningGroup<'a>]) -> Finding {
        let last = groups.last().map(|g| g.first().to_evidence());
        let says = format!(
            "{} were only counted, because there are too many kinds",
            number_of_lines(self.all.uncounted_lines())
        );
        Finding {
            why: "the log has more kinds of WARN lines and processes than this program keeps"
                .to_owned(),
            advice: "check the log in parts, a file for each host".to_owned(),
            evidence: last.into_iter().collect(),
            ..Finding::of_kind(Kind::Warn(WarnKind::UNCOUNTED), Confidence::High, says)
        }
    }
}
