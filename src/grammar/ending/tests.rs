//! Lines of real jobs, and lines that only sound like an end.

use super::*;

#[test]
fn ends_are_told_from_what_only_sounds_so() {
    let (done, itself, nccl, killed) = ("done", "itself", "nccl", "killed");
    let told = |line: &str| match find_ending(line.as_bytes()) {
        Some(EndingLine::Done) => done,
        Some(EndingLine::Failed(failure)) => match failure.what.failure_mode() {
            FailureMode::Itself => itself,
            FailureMode::Nccl => nccl,
            FailureMode::Killed => killed,
        },
        _ => "none",
    };
    for (line, end) in [
        ("Training completed", done),
        (
            "[rank0]:[titan] 2026-02-03 04:05:06,789 - root - INFO - Training completed",
            done,
        ),
        ("INFO:root:Training complete.", done),
        (
            "Training completed. Do not forget to share your model",
            done,
        ),
        (
            "0: [after training is done] datetime: 2026-02-03 04:05:06 ",
            done,
        ),
        (
            "2026-05-19 | INFO | fairseq_cli.train | done training in 120.4 seconds",
            done,
        ),
        ("`Trainer.fit` stopped: `max_steps=50` reached.", done),
        ("# Avg bus bandwidth    : 19.972 ", done),
        (
            " 0: :::MLLOG {\"key\": \"run_stop\", \"value\": null, \"metadata\": {\"status\": \"success\"}}",
            done,
        ),
        (
            ":::MLLOG {\"key\": \"run_stop\", \"value\": null, \"metadata\": {\"status\": \"aborted\"}}",
            "none",
        ),
        ("CUDA graph capture for training complete", "none"),
        ("epoch 3: training done in 12 s", "none"),
        (
            "Finished training it 128/128028 of epoch 0, 71.86 ms/it",
            "none",
        ),
        ("srun: error: n1: task 7: Exited with exit code 3", itself),
        (
            "srun: error: n1: tasks 1-7: Exited with exit code 143",
            killed,
        ),
        ("srun: error: n1: tasks 4-6: Terminated", killed),
        ("srun: error: n1: task 0: Aborted (core dumped)", itself),
        ("srun: error: Unable to create step", "none"),
        (
            "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-02-03T04:05:06 ***",
            killed,
        ),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.",
            killed,
        ),
        (
            "mpirun noticed that process rank 1 with PID 0 on node n1 exited on signal 6 (Aborted).",
            itself,
        ),
        ("=   EXIT CODE: 9", killed),
        ("=   EXIT CODE: 1", itself),
        ("EXIT CODE: 1", "none"),
        (
            "failed (exitcode: 1) local_rank: 0 (pid: 81) of binary: python",
            itself,
        ),
        ("  exitcode  : -9 (pid: 77)", killed),
        ("  exitcode  : 0 (pid: 77)", "none"),
        (
            "[rank1]: ncclRemoteError: A call failed possibly due to",
            nccl,
        ),
        (
            "ncclSystemError: System call (e.g. socket, malloc) or",
            nccl,
        ),
        (
            "n1: Test NCCL failure common.cu:958 'unhandled system error / '",
            nccl,
        ),
        (
            "terminate called after throwing an instance of 'c10::DistBackendError'",
            nccl,
        ),
        (
            "terminate called after throwing an instance of 'std::bad_alloc'",
            itself,
        ),
        (
            "RuntimeError: NCCL error: unhandled cuda error (run with",
            nccl,
        ),
        ("RuntimeError: NCCL Error 2: unhandled system error", nccl),
        ("the NCCL Error codes", "none"),
        ("ncclUnhandledCudaError", nccl),
        (
            "[rank0]:[W519 22:35:49.0 NCCLSymmetricMemory.cu:268] ncclCommWindowDeregister failed for signal_handle: \
             invalid argument (run with NCCL_DEBUG=WARN for details)",
            "none",
        ),
        (
            "[E519 22:35:49.0 x.cu:268] ncclCommInitRank failed: unhandled cuda error",
            nccl,
        ),
        ("if (res == ncclSystemError) return;", "none"),
        (
            "NCCL error a.cu:46: internal error - please report this issue to the NCCL developers",
            nccl,
        ),
        (
            "cupy.cuda.nccl.NcclError: NCCL_ERROR_SYSTEM_ERROR: unhandled system error",
            nccl,
        ),
        (
            "horovod: ncclAllReduce failed: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
            nccl,
        ),
        (
            "RuntimeError: Distributed package doesn't have NCCL built in",
            itself,
        ),
        (
            "INTERNAL: NCCL operation ncclGroupEnd() failed: unhandled cuda error",
            nccl,
        ),
        ("step 5 loss 2.1", "none"),
    ] {
        assert_eq!(told(line), end, "{line}");
    }
}

