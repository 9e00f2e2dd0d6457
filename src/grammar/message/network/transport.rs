//! The transport of a connection: the text after ` via `.
//!
//! ```text
//! P2P/IPC, P2P/CUMEM/read, P2P/MNNVL, P2P/direct pointer/read, P2P/indirect/2[4000]
//! SHM/direct/direct, direct shared memory               the latter up to 2.11
//! NET/IBext_v10/3(3)/GDRDMA/Shared                      (3): the rank of the sending proxy (PXN)
//! NET/AWS Libfabric/7/GDRDMA(PCI)                       (PCI) since 2.27
//! COLLNET/SHARP/7/GDRDMA
//! ```
//!
//! From `src/transport/{p2p,shm,net,coll_net}.cc`.

use super::connection_end::connection_end;
use crate::token::{PResult, dec_u32, until, word};

/// What a connection goes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport<'a> {
    /// From GPU to GPU.
    P2p {
        /// `IPC`, `CUMEM`, `MNNVL`, `direct pointer` (one process), `indirect/2[4000]` (through
        /// that rank).
        how: &'a [u8],
        /// The receiver reads, instead of the sender writing.
        read: bool,
    },
    /// Through the host's memory.
    Shm,
    /// Over the network.
    Net {
        /// The plugin, `IB`, `Socket`, `AWS Libfabric`.
        plugin: &'a [u8],
        /// The number of the network device.
        nic: u32,
        /// The rank of the sending proxy, if that is another rank's (PXN).
        proxy: Option<u32>,
        /// Whether the NIC reaches the GPU's memory.
        gdr: GdrMode,
        /// The buffers are shared among connections.
        shared: bool,
    },
    /// Through the network's switches, which reduce.
    CollNet {
        /// The plugin, `SHARP`.
        plugin: &'a [u8],
        /// The number of the network device.
        nic: u32,
        /// Whether the NIC reaches the GPU's memory.
        gdr: GdrMode,
    },
}

/// Whether the NIC reaches the GPU's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GdrMode {
    /// No: data goes through the host's memory.
    No,
    /// `GDRDMA`.
    Yes,
    /// `GDRDMA(PCI)`: over PCI, where the host has a faster way.
    Pci,
}

/// The transport after ` via `.
pub(crate) fn transport(input: &[u8]) -> PResult<'_, Transport<'_>> {
    if let Some(i) = input.strip_prefix(b"P2P/") {
        return p2p(i);
    }
    for shm in [
        &b"SHM/direct/direct"[..],
        b"SHM/direct",
        b"direct shared memory",
    ] {
        if let Some(i) = input.strip_prefix(shm) {
            return Ok((i, Transport::Shm));
        }
    }
    if let Some(i) = input.strip_prefix(b"NET/") {
        let (i, (plugin, nic)) = device(i)?;
        let (i, proxy) = match i.strip_prefix(b"(") {
            Some(i) => {
                let (i, proxy) = dec_u32(i)?;
                let (i, _) = word(")", "the end of the proxy's rank")(i)?;
                (i, Some(proxy))
            }
            None => (i, None),
        };
        let (i, gdr) = split_gdr_mode(i);
        let (i, shared) = strip_optional(i, b"/Shared");
        return Ok((
            i,
            Transport::Net {
                plugin,
                nic,
                proxy,
                gdr,
                shared,
            },
        ));
    }
    let (i, _) = word("COLLNET/", "P2P, SHM, NET or COLLNET")(input)?;
    let (i, (plugin, nic)) = device(i)?;
    let (i, gdr) = split_gdr_mode(i);
    Ok((i, Transport::CollNet { plugin, nic, gdr }))
}

fn p2p(input: &[u8]) -> PResult<'_, Transport<'_>> {
    let known = [&b"IPC"[..], b"CUMEM", b"MNNVL", b"direct pointer"];
    let len = if let Some(how) = known.iter().find(|how| input.starts_with(how)) {
        how.len()
    } else {
        let (i, _) = word("indirect/", "a way from GPU to GPU")(input)?;
        let (i, _) = connection_end(i)?;
        input.len() - i.len()
    };
    let (how, i) = input.split_at(len);
    let (i, read) = strip_optional(i, b"/read");
    Ok((i, Transport::P2p { how, read }))
}

/// A plugin's name and the number of its device: `IB/0`, `AWS Libfabric/7`.
fn device(input: &[u8]) -> PResult<'_, (&[u8], u32)> {
    let (i, plugin) = until("/", "a plugin's name")(input)?;
    let (i, nic) = dec_u32(i)?;
    Ok((i, (plugin, nic)))
}

fn split_gdr_mode(input: &[u8]) -> (&[u8], GdrMode) {
    match input.strip_prefix(b"/GDRDMA") {
        Some(i) => match i.strip_prefix(b"(PCI)") {
            Some(i) => (i, GdrMode::Pci),
            None => (i, GdrMode::Yes),
        },
        None => (input, GdrMode::No),
    }
}

fn strip_optional<'a>(input: &'a [u8], word: &[u8]) -> (&'a [u8], bool) {
    match input.strip_prefix(word) {
        Some(i) => (i, true),
        None => (input, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::whole;

    fn of(text: &'static str) -> Transport<'static> {
        whole(transport(text.as_bytes())).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn a_network_has_its_card_and_its_proxy() {
        let (plugin, nic, proxy) = (&b"IBext_v10"[..], 3, Some(7));
        let (gdr, shared) = (GdrMode::Yes, true);
        let net = Transport::Net {
            plugin,
            nic,
            proxy,
            gdr,
            shared,
        };
        assert_eq!(of("NET/IBext_v10/3(7)/GDRDMA/Shared"), net);
        let (plugin, nic, proxy) = (&b"AWS Libfabric"[..], 12, None);
        let (gdr, shared) = (GdrMode::Pci, false);
        let net = Transport::Net {
            plugin,
            nic,
            proxy,
            gdr,
            shared,
        };
        assert_eq!(of("NET/AWS Libfabric/12/GDRDMA(PCI)"), net);
        let (plugin, nic, gdr) = (&b"SHARP"[..], 7, GdrMode::No);
        assert_eq!(
            of("COLLNET/SHARP/7"),
            Transport::CollNet { plugin, nic, gdr }
        );
    }

    #[test]
    fn a_local_one_says_how() {
        for (text, how, read) in [
            ("P2P/IPC", "IPC", false),
            ("P2P/CUMEM/read", "CUMEM", true),
            ("P2P/direct pointer", "direct pointer", false),
            ("P2P/indirect/2[20]", "indirect/2[20]", false),
        ] {
            let how = how.as_bytes();
            assert_eq!(of(text), Transport::P2p { how, read }, "{text}");
        }
        for text in ["SHM/direct/direct", "SHM/direct", "direct shared memory"] {
            assert_eq!(of(text), Transport::Shm);
        }
        for none in [
            "P2P/",
            "NET/IB",
            "NET/IB/",
            "NET/IB/3(",
            "SHM/dir",
            "P2P/IPC/re",
        ] {
            assert_eq!(whole(transport(none.as_bytes())), None, "{none}");
        }
    }
}
