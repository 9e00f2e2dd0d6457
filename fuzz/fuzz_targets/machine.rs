//! Messages of machines with any bytes in them, of each form: nothing panics, and the lines are of the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::formats::machine::parse_machine_messages;

const MESSAGES: [&str; 6] = [
    include_str!("../../testdata/machine/all.txt"),
    include_str!("../../testdata/machine/messages.n2"),
    include_str!("../../testdata/machine/dmesg.n2.txt"),
    include_str!("../../testdata/machine/other.json"),
    include_str!("../../testdata/machine/nvidia-smi.n2.txt"),
    include_str!("../../testdata/machine/dcgm.txt"),
];

fuzz_target!(|data: (u16, u8, &[u8])| {
    let (at, drop, bytes) = data;
    for text in MESSAGES {
        let at = usize::from(at) % text.len();
        let rest = text.len().min(at + usize::from(drop));
        let text = text.as_bytes();
        let changed = [&text[..at], bytes, &text[rest..]].concat();
        let lines = memchr::memchr_iter(b'\n', &changed).count() as u64;
        for event in parse_machine_messages(&changed).events {
            assert!(event.line <= event.last_line && event.last_line <= lines && event.count > 0);
        }
    }
});
