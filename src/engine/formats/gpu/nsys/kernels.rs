//! NCCL's kernels, and the calls that they ran.
//!
//! A kernel belongs to the range around the call of CUDA that launched it: of the same thread, process and
//! correlation id. Inside a group that is the ncclGroupEnd that closes it, and the kernel runs all of its
//! calls.

use super::export::NsysExport;
use super::limits::MAX_RANGES_BACK;
use super::pid_of_global;
use super::ranges::{LaunchRange, NsysCall, NsysMembers};
use crate::error::Result;
use crate::formats::quality::WHOLE_KERNEL;
use crate::grammar::kernel;
use rustc_hash::FxHashMap;

/// A kernel of NCCL.
#[derive(Debug, Clone, Copy)]
pub(super) struct NsysKernel {
    start: i64,
    end: i64,
    device: Option<i64>,
    pid: u64,
}

/// Gives NCCL's kernels to the ranges that launched them.
pub(super) fn assign_kernels(
    export: &NsysExport,
    launches: &mut [LaunchRange],
) -> Result<Vec<NsysKernel>> {
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
    if launches.is_empty() {
        return Ok(kernels);
    }
    export.for_each_row("CUPTI_ACTIVITY_KIND_KERNEL", &columns, &mut |fields| {
        let Some(name) = (6..9).find_map(|at| fields.int(at)) else {
            return Ok(());
        };
        let is_nccl = *known
            .entry(name)
            .or_insert_with(|| kernel::op_of_kernel(&export.text_by_id(name)).is_some());
        // Kernels of a graph have its launch's number.
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
        // The innermost range of the thread around it.
        let after =
            launches.partition_point(|launch| (launch.thread, launch.start) <= (thread, at));
        let before = launches
            .get_mut(..after)
            .unwrap_or_default()
            .iter_mut()
            .rev()
            .take(MAX_RANGES_BACK);
        let mut before = before.take_while(|launch| launch.thread == thread);
        if let Some(launch) = before.find(|launch| at <= launch.end)
            && !launch.kernels.contains(&kernel)
        {
            launch.kernels.push(kernel);
        }
        Ok(())
    })?;
    Ok(kernels)
}

/// Finds the one device of each process that ran kernels of NCCL; none if there are several.
pub(super) fn find_devices(kernels: &[NsysKernel]) -> FxHashMap<u64, Option<i64>> {
    let mut all = FxHashMap::default();
    for kernel in kernels {
        let known = all.entry(kernel.pid).or_insert(kernel.device);
        *known = known.filter(|_| *known == kernel.device);
    }
    all
}

/// The kernels that ran a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallExecution {
    /// None that the export has.
    Unseen,
    /// Kernels: their first start, last end, device and description.
    From(i64, i64, Option<i64>, &'static str),
    /// An unknown one of several.
    Unknown,
}

/// Finds the kernels that ran a call of the range `launch`.
pub(super) fn find_execution(
    launch: &LaunchRange,
    call: &NsysCall,
    kernels: &[NsysKernel],
    members: &NsysMembers,
) -> CallExecution {
    let all = || launch.kernels.iter().filter_map(|&at| kernels.get(at));
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
    let one = match launch.calls.len() {
        ..=1 => WHOLE_KERNEL,
        _ => "kernel of a group",
    };
    match launch.kernels.len() {
        0 => CallExecution::Unseen,
        1 => over(&mut all(), one),
        _ if launch.calls.len() <= 1 => over(&mut all(), "several kernels"),
        // In a process with several GPUs, a call runs on the GPU of its communicator.
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
