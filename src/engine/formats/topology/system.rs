//! The machine as NCCL sees it. Elements are nested as PCIe is: `system`, `cpu`, `pci` (bridges and devices), and in
//! these `gpu` with its `nvlink`s, and `nic` with its `net`s.

use super::limits::{MAX_DEVICES, MAX_PCIE_DEPTH};
use super::{TopologyEnd, TopologyPath, number_of};
use roxmltree::Node;

type XmlNode<'d> = Node<'d, 'd>;

/// PCI classes of a device that NVLinks lead to: a GPU, and a switch of NVLinks (NCCL, `src/graph/topo.cc`).
const GPU_CLASS: &str = "0x03";
const SWITCH_CLASS: &str = "0x068000";
/// The class of a PCIe bridge.
const BRIDGE_CLASS: &str = "0x0604";

/// Lists the ways from each GPU to the GPUs after it and to all NICs.
///
/// # Errors
/// There are more devices, or elements around one, than a machine has.
pub(super) fn list_paths(root: XmlNode<'_>) -> Result<Vec<TopologyPath>, String> {
    let named = |name: &'static str| {
        let all = root.descendants().filter(move |n| n.has_tag_name(name));
        all.take(MAX_DEVICES + 1)
    };
    let is_deep = |node: XmlNode<'_>| node.ancestors().nth(MAX_PCIE_DEPTH).is_some();
    for name in ["gpu", "net"] {
        if named(name).count() > MAX_DEVICES || named(name).any(is_deep) {
            return Err(format!(
                "it has more than {MAX_DEVICES} elements {name}, or one inside more than {MAX_PCIE_DEPTH}"
            ));
        }
    }
    let mut gpus: Vec<(u32, XmlNode<'_>)> = named("gpu")
        .filter_map(|gpu| Some((number_of(gpu, "dev")?, gpu)))
        .collect();
    gpus.sort_by_key(|(dev, _)| *dev);
    let nics: Vec<XmlNode<'_>> = named("net").collect();
    let mut paths = Vec::new();
    for (at, &(gpu, node)) in gpus.iter().enumerate() {
        for &(other, other_node) in &gpus[at + 1..] {
            let links = count_nvlinks(node, other_node);
            let way = match links {
                0 => find_pcie_way(node, other_node).to_owned(),
                _ => format!("NV{links}"),
            };
            let to = TopologyEnd::Gpu(other);
            paths.push(TopologyPath { gpu, to, way });
        }
        for &nic in &nics {
            let name = nic
                .attribute("name")
                .filter(|name| !name.is_empty())
                .unwrap_or("?")
                .to_owned();
            let to = TopologyEnd::Nic(name, number_of(nic, "dev"));
            let way = find_pcie_way(node, nic).to_owned();
            paths.push(TopologyPath { gpu, to, way });
        }
    }
    Ok(paths)
}

/// Counts the NVLinks between two GPUs: those from one to the other, or those that both have to switches.
fn count_nvlinks(one: XmlNode<'_>, other: XmlNode<'_>) -> u64 {
    let links = |gpu: XmlNode<'_>, is: &dyn Fn(XmlNode<'_>) -> bool| -> u64 {
        let all = gpu.children().filter(|n| n.has_tag_name("nvlink"));
        let counts = all
            .filter(|link| is(*link))
            .map(|link| number_of(link, "count"));
        counts.map(|count| u64::from(count.unwrap_or(0))).sum()
    };
    let class = |link: XmlNode<'_>, begins: &str| {
        let class = link.attribute("tclass");
        class.is_some_and(|class| class.starts_with(begins))
    };
    let bus = |gpu: XmlNode<'_>| {
        gpu.parent_element()
            .and_then(|pci| pci.attribute("busid").map(str::to_owned))
    };
    let target = bus(other);
    let direct = links(one, &|link| {
        class(link, GPU_CLASS)
            && link
                .attribute("target")
                .is_some_and(|t| Some(t) == target.as_deref())
    });
    let switched = |gpu| links(gpu, &|link| class(link, SWITCH_CLASS));
    match direct {
        0 => switched(one).min(switched(other)),
        direct => direct,
    }
}

/// Returns the way over PCIe by the innermost element that both ends are in.
fn find_pcie_way(one: XmlNode<'_>, other: XmlNode<'_>) -> &'static str {
    let is_bridge = |node: &XmlNode<'_>| {
        let class = node.attribute("class");
        node.has_tag_name("pci") && class.is_some_and(|class| class.starts_with(BRIDGE_CLASS))
    };
    let around: Vec<XmlNode<'_>> = one.ancestors().collect();
    let common = other.ancestors().find(|node| around.contains(node));
    let is = |name| common.is_some_and(|common| common.has_tag_name(name));
    if is("cpu") {
        return "PHB";
    }
    if !is("pci") && !is("nic") {
        return "SYS";
    }
    // One device with several ports, or a GPU beside a NIC, is behind one bridge.
    let bridges = |end: XmlNode<'_>| {
        let below = end.ancestors().take_while(|node| Some(*node) != common);
        below.filter(is_bridge).count()
    };
    match bridges(one) + bridges(other) {
        0 => "PIX",
        _ => "PXB",
    }
}
