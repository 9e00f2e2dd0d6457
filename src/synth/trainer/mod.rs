//! Step lines, as each trainer prints them (formats and commits: the trainers' sources as named
//! at each function).

pub(crate) mod events;
mod megatron;
mod pynum;

use crate::clock::JobClock;
use crate::options::{Options, SynthTrainer};
use crate::rng::hash_parts;
use crate::trainer::pynum::{format_commas, format_dot4, format_g3, format_human, format_tqdm};

/// A line of the trainer's.
#[derive(Debug, Clone)]
pub(crate) struct PrintedLine {
    /// The rank that prints it.
    pub rank: usize,
    /// Without its newline.
    pub text: String,
    /// It carries the step's number.
    pub marker: bool,
    /// A progress bar: it starts with a carriage return and may have no newline.
    pub bar: bool,
}

/// The values of a printed step.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepPrint {
    /// In order.
    pub lines: Vec<PrintedLine>,
    /// Rounded to the printed digits.
    pub time_s: Option<f64>,
    /// Rounded to the printed digits.
    pub tflops: Option<f64>,
}

/// A step (or the mean of several) to be printed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct StepFacts {
    /// The trainer's number.
    pub step: u64,
    /// Seconds a step.
    pub seconds: f64,
    /// TFLOP/s per GPU.
    pub tflops: f64,
    /// An evaluation took place before.
    pub evaluated: bool,
}

/// Knows the job's constants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepPrinter<'a> {
    options: &'a Options,
    /// Steps in all, as the trainer announces them.
    pub(super) total: u64,
}

pub(super) const SAMPLES_PER_BATCH: u64 = 128;
pub(super) const TOKENS_PER_GPU: f64 = 65_536.0;

impl<'a> StepPrinter<'a> {
    /// Makes a printer for a job of `total` steps.
    pub(crate) fn new(options: &'a Options, total: u64) -> Self {
        Self { options, total }
    }

    /// True where the trainer prints a line after this step.
    pub(crate) fn prints_after(&self, step: u64) -> bool {
        let (k, n) = (self.options.log_interval, self.steps_done(step));
        match self.options.trainer {
            SynthTrainer::None => false,
            // n is the step in the epoch.
            SynthTrainer::Nemo2 | SynthTrainer::Nemo1 => {
                (self.step_in_epoch(step) + 1).is_multiple_of(k)
            }
            // The first step is always logged (torchtitan metrics.py).
            SynthTrainer::Torchtitan => n == 1 || n.is_multiple_of(k),
            SynthTrainer::Nanotron => (n - 1).is_multiple_of(k),
            // The bar is drawn for every step; only the dict waits for the interval.
            SynthTrainer::Hf => true,
            _ => n.is_multiple_of(k),
        }
    }

    /// Steps done when this one is over.
    fn steps_done(&self, step: u64) -> u64 {
        step + 1 - self.options.trainer.first_number()
    }

    fn step_in_epoch(&self, step: u64) -> u64 {
        let n = self.steps_done(step) - 1;
        self.options.epoch_steps.map_or(n, |e| n % e)
    }

    fn epoch_of_step(&self, step: u64) -> u64 {
        self.options
            .epoch_steps
            .map_or(0, |e| (self.steps_done(step) - 1) / e)
    }

    /// Returns the rank with the step line that is the marker.
    pub(crate) fn marker_rank(&self) -> usize {
        let o = self.options;
        match o.trainer {
            // print_rank_last.
            SynthTrainer::Megatron
            | SynthTrainer::MegatronBridge
            | SynthTrainer::MegatronDeepspeed => o.ranks - 1,
            // First of the last stage.
            SynthTrainer::Nanotron => o.tp * o.shard_copies() * (o.pp - 1),
            _ => 0,
        }
    }

    /// The numbers of a step: a few per cent around the model's usual ones, which are high
    /// enough on new hardware that NeMo prints some in scientific form.
    pub(crate) fn draw_facts(&self, step: u64, segment: u64) -> StepFacts {
        let h = hash_parts(self.options.seed, &[20, step, segment]);
        let micros = 5_900_000 + h % 360_000;
        let fast = self.options.nccl.since(crate::options::Nccl::V2_28)
            && self.options.trainer != SynthTrainer::GptNeox;
        let base = if fast { 1000.0 } else { 441.2 };
        let tflops = base * 6_080_000.0 / micros as f64;
        StepFacts {
            step,
            seconds: micros as f64 / 1e6,
            tflops,
            evaluated: false,
        }
    }

    pub(super) fn loss_at(&self, step: u64) -> f64 {
        let n = self.steps_done(step) as f64;
        let noise = hash_parts(self.options.seed, &[21, step]) % 1000;
        2.0 + 9.9 / (1.0 + n / 40.0) + noise as f64 / 50_000.0
    }

