//! nccl-check where a failure is told by a program, or by the way of an error, and by nothing else.

use crate::support::{Csv, feed};

/// Severity, kind, rank, and the exit code.
fn findings(log: &str) -> (Vec<String>, Option<i32>) {
    let out = feed("nccl-check", &["-q", "--format", "csv"], log).calm();
    let csv = Csv::of(&out);
    (csv.pick(&["severity", "finding", "rank"]), out.code)
}

/// What each program prints, and the finding.
const TOLD: [(&str, &str); 35] = [
    // A communicator that was aborted has -1 ranks, one that is not yet made has none.
    (
        "h:1:2 [0] misc/argcheck.cc:39 NCCL WARN AllReduce : invalid root 0 (root should be in the 0..-1 range)\n\
         h:1:2 [0] NCCL INFO enqueue.cc:1452 -> 4\nh:1:2 [0] init.cc:1137 NCCL WARN comm 0x7f has already been destroyed\n",
        "error warn_comm_destroyed ",
    ),
    (
        "h:1:2 [0] misc/argcheck.cc:40 NCCL WARN Reduce : invalid root 0 (root should be in the 0..0 range)\n\
         h:1:2 [0] NCCL INFO enqueue.cc:447 -> 4\nh:1:2 [0] init.cc:840 NCCL WARN comm 0x7f has already been destroyed\n",
        "error warn_comm_not_made ",
    ),
    (
        "h:1:2 [0] misc/argcheck.cc:40 NCCL WARN Broadcast : invalid root 9 (root should be in the 0..8 range)\n",
        "error warn_argument ",
    ),
    // A setback whose error comes to the program ended its work.
    (
        "h:1:2 [0] graph/xml.cc:332 NCCL WARN Could not find real path of /sys/class/pci_bus/0000:0d/../../0000:0d:00.0\n\
         h:1:2 [0] NCCL INFO graph/xml.cc:648 -> 2\nh:1:2 [0] NCCL INFO init.cc:840 -> 2\n",
        "error warn_gpu_place ",
    ),
    // The program's own line reports that it got the error.
    (
        "h: Test NCCL failure common.cu:777 'unhandled system error'\n\
         h:1:2 [0] graph/xml.cc:332 NCCL WARN Could not find real path of /sys/class/pci_bus/0000:0d/../../0000:0d:00.0\n\
         h:1:2 [0] NCCL INFO graph/topo.cc:523 -> 2\n",
        "error warn_gpu_place ",
    ),
    (
        "F0927 11:10:10.012345  1234 x.cpp:100] Check failed: result == ncclSuccess (2 vs. 0) unhandled system error\n",
        "error nccl_error ",
    ),
    (
        "terminate called after throwing an instance of 'std::runtime_error'\n  what():  NCCL error in: x.cpp:1331, invalid \
         usage, NCCL version 2.14.3\n",
        "error nccl_error ",
    ),
    // The others lose the process that NCCL gave the error.
    (
        "terminate called after throwing an instance of 'std::runtime_error'\n  what():  NCCL error in: x.cpp:1331, invalid \
         usage, NCCL version 2.14.3\nRuntimeError: [2] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via \
         c10d key-value store by key '0', but store->get('0') got error: Broken pipe\n",
        "error nccl_error ",
    ),
    (
        "h:1:2 [0] graph/xml.h:82 NCCL WARN Attribute ngpus of node algo not found\n",
        "error warn_algorithm_file ",
    ),
    (
        "h:1:2 [0] misc/shmutils.cc:93 NCCL WARN Call to open failed: No such file or directory\n\
         h:1:2 [0] misc/shmutils.cc:129 NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-a (size 9), \
         error: No such file or directory (2)\n",
        "error warn_shm_attach ",
    ),
    (
        "[rank5]:[E901 05:20:03.1 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) Rank 5] Received a dump \
         signal due to a collective timeout from  rank 34 and we will try our best to dump the debug info. Last enqueued \
         NCCL work: 460631, last completed NCCL work: 460630.This is most likely\n",
        "error watchdog_timeout ",
    ),
    (
        "h:1:2 [0] graph/xml.h:77 NCCL WARN Attribute busid of node nic not found\n\
         h:1:2 [0] NCCL INFO init.cc:581 -> 3\nh:1:2 [0] NCCL INFO group.cc:73 -> 3 [Async thread]\n",
        "error warn_topology_nic ",
    ),
    (
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 7, for key: \
         store_based_barrier_key:32 (world_size=8, worker_count=4, timeout=0:00:30)\n",
        "error setup_failed ",
    ),
    (
        "gpu: Test CUDA failure common.cu:1030 'system not yet initialized'\n .. gpu pid 3018: Test failure common.cu:937\n",
        "error warn_cuda_fabric ",
    ),
    (
        "Cuda failure common.cu:891 'CUDA driver version is insufficient for CUDA runtime version'\n",
        "error warn_cuda_driver ",
    ),
    // A program that relays an error did not end in order.
    (
        "h:1:2 [0] include/socket.h:385 NCCL WARN Net : Connection closed by remote peer\n\
         NCCL failure common.cu:921 'unhandled system error'\n",
        "error warn_peer_closed ",
    ),
    (
        "h:1:2 [2] init.cc:303 NCCL WARN Attempt to use communicator before the previous operation returned ncclSuccess\n",
        "error warn_comm_not_ready ",
    ),
    (
        "h:1:2 [0] include/shm.h:27 NCCL WARN Call to shm_open failed : Permission denied\nh:1:2 [0] NCCL INFO \
         include/shm.h:41 -> 2\nh:1:2 [0] include/shm.h:48 NCCL WARN Error while creating shared memory segment \
         nccl-shm-recv-b7-0-3-0 (size 4460544)\n",
        "error warn_shm_denied ",
    ),
    (
        "h:3171:3171 [0] include/socket.h:311 WARN Socket creation failed : Address family not supported by protocol\n",
        "error warn_no_address ",
    ),
    (
        "h:1:2 [5] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to fe80::966d:ae03:a2:8cf0%ib1<17943> failed : \
         Software caused connection abort\n",
        "error warn_link_local ",
    ),
    // Python prints the rank of an exception, whether its traceback was copied or not.
    (
        "[rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: x, but \
         Rank 0 is running collective: y\n",
        "error rank_exception 1",
    ),
    // The system's reason for a kill comes after the shell's line.
    (
        "/job/script: line 28:  8156 Killed                  python3 main.py\nslurmstepd: error: Detected 1 oom-kill \
         event(s) in StepId=191.batch cgroup. Some of your processes may have been killed by the cgroup out-of-memory \
         handler.\n",
        "error host_out_of_memory ",
    ),
    (
        "h:1:2 [0] NCCL INFO socketPollConnect: connect returned No route to host, retrying (34/34) after sleep for 3400 \
         msec\n",
        "error connect_retrying ",
    ),
    (
        "[rank3]: torch.distributed.DistBackendError: NCCL error in: ../NCCLUtils.cpp:77, unhandled cuda error (run with \
         NCCL_DEBUG=INFO for details), NCCL version 2.26.2\n[rank3]: ncclUnhandledCudaError: Call to CUDA function \
         failed.\n[rank3]: Last error:\n[rank3]: Cuda failure 2 'out of memory'\n",
        "error warn_cuda_oom 3",
    ),
    // No WARN line was printed: the text after the words is empty.
    (
        "[rank0]: torch.distributed.DistBackendError: NCCL error in: x.cpp:77, internal error - please report this issue \
         to the NCCL developers, NCCL version 2.21.5\n[rank0]: ncclInternalError: Internal check failed.\n[rank0]: Last \
         error:\n[rank0]: \n",
        "error nccl_error 0",
    ),
    (
        "RuntimeError: NCCL error in: /opt/x/ProcessGroupNCCL.cpp:784, unhandled system error, NCCL version 2.7.8\n",
        "error nccl_error ",
    ),
    (
        "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: NCCL operation ncclAllReduce(a) failed: unhandled cuda error (run \
         with NCCL_DEBUG=INFO for details). Last NCCL warning(error) log entry (may be unrelated) 'Cuda failure 999 \
         'unknown error''.\n",
        "error warn_cuda_failure ",
    ),
    (
        "h: Test NCCL failure common.cu:1005 'unhandled system error (run with NCCL_DEBUG=INFO for details) / socketStartConnect: \
         Connect to 10.0.0.2<41000> failed : Software caused connection abort'\n",
        "error warn_socket ",
    ),
    (
        "Failed, NCCL error main.cu:46 'remote process exited or there was a network error'\n",
        "error nccl_error ",
    ),
    (
        "cupy_backends.cuda.libs.nccl.NcclError: NCCL_ERROR_UNHANDLED_CUDA_ERROR: unhandled cuda error\n",
        "error nccl_error ",
    ),
    (
        "[1,2]<stderr>:horovod.common.exceptions.HorovodInternalError: ncclCommInitRank failed: unhandled system error\n",
        "error nccl_error 2",
    ),
    (
        "h:1:2 [0] NCCL INFO bootstrap.cc:75 -> 6\nh:1:2 [0] NCCL INFO init.cc:1388 -> 6\n",
        "error nccl_error ",
    ),
    // An exception of the program's own, copied without its traceback.
    (
        "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!\n",
        "error rank_exception ",
    ),
    (
        "h:1:2 [0] misc/socket.cc:310 NCCL WARN socketFinalizeAccept: wrong type 4 != 3\n",
        "error warn_socket_networks ",
    ),
    // A network that is not there, and another that is.
    (
        "h:1:2 [0] NCCL INFO transport/net_ib.cc:852 -> 3\nh:1:2 [0] NCCL INFO Failed to initialize NET plugin IB\n\
         h:1:2 [0] NCCL INFO Using network Socket\n",
        "note not_checked ",
    ),
];

