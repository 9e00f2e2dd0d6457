//! Rows of nccl-tests' tables, compared by operation, size, and out of place or in place: what people
//! compare before and after an upgrade.
//!
//! nccl-tests prints a bus bandwidth with two decimals. Where it is small it has too few digits, and the
//! time is compared. One run of a size is one measurement, so a row that changes alone, while the
//! sizes beside it and the other placement do not, may be noise, and is marked so.

use super::limits::MIN_COMPARED_BUSBW;
use super::measure::{Quartiles, is_beyond};
use super::row::{DiffAspect, DiffRow, DiffValue};
use crate::report::Report;
use crate::stages::benchmark::{BenchmarkRow, BenchmarkTable, PLACEMENTS, format_whole_size};
use std::collections::{BTreeMap, BTreeSet};

/// What rows of one kind have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct BenchmarkSeries {
    /// `all_reduce`; empty if no line names it.
    program: Box<[u8]>,
    datatype: Box<[u8]>,
    redop: Box<[u8]>,
    root: Option<i64>,
}

impl BenchmarkSeries {
    fn of_row(table: &BenchmarkTable, row: &BenchmarkRow) -> BenchmarkSeries {
        BenchmarkSeries {
            program: table.program.clone().unwrap_or_default(),
            datatype: row.datatype.clone(),
            redop: row.redop.clone(),
            root: row.root,
        }
    }

    /// `all_reduce float sum`.
    fn name_series(&self) -> String {
        let redop = Some(&self.redop).filter(|redop| ***redop != *b"none");
        let root = self
            .root
            .map(|root| format!("root {root}").into_bytes().into());
        let words = [
            Some(&self.program),
            Some(&self.datatype),
            redop,
            root.as_ref(),
        ];
        let words = words.into_iter().flatten().filter(|word| !word.is_empty());
        let words: Vec<_> = words.map(|word| String::from_utf8_lossy(word)).collect();
        words.join(" ")
    }
}

/// The measurements of one size.
#[derive(Debug, Clone, Default, PartialEq)]
struct RowTimes {
    time_us: Vec<f64>,
    busbw: Vec<f64>,
}

/// A size, and out of place or in place.
type SizePlace = (usize, u64);

/// The rows of a run's tables.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct BenchmarkRows {
    rows: BTreeMap<BenchmarkSeries, BTreeMap<SizePlace, RowTimes>>,
    /// The numbers of ranks of its tables, where they are known.
    ranks: BTreeSet<u64>,
    /// The bus bandwidths over the algorithm's, by program: they follow from the operation.
    factors: BTreeMap<Box<[u8]>, Vec<f64>>,
}

impl BenchmarkRows {
    /// Adds the tables of an input.
    pub(super) fn add_tables(&mut self, tables: Vec<BenchmarkTable>) {
        for table in tables {
            if table.ranks > 0 {
                self.ranks.insert(table.ranks);
            }
            for row in &table.rows {
                let series = BenchmarkSeries::of_row(&table, row);
                for (place, values) in row.values.iter().enumerate() {
                    let Some(values) = values else { continue };
                    let rows = self.rows.entry(series.clone()).or_default();
                    let times = rows.entry((place, row.size)).or_default();
                    times.time_us.extend(values.time_us);
                    times.busbw.extend(values.busbw);
                    if let (Some(alg), Some(bus)) = (values.algbw, values.busbw)
                        && alg >= MIN_COMPARED_BUSBW
                    {
                        let factors = self.factors.entry(series.program.clone()).or_default();
                        factors.push(bus / alg);
                    }
                }
            }
        }
    }

    /// True without a row.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The one program of its tables.
    fn only_program(&self) -> Option<&[u8]> {
        let all: BTreeSet<&[u8]> = self.rows.keys().map(|series| &*series.program).collect();
        (all.len() == 1).then(|| all.first().copied()).flatten()
    }

    fn median_factor(&self) -> Option<f64> {
        let all: Vec<f64> = self.factors.values().flatten().copied().collect();
        Quartiles::from_values(&all).map(|factors| factors.median)
    }

