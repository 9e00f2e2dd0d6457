//! Damaged logs: which algorithm served which size is the same however the log is read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::filter::CallFilter;
use nccl_pipe::stages::tuning::{self, table};
use nccl_pipe_fuzz::{Nobody, alike, log, written};

fuzz_target!(|data: &[u8]| {
    alike(&log(data), |origins, options, report| {
        let found = tuning::read_tuning(origins, options, &CallFilter::default(), report, &Nobody)?;
        let grid = |(channels, sizes)| {
            table::build_crossover_grid(&found, &table::Options { channels, sizes })
        };
        Ok([(false, false), (true, true)].map(grid).map(written))
    });
});
