//! The uses of communicators: nccl-communicators reads the beginning of the logs on a thread of its own once
//! some steps were made, and again when there is more to read.

use super::JobWatch;
use crate::count::calls::Options as Read;
use crate::filter::CallFilter;
use crate::members::comm_id::CommId;
use crate::report::Report;
use crate::report::progress::ByteProgressBar;
use crate::source::InputName;
use crate::stages::communicators::{self, Named};
use crate::stages::watch::limits::{
    MAX_LABEL_READ_BYTES, MIN_BYTES_PER_LOG, MIN_CALLS_TO_LABEL, MIN_STEPS_TO_LABEL,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Seek};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

/// Communicators by id.
pub(super) type KnownComms = BTreeMap<CommId, KnownComm>;

/// What the beginning of the logs shows of a communicator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KnownComm {
    /// Its use: `tensor`, or `tensor?` if that is unsure; empty if it is unknown.
    pub(super) label: String,
    /// The rank in the job of each of its ranks, as far as they are known.
    pub(super) job_ranks: BTreeMap<u32, u32>,
}

/// The thread that finds labels.
#[derive(Debug, Default)]
pub(super) struct LabelWorker {
    /// The number of calls at which it works next.
    next: u64,
    work: Option<JoinHandle<Option<KnownComms>>>,
}

impl LabelWorker {
    /// Takes the labels that were found, and begins again if there is more to read.
    pub(super) fn take_labels(
        &mut self,
        watch: &JobWatch<'_>,
        read: &Read,
        paths: impl FnOnce() -> Vec<PathBuf>,
    ) -> Option<KnownComms> {
        let calls = watch.calls().total().calls;
        let is_time = calls >= self.next.max(1)
            && (watch.count_steps() >= MIN_STEPS_TO_LABEL || calls >= MIN_CALLS_TO_LABEL);
        if self.work.is_none() && is_time {
            self.next = calls.saturating_mul(3);
            let (paths, mut read) = (paths(), read.clone());
            // A line that is not complete yet is no error.
            read.log.strict = false;
            read.log.jobs = 1;
            let work = move || find_labels(&paths, &read);
            let named = thread::Builder::new().name("labels".to_owned());
            self.work = named.spawn(work).ok();
        }
        let done = self.work.take_if(|work| work.is_finished())?;
        done.join().ok().flatten()
    }
}

/// Finds the uses of the communicators in these logs.
fn find_labels(paths: &[PathBuf], read: &Read) -> Option<KnownComms> {
    let share = (MAX_LABEL_READ_BYTES / paths.len().max(1) as u64).max(MIN_BYTES_PER_LOG);
    let (mut origins, mut copies) = (Vec::new(), Vec::new());
    for path in paths {
        match copy_first_bytes(path, share) {
            Ok(None) => origins.push(InputName::Path(path.clone())),
            Ok(Some(copy)) => {
                origins.push(InputName::Path(
                    format!("/dev/fd/{}", copy.as_raw_fd()).into(),
                ));
                copies.push(copy);
            }
            // The log was removed.
            Err(_) => {}
        }
    }
    if origins.is_empty() {
        return None;
    }
    let mut report = Report::new("nccl-watch", false, true).silenced();
    let found = communicators::read_communicators(
        &origins,
        read,
        &CallFilter::default(),
        &mut report,
        &ByteProgressBar::default(),
    )
    .ok()?;
    let known = |communicator: &communicators::MergedCommunicator| {
        let Named::Id(id, _) = communicator.key else {
            return None;
        };
        let sides = communicator.sides.iter();
        let ranks =
            sides.filter_map(|&at| Some((found.sides[at].rank?, found.job_rank_of_side(at)?)));
        let of = KnownComm {
            label: communicator.label.describe().unwrap_or_default(),
            job_ranks: ranks.collect(),
        };
        Some((id, of))
    };
    Some(found.communicators.iter().filter_map(known).collect())
}

/// Copies a long log's first bytes to a file without a name, which leaves nothing behind however the program
/// ends; `None` if the log is not longer.
fn copy_first_bytes(path: &Path, most: u64) -> io::Result<Option<File>> {
    let file = File::open(path)?;
    if file.metadata()?.len() <= most {
        return Ok(None);
    }
    let mut copy = tempfile::tempfile()?;
    io::copy(&mut file.take(most), &mut copy)?;
    copy.rewind()?;
    Ok(Some(copy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::options;

    #[test]
    fn a_pipeline_is_known_by_the_beginning_of_its_log() {
        let job = |name: &str| {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/captured/");
            PathBuf::from(format!("{folder}{name}"))
        };
        let read = options(1, false);
        let labels = |path| find_labels(&[path], &read).unwrap().into_values();
        let all: Vec<KnownComm> = labels(job("megatron/nccl.log")).collect();
        let tensor = all.iter().filter(|of| of.label == "tensor");
        let mut ranks: Vec<u32> = tensor
            .flat_map(|of| of.job_ranks.values().copied())
            .collect();
        ranks.sort_unstable();
        assert_eq!(ranks, [0, 1, 2, 3, 4, 5, 6, 7], "{all:?}");
        assert_eq!(find_labels(&[job("nothing")], &read), None);
    }

    #[test]
    fn of_a_long_log_the_beginning_is_copied() {
        let mut log = tempfile::NamedTempFile::new().unwrap();
        io::Write::write_all(&mut log, b"0123456789").unwrap();
        assert!(copy_first_bytes(log.path(), 10).unwrap().is_none());
        let mut text = String::new();
        let mut copy = copy_first_bytes(log.path(), 4).unwrap().unwrap();
        copy.read_to_string(&mut text).unwrap();
        assert_eq!(text, "0123");
    }
}
