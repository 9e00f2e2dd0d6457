//! What a message says of the network, the versions and the settings, as facts: a subject and a
//! value, both in words.

use crate::grammar::message::graph::Graph;
use crate::grammar::message::graph::nvls::Nvls;
use crate::grammar::message::network::net::{Gdr, Net};
use crate::grammar::message::network::nic::{Kind as Card, Nic, Nics};
use crate::grammar::message::setup::plugin::{Event, Plugin};
use crate::grammar::message::setup::setting::{By, HIDDEN, Setting};
use crate::grammar::message::setup::version::{Component, Version};
use crate::grammar::message::{Family, Message};
use serde::{Deserialize, Serialize};

/// What a fact is about, in the order of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// The network that communicators use.
    Network,
    /// The interface for what is not data.
    Interface,
    /// Its address; by host only, for no two are alike.
    Address,
    /// A NIC.
    Nic,
    /// What aws-ofi-nccl found.
    Provider,
    /// Whether a NIC reaches the GPUs' memory.
    GpuDirect,
    /// What connections go over.
    Transport,
    /// The NICs that connections use.
    NicUsed,
    /// GPUs that could reach each other and may not.
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

impl Kind {
    /// The first word of its subject.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Network => "network",
            Kind::Interface => "interface",
            Kind::Address => "address",
            Kind::Nic => "nic",
            Kind::Provider => "provider",
            Kind::GpuDirect => "gpudirect",
            Kind::Transport => "transport",
            Kind::NicUsed => "nic_used",
            Kind::P2p => "p2p",
            Kind::Pxn => "pxn",
            Kind::Nvls => "nvls",
            Kind::Mnnvl => "mnnvl",
            Kind::Version => "version",
            Kind::Plugin => "plugin",
            Kind::Setting => "setting",
            Kind::Config => "config",
        }
    }

    /// True where a host that says something of the kind, but not of this subject, lacks it: it
    /// has no such NIC, or does not set that variable.
    pub fn is_listed(self) -> bool {
        matches!(self, Kind::Nic | Kind::Setting)
    }
}

/// A fact.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fact {
    /// What it is about.
    pub kind: Kind,
    /// Which of the kind; may be empty.
    pub name: Box<[u8]>,
    /// The fact itself.
    pub value: Box<[u8]>,
}

