//! How long an initialisation took, part by part.
//!
//! ```text
//! Init timings: rank 0 nranks 24 total 3.45 (kernels 0.33, bootstrap 2.75, ..., rest 0.00)      2.21-2.23
//! Init timings - ncclCommInitRank: rank 3 nranks 4 total 1.05 (kernels 0.60, alloc 0.24, ...)  2.24+
//! Bootstrap timings total 0.157689 (create 0.000029, send 0.000098, ..., delay 0.000000)       2.23+
//! ```
//!
//! From `ncclCommInitRankFunc` in `src/init.cc` and `bootstrapInit` in `src/bootstrap.cc`. All
//! numbers are seconds.

use crate::token::{PResult, dec_u32, fraction, until, whole, word};

/// The time an initialisation took, and that of its parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InitTimings<'a> {
    /// What was timed.
    pub of: TimedSetup<'a>,
    /// All of it, in seconds.
    pub total: f64,
    parts: &'a [u8],
}

/// What was timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimedSetup<'a> {
    /// The initialisation of a communicator.
    Init {
        /// The function the program called; printed since 2.24.
        call: Option<&'a [u8]>,
        /// This process's rank in it.
        rank: u32,
        /// Its size.
        nranks: u32,
    },
    /// The bootstrap, which is a part of the initialisation.
    Bootstrap,
}

impl<'a> InitTimings<'a> {
    /// The parts as printed, in seconds: `kernels`, `alloc`, `bootstrap`, `allgathers`, `topo`,
    /// `graphs`, `connections`, `rest` of an initialisation; `create`, `send`, `recv`, `ring`,
    /// `delay` of a bootstrap.
    pub fn parts(&self) -> impl Iterator<Item = (&'a [u8], f64)> + use<'a> {
        split_timings(self.parts).flatten()
    }
}

/// The parts in a text; `None` for one that is not `name seconds`.
fn split_timings(text: &[u8]) -> impl Iterator<Item = Option<(&[u8], f64)>> {
    text.split(|&b| b == b',').map(|part| {
        let (seconds, name) = until(" ", "a part's name")(part.trim_ascii()).ok()?;
        Some((name, whole(fraction(seconds))?))
    })
}

/// Either kind of line.
pub(crate) fn parse_timings(body: &[u8]) -> Option<InitTimings<'_>> {
    let (rest, (of, total)) = timings_start(body).ok()?;
    let parts = rest.strip_prefix(b" (")?.strip_suffix(b")")?;
    split_timings(parts)
        .all(|part| part.is_some())
        .then_some(InitTimings { of, total, parts })
}

fn timings_start(input: &[u8]) -> PResult<'_, (TimedSetup<'_>, f64)> {
    if let Some(i) = input.strip_prefix(b"Bootstrap timings total ") {
        let (i, total) = fraction(i)?;
        return Ok((i, (TimedSetup::Bootstrap, total)));
    }
    let (i, _) = word("Init timings", "Init timings")(input)?;
    let (i, call) = match i.strip_prefix(b" - ") {
        Some(i) => {
            let (i, call) = until(": rank ", "the function called")(i)?;
            (i, Some(call))
        }
        None => (word(": rank ", "rank")(i)?.0, None),
    };
    let (i, rank) = dec_u32(i)?;
    let (i, _) = word(" nranks ", "nranks")(i)?;
    let (i, nranks) = dec_u32(i)?;
    let (i, _) = word(" total ", "total")(i)?;
    let (i, total) = fraction(i)?;
    Ok((i, (TimedSetup::Init { call, rank, nranks }, total)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_given_by_name() {
        let new = parse_timings(
            b"Init timings - ncclCommInitRank: rank 3 nranks 4 total 1.05 (kernels 0.60, alloc \
              0.24, rest 0.21)",
        )
        .unwrap();
        let call = Some(&b"ncclCommInitRank"[..]);
        let (rank, nranks) = (3, 4);
        assert_eq!(new.of, TimedSetup::Init { call, rank, nranks });
        let parts: Vec<_> = new.parts().collect();
        let expected = [(&b"kernels"[..], 0.6), (b"alloc", 0.24), (b"rest", 0.21)];
        assert_eq!((new.total, &parts[..]), (1.05, &expected[..]));
        let old =
            parse_timings(b"Init timings: rank 0 nranks 24 total 3.45 (kernels 0.33)").unwrap();
        assert_eq!((old.total, old.parts().count()), (3.45, 1));
        let bootstrap =
            parse_timings(b"Bootstrap timings total 0.157689 (create 0.000029, send 0.1)");
        assert_eq!(bootstrap.unwrap().of, TimedSetup::Bootstrap);
    }

    #[test]
    fn a_cut_line_is_none() {
        let line = b"Init timings - ncclX: rank 3 nranks 4 total 1.05 (kernels 0.60, rest 0.45)";
        for cut in 0..line.len() {
            assert_eq!(parse_timings(&line[..cut]), None, "{cut}");
        }
    }
}
