//! The findings on HCCL's own reports of errors, by the table `hccl_faults.txt`.

use super::{WatchdogMessage, WatchdogRecord, describe_on_ranks, describe_ranks};
use crate::grammar::message::hccl::HcclReport;
use crate::stages::check::finding::{About, Confidence, Finding, Kind};
use crate::stages::check::warn::known_warns::contains_pattern;
use crate::stages::check::wording::quote_text;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// NCCL's settings do nothing for HCCL.
pub(super) const TIMEOUT_ADVICE: &str = "look at the ranks that are behind the others or silent, and at each rank's own log (plog, in \
     ASCEND_PROCESS_LOG_PATH or ~/ascend/log); with ASCEND_GLOBAL_LOG_LEVEL=1 it has more; HCCL's own limits are \
     HCCL_CONNECT_TIMEOUT and HCCL_EXEC_TIMEOUT";

/// A report of an error.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct HcclError {
    /// The row of the table.
    row: usize,
    /// Ascend's code; empty in HCCL's own log.
    code: Box<[u8]>,
    /// The result of HCCL's function.
    result: Option<u32>,
    /// The rank at the other end.
    remote: Option<u32>,
    /// The addresses of the two ends.
    addresses: Option<[Box<[u8]>; 2]>,
}

impl HcclError {
    /// Reads a report; `None` for a line of HCCL's own log that reports nothing.
    pub(super) fn from_report(report: &HcclReport<'_>) -> Option<HcclError> {
        let has_text = |row: &HcclRow| row.texts.iter().any(|t| contains_pattern(report.text, t));
        let has_code = |row: &HcclRow| {
            let mut codes = row.codes.split(' ');
            report
                .code
                .is_some_and(|own| codes.any(|code| code.as_bytes() == own))
        };
        let known = HCCL_ROWS
            .iter()
            .take(HCCL_ROWS.len() - 1)
            .position(has_text);
        let row = known.or_else(|| HCCL_ROWS.iter().position(has_code));
        let is_failure = || {
            let words = ["fail", "error", "errNo", "timeout", " -> "];
            report.code.is_some() || words.iter().any(|word| contains_pattern(report.text, word))
        };
        Some(HcclError {
            row: row.or_else(|| is_failure().then(|| HCCL_ROWS.len() - 1))?,
            code: report.code.unwrap_or_default().into(),
            result: report.result,
            remote: report.remote,
            addresses: report
                .addresses
                .map(|(own, other)| [own.into(), other.into()]),
        })
    }
}

/// Whether the rank that reports an error is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HcclRole {
    Wait,
    Link,
    Cause,
    Inner,
}

/// A row of the table.
#[derive(Debug)]
struct HcclRow {
    role: HcclRole,
    codes: &'static str,
    texts: Vec<&'static str>,
    means: &'static str,
    advice: &'static str,
}

static HCCL_ROWS: LazyLock<Vec<HcclRow>> = LazyLock::new(|| {
    let blocks = include_str!("hccl_faults.txt").split("\n\n");
    blocks.filter_map(read_row).collect()
});

/// Reads a block of the table.
fn read_row(block: &'static str) -> Option<HcclRow> {
    let mut lines = block.lines().filter(|line| !line.starts_with('#'));
    let role = match lines.next()? {
        "wait" => HcclRole::Wait,
        "link" => HcclRole::Link,
        "cause" => HcclRole::Cause,
        "inner" => HcclRole::Inner,
        _ => return None,
    };
    let mut row = HcclRow {
        role,
        codes: "",
        texts: Vec::new(),
        means: "",
        advice: "",
    };
    for (name, value) in lines.filter_map(|line| line.split_once(' ')) {
        match name {
            "code" => row.codes = value,
            "text" => row.texts.push(value),
            "means" => row.means = value,
            "do" => row.advice = value,
            _ => {}
        }
    }
    Some(row)
}

/// A line and what it reports.
type HcclLine<'a> = (&'a WatchdogRecord, &'a HcclError);

