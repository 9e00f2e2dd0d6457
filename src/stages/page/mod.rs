//! nccl-report: one page about a job, made of what the other stages find.
//!
//! Nothing is counted here. Every table is another stage's, as that stage's program writes it, and every
//! number of the page is out of one of them. A log is walked once: nccl-check's walk keeps what
//! nccl-communicators, nccl-net, nccl-tuning and nccl-timing need too, and counts calls as nccl-ops and
//! nccl-hist do.
//!
//! | | |
//! |---|---|
//! | `inputs` | which stage reads which input |
//! | `gather` | the stages' tables |
//! | `job` | the job in a few words |
//! | `lists` | operations, communicators and changes, as the page lists them |
//! | [`series`] | the steps, the outliers among them, and what is drawn of them |
//! | [`text`], [`markdown`], [`json`], [`html`] | the page in each form |
//! | [`summary`] | the page as one row |

mod gather;
pub mod html;
mod inputs;
mod job;
pub mod json;
mod lists;
pub mod markdown;
pub mod series;
pub mod summary;
pub mod text;

pub use gather::gather;

use crate::count::calls::Calls;
use crate::output::render::{Grid, Sheet};
use crate::output::svg::plot::Plot;
use crate::stages::matrix::cells::Matrix;
use crate::stages::ops;
use series::Steps;

/// What a page shows.
#[derive(Debug, Default)]
pub struct Page {
    /// The inputs' names.
    pub inputs: Vec<String>,
    /// What the job is, in the order in which it is shown: name and value.
    pub job: Vec<(&'static str, String)>,
    /// Its steps.
    pub steps: Steps,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// How findings came about: how many calls were compared, and which were not.
    pub compared: Option<String>,
    /// The settings under which a log answers more.
    pub rerun: String,
    /// The other stages' tables.
    pub parts: Vec<Part>,
    /// Who sends to whom, drawn, and lines for above it.
    pub(crate) map: (Vec<String>, Option<Plot>),
}

/// A finding of nccl-check.
#[derive(Debug, Default)]
pub struct Finding {
    /// `error`, `warning` or `note`.
    pub severity: &'static str,
    /// The stable word.
    pub id: &'static str,
    /// One sentence.
    pub says: String,
    /// The step it is about.
    pub step: Option<u64>,
    /// How sure it is, and why.
    pub sure: String,
    /// What to do.
    pub advice: String,
    /// Where the lines are that show it, and the lines.
    pub lines: Vec<(String, String)>,
}

/// A table of another stage, or why there is none.
#[derive(Debug)]
pub struct Part {
    /// Which one.
    pub of: Of,
    /// Its rows, or a sentence.
    pub table: Result<Table, String>,
}

/// The rows of a table: there may be one for each pair of ranks, or several for each step.
#[derive(Debug)]
pub enum Table {
    /// Rows that are kept.
    Kept(Grid),
    /// Calls by step, of which rows are made as they are written.
    Steps(Box<Calls>),
    /// The same of a matrix.
    Pairs(Matrix),
}

impl Table {
    /// The rows.
    pub fn sheet(&self) -> Sheet<'_> {
        match self {
            Table::Kept(grid) => grid.into(),
            Table::Steps(calls) => ops::sheet(calls, &gather::by_step()),
            Table::Pairs(matrix) => matrix.sheet(false),
        }
    }

    /// True where there is no row.
    pub fn is_empty(&self) -> bool {
        match self {
            Table::Kept(grid) => grid.rows.is_empty(),
            Table::Steps(calls) => calls.cells.steps().next().is_none(),
            Table::Pairs(matrix) => matrix.is_empty(),
        }
    }
}

