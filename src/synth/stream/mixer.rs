//! The ranks' lines of a stretch of the job, mixed at random but in program order within a
//! rank, and what happens to them on the way.

use crate::clock::JobClock;
use crate::error::Result;
use crate::fault::CallCounter;
use crate::job::SynthJob;
use crate::job::call::{CallOp, ScheduledCall};
use crate::nccl::net::{self, TuningRow};
use crate::nccl::shapes::{self, CallLineFields, CutOffsets, LineFronts};
use crate::options::{Damage, Nccl, Options};
use crate::rng::Rng;
use crate::stream::damage::{DamageRates, WrittenCallLine};
use crate::stream::prefix::LauncherPrefixes;
use crate::stream::writer::LineWriter;
use crate::truth::Truth;
use crate::truth::cells::TruthCells;

/// A COLL line that was built.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BuiltCallLine {
    pub(crate) rank: usize,
    op: CallOp,
    cell: usize,
    pub(crate) comm: usize,
    /// The group goes on after it.
    more: bool,
    pub(crate) marks: CutOffsets,
}

/// How a call's line came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallLineFate {
    Whole,
    Lost,
}

/// Where a rank is in its program.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProgramCursor {
    /// The step it is in.
    pub(crate) step: u64,
    pub(crate) call: usize,
    /// Group start, COLL, CALL twin, group end.
    part: u8,
    /// The values on the COLL line; its CALL twin repeats them.
    shown: Option<CallLineFields>,
    /// Calls from here on are held back.
    pub(crate) stop: usize,
}

impl ProgramCursor {
    /// At the beginning of a step's calls.
    pub(crate) fn new(program: &[ScheduledCall], step: u64) -> Self {
        Self {
            step,
            stop: program.len(),
            ..Self::default()
        }
    }
}

/// True where the rank itself sends or receives over the network: only such calls are counted,
/// so that members of a communicator with several ranks a host count differently.
fn uses_network(job: &SynthJob, rank: usize, call: &ScheduledCall) -> bool {
    let member = &job.procs[rank].members[call.slot];
    let ranks = &job.comms[member.comm].ranks;
    let n = ranks.len();
    let node = |i: usize| ranks.get(i).map(|&rank| job.procs[rank].node);
    let mut others = match call.op {
        CallOp::Send | CallOp::Recv => vec![call.root],
        _ => vec![(member.rank + 1) % n, (member.rank + n - 1) % n],
    };
    others.retain(|&other| node(other) != node(member.rank));
    !others.is_empty()
}

/// Mixes the ranks.
pub(crate) struct LineMixer<'a> {
    /// The options.
    pub options: &'a Options,
    /// This life of the job.
    pub job: SynthJob,
    /// Launcher prefixes.
    pub prefixes: LauncherPrefixes,
    /// The physical lines.
    pub writer: LineWriter<'a>,
    /// The clock of all ranks.
    pub clock: JobClock,
    /// Chance.
    pub rng: Rng,
    /// Its truth.
    pub truth: Truth,
    /// The distinct calls.
    pub cells: TruthCells,
    pub(crate) fates: DamageRates,
    fronts: Vec<LineFronts>,
    pub(crate) cursors: Vec<ProgramCursor>,
    /// Ranks that may have calls to make.
    pub(crate) active: Vec<usize>,
    pub(crate) line: Vec<u8>,
    calls: Vec<(usize, usize)>,
    /// TUNING lines of a group that goes on, by rank, with their thread.
    tunings: Vec<Vec<(TuningRow, bool)>>,
    /// Sees the calls of a job with a wrong one.
    pub(crate) watch: Option<CallCounter>,
}

impl<'a> LineMixer<'a> {
    /// Ready for the first life of the job.
    pub(crate) fn new(options: &'a Options, writer: LineWriter<'a>) -> Self {
        let job = SynthJob::new(options, 0);
        Self {
            options,
            prefixes: LauncherPrefixes::new(options.prefix, options.trainer, &job),
            fronts: job.procs.iter().map(LineFronts::new).collect(),
            job,
            writer,
            clock: JobClock::default(),
            rng: Rng::new(options.seed),
            truth: Truth::default(),
            cells: TruthCells::default(),
            fates: DamageRates::new(options),
            cursors: Vec::new(),
            active: Vec::new(),
            line: Vec::with_capacity(4096),
            calls: Vec::new(),
            tunings: vec![Vec::new(); options.ranks],
            watch: None,
        }
    }

    /// The job comes back with new processes.
    pub(crate) fn restart_processes(&mut self) {
        self.job = SynthJob::new(self.options, self.job.segment + 1);
        self.fronts = self.job.procs.iter().map(LineFronts::new).collect();
        self.prefixes = LauncherPrefixes::new(self.options.prefix, self.options.trainer, &self.job);
    }

