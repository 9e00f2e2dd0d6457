//! The built programs on real, composed and made logs: what is promised to a user.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod check;
mod ends;
mod equal;
mod input;
mod newcomer;
mod pages;
mod programs;
mod real;
mod shared;
mod steps;
mod support;
