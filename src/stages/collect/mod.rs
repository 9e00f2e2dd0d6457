//! nccl-collect: one archive of what belongs to a case: the inputs, and what this machine has beside them. All programs
//! read it as a folder.

mod limits;
mod machine;
mod names;
mod redact;

use crate::count::calls::Progress;
use crate::error::{Error, Result};
use crate::formats::flight::{MAX_DUMP_BYTES, convert_dump_to_json};
use crate::report::Report;
use crate::source::{Input, InputName, LineRejoiner, Options as SourceOptions, host_name};
use limits::{CASE_ZSTD_LEVEL, MAX_REDACTED_LINE_BYTES, TEXT_HEAD_BYTES};
use machine::MachineFile;
pub use machine::find_files_of_settings;
use names::PrivateNames;
use redact::Redactor;
use rustc_hash::FxHashSet;
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use zstd::stream::write::Encoder;

/// The parts of a case that are collected, and how.
#[derive(Debug, Clone, Copy)]
pub struct CollectOptions {
    /// Replace the names of hosts and users, paths and addresses.
    pub redact: bool,
    /// Take what this machine has: versions, settings, topology, the kernel's messages.
    pub machine: bool,
}

/// What an archive has, as it lists it itself in `collected.json`.
#[derive(Debug, Default, Serialize)]
pub struct CollectedCase {
    /// The version of this object.
    pub v: u32,
    /// The release that made it.
    pub release: &'static str,
    /// The names of hosts and users, paths and addresses are replaced.
    pub redacted: bool,
    /// Its files.
    pub files: Vec<CollectedFile>,
    /// Missing things, with the reason.
    pub left_out: Vec<String>,
}

