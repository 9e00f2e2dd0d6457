//! Turns messages about the network, the versions and the settings into facts: a subject and a value, both
//! in words.

use crate::grammar::message::graph::GraphMessage;
use crate::grammar::message::graph::nvls::NvlsMessage;
use crate::grammar::message::network::net::{DmaBufSupport, GdrSupport, NetMessage};
use crate::grammar::message::network::nic::{Nic, NicKind as Card, NicList};
use crate::grammar::message::setup::plugin::{PluginEvent, PluginMessage};
use crate::grammar::message::setup::setting::{HIDDEN_VALUE, Setting, SettingSource};
use crate::grammar::message::setup::version::{Component, ComponentVersion, NcclBuild};
use crate::grammar::message::{MessageFamily, NcclMessage};
use serde::{Deserialize, Serialize};

/// Kinds of facts, in the order of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NetFactKind {
    /// The network that communicators use.
    Network,
    /// The interface for traffic other than data.
    Interface,
    /// Its address; not compared, since no two are alike.
    Address,
    /// A NIC.
    Nic,
    /// Provider that aws-ofi-nccl found.
    Provider,
    /// Whether a NIC reaches the GPUs' memory (GPUDirect RDMA).
    GpuDirect,
    /// Transports of connections.
    Transport,
    /// The NICs that connections use.
    NicUsed,
    /// GPUs that could reach each other and must not.
    P2p,
    /// Connections through another rank's NIC.
    Pxn,
    /// NVLink switches.
    Nvls,
    /// NVLink between nodes.
    Mnnvl,
    /// Versions.
    Version,
    /// Plugins.
    Plugin,
    /// `NCCL_*`.
    Setting,
    /// The program's `ncclConfig_t`.
    Config,
}

impl NetFactKind {
    /// Returns the first word of a subject.
    pub fn word(self) -> &'static str {
        match self {
            NetFactKind::Network => "network",
            NetFactKind::Interface => "interface",
            NetFactKind::Address => "address",
            NetFactKind::Nic => "nic",
            NetFactKind::Provider => "provider",
            NetFactKind::GpuDirect => "gpudirect",
            NetFactKind::Transport => "transport",
            NetFactKind::NicUsed => "nic_used",
            NetFactKind::P2p => "p2p",
            NetFactKind::Pxn => "pxn",
            NetFactKind::Nvls => "nvls",
            NetFactKind::Mnnvl => "mnnvl",
            NetFactKind::Version => "version",
            NetFactKind::Plugin => "plugin",
            NetFactKind::Setting => "setting",
            NetFactKind::Config => "config",
        }
    }

    /// True if a host that reports other facts of the kind, but not this subject, lacks it: it has no such
    /// NIC, or does not set that variable.
    pub fn is_listed(self) -> bool {
        matches!(self, NetFactKind::Nic | NetFactKind::Setting)
    }
}

/// A fact.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NetFact {
    /// Its kind.
    pub kind: NetFactKind,
    /// Its name within the kind; may be empty.
    pub name: Box<[u8]>,
    /// The value.
    pub value: Box<[u8]>,
}

impl NetFact {
    /// True if a line reports whether a NIC reaches the GPUs' memory, and not by which way it can.
    pub(in crate::stages) fn is_of_nic_gdr(&self) -> bool {
        let ways = [&b"by"[..], b"dmabuf", b"gdrcopy"];
        self.kind == NetFactKind::GpuDirect && !ways.contains(&&self.name[..])
    }

