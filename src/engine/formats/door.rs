//! The door: every input is opened here, recognised once, and refused in one sentence where it does
//! not tell what a stage needs.

use super::lines::{self, Rows};
use super::{
    Format, Head, Reader, Tells, binary, cuda, gpu, inspector, kineto, nsys, ordered, profiler,
    recognise, snoopie,
};
use crate::error::{Error, Result};
use crate::log::mend::blocks::REJOIN;
use crate::log::walk::Visit;
use crate::log::{self, Begun, Log, Part};
use crate::members::twice::Twice;
use crate::members::{Merged, Renumbered};
use crate::pool;
use crate::report::account::Account;
use crate::report::{Report, counted};
use crate::source::{self, Input, Origin};
use std::io::Read;
use std::path::Path;

/// An input whose format is known, and tells what is needed.
pub struct Known<V = ()> {
    input: Input,
    format: &'static Format,
    reader: Reader,
    /// A log that a worker has begun to walk.
    begun: Option<Begun<V>>,
}

/// Opens an input, which must tell what a stage `needs`.
///
/// # Errors
/// It cannot be read, or does not tell that.
pub fn open<V>(origin: &Origin, source: source::Options, needs: Tells) -> Result<Known<V>> {
    named(origin, Input::open(origin, source, REJOIN)?, needs)
}

/// The same of an input that is open.
fn named<V>(origin: &Origin, input: Input, needs: Tells) -> Result<Known<V>> {
    let is_by_step = needs.has(Tells::BY_STEP);
    let needs = needs.without(Tells::BY_STEP);
    let head = input.head()?;
    let name = || input.name();
    if origin.is_listed() && head.is_empty() {
        let (name, what) = (name(), "empty");
        return Err(Error::NoText { name, what });
    }
    let (mut format, mut reader) = recognise(&Head::of(&head), needs);
    let is_empty = head.is_empty();
    // A few letters in a file of any name are read as a log is, but are none.
    let is_log = matches!(reader, Reader::Log);
    if is_log && !is_empty && !input.is_utf16() && log::is_other(&Head::of(&head)) {
        format = &log::OTHER;
    }
    drop(head);
    // Where a database has many tables, their names are not in its first bytes.
    let is_database = format.what == binary::SQLITE.what && input.is_rewindable();
    if is_database && nsys::is_export(&input) {
        (format, reader) = (&nsys::FORMAT, Reader::Ordered(nsys::read));
    }
    // Nobody named it: it lies in the folder of a job's logs. It has the log's calls once more, or not
    // what is needed.
    let is_accessed = format.tells.has(Tells::ACCESSES) && !needs.has(Tells::ACCESSES);
    let is_beside = origin.is_listed()
        && match reader {
            // Accesses of kernels are no calls of NCCL.
            _ if is_accessed => needs != Tells::NOTHING,
            Reader::Ordered(_) => {
                let own = [Tells::PROXY, Tells::GPU, Tells::CUDA, Tells::ACCESSES];
                let is_wanted = own.iter().any(|part| needs.has(*part));
                !is_wanted && needs != Tells::NOTHING
            }
            _ => format.tells.has(Tells::RECORDED) && !format.tells.has(needs),
        };
    // Beside records of the same calls they would be counted twice.
    let is_means = format.name == inspector::METRICS.name;
    let is_unwanted = is_means && (origin.is_listed() || !format.tells.has(needs));
    if matches!(reader, Reader::None) || is_beside || is_unwanted {
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
    if format.name == nsys::FORMAT.name && needs != Tells::NOTHING && log::FORMAT.tells.has(needs) {
        let has_parts = format.tells.has(needs) && !is_by_step;
        // A pipe cannot be looked into first.
        let is_looked_into = !has_parts || input.is_rewindable();
        if is_looked_into && let Some(input) = nsys::log(&input, has_parts)? {
            let (format, reader) = (&log::FORMAT, Reader::Log);
            return Ok(Known {
                input,
                format,
                reader,
                begun: None,
            });
        }
    }
    match format.tells.lacks(needs) {
        Some(_) if is_empty => Err(Error::Content(format!("{} is empty", name()))),
        Some(part) => Err(refused(&name(), format, part)),
        None => Ok(Known {
            input,
            format,
            reader,
            begun: None,
        }),
    }
}

/// The error of an input that lacks a part.
fn refused(name: &str, format: &Format, part: &str) -> Error {
    let has = match part {
        Tells::OF_PROXY => profiler::FORMAT.what,
        Tells::OF_CUDA => cuda::TIMELINE.what,
        Tells::OF_ACCESSES => snoopie::LOG.what,
        Tells::OF_GPU => "an Nsight Systems export, or a trace of torch.profiler,",
        _ => log::FORMAT.what,
    };
    Error::Content(format!(
        "{name} is {}: it has no {part}; {has} has them",
        format.what
    ))
}

/// What recorded calls beside a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorder {
    /// PyTorch's flight recorder.
    Flight,
    /// NCCL Inspector, or NCCL's profiler plugin.
    Nccl,
}

