//! Copies by GPUs, between devices, or to and from a host's memory.

use super::EndpointLevel;
use super::cells::{TrafficBasis, TrafficMatrix, TrafficSum};
use super::endpoints::{Endpoint, HostLabel};
use super::members::MatrixMembers;
use crate::error::Result;
use crate::formats::gpu::{ActivityKind, GpuActivity, GpuVisitor, RecorderSession};
use crate::report::{Report, count_phrase};
use std::collections::{BTreeMap, BTreeSet};

/// One side of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CopyEndpoint {
    Gpu(u32),
    Host,
}

/// The copies of one input.
#[derive(Debug, Default)]
pub(super) struct GpuCopies {
    /// Sums by process, source and target.
    between: BTreeMap<(Option<u64>, CopyEndpoint, CopyEndpoint), TrafficSum>,
    /// Copies without a known source or target.
    unknown: u64,
    devices: BTreeSet<u32>,
    session: RecorderSession,
    /// Notes on gaps of the input.
    pub(super) notes: Vec<String>,
}

impl GpuVisitor for GpuCopies {
    fn visit_activity(&mut self, activity: &GpuActivity<'_>) -> Result<()> {
        self.devices.insert(activity.device);
        if activity.kind != ActivityKind::Copy {
            return Ok(());
        }
        match copy_endpoints(activity) {
            Some((from, to)) => {
                let sum = TrafficSum::from_calls(1, activity.bytes.map(u128::from));
                let at = (activity.pid, from, to);
                self.between.entry(at).or_default().add_sum(sum);
            }
            None => self.unknown = self.unknown.saturating_add(1),
        }
        Ok(())
    }

    fn visit_session(&mut self, session: &RecorderSession) {
        self.session = session.clone();
    }

    fn add_note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

/// Returns the source and the target of a copy by its direction, in which A is an array on the GPU.
fn copy_endpoints(activity: &GpuActivity<'_>) -> Option<(CopyEndpoint, CopyEndpoint)> {
    let direction = activity.name;
    let direction = direction.strip_prefix(b"unified ").unwrap_or(direction);
    let own = CopyEndpoint::Gpu(activity.device);
    match direction {
        b"HtoD" | b"HtoA" => Some((CopyEndpoint::Host, own)),
        b"DtoH" | b"AtoH" => Some((own, CopyEndpoint::Host)),
        b"HtoH" => Some((CopyEndpoint::Host, CopyEndpoint::Host)),
        b"DtoD" | b"AtoA" | b"AtoD" | b"DtoA" => {
            let between = activity
                .between
                .map(|(a, b)| (CopyEndpoint::Gpu(a), CopyEndpoint::Gpu(b)));
            Some(between.unwrap_or((own, own)))
        }
        _ => activity
            .between
            .map(|(a, b)| (CopyEndpoint::Gpu(a), CopyEndpoint::Gpu(b))),
    }
}

/// Adds the copies of all inputs.
pub(super) fn add_copies(
    matrix: &mut TrafficMatrix,
    ends: EndpointLevel,
    inputs: Vec<GpuCopies>,
    members: &MatrixMembers,
    report: &Report,
) {
    let mut unknown = 0_u64;
    for copies in inputs {
        unknown = unknown.saturating_add(copies.unknown);
        let host = HostLabel::from_host(&copies.session.host);
        // The only GPU of a trace of one rank belongs to that rank.
        let only = copies.session.rank.filter(|_| copies.devices.len() == 1);
        for ((pid, from, to), sum) in copies.between {
            let mut end = |side: CopyEndpoint| {
                let end = match (side, ends) {
                    (_, EndpointLevel::Hosts) if !host.is_empty() => Endpoint::Host(host.clone()),
                    (CopyEndpoint::Host, _) => Endpoint::Memory(host.clone()),
                    (CopyEndpoint::Gpu(gpu), EndpointLevel::Devices | EndpointLevel::Hosts) => {
                        Endpoint::Gpu(host.clone(), gpu.into())
                    }
                    (CopyEndpoint::Gpu(gpu), EndpointLevel::Ranks) => {
                        let own = only.filter(|_| copies.devices.contains(&gpu));
                        let rank = own.or_else(|| members.job_rank(&host, pid, gpu));
                        rank.map_or(Endpoint::Gpu(host.clone(), gpu.into()), Endpoint::Rank)
                    }
                };
                matrix.intern_endpoint(end, &host)
            };
            let (from, to) = (end(from), end(to));
            matrix.add_to_cell(None, from, to, TrafficBasis::Copied, sum);
        }
    }
    if unknown > 0 {
        report.warn(&format!(
            "{} of copies not in the matrix: the record does not name the GPUs that they are between",
            count_phrase(unknown, "record")
        ));
    }
}
