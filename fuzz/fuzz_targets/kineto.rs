//! A trace of torch.profiler of any bytes, or a real one with any bytes in it: nothing panics, every event is
//! accounted for, and each activity ends after it began.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::error::Result;
use nccl_pipe::formats::gpu::{GpuActivity, GpuVisitor};
use nccl_pipe::formats::lines::{Options, RowVisitor};
use nccl_pipe::formats::{Provides, open};
use nccl_pipe::members::duplicate_inputs::DuplicateInputs;
use nccl_pipe::output::table::Row;
use nccl_pipe::source::{self, InputName};
use nccl_pipe_fuzz::adds_up;
use std::io::Write;
use tempfile::NamedTempFile;

/// Events as Kineto writes them.
const TRACE: &str = r#"{"schemaVersion": 1, "distributedInfo": {"rank": 0}, "baseTimeNanoseconds": 17,
 "traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 9, "tid": 8, "ts": 10.5, "dur": 2,
   "args": {"External id": 5, "Collective name": "all_to_allv", "dtype": "Float", "In msg nelems": 12,
   "Out msg nelems": 8, "Group size": 2, "In split size": "[1, 2]", "Out split size": "[2, 2]",
   "Process Group Ranks": "[0, 1]", "Process Group Name": "0"}},
  {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv", "pid": 0, "tid": 7, "ts": 12.25, "dur": 3.001,
   "args": {"External id": 5, "device": 0, "stream": 7, "correlation": 3, "grid": [1, 1, 1], "block": [2, 1, 1]}},
  {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 7, "ts": 14, "dur": 1, "args": {"bytes": 5}},
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#7", "pid": 9, "tid": 8, "ts": 9, "dur": 100}
 ], "traceName": "t"}"#;

#[derive(Default)]
struct Counted(u64);

impl RowVisitor for Counted {
    fn visit_row(&mut self, _: &Row<'_>) {
        self.0 += 1;
    }
}

impl GpuVisitor for Counted {
    fn visit_activity(&mut self, activity: &GpuActivity<'_>) -> Result<()> {
        assert!(activity.start_ns <= activity.end_ns);
        self.0 += 1;
        Ok(())
    }
}

fn read(bytes: &[u8]) -> Result<()> {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("room for it");
    let origin = InputName::Path(file.path().to_owned());
    let known = open::open_input::<()>(&origin, source::Options::default(), Provides::GPU)?;
    let account = known.read_gpu_timeline(&mut Counted::default())?;
    adds_up(&account);
    let options = Options {
        jobs: 1,
        strict: false,
    };
    let new = Counted::default;
    let account = known.read_records(
        options,
        &mut DuplicateInputs::default(),
        new,
        |_| {},
        |_| Ok(()),
    )?;
    adds_up(&account);
    Ok(())
}

fuzz_target!(|data: (u16, u8, &[u8])| {
    let (at, drop, bytes) = data;
    let at = usize::from(at) % TRACE.len();
    let behind = TRACE.len().min(at + usize::from(drop));
    let changed = [&TRACE.as_bytes()[..at], bytes, &TRACE.as_bytes()[behind..]].concat();
    let _ = read(&changed);
    let _ = read(&[b"{\"traceEvents\":[".as_slice(), bytes].concat());
});
