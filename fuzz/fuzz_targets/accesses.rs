//! Damaged files of Snoopie: its accesses are the same however the file is read, and every table comes to an
//! end.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::source;
use nccl_pipe::stages::comms;
use nccl_pipe::stages::matrix::snoopie::{AccessGrouping, SnoopieReadOptions, SnoopieRuns, views};
use nccl_pipe_fuzz::{Nobody, Work, accesses, alike, report, written};

fuzz_target!(|data: &[u8]| {
    let files = accesses(data);
    let log = files
        .first()
        .map(|(_, bytes)| &bytes[..])
        .unwrap_or_default();
    alike(log, |origins, options, report| {
        let mut table = Vec::new();
        let all = comms::Options::default();
        comms::write_rows(origins, options, &all, report, &Nobody, &mut table)?;
        Ok(table)
    });
    let work = Work::default();
    let origins: Vec<_> = files
        .iter()
        .map(|(name, bytes)| work.file(name, bytes))
        .collect();
    let options = SnoopieReadOptions {
        source: source::Options { mmap: false },
        strict: false,
        sampling: 3,
        filter: None,
    };
    if let Ok(runs) = SnoopieRuns::read(&origins, options, &mut report(), &Nobody) {
        for by in [
            &[AccessGrouping::Op][..],
            &[AccessGrouping::Object],
            &[AccessGrouping::Line, AccessGrouping::Object],
            &[AccessGrouping::Context],
        ] {
            written(views::access_grid(&runs, by));
        }
    }
});
