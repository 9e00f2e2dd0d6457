//! The findings on dumps of PyTorch's flight recorder: each rank's last calls, their states, and the lines of the
//! program that made them. A job that hangs leaves a dump for each rank.
//!
//! The recorder has neither the reduction nor the root of a call, and its group names are PyTorch's.

mod compare;
mod entry_text;
mod findings;
mod job;
mod limits;
mod merge_with_log;
mod message_findings;
mod message_waits;
mod messages;
mod programs;
mod runs;
#[cfg(test)]
mod tests;
mod waits;

pub(super) use merge_with_log::{is_call_finding, merge_shown_finding};

use super::finding::{Evidence, Finding};
use crate::error::{Error, Result};
use crate::formats::flight::{self, DumpEntry, FlightDump};
use crate::report::{Report, count_phrase};
use crate::source::Input;
use crate::stages::check::answer::judged::JudgedRecords;
use crate::stages::check::wording::{list_ranks, verb_form};
use crate::stages::net::net_stage::FirstReportLine;
use compare::{CompareScope, DumpCallDifference};
use entry_text::{describe_entry, describe_source_or_why, entry_line};
use job::{DumpedJob, GroupDumpCalls};
use message_waits::MessageWaits;
use programs::DumpPrograms;
use std::collections::BTreeSet;
use waits::DumpWait;

/// The dumps among the inputs of a check.
#[derive(Debug, Default)]
pub(super) struct FlightDumps {
    /// The dumps' names.
    names: Vec<String>,
    /// The dumps, each with true if nothing of it is cut off or damaged.
    read: Vec<(FlightDump, bool)>,
    /// True if a dump was refused: its rank is unknown.
    is_refused: bool,
}

impl FlightDumps {
    /// The dumps' names.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.names.iter()
    }

    /// Reads a dump.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn load_dump(&mut self, input: &Input, report: &mut Report) -> Result<()> {
        let name = input.name();
        let (dump, is_cut) = match flight::load_dump(input) {
            Ok((dump, cut)) => {
                if let Some(cut) = &cut {
                    report.warn_damaged(&format!("{name}: the dump is cut at {}", cut.place));
                }
                (dump, cut.is_some())
            }
            Err(e @ Error::Content(_)) => {
                report.error(&e.to_string());
                self.is_refused = true;
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        if dump.damaged > 0 {
            let records = count_phrase(dump.damaged, "record");
            report.warn_damaged(&format!(
                "{name}: {records} of calls damaged and not compared"
            ));
        }
        self.names.push(name);
        let is_whole = !is_cut && dump.damaged == 0;
        self.read.push((dump, is_whole));
        Ok(())
    }

    /// Finds the one cause that the dumps show, and counts the ranks that were judged; their inputs' numbers begin with
    /// `first`.
    pub(super) fn into_finding(
        self,
        first: u32,
        report: &Report,
    ) -> (Option<ShownFinding>, JudgedRecords) {
        let foreign: usize = self.read.iter().map(|(dump, _)| count_foreign(dump)).sum();
        if foreign > 0 {
            let calls = count_phrase(foreign as u64, "call");
            report.note(&format!(
                "{calls} of other libraries than NCCL (gloo) not compared"
            ));
        }
        let job = DumpedJob::from_dumps((first..).zip(self.read));
        if job.unused > 0 {
            let dumps = count_phrase(job.unused, "dump");
            report.note(&format!(
                "{dumps} of the flight recorder not compared: the rank is unknown, or there is a later dump of it"
            ));
        }
        if !job.other_runs.is_empty() {
            let ranks = job.other_runs.len();
            report.note(&format!(
                "not compared: the {} of {}, of another run by the times of calls or the number of ranks",
                verb_form(ranks, "dump", "dumps"),
                list_ranks(&job.other_runs),
            ));
        }
        let groups = job.group_calls();
        let judge = DumpJudge {
            job: &job,
            groups: &groups,
            is_refused: self.is_refused,
        };
        (judge.find_cause(), job.count_judged_ranks(&groups))
    }
}

/// The number of calls of other libraries.
fn count_foreign(dump: &FlightDump) -> usize {
    let ops = dump.entries.iter().map(|entry| &entry.op);
    ops.filter(|op| **op == flight::FlightOp::Foreign).count()
}