    /// Makes a fact of words.
    pub fn new(kind: NetFactKind, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> NetFact {
        NetFact {
            kind,
            name: name.as_ref().into(),
            value: value.as_ref().into(),
        }
    }

    /// Returns its subject, such as `setting.NCCL_ALGO`.
    pub fn subject(&self) -> Vec<u8> {
        join_parts(&[self.kind.word().as_bytes(), &self.name])
    }

    /// True if hosts can be compared in it: only rank 0 prints tuning.
    pub fn is_compared(&self) -> bool {
        self.kind != NetFactKind::Address
            && !(self.kind == NetFactKind::Nvls && *self.name == *b"used")
    }
}

/// Joins the parts that are not empty with full stops.
fn join_parts(parts: &[&[u8]]) -> Vec<u8> {
    let parts: Vec<&[u8]> = parts.iter().filter(|p| !p.is_empty()).copied().collect();
    parts.join(&b'.')
}

/// Collects the facts of a message, without connections and tuning.
pub(crate) fn collect_facts(message: &NcclMessage<'_>, mut add: impl FnMut(NetFact)) {
    match message {
        NcclMessage::Setting(setting) => add(setting_to_fact(setting)),
        NcclMessage::Version(version) => version_to_facts(version, add),
        NcclMessage::Plugin(plugin) => plugin_to_fact(plugin).into_iter().for_each(add),
        NcclMessage::Net(net) => net_to_facts(net, add),
        NcclMessage::Nvls(nvls) => match nvls {
            NvlsMessage::Support { available, .. } => {
                let value = if *available {
                    "available"
                } else {
                    "not available"
                };
                add(NetFact::new(NetFactKind::Nvls, "support", value));
            }
            NvlsMessage::Comm(_) => add(NetFact::new(NetFactKind::Nvls, "buffers", "created")),
            NvlsMessage::Head(_) => {}
        },
        NcclMessage::Graph(GraphMessage::Connected(connected))
            if connected.what == b"NVLS tree" =>
        {
            add(NetFact::new(NetFactKind::Nvls, "tree", "connected"));
        }
        NcclMessage::Plain(MessageFamily::P2p, text) => p2p_to_fact(text).into_iter().for_each(add),
        NcclMessage::Warn(warn) => p2p_to_fact(warn.text).into_iter().for_each(add),
        NcclMessage::Layout(layout) => {
            if let Some(mnnvl) = layout.mnnvl {
                let value = if mnnvl > 0 { "used" } else { "not used" };
                add(NetFact::new(NetFactKind::Mnnvl, "", value));
            }
        }
        _ => {}
    }
}

/// From `ncclTopoCheckP2p` in `src/graph/paths.cc`; of GPUs over NVLink it is a WARN.
fn p2p_to_fact(text: &[u8]) -> Option<NetFact> {
    let rest = text.strip_prefix(b"P2P is disabled between ")?;
    let value = match rest.get(..6)?.eq_ignore_ascii_case(b"NVLINK") {
        true => "disabled between GPUs with NVLink",
        false => "disabled between connected GPUs",
    };
    Some(NetFact::new(NetFactKind::P2p, "", value))
}

/// The words between NCCL's choice and the program's value that was not possible.
pub(crate) const CORRECTED_MARK: &[u8] = b" in place of ";

fn setting_to_fact(setting: &Setting<'_>) -> NetFact {
    let Setting { name, value, by } = *setting;
    let secret = setting.is_secret();
    let value = if secret { HIDDEN_VALUE } else { value };
    match by {
        SettingSource::Environment | SettingSource::Unsaid => {
            NetFact::new(NetFactKind::Setting, name, value)
        }
        SettingSource::Config => NetFact::new(NetFactKind::Config, name, value),
        SettingSource::Overruled(variable) => {
            let value = [value, b" by ", variable].concat();
            NetFact::new(NetFactKind::Config, name, value)
        }
        SettingSource::Default(given) => {
            let given = if secret { HIDDEN_VALUE } else { given };
            let value = [value, b" as `", given, b"` is invalid"].concat();
            NetFact::new(NetFactKind::Setting, name, value)
        }
        SettingSource::Corrected(given) => {
            let value: &[u8] = if value.is_empty() {
                b"its own choice"
            } else {
                value
            };
            let value = [value, CORRECTED_MARK, given].concat();
            NetFact::new(NetFactKind::Config, name, value)
        }
        SettingSource::Unused => NetFact::new(NetFactKind::Setting, name, "is unused"),
    }
}

fn version_to_facts(version: &ComponentVersion<'_>, mut add: impl FnMut(NetFact)) {
    let name = match version.of {
        Component::Nccl => {
            let NcclBuild { nccl, cuda } = version.nccl_build();
            add(NetFact::new(NetFactKind::Version, "nccl", nccl));
            if let Some(cuda) = cuda {
                add(NetFact::new(NetFactKind::Version, "cuda", cuda));
            }
            return;
        }
        Component::NcclGit => "nccl_git",
        Component::Rccl => "rccl",
        Component::CudaDriver => "driver",
        Component::CudaRuntime => "cuda_runtime",
        Component::Hip => "hip",
        Component::Rocm => "rocm",
        Component::Rocr => "rocr",
        Component::Kernel => "kernel",
        Component::AwsOfi => "aws-ofi-nccl",
        Component::Libfabric => "libfabric",
        Component::RcclPath => "librccl",
        Component::Host => return,
    };
    let fact = match version.cuda() {
        // The CUDA version of the driver or the runtime.
        Some((major, minor)) => {
            NetFact::new(NetFactKind::Version, name, format!("{major}.{minor}"))
        }
        None => NetFact::new(NetFactKind::Version, name, version.text),
    };
    add(fact);
}

/// How far a plugin came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::stages) enum PluginStage {
    /// Its library is not used.
    Lost,
    /// Loaded.
    Loaded,
    /// Initialised.
    Initialized,
    /// A communicator uses it.
    Assigned,
}

