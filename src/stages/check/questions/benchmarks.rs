//! What nccl-tests itself reports: wrong results, a table without rows or without an end, and a
//! bandwidth below the one asked for.

use crate::stages::benchmark::{BenchmarkTable, PLACEMENTS, format_whole_size};
use crate::stages::check::finding::{Confidence, Evidence, Finding, Kind};
use crate::stages::check::ranks::stopped::JobLiveness;
use crate::stages::check::walk::WalkedInput;
use crate::stages::check::wording::{list_names, number_and_noun};
use std::collections::BTreeSet;

/// Returns the findings on the tables of each input. Where the job runs, the end of a table shows
/// nothing.
pub(in crate::stages::check) fn find_benchmark_faults(
    inputs: &[WalkedInput],
    now: JobLiveness,
) -> Vec<Finding> {
    let of_input = |(number, input): (u32, &WalkedInput)| {
        let tables = input.benchmarks.iter();
        let mut findings: Vec<Finding> = tables
            .flat_map(|table| {
                let of = JudgedTable {
                    table,
                    number,
                    input,
                };
                of.find_wrong_results()
                    .into_iter()
                    .chain(of.find_low_bandwidth())
            })
            .collect();
        // Later tables show that a job went on after one that has no end; and where every process
        // prints its own table, the rows of all follow the last header.
        findings.extend(
            input
                .benchmarks
                .last()
                .filter(|_| now != JobLiveness::Running)
                .and_then(|table| {
                    let of = JudgedTable {
                        table,
                        number,
                        input,
                    };
                    of.find_early_end()
                }),
        );
        findings
    };
    (0..).zip(inputs).flat_map(of_input).collect()
}

/// Returns what the tables show, for a log that has nothing else: how many sizes had right results.
/// `None` without a table.
pub(in crate::stages::check) fn describe_tables(inputs: &[WalkedInput]) -> Option<String> {
    let tables = || inputs.iter().flat_map(|input| &input.benchmarks);
    tables().next()?;
    let wrong = tables()
        .flat_map(|table| &table.rows)
        .flat_map(|row| &row.values);
    let checked = wrong.flatten().filter_map(|values| values.wrong);
    let (mut right, mut bad) = (0_u64, 0_u64);
    for wrong in checked {
        match wrong > 0.0 {
            true => bad += 1,
            false => right += 1,
        }
    }
    let tables = number_and_noun(tables().count() as u64, "table");
    let results = match right + bad {
        0 => "no result was checked".to_owned(),
        all => format!(
            "{right} of {} right",
            number_and_noun(all, "checked result")
        ),
    };
    let without = match inputs
        .iter()
        .flat_map(|input| &input.benchmarks)
        .any(|table| table.lacks_header)
    {
        true => " (its header is missing; the rows show the columns)",
        false => "",
    };
    Some(format!("{tables} of nccl-tests{without}, {results}"))
}

/// A table with its input.
struct JudgedTable<'a> {
    table: &'a BenchmarkTable,
    number: u32,
    input: &'a WalkedInput,
}

