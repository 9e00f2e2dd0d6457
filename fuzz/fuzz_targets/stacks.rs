//! Stacks with any bytes in them, of each tool: nothing panics, and the main thread is one of the process's.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::formats::stacks::parse_stacks;

const STACKS: [&str; 4] = [
    include_str!("../../testdata/ras/message/stacks.txt"),
    include_str!("../../testdata/ras/crossed/stack.rank2.json"),
    "[New LWP 604]\nThread 2 (Thread 0x7f01 (LWP 604) \"a\"):\n#0  0x00007f in f () from /lib/libc.so.6\n\
     Thread 1 (Thread 0x7f00 (LWP 603)):\n#0  main (argc=1) at /src/main.c:12\n[Inferior 1 (process 603) detached]\n",
    "Thread 0x00007f01 (most recent call first):\n  File \"/usr/lib/python3.12/threading.py\", line 355 in wait\n\
     Current thread 0x00007f00 (most recent call first):\n  File \"/app/train.py\", line 76 in <module>\n",
];

fuzz_target!(|data: (u16, u8, &[u8])| {
    let (at, drop, bytes) = data;
    for text in STACKS {
        let at = usize::from(at) % text.len();
        let rest = text.len().min(at + usize::from(drop));
        let text = text.as_bytes();
        let changed = [&text[..at], bytes, &text[rest..]].concat();
        let read = parse_stacks(&changed, "stack.rank3.txt");
        for process in read.processes {
            assert!(process.main.is_none_or(|main| main < process.threads.len()));
        }
    }
});
