//! `--times`: the durations of recorded calls in the rows of a log's calls.
//!
//! A recorder numbers the calls of each operation on a communicator from 0, by rank (SeqNum in
//! traces, `coll_sn` in Inspector's records), and a log has them in their order: the n-th call of an
//! operation in a log has the record of that number. Inspector prints ids without their last digits.

use super::{Options, RowForm};
use crate::count::calls::{Options as Read, Progress};
use crate::error::{Error, Result};
use crate::filter::FilterPart;
use crate::formats::lines::RowVisitor;
use crate::formats::table_rows::TableFeed;
use crate::log::timeline::{PresentSteps, StepWindow};
use crate::members::comm_id::CommId;
use crate::output::table::{Row, Timing};
use crate::report::{Report, count_phrase};
use crate::source::InputName;
use rustc_hash::FxHashMap;
use std::io::Write;

/// The communicator, rank and operation of a call, and its number among those.
type RecordedCallId = (CommId, u32, Box<[u8]>, u64);

/// The columns of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RecordedTiming {
    bytes: Option<u128>,
    dur_ns: Option<u64>,
    start_ns: Option<u64>,
    nchannels: Option<u32>,
    clock: Box<[u8]>,
    quality: Box<[u8]>,
    algo: Box<[u8]>,
    proto: Box<[u8]>,
    pg_name: Box<[u8]>,
    pg_desc: Box<[u8]>,
}

impl RecordedTiming {
    fn from_row(row: &Row<'_>) -> RecordedTiming {
        let times = row.times();
        RecordedTiming {
            bytes: row.bytes(),
            dur_ns: times.dur_ns,
            start_ns: times.start_ns,
            nchannels: times.nchannels,
            clock: times.clock.into(),
            quality: times.quality.into(),
            algo: times.algo.into(),
            proto: times.proto.into(),
            pg_name: times.pg_name.into(),
            pg_desc: times.pg_desc.into(),
        }
    }

    fn timing(&self) -> Timing<'_> {
        Timing {
            dur_ns: self.dur_ns,
            start_ns: self.start_ns,
            nchannels: self.nchannels,
            clock: &self.clock,
            quality: &self.quality,
            algo: &self.algo,
            proto: &self.proto,
            pg_name: &self.pg_name,
            pg_desc: &self.pg_desc,
        }
    }
}

/// All records.
#[derive(Debug, Default)]
struct TimingRecords {
    by: FxHashMap<RecordedCallId, RecordedTiming>,
    /// Records without a communicator, rank or number.
    unnamed: u64,
    /// The ids are as Inspector prints them.
    is_short: bool,
}

impl TimingRecords {
    fn add_record(&mut self, row: &Row<'_>) {
        let (Some(id), Some(rank), Some(seq)) = (row.comm_id, row.rank, row.seq) else {
            self.unnamed += 1;
            return;
        };
        self.is_short |= row.src == b"inspector";
        let which = (id, rank, row.op.into(), seq);
        self.by
            .entry(which)
            .or_insert_with(|| RecordedTiming::from_row(row));
    }
}

/// Which calls got a record.
#[derive(Debug, Default)]
struct JoinedTimings {
    calls: u64,
    with: u64,
    /// Calls with other bytes in their record.
    other_bytes: u64,
}

/// Fills rows from the records.
struct TimingFiller<'f> {
    records: &'f TimingRecords,
    options: &'f Options,
    window: Option<&'f StepWindow>,
    /// How many calls of an operation each rank has made so far.
    made: FxHashMap<(CommId, u32, Box<[u8]>), u64>,
    joined: JoinedTimings,
    part: FilterPart,
    present: PresentSteps,
    out: &'f mut (dyn Write + Send),
    text: Vec<u8>,
}

impl<'f> TimingFiller<'f> {
    fn fill_row(&mut self, row: &Row<'_>) {
        let found = self.next_record(row);
        self.present.visit_row(row);
        let inside = |w: &StepWindow| row.step.is_some_and(|step| w.contains(step));
        if !self.window.is_none_or(inside) {
            return;
        }
        let fits = |record: &&RecordedTiming| record.bytes == row.bytes();
        let fitting = found.filter(fits);
        let timing = fitting.map(RecordedTiming::timing);
        let timing = timing.as_ref().or(row.timing);
        let filled = Row { timing, ..*row };
        if !self.part.does_pass(&filled, &self.options.filter) {
            return;
        }
        let add = |sum: &mut u64| *sum = sum.saturating_add(row.calls);
        add(&mut self.joined.calls);
        match fitting {
            Some(_) => add(&mut self.joined.with),
            None if found.is_some() => add(&mut self.joined.other_bytes),
            None => {}
        }
        self.options.form.write_row(&filled, &mut self.text);
    }

    /// The record of the next call of that operation, communicator and rank.
    fn next_record(&mut self, row: &Row<'_>) -> Option<&'f RecordedTiming> {
        let records = self.records;
        let (id, rank) = (row.comm_id?, row.rank?);
        let made = self.made.entry((id, rank, row.op.into())).or_default();
        let number = *made;
        *made = made.saturating_add(row.calls);
        let find = |id| records.by.get(&(id, rank, row.op.into(), number));
        let short = || {
            records
                .is_short
                .then(|| find(id.as_inspector_prints()))
                .flatten()
        };
        find(id).or_else(short)
    }
}

/// Writes a row for every call of the logs, with the columns of its record in `times`.
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
    let (all, mut whole) = (Options::default(), read.clone());
    whole.window = None;
    let mut records = TimingRecords::default();
    let mut feed = TableFeed::new(|row: &Row<'_>| records.add_record(row));
    super::write_rows(times, &whole, &all, report, progress, &mut feed)?;
    report.restart_input_count();
    if records.by.is_empty() {
        return Err(Error::Content(
            "--times: no record names a communicator, a rank and a number: traces of NCCL's profiler \
             plugin and NCCL Inspector's records do"
                .to_owned(),
        ));
    }
    out.write_all(&options.form.header_text())
        .map_err(Error::Output)?;
    let mut filling = TimingFiller {
        records: &records,
        options,
        window: read.window.as_ref(),
        made: FxHashMap::default(),
        joined: JoinedTimings::default(),
        part: FilterPart::default(),
        present: PresentSteps::default(),
        out,
        text: Vec::new(),
    };
    let mut failed = Ok(());
    let tuned = Options {
        tuning: options.tuning,
        form: RowForm::Csv,
        ..Options::default()
    };
    let mut feed = TableFeed::new(|row: &Row<'_>| {
        filling.fill_row(row);
        if filling.text.len() > 1 << 20 && failed.is_ok() {
            failed = filling.out.write_all(&filling.text);
            filling.text.clear();
        }
    });
    super::write_rows(origins, &whole, &tuned, report, progress, &mut feed)?;
    drop(feed);
    failed.map_err(Error::Output)?;
    let TimingFiller {
        joined,
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
    part.report(&options.filter, false, report);
    report.note(&format!(
        "{} of {} have a record (--times)",
        joined.with,
        count_phrase(joined.calls, "call")
    ));
    if joined.other_bytes > 0 {
        report.warn(&format!(
            "the records of {} have other bytes than the log: these calls are left without",
            count_phrase(joined.other_bytes, "call")
        ));
    }
    if records.unnamed > 0 {
        report.note(&format!(
            "{} without communicator, rank or number (Send and Recv have no number) fill no call",
            count_phrase(records.unnamed, "record")
        ));
    }
    Ok(())
}
