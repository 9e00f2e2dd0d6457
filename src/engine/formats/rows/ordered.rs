//! Inputs that one thread reads in order: documents, or lines that depend on those before them. There
//! are few such files, and none is large.

use super::limits::ROWS_PER_BATCH;
use crate::error::{Error, Result};
use crate::formats::lines;
use crate::formats::lines::RowVisitor;
use crate::log;
use crate::output::table::{Lacks, Row};
use crate::report::account::{Account, LineClass};
use crate::source::Input;
use std::io::{self, BufRead, Read};
use std::path::PathBuf;

/// Reads an input from its first byte to its last for a [`RowTaker`].
///
/// # Errors
/// It cannot be read at all. Damage in it is counted.
pub(in crate::formats) type OrderedReader = fn(&Input, &mut RowTaker<'_>) -> Result<()>;

/// Takes the calls of an input, and keeps its account.
pub(in crate::formats) struct RowTaker<'t> {
    /// The account so far.
    pub(in crate::formats) account: Account,
    take: &'t mut dyn FnMut(&Row<'_>) -> Result<()>,
    progress: &'t dyn Fn(u64),
}

impl RowTaker<'_> {
    /// Takes rows for a test.
    #[cfg(test)]
    pub(in crate::formats) fn for_tests(
        take: &mut dyn FnMut(&Row<'_>) -> Result<()>,
    ) -> RowTaker<'_> {
        RowTaker {
            account: Account::default(),
            take,
            progress: &|_| {},
        }
    }

    /// Takes a call, or several equal ones.
    ///
    /// # Errors
    /// Those of the stage that takes it.
    pub(in crate::formats) fn take_row(&mut self, row: &Row<'_>) -> Result<()> {
        self.account.count_row(row.calls, row.datatype);
        (self.take)(row)
    }

    /// Counts a line, or a record that counts as one.
    pub(in crate::formats) fn count_line(&mut self, class: LineClass) {
        self.account.count_line(class);
    }

    /// Counts a damaged line.
    pub(in crate::formats) fn count_damaged(&mut self, what: Lacks, text: &[u8]) {
        self.account.count_damaged_line(what, text);
    }

    /// Adds bytes that were read.
    pub(in crate::formats) fn add_progress(&self, bytes: u64) {
        (self.progress)(bytes);
    }
}

/// Gives what a stage keeps of each part of an input to `sink`, in order.
///
/// # Errors
/// The input cannot be read; damage under `--strict`; the sink's own.
pub(in crate::formats) fn read_ordered<R: RowVisitor>(
    reader: OrderedReader,
    input: &Input,
    options: lines::Options,
    new: impl Fn() -> R,
    progress: impl Fn(u64),
    mut sink: impl FnMut(R) -> Result<()>,
) -> Result<Account> {
    let (mut rows, mut held) = (new(), 0);
    let mut take = |row: &Row<'_>| {
        rows.visit_row(row);
        held += 1;
        if held < ROWS_PER_BATCH {
            return Ok(());
        }
        held = 0;
        sink(std::mem::replace(&mut rows, new()))
    };
    let mut taking = RowTaker {
        account: Account::default(),
        take: &mut take,
        progress: &progress,
    };
    reader(input, &mut taking)?;
    let mut account = taking.account;
    sink(rows)?;
    account.broken = log::check_unpacked(input, options.strict)?;
    if options.strict {
        log::first_damage_error(&input.name(), &account)?;
    }
    Ok(account)
}

/// The reader of a format that has no calls.
///
/// # Errors
/// Always.
pub(in crate::formats) fn refuse_without_calls(input: &Input, _: &mut RowTaker<'_>) -> Result<()> {
    Err(Error::Content(format!("{}: it has no calls", input.name())))
}

/// Reads a document of at most `most` bytes.
///
/// # Errors
/// It cannot be read, or is longer.
pub(in crate::formats) fn read_whole(input: &Input, most: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = most as u64 + 1;
    let read = input.open_reader()?.take(limit).read_to_end(&mut bytes);
    read.map_err(|cause| Error::Input {
        path: PathBuf::from(input.name()),
        cause,
    })?;
    if bytes.len() > most {
        return Err(Error::Input {
            path: PathBuf::from(input.name()),
            cause: io::Error::other(format!("more than {most} bytes in one document")),
        });
    }
    Ok(bytes)
}

/// Gives each line to `take`, with its end. A line of more than `most` bytes is cut to its first 64.
///
/// # Errors
/// The input cannot be read; those of `take`.
pub(in crate::formats) fn for_each_line(
    reader: &mut dyn BufRead,
    name: &str,
    most: u64,
    take: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let failed = |cause| Error::Input {
        path: PathBuf::from(name),
        cause,
    };
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut *reader).take(most).read_until(b'\n', &mut line);
        if read.map_err(failed)? == 0 {
            return Ok(());
        }
        if line.len() as u64 == most && !line.ends_with(b"\n") {
            skip_line(reader).map_err(failed)?;
            line.truncate(64);
        }
        take(&line)?;
    }
}

/// Skips the rest of a line.
fn skip_line(reader: &mut dyn BufRead) -> io::Result<()> {
    loop {
        let held = reader.fill_buf()?;
        let (n, is_end) = match memchr::memchr(b'\n', held) {
            Some(at) => (at + 1, true),
            None => (held.len(), held.is_empty()),
        };
        reader.consume(n);
        if is_end {
            return Ok(());
        }
    }
}
