//! Jobs that are well, jobs of which one host is not, and real logs: which findings come.

use crate::count::calls::{Options, Progress};
use crate::filter::CallFilter;
use crate::grammar::trainer::Recogniser;
use crate::log;
use crate::log::timeline;
use crate::report::Report;
use crate::shared::data;
use crate::source::{self, InputName};
use crate::stages::check::finding::{Finding, Severity};
use crate::stages::check::questions::ask_questions;
use crate::stages::check::words;
use crate::stages::{communicators, net};
use crate::synth::{self, StreamSink};
use std::path::{Path, PathBuf};

struct Nobody;
impl Progress for Nobody {
    fn advance(&self, _: u64) {}
}

fn options() -> Options {
    Options {
        source: source::Options::default(),
        log: log::Options {
            jobs: 1,
            recogniser: Recogniser::all(),
            strict: false,
            keep_init_lines: false,
            keep_marks: true,
        },
        timeline: timeline::Options::default(),
        window: None,
    }
}

/// The findings of these files.
fn of_files(paths: &[PathBuf]) -> Vec<Finding> {
    let origins: Vec<InputName> = paths.iter().cloned().map(InputName::Path).collect();
    let mut report = Report::new("test", false, true);
    let net = net::read_net(&origins, &options(), &mut report, &Nobody).unwrap();
    let found = communicators::read_communicators(
        &origins,
        &options(),
        &CallFilter::default(),
        &mut report,
        &Nobody,
    )
    .unwrap();
    let mut all = ask_questions(&net, &found, &[], &[], &[]);
    words::write_texts(&mut all);
    all
}

/// The findings of a log.
fn of(log: &str) -> Vec<Finding> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nccl.log");
    std::fs::write(&path, log).unwrap();
    let all = of_files(&[path]);
    for finding in &all {
        // What it points at is there, and it says something.
        let lines = log.lines().count() as u64;
        assert!(!finding.evidence.is_empty(), "{finding:?}");
        assert!(
            finding
                .evidence
                .iter()
                .all(|e| e.at.line().unwrap() < lines)
        );
        assert!(!finding.says.ends_with('.') && !finding.advice.is_empty());
        assert!(
            !finding.says.contains("  ") && !finding.advice.contains("  "),
            "{finding:?}"
        );
    }
    all
}

/// `warning version_mixed` of each.
fn ids(all: &[Finding]) -> Vec<String> {
    let id = |f: &Finding| format!("{} {}", f.severity.name(), f.kind.id());
    all.iter().map(id).collect()
}

