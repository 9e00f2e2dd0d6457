//! Which findings follow from which: one table, and one pass that folds by it.

use super::answer::actors;
use super::finding::{About, Confidence, DeadRanks, Finding, Kind, Reason, Severity, WarnKind};
use super::log::job_processes::JobProcesses;
use super::warn::known_warns;
use crate::stages::communicators::CommunicatorsSummary;
use crate::stages::net::net_stage::FirstReportLine;
use std::collections::{BTreeMap, BTreeSet};

/// A set of findings: one side of a row of [`CAUSES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FindingSet {
    /// The calls themselves are wrong.
    CallsDiffer,
    /// Calls are missing, or there are too many.
    CallsMissing,
    /// A rank for which the others wait.
    RankBehind,
    /// A rank that printed nothing after the failure.
    DeadProcess,
    /// A message without its other side.
    UnpairedMessage,
    /// NCCL received more than fits.
    MessageTruncated,
    /// A process that failed first.
    FirstFailure,
    /// A failure that the machine reports.
    MachineFault,
    /// A failure of a process that the log shows.
    ProcessFailure,
    /// A process that failed first, without a name in any line.
    UnnamedFailure,
    /// A process that may have ended itself because of an error.
    ErrorAnswer,
    /// NCCL's own report of a cause.
    WarnedCause,
    /// A report of what waited for, or lost, another process.
    Follower,
    /// An error of NCCL's without a reason.
    ReturnedError,
    /// Any other finding of a failure.
    OtherFailure,
    /// An initialisation that had not ended.
    OpenSetup,
    /// Such a one in which the ranks only wait.
    WaitingSetup,
    /// A process waited for a rank that did not come, until its time was up.
    SetupTimeout,
    /// Processes create their groups in different orders.
    GroupOrder,
    /// A table of nccl-tests that ends early.
    BenchmarkStopped,
}

impl FindingSet {
    fn contains(self, finding: &Finding) -> bool {
        let kind = finding.kind;
        let is_of_machine = || finding.reasons.contains(&Reason::MachineReports);
        match self {
            FindingSet::CallsDiffer => {
                kind.is_mismatch() && finding.about.seq.is_some()
                    || matches!(kind, Kind::Deadlock | Kind::P2pWrongPeer)
            }
            FindingSet::CallsMissing => matches!(
                kind,
                Kind::RankBehind | Kind::RankSilent | Kind::RankAhead | Kind::P2pMissingCounterpart
            ),
            FindingSet::RankBehind => matches!(kind, Kind::RankBehind | Kind::RankSilent),
            FindingSet::DeadProcess => kind == Kind::DeadProcess,
            FindingSet::UnpairedMessage => kind == Kind::P2pMissingCounterpart,
            FindingSet::MessageTruncated => kind == Kind::Warn(WarnKind::MESSAGE_TRUNCATED),
            FindingSet::FirstFailure => kind.is_first_failure(),
            FindingSet::MachineFault => is_of_machine() && kind.is_first_failure(),
            FindingSet::ProcessFailure => {
                (kind.is_first_failure() || FindingSet::WarnedCause.contains(finding))
                    && !is_of_machine()
            }
            FindingSet::UnnamedFailure => {
                let About {
                    host, pid, rank, ..
                } = &finding.about;
                let is_named = host.is_some() || pid.is_some() || rank.is_some();
                kind.is_first_failure() && !is_named
            }
            FindingSet::ErrorAnswer => finding.reasons.contains(&Reason::AnswersError),
            FindingSet::WarnedCause => kind.is_warn() && !known_warns::is_follower(kind),
            FindingSet::ReturnedError => kind == Kind::NcclError,
            FindingSet::OtherFailure => {
                kind.is_warn()
                    || kind.is_mismatch()
                    || kind.is_first_failure()
                    || kind.is_watchdog()
                    || matches!(
                        kind,
                        Kind::SetupFailed | Kind::InitIncomplete | Kind::GroupOrder
                    )
                    || FindingSet::CallsMissing.contains(finding)
                    || FindingSet::CallsDiffer.contains(finding)
            }
            FindingSet::BenchmarkStopped => {
                matches!(kind, Kind::BenchmarkNoRow | Kind::BenchmarkUnfinished)
            }
            FindingSet::Follower => {
                matches!(kind, Kind::WatchdogTimeout | Kind::SetupFailed)
                    || known_warns::is_follower(kind)
                    || finding.reasons.contains(&Reason::ErrorOfEnd)
            }
            FindingSet::OpenSetup => matches!(
                kind,
                Kind::InitIncomplete | Kind::InitMissingRank | Kind::ConnectRetrying
            ),
            FindingSet::WaitingSetup => {
                kind == Kind::InitIncomplete && finding.sure != Confidence::High
            }
            FindingSet::SetupTimeout => {
                kind == Kind::SetupFailed && finding.reasons.contains(&Reason::TimeWasUp)
            }
            FindingSet::GroupOrder => kind == Kind::GroupOrder,
        }
    }

