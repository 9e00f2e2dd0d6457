//! nccl-check on jobs that ended: who failed first by the lines around NCCL's, and jobs that nothing is
//! wrong with.

use crate::check::{findings, job};
use crate::support::{Csv, Proc, data, feed, nemo, procs, run, run_in};
use std::fmt::Write as _;

/// What is not about how the log was written: `severity finding rank pid`.
fn told(log: &str, more: &[&str]) -> Vec<String> {
    let args = [&["-q", "--format", "csv"], more].concat();
    let csv = Csv::of(&feed("nccl-check", &args, log).calm());
    let field = |row: &[String], name: &str| csv.get(row, name).to_owned();
    let row = |row: &Vec<String>| {
        let names = ["severity", "finding", "rank", "pid"];
        names
            .map(|name| field(row, name))
            .join(" ")
            .trim()
            .to_owned()
    };
    let rows = csv.rows.iter().map(row);
    rows.filter(|row| !row.contains("last_calls") && !row.contains("watchdog_call"))
        .collect()
}

/// What is wrong.
fn wrong(log: &str) -> Vec<String> {
    let mut told = told(log, &[]);
    told.retain(|row| !row.starts_with("note"));
    told
}

/// Four ranks that made `calls` calls each, one after the other; the last ones made some more.
fn log(calls: usize, more: usize) -> String {
    let four = procs(4);
    let mut log = String::new();
    // NCCL does not count here.
    let mut put =
        |line: String| writeln!(log, "{}", line.replace("opCount 2c", "opCount 0")).unwrap();
    (0..)
        .zip(&four)
        .for_each(|(rank, p)| put(p.init(rank, 0xa1)));
    for _ in 0..calls {
        four.iter().for_each(|p| put(p.call("AllReduce", 64, 7)));
    }
    for _ in 0..more {
        four[1..]
            .iter()
            .for_each(|p| put(p.call("AllReduce", 64, 7)));
    }
    log
}

fn pid(rank: usize) -> u64 {
    let Proc { pid, .. } = procs(4)[rank];
    pid.into()
}

#[test]
fn a_log_that_ends_is_no_rank_that_stopped() {
    assert_eq!(wrong(&log(60, 0)), [""; 0]);
    // One call behind, as all logs end that were cut.
    assert_eq!(wrong(&log(60, 1)), [""; 0]);
    // For longer than ever before.
    let stopped = log(60, 12);
    assert_eq!(wrong(&stopped), [format!("error rank_behind 0 {}", pid(0))]);
    assert_eq!(told(&stopped, &["--running"]), [""; 0]);
}

#[test]
fn who_cancelled_a_job_is_a_note_and_accuses_nobody() {
    let ends = [
        (
            "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-02-03T04:05:06 DUE TO TIME LIMIT ***",
            "note job_cancelled",
        ),
        (
            "[rank0]: Traceback (most recent call last):\n[rank0]: KeyboardInterrupt",
            "note job_interrupted",
        ),
        (
            "W0203 x/api.py:9] Received Signals.SIGTERM death signal, shutting down workers",
            "note job_cancelled",
        ),
    ];
    for (end, note) in ends {
        let log = format!("{}{end}\n", log(60, 1));
        assert_eq!(told(&log, &[]), [note], "{end}");
    }
    // A launcher may close its processes before it prints why.
    let closed = format!(
        "{}W0203 x/api.py:7] Closing process 81 via signal SIGTERM\n\
         W0203 x/api.py:9] Received 15 death signal, shutting down workers\n",
        log(60, 1)
    );
    let notes = ["note job_cancelled", "note warn_launcher_ends"];
    assert_eq!(told(&closed, &[]), notes);
    // What is printed as the processes are taken down follows from it.
    let head = "n1:10:10 [0]";
    let after = format!(
        "{}{}\n{head} misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer n2<4>\n",
        log(60, 1),
        ends[0].0,
    );
    assert_eq!(wrong(&after), [""; 0]);
}

