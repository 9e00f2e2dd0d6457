//! The matrix: who sends to whom, how often and how much, and how that is known.

use super::endpoints::{Endpoint, HostLabel};
use crate::members::Interner;
use crate::output::render::Sheet;
use rustc_hash::FxHashMap;

/// How it is known what goes from one end to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrafficBasis {
    /// The sender's own record of a message.
    Sent,
    /// The receiver's record of a message whose sender is not in the inputs.
    Received,
    /// A recorded copy from one memory to another.
    Copied,
    /// Recorded loads and stores of a GPU in another's memory.
    Accessed,
    /// By definition of an AlltoAll, a Gather or a Scatter: which pair exchanges how much.
    Pairs,
    /// What a collective would send over the rings of its communicator.
    Ring,
    /// The same over its trees.
    Tree,
}

impl TrafficBasis {
    /// All of them, in order.
    pub const ALL: [TrafficBasis; 7] = [
        TrafficBasis::Sent,
        TrafficBasis::Received,
        TrafficBasis::Copied,
        TrafficBasis::Accessed,
        TrafficBasis::Pairs,
        TrafficBasis::Ring,
        TrafficBasis::Tree,
    ];

    /// The word in the column `basis`.
    pub fn name(self) -> &'static str {
        match self {
            TrafficBasis::Sent => "sent",
            TrafficBasis::Received => "received",
            TrafficBasis::Copied => "copied",
            TrafficBasis::Accessed => "accessed",
            TrafficBasis::Pairs => "definition",
            TrafficBasis::Ring => "ring model",
            TrafficBasis::Tree => "tree model",
        }
    }

    /// True where an input has a record of it.
    pub fn is_recorded(self) -> bool {
        matches!(
            self,
            TrafficBasis::Sent
                | TrafficBasis::Received
                | TrafficBasis::Copied
                | TrafficBasis::Accessed
        )
    }

    /// True for what no record and no definition tells.
    pub fn is_model(self) -> bool {
        matches!(self, TrafficBasis::Ring | TrafficBasis::Tree)
    }
}

/// The number of an end in a [`TrafficMatrix`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(u32);

/// How often, and how many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrafficSum {
    /// Calls, copies or accesses.
    pub calls: u64,
    /// Their bytes, those that are known.
    pub bytes: u128,
    /// Those of `calls` whose bytes are not known.
    pub unknown: u64,
}

impl TrafficSum {
    /// So many calls, of so many bytes together if that is known.
    pub fn from_calls(calls: u64, bytes: Option<u128>) -> TrafficSum {
        TrafficSum {
            calls,
            bytes: bytes.unwrap_or(0),
            unknown: if bytes.is_none() { calls } else { 0 },
        }
    }

    /// Adds others.
    pub fn add_sum(&mut self, other: TrafficSum) {
        self.calls = self.calls.saturating_add(other.calls);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.unknown = self.unknown.saturating_add(other.unknown);
    }

    /// The bytes, where all of them are known.
    pub fn all_bytes(&self) -> Option<u128> {
        (self.unknown == 0).then_some(self.bytes)
    }
}

/// What is counted in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TrafficUnit {
    /// Bytes.
    #[default]
    Bytes,
    /// Calls, copies or accesses.
    Calls,
}

impl TrafficUnit {
    /// What a sum comes to.
    pub fn value_of(self, sum: &TrafficSum) -> u128 {
        match self {
            TrafficUnit::Bytes => sum.bytes,
            TrafficUnit::Calls => sum.calls.into(),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            TrafficUnit::Bytes => "bytes",
            TrafficUnit::Calls => "calls",
        }
    }
}

/// What tells cells apart: step, from, to and basis.
type MatrixCellKey = (Option<u64>, EndpointId, EndpointId, TrafficBasis);

/// Who sends to whom.
#[derive(Debug, Default)]
pub struct TrafficMatrix {
    ends: Interner<Endpoint>,
    /// The host of each end; empty where it is not known.
    hosts: Vec<HostLabel>,
    cells: FxHashMap<MatrixCellKey, TrafficSum>,
}

/// A cell in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixCell<'m> {
    /// The step, where rows are by step and it is known.
    pub step: Option<u64>,
    /// Who sends.
    pub from: &'m Endpoint,
    /// Who receives.
    pub to: &'m Endpoint,
    /// How it is known.
    pub basis: TrafficBasis,
    /// How much.
    pub sum: TrafficSum,
}

impl TrafficMatrix {
    /// The number of an end; `host` is where it is, empty where that is not known.
    pub fn intern_endpoint(&mut self, end: Endpoint, host: &HostLabel) -> EndpointId {
        let at = self.ends.intern(end);
        if self.hosts.len() <= at as usize {
            self.hosts.push(host.clone());
        }
        EndpointId(at)
    }

    /// Adds to a cell.
    pub fn add_to_cell(
        &mut self,
        step: Option<u64>,
        (from, to): (EndpointId, EndpointId),
        basis: TrafficBasis,
        sum: TrafficSum,
    ) {
        if sum.calls > 0 {
            self.cells
                .entry((step, from, to, basis))
                .or_default()
                .add_sum(sum);
        }
    }