/// The log of a made job, by the words of nccl-synth's command line.
fn job(words: &str) -> String {
    let mut options = synth::Options {
        steps: 1,
        ..synth::Options::default()
    };
    let mut words = words.split_whitespace();
    while let Some(word) = words.next() {
        let mut number = || words.next().unwrap().parse().unwrap();
        match word {
            "--ranks" => options.ranks = number(),
            "--nodes" => options.nodes = number(),
            "--tp" => options.tp = number(),
            "--pp" => options.pp = number(),
            "--ep" => options.ep = number(),
            "--layers" => options.layers = number(),
            "--nvls" => options.nvls = true,
            "--tuning" => options.tuning = true,
            "--split" => options.split = true,
            "--net" => options.net = Some(words.next().unwrap().parse().unwrap()),
            "--nccl" => options.nccl = words.next().unwrap().parse().unwrap(),
            "--prefix" => options.prefix = words.next().unwrap().parse().unwrap(),
            "--host-style" => options.host_style = words.next().unwrap().parse().unwrap(),
            other => panic!("{other}"),
        }
    }
    let mut bytes = Vec::new();
    synth::generate(&options, &mut StreamSink::new(&mut bytes)).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// The log with another text instead, in the lines of this host.
fn on(log: &str, host: &str, from: &str, to: &str) -> String {
    let mut hits = 0;
    let mut out = String::new();
    for line in log.lines() {
        let own = line.starts_with(&format!("{host}:")) && line.contains(from);
        hits += usize::from(own);
        out += &if own {
            line.replace(from, to)
        } else {
            line.to_owned()
        };
        out.push('\n');
    }
    assert!(hits > 0, "{from}");
    out
}

fn is_bad(finding: &Finding) -> bool {
    finding.severity != Severity::Note
}

#[test]
fn a_healthy_job_has_no_warning() {
    for words in [
        "",
        "--ranks 8 --tp 8 --net ib --nvls --tuning",
        "--ranks 8 --tp 4 --net nvlink",
        "--ranks 8 --tp 2 --pp 2 --net socket",
        "--ranks 8 --tp 4 --net efa --nccl 2.24",
        "--ranks 16 --nodes 2 --tp 4 --pp 2 --ep 2 --net ib --nvls --tuning",
        "--ranks 16 --nodes 2 --tp 8 --split --net ib --nvls",
        "--ranks 16 --nodes 4 --tp 2 --pp 2 --net socket --nccl 2.20",
        "--ranks 16 --nodes 16 --tp 1 --net ib",
        "--ranks 24 --nodes 3 --tp 4 --pp 2 --net ib --nvls",
        "--ranks 24 --nodes 3 --tp 8 --net efa --nvls --nccl 2.29",
        "--ranks 32 --nodes 4 --tp 4 --pp 2 --ep 2 --net ib --prefix srun",
        "--ranks 32 --nodes 4 --tp 8 --net ib --nvls --tuning --nccl 2.27",
        "--ranks 32 --nodes 4 --tp 8 --pp 2 --net nvlink --nvls",
        "--ranks 32 --nodes 4 --tp 2 --net roce",
        "--ranks 32 --nodes 8 --tp 4 --nccl 2.18",
        "--ranks 48 --nodes 6 --tp 4 --pp 3 --net ib --nvls",
        "--ranks 64 --nodes 8 --tp 2 --pp 4 --ep 4 --net efa --nccl 2.22 --tuning",
        "--ranks 64 --nodes 8 --tp 8 --pp 4",
        "--ranks 64 --nodes 8 --tp 4 --nccl 2.21",
        "--ranks 64 --nodes 8 --tp 8 --pp 2 --split --net ib --nccl 2.30",
        "--ranks 64 --nodes 16 --tp 4 --pp 2 --net nvlink",
        "--ranks 64 --nodes 64 --tp 1 --net socket --host-style dashes",
        "--ranks 64 --nodes 8 --tp 8 --nccl rccl-2.22",
        "--ranks 64 --nodes 8 --tp 4 --pp 2 --nccl rccl-2.27 --net ib",
        "--ranks 128 --nodes 16 --tp 8 --pp 4 --net ib --nvls --tuning",
        "--ranks 128 --nodes 16 --tp 4 --pp 8 --ep 2 --net efa --nvls",
        "--ranks 256 --nodes 32 --tp 8 --pp 4 --ep 8 --net ib --nccl 2.23",
        "--ranks 256 --nodes 64 --tp 4 --net nvlink --nvls --nccl 2.4",
        "--ranks 512 --nodes 64 --tp 8 --pp 8 --net ib --nvls --split",
        "--ranks 1024 --nodes 128 --tp 8 --pp 8 --ep 4 --net ib --nccl 2.18",
    ] {
        let layers = if words.contains("--pp") {
            "--layers 24"
        } else {
            "--layers 1"
        };
        let log = job(&format!("{words} {layers}"));
        let mut all = of(&log);
        // Several hosts that have nothing but sockets are slow, and well.
        if words.contains("--nodes") && log.contains("Using network Socket") {
            let only = all.iter().position(|f| f.kind.id() == "sockets_only");
            all.remove(only.unwrap_or_else(|| panic!("{words}: {all:#?}")));
        }
        let bad: Vec<&Finding> = all.iter().filter(|f| is_bad(f)).collect();
        assert!(bad.is_empty(), "{words}: {bad:#?}");
        assert!(all.len() < 3, "{words}: {all:#?}");
    }
}

#[test]
fn captured_jobs_have_no_warning_but_of_what_they_were_told() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/captured");
    let mut seen = 0;
    for job in std::fs::read_dir(dir).unwrap() {
        let job = job.unwrap().path();
        let files = std::fs::read_dir(&job).unwrap().map(|f| f.unwrap().path());
        let mut logs: Vec<PathBuf> = files
            .filter(|f| f.to_string_lossy().ends_with(".log.gz"))
            .collect();
        logs.sort();
        let command = std::fs::read_to_string(job.join("command.json")).unwrap_or_default();
        if logs.is_empty() || command.contains("--fault") {
            continue;
        }
        seen += 1;
        let all = of_files(&logs);
        let bad: Vec<&Finding> = all.iter().filter(|f| is_bad(f)).collect();
        // NCCL_P2P_DISABLE where GPUs have NVLink, on a machine that other jobs used meanwhile.
        if command.contains("NCCL_P2P_DISABLE") {
            let known = ["setting", "init_slow"];
            assert_eq!(bad.first().map(|f| f.kind.id()), Some("setting"));
            assert!(bad.iter().all(|f| known.contains(&f.kind.id())), "{bad:#?}");
            continue;
        }
        assert!(bad.is_empty(), "{}: {bad:#?}", job.display());
    }
    assert!(seen > 20, "{seen}");
}

