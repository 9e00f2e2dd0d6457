//! The network: which one, which NICs, and whether they reach the GPUs' memory.
//!
//! ```text
//! Using network IBext_v9
//! NET/IB : No device found.
//! NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'
//! NET/IB : GPU Direct RDMA (DMABUF) enabled for HCA 7 'mlx5_14                       no quote after
//! NET/IB : GPU Direct RDMA Disabled for GPU 2[2] / HCA 6 'mlx5_3' (no module or not supported by GPU)
//! GPU Direct RDMA Enabled for GPU 7 / HCA 7 (distance 5 <= 5), read 0 mode Default
//! DMA-BUF is available on GPU device 3
//! DMA_BUF_SUPPORT Failed due to OS kernel support                                     RCCL
//! GDRCOPY enabled library 2.4 driver 2.4
//! NET/IB: NCCL Dev 6 IbDev 6 Port 1 qpn 975 mtu 5 ...                                 Dev 6 Port 1 before 2.21
//! NET/OFI Selected Provider is efa (found 16 nics)
//! ```
//!
//! From `src/init.cc`, `src/graph/{paths,topo}.cc`, `src/transport/net_ib`, `src/include/gdrwrap.h`
//! and aws-ofi-nccl. The lists of NICs are `super::nic`'s.

use super::nic::{self, NicList};
use super::retry::{self, ConnectRetry};
use crate::token::{PResult, dec_u32, fail, hex_u64, is_name_byte, until, word};
use memchr::memmem;

/// A line about the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetMessage<'a> {
    /// The network that a communicator uses.
    Network(&'a [u8]),
    /// A list of NICs.
    Nics(NicList<'a>),
    /// This kind of network has no NIC.
    NoDevice(&'a [u8]),
    /// Whether a NIC reaches the GPUs' memory.
    Gdr(GdrSupport<'a>),
    /// Whether the GPUs' memory can be given to a NIC as a DMA-BUF.
    DmaBuf(DmaBufSupport),
    /// GDRCopy is used.
    GdrCopy,
    /// A queue pair.
    QueuePair(QueuePair),
    /// aws-ofi-nccl's provider, and its NICs.
    Provider {
        /// `efa`, `verbs;ofi_rxm`.
        name: &'a [u8],
        /// NICs found.
        nics: Option<u32>,
    },
    /// A connection is tried again.
    Retry(ConnectRetry<'a>),
}

/// Whether the GPUs' memory can be given to a NIC as a DMA-BUF; if not, the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DmaBufSupport {
    /// It can.
    Available,
    /// RCCL was not asked to (`NCCL_DMABUF_ENABLE`).
    NotEnabled,
    /// This ROCm cannot.
    NotInRocm,
    /// The kernel lacks `CONFIG_DMABUF_MOVE_NOTIFY` or `CONFIG_PCI_P2PDMA`.
    NotInKernel,
}

/// The lines that report it: NCCL's `src/init.cc`, and RCCL's `src/misc/rocmwrap.cc` of ROCm 7.
const DMA_BUF_LINES: [(&[u8], DmaBufSupport); 5] = [
    (
        b"DMA-BUF is available on GPU device ",
        DmaBufSupport::Available,
    ),
    (b"DMA_BUF Support Enabled", DmaBufSupport::Available),
    (b"Dmabuf feature disabled", DmaBufSupport::NotEnabled),
    (
        b"Current version of ROCm does not support dmabuf",
        DmaBufSupport::NotInRocm,
    ),
    (
        b"DMA_BUF_SUPPORT Failed due to OS kernel",
        DmaBufSupport::NotInKernel,
    ),
];

fn parse_dma_buf(body: &[u8]) -> Option<DmaBufSupport> {
    let mut lines = DMA_BUF_LINES.iter();
    lines.find_map(|(text, support)| body.starts_with(text).then_some(*support))
}

/// Whether a NIC reaches the GPUs' memory (GPUDirect RDMA).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GdrSupport<'a> {
    /// The plugin that reports it.
    pub plugin: Option<&'a [u8]>,
    /// It does.
    pub enabled: bool,
    /// By what, `DMABUF` or `nvidia-peermem`.
    pub by: Option<&'a [u8]>,
    /// The GPU as printed: a device, a bus id, or `2[2]`.
    pub gpu: Option<&'a [u8]>,
    /// The NIC's number, in hex since 2.24 for lines with a GPU.
    pub hca: &'a [u8],
    /// The NIC's name.
    pub name: Option<&'a [u8]>,
    /// What follows: the distance, or why not.
    pub why: &'a [u8],
}

/// A queue pair of a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePair {
    /// NCCL's number of the NIC.
    pub dev: u32,
    /// The NIC's port.
    pub port: u32,
    /// The queue pair.
    pub qpn: u32,
    /// The code of the largest transfer: 5 is 4,096 bytes.
    pub mtu: u32,
}

/// Reads any of the lines above. `cut` is true if the line's end is missing.
pub fn parse_net(body: &[u8], cut: bool) -> Option<NetMessage<'_>> {
    if memmem::find(&body[..body.len().min(40)], b" Using").is_some()
        && let Some(nics) = nic::parse_nics(body, cut)
    {
        return Some(NetMessage::Nics(nics));
    }
    if cut {
        return None;
    }
    if let Some(name) = body.strip_prefix(b"Using network ") {
        return (!name.is_empty()).then_some(NetMessage::Network(name));
    }
    if let Some(support) = parse_dma_buf(body) {
        return Some(NetMessage::DmaBuf(support));
    }
    if body.starts_with(b"GDRCOPY enabled") {
        return Some(NetMessage::GdrCopy);
    }
    if let Some(rest) = body.strip_prefix(b"NET/OFI Selected ") {
        return parse_provider(rest);
    }
    if let Some(retry) = retry::parse_connect_retry(body) {
        return Some(NetMessage::Retry(retry));
    }
    let (plugin, text) = match label(body) {
        Ok((text, plugin)) => (Some(plugin), text),
        Err(_) => (None, body),
    };
    match plugin {
        Some(plugin) if text.starts_with(b"No device found") => Some(NetMessage::NoDevice(plugin)),
        Some(_) if text.starts_with(b"NCCL Dev ") || text.starts_with(b"Dev ") => queue_pair(text)
            .ok()
            .map(|(_, pair)| NetMessage::QueuePair(pair)),
        _ => gdr(plugin, text).ok().map(|(_, gdr)| NetMessage::Gdr(gdr)),
    }
}

