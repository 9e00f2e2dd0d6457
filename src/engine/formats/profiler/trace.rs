//! The events of a trace, in order: calls, and the operations of the proxy thread that served them.
//!
//! Which event belongs to which is told by the order of the lines alone: ids collide. At most one
//! event of each level is open, so that memory does not grow with the trace.

use super::call::{Api, Call, named};
use super::event::{Cat, Event, Line, line};
use super::proxy::{Op, Side, Wait};
use crate::error::Result;
use crate::output::table::{Lacks, Row};
use crate::report::account::{Account, Class};
use rustc_hash::FxHashMap;

/// Who takes what a trace has.
pub trait Visit {
    /// A call.
    ///
    /// # Errors
    /// Its own.
    fn call(&mut self, row: &Row<'_>) -> Result<()>;
    /// An operation of the proxy thread.
    fn proxy(&mut self, _op: &Op) {}
}

/// What the plugin gets wrong, and how often that was made good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repair {
    /// The start of an API call is printed as 0.
    StartOfZero,
    /// The end of a KernelCh is printed as 0.
    EndOfZero,
    /// An event of an earlier call whose slot was used again.
    Stale,
    /// transSize was added to what it was for an earlier call.
    TransSize,
    /// AllGather and Broadcast count bytes.
    InBytes,
    /// A text without quotes.
    Bare,
    /// A quote of a word processor.
    Curly,
    /// Times of a kernel that began before the call was enqueued: NCCL took another call's.
    OtherKernel,
    /// An end before its beginning.
    Backwards,
    /// An end whose beginning is not there, or a beginning whose end is not.
    Unpaired,
}

const REPAIRS: [(Repair, &str); 10] = [
    (Repair::StartOfZero, "starts printed as 0"),
    (Repair::EndOfZero, "ends of KernelCh printed as 0"),
    (Repair::Stale, "events of earlier calls"),
    (Repair::TransSize, "accumulated transSize"),
    (Repair::InBytes, "counts in bytes"),
    (Repair::Bare, "texts without quotes"),
    (Repair::Curly, "curly quotes"),
    (Repair::OtherKernel, "kernel times of other calls"),
    (Repair::Backwards, "ends before their beginning"),
    (Repair::Unpaired, "events with one end missing"),
];

/// Reads a trace.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// When the group of API calls began that is open.
    group: Option<u64>,
    api: Option<Api>,
    call: Option<Call>,
    op: Option<Op>,
    /// A wait that has begun; not of one that is stale.
    wait: Option<(Wait, u64)>,
    /// A kernel's channel that has begun: start and stop on the GPU's clock.
    kernel: Option<(u64, u64)>,
    clocks: Clocks,
    repairs: [u64; REPAIRS.len()],
    /// The next SeqNum by communicator and operation, to find calls that the plugin dropped.
    next: FxHashMap<(u64, Box<[u8]>), u64>,
    missing: u64,
    /// The smallest transSize by shape: the true one.
    sizes: FxHashMap<(bool, u64, u64), u64>,
}

/// Communicators and shapes that are remembered: a trace has a few.
const REMEMBERED: usize = 1 << 16;

impl Trace {
    /// Reads the next line.
    pub(super) fn line(
        &mut self,
        text: &[u8],
        account: &mut Account,
        visit: &mut dyn Visit,
    ) -> Result<()> {
        let event = match line(text) {
            Line::Event(event) => event,
            Line::Frame => {
                account.line(Class::Other);
                return Ok(());
            }
            Line::Foreign => {
                account.line(Class::Foreign);
                return Ok(());
            }
            Line::Damaged(lacks) => {
                account.damage(lacks, text);
                return Ok(());
            }
        };
        if event.is_curly {
            self.repaired(Repair::Curly);
        }
        match self.event(&event, visit)? {
            Ok(class) => account.line(class),
            Err(lacks) => account.damage(lacks, text),
        }
        Ok(())
    }

    /// The trace has ended.
    pub(super) fn end(&mut self, account: &mut Account, visit: &mut dyn Visit) -> Result<()> {
        self.close_api(visit)?;
        for ((_, name), n) in REPAIRS.iter().zip(self.repairs) {
            if n > 0 {
                *account.repairs.entry((*name).into()).or_default() += n;
            }
        }
        account.missing += self.missing;
        Ok(())
    }

    fn repaired(&mut self, repair: Repair) {
        self.repairs[repair as usize] += 1;
    }

