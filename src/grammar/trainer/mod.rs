//! The step lines of trainers: which bytes of a line say "step N is done", and what else they say.
//!
//! Pure functions over one line's bytes, without memory of earlier lines: the same step printed by
//! eight ranks is found eight times. Refuses to guess: a line without a step number is no step, and
//! a time is only what this very line prints as the step's.

mod anchors;
mod bar;
mod between;
mod custom;
mod deepspeed;
mod described;
mod fairseq;
mod litgpt;
mod maxtext;
mod megatron;
mod mlperf;
mod nanotron;
mod nemo;
mod number;
mod other;
mod piece;
mod prefix;
#[cfg(test)]
mod real_logs;
mod recogniser;
mod reinforce;
#[cfg(test)]
mod tests;
mod torchtitan;

pub use recogniser::Recogniser;

/// A training framework whose step lines are known.
///
/// Declared in order of priority: when lines of several stand in one log, the smallest is the one
/// that counts the steps. DeepSpeed's lines stand beside Megatron-DeepSpeed's, a progress bar beside
/// either. Megatron-Bridge prints Megatron-LM's line and is [`Trainer::Megatron`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trainer {
    /// NeMo 2, `Training epoch 0, iteration 45/99` (`progress_printer.py` @8cfedd72).
    Nemo2,
    /// NeMo 1 and NeMo 2's progress bar, `Epoch 0: :  3%|` (`nlp_overrides.py` @v1.23.0).
    Nemo1,
    /// Megatron-LM and Megatron-Bridge, ` iteration 43/ 100 |` (`training.py` @d98e8a64).
    Megatron,
    /// Megatron-DeepSpeed, Megatron-LM's line with ` TFLOPs: ` (`training.py` @4efb479).
    MegatronDeepSpeed,
    /// GPT-NeoX, Megatron-LM's line with ` approx flops per GPU: ` (`logging.py` @ea7aefd).
    GptNeox,
    /// MaxText, `completed step: 9, seconds: 5.667` (`metric_logger.py` @e591f30).
    MaxText,
    /// torchtitan, `step:  4  loss:  7.62585` (`metrics.py` @b5bcd76).
    Torchtitan,
    /// nanotron, `iteration: 991 / 1000 |` (`trainer.py` @2411b02).
    Nanotron,
    /// OLMo-core and OLMo, `[step=1/7,epoch=1]` (`console_logger.py` @fa6c501).
    OlmoCore,
    /// Composer and LLM-Foundry, `[batch=1/10]:` (`console_logger.py` @6405188).
    Composer,
    /// verl, `step:2 - actor/grad_norm:0.069` (`aggregate_logger.py` @b178a3c).
    Verl,
    /// OpenRLHF, `Global step 1: {` (`ppo_trainer.py` @3c3be62).
    OpenRlhf,
    /// fairseq and metaseq, `num_updates=2800` (`progress_bar.py` @3d262bb).
    Fairseq,
    /// litGPT, `iter 3050700 step 610140 |` (`pretrain.py` @2685705), and nanoGPT's sibling form.
    LitGpt,
    /// MLPerf's `:::MLLOG` records (`mllog.py` @7bbf792); their step counts samples.
    MlPerf,
    /// ColossalAI, `[3/10] Loss:1.2, Step time: 0.5s` (`train_gpt_demo.py` @4f9953b).
    ColossalAi,
    /// torchtune, a bar described `1|2|Loss: ` (`full_finetune_distributed.py` @bd2a0fc).
    Torchtune,
    /// DeepSpeed's engine, `step=40, skipped=2` (`engine.py` @edaa722).
    DeepSpeed,
    /// Lightning, `Epoch 0:   2%|▎| 1/40 [..., 3.04it/s]` (`tqdm_progress.py`, 2.6).
    Lightning,
    /// The Hugging Face trainer and its kin, a bare tqdm bar (`trainer_callback.py`, 5.23.0).
    Hf,
    /// The user's own pattern.
    Custom,
}

