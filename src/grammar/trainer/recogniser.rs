//! Turns a line into its marks: splits it, reads the records around anchors and filters the steps.

use super::anchor_finder::AnchorFinder;
use super::parts::piece::LinePiece;
use super::user_pattern::StepPattern;
use super::{Trainer, TrainerMark, TrainerRecord};
use crate::wrap::strip_escapes;

/// The trainers that may count the steps.
#[derive(Debug, Clone)]
enum StepFilter {
    Every,
    Of(Trainer),
    Matching(StepPattern),
}

impl StepFilter {
    /// The mark as it counts here, `None` where another trainer's was asked for.
    fn filter_mark(&self, mark: TrainerMark) -> Option<TrainerMark> {
        let TrainerMark::Step(mut line) = mark else {
            return Some(mark);
        };
        match self {
            StepFilter::Every => Some(mark),
            StepFilter::Matching(_) => None,
            StepFilter::Of(wanted) => {
                if line.trainer.fork_of() == Some(*wanted) {
                    line.trainer = *wanted;
                }
                (line.trainer == *wanted).then_some(TrainerMark::Step(line))
            }
        }
    }
}

/// Finds the step lines of trainers, and what ends an evaluation or a save, in a line.
#[derive(Debug, Clone)]
pub struct Recogniser {
    anchors: AnchorFinder,
    steps: StepFilter,
}

impl Recogniser {
    /// The recogniser of every trainer's step lines.
    ///
    /// ```
    /// use nccl_pipe_grammar::trainer::{TrainerMark, Recogniser, Trainer};
    ///
    /// let line = b"0: Training epoch 0, iteration 45/99 | train_step_timing in s: 6.08";
    /// let mut found = Vec::new();
    /// Recogniser::all().marks(line, &mut found);
    /// let TrainerMark::Step(step) = found[0].mark else { panic!("not a step") };
    /// assert_eq!((step.trainer, step.step, step.time_s), (Trainer::Nemo2, 45, Some(6.08)));
    /// ```
    pub fn all() -> Recogniser {
        Recogniser {
            anchors: AnchorFinder::new(),
            steps: StepFilter::Every,
        }
    }

    /// The recogniser of one trainer's step lines; marks that are no steps are found as ever.
    ///
    /// [`Trainer::Megatron`] also takes the lines of its two descendants, as its own.
    pub fn for_trainer(trainer: Trainer) -> Recogniser {
        Recogniser {
            anchors: AnchorFinder::new(),
            steps: StepFilter::Of(trainer),
        }
    }

    /// The recogniser of the user's pattern. Its steps are of [`Trainer::Custom`].
    ///
    /// The group `step` is required; `time_s`, `time_ms` or `steps_per_s`, and `tflops` are
    /// optional. A record is
    /// what the pattern matches, so one that shall take in the whole line ends with `.*`.
    ///
    /// # Errors
    ///
    /// The pattern is invalid; the message repeats it and gives an example of a valid one.
    pub fn for_pattern(pattern: &str) -> Result<Recogniser, String> {
        StepPattern::new(pattern).map(|pattern| Recogniser {
            anchors: AnchorFinder::new(),
            steps: StepFilter::Matching(pattern),
        })
    }

    /// Whether [`Recogniser::marks`] could find anything in a line; false is certain.
    pub fn may_mark(&self, text: &[u8]) -> bool {
        // Empty lines are many, and the vector search is slow to start.
        (text.len() >= 4 && self.anchors.find_next(text, 0).is_some())
            || match &self.steps {
                StepFilter::Matching(pattern) => {
                    // Without its colours the text may match where it now does not.
                    memchr::memchr(0x1b, text).is_some()
                        || split_pieces(text).any(|(_, piece)| pattern.matches(piece))
                }
                _ => false,
            }
    }

    /// Appends the records of one line, which has no `\n`, in the order of their position.
    pub fn marks(&self, text: &[u8], found: &mut Vec<TrainerRecord>) {
        if !self.may_mark(text) {
            return;
        }
        for (offset, piece) in split_pieces(text) {
            let clean = strip_escapes(piece);
            let first = found.len();
            self.find_in_piece(clean.as_ref().map_or(piece, |clean| clean.text()), found);
            let place =
                |at: usize| offset + clean.as_ref().map_or(at, |clean| clean.source_offset(at));
            for record in &mut found[first..] {
                record.start = place(record.start);
                record.end = place(record.end);
            }
        }
    }

    fn find_in_piece(&self, text: &[u8], found: &mut Vec<TrainerRecord>) {
        let first = found.len();
        let mut floor = 0;
        let mut at = 0;
        while let Some(anchor) = self.anchors.find_next(text, at) {
            let record = anchor.read_record(&LinePiece { text, floor });
            at = anchor.end;
            if let Some(record) = record {
                floor = record.end;
                at = at.max(floor);
                found.extend(
                    self.steps
                        .filter_mark(record.mark)
                        .map(|mark| TrainerRecord { mark, ..record }),
                );
            }
        }
        if let StepFilter::Matching(pattern) = &self.steps {
            // What the user calls a step is one, even where it looks like an evaluation's end.
            let others = found.split_off(first);
            found.extend(pattern.find_steps(text));
            let steps = found.len();
            for other in others {
                let after = found[first..steps].partition_point(|step| step.end <= other.start);
                if found[first..steps]
                    .get(after)
                    .is_none_or(|step| other.end <= step.start)
                {
                    found.push(other);
                }
            }
            found[first..].sort_by_key(|record| record.start);
        }
    }
}

/// The pieces of a line between carriage returns, each with its position.
pub fn split_pieces(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut next = 0;
    text.split(|&b| b == b'\r').map(move |piece| {
        let start = next;
        next += piece.len() + 1;
        (start, piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_a_line_count_its_returns_and_colours() {
        let text = b"junk\r\x1b[1mx\x1b[0m Testing: iteration 1/2\x1b[0m\r";
        let mut found = Vec::new();
        Recogniser::all().marks(text, &mut found);
        let record = found[0];
        assert_eq!(
            &text[record.start..record.end],
            b"Testing: iteration 1/2\x1b[0m"
        );
        assert!(!Recogniser::all().may_mark(b"no anchor here"));
    }
}
