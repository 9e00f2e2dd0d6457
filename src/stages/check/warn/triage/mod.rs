//! What WARN lines mean together: the first cause, with what follows from it folded under it; what
//! NCCL prints as a job ends, or after its end; what ended the job; what is harmless; what is not
//! known.

pub(crate) mod by_end;
mod of_kind;

use super::came_first::Clock;
use super::known::{Known, Role, known};
use super::warnings::{Seen, Warnings};
use crate::grammar::ending::How;
use crate::members::Process;
use crate::stages::check::finding::{About, Evidence, Finding, Severity, Sure};
use crate::stages::check::log::job_ends::Line;
use crate::stages::check::watchdog::timed_out;
use crate::stages::check::wording::{
    Folded, NAMED, folded as folded_words, lines, of_processes, text, times,
};
use of_kind::shown;
use std::collections::{BTreeMap, BTreeSet};

/// How many kinds of unknown bodies have a finding of their own.
const UNKNOWN: usize = 10;

/// What else is known of how the job ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Communicators that INIT lines call destroyed.
    pub destroyed: u64,
    /// Communicators that INIT lines call aborted.
    pub aborted: u64,
    /// Communicators that INIT lines name.
    pub communicators: u64,
}

/// What one process says of a kind.
#[derive(Clone, Copy)]
struct Member<'a> {
    process: u32,
    seen: &'a Seen,
}

/// All lines of one kind.
#[derive(Clone)]
struct Group<'a> {
    known: Option<&'static Known>,
    /// The earliest first.
    members: Vec<Member<'a>>,
}

impl<'a> Group<'a> {
    fn first(&self) -> &'a Seen {
        self.members[0].seen
    }

    fn count(&self) -> u64 {
        self.members.iter().map(|m| m.seen.count).sum()
    }

    fn severity(&self) -> Severity {
        self.known.map_or(Severity::Warning, |known| known.severity)
    }

    fn id(&self) -> &'static str {
        self.known.map_or("warn_unknown", |known| known.id)
    }
}

/// The findings about WARN lines and the watchdog's; `processes[p]` names process p.
pub(crate) fn findings(all: &Warnings, processes: &[Process], ended: Ended) -> Vec<Finding> {
    let seen = all.seen();
    let triage = Triage {
        all,
        processes,
        addresses: addresses(all, processes),
        hosts: processes.iter().map(|process| &*process.host).collect(),
        clock: Clock::of(&seen),
        ended,
    };
    triage.findings(&seen)
}

/// The one host of each address.
fn addresses<'a>(
    all: &'a Warnings,
    processes: &'a [Process],
) -> BTreeMap<&'a [u8], Option<&'a [u8]>> {
    let mut hosts: BTreeMap<&[u8], Option<&[u8]>> = BTreeMap::new();
    for (address, process) in all.addresses() {
        let Some(process) = processes.get(*process as usize) else {
            continue;
        };
        let host = hosts.entry(address).or_insert(Some(&process.host));
        // Bridges of containers have the same address everywhere.
        if *host != Some(&process.host) {
            *host = None;
        }
    }
    hosts
}

struct Triage<'a> {
    all: &'a Warnings,
    processes: &'a [Process],
    /// The one host of each address.
    addresses: BTreeMap<&'a [u8], Option<&'a [u8]>>,
    hosts: BTreeSet<&'a [u8]>,
    clock: Clock,
    ended: Ended,
}

