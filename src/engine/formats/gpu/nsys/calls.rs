//! Calls of NCCL from its NVTX ranges, joined to the kernels that ran them.
//!
//! A kernel belongs to the range in which the call of CUDA lies that launched it: of the same thread, process
//! and correlation id. Inside a group that is the ncclGroupEnd that closes it, and the kernel runs all of its
//! calls.

use super::export::NsysExport;
use super::payload::PayloadSchemas;
use super::pid_of_global;
use super::text::{self, RangeFacts};
use super::timeline::{self, NVTX_PUSH_POP, tid_of_global};
use crate::error::Result;
use crate::formats::gpu::RecorderSession;
use crate::formats::ordered::RowTaker;
use crate::grammar::kernel;
use crate::grammar::values::{RedOp, has_redop, has_root, is_known_op, op_kind};
use crate::members::comm_id::CommId;
use crate::output::table::{Row, Timing};
use crate::report::account::LineClass;
use crate::report::count_phrase;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// A call's range on its thread.
#[derive(Debug)]
struct NsysCall {
    start: i64,
    /// `globalTid`.
    thread: i64,
    /// The operation's name, by number.
    op: usize,
    facts: RangeFacts,
    /// The range that launched it, by number; none where the capture ended before its group did.
    span: Option<usize>,
}

/// A range that launches kernels: a call outside of groups, or what closes a group.
#[derive(Debug)]
struct LaunchRange {
    start: i64,
    end: i64,
    thread: i64,
    /// Its calls.
    calls: std::ops::Range<usize>,
    kernels: Vec<usize>,
}

/// A kernel of NCCL's.
#[derive(Debug, Clone, Copy)]
struct NsysKernel {
    start: i64,
    end: i64,
    device: Option<i64>,
    pid: u64,
}

/// What a range is.
#[derive(Debug)]
enum NsysRangeKind {
    Begin,
    End,
    Call(usize, RangeFacts),
}

/// A rank of a communicator, in its process.
#[derive(Debug, Clone, Copy, Default)]
struct NsysMember {
    facts: RangeFacts,
    /// The communicator was made while the capture was on: its first calls are here.
    is_whole: bool,
}

/// What is read of an export's ranges.
#[derive(Debug, Default)]
struct NsysRanges {
    /// By thread, start and end.
    all: Vec<(i64, i64, i64, NsysRangeKind)>,
    ops: Vec<Rc<[u8]>>,
    /// By process and communicator.
    members: FxHashMap<(u64, u64), NsysMember>,
    /// Calls without binary data.
    bare: u64,
}

/// Reads the calls.
///
/// # Errors
/// That of who takes them.
pub(super) fn read_calls(export: &NsysExport, taking: &mut RowTaker<'_>) -> Result<()> {
    let session = timeline::read_session(export)?;
    let mut ranges = read_ranges(export, taking)?;
    report_missing(&ranges, taking);
    // Outer ranges first.
    ranges
        .all
        .sort_by_key(|&(thread, start, end, _)| (thread, start, std::cmp::Reverse(end)));
    let (mut calls, mut spans) = group_ranges(std::mem::take(&mut ranges.all));
    let kernels = assign_kernels(export, &mut spans)?;
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_by_key(|&at| calls.get(at).map(|call| (call.start, call.thread)));
    let mut seqs = FxHashMap::default();
    let devices = find_devices(&kernels);
    for at in order {
        let Some(call) = calls.get_mut(at) else {
            continue;
        };
        let span = call.span.and_then(|span| spans.get(span));
        let served = span.map_or(CallExecution::Unseen, |span| {
            find_execution(span, call, &kernels, &ranges.members)
        });
        let op = ranges.ops.get(call.op).cloned().unwrap_or_default();
        // The process' only GPU is that of every call.
        let only = devices.get(&pid_of_global(call.thread)).copied().flatten();
        call.facts.device = call.facts.device.or(only);
        emit_row(
            call,
            &op,
            served,
            &session,
            &ranges.members,
            &mut seqs,
            taking,
        )?;
    }
    Ok(())
}

