//! The events of a trace, in order: calls, and the operations of the proxy thread that served them.
//!
//! Only the order of the lines shows which events belong together: ids collide. At most one event of
//! each level is open and a limited number of calls is held, so that memory does not grow with the trace.

use super::call::{GpuSpan, ProfilerApiCall, ProfilerCall, named};
use super::event::{ProfilerEvent, ProfilerEventKind, ProfilerLine, parse_line};
use super::kernels::TracedKernels;
use super::limits::{MAX_HELD_CALLS, MAX_REMEMBERED};
use super::proxy::{ProxyOp, ProxyWait, TransferSide};
use crate::error::Result;
use crate::output::table::{Lacks, Row};
use crate::report::account::{Account, LineClass};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Takes the calls and operations of a trace.
pub trait ProfilerVisitor {
    /// A call.
    ///
    /// # Errors
    /// Its own.
    fn visit_call(&mut self, row: &Row<'_>) -> Result<()>;
    /// An operation of the proxy thread.
    fn visit_proxy_op(&mut self, _op: &ProxyOp) {}
}

/// A mistake of the plugin that is repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TraceRepair {
    /// The start of an API call is printed as 0.
    StartOfZero,
    /// The end of a KernelCh is printed as 0.
    EndOfZero,
    /// An event of an earlier call in a slot that was used again.
    Stale,
    /// transSize still has the bytes of an earlier call.
    TransSize,
    /// AllGather and Broadcast count bytes.
    InBytes,
    /// A text without quotes.
    Bare,
    /// A quote of a word processor.
    Curly,
    /// Kernel times that cannot be the call's, or that contradict those of other calls.
    OtherKernel,
    /// An end before its beginning.
    Backwards,
    /// A beginning or an end without the other.
    Unpaired,
}

const REPAIR_SENTENCES: [(TraceRepair, &str); 10] = [
    (TraceRepair::StartOfZero, "starts printed as 0"),
    (TraceRepair::EndOfZero, "ends of KernelCh printed as 0"),
    (TraceRepair::Stale, "events of earlier calls"),
    (TraceRepair::TransSize, "accumulated transSize"),
    (TraceRepair::InBytes, "counts in bytes"),
    (TraceRepair::Bare, "texts without quotes"),
    (TraceRepair::Curly, "curly quotes"),
    (
        TraceRepair::OtherKernel,
        "kernel times withheld as other calls'",
    ),
    (TraceRepair::Backwards, "ends before their beginning"),
    (TraceRepair::Unpaired, "events with one end missing"),
];

/// Reads a trace.
#[derive(Debug, Default)]
pub(super) struct ProfilerTrace {
    /// When the open group of API calls began.
    group: Option<u64>,
    api: Option<ProfilerApiCall>,
    call: Option<ProfilerCall>,
    op: Option<ProxyOp>,
    /// A wait that has begun, and its start; none for a stale operation.
    wait: Option<(ProxyWait, u64)>,
    /// A kernel's channel that has begun.
    kernel: Option<GpuSpan>,
    kernels: TracedKernels,
    /// The number of the open group.
    group_number: u64,
    /// Calls that wait: later kernel times may contradict theirs.
    held: VecDeque<HeldCall>,
    /// The communicator and rank of each process, if all of its calls are of one.
    owners: FxHashMap<u64, Option<(u64, u64)>>,
    repairs: [u64; REPAIR_SENTENCES.len()],
    /// The next SeqNum by communicator and operation, to find calls that the plugin dropped.
    next: FxHashMap<(u64, Box<[u8]>), u64>,
    missing: u64,
    /// The smallest transSize by shape: the true one.
    sizes: FxHashMap<(bool, u64, u64), u64>,
}

