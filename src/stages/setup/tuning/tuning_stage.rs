//! TUNING lines of all inputs, joined to their calls.

use super::burst::{
    ServingMethod, TunedCall, TuningBurst, TuningFit, TuningLine, TuningMatch, is_rank_zero,
};
use super::call_methods::CallMethods;
use super::fold::{TuningPartial, TuningSlotLine};
use crate::count::member_filter::MemberFilter;
use crate::grammar::values::op_kind;
use crate::log::MergedChunk;
use crate::members::OpInterner;
use crate::members::{MergedMembers, MergedNumbers};
use crate::output::table::{Row, Timing};
use crate::report::Report;
use crate::stages::setup::thread::SpeakerThread;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Calls that a line serves, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TuningKey {
    /// The operation's number.
    pub op: Option<u32>,
    /// The communicator's size.
    pub nranks: Option<u32>,
    /// The bytes, as printed.
    pub bytes: u64,
    /// The method.
    pub how: ServingMethod,
    /// Number of channels.
    pub channels: Option<u32>,
}

impl TuningKey {
    /// True if the bytes are the caller's: since NCCL 2.24 lines name the channels; before, the bytes of
    /// AllGather and ReduceScatter are those of all ranks.
    pub fn is_api(&self) -> bool {
        self.channels.is_some() || !matches!(self.how, ServingMethod::By(..))
    }
}

/// Counts of lines and calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuningLineCounts {
    /// TUNING lines.
    pub lines: u64,
    /// Lines with known calls.
    pub joined: u64,
    /// Calls of these lines; up to NCCL 2.23 a line may serve several.
    pub calls: u64,
    /// Lines that fit calls of several operations or sizes of communicator.
    pub ambiguous: u64,
    /// Lines without a call.
    pub alone: u64,
}

impl TuningLineCounts {
    /// Adds other counts.
    pub fn add_counts(&mut self, other: TuningLineCounts) {
        self.lines += other.lines;
        self.joined += other.joined;
        self.calls += other.calls;
        self.ambiguous += other.ambiguous;
        self.alone += other.alone;
    }
}

/// All TUNING lines, with their calls.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TuningStage {
    /// Names of operations and kernels.
    pub names: OpInterner,
    /// Counts by line and calls.
    pub found: BTreeMap<TuningKey, TuningLineCounts>,
    /// Collective calls by ranks 0, which print TUNING lines, of communicators with several ranks.
    pub calls: u64,
    open: FxHashMap<SpeakerThread, TuningBurst>,
    /// The method of each call, if wanted.
    pub(super) served: Option<CallMethods>,
    /// Which lines count, by the calls that they serve.
    #[serde(skip)]
    filter: MemberFilter,
}

impl TuningStage {
    /// Also keeps the method of each call, for parts of [`TuningPartial::in_order`].
    pub(crate) fn in_order() -> TuningStage {
        TuningStage {
            served: Some(CallMethods::default()),
            ..TuningStage::default()
        }
    }

    /// Counts the lines whose calls pass `filter`.
    pub(super) fn with_filter(filter: MemberFilter) -> TuningStage {
        TuningStage {
            filter,
            ..TuningStage::default()
        }
    }

    /// Returns the method of each call, after [`TuningStage::end_lines`].
    pub(crate) fn into_served(self) -> CallMethods {
        self.served.unwrap_or_default().with_names(self.names)
    }

    /// Reports how many lines passed the filter.
    pub(super) fn report_filter(&self, report: &Report) {
        self.filter.report_as("TUNING line", report);
    }

    /// Sums up the counts of all lines.
    pub fn sum_counts(&self) -> TuningLineCounts {
        let mut sum = TuningLineCounts::default();
        self.found
            .values()
            .for_each(|counts| sum.add_counts(*counts));
        sum
    }

    /// Adds a chunk that follows what was added before.
    pub fn add_chunk(&mut self, part: MergedChunk<'_, TuningPartial>) {
        let MergedChunk {
            mut visit,
            to,
            merged,
            ..
        } = part;
        visit.settle_counted_calls();
        let TuningPartial {
            names,
            threads,
            matches,
            calls,
            late,
            ..
        } = visit;
        for (member, calls) in calls {
            if is_rank_zero(merged, to.members[member as usize]) == Some(true) {
                self.calls += calls;
            }
        }
        let mut numbers = TuningRenumbering {
            whole: &mut self.names,
            chunk: &names,
            to,
        };
        let matches: Vec<_> = matches
            .into_iter()
            .map(|(found, times)| (numbers.renumber_match(found), times))
            .collect();
        let threads: Vec<_> = threads
            .into_iter()
            .map(|(thread, stretch)| {
                let lead = stretch.lead.map(|burst| numbers.renumber_burst(burst));
                let open = numbers.renumber_burst(stretch.open);
                (thread.renumber(to), lead, open)
            })
            .collect();
        let late: Vec<TuningSlotLine> = late
            .into_iter()
            .map(|late| numbers.renumber_slot_line(late))
            .collect();
        for (found, times) in matches {
            self.count_match(&found, times, merged);
        }
        for (thread, lead, open) in threads {
            for burst in lead.into_iter().chain([open]) {
                self.join_burst(thread, burst, merged);
            }
        }
        for late in late {
            match late {
                TuningSlotLine::Call(thread, made) => self.add_call(thread, made, merged),
                TuningSlotLine::Line(thread, line) => {
                    let burst = self.open.entry(thread).or_default();
                    *burst.lines.entry(line).or_default() += 1;
                }
            }
        }
    }