/// Makes one finding for each kind of error; of lines without a known reason only if there is no other.
pub(super) fn find_hccl_errors(records: &[WatchdogRecord]) -> Vec<Finding> {
    let mut rows: BTreeMap<usize, Vec<HcclLine<'_>>> = BTreeMap::new();
    for record in records {
        if let WatchdogMessage::Hccl(error) = &record.what {
            rows.entry(error.row).or_default().push((record, error));
        }
    }
    let has_reason = |row: &usize| HCCL_ROWS[*row].role != HcclRole::Inner;
    let is_timeout = |record: &WatchdogRecord| matches!(record.what, WatchdogMessage::Timeout(_));
    if rows.keys().any(has_reason) || records.iter().any(is_timeout) {
        rows.retain(|row, _| has_reason(row));
    }
    let each = rows.into_iter();
    each.map(|(row, lines)| hccl_finding(&HCCL_ROWS[row], &lines))
        .collect()
}

fn hccl_finding(row: &HcclRow, lines: &[HcclLine<'_>]) -> Finding {
    let own: BTreeSet<u32> = lines
        .iter()
        .filter_map(|(line, _)| line.known_rank())
        .collect();
    let on = describe_on_ranks(&own);
    let means = row.means;
    let (kind, sure, rank, says) = match row.role {
        HcclRole::Wait => {
            let missing = missing_ranks(lines, &own);
            let whom = match missing.is_empty() {
                true => "; the lines do not name the rank that was missing".to_owned(),
                false => format!("; it was {} that did not come", describe_ranks(&missing)),
            };
            let rank = missing.first().copied().filter(|_| missing.len() == 1);
            let says = format!("HCCL's {means} timed out{on}{whom}");
            (Kind::WatchdogTimeout, Confidence::High, rank, says)
        }
        HcclRole::Link => {
            let ends = lines
                .iter()
                .find_map(|(line, error)| describe_ends(line, error));
            let says = format!("HCCL reports{}: {means}", ends.unwrap_or(on));
            (Kind::HcclError, Confidence::Medium, None, says)
        }
        HcclRole::Cause => {
            let rank = own.first().copied().filter(|_| own.len() == 1);
            let says = format!("HCCL reports{on}: {means}");
            (Kind::HcclError, Confidence::High, rank, says)
        }
        HcclRole::Inner => {
            let result = lines.iter().find_map(|(_, error)| error.result);
            let result = result.map_or(String::new(), |result| {
                format!(" (result {result}: {})", name_hccl_result(result))
            });
            let says =
                format!("HCCL reports {means}{on}{result}; no line gives a reason that is known");
            (Kind::HcclError, Confidence::Low, None, says)
        }
    };
    let code = lines.iter().find(|(_, error)| !error.code.is_empty());
    Finding {
        about: About::of_rank(rank),
        why: match code {
            Some((_, error)) => format!("HCCL's lines report it ({})", quote_text(&error.code)),
            None => "HCCL's lines report it".to_owned(),
        },
        advice: row.advice.to_owned(),
        evidence: lines
            .iter()
            .take(3)
            .map(|(line, _)| line.to_evidence())
            .collect(),
        ..Finding::of_kind(kind, sure, says)
    }
}

/// The ranks that did not come, without those that wait themselves: these are not the first that were missing.
fn missing_ranks(lines: &[HcclLine<'_>], waiting: &BTreeSet<u32>) -> BTreeSet<u32> {
    let missing: BTreeSet<u32> = lines.iter().filter_map(|(_, error)| error.remote).collect();
    let first: BTreeSet<u32> = missing.difference(waiting).copied().collect();
    if first.is_empty() { missing } else { first }
}

/// ` between rank 7 (10.0.0.39) and rank 15 (10.0.0.67)`.
fn describe_ends(line: &WatchdogRecord, error: &HcclError) -> Option<String> {
    let (own, other) = (line.known_rank()?, error.remote?);
    let at = |address: Option<&[u8]>| {
        address.map_or(String::new(), |address| {
            format!(" ({})", quote_text(address))
        })
    };
    let addresses = error.addresses.as_ref();
    let near = at(addresses.map(|[near, _]| &**near));
    let far = at(addresses.map(|[_, far]| &**far));
    Some(format!(" between rank {own}{near} and rank {other}{far}"))
}

/// Names a result of HCCL's functions, by `HcclResult`.
fn name_hccl_result(result: u32) -> &'static str {
    const NAMES: [&str; 23] = [
        "success",
        "parameter error",
        "empty pointer",
        "memory error",
        "internal error",
        "not supported",
        "not found",
        "resource unavailable",
        "a call of the system failed",
        "timeout",
        "a file could not be opened",
        "a TCP connection failed",
        "a RoCE connection failed",
        "a TCP transfer failed",
        "a RoCE transfer failed",
        "a call of the runtime failed",
        "a call of the driver failed",
        "a call of the profiler failed",
        "a call of CCE failed",
        "a call of the network failed",
        "try again",
        "an error CQE",
        "the communicator is suspended",
    ];
    NAMES
        .get(result as usize)
        .copied()
        .unwrap_or("an unknown result")
}

#[cfg(test)]
mod tests {
    use super::super::Watchdog;
    use super::*;
    use crate::grammar::message::c10d::parse_c10d_line;
    use crate::stages::net::net_stage::FirstReportLine;

    fn find(lines: &[&str]) -> Vec<(Kind, Option<u32>, String)> {
        let mut watchdog = Watchdog::default();
        for (number, line) in (0..).zip(lines) {
            let what = parse_c10d_line(line.as_bytes()).unwrap();
            watchdog.take_line(line.as_bytes(), &what, FirstReportLine::in_chunk(number));
        }
        let findings = find_hccl_errors(watchdog.kept_records());
        let each = findings.into_iter();
        each.map(|f| (f.kind, f.about.rank, f.says)).collect()
    }

    #[test]
    fn every_row_is_read() {
        let text = include_str!("hccl_faults.txt");
        let means = text.lines().filter(|line| line.starts_with("means "));
        assert_eq!(means.count(), HCCL_ROWS.len());
        assert!(HCCL_ROWS.iter().all(|row| !row.advice.is_empty()));
        assert_eq!(HCCL_ROWS.last().map(|row| row.role), Some(HcclRole::Inner));
    }

    #[test]
    fn a_chain_of_waits_ends_at_the_rank_that_waits_for_nobody() {
        let wait = |own, other| {
            format!(
                "EI0002: [PID: 7] The wait execution of the Notify register times out. remote rank: [{other}]. \
                 group information: [group:[x], rankSize[32], rankId[{own} {other}]]"
            )
        };
        let found = find(&[&wait(25, 24), &wait(24, 23)]);
        let says =
            "HCCL's wait in a call timed out on ranks 24-25; it was rank 23 that did not come";
        assert_eq!(found, [(Kind::WatchdogTimeout, Some(23), says.to_owned())]);
    }

    #[test]
    fn the_most_specific_report_decides() {
        let plog = "[ERROR] HCCL(8,):2026-06-17-02:21:43.8 [a.cc:9] [7]";
        let trace = format!("{plog}[Alloc]call trace: hcclRet -> 4");
        let link = format!(
            "{plog}Transport init error! createLink para:rank[2]-localUserrank[2]-localIpAddr[10.0.0.9/7], remoteRank[3]-\
             remoteUserrank[3]-remoteIpAddr[10.0.0.8/7]"
        );
        let found = find(&[&trace, &link]);
        let says = "HCCL reports between rank 2 (10.0.0.9) and rank 3 (10.0.0.8): a connection could not be set up";
        assert_eq!(found, [(Kind::HcclError, None, says.to_owned())]);
        let says = "HCCL reports an error (result 4: internal error); no line gives a reason that is known";
        assert_eq!(find(&[&trace]), [(Kind::HcclError, None, says.to_owned())]);
        let waits = find(&[
            "EI9999: 2024-10-21-10:42:00.3  hccl fftsplus task timeout occurred during task execution",
        ]);
        assert_eq!(waits[0].0, Kind::WatchdogTimeout);
        let port = format!(
            "{plog}[Listen] listen on ip[10.0.0.1] and specific port[16666] fail. Please check"
        );
        assert!(find(&[&port])[0].2.ends_with("cannot be used"));
    }
}
