//! Connections: the transport between two ranks.
//!
//! ```text
//! Channel 03/0 : 4[4] -> 11[3] [send] via NET/IBext_v10/3(3)/GDRDMA/Shared    (3): the proxy's rank (PXN)
//! Channel 14/0 : 15[7] -> 14[6] via P2P/CUMEM                                 also IPC, MNNVL, /read
//! Channel 31 : 1[200000] -> 0[100000] via P2P/direct pointer/read
//! Channel 00 : 0[0] -> 1[1] via SHM/direct/direct                             direct shared memory up to 2.11
//! CollNet 07 : 63 [receive] via COLLNET/SHARP/7/GDRDMA
//! Ring 00 : 26[2] -> 30[6] via P2P/IPC                                        2.4
//! Channel 00/0 : 16[17000] -> 18[21000] via P2P/IPC comm 0x5609 nRanks 32     RCCL
//! ```
//!
//! From `src/transport/{p2p,shm,net,coll_net}.cc`; [`super::transport`] is the text after `via`. The bracket
//! is a PCI bus id in hex up to 2.16 and
//! in RCCL, and NVML's number of the device since 2.18.

use super::connection_end::{ConnectionEnd, connection_end};
use super::transport::{Transport, transport};
use crate::message::communicator::rccl_tail::{RcclTail, rccl_comm_tail};
use crate::token::{PResult, dec_u32, fail, until, whole, word};

/// One connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelConnection<'a> {
    /// The channel; `Ring` in 2.4.
    pub channel: u32,
    /// Which connection of the two ranks on this channel; printed since 2.8, not for all.
    pub index: Option<u32>,
    /// The rank that sends; of a COLLNET connection the one that prints.
    pub from: ConnectionEnd<'a>,
    /// The rank that receives; a COLLNET connection has none.
    pub to: Option<ConnectionEnd<'a>>,
    /// Which end prints the line, where both do.
    pub side: Option<ConnectionSide>,
    /// What it goes over.
    pub via: Transport<'a>,
    /// The communicator; printed by RCCL.
    pub of: Option<RcclTail>,
}

/// Which end of a connection prints the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionSide {
    /// `[send]`.
    Send,
    /// `[receive]`.
    Receive,
}

/// Any of the lines above.
pub(crate) fn parse_connection(body: &[u8]) -> Option<ChannelConnection<'_>> {
    whole(connection_line(body))
}

fn connection_line(input: &[u8]) -> PResult<'_, ChannelConnection<'_>> {
    let (start, _) = until(" ", "Channel, CollNet or Ring")(input)?;
    if !["Channel ", "CollNet ", "Ring "]
        .iter()
        .any(|w| input.starts_with(w.as_bytes()))
    {
        return fail(input, "Channel, CollNet or Ring");
    }
    let (i, channel) = dec_u32(start)?;
    let (i, index) = match i.strip_prefix(b"/") {
        Some(i) => {
            let (i, index) = dec_u32(i)?;
            (i, Some(index))
        }
        None => (i, None),
    };
    let (i, _) = word(" : ", "the ranks")(i)?;
    let (i, from) = connection_end(i)?;
    let (i, to) = match i.strip_prefix(b" -> ") {
        Some(i) => {
            let (i, to) = connection_end(i)?;
            (i, Some(to))
        }
        None => (i, None),
    };
    let (i, side) = if let Some(i) = i.strip_prefix(b" [send]") {
        (i, Some(ConnectionSide::Send))
    } else if let Some(i) = i.strip_prefix(b" [receive]") {
        (i, Some(ConnectionSide::Receive))
    } else {
        (i, None)
    };
    let (i, _) = word(" via ", "via")(i)?;
    let (i, via) = transport(i)?;
    let (i, of) = rccl_comm_tail(i)?;
    if to.is_none() && !matches!(via, Transport::CollNet { .. }) {
        return fail(input, "the rank that receives");
    }
    Ok((
        i,
        ChannelConnection {
            channel,
            index,
            from,
            to,
            side,
            via,
            of,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::super::connection_end::{GpuIdFormat, parse_bracketed_gpu};
    use super::*;
    use crate::message::network::transport::GdrMode;

    fn of(text: &'static str) -> ChannelConnection<'static> {
        parse_connection(text.as_bytes()).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn a_connection_has_two_ends() {
        let c = of("Channel 03/1 : 4[4] -> 11[3] [send] via NET/IBext_v10/3(7)/GDRDMA/Shared");
        assert_eq!(
            (c.channel, c.index, c.side),
            (3, Some(1), Some(ConnectionSide::Send))
        );
        assert_eq!((c.from.rank, c.to.unwrap().rank), (4, 11));
        let c = of("Channel 14/0 : 7[7] -> 15[7] [receive] via NET/IB/1");
        assert_eq!(c.side, Some(ConnectionSide::Receive));
        assert_eq!(
            of("Ring 00 : 35 -> 34 [send] via NET/Socket/0").from.gpu,
            None
        );
        let c = of("Channel 31 : 1[200000] -> 0[1000c0] via P2P/direct pointer/read");
        assert_eq!((c.index, c.side), (None, None));
    }

    #[test]
    fn a_gpu_is_a_device_or_a_bus_id_or_either() {
        for (text, is) in [
            ("4", GpuIdFormat::Device(4)),
            ("10", GpuIdFormat::Either),
            ("c0", GpuIdFormat::BusId(0xc0)),
            ("1000", GpuIdFormat::BusId(0x1000)),
            ("1000c0", GpuIdFormat::BusId(0x1000c0)),
        ] {
            assert_eq!(
                parse_bracketed_gpu(text.as_bytes()).map(|gpu| gpu.is),
                Some(is),
                "{text}"
            );
        }
        assert_eq!(parse_bracketed_gpu(b"x"), None);
    }

    #[test]
    fn collnet_has_one_end_and_rccl_names_the_communicator() {
        let c = of("CollNet 07/0 : 63 [receive] via COLLNET/SHARP/7/GDRDMA");
        let (plugin, nic, gdr) = (&b"SHARP"[..], 7, GdrMode::Yes);
        assert_eq!(
            (c.to, c.via),
            (None, Transport::CollNet { plugin, nic, gdr })
        );
        let c = of("Channel 00/0 : 16[17000] -> 18[21000] via P2P/IPC comm 0x5609 nRanks 032");
        let of = c.of.unwrap();
        assert_eq!((of.comm, of.nranks), (0x5609, 32));
    }

    #[test]
    fn a_cut_line_is_none_or_ends_where_a_transport_may_end() {
        let line = b"Channel 03/0 : 4[4] -> 11[3] [send] via NET/IB/3(7)/GDRDMA/Shared";
        for cut in 0..line.len() {
            if let Some(c) = parse_connection(&line[..cut]) {
                assert_eq!(
                    (c.channel, c.from.rank, c.to.unwrap().rank),
                    (3, 4, 11),
                    "{cut}"
                );
                let whole = [&b"/3"[..], b")", b"/GDRDMA"];
                assert!(whole.iter().any(|end| line[..cut].ends_with(end)), "{cut}");
            }
        }
        for none in [
            "Channel 00/02 : 0 1",
            "Channel 0 : 1[0] -> 2[x] via P2P/IPC",
            "Ring 0 : 1",
        ] {
            assert_eq!(parse_connection(none.as_bytes()), None, "{none}");
        }
    }
}