#[test]
fn who_ended_and_how_is_told() {
    let of = |line: &'static str| match find_ending(line.as_bytes()) {
        Some(EndingLine::Failed(failure)) => failure,
        other => panic!("{line}: {other:?}"),
    };
    type Told = (
        FailureCause,
        Option<u32>,
        Option<u32>,
        Option<u64>,
        &'static str,
    );
    let told: [(&str, Told); 30] = [
        (
            "[rank0]: torch.OutOfMemoryError: CUDA out of memory.",
            (
                FailureCause::Exception,
                Some(0),
                None,
                None,
                "torch.OutOfMemoryError: CUDA out of memory.",
            ),
        ),
        (
            "[default3]:AssertionError",
            (
                FailureCause::Exception,
                None,
                Some(3),
                None,
                "AssertionError",
            ),
        ),
        (
            "12: my.own.ShapeException: a: b",
            (
                FailureCause::Exception,
                Some(12),
                None,
                None,
                "my.own.ShapeException: a: b",
            ),
        ),
        (
            "[rank3]: torch.distributed.DistBackendError: NCCL error in: x.cpp:9",
            (
                FailureCause::Nccl,
                Some(3),
                None,
                None,
                "torch.distributed.DistBackendError: NCCL error in: x.cpp:9",
            ),
        ),
        (
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
            (
                FailureCause::Repeated,
                None,
                None,
                None,
                "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
            ),
        ),
        (
            "[rank1]: KeyboardInterrupt",
            (FailureCause::Interrupted, Some(1), None, None, ""),
        ),
        (
            "x/api.py:986] failed (exitcode: -9) local_rank: 2 (pid: 1609) of binary: python3",
            (FailureCause::Signal(9), None, Some(2), Some(1609), ""),
        ),
        (
            "  exitcode  : 1 (pid: 3103)",
            (FailureCause::Exit(1), None, None, Some(3103), ""),
        ),
        (
            "(VllmWorker rank=3 pid=27) ERROR 03-04 01:21:00 executor.py:374] RuntimeError: CUDA error: x",
            (
                FailureCause::Exception,
                Some(3),
                None,
                Some(27),
                "RuntimeError: CUDA error: x",
            ),
        ),
        (
            "(RayWorkerWrapper pid=336, ip=10.0.0.9) Fatal Python error: Aborted",
            (FailureCause::Crash, None, None, Some(336), ""),
        ),
        (
            "Capturing:   8%|# | 4/51 [00:20<03:35]Fatal Python error: Bus error",
            (FailureCause::Crash, None, None, None, ""),
        ),
        (
            "srun: error: Node failure on n7",
            (FailureCause::Host, None, None, None, ""),
        ),
        (
            "srun: error: n1: task 3: Out Of Memory",
            (FailureCause::OutOfMemory, Some(3), None, None, ""),
        ),
        (
            "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-02-03T04:05:06 DUE TO TIME LIMIT ***",
            (
                FailureCause::Cancelled,
                None,
                None,
                None,
                "2026-02-03T04:05:06 DUE TO TIME LIMIT",
            ),
        ),
        (
            "prterun noticed that process rank 3 with PID 123 on node n1 exited on signal 9 (Killed).",
            (FailureCause::Signal(9), Some(3), None, Some(123), ""),
        ),
        (
            "[n1:81:0:99] Caught signal 11 (Segmentation fault: address not mapped to object at 0x48)",
            (FailureCause::Signal(11), None, None, Some(81), ""),
        ),
        (
            "[rank: 3] Child process with PID 81 terminated with code 1. Forcefully terminating all other processes",
            (FailureCause::Exit(1), Some(3), None, Some(81), ""),
        ),
        (
            "  [SignalInfo: *** SIGTERM (@0x51) received by PID 81 (TID 0x7f00aa00) from PID 80 ***]",
            (FailureCause::Signal(15), None, None, Some(81), ""),
        ),
        (
            "[INFO] [launch.py:3:sigkill_handler] Main process received SIGINT, exiting",
            (FailureCause::Interrupted, None, None, None, ""),
        ),
        (
            "rank2 (local rank: 2)exitcode: -9 (pid: 81)error file: <N/A>",
            (FailureCause::Signal(9), None, None, Some(81), ""),
        ),
        (
            "[7.1] NVRM: Xid (PCI:0000:dc:00): 79, pid=81, name=python, GPU has fallen off the bus.",
            (FailureCause::Gpu(79), None, None, None, "PCI:0000:dc:00"),
        ),
        (
            "NVRM: Xid (PCI:0000:dc:00): 45, pid=81, name=python, Ch 1 caused by previous Xid 149",
            (FailureCause::Gpu(149), None, None, None, "PCI:0000:dc:00"),
        ),
        (
            "RuntimeError: [Rank 0]: Ranks 4, 5 failed to pass monitoredBarrier in 2000 ms",
            (
                FailureCause::Nccl,
                None,
                None,
                None,
                "RuntimeError: [Rank 0]: Ranks 4, 5 failed to pass monitoredBarrier in 2000 ms",
            ),
        ),
        (
            "[rank2]:[E socket.cpp:9] [c10d] The client socket has timed out after 60s while trying",
            (
                FailureCause::Nccl,
                Some(2),
                None,
                None,
                "[rank2]:[E socket.cpp:9] [c10d] The client socket has timed out after 60s while trying",
            ),
        ),
        (
            "  Exit code:    137",
            (FailureCause::Signal(9), None, None, None, ""),
        ),
        (
            "[81.2] Memory cgroup out of memory: Killed process 81 (python) total-vm:8kB",
            (FailureCause::OutOfMemory, None, None, Some(81), ""),
        ),
        (
            "Out of memory: Kill process 81 (python) score 9 or sacrifice child",
            (FailureCause::OutOfMemory, None, None, Some(81), ""),
        ),
        (
            "train.sh: line 7:    81 Killed                  python train.py",
            (FailureCause::Signal(9), None, None, Some(81), ""),
        ),
        (
            "W0614 x.py:9] Received Signals.SIGTERM death signal, shutting down workers",
            (FailureCause::Cancelled, None, None, None, ""),
        ),
        (
            "[ERROR] [launch.py:322] ['python', 'train.py'] exits with return code = -9",
            (FailureCause::Signal(9), None, None, None, ""),
        ),
    ];
    for (line, (what, rank, local_rank, pid, says)) in told {
        let failure = of(line);
        assert_eq!(failure.what, what, "{line}");
        let who = failure.who;
        assert_eq!(
            (who.rank, who.local_rank, who.pid),
            (rank, local_rank, pid),
            "{line}"
        );
        assert_eq!(failure.says, says.as_bytes(), "{line}");
    }
    let host = |line| of(line).who.host;
    assert_eq!(host("srun: error: n1: task 3: Killed"), Some(&b"n1"[..]));
    let ray = "Worker PID: 81 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits";
    assert_eq!(
        (of(ray).what, of(ray).who.pid),
        (FailureCause::Crash, Some(81))
    );
    let cancelled = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-02-03T04:05:06 ***";
    assert_eq!(host(cancelled), Some(&b"n1"[..]));
    let part = |line: &'static str| find_ending(line.as_bytes());
    let rank = |rank, local_rank| {
        Some(EndingLine::Part(LauncherReport::Rank(ProcessOfLine {
            rank: Some(rank),
            local_rank,
            ..ProcessOfLine::default()
        })))
    };
    assert_eq!(part("  rank      : 9 (local_rank: 1)"), rank(9, Some(1)));
    assert_eq!(part("  Process name: [[59473,1],2]"), rank(2, None));
    assert_eq!(
        part("  host      : n1"),
        Some(EndingLine::Part(LauncherReport::Host(b"n1")))
    );
    for line in [
        "WARNING: an Error occurred",
        "frame #0: c10::Error::Error(c10::SourceLocation)",
        "raise ValueError(\"x\")",
        "step 3: line 7: 12 of 40",
        // The program's own fault, and one attempt of several.
        "NVRM: Xid (PCI:0000:dc:00): 31, pid=81, name=python, MMU Fault",
    ] {
        assert_eq!(find_ending(line.as_bytes()), None, "{line}");
    }
    let warned = "[W socket.cpp:9] [c10d] The server socket has failed to listen on any local network address.";
    assert_eq!(of(warned).what, FailureCause::Warned);
}

