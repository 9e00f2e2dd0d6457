//! The sentences of the findings on messages in dumps.

use super::entry_text::{describe_entry, describe_source};
use super::job::GroupDumpCalls;
use super::messages::{UnmatchedCall, UnmatchedMessages};
use super::{DumpJudge, ShownFinding};
use crate::formats::flight::FlightOp;
use crate::report::count_phrase;
use crate::stages::check::finding::{About, Confidence, Finding, Kind};
use std::collections::BTreeSet;

impl DumpJudge<'_, '_> {
    /// The finding on the first message that did not end, of a job in which nothing else is known.
    pub(super) fn open_message_finding(&self) -> Option<ShownFinding> {
        let messages = self.groups.iter().flat_map(GroupDumpCalls::iter_messages);
        let open = messages.filter(UnmatchedCall::is_open);
        let first = open.min_by_key(|call| call.entry.created_ns.unwrap_or(u64::MAX))?;
        let (rank, entry) = (first.rank, first.entry);
        let clause = format!(
            "rank {rank} waits in {}{}",
            describe_entry(entry),
            describe_source(entry)
        );
        let says = format!("not judged: {clause}; the dumps do not show which rank it waits for");
        Some(ShownFinding {
            ranks: BTreeSet::from([rank]),
            finding: Finding {
                about: About::of_rank(None),
                why: "the calls of all ranks agree as far as their dumps have them".to_owned(),
                advice: "give the dumps of all ranks, with a larger TORCH_FR_BUFFER_SIZE, and look at the other end of \
                         this message"
                    .to_owned(),
                evidence: self.entry_evidence(rank, entry).into_iter().collect(),
                ..Finding::of_kind(Kind::NotChecked, Confidence::High, says)
            },
            clause,
        })
    }

    /// `Send of 4096 fp32 from rank 1 to rank 0 at train.py:12`.
    fn describe_message(call: &UnmatchedCall<'_>) -> String {
        let toward = match call.entry.op {
            FlightOp::Send { .. } => "to",
            _ => "from",
        };
        format!(
            "{} of rank {} {toward} rank {}{}",
            describe_entry(call.entry),
            call.rank,
            call.peer,
            describe_source(call.entry)
        )
    }

    pub(super) fn wrong_peer_finding(
        &self,
        grouped: &GroupDumpCalls<'_>,
        unmet: &UnmatchedMessages<'_>,
        odd: u32,
    ) -> ShownFinding {
        let own: Vec<_> = unmet
            .calls
            .iter()
            .filter(|call| call.rank == odd)
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
            .filter_map(|call| self.entry_evidence(call.rank, call.entry));
        ShownFinding {
            ranks: BTreeSet::from([odd]),
            finding: Finding {
                about: About::of_rank(Some(odd)),
                why:
                    "the flight recorders of both ends are complete, and these calls have no counterpart"
                        .to_owned(),
                advice: "check which peers that rank computes".to_owned(),
                evidence: evidence.collect(),
                ..Finding::of_kind(Kind::P2pWrongPeer, Confidence::Medium, clause.clone())
            },
            clause,
        }
    }

    /// The finding on a message that waits for its peer.
    pub(super) fn missing_message_finding(&self, call: &UnmatchedCall<'_>) -> ShownFinding {
        let (entry, peer) = (call.entry, &call.peer);
        let counterpart = match entry.op {
            FlightOp::Send { .. } => "receive",
            _ => "send",
        };
        let mut ends = [call.rank, *peer].into_iter();
        let is_known = ends.all(|rank| self.job.has_all_calls_of(rank));
        let lacks = match is_known {
            true => format!("made no {counterpart} for it"),
            false if !self.job.ranks.contains_key(peer) => "left no dump".to_owned(),
            false => "waits in no call".to_owned(),
        };
        let last = self.last_call(*peer).map_or_else(String::new, |(_, last)| {
            format!("; the last call of rank {peer} is {last}")
        });
        let groups = self.groups.iter();
        let grouped = groups
            .filter(|grouped| grouped.group.name == entry.group.name)
            .find(|grouped| grouped.group.ranks == entry.group.ranks);
        let group = grouped.map_or_else(String::new, |grouped| {
            format!(" of {}", grouped.describe_group())
        });
        let clause = format!(
            "{}{group} waits: rank {peer} {lacks}{last}",
            Self::describe_message(call),
        );
        let own = self.last_call_evidence(*peer);
        let evidence = self.entry_evidence(call.rank, entry).into_iter().chain(own);
        let why = match is_known {
            true => {
                "the flight recorders of both ends have all their calls, and this one meets nothing"
            }
            false if !self.job.ranks.contains_key(peer) => {
                "a rank that hangs leaves a dump; one that died leaves none, or its file was not given"
            }
            false => "the dump of that rank has no call that did not end",
        };
        ShownFinding {
            ranks: BTreeSet::from([*peer]),
            finding: Finding {
                about: About::of_rank(Some(*peer)),
                why: why.to_owned(),
                advice: "check that both ends make as many calls with each other".to_owned(),
                evidence: evidence.collect(),
                ..Finding::of_kind(
                    Kind::P2pMissingCounterpart,
                    Confidence::Medium,
                    clause.clone(),
                )
            },
            clause,
        }
    }
}
