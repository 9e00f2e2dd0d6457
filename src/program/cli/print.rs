//! The output of a program.

use super::{OrderArgs, RowFormat};
use crate::output::drawing::CsvDrawing;
use crate::output::render::look::{DrawStyle, is_scrolled, wrap_text};
use crate::output::render::order::{RowOrder, SortKey};
use crate::output::render::wrap::WrapWriter;
use crate::output::render::{Grid, Sheet};
use crate::output::reshape::{ReshapeWriter, RowReshape};
use crate::program::live_rows::LiveRowPrinter;
use crate::report::{EscapingWriter, Report, count_phrase};
use anyhow::{Context, bail};
use std::io::{self, BufWriter, IsTerminal, Write};

/// How rows leave a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowOutput {
    /// Their format.
    pub format: RowFormat,
    /// Columns put in front of them.
    pub reshape: RowReshape,
    /// Where a table is drawn.
    pub look: DrawStyle,
    /// Which rows come first.
    pub order: RowOrder,
}

impl RowOutput {
    /// Sets the order of rows.
    #[must_use]
    pub fn ordered(mut self, order: &OrderArgs) -> RowOutput {
        self.order = order.order();
        self
    }

    /// The rows in the order wanted; a note reports how many are left out. If some are left out in no order,
    /// those with the most of a column of `largest` are kept.
    fn arranged<'s>(
        &self,
        sheet: Sheet<'s>,
        largest: &[&str],
        report: &Report,
    ) -> anyhow::Result<Sheet<'s>> {
        if self.order.is_nothing() {
            return Ok(sheet);
        }
        let mut grid = sheet.to_grid();
        let mut order = self.order.clone();
        let mut largest = largest.iter();
        let main = largest.find(|name| grid.columns.iter().any(|column| column == *name));
        if let (Some(main), true) = (main, order.by.is_empty()) {
            order.by.push(SortKey {
                column: (*main).to_owned(),
                is_falling: true,
            });
        }
        let left = order.apply_order(&mut grid)?;
        if left > 0 {
            report.note(&format!("-n leaves {} out", count_phrase(left, "row")));
        }
        Ok(grid.into())
    }

    /// Gives standard output to `write`, which writes rows in this format. Adds labels and removes the
    /// header if asked. The first line is the header if it `has_header`.
    ///
    /// # Errors
    /// Those of `write`; the output cannot be written; the format has no rows to label.
    pub fn rows(
        &self,
        has_header: bool,
        write: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if !self.reshape.is_nothing() && !self.format.is_rows() {
            self.reshape.refuse_row_options()?;
        }
        let mut out = buffered_stdout();
        if self.reshape.is_nothing() {
            write(&mut out)?;
        } else {
            let mut rows = ReshapeWriter::new(&self.reshape, has_header, &mut out);
            write(&mut rows)?;
            rows.finish().context("cannot write the output")?;
        }
        flush_stdout(out)
    }
}

/// Prints a sheet to standard output.
pub struct SheetPrinter<'p> {
    output: &'p RowOutput,
    report: &'p Report,
    jobs: usize,
    chain: Option<Box<dyn FnOnce() -> Vec<u8> + 'p>>,
    early: Option<&'p LiveRowPrinter<'p>>,
    largest: &'p [&'p str],
    answer: Option<fn(&Grid) -> Option<String>>,
}

impl RowOutput {
    /// Prints a sheet in this format.
    pub fn printer<'p>(&'p self, report: &'p Report) -> SheetPrinter<'p> {
        SheetPrinter {
            output: self,
            report,
            jobs: 1,
            chain: None,
            early: None,
            largest: &[],
            answer: None,
        }
    }
}

impl<'p> SheetPrinter<'p> {
    /// Makes the rows on this many threads.
    #[must_use]
    pub fn with_jobs(mut self, jobs: usize) -> Self {
        self.jobs = jobs;
        self
    }

    /// Offers the output of the AWK chain for this sheet.
    #[must_use]
    pub fn with_chain(mut self, chain: impl FnOnce() -> Vec<u8> + 'p) -> Self {
        self.chain = Some(Box::new(chain));
        self
    }

    /// Names the columns that `--top` sorts by where there is no `--sort`: the first of them that
    /// the table has.
    #[must_use]
    pub fn largest_by(mut self, columns: &'p [&'p str]) -> Self {
        self.largest = columns;
        self
    }

    /// Answers the table in one sentence on a terminal: before it, and after it if it scrolls.
    #[must_use]
    pub fn with_answer(mut self, answer: fn(&Grid) -> Option<String>) -> Self {
        self.answer = Some(answer);
        self
    }

    /// Leaves out the rows that were written before the input ended.
    #[must_use]
    pub fn after_live_rows(mut self, early: &'p LiveRowPrinter<'p>) -> Self {
        self.early = Some(early);
        self
    }

    /// Prints the sheet.
    ///
    /// # Errors
    /// The output cannot be written; the sheet has no AWK form.
    pub fn print<'s>(self, sheet: impl FnOnce() -> Sheet<'s>) -> anyhow::Result<()> {
        print_rows(self, Box::new(sheet))
    }
}

