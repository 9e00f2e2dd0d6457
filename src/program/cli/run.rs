//! Runs a program: lists its inputs, makes its options and keeps its report.

use super::steps::AWK_WINDOW;
use super::{InputArgs, RowOutput, StepArgs, StepLinePosition, parse_args};
use crate::count::calls::{self, CountedCalls, Progress};
use crate::count::filtered::CountFilter;
use crate::count::groups::{self, GroupBy};
use crate::count::tally;
use crate::filter::{CallFilter, JobRankTable};
use crate::log;
use crate::log::timeline::{self, MarkerSide};
use crate::output::live_rows::{LiveBatch, LiveRows as Taker};
use crate::output::render::Sheet;
use crate::pool;
use crate::program::exit::{self, Exit};
use crate::program::live_rows::LiveRowPrinter;
use crate::report::Report;
use crate::report::progress::ByteProgressBar;
use crate::source::{self, FollowTargets, InputDifferences, InputName, expand_paths};
use crate::stages::matrix::read_job_ranks;
use anyhow::{Context, bail};
use clap::Parser;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tempfile::{TempDir, TempPath};

/// Runs a program's body on its parsed arguments and returns its exit code.
pub fn run_program<C: Parser>(
    name: &str,
    body: impl FnOnce(C) -> anyhow::Result<Exit>,
) -> ExitCode {
    exit::run_program(name, || parse_args()?.map_or(Ok(Exit::Clean), body))
}

/// A program's run: its inputs, its options and its report.
pub struct ProgramRun {
    /// The inputs.
    pub origins: Vec<InputName>,
    /// How they are read.
    pub options: calls::Options,
    /// Writes notes and warnings to stderr.
    pub report: Report,
    /// The progress bar.
    pub bar: ByteProgressBar,
    /// Which calls are wanted.
    pub filter: CallFilter,
    /// Copies of pipes, which are read twice.
    copies: Vec<TempPath>,
    /// Where the files of archives lie.
    unpacked: Vec<TempDir>,
}

impl ProgramRun {
    /// Sets a program up from its arguments.
    ///
    /// # Errors
    /// A pattern that does not compile, an input that does not exist, nothing to read.
    pub fn new(
        name: &'static str,
        input: &InputArgs,
        steps: &StepArgs,
    ) -> anyhow::Result<ProgramRun> {
        if input.files.is_empty() && io::stdin().is_terminal() {
            bail!(
                "expected a log: name a file or a folder, or use standard input (see {name} \
                   --help)"
            );
        }
        if input.follow {
            let (mut run, _) = ProgramRun::new_with_sides(name, input, steps, &[])?;
            run.origins = vec![InputName::Followed(FollowTargets::new(
                &input.files,
                &input.glob,
            ))];
            return Ok(run);
        }
        let (run, _) = ProgramRun::new_with_sides(name, input, steps, &[&input.files])?;
        Ok(run)
    }

    /// Sets a program up that needs whole logs.
    ///
    /// # Errors
    /// As [`ProgramRun::new`]; `--follow` is there.
    pub fn of_whole_logs(
        name: &'static str,
        input: &InputArgs,
        steps: &StepArgs,
    ) -> anyhow::Result<ProgramRun> {
        ProgramRun::refuse_follow(name, input)?;
        ProgramRun::new(name, input, steps)
    }

    /// Lists the inputs of another run, a file or a folder.
    ///
    /// # Errors
    /// It does not exist, or is a pipe.
    pub fn list_other_run(
        &mut self,
        path: &Path,
        input: &InputArgs,
    ) -> anyhow::Result<Vec<InputName>> {
        let found = expand_paths(std::slice::from_ref(&path.to_path_buf()), &input.glob)?;
        self.report.report_listing(&found);
        if let Some(pipe) = found.origins.iter().find(|origin| origin.is_piped()) {
            bail!("{}: expected a file or a folder, not a pipe", pipe.name());
        }
        self.unpacked.extend(found.unpacked);
        Ok(found.origins)
    }