/// Four hosts of four ranks.
const JOB: &str = "--ranks 16 --nodes 4 --tp 4 --layers 2 --net ib --nvls --tuning";

/// One finding of a host that is not as the others.
#[track_caller]
fn alone(log: &str, severity: Severity, id: &str, host: &str, says: &str) {
    let all = of(log);
    let bad: Vec<&Finding> = all
        .iter()
        .filter(|f| is_bad(f) || f.kind.id() == id)
        .collect();
    let [found] = &bad[..] else {
        panic!("{id}: {all:#?}");
    };
    assert_eq!((found.kind.id(), found.severity), (id, severity));
    assert_eq!(
        found.about.host.as_deref(),
        Some(host.as_bytes()),
        "{found:?}"
    );
    assert!(found.says.contains(says), "{}", found.says);
    // Both sides are shown: a line of the host, and one of another.
    let lines: Vec<&str> = log.lines().collect();
    let own = |e: &&crate::stages::check::finding::Evidence| {
        lines[e.at.line().unwrap() as usize].starts_with(host)
    };
    assert!(own(&&found.evidence[0]), "{found:?}");
    assert!(!found.evidence.iter().all(|e| own(&e)), "{found:?}");
}

#[test]
fn the_host_that_is_not_as_the_others_is_named() {
    let log = job(JOB);
    let odd = "node03";
    let warning = Severity::Warning;
    let is = |from: &str, to: &str| on(&log, odd, from, to);

    let log_of = is(
        "NCCL version 2.28.9+cuda13.0",
        "NCCL version 2.27.3+cuda12.9",
    );
    let says = "the version of NCCL differs: 2.27.3 on node03; 2.28.9 on 3 hosts";
    alone(&log_of, warning, "version_mixed", odd, says);

    let log_of = is(" [3]mlx5_3:1/IB", "");
    let says = "node03 has 3 NICs where 3 hosts have 4; node03 has no mlx5_3:1/IB";
    alone(&log_of, warning, "nic_differs", odd, says);

    let log_of = is(
        "NCCL_IB_TIMEOUT set by environment to 22.",
        "NCCL_IB_TIMEOUT set by environment to 14.",
    );
    let says = "NCCL_IB_TIMEOUT differs: 14 on node03; 22 on 3 hosts";
    alone(&log_of, warning, "setting_differs", odd, says);

    let log_of = is(
        "NCCL_IB_TIMEOUT set by environment to 22.",
        "NCCL_CUMEM_ENABLE set by environment to 0.",
    );
    let all = of(&log_of);
    let both = ["warning setting_differs", "warning setting_differs"];
    assert_eq!(ids(&all), both, "{all:#?}");

    let log_of = is(
        "NVLS multicast support is available",
        "NVLS multicast support is not available",
    );
    alone(
        &log_of,
        warning,
        "nvls_mixed",
        odd,
        "cannot be used on node03",
    );

    let log_of = is("NVLS comm 0x", "Nothing 0x");
    alone(&log_of, warning, "nvls_mixed", odd, "no buffers were made");

    let log_of = is("2 coll channels", "1 coll channels");
    let says = "communicators of 4 ranks have 1 channel on node03 where 3 of that kind have 2";
    alone(&log_of, warning, "channels_fewer", odd, says);

    let log_of = is("/GDRDMA", "");
    alone(
        &log_of,
        warning,
        "gpudirect_mixed",
        odd,
        "disabled on node03 and enabled on 3 other hosts",
    );

    let log_of = is("via P2P/CUMEM", "via SHM/direct/direct");
    let says = "the GPUs of node03 communicate through the host's memory";
    alone(&log_of, warning, "shm_instead_of_p2p", odd, says);

    let log_of = is("Using network IB", "Using network Socket");
    let log_of = on(&log_of, odd, "via NET/IB/", "via NET/Socket/");
    // Every process of one host lists its NICs, and no other.
    let told: String = log
        .lines()
        .map(|line| match line.split_once("NCCL_IB_TIMEOUT set") {
            Some((head, _)) if line.starts_with(odd) => {
                format!("{line}\n{head}NCCL_IB_HCA set by environment to mlx5_0\n")
            }
            _ => format!("{line}\n"),
        })
        .collect();
    let says = "only node03 prints NCCL_IB_HCA; 3 hosts with other settings do not";
    alone(&told, warning, "setting_differs", odd, says);

    // Two communicators of a host with fewer channels are one finding.
    let two = job(&JOB.replace("--ranks 16", "--ranks 32"));
    let two = on(&two, odd, "2 coll channels", "1 coll channels");
    assert_eq!(ids(&of(&two)), ["warning channels_fewer"]);

    // What it does not read for that is no finding of its own.
    let log_of = on(&log_of, odd, "NCCL_IB_TIMEOUT", "NCCL_SOCKET_IFNAME");
    let all = of(&log_of);
    assert_eq!(ids(&all), ["warning socket_fallback"], "{all:#?}");
    assert_eq!(
        all[0].says,
        "node03 uses sockets while 3 hosts use a faster network"
    );
}