impl PluginStage {
    /// Those of a plugin that serves a process.
    pub(in crate::stages) const SERVING: [PluginStage; 3] = [
        PluginStage::Loaded,
        PluginStage::Initialized,
        PluginStage::Assigned,
    ];

    /// The stage of a fact of [`plugin_to_fact`]; `None` where other lines decide.
    pub(in crate::stages) fn of_fact(fact: &NetFact) -> Option<PluginStage> {
        let known = PLUGIN_EVENTS.iter();
        let mut known = known.filter_map(|(_, word, stage)| Some((word, (*stage)?)));
        let is = |word: &[u8]| fact.value.ends_with(word);
        known.find(|(word, _)| is(word)).map(|(_, stage)| stage)
    }

    /// True for a fact of a library beside NCCL that serves a process, and not of NCCL's own code.
    pub(in crate::stages) fn is_plugin(fact: &NetFact) -> bool {
        let own = [&b"internal "[..], b"IB ", b"Socket "];
        let serves = PluginStage::of_fact(fact).is_some_and(|stage| stage != PluginStage::Lost);
        serves && !own.iter().any(|name| fact.value.starts_with(name))
    }
}

/// The words of what became of a plugin; of words with one ending, the longer first.
const PLUGIN_EVENTS: [(PluginEvent, &[u8], Option<PluginStage>); 8] = [
    (PluginEvent::NotFound, b"not found", Some(PluginStage::Lost)),
    (
        PluginEvent::OpenFailed,
        b"could not be loaded",
        Some(PluginStage::Lost),
    ),
    (
        PluginEvent::InitFailed,
        b"could not be initialised",
        Some(PluginStage::Lost),
    ),
    (PluginEvent::Loaded, b"loaded", Some(PluginStage::Loaded)),
    (
        PluginEvent::Initialized,
        b"initialised",
        Some(PluginStage::Initialized),
    ),
    (
        PluginEvent::Assigned,
        b"assigned",
        Some(PluginStage::Assigned),
    ),
    (PluginEvent::Named, b"named by the environment", None),
    (PluginEvent::NoSymbol, b"no such symbol", None),
];

