//! A communicator's member, as its process reports it.

use super::fold::CommunicatorSide;
use crate::grammar::message::graph::ChannelCounts;
use crate::stages::net::net_stage::FirstReportLine;

/// A member, as its process reports it.
#[derive(Debug, Clone, Copy)]
pub struct CommunicatorMember<'f> {
    side: &'f CommunicatorSide,
    /// Its host; empty if the line has no header.
    pub host: &'f [u8],
    /// Its process id.
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

    /// Returns its rank.
    pub fn rank(&self) -> Option<u32> {
        self.side.rank
    }

    /// Returns the GPU on its host: NVML's number, or else the bus id.
    pub fn gpu(&self) -> Option<u64> {
        self.side.nvml_dev.map(u64::from).or(self.side.bus_id)
    }

    /// Returns the seconds of its initialisation, and the line that reports them.
    pub fn init_s(&self) -> Option<(f64, FirstReportLine)> {
        self.side.timing.as_ref().map(|t| (t.total, t.at))
    }

    /// Returns the phases of the initialisation in seconds, as printed.
    pub fn init_phases(&self) -> impl Iterator<Item = (&'f [u8], f64)> {
        let timing = self.side.timing.iter();
        timing.flat_map(|timing| timing.parts.iter().map(|(name, s)| (&name[..], *s)))
    }

    /// Returns its channels, and the line that reports them.
    pub fn channels(&self) -> Option<(ChannelCounts, FirstReportLine)> {
        self.side.channels
    }

    /// Counts the calls made on it.
    pub fn count_calls(&self) -> u64 {
        self.side.count_calls()
    }
}
