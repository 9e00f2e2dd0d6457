<<<<<<< HEAD
//! Findings of WARN and watchdog lines in real logs and in ones composed of real bodies.

use super::finding::{Finding, Severity, Sure};
use super::warnings::{Ended, Partial, Warnings, findings};
use crate::scan::{Call, Said, Visit};
use crate::stages::pieces::walk;
use proptest::prelude::*;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// What nccl-check's walk does with WARN lines.
#[derive(Debug, Default)]
struct Part(Partial);

impl Visit for Part {
    const MESSAGES: bool = true;
    const FOREIGN: bool = true;

    fn message(&mut self, said: &Said<'_>) {
        self.0.message(said);
    }

    fn call(&mut self, call: &Call<'_>) {
        self.0.call(call.process);
    }

    fn foreign(&mut self, line: &[u8], number: u64) {
        self.0.foreign(line, number);
    }
}

/// The findings of inputs, each walked in pieces of `size` bytes.
fn check(inputs: &[&[u8]], size: usize) -> Vec<Finding> {
    let mut all = Warnings::default();
    let mut processes = Vec::new();
    let mut aliases = Vec::new();
    for (input, log) in (0..).zip(inputs) {
        // The tests' inputs are of one process each, or one: their numbers do not collide.
        assert!(inputs.len() == 1 || size >= log.len());
        let from = processes.len() as u32;
        let merged = walk(log, size, Part::default, |part| {
            let to: Vec<u32> = part.to.processes.iter().map(|p| p + from).collect();
            all.add(part.visit.0, &to, input, part.line);
        });
        aliases.extend(merged.aliases().into_iter().map(|p| p + from));
        processes.extend_from_slice(merged.origins.processes.items());
    }
    all.settle(&aliases);
    for finding in findings(&all, &processes, Ended::default()) {
        assert!(!finding.evidence.is_empty(), "{}", finding.id);
        assert!(
            finding.evidence.iter().all(|e| e.text.is_some()),
            "{}",
            finding.id
        );
        for sentence in [&finding.says, &finding.why, &finding.advice] {
            assert!(
                !sentence.is_empty() && !sentence.ends_with('.'),
                "{sentence}"
            );
        }
    }
    findings(&all, &processes, Ended::default())
}

fn whole(log: &[u8]) -> Vec<Finding> {
    check(&[log], log.len().max(1))
}

/// Kinds and severities, in their order.
fn kinds(findings: &[Finding]) -> Vec<(&'static str, Severity)> {
    findings.iter().map(|f| (f.id, f.severity)).collect()
}

fn read(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    if path.extension().is_none_or(|end| end != "gz") {
        return bytes;
    }
    let mut out = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes.as_slice())
        .read_to_end(&mut out)
        .unwrap();
    out
}

fn shared(name: &str) -> Option<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/nccl-logs");
    let path = folder.join(name);
    if path.exists() {
        return Some(read(&path));
    }
    println!("skipped: {name} is not at hand");
    None
}

