//! The trainer's output: the steps, and how long they took.

pub(in crate::stages) mod limits;
pub mod steps;
pub mod survey;
pub mod timing;