#[test]
fn what_a_program_tells_of_nccl_is_a_finding() {
    for (log, finding) in TOLD {
        let (found, code) = findings(log);
        assert_eq!(found, [finding], "{log}");
        let expected = if finding.starts_with("error") { 1 } else { 3 };
        assert_eq!(code, Some(expected), "{log}");
    }
}

#[test]
fn an_exception_that_only_names_nccl_is_the_process_s_own() {
    let log = "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"x.py\", line 1, in <module>\n\
               [rank0]: RuntimeError: Distributed package doesn't have NCCL built in\n";
    assert_eq!(findings(log).0, ["error rank_exception 0"]);
}

#[test]
fn a_lost_peer_is_an_error_where_nccl_returned_one() {
    let log = "h:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n2<4283>\n";
    let way =
        "h:1:2 [0] NCCL INFO misc/socket.cc:749 -> 6\nh:1:2 [0] NCCL INFO group.cc:422 -> 6\n";
    assert_eq!(
        findings(log).0,
        ["note not_checked ", "note warn_peer_closed "]
    );
    assert_eq!(
        findings(&(log.to_owned() + way)).0,
        ["error warn_peer_closed "]
    );
}

#[test]
fn functions_that_fail_while_connections_are_taken_down_are_no_error() {
    let log = "h:1:2 [0] proxy.cc:1458 NCCL WARN [Service thread] Accept failed Resource temporarily unavailable\n\
        h:3:4 [4] NCCL INFO misc/socket.cc:47 -> 3\nh:3:4 [4] NCCL INFO misc/socket.cc:550 -> 3\n";
    let (found, code) = findings(log);
    assert_eq!(
        (found, code),
        (
            vec![
                "note not_checked ".to_owned(),
                "note shutdown_warns ".to_owned()
            ],
            Some(3)
        )
    );
}

