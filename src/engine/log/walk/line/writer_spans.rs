//! Where each process's bytes begin on a line that several wrote.

use crate::grammar::coll;
use crate::grammar::header::{self, LineHeader};
use crate::log::walk::TEAR_STRIDE_BYTES;

/// The parts of one line that several processes wrote.
pub(super) struct WriterSpans<'a> {
    pub(super) headers: Vec<LineHeader<'a>>,
    /// Where the part of each header begins, and the end of the line.
    pub(super) starts: Vec<usize>,
    /// For each header: only the tear shows where its host begins.
    pub(super) glued: Vec<bool>,
}

/// Finds the headers of a line.
pub(super) fn find_writer_spans(line: &[u8]) -> WriterSpans<'_> {
    let mut headers: Vec<LineHeader<'_>> = header::all_headers(line).collect();
    let mut starts = Vec::with_capacity(headers.len() + 1);
    let mut glued = Vec::with_capacity(headers.len());
    let mut floor = 0;
    for i in 0..headers.len() {
        glued.push(unglue_host(line, &mut headers, i, starts.last()));
        starts.push(header_piece_start(line, floor, headers[i].start));
        floor = headers[i].body;
    }
    starts.push(line.len());
    WriterSpans {
        headers,
        starts,
        glued,
    }
}

/// Takes the last bytes of the part before it off the host of header `i`. A whole body shows where
/// that part ends; processes that share a pipe or a file mostly run on one host; and the line that
/// begins at `start` may be torn inside what looks like the host. Returns true if only the tear shows
/// how many bytes it is.
fn unglue_host<'a>(
    line: &'a [u8],
    headers: &mut [LineHeader<'a>],
    i: usize,
    start: Option<&usize>,
) -> bool {
    let Some(before) = i.checked_sub(1).map(|before| headers[before]) else {
        return false;
    };
    let h = &mut headers[i];
    let host = h.start..h.start + h.host.len();
    if h.host.len() > before.host.len() && h.host.ends_with(before.host) {
        h.cut_host_before(host.end - before.host.len());
        return false;
    }
    let end = body_end(&line[before.body..h.body]).map(|end| before.body + end);
    if let Some(end) = end.filter(|end| host.contains(end)) {
        h.cut_host_before(end);
        return false;
    }
    let tear = start.map(|start| start + TEAR_STRIDE_BYTES);
    match tear.filter(|tear| h.start < *tear && *tear < host.end) {
        Some(tear) => {
            h.cut_host_before(tear);
            true
        }
        None => false,
    }
}

/// Where the first body of `text`, if it is whole, ends. Callers pass no more than the text up to the
/// next message: a line may have many headers, and the time must not grow with their square.
fn body_end(text: &[u8]) -> Option<usize> {
    #[cfg(test)]
    tests::count_searched(text.len());
    let anchor = coll::COLL_ANCHOR_FINDER.find(text)?;
    let (_, _, end) = coll::parse_coll_at(text, anchor).ok()?;
    Some(end)
}

/// Where the part of a header begins: NCCL's own stamp in brackets belongs to it. In front of the
/// first header (`floor` is 0) it is a launcher's prefix that may end in one.
fn header_piece_start(line: &[u8], floor: usize, header: usize) -> usize {
    let before = &line[floor..header];
    let stamp = header::find_time_stamp(before);
    if !stamp.is_empty() && before.ends_with(b"] ") {
        header - stamp.len() - b"[] ".len()
    } else {
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        static SEARCHED: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count_searched(bytes: usize) {
        SEARCHED.set(SEARCHED.get() + bytes);
    }

    #[test]
    fn the_search_for_bodies_grows_with_the_line() {
        let searched = |headers: usize| {
            SEARCHED.set(0);
            let line: Vec<u8> = (0..headers)
                .flat_map(|i| format!("vm{}:24{i}:24 [0] NCCL INFO ", i % 7).into_bytes())
                .collect();
            assert_eq!(find_writer_spans(&line).headers.len(), headers);
            (SEARCHED.get(), line.len())
        };
        for headers in [10, 1000, 4000] {
            let (searched, line) = searched(headers);
            assert!(0 < searched && searched <= 2 * line, "{searched} of {line}");
        }
    }
}
