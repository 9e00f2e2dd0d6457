//! A line of any bytes: the step-line recognisers do not panic, and what they find lies on the
//! line, in order, one behind the other.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::grammar::trainer::{Recogniser, TrainerMark};
use std::sync::LazyLock;

static RECOGNISER: LazyLock<Recogniser> = LazyLock::new(Recogniser::all);

fuzz_target!(|bytes: &[u8]| {
    for line in bytes.split(|&b| b == b'\n') {
        let mut found = Vec::new();
        RECOGNISER.marks(line, &mut found);
        assert!(
            found.is_empty() || RECOGNISER.may_mark(line),
            "found what may not be there"
        );
        let mut at = 0;
        for record in &found {
            assert!(
                at <= record.start && record.start <= record.end,
                "{found:?}"
            );
            assert!(record.end <= line.len(), "{found:?}");
            at = record.end;
            if let TrainerMark::Step(step) = record.mark {
                assert!(step.time_s.is_none_or(f64::is_finite), "{step:?}");
                assert!(step.tflops.is_none_or(f64::is_finite), "{step:?}");
            }
        }
    }
});
