//! nccl-communicators: identity, lineage and labels, on made, captured and real logs.

use crate::support::{Csv, Out, Work, arg, captured_logs as logs, data, feed, gzip, run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const PROGRAM: &str = "nccl-communicators";

/// How often these columns come with these values.
fn counts(table: &Csv, columns: &[&str]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for row in table.pick(columns) {
        *counts.entry(row).or_default() += 1;
    }
    counts
}

fn want(rows: &[(&str, usize)]) -> BTreeMap<String, usize> {
    rows.iter()
        .map(|(row, n)| ((*row).to_owned(), *n))
        .collect()
}

/// Makes a log, with its truth.
fn made(work: &Work, args: &str) -> (PathBuf, Value) {
    let (log, truth) = (work.dir().join("made.log"), work.dir().join("made.json"));
    let mut all: Vec<&str> = args.split_whitespace().collect();
    all.extend(["--truth", arg(&truth), "-o", arg(&log)]);
    run("nccl-synth", &all).ends(0);
    let truth = serde_json::from_slice(&std::fs::read(truth).unwrap()).unwrap();
    (log, truth)
}

/// What is wrong with the rows of a made log, and how many labels are right, of how many.
fn held(log: &Path, truth: &Value, what: &str) -> (Vec<String>, usize, usize) {
    let rows = Csv::of(&run(PROGRAM, &[arg(log)]).ends(0));
    let members = Csv::of(&run(PROGRAM, &[arg(log), "--members"]).ends(0));
    let mut of: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    let columns = ["rank", "global_rank", "host", "pid", "dev", "comm"];
    for row in &members.rows {
        let fields = columns.map(|c| members.get(row, c).to_owned()).to_vec();
        let id = members.get(row, "comm_id").to_owned();
        of.entry(id).or_default().push(fields);
    }
    let (mut wrong, mut right, mut labelled) = (Vec::new(), 0, 0);
    let truths = truth["communicators"].as_array().unwrap();
    if rows.rows.len() != truths.len() {
        wrong.push(format!(
            "{what}: {} rows, {}",
            rows.rows.len(),
            truths.len()
        ));
    }
    let text = |v: &Value| match v {
        Value::String(s) => s.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    for comm in truths {
        let id = comm["comm_id"].as_str().unwrap();
        let Some(row) = rows.rows.iter().find(|r| rows.get(r, "comm_id") == id) else {
            wrong.push(format!("{what}: no {id}"));
            continue;
        };
        let expected = [
            ("nranks", text(&comm["nranks"])),
            ("members_seen", text(&comm["nranks"])),
            ("missing", "none".to_owned()),
            ("nodes", text(&comm["nodes"])),
            ("parent", text(&comm["parent"])),
            ("color", text(&comm["color"])),
            ("calls", text(&comm["calls"])),
            ("total_bytes", text(&comm["bytes"])),
        ];
        for (column, value) in expected {
            if rows.get(row, column) != value {
                let got = rows.get(row, column);
                wrong.push(format!("{what}: {id}: {column} is {got}, not {value}"));
            }
        }
        let people: Vec<Vec<String>> = comm["members"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| columns.map(|c| text(&m[c])).to_vec())
            .collect();
        if of.get(id) != Some(&people) {
            wrong.push(format!("{what}: {id}: members {:?}", of.get(id)));
        }
        if comm["nranks"] == 1 {
            continue;
        }
        let kind = match comm["kind"].as_str().unwrap() {
            "tp" => "tensor",
            "pp" => "pipeline",
            "dp" => "data",
            "ep" => "expert",
            "cp" => "context",
            other => other,
        };
        let (label, sure) = (rows.get(row, "label"), rows.get(row, "confidence"));
        labelled += 1;
        if label == kind {
            right += 1;
        } else if sure == "high" {
            wrong.push(format!("{what}: {id}: {label}, not {kind}"));
        }
    }
    (wrong, right, labelled)
}

#[test]
fn made_jobs_come_back_with_their_members_and_labels() {
    let jobs = [
        "--ranks 8 --tp 2 --pp 2 --ep 2",
        "--ranks 8 --tp 1",
        "--ranks 8 --tp 8",
        "--ranks 16 --nodes 2 --tp 8 --pp 2",
        "--ranks 16 --nodes 4 --tp 4 --pp 2 --ep 2 --nccl 2.22",
        "--ranks 16 --nodes 2 --tp 2 --pp 4 --trainer none",
        "--ranks 16 --nodes 2 --tp 4 --ep 4 --nccl rccl-2.22",
        "--ranks 16 --nodes 2 --tp 2 --pp 2 --ep 2 --trainer megatron --restart-at 8",
        "--ranks 64 --nodes 8 --tp 4 --pp 4 --ep 2",
        "--ranks 64 --nodes 8 --tp 1 --pp 2 --ep 8",
        "--ranks 1024 --nodes 128 --tp 8 --pp 4 --ep 8 --layers 8",
        "--ranks 16 --nodes 2 --tp 2 --pp 2 --ep 2 --split --nccl 2.21",
        "--ranks 16 --nodes 2 --tp 2 --pp 2 --ep 2 --split --nccl 2.23",
        "--ranks 16 --nodes 2 --tp 2 --pp 2 --ep 2 --split --nccl 2.27",
        "--ranks 64 --nodes 8 --tp 4 --pp 2 --ep 2 --split --nccl 2.30",
        "--ranks 8 --tp 2 --cp 2",
        "--ranks 8 --tp 1 --cp 4",
        "--ranks 8 --tp 2 --cp 4",
        "--ranks 16 --nodes 2 --tp 2 --cp 2 --pp 2 --trainer none",
        "--ranks 16 --nodes 2 --tp 2 --cp 4 --pp 2 --nccl rccl-2.22",
        "--ranks 32 --nodes 4 --tp 2 --cp 2 --pp 2 --ep 2 --split --nccl 2.23",
        "--ranks 64 --nodes 8 --tp 2 --cp 4 --pp 2 --ep 4 --nccl 2.22",
        "--ranks 256 --nodes 32 --tp 4 --cp 8 --pp 4",
        "--ranks 1024 --nodes 128 --tp 8 --cp 4 --pp 4 --ep 8 --layers 8",
    ];
    let (mut wrong, mut right, mut labelled) = (Vec::new(), 0, 0);
    for job in jobs {
        let work = Work::new();
        let steps = match job {
            _ if job.contains("1024") || job.contains("256") => 1,
            _ if job.contains("restart") => 12,
            _ => 3,
        };
        let (log, truth) = made(&work, &format!("{job} --steps {steps}"));
        let (bad, good, all) = held(&log, &truth, job);
        wrong.extend(bad);
        right += good;
        labelled += all;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(right * 100 >= labelled * 95, "{right} of {labelled}");
}

#[test]
fn one_file_or_one_for_each_process_threads_and_pipes_give_the_same_rows() {
    let work = Work::new();
    let options = "--ranks 8 --nodes 2 --tp 2 --pp 2 --steps 4 --nccl 2.28 --trainer megatron";
    let (log, _) = made(&work, options);
    let bytes = std::fs::read(&log).unwrap();
    let rows = |out: Out| out.ends(0).text();
    let one = rows(run(PROGRAM, &[arg(&log), "-j1"]));
    assert_eq!(one, rows(run(PROGRAM, &[arg(&log), "-j4"])));
    assert_eq!(one, rows(run(PROGRAM, &[arg(&log), "--no-mmap", "-j3"])));
    assert_eq!(one, rows(feed(PROGRAM, &[], bytes.clone())));
    assert_eq!(one, rows(feed(PROGRAM, &["-"], gzip(&bytes))));

    let folder = work.dir().join("ranks");
    let mut args: Vec<&str> = options.split(' ').collect();
    args.extend(["--layout", "per-rank", "-o", arg(&folder)]);
    run("nccl-synth", &args).ends(0);
    let columns = [
        "comm_id",
        "label",
        "confidence",
        "members_seen",
        "nodes",
        "stride",
        "calls",
        "ops",
    ];
    let whole = Csv::of(&run(PROGRAM, &[arg(&log)])).pick(&columns);
    let parts = Csv::of(&run(PROGRAM, &[arg(&folder)]).ends(0)).pick(&columns);
    assert_eq!(whole, parts);
}

#[test]
fn the_groups_of_real_jobs_are_named() {
    let of = |name: &str| {
        let table = Csv::of(&run(PROGRAM, &logs(name)).calm());
        counts(&table, &["label", "confidence", "nranks", "stride"])
    };
    // The embedding groups: only AllReduce, between the ends of a pipeline; the model-parallel
    // groups have only small calls.
    let megatron = [
        ("data high 2 2", 4),
        ("pipeline high 2 4", 4),
        ("tensor high 2 1", 4),
        ("embedding low 2 4", 4),
        ("unknown  4 ", 2),
        ("world high 8 1", 2),
    ];
    assert_eq!(of("megatron"), want(&megatron));
    let three = [
        ("data high 2 2", 4),
        ("pipeline high 2 4", 4),
        ("tensor high 2 1", 4),
        ("unknown  2 4", 4),
        ("world high 8 1", 1),
    ];
    assert_eq!(of("3d"), want(&three));
    let files = [
        ("data high 2 2", 2),
        ("tensor high 2 1", 2),
        ("world high 4 1", 1),
    ];
    assert_eq!(of("tp-files"), want(&files));
    let titan = [
        ("data high 2 2", 2),
        ("tensor high 2 1", 2),
        ("unknown  2 2", 4),
        ("world high 4 1", 1),
    ];
    assert_eq!(of("torchtitan"), want(&titan));
    for name in ["ddp", "fsdp", "hf", "lightning"] {
        assert_eq!(of(name), want(&[("data high 4 1", 1)]), "{name}");
    }
    assert_eq!(
        of("ep"),
        want(&[("data high 4 1", 1), ("expert high 4 1", 1)])
    );
}

#[test]
fn a_log_without_init_lines_gives_addresses_and_the_setting_to_rerun_with() {
    let work = Work::new();
    let (log, _) = made(&work, "--ranks 4 --tp 2 --steps 2 --no-init");
    let out = run(PROGRAM, &[arg(&log)])
        .ends(0)
        .says(&["rerun with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL"]);
    assert_eq!(out.stderr.matches("rerun with").count(), 1);
    let table = Csv::of(&out);
    // The world, a tensor and a data communicator for each of four processes.
    assert_eq!(
        counts(&table, &["comm_id", "label", "members_seen"]),
        want(&[(" unknown ", 12)])
    );
    assert!(table.column("host").iter().all(|host| host == "node01"));
    let calls = Csv::of(&run("nccl-ops", &[arg(&log)])).sum("calls");
    assert_eq!(table.sum("calls"), calls);
}

/// Lines of a process of a composed job.
fn said(pid: u32, dev: u32, text: &str) -> String {
    format!("h1:{pid}:{pid} [{dev}] NCCL INFO {text}\n")
}

#[test]
fn an_address_given_anew_is_another_communicator() {
    let init = |pid: u32, rank: u32, id: &str, end: &str| {
        let text = format!(
            "ncclCommInitRank comm 0xa0 rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId \
             {rank}000 commId {id} - Init {end}"
        );
        said(pid, rank, &text)
    };
    let call = |pid: u32, rank: u32, count: u32| {
        let text = format!(
            "AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count {count} datatype 7 op 0 root 0 \
             comm 0xa0 [nranks=2] stream 0x2"
        );
        said(pid, rank, &text)
    };
    let gone = |pid: u32, rank: u32| {
        let text = format!(
            "comm 0xa0 rank {rank} nranks 2 cudaDev {rank} busId {rank}000 - Destroy COMPLETE"
        );
        said(pid, rank, &text)
    };
    let mut log = String::new();
    for (id, times) in [("0x11", 1_u8), ("0x22", 2)] {
        for (pid, rank) in [(7, 0), (8, 1)] {
            log += &init(pid, rank, id, "START");
        }
        for (pid, rank) in [(7, 0), (8, 1)] {
            log += &init(pid, rank, id, "COMPLETE");
            let total = 1.5 + f64::from(rank) * f64::from(times);
            log += &said(
                pid,
                rank,
                &format!(
                    "Init timings - ncclCommInitRank: rank {rank} nranks 2 total {total:.2} \
                     (kernels 0.50, bootstrap 1.00)"
                ),
            );
            log += &call(pid, rank, 100).repeat(times.into());
        }
        if id == "0x11" {
            log += &gone(7, 0);
            log += &gone(8, 1);
        }
    }
    // Nobody destroyed it, but an address that another process uses is none of its business.
    log += &said(
        9,
        2,
        "AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count 5 datatype 7 op 0 root 0 comm 0xa0 \
         [nranks=2] stream 0x2",
    );
    let out = feed(PROGRAM, &[], log).ends(0);
    let columns = [
        "comm_id",
        "calls",
        "members_seen",
        "state",
        "init_s",
        "init_slowest",
        "init_breakdown",
        "ops",
    ];
    assert_eq!(
        Csv::of(&out).pick(&columns),
        [
            " 1      AllReduce=1:20",
            "0x11 2 2 destroyed 2.5 1 kernels=0.5 bootstrap=1 AllReduce=2:800",
            "0x22 4 2 ready 3.5 1 kernels=0.5 bootstrap=1 AllReduce=4:1600",
        ]
    );
}

#[test]
fn splits_without_an_id_are_known_by_their_parent_child_and_color() {
    let init = |pid: u32, rank: u32, text: &str| {
        said(pid, rank, &format!("{text}Init START"))
            + &said(pid, rank, &format!("{text}Init COMPLETE"))
    };
    let mut log = String::new();
    for rank in 0..4 {
        let pid = 10 + rank;
        let (comm, half) = (0x100 * (rank + 1), rank / 2);
        log += &init(
            pid,
            rank,
            &format!(
                "ncclCommInitRankConfig comm {comm:#x} rank {rank} nranks 4 cudaDev {rank} nvmlDev \
                 {rank} busId 1000 commId 0xabc - "
            ),
        );
        // The same color twice, then a child of a child.
        for child in [1, 2] {
            log += &init(
                pid,
                rank,
                &format!(
                    "ncclCommSplit comm {:#x} rank {} nranks 2 cudaDev {rank} nvmlDev {rank} busId \
                     1000 parent {comm:#x} splitCount {child} color {half} key 0- ",
                    comm + child,
                    rank % 2
                ),
            );
        }
        log += &init(
            pid,
            rank,
            &format!(
                "ncclCommSplit comm {:#x} rank {} nranks 2 cudaDev {rank} nvmlDev {rank} busId 1000 \
                 parent {:#x} splitCount 1 color 5 key 0- ",
                comm + 9,
                rank % 2,
                comm + 2,
            ),
        );
    }
    let out = feed(PROGRAM, &[], log).ends(0);
    assert_eq!(
        Csv::of(&out).pick(&["comm_id", "parent", "color", "members_seen", "created_by"]),
        [
            "0xabc   4 ncclCommInitRankConfig",
            "0xabc/1.0 0xabc 0 2 ncclCommSplit",
            "0xabc/1.1 0xabc 1 2 ncclCommSplit",
            "0xabc/2.0 0xabc 0 2 ncclCommSplit",
            "0xabc/2.0/1.5 0xabc/2.0 5 2 ncclCommSplit",
            "0xabc/2.1 0xabc 1 2 ncclCommSplit",
            "0xabc/2.1/1.5 0xabc/2.1 5 2 ncclCommSplit",
        ]
    );
}

#[test]
fn a_name_is_the_communicators_whose_thread_says_it() {
    let init = |tid: u32, comm: u32, id: &str, end: &str| {
        let text = format!(
            "ncclCommInitRankConfig comm {comm:#x} rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 \
             commId {id} - Init {end}"
        );
        said(7, 0, &text).replace(":7:7 ", &format!(":7:{tid} "))
    };
    let named = |tid: u32, name: &str, hash: u64, rank: u32| {
        let text = format!(
            "PROFILER/Plugin: init commName: {name} commHash: {hash} nranks: 2 rank: {rank}"
        );
        said(7, 0, &text).replace(":7:7 ", &format!(":7:{tid} "))
    };
    // Two threads at once. A name without a communicator, of another rank or hash, is nobody's.
    let log = [
        named(8, "nobody's", 0x11, 0),
        init(8, 0xa0, "0x11", "START"),
        init(9, 0xb0, "0x22", "START"),
        named(9, "dp of 2", 0x22, 0),
        named(8, "another rank's", 0x11, 1),
        named(8, "tp_0", 0x11, 0),
        init(8, 0xa0, "0x11", "COMPLETE"),
        init(9, 0xb0, "0x22", "COMPLETE"),
        init(8, 0xc0, "0x33", "START"),
        named(8, "dp of 2 again", 0x22, 0),
        init(8, 0xc0, "0x33", "COMPLETE"),
        named(8, "too late", 0x33, 0),
    ]
    .concat();
    let table = Csv::of(&feed(PROGRAM, &[], log).ends(0));
    assert_eq!(table.columns.last().unwrap(), "name");
    assert_eq!(
        table.pick(&["comm_id", "name"]),
        ["0x11 tp_0", "0x22 dp of 2", "0x33 "]
    );
    // PyTorch gives none.
    let table = Csv::of(&run(PROGRAM, &logs("ddp-inspector-2.28")).calm());
    assert_eq!(table.column("name"), [""]);
}

/// The rows of a real log, once its lines have been seen to prove what is claimed: each line by its
/// number, with what stands on it.
fn real(name: &str, proof: &[(usize, &str)]) -> Option<Csv> {
    let path = data(&format!("nccl-logs/{name}"))?;
    let bytes = std::fs::read(&path).unwrap();
    let lines: Vec<&[u8]> = bytes.split(|&b| b == b'\n').collect();
    for (number, says) in proof {
        let line = String::from_utf8_lossy(lines[number - 1]);
        assert!(line.contains(says), "{name}:{number}: {line}");
    }
    Some(Csv::of(&run(PROGRAM, &[arg(&path)]).calm()))
}

/// Where a communicator is and how it came and went.
const FACTS: [&str; 10] = [
    "comm_id",
    "nranks",
    "missing",
    "nodes",
    "ranks_per_node",
    "locality",
    "created_by",
    "init_s",
    "init_slowest",
    "state",
];

#[test]
fn nccl_tests_logs_give_what_a_reader_finds() {
    let id = "0x54fe282d32a87d85";
    let proof = [
        (
            25,
            "ncclCommInitRankConfig comm 0x55b6aa64a990 rank 0 nranks 2",
        ),
        (26, id),
        (146, "nRanks 2 nNodes 1 localRanks 2"),
        (516, "rank 1 nranks 2 total 0.67"),
        (518, "rank 0 nranks 2 total 0.67"),
        (
            3135,
            "comm 0x55b6aa64a990 rank 0 nranks 2 cudaDev 0 busId 17000 - Destroy",
        ),
        (3136, "Destroy COMPLETE"),
    ];
    if let Some(table) = real("nccl-tests-2.27.7-2gpu-1process.log", &proof) {
        let row = format!("{id} 2 none 1 2 one-node ncclCommInitRankConfig 0.67 0 destroyed");
        assert_eq!(table.pick(&FACTS), [row]);
        // One process, two GPUs: two members.
        assert_eq!(table.pick(&["calls", "ops"]).len(), 1);
    }
    let proof = [
        (1076, "rank 8 nRanks 16 nNodes 2 localRanks 8"),
        (1340, "rank 0 nranks 16 total 3.54"),
        (2954, "Destroy COMPLETE"),
    ];
    if let Some(table) = real("nccl-tests-efa-nvls-mpirun-tagged.log", &proof) {
        let row = "0x363ac963d9c3b653 16 none 2 8 mixed ncclCommInitRank 3.54 0 destroyed";
        assert_eq!(table.pick(&FACTS), [row]);
    }
    let proof = [
        (55, "nRanks 4 nNodes 1 localRanks 4"),
        (139, "rank 0 nranks 4 total 1.05 (kernels 0.60, alloc 0.24"),
        (914, "Destroy COMPLETE"),
    ];
    if let Some(table) = real("nccl-tests-2.29.2-4gpu-tuning.log", &proof) {
        let row = "0x5a4c6e5db9b19a5f 4 none 1 4 one-node ncclCommInitRankConfig 1.05 0 destroyed";
        assert_eq!(table.pick(&FACTS), [row]);
    }
}

#[test]
fn training_logs_give_what_a_reader_finds() {
    let proof = [
        (1030, "comm 0x379c9160 rank 8 nranks 16"),
        (3797, "rank 7 nRanks 16 nNodes 2 localRanks 8"),
        (3972, "rank 0 nranks 16 total 2.88"),
        (
            8713,
            "rank 0 nranks 1 cudaDev 6 nvmlDev 6 busId cd000 commId 0x2862dd8ad5795162",
        ),
    ];
    if let Some(table) = real("nemo-mlperf-2.27.7-16xB200.log", &proof) {
        // Three of all ranks, and one for each rank by itself.
        assert_eq!(
            counts(&table, &["nranks", "nodes", "locality"]),
            want(&[("1 1 single", 16), ("16 2 mixed", 3)])
        );
        let first = "0x6b4c36982aa1a627 16 none 2 8 mixed ncclCommInitRankConfig 2.88 0 destroyed";
        assert!(table.pick(&FACTS).contains(&first.to_owned()));
    }
    // Only the first host's ranks print to this log.
    let proof = [
        (287, "rank 7 nRanks 16 nNodes 2 localRanks 8"),
        (2726, "commId 0xbaa1618dcfe5a692 - Init START"),
        (
            4371,
            "rank 0 nranks 16 total 4.87 (kernels 0.00, bootstrap 3.55",
        ),
    ];
    if let Some(table) = real("nemo-rccl-2.22.3-16xMI325X.log", &proof) {
        let row = "0xbaa1618dcfe5a692 16 8-15 2 8 mixed ncclCommInitRank 4.87 0 destroyed";
        assert!(table.pick(&FACTS).contains(&row.to_owned()));
        // Not all members are seen: no stride.
        let seen = counts(&table, &["nranks", "missing", "stride"]);
        assert_eq!(seen.get("16 8-15 "), Some(&3));
        assert_eq!(seen.get("8 4-7 "), Some(&2));
    }
}

#[test]
fn old_logs_without_ids_are_not_put_together_by_guess() {
    let proof = [(
        705,
        "comm 0x2aab74007df0 rank 7 nranks 16 cudaDev 7 nvmlDev 7 - Init",
    )];
    if let Some(table) = real("pytorch-2.4.8-16ranks-srun-label.log", &proof) {
        let columns = ["comm_id", "label", "nranks", "members_seen", "nodes"];
        assert_eq!(counts(&table, &columns), want(&[(" unknown 16 1 ", 16)]));
    }
    // A split of 2.22 prints an id; its parent is not in the excerpt.
    if let Some(table) = real("excerpts/NVIDIA__nccl_1605.log", &[]) {
        let columns = ["comm_id", "parent", "color", "created_by", "state"];
        let row = "0x5a16c3838ce6f1f8  1684518034 ncclCommSplit started";
        assert!(table.pick(&columns).contains(&row.to_owned()));
    }
    // Two processes wrote over each other's bytes; the INIT lines are whole.
    let proof = [
        (15, "comm 0x9497920 rank 1 nranks 2"),
        (17, "comm 0x8fe0500 rank 0 nranks 2"),
    ];
    if let Some(table) = real("shared-debug-file-overwritten.log", &proof) {
        let columns = ["comm_id", "members_seen", "state"];
        assert_eq!(table.pick(&columns), ["0x245d75cdaf12704b 2 ready"]);
    }
}
