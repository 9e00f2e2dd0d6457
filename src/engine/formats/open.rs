//! The door: every input is opened here, recognised once, and refused in one sentence where it does
//! not tell what a stage needs.

use super::lines::{self, RowVisitor};
use super::{
    FormatReader, InputFormat, InputHead, Provides, binary, cuda, gpu, inspector, kineto, nsys,
    ordered, profiler, recognise_format, snoopie,
};
use crate::error::{Error, Result};
use crate::log::mend::blocks::BLOCK_REJOINER;
use crate::log::walk::LogVisitor;
use crate::log::{self, LogState, MergedChunk, StartedLog};
use crate::members::duplicate_inputs::DuplicateInputs;
use crate::members::{MergedMembers, MergedNumbers};
use crate::pool;
use crate::report::account::Account;
use crate::report::{Report, count_phrase};
use crate::source::{self, Input, InputName};
use std::io::Read;
use std::path::Path;

/// An input whose format is known, and tells what is needed.
pub struct OpenInput<V = ()> {
    input: Input,
    format: &'static InputFormat,
    reader: FormatReader,
    /// A log that a worker has begun to walk.
    begun: Option<StartedLog<V>>,
}

/// Opens an input, which must tell what a stage `needs`.
///
/// # Errors
/// It cannot be read, or does not tell that.
pub fn open_input<V>(
    origin: &InputName,
    source: source::Options,
    needs: Provides,
) -> Result<OpenInput<V>> {
    recognise_input(origin, Input::open(origin, source, BLOCK_REJOINER)?, needs)
}

/// The same of an input that is open.
fn recognise_input<V>(origin: &InputName, input: Input, needs: Provides) -> Result<OpenInput<V>> {
    let is_by_step = needs.has(Provides::BY_STEP);
    let needs = needs.without(Provides::BY_STEP);
    let head = input.read_head()?;
    let name = || input.name();
    if origin.is_listed() && head.is_empty() {
        let (name, what) = (name(), "empty");
        return Err(Error::NoText { name, what });
    }
    let (mut format, mut reader) = recognise_format(&InputHead::from_bytes(&head), needs);
    let is_empty = head.is_empty();
    // A few letters in a file of any name are read as a log is, but are none.
    let is_log = matches!(reader, FormatReader::Log);
    if is_log && !is_empty && !input.is_utf16() && log::is_other(&InputHead::from_bytes(&head)) {
        format = &log::PLAIN_TEXT_FORMAT;
    }
    drop(head);
    // Where a database has many tables, their names are not in its first bytes.
    let is_database = format.what == binary::SQLITE.what && input.is_rewindable();
    if is_database && nsys::is_export(&input) {
        (format, reader) = (&nsys::FORMAT, FormatReader::Ordered(nsys::read_calls));
    }
    // Nobody named it: it lies in the folder of a job's logs. It has the log's calls once more, or not
    // what is needed.
    let is_accessed = format.tells.has(Provides::ACCESSES) && !needs.has(Provides::ACCESSES);
    let is_beside = origin.is_listed()
        && match reader {
            // Accesses of kernels are no calls of NCCL.
            _ if is_accessed => needs != Provides::NOTHING,
            FormatReader::Ordered(_) => {
                let own = [
                    Provides::PROXY,
                    Provides::GPU,
                    Provides::CUDA,
                    Provides::ACCESSES,
                ];
                let is_wanted = own.iter().any(|part| needs.has(*part));
                !is_wanted && needs != Provides::NOTHING
            }
            _ => format.tells.has(Provides::RECORDED) && !format.tells.has(needs),
        };
    // Beside records of the same calls they would be counted twice.
    let is_means = format.name == inspector::METRICS.name;
    let is_unwanted = is_means && (origin.is_listed() || !format.tells.has(needs));
    if matches!(reader, FormatReader::None) || is_beside || is_unwanted {
        let (name, what) = (name(), format.what);
        return Err(match format.name {
            "report" if !origin.is_listed() => Error::Content(format!(
                "{name} is {what}: it must be exported first, with nsys export --type sqlite \
                 --include-blobs=true {name}"
            )),
            "" => Error::NoText { name, what },
            _ if is_means => Error::NoCalls { name, what },
            _ => Error::Unread { name, what },
        });
    }
    if format.name == nsys::FORMAT.name
        && needs != Provides::NOTHING
        && log::FORMAT.tells.has(needs)
    {
        let has_parts = format.tells.has(needs) && !is_by_step;
        // A pipe cannot be looked into first.
        let is_looked_into = !has_parts || input.is_rewindable();
        if is_looked_into && let Some(input) = nsys::extract_log(&input, has_parts)? {
            let (format, reader) = (&log::FORMAT, FormatReader::Log);
            return Ok(OpenInput {
                input,
                format,
                reader,
                begun: None,
            });
        }
    }
    match format.tells.first_missing(needs) {
        Some(_) if is_empty => Err(Error::Content(format!("{} is empty", name()))),
        Some(part) => Err(missing_part_error(&name(), format, part)),
        None => Ok(OpenInput {
            input,
            format,
            reader,
            begun: None,
        }),
    }
}

