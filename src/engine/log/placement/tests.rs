use super::placer::CallPlacer;
use super::{CallRecorder, CutsByProcess, Placement, PlacementMethods, StreamsByProcess};
use crate::grammar::trainer::Recogniser;
use crate::log::LogState;
use crate::log::timeline::{self, GapKind, PositionOnlyReason, StepTimeline};
use crate::log::walk;
use crate::members::{MergedMembers, MergedNumbers};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A job of ranks that are all in one communicator and, two by two, in another; each step has so
/// many calls of the pairs before its two of all.
#[derive(Debug, Clone)]
struct Job {
    ranks: usize,
    steps: usize,
    pairs: usize,
    printer: usize,
    /// How many calls each rank is ahead of the line of a step, by step and rank; below 0 it lags.
    ahead: Vec<Vec<i64>>,
    /// A rank whose sizes are its own.
    odd: Option<usize>,
    init: bool,
    /// A rank, and the number of a call that it leaves out.
    left_out: Option<(usize, usize)>,
    /// Every rank prints its own lines: whose turn it is to make a call, again and again.
    turns: Vec<usize>,
}

impl Job {
    fn even(ranks: usize, steps: usize, ahead: i64) -> Job {
        Job {
            ranks,
            steps,
            pairs: 3,
            printer: 0,
            ahead: vec![(0..ranks as i64).map(|rank| rank * ahead).collect(); steps],
            odd: None,
            init: true,
            left_out: None,
            turns: Vec::new(),
        }
    }

    /// How many calls are made.
    fn calls(&self) -> usize {
        self.ranks * self.steps * self.of_a_step() - usize::from(self.left_out.is_some())
    }

    /// Calls and lines of ranks that each print their own, at most three steps apart.
    fn by_turns(&self) -> String {
        let mut log = String::new();
        let all = self.steps * self.of_a_step();
        let mut made = vec![0; self.ranks];
        for turn in self.turns.iter().cycle() {
            let (slowest, least) = made.iter().enumerate().min_by_key(|m| m.1).unwrap();
            if *least == all {
                break;
            }
            let is_far = made[*turn] / self.of_a_step() >= least / self.of_a_step() + 3;
            let rank = if is_far || made[*turn] == all {
                slowest
            } else {
                *turn
            };
            if self.left_out != Some((rank, made[rank])) {
                log += &self.call(rank, made[rank]);
            }
            made[rank] += 1;
            if made[rank].is_multiple_of(self.of_a_step()) {
                let step = made[rank] / self.of_a_step() - 1;
                writeln!(
                    log,
                    "[titan] 2026-04-03 13:00:48,267 - root - INFO - step: {step:2}  loss:  2.8  \
                     tps: 1,542"
                )
                .unwrap();
            }
        }
        log
    }

    fn of_a_step(&self) -> usize {
        self.pairs + 2
    }

    fn call(&self, rank: usize, number: usize) -> String {
        let at = number % self.of_a_step();
        let (op, comm, of, mut count) = match at {
            at if at < self.pairs => ("AllGather", 0x900_000, 2, 64 << at),
            at if at == self.pairs => ("AllReduce", 0x100_000, self.ranks, 4096),
            _ => ("AllReduce", 0x100_000, self.ranks, 1),
        };
        if self.odd == Some(rank) {
            count += 7 + number;
        }
        format!(
            "h1:{}:{} [{rank}] NCCL INFO {op}: opCount {:x} sendbuff 0x7f0000000000 recvbuff \
             0x7f0000000000 count {count} datatype 7 op 0 root 0 comm {:#x} [nranks={of}] stream \
             0x5600ea6658e0\n",
            100 + rank,
            200 + rank,
            number / self.of_a_step(),
            comm + 0x10_000 * rank,
        )
    }

