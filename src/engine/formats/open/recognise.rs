//! The format of an input, decided once by its first bytes; of a pipe as many as decide it.

use super::OpenInput;
use crate::error::{Error, Result};
use crate::formats::{
    FormatReader, InputFormat, InputHead, Provides, RecognisedFormat, binary, cuda, inspector,
    nsys, profiler, recognise_format, rows, snoopie,
};
use crate::log;
use crate::log::mend::blocks::BLOCK_REJOINER;
use crate::source::{self, INPUT_HEAD_BYTES, Input, InputName};
use std::fs::File;
use std::path::Path;

/// Opens an input, which must provide the parts that a stage `needs`.
///
/// # Errors
/// It cannot be read, or does not provide that.
pub fn open_input<V>(
    origin: &InputName,
    source: source::Options,
    needs: Provides,
) -> Result<OpenInput<V>> {
    recognise_input(origin, Input::open(origin, source, BLOCK_REJOINER)?, needs)
}

/// Refuses a file that is no log.
///
/// # Errors
/// It is another record, no text, or cannot be read.
pub fn require_log(path: &Path, source: source::Options) -> Result<()> {
    let origin = InputName::Path(path.to_owned());
    let known: OpenInput = open_input(&origin, source, Provides::NOTHING)?;
    match known.is_log() {
        true => Ok(()),
        false => Err(Error::Content(format!(
            "{0}: {1}, expected a log that grows: nccl-check {0}",
            known.name(),
            known.describe_format()
        ))),
    }
}

/// Returns true for an input without a byte of text, however it comes.
pub fn is_empty_input(origin: &InputName, source: source::Options) -> bool {
    let input = Input::open(origin, source, BLOCK_REJOINER);
    input.is_ok_and(|input| input.read_head().is_ok_and(|head| head.bytes.is_empty()))
}

/// Waits until the bytes that have come decide the format.
///
/// # Errors
/// It cannot be read.
pub(super) fn wait_for_format(input: &Input, needs: Provides) -> Result<RecognisedFormat> {
    loop {
        let head = input.read_head()?;
        match recognise_format(&InputHead::from_beginning(&head), needs) {
            Some(found) => return Ok(found),
            None => input.read_more_head()?,
        }
    }
}

/// Recognises an input that is open, and refuses it if it lacks a part of `needs`.
pub(super) fn recognise_input<V>(
    origin: &InputName,
    mut input: Input,
    needs: Provides,
) -> Result<OpenInput<V>> {
    let is_by_step = needs.has(Provides::BY_STEP);
    let needs = needs.without(Provides::BY_STEP);
    let mut found = wait_for_format(&input, needs)?;
    let is_empty = input.read_head()?.bytes.is_empty();
    if origin.is_listed() && is_empty {
        let (name, what) = (input.name(), "empty");
        let advice = String::new();
        return Err(Error::NoText { name, what, advice });
    }
    if [nsys::FORMAT.what, binary::SQLITE.what].contains(&found.format.what) {
        input = input.into_file_copy()?;
    }
    // The names of a database's tables may come after its first bytes.
    if found.format.what == binary::SQLITE.what && nsys::is_export(&input) {
        found = RecognisedFormat {
            format: &nsys::FORMAT,
            reader: FormatReader::Ordered(nsys::read_calls),
        };
    }
    let is_log = matches!(found.reader, FormatReader::Log);
    if is_log && !is_empty && !input.is_utf16() {
        // A short text in any file is read as a log, but may be something else.
        let is_refused = !log::FORMAT.tells.has(needs);
        while is_refused && input.read_head()?.is_open {
            input.read_more_head()?;
        }
        if log::is_other(&InputHead::from_beginning(&input.read_head()?)) {
            found.format = &log::PLAIN_TEXT_FORMAT;
        }
    }
    if origin.is_listed()
        && found.format.name == rows::CSV.name
        && !rows::has_needed_columns(&input.read_head()?.bytes)
    {
        let (name, what) = (input.name(), "a table without calls");
        return Err(Error::NoCalls { name, what });
    }
    check_wanted(origin, found, needs)?;
    if found.format.name == nsys::FORMAT.name
        && needs != Provides::NOTHING
        && log::FORMAT.tells.has(needs)
    {
        let has_parts = found.format.tells.has(needs) && !is_by_step;
        if let Some(log) = nsys::extract_log(&input, has_parts)? {
            let found = RecognisedFormat {
                format: &log::FORMAT,
                reader: FormatReader::Log,
            };
            return Ok(OpenInput::new(log, found));
        }
    }
    match found.format.tells.first_missing(needs) {
        Some(_) if is_empty => Err(Error::Content(format!("{} is empty", input.name()))),
        Some(part) => Err(missing_part_error(&input.name(), found.format, part)),
        None => Ok(OpenInput::new(input, found)),
    }
}

