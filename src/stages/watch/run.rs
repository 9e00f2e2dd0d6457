//! The run of a watch: reads inputs as they grow, reports events, and checks the log at a stall and at the
//! end.

use super::STEP_TALLY;
use super::labels::LabelWorker;
use super::spool::WatchSpool;
use super::waiting_steps::{InputNews, ReportedJobs, WaitingSteps};
use super::{JobWatch, WatchEvent, processes};
use crate::count::calls::Options as Read;
use crate::count::filtered::CountFilter;
use crate::error::{Error, Result, without_temporary_path};
use crate::filter::CallFilter;
use crate::report::Report;
use crate::report::progress::ByteProgressBar;
use crate::source::{AppendedBytes, GrowingFiles, InputName};
use crate::stages::check::finding::{Finding, Kind, Severity};
use crate::stages::check::{self, CheckSummary, JobLiveness};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// When a run ends, when a job has stalled, and which calls and findings are shown.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The calls that steps have, and the findings that are shown. All calls are watched and judged.
    pub filter: CallFilter,
    /// The time without a call or a step line after which the job has stopped; by default ten usual steps,
    /// and at least a minute.
    pub stall: Option<Duration>,
    /// End at the first stall.
    pub exit_on_stall: bool,
    /// Bytes of a pipe that are kept.
    pub keep: u64,
    /// Finds out the uses of communicators.
    pub labels: bool,
}

/// The receivers of reports.
///
/// The reader of a pipe must not end before the job that writes to it, which would die of it: there, their
/// errors are only told, and returned when the pipe has ended.
pub trait WatchListener {
    /// Something failed that the watch goes on without.
    fn on_failure(&mut self, failure: &Error);

    /// Something happened.
    ///
    /// # Errors
    /// The output cannot be written.
    fn on_event(&mut self, event: &WatchEvent) -> Result<()>;

