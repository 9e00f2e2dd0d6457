//! The steps of lists of marks.

use super::*;
use crate::grammar::trainer::{EvaluationLine, StepNumberUnit, TrainerClock, TrainerPace};
use crate::log::walk::MarkPosition;

fn step(trainer: Trainer, step: u64) -> TrainerMark {
    TrainerMark::Step(StepLine::without_time(trainer, step))
}

pub(in crate::log::timeline) fn marks(list: Vec<TrainerMark>) -> Vec<MarkPosition> {
    (0_u64..)
        .zip(list)
        .map(|(i, mark)| MarkPosition {
            start: i,
            cut: i + 1,
            line: i,
            next_line: i + 1,
            mark,
        })
        .collect()
}

fn gap_steps(list: Vec<TrainerMark>, options: &Options) -> Vec<String> {
    let t = resolve_timeline(&marks(list), &[], options);
    let name = |gap: usize| match t.gaps.remaining()[gap] {
        GapKind::Step(i) => format!(
            "{}:{}",
            t.steps.remaining()[i as usize].segment,
            t.steps.remaining()[i as usize].step
        ),
        other => format!("{other:?}"),
    };
    (0..t.gaps.len()).map(name).collect()
}

#[test]
fn what_stands_before_a_line_is_its_step() {
    let list = [0, 1, 2].map(|s| step(Trainer::Nemo2, s)).to_vec();
    assert_eq!(
        gap_steps(list, &Options::default()),
        ["0:0", "0:1", "0:2", "After"]
    );
}

#[test]
fn a_falling_number_is_a_new_segment_and_a_repeated_one_a_duplicate() {
    let list = [5, 6, 6, 3, 4].map(|s| step(Trainer::Megatron, s)).to_vec();
    let got = gap_steps(list, &Options::default());
    assert_eq!(got, ["0:5", "0:6", "1:3", "1:3", "1:4", "After"]);
    // Where every rank prints, a late line of the step before is no restart.
    let list = [5, 6, 5, 6, 7]
        .map(|s| step(Trainer::Torchtitan, s))
        .to_vec();
    let got = gap_steps(list, &Options::default());
    assert_eq!(got, ["0:5", "0:6", "0:7", "0:7", "0:7", "After"]);
}

#[test]
fn evaluation_is_between_and_another_trainers_line_is_nothing() {
    let list = vec![
        step(Trainer::Megatron, 1),
        TrainerMark::Between,
        step(Trainer::DeepSpeed, 2),
        step(Trainer::Megatron, 2),
    ];
    let got = gap_steps(list, &Options::default());
    assert_eq!(got, ["0:1", "Between", "0:2", "0:2", "After"]);
}

#[test]
fn lines_that_begin_steps_and_lines_that_lag() {
    let list = [1, 2].map(|s| step(Trainer::Custom, s)).to_vec();
    let start = Options {
        marker: MarkerSide::Start,
        ..Options::default()
    };
    assert_eq!(gap_steps(list, &start), ["Before", "0:1", "0:2"]);
    let list = [0, 1, 2].map(|s| step(Trainer::MaxText, s)).to_vec();
    let t = resolve_timeline(&marks(list.clone()), &[], &Options::default());
    assert_eq!(
        t.steps
            .iter()
            .map(|s| (s.step, s.steps))
            .collect::<Vec<_>>(),
        [(1, 2), (2, 1), (3, 1)]
    );
    let printed = Options {
        as_printed: true,
        ..Options::default()
    };
    assert_eq!(gap_steps(list, &printed), ["0:0", "0:1", "0:2", "After"]);
}

#[test]
fn values_that_come_with_a_later_line_are_waited_for_also_after_a_restart() {
    let timed = |trainer, step, time_s| {
        TrainerMark::Step(StepLine {
            time_s,
            ..StepLine::without_time(trainer, step)
        })
    };
    let told = |list: &[TrainerMark]| {
        let t = resolve_timeline(&marks(list.to_vec()), &[], &Options::default());
        (t.count_known_steps(), t.steps.len())
    };
    // The last step of the first segment never gets its time.
    let list = [0, 1, 2, 0, 1].map(|step| timed(Trainer::MaxText, step, Some(1.8)));
    for lines in 2..=list.len() {
        let (told, steps) = told(&list[..lines]);
        assert_eq!(told, steps - 1);
    }
    let times = [Some(1.8), Some(1.8), None, None, Some(0.5)];
    let list: Vec<TrainerMark> = [1, 2, 3, 1, 2]
        .iter()
        .zip(times)
        .map(|(&step, time)| timed(Trainer::DeepSpeed, step, time))
        .collect();
    let told = [2, 3, 4, 5].map(|lines| told(&list[..lines]).0);
    assert_eq!(told, [2, 2, 3, 5]);
}

