//! The arguments of an event, among them those of a collective, which PyTorch passes to its profiler
//! (`torch/csrc/profiler/util.cpp`, versions 2.1 to 2.11).

use super::header::KinetoHeader;
use super::json::{JsonCursor, parse_number, text_of_value};
use crate::formats::flight::{self, FlightOp};
use crate::grammar::kernel::op_of_kernel;
use crate::grammar::values::Datatype;

/// The arguments that are read, as they are written; empty if missing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KinetoArgs<'b> {
    pub(super) device: &'b [u8],
    pub(super) stream: &'b [u8],
    pub(super) correlation: &'b [u8],
    pub(super) bytes: &'b [u8],
    pub(super) external: &'b [u8],
    pub(super) from: &'b [u8],
    pub(super) to: &'b [u8],
    pub(super) grid: &'b [u8],
    pub(super) block: &'b [u8],
    name: &'b [u8],
    sent: &'b [u8],
    received: &'b [u8],
    size: &'b [u8],
    dtype: &'b [u8],
    group: &'b [u8],
    desc: &'b [u8],
    ranks: &'b [u8],
    sent_parts: &'b [u8],
    received_parts: &'b [u8],
    seq: &'b [u8],
    rank: &'b [u8],
    source: &'b [u8],
    target: &'b [u8],
}

