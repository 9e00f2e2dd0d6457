//! The matrix: calls and bytes between each two ends, and their sources.

use super::endpoints::{Endpoint, HostLabel};
use crate::members::Interner;
use crate::output::render::Sheet;
use crate::stages::matrix::limits::MATRIX_ROWS_PER_BATCH;
use rustc_hash::FxHashMap;

/// The source of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrafficBasis {
    /// The sender's own record of a message.
    Sent,
    /// The receiver's record of a message, if the inputs lack the sender.
    Received,
    /// A recorded copy from one memory to another.
    Copied,
    /// Recorded loads and stores of a GPU in another's memory.
    Accessed,
    /// Derived from the definition of an AlltoAll, a Gather or a Scatter.
    Pairs,
    /// Modelled: a collective's traffic over the rings of its communicator.
    Ring,
    /// Modelled: a collective's traffic over the trees of its communicator.
    Tree,
}

impl TrafficBasis {
    /// All sources, in order.
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

    /// True if an input has a record of it.
    pub fn is_recorded(self) -> bool {
        matches!(
            self,
            TrafficBasis::Sent
                | TrafficBasis::Received
                | TrafficBasis::Copied
                | TrafficBasis::Accessed
        )
    }

    /// True if it is neither recorded nor defined.
    pub fn is_model(self) -> bool {
        matches!(self, TrafficBasis::Ring | TrafficBasis::Tree)
    }
}

/// The number of an end in a [`TrafficMatrix`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(u32);

/// Numbers of calls and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrafficSum {
    /// Calls, copies or accesses.
    pub calls: u64,
    /// The known bytes.
    pub bytes: u128,
    /// Calls among these without known bytes.
    pub unknown: u64,
}

impl TrafficSum {
    /// Returns the sum of calls with these bytes together, if they are known.
    pub fn from_calls(calls: u64, bytes: Option<u128>) -> TrafficSum {
        TrafficSum {
            calls,
            bytes: bytes.unwrap_or(0),
            unknown: if bytes.is_none() { calls } else { 0 },
        }
    }

    /// Adds another sum.
    pub fn add_sum(&mut self, other: TrafficSum) {
        self.calls = self.calls.saturating_add(other.calls);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.unknown = self.unknown.saturating_add(other.unknown);
    }

    /// The bytes, if all are known.
    pub fn all_bytes(&self) -> Option<u128> {
        (self.unknown == 0).then_some(self.bytes)
    }
}

/// The unit of a cell's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TrafficUnit {
    /// Bytes.
    #[default]
    Bytes,
    /// Calls, copies or accesses.
    Calls,
}

impl TrafficUnit {
    /// Returns the value of a sum.
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

/// A cell's key: step, from, to and source.
type MatrixCellKey = (Option<u64>, EndpointId, EndpointId, TrafficBasis);

/// The traffic between ends.
#[derive(Debug, Default)]
pub struct TrafficMatrix {
    ends: Interner<Endpoint>,
    /// The host of each end; empty if unknown.
    hosts: Vec<HostLabel>,
    cells: FxHashMap<MatrixCellKey, TrafficSum>,
}

/// A cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixCell<'m> {
    /// The step, if rows are by step and it is known.
    pub step: Option<u64>,
    /// The sender.
    pub from: &'m Endpoint,
    /// The receiver.
    pub to: &'m Endpoint,
    /// Its source.
    pub basis: TrafficBasis,
    /// Its calls and bytes.
    pub sum: TrafficSum,
}

impl TrafficMatrix {
    /// Returns the number of an end; `host` is empty if unknown.
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
        from: EndpointId,
        to: EndpointId,
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

    /// True if it has no cells.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The number of cells.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns the cells by step (unknown steps last), sender, receiver and source.
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

    /// The position of each end in sorted order.
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

    /// Returns the matrix with hosts in place of their ranks and GPUs; ends without a known host stay.
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
            let (from, to) = (end(from), end(to));
            folded.add_to_cell(step, from, to, basis, *sum);
        }
        folded
    }

    /// Keeps the cells with sources that `keep` accepts.
    pub fn retain_bases(&mut self, keep: impl Fn(TrafficBasis) -> bool) {
        self.cells.retain(|(.., basis), _| keep(*basis));
    }

    /// Returns the sum of each source's cells.
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

    /// Returns a row for each cell, made when it is written: there may be millions.
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
            matrix.add_to_cell(
                None,
                ranks[from],
                ranks[to],
                TrafficBasis::Sent,
                TrafficSum::from_calls(2, Some(10)),
            );
        }
        matrix.add_to_cell(
            Some(7),
            unknown,
            ranks[1],
            TrafficBasis::Ring,
            TrafficSum::from_calls(1, None),
        );
        matrix.add_to_cell(
            Some(7),
            unknown,
            ranks[1],
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
