//! The step lines of trainers: which bytes of a line mean "step N is done", and their other values.
//!
//! Pure functions of one line's bytes, without memory of earlier lines: the same step printed by
//! eight ranks is found eight times. Refuses to guess: a line without a step number is no step, and
//! a time is only what this very line prints as the step's.

mod anchor_finder;
mod bar;
mod benchmark;
mod evaluations_and_saves;
mod facts;
mod language;
mod launcher;
mod parts;
#[cfg(test)]
mod real_logs;
mod recogniser;
mod registry;
#[cfg(test)]
mod tests;
mod toolkit;
mod user_pattern;

pub use facts::SampleLine;
use facts::TrainerFacts;
pub use parts::prefix::parse_stamp_millis;
pub use recogniser::Recogniser;
pub use recogniser::split_pieces;
use serde::{Deserialize, Serialize};

/// Declares [`Trainer`] from rows of documentation, name and facts.
macro_rules! trainers {
    ($($(#[doc = $doc:literal])+ $trainer:ident = $facts:path,)*) => {
        /// A training framework with known step lines.
        ///
        /// Declared in order of priority: when lines of several are in one log, the smallest is the
        /// one that counts the steps. DeepSpeed's lines are beside Megatron-DeepSpeed's, a progress
        /// bar beside either. Megatron-Bridge prints Megatron-LM's line and is [`Trainer::Megatron`].
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        pub enum Trainer {
            $($(#[doc = $doc])+ $trainer,)*
            /// The user's own pattern.
            Custom,
        }

        impl Trainer {
            const KNOWN: &[Trainer] = &[$(Trainer::$trainer),*];

            /// Returns its full name, a part of its line, and the source file that prints it.
            pub fn line_description(self) -> &'static str {
                match self {
                    $(Trainer::$trainer => concat!($($doc),+).trim_ascii_start(),)*
                    Trainer::Custom => "The user's own pattern.",
                }
            }

            fn facts(self) -> &'static TrainerFacts {
                match self {
                    $(Trainer::$trainer => &$facts,)*
                    Trainer::Custom => &registry::CUSTOM,
                }
            }
        }
    };
}

// A new trainer is a file with its facts and a row here, at the place of its priority.
trainers! {
    /// NeMo 2, `Training epoch 0, iteration 45/99` (`progress_printer.py` @8cfedd72).
    Nemo2 = language::nemo::FACTS,
    /// NeMo 1 and NeMo 2's progress bar, `Epoch 0: :  3%|` (`nlp_overrides.py` @v1.23.0).
    Nemo1 = bar::described_bars::NEMO,
    /// Megatron-LM and Megatron-Bridge, ` iteration 43/ 100 |` (`training.py` @d98e8a64).
    Megatron = language::megatron::FACTS,
    /// Megatron-DeepSpeed, Megatron-LM's line with ` TFLOPs: ` (`training.py` @4efb479).
    MegatronDeepSpeed = language::megatron::DEEPSPEED,
    /// GPT-NeoX, Megatron-LM's line with ` approx flops per GPU: ` (`logging.py` @ea7aefd).
    GptNeox = language::megatron::NEOX,
    /// MaxText, `completed step: 9, seconds: 5.667` (`metric_logger.py` @e591f30).
    MaxText = language::maxtext::FACTS,
    /// torchtitan, `step:  4  loss:  7.62585` (`metrics.py` @b5bcd76).
    Torchtitan = language::torchtitan::FACTS,
    /// nanotron, `iteration: 991 / 1000 |` (`trainer.py` @2411b02).
    Nanotron = language::nanotron::FACTS,
    /// OLMo-core and OLMo, `[step=1/7,epoch=1]` (`console_logger.py` @fa6c501).
    OlmoCore = language::other_frameworks::OLMO,
    /// Composer and LLM-Foundry, `[batch=1/10]:` (`console_logger.py` @6405188).
    Composer = language::other_frameworks::COMPOSER,
    /// verl, `step:2 - actor/grad_norm:0.069` (`aggregate_logger.py` @b178a3c).
    Verl = language::reinforce::VERL,
    /// OpenRLHF, `Global step 1: {` (`ppo_trainer.py` @3c3be62).
    OpenRlhf = language::reinforce::OPENRLHF,
    /// NeMo-RL, `========================= Step 2/100 =========================` (`grpo.py`, 0.3).
    NemoRl = language::reinforce::NEMO_RL,
    /// fairseq and metaseq, `num_updates=2800` (`progress_bar.py` @3d262bb).
    Fairseq = language::fairseq::FACTS,
    /// litGPT, `iter 3050700 step 610140 |` (`pretrain.py` @2685705), and nanoGPT's sibling form.
    LitGpt = language::litgpt::FACTS,
    /// mmcv, mmengine and xtuner, `Epoch(train)  [1][ 10/196]  lr: ` (`log_processor.py`, 0.10).
    MmEngine = toolkit::openmmlab::FACTS,
    /// PaddlePaddle's toolkits, `batch_cost: 0.53062s` or `interval_runtime: 6.8718` (`trainer.py`).
    Paddle = toolkit::paddle::FACTS,
    /// ESPnet, `1epoch:train:1-90batch: ` (`reporter.py`, 202402).
    EspNet = toolkit::speech::ESPNET,
    /// icefall, `Epoch 1, batch 50, loss[` (`train.py`).
    Icefall = toolkit::speech::ICEFALL,
    /// FunASR, `train, rank: 0, epoch: 0/50, ` (`trainer.py`, 1.1).
    FunAsr = toolkit::speech::FUNASR,
    /// timm, `Train: 0 [  50/1251 (  4%)]  Loss: ` (`train.py`, 1.0).
    Timm = toolkit::vision::TIMM,
    /// open_clip, `Train Epoch: 0 [  32768/3200000 (1%)]` (`training/train.py`, 2.32).
    OpenClip = toolkit::vision::OPEN_CLIP,
    /// nanochat, llm.c and build-nanogpt, `step 00010/21400 (0.05%) | loss: ` (`base_train.py`).
    NanoChat = toolkit::karpathy::NANOCHAT,
    /// MXNet's speedometer, `Epoch[0] Batch [0-20]\tSpeed: 20461.75 samples/sec` (`callback.py`), and
    /// NVIDIA's single-shot detector on it.
    Mxnet = benchmark::mxnet::FACTS,
    /// maskrcnn_benchmark and detectron2, `eta: 0:41:22  iter: 50` (`trainer.py`, `events.py`).
    MaskRcnn = benchmark::eta::MASKRCNN,
    /// torchvision's references and their kin, `Epoch: [0]  [1020/4572]  eta: 0:16:47`
    /// (`references/detection/utils.py`).
    TorchVision = benchmark::eta::TORCHVISION,
    /// HugeCTR, `Iter: 1000 Time(1000 iters): 3.118911s` (`model.cpp`).
    HugeCtr = benchmark::hugectr::FACTS,
    /// NVIDIA's DLLogger, `DLL 2025-04-27 22:27:25.391486 - Iteration 0 |`.
    DlLogger = benchmark::dllogger::FACTS,
    /// PyTorch's ImageNet example and NVIDIA's GNMT, `Epoch: [0][  10/5005]\tTime  0.512 ( 0.630)`.
    ImageNet = benchmark::reference::IMAGENET,
    /// MLPerf's single-shot detector, `Iteration:   1000, Loss function: 5.234`.
    Ssd = benchmark::reference::SSD,
    /// MLPerf's BERT, `{'training_steps': 12,`.
    Bert = benchmark::reference::BERT,
    /// DLRM, Meta's `Finished training it 128/128028 of epoch 0, 71.86 ms/it` and NVIDIA's.
    Dlrm = benchmark::reference::DLRM,
    /// dlrover's ATorch, `[#step] [END] {"global_step": 177019`.
    Dlrover = benchmark::reference::DLROVER,
    /// MLPerf's `:::MLLOG` records (`mllog.py` @7bbf792).
    MlPerf = benchmark::mlperf::FACTS,
    /// ColossalAI, `[3/10] Loss:1.2, Step time: 0.5s` (`train_gpt_demo.py` @4f9953b).
    ColossalAi = language::other_frameworks::COLOSSAL,
    /// torchtune, a bar described `1|2|Loss: ` (`full_finetune_distributed.py` @bd2a0fc).
    Torchtune = language::other_frameworks::TORCHTUNE,
    /// DeepSpeed's engine, `step=40, skipped=2` (`engine.py` @edaa722).
    DeepSpeed = language::deepspeed::FACTS,
    /// ms-swift, `'global_step/max_steps': '1/700'` and a bar described `Train` (`callback.py`, 3.12).
    Swift = toolkit::swift::FACTS,
    /// Keras, `10/1875 [....] - ETA: 5s - loss: ` (`progbar.py`, 3.11).
    Keras = toolkit::keras::FACTS,
    /// Small programs, `epoch 0 step 1/16 - loss 7.8`.
    EpochStep = toolkit::karpathy::PLAIN,
    /// Lightning, `Epoch 0:   2%|▎| 1/40 [..., 3.04it/s]` (`tqdm_progress.py`, 2.6).
    Lightning = bar::described_bars::LIGHTNING,
    /// The Hugging Face trainer and its kin, a bare tqdm bar (`trainer_callback.py`, 5.23.0).
    Hf = bar::FACTS,
}

/// The contents of one step line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StepLine {
    /// The trainer that printed it.
    pub trainer: Trainer,
    /// The trainer's own number of the step, in its own base: NeMo and MaxText count from 0.
    pub step: u64,
    /// What the number counts.
    pub counts: StepNumberUnit,
    /// The epoch, if the line prints it and the numbers begin again in each.
    pub epoch: Option<u64>,
    /// The number of steps of the run, if the line prints it.
    pub total: Option<u64>,
    /// The step's time in seconds, if the line prints one, or the mean over the steps since
    /// the line before; never a bar's smoothed rate, never the time of a micro-batch.
    pub time_s: Option<f64>,
    /// TFLOP/s per GPU, if the line prints it.
    pub tflops: Option<f64>,
    /// The line's own stamp in milliseconds since the epoch, taken as UTC, so that the interval
    /// between two lines can replace a step time.
    pub wall_ms: Option<i64>,
    /// Another measure of how fast the steps go.
    pub pace: Option<TrainerPace>,
    /// The time since the run, the epoch or the bar began.
    pub clock: Option<TrainerClock>,
    /// The pipeline stage that printed the line, if the line names it.
    pub stage: Option<u32>,
    /// A fingerprint of what a bar has after its rate, such as the loss.
    pub postfix: Option<u32>,
}

impl StepLine {
    /// A step with nothing but its number.
    pub fn without_time(trainer: Trainer, step: u64) -> StepLine {
        StepLine {
            trainer,
            step,
            counts: StepNumberUnit::Steps,
            epoch: None,
            total: None,
            time_s: None,
            tflops: None,
            wall_ms: None,
            pace: None,
            clock: None,
            stage: None,
            postfix: None,
        }
    }
}

/// The unit that the number on a step line counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepNumberUnit {
    /// Steps.
    Steps,
    /// Samples.
    Samples,
    /// Steps, samples or tokens: MLPerf's `step` may be any of them.
    Unsaid,
}