#[test]
fn real_logs_have_the_first_findings_a_reader_gives_them() {
    use Severity::{Error, Note};
    for (name, first) in [
        (
            "nemo-2.22.3-512ranks-shutdown-warns.log",
            Some(("shutdown_warns", Note)),
        ),
        ("nemo-rccl-2.22.3-16xMI325X.log", Some(("warn_msccl", Note))),
        (
            "bert-2.12.10-64xA100.log",
            Some(("warn_sharp_unavailable", Note)),
        ),
        (
            "pytorch-2.4.8-16ranks-srun-label.log",
            Some(("warn_ib_retry_exceeded", Error)),
        ),
        ("bert-2.11.4-crlf.log", None),
        ("megatron-2.7.8-64ranks.log", None),
        ("nccl-tests-2.27.7-2gpu-1process.log", None),
        ("nccl-tests-2.29.2-4gpu-tuning.log", None),
        ("nccl-tests-efa-nvls-mpirun-tagged.log", None),
        ("nemo-mlperf-2.27.7-16xB200.log", None),
        ("shared-debug-file-overwritten.log", None),
        (
            "excerpts/aws__aws-ofi-nccl_24.log",
            Some(("warn_ofi_address_vector", Error)),
        ),
        (
            "excerpts/NVIDIA__nccl_1405.log",
            Some(("warn_ib_retry_exceeded", Error)),
        ),
        (
            "excerpts/NVIDIA__nccl_531.log",
            Some(("warn_collective_mismatch", Error)),
        ),
        (
            "excerpts/NVIDIA__nccl_1111.log",
            Some(("watchdog_timeout", Error)),
        ),
        (
            "excerpts/hiyouga__LlamaFactory_7396.log",
            Some(("watchdog_timeout", Error)),
        ),
        (
            "excerpts/XPixelGroup__BasicSR_737.log",
            Some(("watchdog_timeout", Error)),
        ),
        // Its one line of the watchdog's is cut in two.
        ("excerpts/mila-iqia__milabench_269.log", None),
        ("excerpts/pytorch__torchtitan_1369.log", None),
        ("excerpts/NVIDIA__nccl_147.log", None),
    ] {
        let Some(log) = shared(name) else { continue };
        let found = kinds(&whole(&log));
        assert_eq!(found.first().copied(), first, "{name}");
        let harmless = |kind: &(&str, Severity)| kind.1 == Note;
        if first.is_none_or(|kind| harmless(&kind)) {
            assert!(found.iter().all(harmless), "{name}: {found:?}");
        }
    }
}

#[test]
fn a_shutdown_of_512_ranks_is_called_harmless_and_counted_whole() {
    let Some(log) = shared("nemo-2.22.3-512ranks-shutdown-warns.log") else {
        return;
    };
    let found = whole(&log);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].says.contains("5740 WARN lines of 512 processes"),
        "{}",
        found[0].says
    );
    assert!(found[0].why.contains("ordinary way"), "{}", found[0].why);
    assert_eq!(found[0].sure, Sure::High);
    // The same, but with a failure in front: it is the failure that is shown.
    let mut failed = b"511: GPU-13:1106509:1 [7] transport/net_ib.cc:1 NCCL WARN NET/IB: Got \
        completion from peer 10.0.0.1<5> with status=12 opcode=0 len=0 vendor err 129 (Recv)\n"
        .to_vec();
    failed.extend_from_slice(&log);
    let found = whole(&failed);
    assert_eq!(kinds(&found), [("warn_ib_retry_exceeded", Severity::Error)]);
    assert!(
        found[0].why.contains("warn_proxy_shutdown 5740 times"),
        "{}",
        found[0].why
    );
}

/// The logs of all captured jobs.
fn captured() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/captured");
    let mut all = Vec::new();
    for job in std::fs::read_dir(root).unwrap() {
        let job = job.unwrap().path();
        let name = job.file_name().unwrap().to_string_lossy().into_owned();
        for log in std::fs::read_dir(&job).unwrap() {
            let log = log.unwrap().path();
            let is_log = log.file_name().unwrap().to_string_lossy().contains(".log");
            if is_log {
                all.push((name.clone(), log));
            }
        }
    }
    all.sort();
    all
}

#[test]
fn captured_jobs_that_ended_well_have_no_finding() {
    let faulty = ["ddp-die", "ddp-stall", "ddp-skip", "ddp-count"];
    let mut logs = 0;
    for (job, log) in captured() {
        let found = kinds(&whole(&read(&log)));
        let bad = found.iter().any(|kind| kind.1 < Severity::Note);
        assert_eq!(bad, faulty.contains(&job.as_str()), "{job}: {found:?}");
        logs += 1;
    }
    assert!(logs > 40);
}

