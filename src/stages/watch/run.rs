//! The run of a watch: what comes is read, told of, and checked once nothing moves any more.

use super::labels::Labelling;
use super::spool::Spool;
use super::{Event, Watch, processes};
use crate::count::calls::Options as Read;
use crate::error::{Error, Result};
use crate::report::Report;
use crate::report::progress::Bar;
use crate::source::{Follow, Grown, Origin};
use crate::stages::check::{self, Checked, Now};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// When a run ends, and what counts as a stall.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// After how long without a call or a step line the job has stopped; by default ten times its
    /// usual step, and a minute at least.
    pub stall: Option<Duration>,
    /// End at the first stall.
    pub exit_on_stall: bool,
    /// So many bytes of a pipe are kept.
    pub keep: u64,
    /// What communicators are for is shown.
    pub labels: bool,
}

/// The receivers of reports.
pub trait Listener {
    /// Something happened.
    ///
    /// # Errors
    /// The output cannot be written.
    fn event(&mut self, event: &Event) -> Result<()>;

    /// Nothing moves any more, and the log is about to be checked: that may take a while.
    ///
    /// # Errors
    /// As [`Listener::event`].
    fn checks(&mut self, watch: &Watch<'_>) -> Result<()>;

    /// Nothing moves any more; `found` is what the log shows.
    ///
    /// # Errors
    /// As [`Listener::event`].
    fn stalled(&mut self, watch: &Watch<'_>, found: &Checked) -> Result<()>;

    /// The input ended; `found` is what the log shows.
    ///
    /// # Errors
    /// As [`Listener::event`].
    fn ended(&mut self, watch: &Watch<'_>, found: &Checked) -> Result<()>;

    /// What there was to read was read; `found` is what was found last. Breaks where the user has
    /// seen enough.
    ///
    /// # Errors
    /// As [`Listener::event`].
    fn rests(&mut self, watch: &Watch<'_>, found: Option<&Checked>) -> Result<ControlFlow<()>>;
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Its pipes ended; whether anything is wrong.
    Over(bool),
    /// The job stalled.
    Stalled,
    /// The user has seen enough.
    Left,
}

/// Watches until the inputs end: a pipe does, files do not. `read` must not map files: a map of one that
/// is truncated ends the program.
///
/// # Errors
/// An input cannot be read; those of `listener`.
pub fn run(
    follow: &mut Follow,
    read: &Read,
    options: Options,
    listener: &mut dyn Listener,
) -> Result<Ended> {
    let mut watch = Watch::new(read, options.stall, Instant::now());
    let mut log = Logs::new(follow, options.keep)?;
    let (mut found, mut labelling) = (None, Labelling::default());
    loop {
        let any = follow.read(|grown| {
            let events = watch.grow(&grown, Instant::now());
            if grown.is_pipe {
                log.keep(&grown, &watch)?;
            }
            events.iter().try_for_each(|event| listener.event(event))
        })?;
        if !any && follow.is_over() {
            break;
        }
        if !any && watch.stalls(Instant::now()) {
            listener.checks(&watch)?;
            let mut stalled = log.check((follow, &watch), read, Now::Stalled)?;
            processes::add(&watch.ranks, &mut stalled.findings);
            listener.stalled(&watch, &stalled)?;
            found = Some(stalled);
            if options.exit_on_stall {
                let _ = listener.rests(&watch, found.as_ref())?;
                return Ok(Ended::Stalled);
            }
        }
        if options.labels
            && let Some(labels) = labelling.labels(&watch, read, || log.paths(follow))
        {
            watch.labels = labels;
        }
        if listener.rests(&watch, found.as_ref())?.is_break() {
            return Ok(Ended::Left);
        }
        if !any {
            follow.wait()?;
        }
    }
    let events = watch.end(Instant::now());
    events.iter().try_for_each(|event| listener.event(event))?;
    let ended = log.check((follow, &watch), read, Now::Unknown)?;
    listener.ended(&watch, &ended)?;
    let is_wrong = ended.is_wrong();
    let _ = listener.rests(&watch, Some(&ended))?;
    Ok(Ended::Over(is_wrong))
}

/// What nccl-check reads: the files, and what came through the pipe.
struct Logs {
    spool: Option<Spool>,
}

impl Logs {
    fn new(follow: &Follow, keep: u64) -> Result<Logs> {
        let spool = follow.has_pipe().then(|| Spool::new(keep)).transpose();
        let spool = spool.map_err(failed)?;
        Ok(Logs { spool })
    }

    /// Keeps what came through the pipe, `grown`, which `watch` has seen.
    fn keep(&mut self, grown: &Grown<'_>, watch: &Watch<'_>) -> Result<()> {
        let keep = |spool: &mut Spool| spool.keep(grown, watch).map_err(failed);
        self.spool.as_mut().map_or(Ok(()), keep)
    }

    /// Where all that has come is.
    fn paths(&self, follow: &Follow) -> Vec<PathBuf> {
        let files = follow.files().filter(|path| path.exists());
        let spool = self.spool.as_ref().map(Spool::path);
        files.chain(spool).map(Path::to_owned).collect()
    }

    /// What nccl-check finds in all that has come.
    fn check(
        &self,
        (follow, watch): (&Follow, &Watch<'_>),
        read: &Read,
        now: Now,
    ) -> Result<Checked> {
        let origins: Vec<Origin> = self.paths(follow).into_iter().map(Origin::Path).collect();
        let mut report = Report::new("nccl-watch", false, true).silent();
        let mut found = check::check(&origins, (read, now), &mut report, &Bar::default())?;
        if let Some(last) = self.spool.as_ref().and(found.inputs.last_mut()) {
            "stdin".clone_into(last);
        }
        if let Some(spool) = &self.spool {
            found.findings.extend(spool.shortened(watch, now));
        }
        Ok(found)
    }
}

fn failed(cause: std::io::Error) -> Error {
    Error::Content(format!(
        "cannot keep the pipe's text in a temporary file: {cause} (set TMPDIR to a folder with more \
         space, or name the log's file instead of using a pipe)"
    ))
}
