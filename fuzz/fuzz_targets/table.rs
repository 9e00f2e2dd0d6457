//! A table of any bytes, as CSV, JSON lines and the AWK chain's lines: the readers do not panic,
//! and the call table that is written from what they read gives the same rows again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::formats::account::Account;
use nccl_pipe::error::Result;
use nccl_pipe::formats::{self, Format, rows};
use nccl_pipe::source::{Input, Options, Origin};
use nccl_pipe::output::table::csv_header;
use nccl_pipe_fuzz::adds_up;
use std::io::Write;
use tempfile::NamedTempFile;

/// What is read of `bytes`, written as the call table.
fn read(bytes: &[u8], format: Option<Format>) -> Result<(Vec<u8>, Account, u64)> {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("room for it");
    let origin = Origin::Path(file.path().to_owned());
    let input = Input::open(&origin, Options::default())?;
    let format = match format {
        Some(format) => format,
        None => formats::recognise(&input.head()?),
    };
    let mut csv = csv_header().into_bytes();
    let mut n = 0;
    let account = rows::read(
        &input,
        format,
        false,
        |_| {},
        |row| {
            row.csv(&mut csv);
            n += 1;
            Ok(())
        },
    )?;
    Ok((csv, account, n))
}

fuzz_target!(|bytes: &[u8]| {
    for format in [
        None,
        Some(Format::Csv),
        Some(Format::Jsonl),
        Some(Format::Chain),
    ] {
        let Ok((csv, account, rows)) = read(bytes, format) else {
            continue;
        };
        adds_up(&account);
        if let Ok((again, _, n)) = read(&csv, Some(Format::Csv)) {
            assert_eq!(rows, n, "as many rows as were written");
            assert!(csv == again, "a row that is written is read back");
        }
    }
});
