//! Findings of WARN and watchdog lines in real logs and in ones composed of real bodies.

use super::nccl_error::find_nccl_error;
use super::triage::{CommEndCounts, triage_warnings};
use super::warnings::{WarnPartial, Warnings};
use crate::log::walk::{LogCall, LogVisitor, MessageLine, RepairedCall};
use crate::members::MergedMembers;
use crate::shared::data;
use crate::stages::check::finding::{Confidence, Finding, Severity};
use crate::stages::check::words::texts::write_shared_texts;
use crate::stages::communicators::CommunicatorsSummary;
use crate::stages::pieces::{read_after, walk};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// What nccl-check's walk does with WARN lines.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Part(WarnPartial);

impl LogVisitor for Part {
    const MESSAGES: bool = true;
    const FOREIGN: bool = true;

    fn message(&mut self, said: &MessageLine<'_>) {
        self.0.take_message(said);
    }

    fn call(&mut self, call: &LogCall<'_>) {
        self.0.count_call(call.process);
    }

    fn slot(&mut self) {
        self.0.note_torn_slot();
    }

    fn unify_processes(&mut self, _first: &[u32]) {}

    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        self.0.count_torn_calls(calls);
    }

    fn foreign(&mut self, line: &[u8], number: u64) {
        self.0.take_foreign_line(line, number);
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
            all.add_chunk(part.visit.0, &to, input, part.line);
        });
        aliases.extend(merged.process_aliases().into_iter().map(|p| p + from));
        processes.extend_from_slice(merged.origins.processes.items());
    }
    all.resolve_aliases(&aliases);
    let mut found = CommunicatorsSummary::default();
    found.processes = processes;
    let mut findings = triage_warnings(&all, &found, CommEndCounts::default());
    // As the table of causes has it.
    if !findings.iter().any(|f| f.severity == Severity::Error) {
        findings.extend(find_nccl_error(&all, &found.processes));
    }
    write_shared_texts(&mut findings);
    for finding in &findings {
        assert!(!finding.evidence.is_empty(), "{}", finding.kind.id());
        assert!(
            finding.evidence.iter().all(|e| e.text.is_some()),
            "{}",
            finding.kind.id()
        );
        for sentence in [&finding.says, &finding.why, &finding.advice] {
            assert!(
                !sentence.is_empty() && !sentence.ends_with('.'),
                "{sentence}"
            );
        }
    }
    findings
}

fn whole(log: &[u8]) -> Vec<Finding> {
    check(&[log], log.len().max(1))
}

/// Kinds and severities, in their order.
fn kinds(findings: &[Finding]) -> Vec<(&'static str, Severity)> {
    findings.iter().map(|f| (f.kind.id(), f.severity)).collect()
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
    data(&format!("nccl-logs/{name}")).map(|path| read(&path))
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
        // Its one line of the watchdog's is broken in two.
        (
            "excerpts/mila-iqia__milabench_269.log",
            Some(("watchdog_timeout", Error)),
        ),
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
    assert!(found[0].why.contains("ended normally"), "{}", found[0].why);
    assert_eq!(found[0].sure, Confidence::High);
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
    let faulty = [
        "3d-die",
        "3d-skip",
        "3d-stall",
        "ddp-die",
        "ddp-stall",
        "ddp-skip",
        "ddp-count",
        "pp-recv",
        "tp-count",
    ];
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
            "PyTorch's wait for call 135 of process group ID 0 PG GUID \
             0(default_pg) timed out after 15000 ms: ALLREDUCE of 2097152 elements on ranks 0, 2-3, and rank 1 printed no such line",
            1,
        ),
        (
            "ddp-stall",
            "PyTorch's wait for call 135 of process group ID 0 PG GUID \
             0(default_pg) timed out after 15000 ms: ALLREDUCE of 2097152 elements on ranks 0, 2-3, and rank 1 went past it",
            1,
        ),
        (
            "ddp-count",
            "PyTorch's wait for call 140 of process group ID 0 PG GUID \
             0(default_pg) timed out after 15000 ms: ALLREDUCE of 4 elements on rank 1, and ranks 0, 2-3 went past it",
            1,
        ),
    ] {
        let path = format!("testdata/captured/{job}/nccl.log.gz");
        let found = whole(&read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(path)));
        let first = &found[0];
        assert_eq!(
            (first.kind.id(), first.says.as_str()),
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
        let ended = CommEndCounts {
            destroyed,
            aborted: 1,
            communicators: 2,
        };
        let mut all = Warnings::default();
        let merged = walk(down.as_bytes(), down.len(), Part::default, |part| {
            all.add_chunk(part.visit.0, &part.to.processes, 0, part.line);
        });
        let mut found = CommunicatorsSummary::default();
        found.processes = merged.origins.processes.items().to_vec();
        all.resolve_aliases(&merged.process_aliases());
        triage_warnings(&all, &found, ended)[0].sure
    };
    assert_eq!((sure(1), sure(0)), (Confidence::High, Confidence::Medium));
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
    log
}

