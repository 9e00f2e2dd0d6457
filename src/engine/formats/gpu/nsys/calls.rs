//! Calls of NCCL from its NVTX ranges, with the times of the kernels that ran them, as rows of the call
//! table.

use super::export::NsysExport;
use super::kernels::{CallExecution, assign_kernels, find_devices, find_execution};
use super::pid_of_global;
use super::ranges::{NsysCall, NsysMembers, NsysRanges, read_ranges};
use super::text::RangeFacts;
use super::timeline::{self, tid_of_global};
use crate::error::Result;
use crate::formats::gpu::RecorderSession;
use crate::formats::ordered::RowTaker;
use crate::grammar::values::{RedOp, has_redop, has_root, op_kind};
use crate::members::comm_id::CommId;
use crate::output::table::{Row, Timing};
use crate::report::count_phrase;
use rustc_hash::FxHashMap;

/// Reads the calls.
///
/// # Errors
/// Those of `taking`.
pub(super) fn read_calls(export: &NsysExport, taking: &mut RowTaker<'_>) -> Result<()> {
    let session = timeline::read_session(export)?;
    let mut ranges = read_ranges(export, taking)?;
    report_missing(&ranges, taking);
    let (mut calls, mut launches) = ranges.take_calls();
    let kernels = assign_kernels(export, &mut launches)?;
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_by_key(|&at| calls.get(at).map(|call| (call.start, call.thread)));
    let mut seqs = FxHashMap::default();
    let devices = find_devices(&kernels);
    for at in order {
        let Some(call) = calls.get_mut(at) else {
            continue;
        };
        let launch = call.launch.and_then(|launch| launches.get(launch));
        let served = launch.map_or(CallExecution::Unseen, |launch| {
            find_execution(launch, call, &kernels, &ranges.members)
        });
        let op = ranges.ops.get(call.op).cloned().unwrap_or_default();
        // The only GPU of a process runs all its calls.
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

/// Notes parts of the calls that the export lacks.
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

/// The calls so far, by process, communicator, and for Send and Recv the operation and the peer.
type NsysSequences = FxHashMap<(u64, u64, Option<(usize, Option<i64>)>), u64>;

/// Hands on the row of a call.
fn emit_row(
    call: &NsysCall,
    op: &[u8],
    served: CallExecution,
    session: &RecorderSession,
    members: &NsysMembers,
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
    // Without a date, times are on the session's own clock.
    let (start, clock) = match (session.utc_ns, dur) {
        (Some(utc), Some(_)) => (start.checked_add(utc), &b"gpu"[..]),
        (Some(utc), None) => (start.checked_add(utc), &b"unix"[..]),
        (None, _) => (Some(start), &b"nsys"[..]),
    };
    let enqueue = call.start.checked_add(session.utc_ns.unwrap_or(0));
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
        src: super::FORMAT.name.as_bytes(),
        timing: Some(&timing),
        enqueue_ns: enqueue.and_then(|ns| u64::try_from(ns).ok()),
        ..Row::default()
    })
}
