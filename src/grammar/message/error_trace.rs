//! The way an error took back to the caller, a line for each function it left.
//!
//! ```text
//! transport/net.cc:1302 -> 6
//! proxy.cc:878 -> 6 [Progress Thread]
//! misc/socket.cc:310 -> 2 (Connection refused)
//! transport/net.cc:1302 (ncclNetConnect) -> 6          2.30
//! ```
//!
//! From `NCCLCHECK` and its like in `src/include/checks.h`. INFO lines, which follow a WARN.

use crate::source_place::SOURCE_FILE_ENDINGS;
use crate::token::{PResult, dec_i32, dec_u32, fail, until, whole, word};
use memchr::memchr;

/// One function that an error left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorReturn<'a> {
    /// The source file.
    pub file: &'a [u8],
    /// Its line.
    pub line: u32,
    /// The function; printed since 2.30.
    pub function: Option<&'a [u8]>,
    /// The result: 1 CUDA, 2 system, 3 internal, 4 argument, 5 usage, 6 remote, 7 in progress.
    pub code: i32,
    /// The thread, where it is not the caller's: `Progress Thread`, `Async thread`.
    pub thread: Option<&'a [u8]>,
    /// The system's words.
    pub error: Option<&'a [u8]>,
}

/// One line of the way.
pub(crate) fn parse_error_return(body: &[u8]) -> Option<ErrorReturn<'_>> {
    whole(error_return_line(body))
}

fn error_return_line(input: &[u8]) -> PResult<'_, ErrorReturn<'_>> {
    let (i, file) = until(":", "a source file")(input)?;
    if !SOURCE_FILE_ENDINGS.iter().any(|end| file.ends_with(end)) || memchr(b' ', file).is_some() {
        return fail(input, "a source file");
    }
    let (i, line) = dec_u32(i)?;
    let (i, function) = bracketed(i, " (", ")");
    let (i, _) = word(" -> ", "a result")(i)?;
    let (i, code) = dec_i32(i)?;
    let (i, thread) = bracketed(i, " [", "]");
    let (i, error) = bracketed(i, " (", ")");
    Ok((
        i,
        ErrorReturn {
            file,
            line,
            function,
            code,
            thread,
            error,
        },
    ))
}

fn bracketed<'a>(
    input: &'a [u8],
    open: &'static str,
    close: &'static str,
) -> (&'a [u8], Option<&'a [u8]>) {
    match word(open, "a bracket")(input).and_then(|(i, _)| until(close, "its end")(i)) {
        Ok((i, text)) => (i, Some(text)),
        Err(_) => (input, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_place_and_result() {
        let got = parse_error_return(b"proxy.cc:878 -> 6 [Progress Thread]").unwrap();
        assert_eq!((got.file, got.line, got.code), (&b"proxy.cc"[..], 878, 6));
        assert_eq!(got.thread, Some(&b"Progress Thread"[..]));
        let new =
            parse_error_return(b"misc/socket.cc:7 (ncclSocketInit) -> 2 (Connection refused)")
                .unwrap();
        assert_eq!(new.function, Some(&b"ncclSocketInit"[..]));
        assert_eq!(new.error, Some(&b"Connection refused"[..]));
        assert_eq!(
            parse_error_return(b"include/net.h:24 -> 2").unwrap().code,
            2
        );
        for none in [
            "a.cc:1 -> 6 [Progr",
            "Ring 00 : 1 -> 2",
            "a b.cc:1 -> 6",
            "a.cc: -> 6",
        ] {
            assert_eq!(parse_error_return(none.as_bytes()), None, "{none}");
        }
    }
}
