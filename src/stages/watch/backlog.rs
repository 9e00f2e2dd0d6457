//! Steps of logs that were there before the watch began.
//!
//! Such logs are read one after another, so the calls since the step line before are those of the one log
//! that has the lines. Once all are read, the count of nccl-ops gives each step the calls of all ranks.

use super::calls::{CallsByOp, OpCallTotals};
use super::{JobWatch, WatchEvent};
use crate::count::calls::{self, Options as Read};
use crate::count::tally::{self, SizeKey};
use crate::grammar::values::ByteBasis;
use crate::log::timeline::StepKey;
use crate::report::Report;
use crate::report::progress::ByteProgressBar;
use crate::source::InputName;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Events that wait until all logs are read to their ends.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    events: Vec<WatchEvent>,
}

impl Backlog {
    pub(super) fn hold_events(&mut self, events: Vec<WatchEvent>) {
        self.events.extend(events);
    }

    /// The held events, each step with the calls of all ranks. If `paths` cannot be counted, steps keep the
    /// calls since the step line before.
    pub(super) fn into_recounted(
        mut self,
        watch: &mut JobWatch<'_>,
        paths: Vec<PathBuf>,
        read: &Read,
    ) -> Vec<WatchEvent> {
        let has_steps = |event: &WatchEvent| matches!(event, WatchEvent::Step(_));
        if !self.events.iter().any(has_steps) {
            return self.events;
        }
        if let Some(mut counted) = count_calls_by_step(paths, read) {
            for event in &mut self.events {
                if let WatchEvent::Step(ended) = event {
                    ended.calls = counted.remove(&ended.step.key()).unwrap_or_default();
                }
            }
            watch.restart_step_count();
        }
        self.events
    }
}

/// The calls of each step in the logs; `None` if they cannot be read or have no steps.
fn count_calls_by_step(paths: Vec<PathBuf>, read: &Read) -> Option<BTreeMap<StepKey, CallsByOp>> {
    let origins: Vec<InputName> = paths.into_iter().map(InputName::Path).collect();
    let tally = tally::Options {
        sizing: SizeKey::Count,
        basis: ByteBasis::Api,
        members: false,
        datatypes: true,
        steps: true,
        exact: false,
        durations: false,
        served: false,
    };
    let mut read = read.clone();
    // Logs that are being written may end in the middle of a line.
    read.log.strict = false;
    let mut report = Report::new("nccl-watch", false, true).silenced();
    let progress = ByteProgressBar::default();
    let counted = calls::count_calls(&origins, &read, &tally, &mut report, &progress).ok()?;
    let mut steps: BTreeMap<StepKey, CallsByOp> = BTreeMap::new();
    for ((step, key), volume) in counted.cells.list_counts() {
        let Some(step) = step else { continue };
        let (_, bytes) = key.elements_and_bytes();
        let made = OpCallTotals::of_equal_calls(volume.calls, bytes);
        let own = steps.entry(step).or_default();
        own.add_totals(counted.ops.name_of_op(key.op), made);
    }
    counted.has_steps.then_some(steps)
}