impl ProfilerTrace {
    /// Reads the next line.
    pub(super) fn read_line(
        &mut self,
        text: &[u8],
        account: &mut Account,
        visit: &mut dyn ProfilerVisitor,
    ) -> Result<()> {
        let event = match parse_line(text) {
            ProfilerLine::Event(event) => event,
            ProfilerLine::Frame => {
                account.count_line(LineClass::Other);
                return Ok(());
            }
            ProfilerLine::Foreign => {
                account.count_line(LineClass::Foreign);
                return Ok(());
            }
            ProfilerLine::Damaged(lacks) => {
                account.count_damaged_line(lacks, text);
                return Ok(());
            }
        };
        if event.is_curly {
            self.count_repair(TraceRepair::Curly);
        }
        match self.take_event(&event, visit)? {
            Ok(class) => account.count_line(class),
            Err(lacks) => account.count_damaged_line(lacks, text),
        }
        Ok(())
    }

    /// The trace has ended.
    pub(super) fn finish(
        &mut self,
        account: &mut Account,
        visit: &mut dyn ProfilerVisitor,
    ) -> Result<()> {
        self.close_api(visit)?;
        while !self.held.is_empty() {
            self.emit_first_held(visit, true)?;
        }
        for ((_, name), n) in REPAIR_SENTENCES.iter().zip(self.repairs) {
            if n > 0 {
                *account.repairs.entry((*name).into()).or_default() += n;
            }
        }
        account.missing += self.missing;
        Ok(())
    }

    fn count_repair(&mut self, repair: TraceRepair) {
        self.repairs[repair as usize] += 1;
    }

    fn take_event(
        &mut self,
        event: &ProfilerEvent<'_>,
        visit: &mut dyn ProfilerVisitor,
    ) -> Result<Result<LineClass, Lacks>> {
        let other = Ok(Ok(LineClass::Other));
        match event.cat {
            ProfilerEventKind::Group | ProfilerEventKind::GroupApi => {
                self.close_api(visit)?;
                self.group_number += 1;
                self.group = (event.is_begin && event.ts > 0).then_some(event.ts);
            }
            ProfilerEventKind::KernelLaunch => {
                if event.is_begin && event.ts == 0 {
                    self.count_repair(TraceRepair::StartOfZero);
                }
                if event.is_begin && event.args.is_bare("Stream") {
                    self.count_repair(TraceRepair::Bare);
                }
            }
            ProfilerEventKind::CollApi | ProfilerEventKind::P2pApi => {
                self.close_api(visit)?;
                if event.is_begin {
                    if event.ts == 0 {
                        self.count_repair(TraceRepair::StartOfZero);
                    }
                    if event.args.is_bare("datatype") {
                        self.count_repair(TraceRepair::Bare);
                    }
                    match ProfilerApiCall::from_event(event, self.group) {
                        Some(api) => self.api = Some(api),
                        None => return Ok(Err("the arguments of an API call")),
                    }
                }
            }
            ProfilerEventKind::Coll | ProfilerEventKind::P2p | ProfilerEventKind::CeColl => {
                return self.take_call(event, visit);
            }
            ProfilerEventKind::Gpu => self.take_kernel_channel(event),
            ProfilerEventKind::Proxy => self.take_proxy_event(event, visit),
            ProfilerEventKind::Net => self.take_net_event(event),
            ProfilerEventKind::NetIb | ProfilerEventKind::NetSock => {
                if let (Some(op), true) = (&mut self.op, event.is_begin && self.wait.is_some()) {
                    op.net_bytes += event.args.number("size").unwrap_or(0);
                }
            }
            ProfilerEventKind::CeSync | ProfilerEventKind::CeBatch => {}
        }
        other
    }

    fn take_call(
        &mut self,
        event: &ProfilerEvent<'_>,
        visit: &mut dyn ProfilerVisitor,
    ) -> Result<Result<LineClass, Lacks>> {
        if !event.is_begin {
            match &mut self.call {
                Some(call) if *call.name == *named(event.name) => call.end = Some(event.ts),
                _ => self.count_repair(TraceRepair::Unpaired),
            }
            self.close_call(visit)?;
            return Ok(Ok(LineClass::Other));
        }
        self.close_call(visit)?;
        let Some(call) = ProfilerCall::from_event(event) else {
            return Ok(Err("the arguments of a call"));
        };
        if let (Some(comm), Some(seq)) = (call.comm, call.seq) {
            let known = self.next.len() < MAX_REMEMBERED;
            let key = (comm, call.name.clone());
            if known || self.next.contains_key(&key) {
                let next = self.next.entry(key).or_default();
                self.missing = self.missing.saturating_add(seq.saturating_sub(*next));
                *next = (*next).max(seq.saturating_add(1));
            }
        }
        if self.owners.len() < MAX_REMEMBERED && call.comm.is_some() {
            let (_, comm, rank) = call.kernel_owner();
            let owner = comm.zip(rank);
            let known = self.owners.entry(event.pid).or_insert(owner);
            *known = known.filter(|known| Some(*known) == owner);
        }
        self.call = Some(call);
        Ok(Ok(LineClass::Call))
    }