/// Which table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Facts of the network, versions and settings.
    Net,
    /// Step time and TFLOP/s in all.
    Timing,
    /// The same by step.
    Steps,
    /// Calls and bytes by step.
    StepCalls,
    /// Calls by operation.
    Operations,
    /// Calls by operation and size.
    Sizes,
    /// Communicators.
    Communicators,
    /// Their members.
    Members,
    /// Algorithms and protocols.
    Tuning,
    /// Durations by operation.
    Durations,
    /// Computation and communication of GPUs.
    Overlap,
    /// Who sends to whom.
    Matrix,
    /// How late ranks come.
    Skew,
    /// Findings.
    Findings,
    /// What the log can answer.
    Questions,
    /// What changed against another run.
    Changes,
}

impl Of {
    /// All, in the order of the page.
    pub const ALL: [Of; 16] = [
        Of::Net,
        Of::Timing,
        Of::Steps,
        Of::StepCalls,
        Of::Operations,
        Of::Sizes,
        Of::Communicators,
        Of::Members,
        Of::Tuning,
        Of::Durations,
        Of::Overlap,
        Of::Matrix,
        Of::Skew,
        Of::Findings,
        Of::Questions,
        Of::Changes,
    ];

    /// Its key in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Of::Net => "net",
            Of::Timing => "timing",
            Of::Steps => "steps",
            Of::StepCalls => "step_calls",
            Of::Operations => "operations",
            Of::Sizes => "sizes",
            Of::Communicators => "communicators",
            Of::Members => "members",
            Of::Tuning => "tuning",
            Of::Durations => "durations",
            Of::Overlap => "overlap",
            Of::Matrix => "matrix",
            Of::Skew => "skew",
            Of::Findings => "findings",
            Of::Questions => "questions",
            Of::Changes => "changes",
        }
    }

    /// The command that writes the same rows.
    pub fn command(self) -> &'static str {
        match self {
            Of::Net => "nccl-net",
            Of::Timing => "nccl-timing",
            Of::Steps => "nccl-timing --per-step",
            Of::StepCalls => "nccl-ops --by step",
            Of::Operations => "nccl-ops",
            Of::Sizes => "nccl-hist",
            Of::Communicators => "nccl-communicators",
            Of::Members => "nccl-communicators --members",
            Of::Tuning => "nccl-tuning",
            Of::Durations => "nccl-ops --time",
            Of::Overlap => "nccl-overlap",
            Of::Matrix => "nccl-matrix",
            Of::Skew => "nccl-skew",
            Of::Findings => "nccl-check",
            Of::Questions => "nccl-check --coverage",
            Of::Changes => "nccl-diff",
        }
    }

    /// Its heading.
    pub fn title(self) -> &'static str {
        match self {
            Of::Net => "Network, versions and settings",
            Of::Timing => "Step time",
            Of::Steps => "Time of each step",
            Of::StepCalls => "Calls by step",
            Of::Operations => "Operations",
            Of::Sizes => "Message sizes",
            Of::Communicators => "Communicators",
            Of::Members => "Members of communicators",
            Of::Tuning => "Algorithms and protocols",
            Of::Durations => "Durations",
            Of::Overlap => "Computation and communication",
            Of::Matrix => "Who sends to whom",
            Of::Skew => "Late ranks",
            Of::Findings => "Findings",
            Of::Questions => "What this log can answer",
            Of::Changes => "Changes",
        }
    }
}

impl Page {
    /// A stage's table; `None` where there is none.
    pub fn table(&self, of: Of) -> Option<&Table> {
        self.part(of)?.table.as_ref().ok()
    }

    /// A stage's rows, of those that are kept.
    pub fn grid(&self, of: Of) -> Option<&Grid> {
        match self.table(of)? {
            Table::Kept(grid) => Some(grid),
            Table::Steps(_) | Table::Pairs(_) => None,
        }
    }

    /// Why a stage has no rows.
    pub fn missing(&self, of: Of) -> Option<&str> {
        self.part(of)?.table.as_ref().err().map(String::as_str)
    }

    fn part(&self, of: Of) -> Option<&Part> {
        self.parts.iter().find(|part| part.of == of)
    }

    /// How many findings are of a severity.
    pub fn count(&self, severity: &str) -> usize {
        let of = |finding: &&Finding| finding.severity == severity;
        self.findings.iter().filter(of).count()
    }
}
