//! Stages: a file or folder each, in rooms by question. A stage has `Options` (plain, no clap), reads
//! inputs, and returns rows or bytes; it does not know argv, standard output or exit codes.
//!
//! Stages that read logs implement `InputStage`: what they need, what they keep of a chunk, and how
//! chunks add up. Calls of torn lines are in their chunk's part before it is added
//! ([`LogVisitor::insert_torn_calls`]). nccl-steps and nccl-comms write calls or lines by steps that are
//! known only at the end of a log: they walk it twice, and keep a [`survey`] of the first walk.
//!
//! Two walks differ. nccl-comms writes rows while it walks a log again: other threads make the rows of one
//! chunk while the next is walked, so there is no part to add. nccl-check reads some inputs again for
//! single calls: they are open, recognised and reported already, and processes keep their names.
//!
//! nccl-watch walks input as it arrives.
//!
//! nccl-ops, nccl-hist and nccl-agg share one fold, [`crate::count::calls::count_calls`].

pub mod answers;
pub(crate) mod benchmark;
pub mod calls;
pub mod check;
pub mod collect;
pub mod diff;
pub mod gpus;
pub mod pack;
pub mod page;
pub mod pictures;
#[cfg(test)]
pub(crate) mod pieces;
pub mod ranks;
mod run_snapshot;
pub mod setup;
pub mod trainer;
pub mod watch;

// A stage has the name of its program, independent of its folder.
pub use calls::{agg, comms, hist, ops, timed};
pub use gpus::{cuda, kernels, overlap};
pub use ranks::{matrix, proxy, skew};
pub use setup::{communicators, net, topology, tuning};
pub use trainer::{steps, survey, timing};

use crate::count::calls::{Options, Progress};
use crate::error::Result;
use crate::formats::Provides;
use crate::formats::open::{self, OpenInput};
use crate::log::walk::LogVisitor;
use crate::log::{self, LogState, MergedChunk};
use crate::members::MergedMembers;
use crate::report::Report;
use crate::source::{Input, InputName, PipeCopy, PipeSpool};
use std::cell::Cell;

/// A stage that reads inputs.
pub(crate) trait InputStage {
    /// What each input must provide.
    const NEEDS: Provides;
    /// Inputs are read a second time afterwards.
    const SECOND_PASS: bool = false;
    /// With a second pass: releases lines of a pipe while it is read, so that the pipe is kept only in
    /// part.
    const RELEASES_PIPE_LINES: bool = false;
    /// Also takes records of calls from a pipe.
    const TAKES_PIPED_RECORDS: bool = false;
    /// Uses steps.
    const USES_STEPS: bool = true;
    /// Part of a chunk.
    type Visit: LogVisitor + Send;

    /// The number of jobs that a run is about: a note reports inputs of several with a command for so many. 0: the
    /// stage reports them itself.
    fn jobs_at_once() -> usize {
        1
    }

    /// Begins the next log.
    fn begin_input(&mut self, _name: String) {}

    /// True if this input is read a second time.
    fn needs_second_pass(&self, _input: &Input) -> bool {
        Self::SECOND_PASS
    }

    /// Takes the copy of a pipe that is made while it is read.
    fn take_pipe_copy(&mut self, _copy: PipeCopy) {}

    /// Takes the copy of a pipe that can release lines.
    fn take_pipe_spool(&mut self, _name: String, _thin: PipeSpool) {}

    /// Notes how many bytes of the input are read and added.
    fn note_read_to(&mut self, _bytes: u64, _merged: &MergedMembers) {}

    /// Adds a chunk that follows what was added before.
    fn add_chunk(&mut self, part: MergedChunk<'_, Self::Visit>);

    /// Fails if the last chunk could not be added: a stage may write rows while it reads.
    ///
    /// # Errors
    /// The output cannot be written.
    fn check_output(&mut self) -> Result<()> {
        Ok(())
    }

    /// Ends a log.
    fn end_input(
        &mut self,
        _input: OpenInput<Self::Visit>,
        _log: LogState,
        _merged: &MergedMembers,
        _report: &mut Report,
    ) {
    }

    /// Takes an input that is no log, for stages that do not need one.
    ///
    /// # Errors
    /// The input cannot be read, or has nothing for this stage.
    fn add_other_input(
        &mut self,
        input: OpenInput<Self::Visit>,
        _merged: &mut MergedMembers,
        _report: &mut Report,
        _progress: &dyn Progress,
    ) -> Result<()> {
        Err(input.error_without_part("log lines"))
    }
}

/// Reads all `origins` into a new stage. Returns it with all members.
///
/// # Errors
/// As [`read_stage`].
pub(crate) fn gather_stage<S>(
    origins: &[InputName],
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<(S, MergedMembers)>
where
    S: InputStage<Visit: Default> + Default,
{
    let mut stage = S::default();
    let new = S::Visit::default;
    let merged = read_stage(&mut stage, origins, options, report, progress, new)?;
    progress.finish();
    Ok((stage, merged))
}

/// Reads all `origins`; `new` makes an empty part. Returns all members.
///
/// # Errors
/// No input could be read, or has what the stage needs; damage under `--strict`.
pub(crate) fn read_stage<S: InputStage>(
    stage: &mut S,
    origins: &[InputName],
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    new: impl Fn() -> S::Visit + Sync,
) -> Result<MergedMembers> {
    let mut merged = MergedMembers::default();
    if let [origin] = origins
        && origin.is_piped()
    {
        merged.twice.expect_single_input();
    }
    let log_options = log::Options {
        keep_marks: S::USES_STEPS,
        ..options.log.clone()
    };
    let mut opening = options.opening_for(S::NEEDS);
    opening.again = S::SECOND_PASS;
    opening.recorded = S::TAKES_PIPED_RECORDS;
    open::for_each_input(origins, opening, report, &new, |mut input, report| {
        if !input.provides(Provides::LINES) {
            return stage.add_other_input(input, &mut merged, report, progress);
        }
        let again = stage.needs_second_pass(input.input());
        if again {
            input = match S::RELEASES_PIPE_LINES {
                true => input.into_rewindable(Input::make_rewindable_spool)?,
                false => input.into_rewindable(Input::make_rewindable)?,
            };
        }
        stage.begin_input(input.name());
        if let Some(copy) = input.input().pipe_copy() {
            stage.take_pipe_copy(copy);
        }
        if let Some(thin) = input.input().pipe_spool() {
            stage.take_pipe_spool(input.name(), thin);
        }
        let read = Cell::new(0);
        let log = input.read_log_reported(
            &log_options,
            &mut merged,
            report,
            &new,
            |bytes| {
                read.set(read.get() + bytes);
                progress.advance(bytes);
            },
            |part| {
                let merged = part.merged;
                stage.add_chunk(part);
                stage.note_read_to(read.get(), merged);
                stage.check_output()
            },
        )?;
        if again {
            input = input.into_rewound()?;
        }
        stage.end_input(input, log, &merged, report);
        Ok(())
    })?;
    report.note_separate_jobs(&merged, S::jobs_at_once());
    Ok(merged)
}
