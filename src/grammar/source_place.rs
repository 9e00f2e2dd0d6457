//! The place in NCCL's own source that a line names.
//!
//! ```text
//! transport/net_ib.cc:789                     in front of `NCCL WARN`
//! transport/p2p.cc:255 (ncclP2pImport)        with the function, since 2.30
//! misc/ibvwrap.cu:60                          up to 2.3
//! graph/xml.h:                                a quoted line without the number
//! [p2p.cc:648](https://example.com/p2p.cc)    a web page made a link of it
//! ```
//!
//! From `ncclDebugLog` in `src/debug.cc`, and `INFO_LOC` (2.30), which puts the place in front of an
//! INFO line's text. A plugin may name a function in place of the file (`ofi_process_cq:196`).

use super::token::dec_u32;
use memchr::{memchr, memmem, memrchr};

/// The ends of source files' names.
pub const SOURCE_FILE_ENDINGS: [&[u8]; 6] = [b".cc", b".h", b".cpp", b".c", b".cu", b".hpp"];

/// The folders of NCCL's source, and the files in none of them, up to 2.30.
const NCCL_FOLDERS: [&[u8]; 8] = [
    b"include/",
    b"misc/",
    b"transport/",
    b"graph/",
    b"plugin/",
    b"register/",
    b"collectives/",
    b"os/",
];
const NCCL_FILES: [&[u8]; 9] = [
    b"bootstrap",
    b"init",
    b"enqueue",
    b"proxy",
    b"transport",
    b"channel",
    b"group",
    b"ring",
    b"net",
];

/// True for a source file of NCCL's own, as lines name it: `misc/socket.cc`. Other programs have such names, too, but
/// hardly any prints them in NCCL's shape.
pub(super) fn is_nccl_file(file: &[u8]) -> bool {
    let is_own = |name: &&[u8]| {
        file.strip_prefix(*name)
            .is_some_and(|end| SOURCE_FILE_ENDINGS.contains(&end))
    };
    is_source_file(file) && NCCL_FOLDERS.iter().any(|folder| file.starts_with(folder))
        || NCCL_FILES.iter().any(is_own)
}

/// The longest text that is looked through for the end of a place: a file may be an absolute path.
pub(super) const MAX_SOURCE_PLACE_BYTES: usize = 400;

/// The source file at the beginning of a text, and the text after the place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedText<'a> {
    /// The file, as printed.
    pub file: &'a [u8],
    /// The text after the place and a blank.
    pub text: &'a [u8],
}

/// Takes the place off a text that begins with one, with its line: `file:line text`, or
/// `file:line (function) text`.
pub fn split_source_place(text: &[u8]) -> Option<PlacedText<'_>> {
    let window = &text[..text.len().min(MAX_SOURCE_PLACE_BYTES)];
    let end = memchr(b' ', window)?;
    let colon = memrchr(b':', &window[..end])?;
    let file = &text[..colon];
    if !is_source_file(file) || !is_line_number(&text[colon + 1..end]) {
        return None;
    }
    let rest = &text[end + 1..];
    let text = match rest.strip_prefix(b"(") {
        Some(named) => {
            let close = memmem::find(&named[..named.len().min(MAX_SOURCE_PLACE_BYTES)], b") ")?;
            let is_name = !named[..close].contains(&b' ');
            if is_name {
                &named[close + b") ".len()..]
            } else {
                rest
            }
        }
        None => rest,
    };
    Some(PlacedText { file, text })
}

/// Returns true if all of `text` is a place, with or without its line and its function.
pub fn is_source_place(text: &[u8]) -> bool {
    // Markdown's marks of bold words and of code may be around it, or begin after it.
    let mut text = text.trim_ascii();
    while let [b'*' | b'`', rest @ ..] | [rest @ .., b'*' | b'`'] = text {
        text = rest.trim_ascii();
    }
    // `(function)` is the last word of a place.
    let words = match (text.strip_suffix(b")"), memmem::rfind(text, b" (")) {
        (Some(_), Some(open)) if !text[open + 2..].contains(&b' ') => &text[..open],
        _ => text,
    };
    let place = strip_link(words);
    if place.contains(&b' ') {
        return false;
    }
    let Some(colon) = memrchr(b':', place) else {
        return is_source_file(place);
    };
    let (name, line) = (&place[..colon], &place[colon + 1..]);
    (is_line_number(line) && !name.is_empty()) || (line.is_empty() && is_source_file(name))
}

/// Returns the text of a link as Markdown writes it, `[text](https://...)`; the text itself where it is
/// no link.
fn strip_link(text: &[u8]) -> &[u8] {
    let inner = text.strip_prefix(b"[").and_then(|text| {
        let close = memmem::find(text, b"](http")?;
        text.ends_with(b")").then(|| &text[..close])
    });
    inner.unwrap_or(text)
}

fn is_source_file(name: &[u8]) -> bool {
    let is_named = |end: &&[u8]| name.len() > end.len() && name.ends_with(end);
    SOURCE_FILE_ENDINGS.iter().any(is_named) && !name.contains(&b' ')
}

fn is_line_number(text: &[u8]) -> bool {
    matches!(dec_u32(text), Ok((b"", _)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_off_a_text() {
        for (text, file, rest) in [
            (
                "transport/p2p.cc:255 (ncclP2pImport) Imported shareable buffer",
                "transport/p2p.cc",
                "Imported shareable buffer",
            ),
            (
                "init.cc:502 Cuda Host Alloc Size 6",
                "init.cc",
                "Cuda Host Alloc Size 6",
            ),
            ("/opt/rccl/src/a.cc:1 -> 6", "/opt/rccl/src/a.cc", "-> 6"),
            ("a.h:1 (not a name) x", "a.h", "(not a name) x"),
        ] {
            let placed = split_source_place(text.as_bytes()).unwrap();
            assert_eq!(
                (placed.file, placed.text),
                (file.as_bytes(), rest.as_bytes()),
                "{text}"
            );
        }
        for none in [
            "",
            "a.cc:1",
            "a.py:1 x",
            "a.cc: x",
            ".cc:1 x",
            "a b.cc:1 x",
            "a.cc:1 (f",
        ] {
            assert_eq!(split_source_place(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn a_place_may_lack_its_line_or_be_a_link() {
        for place in [
            "misc/socket.cc:441",
            "graph/xml.h:",
            "graph/xml.h",
            "init.cc:7 (initTransportsRank)",
            "create_nccl_ofi_component:459",
            "misc/socket.cc:441 **",
            "`misc/socket.cc:441`",
            "[p2p.cc:648](https://example.com/p2p.cc#L648)",
            "[p2p.cc:648](https://example.com/p2p.cc) (p2pMap)",
        ] {
            assert!(is_source_place(place.as_bytes()), "{place}");
        }
        for other in ["", "note:", "a.py", "grep -r", "see a.cc:1", "[x](y)", ":1"] {
            assert!(!is_source_place(other.as_bytes()), "{other}");
        }
    }
}
