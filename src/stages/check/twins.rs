//! What tests share that hold a pipe against its naive twin, the same log as a file.

use super::{JobLiveness, check};
use crate::report::Report;
use crate::source::InputName;
use crate::synth::{self, StreamSink};
use crate::testing::{Nobody, options};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// A made log.
pub(super) fn log(options: &synth::Options) -> Vec<u8> {
    let mut bytes = Vec::new();
    synth::generate(options, &mut StreamSink::new(&mut bytes)).unwrap();
    bytes
}

/// Returns all findings of an input without the name of the input.
pub(super) fn found(path: &Path, jobs: usize) -> String {
    let mut report = Report::new("test", false, true);
    let origins = [InputName::Path(path.to_owned())];
    let read = options(jobs, false);
    let checked = check(&origins, &read, JobLiveness::Unknown, &mut report, &Nobody).unwrap();
    format!("{checked:#?}").replace(path.to_str().unwrap(), "log")
}

/// Returns the results of `read` for a log as a file, and as a pipe that rests for a moment after
/// each piece.
pub(super) fn both<T>(log: &[u8], piece: usize, read: impl Fn(&Path) -> T) -> [T; 2] {
    let folder = tempfile::tempdir().unwrap();
    let (file, pipe) = (folder.path().join("file"), folder.path().join("pipe"));
    std::fs::write(&file, log).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let piped = thread::scope(|scope| {
        scope.spawn(|| {
            let mut to = OpenOptions::new().write(true).open(&pipe).unwrap();
            let mut pieces = log.chunks(piece).peekable();
            while let Some(piece) = pieces.next() {
                to.write_all(piece).unwrap();
                if pieces.peek().is_some() {
                    thread::sleep(Duration::from_millis(50));
                }
            }
        });
        read(&pipe)
    });
    [read(&file), piped]
}