    fn event(&mut self, event: &Event<'_>, visit: &mut dyn Visit) -> Result<Result<Class, Lacks>> {
        let other = Ok(Ok(Class::Other));
        match event.cat {
            Cat::Group | Cat::GroupApi => {
                self.close_api(visit)?;
                self.group = (event.is_begin && event.ts > 0).then_some(event.ts);
            }
            Cat::KernelLaunch => {
                if event.is_begin && event.ts == 0 {
                    self.repaired(Repair::StartOfZero);
                }
                if event.is_begin && event.args.is_bare("Stream") {
                    self.repaired(Repair::Bare);
                }
            }
            Cat::CollApi | Cat::P2pApi => {
                self.close_api(visit)?;
                if event.is_begin {
                    if event.ts == 0 {
                        self.repaired(Repair::StartOfZero);
                    }
                    if event.args.is_bare("datatype") {
                        self.repaired(Repair::Bare);
                    }
                    match Api::of(event, self.group) {
                        Some(api) => self.api = Some(api),
                        None => return Ok(Err("the arguments of an API call")),
                    }
                }
            }
            Cat::Coll | Cat::P2p | Cat::CeColl => return self.call(event, visit),
            Cat::Gpu => self.gpu(event),
            Cat::Proxy => self.proxy(event, visit),
            Cat::Net => self.net(event),
            Cat::NetIb | Cat::NetSock => {
                if let (Some(op), true) = (&mut self.op, event.is_begin && self.wait.is_some()) {
                    op.net_bytes += event.args.number("size").unwrap_or(0);
                }
            }
            Cat::CeSync | Cat::CeBatch => {}
        }
        other
    }

    fn call(&mut self, event: &Event<'_>, visit: &mut dyn Visit) -> Result<Result<Class, Lacks>> {
        if !event.is_begin {
            match &mut self.call {
                Some(call) if *call.name == *named(event.name) => call.end = Some(event.ts),
                _ => self.repaired(Repair::Unpaired),
            }
            self.close_call(visit)?;
            return Ok(Ok(Class::Other));
        }
        self.close_call(visit)?;
        let Some(call) = Call::of(event) else {
            return Ok(Err("the arguments of a call"));
        };
        if let (Some(comm), Some(seq)) = (call.comm, call.seq) {
            let known = self.next.len() < REMEMBERED;
            let key = (comm, call.name.clone());
            if known || self.next.contains_key(&key) {
                let next = self.next.entry(key).or_default();
                self.missing = self.missing.saturating_add(seq.saturating_sub(*next));
                *next = (*next).max(seq.saturating_add(1));
            }
        }
        self.call = Some(call);
        Ok(Ok(Class::Call))
    }

    /// A channel of the call's kernel.
    fn gpu(&mut self, event: &Event<'_>) {
        if event.is_begin {
            if self.kernel.take().is_some() {
                self.repaired(Repair::Unpaired);
            }
            let Some(call) = &mut self.call else {
                return;
            };
            if event.ts < call.begin {
                self.repaired(Repair::Stale);
                return;
            }
            call.channels += 1;
            let clock = |key| event.args.number(key).unwrap_or(0);
            self.kernel = Some((clock("StartGpuClk"), clock("StopGpuClk")));
            return;
        }
        let Some((start, stop)) = self.kernel.take() else {
            return;
        };
        if event.ts == 0 {
            self.repaired(Repair::EndOfZero);
            return;
        }
        let Some(call) = &mut self.call else {
            return;
        };
        if start > 0 && stop >= start && !self.clocks.fit((start, stop), call.begin, event.ts) {
            self.repaired(Repair::OtherKernel);
            return;
        }
        call.kernel(start, stop, event.ts);
    }

