//! One chunk's calls as the walk meets them: short records by process, in line order.

use super::limits::NO_LINE_POSITION;
use super::what::{CallShape, CallShapes};
use crate::log::walk::{LogCall, LogVisitor, RepairedCall, insert_at_places};
use crate::members::OpInterner;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A chunk's calls by process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CallRecorder {
    pub(super) ops: OpInterner,
    /// The shapes met; members and operations as the chunk numbers them.
    pub(super) whats: CallShapes,
    /// By the chunk's process.
    pub(super) lists: Vec<ProcessCalls>,
    touched: Vec<u32>,
    /// Where each call's line is, too.
    lines: bool,
    gap: u32,
    /// For each slot: its gap, and how many calls each process had made.
    slots: Vec<(u32, Box<[u32]>)>,
    /// The processes of calls with an unsure process, in line order.
    unsure: Vec<u32>,
}

/// A call with a torn line: its gap, how many calls of its process come before it, its shape, and its line's
/// position, if it has one line.
type TornCallRecord = (u32, usize, u32, u64);

/// One process's calls in a chunk, in line order.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ProcessCalls {
    /// The shape of each call, by number.
    pub(super) calls: Vec<u32>,
    /// Where each call is in the input, if that is wanted.
    pub(super) at: Vec<u64>,
    /// (gap, calls up to its end), of gaps with calls.
    pub(super) ends: Vec<(u32, u32)>,
    is_touched: bool,
}

impl CallRecorder {
    /// Keeps where each call's line is.
    pub fn with_lines() -> CallRecorder {
        CallRecorder {
            lines: true,
            ..CallRecorder::default()
        }
    }

    /// Returns the number of a call's shape.
    #[inline(always)]
    fn shape_number(&mut self, call: &LogCall<'_>) -> u32 {
        let (op, _) = self.ops.intern(call.coll.op);
        self.whats
            .intern_value(CallShape::from_coll(&call.coll, call.member, op))
    }

    /// The calls of a process.
    #[inline(always)]
    fn process_calls(&mut self, process: u32) -> &mut ProcessCalls {
        let process = process as usize;
        if self.lists.len() <= process {
            self.lists.resize_with(process + 1, ProcessCalls::default);
        }
        &mut self.lists[process]
    }

    /// Ends the gap in hand; gives the number of the last one.
    pub(super) fn close_gap(&mut self) -> u32 {
        for process in self.touched.drain(..) {
            if let Some(list) = self.lists.get_mut(process as usize) {
                list.ends.push((self.gap, list.calls.len() as u32));
                list.is_touched = false;
            }
        }
        self.gap
    }
}

impl LogVisitor for CallRecorder {
    #[inline(always)]
    fn call(&mut self, call: &LogCall<'_>) {
        let what = self.shape_number(call);
        let lines = self.lines;
        let list = self.process_calls(call.process);
        list.calls.push(what);
        if lines {
            list.at.push(call.at);
        }
        if !list.is_touched {
            list.is_touched = true;
            self.touched.push(call.process);
        }
        if !call.is_sure {
            self.unsure.push(call.process);
        }
    }

    fn mark(&mut self) {
        self.close_gap();
        self.gap += 1;
    }

    fn slot(&mut self) {
        let made = self.lists.iter().map(|list| list.calls.len() as u32);
        self.slots.push((self.gap, made.collect()));
    }

