//! The collectives of a trace as rows of the call table: the host's record of a call
//! (`record_param_comms`), joined by its `External id` to the kernel that it launched.
//!
//! A trace has neither in order, and a kernel may come before the record of its call, so calls are
//! held until the end: 48 bytes a record and a kernel. Few events are calls.

use super::args::{KinetoCallArgs, KinetoCallKind, SizeLimit};
use crate::error::Result;
use crate::formats::ordered::RowTaker;
use crate::output::table::{Row, Timing};
use rustc_hash::FxHashMap;

/// A call as the host recorded it.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostRecord {
    /// When it began, in ns of the trace.
    pub(super) start: i64,
    pub(super) tid: Option<u64>,
    pub(super) external: Option<u64>,
    pub(super) shape: u32,
    pub(super) seq: Option<u64>,
}

/// A kernel with the arguments of a call, or with NCCL in its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct KinetoKernel {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) device: u32,
    pub(super) external: Option<u64>,
    /// The number of its arguments, if it has them.
    pub(super) shape: Option<u32>,
    /// The number of what its name alone shows, if it has no arguments.
    pub(super) by_name: Option<u32>,
    pub(super) seq: Option<u64>,
}

/// All calls of a trace.
#[derive(Debug, Default)]
pub(super) struct KinetoCalls {
    pub(super) records: Vec<HostRecord>,
    pub(super) kernels: Vec<KinetoKernel>,
    /// `ProfilerStep#N` on the host: from, to, N.
    pub(super) steps: Vec<(i64, i64, u64)>,
    /// The process on the host.
    pub(super) pid: Option<u64>,
    shapes: Vec<KinetoCallArgs>,
    known: FxHashMap<KinetoCallArgs, u32>,
}

/// A call and its kernels.
#[derive(Debug, Clone, Copy)]
struct KinetoCall {
    shape: u32,
    seq: Option<u64>,
    /// The record's start, else the kernel's.
    order: i64,
    record: Option<HostRecord>,
    device: Option<u32>,
    /// The first start and the last end of its kernels, and their number.
    ran: Option<(i64, i64, u32)>,
}

impl KinetoCalls {
    /// Returns the number of a call's arguments, and the call's sequence number.
    pub(super) fn intern_args(&mut self, mut passed: KinetoCallArgs) -> (u32, Option<u64>) {
        let seq = passed.seq.take();
        let next = u32::try_from(self.shapes.len()).unwrap_or(u32::MAX);
        let number = *self.known.entry(passed).or_insert_with_key(|passed| {
            self.shapes.push(passed.clone());
            next
        });
        (number, seq)
    }

    /// Takes the kernels' names for the arguments of calls, in a trace without any arguments: PyTorch 2.0 and before
    /// recorded none. Returns the number of kernels; 0 in all other traces, where a kernel without arguments belongs
    /// to calls that have them.
    pub(super) fn name_calls_by_kernels(&mut self) -> u64 {
        if !self.records.is_empty() || self.kernels.iter().any(|kernel| kernel.shape.is_some()) {
            return 0;
        }
        let mut named = 0;
        for kernel in &mut self.kernels {
            kernel.shape = kernel.by_name;
            named += u64::from(kernel.shape.is_some());
        }
        named
    }

    /// Joins records and kernels, in the order in which the calls were made.
    fn join_kernels(&mut self) -> Vec<KinetoCall> {
        self.records.sort_by_key(|r| (r.start, r.external, r.shape));
        self.kernels
            .sort_by_key(|k| (k.start, k.end, k.device, k.external));
        let mut calls: Vec<KinetoCall> = Vec::with_capacity(self.records.len());
        let mut by_id: FxHashMap<u64, usize> = FxHashMap::default();
        for record in &self.records {
            if let Some(id) = record.external {
                by_id.entry(id).or_insert(calls.len());
            }
            calls.push(KinetoCall {
                shape: record.shape,
                seq: record.seq,
                order: record.start,
                record: Some(*record),
                device: None,
                ran: None,
            });
        }
        for kernel in &self.kernels {
            let known = kernel.external.and_then(|id| by_id.get(&id).copied());
            let of = known.and_then(|at| calls.get_mut(at));
            match (of, kernel.shape) {
                (Some(call), _) => {
                    call.device = call.device.or(Some(kernel.device));
                    let (from, to, n) = call.ran.unwrap_or((kernel.start, kernel.end, 0));
                    let (from, to) = (from.min(kernel.start), to.max(kernel.end));
                    call.ran = Some((from, to, n + 1));
                }
                (None, Some(shape)) => {
                    if let Some(id) = kernel.external {
                        by_id.insert(id, calls.len());
                    }
                    calls.push(KinetoCall {
                        shape,
                        seq: kernel.seq,
                        order: kernel.start,
                        record: None,
                        device: Some(kernel.device),
                        ran: Some((kernel.start, kernel.end, 1)),
                    });
                }
                // Its call is not known.
                (None, None) => {}
            }
        }
        let shapes = &self.shapes;
        let is_call = |call: &KinetoCall| {
            let passed = shapes.get(call.shape as usize);
            // Inside a barrier's record may be that of its AllReduce.
            let is_own = |p: &KinetoCallArgs| {
                p.limit != SizeLimit::Barrier && !matches!(p.kind, KinetoCallKind::Other(_))
            };
            call.ran.is_some() || passed.is_some_and(is_own)
        };
        calls.retain(is_call);
        calls.sort_by_key(|call| (call.order, call.shape));
        calls
    }