/// Describes how a plugin was loaded, and not how it ended.
fn plugin_to_fact(plugin: &PluginMessage<'_>) -> Option<NetFact> {
    let event = PLUGIN_EVENTS
        .iter()
        .find(|(event, ..)| *event == plugin.event);
    let (_, event, _) = *event?;
    let api = plugin
        .api
        .map_or(String::new(), |api| format!(" (v{api})"))
        .into_bytes();
    let value = [plugin.name, &api, b" ", event].concat();
    let value = value.trim_ascii_start();
    Some(NetFact::new(
        NetFactKind::Plugin,
        plugin.kind.to_ascii_lowercase(),
        value,
    ))
}

fn net_to_facts(net: &NetMessage<'_>, mut add: impl FnMut(NetFact)) {
    match net {
        NetMessage::Network(name) => add(NetFact::new(NetFactKind::Network, "", name)),
        NetMessage::Nics(nics) => nics_to_facts(nics, add),
        NetMessage::NoDevice(by) => add(NetFact::new(NetFactKind::Nic, by, "no device")),
        NetMessage::Gdr(gdr) => gdr_to_facts(gdr, add),
        NetMessage::DmaBuf(support) => add(NetFact::new(
            NetFactKind::GpuDirect,
            "dmabuf",
            match support {
                DmaBufSupport::Available => "available",
                DmaBufSupport::NotEnabled => "not enabled (NCCL_DMABUF_ENABLE)",
                DmaBufSupport::NotInRocm => "not supported by ROCm",
                DmaBufSupport::NotInKernel => {
                    "not supported by the kernel (CONFIG_DMABUF_MOVE_NOTIFY, CONFIG_PCI_P2PDMA)"
                }
            },
        )),
        NetMessage::GdrCopy => add(NetFact::new(NetFactKind::GpuDirect, "gdrcopy", "enabled")),
        NetMessage::QueuePair(pair) => {
            // verbs code MTUs as powers of two: 1 is 256 bytes.
            let mtu = 128_u64.checked_shl(pair.mtu).unwrap_or(0);
            let name = join_parts(&[pair.dev.to_string().as_bytes(), b"mtu"]);
            add(NetFact::new(NetFactKind::Nic, name, mtu.to_string()));
        }
        NetMessage::Retry(_) => {}
        NetMessage::Provider { name, nics } => {
            add(NetFact::new(NetFactKind::Provider, "", name));
            if let Some(nics) = nics {
                add(NetFact::new(
                    NetFactKind::Provider,
                    "nics",
                    nics.to_string(),
                ));
            }
        }
    }
}

fn nics_to_facts(nics: &NicList<'_>, mut add: impl FnMut(NetFact)) {
    let by = nics.by.to_ascii_lowercase();
    if nics.by == b"Bootstrap" {
        for nic in nics.iter() {
            interface_to_facts(&by, &nic, &mut add);
        }
        return;
    }
    if let Some(oob) = &nics.oob {
        interface_to_facts(b"oob", oob, &mut add);
    }
    for nic in nics.iter() {
        let number = |n: Option<u32>| n.map_or(String::new(), |n| n.to_string());
        let (index, part) = (number(nic.index), number(nic.part));
        let name = join_parts(&[nics.by, index.as_bytes(), part.as_bytes()]);
        let value = match nic.kind {
            Card::Port { port, link, sharp } => {
                let sharp: &[u8] = if sharp { b"/SHARP" } else { b"" };
                let port = format!(":{port}/");
                [nic.name, port.as_bytes(), link, sharp].concat()
            }
            Card::Interface { address, ipv6 } => {
                add(NetFact::new(NetFactKind::Address, &name, address));
                [nic.name, b" ", family_name(ipv6)].concat()
            }
        };
        add(NetFact::new(NetFactKind::Nic, name, value));
    }
    if nics.relaxed_ordering && nics.iter().next().is_some() {
        let name = join_parts(&[nics.by, b"relaxed_ordering"]);
        add(NetFact::new(NetFactKind::Nic, name, "on"));
    }
}

