//! What nccl-diff and nccl-matrix keep of a log in one walk: calls and lines about communicators, networks
//! and connections, TUNING lines.

use crate::count::tally::{self, Tally};
use crate::log::{MergedChunk, timeline};
use crate::stages::InputStage as _;
use crate::stages::benchmark::{BenchmarkPartial, BenchmarkTables};
use crate::stages::communicators::{self, CommunicatorSides};
use crate::stages::net::{self, net_stage::FirstReportLine};
use crate::stages::tuning::{self, tuning_stage::TuningStage as Tuning};

/// The part of one chunk.
pub(super) type SnapshotPartial = (
    communicators::CommunicatorsPartial,
    (
        net::fold::NetPartial,
        (tuning::fold::TuningPartial, BenchmarkPartial),
    ),
);

/// Returns an empty part.
pub(super) fn empty_partial(tally: &tally::Options) -> SnapshotPartial {
    (
        communicators::CommunicatorsPartial::new(tally),
        Default::default(),
    )
}

/// The sum of all chunks.
pub(super) struct RunSnapshot {
    /// The calls of the input in hand.
    pub(super) tally: Tally,
    pub(super) sides: CommunicatorSides,
    pub(super) net: net::net_stage::NetStage,
    pub(super) tuning: Tuning,
    /// The tables of nccl-tests of the input in hand.
    pub(super) benchmarks: BenchmarkTables,
}

impl RunSnapshot {
    /// Begins a run of `inputs`.
    pub(super) fn new(tally: tally::Options, inputs: usize, jobs: usize) -> RunSnapshot {
        RunSnapshot {
            tally: Tally::new(tally, inputs, jobs),
            sides: CommunicatorSides::default(),
            net: net::net_stage::NetStage::default(),
            tuning: Tuning::default(),
            benchmarks: BenchmarkTables::default(),
        }
    }

    /// Begins a log.
    pub(super) fn begin_log(&mut self, name: String) {
        self.net.begin_input(name);
        self.benchmarks = BenchmarkTables::default();
        self.tally.clear();
    }

    /// Adds a chunk that follows what was added before.
    pub(super) fn add_chunk(
        &mut self,
        part: MergedChunk<'_, SnapshotPartial>,
        steps: &timeline::Options,
    ) {
        let ((calls, (net, (tuning, benchmarks))), part) = part.take_visit();
        let (calls, heard) = calls.into_parts();
        let from = FirstReportLine {
            input: self.net.current_input(),
            line: part.line,
        };
        self.sides.add_lines(heard, part.to, from, part.merged);
        self.tally.add_chunk(part.with_visit(calls), steps);
        self.net.add_chunk(part.with_visit(net));
        self.benchmarks.add_chunk(benchmarks, part.line);
        self.tuning.add_chunk(part.with_visit(tuning));
    }
}
