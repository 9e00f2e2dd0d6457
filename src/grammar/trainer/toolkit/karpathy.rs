//! nanochat, llm.c, build-nanogpt and what grew from them: `step`, its number, and columns. And the
//! plain form `epoch 0 step 1/16 - loss 7.8` of small programs.

use crate::trainer::facts::{STEP, SampleLine, TrainerFacts};
use crate::trainer::parts::number::{
    bytes_after, number_len, parse_count, parse_float, parse_millis, prefix_len, skip_blanks,
    suffix_len,
};
use crate::trainer::parts::piece::LinePiece;
use crate::trainer::parts::prefix::find_logger_prefix;
use crate::trainer::{StepLine, Trainer, TrainerRecord};

/// nanochat, llm.c, build-nanogpt; they count from 0 or from 1.
pub(crate) const NANOCHAT: TrainerFacts = TrainerFacts {
    words: &[(STEP, read_columns)],
    aliases: &["llm.c", "build-nanogpt"],
    first: 0,
    samples: &[
        SampleLine::new(
            "step 00010/21400 (0.05%) | loss: 7.1 | lrm: 1.00 | dt: 1200.00ms | tok/sec: 436,906 | total time: 0.20m",
            10,
            Some(1.2),
        ),
        SampleLine::new(
            "step   10/19560 | loss 7.100000 (+nanz)| norm 3.2000 (+nanz)| lr 1.20e-05 | 254.68 ms | 58.2% bf16 MFU | 1234567 tok/s",
            10,
            Some(0.25468),
        ),
    ],
    ..TrainerFacts::named("nanochat")
};
/// Programs with an epoch, a step of a known number, and a loss.
pub(crate) const PLAIN: TrainerFacts = TrainerFacts {
    words: &[(STEP, read_plain_step)],
    any_program: true,
    samples: &[SampleLine::new("epoch 0 step 1/16 - loss 7.8", 1, None)],
    ..TrainerFacts::named("epoch-step")
};

/// `step 00010/21400 (0.05%) | loss: 7.1 | .. | dt: 1200.00ms | tok/sec: 436,906 | ..` (nanochat
/// `scripts/base_train.py`, 2025-10 to 2026; build-nanogpt `train_gpt2.py` without a total), and
/// `step   10/19560 | loss 7.1 (+nanz)| norm 3.2 (+nanz)| lr 1.2e-05 | 254.68 ms | 58.2% bf16 MFU |
/// 1234567 tok/s` (llm.c `train_gpt2.cu`). The time is the step's.
fn read_columns(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let rest = piece.text[hit..].strip_prefix(b"step ")?;
    if !piece.is_word_start(hit) {
        return None;
    }
    let (rest, step) = parse_count(skip_blanks(rest)).ok()?;
    let of = rest.strip_prefix(b"/").and_then(|of| parse_count(of).ok());
    let (rest, total) = of.map_or((rest, None), |(rest, total)| (rest, Some(total)));
    // `(0.05%)`, in forks with more inside.
    let rest = match rest.strip_prefix(b" (") {
        Some(inside) => {
            let close = prefix_len(&inside[..inside.len().min(64)], |b| b != b')');
            inside[close..].strip_prefix(b")")?
        }
        None => rest,
    };
    let columns = rest.strip_prefix(b" | ")?;
    columns.strip_prefix(b"loss")?;
    let (time, end) = if let Some(time) = bytes_after(columns, b"| dt: ") {
        let (left, time_s) = parse_millis(time);
        (time_s, columns_end(left.strip_prefix(b"ms")?))
    } else {
        // A column of its own, without a name.
        let at = memchr::memmem::find(columns, b" ms | ")?;
        let number = suffix_len(&columns[..at], |b| b.is_ascii_digit() || b == b'.');
        let time_s = parse_millis(&columns[at - number..at]).1;
        columns[..at - number].strip_suffix(b"| ")?;
        let left = &columns[at + 3..];
        let end = memchr::memmem::find(left, b" tok/s").map(|at| &left[at + 6..]);
        (time_s, end.unwrap_or(left))
    };
    let line = StepLine {
        total,
        time_s: time,
        ..StepLine::without_time(Trainer::NanoChat, step)
    };
    let (start, wall_ms) = find_logger_prefix(piece.text, piece.floor, hit);
    LinePiece::step_record(start, piece.position(end), StepLine { wall_ms, ..line })
}

/// What follows ` | name: value` columns; a value is a number with a unit.
fn columns_end(text: &[u8]) -> &[u8] {
    let mut rest = text;
    while let Some(column) = rest.strip_prefix(b" | ") {
        let name = prefix_len(column, |b| b != b':' && b != b'|');
        let Some(value) = column[name..].strip_prefix(b": ") else {
            break;
        };
        let len = number_len(value);
        let unit = prefix_len(&value[len..], |b| b == b'm' || b == b'%' || b == b's');
        if len == 0 {
            break;
        }
        rest = &value[len + unit..];
    }
    rest
}

