//! Calls and the TUNING lines after them.
//!
//! NCCL prints a COLL line when it is given a call, and a TUNING line when it launches the call. For calls
//! of a group it prints all COLL lines first, then all TUNING lines. A burst is the lines of a thread up to
//! the next COLL line after a TUNING line. A TUNING line belongs to a call of its burst with its operation
//! (any, if it names none) and its bytes: since 2.24 those of the caller; before, for AllGather and
//! ReduceScatter, these times the ranks.
//!
//! Up to 2.23 NCCL prints one line for several calls of a group that it combines, with the sum of their
//! bytes: calls of one communicator, operation and datatype; in 2.22 and 2.23 only those within four times
//! the bytes of the smallest, before all of them (`src/enqueue.cc`). A line with such a sum belongs to its
//! calls.

use crate::grammar::message::tuning::{Algorithm, Protocol};
use crate::grammar::values::{ByteBasis, Datatype, OpKind};
use crate::members::MergedMembers;
use crate::members::OpInterner;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Method that serves a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ServingMethod {
    /// An algorithm and a protocol.
    By(Algorithm, Protocol),
    /// A kernel on symmetric memory, by its number.
    Kernel(u32),
    /// The copy engines.
    CopyEngine,
}

impl ServingMethod {
    /// Returns algorithm and protocol in NCCL's words; `names` has the names of kernels.
    pub(in crate::stages) fn algorithm_and_protocol(
        self,
        names: &OpInterner,
    ) -> (Vec<u8>, Vec<u8>) {
        match self {
            ServingMethod::By(algorithm, protocol) => {
                (algorithm.name().into(), protocol.name().into())
            }
            ServingMethod::Kernel(kernel) => {
                (b"SYMMETRIC".to_vec(), names.name_of_op(kernel).to_vec())
            }
            ServingMethod::CopyEngine => (b"COPY_ENGINE".to_vec(), Vec::new()),
        }
    }
}

/// A TUNING line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct TuningLine {
    /// The operation's number, if the line names one.
    pub op: Option<u32>,
    /// The bytes, as printed.
    pub bytes: u64,
    /// How the call is served.
    pub how: ServingMethod,
    /// Number of channels, if printed.
    pub channels: Option<u32>,
    /// The bytes are the caller's (NCCL 2.24 or newer).
    pub api: bool,
}

/// A call without its time and buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct TunedCall {
    /// The number of the member that made it.
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

/// Lines of a thread since its last burst.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct TuningBurst {
    /// Calls, with their number.
    pub calls: FxHashMap<TunedCall, u64>,
    /// TUNING lines, with their number.
    pub lines: FxHashMap<TuningLine, u64>,
}

/// Calls that a TUNING line fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct TuningFit {
    /// The call; the smallest of combined calls.
    pub made: TunedCall,
    /// Number of calls that one line serves.
    pub each: u64,
    /// Number of such sets of calls, at most the number of lines.
    pub times: u64,
}

/// A TUNING line of a burst, and the calls it may belong to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct TuningMatch {
    /// The line.
    pub line: TuningLine,
    /// Number of equal lines.
    pub lines: u64,
    /// The calls that fit.
    pub fit: Vec<TuningFit>,
}

impl TuningMatch {
    /// Returns the calls that may belong to the line: those by a rank 0 if ranks are known.
    pub(super) fn fits_by_rank_zero(&self, merged: &MergedMembers) -> Vec<&TuningFit> {
        let by = |first: Option<bool>| {
            let fit = self.fit.iter();
            fit.filter(move |fit| is_rank_zero(merged, fit.made.member) == first)
        };
        let sure = by(Some(true)).next().is_some();
        if sure { by(Some(true)) } else { by(None) }.collect()
    }
}

/// Returns whether a member is rank 0 of several ranks; `None` if its rank is unknown.
pub(super) fn is_rank_zero(merged: &MergedMembers, member: u32) -> Option<bool> {
    let identity = merged.identity_of(merged.origins.members.get(member))?;
    Some(identity.rank == 0 && identity.nranks > 1)
}

