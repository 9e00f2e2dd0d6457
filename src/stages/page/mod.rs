//! nccl-report: one page about a job, made of the tables of other stages.
//!
//! The page counts nothing itself: each table is another stage's, as that stage's program writes it. A log
//! is walked once: nccl-check's walk also gathers for nccl-communicators, nccl-net, nccl-tuning,
//! nccl-timing, nccl-ops and nccl-hist.
//!
//! | | |
//! |---|---|
//! | `inputs` | which stage reads which input |
//! | `gather` | runs the stages |
//! | `walked` | takes the tables of nccl-check's walk |
//! | `sections` | keeps their tables, messages and outcomes |
//! | `job` | the job in a few words |
//! | `next` | the commands that answer the next question |
//! | `digests` | operations, communicators and changes, as the page lists them |
//! | `limits` | how much a page shows |
//! | `last_calls` | the last calls of the ranks beside each other |
//! | [`series`] | the steps, the outliers among them, and their plot |
//! | [`text`], [`markdown`], [`json`], [`html`] | the page in each form |
//! | [`summary`] | the page as one row |

mod digests;
mod gather;
pub mod html;
mod inputs;
mod job;
pub mod json;
pub mod last_calls;
pub mod limits;
pub mod markdown;
mod next;
mod sections;
pub mod series;
pub mod summary;
pub mod text;
mod walked;

pub use gather::{PageOrder, gather_page};
pub use next::NextCommand;

use crate::count::calls::CountedCalls;
use crate::output::render::{Grid, Sheet};
use crate::report::{ReportMessage, count_phrase};
use crate::stages::check::answer::headline::JobAnswer;
use crate::stages::check::wording::group_alike;
use crate::stages::matrix::cells::TrafficMatrix;
use crate::stages::ops;
use last_calls::LastCalls;
use series::StepSeries;
use std::any::Any;

/// The content of a page.
#[derive(Debug, Default)]
pub struct ReportPage {
    /// The inputs' names.
    pub inputs: Vec<String>,
    /// Names and values of the job, in the order in which they are shown.
    pub job: Vec<(&'static str, String)>,
    /// Its steps.
    pub steps: StepSeries,
    /// The findings.
    pub findings: Vec<PageFinding>,
    /// How many calls were compared, and why others were not.
    pub compared: Option<String>,
    /// The verdict where there is no error and no warning: well only in what was judged.
    pub verdict: &'static str,
    /// The answer in one sentence with the next command.
    pub answer: JobAnswer,
    /// What was judged.
    pub judged: Vec<String>,
    /// The settings for a log that answers more questions.
    pub rerun: String,
    /// The commands that answer the next question.
    pub next: Vec<NextCommand>,
    /// An input is a table of nccl-tests.
    is_benchmark: bool,
    /// The other stages' tables.
    pub parts: Vec<SectionContent>,
    /// Messages of the stages; `stage` is the key of a section ([`PageSection::key`]).
    pub caveats: Vec<ReportMessage>,
    /// The last calls of the ranks, if there are several, on a page with plots.
    pub last_calls: Option<LastCalls>,
    /// The rest of the walk. A program that ends after the page need not free it, which takes as long as to write the page.
    rest: Option<Box<dyn Any + Send + Sync>>,
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
    /// Its confidence, and why.
    pub sure: String,
    /// The advice.
    pub advice: String,
    /// The lines of evidence: place and text.
    pub lines: Vec<(String, String)>,
}

impl ReportPage {
    /// Describes the inputs and the findings in a line.
    pub(super) fn headline(&self) -> String {
        let (inputs, found) = self.describe_inputs();
        format!("{inputs}: {found}")
    }