/// A crash is named by what stands around it: the place in NCCL's code, the rank whose connections closed.
#[test]
fn a_crash_names_its_place_and_its_process() {
    let says = |log: &str| {
        let out = feed("nccl-check", &["-q", "--format", "csv"], log).calm();
        Csv::of(&out).pick(&["severity", "finding", "says"])
    };
    let closed = |by: u32| {
        format!("n1:{by}:9 [{by}] NCCL INFO [Service thread] Connection closed by localRank 2\n")
    };
    let stack = " 0 0x0000000000042520 __sigaction()  ???:0\n 1 0x0000000000049b8a proxyOp()  /b/nccl/src/enqueue.cc:180\n \
                 2 0x0000000000044b36 ncclAllGather()  /b/nccl/src/collectives.cc:26\n";
    assert_eq!(
        says(&format!(
            " Caught signal 11 (Segmentation fault: address not mapped)\n{stack}"
        )),
        [
            "error rank_crashed a process crashed with signal 11 (SIGSEGV) in NCCL's proxyOp (enqueue.cc:180)"
        ]
    );
    assert_eq!(
        says(&format!(
            "{stack}Fatal Python error: Segmentation fault\n{}{}",
            closed(0),
            closed(1)
        ))[0],
        "error rank_crashed local rank 2 of n1 crashed in NCCL's proxyOp (enqueue.cc:180): Fatal Python error: \
         Segmentation fault"
    );
    // Python's report follows that of another handler, and its frames belong to the first line.
    assert_eq!(
        says(
            "(W pid=7, ip=10.0.0.3) *** SIGSEGV received at time=17 on cpu 3 ***\n(W pid=7, ip=10.0.0.3) Fatal Python error: \
             Segmentation fault\n(W pid=7, ip=10.0.0.3)   File \"/x/pynccl_wrapper.py\", line 9 in ncclAllReduce\n"
        ),
        [
            "error rank_crashed 10.0.0.3:7 crashed with signal 11 (SIGSEGV) in NCCL's ncclAllReduce (pynccl_wrapper.py:9)"
        ]
    );
    // A watchdog ends its process by an exception that nothing takes; the launcher's own word on the first outranks a
    // list whose head is cut off.
    assert_eq!(
        says(
            "(W pid=7) /l/libtorch_cuda.so(+0xe0) [0x7f9a] c10d::ProcessGroupNCCL::ncclCommWatchdog()\n(W pid=7) *** SIGABRT \
             received at time=17 on cpu 5 ***\n"
        ),
        [
            "error rank_crashed process 7 crashed with signal 6 (SIGABRT) in PyTorch's watchdog, which ends its process when \
             a call of NCCL failed or timed out"
        ]
    );
    assert_eq!(
        says(
            "  exitcode  : -6 (pid: 37)\n  error_file: <N/A>\n[7]:\n  host      : n1\n  rank      : 7 (local_rank: 7)\n  \
             exitcode  : -6 (pid: 38)\n  error_file: <N/A>\nRoot Cause (first observed failure):\n[0]:\n  host      : n1\n  \
             rank      : 0 (local_rank: 0)\n  exitcode  : -6 (pid: 31)\n  error_file: <N/A>\n"
        ),
        ["error rank_crashed rank 0 (n1:31) crashed with signal 6 (SIGABRT)"]
    );
    assert_eq!(
        says(
            "terminate called after throwing an instance of 'std::runtime_error'\n  what():  no room\n"
        ),
        [
            "error rank_crashed a process crashed: terminate called after throwing an instance of 'std::runtime_error': no room"
        ]
    );
    assert_eq!(
        says(
            "DEBUG 07-04 17:35:10 [shm_broadcast.py:456] No available shared memory broadcast block found in 60 second.\nERROR \
             07-04 17:35:16 [multiproc_executor.py:140] Worker proc VllmWorker-1 died unexpectedly, shutting down executor.\n"
        )[0],
        "error rank_crashed rank 1: a worker of vLLM's ended: it raised an exception, crashed, or was killed, as by the \
         out-of-memory killer"
    );
    // The last process of torchrun's report is the first failure, also where only the report's end was kept.
    assert_eq!(
        says(
            "  rank      : 0 (local_rank: 0)\n  exitcode  : -11 (pid: 6421)\n  error_file: <N/A>\n  traceback : Signal 11 \
             (SIGSEGV) received by PID 6421\n======================================================\n"
        ),
        ["error rank_crashed rank 0 (process 6421) crashed with signal 11 (SIGSEGV)"]
    );
    // A web page squeezes the blanks of the fields.
    assert_eq!(
        says(
            "Root Cause (first observed failure):\n[0]:\ntime : 2026-11-16_10:04:53\nhost : n1\nrank : 3 (local_rank: 3)\n\
             exitcode : 1 (pid: 31)\nerror_file: <N/A>\n"
        ),
        ["error rank_exited rank 3 (n1:31) ended with exit code 1"]
    );
    // The reason of a program's own error has words of NCCL's results, too.
    assert_eq!(
        says(
            "VLLM: Failed: /w/csrc/custom_all_reduce.cuh:368 'invalid argument'\nVLLM: Failed: Cuda error \
             /w/csrc/custom_all_reduce.cuh:164 'invalid argument'\n"
        )[0],
        "error warn_custom_all_reduce the program's own all-reduce (of vLLM or SGLang, over CUDA IPC) failed, which does not use \
         NCCL: an error, as the program reports it"
    );
    // A report of a crash behind a long progress bar is whole.
    let bar = " 41%|".to_owned() + &"#".repeat(400) + "| 366/903 [5:15:39<6:53:09, 46.16s/it]";
    assert_eq!(
        says(&(bar + "HW Exception by GPU node-9 (Agent handle: 0x5) reason :GPU Hang\n")),
        [
            "error rank_crashed a process crashed: HW Exception by GPU node-9 (Agent handle: 0x5) reason :GPU Hang"
        ]
    );
    assert_eq!(
        says("[1,25]<stderr>:terminate called after throwing an instance of 'c10::Error'\n"),
        [
            "error rank_crashed rank 25 crashed: terminate called after throwing an instance of 'c10::Error'"
        ]
    );
    // A crash of Python's is a failure, whatever its stack shows.
    assert_eq!(
        says(
            "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n  File \"a.py\", line 1 in f\n"
        ),
        ["error rank_crashed a process crashed: Fatal Python error: Segmentation fault"]
    );
    let abort = "(W pid=7) Fatal Python error: Aborted\n\n\n";
    let thrown = "[E x.cpp:9] [Rank 0] NCCL watchdog thread terminated with exception: CUDA error: an illegal memory access\n";
    assert_eq!(
        says(&format!("{abort}{thrown}"))[0],
        "error watchdog_exception PyTorch's watchdog failed on rank 0: CUDA error: an illegal memory access"
    );
    assert_eq!(
        says("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=191.batch cgroup.\n"),
        [
            "error host_out_of_memory a process was killed: it reached the memory limit of its Slurm step, or the host had no \
             memory left"
        ]
    );
    // The lines that name the call are elsewhere.
    assert_eq!(
        says(
            "[rank2]:[E602 11:18:53.8 ProcessGroupNCCL.cpp:684] [Rank 2] Some NCCL operations have failed or timed out. Due \
             to the asynchronous nature of CUDA kernels\n[rank2]:[E602 11:18:53.9 ProcessGroupNCCL.cpp:698] [Rank 2] To avoid \
             data inconsistency, we are taking the entire process down.\n"
        ),
        [
            "error watchdog_timeout PyTorch's watchdog ended the process on rank 2: a call of NCCL failed or timed out, and the \
             line that names it is not here"
        ]
    );
    // Only one of the ranks names its group.
    let waits = |rank: u32, op: &str, n: u32| {
        format!(
            "[rank{rank}]:[E x.cpp:5] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=50, \
             OpType={op}, NumelIn={n}, NumelOut={n}, Timeout(ms)=600000) ran for 600095 milliseconds before timing out.\n"
        )
    };
    let named = "[rank0]:[E x.cpp:7] [PG 0 Rank 0] Timeout at NCCL work: 50, last enqueued NCCL work: 50, last completed NCCL \
                 work: 49.\n";
    assert_eq!(
        says(&(waits(1, "ALLREDUCE", 8) + &waits(0, "BROADCAST", 9) + named))[0],
        "error op_mismatch PyTorch's call 50 differs between ranks: rank 1 waits in ALLREDUCE of 8 elements, rank 0 waits in \
         BROADCAST of 9 elements"
    );
    let assertion = "../aten/Gather.cu:14: operator(): block: [0,0,0], thread: [0,0,0] Assertion `i < n` failed.\n";
    let error = "CUDA error: device-side assert triggered";
    let watchdog = format!(
        "[rank2]:[E304 01:21:01 ProcessGroupNCCL.cpp:1595] [PG ID 2 PG GUID 3 Rank 2] Process group watchdog thread terminated \
         with exception: {error}\n"
    );
    let worker = format!(
        "(VllmWorker rank=3 pid=71) ERROR 03-04 01:21:00 executor.py:374] RuntimeError: {error}\n"
    );
    assert_eq!(
        says(&[&worker[..], assertion, &watchdog].concat()),
        [
            format!(
                "error rank_exception rank 3 (process 71) raised RuntimeError: {error}; the kernel's assertion: i < n (Gather.cu:14)"
            ),
            format!("error watchdog_exception PyTorch's watchdog failed on rank 2: {error}"),
        ]
    );
}

