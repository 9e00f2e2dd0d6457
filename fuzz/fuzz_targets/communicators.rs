//! Damaged logs: who is in a communicator is the same however the log is read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::filter::CallFilter;
use nccl_pipe::stages::communicators::{
    self, build_communicator_grid, build_member_grid, build_terminal_grid,
};
use nccl_pipe_fuzz::{Nobody, alike, log, written};

fuzz_target!(|data: &[u8]| {
    alike(&log(data), |origins, options, report| {
        let every = CallFilter::default();
        let found = communicators::read_communicators(origins, options, &every, report, &Nobody)?;
        Ok([
            build_communicator_grid(&found),
            build_member_grid(&found),
            build_terminal_grid(&found),
        ]
        .map(written))
    });
});
