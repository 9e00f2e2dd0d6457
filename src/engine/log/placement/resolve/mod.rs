//! Places all calls of a log.

mod rank;

use super::again::RepeatedSteps;
use super::anchors::Thresholds;
use super::bounds::{StepBounds, StretchCuts, push_cut};
use super::keys::Sequences;
use super::limits::{MAX_MODEL_RANKS, NO_SEQUENCE, UNKNOWN_STRETCH};
use super::printer::{self, PrinterHistory, every_rank_prints};
use super::streams::{ProcessStream, StreamsByProcess};
use super::{Placement, PlacementMethods};
use crate::by_number::ByNumber;
use crate::log::timeline::PositionOnlyReason;
use crate::members::MergedMembers;
use crate::pool;
use rustc_hash::FxHashMap;

/// How many calls a process makes by key; the last one is [`NO_SEQUENCE`].
type SequenceUses = Vec<(u32, u64)>;

struct PlacementSolver<'a> {
    streams: &'a StreamsByProcess,
    keys: Sequences,
    bounds: &'a StepBounds,
    /// True if the step lines are in the same file, so that line positions count.
    by_line: bool,
    /// Without `by_line`: the stretches in which placed ranks made calls, in order.
    busy: Vec<u32>,
    /// By stream.
    cuts: ByNumber<Option<StretchCuts>>,
    /// The streams that have cuts, in the order in which they got them.
    known: Vec<u32>,
    /// By communicator: the first streams that have cuts.
    known_on: FxHashMap<u32, Vec<u32>>,
    methods: PlacementMethods,
    thresholds: Thresholds,
    /// The printing rank's steps that repeat the one before.
    again: RepeatedSteps,
    jobs: usize,
}

/// Which calls are placed by sequence.
#[derive(Clone, Copy)]
pub(super) struct PlacementScope {
    /// Places calls by line position only.
    pub(super) by_position: bool,
    /// The printing rank, if the user named it.
    pub(super) printer: Option<u32>,
    /// Only processes with a lower number are placed by sequence.
    pub(super) among: u32,
    /// Threads.
    pub(super) jobs: usize,
}

/// Places all calls of `streams`. `printers` has the ranks that printed lines so far; a rank that is found is added.
pub(super) fn place_streams(
    streams: &StreamsByProcess,
    merged: &MergedMembers,
    bounds: &StepBounds,
    scope: PlacementScope,
    printers: &mut PrinterHistory,
) -> Placement {
    let mut run = PlacementSolver::new(streams, merged, bounds, scope.jobs);
    if !scope.by_position && bounds.ends.len() > 1 {
        let own = |process: u32| vec![process];
        let mut jobs = run.group_jobs(merged, own);
        jobs.retain(|job| job.len() > 1);
        for mut job in jobs {
            job.retain(|&process| process < scope.among);
            run.place_job(&job, merged, scope.printer, printers);
        }
    }
    let mut known = std::mem::take(&mut run.known);
    // The only process of its file prints the lines itself.
    let mut speak = streams.streams.iter_numbered().filter(|s| s.1.len() > 0);
    if let (Some((only, _)), None) = (speak.next(), speak.next())
        && !scope.by_position
        && bounds.ends.len() > 1
    {
        known = vec![only];
        let stream = &streams.streams[only];
        run.methods.sequence += u64::from(stream.len());
        run.cuts[only] = Some(cuts_by_position(stream, bounds));
    }
    let methods = &mut run.methods;
    let mut streams = streams.streams.all_values();
    let cuts = run.cuts.map_mut(|placed| {
        let Some(stream) = streams.next() else {
            return Vec::new();
        };
        let mut placed = placed.take().unwrap_or_else(|| {
            methods.position += u64::from(stream.len());
            cuts_by_position(stream, bounds)
        });
        bounds.end_with_attempt(&mut placed, stream);
        let gap = |&(stretch, end): &(u32, u32)| {
            (bounds.ends.get(stretch as usize).copied().unwrap_or(0), end)
        };
        placed.iter().map(gap).collect()
    });
    Placement {
        cuts,
        methods: run.methods,
        known,
    }
}

/// A file with step lines: its stretches, and the streams with known cuts, the printing one first.
pub(super) struct ReferenceFile<'a> {
    pub(super) bounds: &'a StepBounds,
    pub(super) cuts: Vec<(u32, StretchCuts)>,
}