    /// True for a finding of the set that is bad enough to explain others.
    fn has_cause(self, finding: &Finding) -> bool {
        let is_bad = match self {
            FindingSet::FirstFailure => finding.severity != Severity::Note,
            _ => finding.severity == Severity::Error,
        };
        is_bad && self.contains(finding)
    }
}

/// Where the cause must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// On the same process; on the same host if all its ranks are dead.
    Process,
    /// Anywhere in the job.
    Job,
}

/// What becomes of a finding that is explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fold {
    /// It is left out, and its cause gets what it knows.
    Merge,
    /// It gets the process of its cause.
    Name,
    /// It becomes a note that names its cause.
    Demote,
    /// It is left out: its cause has all that it has.
    Omit,
}

/// A row: `effect` follows from the first of `causes` that is among the findings.
struct CauseRow {
    effect: FindingSet,
    causes: &'static [FindingSet],
    scope: Scope,
    fold: Fold,
}

const fn row(
    effect: FindingSet,
    causes: &'static [FindingSet],
    scope: Scope,
    fold: Fold,
) -> CauseRow {
    CauseRow {
        effect,
        causes,
        scope,
        fold,
    }
}

/// What explains what. Each row reads the findings as the rows before it left them, so a row that
/// makes notes of possible causes comes after the rows that use them.
const CAUSES: [CauseRow; 12] = {
    use FindingSet::*;
    [
        // The rank for which the others wait is the one that fell silent.
        row(DeadProcess, &[RankBehind], Scope::Process, Fold::Merge),
        // A failure without a name is that of the only rank for which the others wait.
        row(UnnamedFailure, &[RankBehind], Scope::Job, Fold::Name),
        // What the machine reports of a process or its GPU explains how the process ended.
        row(
            ProcessFailure,
            &[MachineFault],
            Scope::Process,
            Fold::Demote,
        ),
        // A process that NCCL gave an error ends by it.
        row(ErrorAnswer, &[WarnedCause], Scope::Job, Fold::Demote),
        // Where a process failed, the others cannot end their initialisation.
        row(
            OpenSetup,
            &[FirstFailure, WarnedCause, GroupOrder],
            Scope::Job,
            Fold::Demote,
        ),
        // A process that waits for a rank, or loses it, reports that.
        row(
            Follower,
            &[CallsDiffer, FirstFailure, GroupOrder, CallsMissing],
            Scope::Job,
            Fold::Demote,
        ),
        // The ranks that a process waits for are not there, so other initialisations wait too.
        row(WaitingSetup, &[SetupTimeout], Scope::Job, Fold::Demote),
        // Where the calls show which message is wrong, the error of its receiver follows.
        row(
            MessageTruncated,
            &[CallsDiffer, UnpairedMessage],
            Scope::Job,
            Fold::Demote,
        ),
        // A process that fails leaves its calls out.
        row(
            CallsMissing,
            &[FirstFailure, GroupOrder],
            Scope::Job,
            Fold::Demote,
        ),
        // A rank that calls something else falls silent.
        row(DeadProcess, &[CallsDiffer], Scope::Job, Fold::Demote),
        // An error without a reason repeats the failure that has one.
        row(ReturnedError, &[OtherFailure], Scope::Job, Fold::Omit),
        // A benchmark prints no further row where its ranks wait or fail.
        row(
            BenchmarkStopped,
            &[
                WarnedCause,
                CallsDiffer,
                FirstFailure,
                CallsMissing,
                ReturnedError,
                OpenSetup,
            ],
            Scope::Job,
            Fold::Demote,
        ),
    ]
};

/// Folds findings that follow from others. `rank_in_job` returns the rank in the job that a finding
/// is about.
fn fold_consequences(findings: &mut Vec<Finding>, rank_in_job: impl Fn(&Finding) -> Option<u32>) {
    judge_by_lost_processes(findings);
    for row in &CAUSES {
        match row.fold {
            Fold::Merge => row.merge_effect(findings),
            Fold::Name => row.name_effect(findings, &rank_in_job),
            Fold::Demote => row.demote_effects(findings),
            Fold::Omit => row.omit_effects(findings),
        }
    }
}

