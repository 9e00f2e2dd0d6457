//! Inputs that have calls of other inputs: a stream with calls twice differs from each that has them once.

use super::CheckGathered;
use crate::members::duplicate_inputs::LikelyCopy;
use std::collections::BTreeSet;

/// An input with calls that another one has, too.
pub(crate) struct DoubledInput<'g> {
    pub(crate) name: &'g str,
    /// The number of the input.
    pub(crate) input: u32,
    /// The name of the other.
    pub(crate) of: &'g str,
}

impl CheckGathered {
    /// The names of the inputs that are copies of others. A part of another input may have lines of its own that report
    /// a failure: it stays.
    pub(crate) fn find_copies(&self) -> BTreeSet<String> {
        let mut copies = BTreeSet::new();
        for LikelyCopy { copy, whole } in &self.copies {
            if !copies.contains(whole) && self.is_copy(copy, whole) {
                copies.insert(copy.clone());
            }
        }
        copies
    }

    /// True if an input, which begins with another one's calls of each process, has as many of all of them, and as many
    /// lines of each kind. Of two inputs of one name the last is the copy.
    fn is_copy(&self, copy: &str, whole: &str) -> bool {
        let copy = self.inputs.iter().rposition(|input| input.name == copy);
        let whole = self.inputs.iter().position(|input| input.name == whole);
        let (Some(copy), Some(whole)) = (copy, whole) else {
            return false;
        };
        let [one, other] = [copy, whole].map(|input| &self.accounts[input]);
        copy != whole
            && self.inputs[copy].calls == self.inputs[whole].calls
            && (one.lines, one.foreign, one.calls) == (other.lines, other.foreign, other.calls)
    }

    /// The first input that has calls of another one, but is no copy of it: what its ranks did is unknown.
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
