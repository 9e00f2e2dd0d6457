//! What nccl-check makes of what a log says, and of what it does not: WARN lines by their text and
//! by what came of them, hosts by what they had occasion to print, logs with nothing to check.

use crate::support::{ALL, Csv, Out, Work, feed, procs, run, sh};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// A line of NCCL's: who says it, and what.
fn line(host: &str, pid: u32, says: &str) -> String {
    format!("{host}:{pid}:{} [0] NCCL INFO {says}\n", pid + 1)
}

fn warn(host: &str, pid: u32, place: &str, says: &str) -> String {
    format!("{host}:{pid}:{} [0] {place} NCCL WARN {says}\n", pid + 1)
}

/// The INIT line of a rank.
fn made(host: &str, pid: u32, rank: u32, nranks: u32) -> String {
    let says = format!(
        "ncclCommInitRank comm 0x55d0a{rank:03}000 rank {rank} nranks {nranks} cudaDev 0 nvmlDev 0 \
         busId 1b000 commId 0x9f3b0c2d11e5a7c4 - Init COMPLETE"
    );
    line(host, pid, &says)
}

/// `error warn_argument high` of each finding but those of processes (see `ended.rs`) and of what was not judged.
fn findings(log: &str) -> Vec<String> {
    let (csv, _) = rows(log);
    csv.pick(&["severity", "finding", "sure"])
}

fn rows(log: &str) -> (Csv, Out) {
    let out = feed("nccl-check", &["-q", "--format", "csv"], log).calm();
    let mut csv = Csv::of(&out);
    let at = csv.column("finding");
    let others = [
        "rank_exited",
        "rank_crashed",
        "not_checked",
        "no_first_call",
    ];
    let mut is_other = at.iter().map(|id| others.contains(&id.as_str()));
    csv.rows.retain(|_| is_other.next() == Some(false));
    (csv, out)
}

/// What the first finding says in a column.
fn first(log: &str, column: &str) -> String {
    let (csv, _) = rows(log);
    csv.column(column).first().cloned().unwrap_or_default()
}

const REGISTER: &str =
    "NET/OFI Unable to register memory (type = 2) for device 3. RC: -22, Error: Invalid argument";
const ARGUMENT: &str = "Error: corrupted comm object detected";
const CLOSED: &str = "socketProgress: Connection closed by remote peer b<42830>";

#[test]
fn a_failure_that_ended_the_job_is_an_error() {
    let before = made("a", 7, 0, 2) + &made("b", 9, 1, 2);
    for unknown in [
        "something that nobody has seen before",
        "NET/OFI a new complaint",
        "Could not find a path for pattern 4, falling back to simple order",
    ] {
        let failed = before.clone()
            + &warn("a", 7, "register:600", unknown)
            + &line("a", 7, "transport/net.cc:700 -> 2")
            + &line("a", 7, "proxy.cc:999 -> 2");
        assert!(first(&failed, "severity") == "warning", "{unknown}");
        for end in [
            "srun: error: a: task 0: Exited with exit code 3\n",
            "mpirun noticed that process rank 0 with PID 7 on node a exited on signal 6 (Aborted).\n",
            "a: Test NCCL failure common.cu:958 'unhandled system error / '\n",
            "[rank0]: ncclSystemError: System call (e.g. socket, malloc) or external library\n",
            "E0626 14:02:46.8 77 api.py:826] failed (exitcode: 1) local_rank: 0 (pid: 7) of binary: x\n",
        ] {
            let log = failed.clone() + end;
            assert_eq!(first(&log, "severity"), "error", "{end}");
            let quoted = end.trim().trim_end_matches('.');
            assert!(first(&log, "why").contains(quoted), "{end}");
        }
        // The job that went on did not fail by it, nor one that was only killed.
        let went_on = failed.clone()
            + &made("a", 7, 0, 2)
            + "srun: error: a: task 0: Exited with exit code 1\n";
        assert_eq!(first(&went_on, "severity"), "warning");
        let killed = failed.clone() + "srun: error: a: task 0: Terminated\n";
        assert_eq!(first(&killed, "severity"), "warning");
    }
    let log = before
        + &warn("a", 7, "register_mr_buffers:600", REGISTER)
        + &line("a", 7, "transport/net.cc:700 -> 2")
        + "srun: error: a: task 0: Exited with exit code 3\n";
    assert_eq!(findings(&log)[0], "error warn_ofi_memory medium");
    let harmless = log.replace(REGISTER, "Could not read node # 4");
    assert_eq!(findings(&harmless)[0], "error warn_rccl_node medium");
    let harmless = log.replace(REGISTER, "MSCCL++: Cannot enable MSCCL++; environment");
    assert_eq!(findings(&harmless)[0], "note warn_msccl high");
    let why = first(&log, "why");
    assert!(
        why.contains("then the job ended: srun: error: a: task 0"),
        "{why}"
    );
}

