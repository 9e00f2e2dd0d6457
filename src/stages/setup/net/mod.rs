//! nccl-net: network, versions, settings and connections of a job as its processes report them, and the
//! hosts that differ from the others.
//!
//! | | |
//! |---|---|
//! | `fact` | facts of messages: subject and value |
//! | `connection` | connections |
//! | `owner` | the communicator of a connection |
//! | `lifetimes` | the communicators that a process had when it connected |
//! | `pending_connections` | connections that wait for the name of their communicator |
//! | `thread_states` | the state of threads between chunks, and owners by it |
//! | `sockets` | interfaces, and connections that are tried again |
//! | `rails` | connections with both ends in the log |
//! | `fold` | a chunk's part |
//! | `net_stage` | all of them |
//! | [`table`] | the facts by job and host |
//! | [`pairs`], [`hops`] | connections by pair of ranks, and hops of rings and trees |

pub(crate) mod connection;
pub(crate) mod fact;
pub(crate) mod fold;
pub mod hops;
pub(crate) mod init_line_comm;
pub(crate) mod lifetimes;
pub(crate) mod net_stage;
pub(crate) mod owner;
pub mod pairs;
pub(crate) mod pending_connections;
pub(crate) mod rails;
pub(crate) mod sockets;
pub mod table;
pub(crate) mod thread_states;

use crate::count::calls::{Options, Progress};
use crate::error::Result;
use crate::formats::Provides;
use crate::grammar::message::setup::setting::HIDDEN_VALUE;
use crate::log::MergedChunk;
use crate::members::{MergedMembers, SpeakerProcess};
use crate::report::Report;
use crate::source::InputName;
use crate::stages::{self, InputStage};
use fact::{NetFact, NetFactKind};
use fold::{NetLineCoverage, NetPartial};
use net_stage::NetStage;
use std::collections::BTreeSet;
use std::sync::OnceLock;
use table::NetFacts;

/// Settings for all lines that nccl-net reads.
pub const NET_RERUN_SETTING: &str =
    "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,P2P,SHM,GRAPH,NVLS,TUNING";

/// Facts and connections of all inputs.
#[derive(Debug)]
pub struct NetSummary {
    /// Facts and connections with their owners settled.
    pub all: NetStage,
    /// The processes by number.
    pub processes: Vec<SpeakerProcess>,
    /// Numbers of real processes: no damaged name of another.
    pub real: BTreeSet<u32>,
    /// The inputs' names.
    pub inputs: Vec<String>,
    facts: OnceLock<NetFacts>,
}

/// Reads all `origins`, which must be logs.
///
/// # Errors
/// No input could be read, or is a log; damage under `--strict`.
pub fn read_net(
    origins: &[InputName],
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<NetSummary> {
    let (all, merged) = stages::gather_stage::<NetStage>(origins, options, report, progress)?;
    let net = NetSummary::from_stage(all, &merged);
    let NetLineCoverage { read, known } = net.all.coverage;
    let account = report.total_account();
    // A damaged line may have parsed parts.
    let lines = account.other.max(read + known);
    if lines > 0 {
        report.note(&format!(
            "of {lines} NCCL lines that are not calls, {read} were parsed, {known} are of a known \
             kind, {} are unknown",
            lines - read - known
        ));
    }
    net.note_hidden(report);
    let missing = net.list_missing_subjects();
    if !missing.is_empty() {
        report.note(&format!(
            "no line reports {}; NCCL prints such lines under {NET_RERUN_SETTING}",
            missing.join(", ")
        ));
    }
    Ok(net)
}

impl InputStage for NetStage {
    const NEEDS: Provides = Provides::MESSAGES;
    const USES_STEPS: bool = false;
    type Visit = NetPartial;

    fn begin_input(&mut self, name: String) {
        self.begin_numbered_input(self.inputs.len(), name);
    }

    fn add_chunk(&mut self, part: MergedChunk<'_, NetPartial>) {
        NetStage::add_chunk(self, part);
    }
}

impl NetSummary {
    /// Settles what was read of all inputs.
    pub(crate) fn from_stage(mut all: NetStage, merged: &MergedMembers) -> NetSummary {
        let aliases = merged.process_aliases();
        all.settle_owners(&aliases);
        NetSummary {
            inputs: std::mem::take(&mut all.inputs),
            all,
            real: aliases.into_iter().collect(),
            processes: merged.origins.processes.items().to_vec(),
            facts: OnceLock::new(),
        }
    }

    /// Returns the facts with their speakers, including facts of connections. A process that names no network
    /// (NCCL has a line for it since 2.6, of the subsystem INIT) uses the one of its connections.
    pub fn facts(&self) -> &NetFacts {
        self.facts.get_or_init(|| table::collect_facts(self))
    }

    /// Returns a process; `None` if its lines have no header.
    pub fn process(&self, process: u32) -> Option<&SpeakerProcess> {
        let process = self.processes.get(process as usize)?;
        process.pid.map(|_| process)
    }

    /// Returns the versions of NCCL that the log prints.
    pub(crate) fn nccl_versions(&self) -> impl Iterator<Item = &[u8]> {
        let facts = self.all.facts.items().iter();
        let is = |fact: &&NetFact| fact.kind == NetFactKind::Version && *fact.name == *b"nccl";
        facts.filter(is).map(|fact| &*fact.value)
    }

    /// Returns the hosts of all processes.
    pub fn hosts(&self) -> BTreeSet<&[u8]> {
        let processes = self.real.iter().filter_map(|&p| self.process(p));
        processes.map(|p| &p.host[..]).collect()
    }

    /// Returns the hosts with a process that made or connected a communicator.
    pub fn hosts_with_communicators(&self) -> BTreeSet<&[u8]> {
        let comms = self.all.comms.iter().map(|(process, _)| *process);
        let links = self.all.links.keys().map(|(process, ..)| *process);
        let processes: BTreeSet<u32> = comms.chain(links).collect();
        let processes = processes.into_iter().filter_map(|p| self.process(p));
        processes.map(|p| &p.host[..]).collect()
    }

    /// Reports settings with hidden values.
    pub(crate) fn note_hidden(&self, report: &Report) {
        let facts = self.all.facts.items().iter();
        let hidden = facts.filter(|f| matches!(f.kind, NetFactKind::Setting | NetFactKind::Config));
        let hidden = hidden.filter(|f| memchr::memmem::find(&f.value, HIDDEN_VALUE).is_some());
        let names: BTreeSet<&[u8]> = hidden.map(|fact| &fact.name[..]).collect();
        if !names.is_empty() {
            let names: Vec<_> = names.into_iter().map(String::from_utf8_lossy).collect();
            report.note(&format!(
                "values of settings that look like secrets are hidden: {}",
                names.join(", ")
            ));
        }
    }

    /// Lists the subjects that no line reports.
    fn list_missing_subjects(&self) -> Vec<&'static str> {
        let kinds: BTreeSet<NetFactKind> = self.all.facts.items().iter().map(|f| f.kind).collect();
        let said = |kind: NetFactKind| kinds.contains(&kind);
        let has_links = !self.all.links.is_empty();
        [
            ("network", said(NetFactKind::Network)),
            ("nic", said(NetFactKind::Nic) || said(NetFactKind::Provider)),
            ("transport", has_links),
            ("version", said(NetFactKind::Version)),
            ("plugin", said(NetFactKind::Plugin)),
            ("setting", said(NetFactKind::Setting)),
            ("tuning", self.all.tuned),
        ]
        .into_iter()
        .filter(|(_, said)| !said)
        .map(|(name, _)| name)
        .collect()
    }
}
