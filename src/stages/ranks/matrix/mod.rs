//! nccl-matrix: the traffic between ranks, GPUs or hosts.
//!
//! | | |
//! |---|---|
//! | [`endpoints`] | senders and receivers |
//! | `cells` | the matrix and its cells |
//! | `gather` | one walk over all inputs: calls, members, rings and trees, copies |
//! | `members` | which rank of the job, GPU or host a rank of a communicator is |
//! | `messages` | cells of Send and Recv, and of operations between pairs |
//! | `model` | modelled traffic over rings and trees |
//! | `copies` | copies by GPUs |
//! | [`snoopie`] | the accesses that Snoopie records |
//! | `job_ranks` | the ranks of the job by communicator, for stages that need no matrix |
//! | [`dot`], [`text_map`], [`svg_heat_map`] | the matrix for Graphviz, for terminals, and as SVG |

pub mod cells;
mod copies;
pub mod dot;
pub mod endpoints;
mod gather;
mod members;
mod messages;
mod model;
pub mod svg_heat_map;
pub mod text_map;

mod job_ranks;
mod limits;
pub mod snoopie;
#[cfg(test)]
mod tests;

use crate::count::caller::Caller;
use crate::count::calls::{CountedCalls, Options as Read, Progress};
use crate::count::filtered::CountFilter;
use crate::count::tally::NO_ROOT;
use crate::error::{Error, Result};
use crate::filter::CallFilter;
use crate::formats::{self, Provides};
use crate::log::propose;
use crate::members::SpeakerProcess;
use crate::report::{Report, count_phrase};
use crate::source::InputName;
use crate::stages::communicators::CommunicatorSide;
use crate::stages::net::NetSummary;
use crate::stages::tuning::tuning_stage::TuningStage as Tuning;
use crate::stages::{self, run_snapshot};
use cells::TrafficMatrix;
use copies::GpuCopies;
use gather::TrafficGatherer;
pub(crate) use gather::matrix_tally_options;
pub(crate) use job_ranks::{JobRanks, read_job_ranks};
use members::MatrixMembers;

/// The level of a cell's ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndpointLevel {
    /// Ranks of the job.
    #[default]
    Ranks,
    /// GPUs.
    Devices,
    /// Hosts.
    Hosts,
}

/// Options of the matrix.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Records of GPUs that give only their copies: the calls are in other inputs.
    pub copies_of: Vec<InputName>,
    /// The level of a cell's ends.
    pub ends: EndpointLevel,
    /// Rows are by step.
    pub by_step: bool,
    /// Leaves out modelled traffic.
    pub recorded: bool,
    /// Snoopie recorded every n-th packet; 0 and 1 for all.
    pub sampling: u64,
}

/// Equal calls of one rank.
#[derive(Debug, Clone, Copy)]
struct RankCalls<'c> {
    step: Option<u64>,
    who: &'c Caller,
    op: &'c [u8],
    nranks: Option<u32>,
    /// The root, or the peer.
    root: Option<i64>,
    calls: u64,
    /// The bytes of one, as the caller passed them.
    bytes: Option<u128>,
}

impl RankCalls<'_> {
    /// True for a call of MPI's.
    fn is_mpi(&self) -> bool {
        formats::find_parts_of_source(&self.who.recorded.src).has(Provides::MPI)
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

/// Returns all calls, each with its caller.
fn list_rank_calls(calls: &CountedCalls) -> Vec<RankCalls<'_>> {
    let of = |((step, key), value): ((Option<u64>, crate::count::tally::CallKey), _)| {
        let value: crate::count::tally::CallVolume = value;
        Some(RankCalls {
            step,
            who: calls.who.get(key.member as usize)?,
            op: calls.ops.name_of_op(key.op),
            nranks: (key.nranks > 0).then_some(key.nranks),
            root: Some(key.root).filter(|&root| root != NO_ROOT),
            calls: value.calls,
            bytes: key.elements_and_bytes().1,
        })
    };
    calls
        .cells
        .counts_by_number()
        .into_iter()
        .filter_map(of)
        .collect()
}