    /// Gives tables without a name the name of the other run's, if both have one program. Returns
    /// false where their bandwidths show that it is another.
    fn take_name_of(&mut self, other: &BenchmarkRows) -> bool {
        let (Some(b""), Some(name)) = (self.only_program(), other.only_program()) else {
            return true;
        };
        if name.is_empty() {
            return true;
        }
        let same_ranks = self.ranks == other.ranks;
        if let (true, Some(own), Some(theirs)) =
            (same_ranks, self.median_factor(), other.median_factor())
            && is_beyond(own, theirs, 0.05)
        {
            return false;
        }
        let rows = std::mem::take(&mut self.rows).into_iter();
        let named = |(series, rows)| {
            let program = name.into();
            (BenchmarkSeries { program, ..series }, rows)
        };
        self.rows = rows.map(named).collect();
        true
    }
}

/// The change of a row.
struct RowChange<'a> {
    series: &'a BenchmarkSeries,
    at: SizePlace,
    is_bandwidth: bool,
    a: f64,
    b: f64,
    /// One measurement on each side.
    is_single: bool,
    is_changed: bool,
    /// None of the rows beside it changed as it did, and there are such rows.
    is_alone: bool,
}

impl RowChange<'_> {
    fn of_row<'a>(
        series: &'a BenchmarkSeries,
        at: SizePlace,
        sides: (&RowTimes, &RowTimes),
        tolerance: f64,
    ) -> Option<RowChange<'a>> {
        let both = |of: fn(&RowTimes) -> &[f64]| {
            let quartiles = |side| Quartiles::from_values(of(side));
            quartiles(sides.0).zip(quartiles(sides.1))
        };
        let bandwidth =
            both(|side| &side.busbw).filter(|(a, b)| a.median.min(b.median) >= MIN_COMPARED_BUSBW);
        let is_bandwidth = bandwidth.is_some();
        let (a, b) = bandwidth.or_else(|| both(|side| &side.time_us))?;
        Some(RowChange {
            series,
            at,
            is_bandwidth,
            a: a.median,
            b: b.median,
            is_single: sides.0.time_us.len() <= 1 && sides.1.time_us.len() <= 1,
            is_changed: a.differs(&b, tolerance),
            is_alone: false,
        })
    }

    /// True if the second run is slower.
    fn is_slower(&self) -> bool {
        (self.b < self.a) == self.is_bandwidth
    }

    fn to_row(&self, order: usize) -> DiffRow {
        let (place, size) = self.at;
        let subject = format!(
            "{} {} {}",
            self.series.name_series(),
            format_whole_size(size),
            PLACEMENTS[place.min(1)]
        );
        let aspect = match self.is_bandwidth {
            true => DiffAspect::BusBandwidth,
            false => DiffAspect::CallTime,
        };
        let (a, b) = (DiffValue::Printed(self.a), DiffValue::Printed(self.b));
        DiffRow {
            basis: match (self.is_single, self.is_alone) {
                (true, false) => "one run each",
                (true, true) => "one run each, alone: may be noise",
                (false, false) => "median of runs",
                (false, true) => "median of runs, alone: may be noise",
            },
            // By size, not by the size of the change.
            weight: -(order as f64),
            ..DiffRow::new(aspect, subject, a, b)
        }
    }
}