    fn log(&self) -> String {
        let mut log = String::new();
        for rank in (0..self.ranks).filter(|_| self.init) {
            for (comm, of, at, id) in [
                (0x100_000, self.ranks, rank, 0xabc0),
                (0x900_000, 2, rank % 2, 0xabc1 + rank / 2),
            ] {
                writeln!(
                    log,
                    "h1:{}:{} [{rank}] NCCL INFO ncclCommInitRank comm {:#x} rank {at} nranks {of} \
                     cudaDev {rank} nvmlDev {rank} busId 1b000 commId {id:#x} - Init COMPLETE",
                    100 + rank,
                    200 + rank,
                    comm + 0x10_000 * rank,
                )
                .unwrap();
            }
        }
        if !self.turns.is_empty() {
            return log + &self.by_turns();
        }
        let all = self.steps * self.of_a_step();
        let mut made = vec![0; self.ranks];
        for (step, ahead) in self.ahead.iter().enumerate() {
            let line = (step + 1) * self.of_a_step();
            for rank in 0..self.ranks {
                let own = if rank == self.printer { 0 } else { ahead[rank] };
                let until = (line as i64 + own).clamp(made[rank] as i64, all as i64) as usize;
                let until = if rank == self.printer { line } else { until };
                let own = (made[rank]..until).filter(|&n| self.left_out != Some((rank, n)));
                own.for_each(|number| log += &self.call(rank, number));
                made[rank] = until;
            }
            writeln!(
                log,
                "Training epoch 0, iteration {step}/999 | lr: 1e-05 | global_batch_size: 64 | \
                 global_step: {step} | reduced_train_loss: 3.25 | train_step_timing in s: 1.5"
            )
            .unwrap();
        }
        for (rank, made) in made.into_iter().enumerate() {
            let own = (made..all).filter(|&n| self.left_out != Some((rank, n)));
            own.for_each(|number| log += &self.call(rank, number));
        }
        log
    }

    /// For each call of each process in order: its step, as placed; and how they were placed.
    fn placed(
        &self,
        held: u64,
        jobs: usize,
        chunk: usize,
        steps: &timeline::Options,
    ) -> (BTreeMap<u64, Vec<Option<u64>>>, PlacementMethods) {
        let (text, recogniser) = (self.log(), Recogniser::all());
        let mut merged = MergedMembers::default();
        merged.begin_next_input();
        let (mut log, mut to) = (LogState::default(), MergedNumbers::default());
        let mut placer = CallPlacer::new(held, jobs);
        let mut forgetful = CallPlacer::new(held, jobs).without_old_cuts();
        // Calls by gap, as they are given.
        let (mut given, mut twin) = (BTreeMap::new(), BTreeMap::new());
        let to_all =
            |all: &mut BTreeMap<u32, usize>, calls: &StreamsByProcess, cuts: &CutsByProcess| {
                for calls in calls.each_gap_calls(cuts) {
                    *all.entry(calls.gap).or_default() += calls.count_calls();
                }
            };
        let mut sink =
            |calls: &StreamsByProcess, cuts: &CutsByProcess| to_all(&mut given, calls, cuts);
        let mut to_twin =
            |calls: &StreamsByProcess, cuts: &CutsByProcess| to_all(&mut twin, calls, cuts);
        let mut from = 0;
        while from < text.len() {
            let rest = text.as_bytes().get(from + chunk..).unwrap_or_default();
            let end = memchr::memchr(b'\n', rest).map_or(text.len(), |at| from + chunk + at + 1);
            let bytes = &text.as_bytes()[from..end];
            let at = walk::ChunkPlace {
                offset: from as u64,
                is_quiet: true,
            };
            let scan = || walk::walk_bytes(bytes, at, &recogniser, false, CallRecorder::default());
            let part = log.add_chunk(scan(), &mut merged, &mut to);
            let (calls, part) = part.take_visit();
            placer.add_chunk(calls, &part, steps, &mut sink);
            forgetful.add_chunk(scan().visit, &part, steps, &mut to_twin);
            // Of a log without step lines no more is kept than its last chunk added.
            let bound = 2 * held + bytes.len() as u64 / 64;
            assert!(!self.ahead.is_empty() || placer.calls() <= bound);
            from = end;
        }
        log.end_log();
        let timeline = log.build_timeline(steps);
        let (placement, _) = placer.end_input(&timeline, &merged, &mut sink);
        let is_whole = forgetful.is_whole();
        let (forgot, _) = forgetful.end_input(&timeline, &merged, &mut to_twin);
        let few = |cuts: &Vec<_>| cuts.len() < 2;
        assert!(is_whole && forgot.cuts == placement.cuts || forgot.cuts.all_values().all(few));
        assert_eq!((&twin, forgot.methods), (&given, placement.methods));
        let all = self.calls();
        assert_eq!(given.values().sum::<usize>(), all);
        assert_eq!(placement.methods.total_calls(), all as u64);
        (
            self.steps_of(&placement, &timeline, &merged),
            placement.methods,
        )
    }

