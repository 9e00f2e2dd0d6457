//! The programs that read a log twice: each call has its row and each step its lines, also where the
//! file is another one by the time of the second pass, which must not go wrong without a word.

#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use nccl_pipe::stages::comms::{self, RowForm};
use nccl_pipe::stages::steps;
use nccl_pipe_fuzz::{Nobody, Work, alike, drawn_small, options, report, write};
use std::io::Write;
use std::path::PathBuf;

/// Overwrites a file when the first byte is written: the second pass has begun, or will.
struct Swap {
    path: PathBuf,
    other: Option<Vec<u8>>,
    out: Vec<u8>,
}

impl Write for Swap {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Some(other) = self.other.take() {
            write(&self.path, &other);
        }
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn rows(csv: &[u8]) -> u64 {
    csv.iter().filter(|&&b| b == b'\n').count() as u64
}

fuzz_target!(|data: &[u8]| {
    let mut u = Unstructured::new(data);
    let (Ok(log), Ok(other)) = (drawn_small(&mut u), drawn_small(&mut u)) else {
        return;
    };
    let table = comms::Options {
        form: RowForm::Csv,
        ..comms::Options::default()
    };
    // One stage for each input: each opens the log several times.
    let which = u.int_in_range(0..=2_u8).unwrap_or(0);
    alike(&log, |origins, options, report| {
        let mut out = Vec::new();
        match which {
            0 => {
                comms::write_rows(origins, options, &table, report, &Nobody, &mut out)?;
                // A host of a damaged line has no line end: a row is a line.
                assert_eq!(
                    rows(&out),
                    1 + report.total_account().calls,
                    "a row for each call"
                );
            }
            1 => _ = comms::write_unique_rows(origins, options, &table, report, &Nobody, &mut out)?,
            _ => _ = steps::write_step_lines(origins, options, report, &Nobody, &mut out),
        }
        Ok(out)
    });
    // Read in blocks: what is mapped must not be cut.
    let (work, read) = (Work::default(), options(2, false));
    {
        let origins = [work.file("x.log", &log)];
        let mut out = Swap {
            path: work.path("x.log"),
            other: Some(other.clone()),
            out: Vec::new(),
        };
        let mut report = report();
        let _ = match which {
            0 => comms::write_rows(&origins, &read, &table, &mut report, &Nobody, &mut out),
            _ => steps::write_step_lines(&origins, &read, &mut report, &Nobody, &mut out),
        };
    }
});
