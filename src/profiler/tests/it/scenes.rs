//! Scenes: each is played in a process of its own, since a process has one recorder, and its files are read back.

use crate::nccl::*;
use crate::recorded::{Recorded, assert_equal, read_folder};
use crate::truth::{TrueCall, calls_of};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

const SCENE: &str = "NCCL_PIPE_TEST_SCENE";
const GROUPS: usize = 400;

/// Plays a scene in a process of its own; returns its files.
fn play(scene: &str, version: u32, events: &str) -> (ExitStatus, Vec<Recorded>) {
    let folder = std::env::temp_dir().join(format!(
        "nccl-pipe-{}-{scene}-{version}-{events}",
        std::process::id()
    ));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "scenes::stage", "--nocapture"]);
    command.env(SCENE, format!("{scene} {version}"));
    command
        .env("NCCL_PIPE_RECORD", &folder)
        .env("NCCL_PIPE_EVENTS", events);
    command.env("RANK", "3").env("WORLD_SIZE", "8");
    let status = command
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    let files = read_folder(&folder);
    std::fs::remove_dir_all(&folder).unwrap();
    (status, files)
}

/// The stage: does nothing in the tests' own process.
#[test]
fn stage() {
    let Ok(scene) = std::env::var(SCENE) else {
        return;
    };
    let (scene, version) = scene.split_once(' ').unwrap();
    let nccl = Nccl::open(version.parse().unwrap());
    match scene {
        "job" => play_job(&nccl, true),
        "kernels" => play_kernels(&nccl),
        "proxies" => play_proxies(&nccl),
        "graph" => play_graph(&nccl),
        "unfinished" => play_job(&nccl, false),
        "abort" => play_and(&nccl, || std::process::abort()),
        "killed" => play_and(&nccl, || {
            // SAFETY: it has no conditions.
            unsafe { libc::raise(libc::SIGKILL) };
        }),
        "fork" => play_fork(&nccl),
        "full" => play_full_disk(&nccl),
        "flood" => play_flood(&nccl),
        "threads" => play_threads(&nccl),
        "unloaded" => play_unloaded(&nccl),
        other => panic!("{other}"),
    }
}

fn id(comm: u64) -> u64 {
    0xfeed_0000_0000_0000 + comm
}

/// Four threads, each with a communicator of its own.
fn play_job(nccl: &Nccl, has_end: bool) {
    std::thread::scope(|scope| {
        for comm in 0..4 {
            scope.spawn(move || {
                let (context, mask) = nccl.init(id(comm), 8, 3);
                assert_ne!(mask & 6, 0);
                for group in calls_of(comm, GROUPS) {
                    nccl.make_group(context, id(comm), &group);
                }
                nccl.stop(0);
                if has_end {
                    nccl.finalize(context);
                    // Late events do no harm.
                    nccl.stop(nccl.start(context, &nccl.describe(GROUP, 0)));
                }
            });
        }
    });
}

/// Calls, a wait for the file, and an end of the process.
fn play_and(nccl: &Nccl, end: impl Fn()) {
    let (context, _) = nccl.init(id(0), 8, 3);
    for group in calls_of(0, GROUPS) {
        nccl.make_group(context, id(0), &group);
    }
    // The last call begins and is never launched: the state of a hang.
    let mut made = nccl.describe(COLL_API, 0);
    made.put_name("collApi.func", c"AllReduce")
        .put("collApi.count", 77);
    made.put_name("collApi.datatype", c"ncclFloat32");
    nccl.start(context, &made);
    std::thread::sleep(Duration::from_millis(400));
    end();
}

/// Kernels on a thread of their own.
fn play_kernels(nccl: &Nccl) {
    let (context, mask) = nccl.init(id(0), 8, 3);
    assert_eq!(u64::from(mask) & KERNEL_CH, KERNEL_CH);
    let (sender, receiver) = std::sync::mpsc::channel::<(Event, u16, u64)>();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (task, channels, start_ns) in receiver {
                nccl.run_kernel(context, task, channels, start_ns);
            }
        });
        for (number, group) in (0..).zip(calls_of(0, GROUPS)) {
            let tasks = nccl.make_group(context, id(0), &group);
            for (task, call) in tasks.into_iter().zip(group) {
                let start_ns = 1_700_000_000_000_000_000 + number;
                sender.send((task, call.channels, start_ns)).unwrap();
            }
        }
        drop(sender);
    });
    nccl.finalize(context);
}

