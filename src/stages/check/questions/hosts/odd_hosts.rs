//! Hosts and values in a sentence, and the subject of a finding.

use super::fact_meaning::FirstLineByHost;
use super::limits::MAX_EVIDENCE_LINES;
use crate::stages::check::finding::{About, Confidence, Evidence, Finding, Kind, Severity};
use crate::stages::check::wording::{list_names, number_and_noun, quote_text};
use crate::stages::net::fact::{NetFact, NetFactKind};
use crate::stages::net::net_stage::FirstReportLine;
use crate::stages::net::table::{FactSpeakers, NetFacts, NetSubject};
use std::collections::BTreeSet;

/// Returns the subject of a finding if it is one host.
pub(crate) fn about_hosts(hosts: &BTreeSet<&[u8]>) -> About {
    About {
        host: match hosts.first() {
            Some(&host) if hosts.len() == 1 => Some(host.into()),
            _ => None,
        },
        ..About::default()
    }
}

/// Returns the lines, each once, in the given order.
pub(crate) fn evidence_of_lines(lines: impl IntoIterator<Item = FirstReportLine>) -> Vec<Evidence> {
    let mut seen = BTreeSet::new();
    lines
        .into_iter()
        .filter(|line| seen.insert(*line))
        .take(MAX_EVIDENCE_LINES)
        .map(Evidence::from)
        .collect()
}

/// Returns lines of the first hosts: of three odd ones and of two others.
pub(crate) fn evidence_of_hosts(
    odd: &FirstLineByHost<'_>,
    other: &FirstLineByHost<'_>,
) -> Vec<Evidence> {
    let lines = odd.values().take(3).chain(other.values().take(2));
    evidence_of_lines(lines.copied())
}

/// Returns the hosts with a fact.
pub(crate) fn hosts_of(said: &FactSpeakers) -> impl Iterator<Item = &[u8]> {
    said.hosts.keys().map(|host| &host[..])
}

/// Returns the hosts with these values of the subject, if there are any.
pub(crate) fn find_saying<'f>(
    facts: &'f NetFacts,
    kind: NetFactKind,
    name: &str,
    value: &str,
) -> Option<&'f FactSpeakers> {
    facts.get(&NetFact::new(kind, name, value))
}

/// Odd hosts: at most half of all hosts share their value.
#[derive(Debug)]
pub(crate) struct HostSplit<'a> {
    /// The value of more than half.
    pub(crate) most: Vec<(&'a NetFact, &'a FactSpeakers)>,
    /// The values of the others.
    pub(crate) others: Vec<(&'a NetFact, &'a FactSpeakers)>,
}

/// True if hosts differ in a subject.
pub(crate) fn split_hosts<'a>(subject: &NetSubject<'a>) -> Option<HostSplit<'a>> {
    let (most, others): (Vec<_>, Vec<_>) = subject
        .values
        .iter()
        .copied()
        .partition(|(fact, said)| subject.is_majority(fact, said));
    (!others.is_empty()).then_some(HostSplit { most, others })
}

impl<'a> HostSplit<'a> {
    /// The hosts with a value of at most half.
    pub(crate) fn odd_host_names(&self) -> BTreeSet<&'a [u8]> {
        let others = self.others.iter();
        others.flat_map(|&(_, said)| hosts_of(said)).collect()
    }

    /// Formats `2.27.3 on n3, 2.28.9 on 4 hosts`.
    pub(crate) fn describe_values(&self) -> String {
        let other = |(fact, said): &(&NetFact, &FactSpeakers)| {
            format!(
                "{} on {}",
                quote_text(&fact.value),
                list_names(hosts_of(said))
            )
        };
        let most = |(fact, said): &(&NetFact, &FactSpeakers)| {
            let on = number_and_noun(said.hosts.len(), "host");
            format!("{} on {on}", quote_text(&fact.value))
        };
        let more = self.others.len().saturating_sub(3);
        let mut parts: Vec<String> = self.others.iter().take(3).map(other).collect();
        if more > 0 {
            parts.push(number_and_noun(more, "more value"));
        }
        parts.extend(self.most.iter().take(2).map(most));
        parts.join("; ")
    }

    /// Returns the finding that `what` differs.
    pub(crate) fn difference_finding(&self, kind: Kind, severity: Severity, what: &str) -> Finding {
        let says = format!("{what}: {}", self.describe_values());
        Finding {
            about: about_hosts(&self.odd_host_names()),
            evidence: self.evidence_lines(),
            ..Finding::new(kind, severity, Confidence::High, says)
        }
    }

    /// A line for each value: the others' first.
    pub(crate) fn evidence_lines(&self) -> Vec<Evidence> {
        let all = self.others.iter().take(3).chain(self.most.iter().take(2));
        evidence_of_lines(all.map(|(_, said)| said.first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_some_and_a_number() {
        let names = |n: usize| list_names((0..n).map(|n| format!("n{n}")));
        assert_eq!(names(0), "");
        assert_eq!(names(1), "n0");
        assert_eq!(names(2), "n0 and n1");
        assert_eq!(names(5), "n0, n1, n2, n3 and n4");
        assert_eq!(names(6), "n0, n1, n2, n3 and 2 more");
        assert_eq!(list_names([b"a\x1b[2J"]), "a\\u{1b}[2J");
    }
}
