//! The way an error took back to the caller, a line for each function it left.
//!
//! ```text
//! transport/net.cc:1302 -> 6
//! proxy.cc:878 -> 6 [Progress Thread]
//! ```
//!
//! From `NCCLCHECK` in `src/include/checks.h`. INFO lines, which follow a WARN.

use crate::grammar::token::{dec_i32, dec_u32, whole};
use memchr::{memmem, memrchr};

/// One function that an error left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Return<'a> {
    /// The source file.
    pub file: &'a [u8],
    /// Its line.
    pub line: u32,
    /// The result: 1 CUDA, 2 system, 3 internal, 4 argument, 5 usage, 6 remote, 7 in progress.
    pub code: i32,
    /// The thread, where it is not the caller's: `Progress Thread`, `Async thread`.
    pub thread: Option<&'a [u8]>,
}

/// One line of the way.
pub fn returned(body: &[u8]) -> Option<Return<'_>> {
    let arrow = memmem::find(body, b" -> ")?;
    let (place, rest) = (&body[..arrow], &body[arrow + b" -> ".len()..]);
    let colon = memrchr(b':', place)?;
    let (file, line) = (&place[..colon], whole(dec_u32(&place[colon + 1..]))?);
    let source = [&b".cc"[..], b".h", b".cpp", b".c", b".cu", b".hpp"];
    if !source.iter().any(|end| file.ends_with(end)) || memchr::memchr(b' ', file).is_some() {
        return None;
    }
    let (after, code) = dec_i32(rest).ok()?;
    let thread = match after {
        b"" => None,
        _ => Some(after.strip_prefix(b" [")?.strip_suffix(b"]")?),
    };
    Some(Return {
        file,
        line,
        code,
        thread,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_place_and_result() {
        let got = returned(b"proxy.cc:878 -> 6 [Progress Thread]").unwrap();
        let (file, line, code) = (&b"proxy.cc"[..], 878, 6);
        let thread = Some(&b"Progress Thread"[..]);
        assert_eq!(
            got,
            Return {
                file,
                line,
                code,
                thread
            }
        );
        assert_eq!(returned(b"include/net.h:24 -> 2").unwrap().code, 2);
        for none in [
            "a.cc:1 -> 6 [Progr",
            "Ring 00 : 1 -> 2",
            "a b.cc:1 -> 6",
            "a.cc: -> 6",
        ] {
            assert_eq!(returned(none.as_bytes()), None, "{none}");
        }
    }
}
