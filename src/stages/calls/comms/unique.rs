//! `--unique`: a row for every distinct call.

use super::tuning_option::WithTuning;
use super::{CommsRowSink, Options, write_inputs};
use crate::count::caller::Caller;
use crate::count::calls::{self, Options as Read, Progress, RowCounter};
use crate::count::filtered::CountFilter;
use crate::count::tally::{self, CallKey, CallVolume, SizeKey};
use crate::error::{Error, Result};
use crate::grammar::values::ByteBasis;
use crate::output::table::{Row, Timing};
use crate::report::Report;
use crate::source::InputName;
use std::io::Write;

/// The key of `--unique`: every column but time, tid, seq, op_count, stream, start_ns and dur_ns, and the step
/// only if steps are wanted. Durations add up.
fn unique_tally(steps: bool) -> tally::Options {
    tally::Options {
        members: true,
        datatypes: true,
        steps,
        exact: true,
        ..tally::Options::by_size(SizeKey::Count, ByteBasis::Api)
    }
}

/// Writes one row for each distinct call, with how often it was made, sorted.
///
/// # Errors
/// As [`calls::count_calls`]; the output cannot be written.
pub fn write_unique_rows(
    origins: &[InputName],
    read: &Read,
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    out: &mut (dyn Write + Send),
) -> Result<()> {
    let tally = unique_tally(read.window.is_some());
    let filter = CountFilter::new(&options.filter, &tally)?;
    // How a call was served is known call by call.
    let calls = match options.tuning {
        true => {
            let mut counting = RowCounter::new(read, &tally);
            let sink = CommsRowSink::Counted(&mut counting);
            write_inputs::<WithTuning>(origins, read, options, report, progress, sink)?;
            counting.finish()
        }
        false => {
            let all = calls::count_calls(origins, read, filter.tally(), report, progress)?;
            let (kept, part) = filter.keep_calls(all);
            part.report(&options.filter, report);
            kept
        }
    };
    let cells = calls.cells.counts_by_number();
    // A log's calls have none, and there may be many.
    let timing = |((step, key), value): &((Option<u64>, CallKey), CallVolume)| {
        let who = &calls.who[key.member as usize];
        let timing = who
            .recorded
            .timing_of_calls(calls.duration(*step, key, value));
        (timing != Timing::default()).then(|| Box::new(timing))
    };
    let timings: Vec<_> = cells.iter().map(timing).collect();
    let all = cells
        .iter()
        .zip(&timings)
        .map(|(((step, key), value), timing)| {
            let who = &calls.who[key.member as usize];
            let timing = timing.as_deref();
            let row = calls.row_of_key(*step, key, value.calls);
            (Row { timing, ..row }, who)
        });
    let mut rows: Vec<(Row<'_>, &Caller)> = all.collect();
    // Numbers given to members and operations depend on the order of the inputs; values do not.
    rows.sort_by(|(a, who_a), (b, who_b)| {
        let key = |r: &Row<'_>| {
            let step = (r.step.is_none(), r.step);
            (
                step,
                r.count,
                r.only_bytes,
                r.datatype,
                r.nranks,
                r.redop,
                r.root,
            )
        };
        (key(a).0, who_a, a.op)
            .cmp(&(key(b).0, who_b, b.op))
            .then_with(|| key(a).cmp(&key(b)))
    });
    let mut text = options.form.header_text();
    for (row, _) in &rows {
        options.form.write_row(row, &mut text);
        if text.len() > 1 << 20 {
            out.write_all(&text).map_err(Error::Output)?;
            text.clear();
        }
    }
    out.write_all(&text).map_err(Error::Output)
}