#[test]
fn the_launchers_lines_may_be_in_another_file() {
    let nccl = made("a", 7, 0, 2)
        + &warn(
            "a",
            7,
            "register:600",
            "something that nobody has seen before",
        )
        + &line("a", 7, "transport/net.cc:700 -> 2");
    let first = |nccl: &str, slurm: &str| {
        let work = Work::new();
        work.file("logs/nccl.a.7.log", nccl);
        work.file("logs/slurm.out", slurm);
        let out = sh(work.dir(), "nccl-check -q logs --format csv").calm();
        let mut told = Csv::of(&out).pick(&["severity", "finding"]);
        told.retain(|told| told.contains("warn_"));
        told[0].clone()
    };
    let failed = "step 1\nsrun: error: a: task 0: Exited with exit code 3\n";
    assert_eq!(first(&nccl, failed), "error warn_unknown");
    let well = "srun: error: a: task 0: Exited with exit code 3\nTraining completed\n";
    assert_eq!(first(&nccl, well), "warning warn_unknown");
    let went_on = nccl + &made("a", 7, 0, 2);
    assert_eq!(first(&went_on, failed), "warning warn_unknown");
}

#[test]
fn what_comes_after_the_jobs_own_end_is_a_note() {
    let job = made("a", 7, 0, 2) + &made("b", 9, 1, 2);
    let late = warn("a", 7, "misc/argcheck.cc:41", ARGUMENT) + &warn("a", 7, "x.cc:1", CLOSED);
    assert!(
        findings(&(job.clone() + &late))
            .iter()
            .all(|f| f.starts_with("error "))
    );
    for done in [
        "[rank0]:[titan] 2026-02-03 04:05:06,789 - root - INFO - Training completed",
        "[after training is done] datetime: 2026-02-03 04:05:06",
        "`Trainer.fit` stopped: `max_steps=50` reached.",
        "# Avg bus bandwidth    : 19.972",
    ] {
        let log = format!("{job}{done}\n{late}");
        let notes = ["note warn_argument high", "note warn_peer_closed high"];
        assert_eq!(findings(&log), notes, "{done}");
        let quoted = done.trim_end_matches('.');
        assert!(first(&log, "why").contains(quoted), "{done}");
        // Of another job in the same file it is not the end.
        let next = format!(
            "{job}{done}\n{}{late}",
            line("a", 7, "Bootstrap: Using eth0:10.0.0.1<0>")
        );
        assert!(findings(&next)[0].starts_with("error "), "{done}");
        // Nor where the job failed behind it.
        let failed = format!("{log}srun: error: a: task 0: Exited with exit code 1\n");
        assert!(findings(&failed)[0].starts_with("error "), "{done}");
    }
    let watchdog = "[rank0]:[E PG.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 0] Process group \
                    watchdog thread terminated with exception: CUDA error: driver shutting down\n";
    let log = format!("{job}{watchdog}");
    assert_eq!(findings(&log), ["error watchdog_exception high"]);
    let log = format!("{job}Training completed\n{watchdog}");
    assert_eq!(findings(&log), ["note watchdog_exception high"]);
    let graph = format!("{job}CUDA graph capture for training complete\n{late}");
    assert!(findings(&graph)[0].starts_with("error "));
}

#[test]
fn a_job_that_went_on_until_it_was_done_did_not_fail() {
    let log = made("a", 7, 0, 2)
        + &warn("a", 7, "p2p.cc:7", "Cuda failure 1 'invalid argument'")
        + &made("b", 9, 1, 2)
        + "Training completed\n";
    assert_eq!(findings(&log), ["warning warn_cuda_failure medium"]);
}

