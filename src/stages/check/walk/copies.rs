//! Inputs that have calls of other inputs: a stream with calls twice differs from each that has them once.

use super::CheckGathered;
use crate::members::duplicate_inputs::LikelyCopy;
use std::collections::{BTreeMap, BTreeSet};

/// An input with calls that another one has, too.
pub(crate) struct DoubledInput<'g> {
    pub(crate) name: &'g str,
    /// The number of the input.
    pub(crate) input: u32,
    /// The name of the other.
    pub(crate) of: &'g str,
}

impl CheckGathered {
    /// The names of the inputs that are parts of others, so that they add nothing.
    pub(crate) fn find_copies(&self) -> BTreeSet<String> {
        let mut parts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for LikelyCopy { copy, whole } in &self.copies {
            parts.entry(whole).or_default().push(copy);
        }
        let mut copies = BTreeSet::new();
        for (whole, mut those) in parts {
            those.retain(|copy| self.is_part(copy, whole));
            if !copies.contains(whole) && self.has_lines_of(whole, &those) {
                copies.extend(those.into_iter().map(str::to_owned));
            }
        }
        copies
    }

    /// True if an input may have the lines of all its parts: those with calls of no common stream, as the files of
    /// ranks are, have no more lines than it. A failure may be in a line after the last call.
    fn has_lines_of(&self, whole: &str, parts: &[&str]) -> bool {
        let (mut seen, mut lines) = (BTreeSet::new(), 0);
        for part in parts.iter().filter_map(|part| self.find_last(part)) {
            let streams = || self.inputs[part].calls.iter().map(|(stream, _)| *stream);
            if !streams().any(|stream| seen.contains(&stream)) {
                seen.extend(streams());
                lines += self.accounts[part].lines;
            }
        }
        self.find_first(whole)
            .is_some_and(|whole| lines <= self.accounts[whole].lines)
    }

    /// Of two inputs of one name the last is the copy.
    fn find_last(&self, name: &str) -> Option<usize> {
        self.inputs.iter().rposition(|input| input.name == name)
    }

    fn find_first(&self, name: &str) -> Option<usize> {
        self.inputs.iter().position(|input| input.name == name)
    }

    /// True if an input, which begins with another one's calls of each process, has no more calls of any of them, and no
    /// more lines.
    fn is_part(&self, copy: &str, whole: &str) -> bool {
        let (Some(copy), Some(whole)) = (self.find_last(copy), self.find_first(whole)) else {
            return false;
        };
        let has_all = |&(stream, calls): &(u32, u64)| {
            let known = &self.inputs[whole].calls;
            let at = known.binary_search_by_key(&stream, |(stream, _)| *stream);
            at.is_ok_and(|at| known[at].1 >= calls)
        };
        let lines = |input: usize| self.accounts[input].lines;
        copy != whole && lines(copy) <= lines(whole) && self.inputs[copy].calls.iter().all(has_all)
    }

    /// The first input that has calls of another one, but is no part of it: what its ranks did is unknown.
    pub(crate) fn find_doubled_input(&self) -> Option<DoubledInput<'_>> {
        let mut all = self.inputs.iter().zip(&self.accounts).zip(0..);
        all.find_map(|((input, account), number)| {
            Some(DoubledInput {
                name: &input.name,
                input: number,
                of: &account.again.as_ref()?.of,
            })
        })
    }
}