    /// The lines printed when a step is over.
    pub(crate) fn print_step(&self, facts: &StepFacts, clock: &JobClock) -> StepPrint {
        match self.options.trainer {
            SynthTrainer::None => StepPrint::default(),
            SynthTrainer::Nemo2 => self.print_nemo2(facts),
            SynthTrainer::Nemo1 => self.print_nemo1(facts),
            SynthTrainer::Megatron => self.print_megatron(facts, clock),
            SynthTrainer::MegatronBridge => self.print_bridge(facts, clock),
            SynthTrainer::MegatronDeepspeed => self.print_megatron_deepspeed(facts, clock),
            SynthTrainer::GptNeox => self.print_gpt_neox(facts, clock),
            SynthTrainer::Deepspeed => StepPrint {
                lines: self.engine_lines(facts, clock, true),
                time_s: None,
                tflops: None,
            },
            SynthTrainer::Torchtitan => self.print_torchtitan(facts, clock),
            SynthTrainer::Maxtext => self.print_maxtext(facts),
            SynthTrainer::Nanotron => self.print_nanotron(facts, clock),
            SynthTrainer::Hf => self.print_hf(facts),
        }
    }

    pub(super) fn one_line(
        &self,
        text: String,
        time_s: Option<f64>,
        tflops: Option<f64>,
    ) -> StepPrint {
        let lines = vec![PrintedLine {
            rank: self.marker_rank(),
            text,
            marker: true,
            bar: false,
        }];
        StepPrint {
            lines,
            time_s,
            tflops,
        }
    }

    /// `nemo/lightning/pytorch/callbacks/progress_printer.py` @8cfedd72.
    fn print_nemo2(&self, f: &StepFacts) -> StepPrint {
        let (time, tflops) = (format_dot4(f.seconds), format_dot4(f.tflops));
        let mut text = format!(
            "Training epoch {}, iteration {}/{} | lr: {} | global_batch_size: {SAMPLES_PER_BATCH} | \
             global_step: {} | max_memory_reserved: 127785762816 | \
             max_memory_allocated: 115792977920 | reduced_train_loss: {} | \
             train_step_timing in s: {time} | TFLOPS_per_GPU: {tflops}",
            self.epoch_of_step(f.step),
            self.step_in_epoch(f.step),
            self.total - 1,
            format_dot4(1.5e-7 * self.steps_done(f.step) as f64),
            f.step,
            format_dot4(self.loss_at(f.step)),
        );
        // The first line has no consumed_samples; val_loss stays after the first validation.
        if f.step > 0 {
            text += &format!(" | consumed_samples: {}", SAMPLES_PER_BATCH * (f.step + 1));
        }
        if f.evaluated {
            text += &format!(" | val_loss: {}", format_dot4(self.loss_at(f.step) + 0.1));
        }
        self.one_line(text, time.parse().ok(), tflops.parse().ok())
    }

    /// Lightning's bar with NeMo 1's `TimingCallback` (`nlp_overrides.py` @v1.23.0).
    fn print_nemo1(&self, f: &StepFacts) -> StepPrint {
        let plain = format!("{:.4}", f.seconds);
        let time = format_tqdm(f.seconds, &plain);
        let tflops = format_tqdm(f.tflops, &format!("{:.4}", f.tflops));
        let n = self.step_in_epoch(f.step) + 1;
        let total = self.options.epoch_steps.unwrap_or(self.total);
        let whole = |n: u64| format_tqdm(n as f64, &format!("{n}.0"));
        let postfix = format!(
            "v_num=0, reduced_train_loss={}, global_step={}, consumed_samples={}, \
             train_step_timing in s={time}, TFLOPS_per_GPU={tflops}",
            format_tqdm(
                self.loss_at(f.step),
                &format!("{:.4}", self.loss_at(f.step))
            ),
            whole(f.step),
            whole(SAMPLES_PER_BATCH * (f.step + 1)),
        );
        let text = format!(
            "\rEpoch {}: : {}",
            self.epoch_of_step(f.step),
            format_bar(n, total, f.seconds, &postfix)
        );
        let mut printed = self.one_line(text, time.parse().ok(), tflops.parse().ok());
        printed.lines[0].bar = true;
        printed
    }

    /// `torchtitan/components/metrics.py` @b5bcd76.
    fn print_torchtitan(&self, f: &StepFacts, clock: &JobClock) -> StepPrint {
        let tflops = format!("{:.2}", f.tflops);
        let text = format!(
            "[titan] {},{:03} - root - INFO - step: {:2}  loss: {:8.5}  grad_norm: {:7.4}  \
             memory: 66.91GiB(37.51%)  tps: {}  tflops: {}  mfu: {:.2}%",
            clock.date_time(),
            clock.ms(),
            f.step,
            self.loss_at(f.step),
            1.0 + self.loss_at(f.step) / 20.0,
            format_commas((TOKENS_PER_GPU / f.seconds).round(), 0),
            format_commas(f.tflops, 2),
            f.tflops / 22.5,
        );
        let printed = self.one_line(text, None, tflops.parse().ok());
        self.repeat_on_every_rank(printed)
    }