/// `NET/IB : ` or `NET/IB: `.
fn label(input: &[u8]) -> PResult<'_, &[u8]> {
    let (i, _) = word("NET/", "NET")(input)?;
    let (i, plugin) = until(":", "a plugin's name")(i)?;
    let plugin = plugin.trim_ascii_end();
    if plugin.is_empty() || plugin.len() > 40 {
        return fail(input, "a plugin's name");
    }
    Ok((i.trim_ascii_start(), plugin))
}

fn parse_provider(text: &[u8]) -> Option<NetMessage<'_>> {
    // `Selected provider is efa, fabric is efa (found 16 nics)` since 1.10.
    let at = memmem::find(text, b" is ")?;
    let rest = &text[at + b" is ".len()..];
    let end = rest
        .iter()
        .position(|&b| matches!(b, b' ' | b','))
        .unwrap_or(rest.len());
    let nics = memmem::find(rest, b"(found ").and_then(|at| {
        let (i, n) = dec_u32(&rest[at + b"(found ".len()..]).ok()?;
        i.starts_with(b" ").then_some(n)
    });
    let name = &rest[..end];
    (!name.is_empty()).then_some(NetMessage::Provider { name, nics })
}

fn queue_pair(input: &[u8]) -> PResult<'_, QueuePair> {
    let i = input.strip_prefix(b"NCCL ").unwrap_or(input);
    let (i, _) = word("Dev ", "Dev")(i)?;
    let (i, dev) = dec_u32(i)?;
    let i = match i.strip_prefix(b" IbDev ") {
        Some(i) => dec_u32(i)?.0,
        None => i,
    };
    let (i, _) = word(" Port ", "Port")(i)?;
    let (i, port) = dec_u32(i)?;
    let (i, _) = word(" qpn ", "qpn")(i)?;
    let (i, qpn) = dec_u32(i)?;
    let (i, _) = word(" mtu ", "mtu")(i)?;
    let (i, mtu) = dec_u32(i)?;
    let (i, _) = word(" ", "a blank")(i)?;
    Ok((
        i,
        QueuePair {
            dev,
            port,
            qpn,
            mtu,
        },
    ))
}

