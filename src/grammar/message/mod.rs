//! Messages after a header, other than calls: one file for each family.
//!
//! [`parse_message`] takes a whole message, to the end of its line; [`parse_cut_message`] takes one with its
//! end
//! missing, and returns its certain part. Both borrow from it, allocate nothing and read each
//! byte a bounded number of times. A COLL body is [`super::coll`]'s and no message.
//!
//! | family | file | |
//! |---|---|---|
//! | initialisation | `communicator` | which communicator, where its ranks are, how long it took, its name |
//! | settings, versions, plugins | [`setup`] | what ran, and how it was set |
//! | network | [`network::net`], `network::nic` | which network, its NICs, GPUDirect |
//! | connections | `network::channel`, `network::transport` | the transport between two ranks |
//! | graphs | [`graph`] | rings, trees, channels; NVLink switches |
//! | tuning | `tuning` | algorithm and protocol by size |
//! | errors | `warn`, `trace` | causes, and the way of an error |
//! | checks on request | `diagnostics` | what a check found to be wrong, as a WARN |
//! | API calls | `call` | CALL lines |
//! | RCCL | `rccl`, `communicator::tail` | kernel trace; the communicator after a line |
//! | PyTorch | [`c10d`] | its watchdog; no header, so [`c10d::parse_c10d_line`] takes the line |
//! | PyTorch, HCCL, Horovod | [`fingerprint`], [`hccl`], [`horovod`] | calls that differ, errors, ranks that are missing |
//!
//! Of other lines only the family is known ([`NcclMessage::Plain`]).

pub(crate) mod api_call;
pub mod c10d;
mod diagnostics;
pub mod error_trace;
pub mod fingerprint;
pub mod graph;
pub mod group_member;
pub mod hccl;
pub mod horovod;
mod line_families;
pub(crate) mod rccl;
pub mod tuning;
pub mod warn;

pub mod communicator;
#[cfg(test)]
mod coverage;
pub mod network;
pub mod setup;
#[cfg(test)]
mod tests;

use super::header::HeaderLevel;
use super::source_place::{PlacedText, split_source_place};
use communicator::{comm_name, init, life_line, timing};
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
        .filter(|list| list.len() >= MIN_CUT_LIST_BYTES);
    list.and_then(|list| tree::parse_trees(list, false))
        .is_some_and(|trees| trees.cut)
}

/// A list that may be cut is longer.
const MIN_CUT_LIST_BYTES: usize = 1000;

