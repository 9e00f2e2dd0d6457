//! What the dumps of PyTorch's flight recorder show: each rank's last calls, how far they came, and the
//! lines of the program that made them. A job that hangs leaves a dump for each rank.
//!
//! The recorder knows neither the reduction nor the root of a call, and its group names are PyTorch's.

mod compare;
mod job;
mod joined;
mod messages;
#[cfg(test)]
mod tests;
mod waits;
mod words;

pub(super) use joined::{is_of_calls, join};

use super::finding::{About, Evidence, Finding, Severity, Spot, Sure};
use crate::error::{Error, Result};
use crate::formats::flight::{self, Dump, Entry};
use crate::report::{Report, counted};
use crate::source::Input;
use crate::stages::net::all::First;
use compare::{By, Differs, Shift};
use job::{Grouped, Job};
use messages::Unmet;
use std::collections::BTreeSet;
use waits::{Held, Wait};
use words::{line, place, place_or_why, ranks, what};

/// The dumps among the inputs of a check.
#[derive(Debug, Default)]
pub(super) struct Dumps {
    /// Their names.
    names: Vec<String>,
    /// Each with whether nothing of it is cut off or damaged.
    read: Vec<(Dump, bool)>,
    /// One was refused: whose it is is not known.
    is_refused: bool,
}

impl Dumps {
    /// Their names.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.names.iter()
    }

    /// Reads a dump.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn add(&mut self, input: &Input, report: &mut Report) -> Result<()> {
        let name = input.name();
        let (dump, is_cut) = match flight::load(input) {
            Ok((dump, cut)) => {
                if let Some(cut) = &cut {
                    report.warn(&format!("{name}: the dump is cut at {}", cut.place));
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
            let records = counted(dump.damaged, "record");
            report.warn(&format!(
                "{name}: {records} of calls are damaged and not compared"
            ));
        }
        self.names.push(name);
        let is_whole = !is_cut && dump.damaged == 0;
        self.read.push((dump, is_whole));
        Ok(())
    }

    /// The one cause that they show; their inputs' numbers begin with `first`.
    pub(super) fn shown(self, first: u32, report: &Report) -> Option<Shown> {
        let job = Job::of((first..).zip(self.read));
        if job.unused > 0 {
            let dumps = counted(job.unused, "dump");
            report.note(&format!(
                "{dumps} of the flight recorder not compared: the rank is unknown, or there is a later dump of it"
            ));
        }
        let groups = job.groups();
        let judge = Judge {
            job: &job,
            groups: &groups,
            is_refused: self.is_refused,
        };
        judge.shown()
    }
}

/// A finding, and who in the job it is about.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) finding: Finding,
    /// The ranks in the job that are at fault.
    pub(super) ranks: BTreeSet<u32>,
    /// The source lines, as a clause that another finding of the same cause can take over.
    pub(super) clause: String,
}

struct Judge<'j, 'd> {
    job: &'j Job,
    groups: &'j [Grouped<'d>],
    is_refused: bool,
}

