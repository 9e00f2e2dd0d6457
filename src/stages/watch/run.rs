//! The run of a watch: what comes is read, told of, and checked once nothing moves any more.

use super::labels::LabelWorker;
use super::spool::WatchSpool;
use super::{JobWatch, WatchEvent, processes};
use crate::count::calls::Options as Read;
use crate::error::{Error, Result};
use crate::report::Report;
use crate::report::progress::ByteProgressBar;
use crate::source::{AppendedBytes, GrowingFiles, InputName};
use crate::stages::check::{self, CheckSummary, JobLiveness};
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
pub trait WatchListener {
    /// Something happened.
    ///
    /// # Errors
    /// The output cannot be written.
    fn on_event(&mut self, event: &WatchEvent) -> Result<()>;

    /// Nothing moves any more, and the log is about to be checked: that may take a while.
    ///
    /// # Errors
    /// As [`WatchListener::on_event`].
    fn on_check(&mut self, watch: &JobWatch<'_>) -> Result<()>;

    /// Nothing moves any more; `found` is what the log shows.
    ///
    /// # Errors
    /// As [`WatchListener::on_event`].
    fn on_stall(&mut self, watch: &JobWatch<'_>, found: &CheckSummary) -> Result<()>;

    /// The input ended; `found` is what the log shows.
    ///
    /// # Errors
    /// As [`WatchListener::on_event`].
    fn on_end(&mut self, watch: &JobWatch<'_>, found: &CheckSummary) -> Result<()>;

    /// What there was to read was read; `found` is what was found last. Breaks where the user has
    /// seen enough.
    ///
    /// # Errors
    /// As [`WatchListener::on_event`].
    fn on_idle(
        &mut self,
        watch: &JobWatch<'_>,
        found: Option<&CheckSummary>,
    ) -> Result<ControlFlow<()>>;
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEnd {
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
pub fn run_watch(
    follow: &mut GrowingFiles,
    read: &Read,
    options: Options,
    listener: &mut dyn WatchListener,
) -> Result<WatchEnd> {
    let mut watch = JobWatch::new(read, options.stall, Instant::now());
    let mut log = WatchedLogs::new(follow, options.keep)?;
    let (mut found, mut labelling) = (None, LabelWorker::default());
    loop {
        let any = follow.read_growth(|grown| {
            let events = watch.read_growth(&grown, Instant::now());
            if grown.is_pipe {
                log.keep_growth(&grown, &watch)?;
            }
            events.iter().try_for_each(|event| listener.on_event(event))
        })?;
        if !any && follow.is_over() {
            break;
        }
        if !any && watch.detect_stall(Instant::now()) {
            listener.on_check(&watch)?;
            let mut stalled = log.check_logs((follow, &watch), read, JobLiveness::Stalled)?;
            processes::add_process_findings(&watch.ranks, &mut stalled.findings);
            listener.on_stall(&watch, &stalled)?;
            found = Some(stalled);
            if options.exit_on_stall {
                let _ = listener.on_idle(&watch, found.as_ref())?;
                return Ok(WatchEnd::Stalled);
            }
        }
        if options.labels
            && let Some(labels) = labelling.take_labels(&watch, read, || log.log_paths(follow))
        {
            watch.labels = labels;
        }
        if listener.on_idle(&watch, found.as_ref())?.is_break() {
            return Ok(WatchEnd::Left);
        }
        if !any {
            follow.wait_for_growth()?;
        }
    }
    let events = watch.read_last_lines(Instant::now());
    events
        .iter()
        .try_for_each(|event| listener.on_event(event))?;
    let ended = log.check_logs((follow, &watch), read, JobLiveness::Unknown)?;
    listener.on_end(&watch, &ended)?;
    let is_wrong = ended.is_wrong();
    let _ = listener.on_idle(&watch, Some(&ended))?;
    Ok(WatchEnd::Over(is_wrong))
}

/// What nccl-check reads: the files, and what came through the pipe.
struct WatchedLogs {
    spool: Option<WatchSpool>,
}

impl WatchedLogs {
    fn new(follow: &GrowingFiles, keep: u64) -> Result<WatchedLogs> {
        let spool = follow.has_pipe().then(|| WatchSpool::new(keep)).transpose();
        let spool = spool.map_err(spool_error)?;
        Ok(WatchedLogs { spool })
    }

    /// Keeps what came through the pipe, `grown`, which `watch` has seen.
    fn keep_growth(&mut self, grown: &AppendedBytes<'_>, watch: &JobWatch<'_>) -> Result<()> {
        let keep = |spool: &mut WatchSpool| spool.keep_growth(grown, watch).map_err(spool_error);
        self.spool.as_mut().map_or(Ok(()), keep)
    }

    /// Where all that has come is.
    fn log_paths(&self, follow: &GrowingFiles) -> Vec<PathBuf> {
        let files = follow.files().filter(|path| path.exists());
        let spool = self.spool.as_ref().map(WatchSpool::path);
        files.chain(spool).map(Path::to_owned).collect()
    }

    /// What nccl-check finds in all that has come.
    fn check_logs(
        &self,
        (follow, watch): (&GrowingFiles, &JobWatch<'_>),
        read: &Read,
        now: JobLiveness,
    ) -> Result<CheckSummary> {
        let origins: Vec<InputName> = self
            .log_paths(follow)
            .into_iter()
            .map(InputName::Path)
            .collect();
        let mut report = Report::new("nccl-watch", false, true).silenced();
        let mut found = check::check(
            &origins,
            read,
            now,
            &mut report,
            &ByteProgressBar::default(),
        )?;
        if let Some(last) = self.spool.as_ref().and(found.inputs.last_mut()) {
            "stdin".clone_into(last);
        }
        if let Some(spool) = &self.spool {
            found.findings.extend(spool.shortened_findings(watch, now));
        }
        Ok(found)
    }
}

fn spool_error(cause: std::io::Error) -> Error {
    Error::Content(format!(
        "cannot keep the pipe's text in a temporary file: {cause} (set TMPDIR to a folder with more \
         space, or name the log's file instead of using a pipe)"
    ))
}
