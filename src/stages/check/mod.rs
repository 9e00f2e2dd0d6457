//! nccl-check: what is wrong with a job, by its log; with evidence, and with what the log cannot
//! tell.
//!
//! | | |
//! |---|---|
//! | [`finding`] | what is said: one finding with its evidence |
//! | `walk` | one walk over all inputs that gathers what every check needs |
//! | `streams`, `compare` | the ranks' calls as hashes, and where they differ |
//! | `again`, `evidence` | calls and lines that are read again where something is wrong |
//! | `ranks`, `mismatch`, `behind` | ranks that call different things, or fewer |
//! | `cuts` | where a log may lack lines of its job |
//! | `taken` | communicators that no line names, told by counting |
//! | `ranks`, `mismatch`, `kin`, `messages`, `behind`, `partly` | ranks that call different things, or fewer |
//! | [`warnings`], [`triage`], [`known`] | WARN lines by their first cause |
//! | `ends` | how jobs say that they ended |
//! | [`watchdog`], `waited`, `waiting` | PyTorch's watchdog, and the calls it waited for |
//! | `unchecked` | logs with nothing to check |
//! | [`transport`], [`hosts`], [`settings`], [`channels`], [`initialisation`] | what hosts show |
//! | [`expect`], [`coverage`] | what must hold, and what the log can answer |
//! | `steps` | steps that are not like the others |
//! | `hygiene`, `remains` | how the log was written, where that spoils it |
//! | [`table`] | findings as text and as rows |

pub(crate) mod again;
pub(crate) mod behind;
mod body;
pub mod channels;
mod clock;
pub(crate) mod compare;
pub mod coverage;
mod cuts;
mod ends;
pub(crate) mod evidence;
pub mod expect;
mod facts;
pub mod finding;
mod gpudirect;
pub mod hosts;
#[cfg(test)]
mod hosts_tests;
pub(crate) mod hygiene;
pub mod initialisation;
mod kin;
pub mod known;
mod lines;
mod messages;
pub(crate) mod mismatch;
pub(crate) mod names;
mod nvls;
mod partly;
pub(crate) mod ranks;
mod remains;
mod said;
pub mod settings;
mod stamp;
pub(crate) mod steps;
pub(crate) mod streams;
mod summary;
pub mod table;
mod taken;
pub mod transport;
pub mod triage;
#[cfg(test)]
mod twin_tests;
mod unchecked;
mod waited;
mod waiting;
pub(crate) mod walk;
pub mod warnings;
#[cfg(test)]
mod warnings_tests;
pub mod watchdog;
mod words;

use crate::calls::{Options, Progress};
use crate::error::Result;
use crate::report::Report;
use crate::source::Origin;
use crate::stages::communicators::State;
use crate::stages::net::{self, fact::Kind};
use behind::End;
use coverage::Known;
use expect::Facts;
use finding::{Evidence, Finding, Severity};
use ranks::Inputs;
use std::borrow::Cow;
use triage::Ended;
use walk::Seen;

/// What a check came to.
#[derive(Debug)]
pub struct Checked {
    /// What is wrong, worst first.
    pub findings: Vec<Finding>,
    /// The inputs' names.
    pub inputs: Vec<String>,
    /// What the log says in all.
    pub facts: Facts,
    /// What kinds of lines it has.
    pub known: Known,
    /// Communicators whose members' calls were compared.
    pub compared: u64,
    /// Those whose members' calls were not, and why.
    pub unjudged: Vec<(Cow<'static, str>, u64)>,
}

impl Checked {
    /// True where something is wrong, not only worth knowing.
    pub fn is_wrong(&self) -> bool {
        self.findings.iter().any(|f| f.severity != Severity::Note)
    }

