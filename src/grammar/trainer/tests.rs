//! The recognisers together, on spliced, damaged and hostile bytes; and what every test needs.

use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::LazyLock;

use super::{Recogniser, StepLine, Trainer, TrainerMark, TrainerRecord};

/// Every record of a line.
pub(super) fn found(text: &str) -> Vec<TrainerRecord> {
    let mut found = Vec::new();
    Recogniser::all().marks(text.as_bytes(), &mut found);
    found
}

/// How many steps a line has.
pub(super) fn steps(text: &str) -> usize {
    found(text)
        .iter()
        .filter(|found| matches!(found.mark, TrainerMark::Step(_)))
        .count()
}

/// The only record of a line, which is a step, and its bytes.
pub(super) fn one(text: &str) -> (StepLine, String) {
    let all = found(text);
    let [
        TrainerRecord {
            start,
            end,
            mark: TrainerMark::Step(line),
        },
    ] = all[..]
    else {
        panic!("expected one step in {text:?}: {all:?}");
    };
    (line, text[start..end].to_owned())
}

#[test]
fn names_lead_back_to_their_trainers() {
    for trainer in Trainer::all() {
        assert_eq!(Trainer::from_name(trainer.name()), Some(trainer));
    }
    assert!(Trainer::all().is_sorted());
    assert_eq!(Trainer::from_name("axolotl"), Some(Trainer::Hf));
    assert_eq!(Trainer::from_name("regex"), None);
}

#[test]
fn every_sample_line_is_read() {
    for trainer in Trainer::all() {
        assert!(!trainer.sample_lines().is_empty(), "{trainer:?}");
        for sample in trainer.sample_lines() {
            let (line, _) = one(sample.text);
            let read = (line.trainer, line.step, line.time_s);
            assert_eq!(read, (trainer, sample.step, sample.time_s), "{sample:?}");
        }
    }
}

#[test]
fn only_one_trainers_steps_are_kept_where_asked() {
    let line = "  8%|#  | 19/24 [1:52<2:23,  3.33s/it]Training epoch 0, iteration 5/9\
        Testing: iteration 1/2";
    let mut found = Vec::new();
    Recogniser::for_trainer(Trainer::Nemo2).marks(line.as_bytes(), &mut found);
    assert_eq!(found.len(), 2);
    let neox =
        b" iteration 2/ 5 | elapsed time per iteration (ms): 6.7 | approx flops per GPU: 1T |";
    for (trainer, want) in [
        (Trainer::Megatron, 1),
        (Trainer::GptNeox, 1),
        (Trainer::Hf, 0),
    ] {
        found.clear();
        Recogniser::for_trainer(trainer).marks(neox, &mut found);
        assert_eq!(found.len(), want, "{trainer:?}");
    }
}

/// A line of each shape that is no step.
const OTHER_LINES: &[&str] = &[
    "Step Time : 9.09s GPU utilization: 663.5MODEL_TFLOP/s/GPU",
    "step 2000: train loss 1.2, val loss 1.3",
    "[20d02h08m31s][HUGECTR][INFO]: Eval Time for 681 iters: 2.308131s",
    r#":::MLL 1560722678.927 global_batch_size: {"value": 86016, "metadata": {}}"#,
    "Train throughput/batches_per_sec: 0.0027",
    "[Eval batch=1/10] Eval",
    "{'eval_loss': 1.0}",
    "Sanity checking Validation: iteration 1/2 | x: 1",
    "h:1:2 [0] NCCL INFO AllReduce: opCount 1 sendbuff 0x7f",
];

/// One line of each shape, to be cut and spliced.
static LINES: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let samples = Trainer::all().flat_map(Trainer::sample_lines);
    let steps = samples.map(|sample| sample.text);
    steps.chain(OTHER_LINES.iter().copied()).collect()
});

#[test]
fn the_head_of_a_torn_line_is_left_before_every_record() {
    let head =
        "node-3:278:278 [0] NCCL INFO AllReduce: opCount 1 sendbuff 0x7f10 count 1 [nranks=4]";
    for record in LINES.iter().map(|line| line.trim_matches('\r')) {
        let record = record.strip_prefix("0: ").unwrap_or(record);
        let record = record
            .strip_prefix("\x1b[36m(R pid=1)\x1b[0m ")
            .unwrap_or(record);
        let Some(end) = found(record).first().map(|found| found.end) else {
            continue;
        };
        for cut in 1..=head.len() {
            let torn = &head[..cut];
            // The digits of two numbers run together.
            if record.starts_with("1|2|") && torn.ends_with(|c: char| c.is_ascii_digit()) {
                continue;
            }
            // A name cannot be told from the end of a longer one.
            if torn.ends_with(['_', '/', '-']) {
                continue;
            }
            let all = found(&format!("{torn}{record}"));
            let range = all.first().map(|found| (found.start, found.end));
            assert_eq!(range, Some((cut, cut + end)), "{torn}{record}");
        }
    }
}

/// What holds for any line.
fn holds(text: &[u8]) {
    for recogniser in [
        Recogniser::all(),
        Recogniser::for_trainer(Trainer::Megatron),
        Recogniser::for_pattern(r"(?P<step>\d+)(?P<time_s>[.\d]*)").unwrap(),
    ] {
        let mut found = Vec::new();
        recogniser.marks(text, &mut found);
        assert!(found.is_empty() || recogniser.may_mark(text));
        let mut floor = 0;
        for record in &found {
            assert!(
                floor <= record.start && record.start <= record.end,
                "{found:?}"
            );
            floor = record.end;
        }
        assert!(floor <= text.len());
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(text in vec(any::<u8>(), 0..300)) {
        holds(&text);
    }

    #[test]
    fn spliced_and_damaged_lines_never_panic(
        parts in vec((0..LINES.len(), 0..200_usize, 0..200_usize), 1..5),
        damage in vec((0..800_usize, any::<u8>()), 0..4),
    ) {
        let mut text = Vec::new();
        for (line, from, to) in parts {
            let line = LINES[line].as_bytes();
            let (from, to) = (from.min(line.len()), to.min(line.len()));
            text.extend_from_slice(if from < to { &line[from..to] } else { line });
        }
        for (at, byte) in damage {
            if let Some(place) = text.get_mut(at) {
                *place = byte;
            }
        }
        holds(&text);
    }
}