    /// True where nothing was added.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// How many cells there are.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// The cells by step (one that is not known comes last), from, to and basis.
    pub fn entries(&self) -> Vec<MatrixCell<'_>> {
        let order = self.sorted_positions();
        let place = |end: EndpointId| order.get(end.0 as usize).copied().unwrap_or(0);
        let mut keys: Vec<(&MatrixCellKey, &TrafficSum)> = self.cells.iter().collect();
        keys.sort_unstable_by_key(|((step, from, to, basis), _)| {
            (step.is_none(), *step, place(*from), place(*to), *basis)
        });
        let entry = |(&(step, from, to, basis), sum): (&MatrixCellKey, &TrafficSum)| MatrixCell {
            step,
            from: self.ends.get(from.0),
            to: self.ends.get(to.0),
            basis,
            sum: *sum,
        };
        keys.into_iter().map(entry).collect()
    }

    /// The place of each end among all.
    fn sorted_positions(&self) -> Vec<u32> {
        let ends = self.ends.items();
        let mut sorted: Vec<u32> = (0_u32..).take(ends.len()).collect();
        sorted.sort_by(|&a, &b| self.ends.get(a).cmp(self.ends.get(b)));
        let mut order = vec![0; ends.len()];
        for (place, at) in (0_u32..).zip(sorted) {
            if let Some(slot) = order.get_mut(at as usize) {
                *slot = place;
            }
        }
        order
    }

    /// The same with hosts in place of their ranks and GPUs; an end whose host is not known stays.
    pub fn fold_to_hosts(&self) -> TrafficMatrix {
        let mut folded = TrafficMatrix::default();
        for (&(step, from, to, basis), sum) in &self.cells {
            let mut end = |at: EndpointId| {
                let host = self.hosts.get(at.0 as usize);
                let end = self.ends.get(at.0);
                match host.filter(|host| !host.is_empty()) {
                    Some(host) => folded.intern_endpoint(Endpoint::Host(host.clone()), host),
                    None => folded.intern_endpoint(end.clone(), &HostLabel::from_host(b"")),
                }
            };
            let ends = (end(from), end(to));
            folded.add_to_cell(step, ends, basis, *sum);
        }
        folded
    }

    /// Only what `keep` says of the basis.
    pub fn retain_bases(&mut self, keep: impl Fn(TrafficBasis) -> bool) {
        self.cells.retain(|(.., basis), _| keep(*basis));
    }

    /// What all cells of each basis come to.
    pub fn totals_by_basis(&self) -> Vec<(TrafficBasis, TrafficSum)> {
        let mut totals = Vec::new();
        for basis in TrafficBasis::ALL {
            let mut all = TrafficSum::default();
            let those = self.cells.iter().filter(|((.., of), _)| *of == basis);
            those.for_each(|(_, sum)| all.add_sum(*sum));
            if all.calls > 0 {
                totals.push((basis, all));
            }
        }
        totals
    }

    /// A row for each cell, made when it is written: there may be millions.
    pub fn sheet(&self, by_step: bool) -> Sheet<'_> {
        let entries = self.entries();
        let step = by_step.then_some("step");
        let columns = step
            .into_iter()
            .chain(["from", "to", "calls", "bytes", "basis"]);
        let starts = (0..entries.len()).step_by(MATRIX_ROWS_PER_BATCH);
        Sheet {
            columns: columns.map(str::to_owned).collect(),
            parts: starts
                .map(|from| from..entries.len().min(from + MATRIX_ROWS_PER_BATCH))
                .collect(),
            rows: Box::new(move |part, sink| {
                let entries = entries.get(part).unwrap_or_default();
                sink.group(&[], &[], &mut |out| {
                    for entry in entries {
                        let own = [
                            entry.step.into(),
                            entry.from.to_text().into(),
                            entry.to.to_text().into(),
                            entry.sum.calls.into(),
                            entry.sum.all_bytes().into(),
                            entry.basis.name().into(),
                        ];
                        out(if by_step { &own } else { &own[1..] });
                    }
                });
            }),
        }
    }
}

/// Rows that are made together.
const MATRIX_ROWS_PER_BATCH: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> HostLabel {
        HostLabel::from_host(name.as_bytes())
    }

    #[test]
    fn cells_come_in_one_order_and_add_up() {
        let mut matrix = TrafficMatrix::default();
        let unknown = matrix.intern_endpoint(Endpoint::Unknown, &host(""));
        let ranks: Vec<EndpointId> = [10, 2, 0]
            .into_iter()
            .map(|rank| matrix.intern_endpoint(Endpoint::Rank(rank), &host("a")))
            .collect();
        for (from, to) in [(0, 1), (1, 2), (0, 1)] {
            let ends = (ranks[from], ranks[to]);
            matrix.add_to_cell(
                None,
                ends,
                TrafficBasis::Sent,
                TrafficSum::from_calls(2, Some(10)),
            );
        }
        matrix.add_to_cell(
            Some(7),
            (unknown, ranks[1]),
            TrafficBasis::Ring,
            TrafficSum::from_calls(1, None),
        );
        matrix.add_to_cell(
            Some(7),
            (unknown, ranks[1]),
            TrafficBasis::Ring,
            TrafficSum::default(),
        );
        let rows: Vec<_> = matrix
            .entries()
            .iter()
            .map(|e| {
                (
                    e.step,
                    e.from.to_text(),
                    e.to.to_text(),
                    e.sum.calls,
                    e.sum.all_bytes(),
                )
            })
            .collect();
        let text = |text: &str| text.as_bytes().to_vec();
        assert_eq!(
            rows,
            [
                (Some(7), text(""), text("2"), 1, None),
                (None, text("2"), text("0"), 2, Some(10)),
                (None, text("10"), text("2"), 4, Some(20)),
            ]
        );
        let folded = matrix.fold_to_hosts();
        let totals: Vec<_> = folded.totals_by_basis();
        assert_eq!(totals, matrix.totals_by_basis());
        assert_eq!(folded.len(), 2);
    }
}