    /// True where nothing of NCCL's work is in the log.
    pub fn is_empty(&self) -> bool {
        self.findings.iter().any(|f| f.id == unchecked::ID)
    }
}

/// Reads all `origins`, which must be logs, and checks them.
///
/// # Errors
/// No input could be read, or is a log; damage under `--strict`.
pub fn check(
    origins: &[Origin],
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<Checked> {
    let mut seen = walk::walk(origins, options, report, progress)?;
    let untold = taken::take(&mut seen.found);
    seen.net.note_hidden(report);
    let open = |number| seen.open(number);
    let inputs = Inputs {
        open,
        processes: &seen.processes,
        accounts: &seen.accounts,
        walked: &seen.inputs,
        options,
        cut: is_cut(&seen),
    };
    let ended = ended(&seen);
    let mut findings = triage::findings(&seen.warnings, &seen.found.processes, ended);
    let said = seen.lines.hung || findings.iter().any(|f| f.severity == Severity::Error);
    let end = End {
        said,
        failed: said || ended.aborted > 0,
    };
    let watched = seen.warnings.watchdog();
    let ranks = ranks::ranks(&seen.found, &untold, &seen.streams, (watched, end), &inputs)?;
    fold(&mut findings, &ranks.findings);
    findings.extend(ranks.findings);
    findings.extend(transport::findings(&seen.net));
    findings.extend(hosts::findings(&seen.net));
    findings.extend(settings::findings(&seen.net));
    findings.extend(initialisation::findings(&seen.found));
    findings.extend(channels::findings(&seen.found));
    for ((number, input), account) in (0..).zip(&seen.inputs).zip(&seen.accounts) {
        findings.extend(steps::findings(number, input, &seen.found));
        findings.extend(hygiene::findings(number, input, account));
    }
    findings.extend(unchecked::finding(&seen));
    evidence::resolve(&mut findings, &seen.inputs, open)?;
    findings.sort_by(|a, b| worst_first(a).cmp(&worst_first(b)));
    let compared = ranks.compared;
    Ok(Checked {
        facts: summary::facts(&seen, &compared, &findings),
        known: summary::known(&seen),
        compared: compared.same + compared.apart.len() as u64,
        unjudged: compared
            .unjudged
            .iter()
            .map(|(why, those)| (why.text(), those.len() as u64))
            .collect(),
        findings,
        inputs: seen.inputs.into_iter().map(|input| input.name).collect(),
    })
}

/// True for what `nccl-steps --keep-init` leaves of a log: communicators, but no version, and the
/// first step is not the job's first. A job that went on from a checkpoint names NCCL's version.
fn is_cut(seen: &Seen) -> bool {
    let first = |input: &walk::Walked| input.timeline.steps.first().map(|step| step.step);
    let later = seen
        .inputs
        .iter()
        .any(|i| first(i).is_some_and(|step| step > 0));
    let facts = || net::table::collected(&seen.net);
    later && !facts().keys().any(|fact| fact.kind == Kind::Version)
}

/// Where the ranks' calls say what is wrong, that PyTorch waited in vain, and that connections of
/// processes that were then taken down broke, only follows from it.
fn fold(findings: &mut [Finding], ranks: &[Finding]) {
    let Some(cause) = ranks.iter().find(|f| f.severity == Severity::Error) else {
        return;
    };
    // What C++ says of a watchdog whose process is taken down.
    let is_end = |f: &Finding| f.id == "watchdog_exception" && f.says.contains("Broken promise");
    let follows = |f: &Finding| f.id == "watchdog_timeout" || known::follows(f.id) || is_end(f);
    for finding in findings.iter_mut().filter(|f| follows(f)) {
        finding.severity = Severity::Note;
        finding.why += &format!("; it follows from {}", cause.id);
    }
}

fn ended(seen: &Seen) -> Ended {
    let sides = &seen.found.sides;
    let of = |state: State| sides.iter().filter(|side| side.state == state).count() as u64;
    Ended {
        destroyed: of(State::Destroyed),
        aborted: of(State::Aborted),
        communicators: sides.iter().filter(|s| s.state != State::Unknown).count() as u64,
    }
}

/// The order in which findings are told.
fn worst_first(
    finding: &Finding,
) -> (Severity, finding::Sure, Option<finding::Spot>, &'static str) {
    let first = finding.evidence.first().map(|Evidence { at, .. }| *at);
    (finding.severity, finding.sure, first, finding.id)
}
