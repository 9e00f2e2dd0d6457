//! Calls and the TUNING lines behind them.
//!
//! NCCL prints a COLL line when it is given a call, and a TUNING line when it launches it: of
//! several calls in a group first all COLL lines, then all TUNING lines. A burst is what a thread
//! prints up to the next COLL line behind a TUNING line. In it a TUNING line belongs to a call of
//! its operation (any, where it names none) and its bytes: what the caller passed since 2.24, and
//! before times the ranks for AllGather and ReduceScatter.

use crate::grammar::message::tuning::{Algorithm, Protocol};
use crate::records::{Basis, Datatype, Kind};
use rustc_hash::FxHashMap;

/// How a call is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum How {
    /// By an algorithm and a protocol.
    By(Algorithm, Protocol),
    /// By a kernel on symmetric memory, by its number.
    Kernel(u32),
    /// By the copy engines.
    CopyEngine,
}

/// A TUNING line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line {
    /// The operation's number, where the line names one.
    pub op: Option<u32>,
    /// The bytes, as printed.
    pub bytes: u64,
    /// How the call is served.
    pub how: How,
    /// How many channels, where they are printed.
    pub channels: Option<u32>,
    /// The bytes are the caller's, as since 2.24.
    pub api: bool,
}

/// A call, but for its time and buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Made {
    /// Who made it: a member's number.
    pub member: u32,
    /// The operation's number.
    pub op: u32,
    /// Elements.
    pub count: u64,
    /// Their type.
    pub datatype: u32,
    /// The communicator's size.
    pub nranks: Option<u32>,
}

/// What a thread printed since the burst before.
#[derive(Debug, Clone, Default)]
pub struct Burst {
    /// Calls, with how often.
    pub calls: FxHashMap<Made, u64>,
    /// TUNING lines, with how often.
    pub lines: FxHashMap<Line, u64>,
}

/// A TUNING line of a burst, and the calls it may belong to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Match {
    /// The line.
    pub line: Line,
    /// How many of it there are.
    pub lines: u64,
    /// Calls that fit, with how often, up to `lines`.
    pub fit: Vec<(Made, u64)>,
}

impl Burst {
    /// True where a call now begins the next burst.
    pub fn is_over(&self) -> bool {
        !self.lines.is_empty()
    }

    /// What each line of the burst may belong to. `kind` says what an operation is.
    pub fn matches(&self, kind: impl Fn(u32) -> Kind) -> impl Iterator<Item = Match> {
        self.lines.iter().map(move |(&line, &lines)| {
            let fits = |made: &Made| {
                let named = line.op.is_none_or(|op| op == made.op);
                named && line.bytes == bytes(made, kind(made.op), line.api).unwrap_or(u64::MAX)
            };
            let fit = self.calls.iter().filter(|(made, _)| fits(made));
            let mut fit: Vec<(Made, u64)> = fit.map(|(&made, &n)| (made, n.min(lines))).collect();
            fit.sort_unstable();
            Match { line, lines, fit }
        })
    }
}

/// The bytes a TUNING line prints for a call.
fn bytes(made: &Made, kind: Kind, api: bool) -> Option<u64> {
    let size = Datatype(made.datatype).size()?;
    let passed = u128::from(made.count) * u128::from(size);
    let bytes = match (kind, api) {
        (Kind::PointToPoint, _) => return None,
        (Kind::PerRank, false) => Basis::Message.of(kind, passed, made.nranks)?,
        _ => passed,
    };
    u64::try_from(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_the_calls_of_its_operation_and_bytes() {
        let made = |op, count, nranks| Made {
            member: 0,
            op,
            count,
            datatype: 7,
            nranks: Some(nranks),
        };
        let line = |op, bytes, api| Line {
            op,
            bytes,
            how: How::By(Algorithm::Ring, Protocol::Ll),
            channels: None,
            api,
        };
        // Operation 0 is AllReduce, 1 is AllGather.
        let kind = |op| {
            if op == 0 {
                Kind::AllReduce
            } else {
                Kind::PerRank
            }
        };
        let fit = |line: Line| {
            let mut burst = Burst::default();
            burst.calls.insert(made(0, 256, 4), 3);
            burst.calls.insert(made(1, 64, 4), 1);
            burst.lines.insert(line, 2);
            let mut matches = burst.matches(kind);
            let got = matches.next().unwrap().fit;
            got.iter()
                .map(|(made, n)| (made.op, *n))
                .collect::<Vec<_>>()
        };
        assert_eq!(fit(line(Some(0), 1024, true)), [(0, 2)]);
        assert_eq!(fit(line(Some(1), 256, true)), [(1, 1)]);
        assert_eq!(fit(line(Some(1), 1024, false)), [(1, 1)]);
        assert_eq!(fit(line(None, 1024, false)), [(0, 2), (1, 1)]);
        assert_eq!(fit(line(None, 1024, true)), [(0, 2)]);
        assert_eq!(fit(line(None, 77, true)), []);
    }
}