/// `epoch 0 step 1/16 - loss 7.8`, `Epoch 3, Step 120/5000, loss: 1.2`, `Epoch [1/5], Step [100/600], Loss:
/// 0.2`: the step is one of the epoch's. Of a time only one in seconds or milliseconds right after is
/// the step's.
fn read_plain_step(piece: &LinePiece<'_>, hit: usize) -> Option<TrainerRecord> {
    let rest = piece.text[hit..].strip_prefix(b"step")?;
    let open = |text: &[u8]| match text {
        [b' ' | b':' | b'=', ..] => Some(prefix_len(text, |b| b" :=[".contains(&b))),
        _ => None,
    };
    let (rest, step) = parse_count(&rest[open(rest)?..]).ok()?;
    let (rest, total) = parse_count(rest.strip_prefix(b"/")?).ok()?;
    let rest = rest.strip_prefix(b"]").unwrap_or(rest);
    let gap = prefix_len(rest, |b| b" ,:|-".contains(&b));
    let body = &rest[gap..];
    let name = [&b"loss"[..], b"Loss", b"train_loss", b"train loss"];
    let loss = name.iter().find_map(|name| body.strip_prefix(*name))?;
    let sign = prefix_len(loss, |b| b" :=".contains(&b));
    let value = &loss[sign..];
    let (_, value_s) = parse_float(value);
    let end = match value_s {
        Some(_) => &value[number_len(value)..],
        None => value.strip_prefix(b"nan")?,
    };
    if gap == 0 || sign == 0 {
        return None;
    }
    let (before, low) = piece.free_text_before(hit);
    let inside = &before[..before.len() - suffix_len(before, |b| b" ,:|-]".contains(&b))];
    let number = suffix_len(inside, |b| b.is_ascii_digit() || b == b'/');
    let (left, epoch) = inside.split_at(inside.len() - number);
    let (_, epoch) = parse_count(epoch).ok()?;
    let left = &left[..left.len() - suffix_len(left, |b| b" :=[".contains(&b))];
    let names = [&b"epoch"[..], b"Epoch"];
    let start = names
        .iter()
        .find_map(|name| left.strip_suffix(*name))?
        .len();
    let is_alone = left.len() < inside.len() - number && inside.len() < before.len();
    // A word before names another pass: `val epoch 0 step 1/16`.
    let word = left[..start].trim_ascii_end();
    let passes = [
        &b"val"[..],
        b"valid",
        b"validation",
        b"eval",
        b"test",
        b"Val",
        b"Eval",
        b"Test",
    ];
    if !is_alone || !piece.is_word_start(low + start) || passes.iter().any(|p| word.ends_with(p)) {
        return None;
    }
    let line = StepLine {
        epoch: Some(epoch),
        total: Some(total),
        ..StepLine::without_time(Trainer::EpochStep, step)
    };
    let (start, wall_ms) = find_logger_prefix(piece.text, piece.floor, low + start);
    LinePiece::step_record(start, piece.position(end), StepLine { wall_ms, ..line })
}

#[cfg(test)]
mod tests {
    use crate::trainer::Trainer;
    use crate::trainer::tests::{found, one, steps};

    #[test]
    fn columns_have_the_steps_time() {
        for (text, step, total, time) in [
            (
                "step 00010/21400 (0.05%) | loss: 7.135912 | grad norm: 1.2 | lrm: 1.00 | dt: 1200.00ms | tok/sec: 436,906 | bf16_mfu: 47.02 | epoch: 1 | total time: 0.20m | eta: 120.3m",
                10,
                Some(21400),
                1.2,
            ),
            (
                "step    10 | loss: 6.512345 | lr 1.0000e-04 | norm: 1.2345 | dt: 338.12ms | tok/sec: 484000.12",
                10,
                None,
                0.33812,
            ),
            (
                "step   10/19560 | loss 7.100000 (+1.25z)| norm 3.2000 (-0.10z)| lr 1.20e-05 | 254.68 ms | 58.2% bf16 MFU | 1234567 tok/s",
                10,
                Some(19560),
                0.25468,
            ),
        ] {
            let (line, got) = one(&format!("0: {text}h:1:2 [0] NCCL"));
            assert_eq!(
                (line.trainer, line.step),
                (Trainer::NanoChat, step),
                "{text}"
            );
            assert_eq!(
                (line.total, line.time_s, got.as_str()),
                (total, Some(time), text)
            );
        }
    }

    #[test]
    fn plain_lines_have_an_epoch_a_step_and_a_loss() {
        for text in [
            "epoch 2 step 1/16 - loss 7.8",
            "Epoch [2/5], step [1/16], Loss: 0.2",
            "Epoch 2, step: 1/16, loss: nan",
            "epoch=2 step=1/16 loss=7.8e-1",
        ] {
            let (line, got) = one(&format!("[rank0]:{text}, x"));
            assert_eq!((line.trainer, line.step), (Trainer::EpochStep, 1), "{text}");
            assert_eq!((line.epoch, line.total), (Some(2), Some(16)), "{text}");
            assert_eq!(got, text);
        }
    }

    #[test]
    fn what_is_no_training_step_is_refused() {
        for text in [
            "step 00010 | Validation bpb: 0.9",
            "step 10/20 | val loss 3.1",
            "val epoch 0 step 1/16 - loss 7.8",
            "epoch 0 step 1/16 - accuracy 7.8",
            "epoch 0 step 1 - loss 7.8",
            "step 1/16 - loss 7.8",
            "epoch0step 1/16 - loss 7.8",
        ] {
            assert_eq!(steps(text), 0, "{text}: {:?}", found(text));
        }
    }
}
