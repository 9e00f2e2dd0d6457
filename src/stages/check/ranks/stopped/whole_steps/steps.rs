//! Whether what one side of a job lacks is whole steps.

use super::{JobSides, WholeStepSearch};
use crate::stages::check::ranks::limits::MIN_CALLS_OF_STEP;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

impl<F: Fn(u32) -> Option<(Option<u32>, u32)>> WholeStepSearch<'_, F> {
    /// True if the calls that one side lacks are whole steps, as far as a communicator's calls
    /// show: they end with the call before them, and such a call was followed by the same calls
    /// before.
    pub(super) fn lacks_whole_steps(&self, sides: &JobSides) -> bool {
        let one = |at: &u32| {
            let members = self.begins[*at as usize].iter().map(|(member, _)| *member);
            members.filter(|member| sides.ahead.contains(member)).min()
        };
        let those = sides.apart.keys();
        let one: FxHashMap<u32, u32> = those.filter_map(|at| Some((*at, one(at)?))).collect();
        let mut marks: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (at, member, call) in self.iter_side_calls(sides) {
            if let Some(at) = at.filter(|at| one.get(at) == Some(&member)) {
                marks.entry(at).or_default().push(call.mark);
            }
        }
        let mut is_told = false;
        for (at, (least, most)) in &sides.apart {
            let marks = marks.get(at).map_or(&[][..], |marks| marks);
            match usize::try_from(most - least).map(|more| are_whole_steps(marks, more)) {
                Ok(Some(true)) => is_told = true,
                Ok(None) => {}
                _ => return false,
            }
        }
        is_told
    }
}

/// Returns whether the last `n` calls of a member are whole steps; `None` if calls repeat too soon
/// to decide.
pub(super) fn are_whole_steps(marks: &[u64], more: usize) -> Option<bool> {
    let from = marks.len().checked_sub(more).filter(|&from| from > 0);
    let Some(from) = from else { return Some(false) };
    let (before, extra) = marks.split_at(from);
    let is_end = before.last() == extra.last();
    let again = |at: usize| before[at - 1] == before[from - 1] && before[at..].starts_with(extra);
    if !is_end || !(1..=from.saturating_sub(more)).any(again) {
        return Some(false);
    }
    let sooner = |by: usize| extra.iter().zip(&extra[by..]).all(|(a, b)| a == b);
    (!(1..MIN_CALLS_OF_STEP.min(more + 1)).any(sooner)).then_some(true)
}
