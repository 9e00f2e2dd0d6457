//! What a host does, one item behind the other.

use crate::job::schedule::Stretch;
use crate::options::Options;
use crate::trainer::events;

/// A stretch of a host's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item {
    /// Which program.
    pub(super) stretch: Stretch,
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
pub(super) fn script(options: &Options, from: u64) -> Vec<Item> {
    let last = options.first() + options.steps - 1;
    let mut items = Vec::new();
    let mut add = |stretch, step, batch, calls, reads| {
        items.push(Item {
            stretch,
            step,
            batch,
            calls,
            reads,
        });
    };
    for step in from..=last {
        add(Stretch::Train, step, 0, true, false);
        let finished = step + 1 - options.trainer.first_number();
        let every = options.eval_every.filter(|_| step < last);
        if every.is_some_and(|every| finished.is_multiple_of(every)) {
            for batch in 1..=events::EVAL_BATCHES {
                let reads = batch == events::EVAL_BATCHES;
                add(Stretch::Eval, step, batch, true, reads);
            }
            let calls = !events::saved(options, step).1.is_empty();
            add(Stretch::Checkpoint, step, 0, calls, calls);
        }
    }
    if options.tail_calls {
        add(Stretch::Tail, last, 0, true, true);
    }
    items
}