/// Places the calls of files without step lines. `slots` gives the streams of a process. For streams that
/// share communicators, `choose` gives the file to place by, its number, and the streams to place, in order.
/// Returns for each placed stream that number and the cuts by gap, [`UNKNOWN_STRETCH`] among them.
pub(super) fn place_other_files<'a>(
    streams: &'a StreamsByProcess,
    merged: &MergedMembers,
    slots: impl Fn(u32) -> Vec<u32>,
    choose: impl Fn(&[u32]) -> Option<(ReferenceFile<'a>, usize, Vec<u32>)>,
    jobs: usize,
) -> (Vec<(u32, usize, StretchCuts)>, PlacementMethods) {
    let nothing = StepBounds::default();
    let mut run = PlacementSolver::new(streams, merged, &nothing, jobs);
    run.by_line = false;
    let mut placed = Vec::new();
    for job in run.group_jobs(merged, slots) {
        let Some((told, which, others)) = choose(&job) else {
            continue;
        };
        run.bounds = told.bounds;
        let busy = told.cuts.iter().flat_map(|(_, cuts)| cuts);
        run.busy = busy.map(|cut| cut.0).collect();
        run.busy.sort_unstable();
        run.busy.dedup();
        let mut n = vec![0; run.keys.len()];
        let first = told.cuts.first();
        run.again = first.map_or(RepeatedSteps::default(), |(slot, cuts)| {
            RepeatedSteps::find_repeated(&streams.streams[*slot].calls, cuts)
        });
        for (slot, cuts) in told.cuts {
            let uses = run.count_uses(slot, &mut n);
            run.store_cuts(slot, cuts, &uses);
        }
        run.place_other_ranks(others.clone());
        for slot in others {
            if let Some(cuts) = run.cuts[slot].take() {
                let gap = |stretch: u32| told.bounds.ends.get(stretch as usize).copied();
                let cuts = cuts
                    .iter()
                    .map(|&(s, end)| (gap(s).unwrap_or(UNKNOWN_STRETCH), end));
                placed.push((slot, which, cuts.collect()));
            }
        }
    }
    (placed, run.methods)
}

/// Cuts a process's calls by the position of their lines.
fn cuts_by_position(stream: &ProcessStream, bounds: &StepBounds) -> StretchCuts {
    let mut cuts = StretchCuts::new();
    for &(gap, end) in &stream.ends {
        let stretch = bounds.ends.partition_point(|&last| last < gap) as u32;
        push_cut(&mut cuts, stretch, end);
    }
    cuts
}

