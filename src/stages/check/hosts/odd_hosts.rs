//! Hosts and values in a sentence, and who a finding is about.

use crate::stages::check::finding::{About, Evidence, Finding, Severity, Sure};
use crate::stages::check::wording::{counted, listed, text};
use crate::stages::net::all::First;
use crate::stages::net::fact::{Fact, Kind};
use crate::stages::net::table::{Facts, Said, Subject};
use std::collections::BTreeSet;

/// Lines of a finding.
pub(crate) const LINES: usize = 6;

/// Who it is about, where that is one host.
pub(crate) fn about(hosts: &BTreeSet<&[u8]>) -> About {
    About {
        host: match hosts.first() {
            Some(&host) if hosts.len() == 1 => Some(host.into()),
            _ => None,
        },
        ..About::default()
    }
}

/// The lines, each once, in the order given.
pub(crate) fn evidence(lines: impl IntoIterator<Item = First>) -> Vec<Evidence> {
    let mut seen = BTreeSet::new();
    lines
        .into_iter()
        .filter(|line| seen.insert(*line))
        .take(LINES)
        .map(Evidence::from)
        .collect()
}

/// The hosts that say a fact.
pub(crate) fn hosts(said: &Said) -> impl Iterator<Item = &[u8]> {
    said.hosts.keys().map(|host| &host[..])
}

/// Who says this of the subject with these values, if anyone.
pub(crate) fn who<'f>(facts: &'f Facts, kind: Kind, name: &str, value: &str) -> Option<&'f Said> {
    facts.get(&Fact::new(kind, name, value))
}

/// The hosts of which one says what at most half of them say.
#[derive(Debug)]
pub(crate) struct Split<'a> {
    /// What more than half say.
    pub(crate) most: Vec<(&'a Fact, &'a Said)>,
    /// What the others say.
    pub(crate) others: Vec<(&'a Fact, &'a Said)>,
}

/// Whether the hosts that speak of a subject say different things.
pub(crate) fn split<'a>(subject: &Subject<'a>) -> Option<Split<'a>> {
    let (most, others): (Vec<_>, Vec<_>) = subject
        .values
        .iter()
        .copied()
        .partition(|(fact, said)| subject.is_most(fact, said));
    (!others.is_empty()).then_some(Split { most, others })
}

impl<'a> Split<'a> {
    /// The hosts that say what at most half say.
    pub(crate) fn odd(&self) -> BTreeSet<&'a [u8]> {
        let others = self.others.iter();
        others.flat_map(|&(_, said)| hosts(said)).collect()
    }

    /// `2.27.3 on n3, 2.28.9 on 4 hosts`.
    pub(crate) fn words(&self) -> String {
        let other = |(fact, said): &(&Fact, &Said)| {
            format!("{} on {}", text(&fact.value), listed(hosts(said)))
        };
        let most = |(fact, said): &(&Fact, &Said)| {
            let on = counted(said.hosts.len(), "host");
            format!("{} on {on}", text(&fact.value))
        };
        let more = self.others.len().saturating_sub(3);
        let mut parts: Vec<String> = self.others.iter().take(3).map(other).collect();
        if more > 0 {
            parts.push(counted(more, "more value"));
        }
        parts.extend(self.most.iter().take(2).map(most));
        parts.join("; ")
    }

    /// The finding that `what` differs.
    pub(crate) fn finding(
        &self,
        (id, severity): (&'static str, Severity),
        what: &str,
        (why, advice): (&str, &str),
    ) -> Finding {
        Finding {
            id,
            severity,
            says: format!("{what}: {}", self.words()),
            about: about(&self.odd()),
            sure: Sure::High,
            why: why.to_owned(),
            advice: advice.to_owned(),
            evidence: self.lines(),
        }
    }

    /// A line for each value: the others' first.
    pub(crate) fn lines(&self) -> Vec<Evidence> {
        let all = self.others.iter().take(3).chain(self.most.iter().take(2));
        evidence(all.map(|(_, said)| said.first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_some_and_a_number() {
        let names = |n: usize| listed((0..n).map(|n| format!("n{n}")));
        assert_eq!(names(0), "");
        assert_eq!(names(1), "n0");
        assert_eq!(names(2), "n0 and n1");
        assert_eq!(names(5), "n0, n1, n2, n3 and n4");
        assert_eq!(names(6), "n0, n1, n2, n3 and 2 more");
        assert_eq!(listed([b"a\x1b[2J"]), "a\\u{1b}[2J");
    }
}