#[test]
fn who_failed_first_is_named_and_the_others_only_follow() {
    let raised = "\
[rank2]: Traceback (most recent call last):
[rank2]:   File \"train.py\", line 9, in <module>
[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
[rank1]: Traceback (most recent call last):
[rank1]: torch.distributed.DistBackendError: NCCL error in: x.cpp:9, remote process exited
";
    let report = |rank: usize, code: i32| {
        format!(
            "E0203 x/api.py:9] failed (exitcode: {code}) local_rank: {rank} (pid: {}) of binary: python\n",
            pid(rank)
        )
    };
    let summary = |rank: usize, code: i32| {
        format!(
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \nFailures:\n[1]:\n  \
             host      : n1\n  rank      : 0 (local_rank: 0)\n  exitcode  : -15 (pid: {})\n\
             Root Cause (first observed failure):\n[0]:\n  host      : n1\n  \
             rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: {})\n",
            pid(0),
            pid(rank),
        )
    };
    let kernel = format!(
        "[9.1] Out of memory: Killed process {} (python) total-vm:8kB\n",
        pid(3)
    );
    let cases = [
        (raised.to_owned(), "rank_exception", 2),
        (raised.replace("[rank2]: ", "") + &report(2, 1), "rank_exception", 2),
        // No line says whose it is, but the others wait for one rank.
        (
            "Traceback (most recent call last):\n  File \"x.py\", line 9, in <module>\nValueError: x\n".to_owned(),
            "rank_exception",
            0,
        ),
        (report(1, -9), "rank_killed", 1),
        (report(3, -11), "rank_crashed", 3),
        (summary(1, 7), "rank_exited", 1),
        (kernel, "host_out_of_memory", 3),
        (
            format!(
                "[n1:{0}] *** Process received signal ***\n[n1:{0}] Signal: Segmentation fault (11)\n\
                 [n1:{0}] Signal code: Address not mapped (1)\n\
                 a non-zero exit code. Per user-direction, the job has been aborted.\n",
                pid(2)
            ),
            "rank_crashed",
            2,
        ),
        (
            "srun: error: n1: task 2: Killed\nsrun: error: n1: tasks 0-1,3: Terminated\n".to_owned(),
            "rank_killed",
            2,
        ),
        (
            "mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 9 (Killed).\n"
                .to_owned(),
            "rank_killed",
            3,
        ),
    ];
    for (end, finding, rank) in cases {
        let log = format!("{}{end}", log(60, 1));
        let expected = format!("error {finding} {rank} {}", pid(rank));
        assert_eq!(wrong(&log), [expected], "{end}");
    }
    // A handled exception: the job went on. Words of one without its traceback.
    let handled = "Traceback (most recent call last):\nValueError: x\n";
    let handled = format!("{}{handled}{}\n", log(60, 0), nemo(5));
    assert_eq!(wrong(&handled), [""; 0]);
    let words = format!("{}{}\n[rank2]: RuntimeError: x\n", log(60, 0), nemo(5));
    assert_eq!(wrong(&words), [""; 0]);
}

#[test]
fn a_rank_that_others_waited_for_at_setup_is_named() {
    let waited = |rank: usize, number: usize, why: &str| {
        format!(
            "[rank{rank}]: Traceback (most recent call last):\n\
             [rank{rank}]: torch.distributed.DistBackendError: [{number}] is setting up NCCL communicator \
             and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but \
             store->get('0') got error: {why}\n"
        )
    };
    let late = "wait timeout after 14000ms, keys: /default_pg/0//cuda//0";
    // The key of a send and its receive is the pair of their ranks.
    let pair = |low: usize, high: usize| {
        waited(high, high, late).replace("'0'", &format!("'{low}:{high}'"))
    };
    let of_pair = format!("error setup_failed 1 {}", pid(1));
    let named = format!("error setup_failed 0 {}", pid(0));
    let unnamed = "error setup_failed".to_owned();
    let exception = "[rank2]: Traceback (most recent call last):\n[rank2]: KeyError: 'x'\n";
    let raised = format!("error rank_exception 2 {}", pid(2));
    let cases = [
        (waited(1, 1, late) + &waited(3, 3, late), named),
        (pair(1, 2) + &pair(2, 3), of_pair),
        // The first of a group of ranks that the log does not list.
        (waited(3, 1, late), unnamed),
        (exception.to_owned() + &waited(3, 1, late), raised),
    ];
    for (end, expected) in cases {
        let log = format!("{}{end}", log(60, 0));
        assert_eq!(wrong(&log), [expected], "{end}");
    }
    // A job that was ended from outside loses its store.
    let lost = waited(1, 1, "Connection was likely closed");
    assert_eq!(wrong(&format!("{}{lost}", log(60, 0))), [""; 0]);
}

