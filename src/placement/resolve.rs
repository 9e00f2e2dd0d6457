//! All of a log's calls placed.

use super::anchors::{Anchored, Run, Scratch, Thresholds};
use super::cut::Habits;
use super::keys::{Keys, NO_KEY};
use super::printer;
use super::streams::{Stream, Streams};
use super::{Methods, Placement};
use crate::fold;
use crate::grammar::trainer::Trainer;
use crate::origin::Merged;
use crate::timeline::{Gap, Timeline};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::LazyCell;
use std::ops::Deref;

/// Placed ranks that another one's cuts are compared with, at most.
const MODELS: usize = 4;

/// Where a log's stretches end.
#[derive(Debug, Clone, Default)]
pub(super) struct Bounds {
    /// The last gap of each stretch of one step, or between steps, in order.
    ends: Vec<u32>,
    /// Those of them whose end is a step's line.
    is_step: Vec<bool>,
    pub(super) trainer: Option<Trainer>,
}

impl Bounds {
    /// The stretches of a timeline.
    pub(super) fn of(timeline: &Timeline) -> Bounds {
        let gaps = &timeline.gaps;
        let mut bounds = Bounds {
            trainer: timeline.trainer,
            ..Bounds::default()
        };
        for (at, gap) in gaps.iter().enumerate() {
            if gaps.get(at + 1) != Some(gap) {
                bounds.ends.push(at as u32);
                bounds.is_step.push(matches!(gap, Gap::Step(_)));
            }
        }
        bounds
    }

    /// The last gaps of steps.
    pub(super) fn lines(&self) -> impl Iterator<Item = u32> {
        let all = self.ends.iter().zip(&self.is_step);
        all.filter(|(_, is_step)| **is_step).map(|(gap, _)| *gap)
    }

    /// The last gap of the stretch `n` stretches before the last one.
    pub(super) fn before_last(&self, n: usize) -> Option<u32> {
        let at = self.ends.len().checked_sub(n + 2)?;
        self.ends.get(at).copied()
    }

    fn last(&self) -> u32 {
        (self.ends.len() as u32).saturating_sub(1)
    }
}

/// The cuts of a process: (stretch, calls up to its end), both rising; the last one has all calls.
type Cuts = Vec<(u32, u32)>;

struct Placing<'a> {
    streams: &'a Streams,
    keys: Keys,
    bounds: &'a Bounds,
    /// By process.
    cuts: Vec<Option<Cuts>>,
    methods: Methods,
    thresholds: Thresholds,
    jobs: usize,
}

/// Whose calls can be placed.
pub(super) struct Who<'a> {
    /// Nobody's but by position.
    pub(super) by_position: bool,
    /// Those of processes with a lower number.
    pub(super) among: usize,
    /// The ranks that printed lines so far; who is found is added.
    pub(super) printers: &'a mut FxHashSet<u32>,
}

/// Places all calls of `streams`.
pub(super) fn place(
    streams: &Streams,
    merged: &Merged,
    bounds: &Bounds,
    who: Who<'_>,
    jobs: usize,
) -> Placement {
    let Who {
        by_position,
        among,
        printers,
    } = who;
    let keys = Keys::new(streams, merged);
    let mut run = Placing {
        streams,
        bounds,
        cuts: vec![None; streams.streams.len()],
        methods: Methods::default(),
        thresholds: Thresholds::new(&keys),
        keys,
        jobs,
    };
    if !by_position && bounds.ends.len() > 1 {
        for mut job in run.jobs(merged) {
            job.retain(|&process| (process as usize) < among);
            run.job(&job, merged, printers);
        }
    }
    let mut cuts = Vec::with_capacity(run.cuts.len());
    for (at, placed) in run.cuts.into_iter().enumerate() {
        let stream = &streams.streams[at];
        let placed = placed.unwrap_or_else(|| {
            run.methods.position += u64::from(stream.len());
            by_lines(stream, bounds)
        });
        let gap = |&(stretch, end): &(u32, u32)| {
            (bounds.ends.get(stretch as usize).copied().unwrap_or(0), end)
        };
        cuts.push(placed.iter().map(gap).collect());
    }
    Placement {
        cuts,
        methods: run.methods,
    }
}

/// A process's cuts by the position of its lines.
fn by_lines(stream: &Stream, bounds: &Bounds) -> Cuts {
    let mut cuts = Cuts::new();
    for &(gap, end) in &stream.ends {
        let stretch = bounds.ends.partition_point(|&last| last < gap) as u32;
        push(&mut cuts, stretch, end);
    }
    cuts
}

