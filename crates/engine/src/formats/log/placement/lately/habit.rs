//! A step that is like the steps before.
//!
//! Ranks run ahead of the line: where the last line stands, a rank may have made the first calls of the next
//! step, and which these are shows only later. Most steps are the same calls again, though. Where each rank
//! made the same calls in the last two steps, and has made them again since, its step is over there.

use super::settled::{AllCuts, Steps, ends};
use crate::formats::log::timeline::Timeline;

/// Where the last step is over.
pub(super) struct Again {
    /// Its last gap, and that of the step before.
    pub(super) gap: u32,
    before: u32,
    /// By process: the number of its calls up to there.
    calls: Vec<(usize, u32)>,
}

/// Where the last step with a line is over, if it is like the two before it, and all before it is settled;
/// the rank that prints has made no call more.
pub(super) fn again(steps: &Steps<'_>, timeline: &Timeline, settled: Option<u32>) -> Option<Again> {
    let [first, before, gap] = ends(timeline, u32::MAX, 3).try_into().ok()?;
    let of = |gap: u32| timeline.gaps.get(gap as usize);
    // Nothing but the step is between the two lines.
    if settled != Some(before) || of(before + 1) != of(gap) {
        return None;
    }
    let mut calls = Vec::new();
    for (process, all) in steps.known() {
        let until = |gap| steps.calls(process, None, gap).len();
        let (first, second) = (until(first), until(before));
        let (own, rest) = (all.get(first..second)?, all.get(second..)?);
        let is_printer = calls.is_empty();
        let end = second + own.len();
        let is_again = all[..first].ends_with(own) && rest.starts_with(own);
        if !is_again || is_printer && until(gap) != end {
            return None;
        }
        calls.push((process, u32::try_from(end).ok()?));
    }
    let any = calls
        .iter()
        .any(|(process, _)| !steps.calls(*process, None, before).is_empty());
    any.then_some(Again { gap, before, calls })
}

impl Again {
    /// Cuts the calls there.
    pub(super) fn cut(&self, cuts: &mut AllCuts) {
        for &(process, until) in &self.calls {
            let Some(cuts) = cuts.get_mut(process) else {
                continue;
            };
            let (later, all) = cuts.last().copied().unwrap_or_default();
            cuts.truncate(cuts.partition_point(|&(gap, _)| gap <= self.before));
            cuts.push((self.gap, until));
            if all > until {
                cuts.push((later.max(self.gap + 1), all));
            }
        }
    }
}