#[test]
fn what_all_hosts_do_is_said_once() {
    let log = job(JOB);
    let off = log
        .replace("/GDRDMA", "")
        .replace("RDMA Enabled", "RDMA Disabled");
    assert_eq!(ids(&of(&off)), ["warning gpudirect_off"]);
    // As it was set.
    let told = off.replace(
        "NCCL_IB_TIMEOUT set by environment to 22.",
        "NCCL_NET_GDR_LEVEL set by environment to LOC",
    );
    assert_eq!(ids(&of(&told)), ["note gpudirect_off", "note setting"]);

    let sockets = log
        .replace("/GDRDMA", "")
        .replace("via NET/IB/", "via NET/Socket/");
    let sockets = sockets.replace("Using network IB", "Using network Socket");
    assert_eq!(ids(&of(&sockets)), ["warning socket_fallback"]);
    let told = sockets.replace(
        "NCCL_IB_TIMEOUT set by environment to 22.",
        "NCCL_NET set by environment to Socket",
    );
    assert_eq!(ids(&of(&told)), ["note socket_fallback", "note setting"]);

    let none: String = log
        .lines()
        .filter(|l| !l.contains("NVLS comm"))
        .map(|l| format!("{l}\n"))
        .collect();
    let none = none.replace("Algo NVLS", "Algo RING");
    assert_eq!(ids(&of(&none)), ["note nvls_not_created"]);
    // Before 2.22 ranks connect in all ways at the start.
    let none = none.replace("NCCL version 2.28.9", "NCCL version 2.21.5");
    assert_eq!(ids(&of(&none)), ["warning nvls_not_created"]);
}

