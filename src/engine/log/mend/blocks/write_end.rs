//! Where a write ends.

use super::line::{
    certain_line_kind, find_header_from, header_piece_start_at, is_same_stamp_form, line_at,
    line_end, opening_bytes, opening_header, process_prefix, trim_line_end, whole_line_kind,
};
use super::write_seam::{self, WriteSeam};
use super::write_start::WriteStartSearch;
use super::writers::ProcessPrefix;
use memchr::memchr;
use std::ops::RangeInclusive;

/// The end of a write.
pub(super) enum WriteEnd {
    /// After a whole line.
    Line(usize),
    /// At `end`, inside the line that begins at `line`.
    Cut { line: usize, end: usize },
    /// Inside the line that begins at `line`, about at `joint`, with another line's tail after it.
    /// Where one ends and the other begins is uncertain.
    Glued { line: usize, joint: usize },
}

/// The search for the end of a process's write.
pub(super) struct WriteEndSearch<'w> {
    pub(super) starts: WriteStartSearch<'w>,
    /// The log from the write's beginning on.
    pub(super) bytes: &'w [u8],
    pub(super) process: &'w ProcessPrefix,
    /// The last time stamp in front of a header, if lines have them.
    pub(super) stamp: &'w mut Vec<u8>,
    /// How often an end may still be searched that the length of a buffer does not give.
    pub(super) tries: &'w mut u32,
}

