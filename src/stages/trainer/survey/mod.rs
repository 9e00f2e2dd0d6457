//! The contents of a log gap by gap: calls, bytes and steps. The first walk of every stage that must know a
//! call's step before it can write the call: its visit is a [`CallRecorder`].

pub(crate) mod rhythm;
pub(crate) mod skew;
mod wanted_sums;

use crate::count::calls::Options;
use crate::count::member_filter::MemberFilter;
use crate::filter::FilterPart;
use crate::grammar::values::Datatype;
use crate::log::placement::{
    CallPlacer, CallRecorder, CutsByProcess, FilesWithoutSteps, LivePlacement, PlacedCalls,
    Placement, StreamsByProcess, TakenInput,
};
use crate::log::timeline::{Checkpoint, LiveTimeline, StepTimeline};
use crate::log::walk::{LogCall, LogVisitor, RepairedCall};
use crate::log::{LogState, MergedChunk};
use crate::members::{MergedMembers, MergedNumbers};
use crate::report::account::Account;
use rhythm::OddStep;
use serde::{Deserialize, Serialize};
use skew::{ChunkCollectives, CollectivesByRank};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use wanted_sums::WantedSums;

/// Calls and their bytes (API basis; those of unknown datatypes are left out).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapCallSum {
    /// Calls.
    pub calls: u64,
    /// Bytes.
    pub bytes: u128,
}

impl GapCallSum {
    fn add_call(&mut self, datatype: u32, count: u64) {
        self.calls += 1;
        if let Some(size) = Datatype(datatype).size() {
            self.bytes += u128::from(count) * u128::from(size);
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: GapCallSum) {
        self.calls += other.calls;
        self.bytes += other.bytes;
    }
}

/// One chunk's sums.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::stages) struct SurveyPartial {
    gap: usize,
    now: GapCallSum,
    done: Vec<(usize, GapCallSum)>,
    slots: Vec<usize>,
    counts: ChunkCollectives,
}

impl LogVisitor for SurveyPartial {
    #[inline(always)]
    fn call(&mut self, call: &LogCall<'_>) {
        self.now.add_call(call.coll.datatype, call.coll.count);
        self.counts.count_call(call);
    }

    fn mark(&mut self) {
        if self.now.calls > 0 {
            self.done.push((self.gap, std::mem::take(&mut self.now)));
        }
        self.counts.end_gap(self.gap);
        self.gap += 1;
    }

    fn slot(&mut self) {
        self.slots.push(self.gap);
    }

    fn unify_processes(&mut self, _first: &[u32]) {}

    // Ranks are not compared by their calls in a gap where lines are torn.
    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        for RepairedCall { slot, call, .. } in calls {
            let gap = self.slots.get(*slot as usize).copied();
            let mut one = GapCallSum::default();
            one.add_call(call.coll.datatype, call.coll.count);
            self.done.push((gap.unwrap_or(self.gap), one));
        }
    }
}

/// A call printed in another gap than its own: the line's position and gap, the call's gap.
pub type MovedCall = (u64, u32, u32);

/// The contents of a log.
#[derive(Debug, Default)]
pub struct LogSurvey {
    /// Its marks and its account.
    pub log: LogState,
    /// Its steps.
    pub timeline: Arc<StepTimeline>,
    /// The gap that each call was made in.
    pub placement: Placement,
    /// The calls of each gap that has any.
    sums: WantedSums,
    /// Calls printed in another gap, if lines are wanted.
    pub moved: Vec<MovedCall>,
    /// The input's number among those that may be placed when all are read.
    held: Option<u32>,
    /// The input's number among those with step lines for others' calls.
    stepped: Option<u32>,
    /// The steps are those of other inputs' lines: gaps are not this one's.
    pub is_settled: bool,
}

