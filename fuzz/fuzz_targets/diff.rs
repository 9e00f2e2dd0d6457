//! Two damaged logs: what changed between them does not depend on how they are read, and nothing
//! changed between a log and itself.

#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use nccl_pipe::filter::CallFilter;
use nccl_pipe::source::InputName;
use nccl_pipe::stages::diff::{Options, diff_runs, row, run};
use nccl_pipe_fuzz::limits::MAX_DRAWN_BYTES;
use nccl_pipe_fuzz::{Nobody, Work, drawn, options, report, written};

fn rows(a: &InputName, b: &InputName, jobs: usize, mmap: bool) -> Result<Vec<u8>, String> {
    let (read, mut report) = (options(jobs, mmap), report());
    let mut side = |origin: &InputName| {
        let origins = std::slice::from_ref(origin);
        let all = CallFilter::default();
        run::read_run(origins, &read, None, &all, &mut report, &Nobody).map_err(|e| e.to_string())
    };
    let (a, b) = (side(a)?, side(b)?);
    let rows = diff_runs(&a, &b, &Options::default(), &report).rows;
    Ok(written(row::build_grid(&rows)))
}

fuzz_target!(|data: &[u8]| {
    if data.len() > MAX_DRAWN_BYTES {
        return;
    }
    let mut u = Unstructured::new(data);
    let (Ok(a), Ok(b)) = (drawn(&mut u), drawn(&mut u)) else {
        return;
    };
    let work = Work::default();
    let (a, b) = (work.file("a.log", &a), work.file("b.log", &b));
    assert_eq!(rows(&a, &b, 1, true), rows(&a, &b, 3, false));
    if let Ok(same) = rows(&a, &a, 1, true) {
        let lines = same.iter().filter(|&&b| b == b'\n').count();
        // The header, and that of the drawn table.
        assert!(lines <= 2, "{}", String::from_utf8_lossy(&same));
    }
});
