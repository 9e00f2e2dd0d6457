//! Ranks that wait in different calls of one number: the watchdog's lines are calls of ranks.

use super::timed_out::{TimedOutWait, collect_waits, describe_timed_out_call};
use super::{TimedOutCall, WatchdogRecord, describe_ranks};
use crate::calls::compare::group_members;
use crate::stages::check::finding::{About, Confidence, Finding, Kind, Reason, Severity};
use crate::stages::check::ranks::mismatch::difference_kind;
use crate::stages::check::wording::{quote_text, verb_form};
use std::collections::{BTreeMap, BTreeSet};

/// A finding on different calls, and its calls as a clause for another finding of the same cause.
pub(in crate::stages::check) struct WatchdogMismatch {
    finding: Finding,
    clause: String,
}

/// Finds the first call that timed out in which ranks of one process group differ.
pub(in crate::stages::check) fn find_mismatch(
    records: &[WatchdogRecord],
) -> Option<WatchdogMismatch> {
    let are_groups_named = are_groups_named(records);
    let waits = collect_waits(records);
    let mut comparable = waits
        .iter()
        .filter(|wait| wait.group.is_some() || !are_groups_named);
    comparable
        .find_map(mismatch_of_wait)
        .or_else(|| find_mismatch_in_sole_group(records))
}

/// Where lines name one group and others none, all may be about that one.
fn find_mismatch_in_sole_group(records: &[WatchdogRecord]) -> Option<WatchdogMismatch> {
    let groups: BTreeSet<&[u8]> = records.iter().filter_map(|r| r.group.as_deref()).collect();
    let is_other_rank = |r: &WatchdogRecord| r.rank.zip(r.global).is_some_and(|(a, b)| a != b);
    if groups.len() != 1 || records.iter().any(is_other_rank) {
        return None;
    }
    let mut nameless = records.to_vec();
    nameless.iter_mut().for_each(|record| record.group = None);
    collect_waits(&nameless).iter().find_map(mismatch_of_wait)
}

/// True if lines show that the job has several process groups: lines that name none may be of any.
fn are_groups_named(records: &[WatchdogRecord]) -> bool {
    records.iter().any(|record| {
        let is_other_rank = record.global.is_some() && record.rank != record.global;
        record.group.is_some() || is_other_rank && record.rank.is_some()
    })
}

fn mismatch_of_wait(wait: &TimedOutWait<'_>) -> Option<WatchdogMismatch> {
    // Calls without a number may be any.
    let seq = wait.seq?;
    let mut calls: BTreeMap<u32, (&WatchdogRecord, &TimedOutCall)> = BTreeMap::new();
    for &(record, timeout) in &wait.timeouts {
        if let (Some(rank), false) = (record.known_rank(), timeout.is_message()) {
            calls.entry(rank).or_insert((record, timeout));
        }
    }
    let contents = calls
        .iter()
        .map(|(&rank, (_, timeout))| (rank, timeout.content()));
    let groups = group_members(contents);
    let [(usual, others), (content, odd), ..] = &groups[..] else {
        return None;
    };
    let is_odd_known = others.len() > odd.len();
    let rank = odd
        .first()
        .copied()
        .filter(|_| is_odd_known && odd.len() == 1);
    // The ranks in the minority come first.
    let sides = groups.iter().rev().filter_map(|(_, ranks)| {
        let (record, timeout) = calls.get(ranks.first()?)?;
        let named = describe_ranks(&ranks.iter().copied().collect::<BTreeSet<u32>>());
        let call = describe_timed_out_call(timeout);
        let wait = verb_form(ranks.len(), "waits", "wait");
        Some((format!("{named} {wait} in {call}"), record.to_evidence()))
    });
    let (sides, evidence): (Vec<String>, Vec<_>) = sides.unzip();
    let clause = format!("call {seq} differs: {}", sides.join(", "));
    let group = wait.group.map_or_else(String::new, |group| {
        format!(" of process group {}", quote_text(group))
    });
    let sure = match wait.group {
        Some(_) => Confidence::High,
        None => Confidence::Medium,
    };
    let says = format!(
        "PyTorch's call {seq}{group} differs between ranks: {}",
        sides.join(", ")
    );
    let finding = Finding {
        about: About::of_pytorch_call(rank, seq),
        why: match wait.group {
            Some(_) => "the watchdog's lines of these ranks name different calls".to_owned(),
            None => "the watchdog's lines of these ranks name different calls of one number; they \
                     do not name the process group"
                .to_owned(),
        },
        advice: "compare the branches of the program that lead to these calls".to_owned(),
        evidence,
        ..Finding::of_kind(difference_kind(content.find_difference(usual)?), sure, says)
    };
    Some(WatchdogMismatch { finding, clause })
}

