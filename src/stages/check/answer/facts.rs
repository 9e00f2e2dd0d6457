//! The facts of a job, in the words of [`super::expect`].

use crate::count::spread::ValueSpread;
use crate::stages::communicators::CommunicatorsSummary;
use crate::stages::net::NetSummary;
use crate::stages::net::fact::NetFactKind;
use crate::stages::net::table;
use std::collections::BTreeSet;

/// The facts of a log; what it does not have is `None`. [`LogFacts::add_net`] and
/// [`LogFacts::add_communicators`] fill it, the rest is set by hand.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogFacts {
    /// The networks, as NCCL names them; of aws-ofi-nccl the provider.
    pub networks: Option<BTreeSet<String>>,
    /// What links InfiniBand's and RoCE's NICs have: `IB`, `RoCE`.
    pub links: Option<BTreeSet<String>>,
    /// Whether network connections reach the GPUs' memory, in nccl-net's words.
    pub gdr: Option<String>,
    /// How far the NVLink switches are used, in nccl-net's words.
    pub nvls: Option<String>,
    /// Whether GPUs use other GPUs' NICs, in nccl-net's words.
    pub pxn: Option<String>,
    /// Different versions of NCCL (or RCCL).
    pub versions: Option<u64>,
    /// Hosts without a line that has their version.
    pub versions_unsaid: u64,
    /// Nodes.
    pub nodes: Option<u64>,
    /// Ranks.
    pub ranks: Option<u64>,
    /// Calls that do not fit those of other ranks.
    pub mismatch: Option<u64>,
    /// Why calls of communicators were not compared, where any were not.
    pub unjudged: Option<String>,
    /// WARN lines that count.
    pub warn: Option<u64>,
    /// Seconds of a step.
    pub step_time: Option<ValueSpread>,
    /// TFLOP/s of a GPU.
    pub tflops: Option<ValueSpread>,
}

impl LogFacts {
    /// Adds the facts of lines on networks, versions and connections.
    pub fn add_net(&mut self, net: &NetSummary) {
        let facts = net.facts();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut networks = BTreeSet::new();
        let mut links = BTreeSet::new();
        let mut versions = BTreeSet::new();
        let mut saying: BTreeSet<&[u8]> = BTreeSet::new();
        let providers: BTreeSet<String> = facts
            .keys()
            .filter(|f| f.kind == NetFactKind::Provider && f.name.is_empty())
            .map(|f| text(&f.value))
            .collect();
        for (fact, said) in facts {
            match (fact.kind, &fact.name[..]) {
                (NetFactKind::Network, _)
                    if *fact.value == *b"AWS Libfabric" && !providers.is_empty() =>
                {
                    networks.extend(providers.iter().cloned());
                }
                (NetFactKind::Network, _) => {
                    networks.insert(text(&fact.value));
                }
                (NetFactKind::Nic, name) if name.starts_with(b"IB.") => {
                    let value = text(&fact.value);
                    let link = ["IB", "RoCE"].into_iter().find(|link| {
                        let mut parts = value.split('/').skip(1);
                        parts.any(|part| part == *link)
                    });
                    links.extend(link.map(str::to_owned));
                }
                (NetFactKind::Version, b"nccl" | b"rccl") => {
                    versions.insert(text(&fact.value));
                    saying.extend(said.hosts.keys().map(|host| &host[..]));
                }
                _ => {}
            }
        }
        let some = |set: BTreeSet<String>| (!set.is_empty()).then_some(set);
        self.networks = some(networks);
        self.links = some(links);
        self.versions = some(versions).map(|versions| versions.len() as u64);
        let hosts = net.hosts();
        self.versions_unsaid = hosts.iter().filter(|host| !saying.contains(*host)).count() as u64;
        let known = |word: String| (!word.starts_with("unknown")).then_some(word);
        self.gdr = known(table::describe_gpudirect(net));
        self.nvls = known(table::describe_nvls(net));
        self.pxn = known(table::describe_pxn(net));
        if self.nodes.is_none() && !hosts.is_empty() {
            self.nodes = Some(hosts.len() as u64);
        }
    }

    /// Adds the facts of INIT lines: the size of the largest communicator, and its nodes. They are the job's unless the
    /// log has more processes and no communicator of all ranks.
    pub fn add_communicators(&mut self, found: &CommunicatorsSummary) {
        let largest = found.views().filter(|view| view.nranks.is_some());
        let largest = largest.max_by_key(|view| (view.nranks, view.nodes));
        let processes: BTreeSet<u32> = found.sides.iter().map(|side| side.process).collect();
        let mut places = found.communicators.iter().map(|known| &known.place);
        let has_world = places.any(|place| place.has_all_job_ranks());
        let is_of_job = |nranks: Option<u32>| {
            has_world || nranks.is_some_and(|nranks| nranks as usize >= processes.len())
        };
        if let Some(view) = largest.filter(|view| is_of_job(view.nranks)) {
            self.ranks = view.nranks.map(u64::from);
            self.nodes = view.nodes.map(u64::from).or(self.nodes);
        }
    }
}