/// Opens a file that is a record of calls; `None` for anything else, which is then opened as what it is.
pub fn recorded(origin: &Origin, source: source::Options) -> Option<(Known, Recorder)> {
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
    let input = Input::open(origin, source, REJOIN).ok()?;
    let head = input.head().ok()?;
    let (format, reader) = recognise(&Head::of(&head), Tells::CALLS);
    drop(head);
    let known = Known {
        input,
        format,
        reader,
        begun: None,
    };
    let recorder = known.recorder()?;
    Some((known, recorder))
}

fn recorder(format: &Format) -> Option<Recorder> {
    match format.name {
        "flight" => Some(Recorder::Flight),
        "inspector" | "profiler" => Some(Recorder::Nccl),
        _ => None,
    }
}

/// True where a small file that begins with `head` is a log.
pub fn is_log(head: &[u8]) -> bool {
    matches!(recognise(&Head::of(head), Tells::CALLS).1, Reader::Log)
}

impl<V> Known<V> {
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
    pub fn what(&self) -> &'static str {
        self.format.what
    }

    /// True for a log.
    pub fn is_log(&self) -> bool {
        matches!(self.reader, Reader::Log)
    }

    /// What recorded it, where it is a record of calls.
    pub fn recorder(&self) -> Option<Recorder> {
        recorder(self.format)
    }

    /// True for what `nsys stats` prints.
    pub fn is_stats(&self) -> bool {
        self.format.name == super::stats::FORMAT.name
    }

    /// True where it tells `parts`.
    pub fn tells(&self, parts: Tells) -> bool {
        self.format.tells.has(parts)
    }

    /// Reads a timeline of GPUs.
    ///
    /// # Errors
    /// It has none, or cannot be read; what `visit` says.
    pub fn gpu(&self, visit: &mut dyn gpu::Visit) -> Result<Account> {
        match self.format.name {
            "kineto" => kineto::timeline(&self.input, visit),
            "nsys" => nsys::timeline(&self.input, visit),
            _ => Err(Error::Content(format!(
                "{}: it has no activities of GPUs",
                self.input.name()
            ))),
        }
    }

    /// Says in what its bytes are not its text.
    pub(crate) fn note(&self, report: &Report) {
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

    /// The same input in a form that can be read twice: see [`Input::rewindable`].
    ///
    /// # Errors
    /// A pipe cannot be copied.
    pub fn rewindable(self) -> Result<Known<V>> {
        if self.begun.is_some() {
            return Ok(self);
        }
        let input = self.input.rewindable()?;
        Ok(Known { input, ..self })
    }

    /// The same; of a pipe's copy lines may be let go: see [`Input::rewindable_thin`].
    ///
    /// # Errors
    /// A pipe cannot be copied.
    pub fn rewindable_thin(self) -> Result<Known<V>> {
        if self.begun.is_some() {
            return Ok(self);
        }
        let input = self.input.rewindable_thin()?;
        Ok(Known { input, ..self })
    }

    /// The same input after its first pass, where it is read twice.
    ///
    /// # Errors
    /// The copy of a pipe cannot be read.
    pub fn rewound(self) -> Result<Known<V>> {
        let input = self.input.rewound()?;
        Ok(Known { input, ..self })
    }

    /// The error of an input that lacks a part.
    pub fn refused(&self, part: &str) -> Error {
        refused(&self.name(), self.format, part)
    }

    /// Reads an input that is a record a line, or is read in order.
    ///
    /// # Errors
    /// As [`Known::read`].
    pub fn records<R: Rows + Send>(
        &self,
        options: lines::Options,
        twice: &mut Twice,
        new: impl Fn() -> R + Sync,
        progress: impl Fn(u64),
        sink: impl FnMut(R) -> Result<()>,
    ) -> Result<Account> {
        match self.reader {
            Reader::Records(records) => {
                records.read(&self.input, options, twice, new, progress, sink)
            }
            Reader::Ordered(reader) => {
                ordered::read(reader, &self.input, options, new, progress, sink)
            }
            Reader::Log | Reader::None => Err(self.refused("rows")),
        }
    }
}

