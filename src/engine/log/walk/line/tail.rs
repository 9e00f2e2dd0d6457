//! Recognition of heads and tails of lines.

use crate::grammar::coll;
use crate::grammar::header;
use crate::log::walk::limits::MAX_LABEL_BYTES;
use memchr::{memchr, memmem};

/// Returns true for the first bytes of a line, from its header, that may be a call's.
pub(crate) fn is_call(text: &[u8]) -> bool {
    header::find_header(text, 0).is_some_and(|header| {
        let message = &text[header.body..];
        coll::COLL_ANCHOR_FINDER.find(message).is_some() || coll::is_begun(message)
    })
}

/// Returns true for what may be a call's tail if a head waits; a launcher's label may be in front.
pub(crate) fn is_call_tail(line: &[u8]) -> bool {
    let after = |at: usize| &line[at + 1..];
    let label = memchr(b':', &line[..line.len().min(MAX_LABEL_BYTES)]).map(after);
    let text = label.map_or(&b""[..], <[u8]>::trim_ascii_start);
    coll::is_tail(line) || coll::is_short_tail(line) || coll::is_short_tail(text)
}

/// Returns true for what can only be the tail of a call or of a line that names a communicator.
pub(super) fn is_tail(line: &[u8]) -> bool {
    coll::is_tail(line) || is_init_tail(line)
}

/// Returns true for what can only be the tail of a line that names a communicator.
pub(crate) fn is_init_tail(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    (line.ends_with(b" - Init COMPLETE") || line.ends_with(b" - Init START"))
        && memmem::find(line, b"comm 0x").is_none()
}
