//! Collects the facts of a log for [`expect`](super::expect) and [`coverage`](super::coverage).

use super::coverage::{LineKinds, StampCoverage};
use super::expect::LogFacts;
use crate::count::spread::ValueSpread;
use crate::count::values::ValueCounts;
use crate::log::timeline::TrainStep;
use crate::stages::check::finding::{Finding, Kind, Severity};
use crate::stages::check::log::old_steps::OldSteps;
use crate::stages::check::streams::compare::StreamComparison;
use crate::stages::check::streams::unjudged_reason::UnjudgedReason;
use crate::stages::check::walk::CheckGathered;
use crate::stages::check::wording::number_and_noun;

/// Collects the facts of a log.
pub(crate) fn collect_facts(
    seen: &CheckGathered,
    compared: &StreamComparison,
    findings: &[Finding],
) -> LogFacts {
    let mut facts = LogFacts::default();
    facts.add_net(&seen.net);
    facts.add_communicators(&seen.found);
    let is_mismatch = |f: &&Finding| {
        f.kind.is_mismatch() && f.about.seq.is_some()
            || matches!(f.kind, Kind::P2pMissingCounterpart | Kind::P2pWrongPeer)
    };
    let mismatch = findings.iter().filter(is_mismatch).count() as u64;
    // Communicators that could not be compared may hide some; the calls that all members made before a
    // log ends were.
    let open = || {
        compared
            .unjudged
            .iter()
            .filter(|(why, _)| **why != UnjudgedReason::Running)
    };
    let running = compared.unjudged.contains_key(&UnjudgedReason::Running);
    let all = open().next().is_none() && (running || compared.same + mismatch > 0);
    let each = open().map(|(why, those)| {
        let many = number_and_noun(those.len() as u64, "communicator");
        format!(
            "the calls of {many} were not compared: {}",
            why.describe_reason()
        )
    });
    let each = each.collect::<Vec<_>>().join("; ");
    facts.unjudged = Some(each).filter(|each| !each.is_empty());
    facts.mismatch = (all || mismatch > 0).then_some(mismatch);
    let is_warn = |f: &&Finding| f.kind.is_warn() && f.severity != Severity::Note;
    let lines = seen.accounts.iter().any(|account| {
        account.other + account.truncated + account.repaired + account.call_lines > 0
    });
    facts.warn = lines.then(|| findings.iter().filter(is_warn).count() as u64);
    facts.step_time = spread_with_old_steps(seen, |step| step.time_s, |old| &old.times);
    facts.tflops = spread_with_old_steps(seen, |step| step.tflops, |old| &old.tflops);
    facts
}

/// How a value of all steps is spread, with those of steps that are not looked at any more.
fn spread_with_old_steps(
    seen: &CheckGathered,
    value: fn(&TrainStep) -> Option<f64>,
    old: fn(&OldSteps) -> &ValueCounts,
) -> Option<ValueSpread> {
    let mut all = ValueCounts::default();
    for input in &seen.inputs {
        all.merge(old(&input.old));
        let steps = input.timeline.steps.iter();
        steps
            .filter_map(value)
            .for_each(|value| all.add_value(value));
    }
    ValueSpread::from_counts(&mut all)
}

/// What kinds of lines the log has.
pub(crate) fn collect_line_kinds(seen: &CheckGathered) -> LineKinds {
    let mut known = LineKinds::default();
    known.add_net(&seen.net);
    known.add_communicators(&seen.found);
    let lines = seen.lines;
    known.kernels = lines.kernels;
    known.warns = lines.warns;
    known.steps = seen.inputs.iter().any(|i| !i.timeline.steps.is_empty());
    known.step_times = has_step_times(seen);
    known.stamps = match lines {
        _ if lines.stamped && !lines.bare => StampCoverage::All,
        _ if lines.stamped_warns => StampCoverage::Warn,
        _ if lines.bare => StampCoverage::None,
        _ => StampCoverage::Unknown,
    };
    known
}

fn has_step_times(seen: &CheckGathered) -> bool {
    let is_timed = |step: &TrainStep| step.time_s.is_some();
    seen.inputs
        .iter()
        .any(|input| !input.old.times.is_empty() || input.timeline.steps.iter().any(is_timed))
}