impl WriteEndSearch<'_> {
    /// Returns the end of the write that has lines from `from` on, and that ends at `full` if it is a
    /// whole buffer.
    pub(super) fn find_end(&mut self, from: usize, full: usize) -> WriteEnd {
        let bytes = self.bytes;
        let most = full.min(bytes.len());
        // The process's last line, and where other text begins after it.
        let (mut own, mut foreign): (Option<usize>, Option<usize>) = (None, None);
        let (mut at, mut column) = (from, 0);
        while at < most {
            let end = line_end(bytes, at);
            let line = &bytes[at..end];
            let is_own = self.is_own_line(line, &mut column);
            let is_cut = end > most || end == most && line.last() != Some(&b'\n');
            if is_own {
                // NCCL prints no carriage return: a progress bar was drawn where a write ended.
                let bar = memchr(b'\r', trim_line_end(line)).map(|bar| at + bar);
                if let Some(bar) = bar.filter(|&bar| bar <= most) {
                    return WriteEnd::Cut { line: at, end: bar };
                }
                if is_cut {
                    return self.find_crossing_end(at, most);
                }
                (own, foreign) = (Some(at), None);
                at = end;
                continue;
            }
            if is_cut && self.is_own_head(at, most) {
                let end = most;
                return WriteEnd::Cut { line: at, end };
            }
            if !is_cut && let Some(cut) = self.find_own_opening(at) {
                let end = at + cut;
                return WriteEnd::Cut { line: at, end };
            }
            let before = own.filter(|_| foreign.is_none());
            if let Some(end) = before.and_then(|own| self.find_seam(own, None)) {
                return end;
            }
            // Other text with no own line after it is no part of the buffer.
            if is_cut || self.is_tail_of_next_writer(at, end) || opening_header(line).is_some() {
                return WriteEnd::Line(foreign.unwrap_or(at));
            }
            foreign.get_or_insert(at);
            at = end;
        }
        let last = own.filter(|_| foreign.is_none());
        let seam = last.and_then(|own| self.find_seam(own, None));
        seam.unwrap_or(WriteEnd::Line(foreign.unwrap_or(at)))
    }

    /// Returns true for a line of the process; its name is mostly at the same column.
    fn is_own_line(&mut self, line: &[u8], column: &mut usize) -> bool {
        let is_at = |at: usize| line.get(at..).is_some_and(|l| l.starts_with(self.process));
        if is_at(*column) {
            return true;
        }
        let Some(header) = opening_header(line).filter(|header| is_at(header.start)) else {
            return false;
        };
        *column = header.start;
        self.stamp.clear();
        self.stamp.extend_from_slice(&line[..header.start]);
        true
    }

    /// Returns true if the bytes from `at` to the buffer's end may be the head of a line of the
    /// process.
    fn is_own_head(&self, at: usize, full: usize) -> bool {
        let rest = &self.bytes[at..full];
        opening_bytes(rest, self.process, self.stamp) == rest.len()
            && self.is_stamp_later(rest)
            && !self.is_whole_line_of_another(at, full)
    }

    /// Returns true if the line is the tail that the process of the next line waits for.
    fn is_tail_of_next_writer(&self, at: usize, end: usize) -> bool {
        let writers = self.starts.writers;
        let next = writers.header_process(line_at(self.bytes, end));
        next.is_some_and(|next| writers.is_tail_of(next, &self.bytes[at..end]))
    }

    /// Returns true unless the stamp is earlier than the last: those of a process do not go back.
    fn is_stamp_later(&self, rest: &[u8]) -> bool {
        let begins = rest.len().min(self.stamp.len());
        rest[..begins] >= self.stamp[..begins]
    }

    /// Returns the end of the write that reaches into the line at `at`, and to `full` if it is a whole
    /// buffer.
    fn find_crossing_end(&mut self, at: usize, full: usize) -> WriteEnd {
        let (bytes, writers) = (self.bytes, self.starts.writers);
        let end = line_end(bytes, at);
        let next = writers.header_process(line_at(bytes, end));
        let whole = WriteEnd::Cut {
            line: at,
            end: full,
        };
        if full == end || next == Some(&**self.process) {
            return whole;
        }
        let tail = &bytes[full..end];
        let is_tail = next.is_some_and(|next| {
            writers.waiting(next).is_some_and(|writer| {
                self.starts
                    .find_tail_start(next, writer, tail, full)
                    .is_some()
            })
        });
        if is_tail {
            return whole;
        }
        self.find_seam(at, Some(full)).unwrap_or(whole)
    }

    /// Returns the end of a write inside its last line, at `own`, if it does not end with that line:
    /// it was no whole buffer, or did not begin where it was taken to begin. By a buffer's length it
    /// ends at `hint`.
    fn find_seam(&mut self, own: usize, hint: Option<usize>) -> Option<WriteEnd> {
        let (bytes, writers) = (self.bytes, self.starts.writers);
        let end = line_end(bytes, own);
        let next = writers.header_process(line_at(bytes, end));
        let waiting = next
            .filter(|&next| next != &**self.process)
            .and_then(|next| Some((next, writers.waiting(next)?)));
        let seam = WriteSeam {
            bytes,
            line: own..end,
            who: self.process,
            stamp: self.stamp,
        };
        let cut = |end: usize| WriteEnd::Cut { line: own, end };
        let glued = |joint: usize| WriteEnd::Glued { line: own, joint };
        if waiting.is_none() && seam.is_call() {
            // A tail without a head in the log may make it whole.
            let new = next.filter(|&next| !writers.is_known(next));
            return new
                .and_then(|next| seam.find_address_in_half(next))
                .map(glued);
        }
        *self.tries = self.tries.checked_sub(1)?;
        if let Some((next, writer)) = waiting {
            let joints = seam.find_tail_starts(next, &writer.head);
            return match joints[..] {
                [] => None,
                [joint] => Some(cut(joint)),
                [.., joint] => Some(glued(hint.unwrap_or(joint))),
            };
        }
        let is_nearer = |joint: &usize| hint.is_none_or(|hint| *joint < hint);
        let start = seam
            .find_other_line_start(next, |of| writers.is_known(of))
            .filter(is_nearer);
        let joint = start.or_else(|| seam.find_foreign_start(hint).filter(is_nearer));
        joint.map(cut)
    }

    /// Counts the first bytes of the line at `at` that are the process's, if another process's write,
    /// or other text, follows them.
    fn find_own_opening(&mut self, at: usize) -> Option<usize> {
        let (bytes, writers) = (self.bytes, self.starts.writers);
        let line = line_at(bytes, at);
        let most = opening_bytes(line, self.process, self.stamp);
        let is_anothers = writers
            .header_process(line)
            .is_some_and(|of| writers.waiting(of).is_none());
        if most == 0 || most >= self.stamp.len() + self.process.len() || is_anothers {
            return None;
        }
        *self.tries = self.tries.checked_sub(1)?;
        let next = writers.header_process(line_at(bytes, at + line.len()));
        // Another line's tail follows, another header, or other text.
        if let Some(of) = next.filter(|&next| next != &**self.process)
            && writers.waiting(of).is_some()
        {
            // The whole line, mostly: a flush that is no whole buffer ends with a line.
            let cut = only_fitting_cut(0..=most, |cut| writers.is_tail_of(of, &line[cut..]));
            return cut.filter(|&cut| cut > 0);
        }
        if let Some(header) = find_header_from(line, 0) {
            let of = process_prefix(line, &header);
            let begins = match of.len() - writers.unglue_process(of, next).len() {
                0 => header_piece_start_at(line, &header),
                glued => header.start + glued,
            };
            return (0 < begins && begins <= most).then_some(begins);
        }
        let tail = write_seam::find_tail_ahead(bytes, at + line.len(), self.process)?;
        only_fitting_cut(1..=most, |cut| {
            certain_line_kind(self.process, &line[..cut], &bytes[tail.clone()]).is_some()
        })
    }

    /// Returns true if the line at `at`, which crosses `full`, is a whole line of another process.
    fn is_whole_line_of_another(&self, at: usize, full: usize) -> bool {
        let writers = self.starts.writers;
        let line = line_at(self.bytes, at);
        opening_header(line).is_some_and(|header| {
            let of = process_prefix(line, &header);
            // Heads of two processes may end in the same bytes of a stamp or of a host: what
            // looks like a line of the second is the first one's head and the second one's tail.
            let tail = &line[full - at..];
            if of == &**self.process || writers.is_tail_of(of, tail) {
                return false;
            }
            let is_its = if at + header.start < full {
                // A head and another line's first bytes can look like a header. One that was not met
                // before is one if these bytes begin no line and end none that waits, or if its
                // host is known.
                let host = &of[..memchr(b':', of).map_or(0, |end| end + 1)];
                let is_line = || opening_header(tail).is_some() && !writers.is_known_host(host);
                let mut waiting = writers.all_waiting();
                let mut is_tail = || waiting.any(|(process, _)| writers.is_tail_of(process, tail));
                writers.is_known(of) || !is_line() && !is_tail()
            } else {
                // Another process's buffer after a head in a stamp has a stamp of its own.
                is_same_stamp_form(&line[..header.start], self.stamp)
                    && writers.process_cut_in_host(of).is_none()
            };
            is_its && whole_line_kind(line, &header).is_some()
        })
    }
}

/// Returns the only one of `cuts` that `fits`.
fn only_fitting_cut(
    mut cuts: RangeInclusive<usize>,
    fits: impl Fn(usize) -> bool,
) -> Option<usize> {
    let first = cuts.find(|&cut| fits(cut))?;
    (!cuts.any(fits)).then_some(first)
}
