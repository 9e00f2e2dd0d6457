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

mod digests;
mod gather;
pub mod html;
mod inputs;
mod job;
pub mod json;
pub mod markdown;
pub mod series;
pub mod summary;
pub mod text;

pub use gather::gather_page;

use crate::count::calls::CountedCalls;
use crate::output::render::{Grid, Sheet};
use crate::output::svg::plot::Plot;
use crate::stages::matrix::cells::TrafficMatrix;
use crate::stages::ops;
use series::StepSeries;

/// What a page shows.
#[derive(Debug, Default)]
pub struct ReportPage {
    /// The inputs' names.
    pub inputs: Vec<String>,
    /// What the job is, in the order in which it is shown: name and value.
    pub job: Vec<(&'static str, String)>,
    /// Its steps.
    pub steps: StepSeries,
    /// What is wrong.
    pub findings: Vec<PageFinding>,
    /// How findings came about: how many calls were compared, and which were not.
    pub compared: Option<String>,
    /// The settings under which a log answers more.
    pub rerun: String,
    /// The other stages' tables.
    pub parts: Vec<SectionContent>,
    /// Who sends to whom, drawn, and lines for above it.
    pub(crate) map: (Vec<String>, Option<Plot>),
}

/// A finding of nccl-check.
#[derive(Debug, Default)]
pub struct PageFinding {
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
pub struct SectionContent {
    /// Which one.
    pub of: PageSection,
    /// Its rows, or a sentence.
    pub table: Result<SectionRows, String>,
}

/// The rows of a table: there may be one for each pair of ranks, or several for each step.
#[derive(Debug)]
pub enum SectionRows {
    /// Rows that are kept.
    Kept(Grid),
    /// Calls by step, of which rows are made as they are written.
    Steps(Box<CountedCalls>),
    /// The same of a matrix.
    Pairs(TrafficMatrix),
}

impl SectionRows {
    /// The rows.
    pub fn sheet(&self) -> Sheet<'_> {
        match self {
            SectionRows::Kept(grid) => grid.into(),
            SectionRows::Steps(calls) => ops::ops_sheet(calls, &gather::by_step_options()),
            SectionRows::Pairs(matrix) => matrix.sheet(false),
        }
    }

    /// True where there is no row.
    pub fn is_empty(&self) -> bool {
        match self {
            SectionRows::Kept(grid) => grid.rows.is_empty(),
            SectionRows::Steps(calls) => calls.cells.iter_steps().next().is_none(),
            SectionRows::Pairs(matrix) => matrix.is_empty(),
        }
    }
}

/// Which table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageSection {
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

impl PageSection {
    /// All, in the order of the page.
    pub const ALL: [PageSection; 16] = [
        PageSection::Net,
        PageSection::Timing,
        PageSection::Steps,
        PageSection::StepCalls,
        PageSection::Operations,
        PageSection::Sizes,
        PageSection::Communicators,
        PageSection::Members,
        PageSection::Tuning,
        PageSection::Durations,
        PageSection::Overlap,
        PageSection::Matrix,
        PageSection::Skew,
        PageSection::Findings,
        PageSection::Questions,
        PageSection::Changes,
    ];

    /// Its key in JSON.
    pub fn key(self) -> &'static str {
        match self {
            PageSection::Net => "net",
            PageSection::Timing => "timing",
            PageSection::Steps => "steps",
            PageSection::StepCalls => "step_calls",
            PageSection::Operations => "operations",
            PageSection::Sizes => "sizes",
            PageSection::Communicators => "communicators",
            PageSection::Members => "members",
            PageSection::Tuning => "tuning",
            PageSection::Durations => "durations",
            PageSection::Overlap => "overlap",
            PageSection::Matrix => "matrix",
            PageSection::Skew => "skew",
            PageSection::Findings => "findings",
            PageSection::Questions => "questions",
            PageSection::Changes => "changes",
        }
    }

    /// The command that writes the same rows.
    pub fn command(self) -> &'static str {
        match self {
            PageSection::Net => "nccl-net",
            PageSection::Timing => "nccl-timing",
            PageSection::Steps => "nccl-timing --per-step",
            PageSection::StepCalls => "nccl-ops --by step",
            PageSection::Operations => "nccl-ops",
            PageSection::Sizes => "nccl-hist",
            PageSection::Communicators => "nccl-communicators",
            PageSection::Members => "nccl-communicators --members",
            PageSection::Tuning => "nccl-tuning",
            PageSection::Durations => "nccl-ops --time",
            PageSection::Overlap => "nccl-overlap",
            PageSection::Matrix => "nccl-matrix",
            PageSection::Skew => "nccl-skew",
            PageSection::Findings => "nccl-check",
            PageSection::Questions => "nccl-check --coverage",
            PageSection::Changes => "nccl-diff",
        }
    }

    /// Its heading.
    pub fn title(self) -> &'static str {
        match self {
            PageSection::Net => "Network, versions and settings",
            PageSection::Timing => "Step time",
            PageSection::Steps => "Time of each step",
            PageSection::StepCalls => "Calls by step",
            PageSection::Operations => "Operations",
            PageSection::Sizes => "Message sizes",
            PageSection::Communicators => "Communicators",
            PageSection::Members => "Members of communicators",
            PageSection::Tuning => "Algorithms and protocols",
            PageSection::Durations => "Durations",
            PageSection::Overlap => "Computation and communication",
            PageSection::Matrix => "Who sends to whom",
            PageSection::Skew => "Late ranks",
            PageSection::Findings => "Findings",
            PageSection::Questions => "What this log can answer",
            PageSection::Changes => "Changes",
        }
    }
}

impl ReportPage {
    /// A stage's table; `None` where there is none.
    pub fn table(&self, of: PageSection) -> Option<&SectionRows> {
        self.find_section(of)?.table.as_ref().ok()
    }

    /// A stage's rows, of those that are kept.
    pub fn grid(&self, of: PageSection) -> Option<&Grid> {
        match self.table(of)? {
            SectionRows::Kept(grid) => Some(grid),
            SectionRows::Steps(_) | SectionRows::Pairs(_) => None,
        }
    }

    /// Why a stage has no rows.
    pub fn missing_reason(&self, of: PageSection) -> Option<&str> {
        self.find_section(of)?
            .table
            .as_ref()
            .err()
            .map(String::as_str)
    }

    fn find_section(&self, of: PageSection) -> Option<&SectionContent> {
        self.parts.iter().find(|part| part.of == of)
    }

    /// How many findings are of a severity.
    pub fn count_findings(&self, severity: &str) -> usize {
        let of = |finding: &&PageFinding| finding.severity == severity;
        self.findings.iter().filter(of).count()
    }
}
