//! The finding on ranks that did not submit a tensor to Horovod.

use super::limits::{MAX_STALLED_RANKS, MAX_TENSORS_NAMED};
use super::{WatchdogMessage, WatchdogRecord, describe_ranks};
use crate::grammar::message::horovod::StalledTensor;
use crate::stages::check::finding::{About, Confidence, Finding, Kind, Reason};
use crate::stages::check::wording::{number_and_noun, quote_text, verb_form};
use crate::stages::net::net_stage::FirstReportLine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A tensor that waits for ranks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct TensorWait {
    name: Box<[u8]>,
    listed: BTreeSet<u32>,
    /// The listed ranks have submitted it; else they have not.
    are_ready: bool,
}

impl TensorWait {
    /// Reads a tensor's report; `None` if it lists no rank.
    pub(super) fn from_report(stalled: &StalledTensor<'_>) -> Option<TensorWait> {
        let ranks: BTreeSet<u32> = stalled.listed_ranks().take(MAX_STALLED_RANKS).collect();
        (!ranks.is_empty()).then(|| TensorWait {
            name: stalled.name.into(),
            listed: ranks,
            are_ready: stalled.are_ready,
        })
    }

    /// The ranks below `end` that have not submitted it.
    fn missing_ranks(&self, end: u32) -> BTreeSet<u32> {
        match self.are_ready {
            true => (0..end)
                .filter(|rank| !self.listed.contains(rank))
                .collect(),
            false => self.listed.clone(),
        }
    }
}

/// Makes one finding of all reports; `is_idle` returns true if no work of the job ends after a line.
pub(in crate::stages::check) fn find_stalled_tensors(
    records: &[WatchdogRecord],
    is_idle: impl Fn(FirstReportLine) -> bool,
) -> Option<Finding> {
    let all = records.iter().filter_map(|record| match &record.what {
        WatchdogMessage::Stalled(wait) => Some((record, wait)),
        _ => None,
    });
    let all: Vec<(&WatchdogRecord, &TensorWait)> = all.collect();
    let &(record, first) = all.first()?;
    // Ranks have all numbers up to the last that any line lists. Whether there are more is not known.
    let last = all
        .iter()
        .filter_map(|(_, wait)| wait.listed.last())
        .max()?;
    let end = last.saturating_add(1).min(MAX_STALLED_RANKS as u32);
    // A tensor may be on a line of each rank that lacks it.
    let mut waited: Vec<(&[u8], BTreeSet<u32>)> = Vec::new();
    for (_, wait) in &all {
        let ranks = wait.missing_ranks(end);
        match waited.iter_mut().find(|(name, _)| *name == &*wait.name) {
            Some((_, known)) => known.extend(ranks),
            None => waited.push((&wait.name, ranks)),
        }
    }
    let missing: BTreeSet<u32> = waited
        .iter()
        .flat_map(|(_, ranks)| ranks)
        .copied()
        .collect();
    let rank = missing.first().copied().filter(|_| missing.len() == 1);
    let tensor = quote_text(&first.name);
    // Ranks that wait for each other have submitted different tensors.
    let are_equal = waited.iter().all(|(_, ranks)| *ranks == waited[0].1);
    let says = match (missing.is_empty(), are_equal) {
        (true, _) => format!("Horovod waits for ranks that have not submitted {tensor}"),
        (_, true) => format!(
            "Horovod waits for {}, which {} not submitted {tensor}",
            describe_ranks(&missing),
            verb_form(missing.len(), "has", "have")
        ),
        (_, false) => format!(
            "ranks submitted different tensors to Horovod, which waits for {}",
            describe_waits_of_ranks(&waited)
        ),
    };
    let look = match missing.is_empty() {
        true => "the ranks that the lines do not list".to_owned(),
        false => describe_ranks(&missing),
    };
    let mut finding = Finding {
        about: About::of_rank(rank),
        why: "Horovod's report of stalled tensors names the ranks; a rank that is only slow is named, too".to_owned(),
        advice: format!(
            "look at {look} first: its own output, a stack (py-spy dump), whether it ended or waits for an input; look \
             whether all ranks submit the same tensors"
        ),
        evidence: vec![record.to_evidence()],
        ..Finding::of_kind(Kind::WatchdogTimeout, Confidence::Medium, says)
    };
    if all.last().is_some_and(|(last, _)| !is_idle(last.at)) {
        finding.excuse(Reason::WentOn);
    }
    Some(finding)
}

/// `rank 3 in tensor a, and for ranks 0-2 in tensor b`: the first tensor that each set of ranks lacks.
fn describe_waits_of_ranks(waited: &[(&[u8], BTreeSet<u32>)]) -> String {
    let mut sets: Vec<(&BTreeSet<u32>, &[u8])> = Vec::new();
    for (name, ranks) in waited {
        if !ranks.is_empty() && !sets.iter().any(|(known, _)| *known == ranks) {
            sets.push((ranks, name));
        }
    }
    let more = sets.len().saturating_sub(MAX_TENSORS_NAMED);
    let named = sets.iter().take(MAX_TENSORS_NAMED);
    let mut named: Vec<String> = named
        .map(|(ranks, name)| format!("{} in {}", describe_ranks(ranks), quote_text(name)))
        .collect();
    if more > 0 {
        named.push(number_and_noun(more as u64, "other set of ranks"));
    }
    named.join(", and for ")
}

#[cfg(test)]
mod tests {
    use super::super::Watchdog;
    use super::*;
    use crate::grammar::message::c10d::parse_c10d_line;

    fn find(lines: &[&str]) -> (Option<u32>, String) {
        let mut watchdog = Watchdog::default();
        for (number, line) in (0..).zip(lines) {
            let what = parse_c10d_line(line.as_bytes()).unwrap();
            watchdog.take_line(line.as_bytes(), &what, FirstReportLine::in_chunk(number));
        }
        let found = find_stalled_tensors(watchdog.kept_records(), |_| true).unwrap();
        (found.about.rank, found.says)
    }

    #[test]
    fn missing_ranks_are_named() {
        assert_eq!(
            find(&[
                "Stalled ops:HorovodAllreduce_a_0 [missing ranks: 5]",
                "[2019: W horovod/common/operations.cc:588] HorovodAllreduce_b_0 [missing ranks: 5]",
            ]),
            (
                Some(5),
                "Horovod waits for rank 5, which has not submitted HorovodAllreduce_a_0".to_owned()
            )
        );
        let (rank, says) = find(&[
            "Stalled ops: allreduce.a [ready ranks: 1, 4, 0], allreduce.b [ready ranks: 0, 1, 4]",
        ]);
        assert_eq!(rank, None);
        assert!(says.starts_with("Horovod waits for ranks 2-3,"), "{says}");
        let (rank, says) = find(&["a [missing ranks: 0]", "b [missing ranks: 1]"]);
        assert_eq!(rank, None);
        let parted = "ranks submitted different tensors to Horovod, which waits for rank 0 in a, and for rank 1 in b";
        assert_eq!(says, parted);
    }
}
