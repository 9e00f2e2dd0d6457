//! nccl-net: what a job's processes report about the network, the versions and the settings, who
//! reaches whom over what, and which hosts differ from the others.
//!
//! | | |
//! |---|---|
//! | `fact` | what a message reports, as subject and value |
//! | `owner` | which communicator a connection belongs to |
//! | `lifetimes` | which communicators a process had when it connected |
//! | `named_later` | connections whose communicator is named after them |
//! | `link` | connections |
//! | `fold` | a chunk's part |
//! | `all` | all of them |
//! | [`table`] | the facts by job and host |
//! | [`pairs`] | the connections by pair of ranks, as rows and for Graphviz |

pub(crate) mod all;
pub(crate) mod fact;
pub(crate) mod fold;
pub mod hops;
pub(crate) mod lifetimes;
pub(crate) mod link;
pub(crate) mod named;
pub(crate) mod named_later;
pub(crate) mod owner;
pub mod pairs;
pub mod table;

use crate::count::calls::{Options, Progress};
use crate::error::Result;
use crate::formats::Tells;
use crate::grammar::message::setup::setting::HIDDEN;
use crate::log::Part;
use crate::members::{Merged, Process};
use crate::report::Report;
use crate::source::Origin;
use crate::stages::{self, Stage};
use all::All;
use fact::Kind;
use fold::{Coverage, Partial};
use std::collections::BTreeSet;

/// The setting under which NCCL prints all of it.
pub const RERUN: &str =
    "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,P2P,SHM,GRAPH,NVLS,TUNING";

/// All that the inputs say.
#[derive(Debug)]
pub struct Net {
    /// What was said, settled.
    pub all: All,
    /// The processes by number.
    pub processes: Vec<Process>,
    /// Those that are real, and no glued name of another.
    pub real: BTreeSet<u32>,
    /// The inputs' names.
    pub inputs: Vec<String>,
}

/// Reads all `origins`, which must be logs.
///
/// # Errors
/// No input could be read, or is a log; damage under `--strict`.
pub fn net(
    origins: &[Origin],
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<Net> {
    let (all, merged) = stages::gather::<All>(origins, options, report, progress)?;
    let net = Net::of(all, &merged);
    let Coverage { read, known } = net.all.coverage;
    let account = report.total();
    // A damaged line may have something to read.
    let lines = account.other.max(read + known);
    if lines > 0 {
        report.note(&format!(
            "of {lines} NCCL lines that are not calls, {read} were parsed, {known} are of a known \
             kind, {} are unknown",
            lines - read - known
        ));
    }
    net.note_hidden(report);
    let missing = net.missing();
    if !missing.is_empty() {
        report.note(&format!(
            "no line reports {}; NCCL prints such lines under {RERUN}",
            missing.join(", ")
        ));
    }
    Ok(net)
}

impl Stage for All {
    const NEEDS: Tells = Tells::MESSAGES;
    const STEPS: bool = false;
    type Visit = Partial;

    fn begin(&mut self, name: String) {
        self.begin_input(self.inputs.len(), name);
    }

    fn add(&mut self, part: Part<'_, Partial>) {
        All::add(self, part);
    }
}

impl Net {
    /// What was read of all inputs.
    pub(crate) fn of(mut all: All, merged: &Merged) -> Net {
        let aliases = merged.aliases();
        all.settle(&aliases);
        Net {
            inputs: std::mem::take(&mut all.inputs),
            all,
            real: aliases.into_iter().collect(),
            processes: merged.origins.processes.items().to_vec(),
        }
    }

    /// The process that printed something; none where its line had no header.
    pub fn process(&self, process: u32) -> Option<&Process> {
        let process = self.processes.get(process as usize)?;
        process.pid.map(|_| process)
    }

    /// The hosts whose processes print something.
    pub fn hosts(&self) -> BTreeSet<&[u8]> {
        let processes = self.real.iter().filter_map(|&p| self.process(p));
        processes.map(|p| &p.host[..]).collect()
    }

    /// The hosts of which a process made a communicator, or connected one.
    pub fn hosts_with_communicators(&self) -> BTreeSet<&[u8]> {
        let comms = self.all.comms.iter().map(|(process, _)| *process);
        let links = self.all.links.keys().map(|(process, ..)| *process);
        let processes: BTreeSet<u32> = comms.chain(links).collect();
        let processes = processes.into_iter().filter_map(|p| self.process(p));
        processes.map(|p| &p.host[..]).collect()
    }

    /// Reports which settings' values are hidden.
    pub(crate) fn note_hidden(&self, report: &Report) {
        let facts = self.all.facts.items().iter();
        let hidden = facts.filter(|f| matches!(f.kind, Kind::Setting | Kind::Config));
        let hidden = hidden.filter(|f| memchr::memmem::find(&f.value, HIDDEN).is_some());
        let names: BTreeSet<&[u8]> = hidden.map(|fact| &fact.name[..]).collect();
        if !names.is_empty() {
            let names: Vec<_> = names.into_iter().map(String::from_utf8_lossy).collect();
            report.note(&format!(
                "values of settings that look like secrets are hidden: {}",
                names.join(", ")
            ));
        }
    }

    /// The subjects that no line reports.
    fn missing(&self) -> Vec<&'static str> {
        let kinds: BTreeSet<Kind> = self.all.facts.items().iter().map(|f| f.kind).collect();
        let said = |kind: Kind| kinds.contains(&kind);
        let has_links = !self.all.links.is_empty();
        [
            ("network", said(Kind::Network)),
            ("nic", said(Kind::Nic) || said(Kind::Provider)),
            ("transport", has_links),
            ("version", said(Kind::Version)),
            ("plugin", said(Kind::Plugin)),
            ("setting", said(Kind::Setting)),
            ("tuning", self.all.tuned),
        ]
        .into_iter()
        .filter(|(_, said)| !said)
        .map(|(name, _)| name)
        .collect()
    }
}
