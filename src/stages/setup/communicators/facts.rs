//! Values of a communicator's row, from all its sides.

use super::CommunicatorsSummary;
use super::fold::CommunicatorSide;
use super::identity::{CommunicatorKey, MergedCommunicator};
use super::purpose::{CommunicatorPurpose, CommunicatorState};
use crate::count::tally::UNKNOWN_SIZE;
use crate::grammar::message::graph::ChannelCounts;
use crate::members::SpeakerProcess;
use crate::stages::net::net_stage::FirstReportLine;
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Values of a communicator's row.
pub(super) struct CommunicatorFacts<'f> {
    found: &'f CommunicatorsSummary,
    communicator: &'f MergedCommunicator,
    /// Counted once: each of its calls may ask.
    nodes: OnceCell<Option<u32>>,
    host_of_rank: OnceCell<FxHashMap<u32, &'f [u8]>>,
}

impl<'f> CommunicatorFacts<'f> {
    pub(super) fn new(
        found: &'f CommunicatorsSummary,
        communicator: &'f MergedCommunicator,
    ) -> Self {
        CommunicatorFacts {
            found,
            communicator,
            nodes: OnceCell::new(),
            host_of_rank: OnceCell::new(),
        }
    }

    pub(super) fn sides(&self) -> impl Iterator<Item = &'f CommunicatorSide> {
        let all = &self.found.sides;
        self.communicator.sides.iter().map(move |&at| &all[at])
    }

    pub(super) fn members(&self) -> impl Iterator<Item = CommunicatorMember<'f>> {
        let found = self.found;
        self.communicator.sides.iter().map(move |&at| {
            let side = &found.sides[at];
            let SpeakerProcess { host, pid } = &found.processes[side.process as usize];
            CommunicatorMember {
                at,
                side,
                host,
                pid: *pid,
            }
        })
    }

    /// Returns the only side of a communicator without an id.
    pub(super) fn only_side(&self) -> Option<&'f CommunicatorSide> {
        let own = matches!(self.communicator.key, CommunicatorKey::Own(_));
        self.sides().next().filter(|_| own)
    }

    pub(super) fn confidence(&self) -> Option<&'static str> {
        let label = &self.communicator.label;
        (label.of != CommunicatorPurpose::Unknown).then_some(if label.high {
            "high"
        } else {
            "low"
        })
    }

    pub(super) fn host(&self, side: &CommunicatorSide) -> Vec<u8> {
        self.found.processes[side.process as usize].host.to_vec()
    }

    pub(super) fn pid(&self, side: &CommunicatorSide) -> Option<u64> {
        self.found.processes[side.process as usize].pid
    }

    fn ranks(&self) -> BTreeSet<u32> {
        self.sides().filter_map(|side| side.rank).collect()
    }

    /// Counts the distinct ranks seen.
    pub(super) fn count_ranks_seen(&self) -> Option<usize> {
        let ranks = self.ranks();
        (!ranks.is_empty()).then_some(ranks.len())
    }

    fn has_all_ranks(&self) -> bool {
        let size = self.communicator.nranks.map(|n| n as usize);
        size.is_some() && self.count_ranks_seen() == size
    }

    /// Lists the ranks not seen; `none` if all were.
    pub(super) fn list_missing_ranks(&self) -> Option<String> {
        let (ranks, nranks) = (self.ranks(), self.communicator.nranks?);
        if ranks.is_empty() {
            return None;
        }
        if ranks.len() == nranks as usize {
            return Some("none".to_owned());
        }
        let mut text = String::new();
        let mut next = 0;
        for &rank in ranks.iter().chain([&nranks]) {
            if rank > next {
                let blank = if text.is_empty() { "" } else { " " };
                let _ = match rank - next {
                    1 => write!(text, "{blank}{next}"),
                    _ => write!(text, "{blank}{next}-{}", rank - 1),
                };
            }
            next = rank + 1;
        }
        Some(text)
    }

    /// Counts ranks by host, if every rank is known.
    fn count_ranks_by_host(&self) -> Option<BTreeMap<&'f [u8], usize>> {
        if !self.has_all_ranks() {
            return None;
        }
        let mut hosts = BTreeMap::new();
        for side in self.sides() {
            let host = &self.found.processes[side.process as usize].host;
            *hosts.entry(&**host).or_default() += 1;
        }
        Some(hosts)
    }

    /// Returns NCCL's number of nodes, or else the number of hosts of all ranks.
    pub(super) fn count_nodes(&self) -> Option<u32> {
        *self.nodes.get_or_init(|| {
            let printed = self.sides().find_map(|side| side.layout);
            let one = (self.communicator.nranks == Some(1)).then_some(1);
            printed
                .map(|(nodes, _)| nodes)
                .or(one)
                .or_else(|| u32::try_from(self.count_ranks_by_host()?.len()).ok())
        })
    }

    pub(super) fn nranks(&self) -> Option<u32> {
        self.communicator.nranks.filter(|&n| n > 0)
    }

    /// Returns the number of ranks on each node. NCCL may take ranks of one host for different nodes
    /// (`NCCL_HOSTID`): then only one rank on each is sure.
    pub(super) fn ranks_by_node(&self) -> Option<Vec<u128>> {
        let (nodes, nranks) = (self.count_nodes()?, self.nranks()?);
        let hosts = self.count_ranks_by_host()?;
        if hosts.len() == nodes as usize {
            return Some(hosts.into_values().map(|n| n as u128).collect());
        }
        (nodes == nranks).then(|| vec![1; nodes as usize])
    }

    /// Returns whether a rank is on another node than a member.
    pub(super) fn is_on_other_node(&self, side: &CommunicatorSide, rank: u32) -> Option<bool> {
        let host = |side: &CommunicatorSide| &*self.found.processes[side.process as usize].host;
        let hosts = self.host_of_rank.get_or_init(|| {
            let mut hosts = FxHashMap::default();
            for side in self.sides() {
                if let Some(rank) = side.rank {
                    hosts.entry(rank).or_insert_with(|| host(side));
                }
            }
            hosts
        });
        let peer = *hosts.get(&rank)?;
        let alone = self.count_nodes()? == self.nranks()?;
        Some(alone || peer != host(side))
    }

    pub(super) fn operation_name(&self, key: &crate::count::tally::CallKey) -> &'f [u8] {
        self.found.ops.name_of_op(key.op)
    }

    pub(super) fn format_ranks_per_node(&self) -> Option<String> {
        let mut counts: BTreeSet<usize> = self
            .sides()
            .filter_map(|side| side.layout)
            .map(|(_, local)| local as usize)
            .collect();
        if counts.is_empty() {
            counts.extend(self.count_ranks_by_host()?.into_values());
        }
        let (least, most) = (counts.first()?, counts.last()?);
        Some(if least == most {
            least.to_string()
        } else {
            format!("{least}-{most}")
        })
    }

    pub(super) fn locality(&self) -> Option<&'static str> {
        let nranks = self.communicator.nranks?;
        if nranks == 1 {
            return Some("single");
        }
        match self.count_nodes()? {
            1 => Some("one-node"),
            nodes if nodes == nranks => Some("one-per-node"),
            _ => Some("mixed"),
        }
    }

    pub(super) fn parent(&self) -> Option<String> {
        self.found.communicators[self.communicator.parent?]
            .key
            .format_id()
    }

    pub(super) fn color(&self) -> Option<i64> {
        self.sides().find_map(|side| side.color)
    }

    pub(super) fn created_by(&self) -> Option<&'f [u8]> {
        self.sides().find_map(|side| side.call.as_deref())
    }

    /// Returns the name that the program gave it, if all members that report one agree.
    pub(super) fn name(&self) -> Option<&'f [u8]> {
        let mut names = self.sides().filter_map(|side| side.name.as_deref());
        let first = names.next()?;
        names.all(|name| name == first).then_some(first)
    }

    /// Returns the member with the longest initialisation; the first of equals.
    pub(super) fn find_slowest_init(&self) -> Option<(&'f CommunicatorSide, f64)> {
        let times = self
            .sides()
            .filter_map(|side| Some((side, side.timing.as_ref()?.total)));
        times.reduce(|a, b| if b.1 > a.1 { b } else { a })
    }

    pub(super) fn format_init_phases(&self) -> String {
        let timing = self
            .find_slowest_init()
            .and_then(|(side, _)| side.timing.as_ref());
        let parts = timing.iter().flat_map(|timing| &timing.parts);
        parts
            .map(|(name, seconds)| format!("{}={seconds}", String::from_utf8_lossy(name)))
            .collect::<Vec<_>>()
            .join(" ")
    }

    pub(super) fn count_calls(&self) -> u64 {
        self.sides()
            .fold(0, |n, s| n.saturating_add(s.count_calls()))
    }

    pub(super) fn sum_bytes(&self) -> u128 {
        self.sides()
            .flat_map(|side| &side.uses)
            .fold(0, |n, (_, value)| n.saturating_add(value.bytes))
    }

    /// Sums calls and bytes by operation; bytes are unknown if some are.
    fn sum_by_operation(&self) -> BTreeMap<&'f [u8], (u64, Option<u128>)> {
        let mut ops: BTreeMap<&[u8], (u64, Option<u128>)> = BTreeMap::new();
        for (key, value) in self.sides().flat_map(|side| &side.uses) {
            let op = ops
                .entry(self.found.ops.name_of_op(key.op))
                .or_insert((0, Some(0)));
            op.0 = op.0.saturating_add(value.calls);
            op.1 =
                op.1.filter(|_| key.size != UNKNOWN_SIZE)
                    .map(|bytes| bytes.saturating_add(value.bytes));
        }
        ops
    }

    /// Formats the operations with the most bytes, and their shares.
    pub(super) fn format_byte_shares(&self) -> String {
        let all = self.sum_bytes();
        let mut ops: Vec<(u128, &[u8])> = self
            .sum_by_operation()
            .into_iter()
            .map(|(name, (_, bytes))| (bytes.unwrap_or(0), name))
            .collect();
        ops.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        let text = |(bytes, name): &(u128, &[u8])| {
            let share = 100.0 * *bytes as f64 / all as f64;
            format!("{} {share:.0}%", String::from_utf8_lossy(name))
        };
        // Operations below 0.5 % of the bytes are left out.
        let shown = ops
            .iter()
            .filter(|(bytes, _)| bytes.saturating_mul(200) >= all.max(1));
        shown.map(text).collect::<Vec<_>>().join(" ")
    }

    /// Formats calls and bytes by operation: `AllReduce=120:480000000`.
    pub(super) fn format_operations(&self) -> String {
        let text = |(name, (calls, bytes)): (&[u8], (u64, Option<u128>))| {
            let bytes = bytes.map_or(String::new(), |bytes| bytes.to_string());
            format!("{}={calls}:{bytes}", String::from_utf8_lossy(name))
        };
        self.sum_by_operation()
            .into_iter()
            .map(text)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Formats the state of all members, or the number of members in each.
    pub(super) fn format_state(&self) -> String {
        let mut states: BTreeMap<CommunicatorState, usize> = BTreeMap::new();
        for side in self
            .sides()
            .filter(|s| s.state != CommunicatorState::Unknown)
        {
            *states.entry(side.state).or_default() += 1;
        }
        if states.len() == 1 {
            return states.keys().map(|s| s.name()).collect();
        }
        states
            .iter()
            .map(|(state, n)| format!("{}={n}", state.name()))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// A member, as its process reports it.
#[derive(Debug, Clone, Copy)]
pub struct CommunicatorMember<'f> {
    /// Its place in the list of sides.
    pub(crate) at: usize,
    side: &'f CommunicatorSide,
    /// Its host; empty if the line has no header.
    pub host: &'f [u8],
    /// Its process id.
    pub pid: Option<u64>,
}

impl<'f> CommunicatorMember<'f> {
    /// Returns its rank.
    pub fn rank(&self) -> Option<u32> {
        self.side.rank
    }

    /// Returns the GPU on its host: NVML's number, or else the bus id.
    pub fn gpu(&self) -> Option<u64> {
        self.side.nvml_dev.map(u64::from).or(self.side.bus_id)
    }

    /// Returns the seconds of its initialisation, and the line that reports them.
    pub fn init_s(&self) -> Option<(f64, FirstReportLine)> {
        self.side.timing.as_ref().map(|t| (t.total, t.at))
    }

    /// Returns the phases of the initialisation in seconds, as printed.
    pub fn init_phases(&self) -> impl Iterator<Item = (&'f [u8], f64)> {
        let timing = self.side.timing.iter();
        timing.flat_map(|timing| timing.parts.iter().map(|(name, s)| (&name[..], *s)))
    }

    /// Returns its channels, and the line that reports them.
    pub fn channels(&self) -> Option<(ChannelCounts, FirstReportLine)> {
        self.side.channels
    }

    /// Counts the calls made on it.
    pub fn count_calls(&self) -> u64 {
        self.side.count_calls()
    }
}
