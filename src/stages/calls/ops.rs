//! nccl-ops: per operation the number of calls and their sizes.

use crate::count::calls::CountedCalls;
use crate::count::groups::{GroupBy, GroupEntry, GroupRowInputs, GroupedCalls, GroupsPart};
use crate::count::spread::nearest_rank;
use crate::count::tally;
use crate::count::tally::{CallKey, CallVolume, SizeKey, UNKNOWN_SIZE};
use crate::grammar::values::ByteBasis;
use crate::output::render::{Sheet, awk_number};
use crate::stages::timed::{DURATION_PERCENTILES, DurationRows};

/// The options of nccl-ops.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What groups rows further; default nothing.
    pub by: Vec<GroupBy>,
    /// What bytes mean; default the API's.
    pub basis: ByteBasis,
    /// True if a window of steps is given.
    pub window: bool,
    /// True for durations in place of sizes.
    pub time: bool,
}

impl Options {
    /// Returns the tally's options.
    pub fn tally(&self) -> tally::Options {
        let sizing = match self.time {
            true => SizeKey::Bucket(Vec::new()),
            false => SizeKey::Digits,
        };
        let mut tally = tally::Options::by_size(sizing, self.basis);
        tally.durations = self.time;
        GroupBy::add_needs(&self.by, self.window, &mut tally);
        tally
    }
}

/// The sizes of one operation of a group.
#[derive(Debug, Default)]
struct OpSizes {
    value: CallVolume,
    /// Calls with known bytes.
    known: u64,
    /// Sizes to three significant digits, rising, each with its calls.
    sizes: Vec<(u64, u64)>,
}

impl OpSizes {
    /// An operation's calls, from its cells by rising size.
    fn add_calls<'c>(&mut self, cells: impl Iterator<Item = (&'c CallKey, &'c CallVolume)>) {
        self.sizes.clear();
        (self.value, self.known) = (CallVolume::default(), 0);
        for (key, value) in cells {
            if key.size == UNKNOWN_SIZE {
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

    /// Returns the size of a percentile, to three significant digits. The tally already has the sizes of an
    /// hdrhistogram, and few of them, so counting through them gives the histogram's result (a test compares
    /// the two).
    fn percentile(&self, share: f64) -> u128 {
        let at = nearest_rank(self.sizes.iter().copied(), self.known, share).unwrap_or(0);
        u128::from(at).clamp(self.value.min, self.value.max)
    }

    fn mean_bytes(&self) -> Option<f64> {
        (self.known > 0).then(|| self.value.bytes as f64 / self.known as f64)
    }
}

/// Calls by group, and in it by operation and size.
fn group_calls<'c>(calls: &'c CountedCalls, options: &Options) -> GroupedCalls<'c> {
    GroupedCalls::new(calls, &options.by, |key| (key.size, 0, 0))
}

/// The rows of the table.
pub fn ops_sheet<'c>(calls: &'c CountedCalls, options: &Options) -> Sheet<'c> {
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
    let groups = group_calls(calls, options);
    groups.build_sheet(
        &options.by,
        &own,
        GroupRowInputs::Sizes,
        |part, group, out| {
            let mut op = OpSizes::default();
            for entries in split_by_op(part, group) {
                op.add_calls(entries.iter().map(|e| (part.key_of(e), &e.value)));
                let known = |value: u128| (op.known > 0).then_some(value).into();
                out(&[
                    part.op_name(&entries[0]).into(),
                    op.value.calls.into(),
                    known(op.value.min),
                    op.mean_bytes().into(),
                    known(op.percentile(DURATION_PERCENTILES[0])),
                    known(op.percentile(DURATION_PERCENTILES[1])),
                    known(op.percentile(DURATION_PERCENTILES[2])),
                    known(op.value.max),
                    known(op.value.bytes),
                ]);
            }
        },
    )
}

/// The rows of `--time`: how long the calls took that have a duration of their own.
pub fn ops_times_sheet<'c>(calls: &'c CountedCalls, options: &Options) -> Sheet<'c> {
    let durations = DurationRows::new(calls, options.by.contains(&GroupBy::Step));
    let own = durations.columns_after(&["op"]);
    let groups = group_calls(calls, options);
    groups.build_sheet(
        &options.by,
        &own,
        GroupRowInputs::More,
        move |part, group, out| {
            for entries in split_by_op(part, group) {
                let op = part.op_name(&entries[0]).into();
                durations.push_rows(part, entries, &[op], out);
            }
        },
    )
}

/// The calls of a group, operation by operation.
fn split_by_op<'g>(
    part: &'g GroupsPart<'_>,
    group: &'g [GroupEntry],
) -> impl Iterator<Item = &'g [GroupEntry]> {
    group.chunk_by(move |a, b| part.key_of(a).op == part.key_of(b).op)
}

/// The rows as the AWK chain's third script prints them.
pub fn ops_chain(calls: &CountedCalls, options: &Options) -> Vec<u8> {
    let mut out = Vec::new();
    let groups = group_calls(calls, options);
    let mut op = OpSizes::default();
    for part in groups.split_parts() {
        let part = groups.take_part(part);
        for entries in part
            .iter_groups()
            .flat_map(|group| split_by_op(&part, group))
        {
            op.add_calls(entries.iter().map(|e| (part.key_of(e), &e.value)));
            out.extend_from_slice(part.op_name(&entries[0]));
            let CallVolume {
                calls,
                min,
                max,
                bytes,
            } = op.value;
            let mean = awk_number(op.mean_bytes().unwrap_or(0.0));
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
            let sizing = |bytes: u64| tally::round_to_three_digits(bytes.into());
            let mut cells: Vec<(u64, u64)> =
                calls.iter().map(|&(bytes, small, n)| (sizing(bytes >> small), n)).collect();
            cells.sort_unstable();
            let mut histogram = Histogram::<u64>::new(3).unwrap();
            histogram.auto(true);
            for &(size, n) in &cells {
                histogram.record_n(size, n).unwrap();
            }
            let op = OpSizes {
                value: CallVolume { max: u128::MAX, ..CallVolume::default() },
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