    /// Adds later inputs that were read elsewhere; `to` has the numbers of their processes and members
    /// here. Lines and calls of a thread are in inputs read together. Methods of single calls are not
    /// merged.
    pub fn merge(&mut self, other: TuningStage, to: &MergedNumbers, merged: &MergedMembers) {
        let mut numbers = TuningRenumbering {
            whole: &mut self.names,
            chunk: &other.names,
            to,
        };
        for (key, counts) in other.found {
            let key = numbers.renumber_key(key);
            self.found.entry(key).or_default().add_counts(counts);
        }
        self.calls += other.calls;
        let open = other.open.into_iter();
        let open: Vec<_> = open
            .map(|(thread, burst)| (thread.renumber(to), numbers.renumber_burst(burst)))
            .collect();
        for (thread, burst) in open {
            self.join_burst(thread, burst, merged);
        }
    }

    fn add_call(&mut self, thread: SpeakerThread, made: TunedCall, merged: &MergedMembers) {
        let burst = self.open.entry(thread).or_default();
        if burst.is_over() {
            let over = std::mem::take(burst);
            self.close_burst(thread, &over, merged);
        }
        let burst = self.open.entry(thread).or_default();
        *burst.calls.entry(made).or_default() += 1;
    }

    /// Adds the next burst of a thread, or the rest of its last one.
    fn join_burst(&mut self, thread: SpeakerThread, burst: TuningBurst, merged: &MergedMembers) {
        let before = self.open.entry(thread).or_default();
        if before.is_over() && !burst.calls.is_empty() {
            let over = std::mem::replace(before, burst);
            self.close_burst(thread, &over, merged);
            return;
        }
        for (made, n) in burst.calls {
            *before.calls.entry(made).or_default() += n;
        }
        for (line, n) in burst.lines {
            *before.lines.entry(line).or_default() += n;
        }
    }

    /// Ends all bursts: no more lines come.
    pub fn end_lines(&mut self, merged: &MergedMembers) {
        for (thread, burst) in std::mem::take(&mut self.open) {
            self.close_burst(thread, &burst, merged);
        }
    }

    fn close_burst(&mut self, thread: SpeakerThread, burst: &TuningBurst, merged: &MergedMembers) {
        let names = &self.names;
        let matches: Vec<TuningMatch> = burst
            .match_lines(|op| op_kind(names.name_of_op(op)))
            .collect();
        if let Some(served) = &mut self.served {
            served.add_burst(thread, burst, &matches, names, merged);
        }
        for found in matches {
            self.count_match(&found, 1, merged);
        }
    }

    /// Counts a line for the calls it serves. Only ranks 0 print TUNING lines, so others' calls do not
    /// count if ranks are known.
    fn count_match(&mut self, found: &TuningMatch, times: u64, merged: &MergedMembers) {
        let fit = found.fits_by_rank_zero(merged);
        // The value that all calls share.
        let same = |of: fn(&TunedCall) -> Option<u32>| {
            let first = of(&fit.first()?.made);
            fit.iter()
                .all(|fit| of(&fit.made) == first)
                .then_some(first)
        };
        let op = same(|made| Some(made.op));
        let nranks = same(|made| made.nranks);
        let fitting: u64 = fit.iter().map(|fit| fit.times).sum();
        let joined = fitting.min(found.lines);
        let each = fit.first().map_or(1, |fit| fit.each);
        let unsure = op.is_none() || nranks.is_none() || fit.iter().any(|fit| fit.each != each);
        let ambiguous = !fit.is_empty() && unsure;
        let line = found.line;
        let key = TuningKey {
            op: line.op.or(op.flatten()),
            nranks: nranks.flatten(),
            bytes: line.bytes,
            how: line.how,
            channels: line.channels,
        };
        let mut counts = TuningLineCounts {
            lines: joined * times,
            ..TuningLineCounts::default()
        };
        if ambiguous {
            counts.ambiguous = counts.lines;
        } else {
            counts.joined = counts.lines;
            counts.calls = counts.lines.saturating_mul(each);
        }
        let member = same(|made| Some(made.member)).flatten();
        if joined > 0 && self.is_line_wanted(&key, member, counts.lines, merged) {
            self.found.entry(key).or_default().add_counts(counts);
        }
        let alone = (found.lines - joined) * times;
        let key = TuningKey {
            op: line.op,
            nranks: None,
            ..key
        };
        if alone > 0 && self.is_line_wanted(&key, None, alone, merged) {
            self.found
                .entry(key)
                .or_default()
                .add_counts(TuningLineCounts {
                    lines: alone,
                    alone,
                    ..TuningLineCounts::default()
                });
        }
    }