impl Trainer {
    /// Every trainer with a recogniser of its own, by priority; [`Trainer::Custom`] has none.
    pub const ALL: &[Trainer] = &[
        Trainer::Nemo2,
        Trainer::Nemo1,
        Trainer::Megatron,
        Trainer::MegatronDeepSpeed,
        Trainer::GptNeox,
        Trainer::MaxText,
        Trainer::Torchtitan,
        Trainer::Nanotron,
        Trainer::OlmoCore,
        Trainer::Composer,
        Trainer::Verl,
        Trainer::OpenRlhf,
        Trainer::Fairseq,
        Trainer::LitGpt,
        Trainer::MlPerf,
        Trainer::ColossalAi,
        Trainer::Torchtune,
        Trainer::DeepSpeed,
        Trainer::Lightning,
        Trainer::Hf,
    ];

    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Trainer::Nemo2 => "nemo2",
            Trainer::Nemo1 => "nemo1",
            Trainer::Megatron => "megatron",
            Trainer::MegatronDeepSpeed => "megatron-deepspeed",
            Trainer::GptNeox => "gpt-neox",
            Trainer::MaxText => "maxtext",
            Trainer::Torchtitan => "torchtitan",
            Trainer::Nanotron => "nanotron",
            Trainer::OlmoCore => "olmo-core",
            Trainer::Composer => "composer",
            Trainer::Verl => "verl",
            Trainer::OpenRlhf => "openrlhf",
            Trainer::Fairseq => "fairseq",
            Trainer::LitGpt => "litgpt",
            Trainer::MlPerf => "mlperf",
            Trainer::ColossalAi => "colossalai",
            Trainer::Torchtune => "torchtune",
            Trainer::DeepSpeed => "deepspeed",
            Trainer::Lightning => "lightning",
            Trainer::Hf => "hf",
            Trainer::Custom => "regex",
        }
    }

    /// The trainer of a name or of one of its aliases, `None` for a name not known.
    ///
    /// `regex` is not among them: a pattern has to come with it, see [`Recogniser::regex`].
    pub fn from_name(name: &str) -> Option<Trainer> {
        Some(match name {
            "nemo" => Trainer::Nemo2,
            "megatron-lm" | "megatron-bridge" => Trainer::Megatron,
            "neox" => Trainer::GptNeox,
            "pytorch-lightning" => Trainer::Lightning,
            "accelerate" | "axolotl" | "tqdm" => Trainer::Hf,
            _ => return Trainer::ALL.iter().copied().find(|t| t.name() == name),
        })
    }

    /// Whether every rank or host prints the line unless a launcher filters them.
    pub fn printed_by_every_rank(self) -> bool {
        use Trainer::{ColossalAi, Composer, MaxText, Torchtitan};
        matches!(self, MaxText | Torchtitan | Composer | ColossalAi)
    }

    /// Whether line N is printed only after step N+1 was dispatched.
    ///
    /// MaxText flushes it from a buffer one step deep (390c5d561, 2024-01-31).
    pub fn lags_one_step(self) -> bool {
        self == Trainer::MaxText
    }
}

/// What one step line says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepLine {
    /// Who printed it.
    pub trainer: Trainer,
    /// The trainer's own number of the step, in its own base: NeMo and MaxText count from 0.
    pub step: u64,
    /// How many steps the run has, where the line prints it.
    pub total: Option<u64>,
    /// The step's time in seconds, where the line prints one; never a bar's smoothed rate, never
    /// the time of a micro-batch.
    pub time_s: Option<f64>,
    /// TFLOP/s per GPU, where the line prints it.
    pub tflops: Option<f64>,
    /// The line's own stamp in milliseconds since the epoch, taken as UTC; only where the line
    /// prints no step time, so that the interval between two lines can stand in for it.
    pub wall_ms: Option<i64>,
    /// Whether `time_s` is the mean over the steps since the line before.
    pub time_is_interval_mean: bool,
}

impl StepLine {
    /// A step of which nothing is known but its number.
    pub(super) fn bare(trainer: Trainer, step: u64) -> StepLine {
        StepLine {
            trainer,
            step,
            total: None,
            time_s: None,
            tflops: None,
            wall_ms: None,
            time_is_interval_mean: false,
        }
    }
}

/// What a record in a line marks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mark {
    /// The end of a training step.
    Step(StepLine),
    /// The end of an evaluation or of a checkpoint save: what came since the last mark was that.
    Between,
    /// Time and speed without a step number, for the next Megatron step: Megatron-Bridge's
    /// `Step Time : 9.09s GPU utilization: 663.5MODEL_TFLOP/s/GPU` (`train_utils.py` @067f987d).
    Timing {
        /// Seconds of the step.
        time_s: Option<f64>,
        /// TFLOP/s per GPU.
        tflops: Option<f64>,
    },
}

/// A record found in a line, with the bytes it takes up.
///
/// The range holds the trainer's record and nothing else: its own logger's prefix belongs to it, a
/// launcher's tag does not, nor does text of another writer glued before or behind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// Where the record begins.
    pub start: usize,
    /// Just after the record's last byte.
    pub end: usize,
    /// What the record marks.
    pub mark: Mark,
}
