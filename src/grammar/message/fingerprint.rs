//! Calls in which ranks differ, as PyTorch's `ProcessGroupWrapper` reports them under `TORCH_DISTRIBUTED_DEBUG=DETAIL`.
//!
//! ```text
//! RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint(
//! SequenceNumber=3104, OpType=ALLREDUCE, TensorShape=[195], TensorDtypes=BFloat16, ...), but Rank 0 is running collective:
//! CollectiveFingerPrint(SequenceNumber=3104, OpType=ALLREDUCE, TensorShape=[51], ...).Collectives differ in the following
//! ... Rank 2 is running collective: CollectiveFingerPrint(SequenceNumber=0OpType=BARRIER)      calls without a tensor
//! ... Rank 0 is running inconsistent collective: CollectiveFingerPrint(OpType=BROADCAST, ...   1.10 to 1.12
//! ```
//!
//! From `torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp`.

use super::group_member::{GroupMember, find_group_member};
use crate::token::{dec_u32, dec_u64};
use memchr::memmem;

/// Two ranks with different calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DifferingCalls<'a> {
    /// The member that printed the line.
    pub who: GroupMember<'a>,
    /// A rank of the process group and its call.
    pub one: RankCall<'a>,
    /// Another rank's; old versions do not print it, and a line may be cut before it.
    pub other: Option<RankCall<'a>>,
}

/// A rank's call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankCall<'a> {
    /// The rank in the process group.
    pub rank: u32,
    /// The call's number; printed since 1.13.
    pub seq: Option<u64>,
    /// `ALLREDUCE`; empty if the line is cut before it.
    pub op: &'a [u8],
    /// `195, 16`, the sizes of the first tensor.
    pub shape: Option<&'a [u8]>,
    /// `BFloat16`.
    pub datatype: Option<&'a [u8]>,
}

/// The name of a call's description.
pub(super) const FINGERPRINT: &[u8] = b"CollectiveFingerPrint(";
const MISMATCH: &[u8] = b"mismatch between collectives on ranks";

/// A line that reports a difference, wherever it begins.
pub(super) fn parse_differing_calls(line: &[u8]) -> Option<DifferingCalls<'_>> {
    let at = memmem::find(line, MISMATCH)?;
    let text = &line[at + MISMATCH.len()..];
    let (one, rest) = parse_rank_call(text)?;
    Some(DifferingCalls {
        who: find_group_member(&line[..at]),
        one,
        other: parse_rank_call(rest).map(|(call, _)| call),
    })
}

/// The next rank with its call, and the text after its first bytes.
fn parse_rank_call(text: &[u8]) -> Option<(RankCall<'_>, &[u8])> {
    let print = memmem::find(text, FINGERPRINT)?;
    let rank = memmem::rfind(&text[..print], b"Rank ")? + b"Rank ".len();
    let (rest, rank) = dec_u32(&text[rank..]).ok()?;
    rest.starts_with(b" is running ").then_some(())?;
    let rest = &text[print + FINGERPRINT.len()..];
    let own = &rest[..memmem::find(rest, b", but Rank ").unwrap_or(rest.len())];
    let field = |name: &[u8], ends: &[u8]| {
        let value = &own[memmem::find(own, name)? + name.len()..];
        let end = value.iter().position(|b| ends.contains(b))?;
        Some(&value[..end])
    };
    let seq = memmem::find(own, b"SequenceNumber=").map(|at| &own[at + b"SequenceNumber=".len()..]);
    let call = RankCall {
        rank,
        seq: seq.and_then(|text| Some(dec_u64(text).ok()?.1)),
        op: field(b"OpType=", b",)").unwrap_or_default(),
        shape: field(b"TensorShape=[", b"]"),
        datatype: field(b"TensorDtypes=", b",)"),
    };
    Some((call, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ranks_have_their_calls() {
        let text = b"[rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: \
            CollectiveFingerPrint(SequenceNumber=7, OpType=ALLREDUCE, TensorShape=[19, 3], TensorDtypes=Float, TensorDeviceTypes=\
            TensorOptions(dtype=float (default))), but Rank 4 is running collective: CollectiveFingerPrint(SequenceNumber=0\
            OpType=REDUCE).Collectives differ in the following aspects: Op type: ALLREDUCEvs REDUCE";
        let got = parse_differing_calls(text).unwrap();
        assert_eq!(got.who.global, Some(1));
        let one = RankCall {
            rank: 1,
            seq: Some(7),
            op: b"ALLREDUCE",
            shape: Some(b"19, 3"),
            datatype: Some(b"Float"),
        };
        let other = RankCall {
            rank: 4,
            seq: Some(0),
            op: b"REDUCE",
            shape: None,
            datatype: None,
        };
        assert_eq!((got.one, got.other), (one, Some(other)));
    }

    #[test]
    fn a_line_may_have_one_rank_or_be_cut() {
        let text = b"Detected mismatch between collectives on ranks. Rank 3 is running inconsistent collective: \
            CollectiveFingerPrint(OpType=BROADCAST, TensorShape=[34112], TensorDtypes=Float, Tens";
        let got = parse_differing_calls(text).unwrap();
        assert_eq!((got.one.rank, got.one.op), (3, &b"BROADCAST"[..]));
        assert_eq!((got.one.seq, got.other), (None, None));
        assert_eq!(parse_differing_calls(&text[..70]), None);
        assert_eq!(
            parse_differing_calls(
                b"[Rank 0] Running collective: CollectiveFingerPrint(OpType=REDUCE)"
            ),
            None
        );
    }
}
