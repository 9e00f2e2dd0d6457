//! Files that grow, read as one stream: whole lines in the order in which they come.

use super::chunks::MAX_LINE_BYTES;
use super::growing_files::GrowingFiles;
use super::list::FilePattern;
use super::live_reader::{self, ArrivalTimer, IdleReports, PIPE_IDLE_TIME};
use crate::error::Result;
use memchr::memrchr;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Instant;

/// What is followed: files, folders, or standard input if nothing is named.
#[derive(Debug, Clone)]
pub struct FollowTargets {
    pub(super) paths: Vec<PathBuf>,
    pub(super) patterns: Vec<FilePattern>,
}

impl PartialEq for FollowTargets {
    fn eq(&self, other: &FollowTargets) -> bool {
        self.paths == other.paths
    }
}

impl Eq for FollowTargets {}

impl FollowTargets {
    /// Files of folders are those that one of `patterns` chooses, if there are any.
    pub fn new(paths: &[PathBuf], patterns: &[FilePattern]) -> FollowTargets {
        FollowTargets {
            paths: paths.to_vec(),
            patterns: patterns.to_vec(),
        }
    }
}

/// Reads them until a signal comes.
pub(super) struct GrowingStream {
    follow: GrowingFiles,
    /// By input: the beginning of a line.
    rests: Vec<Vec<u8>>,
    /// Whole lines, and how much of them was given.
    lines: Vec<u8>,
    given: usize,
    idles: IdleReports,
    came: ArrivalTimer,
    ended: bool,
}

impl GrowingStream {
    pub(super) fn new(names: &FollowTargets) -> Result<GrowingStream> {
        live_reader::install_signal_handlers();
        Ok(GrowingStream {
            follow: GrowingFiles::new(&names.paths, &names.patterns)?,
            rests: Vec::new(),
            lines: Vec::new(),
            given: 0,
            idles: IdleReports::default(),
            came: ArrivalTimer::default(),
            ended: false,
        })
    }

    /// Switches the reports of an idle input on and off.
    pub(super) fn idle_reports(&self) -> IdleReports {
        self.idles.clone()
    }

    /// Takes what has come.
    fn read_whole_lines(&mut self) -> io::Result<()> {
        self.lines.clear();
        self.given = 0;
        let (rests, lines) = (&mut self.rests, &mut self.lines);
        let read = self.follow.read_growth(|grown| {
            if rests.len() <= grown.input {
                rests.resize_with(grown.input + 1, Vec::new);
            }
            let rest = &mut rests[grown.input];
            if grown.anew && !rest.is_empty() {
                lines.append(rest);
                lines.push(b'\n');
            }
            match memrchr(b'\n', grown.bytes) {
                Some(end) => {
                    lines.append(rest);
                    lines.extend_from_slice(&grown.bytes[..=end]);
                    rest.extend_from_slice(&grown.bytes[end + 1..]);
                }
                None => rest.extend_from_slice(grown.bytes),
            }
            if rest.len() > MAX_LINE_BYTES {
                lines.append(rest);
            }
            Ok(())
        });
        read.map(drop).map_err(io::Error::other)
    }

    /// The inputs end: gives what is left of them, and when that is read the last lines, each with an end
    /// but the last one.
    fn end_inputs(&mut self) -> io::Result<()> {
        // Nothing may have been heard of what was written last.
        self.follow.expect_growth_everywhere();
        self.read_whole_lines()?;
        if !self.lines.is_empty() {
            return Ok(());
        }
        self.ended = true;
        for rest in self.rests.iter_mut().filter(|rest| !rest.is_empty()) {
            if self.lines.last().is_some_and(|last| *last != b'\n') {
                self.lines.push(b'\n');
            }
            self.lines.append(rest);
        }
        Ok(())
    }
}

impl Read for GrowingStream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let began = Instant::now();
        while self.given == self.lines.len() && !self.ended {
            if live_reader::has_signal_come() || self.follow.is_over() {
                self.end_inputs()?;
                if self.ended {
                    live_reader::restore_signals();
                }
                break;
            }
            if self.came.is_due() && self.idles.are_wanted() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.read_whole_lines()?;
            if !self.lines.is_empty() {
                self.came.add_bytes(self.lines.len());
                self.idles.record_report(false);
                break;
            }
            if self.idles.are_wanted() && began.elapsed() >= PIPE_IDLE_TIME {
                self.idles.record_report(true);
                self.came.reset_idle();
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.follow.wait_for_growth().map_err(io::Error::other)?;
        }
        let n = to.len().min(self.lines.len() - self.given);
        to[..n].copy_from_slice(&self.lines[self.given..self.given + n]);
        self.given += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    #[test]
    fn lines_of_several_files_are_not_mixed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let add = |name: &str, text: &str| {
            let mut options = OpenOptions::new();
            let file = options.append(true).create(true).open(path(name));
            let mut file = file.unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        add("a.log", "a1\na");
        add("b.log", "b1");
        let names = FollowTargets::new(&[path("a.log"), path("b.log")], &[]);
        let mut following = GrowingStream::new(&names).unwrap();
        let text = |following: &mut GrowingStream| {
            let mut bytes = [0; 64];
            let n = following.read(&mut bytes).unwrap();
            String::from_utf8(bytes[..n].to_vec()).unwrap()
        };
        assert_eq!(text(&mut following), "a1\n");
        add("b.log", "\nb2\n");
        assert_eq!(text(&mut following), "b1\nb2\n");
        add("a.log", "2\n");
        assert_eq!(text(&mut following), "a2\n");
        // Replaced in mid-line.
        add("a.log", "a3");
        fs::rename(path("a.log"), path("a.log.1")).unwrap();
        following.read_whole_lines().unwrap();
        assert!(following.lines.is_empty());
        add("a.log", "new\n");
        assert_eq!(text(&mut following), "a3\nnew\n");
        add("b.log", "last");
        following.end_inputs().unwrap();
        assert_eq!(text(&mut following), "last");
        assert_eq!(text(&mut following), "");
    }
}
