//! Network connections with the lines of both their ends: the NIC of the sender and that of the receiver.
//!
//! The lines of a connection name its ranks and its channel. They are of one communicator if both name it.
//! Where it is not known (no INIT line, or one without an id, as up to NCCL 2.17), they are of one connection
//! if only one process prints the sending end of these ranks and this channel, and only one the other end.

use super::NetSummary;
use super::net_stage::FirstReportLine;
use super::pairs::{SharedCommunicator, find_shared_comm};
use super::thread_states::ConnectionOwner;
use std::collections::{BTreeMap, BTreeSet};

/// A connection on one channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RailKey {
    /// The communicator, if all its members know it.
    comm: Option<SharedCommunicator>,
    from: u32,
    to: Option<u32>,
    channel: (u32, u32),
}

/// One end of a connection, as the lines give it.
#[derive(Debug, Default)]
struct RailEnd {
    nics: BTreeSet<u32>,
    /// The printing process, and the communicator as far as it is known there.
    speakers: BTreeSet<(u32, Option<SharedCommunicator>)>,
    first: Option<FirstReportLine>,
}

/// A connection with both ends in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JoinedRail {
    /// The rank that sends.
    pub(crate) from: u32,
    /// The rank that receives.
    pub(crate) to: Option<u32>,
    /// The channel, and the number of the connection on it.
    pub(crate) channel: (u32, u32),
    /// The end that sends: its NIC, the process and the line.
    pub(crate) send: JoinedRailEnd,
    /// The end that receives.
    pub(crate) receive: JoinedRailEnd,
}

/// An end of a connection with both ends in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JoinedRailEnd {
    /// NCCL's number of the NIC on its host.
    pub(crate) nic: u32,
    /// The process that prints it.
    pub(crate) process: u32,
    /// Its first line.
    pub(crate) first: FirstReportLine,
}

impl JoinedRail {
    /// True if the two NICs have different numbers.
    pub(crate) fn is_crossed(&self) -> bool {
        self.send.nic != self.receive.nic
    }
}

impl RailEnd {
    /// Returns the end if it has one NIC and one speaker.
    fn find_only_nic(&self) -> Option<JoinedRailEnd> {
        let one = self.nics.len() == 1 && self.speakers.len() == 1;
        let nic = *self.nics.first().filter(|_| one)?;
        Some(JoinedRailEnd {
            nic,
            process: self.speakers.first()?.0,
            first: self.first?,
        })
    }
}

/// Joins the ends of all network connections, in the order of communicators, ranks and channels.
pub(crate) fn join_ends(net: &NetSummary) -> Vec<JoinedRail> {
    let mut ends: BTreeMap<RailKey, [RailEnd; 2]> = BTreeMap::new();
    for ((process, owner, way), (channels, first)) in &net.all.links {
        let (Some(card), Some(receives)) = (way.via.nic(), way.receives) else {
            continue;
        };
        let known = find_rail_comm(*process, owner);
        let comm = known.filter(|comm| matches!(comm, SharedCommunicator::Id(..)));
        for &channel in channels {
            let key = RailKey {
                comm,
                from: way.from,
                to: way.to,
                channel,
            };
            let end = &mut ends.entry(key).or_default()[usize::from(receives)];
            end.nics.insert(card.nic);
            end.speakers.insert((*process, known));
            end.first = Some(end.first.map_or(*first, |known| known.min(*first)));
        }
    }
    let joined = |(key, [send, receive]): (&RailKey, &[RailEnd; 2])| {
        let (send, receive) = (send.find_only_nic()?, receive.find_only_nic()?);
        let sure = key.comm.is_some() || send.process != receive.process;
        sure.then_some(JoinedRail {
            from: key.from,
            to: key.to,
            channel: key.channel,
            send,
            receive,
        })
    };
    ends.iter().filter_map(joined).collect()
}

fn find_rail_comm(process: u32, owner: &ConnectionOwner) -> Option<SharedCommunicator> {
    find_shared_comm(process, owner).or(match owner {
        ConnectionOwner::Address(comm) => Some(SharedCommunicator::Own(process, *comm, 0)),
        _ => None,
    })
}