    /// A channel of the call's kernel.
    fn take_kernel_channel(&mut self, event: &ProfilerEvent<'_>) {
        if event.is_begin {
            if self.kernel.take().is_some() {
                self.count_repair(TraceRepair::Unpaired);
            }
            let Some(call) = &mut self.call else {
                return;
            };
            if event.ts < call.begin {
                self.count_repair(TraceRepair::Stale);
                return;
            }
            call.channels += 1;
            let clock = |key| event.args.number(key).unwrap_or(0);
            self.kernel = Some(GpuSpan {
                start: clock("StartGpuClk"),
                stop: clock("StopGpuClk"),
            });
            return;
        }
        let (Some(span), Some(call)) = (self.kernel.take(), &mut self.call) else {
            return;
        };
        let seen = Some(event.ts).filter(|&ts| ts > 0);
        // The launch may come before the plugin's event of the call.
        let made = self.group.map_or(call.begin, |group| group.min(call.begin));
        let group = (self.group_number, made);
        if !self.kernels.check_channel(call, group, span, seen) {
            call.has_other_kernel = true;
        }
        match seen {
            Some(seen) => call.end_kernel_channel(span, seen),
            None => self.count_repair(TraceRepair::EndOfZero),
        }
    }

    fn take_proxy_event(&mut self, event: &ProfilerEvent<'_>, visit: &mut dyn ProfilerVisitor) {
        let (side, phase) = match event.name {
            b"Send" => (TransferSide::Send, ProxyPhase::All),
            b"Recv" => (TransferSide::Recv, ProxyPhase::All),
            b"ScheduleSend" => (TransferSide::Send, ProxyPhase::Schedule),
            b"ScheduleRecv" => (TransferSide::Recv, ProxyPhase::Schedule),
            b"ProgressSend" => (TransferSide::Send, ProxyPhase::Progress),
            b"ProgressRecv" => (TransferSide::Recv, ProxyPhase::Progress),
            // The thread's own: Idle, Sleep, Append.
            _ => return self.close_op(visit),
        };
        if !event.is_begin {
            match (&mut self.op, phase) {
                (Some(op), ProxyPhase::Schedule) if op.side == side => {
                    op.scheduled_until = Some(event.ts);
                }
                (Some(op), _) if op.side == side => {
                    op.end = Some(event.ts);
                    self.close_op(visit);
                }
                _ => self.count_repair(TraceRepair::Unpaired),
            }
            return;
        }
        // The operation was scheduled before.
        let same = |op: &ProxyOp| op.side == side && op.begin.is_none() && op.is_same(event.args);
        if phase == ProxyPhase::Progress
            && let Some(op) = self.op.as_mut().filter(|op| same(op))
        {
            op.begin = Some(event.ts);
            return;
        }
        self.close_op(visit);
        let mut op = ProxyOp::from_args(event.args, side);
        match phase {
            ProxyPhase::Schedule => op.scheduled = Some(event.ts),
            ProxyPhase::All | ProxyPhase::Progress => op.begin = Some(event.ts),
        }
        if let Some(call) = &self.call {
            op.op = call.name.clone();
            (op.comm, op.rank, op.seq) = (call.comm, call.rank, call.seq);
            op.is_stale = event.ts < call.begin;
        }
        if op.is_stale {
            self.count_repair(TraceRepair::Stale);
        }
        let shape = (side == TransferSide::Send, op.steps, op.chunk);
        if let Some(bytes) = op.bytes
            && (self.sizes.len() < MAX_REMEMBERED || self.sizes.contains_key(&shape))
        {
            let least = self.sizes.entry(shape).or_insert(bytes);
            *least = (*least).min(bytes);
            if bytes > *least && op.phases.is_none() {
                self.count_repair(TraceRepair::TransSize);
            }
        }
        // Without phases (v4 and later) transSize may be the sum of several calls.
        op.bytes = op.bytes.filter(|_| op.phases.is_some());
        self.op = Some(op);
    }

