//! One thing wrong with the job, and its effects on the log.
//!
//! The healthy job is the only source: a fault is an edit of it. A wrong call is an edit of one
//! rank's program in one step (`plan`, `search`); whether the job then hangs is found out by letting the
//! ranks' calls meet (`pending_works`), and `watchdog` writes PyTorch's lines about a hang. A
//! fact of a host is an edit of its lines before the first call (`host`).
//!
//! The effects of a wrong call follow real jobs (`testdata/captured/ddp-*`).

mod call_counter;
mod check;
mod host;
mod live;
mod pending_works;
mod plan;
mod row;
mod search;
mod watchdog;

use crate::error::{Error, Result};
use crate::named_choices::named;
use std::str::FromStr;

pub(super) use call_counter::CallCounter;
pub(super) use host::{edit_connections, edit_rank_lines, fact, lacks_nvls};
pub(super) use live::{FaultCourse, build_fault_row};
pub(super) use pending_works::PendingWorks;
pub(super) use plan::FaultPlan;
pub use row::{CallRow, FaultRow, HostFactRow, LastCallRow};

named! {
    /// The kind of fault.
    FaultKind, "fault" {
        /// A rank does not make one call.
        Skip = "skip",
        /// A rank makes one call with another count.
        Count = "count",
        /// A rank makes one call with another datatype.
        Datatype = "datatype",
        /// A rank makes one call with another reduction.
        Redop = "redop",
        /// A rank makes one Broadcast or Reduce with another root.
        Root = "root",
        /// A rank makes two neighbouring calls of a communicator in the other order.
        Order = "order",
        /// A rank ends in the middle of a step.
        Die = "die",
        /// A rank makes no more calls from the middle of a step on; its process is alive.
        Stall = "stall",
        /// A rank leaves out one Send or Recv of the pipeline.
        Recv = "recv",
        /// A rank makes another operation in place of one.
        Op = "op",
        /// A rank makes one call twice.
        Extra = "extra",
        /// A rank makes a collective that no other rank makes.
        Lone = "lone",
        /// A rank makes one call on another of its communicators.
        OtherGroup = "group",
        /// A rank sends to another peer, or receives from another.
        Peer = "peer",
        /// A rank makes two neighbouring calls of two communicators in the other order.
        Crossed = "crossed",
        /// A rank begins a step again in its middle, as after running out of memory.
        Retry = "retry",
        /// A rank leaves out the rest of a step, as after a loss that is no number.
        Rest = "rest",
        /// The ranks of one copy of the model make one step more.
        MoreSteps = "more-steps",
        /// The ranks of one copy of the model make one step less.
        FewerSteps = "fewer-steps",
        /// The ranks of one copy of the model make no calls in one step, and print it.
        SkipStep = "skip-step",
        /// One rank makes the calls of a save that others do not.
        LoneSave = "lone-save",
        /// A host uses sockets where others have InfiniBand.
        Sockets = "sockets",
        /// A host has no GPUDirect RDMA.
        Gpudirect = "gpudirect",
        /// NVLS can be used and is not, on one host.
        Nvls = "nvls",
        /// Communicators of one host have fewer channels than their like.
        Channels = "channels",
        /// A host runs another version.
        Version = "version",
        /// A host has another NCCL_ setting.
        Setting = "setting",
        /// One phase of a rank's initialisation takes far longer than others'.
        SlowInit = "slow-init",
    }
}

named! {
    /// The communicators a wrong call can be made on.
    FaultGroup, "communicator" {
        /// All ranks.
        World = "world",
        /// Ranks that share a layer's tensors.
        Tensor = "tensor",
        /// Neighbouring stages.
        Pipeline = "pipeline",
        /// Ranks that share a shard of the model.
        Data = "data",
        /// Ranks among which experts are spread.
        Expert = "expert",
        /// Ranks among which a sequence is spread.
        Context = "context",
        /// Ranks among which a copy of the model is sharded.
        Shard = "shard",
    }
}

impl FaultGroup {
    /// The word of the truth's communicators.
    fn truth_name(self) -> &'static str {
        match self {
            FaultGroup::World => "world",
            FaultGroup::Tensor => "tp",
            FaultGroup::Pipeline => "pp",
            FaultGroup::Data => "dp",
            FaultGroup::Expert => "ep",
            FaultGroup::Context => "cp",
            FaultGroup::Shard => "shard",
        }
    }
}

impl FaultKind {
    /// The fault is a call, or that calls end.
    pub(super) fn is_of_calls(self) -> bool {
        self < FaultKind::Sockets
    }

    /// The fault is a fact of a host.
    pub(super) fn is_of_host(self) -> bool {
        !self.is_of_calls() && self != FaultKind::SlowInit
    }

    /// It shows only where ranks go on until nothing can.
    pub(super) fn needs_lead(self) -> bool {
        self > FaultKind::Recv && self.is_of_calls()
    }

    /// Ranks make other stretches than others do.
    pub(super) fn is_of_steps(self) -> bool {
        self >= FaultKind::MoreSteps && self.is_of_calls()
    }

    /// The rank makes no call from there on.
    pub(super) fn ends_calls(self) -> bool {
        matches!(self, FaultKind::Die | FaultKind::Stall)
    }
}

/// One fault: its kind and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// The step, in the trainer's numbers. Default the middle one.
    pub step: Option<u64>,
    /// The rank in the job. Default one that does not print, drawn from the seed.
    pub rank: Option<usize>,
    /// The host, from 0. Default one but the first, drawn from the seed.
    pub host: Option<usize>,
    /// On what communicator. Default any.
    pub comm: Option<FaultGroup>,
    /// PyTorch speaks of a hang. Default where there is a trainer that speaks.
    pub watchdog: Option<bool>,
}

impl Fault {
    /// The fault of a kind, wherever it is.
    pub fn of(kind: FaultKind) -> Self {
        Self {
            kind,
            step: None,
            rank: None,
            host: None,
            comm: None,
            watchdog: None,
        }
    }
}

/// `skip,step=12,rank=3,comm=tensor,watchdog=off`
impl FromStr for Fault {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (kind, keys) = text.split_once(',').unwrap_or((text, ""));
        let mut fault = Fault::of(kind.parse()?);
        for pair in keys.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let again = match key {
                "step" => fault.step.replace(parse_number(key, value)?).is_some(),
                "rank" => fault.rank.replace(parse_number(key, value)?).is_some(),
                "host" => fault.host.replace(parse_number(key, value)?).is_some(),
                "comm" => fault.comm.replace(value.parse()?).is_some(),
                "watchdog" => {
                    let on = match value {
                        "on" => true,
                        "off" => false,
                        _ => {
                            return refuse_fault(format!(
                                "watchdog must be on or off, not \"{value}\""
                            ));
                        }
                    };
                    fault.watchdog.replace(on).is_some()
                }
                _ => {
                    return refuse_fault(format!(
                        "unknown key \"{key}\"; expected one of step, rank, host, comm, watchdog"
                    ));
                }
            };
            if again {
                return refuse_fault(format!("{key} is given twice"));
            }
        }
        Ok(fault)
    }
}

fn parse_number<N: FromStr>(key: &str, value: &str) -> Result<N> {
    value
        .parse()
        .or_else(|_| refuse_fault(format!("{key} must be a number, not \"{value}\"")))
}

fn refuse_fault<T>(text: String) -> Result<T> {
    Err(Error::Usage(format!("--fault: {text}")))
}

#[cfg(test)]
mod tests;