/// Refuses an input that is never read, and a file of a folder that the stage does not look for.
fn check_wanted(origin: &InputName, found: RecognisedFormat, needs: Provides) -> Result<()> {
    let format = found.format;
    // Beside records of the same calls, means would be counted twice.
    let is_means = format.name == inspector::METRICS.name;
    let is_unwanted = is_means && (origin.is_listed() || !format.tells.has(needs));
    let is_beside = origin.is_listed() && is_beside_logs(found, needs);
    if !(matches!(found.reader, FormatReader::None) || is_beside || is_unwanted) {
        return Ok(());
    }
    let (name, what) = (origin.name(), format.what);
    // Reports of some versions begin with other bytes.
    let is_report_name = || origin.path().is_some_and(binary::has_report_name);
    let is_report =
        format.name == binary::REPORT.name || format.what == binary::OTHER.what && is_report_name();
    Err(match format.name {
        _ if is_report && !origin.is_listed() => Error::Content(format!(
            "{name} is {}: it must be exported first, with nsys export --type sqlite \
             --include-blobs=true {name}",
            binary::REPORT.what
        )),
        "" => {
            let file = if origin.is_piped() { "FILE" } else { &*name };
            let advice = binary::advice(format, file);
            Error::NoText { name, what, advice }
        }
        _ if is_means => Error::NoCalls { name, what },
        _ if is_beside && format.tells.has(needs) => Error::Beside { name, what },
        _ => Error::Unread { name, what },
    })
}

/// Returns true for a file in the folder of a job's logs that repeats the log's calls, or does not
/// provide the parts that the stage needs.
fn is_beside_logs(found: RecognisedFormat, needs: Provides) -> bool {
    let tells = found.format.tells;
    // Accesses of kernels are no calls of NCCL.
    if tells.has(Provides::ACCESSES) && !needs.has(Provides::ACCESSES) {
        return needs != Provides::NOTHING;
    }
    match found.reader {
        FormatReader::Ordered(_) => {
            let own = [
                Provides::PROXY,
                Provides::GPU,
                Provides::CUDA,
                Provides::ACCESSES,
                Provides::TOPOLOGY,
            ];
            let is_wanted = own.iter().any(|part| needs.has(*part));
            !is_wanted && needs != Provides::NOTHING
        }
        FormatReader::Log => false,
        FormatReader::Records(_) | FormatReader::None => !tells.has(needs),
    }
}

/// The error of an input that lacks a part.
pub(super) fn missing_part_error(name: &str, format: &InputFormat, part: &str) -> Error {
    let has = match part {
        Provides::PROXY_PART_NAME => profiler::FORMAT.what,
        Provides::CUDA_PART_NAME => cuda::TIMELINE.what,
        Provides::TOPOLOGY_PART_NAME => {
            "a file of NCCL_TOPO_DUMP_FILE, or what nvidia-smi topo -m prints,"
        }
        Provides::ACCESSES_PART_NAME => snoopie::LOG.what,
        Provides::GPU_PART_NAME => "an Nsight Systems export, or a trace of torch.profiler,",
        _ => log::FORMAT.what,
    };
    let readers = READERS.iter().find(|(parts, _)| format.tells.has(*parts));
    let other = readers.map_or(String::new(), |(_, program)| {
        format!("; {program} reads this input")
    });
    Error::Content(format!(
        "{name} is {}: it has no {part}; {has} has them{other}",
        format.what
    ))
}

/// The program that reads an input with these parts: the first whose parts it has.
const READERS: [(Provides, &str); 11] = [
    (Provides::TOPOLOGY, "nccl-net --topology"),
    (Provides::LIVE_STATE, "nccl-check"),
    (Provides::STACKS, "nccl-check"),
    (Provides::MACHINE, "nccl-check"),
    (Provides::GPU, "nccl-overlap"),
    (Provides::PROXY, "nccl-proxy"),
    (Provides::CUDA, "nccl-cuda"),
    (Provides::ACCESSES, "nccl-matrix"),
    (Provides::LINES, "nccl-check"),
    (Provides::CALLS, "nccl-hist"),
    (Provides::TIMED, "nccl-ops --time"),
];

/// The tool that recorded calls, or the state of a job, beside a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecorderKind {
    /// PyTorch's flight recorder.
    Flight,
    /// NCCL Inspector, NCCL's profiler plugin, or nccl-pipe's recorder.
    Nccl,
    /// NCCL's RAS.
    Ras,
    /// A tool that prints the stacks of processes.
    Stacks,
    /// The kernel, or a tool that reports on GPUs.
    Machine,
}