#[test]
fn plugins_are_compared_by_what_serves_a_host() {
    let differs = |lines: &[(&str, &str)]| {
        let line = |(host, text): &(&str, &str)| format!("{host}:7:7 [0] NCCL INFO {text}\n");
        let log: String = lines.iter().map(line).collect();
        let all = of(&log).into_iter();
        let all = all.filter(|finding| finding.kind.id() == "plugin_mixed");
        all.map(|finding| finding.says).collect::<Vec<_>>()
    };
    let lost = "NET/Plugin: Could not find: libnccl-net.so";
    // Lines on the way to NCCL's own network.
    let own = [
        (
            "n1",
            "NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared object file",
        ),
        ("n1", "NET/Plugin: Using internal network plugin."),
        ("n2", lost),
        ("n3", "Initialized NET plugin IB"),
        ("n3", "Assigned NET plugin IB to comm"),
    ];
    assert_eq!(differs(&own), [""; 0]);
    let loaded = "NET/Plugin: Loaded net plugin AWS Libfabric (v6)";
    let socket = "Assigned NET plugin Socket to comm";
    let one = [("n1", loaded), ("n2", loaded), ("n3", lost), ("n3", socket)];
    let says =
        "the net plugin differs: Socket assigned on n3; AWS Libfabric (v6) loaded on 2 hosts";
    assert_eq!(differs(&one), [says]);
    let assigned = "Assigned NET plugin IB to comm";
    let slow = [("n1", assigned), ("n2", assigned), ("n3", socket)];
    let says = "the net plugin differs: Socket assigned on n3; IB assigned on 2 hosts";
    assert_eq!(differs(&slow), [says]);
}

#[test]
fn settings_say_what_they_do() {
    let set = |text: &str| {
        let log: String = (0..2)
            .map(|host| format!("n{host}:1:1 [0] NCCL INFO {text}\nn{host}:1:1 [0] NCCL INFO NET/IB : No device found.\n"))
            .collect();
        let all = of(&log);
        all.iter()
            .map(|f| format!("{} {}: {}", f.severity.name(), f.kind.id(), f.says))
            .collect::<Vec<_>>()
    };
    let one = |text: &str, says: &str| {
        let all = set(text);
        assert!(
            all.len() == 1 && all[0].starts_with(says),
            "{text}: {all:?}"
        );
    };
    one(
        "NCCL_P2P_DISABLE set by environment to 1.",
        "note setting: NCCL_P2P_DISABLE=1: peer-to-peer access",
    );
    one(
        "NCCL_P2P_LEVEL set by environment to LOC",
        "note setting: NCCL_P2P_LEVEL=LOC: peer-to-peer access",
    );
    one(
        "NCCL_ALGO set by environment to Ring",
        "note setting: NCCL_ALGO=Ring: it limits",
    );
    one(
        "NCCL_IB_HCA set to mlx5_7",
        "warning setting_bad: NCCL_IB_HCA=mlx5_7 matches no NIC on n0 and n1",
    );
    one(
        "Invalid value x for NCCL_BUFFSIZE, using default -2.",
        "warning setting_ignored: NCCL_BUFFSIZE=x is not a valid value: the default -2 is used",
    );
    one(
        "Warning: ENV NCCL_X is unused. Setting it has no effect.",
        "note setting_ignored: NCCL_X is set and has no effect",
    );
    one(
        "Comm config minCTAs reset to NCCL_MIN_CTAS=4",
        "note setting_ignored: the program's minCTAs is overridden: NCCL_MIN_CTAS sets it to 4",
    );
    one(
        "P2P is disabled between connected GPUs 0 and 1. You can repress this message with X",
        "note p2p_disabled: peer-to-peer access between GPUs of one NUMA node is disabled on n0 \
         and n1",
    );
    for text in [
        "NCCL_P2P_DISABLE set by environment to 0.",
        "NCCL_SOCKET_IFNAME set by environment to eth0",
        "NCCL_DEBUG set by environment to INFO",
    ] {
        assert_eq!(set(text), [""; 0], "{text}");
    }
}