/// The ranges of NCCL's functions.
fn read_ranges(export: &NsysExport, taking: &mut RowTaker<'_>) -> Result<NsysRanges> {
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
        let (Some(NVTX_PUSH_POP), Some(name)) = (fields.int(2), text::parse_function(text)) else {
            taking.count_line(LineClass::Foreign);
            return Ok(());
        };
        let (Some(start), Some(thread)) = (fields.int(0), fields.int(5)) else {
            taking.count_damaged("a start and a thread", b"");
            return Ok(());
        };
        // One without an end was open when the capture ended.
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
        let what = match name {
            b"GroupStart" => NsysRangeKind::Begin,
            b"GroupEnd" => NsysRangeKind::End,
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
                if !data.is_empty() && !is_read {
                    taking.count_damaged("the binary data of a call", b"");
                } else {
                    taking.count_line(LineClass::Call);
                }
                ranges
                    .all
                    .push((thread, start, end, NsysRangeKind::Call(op, facts)));
                return Ok(());
            }
            _ => {
                taking.count_line(LineClass::Other);
                return Ok(());
            }
        };
        taking.count_line(LineClass::Other);
        ranges.all.push((thread, start, end, what));
        Ok(())
    })?;
    Ok(ranges)
}

/// Says what the export does not tell of its calls.
fn report_missing(ranges: &NsysRanges, taking: &mut RowTaker<'_>) {
    let remarks = &mut taking.account.remarks;
    if ranges.ops.is_empty() {
        remarks.push(
            "the export has no calls of NCCL: nsys records them with --trace=nvtx (or a NCCL that was \
             built with NVTX_DISABLE has none)"
                .to_owned(),
        );
    } else if ranges.bare > 0 {
        remarks.push(format!(
            "{} without bytes and communicator: export the report with --include-blobs=true",
            count_phrase(ranges.bare, "call")
        ));
    }
}

/// The calls, and the ranges that launch them, of ranges by thread and time.
fn group_ranges(all: Vec<(i64, i64, i64, NsysRangeKind)>) -> (Vec<NsysCall>, Vec<LaunchRange>) {
    let (mut calls, mut spans): (Vec<NsysCall>, Vec<LaunchRange>) = (Vec::new(), Vec::new());
    // The thread in hand, how deep its groups are, and the first call of the outermost.
    let (mut of, mut depth, mut first) = (None, 0_u64, 0);
    for (thread, start, end, what) in all {
        if of != Some(thread) {
            (of, depth, first) = (Some(thread), 0, calls.len());
        }
        let mut launches = |calls: &mut Vec<NsysCall>, from: usize| {
            let number = spans.len();
            let own = from..calls.len();
            let inside = calls.get_mut(own.clone()).unwrap_or_default();
            inside.iter_mut().for_each(|call| call.span = Some(number));
            spans.push(LaunchRange {
                start,
                end,
                thread,
                calls: own,
                kernels: Vec::new(),
            });
        };
        match what {
            NsysRangeKind::Begin => {
                if depth == 0 {
                    first = calls.len();
                }
                depth = depth.saturating_add(1);
            }
            NsysRangeKind::End => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    launches(&mut calls, first);
                    first = calls.len();
                }
            }
            NsysRangeKind::Call(op, facts) => {
                calls.push(NsysCall {
                    start,
                    thread,
                    op,
                    facts,
                    span: None,
                });
                if depth == 0 {
                    let own = calls.len() - 1;
                    launches(&mut calls, own);
                    first = calls.len();
                }
            }
        }
    }
    (calls, spans)
}

/// How far back an enclosing range is looked for.
const MAX_RANGES_BACK: usize = 64;