impl<'b> KinetoArgs<'b> {
    /// Reads the bytes of an object, or of nothing.
    pub(super) fn parse(args: &'b [u8]) -> KinetoArgs<'b> {
        let mut of = KinetoArgs::default();
        let mut cursor = JsonCursor::new(args, 0);
        // They were checked with their event.
        let _ = cursor.pass_members(|key, value| {
            *match key {
                b"device" => &mut of.device,
                b"stream" => &mut of.stream,
                b"correlation" => &mut of.correlation,
                b"bytes" => &mut of.bytes,
                b"External id" => &mut of.external,
                b"fromDevice" => &mut of.from,
                b"toDevice" => &mut of.to,
                b"grid" => &mut of.grid,
                b"block" => &mut of.block,
                b"Collective name" => &mut of.name,
                b"In msg nelems" => &mut of.sent,
                b"Out msg nelems" => &mut of.received,
                b"Group size" => &mut of.size,
                b"dtype" => &mut of.dtype,
                b"Process Group Name" => &mut of.group,
                b"Process Group Description" => &mut of.desc,
                b"Process Group Ranks" => &mut of.ranks,
                b"In split size" => &mut of.sent_parts,
                b"Out split size" => &mut of.received_parts,
                b"Seq" => &mut of.seq,
                b"Rank" => &mut of.rank,
                b"Src Rank" => &mut of.source,
                b"Dst Rank" => &mut of.target,
                _ => return,
            } = value;
        });
        of
    }

    /// Returns true if they describe a collective.
    pub(super) fn has_collective(&self) -> bool {
        !self.name.is_empty()
    }

    /// Reads the call, for the process of this header; `None` if it is no call of NCCL, as `wait`.
    pub(super) fn parse_call(&self, header: &KinetoHeader) -> Option<KinetoCallArgs> {
        let name = text_of_value(self.name)?;
        let name = std::str::from_utf8(&name).ok()?;
        let kind = match name {
            "send" => KinetoCallKind::Send,
            "recv" => KinetoCallKind::Recv,
            // Their kernels are those of the calls in them.
            "wait" | "init" | "broadcastUniqueNCCLID" | "startCoalescing" | "endCoalescing" => {
                return None;
            }
            name => match flight::find_op(name) {
                FlightOp::Collective(op) => KinetoCallKind::Collective(op),
                _ => KinetoCallKind::Other(name.into()),
            },
        };
        let group: Box<[u8]> = text_of_value(self.group).unwrap_or_default().into();
        let known = header.groups.get(&group);
        let of_header = || known.map(|group| group.desc.clone());
        let desc = text_of_value(self.desc).map(|desc| desc.into());
        let desc: Box<[u8]> = desc.or_else(of_header).unwrap_or_default();
        // Long lists are abridged, but not in the header.
        let of_header = || known.and_then(|group| group.ranks.clone());
        let ranks = parse_list(self.ranks).or_else(of_header);
        let nranks = parse_number(self.size)
            .and_then(|n| u32::try_from(n).ok())
            .filter(|&n| n > 0);
        let place = |rank: u32| {
            let at = ranks.as_ref()?.iter().position(|&r| r == i64::from(rank))?;
            u32::try_from(at).ok()
        };
        let said = parse_number(self.rank).and_then(|n| u32::try_from(n).ok());
        let peer = |rank| {
            parse_number(rank)
                .and_then(|n| u32::try_from(n).ok())
                .and_then(place)
        };
        let root = match kind {
            // In the record of a call `Rank` is the root or peer.
            KinetoCallKind::Collective("Broadcast" | "Reduce" | "Gather" | "Scatter") => said,
            KinetoCallKind::Send => peer(self.target).or(said),
            KinetoCallKind::Recv => peer(self.source).or(said),
            _ => None,
        };
        let (count, mut datatype, mut limit) = self.count_elements(&kind, name, nranks);
        let parts = match limit {
            SizeLimit::Uneven => self.parse_parts(nranks).unwrap_or_default(),
            _ => Box::default(),
        };
        if !parts.is_empty() {
            (datatype, limit) = (self.parse_datatype(), SizeLimit::Sends);
        }
        Some(KinetoCallArgs {
            kind,
            count,
            datatype,
            limit,
            rank: header.rank.and_then(place),
            nranks,
            root,
            group,
            desc,
            parts,
            seq: parse_number(self.seq).and_then(|n| n.checked_sub(1)),
        })
    }

    fn parse_datatype(&self) -> Option<Datatype> {
        let name = text_of_value(self.dtype)?;
        std::str::from_utf8(&name)
            .ok()
            .and_then(flight::find_datatype)
    }

    /// Counts the elements to and from each rank: tensors are split into rows of one size.
    fn parse_parts(&self, nranks: Option<u32>) -> Option<Box<[(u64, u64)]>> {
        let n = usize::try_from(nranks?).ok()?;
        let elements = |parts: &[u8], all: &[u8]| -> Option<Vec<u64>> {
            let parts: Option<Vec<u64>> = parse_list(parts)?
                .into_iter()
                .map(|n| n.try_into().ok())
                .collect();
            let (parts, all) = (parts.filter(|parts| parts.len() == n)?, parse_number(all)?);
            let rows = parts.iter().try_fold(0_u64, |sum, n| sum.checked_add(*n))?;
            if rows == 0 {
                return (all == 0).then_some(parts);
            }
            let size = (all % rows == 0).then_some(all / rows)?;
            Some(parts.into_iter().map(|rows| rows * size).collect())
        };
        let sent = elements(self.sent_parts, self.sent)?;
        let received = elements(self.received_parts, self.received)?;
        Some(sent.into_iter().zip(received).collect())
    }

    /// Returns the count that NCCL gets, the type, and how far both are known.
    fn count_elements(
        &self,
        kind: &KinetoCallKind,
        name: &str,
        nranks: Option<u32>,
    ) -> (Option<u64>, Option<Datatype>, SizeLimit) {
        let (sent, received) = (parse_number(self.sent), parse_number(self.received));
        let datatype = self.parse_datatype();
        let known =
            |count: Option<u64>, limit| (count, datatype.filter(|_| count.is_some()), limit);
        match kind {
            // An AllReduce of one element; its type depends on the version.
            _ if name == "barrier" => (Some(1), None, SizeLimit::Barrier),
            KinetoCallKind::Recv => known(received, SizeLimit::None),
            KinetoCallKind::Collective("ReduceScatter" | "Scatter")
                if name.ends_with("_coalesced") =>
            {
                known(received, SizeLimit::Coalesced)
            }
            KinetoCallKind::Collective("ReduceScatter" | "Scatter") => {
                known(received, SizeLimit::None)
            }
            KinetoCallKind::Collective("AlltoAll") => {
                let n = nranks.map(u64::from);
                let is_even = is_even(self.sent_parts) && is_even(self.received_parts);
                match (sent, n) {
                    (Some(sent), Some(n)) if is_even && sent % n == 0 => {
                        known(Some(sent / n), SizeLimit::Parts)
                    }
                    // NCCL has no single count for parts of different sizes.
                    _ => (sent, None, SizeLimit::Uneven),
                }
            }
            _ if name.ends_with("_coalesced") => known(sent, SizeLimit::Coalesced),
            _ => known(sent, SizeLimit::None),
        }
    }
}

/// The operation of a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum KinetoCallKind {
    /// A collective, as NCCL names it.
    Collective(&'static str),
    Send,
    Recv,
    /// A name that is not known, as PyTorch has it.
    Other(Box<str>),
}

impl KinetoCallKind {
    pub(super) fn name(&self) -> &str {
        match self {
            KinetoCallKind::Collective(name) => name,
            KinetoCallKind::Send => "Send",
            KinetoCallKind::Recv => "Recv",
            KinetoCallKind::Other(name) => name,
        }
    }
}

/// How far the sizes of a call are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum SizeLimit {
    None,
    /// One tensor, assumed to be split equally, as PyTorch does without split sizes.
    Parts,
    /// Parts of different sizes, which are unknown.
    Uneven,
    /// Parts of different sizes: a Send and a Recv for each rank.
    Sends,
    /// One row for all tensors.
    Coalesced,
    Barrier,
    /// The trace has no arguments of calls: only a kernel's name is known.
    KernelName,
}

