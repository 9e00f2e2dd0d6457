//! The recognisers together, on spliced, damaged and hostile bytes; and what every test needs.

use proptest::collection::vec;
use proptest::prelude::*;

use super::registry::ALL_TRAINER_FACTS;
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
    for (at, facts) in ALL_TRAINER_FACTS.iter().enumerate() {
        assert_eq!(facts.trainer as usize, at, "{}", facts.name);
        assert_eq!(Trainer::from_name(facts.name), Some(facts.trainer));
    }
    assert!(Trainer::all().is_sorted());
    assert_eq!(Trainer::from_name("axolotl"), Some(Trainer::Hf));
    assert_eq!(Trainer::from_name("regex"), None);
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

/// One line of each shape, to be cut and spliced.
const LINES: &[&str] = &[
    "0: Training epoch 0, iteration 45/99 | global_step: 45 | train_step_timing in s: 6.08",
    "Epoch 0: :   3%|▎ | 9000/3015 [1:42<55:37, global_step=9e+3, train_step_timing in s=0.6]x",
    "Epoch 0:   5%|▌         | 2/40 [00:00<00:07,  5.39it/s, train_loss=0.00235]",
    "Epoch 1: : 1it [00:04, 4.36s/it, global_step=0.0, train_step_timing in s=4.3]",
    " [2024-04-06 02:59:36.123456] iteration 43/ 100 | consumed samples: 5 | elapsed time per \
     iteration (ms): 5444.9 | TFLOPs: 2.1 |",
    " samples/sec: 2.9 | iteration 1/ 5 | elapsed time per iteration (ms): 1.0 | approx flops per \
     GPU: 9.8TFLOPS |",
    "Step Time : 9.09s GPU utilization: 663.5MODEL_TFLOP/s/GPU",
    "I0811 21:54:55.531340 1383 metric_logger.py:226] completed step: 1, seconds: 0.6, loss: 1.0",
    "[titan] 2026-04-03 13:00:48,267 - root - INFO - \x1b[31mstep: 97  \x1b[32mloss:  2.8  tps: 1,542",
    "01/17/2024 13:47:27 [INFO|DP=0]: iteration: 1 / 5 | elapsed_time_per_iteration_ms: 4.7K",
    "[2025-02-20 15:18:04] INFO     [x:62, rank=0] [step=1/7,epoch=1]",
    "[epoch=1][batch=5/5]:  Train loss: 1",
    "\x1b[36m(R pid=1)\x1b[0m step:2 - timing_s/step:96.5",
    "✨ Global step 1: {'timing/step_total': 5.0}",
    "2020-07-17 07:11:02 | INFO | train_inner | epoch 001:  5 / 6 loss=9.2, num_updates=28",
    r#"{"epoch": 27, "num_updates": "33700"}"#,
    "Epoch 34 | iter 30 step 6 | loss | iter time: 1.2 ms (step) remaining time: 0:01:54",
    "iter 16: loss 4.0, time 5.9ms, mfu 1.0%",
    "step 2000: train loss 1.2, val loss 1.3",
    r#":::MLLOG {"time_ms": 1, "key": "train_loss", "samples_count": 2000}"#,
    "[3/10] Loss:1.2, Step time: 0.5s, TFLOPS: 167.4",
    "1|2|Loss: 1.25:   0%|  | 2/1367 [05:03<49:53:19, 131.58s/it]",
    "[2022-03-11 02:06:58,985] [INFO] [l.py:6:d] [Rank 0] step=40, skipped=2, lr=[5e-05], mom=[[0.9]]",
    "epoch=0/micro_step=3/global_step=34, RunningAvgSamplesPerSec=7.8, MemAllocated=5.6GB",
    "steps: 200 loss: 5.5 iter time (s): 0.936 samples/sec: 136.7",
    "2020-07-10 18:52:44,594 Node[0] Epoch[0] Batch [0-20]\tSpeed: 20461.75 samples/sec\tx=0.1",
    "INFO:root:[Training][Iteration 200][Epoch 2, Batch 85/115] lr: 0.06, training time: 229.3 [ms]",
    "2020-06-25 16:26:13,365 maskrcnn_benchmark.trainer INFO: eta: 4:58:35  iter: 40  time: 0.1 (0.2)",
    "Epoch: [0]  [1020/4572]  eta: 0:16:47    time: 0.2830  data: 0.0009  max mem: 20783",
    "[HCTR][06:43:51.335][INFO][RK0][main]: Iter: 1000 Time(1000 iters): 3.118911s Loss: 0.1 lr:0.4",
    "[20d02h08m31s][HUGECTR][INFO]: Eval Time for 681 iters: 2.308131s",
    "DLL 2025-04-27 22:27:25.391486 - Iteration 0 | iteration_time : 194.40 ms | x : 8.0078",
    "DLL 2021-05-19 10:33:11.034765 - epoch   10 | iter  101/272 | loss 5.1 | took  0.30 s | l 4e-03",
    "Iteration:   1000, Loss function: 5.234, Average Loss: 4.36, avg. samples / sec: 54561.02",
    "{'training_steps': 12, 'seq/s': 393.85, 'timestamp': 1593152764.6}",
    "Epoch:[0/1] [1184/75869]  eta: 0:04:18  loss: 0.1346  step_time: 3.4589 ms  lr: 10.341818",
    "Finished training it 128/128028 of epoch 0, 71.86 ms/it, loss 0.200952, accuracy 91.433 %",
    r#"[2025-04-21T23:53:35.596206] [4] [2] [Atorch] [#step] [END] {"global_step": 177019}"#,
    "TRAIN [0][10/321]\tTime 0.071 (0.081)\tData 6.87e-05 (2.28e-02)",
    r#":::MLL 1560722678.927 global_batch_size: {"value": 86016, "metadata": {}}"#,
    "Train throughput/batches_per_sec: 0.0027",
    "\r 40%|████      | 2/5 [00:00<00:00,  6.65it/s]\r",
    "[Eval batch=1/10] Eval",
    "{'eval_loss': 1.0}",
    "Sanity checking Validation: iteration 1/2 | x: 1",
    "h:1:2 [0] NCCL INFO AllReduce: opCount 1 sendbuff 0x7f",
];

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
