//! The findings on the counts of RAS.

use super::counts::{CountVerdict, OddProcesses};
use super::movement::Movement;
use super::process_names::{LiveProcess, list_processes};
use super::stack_groups::{LiveStack, StackGroup};
use super::wait_functions::{StackPlace, describe_place};
use super::{LiveJudge, ShownFinding};
use crate::formats::ras::RasRank;
use crate::stages::check::finding::{About, Confidence, Evidence, Finding, Kind, Reason};
use crate::stages::check::wording::{name_result, number_and_noun};
use crate::stages::net::net_stage::FirstReportLine;
use std::collections::BTreeSet;

/// The advice where one answer cannot show that the job stopped.
const TAKE_ANOTHER: &str = "ask RAS again some seconds later (ncclras -f json) and check both answers together: counts \
    that grow show that the job runs; take the stacks of all ranks too (py-spy dump)";

impl LiveJudge<'_> {
    /// The finding on ranks that launched fewer, more or other operations.
    pub(super) fn find_odd_counts(&self) -> Option<ShownFinding> {
        match &self.verdict {
            CountVerdict::Level => None,
            // Several ranks are behind in any answer of a job that runs.
            CountVerdict::Behind(odd) | CountVerdict::Ahead(odd)
                if odd.processes.len() > 1 && !self.is_stopped() =>
            {
                None
            }
            CountVerdict::Behind(odd) => self.odd_finding(odd, Kind::RankBehind),
            CountVerdict::Ahead(odd) => self.odd_finding(odd, Kind::RankAhead),
            CountVerdict::Either { behind, ahead } => self.either_finding(behind, ahead),
            CountVerdict::Circle { processes, odd } => self.circle_finding(processes, odd.as_ref()),
        }
    }

    /// How sure the counts are.
    fn count_confidence(&self, odd: &OddProcesses) -> Confidence {
        match (self.is_stopped(), odd.is_single_call && odd.is_certain) {
            (true, true) => Confidence::High,
            (true, false) | (false, true) => Confidence::Medium,
            (false, false) => Confidence::Low,
        }
    }

    fn odd_finding(&self, odd: &OddProcesses, kind: Kind) -> Option<ShownFinding> {
        let first = odd.processes.first()?;
        let only = Some(first).filter(|_| odd.processes.len() == 1);
        let group = only.and_then(|process| self.groups.group_of(process));
        let mut sure = self.count_confidence(odd);
        let mut is_named = only.is_some();
        let mut why = self.explain_counts();
        match group.map(|group| group.place) {
            Some(StackPlace::GpuWait) if odd.is_everywhere && kind == Kind::RankBehind => {
                (sure, is_named) = (Confidence::Low, false);
                why += "; but by its stack it waits for its GPU, as ranks do that wait for another one: a message \
                        (Send, Recv) that RAS does not count may be missing";
            }
            None if odd.is_everywhere && kind == Kind::RankBehind => {
                sure = Confidence::Low;
                why += "; a rank that waits for its GPU launches no more either: its stack decides";
            }
            Some(StackPlace::CommunicationCall) => sure = sure.max(Confidence::Medium),
            _ if only.is_none() => sure = sure.max(Confidence::Medium),
            _ => {}
        }
        let clause = self.describe_odd(&odd.processes, kind, is_named || only.is_none())?;
        let place = group.map(|group| self.describe_places(group));
        let place = place.unwrap_or_default();
        let about = match only.filter(|_| is_named) {
            Some(process) => self.names.about_process(process),
            None => About::default(),
        };
        let all = self.compared?.differences_of(first).len() as u64;
        let more = match all.saturating_sub(1) {
            0 => String::new(),
            n => format!("; also on {}", number_and_noun(n, "other communicator")),
        };
        Some(ShownFinding {
            ranks: self
                .job_ranks(&odd.processes)
                .filter(|_| is_named)
                .unwrap_or_default(),
            finding: Finding {
                about,
                why,
                advice: self.advise(is_named && group.is_none()),
                evidence: self.count_evidence(&odd.processes),
                reasons: group.map(|_| Reason::StackKnown).into_iter().collect(),
                ..Finding::of_kind(kind, sure, format!("{clause}{place}{more}"))
            },
            clause: format!("{clause}{place}"),
        })
    }

    /// `rank 0 (pid 603 on 10.0.0.1) is behind: it launched 10 AllReduce on ..`. A process without blame waits itself.
    fn describe_odd(
        &self,
        processes: &BTreeSet<LiveProcess>,
        kind: Kind,
        is_blamed: bool,
    ) -> Option<String> {
        let first = processes.first()?;
        let is_one = processes.len() == 1;
        let (name, it, be) = match is_one {
            true => (self.names.describe_process(first), "it", "is"),
            false => (list_processes(processes), "they", "are"),
        };
        let counts = self.describe_counts(first, it)?;
        let what = match (kind, is_blamed) {
            (Kind::RankAhead, _) => "ahead",
            (_, true) => "behind",
            (_, false) => {
                "behind, but is itself waiting for its GPU, maybe for a message from another rank"
            }
        };
        Some(format!("{name} {be} {what}: {counts}"))
    }

    /// The finding on two ranks, or groups, that differ. The stack of the one that waits in a call of its own decides.
    fn either_finding(
        &self,
        behind: &BTreeSet<LiveProcess>,
        ahead: &BTreeSet<LiveProcess>,
    ) -> Option<ShownFinding> {
        let first = behind.first()?;
        let in_call = |of: &BTreeSet<LiveProcess>| {
            let group = of.first().and_then(|process| self.groups.group_of(process));
            group.is_some_and(|group| group.place == StackPlace::CommunicationCall)
        };
        let odd = |processes: &BTreeSet<LiveProcess>| OddProcesses {
            processes: processes.clone(),
            is_single_call: false,
            is_everywhere: false,
            is_certain: false,
        };
        match (in_call(behind), in_call(ahead)) {
            (true, false) if !self.stacks.is_empty() => {
                return self.odd_finding(&odd(behind), Kind::RankBehind);
            }
            (false, true) => return self.odd_finding(&odd(ahead), Kind::RankAhead),
            _ => {}
        }
        let (name, other) = (list_processes(behind), list_processes(ahead));
        let clause = self.describe_counts(first, &name)?;
        let both = behind | ahead;
        let says = match self.compared?.differs_by_one_call() {
            true => format!("{clause}; either {name} left a call out or {other} made one more"),
            false => format!("{clause}; {name} may wait in a call that {other} did not make"),
        };
        Some(ShownFinding {
            ranks: BTreeSet::new(),
            finding: Finding {
                why: format!(
                    "{}; nothing shows which of both is wrong",
                    self.explain_counts()
                ),
                advice: self.advise(false),
                evidence: self.count_evidence(&both),
                ..Finding::of_kind(Kind::RankBehind, Confidence::Low, says)
            },
            clause,
        })
    }

    fn circle_finding(
        &self,
        processes: &BTreeSet<LiveProcess>,
        odd: Option<&LiveProcess>,
    ) -> Option<ShownFinding> {
        let compared = self.compared?;
        let first = odd.or_else(|| processes.first())?;
        let each = compared.differences_of(first);
        let name = self.names.describe_process(first);
        let mut parts = each
            .iter()
            .filter_map(|of| of.describe_difference(first, &name));
        let clause = match (parts.next(), parts.next()) {
            (Some(one), Some(other)) => {
                let other = other.replacen(&name, "it", 1);
                format!("{one}, but {other}")
            }
            (Some(one), None) => one,
            _ => return None,
        };
        let stacks = self.groups.groups.iter();
        let own = stacks.filter(|group| group.processes.iter().any(|of| processes.contains(of)));
        let places: String = own.map(|group| self.describe_stack(group)).collect();
        let those: BTreeSet<LiveProcess> = match odd {
            Some(process) => BTreeSet::from([process.clone()]),
            None => processes.clone(),
        };
        let sure = match self.is_stopped() {
            true => Confidence::Medium,
            false => Confidence::Low,
        };
        let mut why = self.explain_counts();
        why += match odd {
            Some(_) => "; its counts are not those of the communicators of the same kind",
            None => "; which rank is wrong is unknown",
        };
        let says = format!(
            "{} wait for each other, a deadlock: {clause}{places}",
            list_processes(processes)
        );
        Some(ShownFinding {
            ranks: self.job_ranks(&those).unwrap_or_default(),
            finding: Finding {
                about: odd.map_or_else(About::default, |of| self.names.about_process(of)),
                why,
                evidence: self.count_evidence(processes),
                ..Finding::of_kind(Kind::Deadlock, sure, says)
            },
            clause: format!("{clause}{places}"),
        })
    }

    /// Describes what a process launched where it differs from most ranks.
    pub(super) fn describe_counts(&self, process: &LiveProcess, name: &str) -> Option<String> {
        let each = self.compared?.differences_of(process);
        each.first()?.describe_difference(process, name)
    }

    /// `; it is in barrier from train.py:84; ranks 0-4 are in synchronize from train.py:76`.
    fn describe_places(&self, own: &StackGroup<'_>) -> String {
        let mut places = format!("; it is {}", own.words);
        if let Some(largest) = self.groups.groups.first()
            && largest.processes != own.processes
        {
            places += &self.describe_stack(largest);
        }
        places
    }

    /// `; rank 0 is in layer (train.py:39)`.
    pub(super) fn describe_stack(&self, group: &StackGroup<'_>) -> String {
        let all = group.processes.iter().copied();
        let is = if group.processes.len() == 1 {
            "is"
        } else {
            "are"
        };
        format!("; {} {is} {}", list_processes(all), group.words)
    }

    fn explain_counts(&self) -> String {
        let stopped = match self.moved {
            Movement::Unchanged => {
                "no rank launched an operation between the first answer of RAS and the last"
            }
            _ if self.is_failed => "the log reports a failure",
            _ => "one answer of RAS does not show whether the job stopped",
        };
        format!("RAS counts the operations that each rank launched, and {stopped}")
    }

    fn advise(&self, needs_stack: bool) -> String {
        match (self.is_stopped(), needs_stack) {
            (false, _) => TAKE_ANOTHER.to_owned(),
            (true, true) => String::new(),
            (true, false) if self.stacks.is_empty() => {
                "take the stacks of all ranks (py-spy dump) and check them with these answers"
                    .to_owned()
            }
            (true, false) => {
                "look at these lines of the program: which ranks come to them, and in which order"
                    .to_owned()
            }
        }
    }

    /// The counts of the processes, and of a rank that differs from them, as evidence.
    pub(super) fn count_evidence(&self, processes: &BTreeSet<LiveProcess>) -> Vec<Evidence> {
        let (Some(compared), Some(last)) = (self.compared, self.last) else {
            return Vec::new();
        };
        let Some(first) = processes.first() else {
            return Vec::new();
        };
        let mut ranks: Vec<&RasRank> = Vec::new();
        if let Some(difference) = compared.differences_of(first).first() {
            ranks.extend(
                difference
                    .group_of(first)
                    .and_then(|group| group.members.get(first).copied()),
            );
            let others = difference
                .groups
                .iter()
                .filter(|group| !group.members.contains_key(first));
            let other = others.max_by_key(|group| group.members.len());
            ranks.extend(other.and_then(|group| group.members.values().next().copied()));
        }
        let evidence = ranks.into_iter().map(|rank| Evidence {
            at: FirstReportLine {
                input: last.input,
                line: rank.line,
            }
            .into(),
            text: Some(rank_line(rank)),
        });
        evidence.collect()
    }

    /// The ranks in the job, where all of the processes have one.
    pub(super) fn job_ranks(&self, processes: &BTreeSet<LiveProcess>) -> Option<BTreeSet<u32>> {
        let rank = |process: &LiveProcess| match process {
            LiveProcess::Rank(rank) => Some(*rank),
            _ => None,
        };
        processes.iter().map(rank).collect()
    }

    /// The finding on an error that NCCL has for a rank.
    pub(super) fn find_reported_error(&self) -> Option<ShownFinding> {
        let last = self.last?;
        let mut all = last.snapshot.communicators.iter().flat_map(|of| {
            of.ranks
                .iter()
                .filter_map(move |rank| Some((of, rank, rank.error?)))
        });
        let (communicator, rank, error) = all.next()?;
        let process = self
            .names
            .find_member(communicator, rank.rank, rank.process.as_ref());
        let clause = format!(
            "NCCL reports {} on {}",
            name_result(error),
            self.names.describe_process(&process)
        );
        Some(ShownFinding {
            ranks: self
                .job_ranks(&BTreeSet::from([process.clone()]))
                .unwrap_or_default(),
            finding: Finding {
                about: self.names.about_process(&process),
                why: "RAS has this error of the communicator, not its reason".to_owned(),
                advice: "look at the WARN lines of this rank (NCCL_DEBUG=WARN), and at its output"
                    .to_owned(),
                evidence: vec![Evidence {
                    at: FirstReportLine {
                        input: last.input,
                        line: rank.line,
                    }
                    .into(),
                    text: Some(rank_line(rank)),
                }],
                ..Finding::of_kind(Kind::NcclError, Confidence::High, clause.clone())
            },
            clause,
        })
    }
}

/// A rank's counts in one line, as evidence.
fn rank_line(rank: &RasRank) -> Vec<u8> {
    let process = rank.process.as_ref();
    let process = process.map_or_else(String::new, |of| {
        format!(" (pid {} on {})", of.pid, of.host)
    });
    let counts = rank.counts.iter().map(|(op, n)| format!("{op} {n}"));
    let counts = counts.collect::<Vec<_>>().join(", ");
    let error = rank
        .error
        .map_or_else(String::new, |e| format!(", {}", name_result(e)));
    format!(
        "rank {} of the communicator{process}: {counts}{error}",
        rank.rank
    )
    .into_bytes()
}

/// The main thread of a process, as evidence.
pub(super) fn stack_evidence(stack: &LiveStack<'_>) -> Evidence {
    Evidence {
        at: FirstReportLine {
            input: stack.input,
            line: stack.main.line,
        }
        .into(),
        text: Some(format!("the main thread is {}", describe_place(stack.main)).into_bytes()),
    }
}