    /// Copies pipes to temporary files (in `$TMPDIR`), for a program that reads its inputs more than
    /// once. The files are deleted when the returned paths are dropped.
    ///
    /// # Errors
    /// An input cannot be copied.
    pub fn copy_pipes_to_files(&mut self) -> anyhow::Result<Vec<TempPath>> {
        let mut copies = Vec::new();
        for origin in self.origins.iter_mut().filter(|origin| origin.is_piped()) {
            let name = origin.name();
            let failed = || format!("cannot copy {name} to a temporary file (TMPDIR names where)");
            let mut file = tempfile::NamedTempFile::new().with_context(failed)?;
            let mut bytes = origin.open_pipe_bytes()?;
            io::copy(&mut bytes, &mut file).with_context(failed)?;
            let copy = file.into_temp_path();
            *origin = InputName::Copy(copy.to_path_buf(), name);
            copies.push(copy);
        }
        Ok(copies)
    }

    /// Sets which calls are wanted. Where the ranks of the job decide, reads all inputs for these, since only
    /// logs have them in each row; faults of the inputs are reported when the calls are read. Of logs that grow,
    /// the INIT lines so far are read: nccl-steps has no ranks in its rows.
    ///
    /// # Errors
    /// The ranks of the job decide, and the inputs cannot be read twice.
    pub fn set_filter(&mut self, mut filter: CallFilter, input: &InputArgs) -> anyhow::Result<()> {
        if filter.needs_job_ranks() && input.follow {
            let now = expand_paths(&input.files, &input.glob).unwrap_or_default();
            let files = now.origins.into_iter().filter(|origin| !origin.is_piped());
            self.set_filter_ranks(&mut filter, &files.collect::<Vec<_>>());
        } else if filter.needs_job_ranks() {
            self.copies = self.copy_pipes_to_files()?;
            self.set_filter_ranks(&mut filter, &self.origins);
        }
        self.filter = filter;
        Ok(())
    }

    /// Sets the ranks of the job in a filter that needs them, as these inputs have them.
    pub fn set_filter_ranks(&self, filter: &mut CallFilter, origins: &[InputName]) {
        if filter.needs_job_ranks() {
            filter.set_job_ranks(self.read_job_ranks(origins));
        }
    }

    /// Reads the ranks of the job, as far as these inputs show them.
    pub fn read_job_ranks(&self, origins: &[InputName]) -> JobRankTable {
        let mut read = self.options.clone();
        read.window = None;
        let mut silent = Report::new("", false, true).silenced();
        let ranks = read_job_ranks(origins, &read, &mut silent, &self.bar);
        ranks.unwrap_or_default().into_table()
    }

    /// Refuses `--follow`, in a program that needs whole logs.
    ///
    /// # Errors
    /// `--follow` is there.
    pub fn refuse_follow(name: &str, input: &InputArgs) -> anyhow::Result<()> {
        if input.follow {
            bail!("--follow: {name} reads whole inputs; nccl-watch follows logs that grow");
        }
        Ok(())
    }

