//! A connection that NCCL tries again.
//!
//! ```text
//! Call to connect returned Connection refused, retrying                              2.3-2.22
//! socketPollConnect: connect returned Connection refused, retrying (3/34) after sleep for 300 msec     2.23
//! socketPollConnect: connect to 10.0.0.2<43921> returned Connection refused, retrying (3/34) after ..  2.24+
//! ```
//!
//! From `src/include/socket.h` and `src/misc/socket.cc`. Up to 2.22 only every thousandth try has a line.
//! `Call to recv returned Interrupted system call, retrying` is no such line: a signal came, and nothing waits.

use crate::token::dec_u32;
use memchr::memmem;

/// A connection that is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectRetry<'a> {
    /// The address of the other end, `10.0.0.2<43921>`; printed since 2.24.
    pub peer: Option<&'a [u8]>,
    /// The system's words for why it failed.
    pub error: &'a [u8],
    /// The number of this try, and how many there will be; printed since 2.23.
    pub tries: Option<(u32, u32)>,
}

/// The beginnings of the lines, as far as they differ between versions and systems.
const RETRY_BEGINNINGS: [&[u8]; 3] = [b"Call to connect", b"socket", b"ncclOsSocket"];

/// Reads any of the lines above.
pub(crate) fn parse_connect_retry(body: &[u8]) -> Option<ConnectRetry<'_>> {
    if !RETRY_BEGINNINGS.iter().any(|begin| body.starts_with(begin)) {
        return None;
    }
    let end = memmem::find(body, b", retrying")?;
    let (before, after) = (&body[..end], &body[end + b", retrying".len()..]);
    let at = memmem::find(before, b" returned ")?;
    let (what, error) = (&before[..at], &before[at + b" returned ".len()..]);
    let peer = match memmem::rfind(what, b"connect to ") {
        Some(at) => Some(&what[at + b"connect to ".len()..]),
        None if what.ends_with(b"connect") => None,
        None => return None,
    };
    let named = peer.is_none_or(|peer| peer.ends_with(b">") && !peer.contains(&b' '));
    (named && !error.is_empty()).then_some(ConnectRetry {
        peer,
        error,
        tries: parse_tries(after),
    })
}

/// Reads ` (3/34)`.
fn parse_tries(text: &[u8]) -> Option<(u32, u32)> {
    let (rest, tried) = dec_u32(text.strip_prefix(b" (")?).ok()?;
    let (rest, all) = dec_u32(rest.strip_prefix(b"/")?).ok()?;
    rest.starts_with(b")").then_some((tried, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_versions_line_says_what_is_tried() {
        let of = |text: &'static str| parse_connect_retry(text.as_bytes()).unwrap();
        let old = of("Call to connect returned Network is unreachable, retrying");
        assert_eq!((old.peer, old.tries), (None, None));
        assert_eq!(old.error, b"Network is unreachable");
        let mid = of(
            "socketPollConnect: connect returned Connection refused, retrying (3/34) after sleep \
             for 300 msec",
        );
        assert_eq!((mid.peer, mid.tries), (None, Some((3, 34))));
        let new = of(
            "socketPollConnect: connect to fe80::1%eth0<43921> returned Connection timed out, \
             retrying (1/34) after sleep for 100 msec",
        );
        assert_eq!(new.peer, Some(&b"fe80::1%eth0<43921>"[..]));
        assert_eq!(new.error, b"Connection timed out");
    }

    #[test]
    fn what_is_not_a_connection_or_is_cut_is_none() {
        for none in [
            "Call to recv returned Interrupted system call, retrying",
            "Call to accept returned Too many open files, retrying",
            "socketPollConnect: connect to 10.0.0.2<439 returned x, retrying",
            "socketPollConnect: connect to 10.0.0.2<43921> returned Connection ref",
            "Call to connect returned , retrying",
        ] {
            assert_eq!(parse_connect_retry(none.as_bytes()), None, "{none}");
        }
    }
}
