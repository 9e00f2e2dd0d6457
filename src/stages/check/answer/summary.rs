//! What a log says in all, for [`expect`](super::expect) and [`coverage`](super::coverage).

use super::coverage::{Known, Stamps};
use super::expect::Facts;
use crate::count::spread::Spread;
use crate::count::values::Values;
use crate::log::timeline::Step;
use crate::stages::check::finding::{Finding, Severity};
use crate::stages::check::log::old_steps::OldSteps;
use crate::stages::check::streams::compare::Compared;
use crate::stages::check::streams::why::Why;
use crate::stages::check::walk::Seen;
use crate::stages::check::wording::counted;

/// What the log says, as far as it says it.
pub(crate) fn facts(seen: &Seen, compared: &Compared, findings: &[Finding]) -> Facts {
    let mut facts = Facts::default();
    facts.add_net(&seen.net);
    facts.add_found(&seen.found);
    let is_mismatch = |f: &&Finding| {
        f.id.ends_with("_mismatch") && f.about.seq.is_some()
            || matches!(f.id, "p2p_missing_counterpart" | "p2p_wrong_peer")
    };
    let mismatch = findings.iter().filter(is_mismatch).count() as u64;
    // Communicators that could not be compared may hide some; the calls that all members made before a
    // log ends were.
    let open = || {
        compared
            .unjudged
            .iter()
            .filter(|(why, _)| **why != Why::Running)
    };
    let running = compared.unjudged.contains_key(&Why::Running);
    let all = open().next().is_none() && (running || compared.same + mismatch > 0);
    let each = open().map(|(why, those)| {
        let many = counted(those.len() as u64, "communicator");
        format!("the calls of {many} were not compared: {}", why.text())
    });
    let each = each.collect::<Vec<_>>().join("; ");
    facts.unjudged = Some(each).filter(|each| !each.is_empty());
    facts.mismatch = (all || mismatch > 0).then_some(mismatch);
    let is_warn = |f: &&Finding| f.id.starts_with("warn_") && f.severity != Severity::Note;
    let lines = seen.accounts.iter().any(|account| {
        account.other + account.truncated + account.repaired + account.call_lines > 0
    });
    facts.warn = lines.then(|| findings.iter().filter(is_warn).count() as u64);
    facts.step_time = spread(seen, |step| step.time_s, |old| &old.times);
    facts.tflops = spread(seen, |step| step.tflops, |old| &old.tflops);
    facts
}

/// How a value of all steps is spread, with those of steps that are not looked at any more.
fn spread(
    seen: &Seen,
    value: fn(&Step) -> Option<f64>,
    old: fn(&OldSteps) -> &Values,
) -> Option<Spread> {
    let mut all = Values::default();
    for input in &seen.inputs {
        all.merge(old(&input.old));
        let steps = input.timeline.steps.iter();
        steps.filter_map(value).for_each(|value| all.add(value));
    }
    Spread::of_all(&mut all)
}

/// What kinds of lines the log has.
pub(crate) fn known(seen: &Seen) -> Known {
    let mut known = Known::default();
    known.add_net(&seen.net);
    known.add_found(&seen.found);
    let lines = seen.lines;
    known.kernels = lines.kernels;
    known.warns = lines.warns;
    known.steps = seen.inputs.iter().any(|i| !i.timeline.steps.is_empty());
    known.step_times = facts_of_times(seen);
    known.stamps = match lines {
        _ if lines.stamped && !lines.bare => Stamps::All,
        _ if lines.stamped_warns => Stamps::Warn,
        _ if lines.bare => Stamps::None,
        _ => Stamps::Unknown,
    };
    known
}

fn facts_of_times(seen: &Seen) -> bool {
    let is_timed = |step: &Step| step.time_s.is_some();
    seen.inputs
        .iter()
        .any(|input| !input.old.times.is_empty() || input.timeline.steps.iter().any(is_timed))
}
