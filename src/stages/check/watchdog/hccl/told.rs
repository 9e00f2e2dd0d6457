//! The lines of HCCL's reports, each with its row of the table, the rank that prints it and its values.

use super::{HCCL_ROWS, HcclError, HcclRole};
use crate::grammar::message::hccl::{HcclField, read_hccl_number, read_link_row};
use crate::stages::check::watchdog::{OnlyValues, WatchdogMessage, WatchdogRecord};
use std::collections::BTreeMap;

/// A line and what it reports.
pub(super) struct HcclTold<'a> {
    pub(super) record: &'a WatchdogRecord,
    pub(super) error: &'a HcclError,
    /// The row of the table.
    pub(super) row: usize,
    /// The rank that prints it.
    pub(super) own: Option<u32>,
    fields: Vec<(HcclField, &'a [u8])>,
}

impl<'a> HcclTold<'a> {
    /// The values of a name, mostly one.
    pub(super) fn values(&self, name: HcclField) -> impl Iterator<Item = &'a [u8]> {
        let named = self.fields.iter().filter(move |(field, _)| *field == name);
        named.map(|(_, value)| *value)
    }

    pub(super) fn number(&self, name: HcclField) -> Option<u32> {
        self.values(name).find_map(read_hccl_number)
    }
}

/// Collects the lines, in their order.
pub(super) fn collect_told(records: &[WatchdogRecord]) -> Vec<HcclTold<'_>> {
    let lines: Vec<(&WatchdogRecord, &HcclError)> = records
        .iter()
        .filter_map(|record| match &record.what {
            WatchdogMessage::Hccl(error) => Some((record, error)),
            _ => None,
        })
        .collect();
    let mut tables = LinkTables::default();
    let mut reports = LastReport::default();
    let mut of_process = BTreeMap::new();
    for (_, error) in &lines {
        if let (Some(pid), Some(row)) = (error.pid, error.row) {
            of_process
                .entry(pid)
                .and_modify(|kept: &mut usize| *kept = (*kept).min(row))
                .or_insert(row);
        }
    }
    let mut told: Vec<HcclTold<'_>> = Vec::new();
    for (record, error) in lines {
        let Some(fields) = tables.read_fields(error) else {
            continue;
        };
        let adds = || error.pid.and_then(|pid| of_process.get(&pid).copied());
        if let Some(row) = reports.find_row(record, error).or_else(adds) {
            told.push(HcclTold {
                record,
                error,
                row,
                own: None,
                fields,
            });
        }
    }
    name_ranks(&mut told);
    told
}

/// Names the rank of each line: its own, or the only one that other lines of its process name.
fn name_ranks(told: &mut [HcclTold<'_>]) {
    let mut ranks = OnlyValues::default();
    for line in told.iter_mut() {
        line.own = line
            .record
            .known_rank()
            .or_else(|| line.number(HcclField::OwnRank));
        if let (Some(pid), Some(own)) = (line.error.pid, line.own) {
            ranks.add(pid, own);
        }
    }
    for line in told {
        line.own = line.own.or_else(|| ranks.get(&line.error.pid?));
    }
}

/// The tables of connections that processes print.
#[derive(Default)]
struct LinkTables<'a> {
    heads: BTreeMap<Option<u32>, &'a [u8]>,
}

impl<'a> LinkTables<'a> {
    /// The values of a line; those of a table's row by the names of its columns. `None` for a row of a connection that
    /// exists, and for one without its head.
    fn read_fields(&mut self, error: &'a HcclError) -> Option<Vec<(HcclField, &'a [u8])>> {
        let mut fields = Vec::new();
        for (field, value) in &error.fields {
            match field {
                HcclField::TableHead => {
                    self.heads.insert(error.pid, value);
                }
                HcclField::TableRow => {
                    let head = self.heads.get(&error.pid)?;
                    fields.extend(read_link_row(head, value)?);
                }
                _ => fields.push((*field, &**value)),
            }
        }
        Some(fields)
    }
}

/// The report before a line: the rank of its label and its row.
#[derive(Default)]
struct LastReport(Option<(Option<u32>, usize)>);

impl LastReport {
    /// The row of a line. A part of a report has that of the report, if the part has no cause of its own.
    fn find_row(&mut self, record: &WatchdogRecord, error: &HcclError) -> Option<usize> {
        let label = record.known_rank();
        if !error.is_part {
            let row = error.row?;
            self.0 = Some((label, row));
            return Some(row);
        }
        let is_of = |(other, _): &(Option<u32>, usize)| label.is_none() || label == *other;
        let of_report = self.0.filter(is_of).map(|(_, row)| row);
        // The runtime has such texts for other libraries, too.
        if of_report.is_none()
            && error
                .fields
                .iter()
                .any(|(field, _)| *field == HcclField::Reason)
        {
            return None;
        }
        let is_cause = matches!(error.role(), Some(HcclRole::Lost | HcclRole::Cause));
        match of_report {
            Some(row) if !is_cause && HCCL_ROWS[row].role != HcclRole::Inner => Some(row),
            _ => error.row.or(of_report),
        }
    }
}
