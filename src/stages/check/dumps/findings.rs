//! The sentences of the findings on dumps.

use super::compare::DumpCallDifference;
use super::entry_text::{describe_entry, describe_source_or_why};
use super::job::GroupDumpCalls;
use super::programs::DumpPrograms;
use super::waits::{CommonWait, DumpWait};
use super::{DumpJudge, ShownFinding};
use crate::calls::compare::Deviation;
use crate::calls::usual::Basis;
use crate::calls::wait::WaitCircle;
use crate::formats::flight::DumpEntry;
use crate::report::count_phrase;
use crate::stages::check::finding::{About, Confidence, Evidence, Finding, Kind};
use crate::stages::check::wording::list_ranks;
use crate::stages::check::wording::verb_form;
use std::collections::BTreeSet;

impl DumpJudge<'_, '_> {
    pub(super) fn mismatch_finding(
        &self,
        grouped: &GroupDumpCalls<'_>,
        differs: &DumpCallDifference<'_>,
    ) -> ShownFinding {
        let (odd, other) = differs.sides;
        let is_line = differs.kind == Kind::LineMismatch;
        let seq = differs.seq;
        let shift = describe_deviation(differs);
        let clause = format!(
            "{} called {}{}, {} {}{}",
            list_ranks(&differs.odd),
            describe_entry(odd),
            describe_source_or_why(odd),
            list_ranks(&differs.others),
            describe_entry(other),
            describe_source_or_why(other),
        );
        let is_known = differs.is_odd_side_known();
        let who = match is_known {
            true => differs.odd.clone(),
            false => &differs.odd | &differs.others,
        };
        let rank = differs
            .odd
            .first()
            .filter(|_| is_known && differs.odd.len() == 1)
            .copied();
        let evidence = [
            self.first_evidence(&differs.odd, odd),
            self.first_evidence(&differs.others, other),
        ];
        // Of some of the ranks most may be wrong.
        let is_most = 2 * differs.others.len() > grouped.group.ranks.len();
        let sure = match differs.basis {
            Basis::Majority if is_most && !is_line => Confidence::High,
            Basis::Similar(_) if !is_line => Confidence::High,
            _ => Confidence::Medium,
        };
        let what = match differs.kind {
            Kind::P2pMissingCounterpart => {
                let ends = list_ranks(&(&differs.odd | &differs.others));
                format!(
                    "message {seq} between {ends} in {}",
                    grouped.describe_group()
                )
            }
            _ => format!("PyTorch's call {seq} of {}", grouped.describe_group()),
        };
        let says = format!("{what} differs between ranks: {clause}{shift}");
        ShownFinding {
            ranks: who,
            finding: Finding {
                about: About::of_pytorch_call(rank, seq),
                why: explain_basis(differs, is_most),
                advice: "compare the branches of the program that lead to these lines".to_owned(),
                evidence: evidence.into_iter().flatten().collect(),
                ..Finding::of_kind(differs.kind, sure, says)
            },
            clause: clause + &shift,
        }
    }