#[test]
fn what_a_failure_leaves_beside_its_line_is_read() {
    let read = |line: &str| find_ending(line.as_bytes()).map(|end| format!("{end:?}"));
    let frame = |function: &'static str, file: &'static str, line| {
        Some(EndingLine::NcclFrame(NcclFrame {
            function: function.as_bytes(),
            file: file.as_bytes(),
            line,
        }))
    };
    for (line, end) in [
        (
            " 2 0x0000000000049b8a proxyOp()  /build/nccl/src/enqueue.cc:180   ",
            frame("proxyOp", "enqueue.cc", 180),
        ),
        (
            "12 0x0000000000044b36 ncclAllGather()  /src/collectives.cc:26",
            frame("ncclAllGather", "collectives.cc", 26),
        ),
        (
            "(Worker pid=7) File \"/x/pynccl_wrapper.py\", line 9 in ncclAllReduce",
            frame("ncclAllReduce", "pynccl_wrapper.py", 9),
        ),
        (
            "13 0x00000000011fd1f3 c10d::allgather()  /t/ops.cpp:9",
            None,
        ),
        ("  File \"/x/model.py\", line 9 in forward", None),
        ("see \"notes\", line 9, in the middle", None),
    ] {
        assert_eq!(find_ending(line.as_bytes()), end, "{line}");
    }
    let assertion = "../aten/Gather.cu:14: operator(): block: [0,0,0], thread: [1,0,0] Assertion `i < n` failed.";
    let expected = EndingLine::KernelAssertion(KernelAssertion {
        condition: b"i < n",
        place: b"Gather.cu:14",
    });
    assert_eq!(find_ending(assertion.as_bytes()), Some(expected));
    assert_eq!(read("main.c:14: main: Assertion `i < n` failed."), None);
    let traced = read("ERROR 01-02 [executor.py:4]   File \"model.py\", line 9, in forward");
    assert!(traced.unwrap().starts_with("Traceback"));
}