#[test]
fn a_few_lines_of_a_failed_job_have_an_answer() {
    let cases = [
        (
            "TimeoutError: The client socket has timed out after 1800s while trying to connect to (10.0.0.1, 29500).",
            "error setup_failed",
        ),
        (
            "[W socket.cpp:4] [c10d] The server socket has failed to bind to [::]:4479 (errno: 98 - Address already in use).\n\
             [E socket.cpp:4] [c10d] The server socket has failed to listen on any local network address.",
            "error setup_failed",
        ),
        (
            "RuntimeError: Gloo connectFullMesh failed with [../pair.cc:144] no error",
            "error setup_failed",
        ),
        (
            "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
            "error setup_failed",
        ),
        (
            "Traceback (most recent call last):\nRuntimeError: Connection reset by peer\n\
             x.RendezvousConnectionError: The connection to the C10d store has failed.",
            "error setup_failed",
        ),
        (
            "RuntimeError: [Rank 0]: Rank 5 failed to pass monitoredBarrier in 2000 ms",
            "error watchdog_timeout 5",
        ),
        (
            "[rank3]:[E4 x.cpp:14] [PG 3 Rank 3] Heartbeat monitor timed out! Process will be terminated\n\
             [rank3]:[F4 x.cpp:12] [PG 3 Rank 3] ProcessGroupNCCL's watchdog got stuck for 600 seconds",
            "error watchdog_timeout 3",
        ),
        (
            "[n1:81:0:99] Caught signal 11 (Segmentation fault: invalid permissions)",
            "error rank_crashed  81",
        ),
        (
            "(raylet) A worker died. Worker PID: 81 Worker exit type: SYSTEM_ERROR Worker exit detail: End of file.",
            "error rank_crashed  81",
        ),
        (
            "HW Exception by GPU node-9 (Agent handle: 0x5) reason :GPU Hang",
            "error rank_crashed",
        ),
        (
            "[7.1] NVRM: Xid (PCI:0000:dc:00): 79, pid=81, name=python, GPU has fallen off the bus.",
            "error gpu_failed  81",
        ),
        (
            "RuntimeError: CUDA error: uncorrectable ECC error encountered",
            "error rank_exception",
        ),
        (
            "x.cc:1: NCCL operation ncclGetUniqueId(&id) failed: Unable to load NCCL library. Multi-GPU",
            "error warn_nccl_library",
        ),
        (
            "Duplicate GPU detected : rank 9 and rank 1 both on CUDA device 34000\nLast error:\n\
             ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
            "error warn_duplicate_gpu",
        ),
        ("RuntimeError: x", "error rank_exception"),
        ("a report on RuntimeError: x", "note not_checked"),
        (
            "IndexKernel.cu:142: operator(): block: [3,0,0], thread: [90,0,0] Assertion `index >= -sizes[i]` failed.",
            "error rank_crashed",
        ),
        (
            "ABORT!!! Out of all 4 trainers, the trainer process with rank=[0, 3] was aborted. Please check its log.",
            "error rank_crashed 0",
        ),
        // An exception as PyTorch's hook writes it, among NCCL's lines.
        (
            "[rank2]: ValueError: bad batch\nhostA:15:16 [2] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>",
            "error rank_exception 2",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(told(text, &[]), [expected], "{text}");
    }
    // Jobs that end well print such warnings, too.
    for text in [
        "[W socket.cpp:4] [c10d] The server socket has failed to listen on [::]:38429 (errno: 98 - Address already in use).",
        "[rank0]:[W9 ProcessGroupNCCL.cpp:1771] [PG ID 0 Rank 0] Failed to check the \"should dump\" flag on TCPStore, \
         (maybe TCPStore server has shut down too early), with error: Broken pipe",
    ] {
        let expected = ["warning setup_failed", "note not_checked"];
        assert_eq!(told(text, &[]), expected, "{text}");
    }
    // A second launcher of a host finds the port taken, and goes on as a client.
    let taken = "[E socket.cpp:4] [c10d] The server socket has failed to listen on any local network address.\n";
    assert_eq!(wrong(&format!("{taken}{}", log(60, 0))), [""; 0]);
    // A GPU that fails is the cause of what the processes print before it.
    let xid = "[7.1] NVRM: Xid (PCI:0000:dc:00): 79, pid=81, GPU has fallen off the bus.\n";
    let raised = "[rank2]: Traceback (most recent call last):\n[rank2]: ValueError: x\n";
    assert_eq!(
        wrong(&format!("{}{raised}{xid}", log(60, 0))),
        ["error gpu_failed"]
    );
}

#[test]
fn lines_of_other_libraries_have_an_answer_and_accuse_no_rank_that_waits() {
    let plog = "[ERROR] HCCL(81,):2026-02-03-04:05:06.7 [x.cc:9] [7]";
    let link = "Transport init error! createLink para:rank[2]-localUserrank[2]-localIpAddr[10.0.0.9/7], \
                remoteRank[3]-remoteUserrank[3]-remoteIpAddr[10.0.0.8/7]";
    let fingerprint = |rank: u32, size: u32| {
        format!(
            "Rank {rank} is running collective: CollectiveFingerPrint(SequenceNumber=5, OpType=ALLREDUCE, TensorShape=[{size}])"
        )
    };
    let differ = format!(
        "[rank4]: RuntimeError: Detected mismatch between collectives on ranks. {}, but {}.",
        fingerprint(4, 64),
        fingerprint(0, 65)
    );
    let cases: [(&str, &[&str]); 16] = [
        (
            "[rank2]: RuntimeError: [../gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 900ms for recv operation to complete",
            &["error watchdog_timeout"],
        ),
        (
            "RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.2]:5134",
            &["error setup_failed"],
        ),
        (
            "[rank1]: TimeoutError: timed out while it waited for rank 0",
            &["error rank_exception"],
        ),
        (
            "RuntimeError: ACL stream synchronize failed.\nEI9999: Inner Error!\n\
             EI9999: 2026-02-03-04:05:06.7  The error from device(chipId:1), hccl fftsplus task timeout occurred",
            &["error watchdog_timeout"],
        ),
        (
            "RuntimeError: x.ts:148 HCCL function error: hcclCommInitRootInfo(n, &id), error code is 1",
            &["error hccl_error"],
        ),
        (
            &format!("{plog}[Init]{link}\n{plog}call trace: hcclRet -> 4"),
            &["error hccl_error"],
        ),
        (
            "[rank1]: EI0011: [PID: 7] 2026-02-03-04:05:06.7 Failed to allocate 64 bytes of NPU memory.",
            &["error hccl_error 1"],
        ),
        (
            "[rank0]:[E1 x.cpp:6] [Rank 0] Watchdog caught collective operation timeout: WorkHCCL(SeqNum=7, OpType=ALLREDUCE, \
             Timeout(ms)=9) ran for 10 milliseconds before timing out.",
            &["error watchdog_timeout"],
        ),
        (
            "[rank3]:[E1 x.cpp:6] [Rank 3] Watchdog caught collective oper",
            &["error watchdog_timeout"],
        ),
        (&differ, &["error count_mismatch"]),
        (
            "Stalled ops:HorovodAllreduce_x_0 [missing ranks: 3]",
            &["error watchdog_timeout 3"],
        ),
        (
            "x/libtorch_cuda.so: undefined symbol: ncclCommWindowRegister",
            &["error warn_nccl_library"],
        ),
        (
            "Failed to modify QP to RTR: Connection timed out\nerrno: 110",
            &["error warn_ib_connect"],
        ),
        (
            "include/socket.h:344 WARN Call to connect failed : Connection refused",
            &["error warn_socket_refused"],
        ),
        (
            "RuntimeError: NCCL communicator was aborted on rank 1.",
            &["error nccl_error"],
        ),
        ("> ValueError: x", &["error rank_exception"]),
    ];
    for (text, expected) in cases {
        assert_eq!(told(text, &[]), expected, "{text}");
    }
    // A few lines do not show what came before; the first of a cut table is the launcher's own word.
    let sure = |text: &str| {
        Csv::of(&feed("nccl-check", &["-q", "--format", "csv"], text).calm()).pick(&["sure"])
    };
    assert_eq!(sure("[rank1]: ValueError: x"), ["medium"]);
    assert_eq!(sure("[rank1]: TimeoutError: timed out"), ["low"]);
    let listed = "Failures:\n[1]:\n  rank      : 3 (local_rank: 3)\n  exitcode  : 1 (pid: 81)\n";
    assert_eq!(told(listed, &[]), ["error rank_exited"]);
    let first = "Root Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n";
    assert_eq!(
        told(&format!("{listed}{first}"), &[]),
        ["error rank_exited 1"]
    );
    // Horovod names a rank that is slow only, too.
    let stall = "Stalled ops:HorovodAllreduce_x_0 [missing ranks: 3]\n";
    let went_on = format!("{}{stall}{}\n{}\n", log(60, 0), nemo(5), nemo(6));
    assert!(
        !wrong(&went_on).iter().any(|row| row.starts_with("error")),
        "{:?}",
        wrong(&went_on)
    );
}

#[test]
fn ranks_that_are_ahead_print_steps_after_a_failure() {
    let uncaught = "[rank2]: Traceback (most recent call last):\n[rank2]: ValueError: x\n";
    let raised = format!("error rank_exception 2 {}", pid(2));
    let steps = |n: u64| (5..5 + n).map(|step| nemo(step) + "\n").collect::<String>();
    for n in [1, 3, 9] {
        let log = format!("{}{uncaught}{}", log(60, 1), steps(n));
        assert_eq!(wrong(&log), [&raised[..]], "{n}");
    }
    let killed = "srun: error: n1: task 2: Killed\n";
    for (n, severity) in [(1, "error"), (3, "error"), (4, "warning")] {
        let log = format!("{}{killed}{}", log(60, 1), steps(n));
        let told = format!("{severity} rank_killed 2 {}", pid(2));
        assert_eq!(wrong(&log), [told], "{n}");
    }
}

#[test]
fn connections_that_close_as_all_processes_end_are_no_failure() {
    let closed: String = procs(4)[1..3]
        .iter()
        .map(|p| {
            let warn =
                "misc/socket.cc:72 NCCL WARN socketProgress: Connection closed by remote peer";
            format!("\n{}:{}:{} [0] {warn}\n", p.host, p.pid, p.pid)
        })
        .collect();
    let killed = format!("{}{closed}", log(60, 1));
    assert_eq!(wrong(&killed), [""; 0]);
    // Who outlives another reports its own failure.
    let lost = |rank: u32| {
        format!("[rank{rank}]: ncclRemoteError: A call failed possibly due to a network error\n")
    };
    let all = format!("{killed}{}{}{}", lost(1), lost(2), lost(3));
    assert_eq!(wrong(&all).len(), 1, "{:?}", wrong(&all));
}

#[test]
fn the_only_rank_without_a_line_after_the_failure_is_dead() {
    let watchdog = |rank: u32| {
        format!(
            "[rank{rank}]:[E203 02:07:08.4 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught \
             collective operation timeout: WorkNCCL(SeqNum=61, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, \
             Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n"
        )
    };
    // It is not the one that is furthest behind.
    let other = "[rank0]:[E203 02:07:08.5 ProcessGroupNCCL.cpp:683] [Rank 0] Some NCCL operations have failed\n";
    let lost = "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting.\n";
    let end = format!("{}{lost}{}{other}", watchdog(1), watchdog(3));
    let log = format!("{}{end}", log(60, 1));
    assert_eq!(wrong(&log), [format!("error dead_process 2 {}", pid(2))]);
}

#[test]
fn who_died_is_named_though_others_are_behind_it() {
    // A rank that ends in the middle of a step; those that read their loss wait for an earlier one.
    let died = |name: &str| format!("{}/testdata/died/{name}", env!("CARGO_MANIFEST_DIR"));
    for (name, expected) in [("exit.log.gz", "3881"), ("segv", "6586")] {
        let csv = findings(&died(name));
        let errors = csv
            .rows
            .iter()
            .filter(|row| csv.get(row, "severity") == "error");
        let pids: Vec<&str> = errors.map(|row| csv.get(row, "pid")).collect();
        assert_eq!(pids, [expected], "{name}");
    }
}

#[test]
fn a_rank_that_prints_may_be_a_step_behind_where_the_order_of_lines_is_not_known() {
    let eight = procs(8);
    let told = |late: usize| {
        let dir = tempfile::tempdir().unwrap();
        for (rank, p) in eight.iter().enumerate() {
            let mut log = p.init(rank.try_into().unwrap(), 0xa1) + "\n";
            for _ in 0..if rank == late { 19 } else { 20 } {
                for count in [64, 128, 192, 256, 1] {
                    log += &p
                        .call("AllReduce", count, 7)
                        .replace("opCount 2c", "opCount 0");
                    log += "\n";
                }
            }
            std::fs::write(dir.path().join(format!("nccl.{rank}.log")), log).unwrap();
        }
        let csv = findings(dir.path().to_str().unwrap());
        let rows = csv
            .rows
            .iter()
            .filter(|row| csv.get(row, "severity") != "note");
        let told = rows.map(|row| csv.get(row, "pid").to_owned());
        told.collect::<Vec<String>>()
    };
    assert_eq!(told(0), [""; 0]);
    assert_eq!(told(7), [""; 0]);
    assert_eq!(told(3), [eight[3].pid.to_string()]);
}

#[test]
fn who_outlived_a_lost_peer_is_not_the_one_that_died() {
    let lost = |rank: u32| {
        format!("[rank{rank}]: ncclRemoteError: A call failed possibly due to a network error\n")
    };
    // Rank 2 died; who lost it was killed by the launcher.
    let end = format!(
        "{}{}{}srun: error: n1: task 2: Aborted (core dumped)\nsrun: error: n1: task 0: Killed\n",
        lost(0),
        lost(1),
        lost(3),
    );
    let log = format!("{}{end}", log(60, 1));
    assert_eq!(wrong(&log), [format!("error dead_process 2 {}", pid(2))]);
}

#[test]
fn all_ranks_of_a_host_that_fall_silent_are_dead() {
    let eight = procs(8);
    let mut log = String::new();
    let mut put =
        |line: String| writeln!(log, "{}", line.replace("opCount 2c", "opCount 0")).unwrap();
    (0..)
        .zip(&eight)
        .for_each(|(rank, p)| put(p.init(rank, 0xa1)));
    for _ in 0..60 {
        eight.iter().for_each(|p| put(p.call("AllReduce", 64, 7)));
    }
    // All but the first, which was late.
    eight[1..]
        .iter()
        .for_each(|p| put(p.call("AllReduce", 64, 7)));
    let lost = |ranks: std::ops::Range<u32>| -> String {
        let each = ranks.map(|rank| format!("[rank{rank}]: ncclRemoteError: A call failed\n"));
        each.collect()
    };
    let told = |ranks| wrong(&format!("{log}{}", lost(ranks)));
    assert_eq!(
        told(0..4),
        [format!("error dead_process 4 {}", eight[4].pid)]
    );
    // Not all of them, or of two hosts.
    for ranks in [0..6, 2..4] {
        let told = told(ranks);
        assert!(
            !told.iter().any(|row| row.contains("dead_process")),
            "{told:?}"
        );
    }
}

#[test]
fn jobs_that_were_killed_cut_or_started_again_are_left_in_peace() {
    let Some(jobs) = data("jobs") else { return };
    for folder in ["killed", "truncate", "restart", "sigkill", "none", "rotate"] {
        for number in 1..7 {
            for layout in [
                "zero2", "zero3", "jax", "titan", "ddp", "fsdp", "vllm", "cp", "megatron",
            ] {
                let name = format!("healthy-{folder}-{number}-{layout}.log.zst");
                let Ok(packed) = std::fs::read(jobs.join(&name)) else {
                    continue;
                };
                let log = zstd::decode_all(&packed[..]).unwrap();
                let lines: Vec<&[u8]> = log.split_inclusive(|&b| b == b'\n').collect();
                for part in [8, 5, 3, 2, 1] {
                    let cut = lines[..lines.len() / part].concat();
                    let args = ["-q", "--format", "csv"];
                    let csv = Csv::of(&feed("nccl-check", &args, cut).calm());
                    let severity = csv.column("severity");
                    assert!(
                        severity.iter().all(|s| s == "note"),
                        "{name}: {:?}",
                        csv.rows
                    );
                }
            }
        }
    }
}

#[test]
fn of_two_ranks_in_crossed_order_the_rhythm_of_the_operations_tells() {
    // The sizes of an inference server's calls are those of its batch.
    let two = procs(2);
    let mut log = String::new();
    for (rank, p) in (0..).zip(&two) {
        writeln!(log, "{}", p.init(rank, 0xa1)).unwrap();
    }
    for step in 1..9 {
        for (rank, p) in (0..).zip(&two) {
            let mut calls = vec![p.call("AllReduce", step * 512, 7); 5];
            calls.push(p.call("AllGather", step * 96, 7));
            if (step, rank) == (8, 1) {
                calls.swap(4, 5);
            }
            for call in calls {
                writeln!(log, "{}", call.replace("opCount 2c", "opCount 0")).unwrap();
            }
        }
    }
    assert_eq!(wrong(&log), [format!("error op_mismatch 1 {}", pid(1))]);
    let csv = Csv::of(&feed("nccl-check", &["-q", "--format", "csv"], log).calm());
    let says = csv.column("says").concat();
    let crossed =
        "two calls are in crossed order; it makes AllGather of 768 fp32 first and then AllReduce";
    assert!(says.contains(crossed), "{says}");
}

#[test]
fn an_attempt_that_a_later_one_outlived_is_a_note() {
    // What srun says of the first attempt does not say why it ended.
    let Some(job) = job("--ranks 8 --tp 2", "--steps 8 --lead 1 --restart-at 5") else {
        return;
    };
    let log = std::fs::read_to_string(&job.log).unwrap();
    let end = log.lines().find(|line| line.starts_with("srun: error: "));
    assert!(end.is_some_and(|line| line.ends_with("exit code 134")));
    let all = told(&log, &[]);
    assert!(all[0].starts_with("note rank_crashed 0 "), "{all:?}");
    assert_eq!(wrong(&log), [""; 0]);
    // The ranks of both attempts are those of one job.
    let text = run("nccl-check", &["-q", "-f", "text", &job.log]).calm();
    assert!(text.text().contains(": 8 ranks compared over "));
    let begin = log.find(end.unwrap()).unwrap() + end.unwrap().len();
    // In files of their own the steps tell which attempt is the later one.
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).unwrap();
    };
    file("b.log", &log[..begin]);
    let apart = || {
        let csv = Csv::of(&run_in(dir.path(), "nccl-check", &["-q", "."]).calm());
        let both = |row: &Vec<String>| ["severity", "finding"].map(|f| csv.get(row, f).to_owned());
        let mut rows = csv.rows.iter().map(both);
        rows.find(|[_, id]| id == "rank_crashed").unwrap()[0].clone()
    };
    assert_eq!(apart(), "error");
    file("a.log", &log[begin..]);
    assert_eq!(apart(), "note");
    // An attempt whose steps did not come is no life.
    let step = log[begin..].find("train_step_timing").unwrap() + begin;
    let cut = log[..step].rfind('\n').unwrap() + 1;
    assert!(wrong(&log[..cut])[0].contains("rank_crashed 0 "));
}