/// Folds the findings of each job, or attempt of one: what follows in one has its cause there. Findings of no known job
/// are folded by themselves where there are several. `begins` has the first message of each process.
pub(super) fn fold_consequences_by_job(
    findings: &mut Vec<Finding>,
    found: &CommunicatorsSummary,
    begins: impl Iterator<Item = (u32, FirstReportLine)>,
) {
    let processes = JobProcesses::new(found, begins);
    let job_of = |finding: &Finding| actors::find_job(found, &processes, finding);
    let jobs: BTreeSet<u32> = findings.iter().filter_map(job_of).collect();
    let mut groups: BTreeMap<Option<u32>, Vec<Finding>> = BTreeMap::new();
    for finding in findings.drain(..) {
        let job = job_of(&finding).filter(|_| jobs.len() > 1);
        groups.entry(job).or_default().push(finding);
    }
    for mut group in groups.into_values() {
        fold_consequences(&mut group, |finding| {
            actors::find_rank_in_job(found, finding)
        });
        findings.append(&mut group);
    }
}

/// Makes an error of a failure after which the job only seemed to go on, as others were ahead: they wait for the process
/// that failed.
fn judge_by_lost_processes(findings: &mut [Finding]) {
    let is_missed = |f: &&Finding| f.kind.is_stop() && f.severity != Severity::Note;
    let missed = findings.iter().filter(is_missed);
    let missed: Vec<About> = missed.map(|f| f.about.clone()).collect();
    for finding in findings {
        let About { host, pid, .. } = &finding.about;
        let is_missed = missed.iter().any(|of| of.host == *host && of.pid == *pid);
        if pid.is_some() && is_missed && finding.reasons.contains(&Reason::WentOn) {
            finding.severity = Severity::Error;
            finding.reasons.retain(|reason| *reason != Reason::WentOn);
        }
    }
}

impl CauseRow {
    /// True if a cause about `by` is where the row asks for it.
    fn is_in_scope(&self, effect: &Finding, by: &About) -> bool {
        let of = &effect.about;
        match self.scope {
            Scope::Job => true,
            Scope::Process => {
                of.host == by.host
                    && (of.pid == by.pid || effect.dead_ranks().is_some_and(|dead| dead.is_host))
            }
        }
    }

    /// Leaves out the first effect if its cause is there.
    fn merge_effect(&self, findings: &mut Vec<Finding>) {
        let is_cause = |of: &Finding, by: &Finding| {
            self.causes.iter().any(|set| set.has_cause(by)) && self.is_in_scope(of, &by.about)
        };
        let Some(at) = findings.iter().position(|f| self.effect.has_cause(f)) else {
            return;
        };
        let Some(cause) = findings.iter().position(|f| is_cause(&findings[at], f)) else {
            return;
        };
        let effect = findings[at].clone();
        let cause = &mut findings[cause];
        let dead = effect.dead_ranks().map(Reason::PrintedNothing);
        let is_shown =
            |reason: &Reason| matches!(reason, Reason::DumpsShow(_) | Reason::StatesShow(_));
        let shown = effect.reasons.into_iter().filter(is_shown);
        cause.reasons.extend(dead.into_iter().chain(shown));
        cause.sure = cause.sure.min(effect.sure);
        findings.remove(at);
    }

    /// Gives the one effect the process of the one cause.
    fn name_effect(&self, findings: &mut [Finding], rank_in_job: impl Fn(&Finding) -> Option<u32>) {
        let is_cause = |f: &&Finding| self.causes.iter().any(|set| set.has_cause(f));
        let mut causes = findings.iter().filter(is_cause);
        let (Some(cause), None) = (causes.next(), causes.next()) else {
            return;
        };
        let (sure, rank) = (cause.sure, rank_in_job(cause));
        let (Some(host), Some(pid)) = (cause.about.host.clone(), cause.about.pid) else {
            return;
        };
        let mut effects = findings.iter_mut().filter(|f| self.effect.has_cause(f));
        if let (Some(effect), None) = (effects.next(), effects.next()) {
            effect.about = About {
                host: Some(host.clone()),
                pid: Some(pid),
                rank,
                ..About::default()
            };
            effect.sure = sure.max(Confidence::Medium);
            effect
                .reasons
                .push(Reason::NamedByCalls { rank, host, pid });
        }
    }

    /// Leaves out the effects if a cause is there.
    fn omit_effects(&self, findings: &mut Vec<Finding>) {
        let is_cause = |f: &Finding| self.causes.iter().any(|set| set.has_cause(f));
        if findings.iter().any(is_cause) {
            findings.retain(|finding| !self.effect.contains(finding));
        }
    }

