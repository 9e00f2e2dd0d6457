//! The facts of a trainer: its names, the words of its records and the functions that read them.

use super::parts::piece::LinePiece;
use super::{Trainer, TrainerRecord};

/// Reads the record around an anchor; `None` if the text is no such record.
pub(super) type RecordReader = fn(&LinePiece<'_>, usize) -> Option<TrainerRecord>;

/// Part of `step:`, `step=`, `steps: `, `Global step `, `[#step]`, shared by many trainers.
pub(super) const STEP: &[u8] = b"step";

/// `Step time: `, `Step Time : `, `Step 7 |`.
pub(super) const STEP_BEGINS: &[u8] = b"Step ";

/// ` loss ` of litGPT's lines and in Megatron-LM's evaluation.
pub(super) const LOSS: &[u8] = b" loss ";

/// `Iter: 1000`, `Iteration 200`.
pub(super) const ITER: &[u8] = b"Iter";

/// The facts of one trainer, kept in the file that reads its lines.
pub(super) struct TrainerFacts {
    /// The name on the command line and in reports.
    pub(super) name: &'static str,
    /// Other names for it on the command line.
    pub(super) aliases: &'static [&'static str],
    /// Words, each with the reader of the record around it. Every record contains one of them.
    /// Empty if another trainer's reader finds the lines.
    pub(super) words: &'static [(&'static [u8], RecordReader)],
    /// Lines that the recogniser must read, at least one.
    pub(super) samples: &'static [SampleLine],
    /// The number of its first step.
    pub(super) first: u64,
    /// Whether every rank or host prints the line unless a launcher filters them.
    pub(super) every_rank: bool,
    /// Whether the last rank prints, not rank 0: Megatron-LM and some forks (`print_rank_last`,
    /// `megatron/training/utils.py`).
    pub(super) last_rank: bool,
    /// Whether line N is printed only after step N+1 was dispatched.
    pub(super) lags: bool,
    /// Whether the line may come after some calls of the next step.
    pub(super) late: bool,
    /// Whether other programs, such as an evaluation, print lines of this shape too: only those
    /// with one total belong together.
    pub(super) any_program: bool,
    /// The trainer that this one is a fork of. Its lines count as that trainer's if only those are
    /// asked for, since any fork may add a field that another is recognised by.
    pub(super) fork_of: Option<Trainer>,
}

impl TrainerFacts {
    /// A trainer that counts from 1 and prints a line on rank 0 when the step is over.
    pub(super) const fn named(name: &'static str) -> TrainerFacts {
        TrainerFacts {
            name,
            aliases: &[],
            words: &[],
            samples: &[],
            first: 1,
            every_rank: false,
            last_rank: false,
            lags: false,
            late: false,
            any_program: false,
            fork_of: None,
        }
    }
}

/// A line of a trainer, with what its recogniser must read from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleLine {
    /// The line.
    pub text: &'static str,
    /// The number of the step.
    pub step: u64,
    /// The time of the step in seconds, if the line prints it.
    pub time_s: Option<f64>,
}

impl SampleLine {
    /// A line that prints the step and perhaps its time in seconds.
    pub(super) const fn new(text: &'static str, step: u64, time_s: Option<f64>) -> SampleLine {
        SampleLine { text, step, time_s }
    }
}