    /// Writes all ranks' calls of a stretch that takes `us` microseconds. The last call of
    /// `hold` is kept back for [`Mixer::held`].
    pub(crate) fn write_stretch(
        &mut self,
        programs: &[Vec<ScheduledCall>],
        step: u64,
        us: u64,
        hold: Option<usize>,
    ) -> Result<()> {
        let tick = self.start_stretch(programs, step, us);
        if let Some(rank) = hold {
            let made = |c: &ScheduledCall| step.is_multiple_of(c.every);
            self.cursors[rank].stop = programs[rank].iter().rposition(made).unwrap_or(0);
        }
        while !self.active.is_empty() {
            let at = self.rng.below(self.active.len());
            let rank = self.active[at];
            for _ in 0..=self.rng.below(4) {
                if !self.skip_unmade_calls(&programs[rank], rank) {
                    self.active.swap_remove(at);
                    break;
                }
                self.write_next_line(programs, rank)?;
                self.clock.advance(tick);
            }
        }
        Ok(())
    }

    /// All ranks are at the beginning of a stretch; how long a line takes.
    pub(crate) fn start_stretch(
        &mut self,
        programs: &[Vec<ScheduledCall>],
        step: u64,
        us: u64,
    ) -> u64 {
        self.cursors.clear();
        let cursors = programs.iter().map(|p| ProgramCursor::new(p, step));
        self.cursors.extend(cursors);
        self.active.clear();
        self.active.extend(0..programs.len());
        let lines: usize = programs.iter().map(Vec::len).sum();
        us / (lines as u64 + 1)
    }

    /// Moves over calls this step does not make; false at the end of the program.
    pub(crate) fn skip_unmade_calls(&mut self, program: &[ScheduledCall], rank: usize) -> bool {
        let cursor = &mut self.cursors[rank];
        while cursor.call < cursor.stop {
            if cursor.step.is_multiple_of(program[cursor.call].every) {
                return true;
            }
            cursor.call += 1;
        }
        false
    }

    /// Another rank with a line to write, on the node of rank `beside` where one is given.
    pub(crate) fn choose_other_rank(
        &mut self,
        programs: &[Vec<ScheduledCall>],
        not: &[usize],
        beside: Option<usize>,
    ) -> Option<usize> {
        let node = beside.map(|rank| self.job.procs[rank].node);
        let start = self.rng.below(self.active.len());
        for i in 0..self.active.len() {
            let rank = self.active[(start + i) % self.active.len()];
            let there = node.is_none_or(|node| self.job.procs[rank].node == node);
            if there && !not.contains(&rank) && self.skip_unmade_calls(&programs[rank], rank) {
                return Some(rank);
            }
        }
        None
    }

    /// Builds a rank's next line in `self.line`; none for a CALL line.
    pub(crate) fn build_line(
        &mut self,
        program: &[ScheduledCall],
        rank: usize,
    ) -> Option<BuiltCallLine> {
        let cursor = &mut self.cursors[rank];
        let call = &program[cursor.call];
        let (proc, fronts) = (&self.job.procs[rank], &self.fronts[rank]);
        self.line.clear();
        self.prefixes
            .write_prefix(&mut self.line, rank, &self.clock);
        self.clock
            .write_nccl_stamp(&mut self.line, self.options.timestamps);
        let trace = self.options.trace;
        let group = call.more || call.task > 0;
        if trace && cursor.part == 0 && group && call.task == 0 {
            self.line
                .extend_from_slice(fronts.call_front(call.backward));
            self.line.extend_from_slice(b"ncclGroupStart()");
            cursor.part = 1;
            self.truth.records.call += 1;
            return None;
        }
        if cursor.part <= 1 {
            return Some(self.build_coll_line(call, rank));
        }
        self.truth.records.call += 1;
        match cursor.shown.take() {
            Some(shown) => {
                shapes::write_call_line(&mut self.line, proc, fronts, call, shown);
                if group && !call.more {
                    return None;
                }
            }
            None => {
                self.line
                    .extend_from_slice(fronts.call_front(call.backward));
                self.line.extend_from_slice(b"ncclGroupEnd()");
            }
        }
        (cursor.call, cursor.part) = (cursor.call + 1, 0);
        None
    }