impl JudgedTable<'_> {
    fn describe_name(&self) -> String {
        match &self.table.program {
            Some(name) => format!("nccl-tests' {}", String::from_utf8_lossy(name)),
            None => "nccl-tests".to_owned(),
        }
    }

    fn line_evidence(&self, line: u64) -> Evidence {
        self.input.line_evidence(self.number, line)
    }

    fn find_wrong_results(&self) -> Option<Finding> {
        let (mut sizes, mut all) = (BTreeSet::new(), BTreeSet::new());
        let (mut placed, mut most, mut lines) = ([false; 2], 0.0_f64, Vec::new());
        let mut calls = BTreeSet::new();
        for row in &self.table.rows {
            all.insert(row.size);
            for (at, values) in row.values.iter().enumerate() {
                let Some(wrong) = values.and_then(|v| v.wrong).filter(|wrong| *wrong > 0.0) else {
                    continue;
                };
                (placed[at], most) = (true, most.max(wrong));
                sizes.insert(row.size);
                lines.push(row.line);
                calls.insert(
                    [&row.datatype[..], b" ", &row.redop]
                        .concat()
                        .trim_ascii()
                        .to_vec(),
                );
            }
        }
        lines.dedup();
        let failed = self.table.out_of_bounds.filter(|verdict| verdict.failed);
        let verdict = match &failed {
            Some(verdict) => format!(
                "{} out of bounds, FAILED",
                number_and_noun(verdict.value, "value")
            ),
            None => String::new(),
        };
        let says = match (sizes.first(), sizes.last()) {
            (Some(&first), Some(&last)) => {
                let range = match first == last {
                    true => format_whole_size(first),
                    false => format!(
                        "{} to {}",
                        format_whole_size(first),
                        format_whole_size(last)
                    ),
                };
                let places = PLACEMENTS.iter().zip(placed).filter(|(_, has)| *has);
                let places: Vec<&str> = places.map(|(name, _)| *name).collect();
                let verdict = match verdict.is_empty() {
                    true => verdict,
                    false => format!("; its verdict: {verdict}"),
                };
                format!(
                    "results of {} are wrong at {} of {} ({range}; {}; {}): up to {most} wrong \
                     elements{verdict}",
                    self.describe_name(),
                    sizes.len(),
                    number_and_noun(all.len() as u64, "size"),
                    list_names(calls),
                    places.join(" and "),
                )
            }
            _ if failed.is_some() => {
                format!("results of {} are wrong: {verdict}", self.describe_name())
            }
            _ => return None,
        };
        let lines = lines.into_iter().take(3).chain(failed.map(|v| v.line));
        Some(Finding {
            evidence: lines.map(|line| self.line_evidence(line)).collect(),
            ..Finding::of_kind(Kind::WrongResults, Confidence::High, says)
        })
    }

    fn find_low_bandwidth(&self) -> Option<Finding> {
        let average = self.table.average.filter(|verdict| verdict.failed)?;
        let says = format!(
            "the mean bus bandwidth of {} is {} GB/s, below the minimum that it was given",
            self.describe_name(),
            average.value
        );
        Some(Finding {
            evidence: vec![self.line_evidence(average.line)],
            ..Finding::of_kind(Kind::BenchmarkBelowMinimum, Confidence::High, says)
        })
    }

    /// A table that ends before its last size.
    fn find_early_end(&self) -> Option<Finding> {
        let table = self.table;
        if table.has_ended() {
            return None;
        }
        let last = table.rows.last();
        let setup = table.setup;
        let until = setup.map(|setup| {
            format!(
                "; its sizes are {} to {}",
                format_whole_size(setup.min_bytes),
                format_whole_size(setup.max_bytes)
            )
        });
        let until = until.unwrap_or_default();
        let begun = table.begun.map(|(size, _)| format_whole_size(size));
        let (kind, says) = match (last, &begun) {
            (None, Some(size)) => (
                Kind::BenchmarkNoRow,
                format!(
                    "{} began its first size, {size}, and did not finish it{until}",
                    self.describe_name()
                ),
            ),
            (None, None) => {
                let first = setup.map(|setup| format!(", {}", format_whole_size(setup.min_bytes)));
                (
                    Kind::BenchmarkNoRow,
                    format!(
                        "{} printed the header of its table and no row: it stopped in its warm-up \
                         or at its first size{}{}, unless the rest of its output is missing",
                        self.describe_name(),
                        first.unwrap_or_default(),
                        until
                    ),
                )
            }
            (Some(last), Some(size)) => (
                Kind::BenchmarkUnfinished,
                format!(
                    "{} finished {} and stopped in {size}{until}",
                    self.describe_name(),
                    format_whole_size(last.size)
                ),
            ),
            // Nothing shows that it began another size, unless there is one.
            (Some(last), None) => {
                let more = setup.is_some_and(|setup| last.size < setup.max_bytes);
                let is_half = last.values[1].is_none()
                    && table.rows.iter().any(|row| row.values[1].is_some());
                if !more && !is_half {
                    return None;
                }
                (
                    Kind::BenchmarkUnfinished,
                    format!(
                        "the table of {} ends after {}, without its verdict{until}",
                        self.describe_name(),
                        format_whole_size(last.size)
                    ),
                )
            }
        };
        let line = table.begun.map(|(_, line)| line);
        let lines = line.or(last.map(|row| row.line)).into_iter();
        let lines = lines.chain([table.line]);
        Some(Finding {
            why: "the log ends there; it may also have been copied while the program ran, or cut"
                .to_owned(),
            evidence: lines.map(|line| self.line_evidence(line)).collect(),
            ..Finding::of_kind(kind, Confidence::Medium, says)
        })
    }
}
