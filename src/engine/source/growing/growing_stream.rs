//! Files that grow, read as one stream: whole lines in the order in which they come.

use super::growing_files::GrowingFiles;
use super::limits::PIPE_IDLE_TIME;
use super::live_reader::{self, ArrivalTimer, IdleReports};
use crate::error::Result;
use crate::source::limits::MAX_LINE_BYTES;
use crate::source::name::FollowTargets;
use memchr::memrchr;
use std::io::{self, Read};
use std::time::Instant;

/// Reads files that grow until a signal comes.
pub(in crate::source) struct GrowingStream {
    follow: GrowingFiles,
    /// The beginning of a line by input.
    rests: Vec<Vec<u8>>,
    /// Whole lines, and how many of their bytes were given.
    lines: Vec<u8>,
    given: usize,
    idles: IdleReports,
    came: ArrivalTimer,
    ended: bool,
}

impl GrowingStream {
    pub(in crate::source) fn new(names: &FollowTargets) -> Result<GrowingStream> {
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

    /// Returns the switch of the reports that the input is idle.
    pub(in crate::source) fn idle_reports(&self) -> IdleReports {
        self.idles.clone()
    }

    /// Reads the whole lines that have come.
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

    /// Ends the inputs: reads the rest of them, and in a later call the last lines without an end. All but
    /// the last get one.
    fn end_inputs(&mut self) -> io::Result<()> {
        // The last bytes may have no event.
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
