//! Where a write begins, and which process it is of.

use super::line::{
    JoinCertainty, LineFit, certain_line_kind, find_header_from, fit_head_and_tail,
    header_piece_start_at, line_at, opening_header, process_prefix, trim_line_end,
};
use super::writers::{BlockWriter, BlockWriters, ProcessPrefix};
use crate::grammar::coll;
use memchr::{memchr, memmem, memrchr};

/// The beginning of a write.
pub(super) enum WriteStart {
    /// The tail of the line that the process's last buffer began.
    Tail {
        process: ProcessPrefix,
        at: usize,
        /// After its line end.
        end: usize,
        fit: LineFit,
    },
    /// A header.
    Header { process: ProcessPrefix, at: usize },
    /// A header without its first bytes, which were lost before.
    Beheaded {
        process: ProcessPrefix,
        end: usize,
        /// How many bytes were lost.
        lost: usize,
    },
}

/// The search for the beginning of a write.
#[derive(Clone, Copy)]
pub(super) struct WriteStartSearch<'w> {
    pub(super) writers: &'w BlockWriters,
    /// Bytes of the log that were taken before.
    pub(super) at: u64,
    /// Where the last write would have ended, had it been a whole buffer.
    pub(super) expected: u64,
}

impl WriteStartSearch<'_> {
    /// Returns the write that begins on the line `from..end`, or right after it.
    pub(super) fn find_start(&self, bytes: &[u8], from: usize, end: usize) -> Option<WriteStart> {
        let writers = self.writers;
        let line = &bytes[from..end];
        let after = line_at(bytes, end);
        let next = writers.header_process(after);
        let waiting = next.and_then(|next| Some((next, writers.waiting(next)?)));
        let tail = |process: &[u8], at: usize, fit: LineFit| WriteStart::Tail {
            process: process.into(),
            at,
            end,
            fit,
        };
        if let Some((next, writer)) = waiting
            && let Some((at, fit)) = self.find_tail_start(next, writer, line, from)
        {
            return Some(tail(next, from + at, fit));
        }
        if let Some(header) = find_header_from(line, 0) {
            let of = process_prefix(line, &header);
            if let Some(full) = writers.process_cut_in_host(of) {
                let at = from + header.start;
                let head = &writers.waiting(full)?.head;
                let kind = certain_line_kind(full, head, &bytes[at..end])?;
                return Some(tail(full, at, LineFit::strong(kind)));
            }
            // Only its stamp was in the head.
            if let Some(writer) = writers.waiting(of)
                && let Some(kind) = certain_line_kind(of, &writer.head, line)
            {
                return Some(tail(of, from, LineFit::strong(kind)));
            }
            // Its head was not recognised. Its process is known all the same.
            let lost = next.map_or(0, |next| next.len().saturating_sub(of.len()));
            if let Some(next) = next.filter(|next| lost > 0 && next.ends_with(of))
                && certain_line_kind(next, &next[..lost], line).is_some()
            {
                return Some(WriteStart::Beheaded {
                    process: next.into(),
                    end,
                    lost,
                });
            }
            let full = of;
            let of = writers.unglue_process(full, next);
            let at = match full.len() - of.len() {
                0 => header_piece_start_at(line, &header),
                glued => header.start + glued,
            };
            return Some(WriteStart::Header {
                process: of.into(),
                at: from + at,
            });
        }
        if let Some((next, writer)) = waiting {
            // The line after it may be the tail: only its stamp was in the head.
            let is_tail = certain_line_kind(next, &writer.head, after).is_some();
            return (!is_tail).then(|| WriteStart::Header {
                process: next.into(),
                at: end,
            });
        }
        // A process that was not met before waits for nothing but the rest of its name.
        let may_be = |process: &ProcessPrefix| {
            let new = next.filter(|next| !writers.is_known(next));
            new.is_none_or(|new| {
                let lost = writers.missing_name_part(process);
                lost.is_some_and(|lost| !new.ends_with(lost))
            })
        };
        if let Some((process, fit)) = self.find_sole_tail(line).filter(|(of, _)| may_be(of)) {
            return Some(tail(&process, from, fit));
        }
        if let Some((process, fit)) = self.find_last_flush(line, from) {
            return Some(tail(&process, from, fit));
        }
        // A tail without a head in the log begins the write too.
        let at = if coll::is_tail(line) { from } else { end };
        next.map(|next| WriteStart::Header {
            process: next.into(),
            at,
        })
    }

    /// Returns the place in `line` where the tail of the process's line begins.
    pub(super) fn find_tail_start(
        &self,
        of: &[u8],
        writer: &BlockWriter,
        line: &[u8],
        from: usize,
    ) -> Option<(usize, LineFit)> {
        let any = |at: usize| Some((at, fit_head_and_tail(of, &writer.head, line.get(at..)?)?));
        let strong = |at: usize| any(at).filter(|(_, fit)| fit.certainty == JoinCertainty::Strong);
        if let Some(found) = strong(0) {
            return Some(found);
        }
        // A progress bar is drawn without a line end: `\r 10%|#  | 4/40 [00:01<00:11]`.
        if let Some(bar) = memrchr(b'\r', trim_line_end(line)) {
            let drawn = memchr(b']', &line[bar..]).map(|i| bar + i + 1);
            let padded = drawn.map_or(0, |at| {
                line[at..].iter().take_while(|b| **b == b' ').count()
            });
            let after = drawn.into_iter().flat_map(|at| at..=at + padded);
            let found = after.chain([bar + 1]).find_map(strong);
            return found.or_else(|| drawn.into_iter().chain([bar + 1]).find_map(any));
        }
        // The last write was taken to be short, and was not.
        let here = self.at + from as u64;
        if (here..here + line.len() as u64).contains(&self.expected)
            && let Some(found) = strong((self.expected - here) as usize)
        {
            return Some(found);
        }
        find_header_from(line, 0)
            .is_none()
            .then(|| any(0))
            .flatten()
    }

    /// Returns the only process with a head that certainly goes with this line: a last flush that
    /// held nothing else.
    fn find_sole_tail(&self, line: &[u8]) -> Option<(ProcessPrefix, LineFit)> {
        let may_be = [&b" stream "[..], b"NCCL "];
        let mut may_be = may_be.into_iter();
        if !self.writers.has_heads() || !may_be.any(|text| memmem::find(line, text).is_some()) {
            return None;
        }
        let mut fits = self.writers.all_waiting().filter_map(|(process, writer)| {
            // The tail of another line may fit as well: only a header across the joint is certain.
            if opening_header(&writer.head).is_some() {
                return None;
            }
            let kind = certain_line_kind(process, &writer.head, line)?;
            Some((process, LineFit::strong(kind)))
        });
        let (process, fit) = fits.next()?;
        fits.next().is_none().then(|| (process.clone(), fit))
    }

    /// Returns the process with a head that ended right before `line`, if the line is the tail of no
    /// other one: its last flush was this tail alone.
    fn find_last_flush(&self, line: &[u8], from: usize) -> Option<(ProcessPrefix, LineFit)> {
        let here = self.at + from as u64;
        let mut fits = self.writers.all_waiting().filter_map(|(process, writer)| {
            let kind = certain_line_kind(process, &writer.head, line)?;
            Some((process, writer, kind))
        });
        let (process, writer, kind) = fits.next()?;
        let is_its = fits.next().is_none() && writer.head_end == here && line.ends_with(b"\n");
        is_its.then(|| (process.clone(), LineFit::strong(kind)))
    }
}
