//! What follows a header, other than a call: one file for each family of messages.
//!
//! [`message`] takes a whole message, to the end of its line; [`cut`] takes one whose end is
//! missing, and gives what is sure of it. Both borrow from it, allocate nothing and read each
//! byte a bounded number of times. A COLL body is [`super::coll`]'s and no message.
//!
//! | family | file | |
//! |---|---|---|
//! | initialisation | `communicator` | which communicator, where its ranks are, how long it took, its name |
//! | settings, versions, plugins | [`setup`] | what ran, and how it was set |
//! | network | [`network::net`], `network::nic` | which network, its NICs, GPUDirect |
//! | connections | `network::channel`, `network::transport` | who reaches whom over what |
//! | graphs | [`graph`] | rings, trees, channels; NVLink switches |
//! | tuning | `tuning` | algorithm and protocol by size |
//! | errors | `warn`, `trace` | causes, and the way of an error |
//! | API calls | `call` | CALL lines |
//! | RCCL | `rccl`, `communicator::tail` | kernel trace; the communicator after a line |
//! | PyTorch | [`c10d`] | its watchdog; no header, so [`c10d::line`] takes the line |
//!
//! Of other lines only the family is known ([`Message::Plain`]).

pub mod c10d;
pub(crate) mod call;
pub mod graph;
mod known;
pub(crate) mod rccl;
pub mod trace;
pub mod tuning;
pub mod warn;

pub mod communicator;
#[cfg(test)]
mod coverage;
pub mod network;
pub mod setup;
#[cfg(test)]
mod tests;

use super::header::Level;
use communicator::{init, name, timing};
use graph::{nvls, tree};
use memchr::memmem::Finder;
use network::{channel, net};
use setup::{plugin, setting, version};
use std::sync::LazyLock;

/// True for a whole line's message that NCCL or RCCL itself cut: a list of trees that fills its
/// buffer (`src/init.cc`), with or without a tail. A line that is cut as a whole is known by its
/// length.
pub fn is_truncated(message: &[u8]) -> bool {
    let list = message
        .strip_prefix(b"Trees")
        .filter(|list| list.len() >= LONG);
    list.and_then(|list| tree::trees(list, false))
        .is_some_and(|trees| trees.cut)
}