impl LogSurvey {
    /// All inputs are read: takes the steps of this one's calls that follow from others' lines.
    pub fn settle_steps(&mut self, placed: &PlacedCalls, merged: &MergedMembers) {
        let Some(input) = self.held.filter(|&input| placed.has_steps(input)) else {
            return;
        };
        self.placement = placed.placement_of(input);
        self.timeline = Arc::clone(&placed.timeline);
        self.is_settled = true;
        self.sums.clear();
        let (sums, moved) = (&mut self.sums, &mut self.moved);
        placed.each_call(input, |gap, what, at| {
            sums.add_call(gap, &placed.streams, what, merged);
            moved.extend(at.map(|at| (at, 0, gap)));
        });
    }

    /// Moves the calls of an input without step lines to the gaps of the inputs with such lines, by the
    /// numbers of these; calls without a step stay.
    pub(in crate::stages) fn move_sums_to(
        &mut self,
        placed: &PlacedCalls,
        inputs: &mut BTreeMap<u32, BTreeMap<usize, GapCallSum>>,
    ) {
        if !self.is_settled {
            return;
        }
        self.sums.by_gap.retain(|&gap, sum| {
            let Some((input, gap)) = placed.own_gap(gap) else {
                return true;
            };
            let gaps = inputs.entry(input).or_default();
            gaps.entry(gap).or_default().merge(*sum);
            false
        });
    }

    /// Adds the calls that other inputs made in the steps of this one.
    pub(in crate::stages) fn add_moved_sums(
        &mut self,
        inputs: &mut BTreeMap<u32, BTreeMap<usize, GapCallSum>>,
    ) {
        let moved = self.stepped.and_then(|input| inputs.remove(&input));
        for (gap, sum) in moved.into_iter().flatten() {
            self.sums.by_gap.entry(gap).or_default().merge(sum);
        }
    }

    /// The calls that were made in a gap.
    pub fn sum_of_gap(&self, gap: usize) -> GapCallSum {
        self.sums.by_gap.get(&gap).copied().unwrap_or_default()
    }

    /// Takes how many of its calls passed the filter of the sums.
    pub(in crate::stages) fn take_filtered(&mut self) -> FilterPart {
        self.sums.filter.take_part()
    }
}

/// The calls of a log by gap.
#[derive(Debug, Default)]
pub struct GapSums {
    /// For those gaps that have any, in order.
    pub by_gap: Vec<(usize, GapCallSum)>,
    /// The collectives by rank and gap.
    skew: CollectivesByRank,
    /// The gaps are counted from this one.
    base: usize,
    /// The last forgotten gap with calls.
    last_old: Option<usize>,
}

impl GapSums {
    pub(crate) fn add_to_gap(&mut self, gap: usize, sum: GapCallSum) {
        let at = self.by_gap.partition_point(|(g, _)| *g < gap);
        match self.by_gap.get_mut(at) {
            Some((g, known)) if *g == gap => known.merge(sum),
            _ => self.by_gap.insert(at, (gap, sum)),
        }
    }

    /// Adds a chunk that begins in gap `gap` of the input.
    pub(in crate::stages) fn add_chunk(
        &mut self,
        mut part: SurveyPartial,
        gap: usize,
        to: &MergedNumbers,
        merged: &MergedMembers,
    ) {
        part.counts.end_gap(part.gap);
        for &(local, member, n) in &part.counts.done {
            let member = to.members[member as usize];
            self.skew.add_collectives(merged, member, gap + local, n);
        }
        if part.now.calls > 0 {
            part.done.push((part.gap, part.now));
        }
        for (local, sum) in part.done {
            self.add_to_gap(gap + local, sum);
        }
    }

    /// Returns the gaps that ended with ranks at different calls; `None` without communicators.
    pub(crate) fn gaps_apart(
        &self,
        merged: &MergedMembers,
        timeline: &StepTimeline,
    ) -> Option<Vec<usize>> {
        self.skew.gaps_apart(merged, timeline)
    }

    /// Returns the first such gap in `gaps`.
    pub(crate) fn first_gap_apart(
        &self,
        merged: &MergedMembers,
        timeline: &StepTimeline,
        gaps: Range<usize>,
    ) -> Option<usize> {
        self.skew.first_gap_apart(merged, timeline, gaps)
    }

    /// The last gap of the log with calls.
    pub(crate) fn last_gap(&self) -> Option<usize> {
        let last = self.by_gap.last().map(|(gap, _)| self.base + gap);
        last.or(self.last_old)
    }

