//! The finding of one kind of line.

use super::{Triage, WarningGroup};
use crate::stages::check::finding::{
    About, Confidence, Evidence, Finding, Kind, Reason, Severity, WarnKind,
};
use crate::stages::check::limits::MAX_NAMES_LISTED;
use crate::stages::check::warn::known_warns::source_areas::{find_source_area, find_source_file};
use crate::stages::check::warn::known_warns::{WarnMeaning, look_up_added_reason};
use crate::stages::check::warn::warnings::WarningLines;
use crate::stages::check::wording::{
    describe_hosts, most_frequent, name_result, number_of_lines, number_of_processes,
    number_of_times, quote_text, rank_ranges, verb_form,
};
use std::collections::{BTreeMap, BTreeSet};

impl<'a> Triage<'a> {
    /// Returns a kind's finding; `why` comes before the words for the kind.
    pub(super) fn group_finding(&self, group: &WarningGroup<'a>, mut why: Vec<String>) -> Finding {
        let mut by_host: BTreeMap<&[u8], u64> = BTreeMap::new();
        let mut peers: BTreeMap<&[u8], u64> = BTreeMap::new();
        let mut results: BTreeSet<i32> = BTreeSet::new();
        let mut processes: BTreeSet<u32> = BTreeSet::new();
        for member in group.own_members() {
            *by_host
                .entry(self.host_of_process(member.process))
                .or_default() += member.seen.count;
            processes.extend(member.process);
        }
        for member in &group.members {
            for (peer, count) in &member.seen.peers {
                *peers.entry(peer).or_default() += count;
            }
            results.extend(member.seen.result);
        }
        let returned = results.iter().find(|&&result| is_error_result(result));
        if let Some(result) = returned {
            why.push(format!(
                "NCCL's functions returned {} after it",
                name_result(*result)
            ));
        }
        why.extend(self.describe_peers(&peers));
        let first = group.first();
        why.extend(group.describe_reason());
        let area = first.source_file().and_then(find_source_area);
        if let (None, Some(area)) = (group.known, area) {
            why.push(area.role.describe_role().to_owned());
        }
        let is_relayed = processes.is_empty();
        let on = self.describe_place(group, &by_host, processes.len());
        let on = match self.find_only_peer(&peers) {
            Some(peer) => format!("{on} (peer {})", quote_text(peer)),
            None => on,
        };
        let judgement = GroupJudgement {
            on,
            is_relayed,
            has_returned: returned.is_some(),
        };
        let (severity, sure) = (
            judgement.severity(group.known),
            judgement.confidence(group.known),
        );
        let says = judgement.describe_group(group);
        let advice = match group.known {
            Some(known) => format!("{}; see {}", known.advice, known.reference),
            None if is_own(group) => {
                "search the issues of the program that prints the text".to_owned()
            }
            None => {
                "search NVIDIA/nccl's issues for the text, or the source file that the line names"
                    .to_owned()
            }
        };
        if is_relayed && !is_own(group) {
            why.push("it is NCCL's last WARN, which may be older than the failure".to_owned());
        }
        if why.is_empty() {
            why.push("the lines report it".to_owned());
        }
        Finding {
            about: About {
                rank: first.relayed_by.and_then(|program| program.rank),
                ..self.about_process(group.members[0].process)
            },
            why: why.join("; "),
            advice,
            evidence: self.group_evidence(group),
            reasons: Vec::from_iter(returned.map(|_| Reason::ErrorReturned)),
            ..Finding::new(Kind::Warn(WarnKind(group.id())), severity, sure, says)
        }
    }

    /// The processes of a kind of lines, their lines and their hosts: a clause.
    fn describe_place(
        &self,
        group: &WarningGroup<'a>,
        by_host: &BTreeMap<&[u8], u64>,
        processes: usize,
    ) -> String {
        let count = number_of_lines(group.count());
        let is_nameless = by_host.keys().all(|host| host.is_empty());
        // Marks of a web page may have taken a line's header.
        let named = by_host.iter().filter(|(host, _)| !host.is_empty());
        let by_host = &named.map(|(host, n)| (*host, *n)).collect();
        match (is_nameless, processes) {
            (true, 0) => describe_relaying_programs(group),
            (true, _) => format!("{count} of an unnamed process"),
            (false, _) => format!(
                "{count} of {} on {}",
                number_of_processes(processes),
                describe_hosts(by_host)
            ),
        }
    }

