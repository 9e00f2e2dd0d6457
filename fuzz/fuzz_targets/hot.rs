//! The fast path against the slow one: bodies read eight bytes at a time, and lines of speakers that
//! were met before, are what the grammar proper reads.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::grammar::{coll, hot};
use nccl_pipe::formats::log::walk::{self, Call, Scanned, Visit};
use nccl_pipe_fuzz::{RECOGNISER, log};

/// Where the walked text begins in its input.
const OFFSET: u64 = 7;

/// Keeps what is told of calls and of other lines, in order.
struct Keep<'t>(&'t [u8], Vec<String>);

impl Visit for Keep<'_> {
    const MESSAGES: bool = true;
    const FOREIGN: bool = true;

    fn message(&mut self, said: &walk::Said<'_>) {
        self.1.push(format!("{said:?}"));
    }

    fn foreign(&mut self, line: &[u8], number: u64) {
        self.1.push(format!("{number} {}", line.escape_ascii()));
    }

    fn call(&mut self, call: &Call<'_>) {
        // Behind a launcher's label the grammar proper gives the place of the host: of the same line.
        let Call { at, .. } = *call;
        let before = &self.0[..(at - OFFSET) as usize];
        let line = memchr::memchr_iter(b'\n', before).count() as u64;
        let call = Call { at: line, ..*call };
        self.1.push(format!("{call:?}"));
    }

    fn mark(&mut self) {
        self.1.push("mark".to_owned());
    }

    fn slot(&mut self) {
        self.1.push("slot".to_owned());
    }
}

fn told(scanned: Scanned<Keep<'_>>) -> (Vec<String>, String) {
    let Scanned {
        visit,
        origins,
        inits,
        init_lines,
        marks,
        fragments,
        account,
    } = scanned;
    let rest = format!("{origins:?} {inits:?} {init_lines:?} {marks:?} {fragments:?} {account:?}");
    (visit.1, rest)
}

fuzz_target!(|data: &[u8]| {
    for op in [&b"AllReduce"[..], b"Send"] {
        if let Some((read, end)) = hot::body(op, data) {
            let (rest, expected) = coll::body(op, data).expect("the grammar reads it too");
            assert_eq!((read, end), (expected, data.len() - rest.len()));
        }
    }
    for text in [data, &log(data)] {
        let fast = walk::scan(text, OFFSET, &RECOGNISER, true, Keep(text, Vec::new()));
        let slow = walk::scan_slowly(text, OFFSET, &RECOGNISER, true, Keep(text, Vec::new()));
        let ((fast, rest), (slow, of_slow)) = (told(fast), told(slow));
        for (fast, slow) in fast.iter().zip(&slow) {
            assert_eq!(fast, slow);
        }
        assert_eq!((fast.len(), rest), (slow.len(), of_slow));
    }
});
