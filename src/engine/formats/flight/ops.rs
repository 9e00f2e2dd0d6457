//! PyTorch's names of calls as NCCL's operations. `ProcessGroupNCCL` gives these names to its profiler
//! and to the recorder.

use super::entry::{DumpEntry, FlightCallState, FlightOp};
use crate::grammar::values::Datatype;
use rustc_hash::FxHashMap;

/// PyTorch's names with NCCL's: first those of the recorder, then those that only the profiler's records
/// of parameters have. A barrier is an AllReduce of one element.
const TORCH_COLLECTIVES: [(&str, &str); 30] = [
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
pub fn find_op(name: &str) -> FlightOp {
    let name = match name.split_once(':') {
        Some(("nccl" | "rccl", name)) => name,
        Some(_) => return FlightOp::Foreign,
        None => name,
    };
    // `coalesced`, `ALLGATHER_coalesced`, `REDUCE_SCATTER_coalesced`.
    let group = name.strip_suffix("_coalesced");
    let is_group = group.is_some_and(|of| of.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'));
    if name == "coalesced" || is_group {
        return FlightOp::Coalesced;
    }
    if let Some((_, op)) = TORCH_COLLECTIVES.iter().find(|(known, _)| *known == name) {
        return FlightOp::Collective(op);
    }
    parse_peers(name).unwrap_or(FlightOp::Unknown)
}

/// `send 0->1`, `recv 1<-0`.
fn parse_peers(name: &str) -> Option<FlightOp> {
    let two = |text: &str, arrow| {
        let (a, b) = text.split_once(arrow)?;
        Some((a.parse().ok()?, b.parse().ok()?))
    };
    if let Some(text) = name.strip_prefix("send ") {
        return two(text, "->").map(|(from, to)| FlightOp::Send { from, to });
    }
    let text = name.strip_prefix("recv ")?;
    two(text, "<-").map(|(to, from)| FlightOp::Recv { to, from })
}

/// NCCL's type for PyTorch's: `getNcclDataType`. `None` for one that NCCL is given as another.
pub fn find_datatype(name: &str) -> Option<Datatype> {
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

/// Gives each send and receive of a coalesced group the group's state. They come before it, with
/// the group's `p2p_seq_id`.
pub(super) fn coalesce_entries(entries: &mut [DumpEntry]) {
    let mut groups: FxHashMap<(u64, u64), FlightCallState> = FxHashMap::default();
    for entry in entries.iter_mut().rev() {
        let key = (entry.pg_id, entry.p2p_seq);
        match entry.op {
            FlightOp::Coalesced => _ = groups.insert(key, entry.state),
            FlightOp::Send { .. } | FlightOp::Recv { .. } => {
                entry.coalesced = groups.get(&key).copied();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_nccl_calls_them() {
        assert_eq!(
            find_op("nccl:_all_gather_base"),
            FlightOp::Collective("AllGather")
        );
        assert_eq!(
            find_op("nccl:all_reduce_barrier"),
            FlightOp::Collective("AllReduce")
        );
        assert_eq!(
            find_op("nccl:send 0->11"),
            FlightOp::Send { from: 0, to: 11 }
        );
        assert_eq!(find_op("nccl:recv 3<-2"), FlightOp::Recv { to: 3, from: 2 });
        assert_eq!(find_op("nccl:recv 3->2"), FlightOp::Unknown);
        assert_eq!(find_op("nccl:coalesced"), FlightOp::Coalesced);
        assert_eq!(
            find_op("nccl:REDUCE_SCATTER_coalesced"),
            FlightOp::Coalesced
        );
        assert_eq!(find_op("gloo:all_reduce"), FlightOp::Foreign);
        assert_eq!(find_op("nccl:all_reduce_sparse"), FlightOp::Unknown);
        assert_eq!(
            find_datatype("BFloat16").map(|d| d.to_string()).as_deref(),
            Some("bf16")
        );
        assert_eq!(find_datatype("ComplexFloat"), None);
    }
}
