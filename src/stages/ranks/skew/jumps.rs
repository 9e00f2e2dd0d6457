//! Clocks that jump while a job runs.
//!
//! No rank ends a call that keeps its ranks together before another one begins it, so that each such call with
//! durations permits few differences of two clocks. Single calls prove nothing (a kernel's duration begins after the
//! host's start), but where most calls before and most calls after a place permit no common difference, one of the clocks jumps
//! there, and no one difference aligns the calls on both sides.

use super::limits::{
    CALLS_BESIDE_JUMP, MIN_CALLS_THAT_DISPROVE, MIN_CONTRADICTION_NS,
    MIN_CONTRADICTION_TO_OVERLAP_RATIO,
};
use super::median::lower_median;
use super::window::SkewCall;
use std::collections::BTreeMap;
use std::ops::Range;

/// A place where one of two clocks jumps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClockJump {
    pub(super) first: u32,
    pub(super) other: u32,
    /// The calls in which it lies: those before are on one side, and those after on the other.
    pub(super) calls: Range<usize>,
}

/// The differences of two clocks that a call permits, ns.
#[derive(Debug, Clone, Copy)]
struct PermittedOffsets {
    call: usize,
    least: i64,
    most: i64,
}

/// When ranks with one clock began a call and ended it, ns.
#[derive(Debug, Clone, Copy)]
struct CallSpan {
    begin: i64,
    end: i64,
}

/// Finds the places where clocks jump in successive calls, in the order of these.
pub(super) fn find_clock_jumps(
    calls: &[SkewCall],
    keeps_together: impl Fn(&&SkewCall) -> bool,
    clock: impl Fn(u32) -> u32,
) -> Vec<ClockJump> {
    let mut pairs: BTreeMap<(u32, u32), Vec<PermittedOffsets>> = BTreeMap::new();
    for (at, call) in calls
        .iter()
        .enumerate()
        .filter(|(_, call)| keeps_together(call))
    {
        let mut spans: BTreeMap<u32, CallSpan> = BTreeMap::new();
        for came in &call.came {
            let Some(took) = came.dur_ns() else { continue };
            let (begin, end) = (came.ns, came.ns.saturating_add_unsigned(took));
            let span = spans
                .entry(clock(came.who))
                .or_insert(CallSpan { begin, end });
            (span.begin, span.end) = (span.begin.min(begin), span.end.max(end));
        }
        let Some((first, base)) = spans.pop_first() else {
            continue;
        };
        for (other, span) in spans {
            pairs
                .entry((first, other))
                .or_default()
                .push(PermittedOffsets {
                    call: at,
                    least: span.begin.saturating_sub(base.end),
                    most: span.end.saturating_sub(base.begin),
                });
        }
    }
    let pairs = pairs.into_iter();
    let jumps =
        pairs.flat_map(|((first, other), permitted)| find_jumps_of_pair(first, other, &permitted));
    let mut jumps: Vec<ClockJump> = jumps.collect();
    jumps.sort_by_key(|jump| (jump.calls.start, jump.first, jump.other));
    jumps
}

fn find_jumps_of_pair(first: u32, other: u32, permitted: &[PermittedOffsets]) -> Vec<ClockJump> {
    let mut jumps: Vec<ClockJump> = Vec::new();
    let least = MIN_CALLS_THAT_DISPROVE;
    for at in least..(permitted.len() + 1).saturating_sub(least) {
        let (before, after) = permitted.split_at(at);
        let before = median_offsets(&before[at.saturating_sub(CALLS_BESIDE_JUMP)..]);
        let after = median_offsets(&after[..after.len().min(CALLS_BESIDE_JUMP)]);
        let (Some(before), Some(after)) = (before, after) else {
            continue;
        };
        if before.most >= after.least && after.most >= before.least {
            continue;
        }
        let (last, next) = (permitted[at - 1].call, permitted[at].call);
        match jumps.last_mut() {
            // Places around the jump show it, too.
            Some(known) if known.calls.end >= last => known.calls.end = next,
            _ => jumps.push(ClockJump {
                first,
                other,
                calls: last + 1..next,
            }),
        }
    }
    jumps
}

/// Returns the medians of both bounds.
fn median_offsets(permitted: &[PermittedOffsets]) -> Option<PermittedOffsets> {
    let median = |bound: fn(&PermittedOffsets) -> i64| {
        lower_median(&mut permitted.iter().map(bound).collect::<Vec<_>>())
    };
    Some(PermittedOffsets {
        call: permitted.first()?.call,
        least: median(|of| of.least)?,
        most: median(|of| of.most)?,
    })
}

/// Returns which aligned calls fit their clocks. In the others some rank ended long before another one began. A host may
/// run ahead of its GPU, so that much more counts than calls usually overlap. Calls that do not show it, beside one that does
/// not fit, may lie beyond the same jump.
pub(super) fn find_calls_that_fit(
    calls: &[SkewCall],
    keeps_together: impl Fn(&&SkewCall) -> bool,
) -> Vec<bool> {
    let overlap = |call: &SkewCall| Some(call).filter(&keeps_together)?.overlap_ns();
    let overlaps: Vec<Option<i64>> = calls.iter().map(overlap).collect();
    let known = overlaps.iter().flatten().map(|ns| ns.saturating_abs());
    let usual = lower_median(&mut known.collect::<Vec<_>>()).unwrap_or(0);
    let least = usual
        .saturating_mul(MIN_CONTRADICTION_TO_OVERLAP_RATIO)
        .max(MIN_CONTRADICTION_NS);
    let mut fit = vec![true; calls.len()];
    let (mut forth, mut back) = (true, true);
    for at in 0..calls.len() {
        forth = overlaps[at].map_or(forth, |ns| ns > -least);
        fit[at] &= forth;
        let at = calls.len() - 1 - at;
        back = overlaps[at].map_or(back, |ns| ns > -least);
        fit[at] &= back;
    }
    fit
}
