//! What a log holds gap by gap: calls, bytes and where its steps are. The first walk of every
//! stage that must know a call's step before it can write the call: its visit is a [`Recorder`].

pub(crate) mod rhythm;
pub(crate) mod skew;

use crate::count::calls::Options;
use crate::grammar::values::Datatype;
use crate::log::placement::{
    Across, Placed, Placement, Placer, Recorder, SoFar, Streams, Taken, What,
};
use crate::log::timeline::{Growing, Timeline, Turn};
use crate::log::walk::{Call, Torn, Visit};
use crate::log::{Log, Part};
use crate::members::{Merged, Renumbered};
use crate::report::account::Account;
use rhythm::Odd;
use serde::{Deserialize, Serialize};
use skew::{Counts, Skew};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Calls and their bytes (API basis; those of unknown datatypes are left out).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Calls.
    pub calls: u64,
    /// Bytes.
    pub bytes: u128,
}

impl Sum {
    fn add(&mut self, datatype: u32, count: u64) {
        self.calls += 1;
        if let Some(size) = Datatype(datatype).size() {
            self.bytes += u128::from(count) * u128::from(size);
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: Sum) {
        self.calls += other.calls;
        self.bytes += other.bytes;
    }
}

/// One chunk's sums.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::stages) struct Partial {
    gap: usize,
    now: Sum,
    done: Vec<(usize, Sum)>,
    slots: Vec<usize>,
    counts: Counts,
}

impl Visit for Partial {
    #[inline(always)]
    fn call(&mut self, call: &Call<'_>) {
        self.now.add(call.coll.datatype, call.coll.count);
        self.counts.call(call);
    }

    fn mark(&mut self) {
        if self.now.calls > 0 {
            self.done.push((self.gap, std::mem::take(&mut self.now)));
        }
        self.counts.end(self.gap);
        self.gap += 1;
    }

    fn slot(&mut self) {
        self.slots.push(self.gap);
    }

    // Ranks are not compared by their calls in a gap where lines are torn.
    fn torn(&mut self, calls: &[Torn<'_>]) {
        for Torn { slot, call, .. } in calls {
            let gap = self.slots.get(*slot as usize).copied();
            let mut one = Sum::default();
            one.add(call.coll.datatype, call.coll.count);
            self.done.push((gap.unwrap_or(self.gap), one));
        }
    }
}

/// A call whose line is in another gap than its own: where the line is, its gap, the call's gap.
pub type Moved = (u64, u32, u32);

/// What one log holds.
#[derive(Debug, Default)]
pub struct Survey {
    /// Its marks and its account.
    pub log: Log,
    /// Its steps.
    pub timeline: Arc<Timeline>,
    /// The gap that each call was made in.
    pub placement: Placement,
    /// The calls of each gap that has any.
    sums: BTreeMap<usize, Sum>,
    /// Calls whose line is in another gap than theirs, if lines were asked for.
    pub moved: Vec<Moved>,
    /// The input's number among those that may be placed when all are read.
    held: Option<u32>,
    /// The steps are those of other inputs' lines: gaps are not this one's.
    pub is_settled: bool,
}

impl Survey {
    /// All inputs are read: takes the steps of this one's calls that follow from others' lines.
    pub fn settle(&mut self, placed: &Placed) {
        let Some(input) = self.held.filter(|&input| placed.has(input)) else {
            return;
        };
        self.placement = placed.placement(input);
        self.timeline = Arc::clone(&placed.timeline);
        self.is_settled = true;
        self.sums.clear();
        let (sums, moved) = (&mut self.sums, &mut self.moved);
        placed.each(input, |gap, what, at| {
            sums.entry(gap as usize)
                .or_default()
                .add(what.datatype, what.count);
            moved.extend(at.map(|at| (at, 0, gap)));
        });
    }

    /// The calls that were made in a gap.
    pub fn sum(&self, gap: usize) -> Sum {
        self.sums.get(&gap).copied().unwrap_or_default()
    }
}

/// The calls of a log by gap.
#[derive(Debug, Default)]
pub struct Sums {
    /// For those gaps that have any, in order.
    pub by_gap: Vec<(usize, Sum)>,
    /// The collectives by rank and gap.
    skew: Skew,
    /// The gaps are counted from this one.
    base: usize,
    /// The last gap with calls of those that are not kept any more.
    last_old: Option<usize>,
}

impl Sums {
    pub(crate) fn put(&mut self, gap: usize, sum: Sum) {
        let at = self.by_gap.partition_point(|(g, _)| *g < gap);
        match self.by_gap.get_mut(at) {
            Some((g, known)) if *g == gap => known.merge(sum),
            _ => self.by_gap.insert(at, (gap, sum)),
        }
    }

