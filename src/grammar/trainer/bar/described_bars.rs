//! Bars with a description of a trainer's: NeMo 1's and Lightning's `Epoch 0: `, torchtune's `1|2|Loss: 1.25`,
//! ColossalAI's `Step`.

use nom::bytes::complete::tag;
use nom::character::complete::space0;
use nom::combinator::opt;
use nom::{IResult, Parser};

use super::{BarStatus, MAX_POSTFIX_BYTES};
use crate::trainer::facts::STEP;
use crate::trainer::facts::{SampleLine, TrainerFacts};
use crate::trainer::parts::number::{number_after, parse_count, prefix_len, suffix_len};
use crate::trainer::parts::piece::LinePiece;
use crate::trainer::{StepLine, Trainer, TrainerRecord};

/// The timing of NeMo 1; its own bars print no rate (@v1.23.0).
const NEMO_STEP_TIMING: &[u8] = b"train_step_timing in s=";

/// NeMo 1. Its bars have a rate only if they have no timing.
pub(crate) const NEMO: TrainerFacts = TrainerFacts {
    words: &[(STEP, super::read_bar)],
    first: 0,
    samples: &[
        SampleLine::new(
            "Epoch 0: :   3%|▎ | 9000/3015 [1:42<55:37, global_step=9e+3, train_step_timing in s=0.6]x",
            8999,
            Some(0.6),
        ),
        SampleLine::new(
            "Epoch 1: : 1it [00:04, 4.36s/it, global_step=0.0, train_step_timing in s=4.3]",
            0,
            Some(4.3),
        ),
    ],
    ..TrainerFacts::named("nemo1")
};
/// Lightning; the words of its bar are those of every bar.
pub(crate) const LIGHTNING: TrainerFacts = TrainerFacts {
    aliases: &["pytorch-lightning"],
    samples: &[SampleLine::new(
        "Epoch 0:   5%|▌         | 2/40 [00:00<00:07,  5.39it/s, train_loss=0.00235]",
        2,
        None,
    )],
    ..TrainerFacts::named("lightning")
};

/// A bar with one of the descriptions trainers set; `text` is it without its colon.
pub(crate) fn read_described_bar(
    piece: &LinePiece<'_>,
    right: &BarStatus<'_>,
    text: &[u8],
    low: usize,
) -> Option<TrainerRecord> {
    let digit = |b: u8| b.is_ascii_digit();
    if text.ends_with(b"Step") && piece.is_word_start(low + text.len() - 4) && right.n > 0 {
        let start = low + text.len() - 4;
        let line = StepLine {
            total: Some(right.total),
            pace: right.pace(),
            clock: right.clock(),
            ..StepLine::without_time(Trainer::ColossalAi, right.n)
        };
        return LinePiece::step_record(start, right.end, line);
    }
    // ms-swift's bar, and that of diffusers' scripts (`examples/*/train_*.py`, 0.10 to 0.35).
    for (name, trainer) in [(&b"Train"[..], Trainer::Swift), (b"Steps", Trainer::Hf)] {
        let start = low + text.len().saturating_sub(name.len());
        if text.ends_with(name) && piece.is_word_start(start) && right.rate.is_some() {
            let line = StepLine {
                total: Some(right.total),
                pace: right.pace(),
                clock: right.clock(),
                ..StepLine::without_time(trainer, right.n)
            };
            return LinePiece::step_record(start, right.end, line).filter(|_| right.n > 0);
        }
    }
    // NeMo's own `bar_format` adds a second colon.
    let epoch = text.strip_suffix(b": ").unwrap_or(text);
    let name = &epoch[..epoch.len() - suffix_len(epoch, digit)];
    if name.len() < epoch.len() && name.ends_with(b"Epoch ") {
        let start = low + name.len() - 6;
        return read_nemo_bar(start, right).or_else(|| {
            (epoch.len() == text.len())
                .then(|| read_lightning_bar(start, right))
                .flatten()
        });
    }
    // `1|2|Loss: 1.25`: the description's step, because the bar is drawn once more with the
    // description of the step before (@bd2a0fc).
    let at = memchr::memmem::rfind(text, b"|Loss: ")?;
    let step = at - suffix_len(&text[..at], digit);
    let epoch = text[..step].strip_suffix(b"|")?;
    let start = epoch.len() - suffix_len(epoch, digit);
    let (_, step) = parse_count(&text[step..]).ok()?;
    // The bar's total is the steps of one epoch, while the description counts over epochs.
    let line = StepLine {
        pace: right.pace(),
        clock: right.clock(),
        ..StepLine::without_time(Trainer::Torchtune, step)
    };
    let found = LinePiece::step_record(low + start, right.end, line);
    found.filter(|_| start < epoch.len())
}

/// A training bar of NeMo 1: `n` counts from 1, and `global_step=9e+3` in the postfix has lost its
/// digits, so the bar's count less one is the step.
fn read_nemo_bar(start: usize, right: &BarStatus<'_>) -> Option<TrainerRecord> {
    let time_s = number_after(right.postfix, NEMO_STEP_TIMING);
    let trains = [NEMO_STEP_TIMING, b"global_step="];
    if !trains
        .iter()
        .any(|name| memchr::memmem::find(right.postfix, name).is_some())
    {
        return None;
    }
    let line = StepLine {
        total: (right.total > 0).then_some(right.total),
        time_s,
        tflops: number_after(right.postfix, b"TFLOPS_per_GPU="),
        clock: right.mean_clock(),
        ..StepLine::without_time(Trainer::Nemo1, right.n.checked_sub(1)?)
    };
    LinePiece::step_record(start, right.end, line)
}