    /// Sets up a program that compares inputs. Lists the inputs of each of `sides` separately; a file
    /// may be in several.
    ///
    /// # Errors
    /// As [`ProgramRun::new`].
    pub fn new_with_sides(
        name: &'static str,
        input: &InputArgs,
        steps: &StepArgs,
        sides: &[&[PathBuf]],
    ) -> anyhow::Result<(ProgramRun, Vec<Vec<InputName>>)> {
        source::name_program(name);
        let mut report = Report::new(name, input.verbose, input.quiet);
        let (mut listed, mut unpacked) = (Vec::with_capacity(sides.len()), Vec::new());
        for side in sides {
            let found = expand_paths(side, &input.glob)?;
            report.report_listing(&found);
            listed.push(found.origins);
            unpacked.extend(found.unpacked);
        }
        let origins = listed.concat();
        if let Some(list) = &input.expect_inputs {
            let expected = source::read_manifest(list)?;
            report.report_differences(&InputDifferences::compare_inputs(&expected, &origins));
        }
        if origins.iter().filter(|o| o.is_stdin()).count() > 1 {
            bail!("standard input (-) can be named only once");
        }
        let marker = match (steps.compat, steps.lines.marker) {
            (Some(_), _) | (None, StepLinePosition::Start) => MarkerSide::Start,
            (None, StepLinePosition::End) => MarkerSide::End,
        };
        let options = calls::Options {
            source: source::Options {
                mmap: !input.no_mmap,
            },
            log: log::Options {
                jobs: pool::thread_count(input.jobs.map(usize::from)),
                recogniser: steps.build_recogniser()?,
                strict: input.strict,
                keep_init_lines: false,
                keep_marks: true,
            },
            timeline: timeline::Options {
                marker,
                asked: steps.is_asked(),
                // The AWK chain knows no ranks.
                by_position: steps.by_position || steps.compat.is_some(),
                printer: steps.printer,
                ..timeline::Options::default()
            },
            window: steps.window(AWK_WINDOW),
        };
        // Inputs that grow have no end, and nccl-watch names none here.
        let has_bar = !(input.quiet || input.follow || origins.is_empty());
        let bar = ByteProgressBar::new(|| total_bytes(&origins), has_bar);
        let report = report.with_bar(&bar);
        let run = ProgramRun {
            origins,
            options,
            report,
            bar,
            filter: CallFilter::default(),
            copies: Vec::new(),
            unpacked,
        };
        Ok((run, listed))
    }

    /// Counts the calls of all inputs that pass the filter by `by`. While an input grows, writes the rows that `sheet` makes of
    /// a step as soon as the step is settled, if the step is the first column. Keeps the calls of
    /// written steps if a picture `is_drawn` of them.
    ///
    /// # Errors
    /// As [`calls::count_calls`]; the filter needs a column that is not counted; the output cannot be written.
    pub fn count_calls<'o, O: Sync>(
        &mut self,
        by: &[GroupBy],
        tally: &tally::Options,
        output: &'o RowOutput,
        options: &O,
        sheet: for<'a> fn(&'a CountedCalls, &'a O) -> Sheet<'a>,
        is_drawn: bool,
    ) -> anyhow::Result<(CountedCalls, LiveRowPrinter<'o>)> {
        let mut early = LiveRowPrinter::new(output);
        let is_by_step = by.first() == Some(&GroupBy::Step) && early.is_possible();
        let filter = CountFilter::new(&self.filter, tally)?;
        let mut rows = |next: LiveBatch<CountedCalls>| {
            let next = match next {
                LiveBatch::Rows(calls) => LiveBatch::Rows(filter.keep_calls(calls).0),
                LiveBatch::Turn => LiveBatch::Turn,
            };
            early.print_next(&next, |calls| sheet(calls, options))
        };
        // The filter decides again on all calls, to count them.
        let keeps = is_drawn || !self.filter.is_empty();
        let rows = Taker::new(&mut rows).keep_all(keeps);
        let all = calls::count_calls_live(
            &self.origins,
            &self.options,
            filter.tally(),
            &mut self.report,
            &self.bar,
            is_by_step.then_some(rows),
        )?;
        let (all, part) = filter.keep_calls(all);
        part.report(&self.filter, &self.report);
        groups::note_unknown(&all, by, &self.report);
        Ok((all, early))
    }

    /// Prints the remaining notes and returns how the run ended.
    pub fn finish(&self) -> Exit {
        self.bar.finish();
        self.report.finish();
        if self.report.lacks_inputs() {
            Exit::Unread
        } else if self.report.is_damaged() {
            Exit::Damaged
        } else {
            Exit::Clean
        }
    }
}

/// Sums the bytes of all inputs; `None` if one is no file or is compressed, since its unpacked size is
/// unknown.
fn total_bytes(origins: &[InputName]) -> Option<u64> {
    origins.iter().try_fold(0_u64, |sum, origin| {
        let path = origin.path()?;
        let is_packed = path
            .extension()
            .is_some_and(|end| end == "gz" || end == "zst");
        let meta = path.metadata().ok().filter(|_| !is_packed)?;
        Some(sum.saturating_add(meta.len()))
    })
}