    /// After each chunk what is settled, and the gap of each call by process, where so few calls are
    /// placed again; and whether some were not.
    fn so_far(&self, few: u64, chunk: usize) -> (Vec<SettledThen>, bool) {
        let (text, recogniser) = (self.log(), Recogniser::all());
        let options = timeline::Options::default();
        let mut merged = MergedMembers::default();
        merged.begin_next_input();
        let (mut log, mut to) = (LogState::default(), MergedNumbers::default());
        let mut placer = CallPlacer::new(WHOLE, 1).lately(few);
        let (mut all, mut from, mut needed, mut is_bounded) = (Vec::new(), 0, 0, false);
        while from < text.len() {
            let rest = text.as_bytes().get(from + chunk..).unwrap_or_default();
            let end = memchr::memchr(b'\n', rest).map_or(text.len(), |at| from + chunk + at + 1);
            let bytes = &text.as_bytes()[from..end];
            let at = walk::ChunkPlace {
                offset: from as u64,
                is_quiet: true,
            };
            let scanned = walk::walk_bytes(bytes, at, &recogniser, false, CallRecorder::default());
            let part = log.add_chunk(scanned, &mut merged, &mut to);
            let (calls, part) = part.take_visit();
            placer.add_chunk(calls, &part, &options, |_, _| {});
            let held = placer.calls();
            let timeline = log.build_timeline(&options);
            let found = placer.live_placement(&timeline, &merged, needed);
            is_bounded |= found.streams.count_calls() < held;
            let mut by_gap: BTreeMap<u32, usize> = BTreeMap::new();
            for calls in found.streams.each_gap_calls(&found.cuts) {
                if calls.gap >= needed && Some(calls.gap) <= found.settled {
                    *by_gap.entry(calls.gap).or_default() += calls.count_calls();
                }
            }
            let numbers = 0..(self.steps * self.of_a_step()) as u32;
            let gaps = |process| {
                numbers
                    .clone()
                    .map(|n| found.cut_of_call(process, n).map(|cut| cut.0))
                    .collect()
            };
            let gaps = (0..self.ranks as u32).map(gaps).collect();
            needed = found.settled.map_or(0, |last| last + 1).max(needed);
            all.push((found.settled, gaps, by_gap));
            from = end;
        }
        (all, is_bounded)
    }

    fn steps_of(
        &self,
        placement: &Placement,
        timeline: &StepTimeline,
        merged: &MergedMembers,
    ) -> BTreeMap<u64, Vec<Option<u64>>> {
        let mut again = placement.gap_cursor();
        let mut of = BTreeMap::new();
        for (process, who) in (0_u32..).zip(merged.origins.processes.items()) {
            let steps = std::iter::from_fn(|| again.next_gap(process));
            let step = |gap: u32| match timeline.gaps.get(gap as usize) {
                Some(GapKind::Step(step)) => Some(u64::from(*step)),
                _ => None,
            };
            of.insert(who.pid.unwrap() - 100, steps.map(step).collect());
        }
        of
    }

    /// The share of calls in their true step, in percent; what comes after the last line has none.
    fn right(&self, placed: &BTreeMap<u64, Vec<Option<u64>>>) -> f64 {
        let (mut n, mut ok) = (0, 0);
        for (&rank, steps) in placed {
            let is_made = |n: &usize| self.left_out != Some((rank as usize, *n));
            let numbers: Vec<usize> = (0..self.steps * self.of_a_step()).filter(is_made).collect();
            assert_eq!(steps.len(), numbers.len());
            for (number, step) in numbers.into_iter().zip(steps) {
                n += 1;
                ok += i32::from(*step == Some((number / self.of_a_step()) as u64));
            }
        }
        100.0 * f64::from(ok) / f64::from(n)
    }
}

