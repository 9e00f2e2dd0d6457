//! Physical lines: where they go, how they end, how many there are.

use crate::error::{Error, Result};
use crate::job::JobProcess;
use crate::options::{Damage, LogLayout, Options};
use crate::stream::damage::SharedFile;
use crate::stream::sink::LogSink;

/// Enough that a write call costs nothing beside what it writes.
const WRITE_BLOCK_BYTES: usize = 1 << 20;
/// What C's library holds back of a process's output to a file or a pipe.
const LIBC_BUFFER_BYTES: usize = 4096;

/// The name of a process's own file.
pub(crate) fn file_name(proc: &JobProcess) -> String {
    format!("nccl.{}.{}.log", proc.host, proc.pid)
}

/// Writes the ranks' bytes.
pub(crate) struct LineWriter<'a> {
    sink: &'a mut dyn LogSink,
    per_rank: bool,
    newline: &'static [u8],
    shared: Option<SharedFile>,
    /// What C's library holds back of each process, where it does.
    held: Option<Vec<Vec<u8>>>,
    buf: Vec<u8>,
    first_stream: usize,
    /// Newlines written to each process's own file.
    own_lines: Vec<u64>,
    /// The last line has no end.
    cut: bool,
    /// Newlines written.
    pub lines: u64,
    /// Bytes written.
    pub size: u64,
    /// The last thing written was no newline.
    pub mid_line: bool,
}

impl<'a> LineWriter<'a> {
    /// A writer for these options.
    pub(crate) fn new(options: &Options, sink: &'a mut dyn LogSink) -> Self {
        let overwritten = options.damage_rate(Damage::Overwritten) > 0.0;
        Self {
            sink,
            per_rank: options.layout == LogLayout::PerRank,
            newline: if options.damage_rate(Damage::Crlf) > 0.0 {
                b"\r\n"
            } else {
                b"\n"
            },
            shared: overwritten.then(SharedFile::default),
            held: (options.layout == LogLayout::Blocks).then(Vec::new),
            buf: Vec::with_capacity(2 * WRITE_BLOCK_BYTES),
            first_stream: 0,
            own_lines: Vec::new(),
            cut: false,
            lines: 0,
            size: 0,
            mid_line: false,
        }
    }

    /// New processes: with a file each, these are theirs.
    pub(crate) fn open_streams(&mut self, names: &[String], segment: u64) -> Result<()> {
        self.flush_buffers()?;
        if let Some(held) = &mut self.held {
            held.resize(names.len(), Vec::new());
        }
        self.first_stream = names.len() * segment as usize;
        self.own_lines = vec![0; names.len()];
        if self.per_rank {
            for (i, name) in names.iter().enumerate() {
                self.sink
                    .open(self.first_stream + i, name)
                    .map_err(Error::Output)?;
            }
        }
        Ok(())
    }

    /// Writes without a newline. Returns the offset if processes overwrite each other.
    pub(crate) fn write_bytes(&mut self, rank: usize, bytes: &[u8]) -> Result<usize> {
        self.size += bytes.len() as u64;
        self.mid_line = true;
        if let Some(shared) = &mut self.shared {
            let at = shared.write(rank, bytes)?;
            self.size = shared.size() as u64;
            return Ok(at);
        }
        if self.per_rank {
            self.sink
                .write(self.first_stream + rank, bytes)
                .map_err(Error::Output)?;
        } else if let Some(held) = &mut self.held {
            let held = &mut held[rank];
            held.extend_from_slice(bytes);
            while held.len() >= LIBC_BUFFER_BYTES {
                self.buf.extend(held.drain(..LIBC_BUFFER_BYTES));
            }
            self.write_block()?;
        } else {
            self.buf.extend_from_slice(bytes);
            self.write_block()?;
        }
        Ok(0)
    }

    /// Writes what a process prints and flushes: no buffer holds it back.
    pub(crate) fn write_printed(&mut self, rank: usize, text: &[u8], newline: bool) -> Result<()> {
        let held = self.held.take();
        let mut written = self.write_bytes(rank, text);
        if newline && written.is_ok() {
            written = self.end_line(rank).map(|()| 0);
        }
        self.held = held;
        written.map(|_| ())
    }

    /// Flushes all buffers, since the processes end.
    fn flush_buffers(&mut self) -> Result<()> {
        for held in self.held.iter_mut().flatten() {
            self.mid_line &= held.is_empty();
            self.buf.append(held);
        }
        self.write_block()
    }

    fn write_block(&mut self) -> Result<()> {
        if self.buf.len() >= WRITE_BLOCK_BYTES {
            self.sink.write(0, &self.buf).map_err(Error::Output)?;
            self.buf.clear();
        }
        Ok(())
    }

    /// Ends the line.
    pub(crate) fn end_line(&mut self, rank: usize) -> Result<()> {
        self.write_bytes(rank, self.newline)?;
        self.mid_line = false;
        self.lines += 1;
        if let Some(own) = self.own_lines.get_mut(rank) {
            *own += 1;
        }
        Ok(())
    }

    /// The number, from 1, of the line that a rank writes now, in its file. In blocks it is not
    /// known yet.
    pub(crate) fn line_number(&self, rank: usize) -> u64 {
        let own = self.own_lines.get(rank).filter(|_| self.per_rank);
        1 + own.copied().unwrap_or(self.lines)
    }

    /// A whole line.
    pub(crate) fn write_line(&mut self, rank: usize, bytes: &[u8]) -> Result<usize> {
        let at = self.write_bytes(rank, bytes)?;
        self.end_line(rank)?;
        Ok(at)
    }

    /// A piece of a line, the last thing written.
    pub(crate) fn write_last_piece(&mut self, rank: usize, bytes: &[u8]) -> Result<()> {
        self.cut = true;
        self.write_bytes(rank, bytes).map(|_| ())
    }

    /// The file that processes overwrite, where there is one.
    pub(crate) fn shared_file(&mut self) -> Option<&mut SharedFile> {
        self.shared.as_mut()
    }

    /// Everything out; hands back the overwritten file for counting.
    pub(crate) fn finish(mut self) -> Result<(u64, u64, Option<SharedFile>)> {
        self.flush_buffers()?;
        if self.mid_line && !self.cut && self.shared.is_none() && !self.per_rank {
            self.end_line(0)?;
        }
        if let Some(shared) = &self.shared {
            self.sink.write(0, shared.bytes()).map_err(Error::Output)?;
            self.size = shared.size() as u64;
            self.lines = shared.bytes().iter().filter(|&&b| b == b'\n').count() as u64;
        } else if !self.buf.is_empty() {
            self.sink.write(0, &self.buf).map_err(Error::Output)?;
        }
        self.sink.finish().map_err(Error::Output)?;
        Ok((self.lines, self.size, self.shared))
    }
}
