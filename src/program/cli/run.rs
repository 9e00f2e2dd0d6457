//! A program's run: its inputs opened, its options made, its report kept.

use super::{InputArgs, RowOutput, StepArgs, StepLinePosition};
use crate::count::calls::{self, CountedCalls, Progress};
use crate::count::groups::{self, GroupBy};
use crate::count::tally;
use crate::log;
use crate::log::timeline::{self, MarkerSide, StepWindow};
use crate::output::live_rows::{LiveBatch, LiveRows as Taker};
use crate::output::render::Sheet;
use crate::pool;
use crate::program::exit::Exit;
use crate::program::live_rows::LiveRowPrinter;
use crate::report::Report;
use crate::report::progress::ByteProgressBar;
use crate::source::{self, FollowTargets, InputName, expand_paths};
use anyhow::{Context, bail};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

/// A program's run: its inputs, how they are read, and what is to be said.
pub struct ProgramRun {
    /// The inputs.
    pub origins: Vec<InputName>,
    /// How they are read.
    pub options: calls::Options,
    /// What is to be said.
    pub report: Report,
    /// What is shown meanwhile.
    pub bar: ByteProgressBar,
}

impl ProgramRun {
    /// Sets a program up from its arguments. `compat` is the window that `--compat` means.
    ///
    /// # Errors
    /// A pattern that does not compile, an input that does not exist, nothing to read.
    pub fn new(
        name: &'static str,
        input: &InputArgs,
        steps: &StepArgs,
        compat: StepWindow,
    ) -> anyhow::Result<ProgramRun> {
        if input.files.is_empty() && io::stdin().is_terminal() {
            bail!(
                "expected a log: name a file or a folder, or use standard input (see {name} \
                   --help)"
            );
        }
        if input.follow {
            let (mut run, _) = ProgramRun::new_with_sides(name, input, steps, compat, &[])?;
            run.origins = vec![InputName::Followed(FollowTargets::new(
                &input.files,
                &input.glob,
            ))];
            return Ok(run);
        }
        let (run, _) = ProgramRun::new_with_sides(name, input, steps, compat, &[&input.files])?;
        Ok(run)
    }

    /// The inputs of another run, a file or a folder.
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
        Ok(found.origins)
    }

    /// Copies what can be read only once to temporary files (in `$TMPDIR`), where a program reads its
    /// inputs more than once. The files go with what is given back.
    ///
    /// # Errors
    /// An input cannot be copied.
    pub fn copy_pipes_to_files(&mut self) -> anyhow::Result<Vec<tempfile::TempPath>> {
        let mut copies = Vec::new();
        for origin in self.origins.iter_mut().filter(|origin| origin.is_piped()) {
            let name = origin.name();
            let failed = || format!("cannot copy {name} to a temporary file (TMPDIR names where)");
            let mut file = tempfile::NamedTempFile::new().with_context(failed)?;
            match origin.path() {
                Some(path) => io::copy(&mut std::fs::File::open(path)?, &mut file),
                None => io::copy(&mut io::stdin().lock(), &mut file),
            }
            .with_context(failed)?;
            let copy = file.into_temp_path();
            *origin = InputName::Copy(copy.to_path_buf(), name);
            copies.push(copy);
        }
        Ok(copies)
    }

    /// Refuses `--follow`, in a program that needs whole logs.
    ///
    /// # Errors
    /// It is there.
    pub fn refuse_follow(name: &str, input: &InputArgs) -> anyhow::Result<()> {
        if input.follow {
            bail!("--follow: {name} compares whole logs; nccl-watch follows logs that grow");
        }
        Ok(())
    }

    /// The same for a program that holds inputs against each other: those of each of `sides` are
    /// listed by themselves, in one a file may be that is in another too.
    ///
    /// # Errors
    /// As [`ProgramRun::new`].
    pub fn new_with_sides(
        name: &'static str,
        input: &InputArgs,
        steps: &StepArgs,
        compat: StepWindow,
        sides: &[&[PathBuf]],
    ) -> anyhow::Result<(ProgramRun, Vec<Vec<InputName>>)> {
        source::name_program(name);
        let mut report = Report::new(name, input.verbose, input.quiet);
        let mut listed = Vec::with_capacity(sides.len());
        for side in sides {
            let found = expand_paths(side, &input.glob)?;
            report.report_listing(&found);
            listed.push(found.origins);
        }
        let origins = listed.concat();
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
            window: steps.window(compat),
        };
        let bar = ByteProgressBar::new(|| total_bytes(&origins), !input.quiet);
        let report = report.with_bar(&bar);
        let run = ProgramRun {
            origins,
            options,
            report,
            bar,
        };
        Ok((run, listed))
    }

    /// Counts the calls of all inputs by `by`. Of one that is still being written the rows of a step,
    /// as `sheet` makes them, are written as soon as it is settled, if steps come first in them; those of
    /// what `is_drawn` are needed again.
    ///
    /// # Errors
    /// As [`calls::count_calls`]; the output cannot be written.
    pub fn count_calls<'o, O: Sync>(
        &mut self,
        by: &[GroupBy],
        tally: &tally::Options,
        output: &'o RowOutput,
        (options, sheet, is_drawn): (&O, for<'a> fn(&'a CountedCalls, &'a O) -> Sheet<'a>, bool),
    ) -> anyhow::Result<(CountedCalls, LiveRowPrinter<'o>)> {
        let mut early = LiveRowPrinter::new(output);
        let is_by_step = by.first() == Some(&GroupBy::Step) && early.is_possible();
        let mut rows =
            |next: LiveBatch<CountedCalls>| early.print_next(&next, |calls| sheet(calls, options));
        let rows = Taker::new(&mut rows).keep_all(is_drawn);
        let all = calls::count_calls_live(
            &self.origins,
            &self.options,
            tally,
            &mut self.report,
            &self.bar,
            is_by_step.then_some(rows),
        )?;
        groups::note_unknown(&all, by, &self.report);
        Ok((all, early))
    }

    /// Says what is left to say; how the run ended.
    pub fn finish(&self) -> Exit {
        self.bar.finish();
        self.report.finish();
        if self.report.is_damaged() {
            Exit::Damaged
        } else {
            Exit::Clean
        }
    }
}

/// Bytes of all inputs, if all are files, and none is packed: how much comes out of it is not known before.
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
