//! Where each process's bytes begin on a line that several wrote.

use crate::grammar::coll;
use crate::grammar::header::{self, LineHeader};
use crate::log::walk::fragment::TEAR_STRIDE_BYTES;

/// What several processes wrote on one line.
pub(super) struct WriterSpans<'a> {
    pub(super) headers: Vec<LineHeader<'a>>,
    /// Where each header's piece begins, and the line's end.
    pub(super) starts: Vec<usize>,
    /// Whether only the tear says where a header's host begins.
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

/// Takes the last bytes of the piece before it off the host of header `i`: a whole body says
/// where it ends, processes that share a pipe or a file are mostly on one host, and a line that
/// begins at `before` may be torn in what looks like the host. Gives true where only the last says
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
    let message = &line[before.body..];
    let body = coll::COLL_ANCHOR_FINDER
        .find(message)
        .and_then(|a| coll::parse_coll_at(message, a).ok());
    let end = body.map(|(_, _, end)| before.body + end);
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

/// Where the piece of a header begins: NCCL's own stamp in brackets belongs to it.
fn header_piece_start(line: &[u8], floor: usize, header: usize) -> usize {
    let before = &line[floor..header];
    let stamp = header::find_time_stamp(before);
    if !stamp.is_empty() && before.ends_with(b"] ") && floor > 0 {
        return header - stamp.len() - b"[] ".len();
    }
    if floor > 0 {
        header
    } else {
        first_header_start(before, header, stamp)
    }
}

/// The same for the first header of a line, where a launcher's prefix may be in front.
fn first_header_start(before: &[u8], header: usize, stamp: &[u8]) -> usize {
    if !stamp.is_empty() && before.ends_with(b"] ") {
        header - stamp.len() - b"[] ".len()
    } else {
        header
    }
}
