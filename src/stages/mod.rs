//! One file or folder a stage, in rooms by question. Each has `Options` (plain, no clap), reads inputs and gives rows or bytes;
//! none knows of argv, standard output or exit codes.
//!
//! Those that read logs have one shape: what it needs, what it keeps of a chunk, and how chunks add
//! up (`Stage`). A call whose line was torn is no matter there: it is in its chunk's part before that
//! is added ([`Visit::torn`]). Where calls or lines are written by their steps, which are known only
//! when a log is read to its end, that is the first walk, and both stages keep a [`survey`] of it.
//!
//! Two walks have a shape of their own. nccl-comms writes rows while it walks a log again: rows of
//! one chunk are made on other threads than the next chunk is walked on, so there is no part to add.
//! nccl-check reads some inputs again for single calls: they are open, recognised and reported
//! already, and processes keep the names that they have.
//!
//! nccl-watch has no walk of a whole input: it walks what comes, as it comes.
//!
//! nccl-ops, nccl-hist and nccl-agg share one fold, [`crate::count::calls::count`], and differ in what
//! they make of it.

pub mod calls;
pub mod check;
pub mod diff;
pub mod gpus;
mod kept;
pub mod page;
pub mod pictures;
#[cfg(test)]
pub(crate) mod pieces;
pub mod ranks;
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
use crate::formats::Tells;
use crate::formats::door::{self, Known};
use crate::log::walk::Visit;
use crate::log::{self, Log, Part};
use crate::members::Merged;
use crate::report::Report;
use crate::source::{Copied, Input, Origin, Thin};
use std::cell::Cell;

/// A stage, while its inputs are read.
pub(crate) trait Stage {
    /// What each input must tell.
    const NEEDS: Tells;
    /// Inputs are read again afterwards.
    const AGAIN: bool = false;
    /// Then it says of a pipe while it is read what will not be asked for again: it is only read from its
    /// beginning on.
    const THINS: bool = false;
    /// Takes records of calls from a pipe, too.
    const RECORDED: bool = false;
    /// Something is asked of steps.
    const STEPS: bool = true;
    /// What is kept of a chunk.
    type Visit: Visit + Send;

    /// The next log begins.
    fn begin(&mut self, _name: String) {}

    /// Whether this input is to be read again.
    fn again(&self, _input: &Input) -> bool {
        Self::AGAIN
    }

    /// It is a pipe, of which this copy is made while it is read.
    fn copied(&mut self, _copy: Copied) {}

    /// The same, of which lines may be let go.
    fn thin(&mut self, _name: String, _thin: Thin) {}

    /// The input is read up to there, and what comes before is added.
    fn read_to(&mut self, _bytes: u64, _merged: &Merged) {}

    /// Adds a chunk that follows what was added before.
    fn add(&mut self, part: Part<'_, Self::Visit>);

    /// Whether the last chunk could be added: a stage that writes rows while it reads may fail.
    ///
    /// # Errors
    /// The output cannot be written.
    fn added(&mut self) -> Result<()> {
        Ok(())
    }

    /// The log is read to its end.
    fn end(
        &mut self,
        _input: Known<Self::Visit>,
        _log: Log,
        _merged: &Merged,
        _report: &mut Report,
    ) {
    }

    /// Takes an input that is no log, where a stage does not need one.
    ///
    /// # Errors
    /// It cannot be read, or is of no use here.
    fn other(
        &mut self,
        input: Known<Self::Visit>,
        _merged: &mut Merged,
        _report: &mut Report,
        _progress: &dyn Progress,
    ) -> Result<()> {
        Err(input.refused("log lines"))
    }
}

/// Reads all `origins` into a stage that nothing is asked of but its inputs. Gives everyone who was
/// met, too.
///
/// # Errors
/// As [`read`].
pub(crate) fn gather<S>(
    origins: &[Origin],
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<(S, Merged)>
where
    S: Stage<Visit: Default> + Default,
{
    let mut stage = S::default();
    let new = S::Visit::default;
    let merged = read(&mut stage, origins, options, report, progress, new)?;
    progress.finish();
    Ok((stage, merged))
}

/// Reads all `origins`; `new` keeps nothing of a chunk yet. Gives everyone who was met.
///
/// # Errors
/// No input could be read, or tells what is needed; damage under `--strict`.
pub(crate) fn read<S: Stage>(
    stage: &mut S,
    origins: &[Origin],
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    new: impl Fn() -> S::Visit + Sync,
) -> Result<Merged> {
    let mut merged = Merged::default();
    if let [origin] = origins
        && origin.is_piped()
    {
        merged.twice.alone();
    }
    let log_options = log::Options {
        keep_marks: S::STEPS,
        ..options.log.clone()
    };
    let mut opening = options.opening(S::NEEDS);
    opening.again = S::AGAIN;
    opening.recorded = S::RECORDED;
    door::each(origins, opening, report, &new, |mut input, report| {
        if !input.tells(Tells::LINES) {
            return stage.other(input, &mut merged, report, progress);
        }
        let again = stage.again(input.input());
        if again {
            input = match S::THINS {
                true => input.rewindable_thin()?,
                false => input.rewindable()?,
            };
        }
        stage.begin(input.name());
        if let Some(copy) = input.input().copied() {
            stage.copied(copy);
        }
        if let Some(thin) = input.input().thin() {
            stage.thin(input.name(), thin);
        }
        let read = Cell::new(0);
        let log = input.told(
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
                stage.add(part);
                stage.read_to(read.get(), merged);
                stage.added()
            },
        )?;
        if again {
            input = input.rewound()?;
        }
        stage.end(input, log, &merged, report);
        Ok(())
    })?;
    Ok(merged)
}