#[test]
fn labels_of_serving_programs_name_ranks() {
    for (line, rank) in [
        (
            "[2025-03-04 05:06:07 TP3] Scheduler hit an exception",
            Some(3),
        ),
        ("[2025-03-04 05:06:07 DP1 TP9 EP9] x", Some(9)),
        ("[2025-03-04 05:06:07 PP1 TP1] x", None),
        ("[2025-03-04 05:06:07] TP3 is ready", None),
        ("(Worker_TP2 pid=71) ERROR", Some(2)),
        ("(VllmWorker TP2 pid=71) ERROR", Some(2)),
        ("(Worker_DP1_TP2 pid=71) ERROR", None),
        ("(VllmWorker rank=5 pid=71) ERROR", Some(5)),
        ("[rank1]:[rank5]: Traceback", Some(5)),
        ("[rank1]: [rank3]: x", Some(3)),
        ("[rank1]: x [rank3]: y", Some(1)),
    ] {
        assert_eq!(process_of_line(line.as_bytes()).rank, rank, "{line}");
    }
}

#[test]
fn the_launcher_of_cray_and_another_command_s_answer() {
    let failure = |line: &str| match find_ending(line.as_bytes()) {
        Some(EndingLine::Failed(failure)) => Some((failure.what, failure.who.rank)),
        _ => None,
    };
    for (line, expected) in [
        (
            "n1.lab: rank 2 died from signal 6 and dumped core",
            Some((FailureCause::Signal(6), Some(2))),
        ),
        (
            "n1.lab: rank 7 exited with code 3",
            Some((FailureCause::Exit(3), Some(7))),
        ),
        ("n1.lab: rank 7 of 8 is ready", None),
        (
            "n1.lab: shepherd died from signal 9",
            Some((FailureCause::Signal(9), None)),
        ),
        (
            "0: srun: error: n1: task 3: Exited with exit code 5",
            Some((FailureCause::Exit(5), Some(3))),
        ),
        (
            "srun ps || echo \"none\"srun: error: n1: task 3: Exited with exit code 5",
            None,
        ),
        ("Error: Failed to suspend process", None),
    ] {
        assert_eq!(failure(line), expected, "{line}");
    }
}