    /// Nothing moves any more, and a check of the log begins, which may take long.
    ///
    /// # Errors
    /// As [`WatchListener::on_event`].
    fn on_check(&mut self, watch: &JobWatch<'_>) -> Result<()>;

    /// Nothing moves any more; `found` are the findings of the check.
    ///
    /// # Errors
    /// As [`WatchListener::on_event`].
    fn on_stall(&mut self, watch: &JobWatch<'_>, found: &CheckSummary) -> Result<()>;

    /// The input ended; `found` are the findings of the check.
    ///
    /// # Errors
    /// As [`WatchListener::on_event`].
    fn on_end(&mut self, watch: &JobWatch<'_>, found: &CheckSummary) -> Result<()>;

    /// All that has come is read; `found` are the findings of the last check. Breaks if the user leaves.
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
    /// Its pipes ended; true if anything is wrong.
    Over(bool),
    /// The job stalled.
    Stalled,
    /// The user left.
    Left,
}

/// Outlives the failures of a listener, and of what is kept beside it, where a job writes to a pipe.
struct OutlivingListener<'l> {
    of: &'l mut dyn WatchListener,
    is_pipe: bool,
    /// The first failure to write.
    failed: Option<Error>,
    jobs: ReportedJobs,
}

impl OutlivingListener<'_> {
    /// Calls the listener.
    ///
    /// # Errors
    /// The listener's, where no job depends on the reader.
    fn tell<T: Default>(
        &mut self,
        tell: impl FnOnce(&mut dyn WatchListener) -> Result<T>,
    ) -> Result<T> {
        tell(self.of).or_else(|failure| match self.is_pipe {
            true => {
                self.of.on_failure(&failure);
                self.failed.get_or_insert(failure);
                Ok(T::default())
            }
            false => Err(failure),
        })
    }

    /// Reads what each input has grown by, once. Returns whether any has, and the events.
    fn read_round(
        &mut self,
        follow: &mut GrowingFiles,
        watch: &mut JobWatch<'_>,
        log: &mut WatchedLogs<'_>,
    ) -> Result<(bool, Vec<WatchEvent>)> {
        let mut events = Vec::new();
        let any = follow.read_growth(|grown| {
            events.extend(watch.read_growth(&grown, Instant::now()));
            if grown.is_pipe
                && let Err(failure) = log.keep_growth(&grown, watch)
            {
                self.of.on_failure(&failure);
            }
            Ok(())
        })?;
        Ok((any, events))
    }

    fn tell_ready(
        &mut self,
        ready: Vec<WatchEvent>,
        watch: &JobWatch<'_>,
        follow: &GrowingFiles,
    ) -> Result<()> {
        let ready = self.jobs.report_jobs(ready, watch, follow);
        let mut events = ready.iter();
        events.try_for_each(|event| self.tell(|listener| listener.on_event(event)))
    }

    fn is_left_when_idle(
        &mut self,
        watch: &JobWatch<'_>,
        found: Option<&CheckSummary>,
    ) -> Result<bool> {
        self.tell(|listener| Ok(listener.on_idle(watch, found)?.is_break()))
    }

    /// Checks the logs at a stall. A job that was ended from outside is silent for that reason. Where the log never grew,
    /// it may be that of a job that is over: nccl-check's findings hold, and what a running job's silence would show
    /// is a condition.
    fn check_stall(
        &mut self,
        log: &WatchedLogs<'_>,
        follow: &GrowingFiles,
        watch: &JobWatch<'_>,
    ) -> Result<(CheckSummary, Option<StallAt>)> {
        if !watch.has_grown() {
            let mut found = self.check_logs(log, follow, watch, JobLiveness::Unknown)?;
            if !found.findings.iter().any(is_error) {
                let stalled = self.check_logs(log, follow, watch, JobLiveness::Stalled)?;
                found.if_running = match stalled.findings.iter().any(is_error) {
                    true => Some(stalled.answer().sentence),
                    false => describe_no_stop(&found),
                };
            }
            return Ok((found, None));
        }
        let mut stalled = self.check_logs(log, follow, watch, JobLiveness::Stalled)?;
        if stalled.findings.iter().any(is_outside_end) {
            let ended = self.check_logs(log, follow, watch, JobLiveness::Unknown)?;
            return Ok((ended, None));
        }
        processes::add_process_findings(&watch.ranks, &mut stalled.findings);
        let has_error = stalled.findings.iter().any(is_error);
        stalled.if_running = describe_no_stop(&stalled);
        let calls = watch.all.total().calls;
        Ok((stalled, Some(StallAt { calls, has_error })))
    }

    /// Checks the logs; without them, nothing was judged.
    fn check_logs(
        &mut self,
        log: &WatchedLogs<'_>,
        follow: &GrowingFiles,
        watch: &JobWatch<'_>,
        now: JobLiveness,
    ) -> Result<CheckSummary> {
        self.tell(|_| log.check_logs(follow, watch, now))
    }
}

/// What the last calls show where ranks are at different ones, and nothing is wrong.
fn describe_no_stop(found: &CheckSummary) -> Option<String> {
    let is_open = !found.is_wrong() && found.unjudged.iter().any(|of| of.is_of_last_calls);
    is_open.then(|| "no rank differs as one that stopped does".to_owned())
}

/// Watches until the inputs end: a pipe ends, files do not. `read` must not map files: a mapped file that is
/// truncated ends the program.
///
/// # Errors
/// An input cannot be read; the errors of `listener`, of a pipe at its end.
pub fn run_watch(
    follow: &mut GrowingFiles,
    read: &Read,
    options: &Options,
    listener: &mut dyn WatchListener,
) -> Result<WatchEnd> {
    let mut listener = OutlivingListener {
        of: listener,
        is_pipe: follow.has_pipe(),
        failed: None,
        jobs: ReportedJobs::default(),
    };
    let filter = CountFilter::new(&options.filter, &STEP_TALLY)?;
    let mut watch = JobWatch::with_tally(read, filter.tally(), options.stall, Instant::now());
    let mut log = WatchedLogs::new(follow, options);
    let size = |path: &Path| path.metadata().map_or(0, |file| file.len());
    watch.expect_backlog(follow.files().map(size).sum());
    let (mut found, mut labelling) = (None, LabelWorker::default());
    let mut last_stall: Option<StallAt> = None;
    let has_pipe = follow.has_pipe();
    let mut waiting = WaitingSteps::new();
    loop {
        let inputs = watch.count_inputs();
        let (any, events) = listener.read_round(follow, &mut watch, &mut log)?;
        let has_files = watch.count_inputs() > inputs
            || !any && waiting.is_open() && follow.find_new_files()?;
        let now = Instant::now();
        waiting.add_events(events, now);
        let news = InputNews {
            has_grown: any,
            has_files,
            is_of_several: follow.is_of_several_files() && !has_pipe,
        };
        if let Some(rule) = waiting.find_due_count(news, now) {
            waiting.count_calls(&mut watch, &filter, rule);
        }
        listener.tell_ready(waiting.take_ready(&watch, now), &watch, follow)?;
        if !any && follow.is_over() {
            break;
        }
        if !any && watch.detect_stall(Instant::now()) {
            waiting.count_last_calls(&mut watch, &filter, now);
            listener.tell_ready(waiting.take_ready(&watch, now), &watch, follow)?;
            listener.tell(|listener| listener.on_check(&watch))?;
            let (stalled, stall) = listener.check_stall(&log, follow, &watch)?;
            last_stall = stall;
            listener.tell(|listener| listener.on_stall(&watch, &stalled))?;
            found = Some(stalled);
            if options.exit_on_stall {
                listener.is_left_when_idle(&watch, found.as_ref())?;
                return listener.failed.map_or(Ok(WatchEnd::Stalled), Err);
            }
        }
        if options.labels
            && let Some(known) = labelling.take_labels(&watch, read, || log.log_paths(follow))
        {
            watch.known = known;
        }
        if listener.is_left_when_idle(&watch, found.as_ref())? {
            return Ok(WatchEnd::Left);
        }
        if !any {
            follow.wait_for_growth()?;
        }
    }
    let now = Instant::now();
    waiting.add_events(watch.read_last_lines(now), now);
    waiting.count_last_calls(&mut watch, &filter, now);
    listener.tell_ready(waiting.take_ready(&watch, now), &watch, follow)?;
    let now = find_liveness_at_end(last_stall, &watch);
    let mut ended = listener.check_logs(&log, follow, &watch, now)?;
    if let (JobLiveness::Stalled, Some(stalled)) = (now, found) {
        processes::keep_process_findings(stalled, &mut ended.findings);
        check::correct_end_advice(&mut ended.findings);
    }
    listener.tell(|listener| listener.on_end(&watch, &ended))?;
    let is_wrong = ended.is_wrong() || watch.has_dropped;
    listener.is_left_when_idle(&watch, Some(&ended))?;
    listener.failed.map_or(Ok(WatchEnd::Over(is_wrong)), Err)
}

/// The last stall of a job that was not ended from outside before.
#[derive(Debug, Clone, Copy)]
struct StallAt {
    /// The calls before it.
    calls: u64,
    /// Its check found an error.
    has_error: bool,
}

/// A job that did not move again before its pipe ended is still stalled. One that is taken down may print the line of its
/// last step then.
fn find_liveness_at_end(last_stall: Option<StallAt>, watch: &JobWatch<'_>) -> JobLiveness {
    let is_still = |stall: StallAt| {
        let is_silent = stall.has_error && stall.calls == watch.all.total().calls;
        is_silent || watch.pace().is_stalled()
    };
    match last_stall.is_some_and(is_still) {
        true => JobLiveness::Stalled,
        false => JobLiveness::Unknown,
    }
}

fn is_error(finding: &Finding) -> bool {
    finding.severity == Severity::Error
}

/// True for the finding that a person or the scheduler ended the job.
fn is_outside_end(finding: &Finding) -> bool {
    matches!(finding.kind, Kind::JobCancelled | Kind::JobInterrupted)
}

/// The logs that are checked: the files, and a copy of the pipe's text.
struct WatchedLogs<'o> {
    spool: Option<WatchSpool>,
    /// Which findings are shown.
    filter: &'o CallFilter,
}