/// The times of steps by the stamps of their lines.
fn stamped(list: &[(u64, i64)], more: &[(usize, TrainerMark)]) -> Vec<Option<f64>> {
    let mut all: Vec<TrainerMark> = list
        .iter()
        .map(|&(step, ms)| {
            TrainerMark::Step(StepLine {
                wall_ms: Some(ms),
                ..StepLine::without_time(Trainer::Torchtitan, step)
            })
        })
        .collect();
    for &(at, mark) in more {
        all.insert(at, mark);
    }
    let t = resolve_timeline(&marks(all), &[], &Options::default());
    t.steps.iter().map(|step| step.time_s).collect()
}

#[test]
fn what_new_processes_print_is_a_segment_of_its_own() {
    let begin = |at: u64, sure| AttemptStart {
        at,
        sure,
        smaller: false,
    };
    let smaller = |at: u64| AttemptStart {
        smaller: true,
        ..begin(at, true)
    };
    let steps = |list: &[TrainerMark], begins: &[AttemptStart]| {
        let t = resolve_timeline(&marks(list.to_vec()), begins, &Options::default());
        let of = |gap: &GapKind| match gap {
            GapKind::Step(i) => {
                let step = &t.steps.remaining()[*i as usize];
                format!("{}:{}", step.segment, step.step)
            }
            other => format!("{other:?}"),
        };
        t.gaps.iter().map(of).collect::<Vec<_>>()
    };
    let of = |s: u64| step(Trainer::Megatron, s);
    let list = [of(5), of(6), of(6), of(7)];
    assert_eq!(steps(&list, &[]), ["0:5", "0:6", "0:7", "0:7", "After"]);
    let again = ["0:5", "0:6", "1:6", "1:7", "After"];
    assert_eq!(steps(&list, &[begin(2, true)]), again);
    assert_eq!(steps(&list, &[begin(2, false)]), again);
    // Who was only counted may be seen late, but not when two steps are over.
    assert_eq!(steps(&list, &[begin(1, false)]), steps(&list, &[]));
    // A smaller job may be beside the first, which goes on.
    assert_eq!(steps(&list, &[smaller(1), smaller(3)]), steps(&list, &[]));
    assert_eq!(steps(&list, &[smaller(2)]), again);
    // Before all step lines, and after them, nothing begins again.
    assert_eq!(
        steps(&list, &[begin(0, true), begin(9, true)]),
        steps(&list, &[])
    );
    // A launcher's word ends what the processes before it made, an evaluation included.
    let list = [
        of(5),
        of(6),
        TrainerMark::Between,
        TrainerMark::Ended,
        TrainerMark::Between,
        of(9),
    ];
    let told = ["0:5", "0:6", "Between", "After", "Between", "1:9", "After"];
    assert_eq!(steps(&list, &[begin(4, true)]), told);
    // Where the new processes join a communicator nothing is made any more by those before them.
    let list = [
        of(5),
        of(6),
        TrainerMark::Joined,
        TrainerMark::Joined,
        of(9),
    ];
    let told = ["0:5", "0:6", "After", "1:9", "1:9", "After"];
    assert_eq!(steps(&list, &[begin(2, true)]), told);
    assert_eq!(
        steps(&list, &[]),
        ["0:5", "0:6", "0:9", "0:9", "0:9", "After"]
    );
    // A launcher's word comes before what the new ones print at their start; it counts for one start.
    let list = [
        of(5),
        TrainerMark::Ended,
        TrainerMark::Joined,
        TrainerMark::Joined,
        of(5),
    ];
    let told = ["0:5", "After", "1:5", "1:5", "1:5", "After"];
    assert_eq!(steps(&list, &[begin(2, true)]), told);
    let told = ["0:5", "After", "After", "After", "1:5", "After"];
    assert_eq!(steps(&list, &[begin(2, true), begin(3, true)]), told);
    // What was ended before is not what begins.
    let list = [
        of(5),
        TrainerMark::Ended,
        TrainerMark::Ended,
        TrainerMark::Ended,
        of(5),
    ];
    let told = ["0:5", "After", "After", "1:5", "1:5", "After"];
    assert_eq!(steps(&list, &[begin(3, true)]), told);
    // No new process: the job went on.
    assert_eq!(steps(&list[..2], &[]), ["0:5", "After", "After"]);
    assert_eq!(
        steps(&[of(5), TrainerMark::Ended, of(6)], &[]),
        ["0:5", "0:6", "0:6", "After"]
    );
    assert_eq!(
        steps(&[of(5), TrainerMark::Ended, of(2)], &[]),
        ["0:5", "After", "1:2", "After"]
    );
}