/// A file of an archive.
#[derive(Debug, Serialize)]
pub struct CollectedFile {
    /// Its name there.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Writes an archive of `origins`, which are files, to `out`.
///
/// # Errors
/// The output, or a temporary file, cannot be written. An input that cannot be read is reported and left out.
pub fn write_case(
    origins: &[InputName],
    options: CollectOptions,
    out: impl Write,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<CollectedCase> {
    let host = host_name();
    let (machine, mut left_out) = match options.machine {
        true => machine::collect_machine(&host),
        false => Default::default(),
    };
    let mut redactor = None;
    if options.redact {
        let mut names = PrivateNames::of_this_machine(&host);
        left_out
            .iter()
            .for_each(|why| names.take_line(why.as_bytes()));
        for file in &machine {
            names.take_line(file.name.as_bytes());
            read_lines(&file.text[..], |line| {
                names.take_line(line);
                Ok(())
            })?;
        }
        for origin in origins {
            names.take_line(origin.name().as_bytes());
            // What cannot be read is reported when it is written.
            if let Ok(Some(text)) = open_text(origin) {
                let _ = read_lines(text, |line| {
                    names.take_line(line);
                    Ok(())
                });
            }
        }
        redactor = Some(Redactor::new(&names));
    }
    let encoder = Encoder::new(out, CASE_ZSTD_LEVEL).map_err(Error::Output)?;
    let mut case = CaseWriter {
        archive: tar::Builder::new(encoder),
        redactor,
        files: Vec::new(),
        names: FxHashSet::default(),
        made: SystemTime::now(),
    };
    for origin in origins {
        match case.add_input(origin) {
            Ok(true) => {}
            Ok(false) => {
                left_out.push(format!(
                    "{}: its names cannot be replaced, since it is not text",
                    origin.name()
                ));
            }
            Err(error @ Error::Output(_)) => return Err(error),
            Err(error) => {
                report.error(&error.to_string());
                left_out.push(error.to_string());
            }
        }
        let len = origin.path().and_then(|path| path.metadata().ok());
        progress.advance(len.map_or(0, |meta| meta.len()));
    }
    for file in &machine {
        case.add_machine_file(file)?;
    }
    case.finish(options.redact, left_out)
}

/// An archive that is written.
struct CaseWriter<W: Write> {
    archive: tar::Builder<Encoder<'static, W>>,
    redactor: Option<Redactor>,
    files: Vec<CollectedFile>,
    names: FxHashSet<PathBuf>,
    made: SystemTime,
}

impl<W: Write> CaseWriter<W> {
    /// Adds an input; false if its names cannot be replaced.
    fn add_input(&mut self, origin: &InputName) -> Result<bool> {
        let name = self.redact_name(&origin.name());
        if self.redactor.is_some() {
            let Some(text) = open_text(origin)? else {
                return Ok(false);
            };
            // It is unpacked, so its name has no ending of a packed file.
            let name = [".gz", ".zst"]
                .iter()
                .find_map(|end| name.strip_suffix(end))
                .unwrap_or(&name)
                .to_owned();
            let mut plain = self.redact_text(text)?;
            let bytes = plain.stream_position().map_err(Error::Output)?;
            plain.rewind().map_err(Error::Output)?;
            self.append(&name, bytes, plain)?;
            return Ok(true);
        }
        let failed = |cause| Error::Input {
            path: origin.name().into(),
            cause,
        };
        let path = origin
            .path()
            .ok_or_else(|| failed(io::ErrorKind::Unsupported.into()))?;
        let file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        // A log may become shorter or longer meanwhile; its size is already written then.
        self.append(&name, bytes, file.chain(io::repeat(0)))?;
        Ok(true)
    }

    fn add_machine_file(&mut self, file: &MachineFile) -> Result<()> {
        let name = self.redact_name(&file.name);
        if self.redactor.is_none() {
            return self.append(&name, file.text.len() as u64, &file.text[..]);
        }
        let mut plain = self.redact_text(&file.text[..])?;
        let bytes = plain.stream_position().map_err(Error::Output)?;
        plain.rewind().map_err(Error::Output)?;
        self.append(&name, bytes, plain)
    }

    /// Copies a text with replaced names to a temporary file, since an archive has the size in front.
    fn redact_text(&self, text: impl Read) -> Result<File> {
        let mut plain = BufWriter::new(tempfile::tempfile().map_err(Error::Output)?);
        let mut line_out = Vec::new();
        read_lines(text, |line| {
            line_out.clear();
            match &self.redactor {
                Some(redactor) => redactor.redact_line(line, &mut line_out),
                None => line_out.extend_from_slice(line),
            }
            plain.write_all(&line_out).map_err(Error::Output)
        })?;
        plain
            .into_inner()
            .map_err(|e| Error::Output(e.into_error()))
    }

    fn redact_name(&self, name: &str) -> String {
        let Some(redactor) = &self.redactor else {
            return name.to_owned();
        };
        let mut out = Vec::new();
        redactor.redact_line(name.as_bytes(), &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Appends the first `bytes` of `content`.
    fn append(&mut self, name: &str, bytes: u64, content: impl Read) -> Result<()> {
        let path = self.find_free_name(&relative_name(name));
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes);
        header.set_mode(0o644);
        let made = self.made.duration_since(UNIX_EPOCH).unwrap_or_default();
        header.set_mtime(made.as_secs());
        self.archive
            .append_data(&mut header, &path, content.take(bytes))
            .map_err(Error::Output)?;
        let name = path.to_string_lossy().into_owned();
        self.files.push(CollectedFile { name, bytes });
        self.names.insert(path);
        Ok(())
    }

    /// A name that no file of the archive has: two inputs may have one below different roots.
    fn find_free_name(&self, name: &Path) -> PathBuf {
        let others = (2..).map(|n| Path::new(&n.to_string()).join(name));
        let mut all = std::iter::once(name.to_owned()).chain(others);
        all.find(|name| !self.names.contains(name))
            .unwrap_or_default()
    }

    fn finish(mut self, redacted: bool, left_out: Vec<String>) -> Result<CollectedCase> {
        let mut case = CollectedCase {
            v: 1,
            release: env!("CARGO_PKG_VERSION"),
            redacted,
            files: std::mem::take(&mut self.files),
            left_out: left_out.iter().map(|why| self.redact_name(why)).collect(),
        };
        let mut text = serde_json::to_vec_pretty(&case).map_err(|e| Error::Output(e.into()))?;
        text.push(b'\n');
        self.append("collected.json", text.len() as u64, &text[..])?;
        case.files.append(&mut self.files);
        let encoder = self.archive.into_inner().map_err(Error::Output)?;
        encoder
            .finish()
            .and_then(|mut out| out.flush())
            .map_err(Error::Output)?;
        Ok(case)
    }
}

/// The unpacked text of an input, of a dump of PyTorch's flight recorder as JSON; `None` if it is not text.
fn open_text(origin: &InputName) -> Result<Option<Box<dyn Read>>> {
    let input = Input::open(origin, SourceOptions::default(), LineRejoiner::NONE)?;
    let mut text = input.open_document()?;
    let mut head = Vec::new();
    let failed = |cause| Error::Input {
        path: origin.name().into(),
        cause,
    };
    text.by_ref()
        .take(TEXT_HEAD_BYTES)
        .read_to_end(&mut head)
        .map_err(failed)?;
    if memchr::memchr(0, &head).is_none() {
        return Ok(Some(Box::new(io::Cursor::new(head).chain(text))));
    }
    let mut bytes = head;
    text.take(MAX_DUMP_BYTES as u64)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    let json = convert_dump_to_json(&bytes);
    Ok(json.map(|json| Box::new(io::Cursor::new(json)) as Box<dyn Read>))
}

/// Gives each line with its end to `take`; one that is too long in pieces.
fn read_lines(text: impl Read, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let (mut text, mut line) = (BufReader::new(text), Vec::new());
    loop {
        line.clear();
        let read = text
            .by_ref()
            .take(MAX_REDACTED_LINE_BYTES)
            .read_until(b'\n', &mut line);
        if read.map_err(Error::Output)? == 0 {
            return Ok(());
        }
        take(&line)?;
    }
}

/// A name without what leads out of a folder.
fn relative_name(name: &str) -> PathBuf {
    let parts = Path::new(name).components();
    let parts = parts.filter_map(|part| match part {
        Component::Normal(part) => Some(part),
        _ => None,
    });
    parts.collect()
}
