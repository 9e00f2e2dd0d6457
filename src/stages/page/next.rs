//! The commands that answer the next question about the inputs of a page.

use super::{PageSection, ReportPage};
use crate::formats::Provides;

/// A command that has rows for the inputs of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextCommand {
    /// The program and its options; the inputs come last.
    pub command: &'static str,
    /// What its rows are about.
    pub title: &'static str,
}

/// The sections with commands to list, in this order: a section that only has more detail of another
/// is left out.
const LISTED: [PageSection; 10] = [
    PageSection::Findings,
    PageSection::Timing,
    PageSection::Sizes,
    PageSection::Operations,
    PageSection::Durations,
    PageSection::Overlap,
    PageSection::Skew,
    PageSection::Communicators,
    PageSection::Net,
    PageSection::Tuning,
];

/// Decides by a page, and the parts that its inputs provide, whether a command has rows.
type Suits = fn(&ReportPage, Provides) -> bool;

/// Commands of tables that a short page does not have.
const FURTHER: [(Suits, &str, &str); 7] = [
    (
        |page, _| !page.steps.list.is_empty(),
        "nccl-steps --list",
        "Steps",
    ),
    (
        |page, _| has_calls(page),
        "nccl-comms",
        "Calls, a row for each",
    ),
    (
        |page, has| {
            has_calls(page) && has_rows(page, PageSection::Communicators)
                || has.has(Provides::ACCESSES)
        },
        "nccl-matrix",
        "Who sends to whom",
    ),
    (
        |_, has| has.has(Provides::GPU),
        "nccl-kernels",
        "Kernels of GPUs",
    ),
    (
        |_, has| has.has(Provides::PROXY),
        "nccl-proxy",
        "What network traffic waits for",
    ),
    (
        |_, has| has.has(Provides::CUDA),
        "nccl-cuda",
        "Calls of CUDA",
    ),
    (
        |page, _| page.is_benchmark || !page.steps.list.is_empty(),
        "nccl-diff OTHER",
        "What changed since another run",
    ),
];

fn has_rows(page: &ReportPage, of: PageSection) -> bool {
    page.table(of).is_some_and(|rows| !rows.is_empty())
}

fn has_calls(page: &ReportPage) -> bool {
    has_rows(page, PageSection::Operations)
}

/// Lists the commands that have rows for a page's inputs, which provide the parts `has`.
pub(super) fn list_next_commands(page: &ReportPage, has: Provides) -> Vec<NextCommand> {
    // A clean verdict has no rows; what was judged is worth a look.
    let is_judged = |of| of == PageSection::Findings && page.compared.is_some();
    let sections = LISTED
        .into_iter()
        .filter(|of| has_rows(page, *of) || is_judged(*of));
    let of_sections = sections.map(|of| (of.command(), of.title()));
    let further = FURTHER.into_iter().filter(|(suits, ..)| suits(page, has));
    of_sections
        .chain(further.map(|(_, command, title)| (command, title)))
        .map(|(command, title)| NextCommand { command, title })
        .collect()
}