#[test]
fn the_largest_number_overflows_nothing() {
    for trainer in [
        Trainer::MaxText,
        Trainer::Torchtitan,
        Trainer::Nemo2,
        Trainer::Custom,
    ] {
        for list in [
            &[u64::MAX][..],
            &[0, u64::MAX],
            &[u64::MAX, 0, u64::MAX],
            &[u64::MAX - 1, u64::MAX, u64::MAX - 1],
        ] {
            let list = list.iter().map(|s| step(trainer, *s)).collect();
            let t = resolve_timeline(&marks(list), &[], &Options::default());
            let mut present = PresentSteps::default();
            present.add_timeline(&t);
            assert!(present.describe_steps().contains("18446744073709551615"));
            let window = "18446744073709551615..".parse().unwrap();
            assert_eq!(present.check_window(&window), Ok(()));
        }
    }
}

#[test]
fn a_time_between_stamps_prints_as_its_decimals() {
    for (steps, ms, time_s) in [(10, 14_648, 1.4648), (80, 16_897, 0.2112125), (1, 7, 0.007)] {
        let times = stamped(&[(5, 9), (5 + steps, 9 + ms)], &[]);
        assert_eq!(times, [None, Some(time_s)]);
    }
}

fn stops(ms: i64, step: Option<u64>) -> TrainerMark {
    TrainerMark::Evaluation(EvaluationLine::Stops {
        wall_ms: Some(ms),
        samples: None,
        step,
    })
}

#[test]
fn after_an_evaluation_of_a_known_step_its_end_is_where_the_next_begins() {
    let starts = |ms| TrainerMark::Evaluation(EvaluationLine::Starts(Some(ms)));
    let lines = [(10, 0), (20, 10_000), (30, 45_000), (40, 55_000)];
    // Before the evaluation, which is after step 25, the job does something else for long.
    let times = stamped(&lines, &[(2, starts(30_000)), (3, stops(40_000, Some(25)))]);
    assert_eq!(times, [None, Some(1.0), Some(1.0), Some(1.0)]);
}

#[test]
fn what_is_left_without_an_evaluation_is_like_the_other_times_or_unknown() {
    let starts = |ms| TrainerMark::Evaluation(EvaluationLine::Starts(Some(ms)));
    let stops = |ms| stops(ms, None);
    let lines = [(10, 0), (20, 10_000), (30, 25_000), (40, 35_000)];
    let alone = [None, Some(1.0), Some(1.5), Some(1.0)];
    assert_eq!(stamped(&lines, &[]), alone);
    // Five seconds of evaluation before step 30.
    let times = stamped(&lines, &[(2, starts(12_000)), (3, stops(17_000))]);
    assert_eq!(times, [None, Some(1.0), Some(1.0), Some(1.0)]);
    // It takes 13 seconds, so that the steps took next to nothing: what they took is unknown.
    let times = stamped(&lines, &[(2, starts(11_000)), (3, stops(24_000))]);
    assert_eq!(times, [None, Some(1.0), None, Some(1.0)]);
    // Nobody says when it began.
    let times = stamped(&lines, &[(2, stops(17_000))]);
    assert_eq!(times, [None, Some(1.0), None, Some(1.0)]);
    let times = stamped(&lines, &[(2, TrainerMark::Between)]);
    assert_eq!(times, [None, Some(1.0), None, Some(1.0)]);
    // It goes on beside the training, and takes no time of it.
    assert_eq!(
        stamped(&lines, &[(1, starts(9_000)), (3, stops(19_000))]),
        alone
    );
}

