//! Damaged logs: who is in a communicator is the same however the log is read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::stages::communicators::{self, grid, look, members};
use nccl_pipe_fuzz::{Nobody, alike, log, written};

fuzz_target!(|data: &[u8]| {
    alike(&log(data), |origins, options, report| {
        let found = communicators::read(origins, options, report, &Nobody)?;
        Ok([grid(&found), members(&found), look(&found)].map(written))
    });
});
