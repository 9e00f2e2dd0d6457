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
//! **nccl-matrix** ([`stages::matrix`]) reports who sends to whom, from messages, copies and what rings and
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
//! **nccl-check** ([`stages::check`]) reports what is wrong with a job, with the lines that show it.
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
//! never by its name, and refused in one sentence where it does not tell what the stage needs
//! ([`formats::Provides`]). A log is walked as below; whatever is a record a line goes through
//! [`formats::lines`], which shares chunks out to all cores and keeps an account of every line. A
//! format is a file with a [`formats::InputFormat`]; no stage knows which there are.
//!
//! # How a log is read
//!
//! ```text
//! source ── chunks ──► walk, on all cores ──► merge, in order ──► rows
//!                      (grammar, a Visit)     (members, torn, timeline)
//! ```
//!
//! *Chunks.* [`source`] maps a file, or reads what cannot be mapped in blocks of constant size.
//! A chunk ends at a line end, if possible at a quiet place ([`log::walk::classify_cut`]): where no line before
//! it waits for a piece after it.
//!
//! *The walk.* [`log::walk::walk_bytes`] goes through a chunk from one COLL body to the next
//! ([`grammar::coll::COLL_ANCHOR`]). A line that is a header met before and one whole body takes the
//! short way; every other line is examined fully: step lines ([`grammar::trainer`]),
//! INIT lines (`grammar::message::communicator::init`), bodies glued to other text, pieces of torn lines. Each
//! line is put into one class of the [`report::account`], so that the classes add up to the lines. What
//! a stage keeps of the calls is its [`log::walk::LogVisitor`]; three stages share one, [`count::tally`].
//!
//! *Gaps.* The walk does not know steps. It numbers the gaps between marks, and a stage counts
//! by gap. A trainer prints its line when the step is over, so only when the log has been walked
//! can [`log::timeline::resolve_timeline`] name each gap: a step's, between steps, after the last. It chooses
//! among the shapes of step lines by the whole log, and `attempts` gives it the places where new
//! processes took over. This is why nccl-steps and nccl-comms walk a log twice and spool a pipe.
//!
//! *The merge.* Chunks are added in the order of the file, whatever thread was first, and so the
//! output does not depend on their number ([`pool::map_in_order`]). [`members`] gives hosts, processes
//! and communicators their final numbers and learns from INIT lines who is which rank.
//! [`log::mend::torn`] rejoins pieces of torn lines where they fit with certainty, across chunks too;
//! pieces that find no other half are damaged. Their calls are put into what the stage kept of the
//! chunk ([`log::walk::LogVisitor::insert_torn_calls`]) before that is added up: no stage knows torn calls.
//!
//! *Elsewhere.* What is kept of a chunk and what a run adds up to are serde: a chunk may be walked on
//! another machine, and runs over different inputs are merged. [`members::MergedMembers::merge`] gives the
//! other run's processes and members their numbers here, [`count::tally::Tally::merge`] and the like
//! take them.
//!
//! # Where to change what
//!
//! `stages` and `program` are in `src`, `grammar` and `synth` in `src/grammar` and
//! `src/synth`, all else is in `src/engine`.
//!
//! | to add | change |
//! |---|---|
//! | a trainer's step line | a file in `grammar/trainer` with its facts, its [`grammar::trainer::Trainer`] |
//! | what a step's time is where no line prints one | `log/timeline/times.rs` |
//! | whose step lines count where there are several | `log/timeline/choice.rs` |
//! | how a restart is recognised | `attempts`, and a launcher's words in `grammar/trainer/launcher.rs` |
//! | what is proposed where no step line is known | `propose` |
//! | a shape of NCCL's calls | [`grammar::coll`] or [`grammar::header`], and the same in [`synth`] |
//! | a shape of NCCL's other lines | its family's file in [`grammar::message`] |
//! | a word by which a job or a process ends | `grammar::ending` |
//! | who of several that ended failed first | `stages/check/log/first_failure.rs` |
//! | what shows that ranks stopped | `stages/check/ranks/stopped` |
//! | what makes a rank late at times or always | `stages/ranks/skew/late.rs` |
//! | what a WARN means | its row in `stages/check/warn/known/table.rs` |
//! | text around a line (JSON, HTML, CSV, colours) | a layer in `grammar::wrap` |
//! | a kind of damage | `log/walk/line` to see it, [`log::mend::torn`] or [`log::mend::blocks`] to mend it, [`synth`] to make it |
//! | a fault of a made job | [`synth::fault`]; what its ranks then do, `synth/ahead` |
//! | how the ranks of a made job split a model | `synth/job/strategies.rs` |
//! | a way of packing | `source/packed.rs` |
//! | an input format | a file in [`formats`] with its [`formats::InputFormat`] (and, for a record a line, its [`formats::lines::RecordFormat`]), and a line in the list of `formats/mod.rs` |
//! | what a stage needs of an input | the [`formats::Provides`] that it hands to [`formats::open::for_each_input`] |
//! | what tells who sends to whom | a file in `stages/ranks/matrix`, and its [`stages::matrix::cells::TrafficBasis`] |
//! | a kernel that communicates | `stages/gpus/overlap/comm.rs` |
//! | a column | its line in `output/table/columns.rs`, where it goes last; a kind of field in `kinds.rs` |
//! | a grouping | [`count::groups::GroupBy`] and its flag in [`program::cli`] |
//! | something that [`stages::diff`] compares | its file there, and [`stages::diff::row::DiffAspect`] |
//! | a WARN body | `stages/check/warn/known/table.rs` |
//! | a finding | a file in [`stages::check`] that gives `stages::check::finding::Finding`s |
//! | how an input that grows is followed | `source/follow.rs`, `source/ear.rs` |
//! | a table of nccl-report, or its form | `stages/page` |
//! | what nccl-watch reports of a job that runs | `stages/watch`, on its page `stages/watch/page` |
//! | a stage | a file in [`stages`] (its `Stage`), a program in `src/bin`, its goldens in `tests/it` |
//! | what a person reads | [`report`] |
//!
//! # Read on
//!
//! `docs/internals.md` describes what real jobs showed and how ranks are compared, `docs/speed.md`
//! where the time goes, and the other pages of `docs/` what a user needs.
//!
//! # Limits
//!
//! - A log has no durations: NCCL prints a call when it is enqueued.
//! - Memory grows with the number of distinct things (communicators, sizes, steps when they are
//!   distinguished), not with the number of calls. The rest of a line over 16 MiB is omitted,
//!   counted and reported.
//! - Counts are exact up to 2^64-1, sums of bytes are 128 bits wide. Percentiles have three
//!   significant digits.
//! - A mapped file that is truncated while it is read ends the program with a message and code
//!   2; `--no-mmap` is immune, except in programs that read twice: see [`source`].
//! - Inputs with the same calls are recognised by a few places of each ([`members::duplicate_inputs`]), not by all of
//!   their bytes: a part of a log without step lines is not recognised.
//! - Only [`source`] has `unsafe` code.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub use nccl_pipe_engine::{
    calls, count, error, formats, log, members, output, pool, report, source,
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