/// Reads all `origins`; of calls only those that pass `filter`.
///
/// # Errors
/// No input could be read, the window is not there, the filter uses what is not counted, damage under
/// `--strict`.
pub fn read_matrix(
    origins: &[InputName],
    read: &Read,
    options: &Options,
    filter: &CallFilter,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<TrafficMatrix> {
    let mut matrix = TrafficMatrix::default();
    let (accessed, origins) = snoopie::split_snoopie_files(origins, read.source)?;
    if !accessed.is_empty() {
        if options.by_step || read.window.is_some() {
            return Err(Error::Content(
                "Snoopie's logs have no times and no steps: there is no matrix by step".to_owned(),
            ));
        }
        let how = snoopie::SnoopieReadOptions {
            source: read.source,
            strict: read.log.strict,
            sampling: options.sampling,
            filter: Some(filter),
        };
        let runs = snoopie::SnoopieRuns::read(&accessed, how, report, progress)?;
        snoopie::add_accesses(&mut matrix, &runs, report);
        if origins.is_empty() {
            if matrix.is_empty() {
                report.warn("the matrix is empty: no GPU accesses another one's memory");
            }
            return Ok(matrix);
        }
    }
    let origins = &origins[..];
    let wanted = matrix_tally_options(read.window.is_some() || options.by_step);
    let count_filter = CountFilter::new(filter, &wanted)?;
    let tally = count_filter.tally();
    let mut gather = TrafficGatherer::new(read, tally, origins.len(), options.copies_of.clone());
    let new = || run_snapshot::empty_partial(tally);
    let merged = stages::read_stage(&mut gather, origins, read, report, progress, new)?;
    gather.add_held_calls(&merged);
    if let Some(window) = &read.window {
        let missing = |text| {
            propose::reopened_missing_steps_error(text, &gather.present, origins, read.source)
        };
        gather.present.check_window(window).map_err(missing)?;
    }
    progress.finish();
    gather.add_copies_beside_logs(read, report)?;
    if tally.steps {
        report.add_placements(gather.methods);
    }
    let found = gather.finish(&merged);
    let (calls, part) = count_filter.keep_calls(found.calls);
    part.report(filter, report);
    let told = TrafficSources {
        calls: &calls,
        sides: found.sides,
        processes: found.processes,
        net: &found.net,
        tuning: &found.tuning,
    };
    fill_matrix(&mut matrix, told, found.copies, options, report);
    Ok(matrix)
}

/// The contents of logs from which traffic follows.
pub(crate) struct TrafficSources<'t> {
    /// Calls as [`matrix_tally_options`] distinguishes them.
    pub(crate) calls: &'t CountedCalls,
    /// Each process's view of its communicators.
    pub(crate) sides: Vec<CommunicatorSide>,
    pub(crate) processes: Vec<SpeakerProcess>,
    pub(crate) net: &'t NetSummary,
    pub(crate) tuning: &'t Tuning,
}

/// Returns the matrix of inputs that were read already.
pub(crate) fn build_matrix(
    told: TrafficSources<'_>,
    options: &Options,
    report: &Report,
) -> TrafficMatrix {
    let mut matrix = TrafficMatrix::default();
    fill_matrix(&mut matrix, told, Vec::new(), options, report);
    matrix
}

/// Adds the traffic of all inputs.
fn fill_matrix(
    matrix: &mut TrafficMatrix,
    told: TrafficSources<'_>,
    copies: Vec<GpuCopies>,
    options: &Options,
    report: &Report,
) {
    let mut calls = list_rank_calls(told.calls);
    if !options.by_step {
        calls.iter_mut().for_each(|made| made.step = None);
    }
    let mut members = MatrixMembers::from_sides(told.sides, told.processes, &calls);
    let ends = options.ends;
    messages::add_messages(matrix, ends, &calls, &mut members, report);
    if !options.recorded {
        messages::add_pairwise_exchanges(matrix, ends, &calls, &mut members, report);
        model::add_modelled_traffic(
            matrix,
            ends,
            &calls,
            told.net,
            told.tuning,
            &mut members,
            report,
        );
    }
    copies::add_copies(matrix, ends, copies, &members, report);
    report_matrix_notes(matrix, options, &members, report);
    if matrix.is_empty() {
        report.warn("the matrix is empty: no call that was read has peers");
    }
}

fn report_matrix_notes(
    matrix: &TrafficMatrix,
    options: &Options,
    members: &MatrixMembers,
    report: &Report,
) {
    let unknown: u64 = matrix
        .totals_by_basis()
        .iter()
        .map(|(_, sum)| sum.unknown)
        .sum();
    if unknown > 0 {
        report.warn(&format!(
            "the bytes of {} are not known: the cells' bytes are empty",
            count_phrase(unknown, "call")
        ));
    }
    let strange = members.strange.len();
    if strange > 0 {
        let what = match options.ends {
            EndpointLevel::Ranks => "which ranks of the job",
            EndpointLevel::Devices => "on which GPUs",
            EndpointLevel::Hosts => "on which hosts",
        };
        report.note(&format!(
            "of {} it is not known {what} all members are: these ends are written as \
             communicator:rank",
            count_phrase(strange as u64, "communicator")
        ));
    }
}
