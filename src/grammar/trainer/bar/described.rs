//! Bars with a description of a trainer's: NeMo 1's and Lightning's `Epoch 0: `, torchtune's `1|2|Loss: 1.25`,
//! ColossalAI's `Step`.

use nom::bytes::complete::tag;
use nom::character::complete::space0;
use nom::combinator::opt;
use nom::{IResult, Parser};

use super::{POSTFIX, Right};
use crate::trainer::facts::Facts;
use crate::trainer::facts::STEP;
use crate::trainer::parts::number::{after, count, run, run_back};
use crate::trainer::parts::piece::Piece;
use crate::trainer::{Found, StepLine, Trainer};

/// The timing of NeMo 1, whose own bars print no rate (@v1.23.0).
const TIMING: &[u8] = b"train_step_timing in s=";

/// NeMo 1, whose bars have a rate only where they have no timing.
pub(crate) const NEMO: Facts = Facts {
    first: 0,
    ..Facts::of(Trainer::Nemo1, "nemo1", &[(STEP, super::around)])
};
/// Lightning; the words of its bar are those of every bar.
pub(crate) const LIGHTNING: Facts = Facts {
    aliases: &["pytorch-lightning"],
    ..Facts::of(Trainer::Lightning, "lightning", &[])
};

/// A bar with one of the descriptions trainers set; `text` is it without its colon.
pub(crate) fn of_a_trainer(
    piece: &Piece<'_>,
    right: &Right<'_>,
    text: &[u8],
    low: usize,
) -> Option<Found> {
    let digit = |b: u8| b.is_ascii_digit();
    if text.ends_with(b"Step") && piece.word_at(low + text.len() - 4) && right.n > 0 {
        let start = low + text.len() - 4;
        let line = StepLine {
            total: Some(right.total),
            pace: right.pace(),
            clock: right.clock(),
            ..StepLine::bare(Trainer::ColossalAi, right.n)
        };
        return Piece::step(start, right.end, line);
    }
    // NeMo's own `bar_format` adds a second colon.
    let epoch = text.strip_suffix(b": ").unwrap_or(text);
    let name = &epoch[..epoch.len() - run_back(epoch, digit)];
    if name.len() < epoch.len() && name.ends_with(b"Epoch ") {
        let start = low + name.len() - 6;
        return nemo(start, right).or_else(|| {
            (epoch.len() == text.len())
                .then(|| lightning(start, right))
                .flatten()
        });
    }
    // `1|2|Loss: 1.25`: the description's step, because the bar is drawn once more with the
    // description of the step before (@bd2a0fc).
    let at = memchr::memmem::rfind(text, b"|Loss: ")?;
    let step = at - run_back(&text[..at], digit);
    let epoch = text[..step].strip_suffix(b"|")?;
    let start = epoch.len() - run_back(epoch, digit);
    let (_, step) = count(&text[step..]).ok()?;
    // The bar's total is the steps of one epoch, while the description counts over epochs.
    let line = StepLine {
        pace: right.pace(),
        clock: right.clock(),
        ..StepLine::bare(Trainer::Torchtune, step)
    };
    let found = Piece::step(low + start, right.end, line);
    found.filter(|_| start < epoch.len())
}

/// A training bar of NeMo 1: `n` counts from 1, and `global_step=9e+3` in the postfix has lost its
/// digits, so the bar's count less one is the step.
fn nemo(start: usize, right: &Right<'_>) -> Option<Found> {
    let time_s = after(right.postfix, TIMING);
    let trains = [TIMING, b"global_step="];
    if !trains
        .iter()
        .any(|name| memchr::memmem::find(right.postfix, name).is_some())
    {
        return None;
    }
    let line = StepLine {
        total: (right.total > 0).then_some(right.total),
        time_s,
        tflops: after(right.postfix, b"TFLOPS_per_GPU="),
        clock: right.mean_clock(),
        ..StepLine::bare(Trainer::Nemo1, right.n.checked_sub(1)?)
    };
    Piece::step(start, right.end, line)
}

/// Lightning's own bar: it is drawn when a batch is over and counts from 1 in each epoch.
fn lightning(start: usize, right: &Right<'_>) -> Option<Found> {
    let line = StepLine {
        total: Some(right.total),
        clock: right.mean_clock(),
        ..StepLine::bare(Trainer::Lightning, right.n)
    };
    (right.n > 0 && right.rate.is_some())
        .then(|| Piece::step(start, right.end, line))
        .flatten()
}

/// `Epoch 1: : 57it [00:04, train_step_timing in s=4.36]`, a bar that does not know its total.
pub(crate) fn without_total(piece: &Piece<'_>, hit: usize) -> Option<Found> {
    let start = piece.find_back(b"Epoch ", hit)?;
    let head = |input| -> IResult<&[u8], u64> {
        let (rest, (_, _, _, _, _, n, _)) = (
            tag("Epoch "),
            count,
            tag(":"),
            opt(tag(" :")),
            space0,
            count,
            tag("it ["),
        )
            .parse(input)?;
        Ok((rest, n))
    };
    let (rest, n) = head(&piece.text[start..]).ok()?;
    let close = run(&rest[..rest.len().min(POSTFIX)], |b| b != b']' && b != b'[');
    let end = piece.position(rest) + close + usize::from(rest.get(close) == Some(&b']'));
    nemo(start, &Right::counted(n, &rest[..close], end))
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
