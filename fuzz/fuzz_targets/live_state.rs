//! Answers of RAS with any bytes in them: nothing panics, each rank is there once, and a text asks for no more ranks than
//! its bytes and the limit allow.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::formats::ras::parse_ras_snapshots;

const ANSWERS: [&str; 3] = [
    include_str!("../../testdata/ras/die/ras.json"),
    include_str!("../../testdata/ras/die/ras.txt"),
    include_str!("../../testdata/ras/message/ras.txt"),
];

fuzz_target!(|data: (u16, u8, &[u8])| {
    let (at, drop, bytes) = data;
    for answer in ANSWERS {
        let at = usize::from(at) % answer.len();
        let rest = answer.len().min(at + usize::from(drop));
        let answer = answer.as_bytes();
        let changed = [&answer[..at], bytes, &answer[rest..]].concat();
        for snapshot in parse_ras_snapshots(&changed) {
            for communicator in snapshot.communicators {
                let ranks = communicator.ranks.iter().map(|rank| rank.rank);
                assert!(ranks.clone().zip(ranks.clone().skip(1)).all(|(a, b)| a < b));
                assert!(ranks.count() <= changed.len() + (1 << 20));
            }
        }
    }
});
