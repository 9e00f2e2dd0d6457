//! Trainers of images, speech and small language models, by toolkit.

pub(super) mod karpathy;
pub(super) mod keras;
pub(super) mod openmmlab;
pub(super) mod paddle;
pub(super) mod speech;
pub(super) mod swift;
pub(super) mod vision;