fn gdr<'a>(plugin: Option<&'a [u8]>, input: &'a [u8]) -> PResult<'a, GdrSupport<'a>> {
    let (i, _) = word("GPU Direct RDMA ", "GPU Direct RDMA")(input)?;
    let (i, by) = match i.strip_prefix(b"(") {
        Some(i) => {
            let (i, by) = until(") ", "what reaches it")(i)?;
            (i, Some(by))
        }
        None => (i, None),
    };
    let (i, state) = until(" for ", "enabled or disabled")(i)?;
    let enabled = state.eq_ignore_ascii_case(b"enabled");
    if !enabled && !state.eq_ignore_ascii_case(b"disabled") {
        return fail(i, "enabled or disabled");
    }
    let (i, gpu) = match i.strip_prefix(b"GPU ") {
        Some(i) => {
            let (i, gpu) = until(" / ", "a GPU")(i)?;
            (i, Some(gpu))
        }
        None => (i, None),
    };
    let (i, _) = word("HCA ", "HCA")(i)?;
    let (rest, _) = hex_u64(i)?;
    let (hca, why) = i.split_at(i.len() - rest.len());
    let (why, name) = match why.strip_prefix(b" '") {
        Some(name) => {
            let end = name.iter().position(|&b| b == b'\'').unwrap_or(name.len());
            (name.get(end + 1..).unwrap_or_default(), Some(&name[..end]))
        }
        None => (why, None),
    };
    // `HCA 0-1` of hosts with several systems is `%lx-%lx`.
    if name.is_none_or(<[u8]>::is_empty) && why.first().is_some_and(|&b| is_name_byte(b)) {
        return fail(why, "the end of the NIC's number");
    }
    let why = why.trim_ascii();
    Ok((
        &[],
        GdrSupport {
            plugin,
            enabled,
            by,
            gpu,
            hca,
            name,
            why,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &'static str) -> NetMessage<'static> {
        parse_net(text.as_bytes(), false).unwrap_or_else(|| panic!("{text}"))
    }

    fn gdr_of(text: &'static str) -> GdrSupport<'static> {
        match of(text) {
            NetMessage::Gdr(gdr) => gdr,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn gpudirect_is_told_by_card() {
        let g = gdr_of("NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'");
        assert_eq!(
            (g.plugin, g.enabled, g.hca),
            (Some(&b"Socket"[..]), false, &b"0"[..])
        );
        assert_eq!((g.name, g.gpu), (Some(&b"eth0"[..]), None));
        let g = gdr_of("NET/IB : GPU Direct RDMA (DMABUF) enabled for HCA 7 'mlx5_14");
        assert_eq!(
            (g.by, g.name),
            (Some(&b"DMABUF"[..]), Some(&b"mlx5_14"[..]))
        );
        let g = gdr_of("GPU Direct RDMA Enabled for GPU 7 / HCA 7 (distance 5 <= 5), read 0");
        assert_eq!((g.plugin, g.enabled, g.gpu), (None, true, Some(&b"7"[..])));
        assert_eq!(g.why, b"(distance 5 <= 5), read 0");
        let g = gdr_of("NET/IB : GPU Direct RDMA Disabled for GPU 2[2] / HCA 6 'm' (no module)");
        assert_eq!((g.gpu, g.why), (Some(&b"2[2]"[..]), &b"(no module)"[..]));
    }

    #[test]
    fn the_other_lines_are_read_by_field() {
        assert_eq!(
            of("Using network AWS Libfabric"),
            NetMessage::Network(b"AWS Libfabric")
        );
        assert_eq!(of("NET/IB : No device found."), NetMessage::NoDevice(b"IB"));
        for (text, support) in [
            (
                "DMA-BUF is available on GPU device 3",
                DmaBufSupport::Available,
            ),
            (
                "Dmabuf feature disabled without NCCL_DMABUF_ENABLE=1",
                DmaBufSupport::NotEnabled,
            ),
            (
                "DMA_BUF_SUPPORT Failed due to OS kernel support",
                DmaBufSupport::NotInKernel,
            ),
        ] {
            assert_eq!(of(text), NetMessage::DmaBuf(support));
        }
        let pair = QueuePair {
            dev: 6,
            port: 1,
            qpn: 975,
            mtu: 5,
        };
        let text = "NET/IB: NCCL Dev 6 IbDev 6 Port 1 qpn 975 mtu 5 query_ece={supported=1}";
        assert_eq!(of(text), NetMessage::QueuePair(pair));
        assert_eq!(
            of("NET/IB: Dev 6 Port 1 qpn 975 mtu 5 LID 43"),
            NetMessage::QueuePair(pair)
        );
        let (name, nics) = (&b"efa"[..], Some(16));
        let efa = NetMessage::Provider { name, nics };
        assert_eq!(of("NET/OFI Selected Provider is efa (found 16 nics)"), efa);
        assert_eq!(
            of("NET/OFI Selected provider is efa, fabric is x (found 16 nics)"),
            efa
        );
        assert!(matches!(
            of("Bootstrap: Using eth0:10.0.0.1<0>"),
            NetMessage::Nics(_)
        ));
        assert_eq!(parse_net(b"NET/IB : something else", false), None);
    }
}
