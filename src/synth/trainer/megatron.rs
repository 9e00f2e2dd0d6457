//! Step lines of the Megatron family and of the DeepSpeed engine under some of it.

use crate::clock::JobClock;
use crate::trainer::pynum::{format_repr, format_upper_e};
use crate::trainer::{
    PrintedLine, SAMPLES_PER_BATCH, StepFacts, StepPrint, StepPrinter, TOKENS_PER_GPU,
};

const SKIPPED_ITERATIONS_TEXT: &str =
    " number of skipped iterations:   0 | number of nan iterations:   0 |";

impl StepPrinter<'_> {
    pub(crate) fn megatron_line(
        &self,
        f: &StepFacts,
        front: &str,
        throughput: &str,
        tail: &str,
        digits: usize,
    ) -> StepPrint {
        let ms = format!("{:.1}", f.seconds * 1e3);
        let text = format!(
            "{front} iteration {:8}/{:8} | consumed samples: {:12} | elapsed time per iteration \
             (ms): {ms} |{throughput} learning rate: {} | global batch size: {SAMPLES_PER_BATCH:5} | lm loss: \
             {} | loss scale: 1.0 | grad norm: {:.3} |{tail}",
            f.step,
            self.total,
            SAMPLES_PER_BATCH * f.step,
            format_upper_e(1.5e-7 * f.step as f64, digits),
            format_upper_e(self.loss_at(f.step), 6),
            1.0 + self.loss_at(f.step) / 20.0,
        );
        self.one_line(text, format!("{ms}e-3").parse().ok(), None)
    }

    /// `megatron/training/training.py` @d98e8a64, `training_log()`.
    pub(crate) fn print_megatron(&self, f: &StepFacts, clock: &JobClock) -> StepPrint {
        let tflops = format!("{:.1}", f.tflops);
        let mut printed = self.megatron_line(
            f,
            &format!(" [{}.{:06}]", clock.date_time(), clock.micros()),
            &format!(" throughput per GPU (TFLOP/s/GPU): {tflops} |"),
            SKIPPED_ITERATIONS_TEXT,
            6,
        );
        printed.tflops = tflops.parse().ok();
        printed
    }

    /// `src/megatron/bridge/training/utils/train_utils.py` @067f987d: rank 0, then the last.
    pub(crate) fn print_bridge(&self, f: &StepFacts, clock: &JobClock) -> StepPrint {
        let tflops = format!("{:.1}", f.tflops);
        let mut printed = self.megatron_line(
            f,
            &format!(" [{}]", clock.date_time()),
            "",
            SKIPPED_ITERATIONS_TEXT,
            6,
        );
        let text = format!(
            "Step Time : {:.2}s GPU utilization: {tflops}MODEL_TFLOP/s/GPU",
            f.seconds
        );
        printed.lines.insert(
            0,
            PrintedLine {
                rank: 0,
                text,
                marker: false,
                bar: false,
            },
        );
        printed.tflops = tflops.parse().ok();
        printed
    }

    /// `megatron/training.py` @4efb479 of Megatron-DeepSpeed, with the engine's own lines.
    pub(crate) fn print_megatron_deepspeed(&self, f: &StepFacts, clock: &JobClock) -> StepPrint {
        let tflops = format!("{:.2}", f.tflops);
        let samples = SAMPLES_PER_BATCH as f64 / f.seconds;
        let tail = format!(
            " actual seqlen:  4096 |{SKIPPED_ITERATIONS_TEXT} samples per second: {samples:.3} | tokens per gpu \
             per second (tgs): {:.3} | TFLOPs: {tflops} |",
            TOKENS_PER_GPU / f.seconds
        );
        let consumed = format!(
            " | consumed tokens: {:12} | elapsed",
            SAMPLES_PER_BATCH * f.step * 4096
        );
        let mut printed = self.megatron_line(f, "", "", &tail, 3);
        printed.lines[0].text = printed.lines[0].text.replacen(" | elapsed", &consumed, 1);
        printed
            .lines
            .splice(0..0, self.engine_lines(f, clock, false));
        printed.tflops = tflops.parse().ok();
        printed
    }

    /// `megatron/logging.py` @ea7aefd of GPT-NeoX, with the engine's own lines.
    pub(crate) fn print_gpt_neox(&self, f: &StepFacts, clock: &JobClock) -> StepPrint {
        let (ms, tflops) = (
            format!("{:.1}", f.seconds * 1e3),
            format!("{:.1}", f.tflops),
        );
        let text = format!(
            " samples/sec: {:.3} | iteration {:8}/{:8} | elapsed time per iteration (ms): {ms} | \
             learning rate: {} | approx flops per GPU: {tflops}TFLOPS | lm_loss: {} |{SKIPPED_ITERATIONS_TEXT}",
            SAMPLES_PER_BATCH as f64 / f.seconds,
            f.step,
            self.total,
            format_upper_e(1.5e-7 * f.step as f64, 3),
            format_upper_e(self.loss_at(f.step), 6),
        );
        let time = format!("{ms}e-3").parse().ok();
        let mut printed = self.one_line(text, time, tflops.parse().ok());
        printed
            .lines
            .splice(0..0, self.engine_lines(f, clock, false));
        let timers = format!(
            "time (ms) | forward: {:.2} | backward: {:.2}",
            f.seconds * 301.0,
            f.seconds * 590.0
        );
        printed.lines.push(PrintedLine {
            rank: 0,
            text: timers,
            marker: false,
            bar: false,
        });
        printed
    }

    /// `deepspeed/runtime/engine.py` @edaa722 and `utils/timer.py`.
    pub(crate) fn engine_lines(
        &self,
        f: &StepFacts,
        clock: &JobClock,
        marker: bool,
    ) -> Vec<PrintedLine> {
        let at = format!("[{},{:03}] [INFO]", clock.date_time(), clock.ms());
        let rate = format_repr(SAMPLES_PER_BATCH as f64 / f.seconds);
        let lr = format_repr(1.5e-7 * f.step as f64);
        let step = format!(
            "{at} [logging.py:96:log_dist] [Rank 0] step={}, skipped=0, lr=[{lr}], mom=[(0.9, 0.95)]",
            f.step
        );
        let timer = format!(
            "{at} [timer.py:260:stop] epoch=0/micro_step={0}/global_step={0}, \
             RunningAvgSamplesPerSec={rate}, CurrSamplesPerSec={rate}, MemAllocated=59.65GB, \
             MaxMemAllocated=63.31GB",
            f.step
        );
        let print = |text, marker| PrintedLine {
            rank: 0,
            text,
            marker,
            bar: false,
        };
        vec![print(step, marker), print(timer, false)]
    }
}