/// A list that may be cut is longer.
const LONG: usize = 1000;

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Message<'a> {
    /// A communicator begins or ends.
    Init(init::Line<'a>),
    /// How a communicator lies on its nodes.
    Layout(init::Layout),
    /// How long an initialisation took.
    Timings(timing::Timings<'a>),
    /// A communicator's name.
    Named(name::Named<'a>),
    /// A setting.
    Setting(setting::Setting<'a>),
    /// A version.
    Version(version::Version<'a>),
    /// A plugin.
    Plugin(plugin::Plugin<'a>),
    /// The network.
    Net(net::Net<'a>),
    /// A connection.
    Connection(channel::Connection<'a>),
    /// Rings, trees and channels.
    Graph(graph::Graph<'a>),
    /// NVLink switches.
    Nvls(nvls::Nvls<'a>),
    /// Algorithm and protocol of a call.
    Tuning(tuning::Tuning<'a>),
    /// A WARN.
    Warn(warn::Warn<'a>),
    /// A function that an error left.
    Return(trace::Return<'a>),
    /// RCCL's kernel trace.
    Kernel(rccl::Kernel<'a>),
    /// An API call.
    Call(call::ApiCall<'a>),
    /// A line of this family; what it says is not read.
    Plain(Family, &'a [u8]),
}

/// What a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Communicators: begin, layout, times, end.
    Init,
    /// How processes find each other.
    Bootstrap,
    /// Settings.
    Setting,
    /// Versions.
    Version,
    /// Plugins.
    Plugin,
    /// The network and its NICs.
    Net,
    /// Connections.
    Channel,
    /// Rings, trees, channels.
    Graph,
    /// NVLink switches.
    Nvls,
    /// NVLink between nodes.
    Mnnvl,
    /// Between GPUs of a node.
    P2p,
    /// Proxies.
    Proxy,
    /// Memory.
    Memory,
    /// The machine.
    Topology,
    /// Algorithms and protocols.
    Tuning,
    /// WARN lines.
    Warn,
    /// The way of an error.
    Return,
    /// RAS, the service that watches a job.
    Ras,
    /// RCCL's own.
    Rccl,
    /// API calls.
    Call,
    /// PyTorch's watchdog.
    C10d,
}

impl Message<'_> {
    /// What the message is about.
    pub fn family(&self) -> Family {
        match self {
            Message::Init(_) | Message::Layout(_) | Message::Named(_) => Family::Init,
            Message::Timings(timings) => match timings.of {
                timing::Of::Init { .. } => Family::Init,
                timing::Of::Bootstrap => Family::Bootstrap,
            },
            Message::Setting(_) => Family::Setting,
            Message::Version(_) => Family::Version,
            Message::Plugin(_) => Family::Plugin,
            Message::Net(net::Net::Nics(nics)) if nics.by == b"Bootstrap" => Family::Bootstrap,
            Message::Net(_) => Family::Net,
            Message::Connection(_) => Family::Channel,
            Message::Graph(_) => Family::Graph,
            Message::Nvls(_) => Family::Nvls,
            Message::Tuning(_) => Family::Tuning,
            Message::Warn(_) => Family::Warn,
            Message::Return(_) => Family::Return,
            Message::Kernel(_) => Family::Rccl,
            Message::Call(_) => Family::Call,
            Message::Plain(family, _) => *family,
        }
    }
}

/// What a whole message says; `None` for a COLL body, and for one that is not understood.
///
/// A line whose end is missing looks whole where it ends in a number or a name: where more is
/// known of it (another header follows, it has the length at which NCCL cuts), ask [`cut`].
pub fn message(level: Level, body: &[u8]) -> Option<Message<'_>> {
    let body = body.trim_ascii_end();
    match level {
        Level::Info | Level::Attention => {
            let text = body.trim_ascii_start();
            info(text).or_else(|| known::family(text).map(|family| Message::Plain(family, text)))
        }
        Level::Warn if !body.is_empty() => Some(Message::Warn(warn::warn(body))),
        Level::Call => call::call(body).map(Message::Call),
        _ => None,
    }
}

/// What is sure of a message whose end is missing: lists (trees, a ring, NICs, heads),
/// flagged `cut` and without what may be half an item.
pub fn cut(level: Level, body: &[u8]) -> Option<Message<'_>> {
    if level != Level::Info {
        return None;
    }
    let text = body.trim_ascii_start();
    match text.first()? {
        b'T' | b'C' => graph::graph(text, true).map(Message::Graph),
        b'N' if text.starts_with(b"NVLS") => nvls::nvls(text, true).map(Message::Nvls),
        b'N' | b'B' => net::net(text, true).map(Message::Net),
        _ => None,
    }
}

/// A message with details, by its first bytes.
fn info(text: &[u8]) -> Option<Message<'_>> {
    let first = *text.first()?;
    match first {
        b'C' if text.starts_with(b"Channel ") || text.starts_with(b"CollNet ") => connected(text),
        b'C' if text.starts_with(b"Comm config ") => setting::setting(text).map(Message::Setting),
        b'C' if text.starts_with(b"Connected ") => graph::graph(text, false).map(Message::Graph),
        b'R' if text.starts_with(b"Ring ") => connected(text),
        b'T' if text.starts_with(b"Tree") => graph::graph(text, false).map(Message::Graph),
        b'P' if text.starts_with(b"Pattern ") || text.starts_with(b"P2P Chunksize ") => {
            graph::graph(text, false).map(Message::Graph)
        }
        b'I' if text.starts_with(b"Invalid value ") => setting::setting(text).map(Message::Setting),
        b'I' if text.starts_with(b"Init timings") => timing::timings(text).map(Message::Timings),
        b'B' if text.starts_with(b"Bootstrap timings") => {
            timing::timings(text).map(Message::Timings)
        }
        b'B' if text.starts_with(b"Bootstrap") => net::net(text, false).map(Message::Net),
        b'N' if text.starts_with(b"NCCL_") => setting::setting(text).map(Message::Setting),
        b'N' if text.starts_with(b"NVLS ") => nvls::nvls(text, false).map(Message::Nvls),
        b'N' if text.starts_with(b"NET/") && !text.starts_with(b"NET/Plugin") => {
            net::net(text, false).map(Message::Net)
        }
        b'G' if text.starts_with(b"GPU Direct RDMA ") => net::net(text, false).map(Message::Net),
        b'#' => rccl::kernel(text).map(Message::Kernel),
        b'0'..=b'9' => counts(text),
        _ => None,
    }
    .or_else(|| rarer(text))
}

/// `Channel`, `CollNet` and `Ring` begin connections and rings.
fn connected(text: &[u8]) -> Option<Message<'_>> {
    static VIA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b" via "));
    if VIA.find(text).is_some() {
        channel::connection(text).map(Message::Connection)
    } else {
        graph::graph(text, false).map(Message::Graph)
    }
}

/// `16 coll channels, ...` and `40 Bytes -> Algo ...`.
fn counts(text: &[u8]) -> Option<Message<'_>> {
    let tuning = || tuning::tuning(text).map(Message::Tuning);
    let channels = || graph::graph(text, false).map(Message::Graph);
    tuning().or_else(channels)
}

/// The families whose lines begin in many ways. Each gives up within the first bytes.
fn rarer(text: &[u8]) -> Option<Message<'_>> {
    static BYTES: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b" Bytes -> "));
    if text.ends_with(b"COMPLETE") || text.ends_with(b"START") {
        return init::line(text).map(Message::Init);
    }
    if text.starts_with(b"comm 0x") {
        return init::layout(text).map(Message::Layout);
    }
    if BYTES.find(&text[..text.len().min(100)]).is_some() {
        return tuning::tuning(text).map(Message::Tuning);
    }
    version::version(text)
        .map(Message::Version)
        .or_else(|| name::named(text).map(Message::Named))
        .or_else(|| plugin::plugin(text).map(Message::Plugin))
        .or_else(|| net::net(text, false).map(Message::Net))
        .or_else(|| trace::returned(text).map(Message::Return))
        .or_else(|| setting::setting(text).map(Message::Setting))
}