#[test]
fn shells_and_services_report_crashes() {
    let failure = |line: &str| match find_ending(line.as_bytes()) {
        Some(EndingLine::Failed(failure)) => Some((failure.what, failure.who.pid)),
        _ => None,
    };
    let signal = |number, pid| Some((FailureCause::Signal(number), pid));
    for (line, expected) in [
        ("Segmentation fault (core dumped)", signal(11, None)),
        ("[rank1]: Aborted (core dumped)", signal(6, None)),
        ("  Killed  ", signal(9, None)),
        ("Killed 3 workers", None),
        ("worker Killed", None),
        ("the run (core dumped) yesterday", None),
        (
            "Nov 27 20:56:54 n1 systemd-coredump[91]: Process 81 (python3) of user 1000 dumped core.",
            Some((FailureCause::Crash, Some(81))),
        ),
        (
            "systemd-coredump[91]: Process 81 (python3) of user 1000 terminated abnormally with signal 11/SEGV, processing...",
            signal(11, Some(81)),
        ),
        ("the Process dumped core", None),
        (
            "x.spawn.ProcessExitedException: process 3 terminated with signal SIGSEGV",
            signal(11, None),
        ),
        (
            "ERROR 11-27 20:56:54 x.py:9] Worker VllmWorkerProcess pid 81 died, exit code: -9",
            signal(9, Some(81)),
        ),
        (
            "[2025-11-27 20:56:54] Child process unexpectedly failed with an exit code 139. pid=81",
            signal(11, Some(81)),
        ),
        (
            "Child process unexpectedly failed with exitcode=256. pid=81",
            Some((FailureCause::Exit(1), Some(81))),
        ),
        ("command terminated with exit code 137", signal(9, None)),
        (
            "2026-11-27 20:56:54.1: F external/xla/xla/x.cc:81] Check failed: a == b",
            Some((FailureCause::Crash, None)),
        ),
        (
            "F1127 20:56:54.123456   81 x.cc:81] Check failed: a == b",
            Some((FailureCause::Crash, None)),
        ),
        (
            "W1127 20:56:54.123456   81 x.cc:81] Check failed: a == b",
            None,
        ),
    ] {
        assert_eq!(failure(line), expected, "{line}");
    }
}

#[test]
fn servers_without_a_port_explain_their_end() {
    let is_own = |line: &str| match find_ending(line.as_bytes()) {
        Some(EndingLine::Failed(failure)) => failure.what == FailureCause::OwnState,
        _ => false,
    };
    for (line, expected) in [
        ("bind: address already in use", true),
        ("Port 8123 is already in use", true),
        ("GPU 3 is already in use", false),
        ("address already in use, trying port 8124", false),
        (
            "[W socket.cpp:9] [c10d] x failed to bind to [::]:29511 (errno: 98 - Address already in use).",
            false,
        ),
    ] {
        assert_eq!(is_own(line), expected, "{line}");
    }
}

#[test]
fn handlers_of_signals_report_crashes() {
    for (line, number) in [
        (
            " Caught signal 11 (Segmentation fault: address not mapped)",
            Some(11),
        ),
        ("[n1:81:0:99] Caught signal 7 (Bus error: )", Some(7)),
        ("It Caught signal by surprise", None),
    ] {
        let signal = match find_ending(line.as_bytes()) {
            Some(EndingLine::Failed(failure)) => match failure.what {
                FailureCause::Signal(number) => Some(number),
                _ => None,
            },
            _ => None,
        };
        assert_eq!(signal, number, "{line}");
    }
    for (line, number) in [
        (
            "(W pid=3, ip=10.0.0.1) *** SIGSEGV received at time=17 on cpu 3 ***",
            Some(11),
        ),
        (
            "Thread 1 \"python\" received signal SIGBUS, Bus error.",
            Some(7),
        ),
        (
            "Thread 1 \"python\" received signal SIGUSR1, User defined signal 1.",
            None,
        ),
    ] {
        let what = match find_ending(line.as_bytes()) {
            Some(EndingLine::Failed(failure)) => Some(failure.what),
            _ => None,
        };
        assert_eq!(what, number.map(FailureCause::Signal), "{line}");
    }
}

