//! A step line described by any pattern, over any bytes: the pattern is refused without further lines, or its
//! matches lie on their lines, in order.

#![no_main]

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use nccl_pipe::grammar::trainer::{Recogniser, TrainerMark};

/// Parts of patterns; any bytes seldom make one.
const PARTS: [&str; 16] = [
    r"(?P<step>\d+)",
    r"(?P<time_s>[\d.]+)",
    r"(?P<time_ms>\S+)",
    r"(?P<tflops>.*)",
    r"(?P<step>",
    ")",
    "|",
    "^",
    "$",
    r"\s*",
    "(?i)",
    "[",
    "]",
    "{2,9}",
    "step",
    "é",
];

fn drawn(u: &mut Unstructured<'_>) -> Result<(String, Vec<u8>)> {
    let mut pattern = String::new();
    for _ in 0..u.int_in_range(0..=6)? {
        match u.ratio(1, 5)? {
            true => pattern.push(u.arbitrary()?),
            false => pattern.push_str(u.choose(&PARTS)?),
        }
    }
    Ok((pattern, u.bytes(u.len())?.to_vec()))
}

fuzz_target!(|data: &[u8]| {
    let Ok((pattern, text)) = drawn(&mut Unstructured::new(data)) else {
        return;
    };
    let recogniser = match Recogniser::for_pattern(&pattern) {
        Ok(recogniser) => recogniser,
        Err(why) => {
            // It repeats the pattern, which may have line ends; where it is printed they are escaped.
            assert_eq!(why.replace(&pattern, "").lines().count(), 1, "{why}");
            return;
        }
    };
    for line in text.split(|&b| b == b'\n') {
        let mut found = Vec::new();
        recogniser.marks(line, &mut found);
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
            }
        }
    }
});
