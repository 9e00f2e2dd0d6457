//! How each call was served: for a stage that writes calls one by one, and meets them a second time.
//!
//! NCCL chooses by operation, size and communicator, so equal calls of a thread are mostly served
//! alike: kept is from which of them on they are served otherwise.

use super::burst::{ServingMethod, TunedCall, TuningBurst, TuningMatch};
use super::fold::TuningThread;
use crate::grammar::values::op_kind;
use crate::members::MergedMembers;
use crate::members::OpInterner;
use crate::output::table::Timing;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Equal calls of a thread: communicator's address, operation, elements, datatype.
type EqualCallsKey = (TuningThread, u64, u32, u64, u32);

/// How calls were served: its number; `None` where that is not known.
type MethodNumber = Option<u32>;

/// Equal calls, in their order.
#[derive(Debug, Default, Serialize, Deserialize)]
struct MethodSeries {
    /// How many there are.
    calls: u64,
    /// From which of them on they are served how.
    changes: Vec<(u64, MethodNumber)>,
    /// How many were met again, and which change comes next.
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

/// How the calls of one input were served.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct CallMethods {
    names: OpInterner,
    series: FxHashMap<EqualCallsKey, MethodSeries>,
    choices: Vec<(ServingMethod, Option<u32>)>,
    numbers: FxHashMap<(ServingMethod, Option<u32>), u32>,
}

impl CallMethods {
    /// The next burst of a thread: every call of it is known to be served alike, or it is not
    /// known how.
    pub(super) fn add_burst(
        &mut self,
        thread: TuningThread,
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
            // Fewer lines than there are calls for them: which calls they serve is not known.
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

    /// All lines are read: the operations have these names.
    pub(super) fn with_names(self, names: OpInterner) -> CallMethods {
        CallMethods { names, ..self }
    }

    /// The number of an operation.
    pub(crate) fn op_number(&mut self, name: &[u8]) -> u32 {
        self.names.intern(name).0
    }

    /// How the next call of a thread is served, of all its equals: by communicator's address,
    /// operation ([`Served::op`]), elements and datatype.
    pub(crate) fn next_method(&mut self, call: EqualCallsKey) -> MethodNumber {
        self.series.get_mut(&call)?.next_method()
    }

    /// The choices by number, as columns; an algorithm or protocol that NCCL's name is not known of
    /// is empty.
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

/// A choice as columns of the call table.
#[derive(Debug)]
pub(crate) struct MethodColumns {
    algo: Vec<u8>,
    proto: Vec<u8>,
    nchannels: Option<u32>,
}

impl MethodColumns {
    /// What a row has of it.
    pub(crate) fn timing(&self) -> Timing<'_> {
        Timing {
            algo: &self.algo,
            proto: &self.proto,
            nchannels: self.nchannels,
            ..Timing::default()
        }
    }
}