    fn take_net_event(&mut self, event: &ProfilerEvent<'_>) {
        let Some(op) = &mut self.op else {
            return;
        };
        let Some(wait) = ProxyWait::from_name(event.name) else {
            return;
        };
        if event.is_begin {
            if self.wait.take().is_some() {
                self.count_repair(TraceRepair::Unpaired);
                return;
            }
            let from = op.begin.or(op.scheduled).unwrap_or(0);
            if op.is_stale || event.ts < from {
                self.count_repair(TraceRepair::Stale);
                return;
            }
            op.last = Some(wait);
            self.wait = Some((wait, event.ts));
            return;
        }
        let Some((open, from)) = self.wait.take() else {
            return;
        };
        if open != wait {
            self.count_repair(TraceRepair::Unpaired);
        } else if event.ts < from {
            self.count_repair(TraceRepair::Backwards);
        } else {
            op.add_wait(wait, event.ts - from);
        }
    }

    fn close_op(&mut self, visit: &mut dyn ProfilerVisitor) {
        self.wait = None;
        let Some(mut op) = self.op.take().filter(|op| !op.is_stale) else {
            return;
        };
        op.end_if_done();
        if let (Some(call), Some(end)) = (&mut self.call, op.end) {
            call.end_proxy_op(end);
        }
        visit.visit_proxy_op(&op);
    }

    fn close_call(&mut self, visit: &mut dyn ProfilerVisitor) -> Result<()> {
        self.close_op(visit);
        self.kernel = None;
        let Some(call) = self.call.take() else {
            return Ok(());
        };
        if let Some(api) = &mut self.api {
            api.has_call = true;
        }
        if call.is_in_bytes(self.api.as_ref()) {
            self.count_repair(TraceRepair::InBytes);
        }
        self.hold_call(HeldCall::Made(Box::new(call), self.api.clone()), visit)
    }

    /// Holds a call until later ones cannot contradict it, or too many are held.
    fn hold_call(&mut self, call: HeldCall, visit: &mut dyn ProfilerVisitor) -> Result<()> {
        self.held.push_back(call);
        match self.held.len() > MAX_HELD_CALLS {
            true => self.emit_first_held(visit, false),
            false => Ok(()),
        }
    }

    /// Hands over the first call that is held; `is_over`: all calls are known.
    fn emit_first_held(&mut self, visit: &mut dyn ProfilerVisitor, is_over: bool) -> Result<()> {
        match self.held.pop_front() {
            None => Ok(()),
            Some(HeldCall::Api(api)) => {
                let owner = self.owners.get(&api.pid).copied().flatten();
                api.emit_row(owner.filter(|_| is_over), |row| visit.visit_call(row))
            }
            Some(HeldCall::Made(mut call, api)) => {
                let is_other = call.has_other_kernel || self.kernels.is_contradicted(&call);
                if is_other && call.withhold_kernel() {
                    self.count_repair(TraceRepair::OtherKernel);
                }
                call.emit_row(api.as_ref(), |row| visit.visit_call(row))
            }
        }
    }

    fn close_api(&mut self, visit: &mut dyn ProfilerVisitor) -> Result<()> {
        self.close_call(visit)?;
        match self.api.take() {
            Some(api) if !api.has_call => self.hold_call(HeldCall::Api(api), visit),
            _ => Ok(()),
        }
    }
}

/// A call that waits until its row is handed over.
#[derive(Debug)]
enum HeldCall {
    /// With the API call that it belongs to.
    Made(Box<ProfilerCall>, Option<ProfilerApiCall>),
    /// An API call alone.
    Api(ProfilerApiCall),
}

/// The parts of an operation of the proxy thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProxyPhase {
    /// v1 to v3 have one.
    All,
    Schedule,
    Progress,
}
