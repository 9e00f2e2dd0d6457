//! What the dumps of PyTorch's flight recorder show: each rank's last calls, how far they came, and the
//! lines of the program that made them. A job that hangs leaves a dump for each rank.
//!
//! The recorder knows neither the reduction nor the root of a call, and its group names are PyTorch's.

mod compare;
mod entry_text;
mod job;
mod merge_with_log;
mod messages;
#[cfg(test)]
mod tests;
mod waits;

pub(super) use merge_with_log::{is_call_finding, merge_dump_finding};

use super::finding::{About, Confidence, Evidence, Finding, Kind, LineSpot, Severity};
use crate::error::{Error, Result};
use crate::formats::flight::{self, DumpEntry, FlightDump};
use crate::report::{Report, count_phrase};
use crate::source::Input;
use crate::stages::net::net_stage::FirstReportLine;
use compare::{CallShift, CompareScope, DumpCallDifference};
use entry_text::{describe_entry, describe_source, describe_source_or_why, entry_line, list_ranks};
use job::{DumpedJob, GroupDumpCalls};
use messages::UnmatchedMessages;
use std::collections::BTreeSet;
use waits::{GroupWait, JobBlocker};

/// The dumps among the inputs of a check.
#[derive(Debug, Default)]
pub(super) struct FlightDumps {
    /// Their names.
    names: Vec<String>,
    /// Each with whether nothing of it is cut off or damaged.
    read: Vec<(FlightDump, bool)>,
    /// One was refused: whose it is is not known.
    is_refused: bool,
}

impl FlightDumps {
    /// Their names.
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
                "{name}: {records} of calls are damaged and not compared"
            ));
        }
        self.names.push(name);
        let is_whole = !is_cut && dump.damaged == 0;
        self.read.push((dump, is_whole));
        Ok(())
    }

    /// The one cause that they show; their inputs' numbers begin with `first`.
    pub(super) fn into_finding(self, first: u32, report: &Report) -> Option<DumpFinding> {
        let job = DumpedJob::from_dumps((first..).zip(self.read));
        if job.unused > 0 {
            let dumps = count_phrase(job.unused, "dump");
            report.note(&format!(
                "{dumps} of the flight recorder not compared: the rank is unknown, or there is a later dump of it"
            ));
        }
        let groups = job.group_calls();
        let judge = DumpJudge {
            job: &job,
            groups: &groups,
            is_refused: self.is_refused,
        };
        judge.find_cause()
    }
}

/// A finding, and who in the job it is about.
#[derive(Debug)]
pub(super) struct DumpFinding {
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
    /// The one cause that the dumps show.
    fn find_cause(&self) -> Option<DumpFinding> {
        let by = |by| move |grouped| Some((grouped, compare::find_first_difference(grouped, by)?));
        let calls = self.groups.iter().filter_map(by(CompareScope::Calls));
        let differs = calls.chain(self.groups.iter().filter_map(by(CompareScope::Lines)));
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
        // A rank that sent to a wrong peer has calls of its own that meet nothing.
        if let Some((grouped, unmet)) = &unmet
            && let Some(odd) = unmet.odd
            && unmet.calls.iter().any(|(who, _, _)| *who == odd)
        {
            return Some(self.wrong_peer_finding(grouped, unmet, odd));
        }
        let waits = waits::find_group_waits(self.job, self.groups);
        match waits::find_blocker(&waits) {
            Some(JobBlocker::By(wait, who)) => return Some(self.behind_finding(wait, &who)),
            Some(JobBlocker::Circle(one, other)) => return Some(self.deadlock_finding(one, other)),
            None => {}
        }
        if let Some((grouped, unmet)) = &unmet {
            return self.missing_message_finding(grouped, unmet);
        }
        if self.is_refused {
            return None;
        }
        let silent = waits
            .iter()
            .min_by_key(|wait| wait.call.created_ns.unwrap_or(u64::MAX));
        silent.map(|wait| self.silent_finding(wait))
    }

