//! What is known of a trainer: its names, the words of its records, and who reads them.

use super::parts::piece::LinePiece;
use super::{Trainer, TrainerRecord};

/// Reads the record around an anchor, or refuses it.
pub(super) type RecordReader = fn(&LinePiece<'_>, usize) -> Option<TrainerRecord>;

/// A word of many: `step:`, `step=`, `steps: `, `Global step `, `[#step]`.
pub(super) const STEP: &[u8] = b"step";

/// `Step time: `, `Step Time : `, `Step 7 |`.
pub(super) const STEP_BEGINS: &[u8] = b"Step ";

/// ` loss ` of litGPT's lines and in Megatron-LM's evaluation.
pub(super) const LOSS: &[u8] = b" loss ";

/// `Iter: 1000`, `Iteration 200`.
pub(super) const ITER: &[u8] = b"Iter";

/// What is known of a trainer, in the file that reads its lines.
pub(super) struct TrainerFacts {
    pub(super) trainer: Trainer,
    /// The name on the command line and in reports.
    pub(super) name: &'static str,
    /// Other names for it on the command line.
    pub(super) aliases: &'static [&'static str],
    /// The number that it gives its first step.
    pub(super) first: u64,
    /// Whether every rank or host prints the line unless a launcher filters them.
    pub(super) every_rank: bool,
    /// Whether line N is printed only after step N+1 was dispatched.
    pub(super) lags: bool,
    /// Words of which one is in every record, and who reads the record around it.
    pub(super) words: &'static [(&'static [u8], RecordReader)],
}

impl TrainerFacts {
    /// A trainer that counts from 1 and of which one rank prints a line when the step is over.
    pub(super) const fn counted_from_one(
        trainer: Trainer,
        name: &'static str,
        words: &'static [(&'static [u8], RecordReader)],
    ) -> TrainerFacts {
        TrainerFacts {
            trainer,
            name,
            aliases: &[],
            first: 1,
            every_rank: false,
            lags: false,
            words,
        }
    }
}