const WHOLE: u64 = 1 << 20;

/// What is settled, the gap of each call by process, and the calls of gaps that are new.
type SettledThen = (Option<u32>, Vec<Vec<Option<u32>>>, BTreeMap<u32, usize>);

#[test]
fn of_a_long_log_the_last_calls_are_placed_at_each_pause() {
    let job = Job::even(4, 120, 3);
    let (last, is_bounded) = job.so_far(100, 3000);
    assert!(is_bounded);
    assert!(last == job.so_far(u64::MAX, 3000).0);
    // The last step's gap, after those before the lines of joining two communicators a rank.
    assert_eq!(last.last().and_then(|last| last.0), Some(119 + 2 * 4));
}

fn whole(job: &Job) -> (f64, PlacementMethods) {
    let (steps, methods) = job.placed(WHOLE, 1, 1 << 30, &timeline::Options::default());
    (job.right(&steps), methods)
}

#[test]
fn a_log_without_step_lines_is_not_held() {
    let job = Job {
        ahead: Vec::new(),
        ..Job::even(4, 40, 3)
    };
    let (_, methods) = job.placed(16, 1, 2000, &timeline::Options::default());
    assert_eq!((methods.sequence, methods.order), (0, 0));
}

#[test]
fn ranks_ahead_are_placed_by_sequence_and_by_their_order() {
    let job = Job::even(4, 8, 3);
    let (right, methods) = whole(&job);
    assert_eq!(right, 100.0);
    // The pair of the printing rank and the calls of all; the other pair's by order.
    assert_eq!((methods.position, methods.why), (0, None));
    assert_eq!(methods.order, 2 * 8 * 3);
}

#[test]
fn the_rank_that_prints_is_the_one_whose_calls_fit_its_lines() {
    // The trainer's usual one is the first; here it is another one, and the first is never at
    // the same place.
    let ahead = |step: i64| vec![step * 7 % 4 + 1, step * 5 % 9, 0, step * 3 % 11];
    let job = Job {
        printer: 2,
        ahead: (0..12).map(ahead).collect(),
        ..Job::even(4, 12, 0)
    };
    assert_eq!(whole(&job).0, 100.0);
    // Said wrong, its calls are cut where its lines are not.
    let wrong = timeline::Options {
        printer: Some(3),
        ..timeline::Options::default()
    };
    let (steps, methods) = job.placed(WHOLE, 1, 1 << 30, &wrong);
    assert!(job.right(&steps) < 90.0);
    assert_eq!(methods.total_calls(), 4 * 12 * 5);
}

#[test]
fn calls_that_are_not_the_same_do_not_place_each_other() {
    // A rank whose numbers mean other calls than the printing rank's.
    let job = Job {
        odd: Some(3),
        ..Job::even(4, 8, 2)
    };
    let (_, methods) = whole(&job);
    let even = whole(&Job::even(4, 8, 2)).1;
    assert!(methods.sequence < even.sequence);
    assert_eq!(methods.position, 8 * 5);
}

#[test]
fn who_left_a_call_out_is_placed_by_what_comes_after_it() {
    // Another rank than the printing one, and that one itself.
    for rank in [2, 0] {
        let job = Job {
            left_out: Some((rank, 23)),
            ..Job::even(4, 10, 3)
        };
        let (right, methods) = whole(&job);
        assert_eq!((right, methods.position), (100.0, 0), "{rank}");
    }
}

