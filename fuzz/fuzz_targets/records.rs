//! Damaged records of other tools: their calls are the same however the file is read, and nccl-proxy and
//! nccl-check come to an end.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::filter::{CallFilter, JobRankTable};
use nccl_pipe::stages::check::{self, JobLiveness};
use nccl_pipe::stages::{comms, proxy};
use nccl_pipe_fuzz::{Nobody, Work, alike, options, record, report, written};

fuzz_target!(|data: &[u8]| {
    let record = record(data);
    alike(&record, |origins, options, report| {
        let mut table = Vec::new();
        let all = comms::Options::default();
        comms::write_rows(origins, options, &all, report, &Nobody, &mut table)?;
        Ok(table)
    });
    let work = Work::default();
    let origins = [work.file("record", &record)];
    let (read, every) = (options(1, false), CallFilter::default());
    let ranks = JobRankTable::default();
    if let Ok(found) = proxy::read_proxy_operations(&origins, &read, &every, ranks, &mut report()) {
        written(proxy::proxy_sums_grid(&found, &proxy::Options::default()));
        written(proxy::incomplete_ops_grid(&found));
    }
    let options = options(1, true);
    let _ = check::check(
        &origins,
        &options,
        JobLiveness::Unknown,
        &mut report(),
        &Nobody,
    );
});
