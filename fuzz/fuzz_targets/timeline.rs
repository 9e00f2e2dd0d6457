//! Lines of any bytes between step lines of any numbers: the timeline names every gap, each step's
//! gap is one, and a window asks for steps that are there.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::log::timeline::{
    GapKind, MarkerSide, Options, PresentSteps, StepTimeline, StepWindow, resolve_timeline,
};
use nccl_pipe::log::walk;
use nccl_pipe_fuzz::RECOGNISER;
use nccl_pipe_fuzz::limits::MAX_DRAWN_BYTES;

/// Each byte is a step line of a trainer, with a number near those before it or far away.
fn lines(data: &[u8]) -> Vec<u8> {
    let mut step = 5_u64;
    let mut text = String::new();
    for &b in data {
        step = match b >> 4 {
            0..=6 => step.wrapping_add(1),
            7 | 8 => step,
            9 => step.wrapping_sub(1),
            10 => step.wrapping_add(u64::from(b & 15) * 10),
            11 => u64::MAX - u64::from(b & 15),
            12 => u64::from(b & 15),
            _ => step.wrapping_mul(3),
        };
        let n = step;
        text.push_str(&match b & 7 {
            0 => format!("Training epoch 0, iteration {n}/999 | lr: 1e-05 | global_step: {n} | train_step_timing in s: 2.5 |\n"),
            1 => format!(" [2026-02-03 04:05:06] iteration {n:8}/     100 | elapsed time per iteration (ms): 1000.5 |\n"),
            2 => format!("completed step: {n}, seconds: 1.25, TFLOP/s/device: 130.5\n"),
            3 => format!("[rank{}]:[titan] 2026-02-03 04:05:06,123 - root - INFO - step: {n:2}  loss:  7.6  tps: 1,234  tflops: 31.50\n", b >> 6),
            4 => format!("\r{}%|#  | {n}/{} [00:01<00:02,  1.5it/s]", b % 100, n.wrapping_add(9)),
            5 => format!(":::MLLOG {{\"key\": \"tracked_stats\", \"value\": {{\"throughput\": 15.4}}, \"metadata\": {{\"step\": {n}}}}}\n"),
            6 => " validation loss at iteration 2 | lm loss value: 3.1E+00 |\n".to_owned(),
            _ => format!("step {n} of nobody\n"),
        });
    }
    text.into_bytes()
}

fn hold(text: &[u8]) {
    let scanned = walk::walk_bytes(
        text,
        walk::ChunkPlace {
            offset: 0,
            is_quiet: true,
        },
        &RECOGNISER,
        false,
        (),
    );
    for (marker, as_printed) in [
        (MarkerSide::End, false),
        (MarkerSide::End, true),
        (MarkerSide::Start, false),
    ] {
        let options = Options {
            marker,
            as_printed,
            ..Options::default()
        };
        let timeline: StepTimeline = resolve_timeline(&scanned.marks, &[], &options);
        assert_eq!(timeline.gaps.len(), scanned.marks.len() + 1);
        for (at, gap) in timeline.gaps.iter().enumerate() {
            if let GapKind::Step(step) = gap {
                assert!((*step as usize) < timeline.steps.len());
                assert!(timeline.step_of(at).is_some());
            }
        }
        assert!(timeline.line_interval() >= 1 || timeline.steps.is_empty());
        let mut present = PresentSteps::default();
        present.add_timeline(&timeline);
        for step in &timeline.steps {
            assert!(step.time_s.is_none_or(f64::is_finite), "{step:?}");
            let one = StepWindow {
                from: step.step,
                to: step.step,
            };
            assert_eq!(present.check_window(&one), Ok(()), "a step that is there");
        }
        let _ = present.check_demand(Some(&StepWindow { from: 3, to: 7 }));
        let _ = present.describe_steps();
    }
}

fuzz_target!(|data: &[u8]| {
    if data.len() > MAX_DRAWN_BYTES {
        return;
    }
    hold(data);
    hold(&lines(data));
});
