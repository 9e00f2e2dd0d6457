//! A piece of a line between carriage returns, and the small searches every recogniser shares.

use memchr::memmem;

use super::number::{number_len, prefix_len};
use crate::trainer::{StepLine, TrainerMark, TrainerRecord};

/// How far a recogniser looks back from an anchor for the head of the record. A bound, because a
/// hostile line of anchors only must not cost a look at the whole line each.
const RECORD_LOOKBACK_BYTES: usize = 512;

/// The text a recogniser sees: one piece, without colours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinePiece<'a> {
    /// The bytes of the piece.
    pub(crate) text: &'a [u8],
    /// Just after the last record found in it; nothing before belongs to another one.
    pub(crate) floor: usize,
}

impl<'a> LinePiece<'a> {
    /// Returns the free text before `at`, at most `REACH` bytes, with its position.
    pub(crate) fn free_text_before(&self, at: usize) -> (&'a [u8], usize) {
        let low = self
            .floor
            .max(at.saturating_sub(RECORD_LOOKBACK_BYTES))
            .min(at);
        (&self.text[low..at], low)
    }

    /// Where `needle` last is before `at`.
    pub(crate) fn find_back(&self, needle: &[u8], at: usize) -> Option<usize> {
        let (text, low) = self.free_text_before(at);
        memmem::rfind(text, needle).map(|found| low + found)
    }

    /// `at` moved back over `word` if it is right before.
    pub(crate) fn skip_word_back(&self, word: &[u8], at: usize) -> usize {
        let (text, low) = self.free_text_before(at);
        text.strip_suffix(word).map_or(at, |rest| low + rest.len())
    }

    /// Whether a name begins at `at`: `step:` does not in `global_step:`. A letter before it is no
    /// objection, because the head of a torn line may end anywhere.
    pub(crate) fn is_word_start(&self, at: usize) -> bool {
        !matches!(self.text[..at].last(), Some(b'_' | b'/' | b'-'))
    }

    /// Position in the piece of `rest`, which is a tail of it.
    pub(crate) fn position(&self, rest: &[u8]) -> usize {
        self.text.len() - rest.len()
    }

    /// The record from `start` to `end` as a step.
    pub(crate) fn step_record(start: usize, end: usize, line: StepLine) -> Option<TrainerRecord> {
        Some(TrainerRecord {
            start,
            end,
            mark: TrainerMark::Step(line),
        })
    }
}

/// How a trainer writes ` | name: value` or `, name=value`.
pub(crate) struct FieldSyntax {
    /// The text before a name.
    pub(crate) separator: &'static [u8],
    /// The text between a name and its value.
    pub(crate) colon: &'static [u8],
    /// The bytes that may follow a number, as units do.
    pub(crate) units: &'static [u8],
}

impl FieldSyntax {
    /// How many bytes of `text` are fields; a record of another writer glued after ends them.
    pub(crate) fn fields_len(&self, text: &[u8]) -> usize {
        let mut rest = text;
        while let Some(after) = rest.strip_prefix(self.separator) {
            let name = prefix_len(after, |b| b != self.colon[0] && !b",|[{\t".contains(&b));
            let Some(value) = after[name..].strip_prefix(self.colon) else {
                break;
            };
            // Its value is of no interest here, and to read each would take as long as the line.
            let (number, tail) = value.split_at(number_len(value));
            rest = if !number.is_empty() {
                &tail[prefix_len(tail, |b| self.units.contains(&b))..]
            } else {
                &value[prefix_len(value, |b| {
                    b.is_ascii_alphanumeric() || b"+-./_?".contains(&b)
                })..]
            };
        }
        text.len() - rest.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_end_before_glued_text() {
        let of = |text: &'static str, separator, units| {
            let fields = FieldSyntax {
                separator,
                colon: b": ",
                units,
            };
            &text[..fields.fields_len(text.as_bytes())]
        };
        assert_eq!(
            of(" | lr: 1e-05 | T: 1.2e+03[NeMo", b" | ", b""),
            " | lr: 1e-05 | T: 1.2e+03"
        );
        assert_eq!(
            of(" | lr: 5 | seen: 588Training", b" | ", b""),
            " | lr: 5 | seen: 588"
        );
        assert_eq!(of(" | seen: 1.02K | x", b" | ", b"K"), " | seen: 1.02K");
        assert_eq!(
            of(", seconds: 5.667, loss: nan.0 x", b", ", b""),
            ", seconds: 5.667, loss: nan.0"
        );
        assert_eq!(of(" | lr", b" | ", b""), "");
    }
}