    /// Describes the inputs, and the findings.
    pub(super) fn describe_inputs(&self) -> (String, String) {
        let inputs = match &self.inputs[..] {
            [] => "no input".to_owned(),
            [one] => one.clone(),
            [first, rest @ ..] => match common_folder(&self.inputs) {
                Some(folder) => {
                    let files = count_phrase(self.inputs.len() as u64, "file");
                    format!("{folder}, {files}")
                }
                None => format!(
                    "{first} and {}",
                    count_phrase(rest.len() as u64, "other input")
                ),
            },
        };
        let of = |severity, thing| match self.count_findings(severity) {
            0 => None,
            n => Some(count_phrase(n as u64, thing)),
        };
        let found: Vec<_> = [of("error", "error"), of("warning", "warning")]
            .into_iter()
            .flatten()
            .collect();
        let found = match (self.compared.is_some(), found.is_empty()) {
            (false, _) => "not judged".to_owned(),
            (true, true) => self.verdict.to_owned(),
            (true, false) => found.join(", "),
        };
        let unread = self.warnings().filter(|c| c.severity == "error").count();
        let found = match unread {
            0 => found,
            n => format!("{found} ({} not read)", count_phrase(n as u64, "input")),
        };
        (inputs, found)
    }

    /// The findings by severity and kind, in the order of the first of each.
    pub(crate) fn finding_groups(&self) -> Vec<Vec<&PageFinding>> {
        group_alike(&self.findings, |finding| (finding.severity, finding.id))
    }
}

/// Returns the deepest folder that all inputs are in, unless that is the root.
fn common_folder(inputs: &[String]) -> Option<&str> {
    let folder = |name: &'_ String| name.rfind('/').unwrap_or(0);
    let first = inputs.first()?;
    let mut end = folder(first);
    while inputs.iter().any(|name| !name.starts_with(&first[..=end])) {
        end = first[..end].rfind('/')?;
    }
    Some(&first[..end]).filter(|folder| !folder.is_empty())
}

/// A section of the page.
#[derive(Debug)]
pub struct SectionContent {
    /// Its kind.
    pub of: PageSection,
    /// Its rows, or why there are none.
    pub table: Result<SectionRows, String>,
}

/// The rows of a table. Tables with a row for each pair of ranks or several for each step can be large.
#[derive(Debug)]
pub enum SectionRows {
    /// Rows that are kept.
    Kept(Grid),
    /// Calls by step: rows are made while they are written.
    Steps(Box<CountedCalls>),
    /// A matrix: rows are made while they are written.
    Pairs(TrafficMatrix),
}

impl SectionRows {
    /// Returns the rows.
    pub fn sheet(&self) -> Sheet<'_> {
        match self {
            SectionRows::Kept(grid) => grid.into(),
            SectionRows::Steps(calls) => ops::ops_sheet(calls, &gather::by_step_options()),
            SectionRows::Pairs(matrix) => matrix.sheet(false),
        }
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        match self {
            SectionRows::Kept(grid) => grid.rows.is_empty(),
            SectionRows::Steps(calls) => calls.cells.iter_steps().next().is_none(),
            SectionRows::Pairs(matrix) => matrix.is_empty(),
        }
    }
}

