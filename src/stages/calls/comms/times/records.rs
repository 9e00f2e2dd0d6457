//! The calls that a recorder saw, by communicator, rank and order.

use super::super::limits::{MIN_NS_SINCE_1970, UNKNOWN_RECORDED_SHAPE};
use super::shapes::{CallClass, ComparedShapes};
use crate::members::comm_id::CommId;
use crate::output::table::{Row, Timing};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The columns of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordedTiming {
    dur_ns: Option<u64>,
    start_ns: Option<u64>,
    nchannels: Option<u32>,
    /// When the program enqueued it, before NCCL wrote its line: ns since 1970.
    pub(super) enqueue_ns: Option<i64>,
    clock: Box<[u8]>,
    quality: Box<[u8]>,
    algo: Box<[u8]>,
    proto: Box<[u8]>,
    pg_name: Box<[u8]>,
    pg_desc: Box<[u8]>,
}

impl RecordedTiming {
    fn from_row(row: &Row<'_>) -> RecordedTiming {
        let times = row.times();
        // A dump has no other start than the enqueue.
        let start = times.start_ns.filter(|_| is_of_dump(row));
        let enqueue = row.enqueue_ns.or(start);
        RecordedTiming {
            enqueue_ns: enqueue
                .filter(|ns| *ns >= MIN_NS_SINCE_1970)
                .and_then(|ns| i64::try_from(ns).ok()),
            dur_ns: times.dur_ns,
            start_ns: times.start_ns,
            nchannels: times.nchannels,
            clock: times.clock.into(),
            quality: times.quality.into(),
            algo: times.algo.into(),
            proto: times.proto.into(),
            pg_name: times.pg_name.into(),
            pg_desc: times.pg_desc.into(),
        }
    }

    pub(super) fn timing(&self) -> Timing<'_> {
        Timing {
            dur_ns: self.dur_ns,
            start_ns: self.start_ns,
            nchannels: self.nchannels,
            clock: &self.clock,
            quality: &self.quality,
            algo: &self.algo,
            proto: &self.proto,
            pg_name: &self.pg_name,
            pg_desc: &self.pg_desc,
        }
    }
}

/// Returns true if a row is of a dump of PyTorch's flight recorder.
fn is_of_dump(row: &Row<'_>) -> bool {
    row.src == b"flight"
}

/// The place of a recorded call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum RecordOrder {
    /// Its number among those of the operation: the profiler plugin's SeqNum, NCCL Inspector's `coll_sn`.
    OfOperation(Box<[u8]>),
    /// Its number among all collectives of the communicator, or the messages with a peer.
    OfCommunicator,
    /// The order alone, without a gap or with unknown ones: PyTorch's flight recorder does not see what a CUDA
    /// graph captures.
    Order { is_contiguous: bool },
}

/// Which process's communicator a record is of, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) struct RecordedMember {
    /// The input, for records that do not name a communicator and rank.
    pub(super) input: usize,
    pub(super) host: Box<[u8]>,
    pub(super) pid: Option<u64>,
    pub(super) comm_id: Option<CommId>,
    group: (Box<[u8]>, Box<[u8]>),
    pub(super) rank: Option<u32>,
    pub(super) nranks: Option<u32>,
}

/// A recorded call.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordedCall {
    /// Its number, where it has one.
    pub(super) number: u64,
    pub(super) shape: u32,
    /// The number of its timing.
    pub(super) timing: u32,
}

/// The calls of a member that have one order.
pub(super) type RecordedClasses = FxHashMap<(CallClass, RecordOrder), Vec<RecordedCall>>;

/// All records.
#[derive(Debug, Default)]
pub(super) struct TimingRecords {
    pub(super) timings: Vec<RecordedTiming>,
    pub(super) members: BTreeMap<RecordedMember, RecordedClasses>,
    /// Records without a communicator, rank or number.
    pub(super) unnamed: u64,
    /// The number of the input that is being read.
    pub(super) input: usize,
}

impl TimingRecords {
    pub(super) fn add_record(&mut self, row: &Row<'_>, shapes: &mut ComparedShapes) {
        let by_operation = matches!(row.src, b"profiler" | b"inspector");
        let times = row.times();
        let named = row.comm_id.zip(row.rank);
        let mut of = RecordedMember {
            comm_id: row.comm_id,
            rank: row.rank,
            ..RecordedMember::default()
        };
        let order = match (named, row.seq) {
            (Some(_), Some(_)) if by_operation => RecordOrder::OfOperation(row.op.into()),
            (Some(_), Some(_)) => RecordOrder::OfCommunicator,
            _ if by_operation || (row.comm_id.is_none() && times.pg_name.is_empty()) => {
                self.unnamed += 1;
                return;
            }
            _ => {
                (of.input, of.host, of.pid) = (self.input, row.host.into(), row.pid);
                of.group = (times.pg_name.into(), times.pg_desc.into());
                of.nranks = row.nranks;
                let is_contiguous = !is_of_dump(row);
                RecordOrder::Order { is_contiguous }
            }
        };
        let call = RecordedCall {
            number: row.seq.unwrap_or_default(),
            shape: shapes.number_of(row).unwrap_or(UNKNOWN_RECORDED_SHAPE),
            timing: self.timings.len() as u32,
        };
        self.timings.push(RecordedTiming::from_row(row));
        let classes = self.members.entry(of).or_default();
        let calls = classes.entry((CallClass::of_row(row), order)).or_default();
        calls.push(call);
    }

    /// Puts numbered calls in order; of several with one number the first counts, if they do not differ.
    pub(super) fn sort_numbered(&mut self) {
        let classes = self.members.values_mut().flatten();
        for ((_, order), calls) in classes {
            if matches!(order, RecordOrder::Order { .. }) {
                continue;
            }
            calls.sort_by_key(|call| call.number);
            calls.dedup_by(|later, first| {
                let is_again = later.number == first.number;
                if is_again && later.shape != first.shape {
                    first.shape = UNKNOWN_RECORDED_SHAPE;
                }
                is_again
            });
        }
    }
}
