//! Changes, and their table.

use super::measure::Measure;
use crate::output::render::{Grid, TableCell};
use std::cmp::Ordering;

/// Aspects of changes, in the order of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiffAspect {
    /// Seconds of a step.
    StepTime,
    /// TFLOP/s per GPU.
    Tflops,
    /// Bus bandwidth of nccl-tests.
    BusBandwidth,
    /// Time of a call of nccl-tests.
    CallTime,
    /// Hosts, processes, the trainer.
    Job,
    /// A version.
    Version,
    /// The network.
    Network,
    /// Transports of connections.
    Transport,
    /// Whether the network reaches the GPUs' memory.
    GpuDirect,
    /// Whether GPUs use other GPUs' NICs.
    Pxn,
    /// Whether NICs of one number talk to each other.
    Rails,
    /// Use of the NVLink switches.
    Nvls,
    /// NVLink between nodes.
    Mnnvl,
    /// NICs.
    Nic,
    /// The NICs that connections use.
    NicUsed,
    /// Provider that aws-ofi-nccl found.
    Provider,
    /// The interface for traffic other than data.
    Interface,
    /// A plugin.
    Plugin,
    /// `NCCL_*`.
    Setting,
    /// The program's `ncclConfig_t`.
    Config,
    /// Numbers of communicators of a kind.
    Communicators,
    /// Algorithm and protocol of an operation and size.
    Algorithm,
    /// Number of channels.
    Channels,
    /// Bytes.
    Bytes,
    /// Calls.
    Calls,
}

impl DiffAspect {
    /// Returns the word in the table.
    pub fn name(self) -> &'static str {
        match self {
            DiffAspect::StepTime => "step_time_s",
            DiffAspect::Tflops => "tflops_per_gpu",
            DiffAspect::BusBandwidth => "busbw_gb_per_s",
            DiffAspect::CallTime => "call_time_us",
            DiffAspect::Job => "job",
            DiffAspect::Version => "version",
            DiffAspect::Network => "network",
            DiffAspect::Transport => "transport",
            DiffAspect::GpuDirect => "gpudirect",
            DiffAspect::Pxn => "pxn",
            DiffAspect::Rails => "rails",
            DiffAspect::Nvls => "nvls",
            DiffAspect::Mnnvl => "mnnvl",
            DiffAspect::Nic => "nic",
            DiffAspect::NicUsed => "nic_used",
            DiffAspect::Provider => "provider",
            DiffAspect::Interface => "interface",
            DiffAspect::Plugin => "plugin",
            DiffAspect::Setting => "setting",
            DiffAspect::Config => "config",
            DiffAspect::Communicators => "communicators",
            DiffAspect::Algorithm => "algorithm",
            DiffAspect::Channels => "channels",
            DiffAspect::Bytes => "bytes",
            DiffAspect::Calls => "calls",
        }
    }

    /// Returns the aspect to sort by: calls and bytes are sorted together, and rows of nccl-tests.
    fn sort_class(self) -> DiffAspect {
        match self {
            DiffAspect::Calls => DiffAspect::Bytes,
            DiffAspect::CallTime => DiffAspect::BusBandwidth,
            other => other,
        }
    }
}

/// Value of one of the runs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum DiffValue {
    /// No value.
    Nothing,
    /// A counted number.
    Number(Measure),
    /// A printed number.
    Printed(f64),
    /// A text.
    Text(Vec<u8>),
}

impl DiffValue {
    fn as_number(&self) -> Option<f64> {
        match self {
            DiffValue::Number(measure) => Some(measure.value()),
            DiffValue::Printed(x) => Some(*x),
            DiffValue::Nothing | DiffValue::Text(_) => None,
        }
    }

    /// True if the value is nothing; a printed number may be small and rounded to 0.
    fn is_nothing(&self) -> bool {
        match self {
            DiffValue::Nothing => true,
            DiffValue::Number(measure) => measure.sum == 0,
            DiffValue::Printed(_) | DiffValue::Text(_) => false,
        }
    }

    fn to_cell(&self) -> TableCell<'static> {
        match self {
            DiffValue::Nothing => TableCell::Empty,
            DiffValue::Number(measure) => measure.cell(),
            DiffValue::Printed(x) => (*x).into(),
            DiffValue::Text(text) => text.clone().into(),
        }
    }
}

/// A change.
#[derive(Debug, Clone)]
pub struct DiffRow {
    /// Its aspect.
    pub aspect: DiffAspect,
    /// Its subject.
    pub(super) subject: Vec<u8>,
    pub(super) a: DiffValue,
    pub(super) b: DiffValue,
    /// The basis of its numbers.
    pub(super) basis: &'static str,
    /// Its size among changes of its aspect.
    pub(super) weight: f64,
}

impl DiffRow {
    /// Makes a change of texts or of presence.
    pub(super) fn new(
        aspect: DiffAspect,
        subject: impl AsRef<[u8]>,
        a: DiffValue,
        b: DiffValue,
    ) -> DiffRow {
        DiffRow {
            aspect,
            subject: subject.as_ref().to_vec(),
            a,
            b,
            basis: "",
            weight: 0.0,
        }
    }

    /// Returns `b` over `a`, if both are numbers and `a` is not 0.
    fn ratio(&self) -> Option<f64> {
        let (a, b) = (self.a.as_number()?, self.b.as_number()?);
        (a != 0.0).then_some(b / a)
    }

    fn describe_change(&self) -> &'static str {
        match (&self.a, &self.b) {
            (a, _) if a.is_nothing() => "only-b",
            (_, b) if b.is_nothing() => "only-a",
            (a, b) => match a.as_number().partial_cmp(&b.as_number()) {
                Some(Ordering::Less) if a.as_number().is_some() => "more",
                Some(Ordering::Greater) if b.as_number().is_some() => "less",
                _ => "differs",
            },
        }
    }

    fn compare_order(&self, other: &DiffRow) -> Ordering {
        let class = |row: &DiffRow| row.aspect.sort_class();
        class(self)
            .cmp(&class(other))
            .then_with(|| other.weight.total_cmp(&self.weight))
            .then_with(|| self.subject.cmp(&other.subject))
            .then_with(|| self.aspect.cmp(&other.aspect))
    }
}

/// Sorts changes by aspect, the largest first.
pub(super) fn sort_rows(rows: &mut [DiffRow]) {
    rows.sort_by(DiffRow::compare_order);
}

/// Builds the table.
pub fn build_grid(rows: &[DiffRow]) -> Grid {
    let columns = ["aspect", "subject", "a", "b", "ratio", "change", "basis"];
    let text = |text: &[u8]| match text.is_empty() {
        true => TableCell::Empty,
        false => TableCell::from(text.to_vec()),
    };
    let row = |row: &DiffRow| {
        vec![
            row.aspect.name().into(),
            text(&row.subject),
            row.a.to_cell(),
            row.b.to_cell(),
            row.ratio().into(),
            row.describe_change().into(),
            text(row.basis.as_bytes()),
        ]
    };
    Grid {
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.iter().map(row).collect(),
    }
}
