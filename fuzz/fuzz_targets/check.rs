//! Damaged logs: what is wrong with a job is the same however the log is read, and each finding has
//! a line that shows it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::stages::check::answer::findings_text::{ShownFindings, write_findings_text};
use nccl_pipe::stages::check::answer::table;
use nccl_pipe::stages::check::{self, JobLiveness};
use nccl_pipe_fuzz::limits::MAX_DRAWN_BYTES;
use nccl_pipe_fuzz::{Nobody, alike, log, written};

fuzz_target!(|data: &[u8]| {
    if data.len() > MAX_DRAWN_BYTES {
        return;
    }
    alike(&log(data), |origins, options, report| {
        let checked = check::check(origins, options, JobLiveness::Unknown, report, &Nobody)?;
        let mut text = Vec::new();
        for all in [false, true] {
            let shown = ShownFindings {
                all,
                ..ShownFindings::default()
            };
            write_findings_text(&checked, &[], shown, &mut text).expect("memory");
        }
        table::write_coverage_text(&checked, &mut text).expect("memory");
        let grids = [
            table::findings_grid(&checked),
            table::coverage_grid(&checked),
        ];
        Ok((drop_next_command(&text), grids.map(written)))
    });
});

/// The text without its next command, which unpacks a packed log.
fn drop_next_command(text: &[u8]) -> Vec<u8> {
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    let kept: Vec<&[u8]> = lines.filter(|line| !line.starts_with(b"next: ")).collect();
    kept.concat()
}