#[test]
fn an_evaluation_that_says_when_it_begins_is_alone_between() {
    let starts = TrainerMark::Evaluation(EvaluationLine::Starts(None));
    let stops = stops(0, None);
    let (one, two) = (step(Trainer::MlPerf, 1), step(Trainer::MlPerf, 2));
    let got = gap_steps(vec![one, starts, stops, two], &Options::default());
    assert_eq!(got, ["0:1", "0:2", "Between", "0:2", "After"]);
    // One that is still going on at a step's line runs beside it.
    let got = gap_steps(vec![one, starts, two, stops], &Options::default());
    assert_eq!(got, ["0:1", "0:2", "0:2", "After", "After"]);
    let start = Options {
        marker: MarkerSide::Start,
        ..Options::default()
    };
    let got = gap_steps(vec![one, starts, stops, two], &start);
    assert_eq!(got, ["Before", "0:1", "Between", "0:1", "0:2"]);
}

#[test]
fn the_first_line_represents_no_more_steps_than_there_are_up_to_it() {
    let first = |trainer, lines: &[u64]| {
        let list = lines.iter().map(|&s| step(trainer, s)).collect();
        let t = resolve_timeline(&marks(list), &[], &Options::default());
        (t.steps.remaining()[0].steps, t.line_interval())
    };
    // Step 1 has a line, and then every second or tenth one has.
    assert_eq!(first(Trainer::Torchtitan, &[1, 2, 4, 6, 8]), (1, 2));
    assert_eq!(first(Trainer::Torchtitan, &[1, 10, 20, 30]), (1, 10));
    assert_eq!(first(Trainer::Torchtitan, &[1, 3, 6]).0, 1);
    // Counting begins at 0, and every second or tenth step has a line.
    assert_eq!(first(Trainer::Torchtitan, &[1, 3, 5, 7]), (2, 2));
    assert_eq!(first(Trainer::Torchtitan, &[9, 19, 29]), (10, 10));
}

/// The steps of lines, each with its step, how many it represents, and its time.
fn timed(list: Vec<TrainerMark>) -> (StepTimeSource, Vec<(u64, u64, Option<f64>)>) {
    let t = resolve_timeline(&marks(list), &[], &Options::default());
    let of = |s: &TrainStep| (s.step, s.steps, s.time_s);
    (t.times, t.steps.iter().map(of).collect())
}

fn paced(trainer: Trainer, step: u64, epoch: u64, pace: TrainerPace) -> TrainerMark {
    TrainerMark::Step(StepLine {
        pace: Some(pace),
        epoch: Some(epoch),
        ..StepLine::without_time(trainer, step)
    })
}

#[test]
fn samples_a_second_are_a_time_where_the_batch_is_known() {
    let line = |step, ms| {
        TrainerMark::Step(StepLine {
            wall_ms: Some(ms),
            pace: Some(TrainerPace::Samples {
                per_s: 1000.0,
                batches: 1,
            }),
            ..StepLine::without_time(Trainer::Mxnet, step)
        })
    };
    let list = |batch: u64| vec![TrainerMark::BatchSize(batch), line(20, 0), line(40, 4_000)];
    let (times, got) = timed(list(200));
    assert_eq!(times, StepTimeSource::Throughput);
    assert_eq!(got, [(20, 20, Some(0.2)), (40, 20, Some(0.2))]);
    // The rate is one process's, as the stamps show.
    let (times, got) = timed(list(1600));
    assert_eq!((times, got[1].2), (StepTimeSource::Stamps, Some(0.2)));
    let (times, got) = timed(vec![line(20, 0), line(40, 4_000)]);
    assert_eq!(
        (times, got[0].2, got[1].2),
        (StepTimeSource::Stamps, None, Some(0.2))
    );
}