impl<'a> PlacementSolver<'a> {
    fn new(
        streams: &'a StreamsByProcess,
        merged: &MergedMembers,
        bounds: &'a StepBounds,
        jobs: usize,
    ) -> PlacementSolver<'a> {
        let keys = Sequences::new(streams, merged);
        PlacementSolver {
            streams,
            bounds,
            by_line: true,
            busy: Vec::new(),
            cuts: streams.streams.map_values(|_, _| None),
            known: Vec::new(),
            known_on: FxHashMap::default(),
            methods: PlacementMethods::default(),
            thresholds: Thresholds::new(&keys),
            again: RepeatedSteps::default(),
            keys,
            jobs,
        }
    }

    /// Groups the streams of processes that share communicators, directly or through others; each group is in
    /// order. `slots` gives the streams of a process.
    fn group_jobs(&self, merged: &MergedMembers, slots: impl Fn(u32) -> Vec<u32>) -> Vec<Vec<u32>> {
        let mut parent = self.streams.streams.map_values(|process, _| process);
        fn root(parent: &mut ByNumber<u32>, mut at: u32) -> u32 {
            while parent[at] != at {
                parent[at] = parent[parent[at]];
                at = parent[at];
            }
            at
        }
        let mut first_of: FxHashMap<u32, u32> = FxHashMap::default();
        for (at, what) in self.streams.call_shapes().iter().enumerate() {
            let Some(id) = self.keys.comm_of[at] else {
                continue;
            };
            let member = merged.origins.members.get(what.member);
            for slot in slots(merged.origins.places.get(member.place).process) {
                if parent.get(slot).is_none() {
                    continue;
                }
                let other = *first_of.entry(id).or_insert(slot);
                let (a, b) = (root(&mut parent, slot), root(&mut parent, other));
                parent[a.max(b)] = a.min(b);
            }
        }
        let mut jobs: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for (process, stream) in self.streams.streams.iter_numbered() {
            if stream.len() > 0 {
                let root = root(&mut parent, process);
                jobs.entry(root).or_default().push(process);
            }
        }
        let mut jobs: Vec<Vec<u32>> = jobs.into_values().collect();
        jobs.sort_unstable();
        jobs
    }

    fn place_job(
        &mut self,
        job: &[u32],
        merged: &MergedMembers,
        asked: Option<u32>,
        printers: &mut PrinterHistory,
    ) {
        let known = printers.printer_among(job);
        let find = || match asked {
            Some(rank) => printer::process_of_rank(rank, job, self.streams, &self.keys, merged),
            None => {
                printer::find_printer(job, self.bounds, self.streams, &self.keys, merged, printers)
            }
        };
        let each = asked.is_none() && self.bounds.every_rank_lines().next().is_some();
        let found = if each {
            let asked: Vec<u32> = known.into_iter().collect();
            let among = if asked.is_empty() { job } else { &asked };
            every_rank_prints::find_clear_rank(job, among, self.bounds, self.streams, &self.keys)
        } else {
            let own = |printer: u32| cuts_by_position(&self.streams.streams[printer], self.bounds);
            known.or_else(find).map(|printer| (printer, own(printer)))
        };
        let Some((printer, own)) = found else {
            self.methods.why = each.then_some(PositionOnlyReason::Printers);
            return;
        };
        printers.remember_printer(printer, || {
            printer::rank_of_process(printer, self.streams, &self.keys, merged)
        });
        let stream = &self.streams.streams[printer];
        self.methods.sequence += u64::from(stream.len());
        let uses = self.count_uses(printer, &mut vec![0; self.keys.len()]);
        self.again = RepeatedSteps::find_repeated(&stream.calls, &own);
        self.store_cuts(printer, own, &uses);
        self.thresholds
            .end_at_last_line(&uses, self.bounds.last_gap());
        let left = job.iter().copied().filter(|&p| p != printer).collect();
        self.place_other_ranks(left);
    }

    /// Places the calls of `left` by the thresholds, beginning with the ranks that have most in common with them.
    fn place_other_ranks(&mut self, mut left: Vec<u32>) {
        let map = |share: &[u32]| -> Vec<SequenceUses> {
            let mut n = vec![0; self.keys.len()];
            share.iter().map(|&p| self.count_uses(p, &mut n)).collect()
        };
        let uses: FxHashMap<u32, SequenceUses> = left
            .iter()
            .copied()
            .zip(self.map_processes(&left, map))
            .collect();
        while !left.is_empty() {
            let share = |p: &u32| self.placed_share(&uses[p]);
            let Some(best) = left.iter().map(share).max().filter(|&best| best > 0) else {
                return;
            };
            let (now, later): (Vec<u32>, _) = left.into_iter().partition(|p| share(p) == best);
            left = later;
            let this = &*self;
            let map = |share: &[u32]| -> Vec<(StretchCuts, PlacementMethods)> {
                let (mut scratch, mut leanings) = Default::default();
                let place = |p: &u32| this.place_rank(*p, &uses[p], &mut scratch, &mut leanings);
                share.iter().map(place).collect()
            };
            let placed = this.map_processes(&now, map);
            for (&process, (cuts, methods)) in now.iter().zip(placed) {
                self.methods.add_counts(methods);
                self.store_cuts(process, cuts, &uses[&process]);
            }
        }
    }

    /// Maps `processes` on all cores, in their order.
    fn map_processes<T: Send>(
        &self,
        processes: &[u32],
        map: impl Fn(&[u32]) -> Vec<T> + Sync,
    ) -> Vec<T> {
        let mut all = Vec::with_capacity(processes.len());
        let share = processes.len().div_ceil(4 * self.jobs.max(1)).max(1);
        let sink = |some: Vec<T>| {
            all.extend(some);
            Ok(())
        };
        // The sink does not fail.
        let _ = pool::map_in_order(self.jobs, processes.chunks(share), map, sink);
        all
    }

    /// Counts a process's calls by key; `n` is 0 for each key before and after.
    fn count_uses(&self, process: u32, n: &mut [u64]) -> SequenceUses {
        let (mut used, mut without) = (Vec::new(), 0);
        for what in self.streams.streams[process].calls.all() {
            let key = self.keys.of[what as usize];
            let Some(n) = n.get_mut(key as usize) else {
                without += 1;
                continue;
            };
            if *n == 0 {
                used.push(key);
            }
            *n += 1;
        }
        let of_key = |key: u32| (key, std::mem::take(&mut n[key as usize]));
        let mut uses: SequenceUses = used.into_iter().map(of_key).collect();
        uses.push((NO_SEQUENCE, without));
        uses
    }

    /// Returns the share of a process's calls that the thresholds place, in thousandths, rounded up.
    fn placed_share(&self, uses: &[(u32, u64)]) -> u64 {
        let all: u64 = uses.iter().map(|u| u.1).sum();
        let told = uses.iter().filter(|(key, _)| *key != NO_SEQUENCE);
        // The placed rank may have stopped long before.
        let told: u64 = told
            .map(|&(key, n)| n.min(self.thresholds.count_calls(key)))
            .sum();
        (told * 1000).div_ceil(all.max(1))
    }

    fn store_cuts(&mut self, process: u32, cuts: StretchCuts, uses: &[(u32, u64)]) {
        let stream = &self.streams.streams[process];
        let new = uses.iter().map(|(key, _)| *key);
        let new: Vec<u32> = new
            .filter(|&key| key != NO_SEQUENCE && !self.thresholds.has_thresholds(key))
            .collect();
        if !new.is_empty() {
            self.thresholds
                .learn_thresholds(stream, &cuts, &self.keys, &new);
        }
        self.cuts[process] = Some(cuts);
        self.known.push(process);
        for (key, _) in uses.iter().filter(|(key, _)| *key != NO_SEQUENCE) {
            let comm = self.keys.comm[*key as usize];
            let known = self.known_on.entry(comm).or_default();
            if known.len() < MAX_MODEL_RANKS && !known.contains(&process) {
                known.push(process);
            }
        }
    }
}
