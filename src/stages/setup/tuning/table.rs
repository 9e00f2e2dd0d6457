//! The crossover table: of each operation and size of communicator the ranges of bytes with the
//! same choice.

use super::all::{All, Counts};
use super::burst::How;
use crate::output::render::{Cell, Grid};
use std::collections::BTreeMap;

/// What is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Another number of channels is another choice; default no.
    pub channels: bool,
    /// One row a size instead of ranges; default no.
    pub sizes: bool,
}

/// What is chosen.
type Choice = (How, Option<u32>);

/// How often something is chosen, on how many channels.
#[derive(Debug, Clone, Copy, Default)]
struct Chosen {
    counts: Counts,
    channels: Option<(u32, u32)>,
}

impl Chosen {
    fn add(&mut self, other: Chosen) {
        self.counts.add(other.counts);
        self.channels = match (self.channels, other.channels) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }
}

/// Sizes in a row with the same choices.
#[derive(Debug)]
struct Range {
    from: u64,
    to: u64,
    chosen: BTreeMap<Choice, Chosen>,
}

/// The rows of the table.
pub fn grid(all: &All, options: &Options) -> Grid {
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
    // What is not known comes last.
    let known = |n: Option<u32>| (n.is_none(), n);
    let mut groups: BTreeMap<_, BTreeMap<u64, BTreeMap<Choice, Chosen>>> = BTreeMap::new();
    for (key, &counts) in &all.found {
        let op = key.op.map(|op| all.names.name(op));
        let group = ((op.is_none(), op), known(key.nranks));
        let sizes = groups.entry(group).or_default();
        let chosen = sizes.entry(key.bytes).or_default();
        let choice = (key.how, key.channels.filter(|_| options.channels));
        let channels = key.channels.map(|n| (n, n));
        let one = Chosen { counts, channels };
        chosen.entry(choice).or_default().add(one);
    }
    let mut rows = Vec::new();
    for (((_, op), (_, nranks)), sizes) in groups {
        for range in ranges(sizes, options.sizes) {
            let mut chosen: Vec<_> = range.chosen.into_iter().collect();
            chosen.sort_by_key(|((how, n), _)| (how.words(&all.names), *n));
            for ((how, _), Chosen { counts, channels }) in chosen {
                let (algorithm, protocol) = how.words(&all.names);
                let number = |n: Option<u32>| Cell::from(n.map(u64::from));
                rows.push(vec![
                    op.map_or(Cell::Empty, |op| Cell::from(op.to_vec())),
                    number(nranks),
                    range.from.into(),
                    range.to.into(),
                    Cell::from(algorithm),
                    Cell::from(protocol),
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

/// Sizes with the same choices as the size before are one range.
fn ranges(sizes: BTreeMap<u64, BTreeMap<Choice, Chosen>>, each: bool) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for (bytes, chosen) in sizes {
        match ranges.last_mut() {
            Some(last) if !each && last.chosen.keys().eq(chosen.keys()) => {
                last.to = bytes;
                for (choice, more) in chosen {
                    last.chosen.entry(choice).or_default().add(more);
                }
            }
            _ => ranges.push(Range {
                from: bytes,
                to: bytes,
                chosen,
            }),
        }
    }
    ranges
}