/// Compares the tables of two runs, and reports the outcome in a sentence for each operation.
pub(super) fn compare_benchmarks(
    a: &BenchmarkRows,
    b: &BenchmarkRows,
    tolerance: f64,
    report: &Report,
    rows: &mut Vec<DiffRow>,
) {
    if a.is_empty() || b.is_empty() {
        return;
    }
    let (mut a, mut b) = (a.clone(), b.clone());
    if !a.take_name_of(&b.clone()) || !b.take_name_of(&a) {
        report.note(
            "the tables of nccl-tests are not compared: only one names its operation, and the \
             other's bandwidths are not of that operation",
        );
        return;
    }
    let mut changes = Vec::new();
    let mut lacking = 0;
    for (series, own) in &a.rows {
        let Some(theirs) = b.rows.get(series) else {
            lacking += own.len();
            continue;
        };
        for (at, times) in own {
            let theirs = theirs.get(at);
            lacking += usize::from(theirs.is_none());
            changes.extend(
                theirs.and_then(|other| RowChange::of_row(series, *at, (times, other), tolerance)),
            );
        }
    }
    let only_b = b.rows.iter().flat_map(|(series, rows)| {
        let own = a.rows.get(series);
        rows.keys()
            .filter(move |at| own.is_none_or(|own| !own.contains_key(at)))
    });
    lacking += only_b.count();
    if a.ranks != b.ranks && !a.ranks.is_empty() && !b.ranks.is_empty() {
        let text = |ranks: &BTreeSet<u64>| {
            let all: Vec<String> = ranks.iter().map(u64::to_string).collect();
            DiffValue::Text(all.join("; ").into_bytes())
        };
        let subject = "ranks of nccl-tests";
        let row = DiffRow::new(DiffAspect::Job, subject, text(&a.ranks), text(&b.ranks));
        rows.push(row);
    }
    mark_lone_changes(&mut changes);
    for own in changes.chunk_by(|one, next| one.series == next.series) {
        report.note(&describe_series(own, tolerance));
    }
    if lacking > 0 {
        report.note(&format!(
            "rows of nccl-tests that only one of the two has: {lacking}; they are not compared"
        ));
    }
    let changed = changes.iter().enumerate().filter(|(_, row)| row.is_changed);
    rows.extend(changed.map(|(order, row)| row.to_row(order)));
}

/// Marks the changes of rows with neighbours that did not change so: the next smaller and the next larger
/// size, and the other placement. `changes` are in the order of series, placement and size.
fn mark_lone_changes(changes: &mut [RowChange<'_>]) {
    let find_alone = |at: usize, row: &RowChange<'_>| {
        let along = |at: usize| {
            let beside = changes.get(at)?;
            (beside.series == row.series && beside.at.0 == row.at.0).then_some(beside)
        };
        let other = (row.series, (1 - row.at.0.min(1), row.at.1));
        let other = changes.binary_search_by(|row| (row.series, row.at).cmp(&other));
        let beside = [
            at.checked_sub(1).and_then(along),
            along(at + 1),
            other.ok().and_then(|at| changes.get(at)),
        ];
        let mut beside = beside.into_iter().flatten().peekable();
        beside.peek().is_some()
            && !beside.any(|near| near.is_changed && near.is_slower() == row.is_slower())
    };
    let all = changes.iter().enumerate();
    let alone: Vec<bool> = all
        .map(|(at, row)| row.is_changed && find_alone(at, row))
        .collect();
    for (row, is_alone) in changes.iter_mut().zip(alone) {
        row.is_alone = is_alone;
    }
}