/// The error of an input that lacks a part.
fn missing_part_error(name: &str, format: &InputFormat, part: &str) -> Error {
    let has = match part {
        Provides::PROXY_PART_NAME => profiler::FORMAT.what,
        Provides::CUDA_PART_NAME => cuda::TIMELINE.what,
        Provides::ACCESSES_PART_NAME => snoopie::LOG.what,
        Provides::GPU_PART_NAME => "an Nsight Systems export, or a trace of torch.profiler,",
        _ => log::FORMAT.what,
    };
    Error::Content(format!(
        "{name} is {}: it has no {part}; {has} has them",
        format.what
    ))
}

/// What recorded calls beside a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecorderKind {
    /// PyTorch's flight recorder.
    Flight,
    /// NCCL Inspector, or NCCL's profiler plugin.
    Nccl,
}

/// Opens a file that is a record of calls; `None` for anything else, which is then opened as what it is.
pub fn open_recorded(
    origin: &InputName,
    source: source::Options,
) -> Option<(OpenInput, RecorderKind)> {
    let path = origin.path()?;
    if !path.metadata().is_ok_and(|meta| meta.is_file()) {
        return None;
    }
    // Of ten thousand logs only the first bytes are read here.
    let mut first = [0; 4];
    let mut file = std::fs::File::open(path).ok()?;
    let n = file.read(&mut first).ok()?;
    let begins = |with: &[u8]| first[..n].starts_with(with);
    let is_packed = begins(b"\x1f\x8b") || begins(b"\x28\xb5\x2f\xfd");
    let is_pickle = begins(b"\x80") || begins(b"(dp0") || begins(b"}q");
    let text = first[..n].trim_ascii_start();
    if !is_packed && !is_pickle && !matches!(text, [b'{' | b'[', ..] | []) {
        return None;
    }
    let input = Input::open(origin, source, BLOCK_REJOINER).ok()?;
    let head = input.read_head().ok()?;
    let (format, reader) = recognise_format(&InputHead::from_bytes(&head), Provides::CALLS);
    drop(head);
    let known = OpenInput {
        input,
        format,
        reader,
        begun: None,
    };
    let recorder = known.recorder()?;
    Some((known, recorder))
}

fn recorder_of_format(format: &InputFormat) -> Option<RecorderKind> {
    match format.name {
        "flight" => Some(RecorderKind::Flight),
        "inspector" | "profiler" => Some(RecorderKind::Nccl),
        _ => None,
    }
}