impl<'a> Triage<'a> {
    fn findings(&self, seen: &[(u32, u32, &'a Seen)]) -> Vec<Finding> {
        let (late, groups) = self.late(self.groups(seen));
        let of = |role: Role| -> Vec<Group<'a>> {
            let is = |g: &&Group<'a>| g.known.is_some_and(|known| known.role == role);
            groups.iter().filter(is).cloned().collect()
        };
        let causes = of(Role::Cause);
        let (mut folded, mut alone) = (vec![Folded::new(); causes.len()], Vec::new());
        for group in of(Role::Consequence) {
            let mut left = Vec::new();
            for &member in &group.members {
                match self.cause_of(member, &causes) {
                    Some(at) => self.fold(&mut folded[at], group.id(), member),
                    None => left.push(member),
                }
            }
            if !left.is_empty() {
                let known = group.known;
                let members = left;
                alone.push(Group { known, members });
            }
        }
        let watched = timed_out::findings(self.all.watchdog());
        let mut out = Vec::new();
        let teardown = of(Role::Teardown);
        // An event of a NIC is a failure only where something follows from it.
        let errors = causes
            .iter()
            .filter(|cause| cause.severity() == Severity::Error);
        let failure = errors
            .chain(&alone)
            .map(Group::first)
            .min_by(|a, b| self.clock.order(a, b));
        let (mut tail, mut before) = (Folded::new(), Vec::new());
        for group in &teardown {
            let (known, mut members) = (group.known, Vec::new());
            for &member in &group.members {
                let is_before = match failure {
                    Some(failure) => self.clock.before(member.seen, failure),
                    None => watched.is_empty(),
                };
                if is_before {
                    members.push(member);
                } else {
                    self.fold(&mut tail, group.id(), member);
                }
            }
            if !members.is_empty() {
                before.push(Group { known, members });
            }
        }
        self.alone(&alone, &causes, &mut tail, &groups, &mut out);
        for (at, cause) in causes.iter().enumerate() {
            let tail = std::mem::take(&mut tail);
            out.push(self.cause(cause, &folded[at], &tail, &causes[0]));
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
        out.extend(self.shutdown(&before));
        self.unknown(&groups, &mut out);
        out.extend(late.iter().map(|group| self.after_end(group)));
        for group in of(Role::Setback).iter().chain(&of(Role::Harmless)) {
            let mut finding = self.finding(group, Vec::new());
            self.judge_by_end(group, &mut finding);
            out.push(finding);
        }
        if self.all.uncounted() > 0 {
            out.push(self.uncounted(&groups));
        }
        out.sort_by_key(|finding| finding.severity);
        out
    }

    /// Lines by kind; bodies that are not known each by itself. The earliest first.
    fn groups(&self, seen: &[(u32, u32, &'a Seen)]) -> Vec<Group<'a>> {
        let mut of_body: BTreeMap<u32, Option<&'static Known>> = BTreeMap::new();
        let mut groups: BTreeMap<(Option<&str>, u32), Group<'a>> = BTreeMap::new();
        for &(process, body, seen) in seen {
            let known = *of_body.entry(body).or_insert_with(|| known(seen.says()));
            let key = match known {
                Some(known) => (Some(known.id), 0),
                None => (None, body),
            };
            let group = groups.entry(key).or_insert_with(|| Group {
                known,
                members: Vec::new(),
            });
            group.members.push(Member { process, seen });
        }
        let mut groups: Vec<Group<'a>> = groups.into_values().collect();
        for group in &mut groups {
            group
                .members
                .sort_by(|a, b| self.clock.order(a.seen, b.seen));
        }
        groups.sort_by(|a, b| self.clock.order(a.first(), b.first()));
        groups
    }

    fn host(&self, process: u32) -> &'a [u8] {
        let process = self.processes.get(process as usize);
        process.map_or(&b""[..], |process| &process.host)
    }

    /// The host that a peer's address or name is of.
    fn peer_host(&self, peer: &[u8]) -> Option<&'a [u8]> {
        if let Some(host) = self.addresses.get(peer) {
            return *host;
        }
        // NCCL cuts a host's name at its first dot, the resolver does not.
        let name = memchr::memchr(b'.', peer).map_or(peer, |dot| &peer[..dot]);
        self.hosts.get(name).copied()
    }

    /// The cause that a line follows from: the earliest on the host of its peer, or of all; an
    /// error before what is only a warning by itself.
    fn cause_of(&self, member: Member<'_>, causes: &[Group<'a>]) -> Option<usize> {
        let after = |cause: &Member<'a>| !self.clock.before(member.seen, cause.seen);
        let peers = member.seen.peers.iter();
        let peers: BTreeSet<&[u8]> = peers.filter_map(|(peer, _)| self.peer_host(peer)).collect();
        let on_peer = |of: &Member<'a>| peers.contains(self.host(of.process));
        let earliest = |fits: &dyn Fn(&Member<'a>) -> bool| {
            let fit = |group: &Group<'a>| group.members.iter().any(|of| fits(of) && after(of));
            let error = |group: &&Group<'a>| group.severity() == Severity::Error;
            let all = || (0..).zip(causes);
            all()
                .find(|(_, group)| error(group) && fit(group))
                .or_else(|| all().find(|(_, group)| fit(group)))
                .map(|(at, _): (usize, _)| at)
        };
        earliest(&on_peer).or_else(|| earliest(&|_| true))
    }

    fn fold(&self, folded: &mut Folded<'a>, id: &'static str, member: Member<'_>) {
        let hosts = folded.entry(id).or_default();
        *hosts.entry(self.host(member.process)).or_default() += member.seen.count;
    }

    fn cause(
        &self,
        group: &Group<'a>,
        folded: &Folded<'a>,
        tail: &Folded<'a>,
        first: &Group<'a>,
    ) -> Finding {
        let is_first = std::ptr::eq(group.first(), first.first());
        let mut why = vec![if is_first {
            format!("it is the first cause, {}", self.clock.why(group.first()))
        } else {
            format!("it comes after {}, which may be its cause", first.id())
        }];
        if !folded.is_empty() {
            why.push(format!("it causes: {}", folded_words(folded)));
        }
        if !tail.is_empty() {
            why.push(format!("then NCCL was shut down: {}", folded_words(tail)));
        }
        let mut finding = self.finding(group, why);
        if !folded.is_empty() {
            finding.severity = Severity::Error;
        }
        self.judge_by_end(group, &mut finding);
        if !is_first {
            finding.sure = finding.sure.max(Sure::Medium);
        }
        finding
    }

    /// Lines that follow from a failure of which there is no line.
    fn alone(
        &self,
        alone: &[Group<'a>],
        causes: &[Group<'a>],
        tail: &mut Folded<'a>,
        groups: &[Group<'a>],
        out: &mut Vec<Finding>,
    ) {
        let Some((lead, rest)) = alone.split_first() else {
            return;
        };
        let mut folded = Folded::new();
        for group in rest {
            for &member in &group.members {
                self.fold(&mut folded, group.id(), member);
            }
        }
        // What the launcher reports of a process that ended is nearer to the cause; that NCCL failed
        // is the same failure once more.
        let outside = |how: How| how != How::Nccl;
        let all = || {
            std::iter::once(lead)
                .chain(rest)
                .flat_map(|group| &group.members)
        };
        let ends = self.ends();
        let end = all()
            .find_map(|m| ends.failed_behind(m.seen.first, outside))
            .or_else(|| ends.failed_elsewhere(lead.first().first.input, outside));
        let mut why = vec![
            format!(
                "it is the first of its kind, {}",
                self.clock.why(lead.first())
            ),
            match (causes.is_empty(), end) {
                (true, Some(end)) => format!(
                    "it follows from a failure elsewhere; the log reports how the job ended: {}",
                    end.quoted()
                ),
                (true, None) => {
                    "it follows from a failure elsewhere; the cause is not in this log".to_owned()
                }
                (false, _) => "it comes before any cause in this log".to_owned(),
            },
        ];
        let unknown = groups.iter().find(|g| g.known.is_none());
        if let Some(unknown) = unknown.filter(|g| self.clock.before(g.first(), lead.first())) {
            why.push(format!(
                "an unknown WARN comes before it: {}",
                text(unknown.first().says())
            ));
        }
        if !folded.is_empty() {
            why.push(format!("with it: {}", folded_words(&folded)));
        }
        if !tail.is_empty() {
            let tail = std::mem::take(tail);
            why.push(format!("then NCCL was shut down: {}", folded_words(&tail)));
        }
        let mut finding = self.finding(lead, why);
        finding.sure = finding.sure.max(Sure::Medium);
        finding.evidence.extend(end.map(Line::shown));
        self.judge_by_end(lead, &mut finding);
        out.push(finding);
    }

    /// What NCCL prints as its connections are taken down, where nothing failed before.
    fn shutdown(&self, teardown: &[Group<'a>]) -> Option<Finding> {
        let lead = teardown.first()?;
        let members = || teardown.iter().flat_map(|group| &group.members);
        let count: u64 = teardown.iter().map(Group::count).sum();
        let processes: BTreeSet<u32> = members().map(|m| m.process).collect();
        let mut evidence = self.evidence(lead);
        evidence.extend(teardown.iter().skip(1).map(|g| shown(g.first())));
        let reference = lead.known.map_or("", |known| known.reference);
        let means = lead.known.map_or("", |known| known.means);
        let of = format!("{} of {}", lines(count), of_processes(processes.len()));
        let going_on = members().filter(|m| m.seen.calls > 0).count();
        if going_on > 0 {
            return Some(Finding {
                id: "warn_proxy_midway",
                severity: Severity::Warning,
                says: format!(
                    "NCCL's connections were closed while {} made more calls: {of}",
                    of_processes(going_on)
                ),
                about: self.about(lead.members[0].process),
                sure: Sure::Low,
                why: format!("{means}, and calls of the same processes come after these lines"),
                advice: format!(
                    "find out why a communicator was aborted before the job's end; see {reference}"
                ),
                evidence,
            });
        }
        let (ends, end) = self.all.ordinary_ends();
        let Ended {
            destroyed,
            aborted,
            communicators,
        } = self.ended;
        let mut why = vec![means.to_owned(), "no failure comes before it".to_owned()];
        if self.all.counts_calls() {
            why.push("these processes made no call after it".to_owned());
        }
        if ends > 0 {
            why.push(format!(
                "PyTorch reports {} that a process ended normally",
                times(ends)
            ));
        }
        if destroyed + aborted > 0 {
            why.push(format!(
                "of {communicators} communicators {destroyed} were destroyed and {aborted} aborted"
            ));
        }
        evidence.extend(end.map(|end| Evidence {
            at: end.at.into(),
            text: Some(end.text.to_vec()),
        }));
        let finished = ends > 0 || destroyed > 0;
        Some(Finding {
            id: "shutdown_warns",
            severity: Severity::Note,
            says: format!("these lines are harmless, they were printed as the job ended: {of}"),
            about: About::default(),
            sure: if finished { Sure::High } else { Sure::Medium },
            why: why.join("; "),
            advice: format!(
                "no action is needed; destroy_process_group() before the program ends avoids them; \
                 see {reference}"
            ),
            evidence,
        })
    }

    fn unknown(&self, groups: &[Group<'a>], out: &mut Vec<Finding>) {
        let unknown: Vec<&Group<'a>> = groups.iter().filter(|g| g.known.is_none()).collect();
        for group in unknown.iter().take(UNKNOWN) {
            let why = format!("its first line was found {}", self.clock.why(group.first()));
            let mut finding = self.finding(group, vec![why]);
            self.judge_by_end(group, &mut finding);
            out.push(finding);
        }
        let rest = unknown.get(UNKNOWN..).unwrap_or_default();
        if !rest.is_empty() {
            let count: u64 = rest.iter().map(|g| g.count()).sum();
            out.push(Finding {
                id: "warn_unknown",
                severity: Severity::Warning,
                says: format!(
                    "{} more kinds of WARN lines are unknown: {}",
                    rest.len(),
                    lines(count)
                ),
                about: About::default(),
                sure: Sure::Low,
                why: "their text matches no known text".to_owned(),
                advice: "read them: grep 'NCCL WARN'".to_owned(),
                evidence: rest.iter().take(NAMED).map(|g| shown(g.first())).collect(),
            });
        }
    }

    fn uncounted(&self, groups: &[Group<'a>]) -> Finding {
        let last = groups.last().map(|g| shown(g.first()));
        Finding {
            id: "warn_uncounted",
            severity: Severity::Note,
            says: format!(
                "{} were only counted, because there are too many kinds",
                lines(self.all.uncounted())
            ),
            about: About::default(),
            sure: Sure::High,
            why: "the log has more kinds of WARN lines and processes than this program keeps"
                .to_owned(),
            advice: "check the log in parts, a file for each host".to_owned(),
            evidence: last.into_iter().collect(),
        }
    }
}
