//! Questions about a trainer, answered from its facts.

use super::Trainer;
use super::facts::{SampleLine, TrainerFacts};

impl Trainer {
    /// Every trainer with a recogniser of its own, by priority; [`Trainer::Custom`] has none.
    pub fn all() -> impl Iterator<Item = Trainer> {
        Trainer::KNOWN.iter().copied()
    }

    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the trainer with this name or alias.
    ///
    /// `regex` is not among them: it needs a pattern, see
    /// [`Recogniser::for_pattern`](super::Recogniser::for_pattern).
    pub fn from_name(name: &str) -> Option<Trainer> {
        Trainer::all().find(|trainer| trainer.name() == name || trainer.aliases().contains(&name))
    }

    /// Other names that [`Trainer::from_name`] knows.
    pub fn aliases(self) -> &'static [&'static str] {
        self.facts().aliases
    }

    /// Lines that the trainer prints.
    pub fn sample_lines(self) -> &'static [SampleLine] {
        self.facts().samples
    }

    /// The number of the trainer's first step; 1 for a user's own pattern.
    pub fn first_step(self) -> u64 {
        self.facts().first
    }

    /// Whether every rank or host prints the line unless a launcher filters them.
    pub fn printed_by_every_rank(self) -> bool {
        self.facts().every_rank
    }

    /// Whether the last rank prints the line, not rank 0.
    pub fn printed_by_last_rank(self) -> bool {
        self.facts().last_rank
    }

    /// Whether the line may come after some calls of the next step.
    pub fn prints_late(self) -> bool {
        self.facts().late
    }

    /// Whether line N is printed only after step N+1 was dispatched.
    pub fn lags_one_step(self) -> bool {
        self.facts().lags
    }

    /// Whether other programs print lines of this shape too, so that only those with one total
    /// belong together.
    pub fn is_told_apart_by_total(self) -> bool {
        self.facts().any_program
    }

    /// The trainer that this one is a fork of.
    pub(super) fn fork_of(self) -> Option<Trainer> {
        self.facts().fork_of
    }
}

/// The facts of [`Trainer::Custom`]; the user describes its lines.
pub(super) const CUSTOM: TrainerFacts = TrainerFacts::named("regex");
