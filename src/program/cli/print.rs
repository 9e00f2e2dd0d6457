//! What a program writes to standard output.

use super::{Format, OrderArgs};
use crate::output::drawing::Drawing;
use crate::output::render::Sheet;
use crate::output::render::look::Look;
use crate::output::render::order::Order;
use crate::output::render::wrap::Wrapped;
use crate::output::reshape::{Reshape, Reshaped};
use crate::program::early::Early;
use crate::report::{Escaped, Report, counted};
use anyhow::{Context, bail};
use std::io::{self, BufWriter, IsTerminal, Write};

/// How rows leave a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Their format.
    pub format: Format,
    /// What is in front of them.
    pub reshape: Reshape,
    /// Where a table is drawn.
    pub look: Look,
    /// Which rows come first.
    pub order: Order,
}

impl Output {
    /// The same with rows in this order.
    #[must_use]
    pub fn ordered(mut self, order: &OrderArgs) -> Output {
        self.order = order.order();
        self
    }

    /// The rows in the order wanted; a note reports how many are left out.
    fn arranged<'s>(&self, sheet: Sheet<'s>, report: &Report) -> anyhow::Result<Sheet<'s>> {
        if self.order.is_nothing() {
            return Ok(sheet);
        }
        let mut grid = sheet.grid();
        let left = self.order.apply(&mut grid)?;
        if left > 0 {
            report.note(&format!("--top leaves {} out", counted(left, "row")));
        }
        Ok(grid.into())
    }

    /// Gives standard output to `write`, which writes rows in this format: they get their labels, and
    /// leave without their header, where that is wanted. The header comes first if it `has_header`.
    ///
    /// # Errors
    /// Those of `write`; the output cannot be written; what is not rows has no labels.
    pub fn rows(
        &self,
        has_header: bool,
        write: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if !self.reshape.is_nothing() && !self.format.is_rows() {
            self.reshape.refuse()?;
        }
        let mut out = stdout();
        if self.reshape.is_nothing() {
            write(&mut out)?;
        } else {
            let mut rows = Reshaped::new(&self.reshape, has_header, &mut out);
            write(&mut rows)?;
            rows.finish().context("cannot write the output")?;
        }
        flushed(out)
    }
}

/// Writes a sheet to standard output, its rows made on `jobs` threads; `chain` gives it as the AWK
/// chain prints it.
///
/// # Errors
/// The output cannot be written; the sheet has no AWK form.
pub fn print<'s>(
    sheet: impl FnOnce() -> Sheet<'s>,
    chain: Option<impl FnOnce() -> Vec<u8>>,
    (output, jobs): (&Output, usize),
    report: &Report,
) -> anyhow::Result<()> {
    print_rest(sheet, chain, (output, jobs), (report, None))
}

/// The same, without the rows that were written before the input ended.
///
/// # Errors
/// As [`print()`].
pub fn print_rest<'s>(
    sheet: impl FnOnce() -> Sheet<'s>,
    chain: Option<impl FnOnce() -> Vec<u8>>,
    how: (&Output, usize),
    to: (&Report, Option<&Early<'_>>),
) -> anyhow::Result<()> {
    let chain = chain.map(|chain| Box::new(chain) as Box<dyn FnOnce() -> Vec<u8> + '_>);
    printed(Box::new(sheet), chain, how, to)
}

/// Compiled once, not in each program.
fn printed<'s>(
    sheet: Box<dyn FnOnce() -> Sheet<'s> + '_>,
    chain: Option<Box<dyn FnOnce() -> Vec<u8> + '_>>,
    (output, jobs): (&Output, usize),
    (report, early): (&Report, Option<&Early<'_>>),
) -> anyhow::Result<()> {
    let early = early.filter(|early| early.is_possible());
    if output.format == Format::Awk && !output.order.is_nothing() {
        bail!("the AWK chain has an order of its own: use --sort and --top with --format csv");
    }
    let sheet = || output.arranged(sheet(), report);
    if output.format == Format::Table && output.reshape.is_nothing() {
        let look = match output.order.top {
            // Who asks for so many rows gets them.
            Some(_) => Look {
                rows: None,
                ..output.look
            },
            None => output.look,
        };
        return drawn(&sheet()?, &look);
    }
    let has_header = early.is_none_or(Early::is_empty);
    output.rows(has_header, |out| {
        let rows = |out: &mut (dyn Write + Send)| -> anyhow::Result<()> {
            let sheet = sheet()?;
            match output.format {
                Format::Jsonl => sheet.jsonl(jobs, out)?,
                _ => sheet.csv(jobs, out)?,
            }
            Ok(())
        };
        match (output.format, chain, early) {
            (Format::Awk, Some(chain), _) => out.write_all(&chain())?,
            (Format::Awk, None, _) => {
                bail!("the AWK chain does not have this table: use --format csv")
            }
            (_, _, None) => rows(out)?,
            (_, _, Some(early)) => {
                let mut rest = early.rest(out);
                rows(&mut rest)?;
                early.hold(rest, report);
            }
        }
        Ok(())
    })
}

impl Output {
    /// Draws some columns of the CSV that `write` writes, as a table on standard output.
    ///
    /// # Errors
    /// Those of `write`; the output cannot be written.
    pub fn drawn(
        &self,
        columns: &[String],
        write: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut drawing = Drawing::new(columns, self.look);
        write(&mut drawing)?;
        let text = drawing.finish()?;
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .context("cannot write the output")
    }
}

/// A table on standard output. Its cells are escaped, its colours are not.
fn drawn(sheet: &Sheet<'_>, look: &Look) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    sheet.table(look, &mut out)?;
    out.flush().context("cannot write the output")
}

/// Gives standard output, buffered, to `write`, and flushes it: a full disk must not pass
/// unnoticed. On a terminal the log's control bytes are escaped.
///
/// # Errors
/// Those of `write`; the output cannot be flushed.
pub fn with_stdout(
    write: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut out = stdout();
    write(&mut out)?;
    flushed(out)
}

fn stdout() -> Box<dyn Write + Send> {
    // Not locked: whichever thread has the next rows writes them.
    let stdout = io::stdout();
    if stdout.is_terminal() {
        Box::new(BufWriter::new(Escaped::new(stdout)))
    } else {
        Box::new(BufWriter::with_capacity(1 << 16, stdout))
    }
}

fn flushed(mut out: Box<dyn Write + Send>) -> anyhow::Result<()> {
    out.flush().context("cannot write the output")
}

/// Gives `write` standard output for a text: on a terminal its lines fit, and have their colours.
///
/// # Errors
/// Those of `write`; the output cannot be written.
pub fn with_text(
    look: Look,
    write: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut out: Box<dyn Write + Send> = if look.width.is_none() && !look.colour {
        stdout()
    } else {
        Box::new(Wrapped::new(look, BufWriter::new(io::stdout())))
    };
    write(&mut out)?;
    flushed(out)
}
