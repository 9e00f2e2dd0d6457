//! Connections by pair of ranks and path: as rows, and as a graph for Graphviz.

use super::NetSummary;
use super::connection::{ConnectionChannels, ConnectionPath};
use super::fold::NetComm;
use super::thread_states::ConnectionOwner;
use crate::members::comm_id::CommId;
use crate::output::render::{Grid, TableCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

/// A communicator as all members know it: by its id or, without one, as one process knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SharedCommunicator {
    /// Its id and size.
    Id(CommId, u32),
    /// Process, address and size.
    Own(u32, u64, u32),
}

impl SharedCommunicator {
    /// Its size.
    pub fn nranks(self) -> u32 {
        match self {
            SharedCommunicator::Id(_, nranks) | SharedCommunicator::Own(.., nranks) => nranks,
        }
    }
}

/// Returns the communicator of a connection, if it is known.
pub fn find_shared_comm(process: u32, owner: &ConnectionOwner) -> Option<SharedCommunicator> {
    match owner {
        ConnectionOwner::Comm(comm) => Some(match comm.comm_id {
            Some(id) => SharedCommunicator::Id(id, comm.nranks),
            None => SharedCommunicator::Own(process, comm.comm, comm.nranks),
        }),
        ConnectionOwner::Address(_) | ConnectionOwner::Unknown(_) => None,
    }
}

/// Owner of a pair: its communicator, or the one process that reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PairOwner {
    Comm(SharedCommunicator),
    Process(u32),
}

impl PairOwner {
    /// Returns the owner of a connection or a hop.
    pub(super) fn new(process: u32, owner: &ConnectionOwner) -> PairOwner {
        find_shared_comm(process, owner).map_or(PairOwner::Process(process), PairOwner::Comm)
    }

    /// Returns the cells `comm_id`, `comm` and `nranks`.
    pub(super) fn owner_cells(self) -> [TableCell<'static>; 3] {
        let (id, comm, nranks) = match self {
            PairOwner::Comm(SharedCommunicator::Id(id, nranks)) => {
                (Some(id.to_string()), None, Some(nranks))
            }
            PairOwner::Comm(SharedCommunicator::Own(_, comm, nranks)) => {
                (None, Some(format!("0x{comm:x}")), Some(nranks))
            }
            PairOwner::Process(_) => (None, None, None),
        };
        [id.into(), comm.into(), nranks.map(u64::from).into()]
    }
}

/// The pairs of ranks with their channels, and the hosts of each communicator's ranks.
pub(super) struct RankPairs<'a> {
    pub(super) rows: BTreeMap<(PairOwner, &'a ConnectionPath), ConnectionChannels>,
    hosts: BTreeMap<(PairOwner, u32), Option<&'a [u8]>>,
}

impl<'a> RankPairs<'a> {
    pub(super) fn new(net: &'a NetSummary) -> RankPairs<'a> {
        let mut rows: BTreeMap<(PairOwner, &ConnectionPath), ConnectionChannels> = BTreeMap::new();
        let mut hosts = BTreeMap::new();
        let mut lives = |of: PairOwner, rank: u32, process: u32| {
            let host = net.process(process).map(|p| &p.host[..]);
            let known = hosts.entry((of, rank)).or_insert(host);
            if *known != host {
                // Two hosts have this rank: the id came twice.
                *known = None;
            }
        };
        for (process, comm) in &net.all.comms {
            if let Some(shared) = find_shared_comm(*process, &ConnectionOwner::Comm(*comm)) {
                lives(PairOwner::Comm(shared), comm.rank, *process);
            }
        }
        for ((process, owner, way), (channels, _)) in &net.all.links {
            let of = PairOwner::new(*process, owner);
            lives(of, way.printing_rank(), *process);
            rows.entry((of, way)).or_default().extend(channels);
        }
        let mut pairs = RankPairs { rows, hosts };
        pairs.fill_far_hosts(net);
        pairs
    }

    /// Fills in the host of far ranks. Without a known communicator it is still known if all communicators
    /// that fit agree.
    fn fill_far_hosts(&mut self, net: &NetSummary) {
        let mut of_process: BTreeMap<u32, Vec<NetComm>> = BTreeMap::new();
        for &(process, comm) in &net.all.comms {
            of_process.entry(process).or_default().push(comm);
        }
        let mut found = BTreeMap::new();
        for (of, way) in self.rows.keys() {
            let PairOwner::Process(process) = *of else {
                continue;
            };
            let comms = of_process.get(&process).into_iter().flatten();
            let fit: Vec<PairOwner> = comms
                .filter(|comm| comm.fits_path(way))
                .filter_map(|comm| find_shared_comm(process, &ConnectionOwner::Comm(*comm)))
                .map(PairOwner::Comm)
                .collect();
            for rank in [Some(way.from), way.to].into_iter().flatten() {
                let mut hosts = fit.iter().map(|of| self.host(*of, Some(rank)));
                let first = hosts.next().flatten();
                let host = first.filter(|_| hosts.all(|host| host == first));
                let known = found.entry((*of, rank)).or_insert(host);
                if *known != host {
                    *known = None;
                }
            }
        }
        for (key, host) in found {
            self.hosts.entry(key).or_insert(host);
        }
    }

    pub(super) fn host(&self, of: PairOwner, rank: Option<u32>) -> Option<&'a [u8]> {
        self.hosts.get(&(of, rank?)).copied().flatten()
    }
}

