//! A change: what, what it was, what it is.

use super::measure::Measure;
use crate::output::render::{Grid, TableCell};
use std::cmp::Ordering;

/// What a change is about, in the order of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiffAspect {
    /// Seconds of a step.
    StepTime,
    /// TFLOP/s per GPU.
    Tflops,
    /// Hosts, processes, the trainer.
    Job,
    /// A version.
    Version,
    /// The network.
    Network,
    /// What connections go over.
    Transport,
    /// Whether the network reaches the GPUs' memory.
    GpuDirect,
    /// Whether GPUs use other GPUs' NICs.
    Pxn,
    /// Whether NICs of one number talk to each other.
    Rails,
    /// How far the NVLink switches are used.
    Nvls,
    /// NVLink between nodes.
    Mnnvl,
    /// NICs.
    Nic,
    /// The NICs that connections use.
    NicUsed,
    /// What aws-ofi-nccl found.
    Provider,
    /// The interface for what is not data.
    Interface,
    /// A plugin.
    Plugin,
    /// `NCCL_*`.
    Setting,
    /// The program's `ncclConfig_t`.
    Config,
    /// How many communicators of a kind.
    Communicators,
    /// What serves an operation and size.
    Algorithm,
    /// On how many channels.
    Channels,
    /// Bytes.
    Bytes,
    /// Calls.
    Calls,
}

impl DiffAspect {
    /// The word in the table.
    pub fn name(self) -> &'static str {
        match self {
            DiffAspect::StepTime => "step_time_s",
            DiffAspect::Tflops => "tflops_per_gpu",
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

    /// Calls and bytes are together.
    fn sort_class(self) -> DiffAspect {
        match self {
            DiffAspect::Calls => DiffAspect::Bytes,
            other => other,
        }
    }
}

/// What one of the runs has.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum DiffValue {
    /// Nothing of it.
    Nothing,
    /// So much of it.
    Number(Measure),
    /// So much of it, as printed.
    Printed(f64),
    /// This.
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

    /// True where there is none of it; what is printed may be a small number that was rounded.
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
    /// What it is about.
    pub aspect: DiffAspect,
    /// Which of those.
    pub(super) subject: Vec<u8>,
    pub(super) a: DiffValue,
    pub(super) b: DiffValue,
    /// What the numbers are of.
    pub(super) basis: &'static str,
    /// How large it is among those of its kind.
    pub(super) weight: f64,
}

impl DiffRow {
    /// A change of words, or of what is or is not there.
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

    /// `b` over `a`, where both are numbers and `a` is something.
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

/// Puts changes in the order of the output: by what they are about, the largest first.
pub(super) fn sort_rows(rows: &mut [DiffRow]) {
    rows.sort_by(DiffRow::compare_order);
}

/// The changes as rows.
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
