//! The distinct calls as command lines of nccl-tests, which measures each alone on the same machines.
//!
//! Options and names are those of nccl-tests 2.17 (`src/common.cu`). Its sizes are those of
//! [`Basis::Message`]: of an AllGather or ReduceScatter all ranks' elements together. It rounds these
//! down to 16 bytes a rank.

use super::Options;
use crate::count::calls::Calls;
use crate::count::groups::Groups;
use crate::count::tally::{self, Sizing};
use crate::grammar::values::{Basis, Datatype, RedOp, has_redop, has_root, kind};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What the tally must tell apart for it.
pub fn tally(options: &Options) -> tally::Options {
    tally::Options {
        sizing: Sizing::Count,
        exact: true,
        members: false,
        ..options.tally()
    }
}

/// A test: what is the same in calls that are one line.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Test {
    op: &'static str,
    bytes: u128,
    datatype: &'static str,
    redop: Option<&'static str>,
    root: Option<i64>,
    nranks: u32,
}

/// The program of an operation. Of Send and Recv the Sends are taken.
fn program(op: &[u8]) -> Option<&'static str> {
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
fn datatype(of: Datatype) -> Option<&'static str> {
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

fn redop(code: u64) -> Option<&'static str> {
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
pub fn commands(calls: &Calls, options: &Options) -> Vec<u8> {
    let groups = Groups::new(calls, &options.by, |key| {
        (key.size, key.datatype, key.nranks.into())
    });
    let mut tests: BTreeMap<Test, u64> = BTreeMap::new();
    let mut others: BTreeMap<String, u64> = BTreeMap::new();
    for part in groups.parts() {
        let part = groups.part(part);
        for entry in part.groups().flatten() {
            let (key, op) = (part.key(entry), part.op(entry));
            let n = entry.value.calls;
            let (_, api) = key.size();
            let nranks = (key.nranks > 0).then_some(key.nranks);
            let of = || {
                let basis = Basis::Message;
                let reduces = has_redop(op);
                Some(Test {
                    op: program(op)?,
                    bytes: basis.of(kind(op), api?, nranks)?,
                    datatype: datatype(Datatype::from_code(key.datatype)?)?,
                    redop: if reduces {
                        Some(redop(key.redop)?)
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
    let mut lines: Vec<(Test, u64)> = tests.into_iter().collect();
    let weight = |(test, n): &(Test, u64)| test.bytes.saturating_mul(u128::from(*n));
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
        let op = crate::report::printable(op, false);
        let _ = writeln!(out, "# no test: {n} calls of {op}");
    }
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_nccl_tests() {
        let of = |name: &str| datatype(Datatype::from_name(name.as_bytes()).unwrap());
        assert_eq!(of("bf16"), Some("bfloat16"));
        assert_eq!(of("uint8"), Some("uint8"));
        assert_eq!(of("fp8_e5m2"), Some("f8e5m2"));
        assert_eq!(datatype(Datatype(17)), None);
        assert_eq!(
            (redop(0), redop(4), redop(9)),
            (Some("sum"), Some("avg"), None)
        );
        assert_eq!(
            (program(b"Send"), program(b"Recv")),
            (Some("sendrecv_perf"), None)
        );
    }
}