#[test]
fn where_the_launcher_names_the_end_the_log_has_the_cause() {
    let job = made("a", 7, 0, 2) + &warn("a", 7, "misc/socket.cc:50", CLOSED);
    assert!(first(&job, "why").contains("mostly follows from an earlier failure"));
    // That NCCL failed is no other cause.
    let same = format!("{job}[rank0]: ncclRemoteError: A call failed possibly due to\n");
    assert!(first(&same, "why").contains("mostly follows from an earlier failure"));
    let end =
        "mpirun noticed that process rank 1 with PID 9 on node b exited on signal 6 (Aborted).";
    let log = format!("{job}\n-----\n{end}\n-----\n");
    // The process that crashed is the cause, the connection only broke by it.
    assert_eq!(findings(&log), ["note warn_peer_closed medium"]);
    let why = first(&log, "why");
    let end = end.trim_end_matches('.');
    assert!(
        why.contains(end) && !why.contains("not in this log"),
        "{why}"
    );
}

#[test]
fn the_text_of_a_warn_decides_and_not_its_source_file() {
    let of = |place: &str, says: &str| {
        let log = line("a", 7, "NVLS multicast support is not available on dev 0")
            + &warn("a", 7, place, says);
        let (csv, _) = rows(&log);
        let row = &csv.rows[0];
        (
            csv.get(row, "finding").to_owned(),
            csv.get(row, "advice").to_owned(),
        )
    };
    let (id, advice) = of(
        "transport/nvls.cc:245",
        "Cuda failure 'initialization error'",
    );
    assert_eq!(id, "warn_cuda_setup");
    assert!(
        advice.contains("nccl#1029") && advice.contains("no process forks"),
        "{advice}"
    );
    let (id, advice) = of("init.cc:7", "Cuda failure 802 'system not yet initialized'");
    assert_eq!(id, "warn_cuda_fabric");
    assert!(advice.contains("Fabric Manager"), "{advice}");
    for place in ["transport/nvls.cc:244", "enqueue.cc:7"] {
        assert_eq!(
            of(place, "Cuda failure 1 'invalid argument'").0,
            "warn_cuda_failure"
        );
    }
}

/// The findings but the one that a log of these lines only has nothing else to check.
fn judged(log: &str) -> Vec<String> {
    let mut all = findings(log);
    all.retain(|finding| !finding.contains("not_checked"));
    all
}

#[test]
fn the_most_specific_text_of_a_warn_decides() {
    for (place, says, expected) in [
        (
            "misc/socket.cc:537",
            "ncclSocketInit: connecting to address  with family 0 is neither AF_INET(2) nor AF_INET6(10)",
            "error warn_no_peer_address medium",
        ),
        (
            "ras/client_support.cc:181",
            "Call to bind failed: Address already in use",
            "note warn_ras_unavailable high",
        ),
        (
            "allocator.cc:400",
            "Allocation failed. No suitable space found to accommodate size=0x8000000000 within limit=0x4000000000",
            "error warn_symmetric_space high",
        ),
        (
            "transport/nvls.cc:154",
            "NCCL_NVLS_ENABLE has been set to \"1\" and communicator has multiple ranks using the same NVML \
          device. This is not compatible with NCCL_NVLS_ENABLE=1.",
            "error warn_nvls_setting high",
        ),
        (
            "transport/p2p.cc:238",
            "failed to open CUDA IPC handle : 217 peer access is not supported between these two devices",
            "error warn_cuda_peer medium",
        ),
        ("x.cc:1", "Cuda failure 217", "error warn_cuda_peer medium"),
        (
            "x.cc:1",
            "HIP failure 'no ROCm-capable device is detected'",
            "error warn_hip_setup high",
        ),
        (
            "x.cc:1",
            "a text of tomorrow failed : No route to host",
            "error warn_socket_no_route medium",
        ),
        (
            "x.cc:1",
            "Cuda failure 999 'unknown error'",
            "error warn_cuda_failure medium",
        ),
    ] {
        assert_eq!(judged(&warn("a", 7, place, says)), [expected], "{says}");
    }
    let teardown = warn(
        "a",
        7,
        "register/register.cc:12",
        "rank 3 deregister NVLS buffer 0x7f dev 3 ucsize 2 mcsize 2 failed",
    );
    assert_eq!(judged(&teardown), ["note shutdown_warns medium"]);
    // What NCCL tried, with the reason.
    let ipc = warn(
        "a",
        7,
        "x.cc:1",
        "failed to open CUDA IPC handle : 201 invalid device context",
    );
    assert_eq!(judged(&ipc), ["error warn_ipc medium"]);
    let why = first(&ipc, "why");
    assert!(
        why.contains(
            "the text gives a reason: a CUDA call failed: the thread has no valid CUDA context"
        ),
        "{why}"
    );
    let hip = warn("a", 7, "x.cc:1", "HIP failure 'invalid argument'");
    assert!(first(&hip, "advice").contains("rocm.docs.amd.com"));
}