    /// Forgets the gaps before this one, but for how many collectives each rank made in them.
    pub(crate) fn forget_before(&mut self, gap: usize) {
        let old = self.by_gap.partition_point(|(at, _)| *at < gap);
        let last = self.by_gap.drain(..old).next_back();
        self.last_old = last.map(|(gap, _)| gap).or(self.last_old);
        skew::shrink_list(&mut self.by_gap);
        self.skew.forget_before(gap);
    }

    /// Like `forget_before`, and counts gaps from `gap`.
    pub(crate) fn renumber_from(&mut self, gap: usize) {
        self.forget_before(gap);
        self.base = gap;
        self.by_gap.iter_mut().for_each(|(at, _)| *at -= gap);
        self.skew.renumber_from(gap);
    }

    /// Returns steps in which a communicator's ranks made more or fewer collectives than in others; none if
    /// lines are lost, or torn, which hides the gap of a call.
    pub(crate) fn find_odd_steps(
        &self,
        account: &Account,
        merged: &MergedMembers,
        timeline: &StepTimeline,
        printer: Option<u32>,
    ) -> Vec<OddStep> {
        let lost = account.damaged + account.overwritten + account.dropped + account.torn;
        if lost > 0 || account.ray_lines > 0 {
            return Vec::new();
        }
        rhythm::find_odd_steps(&self.skew.equal_comms(merged), timeline, printer)
    }
}

/// Builds the survey of a log as it is read.
#[derive(Debug, Default)]
pub(in crate::stages) struct SurveyBuilder {
    placer: CallPlacer,
    /// If wanted: they grow with the log.
    sums: Option<WantedSums>,
    moved: Vec<MovedCall>,
}

impl SurveyBuilder {
    /// Begins a survey; with a filter it keeps the sums of gaps, of the calls that pass.
    pub(in crate::stages) fn new(
        options: &Options,
        sums_of: Option<&MemberFilter>,
    ) -> SurveyBuilder {
        SurveyBuilder {
            placer: CallPlacer::with_jobs(options.log.jobs),
            sums: sums_of.map(|of| WantedSums::new(of.new_part())),
            moved: Vec::new(),
        }
    }

    /// Adds a chunk's calls.
    pub(in crate::stages) fn add_chunk(
        &mut self,
        calls: CallRecorder,
        part: &MergedChunk<'_, ()>,
        options: &Options,
    ) {
        let (sums, moved) = (&mut self.sums, &mut self.moved);
        self.placer
            .add_chunk(calls, part, &options.timeline, |calls, cuts| {
                take_placed(sums.as_mut(), moved, calls, cuts, part.merged);
            });
    }

    /// Places the calls up to a checkpoint.
    pub(in crate::stages) fn place_checkpoint(
        &mut self,
        turn: Checkpoint,
        part: &MergedChunk<'_, ()>,
        options: &Options,
    ) {
        let (sums, moved) = (&mut self.sums, &mut self.moved);
        self.placer
            .place_checkpoint(turn, part, &options.timeline, |calls, cuts| {
                take_placed(sums.as_mut(), moved, calls, cuts, part.merged);
            });
    }

    /// Where the calls of a process were made that are placed for good: see [`Placement`].
    pub(in crate::stages) fn cuts_of(&self, process: u32) -> &[(u32, u32)] {
        self.placer.cuts_of(process)
    }

    /// True if `sums` are the finally placed calls of gaps up to `gap` that are not forgotten.
    pub(in crate::stages) fn has_settled_sums(
        &self,
        sums: &BTreeMap<usize, GapCallSum>,
        gap: u32,
    ) -> bool {
        let own = self.sums.iter();
        own.flat_map(|own| own.by_gap.range(..=gap as usize))
            .eq(sums)
    }

    /// Forgets what came up to the end of gap `gap`.
    pub(in crate::stages) fn forget_until(&mut self, gap: u32) {
        self.placer.forget_until(gap);
        self.moved.retain(|moved| moved.1.max(moved.2) > gap);
        if let Some(sums) = &mut self.sums {
            sums.by_gap = sums.by_gap.split_off(&(gap as usize + 1));
        }
    }

