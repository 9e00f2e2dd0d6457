//! Exports of Nsight Systems with bytes that the fuzzer changes: timeline, calls and the log inside are
//! read without a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::count::calls;
use nccl_pipe::error::Result;
use nccl_pipe::formats::Provides;
use nccl_pipe::formats::gpu::{GpuActivity, GpuVisitor};
use nccl_pipe::formats::open;
use nccl_pipe::source;
use nccl_pipe::stages::ops;
use nccl_pipe_fuzz::{Nobody, Work, options, report};
use std::io::Read;
use std::sync::LazyLock;

static KEPT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let packed = &include_bytes!("../../testdata/nsys/ring.sqlite.gz")[..];
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed)
        .read_to_end(&mut bytes)
        .expect("a whole file");
    bytes
});

struct Times;

impl GpuVisitor for Times {
    fn visit_activity(&mut self, activity: &GpuActivity<'_>) -> Result<()> {
        assert!(activity.start_ns <= activity.end_ns);
        Ok(())
    }
}

fuzz_target!(|data: &[u8]| {
    let mut bytes = KEPT.clone();
    // Behind the 16 bytes by which it is recognised: where, and what.
    for change in data.chunks_exact(4) {
        let [a, b, c, value] = [change[0], change[1], change[2], change[3]];
        let at = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        let len = bytes.len();
        bytes[16 + at % (len - 16)] = value;
    }
    if let Some(&cut) = data.first() {
        bytes.truncate(bytes.len() - bytes.len() / 2 * usize::from(cut) / 255);
    }
    let work = Work::default();
    let origin = work.file("x.sqlite", &bytes);
    for needs in [Provides::GPU, Provides::LINES] {
        if let Ok(known) = open::open_input::<()>(&origin, source::Options::default(), needs) {
            let _ = known.read_gpu_timeline(&mut Times);
        }
    }
    let counted = ops::Options::default().tally();
    let _ = calls::count_calls(
        &[origin],
        &options(1, true),
        &counted,
        &mut report(),
        &Nobody,
    );
});