    /// True if lines pass the filter: by their own columns and by what their possible calls have in common.
    fn is_line_wanted(
        &mut self,
        key: &TuningKey,
        member: Option<u32>,
        lines: u64,
        merged: &MergedMembers,
    ) -> bool {
        if self.filter.is_empty() {
            return true;
        }
        let (algo, proto) = key.how.algorithm_and_protocol(&self.names);
        let timing = Timing {
            algo: &algo,
            proto: &proto,
            nchannels: key.channels,
            ..Timing::default()
        };
        let row = Row {
            op: key.op.map_or(b"", |op| self.names.name_of_op(op)),
            nranks: key.nranks,
            only_bytes: Some(key.bytes),
            timing: Some(&timing),
            calls: lines,
            ..Row::default()
        };
        match member {
            Some(member) => self.filter.does_pass(merged, member, &row),
            None => self.filter.does_row_pass(&row),
        }
    }
}

/// Maps a chunk's numbers to those of the whole.
struct TuningRenumbering<'a> {
    whole: &'a mut OpInterner,
    chunk: &'a OpInterner,
    to: &'a MergedNumbers,
}

impl TuningRenumbering<'_> {
    fn renumber_op(&mut self, number: u32) -> u32 {
        self.whole.intern(self.chunk.name_of_op(number)).0
    }

    fn renumber_method(&mut self, how: ServingMethod) -> ServingMethod {
        match how {
            ServingMethod::Kernel(kernel) => ServingMethod::Kernel(self.renumber_op(kernel)),
            how => how,
        }
    }

    fn renumber_line(&mut self, line: TuningLine) -> TuningLine {
        TuningLine {
            op: line.op.map(|op| self.renumber_op(op)),
            how: self.renumber_method(line.how),
            ..line
        }
    }

    fn renumber_key(&mut self, key: TuningKey) -> TuningKey {
        TuningKey {
            op: key.op.map(|op| self.renumber_op(op)),
            how: self.renumber_method(key.how),
            ..key
        }
    }

    fn renumber_call(&mut self, made: TunedCall) -> TunedCall {
        TunedCall {
            member: self.to.members[made.member as usize],
            op: self.renumber_op(made.op),
            ..made
        }
    }

    fn renumber_match(&mut self, found: TuningMatch) -> TuningMatch {
        let line = self.renumber_line(found.line);
        let fit = found.fit.into_iter().map(|fit| TuningFit {
            made: self.renumber_call(fit.made),
            ..fit
        });
        TuningMatch {
            line,
            lines: found.lines,
            fit: fit.collect(),
        }
    }

    fn renumber_burst(&mut self, burst: TuningBurst) -> TuningBurst {
        let calls = burst.calls.into_iter();
        let calls = calls
            .map(|(made, n)| (self.renumber_call(made), n))
            .collect();
        let lines = burst.lines.into_iter();
        let lines = lines
            .map(|(line, n)| (self.renumber_line(line), n))
            .collect();
        TuningBurst { calls, lines }
    }

    fn renumber_slot_line(&mut self, late: TuningSlotLine) -> TuningSlotLine {
        match late {
            TuningSlotLine::Call(of, made) => {
                TuningSlotLine::Call(of.renumber(self.to), self.renumber_call(made))
            }
            TuningSlotLine::Line(of, line) => {
                TuningSlotLine::Line(of.renumber(self.to), self.renumber_line(line))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::pieces::{made, walk};
    use crate::stages::tuning::table::{self, Options};
    use crate::testing::sent;
    use proptest::prelude::*;

    /// The log with some of its calls torn at byte 128, after which another process's line is.
    fn torn(log: &[u8]) -> (Vec<u8>, usize) {
        let speaker = |line: &[u8]| line.split(|&b| b == b' ').next().map(<[u8]>::to_vec);
        let is_call = |line: &[u8]| memchr::memmem::find(line, b": opCount ").is_some();
        let mut lines = log.split_inclusive(|&b| b == b'\n').peekable();
        let (mut out, mut tears) = (Vec::new(), 0);
        while let Some(line) = lines.next() {
            let may = is_call(line) && out.len() % 5 == 0;
            let other = |next: &&[u8]| may && next.len() > 40 && speaker(line) != speaker(next);
            let (head, tail) = line.split_at(line.len().min(128));
            out.extend_from_slice(head);
            if let Some(next) = lines.next_if(other) {
                tears += 1;
                out.extend_from_slice(next);
            }
            out.extend_from_slice(tail);
        }
        (out, tears)
    }

    #[test]
    fn a_torn_call_serves_its_line_wherever_it_is_joined() {
        let log = made("2.30");
        let (torn, tears) = torn(&log);
        assert!(tears > 20, "{tears}");
        let read = |log: &[u8]| {
            let mut all = TuningStage::default();
            let merged = walk(log, log.len(), TuningPartial::default, |part| {
                all.add_chunk(part);
            });
            all.end_lines(&merged);
            let mut sum = TuningLineCounts::default();
            all.found
                .values()
                .for_each(|counts| sum.add_counts(*counts));
            (sum, all.calls)
        };
        let ((whole, calls), (sum, left)) = (read(&log), read(&torn));
        assert_eq!((whole.alone, whole.lines), (0, sum.lines));
        // Only the lines of calls that cannot be joined with certainty stay alone.
        let lost = calls - left;
        assert!(lost < 4, "{lost}");
        assert_eq!((sum.joined, sum.alone), (whole.joined - lost, lost));
    }

    #[test]
    fn what_is_kept_in_order_is_the_same() {
        let (log, _) = torn(&made("2.30"));
        for size in [log.len(), 3000, 500, 1] {
            let (mut all, mut twin) = (TuningStage::in_order(), TuningStage::default());
            let merged = walk(&log, size, TuningPartial::in_order, |part| {
                all.add_chunk(part);
                // Another machine may go on.
                if size == 3000 {
                    all = sent(&all);
                }
            });
            all.end_lines(&merged);
            let merged = walk(&log, size, TuningPartial::default, |part| {
                twin.add_chunk(part);
            });
            twin.end_lines(&merged);
            assert_eq!(
                (all.sum_counts(), all.calls),
                (twin.sum_counts(), twin.calls),
                "{size}"
            );
            let rows = |all: &TuningStage| table::build_crossover_grid(all, &Options::default());
            assert_eq!(rows(&all), rows(&twin), "{size}");
        }
    }

    #[test]
    fn pieces_of_any_size_give_the_same_rows() {
        for nccl in ["2.28", "2.22"] {
            let log = made(nccl);
            let rows = |size: usize| {
                let mut all = TuningStage::default();
                let merged = walk(&log, size, TuningPartial::default, |part| {
                    all.add_chunk(part);
                });
                all.end_lines(&merged);
                let options = Options {
                    channels: true,
                    sizes: true,
                };
                (table::build_crossover_grid(&all, &options), all.calls)
            };
            let whole = rows(log.len());
            assert!(whole.0.rows.len() > 5 && whole.1 > 50);
            for size in [1, 500, 3000, 40_000] {
                assert_eq!(rows(size), whole, "{nccl} {size}");
            }
        }
    }

    proptest! {
        /// Other text is glued to a host's name, and its name alone comes later, before or never.
        #[test]
        fn pieces_of_a_log_with_glued_names_give_the_same_rows(
            lines in proptest::collection::vec((0..3_u8, 0..2_u64, any::<bool>()), 1..30),
            size in 1..600_usize,
        ) {
            let line = |&(kind, thread, is_glued): &(u8, u64, bool)| {
                let glued = if is_glued { "float     sum" } else { "" };
                let message = match kind {
                    0 => "64 Bytes -> Algo 0 proto 0 time 49.675526".to_owned(),
                    kind => format!(
                        "AllReduce: opCount 0 sendbuff 0x7f10 recvbuff 0x7f20 count {} datatype 7 \
                         op 0 root 0 comm 0x7fa0 [nranks=32] stream 0x83e0",
                        16 * kind
                    ),
                };
                format!("{glued}one-27:4336:{} [5] NCCL INFO {message}\n", 4386 + thread)
            };
            let log: String = lines.iter().map(line).collect();
            let rows = |size: usize| {
                let mut all = TuningStage::default();
                let merged = walk(log.as_bytes(), size, TuningPartial::default, |part| {
                    all.add_chunk(part);
                });
                all.end_lines(&merged);
                (table::build_crossover_grid(&all, &Options::default()), all.calls)
            };
            prop_assert_eq!(rows(size), rows(log.len()));
        }
    }
}