/// Kinds of sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageSection {
    /// Facts of the network, versions and settings.
    Net,
    /// Step time and TFLOP/s over all steps.
    Timing,
    /// Step time and TFLOP/s by step.
    Steps,
    /// Calls and bytes by step.
    StepCalls,
    /// Calls by operation.
    Operations,
    /// Calls by operation and size.
    Sizes,
    /// Communicators.
    Communicators,
    /// Members of communicators.
    Members,
    /// Algorithms and protocols.
    Tuning,
    /// Durations by operation.
    Durations,
    /// Computation and communication of GPUs.
    Overlap,
    /// Traffic between ranks.
    Matrix,
    /// Lateness of ranks.
    Skew,
    /// Findings.
    Findings,
    /// Questions that the log can answer.
    Questions,
    /// Changes against another run.
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

    /// Its key in JSON, the command that writes its rows, and its heading.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            PageSection::Net => ("net", "nccl-net", "Network, versions and settings"),
            PageSection::Timing => ("timing", "nccl-timing", "Step time"),
            PageSection::Steps => ("steps", "nccl-timing --per-step", "Time of each step"),
            PageSection::StepCalls => ("step_calls", "nccl-ops --by step", "Calls by step"),
            PageSection::Operations => ("operations", "nccl-ops", "Operations"),
            PageSection::Sizes => ("sizes", "nccl-hist", "Message sizes"),
            PageSection::Communicators => ("communicators", "nccl-communicators", "Communicators"),
            PageSection::Members => (
                "members",
                "nccl-communicators --members",
                "Members of communicators",
            ),
            PageSection::Tuning => ("tuning", "nccl-tuning", "Algorithms and protocols"),
            PageSection::Durations => ("durations", "nccl-ops --time", "Durations"),
            PageSection::Overlap => ("overlap", "nccl-overlap", "Computation and communication"),
            PageSection::Matrix => ("matrix", "nccl-matrix", "Who sends to whom"),
            PageSection::Skew => ("skew", "nccl-skew", "Late ranks"),
            PageSection::Findings => ("findings", "nccl-check", "Findings"),
            PageSection::Questions => (
                "questions",
                "nccl-check --coverage",
                "What this log can answer",
            ),
            PageSection::Changes => ("changes", "nccl-diff", "Changes"),
        }
    }

    /// Its key in JSON.
    pub fn key(self) -> &'static str {
        self.names().0
    }

    /// The command that writes its rows.
    pub fn command(self) -> &'static str {
        self.names().1
    }

    /// Its heading.
    pub fn title(self) -> &'static str {
        self.names().2
    }
}

impl ReportPage {
    /// Number of the JSON object's schema: it rises if a key goes or changes its meaning.
    pub const JSON_SCHEMA: u64 = 1;

    /// Returns a section's table; `None` if it has none.
    pub fn table(&self, of: PageSection) -> Option<&SectionRows> {
        self.find_section(of)?.table.as_ref().ok()
    }

    /// Returns a section's rows if they are kept.
    pub fn grid(&self, of: PageSection) -> Option<&Grid> {
        match self.table(of)? {
            SectionRows::Kept(grid) => Some(grid),
            SectionRows::Steps(_) | SectionRows::Pairs(_) => None,
        }
    }

    /// Returns why a section has no rows.
    pub fn missing_reason(&self, of: PageSection) -> Option<&str> {
        let table = self.find_section(of)?.table.as_ref();
        table.err().map(String::as_str)
    }

    fn find_section(&self, of: PageSection) -> Option<&SectionContent> {
        self.parts.iter().find(|part| part.of == of)
    }

    /// Counts the findings of a severity.
    pub fn count_findings(&self, severity: &str) -> usize {
        let of = |finding: &&PageFinding| finding.severity == severity;
        self.findings.iter().filter(of).count()
    }

    /// The messages about a section, or about the inputs in general.
    fn caveats_of(&self, of: Option<PageSection>) -> impl Iterator<Item = &ReportMessage> {
        let stage = of.map(PageSection::key);
        self.caveats.iter().filter(move |c| c.stage == stage)
    }

    /// The warnings and errors of all stages.
    fn warnings(&self) -> impl Iterator<Item = &ReportMessage> {
        self.caveats.iter().filter(|c| c.severity != "note")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_of_one_folder_are_named_by_it() {
        let name = |inputs: &[&str]| {
            let inputs = inputs.iter().map(|&name| name.to_owned()).collect();
            let page = ReportPage {
                inputs,
                ..ReportPage::default()
            };
            page.describe_inputs().0
        };
        assert_eq!(name(&["job/a.log"]), "job/a.log");
        assert_eq!(name(&["job/a.log", "job/b.log"]), "job, 2 files");
        assert_eq!(name(&["/r/job/n1/a", "/r/job/n10/a"]), "/r/job, 2 files");
        assert_eq!(name(&["/a", "/b"]), "/a and 1 other input");
        assert_eq!(name(&["a.log", "b/a.log"]), "a.log and 1 other input");
        assert_eq!(name(&["ab/x", "a/x"]), "ab/x and 1 other input");
    }
}
