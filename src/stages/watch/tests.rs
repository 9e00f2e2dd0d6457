use super::{JobWatch, WatchEvent};
use crate::source::AppendedBytes;
use crate::testing;
use std::time::Instant;

fn call(rank: u32) -> String {
    format!(
        "n1:{rank}:{rank} [{rank}] NCCL INFO AllReduce: opCount 1 sendbuff 0x1 recvbuff 0x2 count 4 datatype 7 op 0 root 0 \
         comm 0x5 [nranks=3] stream 0x6\n"
    )
}

/// Files of ranks are read one after another, and the one with the step lines is not the last.
#[test]
fn a_step_has_the_calls_of_files_that_are_read_after_its_line() {
    let read = testing::options(1, false);
    let now = Instant::now();
    let mut watch = JobWatch::new(&read, None, now);
    let mut counts = Vec::new();
    for step in 0..4 {
        let line = format!(
            " [2026-11-29 06:00:00] iteration {:8}/       9 | elapsed time per iteration (ms): 7.5 | learning rate: 1.0E-4 |\n",
            step + 1
        );
        let mut texts = [call(0), call(1) + &line + &call(1), call(2) + &call(2)];
        texts[2] += &call(2);
        let mut events = Vec::new();
        for (input, text) in texts.iter().enumerate() {
            let grown = AppendedBytes {
                input,
                bytes: text.as_bytes(),
                is_pipe: false,
                anew: false,
            };
            events.extend(watch.read_growth(&grown, now));
        }
        watch.finish_round(&mut events);
        counts.extend(events.iter().filter_map(|event| match event {
            WatchEvent::Step(ended) => Some(ended.calls.total().calls),
            _ => None,
        }));
    }
    // The call after the line is of the next step.
    assert_eq!(counts, [5, 6, 6, 6]);
    assert_eq!(watch.calls().total().calls, 24);
}