/// Gives NCCL's kernels to the ranges that launched them.
fn assign_kernels(export: &NsysExport, spans: &mut [LaunchRange]) -> Result<Vec<NsysKernel>> {
    let mut kernels = Vec::new();
    let mut places: FxHashMap<(i64, u64), usize> = FxHashMap::default();
    let columns = [
        "start",
        "end",
        "deviceId",
        "correlationId",
        "globalPid",
        "graphNodeId",
        "demangledName",
        "shortName",
        "mangledName",
    ];
    let mut known: FxHashMap<i64, bool> = FxHashMap::default();
    if spans.is_empty() {
        return Ok(kernels);
    }
    export.for_each_row("CUPTI_ACTIVITY_KIND_KERNEL", &columns, &mut |fields| {
        let Some(name) = (6..9).find_map(|at| fields.int(at)) else {
            return Ok(());
        };
        let is_nccl = *known
            .entry(name)
            .or_insert_with(|| kernel::op_of_kernel(&export.text_by_id(name)).is_some());
        // Those of a graph have the number of its launch.
        if !is_nccl || fields.int(5).is_some() {
            return Ok(());
        }
        let times = fields
            .int(0)
            .zip(fields.int(1))
            .filter(|(start, end)| start <= end);
        let key = fields.int(4).zip(fields.number(3));
        if let (Some((start, end)), Some(key)) = (times, key) {
            places.insert(key, kernels.len());
            kernels.push(NsysKernel {
                start,
                end,
                device: fields.int(2),
                pid: pid_of_global(key.0),
            });
        }
        Ok(())
    })?;
    if kernels.is_empty() {
        return Ok(kernels);
    }
    let columns = ["start", "globalTid", "correlationId"];
    export.for_each_row("CUPTI_ACTIVITY_KIND_RUNTIME", &columns, &mut |fields| {
        let (Some(at), Some(thread), Some(id)) = (fields.int(0), fields.int(1), fields.number(2))
        else {
            return Ok(());
        };
        let Some(&kernel) = places.get(&(thread & !0xff_ffff, id)) else {
            return Ok(());
        };
        // The innermost range of the thread that it lies in.
        let behind = spans.partition_point(|span| (span.thread, span.start) <= (thread, at));
        let before = spans
            .get_mut(..behind)
            .unwrap_or_default()
            .iter_mut()
            .rev()
            .take(MAX_RANGES_BACK);
        let mut before = before.take_while(|span| span.thread == thread);
        if let Some(span) = before.find(|span| at <= span.end)
            && !span.kernels.contains(&kernel)
        {
            span.kernels.push(kernel);
        }
        Ok(())
    })?;
    Ok(kernels)
}

/// The one device of a process that ran kernels of NCCL's; none where there are several.
fn find_devices(kernels: &[NsysKernel]) -> FxHashMap<u64, Option<i64>> {
    let mut all = FxHashMap::default();
    for kernel in kernels {
        let known = all.entry(kernel.pid).or_insert(kernel.device);
        *known = known.filter(|_| *known == kernel.device);
    }
    all
}

/// What ran a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallExecution {
    /// Nothing that the record has.
    Unseen,
    /// Kernels from then to then, and on which device.
    From(i64, i64, Option<i64>, &'static str),
    /// One of several; which is not known.
    Unknown,
}

