//! A file that grows, is cut and is replaced while it is followed, and a pipe that rests between pieces: what is
//! read is what was appended.

#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use nccl_pipe::source::{GrowingFiles, InputName, PipeSlot};
use nccl_pipe::stages::comms;
use nccl_pipe_fuzz::{Nobody, Work, drawn_small, options, pieces, report};
use std::io::Write;
use std::thread;
use std::time::Duration;

/// Longer than a pipe may rest in this build.
const REST: Duration = Duration::from_millis(3);

/// What is given of a file while it is written.
fn grow(work: &Work, pieces: &[&[u8]], u: &mut Unstructured<'_>) {
    let path = work.path("grows.log");
    let _ = std::fs::remove_file(&path);
    let mut follow = GrowingFiles::new(std::slice::from_ref(&path), &[]).expect("a folder");
    let (mut given, mut is_plain) = (Vec::new(), true);
    for piece in pieces {
        match u.int_in_range(0..=9_u8).unwrap_or(9) {
            0 => {
                is_plain = false;
                std::fs::write(&path, piece).expect("room");
            }
            1 => {
                is_plain = false;
                let _ = std::fs::remove_file(&path);
            }
            _ => {
                let file = std::fs::OpenOptions::new()
                    .append(true)
                    .create(true)
                    .open(&path);
                file.and_then(|mut file| file.write_all(piece))
                    .expect("room");
            }
        }
        let _ = follow.read_growth(|grown| {
            given.extend_from_slice(grown.bytes);
            Ok(())
        });
    }
    // An event may come late.
    for _ in 0..3 {
        if !is_plain || given.len() == pieces.concat().len() {
            break;
        }
        let _ = follow.wait_for_growth();
        let _ = follow.read_growth(|grown| {
            given.extend_from_slice(grown.bytes);
            Ok(())
        });
    }
    if is_plain {
        assert!(pieces.concat().starts_with(&given), "bytes in their order");
    }
}

fn rows(origin: InputName) -> Option<Vec<u8>> {
    let (mut table, mut report) = (Vec::new(), report());
    let all = comms::Options::default();
    let options = options(1, true);
    comms::write_rows(&[origin], &options, &all, &mut report, &Nobody, &mut table)
        .ok()
        .map(|_| table)
}

fuzz_target!(|data: &[u8]| {
    let mut u = Unstructured::new(data);
    let Ok(log) = drawn_small(&mut u) else {
        return;
    };
    let work = Work::default();
    let cut = pieces(&log, &mut u);
    let file = rows(work.file("x.log", &log));
    let fifo = work.path("fifo");
    make_fifo(&fifo);
    let piped = thread::scope(|scope| {
        scope.spawn(|| {
            let mut pipe = std::fs::File::create(&fifo).expect("a pipe");
            for piece in &cut {
                // A program that refuses its input closes the pipe.
                let _ = pipe.write_all(piece);
                thread::sleep(REST);
            }
        });
        rows(InputName::Pipe(fifo.clone(), PipeSlot::default()))
    });
    assert!(file == piped, "a pipe that rests");
    grow(&work, &cut, &mut u);
});

fn make_fifo(path: &std::path::Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
}
