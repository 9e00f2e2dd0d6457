//! The trainer's output: the steps, and how long they took.

mod limits;
pub mod steps;
pub mod survey;
pub mod timing;