/// True where a small file that begins with `head` is a log.
pub fn is_log(head: &[u8]) -> bool {
    matches!(
        recognise_format(&InputHead::from_bytes(head), Provides::CALLS).1,
        FormatReader::Log
    )
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

    /// The same.
    pub fn into_input(self) -> Input {
        self.input
    }

    /// What it is, with its article.
    pub fn describe_format(&self) -> &'static str {
        self.format.what
    }

    /// True for a log.
    pub fn is_log(&self) -> bool {
        matches!(self.reader, FormatReader::Log)
    }

    /// What recorded it, where it is a record of calls.
    pub fn recorder(&self) -> Option<RecorderKind> {
        recorder_of_format(self.format)
    }

    /// True for what `nsys stats` prints.
    pub fn is_stats(&self) -> bool {
        self.format.name == super::stats::FORMAT.name
    }

    /// True where it tells `parts`.
    pub fn provides(&self, parts: Provides) -> bool {
        self.format.tells.has(parts)
    }

    /// Reads a timeline of GPUs.
    ///
    /// # Errors
    /// It has none, or cannot be read; what `visit` says.
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

    /// Says in what its bytes are not its text.
    pub(crate) fn note_encoding(&self, report: &Report) {
        if self.input.is_inside() {
            report.note(&format!(
                "{}: what the job printed lies inside the export and is read as a log",
                self.name()
            ));
        }
        if self.input.is_utf16() {
            report.note(&format!(
                "{}: the text is UTF-16; it is read as UTF-8",
                self.name()
            ));
        }
    }

    /// The same input in a form that can be read twice: see [`Input::make_rewindable`].
    ///
    /// # Errors
    /// A pipe cannot be copied.
    pub fn into_rewindable(self) -> Result<OpenInput<V>> {
        if self.begun.is_some() {
            return Ok(self);
        }
        let input = self.input.make_rewindable()?;
        Ok(OpenInput { input, ..self })
    }

    /// The same; of a pipe's copy lines may be let go: see [`Input::make_rewindable_spool`].
    ///
    /// # Errors
    /// A pipe cannot be copied.
    pub fn into_rewindable_spool(self) -> Result<OpenInput<V>> {
        if self.begun.is_some() {
            return Ok(self);
        }
        let input = self.input.make_rewindable_spool()?;
        Ok(OpenInput { input, ..self })
    }

    /// The same input after its first pass, where it is read twice.
    ///
    /// # Errors
    /// The copy of a pipe cannot be read.
    pub fn into_rewound(self) -> Result<OpenInput<V>> {
        let input = self.input.rewind_input()?;
        Ok(OpenInput { input, ..self })
    }

    /// The error of an input that lacks a part.
    pub fn error_without_part(&self, part: &str) -> Error {
        missing_part_error(&self.name(), self.format, part)
    }

    /// Reads an input that is a record a line, or is read in order.
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
        match self.reader {
            FormatReader::Records(records) => {
                records.read(&self.input, options, twice, new, progress, sink)
            }
            FormatReader::Ordered(reader) => {
                ordered::read_ordered(reader, &self.input, options, new, progress, sink)
            }
            FormatReader::Log | FormatReader::None => Err(self.error_without_part("rows")),
        }
    }
}

impl<V: LogVisitor + RowVisitor + Send> OpenInput<V> {
    /// Reads it, whatever it is: gives what a stage keeps of each part to `sink`, in order. Of one
    /// that is no log the [`LogState`] has the account alone.
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
    /// Reads a log, and says what became of its lines.
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
    /// As [`OpenInput::read_input`], and it is none.
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

    /// The same, walked as far as a worker walks a log before it is its turn.
    fn begin_walk(
        mut self,
        options: &log::Options,
        again: bool,
        new: impl Fn() -> V,
    ) -> Result<Self> {
        if matches!(self.reader, FormatReader::Log) {
            if again {
                self = self.into_rewindable()?;
            }
            self.begun = Some(log::begin_log(&self.input, options, new)?);
        }
        Ok(self)
    }
}

/// How inputs are opened.
#[derive(Debug, Clone, Copy)]
pub struct InputOpener<'o> {
    /// How bytes come in.
    pub source: source::Options,
    /// How logs are read.
    pub log: &'o log::Options,
    /// What each input must tell.
    pub needs: Provides,
    /// Inputs will be read again: see [`Input::make_rewindable`].
    pub again: bool,
    /// A pipe may be a record of calls: it cannot be looked into before it is its turn.
    pub recorded: bool,
}

impl InputOpener<'_> {
    /// Opens an input when it is its turn.
    fn open_in_turn<V>(self, origin: &InputName) -> Result<OpenInput<V>> {
        let input = Input::open(origin, self.source, BLOCK_REJOINER)?;
        let mut needs = self.needs;
        if self.recorded && origin.is_piped() {
            let (format, _) =
                recognise_format(&InputHead::from_bytes(&input.read_head()?), Provides::CALLS);
            if recorder_of_format(format).is_some() {
                needs = Provides::CALLS;
            }
        }
        recognise_input(origin, input, needs)
    }

    /// Opens an input before it is its turn, and walks a log as far as that is done then. `None` for
    /// what is opened in turn: one file's chunks are shared out, and to open a pipe waits for its
    /// writer.
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
        let known = open_input(origin, self.source, self.needs);
        Some(known.and_then(|known| known.begin_walk(self.log, self.again, new)))
    }
}

/// Opens each input in turn and hands it to `take`. One of several that cannot be opened or
/// read is said and passed over. Files are opened, and logs of a few chunks walked, on all cores.
///
/// # Errors
/// The only input's, or the first where none could be read; output and strict errors at once.
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

/// What became of the inputs so far.
pub struct InputOutcomes {
    several: bool,
    read: u64,
    first: Option<Error>,
}

impl InputOutcomes {
    /// Nothing has been read yet.
    pub fn new(origins: &[InputName]) -> InputOutcomes {
        InputOutcomes {
            several: origins.len() > 1,
            read: 0,
            first: None,
        }
    }

