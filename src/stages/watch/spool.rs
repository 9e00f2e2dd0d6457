//! The text of a pipe, kept for checks up to a limit.
//!
//! In a log without its beginning, calls with equal numbers are not the same call if some ranks were further
//! than others where it begins. So the kept text begins again only where all ranks have made equally many
//! calls: there, the lines that identify communicators and the text that follows are as complete as the whole
//! log. Between two such places, ranks of a log beyond the limit are compared by the number of their calls.

use super::JobWatch;
use crate::error::phrases::count_phrase;
use crate::source::AppendedBytes;
use crate::stages::check::JobLiveness;
use crate::stages::check::finding::{About, Confidence, Finding, Kind, Severity};
use crate::stages::watch::limits::{MAX_INIT_LINES_BYTES, SPOOL_RETRY_INTERVAL};
use std::io::{self, Seek, Write};
use std::path::Path;
use std::time::Instant;
use tempfile::NamedTempFile;

/// The kept text.
#[derive(Default)]
pub(super) struct WatchSpool {
    /// None could be made, or written.
    file: Option<NamedTempFile>,
    /// When a file failed.
    failed: Option<Instant>,
    len: u64,
    keep: u64,
    /// Lines that identify communicators, from the beginning on.
    inits: Vec<u8>,
    /// Calls before the kept text, if it does not begin with the pipe.
    begins: Option<u64>,
    /// Nothing is kept until all ranks have made equally many calls.
    is_lost: bool,
}

impl WatchSpool {
    pub(super) fn new(keep: u64) -> WatchSpool {
        WatchSpool {
            keep,
            ..WatchSpool::default()
        }
    }

    /// Its file; `None` if there is none to be had.
    pub(super) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(NamedTempFile::path)
    }

    /// Keeps new text, which `watch` has read. Text that cannot be kept is let go, and another file is tried
    /// later.
    ///
    /// # Errors
    /// The file cannot be made or written.
    pub(super) fn keep_growth(
        &mut self,
        grown: &AppendedBytes<'_>,
        watch: &JobWatch<'_>,
    ) -> io::Result<()> {
        let kept = self.try_growth(grown, watch);
        if kept.is_err() {
            (self.file, self.failed) = (None, Some(Instant::now()));
            (self.len, self.is_lost) = (0, true);
        }
        kept
    }

    fn try_growth(&mut self, grown: &AppendedBytes<'_>, watch: &JobWatch<'_>) -> io::Result<()> {
        if !self.is_lost {
            self.write_bytes(grown.bytes)?;
        }
        if self.inits.len() <= MAX_INIT_LINES_BYTES {
            self.inits.extend_from_slice(watch.init_lines());
        }
        let rests = self
            .failed
            .is_some_and(|at| at.elapsed() < SPOOL_RETRY_INTERVAL);
        let is_long = (self.is_lost && !rests) || self.len > self.keep / 2;
        if is_long && self.inits.len() <= MAX_INIT_LINES_BYTES && watch.ranks().are_level() {
            self.restart_spool()?;
            let inits = std::mem::take(&mut self.inits);
            self.write_bytes(&inits)?;
            self.inits = inits;
            self.write_bytes(watch.unfinished_line(grown.input))?;
            self.begins = Some(watch.calls().total().calls);
            self.is_lost = false;
        } else if self.len > self.keep {
            self.restart_spool()?;
            self.is_lost = true;
        }
        Ok(())
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.len += bytes.len() as u64;
        if self.file.is_none() {
            self.file = Some(NamedTempFile::new()?);
        }
        self.file
            .as_mut()
            .map_or(Ok(()), |file| file.write_all(bytes))
    }

    fn restart_spool(&mut self) -> io::Result<()> {
        self.len = 0;
        self.file.as_mut().map_or(Ok(()), |file| {
            file.as_file().set_len(0)?;
            file.rewind()
        })
    }

    /// Returns the findings on text that was not kept.
    pub(super) fn shortened_findings(
        &self,
        watch: &JobWatch<'_>,
        now: JobLiveness,
    ) -> Vec<Finding> {
        let finding = |kind, severity, says, about| Finding {
            about,
            why: "the calls were counted as they came, and not compared".to_owned(),
            advice: "name the log's file instead of using a pipe, or give a larger --keep"
                .to_owned(),
            ..Finding::new(kind, severity, Confidence::Medium, says)
        };
        let mut all = Vec::new();
        if self.is_lost && now == JobLiveness::Stalled {
            let each = watch.ranks().largest_first().into_iter();
            let first = each.filter_map(|(id, of)| Some((*of.ranks_behind().first()?, id, of)));
            if let Some(((rank, fewer), id, of)) = first.max_by_key(|((_, fewer), ..)| *fewer) {
                let process = of.process_of_rank(rank);
                let who = process.and_then(|process| Some((&process.host, process.pid?)));
                let who =
                    who.map(|(host, pid)| format!(" ({}:{pid})", String::from_utf8_lossy(host)));
                let says = format!(
                    "rank {rank} of communicator {id}{} has made {} fewer than the others",
                    who.unwrap_or_default(),
                    count_phrase(fewer, "collective"),
                );
                let about = About {
                    host: process.map(|process| process.host.clone()),
                    pid: process.and_then(|process| process.pid),
                    rank: Some(rank),
                    comm_id: Some(id.to_string()),
                    ..About::default()
                };
                all.push(finding(Kind::RankBehind, Severity::Error, says, about));
            }
        }
        let says = match (self.is_lost, self.begins) {
            (true, _) if self.failed.is_some() => {
                "the pipe's text could not be kept, and was not compared".to_owned()
            }
            (true, _) => "the pipe's text is longer than --keep, and was not compared".to_owned(),
            (_, Some(calls)) => {
                format!("only what came after the first {calls} calls was kept (--keep)")
            }
            (_, None) => return all,
        };
        all.push(finding(
            Kind::Shortened,
            Severity::Note,
            says,
            About::default(),
        ));
        all
    }
}