impl<'o> WatchedLogs<'o> {
    fn new(follow: &GrowingFiles, options: &'o Options) -> WatchedLogs<'o> {
        let spool = follow.has_pipe().then(|| WatchSpool::new(options.keep));
        let filter = &options.filter;
        WatchedLogs { spool, filter }
    }

    /// Keeps text of the pipe, `grown`, which `watch` has read.
    fn keep_growth(&mut self, grown: &AppendedBytes<'_>, watch: &JobWatch<'_>) -> Result<()> {
        let keep = |spool: &mut WatchSpool| spool.keep_growth(grown, watch).map_err(spool_error);
        self.spool.as_mut().map_or(Ok(()), keep)
    }

    /// Returns the paths of the logs.
    fn log_paths(&self, follow: &GrowingFiles) -> Vec<PathBuf> {
        let files = follow.files().filter(|path| path.exists());
        let spool = self.spool.as_ref().and_then(WatchSpool::path);
        files.chain(spool).map(Path::to_owned).collect()
    }

    /// Returns nccl-check's findings in all that has come.
    fn check_logs(
        &self,
        follow: &GrowingFiles,
        watch: &JobWatch<'_>,
        now: JobLiveness,
    ) -> Result<CheckSummary> {
        let files = follow.files().filter(|path| path.exists());
        let files = files.map(|path| InputName::Path(path.to_owned()));
        let spool = self.spool.as_ref().and_then(WatchSpool::path);
        let copy = spool.map(|path| InputName::Copy(path.to_owned(), "stdin".to_owned()));
        let origins: Vec<InputName> = files.chain(copy).collect();
        let mut report = Report::new("nccl-watch", false, true).silenced();
        let mut found = match origins.is_empty() {
            true => CheckSummary::default(),
            false => check::check(
                &origins,
                watch.read,
                now,
                &mut report,
                &ByteProgressBar::default(),
            )?,
        };
        if let Some(spool) = &self.spool {
            let shortened = spool.shortened_findings(watch, now);
            if !shortened.is_empty() {
                // Calls came after the initialisation, and their text was let go.
                let is_start = |f: &Finding| matches!(f.kind, Kind::NoFirstCall | Kind::NotChecked);
                found.findings.retain(|finding| !is_start(finding));
            }
            found.findings.extend(shortened);
        }
        found.filter = self.filter.clone();
        Ok(found)
    }
}

fn spool_error(cause: std::io::Error) -> Error {
    let cause = without_temporary_path(cause);
    Error::Content(format!(
        "cannot keep the pipe's text for the check at a stall: {cause} (set TMPDIR to a folder with more \
         space, or name the log's file instead of using a pipe)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::check::finding::Confidence;
    use crate::testing::options;
    use std::io::Write;
    use std::process::Command;

    fn check_text(text: &[u8], now: JobLiveness) -> Vec<Finding> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        let origins = [InputName::Path(file.path().to_owned())];
        let mut report = Report::new("nccl-watch", false, true).silenced();
        let progress = ByteProgressBar::default();
        let read = options(1, false);
        let found = check::check(&origins, &read, now, &mut report, &progress);
        found.map_or_else(|_| Vec::new(), |found| found.findings)
    }

    fn is_wrong(finding: &&Finding) -> bool {
        finding.severity != Severity::Note
    }

    /// Where a log is cut: after every tenth line, of a long log after 24 of these, or `CUTS_OF_A_LOG`.
    fn list_cuts(text: &[u8]) -> Vec<usize> {
        let most = std::env::var("CUTS_OF_A_LOG").map_or(24, |most| most.parse().unwrap());
        let ends: Vec<usize> = memchr::memchr_iter(b'\n', text).map(|at| at + 1).collect();
        let tenths: Vec<usize> = ends.into_iter().skip(9).step_by(10).collect();
        let each = tenths.len().div_ceil(most).max(1);
        let cuts = tenths.into_iter().step_by(each);
        cuts.chain([text.len()]).collect()
    }

    /// What nccl-watch and nccl-check may not differ in, where `text` ends.
    fn compare_findings(text: &[u8]) -> Vec<String> {
        let checked = check_text(text, JobLiveness::Unknown);
        let watched = check_text(text, JobLiveness::Stalled);
        let is_in = |all: &[Finding], one: &Finding| {
            let is_one = |other: &Finding| (other.kind, &other.says) == (one.kind, &one.says);
            all.iter().any(is_one)
        };
        let has_error = checked.iter().any(|f| f.severity == Severity::Error);
        let lost = checked.iter().filter(is_wrong);
        let lost = lost.filter(|finding| !is_in(&watched, finding));
        let more = watched.iter().filter(is_wrong);
        let more = more.filter(|finding| {
            let is_by_silence = finding.why.contains("while the log was watched");
            let is_doubtful = finding.sure > Confidence::High;
            !is_in(&checked, finding) && (has_error || !is_by_silence || !is_doubtful)
        });
        let line = |what: &str, f: &Finding| format!("{what}: {:?}: {}: {}", f.kind, f.says, f.why);
        let lost = lost.map(|finding| line("lost", finding));
        lost.chain(more.map(|finding| line("more", finding)))
            .collect()
    }

    /// At a stall, nccl-watch has nccl-check's findings. If there is no error among them, it may also name the ranks that
    /// the others wait for, as doubtful, and only because nothing more was written.
    #[test]
    fn a_stall_has_the_findings_of_nccl_check() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/captured");
        let jobs = std::fs::read_dir(folder).unwrap();
        let logs = jobs.map(|job| job.unwrap().path().join("nccl.log.gz"));
        let logs = logs.filter(|packed| packed.exists());
        let compared: Vec<(usize, Vec<String>)> = std::thread::scope(|threads| {
            let compare = |packed: PathBuf| {
                let text = Command::new("gzip").arg("-dc").arg(&packed).output();
                let text = text.unwrap().stdout;
                let cuts = list_cuts(&text);
                let differences = cuts.iter().flat_map(|end| {
                    let place = format!("{} at {end}: ", packed.display());
                    let found = compare_findings(&text[..*end]).into_iter();
                    found.map(move |difference| place.clone() + &difference)
                });
                (cuts.len(), differences.collect())
            };
            let running: Vec<_> = logs
                .map(|packed| threads.spawn(move || compare(packed)))
                .collect();
            let done = running.into_iter().map(|thread| thread.join().unwrap());
            done.collect()
        });
        let differences = compared.iter().flat_map(|(_, found)| found);
        let differences: Vec<&String> = differences.collect();
        assert!(differences.is_empty(), "{differences:#?}");
        let cuts: usize = compared.iter().map(|(cuts, _)| cuts).sum();
        assert!(cuts > 400, "{cuts}");
    }
}