    pub(super) fn behind_finding(&self, wait: &DumpWait<'_>) -> ShownFinding {
        let (seq, call, who) = (wait.seq, wait.call, &wait.free);
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
            "{} never made {}; {} made it and {} in it{last}",
            list_ranks(who),
            self.describe_wait(wait),
            list_ranks(&wait.waiting),
            verb_form(wait.waiting.len(), "waits", "wait"),
        );
        let waiting = self.first_evidence(&wait.waiting, call);
        let own = self.last_call_evidence(first);
        let (sure, why) = match wait.is_given_up {
            true => (
                Confidence::High,
                "PyTorch's watchdog gave this call up, and the dump of that rank does not have it",
            ),
            false => (
                Confidence::Medium,
                "the dump of that rank does not have the call; a dump does not show whether the \
                 job still ran",
            ),
        };
        ShownFinding {
            ranks: who.clone(),
            finding: Finding {
                about: About::of_pytorch_call(Some(first).filter(|_| who.len() == 1), seq),
                why: why.to_owned(),
                advice: "look at what that rank did after its last call: its stack (py-spy dump), \
                      its data, its GPU"
                    .to_owned(),
                evidence: waiting.into_iter().chain(own).collect(),
                ..Finding::of_kind(Kind::RankBehind, sure, clause.clone())
            },
            clause,
        }
    }

    /// The finding on calls that wait for each other. The side to look at comes first.
    pub(super) fn deadlock_finding(
        &self,
        programs: &DumpPrograms<'_, '_>,
        circle: &WaitCircle,
    ) -> Option<ShownFinding> {
        let blamed = programs.build_replay().find_circle_blame(circle)?;
        let sides = [
            (blamed.own, &blamed.ranks),
            (blamed.others, &blamed.waiting),
        ];
        let mut described = Vec::new();
        let mut evidence = Vec::new();
        for (event, ranks) in sides {
            let ranks = programs.ranks_of(ranks);
            let call = programs.open_call(event, &ranks);
            let call = call.or_else(|| programs.made_call(event, &ranks))?;
            described.push(format!(
                "{} {} in {}",
                list_ranks(&ranks),
                verb_form(ranks.len(), "waits", "wait"),
                self.describe_call(event.0 as usize, event.1, call)
            ));
            evidence.extend(self.first_evidence(&ranks, call));
        }
        let crossed = match (circle.is_made, circle.waits.len()) {
            (true, _) => "all of them made all these calls, in different orders",
            (false, 2) => "neither made the other's call",
            _ => "none made the call that the next one waits in",
        };
        let says = format!("{}: a deadlock, {crossed}", described.join(", and "));
        let who = programs.ranks_of(&blamed.ranks);
        let rank = who.first().copied().filter(|_| who.len() == 1);
        let mut why = "by the dumps no order of these calls lets all ranks end them".to_owned();
        if !blamed.is_sure {
            why += "; which side is wrong is unknown";
        }
        Some(ShownFinding {
            ranks: who,
            finding: Finding {
                about: About::of_pytorch_call(rank, blamed.own.1),
                why,
                advice: "use the two process groups in one order on all ranks, or look for a call that was left out"
                    .to_owned(),
                evidence,
                ..Finding::of_kind(Kind::Deadlock, Confidence::Medium, says.clone())
            },
            clause: says,
        })
    }

    /// A record of the first of `ranks`, as evidence.
    fn first_evidence(&self, ranks: &BTreeSet<u32>, entry: &DumpEntry) -> Option<Evidence> {
        self.entry_evidence(*ranks.first()?, entry)
    }

    /// The record of a rank's last call, as evidence.
    pub(super) fn last_call_evidence(&self, rank: u32) -> Option<Evidence> {
        self.entry_evidence(rank, self.last_call(rank)?.0)
    }

    /// `PyTorch's call 7 of process group 0, AllReduce of 4 fp32 at train.py:10`.
    fn describe_call(&self, group: usize, seq: u64, call: &DumpEntry) -> String {
        format!(
            "PyTorch's call {seq} of {}, {}{}",
            self.groups[group].describe_group(),
            describe_entry(call),
            describe_source_or_why(call),
        )
    }

    fn describe_wait(&self, wait: &DumpWait<'_>) -> String {
        self.describe_call(wait.group, wait.seq, wait.call)
    }

    /// The finding on the first of `waits`, calls that all members made. If the watchdog did not give it up, the dumps
    /// may be of a job that runs.
    pub(super) fn common_wait_finding(&self, waits: &[CommonWait<'_>]) -> Option<ShownFinding> {
        let (wait, later) = waits.split_first()?;
        let grouped = &self.groups[wait.group];
        let ranks: BTreeSet<u32> = grouped.group.ranks.iter().copied().collect();
        let members = count_phrase(ranks.len() as u64, "rank");
        let waiting = match wait.waiting.len() == ranks.len() {
            true => format!("all {members}"),
            false => format!("{} of {members}", wait.waiting.len()),
        };
        let rest = match (wait.is_given_up, later.len()) {
            (true, _) => ", which PyTorch's watchdog gave up".to_owned(),
            (false, 0) => String::new(),
            (false, n) => format!(", and in {}", count_phrase(n as u64, "later call")),
        };
        let clause = format!(
            "{waiting} of {} {} in PyTorch's call {}, {}{}{rest}",
            grouped.describe_group(),
            verb_form(wait.waiting.len(), "waits", "wait"),
            wait.seq,
            describe_entry(wait.call),
            describe_source_or_why(wait.call),
        );
        let evidence = self.first_evidence(&wait.waiting, wait.call);
        let (kind, begin) = match wait.is_given_up {
            true => (Kind::WatchdogTimeout, ""),
            false => (Kind::NotChecked, "not judged: "),
        };
        let unknown = match wait.is_given_up {
            true => "a dump has neither the root nor the reduction of a call",
            false => {
                "a dump has neither the root nor the reduction of a call, and does not show \
                 whether the job still ran"
            }
        };
        let says = format!("{begin}{clause}; their operation, type and elements agree");
        Some(ShownFinding {
            ranks,
            finding: Finding {
                about: About::of_pytorch_call(None, wait.seq),
                why: format!("the flight recorder of each rank has this call; {unknown}"),
                advice: "compare the root and the reduction that the ranks pass \
                         (NCCL_DEBUG_SUBSYS=COLL prints them), and look at the network"
                    .to_owned(),
                evidence: evidence.into_iter().collect(),
                ..Finding::of_kind(kind, Confidence::High, says)
            },
            clause,
        })
    }

    /// The finding on ranks without a dump.
    pub(super) fn silent_finding(&self, wait: &DumpWait<'_>) -> ShownFinding {
        let this_run = match self.job.other_runs.is_disjoint(&wait.silent) {
            true => "",
            false => " of this run",
        };
        let silent = format!("{} left no dump{this_run}", list_ranks(&wait.silent));
        let waiting = format!(
            "{} {} in {}",
            list_ranks(&wait.waiting),
            verb_form(wait.waiting.len(), "waits", "wait"),
            self.describe_wait(wait),
        );
        let clause = format!("{silent}; {waiting}");
        let only = wait
            .silent
            .first()
            .copied()
            .filter(|_| wait.silent.len() == 1);
        let sure = match only {
            Some(_) => Confidence::Medium,
            None => Confidence::Low,
        };
        let evidence = self.first_evidence(&wait.waiting, wait.call);
        let (finding, advice) = match 2 * wait.silent.len() <= self.job.ranks_in_groups().len() {
            true => (
                Finding::of_kind(Kind::DeadProcess, sure, clause.clone()),
                "look for the end of that process: its exit code, the kernel's log, its host",
            ),
            false => {
                let says = format!("not judged: {waiting}, and {silent}");
                let finding = Finding::of_kind(Kind::NotChecked, Confidence::High, says);
                (finding, "check the dumps of all ranks")
            }
        };
        ShownFinding {
            ranks: wait.silent.clone(),
            finding: Finding {
                about: About::of_pytorch_call(only, wait.seq),
                why: "a process that died or is stuck outside of PyTorch writes no dump; its \
                      file may also not have been given"
                    .to_owned(),
                advice: advice.to_owned(),
                evidence: evidence.into_iter().collect(),
                ..finding
            },
            clause,
        }
    }
}

