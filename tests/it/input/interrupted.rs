//! A signal ends a pipe, not the program: what was read is written.

use crate::support::{READERS, bins, gzip, run};
use rustix::fs::{Mode, OFlags};
use std::io::{Read, Seek, Write};
use std::process::{Command, Stdio};

/// What a program that reads `log` from a pipe writes, what it says, and its code. The pipe ends, or
/// stays open and `signal` is sent.
fn piped(program: &str, log: &[u8], signal: Option<&str>) -> (Vec<u8>, String, Option<i32>) {
    let file = || tempfile::tempfile().unwrap();
    let (mut out, mut err) = (file(), file());
    let mut child = Command::new(bins().join(program))
        .stdin(Stdio::piped())
        .stdout(out.try_clone().unwrap())
        .stderr(err.try_clone().unwrap())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // The kernel's pipe holds less than this log: the program reads once all is written.
    pipe.write_all(log).unwrap();
    let open = signal.map(|signal| {
        let pid = child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
        pipe
    });
    let code = child.wait().unwrap().code();
    drop(open);
    let (mut written, mut said) = (Vec::new(), String::new());
    out.rewind().unwrap();
    out.read_to_end(&mut written).unwrap();
    err.rewind().unwrap();
    err.read_to_string(&mut said).unwrap();
    (written, said, code)
}

#[test]
fn a_signal_ends_a_pipe_and_what_was_read_is_written() {
    let log = run("nccl-synth", &["--size", "600K", "--seed", "5"]).stdout;
    for program in READERS {
        let (whole, ..) = piped(program, &log, None);
        for (signal, ends) in [("-INT", 130), ("-TERM", 143)] {
            let (written, said, code) = piped(program, &log, Some(signal));
            assert_eq!(code, Some(ends), "{program}: {said}");
            assert!(written == whole, "{program} {signal}");
            assert!(said.contains("warning: interrupted: "), "{program}: {said}");
        }
    }
}

#[test]
fn a_signal_ends_a_pipe_of_packed_data_too() {
    let log = run("nccl-synth", &["--size", "4M", "--seed", "5"]).stdout;
    let packed = gzip(&log);
    assert!(packed.len() > 200_000, "it must not fit into a pipe");
    let cut = &packed[..packed.len() - 1000];
    let (written, said, code) = piped("nccl-hist", cut, Some("-INT"));
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("the gzip data ends too early"), "{said}");
    assert!(written.starts_with(b"op,bucket,"));
}

/// Where the file system has files without names, a killed program leaves none.
#[test]
fn a_killed_program_leaves_no_file_beside_its_output() {
    let folder = tempfile::tempdir().unwrap();
    let flags = OFlags::TMPFILE | OFlags::WRONLY;
    if rustix::fs::open(folder.path(), flags, Mode::RUSR | Mode::WUSR).is_err() {
        eprintln!("skipped: this file system has only files with names");
        return;
    }
    let list = || std::fs::read_dir(folder.path()).unwrap().count();
    let mut child = Command::new(bins().join("nccl-hist"))
        .arg("-o")
        .arg(folder.path().join("hist.csv"))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // It has read the first lines, and waits: its output is open.
    let log = run("nccl-synth", &["--size", "600K", "--seed", "5"]).stdout;
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(&log).unwrap();
    assert_eq!(list(), 0);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(list(), 0);
}
