//! Damaged logs: what the job runs over is the same however the log is read, as rows and as a graph.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::stages::net::{self, pairs, table};
use nccl_pipe_fuzz::{Nobody, alike, log, written};

fuzz_target!(|data: &[u8]| {
    alike(&log(data), |origins, options, report| {
        let found = net::read_net(origins, options, report, &Nobody)?;
        let mut graph = Vec::new();
        pairs::write_dot(&found, &mut graph).expect("memory");
        let facts =
            [false, true].map(|hosts| table::build_net_grid(&found, &table::Options { hosts }));
        Ok((
            facts.map(written),
            written(pairs::build_pair_grid(&found)),
            graph,
        ))
    });
});