/// What ran a call of that range.
fn find_execution(
    span: &LaunchRange,
    call: &NsysCall,
    kernels: &[NsysKernel],
    members: &FxHashMap<(u64, u64), NsysMember>,
) -> CallExecution {
    let all = || span.kernels.iter().filter_map(|&at| kernels.get(at));
    let over = |kernels: &mut dyn Iterator<Item = &NsysKernel>, how| {
        let (mut times, mut device) = (None, None);
        for kernel in kernels {
            let (start, end) = times.unwrap_or((kernel.start, kernel.end));
            times = Some((start.min(kernel.start), end.max(kernel.end)));
            device = kernel.device;
        }
        times.map_or(CallExecution::Unseen, |(start, end)| {
            CallExecution::From(start, end, device, how)
        })
    };
    let one = match span.calls.len() {
        ..=1 => "kernel",
        _ => "kernel of a group",
    };
    match span.kernels.len() {
        0 => CallExecution::Unseen,
        1 => over(&mut all(), one),
        _ if span.calls.len() <= 1 => over(&mut all(), "several kernels"),
        // A process with several GPUs: its call is on that of its communicator.
        _ => {
            let member = call
                .facts
                .comm
                .and_then(|comm| members.get(&(pid_of_global(call.thread), comm)));
            let device = member.and_then(|member| member.facts.device);
            let mut there = all().filter(|kernel| device.is_some() && kernel.device == device);
            match (there.next(), there.next()) {
                (Some(kernel), None) => over(&mut std::iter::once(kernel), one),
                _ => CallExecution::Unknown,
            }
        }
    }
}

/// How many calls came before, by process, communicator, and for Send and Recv the operation and the peer.
type NsysSequences = FxHashMap<(u64, u64, Option<(usize, Option<i64>)>), u64>;

/// Hands on the row of a call.
fn emit_row(
    call: &NsysCall,
    op: &[u8],
    served: CallExecution,
    session: &RecorderSession,
    members: &FxHashMap<(u64, u64), NsysMember>,
    seqs: &mut NsysSequences,
    taking: &mut RowTaker<'_>,
) -> Result<()> {
    let facts = call.facts;
    let of = pid_of_global(call.thread);
    let member = facts.comm.and_then(|comm| members.get(&(of, comm)));
    let is_pair = op_kind(op).is_message();
    let seq = facts.comm.map(|comm| {
        let pair = is_pair.then_some((call.op, facts.root));
        let next = seqs.entry((of, comm, pair)).or_default();
        *next += 1;
        *next - 1
    });
    let (start, dur, device, quality) = match served {
        CallExecution::Unseen => (call.start, None, None, "enqueue only"),
        CallExecution::Unknown => (call.start, None, None, "one of several kernels"),
        CallExecution::From(start, end, device, how) => {
            (start, Some(end.abs_diff(start)), device, how)
        }
    };
    // Of a session without a date times are those of its own clock.
    let (start, clock) = match (session.utc_ns, dur) {
        (Some(utc), Some(_)) => (start.checked_add(utc), &b"gpu"[..]),
        (Some(utc), None) => (start.checked_add(utc), &b"unix"[..]),
        (None, _) => (Some(start), &b"nsys"[..]),
    };
    let timing = Timing {
        start_ns: start.and_then(|ns| u64::try_from(ns).ok()),
        dur_ns: dur,
        clock,
        quality: quality.as_bytes(),
        ..Timing::default()
    };
    let small = |of: fn(&RangeFacts) -> Option<i64>| {
        let value = member.and_then(|member| of(&member.facts));
        value.and_then(|n| u32::try_from(n).ok())
    };
    let device = device.or(facts.device).and_then(|n| u32::try_from(n).ok());
    let redop = facts.redop.and_then(|n| u64::try_from(n).ok());
    taking.take_row(&Row {
        host: &session.host,
        pid: Some(of),
        tid: Some(tid_of_global(call.thread)),
        dev: small(|facts| facts.device).or(device),
        rank: small(|facts| facts.rank),
        nranks: small(|facts| facts.nranks),
        comm_id: facts.comm.map(CommId::from_printed),
        seq: seq.filter(|_| member.is_some_and(|member| member.is_whole)),
        op,
        redop: redop.filter(|_| has_redop(op)).map(RedOp),
        root: facts.root.filter(|_| has_root(op)),
        only_bytes: facts.bytes,
        stream: facts.stream,
        calls: 1,
        src: b"nsys",
        timing: Some(&timing),
        ..Row::default()
    })
}