    fn proxy(&mut self, event: &Event<'_>, visit: &mut dyn Visit) {
        let (side, phase) = match event.name {
            b"Send" => (Side::Send, Phase::All),
            b"Recv" => (Side::Recv, Phase::All),
            b"ScheduleSend" => (Side::Send, Phase::Schedule),
            b"ScheduleRecv" => (Side::Recv, Phase::Schedule),
            b"ProgressSend" => (Side::Send, Phase::Progress),
            b"ProgressRecv" => (Side::Recv, Phase::Progress),
            // The thread's own: Idle, Sleep, Append.
            _ => return self.close_op(visit),
        };
        if !event.is_begin {
            match (&mut self.op, phase) {
                (Some(op), Phase::Schedule) if op.side == side => {
                    op.scheduled_until = Some(event.ts);
                }
                (Some(op), _) if op.side == side => {
                    op.end = Some(event.ts);
                    self.close_op(visit);
                }
                _ => self.repaired(Repair::Unpaired),
            }
            return;
        }
        // The second part of what was scheduled.
        let same = |op: &Op| op.side == side && op.begin.is_none() && op.is_same(event.args);
        if phase == Phase::Progress
            && let Some(op) = self.op.as_mut().filter(|op| same(op))
        {
            op.begin = Some(event.ts);
            return;
        }
        self.close_op(visit);
        let mut op = Op::of(event.args, side);
        match phase {
            Phase::Schedule => op.scheduled = Some(event.ts),
            Phase::All | Phase::Progress => op.begin = Some(event.ts),
        }
        if let Some(call) = &self.call {
            op.op = call.name.clone();
            (op.comm, op.rank, op.seq) = (call.comm, call.rank, call.seq);
            op.is_stale = event.ts < call.begin;
        }
        if op.is_stale {
            self.repaired(Repair::Stale);
        }
        let shape = (side == Side::Send, op.steps, op.chunk);
        if let Some(bytes) = op.bytes
            && (self.sizes.len() < REMEMBERED || self.sizes.contains_key(&shape))
        {
            let least = self.sizes.entry(shape).or_insert(bytes);
            *least = (*least).min(bytes);
            if bytes > *least && op.phases.is_none() {
                self.repaired(Repair::TransSize);
            }
        }
        // Where there are no phases (v4 and later) it may be that of several calls, from the first on.
        op.bytes = op.bytes.filter(|_| op.phases.is_some());
        self.op = Some(op);
    }

    fn net(&mut self, event: &Event<'_>) {
        let Some(op) = &mut self.op else {
            return;
        };
        let Some(wait) = Wait::of(event.name) else {
            return;
        };
        if event.is_begin {
            if self.wait.take().is_some() {
                self.repaired(Repair::Unpaired);
                return;
            }
            let from = op.begin.or(op.scheduled).unwrap_or(0);
            if op.is_stale || event.ts < from {
                self.repaired(Repair::Stale);
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
            self.repaired(Repair::Unpaired);
        } else if event.ts < from {
            self.repaired(Repair::Backwards);
        } else {
            op.waited(wait, event.ts - from);
        }
    }

    fn close_op(&mut self, visit: &mut dyn Visit) {
        self.wait = None;
        let Some(op) = self.op.take() else {
            return;
        };
        if op.is_stale {
            return;
        }
        if let (Some(call), Some(end)) = (&mut self.call, op.end) {
            call.proxied(end);
        }
        visit.proxy(&op);
    }

    fn close_call(&mut self, visit: &mut dyn Visit) -> Result<()> {
        self.close_op(visit);
        self.kernel = None;
        let Some(call) = self.call.take() else {
            return Ok(());
        };
        if let Some(api) = &mut self.api {
            api.has_call = true;
        }
        if call.is_in_bytes(self.api.as_ref()) {
            self.repaired(Repair::InBytes);
        }
        call.row(self.api.as_ref(), |row| visit.call(row))
    }

    fn close_api(&mut self, visit: &mut dyn Visit) -> Result<()> {
        self.close_call(visit)?;
        match self.api.take() {
            Some(api) if !api.has_call => api.row(|row| visit.call(row)),
            _ => Ok(()),
        }
    }
}

/// How far the GPU's clock is ahead of the host's, at least: no kernel ends after its end was seen.
#[derive(Debug, Default)]
struct Clocks(Option<(i128, u64)>);

impl Clocks {
    /// How much the two clocks may be apart, besides what they drift: one part in 10,000.
    const SLACK: u64 = 10_000;

    /// False where a kernel began before its call was enqueued: times of the GPU, when the call was
    /// enqueued, and when the kernel's end was seen.
    fn fit(&mut self, (start, stop): (u64, u64), begin: u64, seen: u64) -> bool {
        let ahead = i128::from(stop) - i128::from(seen);
        let before = i128::from(start) - i128::from(begin);
        if let Some((least, at)) = self.0 {
            let slack = Self::SLACK.saturating_add(begin.abs_diff(at) / 10_000);
            if before < least - i128::from(slack) {
                return false;
            }
        }
        if self.0.is_none_or(|(least, _)| ahead > least) {
            self.0 = Some((ahead, seen));
        }
        true
    }
}

/// The parts of an operation of the proxy thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// v1 to v3 have one.
    All,
    Schedule,
    Progress,
}
