//! Trainers of language models that print a line of their own for each step.

pub(super) mod deepspeed;
pub(super) mod fairseq;
pub(super) mod litgpt;
pub(super) mod maxtext;
pub(super) mod megatron;
pub(super) mod nanotron;
pub(super) mod nemo;
pub(super) mod other_frameworks;
pub(super) mod reinforce;
pub(super) mod torchtitan;
