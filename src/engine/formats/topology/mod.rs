//! The topology of a machine: which GPU reaches which GPU and NIC over what, and the graphs that NCCL made of it.
//!
//! | | |
//! |---|---|
//! | `system` | the machine as NCCL sees it: the file of `NCCL_TOPO_DUMP_FILE` |
//! | `graphs` | the rings and trees that NCCL chose: the file of `NCCL_GRAPH_DUMP_FILE` |
//! | `matrix` | what `nvidia-smi topo -m` prints |
//!
//! The files of NCCL: `src/graph/xml.cc` and `src/graph/search.cc` of NCCL 2.29.

mod graphs;
mod limits;
mod matrix;
mod system;

use super::ordered;
use super::{InputFormat, InputHead, ProbeAnswer, Provides};
use crate::error::{Error, Result};
use crate::source::Input;
use limits::MAX_TOPOLOGY_BYTES;
use roxmltree::{Document, Node};

/// The file of `NCCL_TOPO_DUMP_FILE`.
pub(super) const SYSTEM: InputFormat = InputFormat {
    name: "topology",
    what: "the topology of a machine (NCCL_TOPO_DUMP_FILE)",
    tells: Provides::TOPOLOGY,
    probe: |head| probe_document(head, b"system"),
};

/// The file of `NCCL_GRAPH_DUMP_FILE`.
pub(super) const GRAPHS: InputFormat = InputFormat {
    what: "the graphs that NCCL chose (NCCL_GRAPH_DUMP_FILE)",
    probe: |head| probe_document(head, b"graphs"),
    ..SYSTEM
};

/// What `nvidia-smi topo -m` prints.
pub(super) const MATRIX: InputFormat = InputFormat {
    what: "the topology of a machine (nvidia-smi topo -m)",
    probe: matrix::probe_matrix,
    ..SYSTEM
};

/// Recognises a document of NCCL by its first element.
fn probe_document(head: &InputHead<'_>, root: &[u8]) -> ProbeAnswer {
    let mut text = head.bytes.trim_ascii_start();
    // Files written by hand for NCCL_TOPO_FILE have a declaration.
    if text.starts_with(b"<?xml") {
        let end = text.iter().position(|&b| b == b'>');
        text = end.map_or(&[][..], |end| text[end + 1..].trim_ascii_start());
    }
    if text.is_empty() {
        return head.no_once_closed(true);
    }
    let rest = text.strip_prefix(b"<").and_then(|t| t.strip_prefix(root));
    let is = rest.is_some_and(|rest| rest.first().is_some_and(|b| !b.is_ascii_alphanumeric()));
    ProbeAnswer::yes_or_no(is)
}

/// A way from a GPU to another GPU or to a NIC.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopologyPath {
    /// The number of the GPU (CUDA's, without `CUDA_VISIBLE_DEVICES`).
    pub gpu: u32,
    /// The other end.
    pub to: TopologyEnd,
    /// `NV18` (the number of NVLinks), `PIX`, `PXB`, `PHB`, `NODE` or `SYS`, as `nvidia-smi topo -m` has them.
    pub way: String,
}

/// The other end of a way from a GPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopologyEnd {
    /// A GPU by number.
    Gpu(u32),
    /// A NIC by name, and NCCL's number of it if that is known.
    Nic(String, Option<u32>),
}

/// Ways of a graph that NCCL chose, from a GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenWay {
    /// `ring`, `tree`, `collnet_chain`, `collnet_direct` or `nvls`.
    pub graph: &'static str,
    /// The GPU and the other end; NICs have a number only.
    pub path: TopologyPath,
    /// The number of channels that go this way.
    pub channels: u64,
    /// GB/s that NCCL reckons with for each of these channels.
    pub gbs: f64,
}

/// A machine's topology.
#[derive(Debug, Default, PartialEq)]
pub struct MachineTopology {
    /// The ways that exist.
    pub paths: Vec<TopologyPath>,
    /// The ways that NCCL chose.
    pub chosen: Vec<ChosenWay>,
}

/// Reads the topology of an input.
///
/// # Errors
/// It cannot be read, is larger than any machine's, or is no whole document with a GPU.
pub fn load_topology(input: &Input) -> Result<MachineTopology> {
    let text = ordered::read_whole(input, MAX_TOPOLOGY_BYTES)?;
    let failed = |why| Error::Content(format!("{}: {why}", input.name()));
    parse_topology(&text).map_err(failed)
}

/// Reads the topology in a text.
///
/// # Errors
/// The reason why it is none.
pub fn parse_topology(text: &[u8]) -> std::result::Result<MachineTopology, String> {
    let text = String::from_utf8_lossy(text);
    let mut found = MachineTopology::default();
    if text.trim_start().starts_with('<') {
        let document = Document::parse(&text).map_err(|e| format!("no whole XML document: {e}"))?;
        let root = document.root_element();
        match root.tag_name().name() {
            "graphs" => found.chosen = graphs::list_chosen_ways(root),
            _ => found.paths = system::list_paths(root)?,
        }
    } else {
        found.paths = matrix::parse_matrix(&text)?;
    }
    match found == MachineTopology::default() {
        true => Err(
            "it has no ways between devices: one GPU alone, or graphs without channels".to_owned(),
        ),
        false => Ok(found),
    }
}

/// Returns a number of an element, which NCCL writes in decimal or, since 2.27, with `0x`.
fn number_of(node: Node<'_, '_>, name: &str) -> Option<u32> {
    let text = node.attribute(name)?;
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
