//! Logs of processes that wrote in blocks, damaged: the joiner does not panic, accounts for every
//! line, and gives the same mapped, in blocks of another size, and packed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::filter::CallFilter;
use nccl_pipe::stages::steps;
use nccl_pipe_fuzz::Nobody;
use nccl_pipe_fuzz::limits::MAX_DRAWN_BYTES;
use nccl_pipe_fuzz::{alike, log, written};

/// Bytes that are nobody's, so that blocks end where the made ones do not.
fn cut(data: &[u8]) -> Vec<u8> {
    let whole = log(data);
    let shift = data.last().map_or(0, |&b| usize::from(b) * 16);
    let mut out = vec![b'x'; shift];
    out.push(b'\n');
    out.extend(whole);
    out
}

fuzz_target!(|data: &[u8]| {
    if data.len() > MAX_DRAWN_BYTES {
        return;
    }
    for text in [log(data), cut(data)] {
        alike(&text, |origins, options, report| {
            steps::list_steps(
                origins,
                options,
                &CallFilter::default(),
                report,
                &Nobody,
                None,
            )
            .map(|list| written(list.build_sheet().to_grid()))
        });
    }
});
