//! nccl-matrix: who sends to whom, how often and how much.
//!
//! | | |
//! |---|---|
//! | [`ends`] | who sends, and who receives |
//! | `cells` | the matrix, and what is known of a cell |
//! | `gather` | one walk over all inputs: calls, members, rings and trees, copies |
//! | `members` | which rank of the job, GPU or host a rank of a communicator is |
//! | `messages` | what Send and Recv, and operations between pairs, put into cells |
//! | `model` | what rings and trees would carry |
//! | `copies` | what GPUs copied |
//! | [`snoopie`] | the accesses that Snoopie records |
//! | `ranks` | the ranks of the job by communicator, for stages that need no matrix |
//! | [`dot`], [`map`], [`picture`] | the matrix for Graphviz, to look at, and as SVG |

pub mod cells;
mod copies;
pub mod dot;
pub mod ends;
mod gather;
pub mod map;
mod members;
mod messages;
mod model;
pub mod picture;

mod ranks;
pub mod snoopie;
#[cfg(test)]
mod tests;

use crate::count::calls::{Calls, Options as Read, Progress};
use crate::count::tally::NO_ROOT;
use crate::count::who::Who;
use crate::error::{Error, Result};
use crate::log::propose;
use crate::members::Process;
use crate::report::{Report, counted};
use crate::source::Origin;
use crate::stages::communicators::Side;
use crate::stages::net::Net;
use crate::stages::tuning::all::All as Tuning;
use crate::stages::{self, kept};
use cells::Matrix;
use copies::Copies;
use gather::Gather;
pub(crate) use gather::tally;
use members::Members;
pub(crate) use ranks::{Ranks, ranks};

/// What the ends of a cell are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ends {
    /// Ranks of the job.
    #[default]
    Ranks,
    /// GPUs.
    Devices,
    /// Hosts.
    Hosts,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// What the ends of a cell are.
    pub ends: Ends,
    /// Rows are by step.
    pub by_step: bool,
    /// Only what is recorded, and no model.
    pub recorded: bool,
    /// Snoopie recorded every n-th packet; 0 and 1 for all.
    pub sampling: u64,
}

/// Equal calls of one rank.
#[derive(Debug, Clone, Copy)]
struct Made<'c> {
    step: Option<u64>,
    who: &'c Who,
    op: &'c [u8],
    nranks: Option<u32>,
    /// The root, or the peer.
    root: Option<i64>,
    calls: u64,
    /// The bytes of one, as the caller passed them.
    bytes: Option<u128>,
}

impl Made<'_> {
    /// True for a call of MPI's.
    fn is_mpi(&self) -> bool {
        *self.who.recorded.src == *b"mpi"
    }

    /// The bytes of all of them.
    fn all_bytes(&self) -> Option<u128> {
        Some(self.bytes?.saturating_mul(self.calls.into()))
    }

    /// The root as a rank.
    fn peer(&self) -> Option<u32> {
        self.root.and_then(|root| u32::try_from(root).ok())
    }
}

/// All calls, each with who made it.
fn made(calls: &Calls) -> Vec<Made<'_>> {
    let of = |((step, key), value): ((Option<u64>, crate::count::tally::Key), _)| {
        let value: crate::count::tally::Value = value;
        Some(Made {
            step,
            who: calls.who.get(key.member as usize)?,
            op: calls.ops.name(key.op),
            nranks: (key.nranks > 0).then_some(key.nranks),
            root: Some(key.root).filter(|&root| root != NO_ROOT),
            calls: value.calls,
            bytes: key.size().1,
        })
    };
    calls.cells.by_number().into_iter().filter_map(of).collect()
}

