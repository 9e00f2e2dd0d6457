//! The distinct calls as command lines of nccl-tests, which measures each alone on the same machines.
//!
//! Options and names are those of nccl-tests 2.17 (`src/common.cu`). Its sizes are those of
//! [`ByteBasis::Message`]: of an AllGather or ReduceScatter all ranks' elements together. It rounds these
//! down to 16 bytes a rank.

use super::Options;
use crate::count::calls::CountedCalls;
use crate::count::groups::GroupedCalls;
use crate::count::tally::{self, SizeKey};
use crate::grammar::values::{ByteBasis, Datatype, RedOp, has_redop, has_root, op_kind};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Returns the tally of the tests.
pub fn nccl_tests_tally(options: &Options) -> tally::Options {
    tally::Options {
        sizing: SizeKey::Count,
        exact: true,
        members: false,
        ..options.tally()
    }
}

/// A test: what is the same in calls that are one line.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NcclTest {
    op: &'static str,
    bytes: u128,
    datatype: &'static str,
    redop: Option<&'static str>,
    root: Option<i64>,
    nranks: u32,
}

/// The program of an operation. Of Send and Recv the Sends are taken.
fn test_program(op: &[u8]) -> Option<&'static str> {
    Some(match op {
        b"AllReduce" => "all_reduce_perf",
        b"AllGather" => "all_gather_perf",
        b"ReduceScatter" => "reduce_scatter_perf",
        b"Broadcast" => "broadcast_perf",
        b"Reduce" => "reduce_perf",
        b"AlltoAll" => "alltoall_perf",
        b"Gather" => "gather_perf",
        b"Scatter" => "scatter_perf",
        b"Send" => "sendrecv_perf",
        _ => return None,
    })
}

/// The name of a type there.
fn test_datatype(of: Datatype) -> Option<&'static str> {
    Some(match of.name()? {
        "fp16" => "half",
        "fp32" => "float",
        "fp64" => "double",
        "bf16" => "bfloat16",
        "fp8_e4m3" => "f8e4m3",
        "fp8_e5m2" => "f8e5m2",
        integer @ ("int8" | "uint8" | "int32" | "uint32" | "int64" | "uint64") => integer,
        _ => return None,
    })
}

fn test_redop(code: u64) -> Option<&'static str> {
    Some(match &*RedOp(code).to_string() {
        "sum" => "sum",
        "prod" => "prod",
        "max" => "max",
        "min" => "min",
        "avg" => "avg",
        _ => return None,
    })
}

/// A command line for each distinct call, most bytes first; `-n` is how often each rank made it. What
/// nccl-tests cannot do is counted in comments.
pub fn write_test_commands(calls: &CountedCalls, options: &Options) -> Vec<u8> {
    let groups = GroupedCalls::new(calls, &options.by, |key| {
        (key.size, key.datatype, key.nranks.into())
    });
    let mut tests: BTreeMap<NcclTest, u64> = BTreeMap::new();
    let mut others: BTreeMap<String, u64> = BTreeMap::new();
    for part in groups.split_parts() {
        let part = groups.take_part(part);
        for entry in part.iter_groups().flatten() {
            let (key, op) = (part.key_of(entry), part.op_name(entry));
            let n = entry.value.calls;
            let (_, api) = key.elements_and_bytes();
            let nranks = (key.nranks > 0).then_some(key.nranks);
            let of = || {
                let basis = ByteBasis::Message;
                let reduces = has_redop(op);
                Some(NcclTest {
                    op: test_program(op)?,
                    bytes: basis.bytes_on_basis(op_kind(op), api?, nranks)?,
                    datatype: test_datatype(Datatype::from_code(key.datatype)?)?,
                    redop: if reduces {
                        Some(test_redop(key.redop)?)
                    } else {
                        None
                    },
                    root: Some(key.root).filter(|_| has_root(op) && op != b"Send"),
                    nranks: nranks?,
                })
            };
            let (all, n) = match of() {
                Some(test) => (tests.entry(test).or_default(), n),
                None if op == b"Recv" => continue,
                None => (
                    others
                        .entry(String::from_utf8_lossy(op).into_owned())
                        .or_default(),
                    n,
                ),
            };
            *all = all.saturating_add(n);
        }
    }
    let mut lines: Vec<(NcclTest, u64)> = tests.into_iter().collect();
    let weight = |(test, n): &(NcclTest, u64)| test.bytes.saturating_mul(u128::from(*n));
    lines.sort_by(|a, b| weight(b).cmp(&weight(a)).then_with(|| a.0.cmp(&b.0)));
    let mut out = String::new();
    for (test, n) in &lines {
        let each = n.div_ceil(u64::from(test.nranks.max(1)));
        // Writing to memory does not fail.
        let _ = write!(
            out,
            "mpirun -np {} {} -g 1 -b {bytes} -e {bytes} -d {}",
            test.nranks,
            test.op,
            test.datatype,
            bytes = test.bytes
        );
        if let Some(redop) = test.redop {
            let _ = write!(out, " -o {redop}");
        }
        if let Some(root) = test.root {
            let _ = write!(out, " -r {root}");
        }
        let _ = writeln!(out, " -n {each} # {n} calls");
    }
    for (op, n) in &others {
        let op = crate::report::escape_for_terminal(op, false);
        let _ = writeln!(out, "# no test: {n} calls of {op}");
    }
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_nccl_tests() {
        let of = |name: &str| test_datatype(Datatype::from_name(name.as_bytes()).unwrap());
        assert_eq!(of("bf16"), Some("bfloat16"));
        assert_eq!(of("uint8"), Some("uint8"));
        assert_eq!(of("fp8_e5m2"), Some("f8e5m2"));
        assert_eq!(test_datatype(Datatype(17)), None);
        assert_eq!(
            (test_redop(0), test_redop(4), test_redop(9)),
            (Some("sum"), Some("avg"), None)
        );
        assert_eq!(
            (test_program(b"Send"), test_program(b"Recv")),
            (Some("sendrecv_perf"), None)
        );
    }
}