/// A finding, with the ranks in the job that it is about.
#[derive(Debug)]
pub(super) struct ShownFinding {
    pub(super) finding: Finding,
    /// The ranks in the job that are at fault.
    pub(super) ranks: BTreeSet<u32>,
    /// The source lines, as a clause that another finding of the same cause can take over.
    pub(super) clause: String,
}

struct DumpJudge<'j, 'd> {
    job: &'j DumpedJob,
    groups: &'j [GroupDumpCalls<'d>],
    is_refused: bool,
}

impl<'d> DumpJudge<'_, 'd> {
    /// Finds the one cause that the dumps show.
    fn find_cause(&self) -> Option<ShownFinding> {
        let groups = self.groups;
        let by = |scope| {
            move |grouped| {
                Some((
                    grouped,
                    compare::find_first_difference(grouped, groups, scope)?,
                ))
            }
        };
        let calls = self.groups.iter().filter_map(by(CompareScope::Calls));
        let differs = calls.chain(self.groups.iter().filter_map(by(CompareScope::Lines)));
        let messages = self.groups.iter().flat_map(|grouped| {
            let pairs = messages::number_messages(self.job, grouped);
            pairs
                .filter_map(move |calls| Some((grouped, compare::find_message_difference(&calls)?)))
        });
        let differs = differs.chain(messages);
        let made = |differs: &DumpCallDifference<'_>| {
            let (one, other) = differs.sides;
            one.created_ns.min(other.created_ns)
        };
        if let Some((grouped, differs)) = differs.min_by_key(|(_, differs)| made(differs)) {
            return Some(self.mismatch_finding(grouped, &differs));
        }
        let unmet = || {
            let mut all = self.groups.iter();
            all.find_map(|grouped| Some((grouped, messages::find_unmatched(self.job, grouped)?)))
        };
        let unmet = unmet();
        let programs = DumpPrograms::new(self.job, self.groups);
        let stuck = programs.build_replay().replay_calls();
        let messages = MessageWaits::collect_open(&programs, groups, &stuck);
        if let Some((grouped, unmet)) = &unmet
            && let Some(odd) = unmet.odd
            && unmet.has_misdirected_call(odd)
            && messages.find_last_wait(odd).is_none()
        {
            return Some(self.wrong_peer_finding(grouped, unmet, odd));
        }
        if let Some(circle) = programs.build_replay().find_lasting_circle(&stuck, false) {
            return self.deadlock_finding(&programs, circle);
        }
        let mut waits = waits::find_group_waits(&programs, &stuck);
        let held = unmet.iter().flat_map(|(_, unmet)| &unmet.calls);
        let ends = messages.drop_held_ranks(&mut waits, held);
        let made_at = |wait: &DumpWait<'_>| wait.call.created_ns.unwrap_or(u64::MAX);
        let lacking = waits.iter().filter(|wait| !wait.free.is_empty());
        if let Some(wait) = lacking.min_by_key(|wait| made_at(wait)) {
            return Some(self.behind_finding(wait));
        }
        let unmet = unmet.map_or_else(Vec::new, |(_, unmet)| unmet.calls);
        if let Some(call) = messages.find_missing_message(&ends, &unmet) {
            return Some(self.missing_message_finding(&call));
        }
        if self.is_refused {
            return None;
        }
        let silent = waits.iter().filter(|wait| !wait.silent.is_empty());
        let silent = silent.min_by_key(|wait| made_at(wait));
        silent.map(|wait| self.silent_finding(wait)).or_else(|| {
            let mut waits = waits::find_common_waits(self.job, self.groups);
            waits.retain(|wait| !messages.is_before(wait, groups));
            let common = self.common_wait_finding(&waits);
            common.or_else(|| self.open_message_finding())
        })
    }

    /// A record of a rank, as evidence.
    fn entry_evidence(&self, rank: u32, entry: &DumpEntry) -> Option<Evidence> {
        let input = self.job.ranks.get(&rank)?.input;
        let line = entry.record_id;
        Some(Evidence {
            at: FirstReportLine { input, line }.into(),
            text: Some(entry_line(entry)),
        })
    }

    /// A rank's last call, with its place.
    fn last_call(&self, rank: u32) -> Option<(&DumpEntry, String)> {
        let dump = &self.job.ranks.get(&rank)?.dump;
        let last = dump
            .entries
            .iter()
            .rev()
            .find(|e| e.op != flight::FlightOp::Coalesced)?;
        Some((
            last,
            format!("{}{}", describe_entry(last), describe_source_or_why(last)),
        ))
    }
}
