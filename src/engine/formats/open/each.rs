//! All inputs of a run, each opened in its turn.

use super::{OpenInput, open_input, recognise};
use crate::error::{Error, Result};
use crate::formats::Provides;
use crate::log;
use crate::log::mend::blocks::BLOCK_REJOINER;
use crate::log::walk::LogVisitor;
use crate::pool;
use crate::report::{Report, count_phrase};
use crate::source::{self, Input, InputName};
use std::path::Path;

/// How inputs are opened.
#[derive(Debug, Clone, Copy)]
pub struct InputOpener<'o> {
    /// How bytes come in.
    pub source: source::Options,
    /// How logs are read.
    pub log: &'o log::Options,
    /// What each input must provide.
    pub needs: Provides,
    /// Inputs will be read again: see [`Input::make_rewindable`].
    pub again: bool,
    /// An input may be a record of calls. A pipe is opened in its turn, since its writer may wait until the
    /// pipe before it was read.
    pub recorded: bool,
}

impl InputOpener<'_> {
    /// Opens an input when it is its turn.
    fn open_in_turn<V>(self, origin: &InputName) -> Result<OpenInput<V>> {
        if !origin.is_piped() {
            return self.open_file(origin);
        }
        let input = Input::open(origin, self.source, BLOCK_REJOINER)?;
        let mut needs = self.needs;
        if self.recorded {
            let found = recognise::wait_for_format(&input, Provides::CALLS)?;
            if recognise::recorder_of_format(found.format).is_some() {
                needs = found.format.tells;
            }
        }
        recognise::recognise_input(origin, input, needs)
    }

    /// Opens an input that is no pipe. A record of calls may begin in the middle of a line, and is known only
    /// by more than its first bytes.
    fn open_file<V>(self, origin: &InputName) -> Result<OpenInput<V>> {
        match open_input(origin, self.source, self.needs) {
            Err(refused @ Error::Content(_)) if self.recorded => {
                let record = recognise::open_record(origin, self.source).ok().flatten();
                record.map_or(Err(refused), |(known, _)| Ok(known))
            }
            opened => opened,
        }
    }

    /// Opens an input before its turn, and walks the beginning of a log. `None` for an input that is opened
    /// in its turn: a single file, since its chunks are shared out, and a pipe, since opening one waits for
    /// its writer.
    pub(crate) fn open_ahead<V: LogVisitor + Send>(
        self,
        origin: &InputName,
        several: bool,
        new: impl Fn() -> V,
    ) -> Option<Result<OpenInput<V>>> {
        let is_file = |path: &Path| path.metadata().is_ok_and(|meta| meta.is_file());
        if !(several && self.log.jobs > 1 && origin.path().is_some_and(is_file)) {
            return None;
        }
        let known = self.open_file(origin);
        Some(known.and_then(|known| known.begin_walk(self.log, self.again, new)))
    }
}

/// Opens each input in turn and hands it to `take`. If one of several inputs cannot be read, reports it and
/// goes on. Files are opened, and logs of a few chunks walked, on all cores.
///
/// # Errors
/// The only input's, or the first if none could be read; output and strict errors at once.
pub fn for_each_input<V: LogVisitor + Send>(
    origins: &[InputName],
    opening: InputOpener<'_>,
    report: &mut Report,
    new: impl Fn() -> V + Sync,
    mut take: impl FnMut(OpenInput<V>, &mut Report) -> Result<()>,
) -> Result<()> {
    let mut outcome = InputOutcomes::new(origins);
    let several = origins.len() > 1;
    let jobs = if several { opening.log.jobs } else { 1 };
    pool::map_in_order(
        jobs,
        origins.iter(),
        |origin| (origin, opening.open_ahead(origin, several, &new)),
        |(origin, known)| {
            let known = known.unwrap_or_else(|| opening.open_in_turn(origin));
            let result = known.and_then(|known| {
                known.note_encoding(report);
                take(known, report)
            });
            outcome.add_result(origin, result, report)
        },
    )?;
    outcome.finish(report)
}

/// The outcomes of the inputs so far.
pub struct InputOutcomes {
    several: bool,
    read: u64,
    /// Files of folders were left out that would be read if they were named.
    has_records: bool,
    first: Option<Error>,
}

impl InputOutcomes {
    /// Nothing has been read yet.
    pub fn new(origins: &[InputName]) -> InputOutcomes {
        InputOutcomes {
            several: origins.len() > 1,
            read: 0,
            has_records: false,
            first: None,
        }
    }

    /// Takes the next input's result. If one of several could not be read, reports it. Skips a file of a
    /// folder that is no text.
    pub fn add_result(
        &mut self,
        origin: &InputName,
        result: Result<()>,
        report: &mut Report,
    ) -> Result<()> {
        self.has_records |= matches!(result, Err(Error::Beside { .. }));
        match result {
            Ok(()) => self.read += 1,
            Err(
                Error::Beside { name, what }
                | Error::NoText { name, what, .. }
                | Error::Unread { name, what }
                | Error::NoCalls { name, what },
            ) if origin.is_listed() => {
                report.report_skipped(&name, what);
            }
            Err(e) if !e.is_about_input() => return Err(e),
            Err(e) => {
                if self.several {
                    let (name, text) = (origin.name(), e.to_string());
                    let rest = text.strip_prefix(&name).unwrap_or(&text);
                    let parts = [": ", " is "]
                        .iter()
                        .find_map(|part| rest.strip_prefix(part));
                    report.error_of_input(&name, parts.unwrap_or(rest));
                }
                self.first.get_or_insert(e);
            }
        }
        Ok(())
    }

    /// Fails if nothing was read.
    pub fn finish(self, report: &Report) -> Result<()> {
        if self.read > 0 {
            return Ok(());
        }
        report.print_counted_messages();
        let none = |what: String| Err(Error::Content(what));
        match (self.first, report.skipped_inputs()) {
            (Some(_), _) if self.several => none("none of the inputs could be read".to_owned()),
            (Some(e), _) => Err(e),
            (None, Some(passed)) => {
                let named = match self.has_records {
                    true => format!(
                        "; name the files themselves: {} FOLDER/*",
                        source::program_name()
                    ),
                    false => String::new(),
                };
                none(format!("none of the files is a log: {passed}{named}"))
            }
            (None, None) => Ok(()),
        }
    }
}

/// Reports an input without calls.
pub fn report_no_calls(name: &str, lines: u64, report: &mut Report) {
    if lines == 0 {
        report.warn_damaged(&format!("{name}: the input is empty"));
    } else {
        report.warn_of_input(
            name,
            &format!(
                "found no NCCL calls in {}; NCCL prints them under NCCL_DEBUG=INFO \
                 NCCL_DEBUG_SUBSYS=INIT,COLL",
                count_phrase(lines, "line")
            ),
        );
    }
}