#[test]
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

/// An exception of each of two ranks, the lines of one between those of the other.
const RELAYED: &str = "\
[rank1]: torch.distributed.DistBackendError: NCCL error in: x.hpp:275, invalid usage, NCCL version 2.20.5
[rank0]: torch.distributed.DistBackendError: NCCL error in: x.hpp:275, invalid usage, NCCL version 2.20.5
[rank1]: ncclInvalidUsage: This usually reflects invalid usage of NCCL library.
[rank1]: Last error:
[rank0]: ncclInvalidUsage: This usually reflects invalid usage of NCCL library.
[rank0]: Last error:
[rank1]: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000
[rank0]: Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000
";

#[test]
fn a_relayed_error_is_found_however_it_is_cut() {
    for size in [1, 10, 90, 150, 400, RELAYED.len()] {
        let findings = check(&[RELAYED.as_bytes()], size);
        let relayed = &findings[0];
        assert_eq!(relayed.kind.id(), "warn_duplicate_gpu", "{size}");
        assert!(relayed.says.ends_with("on ranks 0-1"), "{}", relayed.says);
        assert_eq!(relayed.severity, Severity::Error);
    }
}

#[test]
fn what_nccl_prints_itself_is_not_counted_again() {
    let own = warn(
        "a",
        1,
        "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000",
    );
    let findings = whole((own + RELAYED).as_bytes());
    assert!(
        findings[0]
            .says
            .ends_with("1 WARN line of 1 process on host a")
    );
    assert_eq!(findings[0].about.pid, Some(1));
}

#[test]
fn an_error_without_a_reason_names_where_it_began_unless_the_job_went_on() {
    let way = line("a", 1, "NCCL INFO misc/socket.cc:666 -> 2")
        + &line("a", 1, "NCCL INFO group.cc:64 -> 2 [Async thread]");
    let findings = whole(way.as_bytes());
    assert_eq!(kinds(&findings), [("nccl_error", Severity::Error)]);
    assert!(findings[0].says.contains("misc/socket.cc:666"));
    let start = "NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 1b000 \
                 commId 0x9 - Init COMPLETE";
    let went_on = way + &line("a", 1, start);
    assert_eq!(kinds(&whole(went_on.as_bytes())), []);
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
    let oom = "NCCL WARN Cuda failure 2 'out of memory'";
    for before in [
        "",
        " ",
        "3: ",
        "> ",
        "[1] ",
        "[1] misc/shmutils.cc:103 ",
        "[1] misc/shmutils.cc:103 (shmAlloc) ",
        "[2026-03-03 12:11:38] ",
    ] {
        let found = whole(format!("{before}{oom}\n").as_bytes());
        assert_eq!(
            kinds(&found),
            [("warn_cuda_oom", Severity::Error)],
            "{before}"
        );
        assert_eq!(found[0].about.host, None);
        let says = "1 WARN line of an unnamed process";
        assert!(found[0].says.contains(says), "{}", found[0].says);
    }
    for before in ["+ grep -c '", "If ", "note: ", "the message (``"] {
        assert_eq!(whole(format!("{before}{oom}\n").as_bytes()), [], "{before}");
    }
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
    assert!(
        found[0].why.contains("an earlier failure"),
        "{}",
        found[0].why
    );
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
    let open = ("warn_ib_open_device", Severity::Note);
    assert_eq!(kinds, [("warn_peer_closed", Severity::Error), open]);
    assert!(
        found[0].why.contains("an earlier failure"),
        "{}",
        found[0].why
    );
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
        found[1].why.contains("after warn_cuda_oom"),
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
fn a_shutdown_in_front_of_a_failure_is_not_said_to_follow_from_it() {
    let down = warn(
        "a",
        1,
        "[Service thread] Accept failed Resource temporarily unavailable",
    );
    let oom = warn("a", 9, "Cuda failure 2 'out of memory'");
    let found = whole(format!("{down}{oom}{}", down.replace(":1:", ":9:")).as_bytes());
    let kinds = kinds(&found);
    let shutdown = ("shutdown_warns", Severity::Note);
    assert_eq!(kinds, [("warn_cuda_oom", Severity::Error), shutdown]);
    assert!(
        found[0].why.contains("warn_proxy_shutdown once"),
        "{}",
        found[0].why
    );
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
    assert_eq!(last.kind.id(), "warn_uncounted");
    assert!(last.says.starts_with("3616 WARN lines"), "{}", last.says);
    assert_eq!(check(&[log.as_bytes()], 5000), found);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gives_the_same_findings_however_it_is_cut(
        lines in proptest::collection::vec((0..4_u32, 0..8_usize, "[ -~]{0,40}"), 0..60),
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
                4 => format!("[rank{pid}]: ncclSystemError: {text}\n"),
                5 => format!("[rank{pid}]: Last error:\n"),
                6 => format!("[rank{pid}]: {text}\n"),
                _ => warn(host, pid, &text),
            };
        }
        prop_assert_eq!(check(&[log.as_bytes()], size), whole(log.as_bytes()));
    }
}

