//! Processes that print in the same inputs.

use std::collections::BTreeMap;

/// The processes of each input, joined.
#[derive(Debug, Clone, Default)]
pub(super) struct InputProcesses {
    /// Processes by number; those of an input are in one set.
    pub(super) sets: DisjointSets,
    /// A process of each input, as [`super::DuplicateInputs`] numbers the inputs.
    pub(super) of_input: BTreeMap<usize, u32>,
}

impl InputProcesses {
    /// Notes that a process prints in an input.
    pub(super) fn add_process(&mut self, process: u32, input: usize) {
        let first = *self.of_input.entry(input).or_insert(process);
        self.sets.grow_to(process as usize + 1);
        self.sets.join_sets(first as usize, process as usize);
    }
}

/// Disjoint sets that can be joined.
#[derive(Debug, Clone, Default)]
pub struct DisjointSets(Vec<usize>);

impl DisjointSets {
    /// Makes `n` sets of one.
    pub fn new(n: usize) -> DisjointSets {
        DisjointSets((0..n).collect())
    }

    /// Returns the root of the set of `at`.
    pub fn find_root(&mut self, at: usize) -> usize {
        let mut root = at;
        while self.0[root] != root {
            self.0[root] = self.0[self.0[root]];
            root = self.0[root];
        }
        root
    }

    /// Makes sets of one of all numbers up to `n` that are in none.
    pub fn grow_to(&mut self, n: usize) {
        self.0.extend(self.0.len()..n);
    }

    /// Joins two sets; the lower root remains.
    pub fn join_sets(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find_root(a), self.find_root(b));
        self.0[a.max(b)] = a.min(b);
    }
}