#[test]
fn an_unknown_warn_names_the_part_of_nccl() {
    let log = warn("a", 7, "transport/net_ib/p2p.cc:12", "a text of tomorrow");
    assert_eq!(judged(&log), ["warning warn_unknown low"]);
    let says = first(&log, "says");
    assert!(
        says.starts_with("unknown WARN of the InfiniBand and RoCE transport: "),
        "{says}"
    );
    assert!(first(&log, "why").contains("mostly report where a failure begins"));
}

#[test]
fn a_known_bug_is_told_of_the_versions_that_have_it() {
    let failed = warn(
        "a",
        7,
        "enqueue.cc:1556",
        "Cuda failure 700 'an illegal memory access was encountered'",
    );
    let with = |version: &str| {
        first(
            &(line("a", 7, &format!("NCCL version {version}")) + &failed),
            "why",
        )
    };
    let why = with("2.26.2+cuda12.2");
    assert!(
        why.contains("it may be a known bug of this version of NCCL")
            && why.contains("gone in 2.27.3"),
        "{why}"
    );
    assert!(!with("2.27.3+cuda12.9").contains("known bug"));
    let unknown = first(&failed, "why");
    assert!(
        unknown.contains("if NCCL's version is 2.26.2 or later and before 2.27.3"),
        "{unknown}"
    );
    // Both are possible: the program's kernel, and NCCL's.
    assert!(first(&failed, "says").contains("a kernel of the program, or one of NCCL's own"));
}

#[test]
fn old_and_broken_lines_of_the_watchdog_are_time_outs() {
    let old = "[E ProcessGroupNCCL.cpp:587] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, \
        Timeout(ms)=1800000) ran for 1803308 milliseconds before timing out.\n\
        terminate called after throwing an instance of 'std::runtime_error'\n  what():  [Rank 1] Watchdog caught collective \
        operation timeout: WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1803308 milliseconds before timing out.\n";
    assert_eq!(judged(old), ["error watchdog_timeout high"]);
    // The exception's own words report the time-out: the crash is not its cause.
    let alone = old.split_once('\n').unwrap().1;
    assert_eq!(first(alone, "finding"), "watchdog_timeout");
    assert!(first(alone, "severity") == "error");
    assert_eq!(
        first(old, "says"),
        "PyTorch's wait for a call timed out after 1800000 ms: ALLREDUCE on rank 1"
    );
    let broken = "[rank3] Watchdog caught collective operation timeout:\n\
        WorkNCCL(SeqNum=64214, OpType=ALLGATHER, NumelIn=1, NumelOut=32, Timeout(ms)=600000)\n";
    assert_eq!(
        first(broken, "says"),
        "PyTorch's wait for call 64214 timed out after 600000 ms: ALLGATHER of 1 element in and 32 out on rank 3"
    );
    let hccl = "EI0002: [PID: 7] The wait execution of the Notify register times out. remote rank: [24]. group \
        information: [group:[x], rankSize[32], rankId[25 24]]\n";
    assert_eq!(
        first(hccl, "says"),
        "rank 24 did not come, and HCCL's wait in a call timed out on rank 25"
    );
}