/// Adds the finding on the watchdog's lines: to an error of the log's own calls, else as one of its own.
pub(in crate::stages::check) fn merge_mismatch(
    findings: &mut Vec<Finding>,
    found: Option<WatchdogMismatch>,
) {
    let Some(found) = found else {
        return;
    };
    let is_of_calls = |f: &&mut Finding| {
        let is_compared = matches!(
            f.kind,
            Kind::RankBehind
                | Kind::RankAhead
                | Kind::RankSilent
                | Kind::Deadlock
                | Kind::P2pWrongPeer
                | Kind::P2pMissingCounterpart
        );
        f.severity == Severity::Error && (is_compared || f.kind.is_mismatch())
    };
    match findings.iter_mut().find(is_of_calls) {
        // The log's own calls have more detail.
        Some(finding) if finding.kind.is_mismatch() => {}
        Some(finding) => finding.reasons.push(Reason::WatchdogShows(found.clause)),
        None => findings.push(found.finding),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::message::c10d::parse_c10d_line;
    use crate::stages::check::ranks::names::RankNames;
    use crate::stages::check::watchdog::Watchdog;
    use crate::stages::communicators::CommunicatorsSummary;
    use crate::stages::net::net_stage::FirstReportLine;

    fn watched(lines: &[String]) -> Watchdog {
        let mut watchdog = Watchdog::default();
        for (line, at) in lines.iter().zip(0..) {
            let message = parse_c10d_line(line.as_bytes()).unwrap();
            watchdog.take_line(
                line.as_bytes(),
                &message,
                FirstReportLine { input: 0, line: at },
            );
        }
        watchdog.name_timeout_groups();
        watchdog
    }

    fn find_timeouts(watchdog: &Watchdog) -> Vec<Finding> {
        let found = CommunicatorsSummary::default();
        let names = RankNames { found: &found };
        super::super::timed_out::find_timeouts(watchdog.kept_records(), names)
    }

    fn timeout(rank: u32, seq: u64, op: &str, elements: &str) -> String {
        format!(
            "[rank{rank}]:[E1 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective \
             operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, {elements}, Timeout(ms)=1000) \
             ran for 1001 milliseconds before timing out."
        )
    }

    #[test]
    fn different_calls_of_one_number_are_found() {
        let found = |lines: &[String]| find_mismatch(watched(lines).kept_records());
        let by = |rank, op, n| timeout(rank, 39, op, &format!("NumelIn={n}, NumelOut={n}"));
        let two = found(&[by(1, "BROADCAST", 64), by(0, "BROADCAST", 4000)]).unwrap();
        assert_eq!(
            (two.finding.kind, two.finding.about.rank),
            (Kind::CountMismatch, None)
        );
        let three = [
            by(0, "ALLREDUCE", 64),
            by(1, "BROADCAST", 64),
            by(2, "ALLREDUCE", 64),
        ];
        let three = found(&three).unwrap();
        assert_eq!(
            (three.finding.kind, three.finding.about.rank),
            (Kind::OpMismatch, Some(1))
        );
        assert!(found(&[by(0, "ALLREDUCE", 64), by(1, "ALLREDUCE", 64)]).is_none());
        // Parts of an all-to-all may be uneven, and messages are numbered apart.
        assert!(found(&[by(0, "ALLTOALL_BASE", 64), by(1, "ALLTOALL_BASE", 9)]).is_none());
        assert!(found(&[by(0, "SEND", 64), by(1, "RECV", 9)]).is_none());
        // Lines of several groups that name none may be of any.
        let other =
            timeout(5, 7, "ALLREDUCE", "NumelIn=1, NumelOut=1").replace("[Rank 5]", "[Rank 1]");
        assert!(found(&[by(1, "BROADCAST", 64), by(0, "BROADCAST", 4000), other]).is_none());
    }

    #[test]
    fn a_rank_whose_group_is_cut_is_in_the_group_of_its_call() {
        let elements = "NumelIn=64, NumelOut=8";
        let mut lines: Vec<String> = [0, 4, 6, 3]
            .map(|rank| timeout(rank, 9, "_REDUCE_SCATTER_BASE", elements))
            .into();
        for rank in [0, 4, 6] {
            lines.push(format!(
                "[rank{rank}]:[E1 ProcessGroupNCCL.cpp:1664] [PG 1 Rank {rank}] Exception (either \
                 an error or timeout) detected by watchdog at work: 9, last enqueued NCCL work: \
                 11, last completed NCCL work: 8."
            ));
        }
        let watchdog = watched(&lines);
        let findings = find_timeouts(&watchdog);
        let [finding] = &findings[..] else {
            panic!("{findings:?}");
        };
        // Eight ranks, by the elements.
        assert!(
            finding
                .says
                .ends_with("on ranks 0, 3-4, 6, and ranks 1-2, 5, 7 printed no such line"),
            "{}",
            finding.says
        );
    }

    #[test]
    fn ranks_of_a_group_are_not_mixed_with_those_of_the_job() {
        let elements = "NumelIn=64, NumelOut=64";
        let mut lines: Vec<String> = [3, 11, 19]
            .map(|rank| timeout(rank, 9, "ALLREDUCE", elements))
            .into();
        // Replicas of a mesh: the group's ranks 0 to 2 are 3, 11 and 19 of the job.
        for (at, rank) in [3, 11, 19].into_iter().enumerate() {
            lines.push(format!(
                "[rank{rank}]:[E1 ProcessGroupNCCL.cpp:2271] [PG ID 7 PG GUID 7(dp_replicate) Rank {at}]  failure \
                 detected by watchdog at work sequence id: 9 PG status: last enqueued work: 10, last completed \
                 work: 8"
            ));
        }
        let ends_with = |lines: &[String], end: &str| {
            let watchdog = watched(lines);
            let findings = find_timeouts(&watchdog);
            assert!(findings[0].says.ends_with(end), "{}", findings[0].says);
        };
        ends_with(&lines, "on ranks 3, 11, 19");
        // Where a member's own group is cut, nobody knows which member it is.
        let cut: Vec<String> = lines.iter().take(5).cloned().collect();
        ends_with(&cut, "on ranks 3, 11, 19");
        // Rank 1 of the group is silent.
        let silent = [&lines[0], &lines[2], &lines[3], &lines[5]].map(String::clone);
        ends_with(
            &silent,
            "on ranks 3, 19, and rank 1 of the group printed no such line",
        );
    }
}