    /// `src/maxtext/common/metric_logger.py` @e591f30.
    fn print_maxtext(&self, f: &StepFacts) -> StepPrint {
        let (time, tflops) = (format!("{:.3}", f.seconds), format!("{:.3}", f.tflops));
        let text = format!(
            "completed step: {}, seconds: {time}, TFLOP/s/device: {tflops}, Tokens/s/device: {:.3}, \
             total_weights: 196608, loss: {:.3}",
            f.step,
            TOKENS_PER_GPU / f.seconds,
            self.loss_at(f.step),
        );
        let printed = self.one_line(text, time.parse().ok(), tflops.parse().ok());
        self.repeat_on_every_rank(printed)
    }

    fn repeat_on_every_rank(&self, mut printed: StepPrint) -> StepPrint {
        if self.options.every_rank {
            let first = printed.lines[0].clone();
            printed.lines = (0..self.options.ranks)
                .map(|rank| PrintedLine {
                    rank,
                    ..first.clone()
                })
                .collect();
        }
        printed
    }

    /// `src/nanotron/trainer.py` @2411b02, v0.5 names.
    fn print_nanotron(&self, f: &StepFacts, clock: &JobClock) -> StepPrint {
        let d = clock.date();
        let (ms, tflops) = (format_human(f.seconds * 1e3), format_human(f.tflops));
        let text = format!(
            "{}/{}/{} {} [INFO|DP=0|PP={}|TP=0|node01]: iteration: {} / {} | consumed_tokens: {} | \
             elapsed_time_per_iteration_ms: {ms} | tokens_per_sec: {} | tokens_per_sec_per_gpu: {} | \
             global_batch_size: {SAMPLES_PER_BATCH} | lm_loss: {} | lr: {} | model_tflops_per_gpu: {tflops} | \
             hardware_tflops_per_gpu: {tflops} | grad_norm: {}",
            d.get(5..7).unwrap_or_default(),
            d.get(8..10).unwrap_or_default(),
            d.get(..4).unwrap_or_default(),
            clock.time(),
            self.options.pp - 1,
            f.step,
            self.total,
            format_human((SAMPLES_PER_BATCH * f.step * 4096) as f64),
            format_human(TOKENS_PER_GPU * self.options.ranks as f64 / f.seconds),
            format_human(TOKENS_PER_GPU / f.seconds),
            format_human(self.loss_at(f.step)),
            format_g3(1.5e-7 * f.step as f64),
            format_g3(1.0 + self.loss_at(f.step) / 20.0),
        );
        let value = |text: &str| match text.strip_suffix('K') {
            Some(n) => n.parse().ok().map(|n: f64| n * 1e3),
            None => text.parse().ok(),
        };
        self.one_line(
            text.clone(),
            value(&ms).map(|ms: f64| ms / 1e3),
            value(&tflops),
        )
    }

    /// `trainer_callback.py` of the transformers 5.23.0 wheel: the bar every step, the dict at
    /// the interval, through `tqdm.write`, which first wipes the bar.
    fn print_hf(&self, f: &StepFacts) -> StepPrint {
        let mut text = format!(
            "\r{}",
            format_bar(
                f.step,
                self.total,
                f.seconds,
                &format!("{:5.2}s/it", f.seconds)
            )
        );
        if f.step.is_multiple_of(self.options.log_interval) {
            text += &format!(
                "\r{:60}\r{{'loss': '{}', 'grad_norm': '{}', 'learning_rate': '{}', 'epoch': '{}'}}",
                "",
                format_dot4(self.loss_at(f.step)),
                format_dot4(1.0 + self.loss_at(f.step) / 20.0),
                format_dot4(1.5e-7 * f.step as f64),
                format_dot4(f.step as f64 / self.total as f64),
            );
        }
        let mut printed = self.one_line(text, None, None);
        // The dict ends with a newline, the bar alone does not.
        printed.lines[0].bar = !f.step.is_multiple_of(self.options.log_interval);
        printed
    }
}

/// tqdm's default format at 10 columns: ` 45%|████▌     | 45/100 [04:33<05:34,  6.08s/it]`.
fn format_bar(n: u64, total: u64, seconds: f64, postfix: &str) -> String {
    let eighths = (n * 80 / total.max(1)).min(80) as usize;
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    let filled = "█".repeat(eighths / 8) + part;
    let empty = " ".repeat(10 - filled.chars().count());
    let clock = |s: u64| match s / 3600 {
        0 => format!("{:02}:{:02}", s / 60, s % 60),
        h => format!("{h}:{:02}:{:02}", s / 60 % 60, s % 60),
    };
    let left = total.saturating_sub(n);
    format!(
        "{:3}%|{filled}{empty}| {n}/{total} [{}<{}, {postfix}]",
        n * 100 / total.max(1),
        clock((n as f64 * seconds) as u64),
        clock((left as f64 * seconds) as u64),
    )
}
