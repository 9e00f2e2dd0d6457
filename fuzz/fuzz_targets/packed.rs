//! Packed logs, whole and damaged: a whole one gives what is in it, and any bytes that begin as gzip
//! or zstd end without a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::log::mend::blocks::BLOCK_REJOINER;
use nccl_pipe::source::{Input, Options};
use nccl_pipe_fuzz::{Work, gzip};
use std::io::Read;

/// What is read of a file, up to a bound: a few bytes may unpack to many.
fn read(bytes: &[u8]) -> Option<Vec<u8>> {
    let work = Work::default();
    let origin = work.file("x", bytes);
    let input = Input::open(&origin, Options::default(), BLOCK_REJOINER).ok()?;
    let _ = input.read_head();
    let mut out = Vec::new();
    let read = input
        .open_reader()
        .ok()?
        .take(1 << 22)
        .read_to_end(&mut out);
    read.ok().map(|_| out)
}

fuzz_target!(|data: &[u8]| {
    const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    for magic in [
        &[0x1f, 0x8b, 8, 0][..],
        &[0x1f, 0x8b],
        &ZSTD,
        b"\x50\x2a\x4d\x18",
    ] {
        read(&[magic, data].concat());
    }
    // Text, packed in two parts one behind the other, one changed byte, or an early end.
    let text: Vec<u8> = data.iter().map(|b| b'a' + b % 26).collect();
    let (front, back) = text.split_at(text.len() / 2);
    let both = [gzip(front), gzip(back)].concat();
    assert_eq!(
        read(&both).as_deref(),
        Some(&text[..]),
        "a whole file of two parts"
    );
    let at = data
        .first()
        .map_or(0, |&b| usize::from(b) * both.len() / 256);
    let mut changed = both.clone();
    changed[at] ^= 1 + data.last().map_or(0, |b| b % 255);
    read(&changed);
    read(&both[..at]);
});
