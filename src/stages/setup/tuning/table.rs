//! The crossover table: ranges of bytes with the same choice, by operation and size of communicator.

use super::burst::ServingMethod;
use super::tuning_stage::{TuningLineCounts, TuningStage};
use crate::output::render::{Grid, TableCell};
use std::collections::BTreeMap;

/// Options of the table.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Choices with different numbers of channels differ; default no.
    pub channels: bool,
    /// Writes one row for each size instead of ranges; default no.
    pub sizes: bool,
}

/// A choice.
type MethodAndChannels = (ServingMethod, Option<u32>);

/// Number of times of a choice, and its channels.
#[derive(Debug, Clone, Copy, Default)]
struct MethodCounts {
    counts: TuningLineCounts,
    channels: Option<(u32, u32)>,
}

impl MethodCounts {
    fn add_counts(&mut self, other: MethodCounts) {
        self.counts.add_counts(other.counts);
        self.channels = match (self.channels, other.channels) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }
}

/// Successive sizes with the same choices.
#[derive(Debug)]
struct CrossoverRange {
    from: u64,
    to: u64,
    chosen: BTreeMap<MethodAndChannels, MethodCounts>,
}

/// Builds the table.
pub fn build_crossover_grid(all: &TuningStage, options: &Options) -> Grid {
    let columns = [
        "op",
        "nranks",
        "from_bytes",
        "last_bytes",
        "algorithm",
        "protocol",
        "min_channels",
        "max_channels",
        "lines",
        "calls",
        "ambiguous",
        "without_call",
    ];
    // Unknown values come last.
    let known = |n: Option<u32>| (n.is_none(), n);
    let mut groups: BTreeMap<_, BTreeMap<u64, BTreeMap<MethodAndChannels, MethodCounts>>> =
        BTreeMap::new();
    for (key, &counts) in &all.found {
        let op = key.op.map(|op| all.names.name_of_op(op));
        let group = ((op.is_none(), op), known(key.nranks));
        let sizes = groups.entry(group).or_default();
        let chosen = sizes.entry(key.bytes).or_default();
        let choice = (key.how, key.channels.filter(|_| options.channels));
        let channels = key.channels.map(|n| (n, n));
        let one = MethodCounts { counts, channels };
        chosen.entry(choice).or_default().add_counts(one);
    }
    let mut rows = Vec::new();
    for (((_, op), (_, nranks)), sizes) in groups {
        for range in group_ranges(sizes, options.sizes) {
            let mut chosen: Vec<_> = range.chosen.into_iter().collect();
            chosen.sort_by_key(|((how, n), _)| (how.algorithm_and_protocol(&all.names), *n));
            for ((how, _), MethodCounts { counts, channels }) in chosen {
                let (algorithm, protocol) = how.algorithm_and_protocol(&all.names);
                let number = |n: Option<u32>| TableCell::from(n.map(u64::from));
                rows.push(vec![
                    op.map_or(TableCell::Empty, |op| TableCell::from(op.to_vec())),
                    number(nranks),
                    range.from.into(),
                    range.to.into(),
                    TableCell::from(algorithm),
                    TableCell::from(protocol),
                    number(channels.map(|c| c.0)),
                    number(channels.map(|c| c.1)),
                    counts.lines.into(),
                    counts.calls.into(),
                    counts.ambiguous.into(),
                    counts.alone.into(),
                ]);
            }
        }
    }
    Grid {
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    }
}

/// Joins successive sizes with the same choices to ranges.
fn group_ranges(
    sizes: BTreeMap<u64, BTreeMap<MethodAndChannels, MethodCounts>>,
    each: bool,
) -> Vec<CrossoverRange> {
    let mut ranges: Vec<CrossoverRange> = Vec::new();
    for (bytes, chosen) in sizes {
        match ranges.last_mut() {
            Some(last) if !each && last.chosen.keys().eq(chosen.keys()) => {
                last.to = bytes;
                for (choice, more) in chosen {
                    last.chosen.entry(choice).or_default().add_counts(more);
                }
            }
            _ => ranges.push(CrossoverRange {
                from: bytes,
                to: bytes,
                chosen,
            }),
        }
    }
    ranges
}
