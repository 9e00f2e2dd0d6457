//! The rows of call tables: filtered, in their order.

use super::{CommsRowSink, HeadedTable, Options, SecondWalk};
use crate::count::calls::Options as Read;
use crate::count::row_counts::RowCounts;
use crate::error::{Error, Result};
use crate::filter::FilterPart;
use crate::formats::lines::{self, RowVisitor};
use crate::formats::open::OpenInput;
use crate::log::propose;
use crate::log::timeline::{PresentSteps, StepWindow};
use crate::members::MergedMembers;
use crate::members::duplicate_inputs::DuplicateInputs;
use crate::output::table::Row;
use crate::report::Report;
use crate::source::{Input, InputName};
use std::io::Write;

/// Writes the rows of a table that comes through a pipe.
pub(super) fn write_table<V>(
    input: OpenInput<V>,
    origins: &[InputName],
    read: &Read,
    options: &Options,
    report: &mut Report,
    out: &mut (dyn Write + Send),
) -> Result<()> {
    let mut present = PresentSteps::default();
    let input = search_steps(input, read, &mut present)?;
    if let Some(window) = &read.window {
        let missing =
            |text| propose::reopened_missing_steps_error(text, &present, origins, read.source);
        present.check_window(window).map_err(missing)?;
    }
    let mut out = HeadedTable::new(options.form, out);
    let mut run = SecondWalk::start_second_walk(read, options, MergedMembers::default());
    run.write_table_rows(&input, report, &mut CommsRowSink::Text(&mut out))?;
    out.flush().map_err(Error::Output)?;
    run.watch.report(&options.filter, report);
    Ok(())
}

/// Returns the table after its steps are read, if a window is given.
pub(super) fn search_steps<V>(
    input: OpenInput<V>,
    read: &Read,
    present: &mut PresentSteps,
) -> Result<OpenInput<V>> {
    if read.window.is_none() {
        return Ok(input);
    }
    let input = input.into_rewindable(Input::make_rewindable)?;
    let options = lines::Options {
        jobs: read.log.jobs,
        strict: false,
    };
    input.read_records(
        options,
        &mut DuplicateInputs::default(),
        PresentSteps::default,
        |_| {},
        |steps| {
            present.merge(&steps);
            Ok(())
        },
    )?;
    input.into_rewound()
}

impl SecondWalk<'_> {
    /// A table's rows, filtered, in their order.
    pub(super) fn write_table_rows<V>(
        &mut self,
        input: &OpenInput<V>,
        report: &mut Report,
        sink: &mut CommsRowSink<'_, '_>,
    ) -> Result<()> {
        let counted = match sink {
            CommsRowSink::Text(_) => None,
            CommsRowSink::Counted(counting) => Some(counting.tally()),
        };
        let new_part = || match counted {
            None => TablePartRows::Text(Vec::new()),
            Some(tally) => TablePartRows::Counted(Box::new(RowCounts::new(tally, None))),
        };
        let account = input.read_records(
            (&self.read.log).into(),
            &mut self.surveyed.twice,
            || TablePartFilter {
                options: self.options,
                window: self.read.window.as_ref(),
                kept: new_part(),
                part: self.watch.new_part(),
            },
            |_| {},
            |rows| {
                self.watch.add_part(rows.part);
                match (rows.kept, &mut *sink) {
                    (TablePartRows::Text(text), CommsRowSink::Text(out)) => {
                        out.write_all(&text).map_err(Error::Output)
                    }
                    (TablePartRows::Counted(part), CommsRowSink::Counted(counting)) => {
                        counting.merge(*part);
                        Ok(())
                    }
                    _ => Ok(()),
                }
            },
        )?;
        report.report_input(&input.name(), &account);
        Ok(())
    }
}

/// The output of a part of a table.
enum TablePartRows {
    /// As they are written.
    Text(Vec<u8>),
    Counted(Box<RowCounts>),
}

/// The rows of a part of a table that pass.
struct TablePartFilter<'o> {
    options: &'o Options,
    window: Option<&'o StepWindow>,
    kept: TablePartRows,
    part: FilterPart,
}

impl RowVisitor for TablePartFilter<'_> {
    fn visit_row(&mut self, row: &Row<'_>) {
        let in_window = |w: &StepWindow| row.step.is_some_and(|step| w.contains(step));
        if !self.window.is_none_or(in_window) {
            return;
        }
        if self.part.does_pass(row, &self.options.filter) {
            match &mut self.kept {
                TablePartRows::Text(text) => self.options.form.write_row(row, text),
                TablePartRows::Counted(part) => part.visit_row(row),
            }
        }
    }
}