/// The outcome for the rows of one operation in a sentence.
fn describe_series(rows: &[RowChange<'_>], tolerance: f64) -> String {
    let changed = || rows.iter().filter(|row| row.is_changed);
    let alone = changed().filter(|row| row.is_alone).count();
    let slower = changed().filter(|row| row.is_slower()).count();
    let faster = changed().count() - slower;
    let sure = |slower| changed().any(|row| row.is_slower() == slower && !row.is_alone);
    let percent = (tolerance * 1e6).round() / 1e4;
    let all = rows.len();
    let head = match (sure(true), sure(false)) {
        (true, false) => format!("B is slower in {slower} of {all} rows"),
        (false, true) => format!("B is faster in {faster} of {all} rows"),
        (true, true) => format!("B is slower in {slower} and faster in {faster} of {all} rows"),
        (false, false) if alone == 0 => format!("none of {all} rows differs"),
        (false, false) => format!("{alone} of {all} rows differ"),
    };
    let name = rows.first().map(|row| row.series.name_series());
    let name = name.unwrap_or_default();
    let mut text = format!("nccl-tests, {name}: {head} by more than {percent} %");
    if alone == slower + faster && alone > 0 {
        text += ", each alone, which may be noise";
    } else if alone > 0 {
        text += &format!(" ({alone} of the rows that differ do so alone, which may be noise)");
    }
    let largest = rows.iter().filter(|row| row.is_bandwidth);
    if let Some(last) = largest.max_by_key(|row| (row.at.1, 1 - row.at.0.min(1))) {
        text += &format!(
            "; bus bandwidth at {} {}: A {} GB/s, B {} GB/s",
            format_whole_size(last.at.1),
            PLACEMENTS[last.at.0.min(1)],
            last.a,
            last.b
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::nccl_tests::BenchmarkValues;

    /// A run of all_reduce with these bus bandwidths out of place, from 1 MiB on.
    fn run(program: Option<&str>, busbw: &[f64]) -> BenchmarkRows {
        let row = |(at, busbw): (u32, &f64)| BenchmarkRow {
            line: u64::from(at),
            size: 1 << (20 + at),
            datatype: b"float"[..].into(),
            redop: b"sum"[..].into(),
            root: None,
            values: [
                Some(BenchmarkValues {
                    time_us: Some(100.0 / busbw),
                    algbw: Some(busbw / 1.75),
                    busbw: Some(*busbw),
                    wrong: None,
                }),
                None,
            ],
        };
        let mut rows = BenchmarkRows::default();
        rows.add_tables(vec![BenchmarkTable {
            line: 0,
            program: program.map(|name| name.as_bytes().into()),
            setup: None,
            ranks: 8,
            rows: (0..).zip(busbw).map(row).collect(),
            begun: None,
            out_of_bounds: None,
            average: None,
            failed: false,
            is_cut: false,
            lacks_header: false,
        }]);
        rows
    }

    /// The rows and the notes.
    fn diff(a: &BenchmarkRows, b: &BenchmarkRows) -> (Vec<String>, Vec<String>) {
        let report = {
            let mut report = Report::of_section();
            report.keep_messages();
            report
        };
        let mut rows = Vec::new();
        compare_benchmarks(a, b, 0.10, &report, &mut rows);
        let row =
            |row: &DiffRow| format!("{} {}", String::from_utf8_lossy(&row.subject), row.basis);
        let notes = report.messages().iter().map(|m| format!("{m:?}")).collect();
        (rows.iter().map(row).collect(), notes)
    }

    #[test]
    fn rows_that_change_together_are_told_from_one_that_changes_alone() {
        let a = run(Some("all_reduce"), &[10.0, 20.0, 30.0, 40.0, 50.0]);
        let (rows, notes) = diff(&a, &run(None, &[7.0, 20.0, 30.0, 20.0, 25.0]));
        assert_eq!(
            rows,
            [
                "all_reduce float sum 1 MiB out of place one run each, alone: may be noise",
                "all_reduce float sum 8 MiB out of place one run each",
                "all_reduce float sum 16 MiB out of place one run each",
            ]
        );
        assert!(
            notes[0].contains("B is slower in 3 of 5 rows by more than 10 %"),
            "{notes:?}"
        );
        assert!(
            notes[0].contains("at 16 MiB out of place: A 50 GB/s, B 25 GB/s"),
            "{notes:?}"
        );
        let (rows, notes) = diff(&a, &run(Some("all_reduce"), &[10.5, 20.0, 30.0, 40.0]));
        assert_eq!(rows, [""; 0]);
        assert!(notes[0].contains("none of 4 rows differs"), "{notes:?}");
        assert!(
            notes[1].contains("only one of the two has: 1;"),
            "{notes:?}"
        );
    }

    #[test]
    fn other_operations_are_not_compared() {
        let a = run(Some("all_reduce"), &[10.0, 20.0]);
        let (rows, notes) = diff(&a, &run(Some("all_gather"), &[5.0, 6.0]));
        assert_eq!(rows, [""; 0]);
        assert!(notes[0].contains("has: 4;"), "{notes:?}");
    }
}
