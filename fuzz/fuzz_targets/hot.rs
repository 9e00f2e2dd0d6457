//! The fast path against the slow one: bodies read eight bytes at a time, and lines of speakers that
//! were met before, are what the grammar proper reads.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::grammar::{coll, fast_coll};
use nccl_pipe::log::walk;
use nccl_pipe_fuzz::answer::read;
use nccl_pipe_fuzz::log;

fuzz_target!(|data: &[u8]| {
    for op in [&b"AllReduce"[..], b"Send"] {
        let whole = fast_coll::parse_coll_head(data).and_then(|(front, at)| {
            let (back, end) = fast_coll::parse_coll_tail(&data[at..])?;
            Some((front.join_tail(op, back), at + end))
        });
        if let Some((read, end)) = whole {
            let (rest, expected) =
                coll::parse_coll_body(op, data).expect("the grammar reads it too");
            assert_eq!((read, end), (expected, data.len() - rest.len()));
        }
    }
    for text in [data, &log(data)] {
        let (fast, slow) = (
            read(text, &[], walk::walk_bytes),
            read(text, &[], walk::walk_bytes_slowly),
        );
        for (fast, slow) in fast.told.iter().zip(&slow.told) {
            assert_eq!(fast, slow);
        }
        assert_eq!(fast, slow);
    }
});
