//! A communicator's member, as its process reports it.

use super::fold::CommunicatorSide;
use crate::grammar::message::graph::ChannelCounts;
use crate::stages::net::net_stage::FirstReportLine;

/// A member, as its process tells of it.
#[derive(Debug, Clone, Copy)]
pub struct CommunicatorMember<'f> {
    side: &'f CommunicatorSide,
    /// Its host; empty where the line has no header.
    pub host: &'f [u8],
    /// Its process.
    pub pid: Option<u64>,
}

impl<'f> CommunicatorMember<'f> {
    pub(super) fn new(
        side: &'f CommunicatorSide,
        host: &'f [u8],
        pid: Option<u64>,
    ) -> CommunicatorMember<'f> {
        CommunicatorMember { side, host, pid }
    }

    /// Its rank.
    pub fn rank(&self) -> Option<u32> {
        self.side.rank
    }

    /// The GPU on its host: NVML's number of it, or else its bus id.
    pub fn gpu(&self) -> Option<u64> {
        self.side.nvml_dev.map(u64::from).or(self.side.bus_id)
    }

    /// How long it took to make, in seconds, and the line that reports it.
    pub fn init_s(&self) -> Option<(f64, FirstReportLine)> {
        self.side.timing.as_ref().map(|t| (t.total, t.at))
    }

    /// The parts of that, in seconds, as printed.
    pub fn init_phases(&self) -> impl Iterator<Item = (&'f [u8], f64)> {
        let timing = self.side.timing.iter();
        timing.flat_map(|timing| timing.parts.iter().map(|(name, s)| (&name[..], *s)))
    }

    /// Its channels, and the line that reports it.
    pub fn channels(&self) -> Option<(ChannelCounts, FirstReportLine)> {
        self.side.channels
    }

    /// Calls made on it.
    pub fn count_calls(&self) -> u64 {
        self.side.count_calls()
    }
}
