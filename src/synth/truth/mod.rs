//! The contents of the log, counted while it is written and not read back from it.

mod calls_by_step;
pub(crate) mod cells;
pub(crate) mod rows;

use crate::fault::{self, FaultRow};
use crate::job::SynthJob;
use crate::job::call::CallOp;
use crate::job::schedule::ProgramStretch;
use crate::job::split::JobCommSplit;
use crate::nccl::net::{self, ConnectionRow, TuningRow};
use crate::options::{Damage, LogLayout, Options};
use crate::stream::writer::file_name;
use crate::truth::calls_by_step::CallsByStep;
use crate::truth::cells::TruthCells;
use crate::truth::rows::{
    BetweenStepsRow, BucketRow, CellRow, CommRow, DamageHits, JoinableCalls, LostCallsRow,
    MemberRow, OpRow, RecordCounts, StepTruthRow, TruthCallSum,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// The whole truth; its JSON form is what `--truth` writes.
#[derive(Debug, Default, Serialize)]
pub struct Truth {
    /// The options it was made with, as far as they shape the numbers.
    pub job: BTreeMap<&'static str, String>,
    /// Processes, one GPU each.
    pub gpus: usize,
    /// Physical lines: newline bytes.
    pub lines: u64,
    /// Bytes written.
    pub size: u64,
    /// Lines NCCL wrote.
    pub nccl_lines: u64,
    /// Lines by what wrote them.
    pub records: RecordCounts,
    /// COLL calls the job made.
    pub calls: u64,
    /// Calls with a whole line somewhere.
    pub intact_calls: u64,
    /// Step lines in order.
    pub steps: Vec<StepTruthRow>,
    /// Calls between steps that belong to none.
    pub between: TruthCallSum,
    /// The stretches these calls were made in.
    pub between_stretches: Vec<BetweenStepsRow>,
    /// Calls after the last step line.
    pub after: TruthCallSum,
    /// By operation.
    pub ops: BTreeMap<&'static str, OpRow>,
    /// By operation and size.
    pub buckets: Vec<BucketRow>,
    /// By operation, count, datatype and kind of communicator.
    pub cells: Vec<CellRow>,
    /// All lives' communicators.
    pub communicators: Vec<CommRow>,
    /// The transport between ranks, under `--net`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<ConnectionRow>,
    /// TUNING lines, under `--tuning`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tuning: Vec<(TuningRow, u64)>,
    /// The fault, under `--fault`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultRow>,
    /// The damage done, by kind.
    pub damage: BTreeMap<&'static str, DamageHits>,
    /// Counted in `calls` and nowhere else.
    pub lost: LostCallsRow,
    /// Counted in everything but `intact_calls`.
    pub joinable: JoinableCalls,
    /// Under `--lead`: by file (`stream` where there is one stream), the step each whole call was
    /// made in, in the order of the lines; null for calls of no step.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub call_steps: BTreeMap<String, Vec<Option<u64>>>,
    #[serde(skip)]
    placed: Option<CallsByStep>,
    #[serde(skip)]
    tuned: BTreeMap<TuningRow, u64>,
    #[serde(skip)]
    open: TruthCallSum,
    #[serde(skip)]
    comm_base: usize,
}

impl Truth {
    /// Begins a life of the job: its communicators come after those of earlier lives.
    pub fn begin_life(&mut self, options: &Options, job: &SynthJob) {
        let mut connections = net::connection_rows(options, job);
        fault::edit_connections(options, job, &mut connections);
        self.connections.extend(connections);
        self.comm_base = self.communicators.len();
        for (i, comm) in job.comms.iter().enumerate() {
            let members = comm.ranks.iter().enumerate().map(|(rank, &global_rank)| {
                let proc = &job.procs[global_rank];
                let ptr = proc
                    .members
                    .iter()
                    .find(|m| m.comm == i)
                    .map_or(0, |m| m.ptr);
                MemberRow {
                    rank,
                    global_rank,
                    host: proc.host.clone(),
                    pid: proc.pid,
                    dev: proc.dev,
                    comm: format!("{ptr:#x}"),
                }
            });
            let split = JobCommSplit::split_of_comm(options, job, i);
            self.communicators.push(CommRow {
                segment: job.segment,
                comm_id: split
                    .and_then(|split| split.common_id(options.nccl, job))
                    .unwrap_or_else(|| format!("{:#x}", comm.id)),
                parent: split.map(|_| format!("{:#x}", job.comms[0].id)),
                color: split.map(|split| split.color),
                kind: comm.kind.name(),
                nranks: comm.ranks.len(),
                nodes: comm.nodes,
                sum: TruthCallSum::default(),
                members: members.collect(),
            });
        }
        self.fault = fault::fact(options, job, &self.communicators);
        if let Some(placed) = &mut self.placed {
            let files = match options.layout {
                LogLayout::PerRank => job.procs.iter().map(file_name).collect(),
                LogLayout::Stream | LogLayout::Blocks => vec!["stream".to_owned()],
            };
            placed.begin_life(job.segment, files);
        }
    }

    /// Calls are counted in the step they are made in, wherever their lines are.
    pub(super) fn place_calls(&mut self) {
        self.placed = Some(CallsByStep::default());
    }

    /// The next call is one of a rank's, made in a stretch of the job.
    pub(super) fn place_next_call(&mut self, rank: usize, stretch: ProgramStretch, step: u64) {
        if let Some(placed) = &mut self.placed {
            placed.place_next_call(rank, stretch, step);
        }
    }

    /// A TUNING line.
    pub fn count_tuning(&mut self, row: TuningRow) {
        *self.tuned.entry(row).or_default() += 1;
        self.records.other += 1;
    }

    /// A call that can be read whole, at once or after joining.
    pub fn count_readable_call(&mut self, cells: &mut TruthCells, cell: usize, comm: usize) {
        let bytes = cells.bytes(cell);
        cells.count_call(cell);
        match &mut self.placed {
            Some(placed) => placed.count_call(bytes),
            None => self.open.add_calls(1, bytes),
        }
        self.communicators[self.comm_base + comm]
            .sum
            .add_calls(1, bytes);
    }

    /// A call that cannot.
    pub fn count_lost_call(&mut self, op: CallOp) {
        self.lost.calls += 1;
        *self.lost.by_op.entry(op.name()).or_default() += 1;
    }

    /// The call just lost has all but the end of its stream.
    pub fn count_lost_stream_end(&mut self, only: bool) {
        self.lost.in_stream_only += u64::from(only);
    }

    /// Damage was done.
    pub fn count_damage(&mut self, kind: Damage, lines: u64, calls: u64) {
        let hits = self.damage.entry(kind.name()).or_default();
        hits.lines += lines;
        hits.calls += calls;
    }

    /// A step line was printed: the calls since the last one are its.
    pub fn close_step(
        &mut self,
        segment: u64,
        step: u64,
        steps: u64,
        time_s: Option<f64>,
        tflops: Option<f64>,
    ) {
        let sum = std::mem::take(&mut self.open);
        self.steps.push(StepTruthRow {
            segment,
            step,
            steps,
            sum,
            time_s,
            tflops,
        });
    }

    /// Sets the open calls aside, so that a stretch that is no step can be counted alone.
    pub fn set_open_calls_aside(&mut self) -> TruthCallSum {
        std::mem::take(&mut self.open)
    }

    /// That stretch is over: the open calls belong to no step; `aside` is open again.
    pub fn close_between_steps(
        &mut self,
        segment: u64,
        after_step: u64,
        what: &'static str,
        aside: TruthCallSum,
    ) {
        let sum = std::mem::replace(&mut self.open, aside);
        self.between.add_calls(sum.calls, sum.bytes);
        self.between_stretches.push(BetweenStepsRow {
            segment,
            after_step,
            what,
            sum,
        });
    }

    /// The line of the step that was closed last is printed only now (MaxText).
    pub fn set_step_time(
        &mut self,
        segment: u64,
        step: u64,
        time_s: Option<f64>,
        tflops: Option<f64>,
    ) {
        if let Some(last) = self.steps.last_mut()
            && (last.segment, last.step) == (segment, step)
        {
            (last.time_s, last.tflops) = (time_s, tflops);
        }
    }

    /// Calls made and not closed off since the last step line.
    pub fn open_calls(&self) -> u64 {
        self.open.calls
    }

    /// Everything is written.
    pub fn finish(&mut self, cells: &TruthCells) {
        self.after = std::mem::take(&mut self.open);
        if let Some(mut placed) = self.placed.take() {
            (self.between_stretches, self.after) = placed.finish(&mut self.steps);
            for row in &self.between_stretches {
                self.between.add_calls(row.sum.calls, row.sum.bytes);
            }
            self.call_steps = placed.steps;
        }
        self.tuning = std::mem::take(&mut self.tuned).into_iter().collect();
        let joinable = self.joinable.torn + self.joinable.spliced + self.joinable.orphan;
        self.intact_calls = self.calls - self.lost.calls - joinable;
        let r = self.records;
        self.nccl_lines = r.coll + r.call + r.other;
        let tables = cells.build_tables();
        (self.ops, self.buckets, self.cells) = (tables.ops, tables.buckets, tables.cells);
    }
}
