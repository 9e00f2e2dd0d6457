//! A change: what, what it was, what it is.

use super::measure::Measure;
use crate::output::render::{Cell, Grid};
use std::cmp::Ordering;

/// What a change is about, in the order of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aspect {
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

impl Aspect {
    /// The word in the table.
    pub fn name(self) -> &'static str {
        match self {
            Aspect::StepTime => "step_time_s",
            Aspect::Tflops => "tflops_per_gpu",
            Aspect::Job => "job",
            Aspect::Version => "version",
            Aspect::Network => "network",
            Aspect::Transport => "transport",
            Aspect::GpuDirect => "gpudirect",
            Aspect::Pxn => "pxn",
            Aspect::Rails => "rails",
            Aspect::Nvls => "nvls",
            Aspect::Mnnvl => "mnnvl",
            Aspect::Nic => "nic",
            Aspect::NicUsed => "nic_used",
            Aspect::Provider => "provider",
            Aspect::Interface => "interface",
            Aspect::Plugin => "plugin",
            Aspect::Setting => "setting",
            Aspect::Config => "config",
            Aspect::Communicators => "communicators",
            Aspect::Algorithm => "algorithm",
            Aspect::Channels => "channels",
            Aspect::Bytes => "bytes",
            Aspect::Calls => "calls",
        }
    }

    /// Calls and bytes are together.
    fn class(self) -> Aspect {
        match self {
            Aspect::Calls => Aspect::Bytes,
            other => other,
        }
    }
}

/// What one of the runs has.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// Nothing of it.
    Nothing,
    /// So much of it.
    Number(Measure),
    /// So much of it, as printed.
    Printed(f64),
    /// This.
    Text(Vec<u8>),
}

impl Value {
    fn number(&self) -> Option<f64> {
        match self {
            Value::Number(measure) => Some(measure.value()),
            Value::Printed(x) => Some(*x),
            Value::Nothing | Value::Text(_) => None,
        }
    }

    /// True where there is none of it; what is printed may be a small number that was rounded.
    fn is_nothing(&self) -> bool {
        match self {
            Value::Nothing => true,
            Value::Number(measure) => measure.sum == 0,
            Value::Printed(_) | Value::Text(_) => false,
        }
    }

    fn cell(&self) -> Cell<'static> {
        match self {
            Value::Nothing => Cell::Empty,
            Value::Number(measure) => measure.cell(),
            Value::Printed(x) => (*x).into(),
            Value::Text(text) => text.clone().into(),
        }
    }
}

/// A change.
#[derive(Debug, Clone)]
pub struct Row {
    /// What it is about.
    pub aspect: Aspect,
    /// Which of those.
    pub(super) subject: Vec<u8>,
    pub(super) a: Value,
    pub(super) b: Value,
    /// What the numbers are of.
    pub(super) basis: &'static str,
    /// How large it is among those of its kind.
    pub(super) weight: f64,
}

impl Row {
    /// A change of words, or of what is or is not there.
    pub(super) fn new(aspect: Aspect, subject: impl AsRef<[u8]>, a: Value, b: Value) -> Row {
        Row {
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
        let (a, b) = (self.a.number()?, self.b.number()?);
        (a != 0.0).then_some(b / a)
    }

    fn change(&self) -> &'static str {
        match (&self.a, &self.b) {
            (a, _) if a.is_nothing() => "only-b",
            (_, b) if b.is_nothing() => "only-a",
            (a, b) => match a.number().partial_cmp(&b.number()) {
                Some(Ordering::Less) if a.number().is_some() => "more",
                Some(Ordering::Greater) if b.number().is_some() => "less",
                _ => "differs",
            },
        }
    }

    fn order(&self, other: &Row) -> Ordering {
        let class = |row: &Row| row.aspect.class();
        class(self)
            .cmp(&class(other))
            .then_with(|| other.weight.total_cmp(&self.weight))
            .then_with(|| self.subject.cmp(&other.subject))
            .then_with(|| self.aspect.cmp(&other.aspect))
    }
}

/// Puts changes in the order of the output: by what they are about, the largest first.
pub(super) fn sort(rows: &mut [Row]) {
    rows.sort_by(Row::order);
}

/// The changes as rows.
pub fn grid(rows: &[Row]) -> Grid {
    let columns = ["aspect", "subject", "a", "b", "ratio", "change", "basis"];
    let text = |text: &[u8]| match text.is_empty() {
        true => Cell::Empty,
        false => Cell::from(text.to_vec()),
    };
    let row = |row: &Row| {
        vec![
            row.aspect.name().into(),
            text(&row.subject),
            row.a.cell(),
            row.b.cell(),
            row.ratio().into(),
            row.change().into(),
            text(row.basis.as_bytes()),
        ]
    };
    Grid {
        columns: columns.map(str::to_owned).to_vec(),
        rows: rows.iter().map(row).collect(),
    }
}
