//! The sums of a log's gaps, of the calls that pass a filter.

use super::GapCallSum;
use crate::count::member_filter::MemberFilter;
use crate::grammar::values::Datatype;
use crate::log::placement::{CallShape, CutsByProcess, StreamsByProcess};
use crate::members::MergedMembers;
use std::collections::BTreeMap;

/// The calls of each gap that pass a filter.
#[derive(Debug, Default)]
pub(super) struct WantedSums {
    /// Those gaps that have any.
    pub(super) by_gap: BTreeMap<usize, GapCallSum>,
    pub(super) filter: MemberFilter,
}

impl WantedSums {
    /// No calls yet.
    pub(super) fn new(filter: MemberFilter) -> WantedSums {
        WantedSums {
            by_gap: BTreeMap::new(),
            filter,
        }
    }

    /// Forgets all calls.
    pub(super) fn clear(&mut self) {
        self.by_gap.clear();
        self.filter.take_part();
    }

    /// Adds a call.
    pub(super) fn add_call(
        &mut self,
        gap: u32,
        streams: &StreamsByProcess,
        what: &CallShape,
        merged: &MergedMembers,
    ) {
        let row = streams.row_of_shape(what, 1);
        if self.filter.does_pass(merged, what.member, &row) {
            let sum = self.by_gap.entry(gap as usize).or_default();
            sum.add_call(what.datatype, what.count);
        }
    }

    /// Adds the placed calls of gap `from` and later.
    pub(super) fn add_placed(
        &mut self,
        streams: &StreamsByProcess,
        cuts: &CutsByProcess,
        from: u32,
        merged: &MergedMembers,
    ) {
        let of_gap = || streams.each_gap_calls(cuts).filter(|of| of.gap >= from);
        let wanted = (!self.filter.is_empty()).then(|| {
            let mut made = vec![0; streams.call_shapes().len()];
            for of in of_gap() {
                let calls = streams.calls_of(of);
                calls.each_number(|what| made[what as usize] += 1);
            }
            self.judge_shapes(streams, &made, merged)
        });
        let bytes = |what: &CallShape| {
            let size = Datatype(what.datatype).size().unwrap_or(0);
            u128::from(what.count) * u128::from(size)
        };
        let bytes: Vec<u128> = streams.call_shapes().iter().map(bytes).collect();
        for of in of_gap() {
            let mut sum = GapCallSum {
                calls: of.count_calls() as u64,
                bytes: 0,
            };
            let calls = streams.calls_of(of);
            match &wanted {
                None => calls.each_number(|what| sum.bytes += bytes[what as usize]),
                Some(wanted) => {
                    sum.calls = 0;
                    calls.each_number(|what| {
                        if wanted[what as usize] {
                            sum.calls += 1;
                            sum.bytes += bytes[what as usize];
                        }
                    });
                }
            }
            if sum.calls > 0 {
                self.by_gap.entry(of.gap as usize).or_default().merge(sum);
            }
        }
    }

    /// Judges the shapes by the number of calls that were `made` of each.
    fn judge_shapes(
        &mut self,
        streams: &StreamsByProcess,
        made: &[u64],
        merged: &MergedMembers,
    ) -> Vec<bool> {
        let shapes = streams.call_shapes().iter().zip(made);
        let passes = shapes.map(|(what, &made)| {
            let row = streams.row_of_shape(what, made);
            made > 0 && self.filter.does_pass(merged, what.member, &row)
        });
        passes.collect()
    }
}
