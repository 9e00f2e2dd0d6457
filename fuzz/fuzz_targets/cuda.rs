//! Damaged logs of CUDA's calls, and damaged metrics of Inspector: their rows are the same however the file is
//! read, and every table comes to an end.

#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use nccl_pipe::count::calls;
use nccl_pipe::source;
use nccl_pipe::stages::{cuda, ops, timed};
use nccl_pipe_fuzz::{Nobody, Work, alike, changed, report, samples, written};
use std::sync::LazyLock;

/// As NCCL 2.29 and 2.30 write them.
const METRICS: &[u8] = b"# HELP nccl_bus_bandwidth_gbs NCCL bus bandwidth in GB/s\n\
# TYPE nccl_bus_bandwidth_gbs gauge\n\
nccl_bus_bandwidth_gbs{version=\"v4.0\",slurm_job=\"none\",node=\"n\",gpu=\"GPU0\",comm_name=\"a\",n_nodes=\"1\",nranks=\"2\",message_size=\"32-33KB\",collective=\"AllReduce\"} 1.5\n\
nccl_collective_exec_time_microseconds{version=\"v4.0\",node=\"n\",gpu=\"GPU0\",comm_name=\"a\\\"b\",message_size=\"32.00KB\",collective=\"AllReduce\"} 61\n";

static SAMPLES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut all = samples(&["cuda/timeline.log", "cuda/metrics.log"]);
    all.push(METRICS.to_vec());
    for sample in &mut all {
        sample.truncate(16 << 10);
    }
    all
});

fuzz_target!(|data: &[u8]| {
    let log = changed(&SAMPLES, &mut Unstructured::new(data)).unwrap_or_default();
    alike(&log, |origins, options, report| {
        let times = ops::Options {
            time: true,
            ..ops::Options::default()
        };
        let found = calls::count_calls(origins, options, &times.tally(), report, &Nobody)?;
        timed::report_untimed_calls(&found, report)?;
        Ok(written(ops::ops_times_sheet(&found, &times).to_grid()))
    });
    let work = Work::default();
    let origins = [work.file("a.log", &log), work.file("b.log", &SAMPLES[1])];
    let options = cuda::Options {
        every_ns: 1_000_000_000,
        gaps: 3,
    };
    let source = source::Options { mmap: false };
    if let Ok(found) = cuda::read_cuda_logs(&origins, source, options, false, &mut report()) {
        written(cuda::functions_grid(&found));
        written(cuda::rate_grid(&found, &options));
        written(cuda::gaps_grid(&found));
        cuda::report_differences(&found, &report());
    }
});
