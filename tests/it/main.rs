//! The built programs on real, composed and made logs: what is promised to a user.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod check;
mod ends;
mod equal;
mod help;
mod house;
mod input;
mod newcomer;
mod packages;
mod pages;
mod programs;
mod real;
mod scripts;
mod shared;
mod steps;
mod support;
mod terminal;