/// What is gathered of all inputs.
#[derive(Default)]
struct State {
    merged: MergedMembers,
    warnings: Warnings,
}

impl State {
    /// Reads `files`, each in so many pieces, whose parts are sent.
    fn of(files: &[String], pieces: usize) -> State {
        let mut state = State::default();
        for (input, file) in (0..).zip(files) {
            state.merged.begin_next_input();
            let (merged, warnings) = (&mut state.merged, &mut state.warnings);
            let size = file.len().div_ceil(pieces);
            let mut speakers = BTreeSet::new();
            let log = read_after(merged, file.as_bytes(), size, Part::default, |part| {
                speakers.extend(part.to.processes.iter().copied());
                warnings.add_chunk(part.visit.0, &part.to.processes, input, part.line);
            });
            let steps = (0..)
                .zip(log.marks.as_slice().iter())
                .map(|(step, mark)| (mark.line, step));
            warnings.ends.add_step_lines(input, steps.collect());
            let begins = log.begins.iter().map(|begin| begin.at);
            warnings.ends.add_takeovers(input, &speakers, begins);
        }
        state
    }

    /// All that is asked of it.
    fn told(mut self) -> String {
        self.warnings
            .resolve_aliases(&self.merged.process_aliases());
        let seen: Vec<_> = self
            .warnings
            .lines_in_order()
            .into_iter()
            .map(|(p, _, s)| (p, s))
            .collect();
        let watched = (
            self.warnings.watchdog_lines(),
            self.warnings.ordinary_ends(),
        );
        let (ends, addresses) = (&self.warnings.ends, self.warnings.addresses());
        format!("{seen:#?} {watched:#?} {ends:#?} {addresses:?}")
    }
}

/// A line of the process `pid`, of one of some kinds.
fn written((kind, n): (u32, u64), pid: u32, out: &mut String) {
    let own = format!("n{}:{pid}:{} [0]", pid % 2, u64::from(pid) + n % 2);
    let end = match kind {
        0 => writeln!(
            out,
            "{own} misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.0.0.{n}<4312> failed : Connection refused"
        ),
        1 => writeln!(out, "{own} NCCL INFO misc/socket.cc:564 -> {n}"),
        2 => writeln!(
            out,
            "{own} transport/net_ib.cc:77 NCCL WARN NET/IB : Got async event : port error"
        ),
        3 => writeln!(
            out,
            "[rank{n}]:[E1120 19:35:19.1 ProcessGroupNCCL.cpp:629] [Rank {n}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={n}, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=15000) ran for 15001 milliseconds before timing out."
        ),
        4 => writeln!(out, "srun: error: n{n}: task {n}: Exited with exit code 1"),
        5 => writeln!(
            out,
            " [2026-11-20 14:01:54] iteration {n:>8}/      30 | consumed samples: 8 | elapsed time per iteration (ms): 143.4 |"
        ),
        6 => writeln!(
            out,
            "{own} NCCL INFO NET/Socket : Using [0]eth{n}:10.0.1.{n}<0>"
        ),
        7 => writeln!(
            out,
            "{own} NCCL INFO ncclCommInitRank comm 0x5 rank {n} nranks 9 cudaDev 0 nvmlDev 0 busId 60 commId 0x9 - Init START"
        ),
        _ => writeln!(
            out,
            "{own} NCCL INFO AllReduce: opCount {n} sendbuff 0x7fca95ffc000 recvbuff 0x7fca95ffc000 count 1 datatype 7 op 0 root 0 comm 0x5 [nranks=9] stream (nil)"
        ),
    };
    end.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A process may write several files, and other machines may walk their chunks.
    #[test]
    fn warnings_of_chunks_read_elsewhere_are_one_run(
        files in proptest::collection::vec((
            0..4_u32,
            proptest::collection::vec((0..10_u32, 0..9_u64), 1..25),
        ), 1..7),
        pieces in 2..8_usize,
    ) {
        let files: Vec<String> = files.into_iter().map(|(process, lines)| {
            let mut text = String::new();
            lines.into_iter().for_each(|of| written(of, 100 + process, &mut text));
            text
        }).collect();
        prop_assert_eq!(State::of(&files, pieces).told(), State::of(&files, 1).told());
    }
}