#[test]
fn a_rank_is_behind_others_that_wait_in_later_calls_and_not_behind_itself() {
    let wait = |rank: u32, seq: u32| {
        format!(
            "[rank{rank}]:[E1 ProcessGroupNCCL.cpp:1595] [PG 1 Rank {rank}] terminated with exception: [Rank {rank}] \
             Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=4, \
             NumelOut=4, Timeout(ms)=600000) ran for 600017 milliseconds before timing out.\n"
        )
    };
    let said = |log: String| first(&log, "says");
    let of_7 = "PyTorch's wait for call 7 of process group 1 timed out after 600000 ms: ALLREDUCE of 4 elements on rank";
    assert_eq!(said(wait(0, 7) + &wait(0, 5)), format!("{of_7} 0"));
    assert_eq!(
        said(wait(0, 7) + &wait(1, 5)),
        format!("{of_7} 0, and rank 1 is behind")
    );
    // Two lines that were printed at once: the group is the other rank's.
    let glued = wait(3, 9).trim_end().to_owned()
        + "[rank0]:[E1 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: \
           WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600017 ms\n";
    assert!(!said(glued).contains("rank 3 is behind"));
}

#[test]
fn lines_without_a_header_count_and_are_held_against_nobody() {
    let log = " NCCL WARN Call to ibv_create_qp failed\n";
    assert_eq!(findings(log), ["error warn_ib_queue medium"]);
    let log = made("a", 7, 0, 1)
        + &line("a", 7, "Initialized NET plugin IB")
        + "NCCL INFO NET/Plugin: Could not find: libnccl-net.so\n\
           NCCL INFO NET/Plugin : No plugin found, using internal implementation\n";
    assert_eq!(findings(&log), Vec::<String>::new());
    let out = feed("nccl-net", &["-q", "--format", "csv"], log).calm();
    assert!(
        !out.text().contains(",lacks,") && !out.text().contains(",yes,"),
        "{}",
        out.text()
    );
}

#[test]
fn a_host_lacks_no_setting_that_it_had_no_occasion_to_print() {
    let mut log = String::new();
    for (rank, host) in (0..).zip(["a", "b", "c"]) {
        log += &line(
            host,
            7,
            "NCCL_IB_PCI_RELAXED_ORDERING set by environment to 1.",
        );
        log += &line(host, 7, "NCCL_COLLNET_ENABLE set by environment to 1.");
        log += &made(host, 7, rank, 3);
    }
    let spare = line(
        "d",
        7,
        "NCCL_IB_PCI_RELAXED_ORDERING set by environment to 1.",
    );
    assert_eq!(findings(&(log.clone() + &spare)), Vec::<String>::new());
    let net = feed("nccl-net", &["-q", "--format", "csv"], log.clone() + &spare).calm();
    assert!(!net.text().contains(",lacks,"), "{}", net.text());
    // A communicator of another size is another occasion.
    let alone = spare.clone() + &made("d", 7, 0, 1);
    assert_eq!(findings(&(log.clone() + &alone)), Vec::<String>::new());
    let member = spare + &made("d", 7, 0, 3);
    assert_eq!(
        findings(&(log + &member)),
        ["warning setting_differs medium"]
    );
}

#[test]
fn a_job_over_sockets_alone_is_a_warning() {
    let mut log = String::new();
    for (rank, host) in (0..).zip(["a", "b"]) {
        log += &line(host, 7, "NET/IB : No device found.");
        log += &line(host, 7, "NET/Socket : Using [0]eth0:10.0.0.1<0>");
        log += &line(host, 7, "Using network Socket");
        log += &made(host, 7, rank, 2);
        log += &line(
            host,
            7,
            &format!(
                "Channel 00/0 : {}[0] -> {rank}[0] [receive] via NET/Socket/0",
                1 - rank
            ),
        );
    }
    assert_eq!(findings(&log), ["warning sockets_only high"]);
    // As it was set, it is none.
    let set = log.replace(
        "NET/IB : No device found.",
        "NCCL_IB_DISABLE set by environment to 1.",
    );
    assert_eq!(
        findings(&set),
        ["note setting high", "note sockets_only medium"]
    );
    // What is no number is not known to disable anything.
    let odd = set.replace("to 1.", "to 0.\\n\",");
    assert_eq!(findings(&odd), ["warning sockets_only medium"]);
    // One host needs no network.
    let alone = log.replace("b:7", "a:9");
    assert_eq!(findings(&alone), Vec::<String>::new());
}