    /// Adds a chunk whose first gap is `gap` of the input.
    pub(in crate::stages) fn add(
        &mut self,
        mut part: Partial,
        gap: usize,
        to: &Renumbered,
        merged: &Merged,
    ) {
        part.counts.end(part.gap);
        for &(local, member, n) in &part.counts.done {
            let member = to.members[member as usize];
            self.skew.add(merged, member, gap + local, n);
        }
        if part.now.calls > 0 {
            part.done.push((part.gap, part.now));
        }
        for (local, sum) in part.done {
            self.put(gap + local, sum);
        }
    }

    /// The gaps at whose end ranks were at different calls; `None` where no line tells.
    pub(crate) fn apart(&self, merged: &Merged, timeline: &Timeline) -> Option<Vec<usize>> {
        self.skew.apart(merged, timeline)
    }

    /// The first of these gaps of which that is so.
    pub(crate) fn first_apart(
        &self,
        merged: &Merged,
        timeline: &Timeline,
        gaps: Range<usize>,
    ) -> Option<usize> {
        self.skew.first_apart(merged, timeline, gaps)
    }

    /// The last gap of the log with calls.
    pub(crate) fn last_gap(&self) -> Option<usize> {
        let last = self.by_gap.last().map(|(gap, _)| self.base + gap);
        last.or(self.last_old)
    }

    /// Forgets the gaps before this one, but for how many collectives each rank made in them.
    pub(crate) fn forget(&mut self, gap: usize) {
        let old = self.by_gap.partition_point(|(at, _)| *at < gap);
        let last = self.by_gap.drain(..old).next_back();
        self.last_old = last.map(|(gap, _)| gap).or(self.last_old);
        skew::shrink(&mut self.by_gap);
        self.skew.forget(gap);
    }

    /// The same, and counts gaps from this one.
    pub(crate) fn begin_at(&mut self, gap: usize) {
        self.forget(gap);
        self.base = gap;
        self.by_gap.iter_mut().for_each(|(at, _)| *at -= gap);
        self.skew.begin_at(gap);
    }

    /// Steps in which a communicator's ranks made more or fewer collectives than in the others;
    /// none where lines are lost, or torn, which does not say in which gap a call was made.
    pub(crate) fn odd(
        &self,
        account: &Account,
        merged: &Merged,
        timeline: &Timeline,
        printer: Option<u32>,
    ) -> Vec<Odd> {
        let lost = account.damaged + account.overwritten + account.dropped + account.torn;
        if lost > 0 || account.ray_lines > 0 {
            return Vec::new();
        }
        rhythm::odd(&self.skew.comms(merged), timeline, printer)
    }
}

/// A survey of the log in hand, as it is read.
#[derive(Debug, Default)]
pub(in crate::stages) struct Surveying {
    placer: Placer,
    /// Where they are asked for: they grow with the log.
    sums: Option<BTreeMap<usize, Sum>>,
    moved: Vec<Moved>,
}

impl Surveying {
    /// Nothing read yet; whether what each gap has is asked for.
    pub(in crate::stages) fn new(options: &Options, with_sums: bool) -> Surveying {
        Surveying {
            placer: Placer::of(options.log.jobs),
            sums: with_sums.then(BTreeMap::new),
            moved: Vec::new(),
        }
    }

    /// Adds a chunk's calls.
    pub(in crate::stages) fn add(
        &mut self,
        calls: Recorder,
        part: &Part<'_, ()>,
        options: &Options,
    ) {
        let Surveying {
            placer,
            sums,
            moved,
        } = self;
        placer.add(calls, part, &options.timeline, |calls, cuts| {
            take(sums.as_mut(), moved, calls, cuts, |_| true);
        });
    }

    /// At a turn: places what came up to it.
    pub(in crate::stages) fn turn(&mut self, turn: Turn, part: &Part<'_, ()>, options: &Options) {
        let Surveying {
            placer,
            sums,
            moved,
        } = self;
        placer.turn(turn, part, &options.timeline, |calls, cuts| {
            take(sums.as_mut(), moved, calls, cuts, |_| true);
        });
    }

    /// Where the calls of a process were made that are placed for good: see [`Placement`].
    pub(in crate::stages) fn cuts_of(&self, process: u32) -> &[(u32, u32)] {
        self.placer.cuts_of(process)
    }

    /// Whether these are the calls that are placed for good of gaps up to `gap`, and are not forgotten.
    pub(in crate::stages) fn has(&self, sums: &BTreeMap<usize, Sum>, gap: u32) -> bool {
        let own = self.sums.iter();
        own.flat_map(|own| own.range(..=gap as usize)).eq(sums)
    }

