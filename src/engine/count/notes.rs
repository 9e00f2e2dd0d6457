//! Notes for readers of step numbers.

use crate::log::timeline::{self, StepTimeSource, StepTimeline};
use crate::report::{Report, count_phrase};

/// Reports under `-v` the decision on which the steps rest.
pub fn report_decision(name: &str, timeline: &StepTimeline, report: &Report) {
    report.remember_redecided(&timeline.redecided);
    if let Some(decision) = timeline.decision() {
        report.explain(&format!("{name}: {decision}"));
    }
}

/// Reports where step times and step numbers are not what the step lines print.
pub fn report_time_notes(name: &str, timeline: &StepTimeline, report: &Report) {
    let note = |says: &str| report.note_of_input(name, says);
    match timeline.counted {
        timeline::LineNumberUnit::Steps => {}
        timeline::LineNumberUnit::Epochs(steps) => note(&format!(
            "the step lines count epochs of {steps} steps: a step here is an epoch, and its time is the \
             epoch's"
        )),
        timeline::LineNumberUnit::ByStep(each) => note(&format!(
            "the step lines count samples or tokens, {each} per step: a step is that number \
             divided by {each}"
        )),
        timeline::LineNumberUnit::Samples => note(
            "the step lines count samples, and the log reports no batch size: step numbers are \
             samples, and step times are unknown",
        ),
    }
    match timeline.times {
        StepTimeSource::Printed => {}
        StepTimeSource::Stamps => note(
            "these step lines print no step time: it is computed from the lines' time stamps and \
             step numbers",
        ),
        StepTimeSource::Seconds => note(
            "these step lines print no step time, and their time stamps have whole seconds: it is \
             the mean over the steps of the last five seconds or more, and unknown before",
        ),
        StepTimeSource::Throughput => note(
            "these step lines print no step time: it is the log's batch size divided by the \
             samples per second on the line",
        ),
        StepTimeSource::Smoothed => note(
            "these step lines print no step time: it is computed from the rate on the line, a \
             moving average over the last steps",
        ),
        StepTimeSource::Clock => note(
            "these step lines print no step time: it is computed from the elapsed time on the \
             lines, over enough steps that the clock's whole seconds suffice",
        ),
    }
}

/// Reports what a reader of step numbers must know.
pub fn report_step_notes(name: &str, timeline: &StepTimeline, report: &Report) {
    report_decision(name, timeline, report);
    if let Some(falls) = timeline.bursts {
        report.note(&format!(
            "{name}: progress bars begin again {falls} times while the log goes on between them: \
             they are not used as training steps (--trainer hf uses them)"
        ));
    }
    let interval = timeline.line_interval();
    if interval > 1 {
        report.note(&format!(
            "{name}: a step line appears every {interval} steps: the values of a step are sums \
             over the steps since the previous line"
        ));
    }
    let falls = timeline.steps.last().map_or(0, |s| s.segment);
    if falls > 0 {
        report.note(&format!(
            "{name}: the steps begin again {} (a restart or a new epoch): a step number selects \
             that step of each of the {} segments",
            count_phrase(falls.into(), "time"),
            falls + 1
        ));
    }
}