#[test]
fn a_log_with_nothing_to_check_is_not_called_well() {
    let start = "ncclCommInitRank comm 0x55d0a0000000 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 \
                 commId 0x9f3b0c2d11e5a7c4 - Init START";
    for (log, says) in [
        ("x\n".to_owned(), "the log has no line of NCCL among 1 line"),
        (
            "NCCL version 2.28.9+cuda13.0\n".to_owned(),
            "only NCCL's version",
        ),
        (
            line("a", 7, "Bootstrap: Using eth0:10.0.0.1<0>"),
            "no communicator, connection or call",
        ),
        (
            line("a", 7, start),
            "the log ends in NCCL's initialisation: 1 rank",
        ),
        (
            made("a", 7, 0, 2),
            "not judged: the log has no calls, and the initialisation is complete on 1 of 2 ranks",
        ),
        (
            procs(1)[0].call("AllReduce", 8, 7) + "\n",
            "not judged: the log has neither calls that can be compared across ranks",
        ),
        (
            warn(
                "a",
                7,
                "init.cc:7",
                "MSCCL++: Cannot enable MSCCL++; environment",
            ),
            "not judged: the log has WARN lines only",
        ),
    ] {
        let out = feed("nccl-check", &["-q", "--format", "csv"], log.as_str()).ends(3);
        let csv = Csv::of(&out);
        let ids = csv.column("finding");
        let at = ids.iter().position(|id| id == "not_checked");
        let at = at.unwrap_or_else(|| panic!("{log}: {ids:?}"));
        assert!(
            csv.column("says")[at].contains(says),
            "{:?}",
            csv.column("says")
        );
    }
    // What was judged is called well by its name.
    let log = made("a", 7, 0, 2) + &made("b", 7, 1, 2) + "epoch 1 begins\n";
    let (csv, out) = rows(&log);
    out.ends(0);
    assert_eq!(csv.column("finding"), Vec::<String>::new());
    let out = feed("nccl-check", &["-q", "--format", "text"], log);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        text.contains("judged: the initialisation of all 2 ranks"),
        "{text}"
    );
}

#[test]
fn a_pipe_gets_rows_as_from_all_programs() {
    let log = warn("a", 7, "init.cc:7", "something new");
    let columns = "severity,finding,says,host,pid,rank,comm_id,seq,step,sure,why,advice,input,line,\
                   text,global_rank,stage";
    let of = |args: &[&str]| feed("nccl-check", args, log.as_str()).calm().lines();
    assert_eq!(of(&[])[0], columns);
    let text = of(&["--format", "text"]);
    assert!(
        text[0].starts_with("not judged, one warning: unknown WARN"),
        "{text:?}"
    );
    assert!(
        text.contains(&text[0]) && text.last() == text.get(1),
        "{text:?}"
    );
    assert!(of(&["--format", "table"])[0].contains("severity"));
    let expects = ["--expect", "nodes=1", "--expect", "warn=1,ranks=2"];
    assert_eq!(of(&expects).len(), 4);
    let wrong = feed("nccl-check", &["--expect", "net=foobar"], log.as_str()).ends(2);
    wrong.says(&[
        "net must be one of ib, infiniband, roce, socket, efa",
        "plugin:NAME",
    ]);
    let wrong = feed("nccl-check", &["--steps", "1..5"], log.as_str()).ends(2);
    wrong.says(&["nccl-check has no --steps"]);
    // What a step line looks like can be told, as elsewhere.
    let told = [
        "--step-regex",
        "done (?P<step>\\d+) in (?P<time_s>[\\d.]+)",
        "--expect",
        "step_time_max=3.5",
    ];
    feed(
        "nccl-check",
        &told,
        format!("{log}done 1 in 2.5\ndone 2 in 3.5\n"),
    )
    .ends(0);
}

