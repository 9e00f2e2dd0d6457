//! nccl-ops: per operation the number of calls and their sizes.

use crate::count::calls::Calls;
use crate::count::groups::{By, Entry, Groups, MadeOf, Part};
use crate::count::spread::nearest;
use crate::count::tally;
use crate::count::tally::{Key, Sizing, UNKNOWN, Value};
use crate::grammar::values::Basis;
use crate::output::render::{Sheet, awk};
use crate::stages::timed::{self, SHARES};

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What groups rows further; default nothing.
    pub by: Vec<By>,
    /// What bytes mean; default the API's.
    pub basis: Basis,
    /// A window of steps is asked for.
    pub window: bool,
    /// Durations are asked for instead of sizes.
    pub time: bool,
}

impl Options {
    /// What the tally must tell apart.
    pub fn tally(&self) -> tally::Options {
        tally::Options {
            sizing: match self.time {
                true => Sizing::Bucket(Vec::new()),
                false => Sizing::Digits,
            },
            basis: self.basis,
            members: self.by.iter().any(|b| b.needs_members()),
            datatypes: self.by.contains(&By::Datatype),
            steps: self.window || self.by.contains(&By::Step),
            exact: false,
            durations: self.time,
            served: self.by.iter().any(|b| b.needs_served()),
        }
    }
}

/// The sizes of one operation of a group.
#[derive(Debug, Default)]
struct Op {
    value: Value,
    /// Calls whose bytes are known.
    known: u64,
    /// Sizes to three significant digits, rising, each with its calls.
    sizes: Vec<(u64, u64)>,
}

impl Op {
    /// An operation's calls, from its cells by rising size.
    fn take<'c>(&mut self, cells: impl Iterator<Item = (&'c Key, &'c Value)>) {
        self.sizes.clear();
        (self.value, self.known) = (Value::default(), 0);
        for (key, value) in cells {
            if key.size == UNKNOWN {
                self.value.calls = self.value.calls.saturating_add(value.calls);
                continue;
            }
            if self.known == 0 {
                self.value.min = value.min;
            }
            self.known = self.known.saturating_add(value.calls);
            self.value.min = self.value.min.min(value.min);
            self.value.max = self.value.max.max(value.max);
            self.value.calls = self.value.calls.saturating_add(value.calls);
            self.value.bytes = self.value.bytes.saturating_add(value.bytes);
            self.sizes.push((key.size, value.calls));
        }
    }

    /// The size below or at which a share of the calls are, to three significant digits. The
    /// tally has the sizes of a histogram of hdrhistogram's already, and few of them: to count
    /// through them is what that does with all the sizes there could be (a test holds the two
    /// together).
    fn percentile(&self, share: f64) -> u128 {
        let at = nearest(self.sizes.iter().copied(), self.known, share).unwrap_or(0);
        u128::from(at).clamp(self.value.min, self.value.max)
    }

    fn mean(&self) -> Option<f64> {
        (self.known > 0).then(|| self.value.bytes as f64 / self.known as f64)
    }
}

/// Calls by group, and in it by operation and size.
fn groups<'c>(calls: &'c Calls, options: &Options) -> Groups<'c> {
    Groups::new(calls, &options.by, |key| (key.size, 0, 0))
}

/// The rows of the table.
pub fn sheet<'c>(calls: &'c Calls, options: &Options) -> Sheet<'c> {
    let own = [
        "op",
        "calls",
        "min_bytes",
        "mean_bytes",
        "p50_bytes",
        "p95_bytes",
        "p99_bytes",
        "max_bytes",
        "total_bytes",
    ];
    let groups = groups(calls, options);
    groups.sheet(&options.by, &own, MadeOf::Sizes, |part, group, out| {
        let mut op = Op::default();
        for entries in by_op(part, group) {
            op.take(entries.iter().map(|e| (part.key(e), &e.value)));
            let known = |value: u128| (op.known > 0).then_some(value).into();
            out(&[
                part.op(&entries[0]).into(),
                op.value.calls.into(),
                known(op.value.min),
                op.mean().into(),
                known(op.percentile(SHARES[0])),
                known(op.percentile(SHARES[1])),
                known(op.percentile(SHARES[2])),
                known(op.value.max),
                known(op.value.bytes),
            ]);
        }
    })
}

/// The rows of `--time`: how long the calls took that have a duration of their own.
pub fn times<'c>(calls: &'c Calls, options: &Options) -> Sheet<'c> {
    let own: Vec<&str> = ["op"].into_iter().chain(timed::COLUMNS).collect();
    let durations = calls.durations_of(options.by.contains(&By::Step));
    let groups = groups(calls, options);
    groups.sheet(&options.by, &own, MadeOf::More, move |part, group, out| {
        for entries in by_op(part, group) {
            let mut row = vec![part.op(&entries[0]).into()];
            row.extend(timed::cells(&timed::of(&durations, part, entries)));
            out(&row);
        }
    })
}

/// The calls of a group, operation by operation.
fn by_op<'g>(part: &'g Part<'_>, group: &'g [Entry]) -> impl Iterator<Item = &'g [Entry]> {
    group.chunk_by(move |a, b| part.key(a).op == part.key(b).op)
}

/// The rows as the AWK chain's third script prints them.
pub fn chain(calls: &Calls, options: &Options) -> Vec<u8> {
    let mut out = Vec::new();
    let groups = groups(calls, options);
    let mut op = Op::default();
    for part in groups.parts() {
        let part = groups.part(part);
        for entries in part.groups().flat_map(|group| by_op(&part, group)) {
            op.take(entries.iter().map(|e| (part.key(e), &e.value)));
            out.extend_from_slice(part.op(&entries[0]));
            let Value {
                calls,
                min,
                max,
                bytes,
            } = op.value;
            let mean = awk(op.mean().unwrap_or(0.0));
            let text = format!(" calls={calls} min={min} avg={mean} max={max} total={bytes}\n");
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percentiles_are_those_of_a_histogram(
            calls in proptest::collection::vec((any::<u64>(), 0..64_u32, 1..1000_u64), 1..50),
            share in 0.0..1.0_f64,
        ) {
            let sizing = |bytes: u64| tally::three_digits(bytes.into());
            let mut cells: Vec<(u64, u64)> =
                calls.iter().map(|&(bytes, small, n)| (sizing(bytes >> small), n)).collect();
            cells.sort_unstable();
            let mut histogram = Histogram::<u64>::new(3).unwrap();
            histogram.auto(true);
            for &(size, n) in &cells {
                histogram.record_n(size, n).unwrap();
            }
            let op = Op {
                value: Value { max: u128::MAX, ..Value::default() },
                known: cells.iter().map(|c| c.1).sum(),
                sizes: cells,
            };
            for share in [share, 0.5, 0.95, 0.99] {
                let at = histogram.lowest_equivalent(histogram.value_at_quantile(share));
                prop_assert_eq!(op.percentile(share), u128::from(at));
            }
        }
    }
}
