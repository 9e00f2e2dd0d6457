//! nccl-proxy: the network's time by cause, from the operations of NCCL's proxy thread in traces of the
//! profiler plugin.
//!
//! An operation is one call's traffic on one channel with one peer. Each of its steps waits for a slot of
//! the buffer, for the GPU, for the peer and for the network; the plugin keeps the waits of the last steps
//! only, so that every sum has its number of steps.

mod limits;
mod notes;
mod table;

pub use notes::report_proxy_notes;
pub use table::{Options, ProxyColumn, incomplete_ops_grid, proxy_sums_grid};

use crate::count::calls::Options as Read;
use crate::count::member_filter::MemberFilter;
use crate::error::{Error, Result};
use crate::filter::{CallFilter, JobRankTable};
use crate::formats::Provides;
use crate::formats::open::{self, InputOutcomes};
use crate::formats::profiler::{self, ProfilerVisitor, ProxyOp, ProxyWait, TransferSide};
use crate::members::comm_id::CommId;
use crate::output::table::{Column, Row};
use crate::report::Report;
use crate::source::InputName;
use limits::{MAX_INCOMPLETE_OPS_KEPT, MAX_PROXY_LINKS};
use std::collections::BTreeMap;

/// The key of operations.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProxyKey {
    /// The call's operation; empty if the trace does not have the call.
    pub(crate) op: Box<[u8]>,
    pub(crate) side: TransferSide,
    /// The communicator's id and the rank in it.
    pub(crate) comm: Option<u64>,
    pub(crate) rank: Option<u64>,
    /// The rank in the job.
    pub(crate) global_rank: Option<u32>,
    pub(crate) channel: u64,
    pub(crate) peer: u64,
    /// Steps of an operation: operations with other numbers are not compared.
    pub(crate) steps: u64,
}

/// The sums of operations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProxySums {
    pub(crate) ops: u64,
    pub(crate) incomplete: u64,
    pub(crate) steps: u64,
    pub(crate) seen: u64,
    /// Bytes, and the number of operations with known bytes.
    pub(crate) bytes: u128,
    pub(crate) sized: u64,
    /// ns in the thread's queue.
    pub(crate) queued: u128,
    /// ns from the beginning of progress to its end, the number of operations, and their steps.
    pub(crate) busy: u128,
    pub(crate) timed: u64,
    pub(crate) timed_steps: u64,
    pub(crate) longest: u64,
    /// ns by wait, in the order of [`Wait::ALL`], and the number of waits.
    pub(crate) waits: [u128; 5],
    pub(crate) waited: [u64; 5],
}

impl ProxySums {
    fn add_op(&mut self, op: &ProxyOp) {
        let mut of = ProxySums {
            ops: 1,
            incomplete: u64::from(!op.is_complete()),
            steps: op.steps,
            seen: op.steps_seen(),
            ..ProxySums::default()
        };
        if let Some(bytes) = op.bytes {
            (of.bytes, of.sized) = (bytes.into(), 1);
        }
        let took = |from: Option<u64>, to: Option<u64>| to?.checked_sub(from?);
        of.queued = took(op.scheduled, op.begin).unwrap_or(0).into();
        if let Some(ns) = took(op.begin, op.end).filter(|_| op.is_complete()) {
            (of.busy, of.timed, of.timed_steps, of.longest) = (ns.into(), 1, op.steps, ns);
        }
        of.waits = op.waits.map(|(_, ns)| ns.into());
        of.waited = op.waits.map(|(n, _)| n);
        self.merge_sums(&of);
    }

    pub(crate) fn merge_sums(&mut self, of: &ProxySums) {
        let add = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        let sum = |a: &mut u128, b: u128| *a = a.saturating_add(b);
        add(&mut self.ops, of.ops);
        add(&mut self.incomplete, of.incomplete);
        add(&mut self.steps, of.steps);
        add(&mut self.seen, of.seen);
        sum(&mut self.bytes, of.bytes);
        add(&mut self.sized, of.sized);
        sum(&mut self.queued, of.queued);
        sum(&mut self.busy, of.busy);
        add(&mut self.timed, of.timed);
        add(&mut self.timed_steps, of.timed_steps);
        self.longest = self.longest.max(of.longest);
        for (a, b) in self.waits.iter_mut().zip(of.waits) {
            sum(a, b);
        }
        for (a, b) in self.waited.iter_mut().zip(of.waited) {
            add(a, b);
        }
    }

    /// Returns the wait that takes most of the steps' time, and its share.
    pub(crate) fn longest_wait(&self) -> Option<(ProxyWait, f64)> {
        let all: u128 = self.waits.iter().fold(0, |sum, ns| sum.saturating_add(*ns));
        // The first of equal waits.
        let most = ProxyWait::ALL
            .into_iter()
            .rev()
            .max_by_key(|wait| self.waits[*wait as usize])?;
        let ns = self.waits[most as usize];
        (ns > 0).then(|| (most, ns as f64 / all as f64))
    }
}

