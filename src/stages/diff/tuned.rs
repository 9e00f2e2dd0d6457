//! What served which operation and size, of two runs.

use super::measure::Measure;
use super::row::{Aspect, Row, Value};
use crate::grammar::values::{Kind, kind};
use crate::stages::tuning::all::{All, Key};
use std::collections::{BTreeMap, BTreeSet};

/// An operation, where it is known, and the size of the communicator.
type Of<'t> = (Option<&'t [u8]>, Option<u32>);

/// What serves a size.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Chosen {
    how: BTreeSet<Vec<u8>>,
    channels: BTreeSet<u32>,
}

/// Sizes in a row that change in the same way.
struct Range<'c> {
    from: u64,
    to: u64,
    a: &'c Chosen,
    b: &'c Chosen,
}

fn chosen(all: &All) -> BTreeMap<Of<'_>, BTreeMap<u64, Chosen>> {
    let mut of: BTreeMap<Of<'_>, BTreeMap<u64, Chosen>> = BTreeMap::new();
    for key in all.found.keys() {
        let op = key.op.map(|op| all.names.name(op));
        let Some(bytes) = bytes(key, op) else {
            continue;
        };
        let sizes = of.entry((op, key.nranks)).or_default();
        let chosen = sizes.entry(bytes).or_default();
        let (algorithm, protocol) = key.how.words(&all.names);
        let how = [algorithm, protocol].join(&b' ');
        chosen.how.insert(how.trim_ascii().to_vec());
        chosen.channels.extend(key.channels);
    }
    of
}

/// What the caller passed: up to NCCL 2.23 the lines give all ranks' bytes of a gather.
fn bytes(key: &Key, op: Option<&[u8]>) -> Option<u64> {
    match op.map(kind) {
        Some(Kind::PerRank) if !key.is_api() => {
            let nranks = u64::from(key.nranks?);
            Some(key.bytes / nranks.max(1))
        }
        _ => Some(key.bytes),
    }
}

/// What differs for the operations and sizes that both runs have.
pub(super) fn compare(a: &All, b: &All, rows: &mut Vec<Row>) {
    let (a, b) = (chosen(a), chosen(b));
    for (of, sizes) in &a {
        let Some(others) = b.get(of) else { continue };
        let both = || {
            let sizes = sizes.iter();
            sizes.filter_map(|(&bytes, a)| Some((bytes, a, others.get(&bytes)?)))
        };
        for range in ranges(both(), |a, b| a.how == b.how) {
            let text = |how: &BTreeSet<Vec<u8>>| {
                let all: Vec<&[u8]> = how.iter().map(|how| &how[..]).collect();
                Value::Text(all.join(&b"; "[..]))
            };
            let (a, b) = (text(&range.a.how), text(&range.b.how));
            let row = Row::new(Aspect::Algorithm, subject(*of, &range), a, b);
            rows.push(Row {
                weight: range.to as f64,
                ..row
            });
        }
        for range in ranges(both(), |a, b| a.channels == b.channels) {
            let (a, b) = (&range.a.channels, &range.b.channels);
            if a.is_empty() || b.is_empty() {
                continue;
            }
            let row = Row::new(
                Aspect::Channels,
                subject(*of, &range),
                numbers(a),
                numbers(b),
            );
            rows.push(Row {
                weight: range.to as f64,
                basis: "per call",
                ..row
            });
        }
    }
}

/// Neighbouring sizes whose change is the same; those that `same` says do not change end a range.
fn ranges<'c>(
    sizes: impl Iterator<Item = (u64, &'c Chosen, &'c Chosen)>,
    same: impl Fn(&Chosen, &Chosen) -> bool,
) -> Vec<Range<'c>> {
    let mut ranges: Vec<Range<'c>> = Vec::new();
    let mut goes_on = false;
    for (bytes, a, b) in sizes {
        if same(a, b) {
            goes_on = false;
            continue;
        }
        match ranges.last_mut() {
            Some(last) if goes_on && same(last.a, a) && same(last.b, b) => last.to = bytes,
            _ => ranges.push(Range {
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

fn subject((op, nranks): Of<'_>, range: &Range<'_>) -> Vec<u8> {
    let mut text = op.unwrap_or(b"any operation").to_vec();
    if let Some(nranks) = nranks {
        text.extend(format!(" of {nranks} ranks").into_bytes());
    }
    let sizes = match range.from == range.to {
        true => format!(" {} B", range.from),
        false => format!(" {}-{} B", range.from, range.to),
    };
    text.extend(sizes.into_bytes());
    text
}

/// A number, or several as a text.
pub(super) fn numbers(all: &BTreeSet<u32>) -> Value {
    match (all.first(), all.len()) {
        (Some(&n), 1) => Value::Number(Measure::exact(n.into())),
        _ => {
            let all: Vec<String> = all.iter().map(u32::to_string).collect();
            Value::Text(all.join("; ").into_bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_change_alike_are_a_range_until_one_does_not() {
        let chosen = |how: &str| Chosen {
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
        let found = ranges(sizes.into_iter(), |a, b| a.how == b.how);
        let found: Vec<_> = found.iter().map(|r| (r.from, r.to)).collect();
        assert_eq!(found, [(1, 2), (4, 4), (5, 5)]);
    }
}