    /// Forgets what came up to the end of gap `gap`.
    pub(in crate::stages) fn forget(&mut self, gap: u32) {
        let Surveying {
            placer,
            sums,
            moved,
        } = self;
        placer.forget(gap);
        moved.retain(|moved| moved.1.max(moved.2) > gap);
        if let Some(sums) = sums {
            *sums = sums.split_off(&(gap as usize + 1));
        }
    }

    /// The last calls, placed by what has come so far: those of gap `needed` and later are among them.
    pub(in crate::stages) fn so_far(
        &mut self,
        timeline: &Timeline,
        merged: &Merged,
        needed: u32,
    ) -> SoFar<'_> {
        self.placer.so_far(timeline, merged, needed)
    }

    /// The last gap that is settled, and the calls of each gap up to it, from gap `needed` on.
    pub(in crate::stages) fn settled(
        &mut self,
        timeline: &Timeline,
        merged: &Merged,
        needed: usize,
    ) -> Option<(usize, BTreeMap<usize, Sum>)> {
        let needed = u32::try_from(needed).unwrap_or(u32::MAX);
        let Surveying { placer, sums, .. } = self;
        let found = placer.so_far(timeline, merged, needed);
        let last = found.settled? as usize;
        let since = found.since.map(|since| since as usize);
        let before = sums.iter().flat_map(|sums| sums.range(needed as usize..));
        let before = before.take_while(|(gap, _)| Some(**gap) <= since);
        let mut sums = before.map(|(gap, sum)| (*gap, *sum)).collect();
        let new = |gap: u32| gap >= needed;
        take(
            Some(&mut sums),
            &mut Vec::new(),
            found.streams,
            &found.cuts,
            new,
        );
        Some((last, sums))
    }

    /// The last gap that is settled, which calls up to it are not in the gap of their line (as
    /// [`Survey::moved`]), of those of gap `needed` and later all, and where the first call is that is
    /// not settled and whose line is in a gap that is `open`.
    pub(in crate::stages) fn lines_settled(
        &mut self,
        timeline: &Timeline,
        merged: &Merged,
        needed: u32,
        open: impl Fn(u32) -> bool,
    ) -> Option<(usize, Vec<Moved>, u64)> {
        let Surveying { placer, moved, .. } = self;
        let found = placer.so_far(timeline, merged, needed);
        let last = found.settled?;
        let since = found.since.filter(|since| *since >= needed);
        let before = moved.iter().filter(|(.., gap)| Some(*gap) <= since);
        let mut moved: Vec<Moved> = match since {
            Some(_) => before.copied().collect(),
            None => Vec::new(),
        };
        found
            .streams
            .moved(&found.cuts, |at, line, gap| moved.push((at, line, gap)));
        moved.retain(|&(.., gap)| gap <= last);
        Some((last as usize, moved, found.first_open(open)))
    }

    /// The log is read to its end. What it and the other inputs tell of each other goes to
    /// `across`.
    pub(in crate::stages) fn end(
        self,
        (log, growing): (Log, &mut Growing),
        merged: &Merged,
        across: &mut Across,
        options: &Options,
    ) -> Survey {
        let Surveying {
            placer,
            mut sums,
            mut moved,
        } = self;
        let timeline = log.ended(growing, &options.timeline);
        let (mut placement, calls) = placer.end(&timeline, merged, |calls, cuts| {
            take(sums.as_mut(), &mut moved, calls, cuts, |_| true);
        });
        let Taken { held, methods, .. } = across.take(calls, &placement, &timeline);
        placement.methods = methods;
        Survey {
            held,
            is_settled: false,
            log,
            timeline: timeline.into(),
            placement: placement.trimmed(),
            sums: sums.unwrap_or_default(),
            moved,
        }
    }
}

/// Takes in calls that are placed: what each gap that is `wanted` has, and which are not in the gap of their line.
fn take(
    sums: Option<&mut BTreeMap<usize, Sum>>,
    moved: &mut Vec<Moved>,
    calls: &Streams,
    cuts: &[Vec<(u32, u32)>],
    wanted: impl Fn(u32) -> bool,
) {
    if let Some(sums) = sums {
        let bytes = |what: &What| {
            let size = Datatype(what.datatype).size().unwrap_or(0);
            u128::from(what.count) * u128::from(size)
        };
        let bytes: Vec<u128> = calls.whats().iter().map(bytes).collect();
        for (gap, calls) in calls.each(cuts).filter(|(gap, _)| wanted(*gap)) {
            let of = |&what: &u32| bytes[what as usize];
            sums.entry(gap as usize).or_default().merge(Sum {
                calls: calls.len() as u64,
                bytes: calls.iter().map(of).sum(),
            });
        }
    }
    calls.moved(cuts, |at, line, gap| moved.push((at, line, gap)));
}