#[test]
fn the_watchdog_names_the_call_and_who_is_behind() {
    for (job, says, rank) in [
        (
            "ddp-die",
            "PyTorch waited 15000 ms in vain for call 135 of process group ID 0 PG GUID \
             0(default_pg): ALLREDUCE of 2097152 elements on ranks 0, 2-3; no such line of rank 1",
            1,
        ),
        (
            "ddp-stall",
            "PyTorch waited 15000 ms in vain for call 135 of process group ID 0 PG GUID \
             0(default_pg): ALLREDUCE of 2097152 elements on ranks 0, 2-3; rank 1 is behind",
            1,
        ),
        (
            "ddp-count",
            "PyTorch waited 15000 ms in vain for call 140 of process group ID 0 PG GUID \
             0(default_pg): ALLREDUCE of 4 elements on rank 1; rank 1 is behind",
            1,
        ),
    ] {
        let path = format!("testdata/captured/{job}/nccl.log.gz");
        let found = whole(&read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(path)));
        let first = &found[0];
        assert_eq!(
            (first.id, first.says.as_str()),
            ("watchdog_timeout", says),
            "{job}"
        );
        assert_eq!(first.about.rank, Some(rank), "{job}: {}", first.why);
    }
}

#[test]
fn an_error_that_the_watchdog_fails_with_is_shown_once_for_all_ranks() {
    let mut log = String::new();
    for rank in [0, 1, 3] {
        let _ = writeln!(
            log,
            "[rank{rank}]:[E PG.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group \
             watchdog thread terminated with exception: CUDA error: unspecified launch failure"
        );
    }
    let found = whole(log.as_bytes());
    assert_eq!(kinds(&found), [("watchdog_exception", Severity::Error)]);
    let says = "PyTorch's watchdog failed on ranks 0-1, 3: CUDA error: unspecified launch failure";
    assert_eq!(found[0].says, says);
}

#[test]
fn communicators_that_were_destroyed_make_a_shutdown_sure() {
    let down = warn(
        "a",
        1,
        "[Service thread] Accept failed Resource temporarily unavailable",
    );
    let sure = |destroyed| {
        let ended = Ended {
            destroyed,
            aborted: 1,
            communicators: 2,
        };
        let mut all = Warnings::default();
        let merged = walk(down.as_bytes(), down.len(), Part::default, |part| {
            all.add(part.visit.0, &part.to.processes, 0, part.line);
        });
        let processes = merged.origins.processes.items();
        all.settle(&merged.aliases());
        findings(&all, processes, ended)[0].sure
    };
    assert_eq!((sure(1), sure(0)), (Sure::High, Sure::Medium));
}

/// A line of NCCL's: host, pid and what it says.
fn line(host: &str, pid: u32, says: &str) -> String {
    format!("{host}:{pid}:{} [0] {says}\n", pid + 1)
}

fn warn(host: &str, pid: u32, says: &str) -> String {
    line(host, pid, &format!("proxy.cc:1 NCCL WARN {says}"))
}

/// One host cannot reach another; what the rest prints follows.
fn cascade() -> String {
    let mut log = line("a", 1, "NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>");
    log += &line("b", 2, "NCCL INFO Bootstrap: Using eth0:10.0.0.2<0>");
    log += &warn(
        "b",
        2,
        "Call to ibv_modify_qp failed with error Network is unreachable",
    );
    log += &line("b", 2, "NCCL INFO transport/net_ib.cc:579 -> 2");
    log += &warn(
        "b",
        2,
        "[Proxy Service 1] Failed to execute operation Connect from rank 1, retcode 2",
    );
    for peer in 0..40 {
        let says = format!("socketProgress: Connection closed by remote peer 10.0.0.2<{peer}>");
        log += &warn("a", 1, &says);
    }
    log += &warn(
        "a",
        1,
        "[Service thread] Could not receive type from localRank 6, res=3, closed=0",
    );
=======
//! Jobs that are well, jobs of which one host is not, and real logs: which findings come.

use super::finding::{Finding, Severity};
use super::{channels, hosts, initialisation, settings, transport};
use crate::calls::{Options, Progress};
use crate::formats::log;
use crate::grammar::trainer::Recogniser;
use crate::report::Report;
use crate::source::{self, Origin};
use crate::stages::{communicators, net};
use crate::synth::{self, StreamSink};
use crate::timeline;
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
        },
        timeline: timeline::Options::default(),
        window: None,
    }
}