/// The proxy thread's operations and steps for a call, and for another process's.
fn play_proxies(nccl: &Nccl) {
    let (context, mask) = nccl.init(id(0), 8, 3);
    assert_eq!(
        u64::from(mask) & (PROXY_OP | PROXY_STEP),
        PROXY_OP | PROXY_STEP
    );
    let task = nccl.make_group(context, id(0), &calls_of(0, 1)[0])[0];
    for pid in [std::process::id(), 1] {
        let mut made = nccl.describe(PROXY_OP, task);
        made.put("proxyOp.pid", u64::from(pid))
            .put("proxyOp.channelId", 5)
            .put("proxyOp.peer", 2);
        made.put("proxyOp.nSteps", 4)
            .put("proxyOp.chunkSize", 131_072)
            .put("proxyOp.isSend", 1);
        let op = nccl.start(context, &made);
        for step in 0..4 {
            let mut made = nccl.describe(PROXY_STEP, op);
            made.put("proxyStep.step", step);
            let step = nccl.start(context, &made);
            nccl.record(step, 8, Some(0));
            std::thread::sleep(Duration::from_millis(2));
            nccl.record(step, 9, Some(100_000));
            nccl.stop(step);
        }
        nccl.stop(op);
    }
    nccl.finalize(context);
}

/// A captured call, launched three times by its graph.
fn play_graph(nccl: &Nccl) {
    let (context, _) = nccl.init(id(0), 8, 3);
    let mut made = nccl.describe(COLL_API, 0);
    made.put_name("collApi.func", c"AllReduce")
        .put("collApi.count", 64)
        .put("collApi.graphCaptured", 1);
    made.put_name("collApi.datatype", c"ncclFloat32");
    let api = nccl.start(context, &made);
    nccl.stop(api);
    for seq in 0..3 {
        let mut made = nccl.describe(COLL, api);
        made.put_name("coll.func", c"AllReduce")
            .put("coll.count", 64)
            .put("coll.seqNumber", seq);
        made.put_name("coll.datatype", c"ncclFloat32")
            .put_name("coll.algo", c"RING");
        nccl.stop(nccl.start(context, &made));
    }
    nccl.finalize(context);
}

/// A fork uses the parent's communicator, begins one of its own, and ends; the parent goes on.
fn play_fork(nccl: &Nccl) {
    let (context, _) = nccl.init(id(0), 8, 3);
    let groups = calls_of(0, GROUPS);
    let (before, after) = groups.split_at(GROUPS / 2);
    for group in before {
        nccl.make_group(context, id(0), group);
    }
    // SAFETY: the other threads of this process are the recorder's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        for _ in 0..10_000 {
            nccl.start(context, &nccl.describe(COLL, 0));
        }
        let (context, _) = nccl.init(id(1), 8, 3);
        for group in calls_of(1, GROUPS) {
            nccl.make_group(context, id(1), &group);
        }
        std::process::exit(0);
    }
    for group in after {
        nccl.make_group(context, id(0), group);
    }
    let mut status = 0;
    // SAFETY: the status is writable.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0);
    std::process::exit(0);
}

fn limit_files(bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the limit is readable.
    let failed = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
    assert_eq!(failed, 0);
}

/// The file cannot grow for a while.
fn play_full_disk(nccl: &Nccl) {
    let (context, _) = nccl.init(id(0), 8, 3);
    for (number, group) in calls_of(0, 600).iter().enumerate() {
        nccl.make_group(context, id(0), group);
        match number {
            200 => limit_files(2000),
            400 => limit_files(libc::RLIM_INFINITY),
            _ => {}
        }
        if number % 50 == 0 {
            std::thread::sleep(Duration::from_millis(150));
        }
    }
    nccl.finalize(context);
}