    fn unify_processes(&mut self, first: &[u32]) {
        self.close_gap();
        let first = |process: u32| first.get(process as usize).copied().unwrap_or(process);
        let mut parts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for process in 0..self.lists.len() as u32 {
            parts.entry(first(process)).or_default().push(process);
        }
        parts.retain(|_, parts| parts.len() > 1);
        let mut turns: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for &process in &self.unsure {
            turns.entry(first(process)).or_default().push(process);
        }
        for (to, parts) in parts {
            let turns = turns.get(&to).map_or(&[][..], |turns| turns);
            let take =
                |&process: &u32| (process, std::mem::take(&mut self.lists[process as usize]));
            let lists = parts.iter().map(take).collect();
            self.lists[to as usize] = ProcessCalls::join_lists(lists, turns);
            for (_, made) in &mut self.slots {
                let of = |&process: &u32| made.get(process as usize).copied();
                let all = parts.iter().filter_map(of).sum();
                made.get_mut(to as usize)
                    .iter_mut()
                    .for_each(|made| **made = all);
            }
        }
    }

    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        let last = self.close_gap();
        let mut of: FxHashMap<u32, Vec<TornCallRecord>> = FxHashMap::default();
        for RepairedCall { slot, call, is_own } in calls {
            let what = self.shape_number(call);
            let slot = self.slots.get(*slot as usize);
            let gap = slot.map_or(last, |slot| slot.0);
            // A process that the chunk has pieces of only has made no calls.
            let before = slot.map_or(Some(&u32::MAX), |slot| slot.1.get(call.process as usize));
            let before = before.map_or(0, |&before| before as usize);
            let torn = of.entry(call.process).or_default();
            let at = if *is_own { call.at } else { NO_LINE_POSITION };
            torn.push((gap, before, what, at));
        }
        let lines = self.lines;
        for (process, torn) in of {
            self.process_calls(process).insert_torn(&torn, lines);
        }
    }
}

impl ProcessCalls {
    /// Joins one process's calls from lists under several names: the calls of unsure names come first, in the order
    /// of `turns`.
    fn join_lists(lists: Vec<(u32, ProcessCalls)>, turns: &[u32]) -> ProcessCalls {
        let mut gaps: Vec<u32> = lists
            .iter()
            .flat_map(|(_, list)| &list.ends)
            .map(|end| end.0)
            .collect();
        gaps.sort_unstable();
        gaps.dedup();
        let made = |gap: u32| {
            lists
                .iter()
                .map(|(_, list)| calls_until(&list.ends, gap))
                .sum()
        };
        let ends = gaps.into_iter().map(|gap| (gap, made(gap))).collect();
        let mut joined = ProcessCalls {
            ends,
            ..ProcessCalls::default()
        };
        let rest = lists.iter().map(|(process, list)| {
            let calls = list.calls.iter().copied();
            (*process, (calls, list.at.iter().copied()))
        });
        let mut rest: BTreeMap<u32, _> = rest.collect();
        for process in turns {
            if let Some((calls, at)) = rest.get_mut(process) {
                joined.calls.extend(calls.next());
                joined.at.extend(at.next());
            }
        }
        for (calls, at) in rest.into_values() {
            joined.calls.extend(calls);
            joined.at.extend(at);
        }
        joined
    }

    /// Inserts calls with torn lines.
    fn insert_torn(&mut self, torn: &[TornCallRecord], lines: bool) {
        let mut gaps: Vec<(u32, u32)> = torn
            .iter()
            .map(|&(gap, ..)| (gap, calls_until(&self.ends, gap)))
            .collect();
        self.ends.append(&mut gaps);
        self.ends.sort_unstable();
        self.ends.dedup();
        for (gap, end) in &mut self.ends {
            *end += torn.partition_point(|call| call.0 <= *gap) as u32;
        }
        insert_at_places(&mut self.calls, torn.iter().map(|call| (call.1, call.2)));
        if lines {
            let at = torn.iter().map(|call| (call.1, call.3));
            insert_at_places(&mut self.at, at);
        }
    }
}

