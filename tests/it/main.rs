//! The built programs on real, composed and made logs: what is promised to a user.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod bad;
mod captured;
mod captured_tables;
mod chain;
mod check;
mod comms;
mod communicators;
mod diff;
mod doubt;
mod ends;
mod equal;
mod evidence;
mod facts;
mod faults;
mod gpu;
mod inputs;
mod net;
mod newcomer;
mod proposed;
mod real;
mod recorded;
mod restarts;
mod said;
mod shapes;
mod steps;
mod support;
mod synth;
mod tables;
mod taken;
mod timing;
mod torn;
mod tuning;
mod wrapped;
