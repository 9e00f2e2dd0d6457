//! The work of a host, one item after the other.

use crate::job::schedule::ProgramStretch;
use crate::options::Options;
use crate::trainer::events;

/// A stretch of a host's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScriptItem {
    /// Which program.
    pub(super) stretch: ProgramStretch,
    /// The step it is, or that it follows.
    pub(super) step: u64,
    /// Of an evaluation, from 1.
    pub(super) batch: u64,
    /// Its calls are made.
    pub(super) calls: bool,
    /// The value it leads to is read at its end, and printed or not.
    pub(super) reads: bool,
}

/// The items from one step to the last.
pub(super) fn build_script(options: &Options, from: u64) -> Vec<ScriptItem> {
    let last = options.first_step() + options.steps - 1;
    let mut items = Vec::new();
    let mut add = |stretch, step, batch, calls, reads| {
        items.push(ScriptItem {
            stretch,
            step,
            batch,
            calls,
            reads,
        });
    };
    for step in from..=last {
        add(ProgramStretch::Train, step, 0, true, false);
        let finished = step + 1 - options.trainer.first_number();
        let every = options.eval_every.filter(|_| step < last);
        if every.is_some_and(|every| finished.is_multiple_of(every)) {
            for batch in 1..=events::EVAL_BATCHES {
                let reads = batch == events::EVAL_BATCHES;
                add(ProgramStretch::Eval, step, batch, true, reads);
            }
            let calls = !events::save_lines(options, step).1.is_empty();
            add(ProgramStretch::Checkpoint, step, 0, calls, calls);
        }
    }
    if options.tail_calls {
        add(ProgramStretch::Tail, last, 0, true, true);
    }
    items
}
