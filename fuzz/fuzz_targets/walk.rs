//! A log of any bytes: the walk does not panic, accounts for every line, and gives the same
//! answer in one piece and cut at any line end.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::log::walk;
use nccl_pipe::source::CutPlace;
use nccl_pipe_fuzz::adds_up;
use nccl_pipe_fuzz::answer::{lines, read};
use nccl_pipe_fuzz::limits::MAX_TEXT_BYTES;

fuzz_target!(|bytes: &[u8]| {
    if bytes.len() > MAX_TEXT_BYTES {
        return;
    }
    let whole = read(bytes, &[], walk::walk_bytes);
    adds_up(&whole.account);
    assert_eq!(whole.account.lines, lines(bytes), "lines of the log");
    let ends = memchr::memchr_iter(b'\n', bytes).map(|i| i + 1);
    let cuts: Vec<usize> = ends
        .filter(|&i| i < bytes.len() && walk::classify_cut(&bytes[..i], true) != CutPlace::Within)
        .collect();
    assert_eq!(
        whole,
        read(bytes, &cuts, walk::walk_bytes),
        "cut at {cuts:?}"
    );
});