/// Prints the rows; it is compiled once, not in each program.
fn print_rows<'s>(
    printer: SheetPrinter<'_>,
    sheet: Box<dyn FnOnce() -> Sheet<'s> + '_>,
) -> anyhow::Result<()> {
    let SheetPrinter {
        output,
        report,
        jobs,
        chain,
        early,
        largest,
        answer,
    } = printer;
    report.end_progress();
    let early = early.filter(|early| early.is_possible());
    if output.format == RowFormat::Awk && !output.order.is_nothing() {
        bail!("the AWK chain has an order of its own: use --sort and --top with --format csv");
    }
    if output.format == RowFormat::Table && output.reshape.is_nothing() {
        let look = match output.order.top {
            // With --top all its rows are drawn, also on a small terminal.
            Some(_) => DrawStyle {
                rows: None,
                ..output.look
            },
            None => output.look,
        };
        let all = sheet();
        let answer = answer.filter(|_| look.width.is_some());
        let answer = answer.and_then(|answer| answer(&all.to_grid()));
        return drawn(&output.arranged(all, largest, report)?, &look, answer);
    }
    let has_header = early.is_none_or(LiveRowPrinter::is_empty);
    output.rows(has_header, |out| {
        let rows = |out: &mut (dyn Write + Send)| -> anyhow::Result<()> {
            let sheet = output.arranged(sheet(), largest, report)?;
            match output.format {
                RowFormat::Jsonl => sheet.write_jsonl(jobs, out)?,
                _ => sheet.write_csv(jobs, out)?,
            }
            Ok(())
        };
        match (output.format, chain, early) {
            (RowFormat::Awk, Some(chain), _) => out.write_all(&chain())?,
            (RowFormat::Awk, None, _) => {
                bail!("the AWK chain does not have this table: use --format csv")
            }
            (_, _, None) => rows(out)?,
            (_, _, Some(early)) => {
                let mut rest = early.skip_written(out);
                rows(&mut rest)?;
                early.report_changes(rest, report);
            }
        }
        Ok(())
    })
}

impl RowOutput {
    /// Draws some columns of the CSV that `write` writes, as a table on standard output.
    ///
    /// # Errors
    /// Those of `write`; the output cannot be written.
    pub fn drawn(
        &self,
        columns: &[String],
        write: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut drawing = CsvDrawing::new(columns, self.look);
        write(&mut drawing)?;
        let text = drawing.finish()?;
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .context("cannot write the output")
    }
}

/// A table on standard output, between its answer where it scrolls. Its cells are escaped, its colours are not.
fn drawn(sheet: &Sheet<'_>, look: &DrawStyle, answer: Option<String>) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let Some(answer) = answer else {
        sheet.draw_table(look, &mut out)?;
        return out.flush().context("cannot write the output");
    };
    let mut table = Vec::new();
    sheet.draw_table(look, &mut table)?;
    let width = look.width.unwrap_or(usize::MAX);
    let answer = answer.lines().flat_map(|line| wrap_text(line, width));
    let answer = Vec::from_iter(answer).join("\n");
    let lines = table.iter().filter(|byte| **byte == b'\n').count() + answer.lines().count();
    let again = match is_scrolled(&io::stdout(), lines) {
        true => format!("{answer}\n"),
        false => String::new(),
    };
    let parts = [format!("{answer}\n").as_bytes(), &table, again.as_bytes()].concat();
    out.write_all(&parts)
        .and_then(|()| out.flush())
        .context("cannot write the output")
}

/// Gives standard output, buffered, to `write`, and flushes it: a full disk must not pass
/// unnoticed. On a terminal the log's control bytes are escaped.
///
/// # Errors
/// Those of `write`; the output cannot be flushed.
pub fn with_stdout(
    write: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut out = buffered_stdout();
    write(&mut out)?;
    flush_stdout(out)
}

fn buffered_stdout() -> Box<dyn Write + Send> {
    // Not locked: whichever thread has the next rows writes them.
    let stdout = io::stdout();
    if stdout.is_terminal() {
        Box::new(BufWriter::new(EscapingWriter::new(stdout)))
    } else {
        Box::new(BufWriter::with_capacity(1 << 16, stdout))
    }
}

fn flush_stdout(mut out: Box<dyn Write + Send>) -> anyhow::Result<()> {
    out.flush().context("cannot write the output")
}

/// Gives `write` standard output for a text: on a terminal its lines fit, and have their colours.
///
/// # Errors
/// Those of `write`; the output cannot be written.
pub fn with_text(
    look: DrawStyle,
    write: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut out: Box<dyn Write + Send> = if look.width.is_none() && !look.colour {
        buffered_stdout()
    } else {
        Box::new(WrapWriter::new(look, BufWriter::new(io::stdout())))
    };
    write(&mut out)?;
    flush_stdout(out)
}
