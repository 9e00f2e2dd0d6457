//! `--times`: the durations of recorded calls in the rows of a log's calls.
//!
//! A recorder numbers calls in its own way, and may have missed some. So a recorded call is joined only where
//! the operations and bytes of all of its communicator's calls agree with the log, and its time with the line's
//! time stamp (`clocks`): by number (`align_by_number`),
//! or by order where there is no number that NCCL knows. A number is trusted only as far as the log lacks no call. The
//! log's rows wait until all of its calls are known.

mod align;
mod clocks;
mod join;
mod logged;
mod records;
mod shapes;

use super::limits::MAX_WAITING_ROW_BYTES;
use super::{Options, RowForm};
use crate::count::calls::{Options as Read, Progress};
use crate::error::{Error, Result};
use crate::filter::FilterPart;
use crate::formats::Provides;
use crate::formats::lines::RowVisitor;
use crate::formats::open::{OpenInput, open_input};
use crate::formats::table_rows::TableFeed;
use crate::log::timeline::{PresentSteps, StepWindow};
use crate::output::table::Row;
use crate::report::{Report, count_phrase};
use crate::source::InputName;
use join::JoinedRecords;
use logged::LoggedSequences;
use records::TimingRecords;
use rustc_hash::FxHashMap;
use shapes::{CallClass, ComparedShapes};
use std::io::{self, Seek, Write};
use tempfile::SpooledTempFile;

/// How many calls got a record.
#[derive(Debug, Default)]
struct FilledCalls {
    calls: u64,
    with: u64,
}

/// Fills rows from the records.
struct TimingFiller<'f> {
    records: &'f TimingRecords,
    joined: &'f JoinedRecords,
    logged: &'f mut LoggedSequences,
    options: &'f Options,
    window: Option<&'f StepWindow>,
    /// How many calls of a class each rank has made so far.
    made: FxHashMap<(u32, CallClass), usize>,
    filled: FilledCalls,
    part: FilterPart,
    present: PresentSteps,
    out: &'f mut (dyn Write + Send),
    text: Vec<u8>,
}

impl TimingFiller<'_> {
    fn fill_row(&mut self, row: &Row<'_>) {
        let key = (self.logged.number_of_member(row), CallClass::of_row(row));
        let made = self.made.entry(key.clone()).or_default();
        let found = self.joined.timing_of_call(&key, *made);
        *made += 1;
        self.present.visit_row(row);
        let inside = |w: &StepWindow| row.step.is_some_and(|step| w.contains(step));
        if !self.window.is_none_or(inside) {
            return;
        }
        let found = found.and_then(|at| self.records.timings.get(at as usize));
        let timing = found.map(|record| record.timing());
        let timing = timing.as_ref().or(row.timing);
        let filled = Row { timing, ..*row };
        if !self.part.does_pass(&filled, &self.options.filter) {
            return;
        }
        let add = |sum: &mut u64| *sum = sum.saturating_add(row.calls);
        add(&mut self.filled.calls);
        if found.is_some() {
            add(&mut self.filled.with);
        }
        self.options.form.write_row(&filled, &mut self.text);
    }
}

/// Writes a row for every call of the logs, with the columns of its record in `times`. Records among the inputs of logs
/// are records of these calls, too: a shell writes the names of all files behind one `--times`.
///
/// # Errors
/// As [`super::write_rows`]; the records cannot be read, or name no call.
pub fn write_timed_rows(
    origins: &[InputName],
    times: &[InputName],
    read: &Read,
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    out: &mut (dyn Write + Send),
) -> Result<()> {
    // Their rows are filtered here: a call that is not written counts too.
    let mut whole = read.clone();
    whole.window = None;
    let mut shapes = ComparedShapes::default();
    let (beside, origins) = find_records_beside_logs(origins, read);
    let times = [times, &beside].concat();
    let records = read_records(&times, &whole, &mut shapes, report, progress)?;
    let tuned = Options {
        tuning: options.tuning,
        form: RowForm::Csv,
        ..Options::default()
    };
    let mut logged = LoggedSequences::default();
    let mut waiting = WaitingRows {
        calls: TableFeed::new(|row: &Row<'_>| logged.add_call(row, &mut shapes)),
        rows: SpooledTempFile::new(MAX_WAITING_ROW_BYTES),
    };
    let damaged = |report: &Report| {
        let account = report.total_account();
        account.damaged.saturating_add(account.dropped)
    };
    let before = damaged(report);
    super::write_rows(&origins, &whole, &tuned, report, progress, &mut waiting)?;
    let mut rows = waiting.rows;
    logged.is_damaged = damaged(report) > before;
    let joined = JoinedRecords::join_records(&records, &logged, &shapes);
    rows.rewind().map_err(Error::Output)?;
    out.write_all(&options.form.header_text())
        .map_err(Error::Output)?;
    let mut filling = TimingFiller {
        records: &records,
        joined: &joined,
        logged: &mut logged,
        options,
        window: read.window.as_ref(),
        made: FxHashMap::default(),
        filled: FilledCalls::default(),
        part: FilterPart::default(),
        present: PresentSteps::default(),
        out,
        text: Vec::new(),
    };
    let mut failed = Ok(());
    let mut feed = TableFeed::new(|row: &Row<'_>| {
        filling.fill_row(row);
        if filling.text.len() > 1 << 20 && failed.is_ok() {
            failed = filling.out.write_all(&filling.text);
            filling.text.clear();
        }
    });
    io::copy(&mut rows, &mut feed).map_err(Error::Output)?;
    drop(feed);
    failed.map_err(Error::Output)?;
    let TimingFiller {
        filled,
        part,
        present,
        out,
        text,
        ..
    } = filling;
    out.write_all(&text).map_err(Error::Output)?;
    if let Some(window) = &read.window {
        present.check_window(window).map_err(Error::Content)?;
    }
    part.report(&options.filter, report);
    report.note(&format!(
        "{} of {} have a record (--times)",
        filled.with,
        count_phrase(filled.calls, "call")
    ));
    report_refused(&records, &joined, report);
    Ok(())
}

