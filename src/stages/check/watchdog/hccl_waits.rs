//! Findings on HCCL's own reports that a rank waited too long for another.

use super::{WatchdogMessage, WatchdogRecord, describe_ranks};
use crate::grammar::message::hccl::HcclWait;
use crate::stages::check::finding::{About, Confidence, Finding, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// Makes one finding for each kind of wait.
pub(super) fn find_hccl_waits(records: &[WatchdogRecord]) -> Vec<Finding> {
    let mut waits: BTreeMap<HcclWait, Vec<(&WatchdogRecord, Option<u32>)>> = BTreeMap::new();
    for record in records {
        if let WatchdogMessage::Hccl { wait, missing } = record.what {
            waits.entry(wait).or_default().push((record, missing));
        }
    }
    let each = waits.into_iter();
    each.map(|(wait, lines)| hccl_wait_finding(wait, &lines))
        .collect()
}

fn hccl_wait_finding(wait: HcclWait, lines: &[(&WatchdogRecord, Option<u32>)]) -> Finding {
    let waiting: BTreeSet<u32> = lines
        .iter()
        .filter_map(|(line, _)| line.known_rank())
        .collect();
    let missing: BTreeSet<u32> = lines.iter().filter_map(|(_, missing)| *missing).collect();
    // A rank that itself waits for another is not the first that was missing.
    let first: BTreeSet<u32> = missing.difference(&waiting).copied().collect();
    let missing = if first.is_empty() { missing } else { first };
    let on = match waiting.is_empty() {
        true => String::new(),
        false => format!(" on {}", describe_ranks(&waiting)),
    };
    let what = match wait {
        HcclWait::Call => "wait in a call",
        HcclWait::Connection => "connection to another rank",
    };
    let whom = match missing.is_empty() {
        true => "; the lines do not name the rank that was missing".to_owned(),
        false => format!("; it was {} that did not come", describe_ranks(&missing)),
    };
    Finding {
        about: About::of_rank(missing.first().copied().filter(|_| missing.len() == 1)),
        why: format!("HCCL's lines report it ({})", wait.code()),
        advice: "look at the first error of the ranks that did not come, or did not print such a line; if all \
                 print one, compare the times of the first and the last: HCCL_EXEC_TIMEOUT and \
                 HCCL_CONNECT_TIMEOUT are the limits"
            .to_owned(),
        evidence: lines.iter().take(3).map(|(line, _)| line.to_evidence()).collect(),
        ..Finding::of_kind(
            Kind::WatchdogTimeout,
            Confidence::High,
            format!("HCCL's {what} timed out{on}{whom}"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::Watchdog;
    use super::find_hccl_waits;
    use crate::grammar::message::c10d::parse_c10d_line;
    use crate::stages::net::net_stage::FirstReportLine;

    #[test]
    fn a_chain_of_waits_ends_at_the_rank_that_waits_for_nobody() {
        let mut watchdog = Watchdog::default();
        for (number, (own, other)) in (0..).zip([(25, 24), (24, 23)]) {
            let line = format!(
                "EI0002: [PID: 7] The wait execution of the Notify register times out. remote rank: [{other}]. \
                 group information: [group:[x], rankSize[32], rankId[{own} {other}]]"
            );
            let what = parse_c10d_line(line.as_bytes()).unwrap();
            watchdog.take_line(line.as_bytes(), &what, FirstReportLine::in_chunk(number));
        }
        let findings = find_hccl_waits(watchdog.kept_records());
        let [finding] = &findings[..] else {
            panic!("{findings:?}");
        };
        assert_eq!(finding.about.rank, Some(23));
        assert_eq!(
            finding.says,
            "HCCL's wait in a call timed out on ranks 24-25; it was rank 23 that did not come"
        );
    }
}
