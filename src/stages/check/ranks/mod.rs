//! Did the ranks call the same things, and if not, who and where: from the hashes of their calls to
//! findings.

mod absent_members;
mod case;
mod deadlock;
mod doubt;
pub(crate) mod fewer_calls;
mod judge;
mod last_calls;
mod messages;
pub(crate) mod mismatch;
pub(crate) mod names;
mod read_again;
pub(super) mod stopped;
pub(super) mod unnamed_communicators;

use super::evidence;
use super::finding::Finding;
use super::log::job_spans::{Jobs, Silence};
use super::streams::Streams;
use super::streams::compare::{Begins, Compared, compare, whose};
use super::streams::piped::Piped;
use super::streams::step_ends::StepEnds;
use super::walk::Walked;
use super::watchdog::nccl_call;
use super::watchdog::{Watched, What};
use crate::count::calls::Options;
use crate::error::Result;
use crate::report::account::Account;
use crate::source::Input;
use crate::stages::communicators::Found;
use case::Case;
use deadlock::Met;
use doubt::unjudged;
use fewer_calls::End;
use judge::Ending;
use last_calls::last_calls;
use mismatch::same_kind;
use names::Names;
use read_again::read_again;
use std::collections::{BTreeMap, BTreeSet};
use stopped::step_lines::StepLines;
use stopped::{Failures, Now, Stops};
use unnamed_communicators::Open;

/// What is known of the ranks' calls.
pub(crate) struct Ranks {
    /// What the hashes say.
    pub(crate) compared: Compared,
    /// What is wrong.
    pub(crate) findings: Vec<Finding>,
}

/// The inputs, to be read again.
pub(crate) struct Inputs<'a, F: Fn(u32) -> Result<Input>> {
    /// Opens an input by its number.
    pub(crate) open: F,
    /// For each input the processes with lines in it.
    pub(crate) processes: &'a [BTreeSet<u32>],
    /// Where their lines went.
    pub(crate) accounts: &'a [Account],
    /// What is known of them.
    pub(crate) walked: &'a [Walked],
    /// What was kept of those that came through a pipe.
    pub(crate) piped: &'a BTreeMap<u32, Piped>,
    /// How they are read.
    pub(crate) options: &'a Options,
    /// They look as if they had been cut out of longer ones.
    pub(crate) cut: bool,
}

/// Compares the ranks' calls and says what is wrong.
///
/// # Errors
/// An input cannot be read again.
pub(crate) fn ranks<F: Fn(u32) -> Result<Input>>(
    found: &Found,
    open: &Open,
    streams: &Streams,
    (watched, end, failures): (&[Watched], End, &Failures),
    inputs: &Inputs<'_, F>,
) -> Result<Ranks> {
    let begins = begins(streams, inputs.cut);
    let compared = compare(found, open, streams, inputs.accounts, begins);
    let late = |w: &Watched| matches!(w.what, What::Timeout(_));
    let hung = watched.iter().any(late);
    let lines = StepLines::of(inputs.walked);
    let met = deadlock::meet(&compared, found, (streams, &lines), end.failed);
    let differ = met.is_circle() || !compared.apart.is_empty() || !compared.unpaired.is_empty();
    if !differ && compared.few.is_none() && !hung {
        return Ok(Ranks {
            compared,
            findings: Vec::new(),
        });
    }
    judge(
        (compared, &met),
        (found, streams),
        (watched, end, failures),
        inputs,
    )
}

/// Where the log begins, by NCCL's own count or by what it looks like.
fn begins(streams: &Streams, cut: bool) -> Begins {
    match (streams.is_late(), cut && !streams.counts) {
        (true, _) => Begins::Late,
        (false, true) => Begins::Unsure,
        _ => Begins::First,
    }
}

/// Reads again what differs, and says who and where.
fn judge<F: Fn(u32) -> Result<Input>>(
    (mut compared, met): (Compared, &Met),
    (found, streams): (&Found, &Streams),
    (watched, end, failures): (&[Watched], End, &Failures),
    inputs: &Inputs<'_, F>,
) -> Result<Ranks> {
    let whose = whose(found, streams);
    let kin = same_kind::kin(&compared.apart, &whose, found);
    let mut silence = Silence::new(Jobs::of(found));
    // Where a line reports a failure, or the job runs, no steps are needed to see that it stopped.
    let mut ends = StepEnds::default();
    let is_quiet = failures.lines.is_empty() && failures.now != Now::Running;
    let read = (inputs, &mut silence, is_quiet.then_some(&mut ends));
    let details = read_again((&compared, met), &kin, found, streams, read)?;
    let case = Case {
        found,
        streams,
        details: &details,
        met,
        is_piped: !inputs.piped.is_empty(),
        names: Names { found },
        whose: &whose,
        last: &last_calls(&details, streams, &whose),
    };
    let middle = case
        .tail(&ends, |process| silence.job(process))
        .in_the_middle();
    let stops = Stops {
        found,
        silence: &silence,
        failures,
        lags: met,
        steps: &ends,
        middle: &middle,
        is_last_step: inputs.walked.iter().any(Walked::ends_with_last_step),
    };
    let mut unjudged = unjudged::drop_ended(&mut compared.unpaired, found);
    let doubts = doubt::doubts(&compared, found);
    let ending = Ending {
        watched,
        end,
        stops,
    };
    let judged = case.judge(&mut compared, &kin, ending);
    let mut findings = judged.findings;
    unjudged.extend(judged.unjudged);
    unjudged::leave_unjudged(&mut compared, unjudged);
    evidence::resolve(&mut findings, inputs.walked, &inputs.open)?;
    let uncut = judged.uncut;
    let about = (&case, inputs, End { uncut, ..end });
    doubt::doubt_all(&mut findings, &mut compared, &doubts, about)?;
    if !findings.is_empty() {
        findings.extend(last_calls::finding(case.last, found));
    }
    let made = case.made();
    findings.extend(nccl_call::findings(
        watched, &details, &made, &whose, case.names,
    ));
    findings.extend(case.few(&compared, inputs.accounts));
    Ok(Ranks { compared, findings })
}