#[test]
fn steps_within_a_second_take_the_mean_over_enough_whole_seconds() {
    let line = |step, ms| {
        TrainerMark::Step(StepLine {
            wall_ms: Some(ms),
            ..StepLine::without_time(Trainer::OlmoCore, step)
        })
    };
    // Four steps a second, as the clock was read: 0, 0, 0, 0, 1, 1, ...
    let list = |ms: i64| (1..=60).map(move |step| line(step, (250 * step as i64) / ms * ms));
    let (times, got) = timed(list(1000).collect());
    assert_eq!(times, StepTimeSource::Seconds);
    let known = got.iter().position(|step| step.2.is_some()).unwrap();
    // The first second that begins in the log is that of step 4; no step takes no time.
    assert_eq!(known, 23);
    assert!(
        got[known..].iter().all(|step| step.2 == Some(0.25)),
        "{got:?}"
    );
    // Stamps with fractions tell each step.
    let (times, got) = timed(list(50).collect());
    assert_eq!((times, got[1].2), (StepTimeSource::Stamps, Some(0.25)));
    // A log of a few seconds tells nothing.
    let (times, got) = timed(list(1000).take(23).collect());
    assert_eq!(times, StepTimeSource::Seconds);
    assert!(got.iter().all(|step| step.2.is_none()), "{got:?}");
    // What came before the clock was set back tells nothing of what comes after.
    let back = list(1000).chain((61..=64).map(|step| line(step, 0)));
    let (_, got) = timed(back.collect());
    assert!(got[60..].iter().all(|step| step.2.is_none()), "{got:?}");
    // Longer steps are told one by one.
    let long = [(1, 0), (2, 2_000), (3, 5_000)];
    let (times, got) = timed(long.map(|(step, ms)| line(step, ms)).to_vec());
    assert_eq!((times, got[2].2), (StepTimeSource::Stamps, Some(3.0)));
}

#[test]
fn a_sum_is_over_its_steps_and_without_its_evaluation() {
    let sum = |time_s, steps| TrainerPace::Sum { time_s, steps };
    let line = |step, time_s| paced(Trainer::HugeCtr, step, 0, sum(time_s, Some(1000)));
    let took = TrainerMark::Evaluation(EvaluationLine::Took(1.5));
    let (times, got) = timed(vec![line(1000, 2.0), took, line(2000, 3.5)]);
    assert_eq!(times, StepTimeSource::Printed);
    assert_eq!(got, [(1000, 1000, Some(0.002)), (2000, 1000, Some(0.002))]);
    // Since the line before, or since the epoch began: 456 steps apart, over epochs of 544.
    let line = |epoch, step, time_s| paced(Trainer::DlLogger, step, epoch, sum(time_s, None));
    let times = |list: &[(u64, u64, f64)]| {
        let list = list.iter().map(|&(epoch, step, s)| line(epoch, step, s));
        let (_, got) = timed(list.collect());
        got.iter().map(|s| s.2).collect::<Vec<_>>()
    };
    let got = times(&[(6, 280, 56.0), (8, 192, 38.4), (9, 10, 5.0), (9, 20, 2.0)]);
    assert_eq!(got, [Some(0.2), Some(0.2), Some(0.5), Some(0.2)]);
    // Of a log's first line neither is known, but one is like the other lines.
    assert_eq!(
        times(&[(10, 101, 0.3), (10, 102, 0.25)]),
        [Some(0.3), Some(0.25)]
    );
    assert_eq!(times(&[(10, 101, 0.3)]), [None]);
}

#[test]
fn a_clock_is_taken_where_it_is_clear_and_else_the_moving_average() {
    let bar = |step, seconds, smoothed| {
        TrainerMark::Step(StepLine {
            pace: Some(TrainerPace::Smoothed(smoothed)),
            clock: Some(TrainerClock {
                seconds,
                error: 1.0,
            }),
            total: Some(100),
            ..StepLine::without_time(Trainer::Hf, step)
        })
    };
    let list = vec![
        bar(1, 264.0, 264.0),
        bar(2, 303.0, 131.6),
        bar(3, 304.0, 72.1),
        bar(4, 344.0, 60.0),
    ];
    let (times, got) = timed(list);
    assert_eq!(times, StepTimeSource::Clock);
    // The third takes the mean with the second, for one second is not clear.
    let got: Vec<_> = got.iter().map(|s| s.2).collect();
    assert_eq!(got, [Some(264.0), Some(39.0), Some(20.0), Some(40.0)]);
    let (times, got) = timed(vec![bar(1, 0.0, 0.2), bar(2, 0.0, 0.3), bar(3, 1.0, 0.25)]);
    assert_eq!((times, got[2].2), (StepTimeSource::Smoothed, Some(0.25)));
    // Lightning prints no moving average, but a rate that makes a fine clock.
    let bar = |step: u64, per_s: f64| {
        let seconds = step as f64 / per_s;
        TrainerMark::Step(StepLine {
            clock: Some(TrainerClock {
                seconds,
                error: seconds * 0.01 / per_s,
            }),
            ..StepLine::without_time(Trainer::Lightning, step)
        })
    };
    let (times, got) = timed(vec![bar(1, 1.0), bar(2, 1.6), bar(3, 2.0)]);
    assert_eq!(times, StepTimeSource::Clock);
    assert_eq!(got[0].2, Some(1.0));
    assert!((got[1].2.unwrap() - 0.25).abs() < 1e-9 && (got[2].2.unwrap() - 0.25).abs() < 1e-9);
}