impl<'d> Judge<'_, 'd> {
    /// The one cause that the dumps show.
    fn shown(&self) -> Option<Shown> {
        let by = |by| move |grouped| Some((grouped, compare::first_difference(grouped, by)?));
        let calls = self.groups.iter().filter_map(by(By::Calls));
        let differs = calls.chain(self.groups.iter().filter_map(by(By::Lines)));
        let made = |differs: &Differs<'_>| {
            let (one, other) = differs.sides;
            one.created_ns.min(other.created_ns)
        };
        if let Some((grouped, differs)) = differs.min_by_key(|(_, differs)| made(differs)) {
            return Some(self.mismatch(grouped, &differs));
        }
        let unmet = || {
            let mut all = self.groups.iter();
            all.find_map(|grouped| Some((grouped, messages::unmet(self.job, grouped)?)))
        };
        let unmet = unmet();
        // A rank that sent to a wrong peer has calls of its own that meet nothing.
        if let Some((grouped, unmet)) = &unmet
            && let Some(odd) = unmet.odd
            && unmet.calls.iter().any(|(who, _, _)| *who == odd)
        {
            return Some(self.wrong_peer(grouped, unmet, odd));
        }
        let waits = waits::waits(self.job, self.groups);
        match waits::held(&waits) {
            Some(Held::By(wait, who)) => return Some(self.behind(wait, &who)),
            Some(Held::Circle(one, other)) => return Some(self.deadlock(one, other)),
            None => {}
        }
        if let Some((grouped, unmet)) = &unmet {
            return self.missing(grouped, unmet);
        }
        if self.is_refused {
            return None;
        }
        let silent = waits
            .iter()
            .min_by_key(|wait| wait.call.created_ns.unwrap_or(u64::MAX));
        silent.map(|wait| self.silent(wait))
    }

    /// A record of a rank, as evidence.
    fn evidence(&self, rank: u32, entry: &Entry) -> Option<Evidence> {
        let input = self.job.ranks.get(&rank)?.input;
        Some(Evidence {
            at: Spot::Line(First {
                input,
                line: entry.record_id,
            }),
            text: Some(line(entry)),
        })
    }

    /// A rank's last call, with its place.
    fn last(&self, rank: u32) -> Option<(&Entry, String)> {
        let dump = &self.job.ranks.get(&rank)?.dump;
        let last = dump
            .entries
            .iter()
            .rev()
            .find(|e| e.op != flight::Op::Coalesced)?;
        Some((last, format!("{}{}", what(last), place_or_why(last))))
    }

    fn mismatch(&self, grouped: &Grouped<'_>, differs: &Differs<'_>) -> Shown {
        let (odd, other) = differs.sides;
        let is_line = differs.id == "line_mismatch";
        let seq = differs.seq;
        let shift = match differs.shift {
            _ if differs.odd.len() > 1 => String::new(),
            Some(Shift::LeftOut(n)) => format!(
                "; {} left out {}: its later calls are the others', {n} further on",
                ranks(&differs.odd),
                counted(n, "call")
            ),
            Some(Shift::Added(n)) => format!(
                "; {} made {} more than the others",
                ranks(&differs.odd),
                counted(n, "call")
            ),
            Some(Shift::Past) => format!(
                "; {} left calls out: it makes those that follow later",
                ranks(&differs.odd)
            ),
            None => String::new(),
        };
        let clause = format!(
            "{} called {}{}, {} {}{}",
            ranks(&differs.odd),
            what(odd),
            place_or_why(odd),
            ranks(&differs.others),
            what(other),
            place_or_why(other),
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
            self.evidence(first(&differs.odd), odd),
            self.evidence(first(&differs.others), other),
        ];
        Shown {
            ranks: who,
            finding: Finding {
                id: differs.id,
                severity: Severity::Error,
                says: format!(
                    "PyTorch's call {seq} of {} differs between ranks: {clause}{shift}",
                    grouped.name()
                ),
                about: About {
                    rank,
                    seq: seq.checked_sub(1),
                    ..About::default()
                },
                sure: if differs.is_told && !is_line { Sure::High } else { Sure::Medium },
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
            },
            clause: clause + &shift,
        }
    }

    fn behind(&self, wait: &Wait<'_>, who: &BTreeSet<u32>) -> Shown {
        let grouped = &self.groups[wait.group];
        let (seq, call) = (wait.seq, wait.call);
        let first = who.first().copied().unwrap_or_default();
        let last = self.last(first);
        let last = match (last, who.len()) {
            (Some((entry, last)), 1) if entry.created_ns > call.created_ns => {
                format!(
                    "; {} went on without it: its last call is {last}",
                    ranks(who)
                )
            }
            (Some((_, last)), 1) => format!("; the last call of {} is {last}", ranks(who)),
            _ => String::new(),
        };
        let clause = format!(
            "{} never made PyTorch's call {seq} of {}, {}{}; {} made it and {} in it{last}",
            ranks(who),
            grouped.name(),
            what(call),
            place_or_why(call),
            ranks(&wait.waiting),
            if wait.waiting.len() == 1 {
                "waits"
            } else {
                "wait"
            },
        );
        let waiting = wait
            .waiting
            .first()
            .and_then(|rank| self.evidence(*rank, call));
        let own = self
            .last(first)
            .and_then(|(entry, _)| self.evidence(first, entry));
        Shown {
            ranks: who.clone(),
            finding: Finding {
                id: "rank_behind",
                severity: Severity::Error,
                says: clause.clone(),
                about: About { rank: Some(first).filter(|_| who.len() == 1), seq: seq.checked_sub(1), ..About::default() },
                sure: if wait.is_given_up { Sure::High } else { Sure::Medium },
                why: match wait.is_given_up {
                    true => "PyTorch's watchdog gave this call up, and the dump of that rank does not have it".to_owned(),
                    false => "the dump of that rank does not have the call; a dump does not show whether the job still ran".to_owned(),
                },
                advice: "look at what that rank did after its last call: its stack (py-spy dump), its data, its GPU".to_owned(),
                evidence: waiting.into_iter().chain(own).collect(),
            },
            clause,
        }
    }

    fn deadlock(&self, one: &Wait<'_>, other: &Wait<'_>) -> Shown {
        let side = |wait: &Wait<'_>| {
            format!(
                "{} {} in PyTorch's call {} of {}, {}{}",
                ranks(&wait.waiting),
                if wait.waiting.len() == 1 {
                    "waits"
                } else {
                    "wait"
                },
                wait.seq,
                self.groups[wait.group].name(),
                what(wait.call),
                place_or_why(wait.call),
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
                .and_then(|rank| self.evidence(*rank, wait.call))
        });
        Shown {
            ranks: few.waiting.clone(),
            finding: Finding {
                id: "deadlock",
                severity: Severity::Error,
                says: format!("deadlock: {clause}"),
                about: About {
                    rank,
                    seq: few.seq.checked_sub(1),
                    ..About::default()
                },
                sure: Sure::Medium,
                why: "each side lacks the call that the other waits in, by the dumps of both"
                    .to_owned(),
                advice: "use the two process groups in one order on all ranks".to_owned(),
                evidence: evidence.into_iter().flatten().collect(),
            },
            clause,
        }
    }

    /// `Send of 4096 fp32 from rank 1 to rank 0 at train.py:12`.
    fn message((who, peer, entry): &(u32, u32, &Entry)) -> String {
        let toward = match entry.op {
            flight::Op::Send { .. } => "to",
            _ => "from",
        };
        format!(
            "{} of rank {who} {toward} rank {peer}{}",
            what(entry),
            place(entry)
        )
    }

    fn wrong_peer(&self, grouped: &Grouped<'_>, unmet: &Unmet<'_>, odd: u32) -> Shown {
        let own: Vec<_> = unmet
            .calls
            .iter()
            .filter(|(who, _, _)| *who == odd)
            .take(2)
            .collect();
        let calls: Vec<String> = own.iter().map(|call| Self::message(call)).collect();
        let clause = format!(
            "{} of {} without a counterpart: {}; rank {odd} is an end of all of them",
            counted(unmet.calls.len() as u64, "message"),
            grouped.name(),
            calls.join(", "),
        );
        let evidence = own
            .iter()
            .filter_map(|(who, _, entry)| self.evidence(*who, entry));
        Shown {
            ranks: BTreeSet::from([odd]),
            finding: Finding {
                id: "p2p_wrong_peer",
                severity: Severity::Error,
                says: clause.clone(),
                about: About {
                    rank: Some(odd),
                    ..About::default()
                },
                sure: Sure::Medium,
                why:
                    "the flight recorders of both ends have all their calls, and these meet nothing"
                        .to_owned(),
                advice: "check which peers that rank computes".to_owned(),
                evidence: evidence.collect(),
            },
            clause,
        }
    }

    fn missing(&self, grouped: &Grouped<'_>, unmet: &Unmet<'_>) -> Option<Shown> {
        let (who, peer, entry) = unmet
            .calls
            .iter()
            .min_by_key(|(_, _, entry)| entry.created_ns)?;
        let counterpart = match entry.op {
            flight::Op::Send { .. } => "receive",
            _ => "send",
        };
        let last = self.last(*peer).map_or_else(String::new, |(_, last)| {
            format!("; the last call of rank {peer} is {last}")
        });
        let clause = format!(
            "{} of {} waits: rank {peer} made no {counterpart} for it{last}",
            Self::message(&(*who, *peer, entry)),
            grouped.name(),
        );
        let own = self
            .last(*peer)
            .and_then(|(entry, _)| self.evidence(*peer, entry));
        let evidence = self.evidence(*who, entry).into_iter().chain(own);
        Some(Shown {
            ranks: BTreeSet::from([*peer]),
            finding: Finding {
                id: "p2p_missing_counterpart",
                severity: Severity::Error,
                says: clause.clone(),
                about: About { rank: Some(*peer), ..About::default() },
                sure: Sure::Medium,
                why: "the flight recorders of both ends have all their calls, and this one meets nothing".to_owned(),
                advice: "check that both ends make as many calls with each other".to_owned(),
                evidence: evidence.collect(),
            },
            clause,
        })
    }

    /// Those who left no dump.
    fn silent(&self, wait: &Wait<'_>) -> Shown {
        let clause = format!(
            "{} left no dump; {} {} in PyTorch's call {} of {}, {}{}",
            ranks(&wait.silent),
            ranks(&wait.waiting),
            if wait.waiting.len() == 1 {
                "waits"
            } else {
                "wait"
            },
            wait.seq,
            self.groups[wait.group].name(),
            what(wait.call),
            place_or_why(wait.call),
        );
        let few = 2 * wait.silent.len() <= self.job.world().len();
        let waiting = wait
            .waiting
            .first()
            .and_then(|rank| self.evidence(*rank, wait.call));
        Shown {
            ranks: wait.silent.clone(),
            finding: Finding {
                id: "dead_process",
                severity: if few { Severity::Error } else { Severity::Note },
                says: clause.clone(),
                about: About {
                    rank: wait.silent.first().copied().filter(|_| wait.silent.len() == 1),
                    seq: wait.seq.checked_sub(1),
                    ..About::default()
                },
                sure: if wait.silent.len() == 1 { Sure::Medium } else { Sure::Low },
                why: "a process that died or is stuck outside of PyTorch writes no dump; its file may also not have been given".to_owned(),
                advice: "look for the end of that process: its exit code, the kernel's log, its host".to_owned(),
                evidence: waiting.into_iter().collect(),
            },
            clause,
        }
    }
}
