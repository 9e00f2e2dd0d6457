//! One file or folder a stage, in rooms by question. Each has `Options` (plain, no clap), reads inputs and gives rows or bytes;
//! none knows of argv, standard output or exit codes.
//!
//! Those that read logs have one shape: what it needs, what it keeps of a chunk, and how chunks add
//! up (`Stage`). A call whose line was torn is no matter there: it is in its chunk's part before that
//! is added ([`LogVisitor::insert_torn_calls`]). Where calls or lines are written by their steps, which are known only
//! when a log is read to its end, that is the first walk, and both stages keep a [`survey`] of it.
//!
//! Two walks have a shape of their own. nccl-comms writes rows while it walks a log again: rows of
//! one chunk are made on other threads than the next chunk is walked on, so there is no part to add.
//! nccl-check reads some inputs again for single calls: they are open, recognised and reported
//! already, and processes keep the names that they have.
//!
//! nccl-watch has no walk of a whole input: it walks what comes, as it comes.
//!
//! nccl-ops, nccl-hist and nccl-agg share one fold, [`crate::count::calls::count_calls`], and differ in what
//! they make of it.

pub mod calls;
pub mod check;
pub mod diff;
pub mod gpus;
pub mod page;
pub mod pictures;
#[cfg(test)]
pub(crate) mod pieces;
pub mod ranks;
mod run_snapshot;
pub mod setup;
pub mod trainer;
pub mod watch;

// A stage has the name of its program, wherever its folder is.
pub use calls::{agg, comms, hist, ops, timed};
pub use gpus::{cuda, kernels, overlap};
pub use ranks::{matrix, proxy, skew};
pub use setup::{communicators, net, tuning};
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

/// A stage, while its inputs are read.
pub(crate) trait InputStage {
    /// What each input must tell.
    const NEEDS: Provides;
    /// Inputs are read again afterwards.
    const SECOND_PASS: bool = false;
    /// Then it says of a pipe while it is read what will not be asked for again: it is only read from its
    /// beginning on.
    const RELEASES_PIPE_LINES: bool = false;
    /// Takes records of calls from a pipe, too.
    const TAKES_PIPED_RECORDS: bool = false;
    /// Something is asked of steps.
    const USES_STEPS: bool = true;
    /// What is kept of a chunk.
    type Visit: LogVisitor + Send;

    /// The next log begins.
    fn begin_input(&mut self, _name: String) {}

    /// Whether this input is to be read again.
    fn needs_second_pass(&self, _input: &Input) -> bool {
        Self::SECOND_PASS
    }

    /// It is a pipe, of which this copy is made while it is read.
    fn take_pipe_copy(&mut self, _copy: PipeCopy) {}

    /// The same, of which lines may be let go.
    fn take_pipe_spool(&mut self, _name: String, _thin: PipeSpool) {}

    /// The input is read up to there, and what comes before is added.
    fn note_read_to(&mut self, _bytes: u64, _merged: &MergedMembers) {}

    /// Adds a chunk that follows what was added before.
    fn add_chunk(&mut self, part: MergedChunk<'_, Self::Visit>);

    /// Whether the last chunk could be added: a stage that writes rows while it reads may fail.
    ///
    /// # Errors
    /// The output cannot be written.
    fn check_output(&mut self) -> Result<()> {
        Ok(())
    }

    /// The log is read to its end.
    fn end_input(
        &mut self,
        _input: OpenInput<Self::Visit>,
        _log: LogState,
        _merged: &MergedMembers,
        _report: &mut Report,
    ) {
    }

    /// Takes an input that is no log, where a stage does not need one.
    ///
    /// # Errors
    /// It cannot be read, or is of no use here.
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

/// Reads all `origins` into a stage that nothing is asked of but its inputs. Gives everyone who was
/// met, too.
///
/// # Errors
/// As [`read`].
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

/// Reads all `origins`; `new` keeps nothing of a chunk yet. Gives everyone who was met.
///
/// # Errors
/// No input could be read, or tells what is needed; damage under `--strict`.
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
                true => input.into_rewindable_spool()?,
                false => input.into_rewindable()?,
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
    Ok(merged)
}