#[test]
fn numbers_begin_again_in_each_epoch() {
    let pace = TrainerPace::Smoothed(1.0);
    let line = |epoch, step| paced(Trainer::Mxnet, step, epoch, pace);
    // An epoch of one line has no smaller number before it.
    let list = [(0, 20), (0, 40), (1, 20), (2, 20), (2, 40)];
    let (_, got) = timed(list.map(|(epoch, step)| line(epoch, step)).to_vec());
    let got: Vec<_> = got.iter().map(|s| (s.0, s.1)).collect();
    assert_eq!(got, [(20, 20), (40, 20), (20, 21), (20, 21), (40, 20)]);
    // Late lines of another worker.
    let list = [
        (0, 20),
        (0, 40),
        (0, 60),
        (0, 40),
        (1, 20),
        (0, 60),
        (1, 40),
    ];
    let list = list.map(|(epoch, step)| line(epoch, step)).to_vec();
    let t = resolve_timeline(&marks(list), &[], &Options::default());
    assert_eq!((t.steps.len(), t.duplicates), (5, 2));
}

#[test]
fn samples_are_steps_over_the_batch_size() {
    let line = |samples, ms| {
        TrainerMark::Step(StepLine {
            counts: StepNumberUnit::Samples,
            wall_ms: Some(ms),
            ..StepLine::without_time(Trainer::MlPerf, samples)
        })
    };
    let list = [(640, 0), (1280, 8_000), (1920, 16_000), (1930, 16_800)];
    let list = list.map(|(samples, ms)| line(samples, ms)).to_vec();
    let (_, got) = timed([vec![TrainerMark::BatchSize(64)], list.clone()].concat());
    assert_eq!(got[..2], [(10, 10, None), (20, 10, Some(0.8))]);
    // The last batch of an epoch is smaller.
    assert_eq!(got[3], (31, 1, Some(0.8)));
    let t = resolve_timeline(&marks(list.clone()), &[], &Options::default());
    assert_eq!(
        (t.counted, t.times),
        (LineNumberUnit::Samples, StepTimeSource::Printed)
    );
    assert_eq!(
        (t.steps.remaining()[1].step, t.steps.remaining()[1].time_s),
        (1280, None)
    );
}

#[test]
fn a_window_reads_as_typed() {
    let of = |t: &str| t.parse::<StepWindow>().map(|w| (w.from, w.to));
    assert_eq!(of("45..49"), Ok((45, 49)));
    assert_eq!(of("45..=49"), Ok((45, 49)));
    assert_eq!(of("45"), Ok((45, 45)));
    assert_eq!(of("45.."), Ok((45, u64::MAX)));
    assert_eq!(of("..49"), Ok((0, 49)));
    for bad in ["", "..", "a..b", "9..3", "-1..2", "1..2..3"] {
        assert!(of(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_missing_step_names_the_steps_there_are() {
    let mut present = PresentSteps::default();
    (0..=55).for_each(|s| present.add_step(s, 1));
    for ok in ["45..49", "..3", "50..", "0..55", "7"] {
        assert_eq!(present.check_window(&ok.parse().unwrap()), Ok(()), "{ok}");
    }
    let missing = present
        .check_window(&"54..60".parse().unwrap())
        .unwrap_err();
    assert_eq!(missing, "step 56 is not in the input; steps present: 0..55");
    assert!(present.check_window(&"80..".parse().unwrap()).is_err());
    let mut every10 = PresentSteps::default();
    (1..=9).for_each(|s| every10.add_step(s * 10, 10));
    for ok in ["41..60", "50", "41..50"] {
        assert_eq!(every10.check_window(&ok.parse().unwrap()), Ok(()), "{ok}");
    }
    assert!(every10.check_window(&"45..49".parse().unwrap()).is_err());
    assert!(
        every10
            .check_window(&"41..55".parse().unwrap())
            .unwrap_err()
            .contains("up to 10")
    );
    let mut holes = PresentSteps::default();
    [1, 2, 4].into_iter().for_each(|s| holes.add_step(s, 1));
    assert!(
        holes
            .check_window(&"1..4".parse().unwrap())
            .unwrap_err()
            .contains("1..2, 4")
    );
}
