//! What a trainer prints beside its step lines: at the start, around evaluations and saves, and
//! now and then. None of it may be taken for a step.

use crate::clock::JobClock;
use crate::options::{Options, SynthTrainer};

/// A line and the rank that prints it.
pub(crate) type TrainerLine = (usize, String);

/// Before the first call.
pub(crate) fn startup_lines(options: &Options) -> Vec<TrainerLine> {
    let text = match options.trainer {
        SynthTrainer::Megatron
        | SynthTrainer::MegatronBridge
        | SynthTrainer::MegatronDeepspeed
        | SynthTrainer::GptNeox => format!(
            "> initialized tensor model parallel with size {}\n\
             > initialized pipeline model parallel with size {}\n\
             > setting random seeds to {} ...\n\
             [before the start of training step] datetime: 2025-10-01 12:00:00 ",
            options.tp, options.pp, options.seed
        ),
        SynthTrainer::Nemo1 | SynthTrainer::Nemo2 => "GPU available: True (cuda), used: True\n\
             TPU available: False, using: 0 TPU cores\n\
             [NeMo I 2025-10-01 12:00:00 megatron_init:396] Rank 0 has data parallel group : [0]\n\
             Sanity checking Validation: iteration 1/2"
            .to_owned(),
        SynthTrainer::Torchtitan => {
            "[titan] 2025-10-01 12:00:00,001 - root - INFO - Training starts at step 1.".to_owned()
        }
        SynthTrainer::None => return Vec::new(),
        _ => "Num examples = 1,048,576\nInstantaneous batch size per device = 1".to_owned(),
    };
    text.split('\n').map(|line| (0, line.to_owned())).collect()
}

/// A line any rank may print at any time.
pub(crate) fn aside_line(n: u64) -> &'static str {
    const LINES: [&str; 4] = [
        "/usr/lib/python3/dist-packages/torch/nn/modules/module.py:1762: UserWarning: Full backward hook is firing when gradients are computed",
        "  warnings.warn(",
        "cuda memory: allocated 61.3 GiB, reserved 70.8 GiB, iteration cache hit 45/99",
        "dataloader worker 3: shard 17 of 64 opened",
    ];
    LINES[(n % 4) as usize]
}

/// Batches of an evaluation.
pub(crate) const EVAL_BATCHES: u64 = 3;

/// Behind batch `batch` (from 1) of the evaluation after `step`.
pub(crate) fn evaluation_lines(
    options: &Options,
    step: u64,
    batch: u64,
    clock: &JobClock,
) -> Vec<TrainerLine> {
    let last = options.ranks - 1;
    match options.trainer {
        // `progress_printer.py`: a line for every batch.
        SynthTrainer::Nemo1 | SynthTrainer::Nemo2 => {
            vec![(0, format!("Validation: iteration {batch}/{EVAL_BATCHES}"))]
        }
        _ if batch < EVAL_BATCHES => Vec::new(),
        SynthTrainer::Megatron | SynthTrainer::MegatronBridge | SynthTrainer::MegatronDeepspeed => {
            let text = format!(
                " validation loss at iteration {step} | lm loss value: 5.310042E+00 | lm loss PPL: 2.023587E+02 | "
            );
            let rule = "-".repeat(text.len());
            vec![(last, rule.clone()), (last, text), (last, rule)]
        }
        SynthTrainer::GptNeox => vec![(
            0,
            format!(
                " validation results at iteration {step} | lm_loss value: 5.310042E+00 | lm_loss_ppl value: 2.023587E+02 | "
            ),
        )],
        SynthTrainer::Torchtitan => vec![(
            0,
            format!(
                "[titan] {},{:03} - root - INFO - validate step: {step:2}  loss:  5.31004  memory: 66.91GiB(37.51%)  tps: 10,050",
                clock.date_time(),
                clock.ms()
            ),
        )],
        SynthTrainer::Maxtext => vec![(
            0,
            format!("eval metrics after step: {step}, loss=5.310, total_weights=196608.0"),
        )],
        SynthTrainer::Hf => vec![(
            0,
            "{'eval_loss': '5.31', 'eval_runtime': '3.2', 'eval_samples_per_second': '40.1'}"
                .to_owned(),
        )],
        SynthTrainer::Deepspeed | SynthTrainer::Nanotron | SynthTrainer::None => {
            vec![(
                0,
                format!("[Eval batch={batch}/{EVAL_BATCHES}] loss 5.310 validation done"),
            )]
        }
    }
}

/// Before and behind the calls of a save. NeMo prints no line when a save is over
/// (Lightning's `ModelCheckpoint` prints first): such calls cannot be distinguished from the next
/// step's, so none are made.
pub(crate) fn save_lines(options: &Options, step: u64) -> (Vec<TrainerLine>, Vec<TrainerLine>) {
    let say = |text: String| vec![(0, text)];
    match options.trainer {
        SynthTrainer::Megatron | SynthTrainer::MegatronBridge | SynthTrainer::MegatronDeepspeed => {
            (
                say(format!(
                    "saving checkpoint at iteration {step:7} to /checkpoints in torch_dist format"
                )),
                say(format!(
                    "  successfully saved checkpoint from iteration {step:7} to /checkpoints [ t 1/{}, p 1/{} ]",
                    options.tp, options.pp
                )),
            )
        }
        SynthTrainer::GptNeox | SynthTrainer::Deepspeed => (
            say(format!(
                "[Torch] Saving /checkpoints/global_step{step}/mp_rank_00_model_states.pt..."
            )),
            say(format!(
                "[Torch] Saved checkpoint /checkpoints/global_step{step}/mp_rank_00_model_states.pt."
            )),
        ),
        SynthTrainer::Nemo1 | SynthTrainer::Nemo2 => (
            say(format!(
                "Epoch 0, global step {step}: 'val_loss' reached 5.31004 (best 5.31004), saving checkpoint to '/checkpoints/gpt--val_loss=5.31-step={step}.ckpt' as top 3"
            )),
            Vec::new(),
        ),
        _ => (
            say(format!("saving checkpoint at step {step} to /checkpoints")),
            say(format!("Saved checkpoint at step {step} to /checkpoints")),
        ),
    }
}
