//! Which kinds of lines a log has.

use crate::stages::communicators::CommunicatorsSummary;
use crate::stages::net::NetSummary;
use crate::stages::net::fact::NetFactKind;
use std::collections::BTreeSet;

/// Which lines have a time stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StampCoverage {
    /// Not known.
    #[default]
    Unknown,
    /// None.
    None,
    /// WARN lines: what NCCL does by itself since 2.26.
    Warn,
    /// All.
    All,
}

/// The kinds of lines that a log has. [`LineKinds::add_net`] and [`LineKinds::add_communicators`]
/// fill it, the rest is set by hand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LineKinds {
    /// Hosts.
    pub hosts: u64,
    /// There are calls.
    pub calls: bool,
    /// All members of all communicators with calls are in the log.
    pub whole: bool,
    /// INIT lines name communicators with their ranks.
    pub init: bool,
    /// They name the id that members share.
    pub ids: bool,
    /// INIT lines have the time that it took.
    pub timings: bool,
    /// A network is named.
    pub network: bool,
    /// NICs are listed.
    pub cards: bool,
    /// NICs report whether they reach the GPUs' memory.
    pub reach: bool,
    /// Connections are there.
    pub links: bool,
    /// Lines mention NVLink switches.
    pub nvls: bool,
    /// Settings are there.
    pub settings: bool,
    /// A version is named.
    pub version: bool,
    /// Every host names its version.
    pub versions: bool,
    /// TUNING lines are there.
    pub tuning: bool,
    /// RCCL's lines of kernels that begin and end are there.
    pub kernels: bool,
    /// WARN lines are there.
    pub warns: bool,
    /// The trainer's step lines are there.
    pub steps: bool,
    /// Step lines have the time of a step.
    pub step_times: bool,
    /// Which lines have a time stamp.
    pub stamps: StampCoverage,
}

impl LineKinds {
    /// Adds what the lines on networks, versions and settings cover.
    pub fn add_net(&mut self, net: &NetSummary) {
        let facts = net.facts();
        let has = |kind: NetFactKind| facts.keys().any(|fact| fact.kind == kind);
        let hosts = net.hosts();
        self.hosts = self.hosts.max(hosts.len() as u64);
        self.network |= has(NetFactKind::Network);
        self.cards |= has(NetFactKind::Nic) || has(NetFactKind::Provider);
        self.reach |= has(NetFactKind::GpuDirect);
        self.links |= !net.all.links.is_empty();
        self.nvls |= has(NetFactKind::Nvls);
        self.settings |= has(NetFactKind::Setting);
        self.tuning |= net.all.tuned;
        let named = facts.iter().filter(|(fact, _)| {
            fact.kind == NetFactKind::Version && matches!(&fact.name[..], b"nccl" | b"rccl")
        });
        let mut saying: BTreeSet<&[u8]> = BTreeSet::new();
        for (_, said) in named {
            self.version = true;
            saying.extend(said.hosts.keys().map(|host| &host[..]));
        }
        self.versions |= !hosts.is_empty() && hosts.iter().all(|host| saying.contains(host));
    }

    /// Adds what the lines on communicators cover.
    pub fn add_communicators(&mut self, found: &CommunicatorsSummary) {
        let mut whole = true;
        for view in found.views() {
            let (mut seen, mut calls, mut named) = (0_u64, false, true);
            for seat in view.members() {
                seen += 1;
                calls |= seat.count_calls() > 0;
                named &= seat.rank().is_some();
                self.timings |= seat.init_s().is_some();
                self.init |= seat.rank().is_some();
            }
            self.calls |= calls;
            self.ids |= view.comm_id.is_some();
            let all = named && view.comm_id.is_some() && view.nranks.map(u64::from) == Some(seen);
            whole &= all || !calls;
        }
        self.whole = self.calls && whole;
    }
}