impl TuningBurst {
    /// True if the next call begins a new burst.
    pub(crate) fn is_over(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Matches each line of the burst to the calls it may belong to. `kind` gives an operation's kind.
    pub(crate) fn match_lines(
        &self,
        kind: impl Fn(u32) -> OpKind,
    ) -> impl Iterator<Item = TuningMatch> {
        let put_together = if self.lines.keys().any(|line| !line.api) {
            self.combine_calls(&kind)
        } else {
            BTreeSet::new()
        };
        self.lines.iter().map(move |(&line, &lines)| {
            let named = |made: &TunedCall| line.op.is_none_or(|op| op == made.op);
            let fits = |made: &TunedCall| {
                let is = printed_bytes(made, kind(made.op), line.api);
                named(made) && is == Some(line.bytes)
            };
            let single = self.calls.iter().filter(|(made, _)| fits(made));
            let mut fit: Vec<TuningFit> = single
                .map(|(&made, &n)| TuningFit {
                    made,
                    each: 1,
                    times: n.min(lines),
                })
                .collect();
            if fit.is_empty() && !line.api {
                let of = put_together.iter();
                let of = of.filter(|of| named(&of.made) && of.bytes == line.bytes);
                fit.extend(of.map(|of| TuningFit {
                    made: of.made,
                    each: of.each,
                    times: 1,
                }));
            }
            fit.sort_unstable();
            TuningMatch { line, lines, fit }
        })
    }

    /// Returns the calls that a line of `bytes` serves if it fits `fit`.
    pub(crate) fn calls_served_by(
        &self,
        fit: &TuningFit,
        bytes: u64,
        kind: impl Fn(u32) -> OpKind,
    ) -> Vec<TunedCall> {
        if fit.each == 1 {
            return vec![fit.made];
        }
        let all = self.combine_calls(&kind).into_iter();
        let of = |of: &CombinedCalls| (of.made, of.each, of.bytes) == (fit.made, fit.each, bytes);
        all.filter(of).flat_map(|of| of.all).collect()
    }

    /// Lists sets of calls that NCCL up to 2.23 may have combined.
    fn combine_calls(&self, kind: &impl Fn(u32) -> OpKind) -> BTreeSet<CombinedCalls> {
        // Calls by member, operation and datatype, the smallest first.
        let mut classes: BTreeMap<(u32, u32, u32), Vec<EqualCallBytes>> = BTreeMap::new();
        for (&made, &n) in &self.calls {
            let Some(bytes) = printed_bytes(&made, kind(made.op), false) else {
                continue;
            };
            let class = (made.member, made.op, made.datatype);
            classes
                .entry(class)
                .or_default()
                .push(EqualCallBytes { bytes, made, n });
        }
        let mut sums = BTreeSet::new();
        for class in classes.values_mut() {
            class.sort_unstable();
            sums.extend(combine_equal_calls(class));
            // Runs of calls within four times the bytes of the first one.
            let mut rest = &class[..];
            while let Some(first) = rest.first() {
                let most = first.bytes.saturating_mul(4);
                let (run, more) = rest.split_at(rest.partition_point(|of| of.bytes < most).max(1));
                sums.extend(combine_equal_calls(run));
                rest = more;
            }
        }
        sums
    }
}

/// Several calls that one line may serve.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct CombinedCalls {
    /// The smallest call.
    made: TunedCall,
    /// Number of calls.
    each: u64,
    /// Sum of their bytes.
    bytes: u64,
    /// The distinct calls.
    all: Vec<TunedCall>,
}

/// Equal calls, and the bytes of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EqualCallBytes {
    bytes: u64,
    made: TunedCall,
    n: u64,
}