#[test]
fn a_made_job_that_is_cut_is_left_in_peace() {
    let Some(job) = job("--ranks 8 --tp 2 --pp 2", "--steps 8") else {
        return;
    };
    let log = std::fs::read_to_string(&job.log).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    for end in (lines.len() / 4..lines.len()).step_by(lines.len() / 16) {
        let cut: String = lines[..end].iter().flat_map(|line| [line, "\n"]).collect();
        assert_eq!(wrong(&cut), [""; 0], "{end} of {}", lines.len());
    }
}

#[test]
fn who_is_in_the_middle_of_a_step_is_named_not_who_waits_steps_behind_or_in_a_circle() {
    let cases = [
        // The rank that prints reads its loss, three steps behind.
        (
            "--ranks 16 --nodes 4 --strategy zero3 --trainer deepspeed --nccl 2.28 --seed 17 --lead 3",
            "--prefix srun --steps 8 --fault die,watchdog=off",
            "rank_behind",
        ),
        // Two pairs and two copies of the model wait for each other.
        (
            "--ranks 8 --tp 2 --trainer nemo2 --nccl 2.27 --seed 14 --lead 2",
            "--steps 8 --fault rest,watchdog=off",
            "deadlock",
        ),
    ];
    for (shape, fault, finding) in cases {
        let job = job(shape, fault).unwrap();
        let csv = findings(&job.log);
        let first = |name: &str| csv.get(&csv.rows[0], name);
        let says = first("says");
        assert_eq!(first("finding"), finding, "{says}");
        assert_eq!(
            first("pid"),
            job.truth["fault"]["pid"].to_string(),
            "{says}"
        );
    }
}

