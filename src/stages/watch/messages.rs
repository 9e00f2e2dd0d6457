//! Reports on a watched job, as lines of text.

use super::{CallsByOp, OpCallTotals, StepEvent, WatchEvent};
use crate::error::phrases::count_phrase;
use crate::output::render::units::short_bytes;
use crate::report::escape_for_terminal;
use std::fmt::Write;
use std::time::Duration;

/// An event as a line.
pub fn format_event(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Step(ended) => format_step(ended),
        WatchEvent::Warned(text, means) => {
            let text = escape_for_terminal(&String::from_utf8_lossy(text), false);
            match means {
                Some(means) => format!("WARN {text} ({means})"),
                None => format!("WARN {text}"),
            }
        }
        WatchEvent::Moves(rested) => {
            format!("the job moves again after {}", format_duration(*rested))
        }
        WatchEvent::Dropped(bytes) => format!("{bytes} bytes of lines over 16 MiB were not read"),
        WatchEvent::SeveralJobs(says) => format!("note: {says}"),
        WatchEvent::StepsChanged => STEPS_CHANGED_TEXT.to_owned(),
    }
}

/// `step 12  0.412 s  153.2 TFLOP/s  96 calls  1.2 GB  AllGather 48, ReduceScatter 48`
fn format_step(ended: &StepEvent) -> String {
    let StepEvent {
        step,
        calls,
        left_out,
        is_open,
    } = ended;
    let mut line = format!("step {}", step.step);
    if let Some(seconds) = step.time_s {
        let _ = write!(line, "  {seconds} s");
    }
    if let Some(tflops) = step.tflops {
        let _ = write!(line, "  {tflops} TFLOP/s");
    }
    let all = calls.total();
    let made = match left_out {
        0 => count_phrase(all.calls, "call"),
        n => format!("{} of {}", all.calls, count_phrase(all.calls + n, "call")),
    };
    let so_far = if *is_open { " so far" } else { "" };
    let _ = write!(line, "  {made}{so_far}  {}", format_bytes(all));
    let each = calls.each_op().map(|(op, made)| {
        let op = escape_for_terminal(&String::from_utf8_lossy(op), false);
        format!("{op} {}", made.calls)
    });
    let each: Vec<String> = each.collect();
    if !each.is_empty() {
        let _ = write!(line, "  {}", each.join(", "));
    }
    line
}

/// Bytes with three digits, in units of 1024 as on the other pages.
pub(super) fn format_bytes(made: OpCallTotals) -> String {
    let known = short_bytes(made.bytes as f64);
    match made.unsized_calls {
        0 => known,
        n => format!("{known} and {} of unknown size", count_phrase(n, "call")),
    }
}

/// `45 s`, `12 min`, `3.5 h`.
pub fn format_duration(rested: Duration) -> String {
    match rested.as_secs_f64() {
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// The report when nothing moves any more.
pub fn format_stall(rested: Duration, step: Option<u64>, calls: &CallsByOp) -> String {
    let since = match step {
        Some(step) => format!(" since step {step}"),
        None => String::new(),
    };
    format!(
        "stall: no call and no step line for {}{since}, after {}",
        format_duration(rested),
        count_phrase(calls.total().calls, "call"),
    )
}

/// The report on a stall in which no rank differs from the others.
pub const EQUAL_CALLS_TEXT: &str = "next: if the job still runs, take a stack of each process (py-spy dump --pid PID): all ranks have \
                         made the same calls, and the log does not show which one stopped";

/// The report where later lines belong to steps that were reported.
const STEPS_CHANGED_TEXT: &str =
    "later lines changed the calls of steps above; their final calls: nccl-ops --by step FILE";

/// The report when a pipe ends.
pub fn format_end(step: Option<u64>, calls: &CallsByOp) -> String {
    let after = match step {
        Some(step) => format!("step {step} and "),
        None => String::new(),
    };
    format!(
        "the input ended after {after}{}",
        count_phrase(calls.total().calls, "call")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_calls_without_a_size_are_unknown() {
        let one = OpCallTotals {
            calls: 3,
            bytes: 5,
            unsized_calls: 1,
        };
        assert_eq!(format_bytes(one), "5 B and 1 call of unknown size");
    }

    #[test]
    fn durations_read_well() {
        let of = |s: f64| format_duration(Duration::from_secs_f64(s));
        assert_eq!(
            [1.25, 10.0, 119.0, 130.0, 7300.0].map(of),
            ["1.2 s", "10 s", "119 s", "2 min", "2.0 h"].map(str::to_owned)
        );
    }
}