    /// The host of the one peer that the lines name, or its address.
    fn find_only_peer<'p>(&self, peers: &BTreeMap<&'p [u8], u64>) -> Option<&'p [u8]>
    where
        'a: 'p,
    {
        let mut all = peers.keys().copied();
        let only = all.next().filter(|_| all.next().is_none())?;
        Some(self.host_of_peer(only).unwrap_or(only))
    }

    /// Describes the most frequent peers, with their hosts; `None` if there are none.
    fn describe_peers(&self, peers: &BTreeMap<&[u8], u64>) -> Option<String> {
        let peer_phrase = |(peer, count)| {
            let host = self.host_of_peer(peer).filter(|host| *host != peer);
            let host = host.map(|host| format!("({}) ", quote_text(host)));
            format!(
                "{} {}{}",
                quote_text(peer),
                host.unwrap_or_default(),
                number_of_times(count)
            )
        };
        let all: Vec<String> = most_frequent(peers).map(peer_phrase).collect();
        (!all.is_empty()).then(|| format!("it names the peer {}", all.join(", ")))
    }

    pub(super) fn about_process(&self, process: Option<u32>) -> About {
        let process = process.and_then(|process| self.processes.get(process as usize));
        let process = process.filter(|process| process.pid.is_some());
        About {
            host: process.map(|process| process.host.clone()),
            pid: process.and_then(|process| process.pid),
            ..About::default()
        }
    }

    /// Returns the first lines of a kind, one of each host.
    pub(super) fn group_evidence(&self, group: &WarningGroup<'a>) -> Vec<Evidence> {
        let mut hosts = BTreeSet::new();
        let one = group
            .members
            .iter()
            .filter(|m| hosts.insert(self.host_of_process(m.process)));
        one.take(MAX_NAMES_LISTED)
            .map(|m| m.seen.to_evidence())
            .collect()
    }
}

/// What the finding on a kind of lines depends on, besides their text.
struct GroupJudgement {
    /// The processes and their lines: a clause.
    on: String,
    /// Only programs relay them: a program failed by them.
    is_relayed: bool,
    /// NCCL's functions returned an error after one of them, which is more than words.
    has_returned: bool,
}

impl GroupJudgement {
    fn severity(&self, known: Option<&WarnMeaning>) -> Severity {
        match known {
            _ if self.is_relayed => Severity::Error,
            Some(known) => known.severity,
            None => Severity::Warning,
        }
    }

    fn confidence(&self, known: Option<&WarnMeaning>) -> Confidence {
        match known {
            Some(known) if self.is_relayed => known.sure.max(Confidence::Medium),
            Some(known) => known.sure,
            None if self.has_returned || self.is_relayed => Confidence::Medium,
            None => Confidence::Low,
        }
    }

    fn describe_group(&self, group: &WarningGroup<'_>) -> String {
        let first = group.first();
        let on = &self.on;
        match group.known {
            // A vague meaning needs the words.
            Some(known) if known.sure == Confidence::Low && is_own(group) => {
                format!("{}: {on}: {}", known.means, quote_text(first.nccl_text()))
            }
            Some(known) => format!("{}: {on}", known.means),
            None => {
                let area = first.source_file().and_then(find_source_area);
                format!(
                    "unknown WARN{}: {}: {on}",
                    area.map_or_else(String::new, |area| format!(" of {}", area.name)),
                    quote_text(first.nccl_text())
                )
            }
        }
    }
}

/// `NCCL's last error, as the program reports it on ranks 0-3`.
fn describe_relaying_programs(group: &WarningGroup<'_>) -> String {
    let programs = group.members.iter().filter_map(|m| m.seen.relayed_by);
    let ranks: BTreeSet<u32> = programs.filter_map(|program| program.rank).collect();
    let on = match ranks.len() {
        0 => String::new(),
        n => format!(
            " on {} {}",
            verb_form(n, "rank", "ranks"),
            rank_ranges(&ranks)
        ),
    };
    let what = match is_own(group) {
        true if is_of_cuda(group.first().nccl_text()) => "an error of CUDA",
        true => "an error",
        false => "NCCL's last error",
    };
    format!("{what}, as the program reports it{on}")
}

/// True for a text that begins with the name of CUDA.
fn is_of_cuda(text: &[u8]) -> bool {
    text.get(..4)
        .is_some_and(|word| word.eq_ignore_ascii_case(b"cuda"))
}

/// True if a program got the error itself, not from NCCL.
fn is_own(group: &WarningGroup<'_>) -> bool {
    let programs = group.members.iter().filter_map(|m| m.seen.relayed_by);
    programs.into_iter().any(|program| program.is_own)
}

impl WarningGroup<'_> {
    /// Describes the reason that CUDA, HIP, a NIC or the kernel gives in the text, where the kind is that of what NCCL
    /// tried.
    fn describe_reason(&self) -> Option<String> {
        let reason = look_up_added_reason(self.first().nccl_text())?;
        let is_told = self.known.is_none_or(|known| known.id == reason.id);
        (!is_told).then(|| format!("the text gives a reason: {}", reason.means))
    }
}

impl WarningLines {
    /// The source file that prints the line.
    pub(super) fn source_file(&self) -> Option<&[u8]> {
        find_source_file(self.text.get(..self.says)?)
    }
}

/// True for a result of NCCL's functions that is an error; 0 is success, 7 means not done yet.
pub(super) fn is_error_result(result: i32) -> bool {
    !matches!(result, 0 | 7)
}
