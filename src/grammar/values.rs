//! The words of a call: datatypes, reductions, and the bytes they represent.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An element type by NCCL's code (`ncclDataType_t` in `nccl.h.in`, 2.30).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Datatype(pub u32);

const DATATYPES: [(&str, u8); 12] = [
    ("int8", 1),
    ("uint8", 1),
    ("int32", 4),
    ("uint32", 4),
    ("int64", 8),
    ("uint64", 8),
    ("fp16", 2),
    ("fp32", 4),
    ("fp64", 8),
    ("bf16", 2),
    ("fp8_e4m3", 1),
    ("fp8_e5m2", 1),
];

impl Datatype {
    /// The type of a tally's code; `None` where no type is known.
    pub fn from_code(code: u64) -> Option<Datatype> {
        u32::try_from(code).ok().map(Datatype)
    }

    /// The type's name; `None` for a code this version does not know.
    pub fn name(self) -> Option<&'static str> {
        DATATYPES.get(self.0 as usize).map(|(name, _)| *name)
    }

    /// Bytes of one element; `None` for a code this version does not know.
    pub fn size(self) -> Option<u8> {
        DATATYPES.get(self.0 as usize).map(|(_, size)| *size)
    }

    /// The type of a name this crate prints, `bf16` or `type<12>`.
    pub fn from_name(name: &[u8]) -> Option<Datatype> {
        if let Some(at) = DATATYPES.iter().position(|(n, _)| n.as_bytes() == name) {
            return u32::try_from(at).ok().map(Datatype);
        }
        let code = name.strip_prefix(b"type<")?.strip_suffix(b">")?;
        match crate::token::dec_u32(code) {
            Ok((b"", code)) => Some(Datatype(code)),
            _ => None,
        }
    }
}

impl fmt::Display for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "type<{}>", self.0),
        }
    }
}

/// A reduction by NCCL's code (`ncclRedOp_t`); a user's own is a larger number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RedOp(pub u64);

const REDOPS: [&str; 5] = ["sum", "prod", "max", "min", "avg"];

impl RedOp {
    /// The reduction's name; `None` for a user's own.
    pub fn name(self) -> Option<&'static str> {
        usize::try_from(self.0)
            .ok()
            .and_then(|i| REDOPS.get(i))
            .copied()
    }

    /// The reduction of a name this crate prints, `sum` or `user<70>`.
    pub fn from_name(name: &[u8]) -> Option<RedOp> {
        if let Some(at) = REDOPS.iter().position(|n| n.as_bytes() == name) {
            return Some(RedOp(at as u64));
        }
        let code = name.strip_prefix(b"user<")?.strip_suffix(b">")?;
        match crate::token::dec_u64(code) {
            Ok((b"", code)) => Some(RedOp(code)),
            _ => None,
        }
    }
}

impl fmt::Display for RedOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "user<{}>", self.0),
        }
    }
}

/// What kind of operation a name is, as far as its numbers' meaning goes. RCCL's MSCCL++ names
/// (`mscclpp_ncclAllReduce`) mean the same as NCCL's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum OpKind {
    /// Every rank reduces and receives all.
    AllReduce,
    /// Every rank gives `count` to all, or takes `count` of the sum, or trades with all.
    PerRank,
    /// Every rank reduces, the root receives.
    Reduce,
    /// The root gives to all.
    Broadcast,
    /// The root receives from all, or gives each its own part.
    Rooted,
    /// One rank gives to another; `root` is the receiver.
    Send,
    /// One rank takes from another; `root` is the sender.
    Recv,
    /// `PutSignal`, `Signal` and `WaitSignal`: the other rank makes no call.
    OneSided,
    /// Names that this version does not know.
    Other,
}

impl OpKind {
    /// True for `Send` and `Recv`.
    pub fn is_message(self) -> bool {
        matches!(self, OpKind::Send | OpKind::Recv)
    }
}

/// The kind of the operation `name`.
pub fn op_kind(name: &[u8]) -> OpKind {
    match name.strip_prefix(b"mscclpp_nccl").unwrap_or(name) {
        b"AllReduce" => OpKind::AllReduce,
        b"AllGather" | b"ReduceScatter" | b"AlltoAll" => OpKind::PerRank,
        b"Reduce" => OpKind::Reduce,
        b"Broadcast" => OpKind::Broadcast,
        b"Gather" | b"Scatter" => OpKind::Rooted,
        b"Send" => OpKind::Send,
        b"Recv" => OpKind::Recv,
        b"PutSignal" | b"Signal" | b"WaitSignal" => OpKind::OneSided,
        _ => OpKind::Other,
    }
}

/// True for the names that NCCL 2.30 and RCCL print (`src/collectives.cc`, `src/rma`).
pub fn is_known_op(name: &[u8]) -> bool {
    op_kind(name) != OpKind::Other
}

