//! CALL lines: the API call itself (`NCCL_DEBUG=TRACE`), the twin of a COLL line and never a
//! second call.
//!
//! ```text
//! ncclAllReduce(7c7cc6600200,7c7cc6600200,10,7,0,0,0x2152b590,0x1f956590)
//! ncclGroupStart()
//! ```
//!
//! From `ncclDebugLog` and `TRACE_CALL` in `src/include/debug.h`.

use crate::token::is_name_byte;
use memchr::memchr;

/// An API call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiCall<'a> {
    /// The function.
    pub function: &'a [u8],
    /// The text between the parentheses.
    pub arguments: &'a [u8],
}

/// The message of a CALL line.
pub(crate) fn parse_api_call(body: &[u8]) -> Option<ApiCall<'_>> {
    let open = memchr(b'(', body)?;
    let (function, rest) = (&body[..open], &body[open + 1..]);
    let arguments = rest.trim_ascii_end().strip_suffix(b")")?;
    let whole = memchr(b'(', arguments).is_none() && memchr(b')', arguments).is_none();
    let named = !function.is_empty() && function.iter().all(|&b| is_name_byte(b));
    (whole && named).then_some(ApiCall {
        function,
        arguments,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_whole_or_none() {
        let got = parse_api_call(b"ncclSend(0,7f2f,262144,2,0,3,0x55,0x56)").unwrap();
        assert_eq!((got.function, got.arguments.len()), (&b"ncclSend"[..], 29));
        assert_eq!(parse_api_call(b"ncclGroupStart() ").unwrap().arguments, b"");
        for none in [
            "ncclSend(0,7f2f",
            "ncclGroupStar",
            "(x)",
            "a(b)c()",
            "h:1:2 NCCL CALL f()",
        ] {
            assert_eq!(parse_api_call(none.as_bytes()), None, "{none}");
        }
    }
}
