//! The findings on stacks, and what could not be judged.

use super::counts::CountVerdict;
use super::findings::stack_evidence;
use super::limits::MIN_WAITING_RANKS;
use super::movement::Movement;
use super::process_names::{LiveProcess, list_processes};
use super::wait_functions::StackPlace;
use super::{LiveJudge, ShownFinding};
use crate::formats::ras::RasSnapshot;
use crate::stages::check::finding::{About, Confidence, Finding, Kind, Reason};
use crate::stages::check::wording::number_and_noun;
use std::collections::BTreeSet;

impl LiveJudge<'_> {
    /// The finding on processes that wait for something else while the others wait for them. By RAS they must not be
    /// level with the others, if any differ.
    pub(super) fn find_odd_stack(&self) -> Option<ShownFinding> {
        let compared = self
            .compared
            .filter(|_| self.verdict != CountVerdict::Level);
        let idle: BTreeSet<LiveProcess> = self
            .groups
            .processes_at(StackPlace::OtherWait)
            .into_iter()
            .filter(|process| compared.is_none_or(|compared| compared.is_behind(process)))
            .collect();
        let waiting = &self.groups.processes_at(StackPlace::GpuWait)
            | &self.groups.processes_at(StackPlace::CommunicationCall);
        let is_behind = compared.is_some() && idle.len() == waiting.len();
        let first = idle.first()?;
        if waiting.is_empty() || idle.len() >= waiting.len() && !is_behind {
            return None;
        }
        let only = Some(first).filter(|_| idle.len() == 1);
        let name = match only {
            Some(process) => self.names.describe_process(process),
            None => list_processes(&idle),
        };
        let is = if only.is_some() { "is" } else { "are" };
        let group = self.groups.group_of(first)?;
        let mut clause = format!(
            "{name} {is} {}, and {} for {}",
            group.words,
            match list_processes(&waiting) {
                one if waiting.len() == 1 => format!("{one} waits"),
                many => format!("{many} wait"),
            },
            if only.is_some() { "it" } else { "them" },
        );
        let largest = self
            .groups
            .groups
            .iter()
            .find(|of| waiting.contains(*of.processes.first().unwrap_or(&first)));
        if let Some(largest) = largest {
            clause += &self.describe_stack(largest);
        }
        if let Some(counts) = self.describe_counts(first, "by RAS it") {
            clause = format!("{clause}; {counts}");
        }
        let (sure, stopped) = match self.is_stopped() {
            true if only.is_some() => (Confidence::High, "the job did not move"),
            true => (Confidence::Medium, "the job did not move"),
            // While a job runs, most ranks wait for the slowest one at most times.
            false => (
                Confidence::Low,
                "stacks that were taken only once do not show whether the job stopped",
            ),
        };
        let evidence = self.stacks.get(first).map(stack_evidence);
        let mut evidence: Vec<_> = evidence.into_iter().collect();
        evidence.extend(self.count_evidence(&idle));
        Some(ShownFinding {
            ranks: self.job_ranks(&idle).unwrap_or_default(),
            finding: Finding {
                about: only.map_or_else(About::default, |of| self.names.about_process(of)),
                why: format!(
                    "the stack shows that it does not wait as the others do, and {stopped}"
                ),
                advice: match self.is_stopped() {
                    true => format!("look at why the program is {}", group.words),
                    false => "take the stacks of all ranks again some seconds later and check both together: a rank \
                              that is at the same place has stopped"
                        .to_owned(),
                },
                evidence,
                reasons: vec![Reason::StackKnown],
                ..Finding::of_kind(Kind::RankBehind, sure, clause.clone())
            },
            clause,
        })
    }

    /// The finding on one rank that waits in a call of its own while the others wait for their GPUs.
    pub(super) fn find_odd_wait(&self) -> Option<ShownFinding> {
        let in_call = self.groups.processes_at(StackPlace::CommunicationCall);
        let on_gpu = self.groups.processes_at(StackPlace::GpuWait);
        let (1, Some(odd)) = (in_call.len(), in_call.first()) else {
            return None;
        };
        if on_gpu.len() < MIN_WAITING_RANKS || on_gpu.len() + 1 < self.stacks.len() {
            return None;
        }
        let group = self.groups.group_of(odd)?;
        let clause = format!(
            "{} is {}, and {} wait for their GPUs",
            self.names.describe_process(odd),
            group.words,
            list_processes(&on_gpu)
        );
        let most = self
            .groups
            .groups
            .iter()
            .find(|of| of.place == StackPlace::GpuWait);
        let most = most
            .map(|most| self.describe_stack(most))
            .unwrap_or_default();
        Some(ShownFinding {
            ranks: self.job_ranks(&in_call).unwrap_or_default(),
            finding: Finding {
                about: self.names.about_process(odd),
                why: "the stacks show that it waits in a call that the others are not in; they do not show which calls \
                      were made before"
                    .to_owned(),
                advice: "compare the branches of the program that lead to these lines; ask RAS for the counts of all \
                         ranks (ncclras -f json)"
                    .to_owned(),
                evidence: self.stacks.get(odd).map(stack_evidence).into_iter().collect(),
                ..Finding::of_kind(Kind::LineMismatch, Confidence::Low, format!("{clause}{most}"))
            },
            clause,
        })
    }

    fn describe_one_answer(&self, snapshot: &RasSnapshot) -> String {
        let of = |n: usize| number_and_noun(n as u64, "communicator");
        let differing = self
            .compared
            .map_or(0, |compared| compared.differences.len());
        match (differing, snapshot.lists_all_ranks) {
            (0, true) => format!(
                "by one answer of RAS the ranks of {} launched the same operations",
                of(snapshot.communicators.len())
            ),
            (0, false) => "the answers of RAS show no difference between ranks".to_owned(),
            (n, _) => format!(
                "by one answer of RAS several ranks are behind, on {}",
                of(n)
            ),
        }
    }

    /// The note on states that show no fault.
    pub(super) fn note_unjudged(&self) -> Option<Finding> {
        let answers = "check answers of RAS that were taken at least a step apart, and the stacks of all ranks";
        let (says, why, advice) = match (self.moved, self.last) {
            (Movement::Moved, _) => (
                "the job runs: ranks launched operations between the first answer of RAS and the last".to_owned(),
                "ranks that are at different calls while the job runs are not a fault",
                "if it is slow, nccl-skew shows which ranks are late; check again when it hangs",
            ),
            (_, None) if self.stacks.is_empty() => return None,
            (_, None) => (
                format!("the stacks do not show which rank the others wait for: {}", self.groups.describe_groups()),
                "a rank is named only if it is elsewhere than all others",
                "take the stacks of all ranks at two times, and the counts of RAS (ncclras -f json)",
            ),
            (Movement::Unchanged, Some(_)) => (
                "all ranks launched the same operations, and none launched more between the first answer of RAS and the \
                 last"
                    .to_owned(),
                "the ranks wait in these operations, for their GPUs or the network, or the job is between two",
                answers,
            ),
            (Movement::Unknown, Some(last)) => (
                self.describe_one_answer(&last.snapshot),
                "a job that runs looks the same",
                answers,
            ),
        };
        Some(Finding {
            why: why.to_owned(),
            advice: advice.to_owned(),
            ..Finding::of_kind(
                Kind::NotChecked,
                Confidence::High,
                format!("not judged: {says}"),
            )
        })
    }
}