/// True where the reduction printed with operation `name` means something.
pub fn has_redop(name: &[u8]) -> bool {
    matches!(op_kind(name), OpKind::AllReduce | OpKind::Reduce)
        || name.strip_prefix(b"mscclpp_nccl").unwrap_or(name) == b"ReduceScatter"
}

/// True where the root printed with operation `name` means something.
pub fn has_root(name: &[u8]) -> bool {
    !matches!(op_kind(name), OpKind::AllReduce | OpKind::PerRank)
}

/// Which bytes a number counts. Always named, never mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum ByteBasis {
    /// What the caller passed: count × element size.
    #[default]
    Api,
    /// The size nccl-tests reports: AllGather, ReduceScatter, AlltoAll, Gather and Scatter are
    /// × nranks.
    Message,
    /// What a rank moves at best: message × nccl-tests' bus-bandwidth factor (AllReduce
    /// 2(n−1)/n; AllGather, ReduceScatter, AlltoAll, Gather, Scatter (n−1)/n; others 1), rounded
    /// down to a whole byte for each call. Source: nccl-tests `doc/PERFORMANCE.md`.
    Wire,
}

impl ByteBasis {
    /// `api` bytes of one call of `op` on this basis; `None` where it takes the communicator's
    /// size and that is not known, or where the operation's own rule is not known.
    #[inline]
    pub fn bytes_on_basis(self, op: OpKind, api: u128, nranks: Option<u32>) -> Option<u128> {
        if self == ByteBasis::Api {
            return Some(api);
        }
        let n = || nranks.filter(|&n| n > 0).map(u128::from);
        match (self, op) {
            (_, OpKind::OneSided | OpKind::Other) => None,
            (ByteBasis::Message, OpKind::PerRank | OpKind::Rooted) => api.checked_mul(n()?),
            (ByteBasis::Wire, OpKind::PerRank | OpKind::Rooted) => api.checked_mul(n()? - 1),
            (ByteBasis::Wire, OpKind::AllReduce) => {
                let n = n()?;
                // 2^64 counts of 8 bytes by 2 × 2^32 ranks stay below 2^101.
                api.checked_mul(2 * (n - 1)).map(|bytes| bytes / n)
            }
            _ => Some(api),
        }
    }
}

/// A number of bytes as typed: `4096`, `64KB`, `1M`, `2GiB`; units of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub u128);

impl std::str::FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteSize, String> {
        let wrong = || format!("invalid size `{text}`; expected bytes or 64KB, 1MB, 2GB (of 1024)");
        let end = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let number: u64 = text[..end].parse().map_err(|_| wrong())?;
        let power = match text[end..].to_ascii_uppercase().as_str() {
            "" | "B" => 0,
            "K" | "KB" | "KIB" => 10,
            "M" | "MB" | "MIB" => 20,
            "G" | "GB" | "GIB" => 30,
            "T" | "TB" | "TIB" => 40,
            _ => return Err(wrong()),
        };
        Ok(ByteSize(u128::from(number) << power))
    }
}

impl ByteSize {
    /// The number of bytes, or the largest one that fits.
    pub fn bytes(self) -> u64 {
        u64::try_from(self.0).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_agree_both_ways() {
        for code in 0..14 {
            let name = Datatype(code).to_string();
            assert_eq!(Datatype::from_name(name.as_bytes()), Some(Datatype(code)));
            let name = RedOp(u64::from(code)).to_string();
            assert_eq!(
                RedOp::from_name(name.as_bytes()),
                Some(RedOp(u64::from(code)))
            );
        }
        assert_eq!(Datatype(12).to_string(), "type<12>");
        assert_eq!(Datatype(12).size(), None);
        assert_eq!(Datatype::from_name(b"float"), None);
    }

    #[test]
    fn the_three_bases_of_one_call() {
        let kinds = [
            OpKind::AllReduce,
            OpKind::PerRank,
            OpKind::Broadcast,
            OpKind::Send,
            OpKind::Recv,
        ];
        let of = |basis: ByteBasis| kinds.map(|k| basis.bytes_on_basis(k, 1000, Some(4)));
        assert_eq!(of(ByteBasis::Api), [Some(1000); 5]);
        assert_eq!(
            of(ByteBasis::Message),
            [Some(1000), Some(4000), Some(1000), Some(1000), Some(1000)]
        );
        assert_eq!(
            of(ByteBasis::Wire),
            [Some(1500), Some(3000), Some(1000), Some(1000), Some(1000)]
        );
        assert_eq!(
            ByteBasis::Wire.bytes_on_basis(OpKind::AllReduce, 10, Some(3)),
            Some(13)
        );
        assert_eq!(
            ByteBasis::Message.bytes_on_basis(OpKind::PerRank, 10, None),
            None
        );
        assert_eq!(
            ByteBasis::Wire.bytes_on_basis(OpKind::AllReduce, 10, Some(1)),
            Some(0)
        );
    }
}
