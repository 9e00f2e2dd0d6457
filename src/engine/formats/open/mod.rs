//! One way in: every input is opened here, recognised once for all stages, and refused in one sentence if it
//! does not provide what a stage needs.

mod each;
mod recognise;

pub use each::{InputOpener, InputOutcomes, for_each_input, report_no_calls};
pub use recognise::{
    RecorderKind, SortedInput, is_empty_input, is_log, open_input, open_recorded,
    open_recorded_pipe, require_log, sort_input,
};

use super::cuda::{self, CudaInput};
use super::lines::{self, RowVisitor};
use super::{
    CALL_TABLE_FORMATS, FormatReader, InputFormat, Provides, RecognisedFormat, gpu, kineto, nsys,
    ordered, stats,
};
use crate::error::{Error, Result};
use crate::log::walk::LogVisitor;
use crate::log::{self, LogState, MergedChunk, StartedLog};
use crate::members::duplicate_inputs::DuplicateInputs;
use crate::members::{MergedMembers, MergedNumbers};
use crate::report::Report;
use crate::report::account::Account;
use crate::source::Input;

/// An input of a known format that provides all that is needed.
pub struct OpenInput<V = ()> {
    input: Input,
    format: &'static InputFormat,
    reader: FormatReader,
    /// A log that a worker has begun to walk.
    begun: Option<StartedLog<V>>,
}

impl<V> OpenInput<V> {
    fn new(input: Input, found: RecognisedFormat) -> OpenInput<V> {
        OpenInput {
            input,
            format: found.format,
            reader: found.reader,
            begun: None,
        }
    }
}

impl<V> OpenInput<V> {
    /// The name in messages.
    pub fn name(&self) -> String {
        self.input.name()
    }

    /// The input itself.
    pub fn input(&self) -> &Input {
        &self.input
    }

    /// The input itself, taken out.
    pub fn into_input(self) -> Input {
        self.input
    }

    /// Returns the description of its format, with an article.
    pub fn describe_format(&self) -> &'static str {
        self.format.what
    }

    /// Returns true for a log.
    pub fn is_log(&self) -> bool {
        matches!(self.reader, FormatReader::Log)
    }

    /// Returns its recorder, if it is a record of calls.
    pub fn recorder(&self) -> Option<RecorderKind> {
        recognise::recorder_of_format(self.format)
    }

    /// Returns true if its calls are those that a recorder saw: not a log's, nor a table of calls.
    pub fn is_recorded(&self) -> bool {
        !self.is_log()
            && self.provides(Provides::CALLS)
            && !CALL_TABLE_FORMATS.contains(&self.format.name)
    }

    /// Returns true for output of `nsys stats`.
    pub fn is_stats(&self) -> bool {
        self.format.name == stats::FORMAT.name
    }

    /// Returns the parts that it provides.
    pub fn parts(&self) -> Provides {
        self.format.tells
    }

    /// Returns true if it provides all `parts`.
    pub fn provides(&self, parts: Provides) -> bool {
        self.format.tells.has(parts)
    }

    /// Reads a timeline of GPUs.
    ///
    /// # Errors
    /// It has none, or cannot be read; those of `visit`.
    pub fn read_gpu_timeline(&self, visit: &mut dyn gpu::GpuVisitor) -> Result<Account> {
        match self.format.name {
            "kineto" => kineto::read_timeline(&self.input, visit),
            "nsys" => nsys::read_timeline(&self.input, visit),
            _ => Err(Error::Content(format!(
                "{}: it has no activities of GPUs",
                self.input.name()
            ))),
        }
    }

    /// Reads an input that has sums and no calls, and returns its account; `None` for any other.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read_account_of_sums(&self) -> Result<Option<Account>> {
        Ok(match self.format.name {
            "stats" => Some(stats::read_stats(&self.input, false)?.account),
            "alnair" => match cuda::read_cuda(&self.input, &mut |_| {})? {
                CudaInput::Calls(account) | CudaInput::Sums(_, account) => Some(account),
            },
            _ => None,
        })
    }

    /// Notes how its text differs from its bytes.
    pub(crate) fn note_encoding(&self, report: &Report) {
        if self.input.is_inside() {
            let inside = "what the job printed lies inside the export and is read as a log";
            report.note_of_input(&self.name(), inside);
        }
        if self.input.is_utf16() {
            report.note_of_input(&self.name(), "the text is UTF-16; it is read as UTF-8");
        }
    }

    /// The input in a form that can be read twice, as `make` gives it: see [`Input::make_rewindable`] and
    /// [`Input::make_rewindable_spool`].
    ///
    /// # Errors
    /// A pipe cannot be copied.
    pub fn into_rewindable(self, make: fn(Input) -> Result<Input>) -> Result<OpenInput<V>> {
        if self.begun.is_some() {
            return Ok(self);
        }
        let input = make(self.input)?;
        Ok(OpenInput { input, ..self })
    }

    /// The input after its first pass of two.
    ///
    /// # Errors
    /// The copy of a pipe cannot be read.
    pub fn into_rewound(self) -> Result<OpenInput<V>> {
        let input = self.input.rewind_input()?;
        Ok(OpenInput { input, ..self })
    }

    /// The error of an input that lacks a part.
    pub fn error_without_part(&self, part: &str) -> Error {
        recognise::missing_part_error(&self.name(), self.format, part)
    }

    /// Reads an input that has a record in each line, or is read in order.
    ///
    /// # Errors
    /// As [`OpenInput::read_input`].
    pub fn read_records<R: RowVisitor + Send>(
        &self,
        options: lines::Options,
        twice: &mut DuplicateInputs,
        new: impl Fn() -> R + Sync,
        progress: impl Fn(u64),
        sink: impl FnMut(R) -> Result<()>,
    ) -> Result<Account> {
        let mut account = match self.reader {
            FormatReader::Records(records) => {
                records.read(&self.input, options, twice, new, progress, sink)
            }
            FormatReader::Ordered(reader) => {
                ordered::read_ordered(reader, &self.input, options, new, progress, sink)
            }
            FormatReader::Log | FormatReader::None => Err(self.error_without_part("rows")),
        }?;
        if account.calls == 0 && account.lines > 0 && account.remarks.is_empty() {
            let what = self.format.what;
            account
                .remarks
                .push(format!("it is {what}, and has no call of NCCL"));
        }
        account.unrecorded.is_recorded = self.is_recorded();
        Ok(account)
    }
}