/// A page joins the lines of a report to one.
#[test]
fn a_failure_behind_a_frame_counts() {
    let line = b"File \"/x/d.py\", line 9, in broadcast 1: work = g() 1: torch.distributed.DistBackendError: NCCL error in: x.cpp:1";
    let Some(EndingLine::Failed(failure)) = find_ending(line) else {
        panic!("no failure");
    };
    assert_eq!(failure.what, FailureCause::Nccl);
    let frame = find_ending(b"  File \"/x/d.py\", line 9, in broadcast");
    assert!(matches!(frame, Some(EndingLine::Traceback(_))));
    let reason = find_ending(b"  what():  bad allocation");
    assert_eq!(reason, Some(EndingLine::Reason(b"bad allocation")));
    let frame = find_ending(b"frame #3: c10d::ProcessGroupNCCL::ncclCommWatchdog() + 0x14d (0x7f)");
    assert_eq!(frame, Some(EndingLine::WatchdogFrame));
}

#[test]
fn ray_names_the_process_or_the_node_that_is_gone() {
    let read = |line: &'static str| match find_ending(line.as_bytes()) {
        Some(EndingLine::Failed(failure)) => {
            let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
            let says = text(failure.says);
            let host = failure.who.host.map(text);
            Some((failure.what, failure.who.pid, host, says))
        }
        _ => None,
    };
    let host = Some("10.0.0.3".to_owned());
    let task = "ray.exceptions.RayTaskError(ValueError): ray::Worker.run() (pid=81, ip=10.0.0.3, actor_id=62)";
    let relayed = (
        FailureCause::Repeated,
        Some(81),
        host.clone(),
        task.to_owned(),
    );
    assert_eq!(read(task), Some(relayed));
    for line in [
        "2026-02-15 16:53:52,096\tWARNING worker.py:1462 -- The node with node id: 8f20 and ip: 10.0.0.3 has been marked \
         dead because the detector has missed too many heartbeats from it.",
        "(raylet) The node with node id: 8f20 and address: 10.0.0.3 and node name: 10.0.0.3 has been marked dead because \
         the detector has missed too many heartbeats from it.",
    ] {
        let (what, _, named, _) = read(line).unwrap();
        assert_eq!((what, named), (FailureCause::Host, host.clone()), "{line}");
    }
    let reason = "(T pid=7) \tthe actor's node was terminated unexpectedly: health check failed";
    let ended = "terminated unexpectedly: health check failed".to_owned();
    assert_eq!(read(reason), Some((FailureCause::Host, None, None, ended)));
    let died = read("The actor died because its node has died. Node Id: b157").unwrap();
    assert_eq!(died.0, FailureCause::Crash);
}

#[test]
fn a_collector_s_time_may_be_in_front_of_an_exception() {
    let is_failure =
        |line: &str| matches!(find_ending(line.as_bytes()), Some(EndingLine::Failed(_)));
    for stamp in [
        "Jul 13 21:22:34 ",
        "2026-07-13T21:22:34.5678901Z ",
        "[2026-07-13 21:22:34] ",
    ] {
        assert!(is_failure(&format!("{stamp}ValueError: x")), "{stamp}");
    }
    for text in ["at 21:22 ", "ratio 3:4:5 ", "it met "] {
        assert!(!is_failure(&format!("{text}ValueError: x")), "{text}");
    }
}

#[test]
fn core_files_and_scripts_without_a_program_are_read() {
    let what = |line: &str| match find_ending(line.as_bytes()) {
        Some(EndingLine::Failed(failure)) => Some(failure.what),
        _ => None,
    };
    let core = "Program terminated with signal ";
    let signal = Some(FailureCause::Signal(11));
    assert_eq!(what(&format!("{core}SIGSEGV, Segmentation fault.")), signal);
    assert_eq!(what(&format!("{core}11, Segmentation fault.")), signal);
    let missing = Some(FailureCause::Crash);
    assert_eq!(
        what("/etc/mpi/kubexec.sh: 11: /opt/kube/kubectl: not found"),
        missing
    );
    assert_eq!(
        what("start.sh: line 7: torchrun: command not found"),
        missing
    );
    assert_eq!(what("start.sh: line 7: module: command not found"), None);
    assert_eq!(what("key 11: ssh: not found in the table"), None);
    let frame = find_ending(b"    return launch_agent(self._config, self._entrypoint, list(args))");
    assert_eq!(frame, Some(EndingLine::LauncherFrame));
}
