//! What GPUs copied: from one device to another, or to and from a host's memory.

use super::Ends;
use super::cells::{Basis, Matrix, Sum};
use super::ends::{End, Name};
use super::members::Members;
use crate::error::Result;
use crate::formats::gpu::{Activity, Kind, Session, Visit};
use crate::report::{Report, counted};
use std::collections::{BTreeMap, BTreeSet};

/// One side of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Gpu(u32),
    Host,
}

/// The copies of one input.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// By process and both sides.
    between: BTreeMap<(Option<u64>, Side, Side), Sum>,
    /// Copies of which it is not known from where or to where.
    unknown: u64,
    devices: BTreeSet<u32>,
    session: Session,
    /// What the input lacks.
    pub(super) notes: Vec<String>,
}

impl Visit for Copies {
    fn activity(&mut self, activity: &Activity<'_>) -> Result<()> {
        self.devices.insert(activity.device);
        if activity.kind != Kind::Copy {
            return Ok(());
        }
        match sides(activity) {
            Some((from, to)) => {
                let sum = Sum::of(1, activity.bytes.map(u128::from));
                let at = (activity.pid, from, to);
                self.between.entry(at).or_default().add(sum);
            }
            None => self.unknown = self.unknown.saturating_add(1),
        }
        Ok(())
    }

    fn session(&mut self, session: &Session) {
        self.session = session.clone();
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

/// From where to where a copy goes: by its direction, in which A is an array on the GPU.
fn sides(activity: &Activity<'_>) -> Option<(Side, Side)> {
    let direction = activity.name;
    let direction = direction.strip_prefix(b"unified ").unwrap_or(direction);
    let own = Side::Gpu(activity.device);
    match direction {
        b"HtoD" | b"HtoA" => Some((Side::Host, own)),
        b"DtoH" | b"AtoH" => Some((own, Side::Host)),
        b"HtoH" => Some((Side::Host, Side::Host)),
        b"DtoD" | b"AtoA" | b"AtoD" | b"DtoA" => {
            let between = activity.between.map(|(a, b)| (Side::Gpu(a), Side::Gpu(b)));
            Some(between.unwrap_or((own, own)))
        }
        _ => activity.between.map(|(a, b)| (Side::Gpu(a), Side::Gpu(b))),
    }
}

/// Adds the copies of all inputs.
pub(super) fn add(
    matrix: &mut Matrix,
    ends: Ends,
    inputs: Vec<Copies>,
    members: &Members,
    report: &Report,
) {
    let mut unknown = 0_u64;
    for copies in inputs {
        unknown = unknown.saturating_add(copies.unknown);
        let host = Name::of(&copies.session.host);
        // A trace of one rank with one GPU: that is the rank's.
        let only = copies.session.rank.filter(|_| copies.devices.len() == 1);
        for ((pid, from, to), sum) in copies.between {
            let mut end = |side: Side| {
                let end = match (side, ends) {
                    (_, Ends::Hosts) if !host.is_empty() => End::Host(host.clone()),
                    (Side::Host, _) => End::Memory(host.clone()),
                    (Side::Gpu(gpu), Ends::Devices | Ends::Hosts) => {
                        End::Gpu(host.clone(), gpu.into())
                    }
                    (Side::Gpu(gpu), Ends::Ranks) => {
                        let own = only.filter(|_| copies.devices.contains(&gpu));
                        let rank = own.or_else(|| members.job_rank(&host, pid, gpu));
                        rank.map_or(End::Gpu(host.clone(), gpu.into()), End::Rank)
                    }
                };
                matrix.end(end, &host)
            };
            let between = (end(from), end(to));
            matrix.add(None, between, Basis::Copied, sum);
        }
    }
    if unknown > 0 {
        report.warn(&format!(
            "{} of copies not in the matrix: the record does not name the GPUs that they are between",
            counted(unknown, "record")
        ));
    }
}