/// How fast the steps go, in another measure than a step's time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum TrainerPace {
    /// Seconds of several steps together, with the evaluations between them. If the line
    /// does not give their number, they are all since the line before, or since the numbering began.
    Sum {
        /// Seconds.
        time_s: f64,
        /// The number of steps.
        steps: Option<u64>,
    },
    /// Samples a second, of the whole job.
    Samples {
        /// Samples a second.
        per_s: f64,
        /// Batches in a step as the line numbers them: more than 1 if it counts epochs.
        batches: u64,
    },
    /// Seconds of a step as a moving average over the last ones.
    Smoothed(f64),
}

/// A time since the numbering of steps began.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TrainerClock {
    /// Seconds.
    pub seconds: f64,
    /// The rounding error of its digits in seconds.
    pub error: f64,
}

/// The event that a record in a line marks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum TrainerMark {
    /// The end of a training step.
    Step(StepLine),
    /// The end of an evaluation or of a checkpoint save, which began at the mark before.
    Between,
    /// A line of an evaluation with more than its end.
    Evaluation(EvaluationLine),
    /// A launcher ends the job's processes: the lines that follow are of others, if the job is started
    /// again.
    Ended,
    /// A rank joins a communicator: if it is a new process, a job begins or is started again.
    Joined,
    /// Time and speed without a step number, for the next step line: Megatron-Bridge's
    /// `Step Time : 9.09s GPU utilization: 663.5MODEL_TFLOP/s/GPU` (`train_utils.py` @067f987d).
    Timing {
        /// Seconds of the step.
        time_s: Option<f64>,
        /// TFLOP/s per GPU.
        tflops: Option<f64>,
    },
    /// Pace and speed of the step on the line before: Composer prints a line for each metric.
    Metric {
        /// Seconds of a step as a moving average over the last ones.
        smoothed: Option<f64>,
        /// TFLOP/s per GPU.
        tflops: Option<f64>,
    },
    /// The samples in a step: MLPerf's `global_batch_size`.
    BatchSize(u64),
}

/// A line of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum EvaluationLine {
    /// It begins, at this stamp in milliseconds since the epoch.
    Starts(Option<i64>),
    /// It is over.
    Stops {
        /// At this stamp.
        wall_ms: Option<i64>,
        /// The samples trained on before.
        samples: Option<u64>,
        /// The training steps before.
        step: Option<u64>,
    },
    /// It is over; its duration in seconds.
    Took(f64),
}

/// A record found in a line, with the bytes it takes up.
///
/// The range holds the trainer's record and nothing else: its own logger's prefix belongs to it, a
/// launcher's tag does not, nor does text of another writer glued before or after.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainerRecord {
    /// Where the record begins.
    pub start: usize,
    /// Just after the record's last byte.
    pub end: usize,
    /// The event that the record marks.
    pub mark: TrainerMark,
}