#[test]
fn programs_that_are_advised_have_the_options_that_are_advised() {
    let log = procs(1)[0].call("AllReduce", 8, 7) + "\n";
    let out = feed("nccl-check", &["-q", "--coverage", "--format", "csv"], log).calm();
    let csv = Csv::of(&out);
    for by in csv.column("by") {
        for advised in by
            .split(", ")
            .filter(|advised| advised.starts_with("nccl-"))
        {
            let mut words = advised.split(' ');
            let program = words.next().unwrap();
            assert!(ALL.contains(&program), "{advised}");
            let help = run(program, &["--help"]).ends(0).text();
            for option in words.filter(|word| word.starts_with("--")) {
                assert!(
                    help.contains(&format!("{option} ")) || help.contains(&format!("{option}\n")),
                    "{advised}"
                );
            }
        }
    }
    let version = csv
        .rows
        .iter()
        .find(|row| csv.get(row, "number") == "17")
        .unwrap();
    assert!(
        csv.get(version, "missing")
            .contains("NCCL_DEBUG_SUBSYS=INIT")
    );
}

#[test]
fn secrets_are_not_printed() {
    let mut log = String::new();
    for (rank, host) in (0..).zip(["a", "b", "c"]) {
        log += &made(host, 7, rank, 3);
        log += &line(host, 7, "NCCL_ALGO set by environment to Ring");
    }
    log += &line("a", 7, "NCCL_API_TOKEN set by environment to hunter2");
    let work = Work::new();
    work.file("a.log", &log);
    work.file("b.log", log.replace("hunter2", "hunter3"));
    for command in [
        "nccl-net a.log",
        "nccl-net --hosts a.log",
        "nccl-diff a.log b.log --tolerance 1%",
        "nccl-check a.log --format text",
        "nccl-check a.log --format jsonl",
    ] {
        let out = sh(work.dir(), command).calm();
        let all = out.text() + &out.stderr;
        assert!(!all.contains("hunter"), "{command}: {all}");
        out.says(&["settings that look like secrets are hidden: NCCL_API_TOKEN"]);
    }
    let net = sh(work.dir(), "nccl-net a.log --format csv").calm().text();
    assert!(net.contains("setting.NCCL_API_TOKEN,(hidden)"), "{net}");
}

#[test]
fn one_line_without_its_beginning_is_chance_and_two_are_a_shared_file() {
    let says = "New proxy send connection 4 from local rank 1, transport 0";
    let mut log = made("a", 7, 0, 2);
    for (pid, end) in [(7, ""), (9, ""), (7, "9:10 [0] ")] {
        log += &line(
            "a",
            pid,
            "NET/IB: NCCL Dev 3 IbDev 3 Port 1 qpn 992 mtu 5 LID 2442",
        );
        writeln!(log, "{end}NCCL INFO {says}").unwrap();
        log += &line("a", pid, says);
    }
    assert_eq!(findings(&log), ["note shared_file high"]);
    let (csv, _) = rows(&log);
    assert!(
        csv.column("says")[0].contains("on 3 lines"),
        "{:?}",
        csv.column("says")
    );
    // Who quotes lines without headers does not do so one by one.
    let mut quoted = made("a", 7, 0, 2);
    for _ in 0..3 {
        writeln!(quoted, "prose\nNCCL INFO {says}\nNCCL INFO {says}").unwrap();
    }
    assert_eq!(findings(&quoted), Vec::<String>::new());
}

#[test]
fn many_settings_take_no_longer_each() {
    let one = |n| line("a", 7, &format!("NCCL_{n}_X set by environment to {n}"));
    let log: String = (0..32_000).map(one).collect();
    let begun = Instant::now();
    feed("nccl-check", &["-q"], log).calm();
    // Each held against all others takes minutes.
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(30), "{took:?}");
}

/// The output of nccl-tests with these rows.
fn nccl_tests(rows: &str, end: &str) -> String {
    format!(
        "# Collective test starting: all_reduce_perf\n\
         # nThread 1 nGpus 2 minBytes 8 maxBytes 32 step: 2(factor) warmup iters: 5 validation: 1\n\
         #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n\
         {rows}{end}"
    )
}

