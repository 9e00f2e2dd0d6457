//! The last step of a check: facts become words.

pub(super) mod failures;
pub(super) mod texts;

use super::finding::{Finding, Reason};
use super::wording::{number_and_noun, quote_text, verb_form};

/// Gives all findings the texts of their kinds, and puts their reasons into words.
pub(super) fn write_texts(findings: &mut [Finding]) {
    texts::write_shared_texts(findings);
    for finding in findings {
        for reason in &finding.reasons {
            if let Some(text) = reason.in_sentence() {
                finding.says += "; ";
                finding.says += &text;
            }
            if let Some(text) = reason.in_explanation() {
                if !finding.why.is_empty() {
                    finding.why += "; ";
                }
                finding.why += &text;
            }
        }
    }
}

impl Reason {
    /// Returns what the sentence gets.
    pub(super) fn in_sentence(&self) -> Option<String> {
        Some(match self {
            Reason::WentOn => "the job went on".to_owned(),
            Reason::StartedAgain => "the job was started again".to_owned(),
            Reason::MayWaitForUnseen(ranks) => {
                format!("it may wait for {ranks}, without lines here")
            }
            Reason::OutlivedByRestart => "the job was started again and went on".to_owned(),
            &Reason::AlsoRaised(others) => format!(
                "{others} other {} raised an exception too",
                verb_form(others, "rank", "ranks")
            ),
            Reason::PrintedNothing(dead) => {
                let (who, printed) = match dead.is_host {
                    true => ("no rank of its host", "printed anything"),
                    false => ("it alone", "printed nothing"),
                };
                let outcome = dead.describe_outcome();
                format!("{who} {printed} after the job failed: {outcome}")
            }
            Reason::NamedByCalls { rank, host, pid } => {
                let rank = rank.map_or_else(String::new, |rank| format!("rank {rank}, "));
                let host = quote_text(host);
                format!("it is {rank}{host}:{pid}, for which the others wait")
            }
            Reason::InAllPairs { member, pairs } => {
                format!("{member} is in all {pairs} pairs of ranks whose messages differ")
            }
            Reason::DumpsShow(clause) => format!("the flight recorder shows: {clause}"),
            Reason::StatesShow(clause) => format!("the state of the processes shows: {clause}"),
            Reason::WatchdogShows(clause) => format!("PyTorch's watchdog shows: {clause}"),
            Reason::RecordsShow(sizes) => format!("by the records {sizes}"),
            Reason::RecordsEnd(ended) => format!("by the records, {ended} ended"),
            _ => return None,
        })
    }

    /// Returns what the explanation gets.
    fn in_explanation(&self) -> Option<String> {
        let text = match self {
            Reason::FollowsFrom(cause) => return Some(format!("it follows from {}", cause.id())),
            Reason::LogHas(cause) => return Some(format!("the log has {}", cause.id())),
            Reason::Grouped(how) => return Some(how.clone()),
            &Reason::AlsoDiffer(more) => {
                let more = number_and_noun(more, "other communicator");
                return Some(format!("calls also differ on {more} as a consequence"));
            }
            Reason::EndedTogether => {
                "no process reports a failure after it, so all may have ended together"
            }
            Reason::AfterJobEnd => {
                "it comes after the job was cancelled, or before it was started again"
            }
            Reason::NamedByCalls { .. } => "only the calls show which rank printed the line",
            Reason::DumpsShow(_) => "the dumps of the flight recorder agree",
            Reason::StatesShow(_) => "the state of the job's processes agrees",
            Reason::OthersWaitInOneCall => "all others wait in the same call",
            Reason::OthersNotCompared => {
                "another rank may be behind on communicators that are not compared"
            }
            Reason::MembersMissing => "but not all members' lines are in the log",
            Reason::LogBeginsLate => {
                "but the log may begin in the middle of the job: the calls themselves show the \
                 ranks at the same place"
            }
            Reason::LinesDamaged => "but other lines are damaged, and one of them may hide a call",
            Reason::StepNumberFalls => {
                "but the step number falls, so the file may consist of several parts"
            }
            _ => return None,
        };
        Some(text.to_owned())
    }
}
