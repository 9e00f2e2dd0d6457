//! What other programs ask of the walk besides findings.

use crate::count::calls::CountedCalls;
use crate::count::tally;
use crate::members::MergedMembers;
use crate::pool;
use crate::stages::communicators::{self, CommunicatorSide, CommunicatorTotals};
use crate::stages::matrix;

/// Requests besides findings: the facts of TUNING lines, and calls.
pub(crate) struct Requested {
    /// How calls over all steps are distinguished.
    pub(crate) calls: tally::Options,
    /// All that a page with plots has, too.
    pub(crate) whole: Option<PageRequest>,
    /// How late ranks come, if calls have time stamps.
    pub(crate) late: bool,
}

/// What only a page with plots has.
pub(crate) struct PageRequest {
    /// How calls by step are distinguished.
    pub(crate) by_step: tally::Options,
}

impl Requested {
    /// How the walk distinguishes calls.
    pub(super) fn tally_options(asked: Option<&Requested>) -> tally::Options {
        match asked.and_then(|asked| asked.whole.as_ref()) {
            Some(_) => matrix::matrix_tally_options(true),
            None => communicators::tally_options(false),
        }
    }

    /// Counts the requested calls of all that was gathered.
    pub(super) fn count_calls(
        &self,
        gathered: &mut CommunicatorTotals,
        merged: &MergedMembers,
        jobs: usize,
    ) -> RequestedCalls {
        let by_step = gathered.take_calls_by_step(merged);
        let gathered = &*gathered;
        let calls = || gathered.count_calls_by(&self.calls, merged);
        let count_pairs = || {
            let calls = gathered.count_calls_by(&matrix::matrix_tally_options(false), merged);
            Some((calls, gathered.sides_from_lines(merged)))
        };
        let (calls, pairs) = match self.whole {
            Some(_) => pool::run_both(jobs, calls, count_pairs),
            None => (calls(), None),
        };
        RequestedCalls {
            calls,
            by_step,
            pairs,
        }
    }

    /// Whether the lateness of ranks is gathered, and if so, whether the steps of calls are placed
    /// for that alone.
    pub(super) fn skew_placement(asked: Option<&Requested>) -> Option<bool> {
        let asked = asked.filter(|asked| asked.late)?;
        Some(asked.whole.is_none())
    }
}

/// The requested calls.
pub(crate) struct RequestedCalls {
    /// Over all steps.
    pub(crate) calls: CountedCalls,
    /// By step.
    pub(crate) by_step: Option<CountedCalls>,
    /// As nccl-matrix distinguishes them, with the sides of communicators that lines show.
    pub(crate) pairs: Option<(CountedCalls, Vec<CommunicatorSide>)>,
}