    /// Takes in the next input's result. One of several that could not be read is said; what is
    /// no text is passed over where nobody named it.
    pub fn add_result(
        &mut self,
        origin: &InputName,
        result: Result<()>,
        report: &mut Report,
    ) -> Result<()> {
        match result {
            Ok(()) => self.read += 1,
            Err(
                Error::NoText { name, what }
                | Error::Unread { name, what }
                | Error::NoCalls { name, what },
            ) if origin.is_listed() => {
                report.report_skipped(&name, what);
            }
            Err(e @ (Error::Output(_) | Error::Damaged(_) | Error::Usage(_))) => return Err(e),
            Err(e) => {
                if self.several {
                    report.error(&e.to_string());
                }
                self.first.get_or_insert(e);
            }
        }
        Ok(())
    }

    /// Why nothing was read, if nothing was.
    pub fn finish(self, report: &Report) -> Result<()> {
        if self.read > 0 {
            return Ok(());
        }
        let none = |what: String| Err(Error::Content(what));
        match (self.first, report.skipped_inputs()) {
            (Some(_), _) if self.several => none("none of the inputs could be read".to_owned()),
            (Some(e), _) => Err(e),
            (None, Some(passed)) => none(format!("none of the files is a log: {passed}")),
            (None, None) => Ok(()),
        }
    }
}

/// Says what an input without calls lacks.
pub fn report_no_calls(name: &str, lines: u64, report: &mut Report) {
    if lines == 0 {
        report.error(&format!("{name}: the input is empty"));
    } else {
        report.warn(&format!(
            "{name}: found no NCCL calls in {}; NCCL prints them under NCCL_DEBUG=INFO \
             NCCL_DEBUG_SUBSYS=INIT,COLL",
            count_phrase(lines, "line")
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    /// The files below `path`, but for what describes them.
    fn files(path: &Path, all: &mut Vec<PathBuf>) {
        let Ok(entries) = std::fs::read_dir(path) else {
            println!("skipped: {} is not at hand", path.display());
            return;
        };
        for path in entries.map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_str().unwrap();
            let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
            let begins = |begins: &[&str]| begins.iter().any(|begin| name.starts_with(begin));
            let is_other = ends(&[".json", ".json.gz", ".csv.gz", ".sqlite.gz", ".pkl.gz", ".tar.zst"])
                || ends(&[".py", ".c", ".tsv", "README.md"])
                || begins(&["nccl_trace_rank_", "times.", "trace_", "vm-pid"])
                // What the chain prints is a table.
                || name.ends_with("2-comm_analyzer.out");
            if path.is_dir() {
                if !begins(&[
                    "inspector",
                    "expect",
                    "flight",
                    "profiler",
                    "cuda",
                    "snoopie",
                ]) {
                    files(&path, all);
                }
            } else if !is_other {
                all.push(path);
            }
        }
    }

    #[test]
    fn no_log_is_refused_wherever_it_is_cut() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut all = Vec::new();
        files(&here.join("../../testdata"), &mut all);
        for folder in ["wild", "nccl-logs", "jobs", "gpu", "trainers", "awk-chain"] {
            if let Some(folder) = crate::shared::data(folder) {
                files(&folder, &mut all);
            }
        }
        assert!(all.len() > 100);
        let mut refused = Vec::new();
        for path in all {
            let origin = InputName::Path(path.clone());
            let input = Input::open(&origin, source::Options::default(), BLOCK_REJOINER).unwrap();
            let head = input.read_head().unwrap();
            for cut in [0, 1, 40, 128, 300, 1023, 5000] {
                let rest = head.get(cut..).unwrap_or_default();
                let (format, reader) =
                    recognise_format(&InputHead::from_bytes(rest), Provides::CALLS);
                let what = format.what;
                if !matches!(reader, FormatReader::Log) {
                    refused.push(format!("{}: {what} from {cut}", path.display()));
                }
            }
        }
        assert!(refused.is_empty(), "{refused:#?}");
    }

    #[test]
    fn what_is_lacking_is_named() {
        let error = |needs| {
            let csv = &super::super::rows::CSV;
            let part = csv.tells.first_missing(needs)?;
            Some(missing_part_error("calls.csv", csv, part).to_string())
        };
        assert_eq!(error(Provides::CALLS.and(Provides::STEPS)), None);
        let text = "calls.csv is a call table: it has no step lines; an NCCL log has them";
        assert_eq!(error(Provides::STEP_LINES).as_deref(), Some(text));
    }
}