    /// Builds the NCCL line of a call in `self.line`.
    fn build_coll_line(&mut self, call: &ScheduledCall, rank: usize) -> BuiltCallLine {
        let cursor = &mut self.cursors[rank];
        let (proc, fronts) = (&self.job.procs[rank], &self.fronts[rank]);
        let nccl = self.options.nccl;
        let member = &proc.members[call.slot];
        let (comm, op_count) = (member.comm, member.op_count);
        // proxy.cc counts, and on one node nothing goes through a proxy (nccl#2021).
        let mut still = nccl.since(Nccl::V2_27) && self.job.comms[comm].nodes == 1;
        if self.options.lead.is_some() && nccl.since(Nccl::V2_27) {
            still = !uses_network(&self.job, rank, call);
        }
        if !call.more && !still {
            self.job.procs[rank].members[call.slot].op_count += 1;
        }
        let (count, cell) = call.count_and_cell(self.options, cursor.step);
        let buffer = 0x7f00_0000_0000 + ((self.rng.next_bits() & 0x7ff_ffff) << 9);
        let shown = CallLineFields::new(nccl, call, op_count, count, buffer);
        let proc = &self.job.procs[rank];
        if let Some(watch) = &mut self.watch {
            let place = (cursor.step, cursor.call);
            let line = self.writer.line_number(rank);
            watch.record_call(rank, place, call, count, line);
        }
        let marks =
            shapes::write_coll_line(&mut self.line, nccl, &self.job, proc, fronts, call, shown);
        if self.options.trace {
            (cursor.part, cursor.shown) = (2, Some(shown));
        } else {
            cursor.call += 1;
        }
        let first = proc.members[call.slot].rank == 0;
        if let Some(row) = net::tune_call(
            self.options,
            &self.job.comms[comm],
            call.op,
            self.cells.bytes(cell),
        )
        .filter(|_| self.options.tuning && first)
        {
            self.tunings[rank].push((row, call.backward));
        }
        BuiltCallLine {
            rank,
            op: call.op,
            cell,
            comm,
            more: call.more,
            marks,
        }
    }

    /// Counts a call.
    pub(crate) fn count_call(&mut self, built: BuiltCallLine, came: CallLineFate) {
        self.truth.calls += 1;
        self.truth.records.coll += 1;
        match came {
            CallLineFate::Whole => {
                self.truth
                    .count_readable_call(&mut self.cells, built.cell, built.comm);
            }
            CallLineFate::Lost => self.truth.count_lost_call(built.op),
        }
    }

    /// Writes the line just built, whole.
    pub(crate) fn write_whole_line(
        &mut self,
        rank: usize,
        built: Option<BuiltCallLine>,
    ) -> Result<()> {
        if std::mem::take(&mut self.writer.mid_line) && built.is_some() {
            self.truth.records.behind_a_bar += 1;
        }
        let at = self.writer.write_line(rank, &self.line)?;
        let Some(built) = built else { return Ok(()) };
        let length = self.line.len();
        if let Some(shared) = self.writer.shared_file() {
            // Whether it stays whole is known when all is written.
            let stream = at + built.marks.stream;
            let tag = self.calls.len();
            shared.remember_call(WrittenCallLine {
                rank,
                from: at,
                to: at + length,
                stream,
                tag,
            });
            self.calls.push((built.cell, built.comm));
            self.truth.calls += 1;
            self.truth.records.coll += 1;
            return Ok(());
        }
        self.count_call(built, CallLineFate::Whole);
        if built.more {
            return Ok(());
        }
        for (row, backward) in std::mem::take(&mut self.tunings[rank]) {
            self.line.clear();
            self.prefixes
                .write_prefix(&mut self.line, rank, &self.clock);
            self.clock
                .write_nccl_stamp(&mut self.line, self.options.timestamps);
            let front = self.fronts[rank].info_front(backward);
            self.line.extend_from_slice(front);
            let body = net::format_tuning_line(self.options.nccl, &row);
            self.line.extend_from_slice(body.as_bytes());
            self.writer.write_line(rank, &self.line)?;
            self.truth.count_tuning(row);
        }
        Ok(())
    }

    /// The log ends inside the line of a call.
    pub(crate) fn cut_log(&mut self) -> Result<()> {
        let rank = self.rng.below(self.options.ranks);
        let proc = &self.job.procs[rank];
        self.line.clear();
        self.prefixes
            .write_prefix(&mut self.line, rank, &self.clock);
        self.clock
            .write_nccl_stamp(&mut self.line, self.options.timestamps);
        self.line
            .extend_from_slice(self.fronts[rank].info_front(false));
        let text = format!("AllReduce: opCount 0 sendbuff {:#x} recvbuff ", proc.stream);
        self.line.extend_from_slice(text.as_bytes());
        let cut = 1 + self.rng.below(self.line.len() - 1);
        let piece = self.line.get(..cut).unwrap_or_default();
        self.writer.write_last_piece(rank, piece)
    }

    /// Everything is written: the last of the truth.
    pub(crate) fn finish(mut self) -> Result<Truth> {
        let (lines, size, shared) = self.writer.finish()?;
        (self.truth.lines, self.truth.size) = (lines, size);
        if let Some(shared) = shared {
            for (written, whole, but_stream) in shared.calls() {
                let (cell, comm) = self.calls[written.tag];
                if whole {
                    self.truth.count_readable_call(&mut self.cells, cell, comm);
                } else {
                    self.truth.count_lost_call(self.cells.op(cell));
                    self.truth.count_damage(Damage::Overwritten, 1, 1);
                    self.truth.count_lost_stream_end(but_stream);
                }
            }
        }
        self.truth.finish(&self.cells);
        Ok(self.truth)
    }
}