    /// Hands over the rows of the process with this rank in the job, with starts in ns since 1970 if `utc`,
    /// the ns to add to the trace's, is known.
    pub(super) fn emit_rows(
        mut self,
        utc: Option<i64>,
        job_rank: Option<u32>,
        taking: &mut RowTaker<'_>,
    ) -> Result<()> {
        let calls = self.join_kernels();
        self.steps.sort_unstable();
        for call in &calls {
            let Some(passed) = self.shapes.get(call.shape as usize) else {
                continue;
            };
            let begun = call.ran.map_or(call.order, |(from, ..)| from);
            let printed = |ns: i64| u64::try_from(ns.checked_add(utc.unwrap_or(0))?).ok();
            let took = |(from, to, _): (i64, i64, u32)| u64::try_from(to.checked_sub(from)?).ok();
            let quality = describe_quality(call, passed);
            let timing = Timing {
                start_ns: printed(begun),
                dur_ns: call.ran.and_then(took),
                clock: if utc.is_some() { b"unix" } else { b"kineto" },
                quality: quality.as_bytes(),
                pg_name: &passed.group,
                pg_desc: &passed.desc,
                ..Timing::default()
            };
            let row = Row {
                step: call.record.and_then(|record| self.find_step(record.start)),
                pid: self.pid,
                tid: call.record.and_then(|record| record.tid),
                dev: call.device,
                rank: passed.rank,
                nranks: passed.nranks,
                global_rank: job_rank,
                seq: call
                    .seq
                    .filter(|_| matches!(passed.kind, KinetoCallKind::Collective(_))),
                op: passed.kind.name().as_bytes(),
                count: passed.count,
                datatype: passed.datatype,
                root: passed.root.map(i64::from),
                calls: 1,
                src: super::FORMAT.name.as_bytes(),
                timing: Some(&timing),
                enqueue_ns: call.record.and_then(|record| printed(record.start)),
                ..Row::default()
            };
            if passed.limit != SizeLimit::Sends {
                taking.take_row(&row)?;
                continue;
            }
            // The time is that of the whole AlltoAll.
            let timing = Timing {
                dur_ns: None,
                ..timing
            };
            for (peer, (sent, received)) in (0..).zip(&passed.parts) {
                for (op, count) in [("Send", *sent), ("Recv", *received)] {
                    // PyTorch leaves out empty parts.
                    if count > 0 {
                        taking.take_row(&Row {
                            op: op.as_bytes(),
                            count: Some(count),
                            root: Some(peer),
                            seq: None,
                            timing: Some(&timing),
                            ..row
                        })?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the step that the host was in at that time. Steps do not overlap.
    fn find_step(&self, at: i64) -> Option<u64> {
        let before = self.steps.partition_point(|(from, ..)| *from <= at);
        let (_, to, step) = self.steps.get(before.checked_sub(1)?)?;
        (at < *to).then_some(*step)
    }
}

/// Describes how far a call's times and sizes are known.
fn describe_quality(call: &KinetoCall, passed: &KinetoCallArgs) -> String {
    let times = match call.ran {
        Some((_, _, 1)) => "kernel on the GPU, without its launch".to_owned(),
        Some((_, _, n)) => format!("{n} kernels on the GPU, from the first to the last"),
        None => "start is when it was enqueued, no kernel of its own".to_owned(),
    };
    let sizes = match passed.limit {
        SizeLimit::None => "",
        SizeLimit::Parts => ", counted as equal parts",
        SizeLimit::Uneven => ", parts of different sizes",
        SizeLimit::Sends => ", part of an AlltoAll, whose kernel is one",
        SizeLimit::Coalesced => ", one kernel for several calls, whose counts are added",
        SizeLimit::Barrier => ", a barrier",
        SizeLimit::KernelName => ", known by the kernel's name only",
    };
    times + sizes
}
