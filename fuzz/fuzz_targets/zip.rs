//! Runs of Snoopie in an archive: a whole one has the accesses of its files, and a damaged one ends without a panic.

#![no_main]

use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;
use nccl_pipe::source::{self, InputName};
use nccl_pipe::stages::matrix::snoopie::{AccessGrouping, SnoopieReadOptions, SnoopieRuns, views};
use nccl_pipe_fuzz::{Nobody, Work, accesses, changed, report, written};
use std::io::{Cursor, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

fn packed(files: &[(&str, Vec<u8>)], method: CompressionMethod) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        let of = SimpleFileOptions::default().compression_method(method);
        archive
            .start_file(format!("results-1/{name}"), of)
            .expect("memory");
        archive.write_all(bytes).expect("memory");
    }
    archive.finish().expect("memory").into_inner()
}

/// The accesses by object, without the column of the folder.
fn objects(origins: &[InputName]) -> Option<usize> {
    let options = SnoopieReadOptions {
        source: source::Options { mmap: true },
        strict: false,
        sampling: 1,
        filter: None,
    };
    let runs = SnoopieRuns::read(origins, options, &mut report(), &Nobody).ok()?;
    let grid = views::access_grid(&runs, &[AccessGrouping::Object]);
    let rows = grid.rows.len();
    written(grid);
    Some(rows)
}

fuzz_target!(|data: &[u8]| {
    let files = accesses(data);
    let work = Work::default();
    let origins: Vec<_> = files
        .iter()
        .map(|(name, bytes)| work.file(name, bytes))
        .collect();
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let whole = packed(&files, method);
        assert_eq!(objects(&[work.file("run.zip", &whole)]), objects(&origins));
        let damaged = changed(&[whole], &mut Unstructured::new(data)).unwrap_or_default();
        objects(&[work.file("run.zip", &damaged)]);
    }
});