/// How many calls appear up to the end of `gap`.
pub(super) fn calls_until(ends: &[(u32, u32)], gap: u32) -> u32 {
    match ends.partition_point(|&(g, _)| g <= gap) {
        0 => 0,
        n => ends[n - 1].1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::coll::Coll;
    use proptest::prelude::*;

    fn call(process: u32, count: u64, at: u64) -> LogCall<'static> {
        LogCall {
            coll: Coll {
                op: b"Send",
                op_count: 0,
                count,
                datatype: 7,
                redop: 0,
                root: 0,
                comm: 1,
                nranks: None,
                stream: 0,
            },
            member: process,
            process,
            is_sure: process > 1,
            tid: None,
            time: b"",
            at,
        }
    }

    /// For each process what it called, where the lines are, and where gaps end.
    type Lists = Vec<(Vec<u64>, Vec<u64>, Vec<(u32, u32)>)>;

    fn lists(mut recorder: CallRecorder) -> Lists {
        recorder.close_gap();
        let count = |&what: &u32| recorder.whats.interned_values()[what as usize].count;
        let all = (0..3).map(|process| match recorder.lists.get(process) {
            Some(list) => {
                let counts = list.calls.iter().map(count).collect();
                (counts, list.at.clone(), list.ends.clone())
            }
            None => Default::default(),
        });
        all.collect()
    }

    proptest! {
        /// Calls of three processes, marks, and slots with torn calls or without.
        #[test]
        fn torn_calls_are_as_if_their_lines_were_whole(
            events in proptest::collection::vec(prop_oneof![
                4 => (0..3_u32).prop_map(|process| (Some(process), vec![])),
                1 => Just((None, vec![])),
                2 => (proptest::collection::vec(0..3_u32, 1..3)).prop_map(|torn| (None, torn)),
            ], 0..30),
            lines: bool,
        ) {
            let new = || CallRecorder { lines, ..CallRecorder::default() };
            let (mut recorder, mut twin) = (new(), new());
            let mut torn = Vec::new();
            for (at, (process, late)) in (0_u64..).zip(&events) {
                match (process, &late[..]) {
                    (Some(process), _) => {
                        recorder.call(&call(*process, at, at));
                        twin.call(&call(*process, at, at));
                    }
                    (None, []) => {
                        recorder.mark();
                        twin.mark();
                    }
                    (None, late) => {
                        let slot = recorder.slots.len() as u32;
                        recorder.slot();
                        for &process in late {
                            let is_own = process == 1;
                            torn.push(RepairedCall { slot, call: call(process, at, at), is_own });
                            let at_line = if is_own { at } else { NO_LINE_POSITION };
                            twin.call(&call(process, at, at_line));
                        }
                    }
                }
            }
            recorder.insert_torn_calls(&torn);
            prop_assert_eq!(lists(recorder), lists(twin));
        }
    }

    proptest! {
        /// Calls of three names of one process, of which the last is sure, and torn ones of the process.
        #[test]
        fn names_that_are_one_process_are_as_if_it_had_one_name(
            unsure in proptest::collection::vec(0..8_u32, 0..20),
            sure in proptest::collection::vec(2..8_u32, 0..20),
            lines: bool,
        ) {
            let new = || CallRecorder { lines, ..CallRecorder::default() };
            let (mut recorder, mut twin) = (new(), new());
            let mut torn = Vec::new();
            let (unsure, sure) = (unsure.iter().map(|e| (*e, 0)), sure.iter().map(|e| (*e, 2)));
            for (at, (event, name)) in (0_u64..).zip(unsure.chain(sure)) {
                match event {
                    0..6 => {
                        let name = name.max(event % 2);
                        let call = |process| LogCall {
                            is_sure: name == 2,
                            ..call(process, at, at)
                        };
                        recorder.call(&call(name));
                        twin.call(&call(0));
                    }
                    6 => {
                        recorder.mark();
                        twin.mark();
                    }
                    _ => {
                        recorder.slot();
                        twin.slot();
                        let slot = torn.len() as u32;
                        torn.push(RepairedCall { slot, call: call(0, at, at), is_own: true });
                    }
                }
            }
            recorder.unify_processes(&[0, 0, 0]);
            recorder.insert_torn_calls(&torn);
            twin.insert_torn_calls(&torn);
            prop_assert_eq!(lists(recorder), lists(twin));
        }
    }
}