/// Reads all `origins`.
///
/// # Errors
/// No input could be read, the window is not there, damage under `--strict`.
pub fn matrix(
    origins: &[Origin],
    read: &Read,
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<Matrix> {
    let mut matrix = Matrix::default();
    let is_snoopie = |origin: &Origin| snoopie::is_snoopie(origin, read.source);
    let (accessed, origins): (Vec<Origin>, Vec<Origin>) =
        origins.iter().cloned().partition(is_snoopie);
    if !accessed.is_empty() {
        if options.by_step || read.window.is_some() {
            return Err(Error::Content(
                "Snoopie's logs have no times and no steps: there is no matrix by step".to_owned(),
            ));
        }
        let how = (read.source, read.log.strict, options.sampling);
        let runs = snoopie::Runs::read(&accessed, how, report, progress)?;
        snoopie::add(&mut matrix, &runs, report);
        if origins.is_empty() {
            if matrix.is_empty() {
                report.warn("the matrix is empty: no GPU accesses another one's memory");
            }
            return Ok(matrix);
        }
    }
    let origins = &origins[..];
    let tally = tally(read.window.is_some() || options.by_step);
    let mut gather = Gather::new(read, &tally, origins.len());
    let new = || kept::partial(&tally);
    let merged = stages::read(&mut gather, origins, read, report, progress, new)?;
    gather.rest(&merged);
    if let Some(window) = &read.window {
        let missing = |text| propose::anew(text, &gather.present, origins, read.source);
        gather.present.check(window).map_err(missing)?;
    }
    progress.finish();
    gather.copies_beside_logs(read, report)?;
    if tally.steps {
        report.placed(gather.methods);
    }
    let found = gather.finish(&merged);
    let told = Told {
        calls: &found.calls,
        sides: found.sides,
        processes: found.processes,
        net: &found.net,
        tuning: &found.tuning,
    };
    fill(&mut matrix, (told, found.copies), options, report);
    Ok(matrix)
}

/// What logs tell of who sends to whom.
pub(crate) struct Told<'t> {
    /// As [`tally`] distinguishes them.
    pub(crate) calls: &'t Calls,
    /// Each process's view of its communicators.
    pub(crate) sides: Vec<Side>,
    pub(crate) processes: Vec<Process>,
    pub(crate) net: &'t Net,
    pub(crate) tuning: &'t Tuning,
}

/// The matrix of what was read already.
pub(crate) fn of(told: Told<'_>, options: &Options, report: &Report) -> Matrix {
    let mut matrix = Matrix::default();
    fill(&mut matrix, (told, Vec::new()), options, report);
    matrix
}

/// Adds what inputs tell.
fn fill(
    matrix: &mut Matrix,
    (told, copies): (Told<'_>, Vec<Copies>),
    options: &Options,
    report: &Report,
) {
    let mut calls = made(told.calls);
    if !options.by_step {
        calls.iter_mut().for_each(|made| made.step = None);
    }
    let mut members = Members::of(told.sides, told.processes, &calls);
    let (ends, of) = (options.ends, (told.net, told.tuning));
    messages::add(matrix, ends, &calls, &mut members, report);
    if !options.recorded {
        messages::pairs(matrix, ends, &calls, &mut members, report);
        model::add(matrix, ends, &calls, of, &mut members, report);
    }
    copies::add(matrix, ends, copies, &members, report);
    notes(matrix, options, &members, report);
    if matrix.is_empty() {
        report.warn("the matrix is empty: no input tells who sends to whom");
    }
}

fn notes(matrix: &Matrix, options: &Options, members: &Members, report: &Report) {
    let unknown: u64 = matrix.totals().iter().map(|(_, sum)| sum.unknown).sum();
    if unknown > 0 {
        report.warn(&format!(
            "the bytes of {} are not known: the cells' bytes are empty",
            counted(unknown, "call")
        ));
    }
    let strange = members.strange.len();
    if strange > 0 {
        let what = match options.ends {
            Ends::Ranks => "which ranks of the job",
            Ends::Devices => "on which GPUs",
            Ends::Hosts => "on which hosts",
        };
        report.note(&format!(
            "of {} it is not known {what} all members are: these ends are written as \
             communicator:rank",
            counted(strange as u64, "communicator")
        ));
    }
}