/// The schedulers of SGLang that wait are listed; the one among them that printed nothing is named.
#[test]
fn a_scheduler_that_does_not_wait_with_the_others_is_named() {
    let line = |rank: u32| {
        format!("[2025-03-07 11:56:43 TP{rank}] Watchdog timeout (self.watchdog_timeout=300)\n")
    };
    let log = |ranks: &[u32]| ranks.iter().map(|&rank| line(rank)).collect::<String>();
    let one = "error watchdog_timeout 2";
    assert_eq!(findings(&log(&[3, 0, 1])).0, [one]);
    assert_eq!(findings(&log(&[0, 1, 2, 3])).0, ["error watchdog_timeout "]);
    assert_eq!(findings(&log(&[1, 5])).0, ["error watchdog_timeout "]);
}

/// A launcher kills the rest after a time-out, and a job's end is an answer where nothing else is judged.
#[test]
fn a_kill_after_a_timeout_follows_from_it() {
    let timeout = "[rank8]:[E304 01:21:01 ProcessGroupNCCL.cpp:607] [Rank 8] Watchdog caught collective operation timeout: \
                   WorkNCCL(SeqNum=167, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600060 \
                   milliseconds before timing out.\n";
    let killed = "srun: error: n1: tasks 0-7: Killed\n";
    let first = |log: &str| findings(log).0[0].clone();
    assert_eq!(
        first(&[timeout, killed].concat()),
        "error watchdog_timeout "
    );
    assert_eq!(first(&[killed, timeout].concat()), "error rank_killed ");
    let end = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-02-03T04:05:06 DUE TO TIME LIMIT ***\n";
    let out = feed("nccl-check", &["-q", "--format", "text"], end);
    let answer = "only the job's end was judged: the scheduler cancelled the job at 2026-02-03T04:05:06: time limit";
    let shown = String::from_utf8_lossy(&out.stdout);
    assert!(shown.starts_with(answer), "{shown}");
}

