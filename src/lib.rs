//! nccl-pipe: programs for the logs NCCL leaves behind.
//!
//! Under `NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL` NCCL prints a line for every call it is
//! given. The programs of this package turn such a log into numbers: which operations, how many,
//! how large, in which training step, on which communicator. Each does one thing, reads files or
//! standard input, writes a table, and reports on stderr anything that it could not read. This page
//! describes the library. `docs/` has a page for each program, and `--help` its flags and columns.
//!
//! # The stages
//!
//! Everything is in this library and the crates below it; a program in `src/bin` is arguments and exit code. A stage has
//! a module in [`stages`], with plain `Options` and no knowledge of the command line.
//!
//! **nccl-steps** ([`stages::steps`]) finds the trainer's step lines and passes the lines of the
//! chosen steps, byte for byte, or writes one row for each step.
//!
//! ```console
//! $ nccl-steps nccl.log --list
//! $ nccl-steps nccl.log --steps 45..49 --keep-init > part.log
//! ```
//!
//! **nccl-timing** ([`stages::timing`]) reads step time and TFLOP/s per GPU off the same lines.
//!
//! ```console
//! $ nccl-timing nccl.log --steps 45..49
//! $ nccl-timing nccl.log --per-step --format csv > steps.csv
//! ```
//!
//! **nccl-comms** ([`stages::comms`]) writes the call table: a row for every call, or with
//! `--unique` one for equal calls.
//!
//! ```console
//! $ nccl-comms nccl.log --steps 45..49 > calls.csv
//! $ nccl-comms nccl.log --unique --op AllGather,ReduceScatter --rank 0
//! $ nccl-comms nccl.log --tuning > calls.csv
//! ```
//!
//! **nccl-hist** ([`stages::hist`]), **nccl-ops** ([`stages::ops`]) and **nccl-agg**
//! ([`stages::agg`]) count calls by size bucket, by operation, and by distinct call. They take a
//! log or a call table, so a pipe can be cut anywhere: these three give the same bytes.
//!
//! ```console
//! $ nccl-hist nccl.log --steps 45..49
//! $ nccl-comms nccl.log --steps 45..49 | nccl-hist
//! $ nccl-steps nccl.log --steps 45..49 | nccl-comms --unique | nccl-hist
//! ```
//!
//! ```console
//! $ nccl-ops nccl.log --by step --basis wire
//! ```
//!
//! ```console
//! $ nccl-agg nccl.log --by comm_id
//! ```
//!
//! **nccl-communicators** ([`stages::communicators`]) reports the members of a communicator, where its
//! ranks are, what it was split from, how long it took to make, and what it is for.
//!
//! ```console
//! $ nccl-communicators nccl.log
//! $ nccl-communicators logs/ --members --format csv > members.csv
//! ```
//!
//! **nccl-net** ([`stages::net`]) and **nccl-tuning** ([`stages::tuning`]) read NCCL's other lines:
//! the networks that the job uses and the hosts that differ; the algorithm that served each size.
//!
//! ```console
//! $ nccl-net nccl.log
//! $ nccl-net nccl.log --pairs
//! $ nccl-net nccl.log --rings
//! $ nccl-tuning nccl.log
//! ```
//!
//! **nccl-proxy** ([`stages::proxy`]) reads traces of NCCL's profiler plugin: what the steps of the
//! network traffic wait for.
//!
//! ```console
//! $ nccl-proxy trace_*.json
//! ```
//!
//! **nccl-kernels** ([`stages::kernels`]) reports which kernels the GPUs ran, from exports of Nsight
//! Systems or what `nsys stats` prints.
//!
//! ```console
//! $ nccl-kernels report.sqlite --by op
//! ```
//!
//! **nccl-overlap** ([`stages::overlap`]) reads what GPUs did from traces of torch.profiler and exports of
//! Nsight Systems: how long they compute, communicate and move memory, and what of it at the same time.
//!
//! ```console
//! $ nccl-overlap trace_rank0.json.gz
//! $ nccl-overlap traces/ --by step
//! ```
//!
//! **nccl-cuda** ([`stages::cuda`]) reports which functions of CUDA a program called, from the logs of
//! Alnair's interposer.
//!
//! ```console
//! $ nccl-cuda timeline.log metrics.log
//! ```
//!
//! **nccl-matrix** ([`stages::matrix`]) reports which rank sends to which, from messages, copies and what rings and
//! trees carry.
//!
//! ```console
//! $ nccl-matrix nccl.log --by host
//! ```
//!
//! **nccl-diff** ([`stages::diff`]) reports what changed between two runs. In one walk it keeps what
//! the stages above keep, and compares the two.
//!
//! ```console
//! $ nccl-diff before.log after.log --tolerance 1%
//! ```
//!
//! **nccl-skew** ([`stages::skew`]) reports which ranks come late to the same calls, from time stamps
//! or recorded times.
//!
//! ```console
//! $ nccl-skew nccl.log
//! $ nccl-skew inspector/ --from durations
//! ```
//!
//! **nccl-check** ([`stages::check`]) reports the faults of a job, with the lines that show them.
//!
//! ```console
//! $ nccl-check nccl.log
//! $ nccl-check logs/ --expect net=ib,gdr=on,mismatch=0
//! ```
//!
//! **nccl-report** ([`stages::page`]) puts what the stages above find on one page.
//!
//! ```console
//! $ nccl-report nccl.log
//! $ nccl-report nccl.log -o report.html
//! ```
//!
//! **nccl-watch** ([`stages::watch`]) follows a log while the job runs. It shows a page on a
//! terminal and elsewhere writes a line for each step, and what nccl-check finds when nothing moves
//! any more.
//!
//! ```console
//! $ torchrun train.py 2>&1 | tee nccl.log | nccl-watch
//! $ nccl-watch logs/ --stall 90 --exit-on-stall
//! ```
//!
//! **nccl-pack** ([`stages::pack`]) packs logs where they lie, into parts that every program reads as the
//! logs.
//!
//! ```console
//! $ nccl-pack --to /shared/parts /local/nccl.*.log
//! $ nccl-check /shared/parts
//! ```
//!
//! **nccl-collect** ([`stages::collect`]) puts what belongs to a failed job into one archive, with other names in the place of
//! hosts, users and addresses, if asked to. Every program reads it.
//!
//! ```console
//! $ nccl-collect --redact -o case.tar.zst logs/
//! ```
//!
//! **nccl-synth** ([`synth`]) writes the log of a job that never ran, and the truth about it. The
//! tests and the benches compare every other program with that truth.
//!
//! ```console
//! $ nccl-synth --ranks 16 --nodes 2 --tp 4 --pp 2 --truth truth.json | nccl-hist
//! ```
//!
//! # The wire
//!
//! Between programs flows the call table: CSV with a header, or JSON lines. Columns are found by
//! name and new ones go last ([`output::table::COLUMNS`]). An empty field, in JSON null, means that the value
//! is unknown; nothing is guessed. Texts are written unchanged, also a cell that begins with `=`. A
//! reader needs only `op`, `count` and `datatype`.
//!
//! # Inputs
//!
//! Every input goes through [`formats::open`]: it is opened, recognised once by its first bytes,
//! never by its name, and refused in one sentence if it lacks what the stage needs
//! ([`formats::Provides`]). A log is walked as below; a format of one record per line goes through
//! [`formats::lines`], which shares chunks out to all cores and keeps an account of every line. A
//! format is a file with a [`formats::InputFormat`]; no stage knows which there are.
//!
#![doc = include_str!("../docs/internals.md")]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub use nccl_pipe_engine::{
    by_number, calls, count, error, filter, formats, log, members, output, pool, report, source,
};
pub use nccl_pipe_grammar as grammar;
pub use nccl_pipe_synth as synth;

pub mod program;
#[cfg(test)]
#[path = "../tests/it/shared.rs"]
mod shared;
pub mod stages;
#[cfg(test)]
#[path = "engine/testing.rs"]
mod testing;