    /// A record of a rank, as evidence.
    fn entry_evidence(&self, rank: u32, entry: &DumpEntry) -> Option<Evidence> {
        let input = self.job.ranks.get(&rank)?.input;
        Some(Evidence {
            at: LineSpot::Line(FirstReportLine {
                input,
                line: entry.record_id,
            }),
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

    fn mismatch_finding(
        &self,
        grouped: &GroupDumpCalls<'_>,
        differs: &DumpCallDifference<'_>,
    ) -> DumpFinding {
        let (odd, other) = differs.sides;
        let is_line = differs.kind == Kind::LineMismatch;
        let seq = differs.seq;
        let shift = match differs.shift {
            _ if differs.odd.len() > 1 => String::new(),
            Some(CallShift::LeftOut(n)) => format!(
                "; {} left out {}: its later calls are the others', {n} further on",
                list_ranks(&differs.odd),
                count_phrase(n, "call")
            ),
            Some(CallShift::Added(n)) => format!(
                "; {} made {} more than the others",
                list_ranks(&differs.odd),
                count_phrase(n, "call")
            ),
            Some(CallShift::Past) => format!(
                "; {} left calls out: it makes those that follow later",
                list_ranks(&differs.odd)
            ),
            None => String::new(),
        };
        let clause = format!(
            "{} called {}{}, {} {}{}",
            list_ranks(&differs.odd),
            describe_entry(odd),
            describe_source_or_why(odd),
            list_ranks(&differs.others),
            describe_entry(other),
            describe_source_or_why(other),
        );
        let who = match differs.is_told {
            true => differs.odd.clone(),
            false => &differs.odd | &differs.others,
        };
        let rank = differs
            .odd
            .first()
            .filter(|_| differs.is_told && differs.odd.len() == 1)
            .copied();
        let first = |ranks: &BTreeSet<u32>| ranks.first().copied().unwrap_or_default();
        let evidence = [
            self.entry_evidence(first(&differs.odd), odd),
            self.entry_evidence(first(&differs.others), other),
        ];
        DumpFinding {
            ranks: who,
            finding: Finding {
                kind: differs.kind,
                severity: Severity::Error,
                says: format!(
                    "PyTorch's call {seq} of {} differs between ranks: {clause}{shift}",
                    grouped.describe_group()
                ),
                about: About {
                    rank,
                    seq: seq.checked_sub(1),
                    ..About::default()
                },
                sure: if differs.is_told && !is_line { Confidence::High } else { Confidence::Medium },
                why: match differs.is_told {
                    _ if is_line => "equal calls are made by another line of the program than on the other ranks, and so are all later ones".to_owned(),
                    true => {
                        "the flight recorder of each rank has this call, and most made the same"
                            .to_owned()
                    }
                    false => {
                        "the flight recorder shows that the calls differ, not which side is wrong"
                            .to_owned()
                    }
                },
                advice: "compare the branches of the program that lead to these lines".to_owned(),
                evidence: evidence.into_iter().flatten().collect(),
reasons: Vec::new(),
            },
            clause: clause + &shift,
        }
    }

    fn behind_finding(&self, wait: &GroupWait<'_>, who: &BTreeSet<u32>) -> DumpFinding {
        let grouped = &self.groups[wait.group];
        let (seq, call) = (wait.seq, wait.call);
        let first = who.first().copied().unwrap_or_default();
        let last = self.last_call(first);
        let last = match (last, who.len()) {
            (Some((entry, last)), 1) if entry.created_ns > call.created_ns => {
                format!(
                    "; {} went on without it: its last call is {last}",
                    list_ranks(who)
                )
            }
            (Some((_, last)), 1) => format!("; the last call of {} is {last}", list_ranks(who)),
            _ => String::new(),
        };
        let clause = format!(
            "{} never made PyTorch's call {seq} of {}, {}{}; {} made it and {} in it{last}",
            list_ranks(who),
            grouped.describe_group(),
            describe_entry(call),
            describe_source_or_why(call),
            list_ranks(&wait.waiting),
            if wait.waiting.len() == 1 {
                "waits"
            } else {
                "wait"
            },
        );
        let waiting = wait
            .waiting
            .first()
            .and_then(|rank| self.entry_evidence(*rank, call));
        let own = self
            .last_call(first)
            .and_then(|(entry, _)| self.entry_evidence(first, entry));
        DumpFinding {
            ranks: who.clone(),
            finding: Finding {
                kind: Kind::RankBehind,
                severity: Severity::Error,
                says: clause.clone(),
                about: About { rank: Some(first).filter(|_| who.len() == 1), seq: seq.checked_sub(1), ..About::default() },
                sure: if wait.is_given_up { Confidence::High } else { Confidence::Medium },
                why: match wait.is_given_up {
                    true => "PyTorch's watchdog gave this call up, and the dump of that rank does not have it".to_owned(),
                    false => "the dump of that rank does not have the call; a dump does not show whether the job still ran".to_owned(),
                },
                advice: "look at what that rank did after its last call: its stack (py-spy dump), its data, its GPU".to_owned(),
                evidence: waiting.into_iter().chain(own).collect(),
reasons: Vec::new(),
            },
            clause,
        }
    }

    fn deadlock_finding(&self, one: &GroupWait<'_>, other: &GroupWait<'_>) -> DumpFinding {
        let side = |wait: &GroupWait<'_>| {
            format!(
                "{} {} in PyTorch's call {} of {}, {}{}",
                list_ranks(&wait.waiting),
                if wait.waiting.len() == 1 {
                    "waits"
                } else {
                    "wait"
                },
                wait.seq,
                self.groups[wait.group].describe_group(),
                describe_entry(wait.call),
                describe_source_or_why(wait.call),
            )
        };
        let (few, many) = match one.waiting.len() <= other.waiting.len() {
            true => (one, other),
            false => (other, one),
        };
        let clause = format!(
            "{}; {}; neither made the other's call",
            side(few),
            side(many)
        );
        let rank = few
            .waiting
            .first()
            .copied()
            .filter(|_| few.waiting.len() == 1 && many.waiting.len() > 1);
        let evidence = [few, many].map(|wait| {
            wait.waiting
                .first()
                .and_then(|rank| self.entry_evidence(*rank, wait.call))
        });
        DumpFinding {
            ranks: few.waiting.clone(),
            finding: Finding {
                kind: Kind::Deadlock,
                severity: Severity::Error,
                says: format!("deadlock: {clause}"),
                about: About {
                    rank,
                    seq: few.seq.checked_sub(1),
                    ..About::default()
                },
                sure: Confidence::Medium,
                why: "each side lacks the call that the other waits in, by the dumps of both"
                    .to_owned(),
                advice: "use the two process groups in one order on all ranks".to_owned(),
                evidence: evidence.into_iter().flatten().collect(),
                reasons: Vec::new(),
            },
            clause,
        }
    }

    /// `Send of 4096 fp32 from rank 1 to rank 0 at train.py:12`.
    fn describe_message((who, peer, entry): &(u32, u32, &DumpEntry)) -> String {
        let toward = match entry.op {
            flight::FlightOp::Send { .. } => "to",
            _ => "from",
        };
        format!(
            "{} of rank {who} {toward} rank {peer}{}",
            describe_entry(entry),
            describe_source(entry)
        )
    }

    fn wrong_peer_finding(
        &self,
        grouped: &GroupDumpCalls<'_>,
        unmet: &UnmatchedMessages<'_>,
        odd: u32,
    ) -> DumpFinding {
        let own: Vec<_> = unmet
            .calls
            .iter()
            .filter(|(who, _, _)| *who == odd)
            .take(2)
            .collect();
        let calls: Vec<String> = own
            .iter()
            .map(|call| Self::describe_message(call))
            .collect();
        let clause = format!(
            "{} of {} without a counterpart: {}; rank {odd} is an end of all of them",
            count_phrase(unmet.calls.len() as u64, "message"),
            grouped.describe_group(),
            calls.join(", "),
        );
        let evidence = own
            .iter()
            .filter_map(|(who, _, entry)| self.entry_evidence(*who, entry));
        DumpFinding {
            ranks: BTreeSet::from([odd]),
            finding: Finding {
                kind: Kind::P2pWrongPeer,
                severity: Severity::Error,
                says: clause.clone(),
                about: About {
                    rank: Some(odd),
                    ..About::default()
                },
                sure: Confidence::Medium,
                why:
                    "the flight recorders of both ends have all their calls, and these meet nothing"
                        .to_owned(),
                advice: "check which peers that rank computes".to_owned(),
                evidence: evidence.collect(),
                reasons: Vec::new(),
            },
            clause,
        }
    }

    fn missing_message_finding(
        &self,
        grouped: &GroupDumpCalls<'_>,
        unmet: &UnmatchedMessages<'_>,
    ) -> Option<DumpFinding> {
        let (who, peer, entry) = unmet
            .calls
            .iter()
            .min_by_key(|(_, _, entry)| entry.created_ns)?;
        let counterpart = match entry.op {
            flight::FlightOp::Send { .. } => "receive",
            _ => "send",
        };
        let last = self.last_call(*peer).map_or_else(String::new, |(_, last)| {
            format!("; the last call of rank {peer} is {last}")
        });
        let clause = format!(
            "{} of {} waits: rank {peer} made no {counterpart} for it{last}",
            Self::describe_message(&(*who, *peer, entry)),
            grouped.describe_group(),
        );
        let own = self
            .last_call(*peer)
            .and_then(|(entry, _)| self.entry_evidence(*peer, entry));
        let evidence = self.entry_evidence(*who, entry).into_iter().chain(own);
        Some(DumpFinding {
            ranks: BTreeSet::from([*peer]),
            finding: Finding {
                kind: Kind::P2pMissingCounterpart,
                severity: Severity::Error,
                says: clause.clone(),
                about: About { rank: Some(*peer), ..About::default() },
                sure: Confidence::Medium,
                why: "the flight recorders of both ends have all their calls, and this one meets nothing".to_owned(),
                advice: "check that both ends make as many calls with each other".to_owned(),
                evidence: evidence.collect(),
reasons: Vec::new(),
            },
            clause,
        })
    }

    /// Those who left no dump.
    fn silent_finding(&self, wait: &GroupWait<'_>) -> DumpFinding {
        let clause = format!(
            "{} left no dump; {} {} in PyTorch's call {} of {}, {}{}",
            list_ranks(&wait.silent),
            list_ranks(&wait.waiting),
            if wait.waiting.len() == 1 {
                "waits"
            } else {
                "wait"
            },
            wait.seq,
            self.groups[wait.group].describe_group(),
            describe_entry(wait.call),
            describe_source_or_why(wait.call),
        );
        let few = 2 * wait.silent.len() <= self.job.ranks_in_groups().len();
        let waiting = wait
            .waiting
            .first()
            .and_then(|rank| self.entry_evidence(*rank, wait.call));
        DumpFinding {
            ranks: wait.silent.clone(),
            finding: Finding {
                kind: Kind::DeadProcess,
                severity: if few { Severity::Error } else { Severity::Note },
                says: clause.clone(),
                about: About {
                    rank: wait.silent.first().copied().filter(|_| wait.silent.len() == 1),
                    seq: wait.seq.checked_sub(1),
                    ..About::default()
                },
                sure: if wait.silent.len() == 1 { Confidence::Medium } else { Confidence::Low },
                why: "a process that died or is stuck outside of PyTorch writes no dump; its file may also not have been given".to_owned(),
                advice: "look for the end of that process: its exit code, the kernel's log, its host".to_owned(),
                evidence: waiting.into_iter().collect(),
reasons: Vec::new(),
            },
            clause,
        }
    }
}