/// The findings of these files.
fn of_files(paths: &[PathBuf]) -> Vec<Finding> {
    let origins: Vec<Origin> = paths.iter().cloned().map(Origin::Path).collect();
    let mut report = Report::new("test", false, true);
    let net = net::net(&origins, &options(), &mut report, &Nobody).unwrap();
    let found = communicators::read(&origins, &options(), &mut report, &Nobody).unwrap();
    let mut all = transport::findings(&net);
    all.extend(hosts::findings(&net));
    all.extend(settings::findings(&net));
    all.extend(initialisation::findings(&found));
    all.extend(channels::findings(&found));
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
        assert!(finding.evidence.iter().all(|e| e.at.line < lines));
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
    let id = |f: &Finding| format!("{} {}", f.severity.name(), f.id);
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
        let all = of(&job(&format!("{words} {layers}")));
        let bad: Vec<&Finding> = all.iter().filter(|f| is_bad(f)).collect();
        assert!(bad.is_empty(), "{words}: {bad:#?}");
        assert!(all.len() < 3, "{words}: {all:#?}");
    }
}

#[test]
fn captured_jobs_have_no_warning() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/captured");
    let mut seen = 0;
    for job in std::fs::read_dir(dir).unwrap() {
        let job = job.unwrap().path();
        let files = std::fs::read_dir(&job).unwrap().map(|f| f.unwrap().path());
        let mut logs: Vec<PathBuf> = files
            .filter(|f| f.to_string_lossy().ends_with(".log.gz"))
            .collect();
        logs.sort();
        if logs.is_empty() {
            continue;
        }
        seen += 1;
        let all = of_files(&logs);
        let bad: Vec<&Finding> = all.iter().filter(|f| is_bad(f)).collect();
        assert!(bad.is_empty(), "{}: {bad:#?}", job.display());
    }
    assert!(seen > 25, "{seen}");
}

/// Four hosts of four ranks.
const JOB: &str = "--ranks 16 --nodes 4 --tp 4 --layers 2 --net ib --nvls --tuning";

/// One finding of a host that is not as the others.
#[track_caller]
fn alone(log: &str, severity: Severity, id: &str, host: &str, says: &str) {
    let all = of(log);
    let bad: Vec<&Finding> = all.iter().filter(|f| is_bad(f) || f.id == id).collect();
    let [found] = &bad[..] else {
        panic!("{id}: {:#?}", all);
    };
    assert_eq!((found.id, found.severity), (id, severity));
    assert_eq!(
        found.about.host.as_deref(),
        Some(host.as_bytes()),
        "{found:?}"
    );
    assert!(found.says.contains(says), "{}", found.says);
    // Both sides are shown: a line of the host, and one of another.
    let lines: Vec<&str> = log.lines().collect();
    let own = |e: &&super::finding::Evidence| lines[e.at.line as usize].starts_with(host);
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
    let says = "node03 has 3 network cards where 3 hosts have 4; node03 has no mlx5_3:1/IB";
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
        "can not be used (NVLS) on node03",
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
        "off on node03 and on on 3 other hosts",
    );

    let log_of = is("via P2P/CUMEM", "via SHM/direct/direct");
    let says = "the GPUs of node03 reach each other through the host's memory";
    alone(&log_of, warning, "shm_instead_of_p2p", odd, says);

    let log_of = is("Using network IB", "Using network Socket");
    let log_of = on(&log_of, odd, "via NET/IB/", "via NET/Socket/");
    let all = of(&log_of);
    assert_eq!(ids(&all)[0], "warning socket_fallback", "{all:#?}");
    assert_eq!(
        all[0].says,
        "node03 goes over sockets while 3 hosts use a faster network"
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
    assert_eq!(ids(&of(&none)), ["warning nvls_not_created"]);
}