/// The `Init timings` of four ranks on two hosts.
fn timings(of: [&str; 4]) -> String {
    let mut log = String::new();
    for (rank, parts) in of.iter().enumerate() {
        let (host, pid) = (rank / 2, 100 + rank);
        let total: f64 = parts
            .split(", ")
            .map(|p| p.split(' ').nth(1).unwrap().parse::<f64>().unwrap())
            .sum();
        for text in [
            format!(
                "ncclCommInitRank comm 0x{pid} rank {rank} nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init START"
            ),
            format!(
                "ncclCommInitRank comm 0x{pid} rank {rank} nranks 4 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init COMPLETE"
            ),
            format!(
                "Init timings - ncclCommInitRank: rank {rank} nranks 4 total {total:.2} ({parts})"
            ),
        ] {
            log += &format!("n{host}:{pid}:{pid} [0] NCCL INFO {text}\n");
        }
    }
    log
}

#[test]
fn a_slow_start_is_told_with_its_part_and_its_ranks() {
    let said = |parts: [&str; 4]| -> Vec<String> {
        let all = of(&timings(parts));
        all.iter()
            .map(|f| format!("{}: {}", f.severity.name(), f.says))
            .collect()
    };
    let fast = "kernels 0.60, bootstrap 0.20, topo 0.30";
    assert_eq!(said([fast; 4]), [""; 0]);
    let topo = "kernels 0.60, bootstrap 0.20, topo 54.20";
    assert_eq!(
        said([topo; 4]),
        [
            "warning: the communicator 0xabc of 4 ranks took 55.0 s to make, 99 % of it finding the \
          hardware (topo), where rank 0 (n0, GPU 0, pid 100) is the slowest"
        ]
    );
    let waits = "kernels 0.60, bootstrap 30.00, topo 0.30";
    assert_eq!(
        said([waits, waits, fast, waits]),
        [
            "note: the communicator 0xabc of 4 ranks took 30.9 s to make, 97 % of it waiting for \
             the other ranks (bootstrap); rank 2 (n1, GPU 0, pid 102) came last and the others waited"
        ]
    );
    let loads = "kernels 30.00, bootstrap 0.10, topo 0.30";
    assert_eq!(
        said([waits, waits, waits, loads]),
        [
            "warning: rank 3 (n1, GPU 0, pid 103) of the communicator 0xabc of 4 ranks took 30.0 s of 30.9 s for \
          loading the kernels (kernels); the median of the ranks is 0.6 s"
        ]
    );
    // Long, but no part makes most of it: a large job.
    let even = "kernels 4.00, bootstrap 4.00, topo 4.00";
    assert_eq!(said([even; 4]), [""; 0]);
}

#[test]
fn real_logs_have_these_findings() {
    let cases: &[(&str, &[&str])] = &[
        ("bert-2.11.4-crlf.log", &["note setting"]),
        ("bert-2.12.10-64xA100.log", &[]),
        ("megatron-2.7.8-64ranks.log", &["warning gpudirect_off"]),
        ("nccl-tests-2.27.7-2gpu-1process.log", &[]),
        // 8 GB AllReduce by rings on H100: its algorithms were limited.
        (
            "nccl-tests-2.29.2-4gpu-tuning.log",
            &["note nvls_not_created"],
        ),
        ("nccl-tests-efa-nvls-mpirun-tagged.log", &[]),
        ("nemo-2.22.3-512ranks-shutdown-warns.log", &[]),
        ("nemo-mlperf-2.27.7-16xB200.log", &[]),
        ("nemo-rccl-2.22.3-16xMI325X.log", &["note gpudirect_mixed"]),
        (
            "pytorch-2.4.8-16ranks-srun-label.log",
            &["warning gpudirect_off"],
        ),
        (
            "shared-debug-file-overwritten.log",
            &["note shm_instead_of_p2p"],
        ),
    ];
    for (name, want) in cases {
        let Some(path) = data(&format!("nccl-logs/{name}")) else {
            continue;
        };
        let all = of_files(&[path]);
        assert_eq!(ids(&all), *want, "{name}: {all:#?}");
    }
}