/// The operations of all traces.
#[derive(Debug, Default)]
pub struct ProxyOperations {
    pub(crate) sums: BTreeMap<ProxyKey, ProxySums>,
    /// Operations that did not end, in the order of the traces.
    pub(crate) open: Vec<ProxyOp>,
    calls: u64,
    ops: u64,
    /// Which operations count.
    filter: MemberFilter,
    /// The ranks of the job, as far as a log beside the traces shows them.
    job_ranks: JobRankTable,
}

impl ProxyOperations {
    /// The rank in the job of a communicator's rank.
    pub(crate) fn job_rank_of(&self, comm: Option<u64>, rank: Option<u64>) -> Option<u32> {
        let rank = u32::try_from(rank?).ok()?;
        self.job_ranks
            .rank_of_member(CommId::from_printed(comm?), rank)
    }

    fn is_wanted(&mut self, op: &ProxyOp) -> bool {
        self.filter.does_row_pass(&Row {
            op: &op.op,
            comm_id: op.comm.map(CommId::from_printed),
            rank: op.rank.and_then(|rank| u32::try_from(rank).ok()),
            global_rank: self.job_rank_of(op.comm, op.rank),
            calls: 1,
            ..Row::default()
        })
    }
}

impl ProfilerVisitor for ProxyOperations {
    fn visit_call(&mut self, _: &Row<'_>) -> Result<()> {
        self.calls += 1;
        Ok(())
    }

    fn visit_proxy_op(&mut self, op: &ProxyOp) {
        self.ops += 1;
        if !self.is_wanted(op) {
            return;
        }
        let key = ProxyKey {
            op: op.op.clone(),
            side: op.side,
            comm: op.comm,
            rank: op.rank,
            global_rank: self.job_rank_of(op.comm, op.rank),
            channel: op.channel,
            peer: op.peer,
            steps: op.steps,
        };
        // A trace has a few hundred of them; flipped bytes must not fill the memory.
        if self.sums.len() < MAX_PROXY_LINKS || self.sums.contains_key(&key) {
            self.sums.entry(key).or_default().add_op(op);
        }
        if !op.is_complete() && self.open.len() < MAX_INCOMPLETE_OPS_KEPT {
            self.open.push(op.clone());
        }
    }
}

/// The columns of an operation.
const PROXY_COLUMNS: [Column; 6] = [
    Column::op,
    Column::comm_id,
    Column::comm,
    Column::rank,
    Column::global_rank,
    Column::host,
];

/// Reads the operations of all traces that pass `filter`; `job_ranks` are the ranks of the job by communicator.
///
/// # Errors
/// No input could be read, or an input is not a trace; damage under `--strict`; the filter needs another column.
pub fn read_proxy_operations(
    origins: &[InputName],
    read: &Read,
    filter: &CallFilter,
    job_ranks: JobRankTable,
    report: &mut Report,
) -> Result<ProxyOperations> {
    let (source, strict) = (read.source, read.log.strict);
    let mut found = ProxyOperations {
        filter: MemberFilter::new(filter, &PROXY_COLUMNS)?,
        job_ranks,
        ..ProxyOperations::default()
    };
    let mut outcome = InputOutcomes::new(origins);
    for origin in origins {
        let before = (found.ops, found.calls);
        let known = open::open_input::<()>(origin, source, Provides::PROXY);
        // A folder may also have logs.
        if origin.is_listed() && matches!(known, Err(Error::Content(_))) {
            continue;
        }
        let read = known.and_then(|known| {
            let mut account = profiler::read_trace(known.input(), &mut found)?;
            account.calls = found.calls - before.1;
            if strict {
                crate::log::first_damage_error(&known.name(), &account)?;
            }
            report.report_input(&known.name(), &account);
            if (found.ops, found.calls) == before {
                report.warn(&format!(
                    "{}: the trace has no call: the plugin records nothing without \
                     NCCL_PROFILE_EVENT_MASK",
                    known.name()
                ));
            }
            Ok(())
        });
        outcome.add_result(origin, read, report)?;
    }
    outcome.finish(report)?;
    if report.count_inputs() == 0 {
        let none = "none of the files is a trace of NCCL's profiler plugin";
        return Err(Error::Content(none.to_owned()));
    }
    found.filter.report_as("operation", report);
    if found.ops == 0 && found.calls > 0 {
        report.warn(
            "the traces have no operation of the proxy thread: nothing went over a network, or \
             NCCL_PROFILE_EVENT_MASK lacks 8 (operations) and 16 (steps)",
        );
    }
    Ok(found)
}