fn interface_to_facts(name: &[u8], nic: &Nic<'_>, add: &mut impl FnMut(NetFact)) {
    if let Card::Interface { address, ipv6 } = nic.kind {
        let value = [nic.name, b" ", family_name(ipv6)].concat();
        add(NetFact::new(NetFactKind::Interface, name, value));
        add(NetFact::new(NetFactKind::Address, name, address));
    }
}

fn family_name(ipv6: bool) -> &'static [u8] {
    if ipv6 { b"IPv6" } else { b"IPv4" }
}

/// Adds GPUDirect of a NIC. It is on if one of several ways works; each way that fails is a line of its
/// own.
fn gdr_to_facts(gdr: &GdrSupport<'_>, mut add: impl FnMut(NetFact)) {
    let card = match gdr.name {
        Some(name) if !name.is_empty() => name.to_vec(),
        _ => [b"hca", gdr.hca].concat(),
    };
    match (gdr.enabled, gdr.by) {
        (true, by) => {
            add(NetFact::new(NetFactKind::GpuDirect, card, "on"));
            if let Some(by) = by {
                add(NetFact::new(NetFactKind::GpuDirect, "by", by));
            }
        }
        (false, Some(by)) => add(NetFact::new(
            NetFactKind::GpuDirect,
            join_parts(&[&card, by]),
            "off",
        )),
        (false, None) => add(NetFact::new(NetFactKind::GpuDirect, card, "off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::header::HeaderLevel;
    use crate::grammar::message::parse_message;

    fn of(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        let message = parse_message(HeaderLevel::Info, text.as_bytes()).unwrap();
        collect_facts(&message, |fact| {
            let subject = fact.subject();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            all.push(format!("{} = {}", text(&subject), text(&fact.value)));
        });
        all
    }

    #[test]
    fn a_line_is_one_fact_or_some() {
        assert_eq!(
            of("NCCL version 2.29.2+cuda13.1"),
            ["version.nccl = 2.29.2", "version.cuda = 13.1"]
        );
        assert_eq!(of("cudaDriverVersion 13010"), ["version.driver = 13.1"]);
        assert_eq!(
            of("NCCL_IB_TIMEOUT set by environment to 18."),
            ["setting.NCCL_IB_TIMEOUT = 18"]
        );
        assert_eq!(
            of("NET/IB : Using [0]mlx5_2:1/RoCE [1]x:1/IB/SHARP [RO]; OOB eth0:10.0.0.1<0>"),
            [
                "interface.oob = eth0 IPv4",
                "address.oob = 10.0.0.1",
                "nic.IB.0 = mlx5_2:1/RoCE",
                "nic.IB.1 = x:1/IB/SHARP",
                "nic.IB.relaxed_ordering = on"
            ]
        );
        assert_eq!(
            of("Bootstrap: Using eth0:fe80::1<0>"),
            [
                "interface.bootstrap = eth0 IPv6",
                "address.bootstrap = fe80::1"
            ]
        );
        assert_eq!(
            of("NET/IB : GPU Direct RDMA Enabled for HCA 7 'mlx5_14'"),
            ["gpudirect.mlx5_14 = on"]
        );
        assert_eq!(
            of("NVLS multicast support is not available on dev 1"),
            ["nvls.support = not available"]
        );
        assert_eq!(
            of("P2P is disabled between NVLINK connected GPUs 0 and 1. This should not be"),
            ["p2p = disabled between GPUs with NVLink"]
        );
        assert_eq!(
            of("Warning: ENV NCCL_X is unused. Setting it has no effect."),
            ["setting.NCCL_X = is unused"]
        );
        assert_eq!(
            of("NET/Plugin: Could not find: libnccl-net.so"),
            ["plugin.net = libnccl-net.so not found"]
        );
    }
}
