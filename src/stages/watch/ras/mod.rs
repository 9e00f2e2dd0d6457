//! Watches a job through NCCL's RAS: asks it again and again which collectives its ranks launched, and checks the
//! answers once nothing moves. It needs no log, and no line of the job's.

mod client;
mod limits;

pub use client::{RasAddress, ask_ras};

use super::run::WatchEnd;
use crate::count::calls::Options as Read;
use crate::error::{Error, Result};
use crate::formats::ras::{RasSnapshot, parse_ras_snapshot};
use crate::report::Report;
use crate::report::progress::ByteProgressBar;
use crate::source::InputName;
use crate::stages::check::{self, CheckSummary, JobLiveness, live};
use limits::{MAX_SILENT_ASKS, REPORT_INTERVAL, STALL_TIME};
use std::io::Write;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

/// How RAS is asked, and what counts as a stall.
#[derive(Debug, Clone)]
pub struct RasOptions {
    /// Where a process of the job listens.
    pub address: RasAddress,
    /// The time between two questions.
    pub interval: Duration,
    /// The time without a new call after which the job has stopped; by default a minute.
    pub stall: Option<Duration>,
    /// End at the first stall.
    pub exit_on_stall: bool,
    /// The job's logs, which are read at a stall: they have the hosts' names and the ranks in the job.
    pub logs: Vec<PathBuf>,
}

/// The receivers of reports.
pub trait RasListener {
    /// The job moves, or nothing is known of it yet.
    ///
    /// # Errors
    /// The output cannot be written.
    fn on_state(&mut self, state: &RasState) -> Result<()>;

    /// Nothing answers yet, and the watch waits for the job; `why` has what to look at.
    fn on_wait(&mut self, why: &str);

    /// RAS gave no answer; the watch goes on.
    fn on_silence(&mut self, why: &std::io::Error);

    /// Nothing has moved for `rested`; `found` are the findings of the check.
    ///
    /// # Errors
    /// As [`RasListener::on_state`].
    fn on_stall(&mut self, rested: Duration, found: &CheckSummary) -> Result<()>;

    /// RAS answers no more: the job ended.
    ///
    /// # Errors
    /// As [`RasListener::on_state`].
    fn on_end(&mut self) -> Result<()>;
}

/// The state of a job in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RasState {
    /// The communicators.
    pub communicators: usize,
    /// Ranks of the largest one.
    pub ranks: u32,
    /// Collectives that all ranks launched in all of them; `None` for a text, which has few of the counts.
    pub launched: Option<u64>,
}

impl RasState {
    fn of_snapshot(snapshot: &RasSnapshot) -> RasState {
        let all = &snapshot.communicators;
        let ranks = all.iter().filter_map(|of| of.size).chain(snapshot.gpus);
        let counts = all.iter().flat_map(|of| &of.ranks);
        let counts = counts.flat_map(|rank| rank.counts.values());
        RasState {
            communicators: all.len(),
            ranks: ranks.max().unwrap_or(0),
            launched: snapshot
                .lists_all_ranks
                .then(|| counts.fold(0_u64, |sum, &count| sum.saturating_add(count))),
        }
    }
}

/// An answer that was current at a time.
struct LiveAnswer {
    at: Instant,
    text: Vec<u8>,
    snapshot: RasSnapshot,
}

/// Watches until RAS answers no more, or until the first stall.
///
/// # Errors
/// Something else than RAS answers the first question; the errors of `listener`.
pub fn watch_ras(
    options: &RasOptions,
    read: &Read,
    listener: &mut dyn RasListener,
) -> Result<WatchEnd> {
    let stall = options.stall.unwrap_or(STALL_TIME);
    // The first answer since when nothing moved.
    let mut still: Option<LiveAnswer> = None;
    let (mut reported, mut silent, mut is_stalled): (Option<Instant>, u32, bool) = (None, 0, false);
    let mut is_waiting = false;
    loop {
        match ask_and_parse(&options.address) {
            Err(cause) if still.is_none() => {
                let why = describe_no_answer(&options.address, &cause);
                if cause.kind() == std::io::ErrorKind::InvalidData {
                    return Err(Error::Content(why));
                }
                // A watch may begin before its job.
                if !is_waiting {
                    listener.on_wait(&why);
                    is_waiting = true;
                }
            }
            Err(cause) => {
                silent += 1;
                if silent >= MAX_SILENT_ASKS {
                    listener.on_end()?;
                    return Ok(WatchEnd::Over(is_stalled));
                }
                listener.on_silence(&cause);
            }
            Ok(now) => {
                silent = 0;
                let rests = still
                    .as_ref()
                    .filter(|still| live::is_unchanged(&still.snapshot, &now.snapshot));
                match rests {
                    Some(first) if !is_stalled && now.at - first.at >= stall => {
                        let found = check_answers(first, &now, options, read)?;
                        is_stalled = true;
                        listener.on_stall(now.at - first.at, &found)?;
                        if options.exit_on_stall {
                            return Ok(WatchEnd::Stalled);
                        }
                    }
                    Some(_) => {}
                    None => {
                        let is_due = |at: Instant| now.at - at >= REPORT_INTERVAL;
                        if is_stalled || reported.is_none_or(is_due) {
                            listener.on_state(&RasState::of_snapshot(&now.snapshot))?;
                            reported = Some(now.at);
                        }
                        is_stalled = false;
                        still = Some(now);
                    }
                }
            }
        }
        thread::sleep(options.interval);
    }
}

fn ask_and_parse(address: &RasAddress) -> std::io::Result<LiveAnswer> {
    let text = ask_ras(address)?;
    let snapshot = parse_ras_snapshot(&text).ok_or_else(|| {
        let why = "expected an answer of NCCL's RAS, found other text";
        std::io::Error::new(std::io::ErrorKind::InvalidData, why)
    })?;
    Ok(LiveAnswer {
        at: Instant::now(),
        text,
        snapshot,
    })
}

/// A first question without an answer, and what to do.
fn describe_no_answer(address: &RasAddress, cause: &std::io::Error) -> String {
    format!(
        "{address}: {cause}: NCCL's RAS does not answer there. Jobs of NCCL 2.24 or later have it, unless \
         NCCL_RAS_ENABLE=0; it listens on each host of the job, for its own host only: run this there, or set \
         NCCL_RAS_ADDR for the job and name that address"
    )
}

/// Returns nccl-check's findings in the answers between which nothing moved, and in the logs.
fn check_answers(
    first: &LiveAnswer,
    now: &LiveAnswer,
    options: &RasOptions,
    read: &Read,
) -> Result<CheckSummary> {
    let mut file = NamedTempFile::with_suffix(".json").map_err(Error::Output)?;
    for answer in [first, now] {
        file.write_all(&answer.text).map_err(Error::Output)?;
        file.write_all(b"\n").map_err(Error::Output)?;
    }
    let answers = InputName::Path(file.path().to_owned());
    let logs = options.logs.iter().cloned().map(InputName::Path);
    let origins: Vec<InputName> = [answers.clone()].into_iter().chain(logs).collect();
    let mut report = Report::new("nccl-watch", false, true).silenced();
    let bar = ByteProgressBar::default();
    let mut found = check::check(&origins, read, JobLiveness::Stalled, &mut report, &bar)?;
    let own = answers.name();
    let names = found.inputs.iter_mut().filter(|name| **name == own);
    names.for_each(|name| *name = format!("RAS at {}", options.address));
    Ok(found)
}