impl<V: Visit + Rows + Send> Known<V> {
    /// Reads it, whatever it is: gives what a stage keeps of each part to `sink`, in order. Of one
    /// that is no log the [`Log`] has the account alone.
    ///
    /// # Errors
    /// It cannot be read; damage under `--strict`; the sink's own.
    pub fn read(
        &mut self,
        options: &log::Options,
        merged: &mut Merged,
        new: impl Fn() -> V + Sync,
        progress: impl Fn(u64),
        mut sink: impl FnMut(Part<'_, V>) -> Result<()>,
    ) -> Result<Log> {
        if matches!(self.reader, Reader::Log) {
            return self.log(options, merged, new, progress, sink);
        }
        let mut twice = std::mem::take(&mut merged.twice);
        let (to, known) = (Renumbered::default(), &*merged);
        let account = self.records(options.into(), &mut twice, new, progress, |visit| {
            sink(Part {
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
        Ok(Log::of_records(account?))
    }
}

impl<V: Visit + Send> Known<V> {
    /// Reads a log, and says what became of its lines.
    ///
    /// # Errors
    /// As [`Known::log`].
    pub fn told(
        &mut self,
        options: &log::Options,
        merged: &mut Merged,
        report: &mut Report,
        new: impl Fn() -> V + Sync,
        progress: impl Fn(u64),
        sink: impl FnMut(Part<'_, V>) -> Result<()>,
    ) -> Result<Log> {
        let log = self.log(options, merged, new, progress, sink)?;
        report.input(&self.name(), &log.account);
        if log.account.lines == 0 {
            no_calls(&self.name(), 0, report);
        }
        Ok(log)
    }

    /// Reads a log; see [`log::read`].
    ///
    /// # Errors
    /// As [`Known::read`], and it is none.
    pub fn log(
        &mut self,
        options: &log::Options,
        merged: &mut Merged,
        new: impl Fn() -> V + Sync,
        progress: impl Fn(u64),
        sink: impl FnMut(Part<'_, V>) -> Result<()>,
    ) -> Result<Log> {
        if !matches!(self.reader, Reader::Log) {
            return Err(self.refused("log lines"));
        }
        match self.begun.take() {
            Some(begun) => log::read_on(&self.input, begun, options, merged, new, progress, sink),
            None => log::read(&self.input, options, merged, new, progress, sink),
        }
    }

    /// The same, walked as far as a worker walks a log before it is its turn.
    fn begin(mut self, options: &log::Options, again: bool, new: impl Fn() -> V) -> Result<Self> {
        if matches!(self.reader, Reader::Log) {
            if again {
                self = self.rewindable()?;
            }
            self.begun = Some(log::begin(&self.input, options, new)?);
        }
        Ok(self)
    }
}

/// How inputs are opened.
#[derive(Debug, Clone, Copy)]
pub struct Opening<'o> {
    /// How bytes come in.
    pub source: source::Options,
    /// How logs are read.
    pub log: &'o log::Options,
    /// What each input must tell.
    pub needs: Tells,
    /// Inputs will be read again: see [`Known::rewindable`].
    pub again: bool,
    /// A pipe may be a record of calls: it cannot be looked into before it is its turn.
    pub recorded: bool,
}

impl Opening<'_> {
    /// Opens an input when it is its turn.
    fn open<V>(self, origin: &Origin) -> Result<Known<V>> {
        let input = Input::open(origin, self.source, REJOIN)?;
        let mut needs = self.needs;
        if self.recorded && origin.is_piped() {
            let (format, _) = recognise(&Head::of(&input.head()?), Tells::CALLS);
            if recorder(format).is_some() {
                needs = Tells::CALLS;
            }
        }
        named(origin, input, needs)
    }

    /// Opens an input before it is its turn, and walks a log as far as that is done then. `None` for
    /// what is opened in turn: one file's chunks are shared out, and to open a pipe waits for its
    /// writer.
    pub(crate) fn ahead<V: Visit + Send>(
        self,
        origin: &Origin,
        several: bool,
        new: impl Fn() -> V,
    ) -> Option<Result<Known<V>>> {
        let is_file = |path: &Path| path.metadata().is_ok_and(|meta| meta.is_file());
        if !(several && self.log.jobs > 1 && origin.path().is_some_and(is_file)) {
            return None;
        }
        let known = open(origin, self.source, self.needs);
        Some(known.and_then(|known| known.begin(self.log, self.again, new)))
    }
}

/// Opens each input in turn and hands it to `take`. One of several that cannot be opened or
/// read is said and passed over. Files are opened, and logs of a few chunks walked, on all cores.
///
/// # Errors
/// The only input's, or the first where none could be read; output and strict errors at once.
pub fn each<V: Visit + Send>(
    origins: &[Origin],
    opening: Opening<'_>,
    report: &mut Report,
    new: impl Fn() -> V + Sync,
    mut take: impl FnMut(Known<V>, &mut Report) -> Result<()>,
) -> Result<()> {
    let mut outcome = Outcome::of(origins);
    let several = origins.len() > 1;
    let jobs = if several { opening.log.jobs } else { 1 };
    pool::ordered(
        jobs,
        origins.iter(),
        |origin| (origin, opening.ahead(origin, several, &new)),
        |(origin, known)| {
            let known = known.unwrap_or_else(|| opening.open(origin));
            let result = known.and_then(|known| {
                known.note(report);
                take(known, report)
            });
            outcome.add(origin, result, report)
        },
    )?;
    outcome.end(report)
}

/// What became of the inputs so far.
pub struct Outcome {
    several: bool,
    read: u64,
    first: Option<Error>,
}

impl Outcome {
    /// Nothing has been read yet.
    pub fn of(origins: &[Origin]) -> Outcome {
        Outcome {
            several: origins.len() > 1,
            read: 0,
            first: None,
        }
    }

    /// Takes in the next input's result. One of several that could not be read is said; what is
    /// no text is passed over where nobody named it.
    pub fn add(&mut self, origin: &Origin, result: Result<()>, report: &mut Report) -> Result<()> {
        match result {
            Ok(()) => self.read += 1,
            Err(
                Error::NoText { name, what }
                | Error::Unread { name, what }
                | Error::NoCalls { name, what },
            ) if origin.is_listed() => {
                report.pass(&name, what);
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
    pub fn end(self, report: &Report) -> Result<()> {
        if self.read > 0 {
            return Ok(());
        }
        let none = |what: String| Err(Error::Content(what));
        match (self.first, report.passed()) {
            (Some(_), _) if self.several => none("none of the inputs could be read".to_owned()),
            (Some(e), _) => Err(e),
            (None, Some(passed)) => none(format!("none of the files is a log: {passed}")),
            (None, None) => Ok(()),
        }
    }
}

/// Says what an input without calls lacks.
pub fn no_calls(name: &str, lines: u64, report: &mut Report) {
    if lines == 0 {
        report.error(&format!("{name}: the input is empty"));
    } else {
        report.warn(&format!(
            "{name}: found no NCCL calls in {}; NCCL prints them under NCCL_DEBUG=INFO \
             NCCL_DEBUG_SUBSYS=INIT,COLL",
            counted(lines, "line")
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
            let origin = Origin::Path(path.clone());
            let input = Input::open(&origin, source::Options::default(), REJOIN).unwrap();
            let head = input.head().unwrap();
            for cut in [0, 1, 40, 128, 300, 1023, 5000] {
                let rest = head.get(cut..).unwrap_or_default();
                let (format, reader) = recognise(&Head::of(rest), Tells::CALLS);
                let what = format.what;
                if !matches!(reader, Reader::Log) {
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
            let part = csv.tells.lacks(needs)?;
            Some(refused("calls.csv", csv, part).to_string())
        };
        assert_eq!(error(Tells::CALLS.and(Tells::STEPS)), None);
        let text = "calls.csv is a call table: it has no step lines; an NCCL log has them";
        assert_eq!(error(Tells::STEP_LINES).as_deref(), Some(text));
    }
}