#[test]
fn tables_of_nccl_tests_have_a_verdict_of_their_own() {
    let good = "           8             2     float     sum      -1    297.3    0.00    0.00      0    298.8    0.00    0.00      0\n";
    let bad = "          16             4     float     sum      -1    297.3    0.00    0.00      4    298.8    0.00    0.00    N/A\n";
    let begun = "          32             8     float     sum      -1";
    let call = procs(1)[0].call("AllReduce", 8, 7);
    for (log, code, finding, says) in [
        (
            nccl_tests(&[good, bad].concat(), "# Out of bounds values : 1 FAILED\n"),
            1,
            "wrong_results",
            "nccl-tests' all_reduce are wrong at 1 of 2 sizes (16 B; float sum; out of place): up to 4 \
             wrong elements; its verdict: 1 value out of bounds, FAILED",
        ),
        (
            nccl_tests("", ""),
            1,
            "benchmark_no_row",
            "no row: it stopped in its warm-up or at its first size, 8 B; its sizes are 8 B to 32 B",
        ),
        (
            nccl_tests(good, &format!("{begun}{call}\n")),
            1,
            "benchmark_unfinished",
            "finished 8 B and stopped in 32 B",
        ),
        (
            nccl_tests(
                good,
                "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.5 FAILED\n",
            ),
            1,
            "benchmark_below_minimum",
            "is 1.5 GB/s",
        ),
        (
            nccl_tests(
                good,
                "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.5 \n",
            ),
            0,
            "benchmark_only",
            "1 table of nccl-tests, 2 of 2 checked results right",
        ),
    ] {
        let (csv, out) = rows(&log);
        out.ends(code);
        assert_eq!(csv.column("finding")[0], finding, "{log}");
        assert!(
            csv.column("says")[0].contains(says),
            "{:?}",
            csv.column("says")
        );
    }
    let running = feed("nccl-check", &["--running"], nccl_tests("", "")).ends(0);
    assert!(!running.text().contains("benchmark_no_row"));
}

/// Texts without NCCL's lines, and the beginning of the answer.
#[test]
fn exceptions_that_end_nothing_are_no_failures() {
    let trace = "Traceback (most recent call last):\n  File \"a.py\", line 3, in close\n";
    let ignored =
        format!("Exception ignored in atexit callback: <f at 0x7f>\n{trace}KeyError: 'a'\n");
    let task = format!(
        "Task exception was never retrieved\n{trace}TimeoutError\n\nDuring handling of the above exception, another \
         exception occurred:\n\n{trace}ValueError: request 81 is gone\n"
    );
    let own = format!("{trace}IndexError: list index out of range\n");
    let asked = format!("ValueError: request 79 is gone\n{task}");
    let killed = format!(
        "{trace}RuntimeError: DataLoader worker (pid 81) is killed by signal: Terminated. \n"
    );
    let of_module =
        format!("{trace}triton.runtime.errors.OutOfResources: out of resource: shared memory\n");
    for (text, answer) in [
        (&ignored, "not judged"),
        (&task, "not judged"),
        (&asked, "not judged"),
        (&killed, "not judged"),
        (
            &of_module,
            "a process raised triton.runtime.errors.OutOfResources",
        ),
        (&(ignored.clone() + &own), "a process raised IndexError"),
        (&(own + &task), "a process raised IndexError"),
    ] {
        let out = feed("nccl-check", &["-q", "--format", "text"], text.as_str());
        assert!(out.text().starts_with(answer), "{text}: {}", out.text());
    }
}

/// A launcher names a task of a host; the shell's line after it is about a process of another host.
#[test]
fn a_launchers_host_is_not_given_another_hosts_process() {
    let log = line(
        "b",
        81,
        "comm 0x8e rank 1 nranks 2 cudaDev 0 busId 1000 - Abort COMPLETE",
    );
    let text = format!(
        "srun: error: a: task 0: Exited with exit code 1\nrun.sh: line 7: 81 Aborted (core dumped) python x.py\n{log}"
    );
    let out = feed("nccl-check", &["-q", "--format", "text"], text.as_str()).ends(1);
    assert!(
        out.text()
            .starts_with("rank 0 (on a) ended with exit code 1"),
        "{}",
        out.text()
    );
}