impl Fact {
    /// A fact in words.
    pub fn new(kind: Kind, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Fact {
        Fact {
            kind,
            name: name.as_ref().into(),
            value: value.as_ref().into(),
        }
    }

    /// Its subject: `setting.NCCL_ALGO`.
    pub fn subject(&self) -> Vec<u8> {
        joined(&[self.kind.word().as_bytes(), &self.name])
    }

    /// True where hosts can be held against each other in it: rank 0 alone says what was tuned.
    pub fn is_compared(&self) -> bool {
        self.kind != Kind::Address && !(self.kind == Kind::Nvls && *self.name == *b"used")
    }
}

/// Parts that are not empty, with full stops between.
fn joined(parts: &[&[u8]]) -> Vec<u8> {
    let parts: Vec<&[u8]> = parts.iter().filter(|p| !p.is_empty()).copied().collect();
    parts.join(&b'.')
}

/// The facts of a message; connections and tuning are not among them.
pub(crate) fn facts(message: &Message<'_>, mut add: impl FnMut(Fact)) {
    match message {
        Message::Setting(setting) => add(of_setting(setting)),
        Message::Version(version) => of_version(version, add),
        Message::Plugin(plugin) => of_plugin(plugin).into_iter().for_each(add),
        Message::Net(net) => of_net(net, add),
        Message::Nvls(nvls) => match nvls {
            Nvls::Support { available, .. } => {
                let value = if *available {
                    "available"
                } else {
                    "not available"
                };
                add(Fact::new(Kind::Nvls, "support", value));
            }
            Nvls::Comm(_) => add(Fact::new(Kind::Nvls, "buffers", "created")),
            Nvls::Head(_) => {}
        },
        Message::Graph(Graph::Connected(connected)) if connected.what == b"NVLS tree" => {
            add(Fact::new(Kind::Nvls, "tree", "connected"));
        }
        Message::Plain(Family::P2p, text) => of_p2p(text).into_iter().for_each(add),
        Message::Warn(warn) => of_p2p(warn.text).into_iter().for_each(add),
        Message::Layout(layout) => {
            if let Some(mnnvl) = layout.mnnvl {
                let value = if mnnvl > 0 { "used" } else { "not used" };
                add(Fact::new(Kind::Mnnvl, "", value));
            }
        }
        _ => {}
    }
}

/// From `ncclTopoCheckP2p` in `src/graph/paths.cc`; of GPUs over NVLink it is a WARN.
fn of_p2p(text: &[u8]) -> Option<Fact> {
    let rest = text.strip_prefix(b"P2P is disabled between ")?;
    let value = match rest.get(..6)?.eq_ignore_ascii_case(b"NVLINK") {
        true => "disabled between GPUs with NVLink",
        false => "disabled between connected GPUs",
    };
    Some(Fact::new(Kind::P2p, "", value))
}

fn of_setting(setting: &Setting<'_>) -> Fact {
    let Setting { name, value, by } = *setting;
    let secret = setting.is_secret();
    let value = if secret { HIDDEN } else { value };
    match by {
        By::Environment | By::Unsaid => Fact::new(Kind::Setting, name, value),
        By::Config => Fact::new(Kind::Config, name, value),
        By::Overruled(variable) => {
            let value = [value, b" by ", variable].concat();
            Fact::new(Kind::Config, name, value)
        }
        By::Default(given) => {
            let given = if secret { HIDDEN } else { given };
            let value = [value, b" as `", given, b"` is invalid"].concat();
            Fact::new(Kind::Setting, name, value)
        }
        By::Unused => Fact::new(Kind::Setting, name, "is unused"),
    }
}

fn of_version(version: &Version<'_>, mut add: impl FnMut(Fact)) {
    let name = match version.of {
        Component::Nccl => {
            // `2.29.2+cuda13.1`: what it was built for.
            let at = memchr::memmem::find(version.text, b"+cuda");
            let (nccl, cuda) = version.text.split_at(at.unwrap_or(version.text.len()));
            add(Fact::new(Kind::Version, "nccl", nccl));
            if let Some(cuda) = cuda.strip_prefix(b"+cuda") {
                add(Fact::new(Kind::Version, "cuda", cuda));
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
        // The CUDA version that the driver or the runtime speaks.
        Some((major, minor)) => Fact::new(Kind::Version, name, format!("{major}.{minor}")),
        None => Fact::new(Kind::Version, name, version.text),
    };
    add(fact);
}

/// What became of a plugin; not how it ended.
fn of_plugin(plugin: &Plugin<'_>) -> Option<Fact> {
    let event: &[u8] = match plugin.event {
        Event::NotFound => b"not found",
        Event::OpenFailed => b"could not be loaded",
        Event::Loaded => b"loaded",
        Event::Initialized => b"initialised",
        Event::InitFailed => b"could not be initialised",
        Event::Assigned => b"assigned",
        Event::Named => b"named by the environment",
        Event::NoSymbol => b"no such symbol",
        Event::Closed | Event::Other => return None,
    };
    let api = plugin
        .api
        .map_or(String::new(), |api| format!(" (v{api})"))
        .into_bytes();
    let value = [plugin.name, &api, b" ", event].concat();
    let value = value.trim_ascii_start();
    Some(Fact::new(
        Kind::Plugin,
        plugin.kind.to_ascii_lowercase(),
        value,
    ))
}

fn of_net(net: &Net<'_>, mut add: impl FnMut(Fact)) {
    match net {
        Net::Network(name) => add(Fact::new(Kind::Network, "", name)),
        Net::Nics(nics) => of_nics(nics, add),
        Net::NoDevice(by) => add(Fact::new(Kind::Nic, by, "no device")),
        Net::Gdr(gdr) => of_gdr(gdr, add),
        Net::DmaBuf(_) => add(Fact::new(Kind::GpuDirect, "dmabuf", "available")),
        Net::GdrCopy => add(Fact::new(Kind::GpuDirect, "gdrcopy", "enabled")),
        Net::QueuePair(pair) => {
            // The code of verbs: 1 is 256 bytes.
            let mtu = 128_u64.checked_shl(pair.mtu).unwrap_or(0);
            let name = joined(&[pair.dev.to_string().as_bytes(), b"mtu"]);
            add(Fact::new(Kind::Nic, name, mtu.to_string()));
        }
        Net::Provider { name, nics } => {
            add(Fact::new(Kind::Provider, "", name));
            if let Some(nics) = nics {
                add(Fact::new(Kind::Provider, "nics", nics.to_string()));
            }
        }
    }
}

fn of_nics(nics: &Nics<'_>, mut add: impl FnMut(Fact)) {
    let by = nics.by.to_ascii_lowercase();
    if nics.by == b"Bootstrap" {
        for nic in nics.iter() {
            of_interface(&by, &nic, &mut add);
        }
        return;
    }
    if let Some(oob) = &nics.oob {
        of_interface(b"oob", oob, &mut add);
    }
    for nic in nics.iter() {
        let number = |n: Option<u32>| n.map_or(String::new(), |n| n.to_string());
        let (index, part) = (number(nic.index), number(nic.part));
        let name = joined(&[nics.by, index.as_bytes(), part.as_bytes()]);
        let value = match nic.kind {
            Card::Port { port, link, sharp } => {
                let sharp: &[u8] = if sharp { b"/SHARP" } else { b"" };
                let port = format!(":{port}/");
                [nic.name, port.as_bytes(), link, sharp].concat()
            }
            Card::Interface { address, ipv6 } => {
                add(Fact::new(Kind::Address, &name, address));
                [nic.name, b" ", family(ipv6)].concat()
            }
        };
        add(Fact::new(Kind::Nic, name, value));
    }
    if nics.relaxed_ordering && nics.iter().next().is_some() {
        let name = joined(&[nics.by, b"relaxed_ordering"]);
        add(Fact::new(Kind::Nic, name, "on"));
    }
}

fn of_interface(name: &[u8], nic: &Nic<'_>, add: &mut impl FnMut(Fact)) {
    if let Card::Interface { address, ipv6 } = nic.kind {
        let value = [nic.name, b" ", family(ipv6)].concat();
        add(Fact::new(Kind::Interface, name, value));
        add(Fact::new(Kind::Address, name, address));
    }
}

fn family(ipv6: bool) -> &'static [u8] {
    if ipv6 { b"IPv6" } else { b"IPv4" }
}

/// A NIC that is reached in one of several ways is on; each way that fails is reported separately.
fn of_gdr(gdr: &Gdr<'_>, mut add: impl FnMut(Fact)) {
    let card = match gdr.name {
        Some(name) if !name.is_empty() => name.to_vec(),
        _ => [b"hca", gdr.hca].concat(),
    };
    match (gdr.enabled, gdr.by) {
        (true, by) => {
            add(Fact::new(Kind::GpuDirect, card, "on"));
            if let Some(by) = by {
                add(Fact::new(Kind::GpuDirect, "by", by));
            }
        }
        (false, Some(by)) => add(Fact::new(Kind::GpuDirect, joined(&[&card, by]), "off")),
        (false, None) => add(Fact::new(Kind::GpuDirect, card, "off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::header::Level;
    use crate::grammar::message::message;

    fn of(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        let message = message(Level::Info, text.as_bytes()).unwrap();
        facts(&message, |fact| {
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
