//! The findings on processes that RAS cannot reach, and on initialisations that had not ended.

use super::movement::Movement;
use super::process_names::{LiveProcess, list_processes};
use super::{LiveJudge, ShownFinding};
use crate::formats::ras::{RasCommunicator, RasRankState};
use crate::stages::check::finding::{About, Confidence, Evidence, Finding, Kind};
use crate::stages::check::wording::{number_and_noun, verb_form};
use crate::stages::net::net_stage::FirstReportLine;
use std::collections::{BTreeMap, BTreeSet};

/// A process that did not answer.
struct LostState {
    is_dead: bool,
    line: u64,
}

impl LiveJudge<'_> {
    /// The finding on processes that did not answer.
    pub(super) fn find_lost_processes(&self) -> Option<ShownFinding> {
        let last = self.last?;
        let lost = self.collect_lost();
        let first = lost.keys().next()?;
        let processes: BTreeSet<LiveProcess> = lost.keys().cloned().collect();
        let only = Some(first).filter(|_| lost.len() == 1);
        let are_dead = lost.values().all(|state| state.is_dead);
        let has_error = last.snapshot.communicators.iter().any(|of| {
            let has_lost = !of.missing.is_empty();
            // `ncclRemoteError`: a rank lost its connection to another one.
            has_lost && of.ranks.iter().any(|rank| rank.error == Some(6))
        });
        let name = match only {
            Some(process) => self.names.describe_process(process),
            None => list_processes(&processes),
        };
        let verb = verb_form(lost.len(), "does", "do");
        let given_up = match are_dead {
            true => ", and RAS gave up after a minute",
            false => "",
        };
        let remote = match has_error {
            true => "; other ranks lost their connections to it",
            false => "",
        };
        let clause = format!("{name} {verb} not answer RAS{given_up}{remote}");
        let (sure, why) = match (are_dead, has_error) {
            (_, true) => (
                Confidence::High,
                "NCCL has a remote error on another rank of its communicator",
            ),
            (true, false) => (Confidence::High, "RAS tried to reach it for a minute"),
            (false, false) => (
                Confidence::Medium,
                "the process ended, is stopped, or its host cannot be reached over the bootstrap network",
            ),
        };
        let evidence = lost.values().next().map(|state| Evidence {
            at: FirstReportLine {
                input: last.input,
                line: state.line,
            }
            .into(),
            text: Some(format!("{name}: no answer").into_bytes()),
        });
        Some(ShownFinding {
            ranks: self.job_ranks(&processes).unwrap_or_default(),
            finding: Finding {
                about: only.map_or_else(About::default, |of| self.names.about_process(of)),
                why: why.to_owned(),
                advice: "look at whether this process still runs: its own output, its exit code, its host (dmesg, power, \
                         GPU)"
                    .to_owned(),
                evidence: evidence.into_iter().collect(),
                ..Finding::of_kind(Kind::DeadProcess, sure, clause.clone())
            },
            clause,
        })
    }

    fn collect_lost(&self) -> BTreeMap<LiveProcess, LostState> {
        let mut lost = BTreeMap::new();
        let Some(last) = self.last else {
            return lost;
        };
        for communicator in &last.snapshot.communicators {
            for missing in &communicator.missing {
                // A rank that ended its membership is missing too, but its process answers.
                let answers = missing.is_unresponsive == Some(false) && !missing.is_dead;
                let is_of_text =
                    missing.is_unresponsive.is_none() && !last.snapshot.lost.is_empty();
                if answers || is_of_text && missing.process.is_some() {
                    continue;
                }
                let process = missing.process.as_ref();
                let process = self.names.find_member(communicator, missing.rank, process);
                lost.insert(
                    process,
                    LostState {
                        is_dead: missing.is_dead,
                        line: missing.line,
                    },
                );
            }
        }
        if !last.snapshot.lost.is_empty() {
            // The text names the processes themselves.
            lost.clear();
        }
        for named in &last.snapshot.lost {
            let process = self.names.find_process(&named.process);
            lost.insert(
                process,
                LostState {
                    is_dead: named.is_dead,
                    line: named.line,
                },
            );
        }
        lost
    }

    /// The finding on an initialisation that had not ended.
    pub(super) fn find_open_setup(&self) -> Option<ShownFinding> {
        let last = self.last?;
        let is_open = |of: &&RasCommunicator| {
            of.ranks
                .iter()
                .any(|rank| rank.state == Some(RasRankState::Initialising))
        };
        let open = last.snapshot.communicators.iter().find(is_open)?;
        let members = |is: fn(RasRankState) -> bool| -> BTreeSet<LiveProcess> {
            let those = open.ranks.iter().filter(|rank| rank.state.is_some_and(is));
            those
                .map(|rank| {
                    self.names
                        .find_member(open, rank.rank, rank.process.as_ref())
                })
                .collect()
        };
        let waiting = members(|state| state == RasRankState::Initialising);
        let missing: BTreeSet<LiveProcess> = open
            .missing
            .iter()
            .map(|of| self.names.find_member(open, of.rank, of.process.as_ref()))
            .chain(members(|state| state == RasRankState::NoMember))
            .collect();
        let sure = match self.moved {
            Movement::Unchanged => Confidence::Medium,
            _ => Confidence::Low,
        };
        let size = number_and_noun(open.size.unwrap_or(0), "rank");
        let waits = format!(
            "{} {} in the initialisation of communicator {} ({size})",
            list_processes(&waiting),
            verb_form(waiting.len(), "is", "are"),
            open.id
        );
        let (kind, those, clause) = match missing.is_empty() {
            true => (Kind::InitIncomplete, waiting, waits),
            false => {
                let clause = format!(
                    "{} did not start the initialisation; {waits}",
                    list_processes(&missing)
                );
                (Kind::InitMissingRank, missing, clause)
            }
        };
        let only = those
            .first()
            .filter(|_| those.len() == 1 && kind == Kind::InitMissingRank);
        Some(ShownFinding {
            ranks: self.job_ranks(&those).unwrap_or_default(),
            finding: Finding {
                about: only.map_or_else(About::default, |of| self.names.about_process(of)),
                why: "RAS has the state of each rank; one answer does not show how long it lasts"
                    .to_owned(),
                ..Finding::of_kind(kind, sure, clause.clone())
            },
            clause,
        })
    }
}