    /// Makes notes of the effects if a cause is there.
    fn demote_effects(&self, findings: &mut [Finding]) {
        let known = &*findings;
        let all = self.causes.iter().flat_map(|set| {
            let of_set = known.iter().filter(|f| set.has_cause(f));
            of_set.collect::<Vec<_>>()
        });
        let all = all.map(|f| (f.kind, f.about.clone()));
        let causes: Vec<(Kind, About)> = match self.scope {
            Scope::Job => all.take(1).collect(),
            Scope::Process => all.collect(),
        };
        for finding in findings.iter_mut().filter(|f| self.effect.contains(f)) {
            let is_near = |(_, by): &&(Kind, About)| self.is_in_scope(finding, by);
            if let Some(&(cause, _)) = causes.iter().find(is_near) {
                finding.excuse(Reason::FollowsFrom(cause));
            }
        }
    }
}

/// Makes notes of connections that were closed as all processes ended: that is no failure, unless NCCL
/// returned an error for it.
pub(super) fn excuse_closed_connections(findings: &mut [Finding]) {
    let is_closed = |f: &&mut Finding| {
        let was_told = f.reasons.contains(&Reason::ErrorReturned);
        f.kind == Kind::Warn(WarnKind::PEER_CLOSED) && f.severity != Severity::Note && !was_told
    };
    for finding in findings.iter_mut().filter(is_closed) {
        finding.excuse(Reason::EndedTogether);
        finding.sure = finding.sure.max(Confidence::Medium);
    }
}

impl Finding {
    /// Makes a note of it, for a reason.
    pub(in crate::stages::check) fn excuse(&mut self, reason: Reason) {
        self.severity = Severity::Note;
        self.reasons.push(reason);
    }

    /// Returns the ranks that are dead, if it is about such.
    fn dead_ranks(&self) -> Option<DeadRanks> {
        self.reasons.iter().find_map(|reason| match reason {
            Reason::Dead(dead) => Some(*dead),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(kind: Kind, pid: u64, reasons: Vec<Reason>) -> Finding {
        Finding {
            kind,
            severity: Severity::Error,
            says: String::new(),
            about: About {
                host: Some((*b"node1").into()),
                pid: Some(pid),
                ..About::default()
            },
            sure: Confidence::Medium,
            why: String::new(),
            advice: String::new(),
            evidence: Vec::new(),
            reasons,
        }
    }

    fn fold(mut findings: Vec<Finding>) -> Vec<(Kind, Severity)> {
        fold_consequences(&mut findings, |_| None);
        findings.iter().map(|f| (f.kind, f.severity)).collect()
    }

    #[test]
    fn a_job_in_which_ranks_wait_for_the_crashed_one_did_not_go_on() {
        let mut crashed = finding(Kind::RankCrashed, 1, vec![Reason::WentOn]);
        crashed.severity = Severity::Warning;
        let mut behind = finding(Kind::RankBehind, 1, Vec::new());
        behind.severity = Severity::Warning;
        let folded = fold(vec![crashed.clone(), behind]);
        assert_eq!(folded[0], (Kind::RankCrashed, Severity::Error));
        let folded = fold(vec![crashed, finding(Kind::RankBehind, 2, Vec::new())]);
        assert_eq!(folded[0], (Kind::RankCrashed, Severity::Warning));
    }

    #[test]
    fn what_follows_from_a_crash_is_a_note() {
        let all = [Kind::RankBehind, Kind::RankCrashed, Kind::WatchdogTimeout];
        let folded = fold(all.map(|kind| finding(kind, 1, Vec::new())).into());
        let [behind, crashed, timeout] = &folded[..] else {
            panic!("{folded:?}");
        };
        assert_eq!(crashed.1, Severity::Error);
        assert_eq!((behind.1, timeout.1), (Severity::Note, Severity::Note));
    }

    #[test]
    fn a_dead_process_is_merged_on_its_process_or_its_host() {
        let dead = |is_host| {
            let dead = DeadRanks {
                is_host,
                are_many: is_host,
                is_connection_lost: true,
            };
            finding(Kind::DeadProcess, 1, vec![Reason::Dead(dead)])
        };
        let behind = |pid| finding(Kind::RankBehind, pid, Vec::new());
        let number = |is_host, pid| fold(vec![dead(is_host), behind(pid)]).len();
        assert_eq!(
            [number(false, 1), number(false, 2), number(true, 2)],
            [1, 2, 1]
        );
    }
}