/// Describes what the odd rank did, as a clause; empty if that is unknown or several are odd.
fn describe_deviation(differs: &DumpCallDifference<'_>) -> String {
    match differs.deviation {
        _ if differs.odd.len() > 1 => String::new(),
        Deviation::LeftOut(n) => format!(
            "; {} left out {}: its later calls are the others', {n} further on",
            list_ranks(&differs.odd),
            count_phrase(n, "call")
        ),
        Deviation::Added(n) => format!(
            "; {} made {} more than the others",
            list_ranks(&differs.odd),
            count_phrase(n, "call")
        ),
        Deviation::Skipped => format!(
            "; {} left calls out: it makes those that follow later",
            list_ranks(&differs.odd)
        ),
        Deviation::Behind(_) | Deviation::Other => String::new(),
    }
}

/// Explains how the odd side is known.
fn explain_basis(differs: &DumpCallDifference<'_>, is_most: bool) -> String {
    let is_line = differs.kind == Kind::LineMismatch;
    match differs.basis {
        _ if is_line => "equal calls are made by another line of the program than on \
                                     the other ranks, and so are all later ones"
            .to_owned(),
        Basis::Majority if is_most => {
            "the flight recorder of each rank has this call, and most made the same".to_owned()
        }
        Basis::Majority => {
            "of the dumps with this call most have the same; other ranks of the group have no \
                            record of it"
                .to_owned()
        }
        Basis::Similar(votes) => format!(
            "the flight recorder of each rank has this call, and the ranks of {} of \
                         the same kind made the same as the others",
            count_phrase(votes as u64, "process group")
        ),
        _ if differs.is_odd_side_known() => {
            "the flight recorder of each rank has this call, and the others' call fits \
                         the calls before and after it"
                .to_owned()
        }
        _ => "the flight recorder shows that the calls differ, not which side is wrong".to_owned(),
    }
}
