//! Jobs captured on GPUs against their record of every call (../shared/data/gpu): each call once,
//! with its process, its communicator and the id of that.

use crate::support::{Csv, data, run};
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

/// A job, and how many calls may be lost or beyond its record.
struct Case {
    name: &'static str,
    lost: usize,
    extra: usize,
}

const fn case(name: &'static str, lost: usize, extra: usize) -> Case {
    Case { name, lost, extra }
}

const CASES: [Case; 18] = [
    case("elastic", 0, 0),
    case("groups8-split", 0, 0),
    case("hsdp-2x2", 0, 0),
    case("kineto-hsdp-2x2", 0, 0),
    case("m3d-16", 0, 0),
    case("mix-inspector-2.28.9-2x2", 0, 0),
    case("mix-profiler-2.32.3-nvl2", 0, 0),
    case("mpirun-tag-2.29.7", 0, 0),
    case("ring-2x2-2.32.3", 0, 0),
    // Its blocks are put together elsewhere.
    case("train-buffered-2x2", 16, 4),
    case("ulysses-2x2", 0, 0),
    case("x-crossed-nodes4", 0, 0),
    case("x-direction", 0, 0),
    case("x-nanskip", 0, 0),
    case("x-oomexit", 0, 0),
    case("x-redop", 0, 0),
    // The last call of a rank was refused: it has no line.
    case("x-sigkill-nodes4", 1, 0),
    case("x-uneven-eval-2.32.3", 0, 0),
];

/// A call: operation, count, datatype, reduction, root or peer, address, id.
type Call = [String; 7];

/// Each process's calls, in its order.
type Calls = BTreeMap<u64, Vec<Call>>;

pub(super) fn unpacked(path: &Path) -> String {
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    text
}

/// What the job recorded. A split's id is its parent's, how many were made of the parent, and the
/// color.
fn recorded(folder: &Path) -> Calls {
    const TYPES: [&str; 12] = [
        "int8", "uint8", "int32", "uint32", "int64", "uint64", "fp16", "fp32", "fp64", "bf16",
        "fp8_e4m3", "fp8_e5m2",
    ];
    const REDUCTIONS: [&str; 5] = ["sum", "prod", "max", "min", "avg"];
    let mut calls = Calls::new();
    let mut ids: BTreeMap<(u64, String), String> = BTreeMap::new();
    let mut splits: BTreeMap<(u64, String, String), u32> = BTreeMap::new();
    let text = unpacked(&folder.join("truth.csv.gz"));
    for line in text.lines().skip(1) {
        let f: Vec<&str> = line.split(',').collect();
        let (pid, op, comm) = (f[1].parse().unwrap(), f[5], f[6].to_owned());
        let id = |ids: &BTreeMap<_, String>, comm: &str| {
            ids.get(&(pid, comm.to_owned()))
                .cloned()
                .unwrap_or_default()
        };
        if op == "CommInit" {
            let extra: BTreeMap<&str, &str> =
                f[13].split(';').filter_map(|p| p.split_once('=')).collect();
            let made = match extra.get("parent") {
                Some(&parent) => {
                    let parent_id = id(&ids, parent);
                    let key = (pid, parent.to_owned(), parent_id.clone());
                    let child = splits.entry(key).or_default();
                    *child += 1;
                    format!("{parent_id}/{child}.{}", extra["color"])
                }
                None => extra.get("commId").copied().unwrap_or_default().to_owned(),
            };
            if comm != "(nil)" {
                ids.insert((pid, comm), made);
            }
        } else if !matches!(op, "mark" | "result" | "CommDestroy" | "CommAbort") {
            let redop = matches!(op, "AllReduce" | "ReduceScatter" | "Reduce");
            let root = matches!(
                op,
                "Broadcast" | "Reduce" | "Send" | "Recv" | "Gather" | "Scatter"
            );
            let reduction = |n: &str| REDUCTIONS[n.parse::<usize>().unwrap()].to_owned();
            let id = id(&ids, &comm);
            calls.entry(pid).or_default().push([
                op.to_owned(),
                f[7].to_owned(),
                TYPES[f[8].parse::<usize>().unwrap()].to_owned(),
                if redop {
                    reduction(f[9])
                } else {
                    String::new()
                },
                if root {
                    f[10].to_owned()
                } else {
                    String::new()
                },
                comm,
                id,
            ]);
        }
    }
    calls
}

/// What the call table says.
fn shown(folder: &Path) -> Calls {
    let is_log = |name: &str| name.starts_with("nccl") && name.ends_with(".log.gz");
    let mut logs: Vec<String> = crate::support::files(folder)
        .iter()
        .filter(|path| is_log(path.file_name().unwrap().to_str().unwrap()))
        .map(|path| path.to_str().unwrap().to_owned())
        .collect();
    logs.sort();
    let table = Csv::of(&run("nccl-comms", &logs).calm());
    let columns = [
        "op", "count", "datatype", "redop", "root", "comm", "comm_id",
    ];
    let mut calls = Calls::new();
    for row in &table.rows {
        let pid = table.get(row, "pid").parse().unwrap_or(0);
        let call = columns.map(|column| table.get(row, column).to_owned());
        calls.entry(pid).or_default().push(call);
    }
    calls
}

/// How many of `a` are not in `b`, and the other way round, in order: by Myers.
fn differ(a: &[Call], b: &[Call]) -> (usize, usize) {
    let (n, m) = (a.len(), b.len());
    let mut reach: BTreeMap<i64, usize> = BTreeMap::from([(1, 0)]);
    for edits in 0..=(n + m) as i64 {
        for k in (-edits..=edits).step_by(2) {
            let at = |k: i64| reach.get(&k).copied();
            let mut x = if k == -edits || (k != edits && at(k - 1) < at(k + 1)) {
                at(k + 1).unwrap_or(0)
            } else {
                at(k - 1).unwrap_or(0) + 1
            };
            let y = |x: usize| (x as i64 - k) as usize;
            while x < n && y(x) < m && a[x] == b[y(x)] {
                x += 1;
            }
            reach.insert(k, x);
            if x >= n && y(x) >= m {
                let same = (n + m - edits as usize) / 2;
                return (n - same, m - same);
            }
        }
    }
    (n, m)
}

#[test]
fn every_recorded_call_is_found_once_with_its_communicator() {
    let Some(folder) = data("gpu") else { return };
    let mut wrong = Vec::new();
    for Case { name, lost, extra } in CASES {
        let folder = folder.join(name);
        let (record, table) = (recorded(&folder), shown(&folder));
        let none = Vec::new();
        let pids = record.keys().chain(table.keys());
        let pids: std::collections::BTreeSet<u64> = pids.copied().collect();
        let each = pids.iter().map(|pid| {
            let of = |calls: &Calls| calls.get(pid).unwrap_or(&none).clone();
            differ(&of(&record), &of(&table))
        });
        let is = each.fold((0, 0), |sum, (l, e)| (sum.0 + l, sum.1 + e));
        if is.0 > lost || is.1 > extra {
            wrong.push(format!("{name}: (lost, extra) is {is:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
