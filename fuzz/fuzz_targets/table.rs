//! A table of any bytes, as CSV, JSON lines and the AWK chain's lines: the readers do not panic,
//! and the call table that is written from what they read gives the same rows again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::error::Result;
use nccl_pipe::formats::lines::{Options, RowVisitor};
use nccl_pipe::formats::{Provides, open};
use nccl_pipe::members::duplicate_inputs::DuplicateInputs;
use nccl_pipe::output::table::{Row, csv_header};
use nccl_pipe::report::account::Account;
use nccl_pipe::source::{self, InputName};
use nccl_pipe_fuzz::adds_up;
use std::io::Write;
use tempfile::NamedTempFile;

/// Rows, written as the call table.
#[derive(Default)]
struct Written {
    csv: Vec<u8>,
    rows: u64,
}

impl RowVisitor for Written {
    fn visit_row(&mut self, row: &Row<'_>) {
        row.csv(&mut self.csv);
        self.rows += 1;
    }
}

/// What is read of a table.
fn read(bytes: &[u8]) -> Result<(Vec<u8>, Account, u64)> {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("room for it");
    let origin = InputName::Path(file.path().to_owned());
    let known = open::open_input::<()>(&origin, source::Options::default(), Provides::CALLS)?;
    let options = Options {
        jobs: 2,
        strict: false,
    };
    let (mut csv, mut rows) = (csv_header().into_bytes(), 0);
    let sink = |part: Written| {
        csv.extend(part.csv);
        rows += part.rows;
        Ok(())
    };
    let twice = &mut DuplicateInputs::default();
    let account = known.read_records(options, twice, Written::default, |_| {}, sink)?;
    Ok((csv, account, rows))
}

fuzz_target!(|bytes: &[u8]| {
    for first in [
        "",
        "step,op,count,datatype,host\n",
        "{\"op\":\"Send\",\"count\":1}\n",
        "Send 1 int8 1\n",
    ] {
        let Ok((csv, account, rows)) = read(&[first.as_bytes(), bytes].concat()) else {
            continue;
        };
        adds_up(&account);
        if let Ok((again, _, n)) = read(&csv) {
            assert_eq!(rows, n, "as many rows as were written");
            assert!(csv == again, "a row that is written is read back");
        }
    }
});