/// Returns the records among inputs, and the other inputs. Records alone are inputs themselves.
fn find_records_beside_logs(
    origins: &[InputName],
    read: &Read,
) -> (Vec<InputName>, Vec<InputName>) {
    let is_recorded = |origin: &InputName| {
        let open = || open_input::<()>(origin, read.source, Provides::CALLS);
        let is_of_nccl =
            |input: OpenInput<()>| input.is_recorded() && !input.provides(Provides::MPI);
        origin.is_file() && open().is_ok_and(is_of_nccl)
    };
    let (records, logs): (Vec<_>, Vec<_>) = origins.iter().cloned().partition(is_recorded);
    match logs[..] {
        [] => (logs, records),
        _ => (records, logs),
    }
}

/// Reads all records.
fn read_records(
    times: &[InputName],
    read: &Read,
    shapes: &mut ComparedShapes,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<TimingRecords> {
    let (all, mut records) = (Options::default(), TimingRecords::default());
    for (input, origin) in times.iter().enumerate() {
        records.input = input;
        let mut feed = TableFeed::new(|row: &Row<'_>| records.add_record(row, shapes));
        let origin = std::slice::from_ref(origin);
        super::write_rows(origin, read, &all, report, progress, &mut feed)?;
    }
    report.restart_input_count();
    if records.members.is_empty() {
        return Err(Error::Content(
            "--times: no record names a communicator or process group: traces of NCCL's profiler plugin and of \
             torch.profiler, NCCL Inspector's records, exports of Nsight Systems and dumps of PyTorch's flight \
             recorder do"
                .to_owned(),
        ));
    }
    records.sort_numbered();
    Ok(records)
}

/// Rows of a log that wait until all of its calls are known.
struct WaitingRows<F> {
    calls: TableFeed<F>,
    rows: SpooledTempFile,
}

impl<F: FnMut(&Row<'_>)> Write for WaitingRows<F> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.rows.write_all(text)?;
        self.calls.write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reports how many records fill no call, and why.
fn report_refused(records: &TimingRecords, joined: &JoinedRecords, report: &Report) {
    let refused = &joined.refused;
    let of = |n: u64, what: &str| (n > 0).then(|| format!("{} {what}", count_phrase(n, "record")));
    let other = "fill no call: the log has other operations or bytes in their place";
    let ambiguous = "fill no call: they fit several calls of the log";
    let untimely = "fill no call: their times do not fit the time stamps of the log";
    let unproven = "fill no call: the log or the records lack calls, and no time stamp with a fraction of a second proves \
                    which of the others they are";
    let warnings = [
        of(refused.other, other),
        of(refused.ambiguous, ambiguous),
        of(refused.untimely, untimely),
        of(refused.unproven, unproven),
    ];
    warnings.iter().flatten().for_each(|text| report.warn(text));
    let elsewhere = "fill no call: the log does not have these calls of their communicator and rank, or lacks calls \
                     before them (opCount)";
    let unnamed =
        "without communicator, rank or number (Send and Recv have no number) fill no call";
    let notes = [
        of(refused.elsewhere, elsewhere),
        of(records.unnamed, unnamed),
    ];
    notes.iter().flatten().for_each(|text| report.note(text));
}