    /// The last calls, placed by what has come so far: those of gap `needed` and later are among them.
    pub(in crate::stages) fn live_placement(
        &mut self,
        timeline: &StepTimeline,
        merged: &MergedMembers,
        needed: u32,
    ) -> LivePlacement<'_> {
        self.placer.live_placement(timeline, merged, needed)
    }

    /// The last gap that is settled, and the calls of each gap up to it, from gap `needed` on.
    pub(in crate::stages) fn settled_sums(
        &mut self,
        timeline: &StepTimeline,
        merged: &MergedMembers,
        needed: usize,
    ) -> Option<(usize, BTreeMap<usize, GapCallSum>)> {
        let needed = u32::try_from(needed).unwrap_or(u32::MAX);
        let SurveyBuilder { placer, sums, .. } = self;
        let found = placer.live_placement(timeline, merged, needed);
        let last = found.settled? as usize;
        let since = found.since.map(|since| since as usize);
        let sums = sums.as_ref()?;
        let before = sums.by_gap.range(needed as usize..);
        let before = before.take_while(|(gap, _)| Some(**gap) <= since);
        let mut so_far = WantedSums::new(sums.filter.new_part());
        so_far.by_gap = before.map(|(gap, sum)| (*gap, *sum)).collect();
        so_far.add_placed(found.streams, &found.cuts, needed, merged);
        Some((last, so_far.by_gap))
    }

    /// Returns the last settled gap, the moved calls up to it (as [`LogSurvey::moved`], complete from gap
    /// `needed` on), and the position of the first unsettled call with a line in an `open` gap.
    pub(in crate::stages) fn settled_lines(
        &mut self,
        timeline: &StepTimeline,
        merged: &MergedMembers,
        needed: u32,
        open: impl Fn(u32) -> bool,
    ) -> Option<(usize, Vec<MovedCall>, u64)> {
        let SurveyBuilder { placer, moved, .. } = self;
        let found = placer.live_placement(timeline, merged, needed);
        let last = found.settled?;
        let since = found.since.filter(|since| *since >= needed);
        let before = moved.iter().filter(|(.., gap)| Some(*gap) <= since);
        let mut moved: Vec<MovedCall> = match since {
            Some(_) => before.copied().collect(),
            None => Vec::new(),
        };
        found
            .streams
            .each_moved(&found.cuts, |at, line, gap| moved.push((at, line, gap)));
        moved.retain(|&(.., gap)| gap <= last);
        Some((last as usize, moved, found.first_unsettled(open)))
    }

    /// Ends the log. Through `across`, it and the other inputs place each other's calls.
    pub(in crate::stages) fn end_log(
        self,
        log: LogState,
        growing: &mut LiveTimeline,
        merged: &MergedMembers,
        across: &mut FilesWithoutSteps,
        options: &Options,
    ) -> LogSurvey {
        let SurveyBuilder {
            placer,
            mut sums,
            mut moved,
        } = self;
        let timeline = log.build_final_timeline(growing, &options.timeline);
        let (mut placement, calls) = placer.end_input(&timeline, merged, |calls, cuts| {
            take_placed(sums.as_mut(), &mut moved, calls, cuts, merged);
        });
        let TakenInput {
            held,
            stepped,
            methods,
            ..
        } = across.take_input(calls, &placement, &timeline);
        placement.methods = methods;
        LogSurvey {
            held,
            stepped,
            is_settled: false,
            log,
            timeline: timeline.into(),
            placement,
            sums: sums.unwrap_or_default(),
            moved,
        }
    }
}

/// Adds placed calls: the sums of gaps, and the calls printed in another gap.
fn take_placed(
    sums: Option<&mut WantedSums>,
    moved: &mut Vec<MovedCall>,
    calls: &StreamsByProcess,
    cuts: &CutsByProcess,
    merged: &MergedMembers,
) {
    if let Some(sums) = sums {
        sums.add_placed(calls, cuts, 0, merged);
    }
    calls.each_moved(cuts, |at, line, gap| moved.push((at, line, gap)));
}