#[test]
fn settings_say_what_they_do() {
    let set = |text: &str| {
        let log: String = (0..2)
            .map(|host| format!("n{host}:1:1 [0] NCCL INFO {text}\nn{host}:1:1 [0] NCCL INFO NET/IB : No device found.\n"))
            .collect();
        let all = of(&log);
        all.iter()
            .map(|f| format!("{} {}: {}", f.severity.name(), f.id, f.says))
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
        "note setting: NCCL_P2P_DISABLE=1: GPUs do not",
    );
    one(
        "NCCL_P2P_LEVEL set by environment to LOC",
        "note setting: NCCL_P2P_LEVEL=LOC: GPUs do not",
    );
    one(
        "NCCL_ALGO set by environment to Ring",
        "note setting: NCCL_ALGO=Ring: it limits",
    );
    one(
        "NCCL_IB_HCA set to mlx5_7",
        "warning setting_bad: NCCL_IB_HCA=mlx5_7 fits no card on n0 and n1",
    );
    one(
        "Invalid value x for NCCL_BUFFSIZE, using default -2.",
        "warning setting_ignored: NCCL_BUFFSIZE=x is no value: the default -2 is used",
    );
    one(
        "Warning: ENV NCCL_X is unused. Setting it has no effect.",
        "note setting_ignored: NCCL_X is set and has no effect",
    );
    one(
        "Comm config minCTAs reset to NCCL_MIN_CTAS=4",
        "note setting_ignored: the program's minCTAs is not followed: NCCL_MIN_CTAS makes it 4",
    );
    one(
        "P2P is disabled between connected GPUs 0 and 1. You can repress this message with X",
        "note p2p_disabled: GPUs of one NUMA node may not reach each other on n0 and n1",
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
>>>>>>> d04363a (nccl-check: slow starts, channels, expectations, and what a log can answer)
    log
}

#[test]
<<<<<<< HEAD
fn what_follows_from_a_failure_is_folded_under_it() {
    let found = whole(cascade().as_bytes());
    assert_eq!(kinds(&found), [("warn_ib_connect", Severity::Error)]);
    let first = &found[0];
    assert_eq!(first.about.host.as_deref(), Some(&b"b"[..]));
    assert!(
        first.why.contains("warn_peer_closed 40 times on host a"),
        "{}",
        first.why
    );
    assert!(
        first.why.contains("warn_proxy_operation once on host b"),
        "{}",
        first.why
    );
    assert!(
        first.why.contains("warn_proxy_shutdown once on host a"),
        "{}",
        first.why
    );
    assert!(first.why.contains("a system error (2)"), "{}", first.why);
    assert!(
        first.advice.contains("NVIDIA/nccl#2013"),
        "{}",
        first.advice
    );
}

#[test]
fn pieces_of_any_size_give_the_same_findings() {
    let mut log = cascade();
    for kind in 0..30 {
        let letters = "x".repeat(kind);
        log += &warn("c", 3, &format!("something new {letters} {kind}"));
        log += &line("c", 3, "NCCL INFO init.cc:1 -> 5");
    }
    log += "[rank0]:[E1120 14:02:44.5 ProcessGroupNCCL.cpp:689] [Rank 0] Watchdog caught \
            collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, \
            NumelOut=1, Timeout(ms)=15000) ran for 15005 milliseconds before timing out.\n";
    let all = whole(log.as_bytes());
    assert_eq!(all.len(), 1 + 10 + 1 + 1);
    for size in [1, 100, 1000, 3000] {
        assert_eq!(check(&[log.as_bytes()], size), all, "{size}");
    }
}

#[test]
fn a_quoted_warn_counts_and_a_command_that_looks_for_one_does_not() {
    let log = b"[1] misc/shmutils.cc:103 NCCL WARN Cuda failure 2 'out of memory'\n\
        + grep -c 'NCCL WARN ' nccl.log\n";
    let found = whole(log);
    assert_eq!(kinds(&found), [("warn_cuda_oom", Severity::Error)]);
    assert_eq!(found[0].about.host, None);
    assert!(
        found[0].says.contains("a host that is not named"),
        "{}",
        found[0].says
    );
}

#[test]
fn a_failure_of_which_only_the_consequences_are_seen_is_said_to_be_elsewhere() {
    let log = warn(
        "a",
        1,
        "socketProgress: Connection closed by remote peer b.lan<4>",
    ) + &warn(
        "a",
        1,
        "Socket recv failed while polling for opId=0x7f4774cc9620",
    );
    let found = whole(log.as_bytes());
    assert_eq!(kinds(&found), [("warn_peer_closed", Severity::Error)]);
    assert!(found[0].why.contains("not in this log"), "{}", found[0].why);
    assert!(
        found[0].why.contains("warn_proxy_no_answer once"),
        "{}",
        found[0].why
    );
}

#[test]
fn a_card_that_cannot_be_opened_is_not_blamed_for_what_comes_later() {
    let log = warn("a", 1, "NET/IB : Unable to open device mlx5_10")
        + &warn(
            "a",
            1,
            "socketProgress: Connection closed by remote peer b<4>",
        );
    let found = whole(log.as_bytes());
    let kinds = kinds(&found);
    let open = ("warn_ib_open_device", Severity::Warning);
    assert_eq!(kinds, [("warn_peer_closed", Severity::Error), open]);
    assert!(found[0].why.contains("not in this log"), "{}", found[0].why);
}

#[test]
fn a_link_that_goes_down_is_a_failure_where_one_follows() {
    let down = warn(
        "b",
        1,
        "NET/IB : mlx5_0:1 Got async error event: port error",
    );
    assert_eq!(
        kinds(&whole(down.as_bytes())),
        [("warn_ib_port_error", Severity::Warning)]
    );
    let log = down
        + &warn(
            "a",
            2,
            "socketProgress: Connection closed by remote peer b<4>",
        );
    let found = whole(log.as_bytes());
    assert_eq!(kinds(&found), [("warn_ib_port_error", Severity::Error)]);
}

#[test]
fn the_first_cause_is_the_earliest_stamp_not_the_first_file() {
    let oom = warn("a", 1, "Cuda failure 2 'out of memory'");
    let refused = warn(
        "b",
        2,
        "socketStartConnect: Connect to 10.0.0.1<5> failed : Connection refused",
    );
    let stamp = |second: u32, line: &str| format!("[2026-03-03 12:11:{second}] {line}");
    let (late, early) = (stamp(40, &refused), stamp(20, &oom));
    let found = check(&[late.as_bytes(), early.as_bytes()], 1000);
    let error = Severity::Error;
    assert_eq!(
        kinds(&found),
        [("warn_cuda_oom", error), ("warn_socket_refused", error)]
    );
    assert!(
        found[0].why.contains("2026-03-03 12:11:20"),
        "{}",
        found[0].why
    );
    assert!(
        found[1].why.contains("behind warn_cuda_oom"),
        "{}",
        found[1].why
    );
    // Without stamps nothing is known of the order between files.
    let found = check(&[refused.as_bytes(), oom.as_bytes()], 1000);
    assert!(found[0].why.contains("between files"), "{}", found[0].why);
}

#[test]
fn a_communicator_taken_down_while_calls_go_on_is_no_shutdown() {
    let down = warn(
        "a",
        1,
        "[Proxy Service 5] Failed to execute operation Close from rank 4, retcode 3",
    );
    let call = line(
        "a",
        1,
        "NCCL INFO AllReduce: opCount 1 sendbuff 0x7f00 recvbuff 0x7f00 count 5 datatype 7 op 0 \
         root 0 comm 0x5500 [nranks=4] stream 0x5600",
    );
    let found = kinds(&whole(format!("{call}{down}").as_bytes()));
    assert_eq!(found, [("shutdown_warns", Severity::Note)]);
    let found = kinds(&whole(format!("{down}{call}").as_bytes()));
    assert_eq!(found, [("warn_proxy_midway", Severity::Warning)]);
}

#[test]
fn more_kinds_than_are_told_apart_are_counted() {
    let mut log = String::new();
    for kind in 0..20_000 {
        // Letters, as numbers are left out.
        let name: String = format!("{kind}")
            .bytes()
            .map(|b| char::from(b - b'0' + b'g'))
            .collect();
        let _ = write!(log, "{}", warn("a", 1, &format!("new {name}")));
    }
    let found = whole(log.as_bytes());
    let last = found.last().unwrap();
    assert_eq!(last.id, "warn_uncounted");
    assert!(last.says.starts_with("3616 WARN lines"), "{}", last.says);
    assert_eq!(check(&[log.as_bytes()], 5000), found);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gives_the_same_findings_however_it_is_cut(
        lines in proptest::collection::vec((0..4_u32, 0..5_usize, "[ -~]{0,40}"), 0..60),
        size in 1..2000_usize,
    ) {
        let mut log = String::new();
        for (pid, kind, text) in lines {
            let host = ["a", "b"][pid as usize % 2];
            log += &match kind {
                0 => line(host, pid, "NCCL INFO init.cc:1 -> 6"),
                1 => warn(host, pid, &format!("Cuda failure '{text}'")),
                2 => warn(host, pid, &format!("Connection closed by remote peer b<{pid}> {text}")),
                3 => warn(host, pid, &format!("[Service thread] Accept failed {text}")),
                _ => warn(host, pid, &text),
            };
        }
        prop_assert_eq!(check(&[log.as_bytes()], size), whole(log.as_bytes()));
=======
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
          hardware (topo) (slowest rank 0 on n0)"
        ]
    );
    let waits = "kernels 0.60, bootstrap 30.00, topo 0.30";
    assert_eq!(
        said([waits, waits, fast, waits]),
        [
            "note: the communicator 0xabc of 4 ranks took 30.9 s to make, 97 % of it meeting the other \
          ranks (bootstrap); rank 2 on n1 came last, the others waited"
        ]
    );
    let loads = "kernels 30.00, bootstrap 0.10, topo 0.30";
    assert_eq!(
        said([waits, waits, waits, loads]),
        [
            "warning: rank 3 on n1 of the communicator 0xabc of 4 ranks took 30.0 s of 30.9 s for \
          loading the kernels (kernels), the median rank 0.6 s"
        ]
    );
    // Long, but no part makes most of it: a large job.
    let even = "kernels 4.00, bootstrap 4.00, topo 4.00";
    assert_eq!(said([even; 4]), [""; 0]);
}

#[test]
fn real_logs_have_these_findings() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/nccl-logs");
    let cases: &[(&str, &[&str])] = &[
        ("bert-2.11.4-crlf.log", &["note setting"]),
        ("bert-2.12.10-64xA100.log", &[]),
        ("megatron-2.7.8-64ranks.log", &["warning gpudirect_off"]),
        ("nccl-tests-2.27.7-2gpu-1process.log", &[]),
        // 8 GB AllReduce by rings on H100: its algorithms were limited.
        (
            "nccl-tests-2.29.2-4gpu-tuning.log",
            &["warning nvls_not_created"],
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
        let path = dir.join(name);
        if !path.exists() {
            println!("skipped: {name} is not at hand");
            continue;
        }
        let all = of_files(&[path]);
        assert_eq!(ids(&all), *want, "{name}: {all:#?}");
>>>>>>> d04363a (nccl-check: slow starts, channels, expectations, and what a log can answer)
    }
}
