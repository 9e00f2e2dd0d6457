//! Method of each call, for stages that write calls one by one in a second pass.
//!
//! NCCL chooses by operation, size and communicator, so equal calls of a thread mostly have the same
//! method: only its changes are kept.

use super::burst::{ServingMethod, TunedCall, TuningBurst, TuningMatch};
use crate::grammar::values::op_kind;
use crate::members::MergedMembers;
use crate::members::OpInterner;
use crate::output::table::Timing;
use crate::stages::setup::thread::SpeakerThread;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Key of equal calls of a thread: communicator's address, operation, elements, datatype.
type EqualCallsKey = (SpeakerThread, u64, u32, u64, u32);

/// Number of a method; `None` if it is unknown.
type MethodNumber = Option<u32>;

/// Methods of equal calls, in their order.
#[derive(Debug, Default, Serialize, Deserialize)]
struct MethodSeries {
    /// Number of calls.
    calls: u64,
    /// Numbers of the calls from which on the method changes.
    changes: Vec<(u64, MethodNumber)>,
    /// Number of calls of the second pass so far, and of the next change.
    again: (u64, usize),
}

impl MethodSeries {
    fn add_calls(&mut self, calls: u64, choice: MethodNumber) {
        let before = self.changes.last().and_then(|(_, choice)| *choice);
        if choice != before {
            self.changes.push((self.calls, choice));
        }
        self.calls += calls;
    }

    fn next_method(&mut self) -> MethodNumber {
        let (met, next) = &mut self.again;
        while self.changes.get(*next).is_some_and(|(from, _)| from <= met) {
            *next += 1;
        }
        *met += 1;
        self.changes.get(next.checked_sub(1)?)?.1
    }
}

/// Methods of the calls of one input.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct CallMethods {
    names: OpInterner,
    series: FxHashMap<EqualCallsKey, MethodSeries>,
    choices: Vec<(ServingMethod, Option<u32>)>,
    numbers: FxHashMap<(ServingMethod, Option<u32>), u32>,
}

impl CallMethods {
    /// Adds the next burst of a thread. The calls of a burst have a known method only if all equal calls
    /// have the same.
    pub(super) fn add_burst(
        &mut self,
        thread: SpeakerThread,
        burst: &TuningBurst,
        matches: &[TuningMatch],
        names: &OpInterner,
        merged: &MergedMembers,
    ) {
        let mut by: FxHashMap<TunedCall, MethodNumber> = FxHashMap::default();
        for found in matches {
            let fit = found.fits_by_rank_zero(merged);
            let kind = |op| op_kind(names.name_of_op(op));
            let all: Vec<_> = fit
                .iter()
                .map(|fit| burst.calls_served_by(fit, found.line.bytes, kind))
                .collect();
            // With fewer lines than calls it is unknown which calls they serve.
            let wanted: u64 = match fit.iter().all(|fit| fit.each == 1) {
                true => fit
                    .iter()
                    .filter_map(|fit| burst.calls.get(&fit.made))
                    .sum(),
                false => fit.len() as u64,
            };
            let choice = (found.line.how, found.line.channels);
            let choice = (found.lines >= wanted).then(|| self.number_method(choice));
            for made in all.into_iter().flatten() {
                let known = by.entry(made).or_insert(choice);
                if *known != choice {
                    *known = None;
                }
            }
        }
        let mut equal: FxHashMap<EqualCallsKey, (u64, MethodNumber)> = FxHashMap::default();
        for (&made, &n) in &burst.calls {
            let comm = merged.origins.members.get(made.member).comm;
            let key = (thread, comm, made.op, made.count, made.datatype);
            let choice = by.get(&made).copied().flatten();
            let (calls, known) = equal.entry(key).or_insert((0, choice));
            *calls += n;
            if *known != choice {
                *known = None;
            }
        }
        for (key, (calls, choice)) in equal {
            self.series.entry(key).or_default().add_calls(calls, choice);
        }
    }

    fn number_method(&mut self, choice: (ServingMethod, Option<u32>)) -> u32 {
        let choices = &mut self.choices;
        *self.numbers.entry(choice).or_insert_with(|| {
            choices.push(choice);
            choices.len() as u32 - 1
        })
    }

    /// Sets the names of operations after all lines are read.
    pub(super) fn with_names(self, names: OpInterner) -> CallMethods {
        CallMethods { names, ..self }
    }

    /// Returns the number of an operation.
    pub(crate) fn op_number(&mut self, name: &[u8]) -> u32 {
        self.names.intern(name).0
    }

    /// Returns the method of the next of a thread's equal calls.
    pub(crate) fn next_method(&mut self, call: EqualCallsKey) -> MethodNumber {
        self.series.get_mut(&call)?.next_method()
    }

    /// Returns the methods by number as columns; algorithms and protocols that have no name in NCCL are
    /// empty.
    pub(crate) fn method_columns(&self) -> Vec<MethodColumns> {
        let columns = |&(how, nchannels): &(ServingMethod, Option<u32>)| {
            let known = |name: Vec<u8>| match &name[..] {
                b"UNKNOWN" => Vec::new(),
                _ => name,
            };
            let (algo, proto) = how.algorithm_and_protocol(&self.names);
            MethodColumns {
                algo: known(algo),
                proto: known(proto),
                nchannels,
            }
        };
        self.choices.iter().map(columns).collect()
    }
}

/// A method as columns of the call table.
#[derive(Debug)]
pub(crate) struct MethodColumns {
    algo: Vec<u8>,
    proto: Vec<u8>,
    nchannels: Option<u32>,
}

impl MethodColumns {
    /// Returns the columns of a row.
    pub(crate) fn timing(&self) -> Timing<'_> {
        Timing {
            algo: &self.algo,
            proto: &self.proto,
            nchannels: self.nchannels,
            ..Timing::default()
        }
    }
}