/// The contents of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NcclMessage<'a> {
    /// A communicator begins or ends.
    Init(init::InitLine<'a>),
    /// A communicator's life goes on, or comes to its end.
    Life(life_line::CommLifeLine),
    /// How a communicator lies on its nodes.
    Layout(init::CommLayout),
    /// How long an initialisation took.
    Timings(timing::InitTimings<'a>),
    /// A communicator's name.
    Named(comm_name::CommName<'a>),
    /// A setting.
    Setting(setting::Setting<'a>),
    /// A version.
    Version(version::ComponentVersion<'a>),
    /// A plugin.
    Plugin(plugin::PluginMessage<'a>),
    /// The network.
    Net(net::NetMessage<'a>),
    /// A connection.
    Connection(channel::ChannelConnection<'a>),
    /// Rings, trees and channels.
    Graph(graph::GraphMessage<'a>),
    /// NVLink switches.
    Nvls(nvls::NvlsMessage<'a>),
    /// Algorithm and protocol of a call.
    Tuning(tuning::TuningMessage<'a>),
    /// A WARN.
    Warn(warn::WarnMessage<'a>),
    /// A function that an error left.
    Return(error_trace::ErrorReturn<'a>),
    /// RCCL's kernel trace.
    Kernel(rccl::RcclKernel<'a>),
    /// An API call.
    Call(api_call::ApiCall<'a>),
    /// A line of this family; its values are not read.
    Plain(MessageFamily, &'a [u8]),
}

impl NcclMessage<'_> {
    /// True where a process begins to take a communicator down, or has taken it down.
    pub fn takes_communicator_down(&self) -> bool {
        match self {
            NcclMessage::Init(line) => matches!(
                line.stage,
                init::InitStage::DestroyComplete | init::InitStage::AbortComplete
            ),
            NcclMessage::Life(line) => line.step == life_line::CommLifeStep::TakedownBegun,
            _ => false,
        }
    }
}

/// What a message is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MessageFamily {
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
    /// The checks that NCCL runs on request.
    Diagnostics,
    /// RCCL's own.
    Rccl,
    /// API calls.
    Call,
    /// PyTorch's watchdog.
    C10d,
}

impl NcclMessage<'_> {
    /// What the message is about.
    pub fn family(&self) -> MessageFamily {
        match self {
            NcclMessage::Init(_)
            | NcclMessage::Life(_)
            | NcclMessage::Layout(_)
            | NcclMessage::Named(_) => MessageFamily::Init,
            NcclMessage::Timings(timings) => match timings.of {
                timing::TimedSetup::Init { .. } => MessageFamily::Init,
                timing::TimedSetup::Bootstrap => MessageFamily::Bootstrap,
            },
            NcclMessage::Setting(_) => MessageFamily::Setting,
            NcclMessage::Version(_) => MessageFamily::Version,
            NcclMessage::Plugin(_) => MessageFamily::Plugin,
            NcclMessage::Net(net::NetMessage::Nics(nics)) if nics.by == b"Bootstrap" => {
                MessageFamily::Bootstrap
            }
            NcclMessage::Net(_) => MessageFamily::Net,
            NcclMessage::Connection(_) => MessageFamily::Channel,
            NcclMessage::Graph(_) => MessageFamily::Graph,
            NcclMessage::Nvls(_) => MessageFamily::Nvls,
            NcclMessage::Tuning(_) => MessageFamily::Tuning,
            NcclMessage::Warn(_) => MessageFamily::Warn,
            NcclMessage::Return(_) => MessageFamily::Return,
            NcclMessage::Kernel(_) => MessageFamily::Rccl,
            NcclMessage::Call(_) => MessageFamily::Call,
            NcclMessage::Plain(family, _) => *family,
        }
    }
}

/// Reads a whole message; `None` for a COLL body, and for one that is not understood.
///
/// A line without its end looks whole if it ends in a number or a name: if more is
/// known of it (another header follows, it has the length at which NCCL cuts), ask [`parse_cut_message`].
pub fn parse_message(level: HeaderLevel, body: &[u8]) -> Option<NcclMessage<'_>> {
    let body = body.trim_ascii_end();
    match level {
        HeaderLevel::Info => parse_info_or_family(body.trim_ascii_start()),
        // Since 2.32 what was a WARN may be an ATTN. What INFO lines report too is no more than that.
        HeaderLevel::Attention => parse_info(body.trim_ascii_start()).or_else(|| as_warn(body)),
        HeaderLevel::Warn | HeaderLevel::Fatal => as_warn(body),
        HeaderLevel::Diagnostic => Some(match diagnostics::find_failed_check(body) {
            Some(failed) => NcclMessage::Warn(failed),
            None => NcclMessage::Plain(MessageFamily::Diagnostics, body),
        }),
        HeaderLevel::Call => api_call::parse_api_call(body).map(NcclMessage::Call),
        HeaderLevel::Trace | HeaderLevel::Other => None,
    }
}

/// Returns true for the beginning of a message that holds nothing that is read: neither a call, nor a WARN,
/// nor a value.
pub fn is_unread_beginning(level: HeaderLevel, body: &[u8]) -> bool {
    level == HeaderLevel::Info && line_families::is_never_read(body.trim_ascii_start())
}

fn as_warn(body: &[u8]) -> Option<NcclMessage<'_>> {
    (!body.is_empty()).then(|| NcclMessage::Warn(warn::parse_warn(body)))
}

/// Reads an INFO line. `INFO_LOC` (2.30) puts a source place in front of texts that had none before.
fn parse_info_or_family(text: &[u8]) -> Option<NcclMessage<'_>> {
    let plain = |family, text| NcclMessage::Plain(family, text);
    if let Some(message) = parse_info(text) {
        return Some(message);
    }
    if let Some(family) = line_families::find_family(text) {
        return Some(plain(family, text));
    }
    let PlacedText { file, text } = split_source_place(text)?;
    let text = text.trim_ascii_start();
    parse_info(text).or_else(|| {
        let family =
            line_families::find_family(text).or_else(|| line_families::family_of_file(file));
        family.map(|family| plain(family, text))
    })
}

/// Reads the certain part of a message without its end: lists (trees, a ring, NICs, heads),
/// flagged `cut` and without what may be half an item.
pub fn parse_cut_message(level: HeaderLevel, body: &[u8]) -> Option<NcclMessage<'_>> {
    if level != HeaderLevel::Info {
        return None;
    }
    let text = body.trim_ascii_start();
    match text.first()? {
        b'T' | b'C' => graph::parse_graph(text, true).map(NcclMessage::Graph),
        b'N' if text.starts_with(b"NVLS") => nvls::parse_nvls(text, true).map(NcclMessage::Nvls),
        b'N' | b'B' => net::parse_net(text, true).map(NcclMessage::Net),
        _ => None,
    }
}

/// A message with details, by its first bytes.
fn parse_info(text: &[u8]) -> Option<NcclMessage<'_>> {
    let first = *text.first()?;
    match first {
        b'C' if text.starts_with(b"Channel ") || text.starts_with(b"CollNet ") => {
            parse_connection_or_graph(text)
        }
        b'C' if text.starts_with(b"Comm config ") => {
            setting::parse_setting(text).map(NcclMessage::Setting)
        }
        b'C' if text.starts_with(b"Connected ") => {
            graph::parse_graph(text, false).map(NcclMessage::Graph)
        }
        b'R' if text.starts_with(b"Ring ") => parse_connection_or_graph(text),
        b'T' if text.starts_with(b"Tree") => {
            graph::parse_graph(text, false).map(NcclMessage::Graph)
        }
        b'P' if text.starts_with(b"Pattern ") || text.starts_with(b"P2P Chunksize ") => {
            graph::parse_graph(text, false).map(NcclMessage::Graph)
        }
        b'I' if text.starts_with(b"Invalid value ") => {
            setting::parse_setting(text).map(NcclMessage::Setting)
        }
        b'I' if text.starts_with(b"Init timings") => {
            timing::parse_timings(text).map(NcclMessage::Timings)
        }
        b'B' if text.starts_with(b"Bootstrap timings") => {
            timing::parse_timings(text).map(NcclMessage::Timings)
        }
        b'B' if text.starts_with(b"Bootstrap") => net::parse_net(text, false).map(NcclMessage::Net),
        b'N' if text.starts_with(b"NCCL_") => {
            setting::parse_setting(text).map(NcclMessage::Setting)
        }
        b'N' if text.starts_with(b"NVLS ") => nvls::parse_nvls(text, false).map(NcclMessage::Nvls),
        b'N' if text.starts_with(b"NET/") && !text.starts_with(b"NET/Plugin") => {
            net::parse_net(text, false).map(NcclMessage::Net)
        }
        b'G' if text.starts_with(b"GPU Direct RDMA ") => {
            net::parse_net(text, false).map(NcclMessage::Net)
        }
        b'#' => rccl::parse_rccl_kernel(text).map(NcclMessage::Kernel),
        b'0'..=b'9' => parse_tuning_or_channels(text),
        _ => None,
    }
    .or_else(|| parse_rare_info(text))
}

/// `Channel`, `CollNet` and `Ring` begin connections and rings.
fn parse_connection_or_graph(text: &[u8]) -> Option<NcclMessage<'_>> {
    static VIA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b" via "));
    if VIA.find(text).is_some() {
        channel::parse_connection(text).map(NcclMessage::Connection)
    } else {
        graph::parse_graph(text, false).map(NcclMessage::Graph)
    }
}

/// `16 coll channels, ...` and `40 Bytes -> Algo ...`.
fn parse_tuning_or_channels(text: &[u8]) -> Option<NcclMessage<'_>> {
    let tuning = || tuning::parse_tuning(text).map(NcclMessage::Tuning);
    let channels = || graph::parse_graph(text, false).map(NcclMessage::Graph);
    tuning().or_else(channels)
}

/// Reads the families with lines that begin in many ways. Each gives up within the first bytes.
fn parse_rare_info(text: &[u8]) -> Option<NcclMessage<'_>> {
    static BYTES: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b" Bytes -> "));
    if text.ends_with(b"COMPLETE") || text.ends_with(b"START") {
        let life = || life_line::parse_life_line(text).map(NcclMessage::Life);
        return init::parse_init_line(text)
            .map(NcclMessage::Init)
            .or_else(life);
    }
    if text.starts_with(b"comm 0x") {
        let life = || life_line::parse_life_line(text).map(NcclMessage::Life);
        return init::parse_layout(text)
            .map(NcclMessage::Layout)
            .or_else(life);
    }
    if BYTES.find(&text[..text.len().min(100)]).is_some() {
        return tuning::parse_tuning(text).map(NcclMessage::Tuning);
    }
    version::parse_version(text)
        .map(NcclMessage::Version)
        .or_else(|| comm_name::parse_comm_name(text).map(NcclMessage::Named))
        .or_else(|| plugin::parse_plugin(text).map(NcclMessage::Plugin))
        .or_else(|| net::parse_net(text, false).map(NcclMessage::Net))
        .or_else(|| error_trace::parse_error_return(text).map(NcclMessage::Return))
        .or_else(|| setting::parse_setting(text).map(NcclMessage::Setting))
}
