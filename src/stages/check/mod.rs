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
//! | `steps` | steps that are not like the others |
//! | `hygiene` | how the log was written, where that spoils it |
//! | [`table`] | findings as text and as rows |

pub(crate) mod again;
pub(crate) mod behind;
pub(crate) mod compare;
pub(crate) mod evidence;
pub mod channels;
pub mod coverage;
pub mod expect;
pub mod finding;
pub(crate) mod hygiene;
pub(crate) mod mismatch;
pub(crate) mod names;
pub(crate) mod ranks;
pub(crate) mod steps;
pub(crate) mod streams;
pub mod table;
pub(crate) mod walk;

use crate::calls::{Options, Progress};
use crate::error::Result;
use crate::report::Report;
use crate::source::Origin;
use crate::stages::communicators::State;
use behind::End;
use finding::{Evidence, Finding, Severity};
use ranks::Inputs;
use walk::Seen;

/// What a check came to.
#[derive(Debug)]
pub struct Checked {
    /// What is wrong, worst first.
    pub findings: Vec<Finding>,
    /// The inputs' names.
    pub inputs: Vec<String>,
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
    let seen = walk::walk(origins, options, report, progress)?;
    let open = |number| seen.open(number, options);
    let inputs = Inputs {
        open,
        processes: &seen.processes,
        accounts: &seen.accounts,
        walked: &seen.inputs,
        options,
    };
    let ranks = ranks::ranks(&seen.found, &seen.streams, &inputs, end(&seen))?;
    let mut findings = ranks.findings;
    for ((number, input), account) in (0..).zip(&seen.inputs).zip(&seen.accounts) {
        findings.extend(steps::findings(number, input));
        findings.extend(hygiene::findings(number, input, account));
    }
    evidence::resolve(&mut findings, &seen.inputs, open)?;
    findings.sort_by(|a, b| worst_first(a).cmp(&worst_first(b)));
    Ok(Checked {
        findings,
        inputs: seen.inputs.into_iter().map(|input| input.name).collect(),
    })
}

fn end(seen: &Seen) -> End {
    let state = |state: State| seen.found.sides.iter().any(|side| side.state == state);
    End {
        failed: seen.hung || state(State::Aborted),
        over: state(State::Destroyed),
    }
}

/// The order in which findings are told.
fn worst_first(
    finding: &Finding,
) -> (Severity, finding::Sure, Option<finding::Spot>, &'static str) {
    let first = finding.evidence.first().map(|Evidence { at, .. }| *at);
    (finding.severity, finding.sure, first, finding.id)
}
//! | [`finding`] | what is said |
//! | [`warnings`] | a chunk's WARN lines, and all of them |
//! | [`known`] | what is known of WARN bodies, with references |
//! | [`triage`] | first cause, what follows from it, what is harmless |
//! | [`watchdog`] | what PyTorch's watchdog says |

mod body;
mod clock;
pub mod finding;
pub mod known;
mod stamp;
pub mod triage;
mod waited;
pub mod warnings;
pub mod watchdog;
mod words;
mod said;

#[cfg(test)]
mod tests;
pub mod hosts;
pub mod initialisation;
pub mod settings;
#[cfg(test)]
mod tests;
pub mod transport;
mod words;
mod said;
