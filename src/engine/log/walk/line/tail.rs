//! What may be the end of a line that another began.

use crate::grammar::coll;
use crate::grammar::header;
use memchr::{memchr, memmem};

/// The longest launcher's label in front of a line's end that is looked for.
const MAX_LABEL_BYTES: usize = 64;

/// True for the first bytes of a line, from its header, that may be a call's.
pub(crate) fn is_call(text: &[u8]) -> bool {
    header::find_header(text, 0).is_some_and(|header| {
        let message = &text[header.body..];
        coll::COLL_ANCHOR_FINDER.find(message).is_some() || coll::is_begun(message)
    })
}

/// True for what may be the end of a call's line where one was begun; a launcher's label may be in
/// front.
pub(crate) fn is_call_tail(line: &[u8]) -> bool {
    let behind = |at: usize| &line[at + 1..];
    let label = memchr(b':', &line[..line.len().min(MAX_LABEL_BYTES)]).map(behind);
    let text = label.map_or(&b""[..], <[u8]>::trim_ascii_start);
    coll::is_tail(line) || coll::is_short_tail(line) || coll::is_short_tail(text)
}

/// True for what can only be the end of a call's line or of one that names a communicator.
pub(super) fn is_tail(line: &[u8]) -> bool {
    coll::is_tail(line) || is_init_tail(line)
}

pub(super) fn is_init_tail(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    (line.ends_with(b" - Init COMPLETE") || line.ends_with(b" - Init START"))
        && memmem::find(line, b"comm 0x").is_none()
}