/// The arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct KinetoCallArgs {
    pub(super) kind: KinetoCallKind,
    pub(super) count: Option<u64>,
    pub(super) datatype: Option<Datatype>,
    pub(super) limit: SizeLimit,
    pub(super) rank: Option<u32>,
    pub(super) nranks: Option<u32>,
    pub(super) root: Option<u32>,
    /// The name of the process group.
    pub(super) group: Box<[u8]>,
    /// The program's name for it.
    pub(super) desc: Box<[u8]>,
    /// PyTorch's number of the call, from 0.
    pub(super) seq: Option<u64>,
    /// Of [`SizeLimit::Sends`]: the elements to and from each rank.
    pub(super) parts: Box<[(u64, u64)]>,
}

impl KinetoCallArgs {
    /// Returns what the name of one of NCCL's kernels shows.
    pub(super) fn from_kernel_name(name: &[u8]) -> Option<KinetoCallArgs> {
        let name = text_of_value(name)?;
        let op = op_of_kernel(&name)?;
        Some(KinetoCallArgs {
            kind: KinetoCallKind::Other(String::from_utf8_lossy(op).into()),
            count: None,
            datatype: None,
            limit: SizeLimit::KernelName,
            rank: None,
            nranks: None,
            root: None,
            group: Box::default(),
            desc: Box::default(),
            seq: None,
            parts: Box::default(),
        })
    }
}

/// Reads a list of numbers, or a text with one: `"[0, 1]"`. `None` if it is abridged: `[0, 1, ...]`.
fn parse_list(value: &[u8]) -> Option<Vec<i64>> {
    let inner = text_of_value(value);
    serde_json::from_slice(inner.as_deref().unwrap_or(value)).ok()
}

/// Returns true if the parts of a tensor are equal: a trace then leaves them out or lists equal ones.
fn is_even(parts: &[u8]) -> bool {
    if parts.is_empty() {
        return true;
    }
    parse_list(parts).is_some_and(|parts| parts.windows(2).all(|two| two[0] == two[1]))
}