/// Adds a cut; a stretch's last one counts.
fn push(cuts: &mut Cuts, stretch: u32, end: u32) {
    match cuts.last_mut() {
        Some(last) if last.0 >= stretch => last.1 = last.1.max(end),
        Some(last) if last.1 >= end => {}
        _ if end == 0 => {}
        _ => cuts.push((stretch, end)),
    }
}

impl Placing<'_> {
    /// The processes that share communicators, directly or by way of others; each set in order.
    fn jobs(&self, merged: &Merged) -> Vec<Vec<u32>> {
        let mut parent: Vec<u32> = (0..self.streams.streams.len() as u32).collect();
        fn root(parent: &mut [u32], mut at: u32) -> u32 {
            while parent[at as usize] != at {
                parent[at as usize] = parent[parent[at as usize] as usize];
                at = parent[at as usize];
            }
            at
        }
        let mut first_of: FxHashMap<u64, u32> = FxHashMap::default();
        for (at, kind) in self.streams.kinds.iter().enumerate() {
            let Some(id) = self.keys.comm_id[at] else {
                continue;
            };
            let member = merged.origins.members.get(kind.member);
            let process = merged.origins.places.get(member.place).process;
            if process as usize >= parent.len() {
                continue;
            }
            let other = *first_of.entry(id).or_insert(process);
            let (a, b) = (root(&mut parent, process), root(&mut parent, other));
            parent[a.max(b) as usize] = a.min(b);
        }
        let mut jobs: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for process in 0..parent.len() as u32 {
            if self.streams.streams[process as usize].len() > 0 {
                let root = root(&mut parent, process);
                jobs.entry(root).or_default().push(process);
            }
        }
        let mut jobs: Vec<Vec<u32>> = jobs.into_values().filter(|job| job.len() > 1).collect();
        jobs.sort_unstable();
        jobs
    }

    fn job(&mut self, job: &[u32], merged: &Merged, printers: &mut FxHashSet<u32>) {
        let known = job.iter().copied().find(|process| printers.contains(process));
        let find = || printer::find(job, self.bounds, self.streams, &self.keys, merged);
        let Some(printer) = known.or_else(find) else {
            return;
        };
        printers.insert(printer);
        let stream = &self.streams.streams[printer as usize];
        self.methods.sequence += u64::from(stream.len());
        self.done(printer, by_lines(stream, self.bounds));
        let mut models = vec![printer];
        let mut left: Vec<u32> = job.iter().copied().filter(|&p| p != printer).collect();
        let uses: FxHashMap<u32, Vec<(u32, u64)>> =
            left.iter().map(|&p| (p, self.uses(p))).collect();
        while !left.is_empty() {
            let share = |p: &u32| self.share(&uses[p]);
            let Some(best) = left.iter().map(share).max().filter(|&best| best > 0) else {
                return;
            };
            let now: Vec<u32> = left.iter().copied().filter(|p| share(p) == best).collect();
            left.retain(|p| !now.contains(p));
            let this = &*self;
            let mut placed: Vec<(Cuts, Methods)> = Vec::with_capacity(now.len());
            let share = now.len().div_ceil(4 * this.jobs.max(1)).max(1);
            let map = |share: &[u32]| -> Vec<(Cuts, Methods)> {
                let mut scratch = Scratch::default();
                let place = |&p: &u32| this.placed(p, &models, &mut scratch);
                share.iter().map(place).collect()
            };
            let sink = |some: Vec<_>| {
                placed.extend(some);
                Ok(())
            };
            // The sink does not fail.
            let _ = fold::ordered(this.jobs, now.chunks(share), map, sink);
            for (&process, (cuts, methods)) in now.iter().zip(placed) {
                self.methods.add(methods);
                self.done(process, cuts);
                if models.len() < MODELS {
                    models.push(process);
                }
            }
        }
    }

    /// How many calls a process makes by key.
    fn uses(&self, process: u32) -> Vec<(u32, u64)> {
        let mut of_kind: FxHashMap<u32, u64> = FxHashMap::default();
        for &kind in &self.streams.streams[process as usize].kinds {
            *of_kind.entry(kind).or_default() += 1;
        }
        let mut uses: FxHashMap<u32, u64> = FxHashMap::default();
        for (kind, n) in of_kind {
            *uses.entry(self.keys.of[kind as usize]).or_default() += n;
        }
        uses.into_iter().collect()
    }

    /// The share of a process's calls that are placed by what is told, in thousandths, at least 1
    /// where any are.
    fn share(&self, uses: &[(u32, u64)]) -> u64 {
        let all: u64 = uses.iter().map(|u| u.1).sum();
        let told: u64 = uses
            .iter()
            .filter(|(key, _)| *key != NO_KEY && self.thresholds.is_told(*key))
            .map(|u| u.1)
            .sum();
        (told * 1000).div_ceil(all.max(1))
    }

    fn done(&mut self, process: u32, cuts: Cuts) {
        let stream = &self.streams.streams[process as usize];
        self.thresholds.tell(stream, &cuts, self.streams, &self.keys);
        self.cuts[process as usize] = Some(cuts);
    }

    /// A process's cuts by what is told, its own order, and what `models` do.
    fn placed(&self, process: u32, models: &[u32], scratch: &mut Scratch) -> (Cuts, Methods) {
        let stream = &self.streams.streams[process as usize];
        let Anchored { runs, calls } =
            self.thresholds.walk(stream, self.streams, &self.keys, scratch);
        let mut methods = Methods {
            sequence: calls,
            ..Methods::default()
        };
        let Some(first) = runs.first() else {
            methods.position = u64::from(stream.len());
            return (by_lines(stream, self.bounds), methods);
        };
        let all = u64::from(stream.len()) - calls;
        let habits = LazyCell::new(|| self.habits(stream, models));
        let mut cuts = Cuts::new();
        let mut position = 0;
        // Before the first call that is placed: by lines, but not after it.
        for stretch in 0..first.stretch {
            let end = self.until(stream, stretch).min(first.first);
            position += u64::from(end.saturating_sub(cuts.last().map_or(0, |c| c.1)));
            push(&mut cuts, stretch, end);
        }
        for pair in runs.windows(2) {
            let range = pair[0].last + 1..pair[1].first;
            position += self.between(stream, pair[0].stretch, pair[1].stretch, range, &mut cuts, &habits);
        }
        let last = runs.last().copied().unwrap_or(*first);
        position += self.rest(stream, last, &mut cuts, &habits);
        methods.position = position;
        methods.order = all.saturating_sub(position);
        (cuts, methods)
    }

    /// Cuts the calls of `range`, which lie between two that are placed in different stretches; gives
    /// how many were cut by position.
    fn between(
        &self,
        stream: &Stream,
        from: u32,
        to: u32,
        range: std::ops::Range<u32>,
        cuts: &mut Cuts,
        habits: &impl Deref<Target = Habits>,
    ) -> u64 {
        if to == from + 1 {
            if range.is_empty() {
                push(cuts, from, range.start);
                return 0;
            }
            let position = self.until(stream, from);
            let len = u64::from(range.end - range.start);
            let (cut, told) = habits.cut(stream, range, position, self.streams);
            push(cuts, from, cut);
            return if told { 0 } else { len };
        }
        for stretch in from..to {
            let end = self.until(stream, stretch).clamp(range.start, range.end);
            push(cuts, stretch, end);
        }
        u64::from(range.end - range.start)
    }

    /// Cuts the calls after the last one that is placed.
    fn rest(
        &self,
        stream: &Stream,
        last: Run,
        cuts: &mut Cuts,
        habits: &impl Deref<Target = Habits>,
    ) -> u64 {
        let range = last.last + 1..stream.len();
        let end = stream.len();
        let by_line = by_lines(stream, self.bounds).last().map_or(0, |c| c.0);
        let mut position = 0;
        if last.stretch < self.bounds.last() && !range.is_empty() {
            let to = by_line.max(last.stretch + 1);
            position = self.between(stream, last.stretch, to, range, cuts, habits);
            push(cuts, to, end);
        } else {
            push(cuts, last.stretch, end);
        }
        if cuts.last().is_some_and(|c| c.1 < end)
            && let Some(last) = cuts.last_mut()
        {
            last.1 = end;
        }
        position
    }

    /// How many of a process's calls appear up to the end of a stretch.
    fn until(&self, stream: &Stream, stretch: u32) -> u32 {
        let gap = self.bounds.ends.get(stretch as usize);
        gap.map_or(stream.len(), |&gap| stream.until(gap))
    }

    fn habits(&self, stream: &Stream, models: &[u32]) -> Habits {
        let mut kinds: Vec<u32> = stream.kinds.clone();
        kinds.sort_unstable();
        kinds.dedup();
        let comms: FxHashSet<u32> = kinds
            .iter()
            .map(|&kind| self.keys.of[kind as usize])
            .filter(|&key| key != NO_KEY && self.thresholds.is_told(key))
            .map(|key| self.keys.comm[key as usize])
            .collect();
        let mut habits = Habits::default();
        for &model in models {
            if let Some(cuts) = &self.cuts[model as usize] {
                let stream = &self.streams.streams[model as usize];
                habits.learn(stream, cuts, &comms, self.streams, &self.keys);
            }
        }
        habits
    }
}