impl<V: LogVisitor + RowVisitor + Send> OpenInput<V> {
    /// Reads an input of any format: gives what a stage keeps of each part to `sink`, in order. Unless the
    /// input is a log, the [`LogState`] has only the account.
    ///
    /// # Errors
    /// It cannot be read; damage under `--strict`; the sink's own.
    pub fn read_input(
        &mut self,
        options: &log::Options,
        merged: &mut MergedMembers,
        new: impl Fn() -> V + Sync,
        progress: impl Fn(u64),
        mut sink: impl FnMut(MergedChunk<'_, V>) -> Result<()>,
    ) -> Result<LogState> {
        if matches!(self.reader, FormatReader::Log) {
            return self.read_log(options, merged, new, progress, sink);
        }
        let mut twice = std::mem::take(&mut merged.twice);
        let (to, known) = (MergedNumbers::default(), &*merged);
        let account = self.read_records(options.into(), &mut twice, new, progress, |visit| {
            sink(MergedChunk {
                visit,
                to: &to,
                gap: 0,
                line: 0,
                merged: known,
                marks: (&[]).into(),
                so_far: None,
            })
        });
        merged.twice = twice;
        Ok(LogState::from_account(account?))
    }
}

impl<V: LogVisitor + Send> OpenInput<V> {
    /// Reads a log, and reports the account of its lines.
    ///
    /// # Errors
    /// As [`OpenInput::read_log`].
    pub fn read_log_reported(
        &mut self,
        options: &log::Options,
        merged: &mut MergedMembers,
        report: &mut Report,
        new: impl Fn() -> V + Sync,
        progress: impl Fn(u64),
        sink: impl FnMut(MergedChunk<'_, V>) -> Result<()>,
    ) -> Result<LogState> {
        let log = self.read_log(options, merged, new, progress, sink)?;
        report.report_input(&self.name(), &log.account);
        if log.account.lines == 0 {
            report_no_calls(&self.name(), 0, report);
        }
        Ok(log)
    }

    /// Reads a log; see [`log::read_log`].
    ///
    /// # Errors
    /// As [`OpenInput::read_input`]; the input is not a log.
    pub fn read_log(
        &mut self,
        options: &log::Options,
        merged: &mut MergedMembers,
        new: impl Fn() -> V + Sync,
        progress: impl Fn(u64),
        sink: impl FnMut(MergedChunk<'_, V>) -> Result<()>,
    ) -> Result<LogState> {
        if !matches!(self.reader, FormatReader::Log) {
            return Err(self.error_without_part("log lines"));
        }
        match self.begun.take() {
            Some(begun) => {
                log::continue_log(&self.input, begun, options, merged, new, progress, sink)
            }
            None => log::read_log(&self.input, options, merged, new, progress, sink),
        }
    }

    /// Walks a log as far as a worker does before the log's turn.
    fn begin_walk(
        mut self,
        options: &log::Options,
        again: bool,
        new: impl Fn() -> V,
    ) -> Result<Self> {
        if matches!(self.reader, FormatReader::Log) {
            if again {
                self = self.into_rewindable(Input::make_rewindable)?;
            }
            self.begun = Some(log::begin_log(&self.input, options, new)?);
        }
        Ok(self)
    }
}