/// Builds a row for each pair of ranks and path.
pub fn build_pair_grid(net: &NetSummary) -> Grid {
    let columns = [
        "comm_id",
        "comm",
        "nranks",
        "from_rank",
        "to_rank",
        "from_host",
        "to_host",
        "transport",
        "via",
        "nic",
        "direction",
        "channels",
        "gdr",
        "pxn",
        "shared",
    ];
    let pairs = RankPairs::new(net);
    let text = |host: Option<&[u8]>| host.map_or(TableCell::Empty, |h| TableCell::from(h.to_vec()));
    let number = |n: Option<u32>| TableCell::from(n.map(u64::from));
    let row = |(&(of, way), channels): (&(PairOwner, &ConnectionPath), &ConnectionChannels)| {
        let [id, comm, nranks] = of.owner_cells();
        let card = way.via.nic();
        let yes = |is: bool| TableCell::from(if is { "yes" } else { "no" });
        let direction = way.receives.map(|r| if r { "receive" } else { "send" });
        vec![
            id,
            comm,
            nranks,
            number(Some(way.from)),
            number(way.to),
            text(pairs.host(of, Some(way.from))),
            text(pairs.host(of, way.to)),
            way.via.word().into(),
            TableCell::from(way.via.format_detail()),
            number(card.map(|card| card.nic)),
            direction.into(),
            (channels.len() as u64).into(),
            card.map_or(TableCell::Empty, |card| yes(card.gdr)),
            number(card.and_then(|card| card.proxy)),
            card.map_or(TableCell::Empty, |card| yes(card.shared)),
        ]
    };
    Grid {
        columns: columns.map(str::to_owned).to_vec(),
        rows: pairs.rows.iter().map(row).collect(),
    }
}

/// Writes the pairs as a graph for Graphviz: a cluster for each communicator and host, an edge for each
/// pair and transport with its channels.
///
/// # Errors
/// The output cannot be written.
pub fn write_dot(net: &NetSummary, out: &mut dyn Write) -> std::io::Result<()> {
    let pairs = RankPairs::new(net);
    let mut ofs: BTreeMap<PairOwner, Vec<(&ConnectionPath, usize)>> = BTreeMap::new();
    for (&(of, way), channels) in &pairs.rows {
        ofs.entry(of).or_default().push((way, channels.len()));
    }
    writeln!(out, "digraph nccl {{")?;
    writeln!(out, "  node [shape=box];")?;
    for (number, (of, ways)) in ofs.iter().enumerate() {
        let mut of_host: BTreeMap<Option<&[u8]>, BTreeSet<u32>> = BTreeMap::new();
        for (way, _) in ways {
            for rank in [Some(way.from), way.to].into_iter().flatten() {
                let host = pairs.host(*of, Some(rank));
                of_host.entry(host).or_default().insert(rank);
            }
        }
        let name = match of {
            PairOwner::Comm(SharedCommunicator::Id(id, nranks)) => {
                format!("communicator {id}, {nranks} ranks")
            }
            PairOwner::Comm(SharedCommunicator::Own(_, comm, nranks)) => {
                format!("communicator {comm:#x}, {nranks} ranks")
            }
            PairOwner::Process(_) => "communicator unknown".to_owned(),
        };
        writeln!(out, "  subgraph cluster_{number} {{")?;
        writeln!(out, "    label=\"{name}\";")?;
        for (at, (host, ranks)) in of_host.iter().enumerate() {
            writeln!(out, "    subgraph cluster_{number}_{at} {{")?;
            let host = host.map_or("host unknown".to_owned(), quote_label);
            writeln!(out, "      label=\"{host}\";")?;
            for rank in ranks {
                writeln!(out, "      c{number}r{rank} [label=\"{rank}\"];")?;
            }
            writeln!(out, "    }}")?;
        }
        // Both ends of a network connection print it; equal texts are one edge.
        let mut edges: BTreeMap<(u32, Option<u32>, Vec<u8>), [usize; 2]> = BTreeMap::new();
        for (way, channels) in ways {
            let edge = (way.from, way.to, way.via.format_transport());
            edges.entry(edge).or_default()[usize::from(way.receives == Some(true))] += channels;
        }
        for ((from, to, text), channels) in edges {
            let channels = channels[0].max(channels[1]);
            let (colour, to) = (transport_colour(&text), to.unwrap_or(from));
            writeln!(
                out,
                "    c{number}r{from} -> c{number}r{to} [label=\"{} x{channels}\", color={colour}];",
                quote_label(&text)
            )?;
        }
        writeln!(out, "  }}")?;
    }
    writeln!(out, "}}")
}

fn transport_colour(text: &[u8]) -> &'static str {
    match text {
        t if t.starts_with(b"P2P") => "darkgreen",
        t if t.starts_with(b"SHM") => "goldenrod",
        t if t.ends_with(b"GDRDMA") => "blue",
        _ => "red",
    }
}

/// Quotes text of a log for Graphviz.
fn quote_label(text: &[u8]) -> String {
    let text = crate::report::escape_for_terminal(&String::from_utf8_lossy(text), false);
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
