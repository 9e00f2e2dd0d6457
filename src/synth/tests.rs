//! Whole logs, held against their truth.

use super::options::{Damage, LogLayout, Nccl, Options, Prefix, SynthTrainer};
use super::{LogSink, StreamSink, Truth, generate};
use crate::error::Error;
use std::collections::BTreeMap;
use std::io;

fn made(options: &Options) -> (String, Truth) {
    let mut bytes = Vec::new();
    let truth = generate(options, &mut StreamSink::new(&mut bytes)).unwrap();
    (String::from_utf8(bytes).unwrap(), truth)
}

fn damaged(kind: Damage, rate: f64) -> (String, Truth) {
    let damage = vec![(kind, rate)];
    made(&Options {
        damage,
        init: false,
        nccl: Nccl::V2_29,
        ..Options::default()
    })
}

/// Calls on a step: those in the truth and those that stand before its line in the file.
fn calls_by_marker(text: &str, marker: &str) -> Vec<u64> {
    let pieces: Vec<&str> = text.split(marker).collect();
    let (_, before) = pieces.split_last().unwrap();
    before
        .iter()
        .map(|piece| piece.matches(": opCount ").count() as u64)
        .collect()
}

#[test]
fn the_same_options_give_the_same_bytes() {
    let options = Options {
        ep: 2,
        pp: 2,
        steps: 3,
        ..Options::default()
    };
    let (first, _) = made(&options);
    assert_eq!(first, made(&options).0);
    assert_ne!(first, made(&Options { seed: 2, ..options }).0);
}

#[test]
fn every_line_and_call_is_counted() {
    let (text, truth) = made(&Options {
        trace: true,
        ep: 2,
        ..Options::default()
    });
    assert_eq!(truth.lines, text.lines().count() as u64);
    assert_eq!(truth.size, text.len() as u64);
    assert_eq!(truth.calls, text.matches(": opCount ").count() as u64);
    assert_eq!(truth.intact_calls, truth.calls);
    assert_eq!(
        truth.lines,
        truth.nccl_lines + truth.records.step + truth.records.foreign
    );
    let per_step: u64 = truth.steps.iter().map(|s| s.sum.calls).sum();
    assert_eq!(per_step, truth.calls);
}

#[test]
fn the_calls_of_a_step_stand_before_its_line() {
    let (text, truth) = made(&Options {
        log_interval: 4,
        ..Options::default()
    });
    let told: Vec<u64> = truth.steps.iter().map(|s| s.sum.calls).collect();
    assert_eq!(calls_by_marker(&text, "Training epoch "), told);
    assert!(truth.steps.iter().all(|s| s.steps == 4));
}

#[test]
fn maxtext_prints_a_step_late() {
    let (text, truth) = made(&Options {
        trainer: SynthTrainer::Maxtext,
        steps: 4,
        ..Options::default()
    });
    let told: Vec<u64> = truth.steps.iter().map(|s| s.sum.calls).collect();
    assert_eq!(
        truth
            .steps
            .iter()
            .map(|s| (s.step, s.steps))
            .collect::<Vec<_>>(),
        [(1, 2), (2, 1), (3, 1)]
    );
    // The last line stands directly behind the one before it.
    assert_eq!(
        calls_by_marker(&text, "completed step: "),
        [told.as_slice(), &[0]].concat()
    );
}

#[test]
fn a_restart_falls_back_and_evaluation_is_set_apart() {
    let options = Options {
        restart_at: Some(9),
        eval_every: Some(5),
        trainer: SynthTrainer::Megatron,
        ..Options::default()
    };
    let (_, truth) = made(&options);
    let at = truth.steps.iter().position(|s| s.segment == 1).unwrap();
    assert!(truth.steps[at].step < truth.steps[at - 1].step);
    assert!(truth.between.calls > 0);
    let sum: u64 = truth.steps.iter().map(|s| s.sum.calls).sum();
    assert_eq!(sum + truth.between.calls + truth.after.calls, truth.calls);
}

