//! The one place that runs a stage for a section of the page: it keeps the stage's table, and the page's
//! report takes over the stage's messages and outcome.

use super::{PageSection, SectionContent, SectionRows};
use crate::error::{Error, Result};
use crate::output::render::Grid;
use crate::report::Report;

/// Whether an input must have what a section shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SectionNeed {
    /// The inputs were recognised as having it: any error counts.
    Given,
    /// The inputs may lack it.
    Possible,
}

/// The sections so far.
pub(super) struct PageSections<'r> {
    /// The report of the page.
    pub(super) report: &'r mut Report,
    pub(super) list: Vec<SectionContent>,
}

impl PageSections<'_> {
    /// Runs a stage with a report of its own and adds its table; `empty` is the reason of one without rows.
    ///
    /// # Errors
    /// Damage under `--strict`.
    pub(super) fn run_stage(
        &mut self,
        of: PageSection,
        need: SectionNeed,
        empty: &str,
        stage: impl FnOnce(&mut Report) -> Result<SectionRows>,
    ) -> Result<()> {
        let mut own = Report::of_section();
        let table = stage(&mut own);
        self.end_stage(of, need, empty, table, &own)
    }

    /// Adds the table of a stage that ended, and takes over its messages and outcome. A section without rows
    /// quotes nothing: only damage counts.
    ///
    /// # Errors
    /// Damage under `--strict`.
    pub(super) fn end_stage(
        &mut self,
        of: PageSection,
        need: SectionNeed,
        empty: &str,
        table: Result<SectionRows>,
        own: &Report,
    ) -> Result<()> {
        let has_rows = table.as_ref().is_ok_and(|table| !table.is_empty());
        if has_rows || own.is_damaged() {
            self.report.absorb(of.key(), own);
        }
        let table = self.keep_reason(need, table)?;
        self.add_table(of, table, empty);
        Ok(())
    }

    /// Turns an error into the reason why a section is left out. An input that lacks something only leaves
    /// it out; any other error counts for the exit code.
    ///
    /// # Errors
    /// Damage under `--strict`.
    pub(super) fn keep_reason<T>(
        &mut self,
        need: SectionNeed,
        result: Result<T>,
    ) -> Result<Result<T, String>> {
        let error = match result {
            Ok(result) => return Ok(Ok(result)),
            Err(error @ Error::Damaged(_)) => return Err(error),
            Err(error) => error,
        };
        let is_lacking = matches!(
            error,
            Error::Content(_) | Error::NoCalls { .. } | Error::Proposed(_) | Error::Usage(_)
        );
        let text = error.to_string();
        if need == SectionNeed::Given || !is_lacking {
            self.report.error(&text);
        }
        Ok(Err(text))
    }

    /// Adds a table, or why there is none; `empty` is the reason of one without rows.
    pub(super) fn add_table(
        &mut self,
        of: PageSection,
        table: Result<SectionRows, String>,
        empty: &str,
    ) {
        let table = match table {
            Ok(table) if table.is_empty() => Err(empty.to_owned()),
            table => table,
        };
        self.list.push(SectionContent { of, table });
    }

    /// Adds a table with kept rows, or why there is none.
    pub(super) fn add_grid(&mut self, of: PageSection, grid: Result<Grid, String>, empty: &str) {
        self.add_table(of, grid.map(SectionRows::Kept), empty);
    }

    /// Leaves sections out for one reason.
    pub(super) fn leave_out(&mut self, all: &[PageSection], why: &str) {
        for &of in all {
            let table = Err(why.to_owned());
            self.list.push(SectionContent { of, table });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::render::Grid;

    /// A table with one row.
    fn one_row() -> Result<SectionRows> {
        Ok(SectionRows::Kept(Grid {
            columns: Vec::new(),
            rows: vec![Vec::new()],
        }))
    }

    #[test]
    fn a_section_never_ends_better_than_its_stage() {
        let end =
            |need, result: Result<SectionRows>, warning: Option<&str>| {
                let mut report = Report::of_section();
                let mut sections = PageSections {
                    report: &mut report,
                    list: Vec::new(),
                };
                let ended = sections.run_stage(PageSection::Skew, need, "", |own| {
                    warning.into_iter().for_each(|text| own.warn(text));
                    if warning == Some("damaged") {
                        own.error("unreadable");
                    }
                    result
                });
                let messages = report.messages();
                assert!(messages.iter().all(|message| message.severity == "error"
                || message.stage == Some("skew")));
                (ended.is_err(), report.is_damaged(), messages.len())
            };
        let lacks = || Err(Error::Content("no times".to_owned()));
        let unreadable = || Err(Error::Output(std::io::ErrorKind::Other.into()));
        let strict = || Err(Error::Damaged("a line".to_owned()));
        assert_eq!(
            end(SectionNeed::Possible, one_row(), None),
            (false, false, 0)
        );
        assert_eq!(
            end(SectionNeed::Possible, one_row(), Some("w")),
            (false, false, 1)
        );
        assert_eq!(
            end(SectionNeed::Possible, one_row(), Some("damaged")),
            (false, true, 2)
        );
        assert_eq!(end(SectionNeed::Possible, lacks(), None), (false, false, 0));
        assert_eq!(end(SectionNeed::Given, lacks(), None), (false, true, 1));
        assert_eq!(
            end(SectionNeed::Possible, unreadable(), None),
            (false, true, 1)
        );
        assert_eq!(end(SectionNeed::Possible, strict(), None), (true, false, 0));
    }
}