/// More calls than a ring and the writer can take.
fn play_flood(nccl: &Nccl) {
    let (context, _) = nccl.init(id(0), 8, 3);
    let groups = calls_of(0, 20);
    for _ in 0..20_000 {
        for group in &groups {
            nccl.make_group(context, id(0), group);
        }
    }
    nccl.finalize(context);
}

/// More threads at a time than have a ring.
fn play_threads(nccl: &Nccl) {
    let (context, _) = nccl.init(id(0), 8, 3);
    let all = std::sync::Barrier::new(300);
    std::thread::scope(|scope| {
        for _ in 0..300 {
            scope.spawn(|| {
                nccl.make_group(context, id(0), &calls_of(0, 1)[0]);
                all.wait();
            });
        }
    });
    nccl.finalize(context);
}

/// The last communicator goes and the library is closed, then it comes again.
fn play_unloaded(nccl: &Nccl) {
    let groups = calls_of(0, GROUPS);
    for half in [&groups[..GROUPS / 2], &groups[GROUPS / 2..]] {
        let (context, _) = nccl.init(id(0), 8, 3);
        for group in half {
            nccl.make_group(context, id(0), group);
        }
        nccl.finalize(context);
        nccl.close();
    }
}

fn truth(comm: u64) -> Vec<TrueCall> {
    calls_of(comm, GROUPS).concat()
}

fn only(mut files: Vec<Recorded>) -> Recorded {
    assert_eq!(files.len(), 1);
    let file = files.remove(0);
    assert_eq!(file.damage, []);
    file
}

#[test]
fn every_call_of_every_version_is_recorded() {
    for version in 1..=6 {
        for scene in ["job", "unfinished"] {
            let (status, files) = play(scene, version, "calls");
            assert!(status.success());
            let file = only(files);
            assert!(file.has_end);
            assert_eq!(
                (file.process.rank, file.process.world_size),
                (Some(3), Some(8))
            );
            assert_eq!((file.process.interface, file.dropped), (version, 0));
            let ended = if scene == "job" { 4 } else { 0 };
            assert_eq!((file.comms.len(), file.comms_ended), (4, ended));
            for comm in 0..4 {
                assert_equal(&file.calls_of(id(comm)), &truth(comm), version);
            }
            for facts in file.comms.values() {
                let known = if version >= 4 {
                    (8, 2, &b"dp"[..])
                } else {
                    (0, 0, &b""[..])
                };
                assert_eq!((facts.nranks, facts.nnodes, &*facts.name), known);
                assert_eq!(facts.rank, Some(3));
            }
            let bytes = file.bytes as f64 / file.calls.len() as f64;
            assert!(bytes < 24.0, "{bytes} bytes a call");
        }
    }
}

#[test]
fn a_process_that_dies_leaves_its_calls() {
    for (scene, signal) in [("abort", libc::SIGABRT), ("killed", libc::SIGKILL)] {
        let (status, files) = play(scene, 6, "calls");
        assert_eq!(status.signal(), Some(signal));
        let file = only(files);
        assert!(!file.has_end);
        let calls = file.calls_of(id(0));
        let (last, calls) = calls.split_last().unwrap();
        assert_equal(calls, &truth(0), 6);
        assert_eq!((last.call.unwrap().shape.count, last.task), (77, None));
    }
}

#[test]
fn a_fork_has_a_file_of_its_own() {
    let (status, files) = play("fork", 6, "calls");
    assert!(status.success());
    assert_eq!(files.len(), 2);
    for (comm, file) in files.iter().enumerate() {
        assert_eq!(file.damage, []);
        assert!(file.has_end);
        assert_eq!(file.comms.len(), 1);
        assert_equal(&file.calls_of(id(comm as u64)), &truth(comm as u64), 6);
    }
}

