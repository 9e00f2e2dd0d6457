//! What PyTorch's names of calls are to NCCL. The names are those that `ProcessGroupNCCL` gives its
//! profiler and the recorder.

use super::entry::{Entry, Op, State};
use crate::grammar::values::Datatype;
use rustc_hash::FxHashMap;

/// PyTorch's names and NCCL's: those of the recorder, and behind them those that only the profiler's
/// records of parameters have. A barrier is an AllReduce of one element.
const COLLECTIVES: [(&str, &str); 30] = [
    ("all_reduce", "AllReduce"),
    ("all_reduce_barrier", "AllReduce"),
    ("allreduce_coalesced", "AllReduce"),
    ("broadcast", "Broadcast"),
    ("_broadcast_oop", "Broadcast"),
    ("reduce", "Reduce"),
    ("_reduce_oop", "Reduce"),
    ("all_gather", "AllGather"),
    ("_all_gather_base", "AllGather"),
    ("all_gather_single", "AllGather"),
    ("all_gather_into_tensor", "AllGather"),
    ("all_gather_into_tensor_coalesced", "AllGather"),
    ("reduce_scatter", "ReduceScatter"),
    ("_reduce_scatter_base", "ReduceScatter"),
    ("reduce_scatter_single", "ReduceScatter"),
    ("reduce_scatter_tensor", "ReduceScatter"),
    ("reduce_scatter_tensor_coalesced", "ReduceScatter"),
    ("all_to_all", "AlltoAll"),
    ("all_to_all_single", "AlltoAll"),
    ("all_to_all_v_single", "AlltoAll"),
    ("alltoall", "AlltoAll"),
    ("alltoall_base", "AlltoAll"),
    ("gather", "Gather"),
    ("scatter", "Scatter"),
    ("allreduce", "AllReduce"),
    ("barrier", "AllReduce"),
    ("_allgather_base", "AllGather"),
    ("allgather_coalesced", "AllGather"),
    ("allgather_into_tensor_coalesced", "AllGather"),
    ("all_to_allv", "AlltoAll"),
];

/// What a call of that name is.
pub fn op(name: &str) -> Op {
    let name = match name.split_once(':') {
        Some(("nccl" | "rccl", name)) => name,
        Some(_) => return Op::Foreign,
        None => name,
    };
    // `coalesced`, `ALLGATHER_coalesced`, `REDUCE_SCATTER_coalesced`.
    let group = name.strip_suffix("_coalesced");
    let is_group = group.is_some_and(|of| of.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'));
    if name == "coalesced" || is_group {
        return Op::Coalesced;
    }
    if let Some((_, op)) = COLLECTIVES.iter().find(|(known, _)| *known == name) {
        return Op::Collective(op);
    }
    peers(name).unwrap_or(Op::Unknown)
}

/// `send 0->1`, `recv 1<-0`.
fn peers(name: &str) -> Option<Op> {
    let two = |text: &str, arrow| {
        let (a, b) = text.split_once(arrow)?;
        Some((a.parse().ok()?, b.parse().ok()?))
    };
    if let Some(text) = name.strip_prefix("send ") {
        return two(text, "->").map(|(from, to)| Op::Send { from, to });
    }
    let text = name.strip_prefix("recv ")?;
    two(text, "<-").map(|(to, from)| Op::Recv { to, from })
}

/// NCCL's type for PyTorch's: `getNcclDataType`. `None` for one that NCCL is given as another.
pub fn datatype(name: &str) -> Option<Datatype> {
    let name = match name {
        "Byte" | "Bool" => "uint8",
        "Char" => "int8",
        "Int" => "int32",
        "Long" => "int64",
        "Half" => "fp16",
        "Float" => "fp32",
        "Double" => "fp64",
        "BFloat16" => "bf16",
        "Float8_e4m3fn" => "fp8_e4m3",
        "Float8_e5m2" => "fp8_e5m2",
        _ => return None,
    };
    Datatype::from_name(name.as_bytes())
}

/// Tells each send and receive that is part of a coalesced group how far the group came. They come
/// before it, with the group's `p2p_seq_id`.
pub(super) fn coalesce(entries: &mut [Entry]) {
    let mut groups: FxHashMap<(u64, u64), State> = FxHashMap::default();
    for entry in entries.iter_mut().rev() {
        let key = (entry.pg_id, entry.p2p_seq);
        match entry.op {
            Op::Coalesced => _ = groups.insert(key, entry.state),
            Op::Send { .. } | Op::Recv { .. } => entry.coalesced = groups.get(&key).copied(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_nccl_calls_them() {
        assert_eq!(op("nccl:_all_gather_base"), Op::Collective("AllGather"));
        assert_eq!(op("nccl:all_reduce_barrier"), Op::Collective("AllReduce"));
        assert_eq!(op("nccl:send 0->11"), Op::Send { from: 0, to: 11 });
        assert_eq!(op("nccl:recv 3<-2"), Op::Recv { to: 3, from: 2 });
        assert_eq!(op("nccl:recv 3->2"), Op::Unknown);
        assert_eq!(op("nccl:coalesced"), Op::Coalesced);
        assert_eq!(op("nccl:REDUCE_SCATTER_coalesced"), Op::Coalesced);
        assert_eq!(op("gloo:all_reduce"), Op::Foreign);
        assert_eq!(op("nccl:all_reduce_sparse"), Op::Unknown);
        assert_eq!(
            datatype("BFloat16").map(|d| d.to_string()).as_deref(),
            Some("bf16")
        );
        assert_eq!(datatype("ComplexFloat"), None);
    }
}