#[test]
fn files_that_end_anywhere_are_no_rank_that_stopped() {
    // One of them is cut far back; the others are at several calls.
    let shape = "--ranks 8 --tp 4 --layout per-rank --trainer none --nccl 2.28";
    for more in [
        "--seed 15 --lead 1 --steps 8 --end cut",
        "--seed 17 --lead 2 --steps 11 --end cut",
    ] {
        let csv = findings(&job(shape, more).unwrap().log);
        assert_eq!(csv.column("says"), Vec::<String>::new(), "{more}");
    }
}

#[test]
fn the_line_of_a_launcher_that_names_the_process_has_the_say() {
    let abort = "Primary job  terminated normally, but 1 process returned\n\
                 a non-zero exit code. Per user-direction, the job has been aborted.\n";
    let signal =
        "mpirun noticed that process rank 1 with PID 0 on node n1 exited on signal 9 (Killed).\n";
    let killed = format!("error rank_killed 1 {}", pid(1));
    for lines in [[abort, signal], [signal, abort]] {
        assert_eq!(wrong(&(log(60, 0) + &lines.concat())), [killed.as_str()]);
    }
    assert_eq!(wrong(&(log(60, 0) + abort)), ["error rank_crashed"]);
    // A process that ended before it joined has no line of NCCL's: torchrun's table has its rank.
    let raised = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'x'\n\
                  E1126 x/api.py:9] failed (exitcode: 1) local_rank: 1 (pid: 9125) of binary: python\n";
    let table = "x.ChildFailedError: \nRoot Cause (first observed failure):\n[0]:\n  host      : n9\n  \
                 rank      : 5 (local_rank: 1)\n  exitcode  : 1 (pid: 9125)\n";
    assert_eq!(
        wrong(&format!("{raised}{table}")),
        ["error rank_exception 5 9125"]
    );
}