#[test]
fn opcount_stands_still_on_one_node_since_2_27() {
    let of = |nccl, nodes| {
        let (text, _) = made(&Options {
            nccl,
            nodes,
            steps: 2,
            ..Options::default()
        });
        text.matches(": opCount 0 ").count() == text.matches(": opCount ").count()
    };
    assert_eq!(
        [of(Nccl::V2_24, 1), of(Nccl::V2_27, 1), of(Nccl::V2_27, 2)],
        [false, true, false]
    );
}

#[test]
fn a_torn_line_has_128_bytes_and_its_end_comes_later() {
    let (text, truth) = damaged(Damage::Torn, 0.05);
    assert!(truth.joinable.torn > 50);
    assert_eq!(truth.intact_calls + truth.joinable.torn, truth.calls);
    // A header in the middle of a line stands at a multiple of 128 bytes.
    let heads: Vec<&str> = text
        .lines()
        .filter(|l| l.matches("node01:").count() > 1)
        .collect();
    assert!(!heads.is_empty());
    for line in heads {
        for (at, _) in line.match_indices("node01:") {
            assert_eq!(at % 128, 0, "{line}");
        }
    }
    let tails = text
        .lines()
        .filter(|l| !l.starts_with("node01:") && l.contains(" stream 0x"))
        .count();
    assert_eq!(tails as u64, truth.joinable.torn);
}

#[test]
fn what_is_cut_is_lost_and_what_is_glued_is_not() {
    for (kind, lost) in [
        (Damage::Cut, true),
        (Damage::GluedCut, true),
        (Damage::Glued, false),
    ] {
        let (text, truth) = damaged(kind, 0.1);
        let whole = text.matches("] stream 0x").count() as u64;
        assert_eq!(whole, truth.intact_calls, "{kind:?}");
        assert_eq!(truth.intact_calls < truth.calls, lost, "{kind:?}");
    }
}

#[test]
fn a_spliced_step_line_stands_inside_a_call_s_line() {
    let (text, truth) = damaged(Damage::Spliced, 1.0);
    let spliced = text
        .lines()
        .filter(|l| l.find("Training epoch ").is_some_and(|at| at > 0))
        .count();
    assert_eq!((spliced as u64, truth.joinable.spliced), (20, 20));
}

#[test]
fn an_overwritten_file_is_as_long_as_its_longest_process() {
    let (text, truth) = damaged(Damage::Overwritten, 1.0);
    let whole = made(&Options {
        init: false,
        trainer: SynthTrainer::None,
        ..Options::default()
    })
    .0;
    assert!(text.len() * 6 < whole.len());
    assert!(
        truth.steps.is_empty() && truth.intact_calls > 0 && truth.intact_calls * 4 < truth.calls
    );
}

#[test]
fn bytes_behind_a_label_stay_behind_it() {
    let (text, _) = made(&Options {
        prefix: Prefix::Srun,
        ranks: 16,
        damage: vec![(Damage::Spliced, 0.5)],
        ..Options::default()
    });
    assert!(text.lines().all(|l| l.as_bytes().get(2..4) == Some(b": ")));
}

#[derive(Default)]
struct Files(BTreeMap<usize, (String, u64)>);

impl LogSink for Files {
    fn open(&mut self, stream: usize, name: &str) -> io::Result<()> {
        self.0.insert(stream, (name.to_owned(), 0));
        Ok(())
    }

    fn write(&mut self, stream: usize, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut(&stream).unwrap().1 += bytes.len() as u64;
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn per_rank_makes_a_file_for_every_process_of_every_life() {
    let mut files = Files::default();
    let options = Options {
        layout: LogLayout::PerRank,
        restart_at: Some(9),
        ..Options::default()
    };
    let truth = generate(&options, &mut files).unwrap();
    assert_eq!(files.0.len(), 16);
    assert!(
        files
            .0
            .values()
            .all(|(name, size)| name.starts_with("nccl.node01.") && *size > 0)
    );
    assert_eq!(files.0.values().map(|f| f.1).sum::<u64>(), truth.size);
}

struct Full;

impl io::Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::from(io::ErrorKind::StorageFull))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_even_for_a_small_log() {
    let options = Options {
        steps: 1,
        ..Options::default()
    };
    let error = generate(&options, &mut StreamSink::new(Full)).unwrap_err();
    assert!(matches!(error, Error::Output(_)), "{error}");
}