#[test]
fn position_is_all_where_nothing_else_is_known_or_wanted() {
    let job = Job {
        init: false,
        ..Job::even(4, 8, 2)
    };
    let (_, methods) = whole(&job);
    assert_eq!((methods.position, methods.why), (4 * 8 * 5, None));
    let asked = timeline::Options {
        by_position: true,
        ..timeline::Options::default()
    };
    let (_, methods) = Job::even(4, 8, 2).placed(WHOLE, 1, 1 << 30, &asked);
    assert_eq!(
        (methods.position, methods.why),
        (4 * 8 * 5, Some(PositionOnlyReason::Asked))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// The twin places the whole log at once, walked in one piece on one thread.
    #[test]
    fn chunks_and_threads_change_nothing(
        ahead in proptest::collection::vec(proptest::collection::vec(-6..12_i64, 4), 12..20),
        pairs in 1..5_usize,
        jobs in 1..4_usize,
        chunk in 200..4000_usize,
    ) {
        let job = Job { steps: ahead.len(), pairs, ahead, ..Job::even(4, 1, 0) };
        let options = timeline::Options::default();
        let want = job.placed(WHOLE, 1, 1 << 30, &options);
        prop_assert_eq!(&job.placed(WHOLE, jobs, chunk, &options), &want);
        prop_assert!(job.right(&want.0) > 99.9, "{}", job.right(&want.0));
        // In little memory they are placed piece by piece, and no call is lost or counted twice.
        let some = 11 * 4 * job.of_a_step() as u64;
        // Of each rank 8 bytes a step, and 20 bytes for each different call.
        let bytes = some + 11 * 4 * 8 + 20 * 4 * job.of_a_step() as u64;
        let little = job.placed(bytes, jobs, chunk, &options);
        prop_assert!(job.right(&little.0) > 90.0, "{}", job.right(&little.0));
        job.placed(some / 4, jobs, chunk, &options);
    }

    /// Lines that do not name their rank, in any order that ranks may come to them.
    #[test]
    fn where_every_rank_prints_each_ones_own_lines_count(
        turns in proptest::collection::vec(0..4_usize, 40..400),
        pairs in 1..5_usize,
        chunk in 200..4000_usize,
    ) {
        prop_assume!((0..4).all(|rank| turns.contains(&rank)));
        let job = Job { pairs, turns, ..Job::even(4, 16, 0) };
        let options = timeline::Options::default();
        let (steps, methods) = job.placed(WHOLE, 1, 1 << 30, &options);
        prop_assert_eq!(job.right(&steps), 100.0);
        prop_assert_eq!(methods.position, 0);
        prop_assert_eq!(job.placed(WHOLE, 2, chunk, &options), (steps, methods));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// The last calls alone tell as much as all of them, also where a rank left a call out: its
    /// later calls are counted from another place. Where two calls alternate, one that was left out
    /// looks like one more: only who made fewer at the end tells, and ranks that are not in step
    /// hide it until the log ends. So there ranks are in step, and no two calls alternate.
    #[test]
    fn the_last_calls_are_placed_as_well_as_all_are(
        ahead in proptest::collection::vec(proptest::collection::vec(-6..12_i64, 4), 60..120),
        pairs in 1..5_usize,
        few in 1..400_u64,
        chunk in 3000..20_000_usize,
        left_out in proptest::option::of((1..4_usize, 0..300_usize)),
    ) {
        let ranks = Job { pairs, ahead, ..Job::even(4, 1, 0) };
        let job = match left_out {
            Some(_) => Job { pairs: pairs.max(3), left_out, ..Job::even(4, ranks.ahead.len(), 0) },
            None => Job { steps: ranks.ahead.len(), ..ranks },
        };
        // The calls that are in another step than theirs: each gap is a step's.
        let wrong = |few| {
            let (all, _) = job.so_far(few, chunk);
            let (_, gaps, _) = all.last()?.clone();
            let gaps = (0..).zip(gaps).flat_map(|(of, gaps)| {
                let calls = (0..).zip(gaps).filter_map(move |(n, gap)| Some((of, n, gap?)));
                calls.collect::<Vec<(usize, usize, u32)>>()
            });
            let is_wrong = |&(of, n, gap): &(usize, usize, u32)| {
                let is_later = left_out.is_some_and(|(rank, number)| of == rank && n >= number);
                let n = n + usize::from(is_later);
                (n / job.of_a_step()) as u32 != gap
            };
            Some(gaps.filter(is_wrong).count())
        };
        let (last, all) = (wrong(few), wrong(u64::MAX));
        prop_assert!(last.unwrap_or(0) <= all.unwrap_or(0) + job.calls() / 100, "{last:?} {all:?}");
    }
}
