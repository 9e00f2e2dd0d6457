//! Names that NCCL gives to operations, types, algorithms and protocols, as numbers.
//!
//! The source of each is `src/collectives.cc` of NCCL 2.30 (`ncclFuncToString` and its neighbours); the numbers of
//! version 1 of the profiler's interface are of `src/include/nccl_common.h` of NCCL 2.23.

/// The number of a name that is not in a list.
pub const UNKNOWN: u8 = u8::MAX;

/// Operations. The number in a file is the place here, so new ones go last.
pub const OPS: [&str; 15] = [
    "Broadcast",
    "Reduce",
    "AllGather",
    "ReduceScatter",
    "AllReduce",
    "SendRecv",
    "Send",
    "Recv",
    "AlltoAll",
    "Scatter",
    "Gather",
    "AllGatherV",
    "PutSignal",
    "Signal",
    "WaitSignal",
];

/// Types of elements, at the place of NCCL's own number (`ncclDataType_t` of `nccl.h`).
pub const DATATYPES: [&str; 12] = [
    "ncclInt8",
    "ncclUint8",
    "ncclInt32",
    "ncclUint32",
    "ncclInt64",
    "ncclUint64",
    "ncclFloat16",
    "ncclFloat32",
    "ncclFloat64",
    "ncclBfloat16",
    "ncclFloat8e4m3",
    "ncclFloat8e5m2",
];

/// Algorithms, at the place of NCCL's own number (`NCCL_ALGO_TREE` and so on); the last is of calls by copy engine.
pub const ALGOS: [&str; 8] = [
    "TREE",
    "RING",
    "COLLNET_DIRECT",
    "COLLNET_CHAIN",
    "NVLS",
    "NVLS_TREE",
    "PAT",
    "CE",
];

/// Protocols, at the place of NCCL's own number.
pub const PROTOS: [&str; 3] = ["LL", "LL128", "SIMPLE"];

/// The number of `SendRecv` in [`OPS`]: it, `Send` and `Recv` are messages, the others collectives or one-sided.
const SEND_RECV: u8 = 5;

/// Returns the number of a name, [`UNKNOWN`] if the list lacks it.
pub fn find_number(list: &[&str], name: &[u8]) -> u8 {
    let found = list.iter().position(|known| known.as_bytes() == name);
    found
        .and_then(|at| u8::try_from(at).ok())
        .unwrap_or(UNKNOWN)
}

/// Returns the name of a number; empty if there is none.
pub fn find_name(list: &'static [&'static str], number: u8) -> &'static str {
    list.get(usize::from(number)).copied().unwrap_or("")
}

/// Returns true for Send, Recv and SendRecv: their number differs by rank, so that they count apart.
pub fn is_message(op: u8) -> bool {
    (SEND_RECV..=SEND_RECV + 2).contains(&op)
}
