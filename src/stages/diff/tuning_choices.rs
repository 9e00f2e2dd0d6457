//! Algorithms and protocols by operation and size, of two runs.

use super::measure::Measure;
use super::row::{DiffAspect, DiffRow, DiffValue};
use crate::grammar::values::{OpKind, op_kind};
use crate::stages::tuning::tuning_stage::{TuningKey, TuningStage};
use std::collections::{BTreeMap, BTreeSet};

/// Operation, if known, and size of the communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TuningSubject<'t> {
    op: Option<&'t [u8]>,
    nranks: Option<u32>,
}

/// Choices for a size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TuningChoice {
    how: BTreeSet<Vec<u8>>,
    channels: BTreeSet<u32>,
}

/// Successive sizes with equal changes.
struct SizeRange<'c> {
    from: u64,
    to: u64,
    a: &'c TuningChoice,
    b: &'c TuningChoice,
}

fn tuning_choices(all: &TuningStage) -> BTreeMap<TuningSubject<'_>, BTreeMap<u64, TuningChoice>> {
    let mut of: BTreeMap<TuningSubject<'_>, BTreeMap<u64, TuningChoice>> = BTreeMap::new();
    for key in all.found.keys() {
        let op = key.op.map(|op| all.names.name_of_op(op));
        let Some(bytes) = caller_bytes(key, op) else {
            continue;
        };
        let sizes = of
            .entry(TuningSubject {
                op,
                nranks: key.nranks,
            })
            .or_default();
        let chosen = sizes.entry(bytes).or_default();
        let (algorithm, protocol) = key.how.algorithm_and_protocol(&all.names);
        let how = [algorithm, protocol].join(&b' ');
        chosen.how.insert(how.trim_ascii().to_vec());
        chosen.channels.extend(key.channels);
    }
    of
}

/// Returns the caller's bytes: up to NCCL 2.23 lines have all ranks' bytes of a gather.
fn caller_bytes(key: &TuningKey, op: Option<&[u8]>) -> Option<u64> {
    match op.map(op_kind) {
        Some(OpKind::PerRank) if !key.is_api() => {
            let nranks = u64::from(key.nranks?);
            Some(key.bytes / nranks.max(1))
        }
        _ => Some(key.bytes),
    }
}

/// Compares the operations and sizes that both runs have.
pub(super) fn compare_tuning(a: &TuningStage, b: &TuningStage, rows: &mut Vec<DiffRow>) {
    let (a, b) = (tuning_choices(a), tuning_choices(b));
    for (of, sizes) in &a {
        let Some(others) = b.get(of) else { continue };
        let both = || {
            let sizes = sizes.iter();
            sizes.filter_map(|(&bytes, a)| Some((bytes, a, others.get(&bytes)?)))
        };
        for range in merge_ranges(both(), |a, b| a.how == b.how) {
            let text = |how: &BTreeSet<Vec<u8>>| {
                let all: Vec<&[u8]> = how.iter().map(|how| &how[..]).collect();
                DiffValue::Text(all.join(&b"; "[..]))
            };
            let (a, b) = (text(&range.a.how), text(&range.b.how));
            let row = DiffRow::new(DiffAspect::Algorithm, describe_subject(*of, &range), a, b);
            rows.push(DiffRow {
                weight: range.to as f64,
                ..row
            });
        }
        for range in merge_ranges(both(), |a, b| a.channels == b.channels) {
            let (a, b) = (&range.a.channels, &range.b.channels);
            if a.is_empty() || b.is_empty() {
                continue;
            }
            let row = DiffRow::new(
                DiffAspect::Channels,
                describe_subject(*of, &range),
                numbers_value(a),
                numbers_value(b),
            );
            rows.push(DiffRow {
                weight: range.to as f64,
                basis: "per call",
                ..row
            });
        }
    }
}

/// Joins successive sizes with equal changes; a size that `same` finds unchanged ends a range.
fn merge_ranges<'c>(
    sizes: impl Iterator<Item = (u64, &'c TuningChoice, &'c TuningChoice)>,
    same: impl Fn(&TuningChoice, &TuningChoice) -> bool,
) -> Vec<SizeRange<'c>> {
    let mut ranges: Vec<SizeRange<'c>> = Vec::new();
    let mut goes_on = false;
    for (bytes, a, b) in sizes {
        if same(a, b) {
            goes_on = false;
            continue;
        }
        match ranges.last_mut() {
            Some(last) if goes_on && same(last.a, a) && same(last.b, b) => last.to = bytes,
            _ => ranges.push(SizeRange {
                from: bytes,
                to: bytes,
                a,
                b,
            }),
        }
        goes_on = true;
    }
    ranges
}

fn describe_subject(subject: TuningSubject<'_>, range: &SizeRange<'_>) -> Vec<u8> {
    let mut text = subject.op.unwrap_or(b"any operation").to_vec();
    if let Some(nranks) = subject.nranks {
        text.extend(format!(" of {nranks} ranks").into_bytes());
    }
    let sizes = match range.from == range.to {
        true => format!(" {} B", range.from),
        false => format!(" {}-{} B", range.from, range.to),
    };
    text.extend(sizes.into_bytes());
    text
}

/// Returns a number, or several as a text.
pub(super) fn numbers_value(all: &BTreeSet<u32>) -> DiffValue {
    match (all.first(), all.len()) {
        (Some(&n), 1) => DiffValue::Number(Measure::exact(n.into())),
        _ => {
            let all: Vec<String> = all.iter().map(u32::to_string).collect();
            DiffValue::Text(all.join("; ").into_bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_change_alike_are_a_range_until_one_does_not() {
        let chosen = |how: &str| TuningChoice {
            how: [how.as_bytes().to_vec()].into(),
            channels: BTreeSet::new(),
        };
        let (ring, tree, nvls) = (chosen("RING"), chosen("TREE"), chosen("NVLS"));
        let sizes = [
            (1, &ring, &tree),
            (2, &ring, &tree),
            (3, &ring, &ring),
            (4, &ring, &tree),
            (5, &ring, &nvls),
        ];
        let found = merge_ranges(sizes.into_iter(), |a, b| a.how == b.how);
        let found: Vec<_> = found.iter().map(|r| (r.from, r.to)).collect();
        assert_eq!(found, [(1, 2), (4, 4), (5, 5)]);
    }
}
