//! A process's side of a communicator.

use crate::count::tally;
use crate::grammar::message::communicator::init::InitStage;
use crate::grammar::message::graph::ChannelCounts;
use crate::members::comm_id::CommId;
use crate::stages::communicators::begun::SetupProgress;
use crate::stages::communicators::purpose::CommunicatorState;
use crate::stages::net::net_stage::FirstReportLine;
use serde::{Deserialize, Serialize};

/// Times of an initialisation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CommunicatorInitTiming {
    /// The whole time in seconds.
    pub(crate) total: f64,
    /// Its phases as printed, in seconds.
    pub(crate) parts: Vec<(Box<[u8]>, f64)>,
    /// Its line.
    pub(crate) at: FirstReportLine,
}

/// A process's side of a communicator.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct CommunicatorSide {
    /// The number of the merged process.
    pub(crate) process: u32,
    /// Its address there.
    pub(crate) comm: u64,
    /// The process's rank in it.
    pub(crate) rank: Option<u32>,
    /// Its size.
    pub(crate) nranks: Option<u32>,
    /// The id that all members share.
    pub(crate) comm_id: Option<CommId>,
    /// The CUDA device.
    pub(crate) dev: Option<u32>,
    /// NVML's number of it.
    pub(crate) nvml_dev: Option<u32>,
    /// Its place on the bus.
    pub(crate) bus_id: Option<u64>,
    /// The function that made it.
    pub(crate) call: Option<Box<[u8]>>,
    /// The side of the communicator it was split from.
    pub(crate) parent: Option<usize>,
    /// The split's color.
    pub(crate) color: Option<i64>,
    /// Nodes, and ranks on this node.
    pub(crate) layout: Option<(u32, u32)>,
    /// Times of its initialisation.
    pub(crate) timing: Option<CommunicatorInitTiming>,
    /// Its channels, and the line that reports them.
    pub(crate) channels: Option<(ChannelCounts, FirstReportLine)>,
    /// The name that the program gave it.
    pub(crate) name: Option<Box<[u8]>>,
    /// Its state.
    pub(crate) state: CommunicatorState,
    /// How far its initialisation has come.
    pub(crate) progress: SetupProgress,
    /// The calls made on it.
    pub(crate) uses: Vec<(tally::CallKey, tally::CallVolume)>,
    /// A filter leaves it out of the rows.
    #[serde(skip)]
    pub(crate) is_left_out: bool,
}

impl CommunicatorSide {
    /// True if a line is about the current communicator at the address and not the next one.
    pub(super) fn is_same_life(&self, line: &CommunicatorSide, stage: InitStage) -> bool {
        let is_end = matches!(stage, InitStage::DestroyComplete | InitStage::AbortComplete);
        let same_id = match (self.comm_id, line.comm_id) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        // A repeated id is a repeated line; without an id a reused address is another communicator.
        let again = self.comm_id.is_some() && self.comm_id == line.comm_id;
        let follows = match stage {
            InitStage::InitStart => again,
            InitStage::InitComplete => again || self.state == CommunicatorState::Started,
            InitStage::DestroyComplete | InitStage::AbortComplete => true,
        };
        (self.rank, self.nranks) == (line.rank, line.nranks)
            && same_id
            && follows
            && (is_end || !self.state.is_over())
    }

    /// The GPU's number on its host: NVML's, since CUDA counts only the devices that the process sees.
    pub(crate) fn gpu_on_host(&self) -> Option<u32> {
        self.nvml_dev.or(self.dev)
    }

    pub(super) fn fill_from_line(&mut self, line: CommunicatorSide) {
        self.comm_id = self.comm_id.or(line.comm_id);
        self.dev = self.dev.or(line.dev);
        self.nvml_dev = self.nvml_dev.or(line.nvml_dev);
        self.bus_id = self.bus_id.or(line.bus_id);
        self.color = self.color.or(line.color);
        if self.call.is_none() {
            self.call = line.call;
        }
        if self.name.is_none() {
            self.name = line.name;
        }
    }

    /// Merges another account of the same side.
    pub(crate) fn merge_account(&mut self, other: CommunicatorSide) {
        self.state = self.state.max(other.state);
        self.progress.merge_account(other.progress.clone());
        self.layout = self.layout.or(other.layout);
        self.channels = self.channels.or(other.channels);
        self.uses.extend(other.uses.iter().copied());
        if self.timing.is_none() {
            self.timing.clone_from(&other.timing);
        }
        self.fill_from_line(other);
    }

    /// Counts the calls made on it.
    pub(crate) fn count_calls(&self) -> u64 {
        self.uses
            .iter()
            .fold(0, |n, (_, value)| n.saturating_add(value.calls))
    }
}