/// Combines several calls; `None` for a single one.
fn combine_equal_calls(calls: &[EqualCallBytes]) -> Option<CombinedCalls> {
    let first = calls.first()?;
    let (mut each, mut bytes) = (0_u64, 0_u64);
    for of in calls {
        each = each.checked_add(of.n)?;
        bytes = bytes.checked_add(of.bytes.checked_mul(of.n)?)?;
    }
    (each > 1).then(|| CombinedCalls {
        made: first.made,
        each,
        bytes,
        all: calls.iter().map(|of| of.made).collect(),
    })
}

/// Returns the bytes that a TUNING line prints for a call.
fn printed_bytes(made: &TunedCall, kind: OpKind, api: bool) -> Option<u64> {
    let size = Datatype(made.datatype).size()?;
    let passed = u128::from(made.count) * u128::from(size);
    let bytes = match (kind, api) {
        (OpKind::PointToPoint, _) => return None,
        (OpKind::PerRank, false) => ByteBasis::Message.bytes_on_basis(kind, passed, made.nranks)?,
        _ => passed,
    };
    u64::try_from(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_the_calls_of_its_operation_and_bytes() {
        let made = |op, count, nranks| TunedCall {
            member: 0,
            op,
            count,
            datatype: 7,
            nranks: Some(nranks),
        };
        let line = |op, bytes, api| TuningLine {
            op,
            bytes,
            how: ServingMethod::By(Algorithm::Ring, Protocol::Ll),
            channels: None,
            api,
        };
        // Operation 0 is AllReduce, 1 is AllGather.
        let kind = |op| {
            if op == 0 {
                OpKind::AllReduce
            } else {
                OpKind::PerRank
            }
        };
        let fit = |line: TuningLine| {
            let mut burst = TuningBurst::default();
            burst.calls.insert(made(0, 256, 4), 3);
            burst.calls.insert(made(1, 64, 4), 1);
            burst.lines.insert(line, 2);
            let mut matches = burst.match_lines(kind);
            let got = matches.next().unwrap().fit;
            got.iter()
                .map(|fit| (fit.made.op, fit.times))
                .collect::<Vec<_>>()
        };
        assert_eq!(fit(line(Some(0), 1024, true)), [(0, 2)]);
        assert_eq!(fit(line(Some(1), 256, true)), [(1, 1)]);
        assert_eq!(fit(line(Some(1), 1024, false)), [(1, 1)]);
        assert_eq!(fit(line(None, 1024, false)), [(0, 2), (1, 1)]);
        assert_eq!(fit(line(None, 1024, true)), [(0, 2)]);
        assert_eq!(fit(line(None, 77, true)), []);
    }

    #[test]
    fn a_line_of_several_calls_has_their_bytes_together() {
        let made = |member, count| TunedCall {
            member,
            op: 0,
            count,
            datatype: 7,
            nranks: Some(4),
        };
        let mut burst = TuningBurst::default();
        burst.calls.insert(made(0, 256), 2);
        burst.calls.insert(made(0, 512), 1);
        burst.calls.insert(made(0, 4096), 1);
        burst.calls.insert(made(1, 100), 1);
        let mut fit = |bytes: u64, api: bool| {
            burst.lines.clear();
            let how = ServingMethod::By(Algorithm::Ring, Protocol::Ll);
            let line = TuningLine {
                op: None,
                bytes,
                how,
                channels: None,
                api,
            };
            burst.lines.insert(line, 1);
            let mut matches = burst.match_lines(|_| OpKind::AllReduce);
            let got = matches.next().unwrap().fit;
            got.iter()
                .map(|fit| (fit.made.count, fit.each, fit.times))
                .collect::<Vec<_>>()
        };
        // Within four times the smallest; all of them; one alone; none of these; since 2.24.
        assert_eq!(fit(4 * 1024, false), [(256, 3, 1)]);
        assert_eq!(fit(4 * 5120, false), [(256, 4, 1)]);
        assert_eq!(fit(4 * 4096, false), [(4096, 1, 1)]);
        assert_eq!(fit(4 * 4608, false), []);
        assert_eq!(fit(4 * 1024, true), []);
    }
}