/// Lightning's own bar: it is drawn when a batch is over and counts from 1 in each epoch.
fn read_lightning_bar(start: usize, right: &BarStatus<'_>) -> Option<TrainerRecord> {
    let line = StepLine {
        total: Some(right.total),
        clock: right.mean_clock(),
        ..StepLine::without_time(Trainer::Lightning, right.n)
    };
    (right.n > 0 && right.rate.is_some())
        .then(|| LinePiece::step_record(start, right.end, line))
        .flatten()
}

/// `Epoch 1: : 57it [00:04, train_step_timing in s=4.36]`, a bar that does not know its total.
pub(crate) fn read_bar_without_total(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let start = piece.find_back(b"Epoch ", hit)?;
    let head = |input| -> IResult<&[u8], u64> {
        let (rest, (_, _, _, _, _, n, _)) = (
            tag("Epoch "),
            parse_count,
            tag(":"),
            opt(tag(" :")),
            space0,
            parse_count,
            tag("it ["),
        )
            .parse(input)?;
        Ok((rest, n))
    };
    let (rest, n) = head(&piece.text[start..]).ok()?;
    let close = prefix_len(&rest[..rest.len().min(MAX_POSTFIX_BYTES)], |b| {
        b != b']' && b != b'['
    });
    let end = piece.position(rest) + close + usize::from(rest.get(close) == Some(&b']'));
    read_nemo_bar(start, &BarStatus::from_counter(n, &rest[..close], end))
}

#[cfg(test)]
mod tests {
    use crate::trainer::Trainer;
    use crate::trainer::tests::{one, steps};

    #[test]
    fn torchtune_counts_in_its_description() {
        let (line, text) = one("0: 1|2|Loss: 1.25:   0%|  | 3/1367 [05:04<27:20:19, 72.15s/it] ");
        assert_eq!(
            (line.trainer, line.step, line.total),
            (Trainer::Torchtune, 2, None)
        );
        assert!(text.starts_with("1|2|") && text.ends_with(']'), "{text}");
        assert_eq!(
            steps("|2|Loss: 1.25:   0%|  | 3/1367 [05:04<27:20:19, 72.15s/it]"),
            0
        );
    }

    #[test]
    fn nemo_1_counts_from_zero_with_and_without_a_time() {
        let (line, text) = one(
            "(task, pid=1) Epoch 0: :  3%|▎| 9000/301500 [1:42:42<55:37:46, v_num=0, \
             global_step=9e+3, train_step_timing in s=0.615]dation DataLoader",
        );
        assert_eq!(
            (line.trainer, line.step, line.total),
            (Trainer::Nemo1, 8999, Some(301_500))
        );
        assert_eq!(line.time_s, Some(0.615));
        assert!(
            text.starts_with("Epoch 0: :") && text.ends_with(']'),
            "{text}"
        );
        let (line, _) = one("Epoch 0:   1%| | 795/7725 [9:07<8:01, 41.36s/it, global_step=794.0]");
        assert_eq!(
            (line.trainer, line.step, line.time_s),
            (Trainer::Nemo1, 794, None)
        );
        let (line, _) = one("Epoch 1: : 1it [00:04, 4.36s/it, train_step_timing in s=nan.0]");
        assert_eq!((line.step, line.total, line.time_s), (0, None, None));
    }

    #[test]
    fn lightnings_bar_counts_in_its_epoch() {
        let bar = "Epoch 0:   5%|▌         | 2/40 [00:00<00:07,  5.39it/s, train_loss=0.00235]";
        let (line, text) = one(&format!(
            "{bar}host1:7:7 [1] NCCL INFO Broadcast: opCount 0"
        ));
        assert_eq!(
            (line.trainer, line.step, line.total, line.time_s),
            (Trainer::Lightning, 2, Some(40), None)
        );
        let clock = line.clock.unwrap();
        assert!((clock.seconds - 2.0 / 5.39).abs() < 1e-9 && clock.error < 0.001);
        assert_eq!(text, bar);
        for other in [
            "Epoch 0:   0%|          | 0/40 [00:00<?, ?it/s]",
            "Validation DataLoader 0:  50%|█| 1/2 [00:00<00:00, 9.1it/s]",
            "Epoch 0: :   5%|▌| 2/40 [00:00<00:07,  5.39it/s]",
        ] {
            assert_eq!(steps(other), 0, "{other}");
        }
    }

    #[test]
    fn colossalais_bar_is_called_step() {
        let (line, text) = one("Step:  20%|██| 1/5 [00:22<01:31, 22.90s/it][08/30/23 07:07:54]");
        assert_eq!((line.trainer, line.step), (Trainer::ColossalAi, 1));
        assert!(
            text.starts_with("Step:") && text.ends_with("s/it]"),
            "{text}"
        );
    }
}
