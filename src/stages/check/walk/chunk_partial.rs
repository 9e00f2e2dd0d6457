//! What a chunk keeps of everything.

use super::Requested;
use crate::count::tally;
use crate::grammar::message::NcclMessage;
use crate::grammar::message::c10d::C10dMessage;
use crate::log::placement::CallRecorder;
use crate::log::walk::{LogCall, LogVisitor, MessageLine, RepairedCall};
use crate::stages::benchmark::BenchmarkPartial;
use crate::stages::check::log::overwritten::HeaderRemains;
use crate::stages::check::streams::{self, reread_chunk::RereadChunk};
use crate::stages::check::warn::warnings;
use crate::stages::net::net_stage::FirstReportLine;
use crate::stages::skew::walked::times;
use crate::stages::{communicators, net, survey, tuning};
use serde::{Deserialize, Serialize};

/// One chunk's part of everything.
#[derive(Serialize, Deserialize)]
pub(super) struct CheckPartial {
    pub(super) communicators: communicators::CommunicatorsPartial,
    pub(super) net: net::fold::NetPartial,
    pub(super) streams: streams::StreamsPartial,
    pub(super) sums: survey::SurveyPartial,
    pub(super) warnings: warnings::WarnPartial,
    pub(super) lines: LineKindFlags,
    pub(super) remains: HeaderRemains,
    pub(super) benchmarks: BenchmarkPartial,
    /// If requested.
    pub(super) tuning: Option<tuning::fold::TuningPartial>,
    /// If requested.
    pub(super) times: Option<times::SkewPartial>,
    /// A pipe's calls, which cannot be read again. A pipe is walked on the machine that reads it.
    #[serde(skip)]
    pub(super) again: Option<(RereadChunk<'static>, CallRecorder)>,
}

/// What kinds of lines there are.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct LineKindFlags {
    /// PyTorch's watchdog reports that a call took too long.
    pub(crate) hung: bool,
    /// Calls with a time stamp.
    pub(crate) stamped: bool,
    /// Calls without.
    pub(crate) bare: bool,
    /// WARN lines with a time stamp.
    pub(crate) stamped_warns: bool,
    /// WARN lines.
    pub(crate) warns: bool,
    /// RCCL's lines of kernels.
    pub(crate) kernels: bool,
    /// The first line that NCCL prints only under NCCL_DEBUG=INFO.
    pub(crate) informs: Option<FirstReportLine>,
    /// The last line of an input that is not NCCL's and not empty.
    pub(crate) last_foreign: Option<FirstReportLine>,
}

impl LineKindFlags {
    pub(super) fn merge_kinds(&mut self, other: LineKindFlags) {
        self.hung |= other.hung;
        self.stamped |= other.stamped;
        self.bare |= other.bare;
        self.stamped_warns |= other.stamped_warns;
        self.warns |= other.warns;
        self.kernels |= other.kernels;
        self.informs = self.informs.or(other.informs);
        self.last_foreign = other.last_foreign.or(self.last_foreign);
    }

    /// Creates the results of a chunk that begins at line `line` of the input `input`.
    pub(super) fn shift_to_input(mut self, input: u32, line: u64) -> LineKindFlags {
        let place = |at: FirstReportLine| at.place_in_input(input, line);
        self.informs = self.informs.map(place);
        self.last_foreign = self.last_foreign.map(place);
        self
    }
}

impl CheckPartial {
    pub(super) fn new(
        tally: &tally::Options,
        asked: Option<&Requested>,
        is_piped: bool,
    ) -> CheckPartial {
        CheckPartial {
            communicators: communicators::CommunicatorsPartial::new(tally),
            net: net::fold::NetPartial::default(),
            streams: streams::StreamsPartial::default(),
            sums: survey::SurveyPartial::default(),
            warnings: warnings::WarnPartial::default(),
            lines: LineKindFlags::default(),
            remains: HeaderRemains::default(),
            benchmarks: BenchmarkPartial::default(),
            tuning: asked.map(|_| tuning::fold::TuningPartial::default()),
            times: Requested::skew_placement(asked).map(times::SkewPartial::new),
            again: is_piped.then(|| (RereadChunk::new(None), CallRecorder::default())),
        }
    }
}

impl LogVisitor for CheckPartial {
    const MESSAGES: bool = true;
    const FOREIGN: bool = true;
    const BENCHMARKS: bool = true;

    fn benchmark_line(&mut self, line: &[u8], number: u64) {
        self.benchmarks.benchmark_line(line, number);
    }

    fn foreign(&mut self, line: &[u8], number: u64) {
        if line.iter().any(|b| !b.is_ascii_whitespace()) {
            self.lines.last_foreign = Some(FirstReportLine::in_chunk(number));
        }
        let Some(what) = self.warnings.take_foreign_line(line, number) else {
            return;
        };
        // A rank that Horovod waits for may be slow only.
        if !matches!(what, C10dMessage::NotDestroyed(_) | C10dMessage::Stalled(_)) {
            self.lines.hung = true;
            self.streams.note_hang();
        }
    }

    fn message(&mut self, said: &MessageLine<'_>) {
        self.communicators.message(said);
        self.net.message(said);
        self.warnings.take_message(said);
        self.remains.take_message(said);
        self.tuning.message(said);
        match said.message {
            NcclMessage::Warn(_) => {
                self.lines.warns = true;
                self.lines.stamped_warns |= !said.time.is_empty();
            }
            NcclMessage::Kernel(_) => self.lines.kernels = true,
            // Also printed under WARN, and after a WARN.
            NcclMessage::Version(_) | NcclMessage::Return(_) => {}
            _ => {
                self.lines
                    .informs
                    .get_or_insert(FirstReportLine::in_chunk(said.line));
            }
        }
    }

    #[inline(always)]
    fn call(&mut self, call: &LogCall<'_>) {
        self.communicators.call(call);
        self.net.call(call);
        self.streams.add_call(call);
        self.sums.call(call);
        self.warnings.count_call(call.process);
        self.tuning.call(call);
        self.times.call(call);
        self.again.call(call);
        let stamped = !call.time.is_empty();
        self.lines.stamped |= stamped;
        self.lines.bare |= !stamped;
    }

    fn mark(&mut self) {
        self.communicators.mark();
        self.sums.mark();
        self.times.mark();
        self.again.mark();
    }

    fn slot(&mut self) {
        self.communicators.slot();
        self.net.slot();
        self.streams.add_slot();
        self.sums.slot();
        self.warnings.note_torn_slot();
        self.tuning.slot();
        self.times.slot();
        self.again.slot();
    }

    fn unify_processes(&mut self, first: &[u32]) {
        self.communicators.unify_processes(first);
        self.times.unify_processes(first);
        self.again.unify_processes(first);
    }

    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        self.communicators.insert_torn_calls(calls);
        self.net.insert_torn_calls(calls);
        self.streams.insert_torn_calls(calls);
        self.sums.insert_torn_calls(calls);
        self.warnings.count_torn_calls(calls);
        self.tuning.insert_torn_calls(calls);
        self.times.insert_torn_calls(calls);
        self.again.insert_torn_calls(calls);
    }
}