/// Lines that a process wrote before its failure may come after it: those of its beginning do.
#[test]
fn lines_that_come_late_do_not_hide_an_exception() {
    let begin = "n1:71:71 [1] NCCL INFO Bootstrap : Using eth0:10.0.0.3<0>\nn1:71:71 [1] NCCL INFO comm 0x55 rank 1 nranks 2 cudaDev 1 \
                 busId 6000 commId 0x17 - Init COMPLETE\n";
    let worker = "(VllmWorker rank=1 pid=71) ERROR 07-09 00:57:28 [executor.py:487]";
    let error =
        format!("{worker}   File \"m.py\", line 9, in load\n{worker} RuntimeError: sizes differ\n");
    let first = |log: String| findings(&log).0[0].clone();
    assert_eq!(first(format!("{error}{begin}")), "error rank_exception 1");
}

/// The first line of the answer.
#[test]
fn what_waits_is_named_by_what_its_lines_have() {
    let barrier = |words: &str, counts: &str| {
        format!(
            "RuntimeError: {words} store based barrier on rank: 7, for key: store_based_barrier_key:32 ({counts}, timeout=0:00:30)\n"
        )
    };
    let signal = |rank: u32, by: &str, completed: u32| {
        format!(
            "[rank{rank}]:[E901 05:20:03.1 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received \
             a dump signal due to a collective timeout from {by} and we will try our best to dump the debug info. Last \
             enqueued NCCL work: 31, last completed NCCL work: {completed}.This is\n"
        )
    };
    let timeout = |rank: u32| {
        format!(
            "[rank{rank}]:[E901 05:20:03.1 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Watchdog caught collective operation \
             timeout: WorkNCCL(SeqNum=31, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600020 \
             milliseconds before timing out.\n"
        )
    };
    let port = "h:1:2 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : port error\n\
        g:3:4 [4] transport/net_ib.cc:1238 NCCL WARN NET/IB : Got completion from peer h<37948> with error 12, opcode 2, len \
        1, vendor err 129\n";
    for (log, answer) in [
        // What a NIC reports next follows from the event.
        (
            port.to_owned(),
            "the link of a NIC's port went down: 1 WARN line of 1 process on host h (the first of 2 errors)",
        ),
        (
            barrier(
                "Timed out initializing process group in",
                "world_size=8, worker_count=4",
            ),
            "only 4 of 8 processes joined the job's process group 32 before the time was up",
        ),
        (
            barrier(
                "Timed out initializing process group in",
                "world_size=4, worker_count=9",
            ),
            "processes joined the job's process group 32 9 times, and it has 4 of them",
        ),
        (
            signal(5, " rank 34", 30),
            "PyTorch's wait for a call timed out on rank 34, and rank 5 waited for call 31 of process group ID 0 PG GUID 0(default_pg), at 05:20:03",
        ),
        (
            signal(1, "this local rank", 31) + &signal(0, " rank 1", 31),
            "PyTorch's wait for a call timed out on rank 1, at 05:20:03",
        ),
        // Rank 3 signals, so it is not silent.
        (
            signal(0, " rank 3", 30) + &timeout(1) + &timeout(4),
            "PyTorch's wait for call 31 of process group ID 0 PG GUID 0(default_pg) timed out after 600000 ms: ALLREDUCE of 1 \
             element on ranks 1, 4, and rank 2 printed no such line, at 05:20:03",
        ),
        // A watchdog that does not work names no call.
        (
            timeout(1)
                + "[rank2]:[E901 05:28:03.1 ProcessGroupNCCL.cpp:1400] [PG ID 0 PG GUID 0(default_pg) Rank 2] \
                   ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress\n",
            "PyTorch's wait for call 31 of process group ID 0 PG GUID 0(default_pg) timed out after 600000 ms: ALLREDUCE of 1 \
             element on rank 1, and rank 0 printed no such line, at 05:20:03 (the first of 2 errors)",
        ),
        // Most are silent: the text is an excerpt.
        (
            signal(0, " rank 6", 30) + &timeout(7),
            "PyTorch's wait for call 31 of process group ID 0 PG GUID 0(default_pg) timed out after 600000 ms: ALLREDUCE of 1 \
             element on rank 7, at 05:20:03",
        ),
    ] {
        let out = feed("nccl-check", &["-q", "--format", "text"], log.as_str());
        assert_eq!(out.text().lines().next(), Some(answer), "{log}");
    }
}
