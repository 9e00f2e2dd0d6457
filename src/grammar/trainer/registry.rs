//! Every trainer whose step lines are known.

use super::Trainer;
use super::bar;
use super::bar::described_bars;
use super::benchmark::{dllogger, eta, hugectr, mlperf, mxnet, reference};
use super::facts::TrainerFacts;
use super::language::{
    deepspeed, fairseq, litgpt, maxtext, megatron, nanotron, nemo, other_frameworks, reinforce,
    torchtitan,
};

/// The facts of every trainer with a recogniser of its own, in the order of [`Trainer`].
pub(super) const ALL_TRAINER_FACTS: &[TrainerFacts] = &[
    nemo::FACTS,
    described_bars::NEMO,
    megatron::FACTS,
    megatron::DEEPSPEED,
    megatron::NEOX,
    maxtext::FACTS,
    torchtitan::FACTS,
    nanotron::FACTS,
    other_frameworks::OLMO,
    other_frameworks::COMPOSER,
    reinforce::VERL,
    reinforce::OPENRLHF,
    fairseq::FACTS,
    litgpt::FACTS,
    mxnet::FACTS,
    eta::MASKRCNN,
    eta::TORCHVISION,
    hugectr::FACTS,
    dllogger::FACTS,
    reference::IMAGENET,
    reference::SSD,
    reference::BERT,
    reference::DLRM,
    reference::DLROVER,
    mlperf::FACTS,
    other_frameworks::COLOSSAL,
    other_frameworks::TORCHTUNE,
    deepspeed::FACTS,
    described_bars::LIGHTNING,
    bar::FACTS,
];

impl Trainer {
    /// Every trainer with a recogniser of its own, by priority; [`Trainer::Custom`] has none.
    pub fn all() -> impl Iterator<Item = Trainer> {
        ALL_TRAINER_FACTS.iter().map(|facts| facts.trainer)
    }

    fn facts(self) -> Option<&'static TrainerFacts> {
        ALL_TRAINER_FACTS.get(self as usize)
    }

    /// The name on the command line and in reports.
    pub fn name(self) -> &'static str {
        self.facts().map_or("regex", |facts| facts.name)
    }

    /// The trainer of a name or of one of its aliases, `None` for a name not known.
    ///
    /// `regex` is not among them: a pattern has to come with it, see [`Recogniser::regex`](super::Recogniser::for_pattern).
    pub fn from_name(name: &str) -> Option<Trainer> {
        let known = |facts: &&TrainerFacts| facts.name == name || facts.aliases.contains(&name);
        ALL_TRAINER_FACTS
            .iter()
            .find(known)
            .map(|facts| facts.trainer)
    }

    /// Other names that [`Trainer::from_name`] knows.
    pub fn aliases(self) -> &'static [&'static str] {
        self.facts().map_or(&[], |facts| facts.aliases)
    }

    /// The number that the trainer gives its first step; a user's own pattern is taken to count
    /// from 1.
    pub fn first_step(self) -> u64 {
        self.facts().map_or(1, |facts| facts.first)
    }

    /// Whether every rank or host prints the line unless a launcher filters them.
    pub fn printed_by_every_rank(self) -> bool {
        self.facts().is_some_and(|facts| facts.every_rank)
    }

    /// True for trainers whose line comes after calls of the next step: Hugging Face's bar moves on
    /// when the losses were gathered, and another program's bar when it likes.
    pub fn prints_late(self) -> bool {
        matches!(self, Trainer::Hf)
    }

    /// Whether line N is printed only after step N+1 was dispatched.
    pub fn lags_one_step(self) -> bool {
        self.facts().is_some_and(|facts| facts.lags)
    }
}