#[test]
fn a_full_disk_costs_only_what_had_no_room() {
    let (status, files) = play("full", 6, "calls");
    assert!(status.success());
    let file = only(files);
    let truth = calls_of(0, 600).concat();
    assert!(file.has_end && file.dropped > 0 && file.calls.len() < truth.len());
    // Of each call: itself, its task, and its end. The communicator begins and ends.
    assert_eq!(
        file.events - 2 - file.drop_events + file.dropped,
        3 * truth.len() as u64
    );
    assert_eq!(
        file.calls.last().unwrap().call.unwrap().number,
        truth.len() as u64 - 1
    );
}

#[test]
fn what_has_no_room_is_counted() {
    // The writer may keep up with one thread, and has no ring for the last of 300.
    for (scene, calls, is_full) in [
        ("flood", 20_000 * calls_of(0, 20).concat().len(), false),
        ("threads", 300, true),
    ] {
        let (status, files) = play(scene, 6, "calls");
        assert!(status.success());
        let file = only(files);
        assert!(file.dropped > 0 || !is_full, "{scene}");
        let events = file.events - 2 - file.drop_events + file.dropped;
        assert_eq!(events, 3 * calls as u64, "{scene}");
    }
}

#[test]
fn a_library_that_is_closed_goes_on() {
    let (status, files) = play("unloaded", 6, "calls");
    assert!(status.success());
    let file = only(files);
    assert_eq!((file.comms.len(), file.comms_ended), (2, 2));
    assert_eq!(file.calls.len(), truth(0).len());
}

#[test]
fn kernels_have_the_times_of_their_gpu() {
    for version in 3..=6 {
        let (status, files) = play("kernels", version, "gpu");
        assert!(status.success());
        let file = only(files);
        assert_eq!(file.dropped, 0);
        let calls = file.calls_of(id(0));
        assert_equal(&calls, &truth(0), version);
        for (call, truth) in calls.iter().zip(truth(0)) {
            let kernel = call.kernel.unwrap();
            assert!(call.has_whole_kernel(), "{call:?}");
            assert_eq!(kernel.begun, u32::from(truth.channels));
            let took = kernel.stop_ns - kernel.start_ns;
            // Interface 3 does not have the GPU's times.
            let expected = if version == 3 {
                0
            } else {
                999 + u64::from(truth.channels)
            };
            assert_eq!(took, expected);
            assert!(call.kernel_seen_ns > call.launched_ns);
        }
    }
}

#[test]
fn proxy_operations_have_the_sums_of_their_steps() {
    let (status, files) = play("proxies", 6, "steps");
    assert!(status.success());
    let file = only(files);
    let [own, other] = &file.proxies[..] else {
        panic!("{:?}", file.proxies);
    };
    assert_eq!((own.task, other.task), (Some(0), None));
    assert_eq!((own.peer, own.channel, own.is_send), (2, 5, true));
    assert_eq!((own.steps, own.ended, own.bytes), (4, 4, 400_000));
    assert!(own.waits_ns[0] >= 8_000_000 && own.dur_ns >= own.waits_ns[0]);
}

#[test]
fn a_graphs_launches_are_calls_without_a_maker() {
    let (status, files) = play("graph", 6, "calls");
    assert!(status.success());
    let file = only(files);
    let has_call: Vec<bool> = file.calls.iter().map(|call| call.call.is_some()).collect();
    assert_eq!(has_call, [true, false, false, false]);
    assert!(file.calls[0].call.unwrap().is_captured);
    assert_eq!(file.calls[3].task.unwrap().seq, Some(2));
}

#[test]
fn a_name_that_is_taken_is_left_alone() {
    let folder: PathBuf =
        std::env::temp_dir().join(format!("nccl-pipe-{}-taken", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let name = folder.join("x");
    std::fs::write(&name, "mine").unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "scenes::stage"])
        .env(SCENE, "job 4")
        .env("NCCL_PIPE_RECORD", &name);
    assert!(
        command
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(std::fs::read(&name).unwrap(), b"mine");
    assert!(folder.join("x.1").is_file());
    std::fs::remove_dir_all(&folder).unwrap();
}