/// An input by its first bytes.
pub enum SortedInput {
    /// A log with lines of NCCL in its first bytes, and the parts that it provides.
    NcclLog(Provides),
    /// A record of calls, open.
    Record(Box<OpenInput>, RecorderKind),
    /// Anything else, or an input that its first bytes do not decide.
    Other,
}

/// Sorts an input. A pipe is [`SortedInput::Other`]: it is opened in its turn ([`open_recorded_pipe`]).
pub fn sort_input(origin: &InputName, source: source::Options) -> SortedInput {
    if !origin.is_file() {
        return SortedInput::Other;
    }
    // Only the head is read here: there may be 10,000 logs.
    if let Some(path) = origin.path() {
        let head =
            File::open(path).and_then(|mut f| source::read_first_bytes(&mut f, INPUT_HEAD_BYTES));
        let Ok(head) = head else {
            return SortedInput::Other;
        };
        if !source::is_coded(&head) && is_log(&head) {
            return match log::is_other(&InputHead::from_bytes(&head)) {
                true => SortedInput::Other,
                false => SortedInput::NcclLog(log::FORMAT.tells),
            };
        }
    }
    let record = open_record(origin, source).ok().flatten();
    record.map_or(SortedInput::Other, |(known, recorder)| {
        SortedInput::Record(Box::new(known), recorder)
    })
}

/// Opens a plain file that is a record of calls; `None` for any other input.
pub fn open_recorded(
    origin: &InputName,
    source: source::Options,
) -> Option<(OpenInput, RecorderKind)> {
    match sort_input(origin, source) {
        SortedInput::Record(known, recorder) => Some((*known, recorder)),
        SortedInput::NcclLog(_) | SortedInput::Other => None,
    }
}

/// Opens an input that is a record of calls, also if it is a pipe: waits for its first bytes. They stay
/// there for later openings.
///
/// # Errors
/// A pipe cannot be read: it has no second opening.
pub fn open_recorded_pipe(
    origin: &InputName,
    source: source::Options,
) -> Result<Option<(OpenInput, RecorderKind)>> {
    match origin {
        InputName::Stdin(_) | InputName::Pipe(..) if !origin.is_file() => {
            open_record(origin, source)
        }
        _ => Ok(open_recorded(origin, source)),
    }
}

pub(super) fn open_record<V>(
    origin: &InputName,
    source: source::Options,
) -> Result<Option<(OpenInput<V>, RecorderKind)>> {
    let input = Input::open(origin, source, BLOCK_REJOINER)?;
    let found = wait_for_format(&input, Provides::CALLS)?;
    let known = OpenInput::new(input, found);
    let recorder = known.recorder();
    Ok(recorder.map(|recorder| (known, recorder)))
}

pub(super) fn recorder_of_format(format: &InputFormat) -> Option<RecorderKind> {
    match format.name {
        "flight" => Some(RecorderKind::Flight),
        "inspector" | "profiler" | "recorder" => Some(RecorderKind::Nccl),
        "ras" => Some(RecorderKind::Ras),
        "stacks" => Some(RecorderKind::Stacks),
        "machine" => Some(RecorderKind::Machine),
        _ => None,
    }
}

/// Returns true if a small file that begins with `head` is a log.
pub fn is_log(head: &[u8]) -> bool {
    let found = recognise_format(&InputHead::from_bytes(head), Provides::CALLS);
    found.is_some_and(|found| matches!(found.reader, FormatReader::Log))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    /// Collects the files below `path` that are neither expected outputs nor other formats.
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
                    "recorder",
                    "cuda",
                    "snoopie",
                    "ras",
                    "machine",
                    "topology",
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
            let head = input.read_head().unwrap().bytes;
            for cut in [0, 1, 40, 128, 300, 1023, 5000] {
                let rest = head.get(cut..).unwrap_or_default();
                let head = InputHead::from_bytes(rest);
                let found = recognise_format(&head, Provides::CALLS).unwrap();
                let what = found.format.what;
                if !matches!(found.reader, FormatReader::Log) {
                    refused.push(format!("{}: {what} from {cut}", path.display()));
                }
            }
        }
        assert!(refused.is_empty(), "{refused:#?}");
    }

    #[test]
    fn what_is_lacking_is_named() {
        let error = |needs| {
            let csv = &rows::CSV;
            let part = csv.tells.first_missing(needs)?;
            Some(missing_part_error("calls.csv", csv, part).to_string())
        };
        assert_eq!(error(Provides::CALLS.and(Provides::STEPS)), None);
        let text = "calls.csv is a call table: it has no step lines; an NCCL log has them; nccl-hist \
                    reads this input";
        assert_eq!(error(Provides::STEP_LINES).as_deref(), Some(text));
    }
}
