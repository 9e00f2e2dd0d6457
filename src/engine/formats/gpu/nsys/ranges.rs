//! NCCL's NVTX ranges as calls, and the ranges that launch their kernels.

use super::export::NsysExport;
use super::payload::PayloadSchemas;
use super::pid_of_global;
use super::text::{self, RangeFacts};
use super::timeline::NvtxEventKind;
use crate::error::Result;
use crate::formats::ordered::RowTaker;
use crate::grammar::values::is_known_op;
use crate::report::account::LineClass;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::rc::Rc;

/// A call's range on its thread.
#[derive(Debug)]
pub(super) struct NsysCall {
    pub(super) start: i64,
    /// `globalTid`.
    pub(super) thread: i64,
    /// The number of the operation's name.
    pub(super) op: usize,
    pub(super) facts: RangeFacts,
    /// The number of the range that launched it; none if the capture ended before its group.
    pub(super) launch: Option<usize>,
}

/// A range that launches kernels: a call outside of groups, or the end of a group.
#[derive(Debug)]
pub(super) struct LaunchRange {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) thread: i64,
    /// Its calls.
    pub(super) calls: std::ops::Range<usize>,
    pub(super) kernels: Vec<usize>,
}

/// The kind of a range.
#[derive(Debug)]
enum NsysRangeKind {
    GroupStart,
    GroupEnd,
    /// A call, with the number of its operation.
    Call(usize, RangeFacts),
}

/// A range of one of NCCL's functions.
#[derive(Debug)]
struct NsysRange {
    thread: i64,
    start: i64,
    end: i64,
    kind: NsysRangeKind,
}

/// A rank of a communicator, in its process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NsysMember {
    pub(super) facts: RangeFacts,
    /// The communicator was made during the capture, which has its first calls.
    pub(super) is_whole: bool,
}

/// The members of communicators, by process and communicator.
pub(super) type NsysMembers = FxHashMap<(u64, u64), NsysMember>;

/// The ranges of an export.
#[derive(Debug, Default)]
pub(super) struct NsysRanges {
    all: Vec<NsysRange>,
    /// The names of operations.
    pub(super) ops: Vec<Rc<[u8]>>,
    pub(super) members: NsysMembers,
    /// Calls without binary data.
    pub(super) bare: u64,
}

/// Reads the ranges of NCCL's functions.
pub(super) fn read_ranges(export: &NsysExport, taking: &mut RowTaker<'_>) -> Result<NsysRanges> {
    let schemas = PayloadSchemas::from_export(export)?;
    let columns = [
        "start",
        "end",
        "eventType",
        "text",
        "textId",
        "globalTid",
        "binaryData",
    ];
    let mut ranges = NsysRanges::default();
    let mut numbers: FxHashMap<Box<[u8]>, usize> = FxHashMap::default();
    export.for_each_row("NVTX_EVENTS", &columns, &mut |fields| {
        let long = fields.int(4).filter(|_| fields.bytes(3).is_none());
        let long = long.map(|id| export.text_by_id(id));
        let text = fields.bytes(3).or(long.as_deref()).unwrap_or_default();
        let kind = NvtxEventKind::from_field(fields, 2);
        let (Some(NvtxEventKind::PushPop), Some(name)) = (kind, text::parse_function(text)) else {
            taking.count_line(LineClass::Foreign);
            return Ok(());
        };
        let (Some(start), Some(thread)) = (fields.int(0), fields.int(5)) else {
            taking.count_damaged("a start and a thread", b"");
            return Ok(());
        };
        // Without an end it was open when the capture ended.
        let end = fields.int(1).unwrap_or(i64::MAX);
        let mut facts = text::parse_facts(text);
        let data = fields.bytes(6).unwrap_or_default();
        let is_read = !data.is_empty() && schemas.read_payload(data, &mut facts);
        if let (Some(comm), Some(_)) = (facts.comm, facts.rank) {
            let begins = |with: &[u8]| name.starts_with(with);
            let is_made = begins(b"CommInit") || begins(b"CommSplit");
            let member: &mut NsysMember = ranges
                .members
                .entry((pid_of_global(thread), comm))
                .or_default();
            member.facts = facts;
            member.is_whole |= is_made;
        }
        let kind = match name {
            b"GroupStart" => NsysRangeKind::GroupStart,
            b"GroupEnd" => NsysRangeKind::GroupEnd,
            _ if is_known_op(name) => {
                let next = numbers.len();
                let op = match numbers.get(name) {
                    Some(known) => *known,
                    None => {
                        numbers.insert(name.into(), next);
                        ranges.ops.push(name.into());
                        next
                    }
                };
                ranges.bare += u64::from(facts.bytes.is_none());
                NsysRangeKind::Call(op, facts)
            }
            _ => {
                taking.count_line(LineClass::Other);
                return Ok(());
            }
        };
        match kind {
            NsysRangeKind::Call(..) if !data.is_empty() && !is_read => {
                taking.count_damaged("the binary data of a call", b"");
            }
            NsysRangeKind::Call(..) => taking.count_line(LineClass::Call),
            _ => taking.count_line(LineClass::Other),
        }
        ranges.all.push(NsysRange {
            thread,
            start,
            end,
            kind,
        });
        Ok(())
    })?;
    Ok(ranges)
}

impl NsysRanges {
    /// Takes the ranges out; returns the calls, and the ranges that launch them.
    pub(super) fn take_calls(&mut self) -> (Vec<NsysCall>, Vec<LaunchRange>) {
        let mut all = std::mem::take(&mut self.all);
        // Outer ranges first.
        all.sort_by_key(|range| (range.thread, range.start, Reverse(range.end)));
        let (mut calls, mut launches) = (Vec::new(), Vec::new());
        // The thread in hand, how deep its groups are, and the first call of the outermost.
        let (mut thread, mut depth, mut first) = (None, 0_u64, 0);
        for range in all {
            if thread != Some(range.thread) {
                (thread, depth, first) = (Some(range.thread), 0, calls.len());
            }
            match range.kind {
                NsysRangeKind::GroupStart => {
                    if depth == 0 {
                        first = calls.len();
                    }
                    depth = depth.saturating_add(1);
                }
                NsysRangeKind::GroupEnd => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        launches.push(range.launch_calls(&mut calls, first, launches.len()));
                        first = calls.len();
                    }
                }
                NsysRangeKind::Call(op, facts) => {
                    calls.push(NsysCall {
                        start: range.start,
                        thread: range.thread,
                        op,
                        facts,
                        launch: None,
                    });
                    if depth == 0 {
                        let own = calls.len() - 1;
                        launches.push(range.launch_calls(&mut calls, own, launches.len()));
                        first = calls.len();
                    }
                }
            }
        }
        (calls, launches)
    }
}

impl NsysRange {
    /// Makes it the range, with this number, that launches the calls from `first` on.
    fn launch_calls(&self, calls: &mut [NsysCall], first: usize, number: usize) -> LaunchRange {
        let own = first..calls.len();
        let inside = calls.get_mut(own.clone()).unwrap_or_default();
        inside
            .iter_mut()
            .for_each(|call| call.launch = Some(number));
        LaunchRange {
            start: self.start,
            end: self.end,
            thread: self.thread,
            calls: own,
            kernels: Vec::new(),
        }
    }
}
