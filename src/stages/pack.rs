//! nccl-pack: packs each input where it lies into a part, which every program reads as the input.

use crate::count::calls::{self, Progress, count_calls};
use crate::count::tally::{self, SizeKey};
use crate::error::{Error, Result};
use crate::formats::is_archive;
use crate::grammar::values::ByteBasis;
use crate::log::mend::blocks::BLOCK_REJOINER;
use crate::pool;
use crate::report::Report;
use crate::source::part::{
    PART_VERSION, PartContents, PartFacts, PartSource, PartText, hash_source, read_part_facts,
    write_part,
};
use crate::source::{Input, InputName, PART_ENDING, host_name};
use serde::Serialize;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// How inputs are packed.
#[derive(Debug)]
pub struct PackOptions {
    /// The folder of the parts.
    pub to: PathBuf,
    /// Keep the addresses of buffers and streams.
    pub addresses: bool,
}

/// What was made of an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PackedPart {
    /// The version of this record.
    pub v: u32,
    /// The input's name.
    pub input: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The part's path.
    pub part: String,
    /// Its size in bytes.
    pub part_bytes: u64,
    /// Lines of the input's text, unpacked; `None` if the input was copied as it is.
    pub lines: Option<u64>,
    /// Calls in it; `None` if it is not a log or table.
    pub calls: Option<u64>,
    /// Damaged lines.
    pub damaged: u64,
    /// Torn lines that were joined.
    pub torn: u64,
    /// The part was there already, whole.
    pub skipped: bool,
}

/// Packs `origins`, and gives what was made of each to `take`, in order. An input that cannot be read, or a
/// part that cannot be written, is reported, and the others are packed.
///
/// # Errors
/// The folder cannot be made; those of `take`.
pub fn pack_inputs(
    origins: &[InputName],
    options: &PackOptions,
    read: &calls::Options,
    report: &mut Report,
    progress: &dyn Progress,
    mut take: impl FnMut(&PackedPart) -> Result<()>,
) -> Result<()> {
    fs::create_dir_all(&options.to).map_err(|cause| failed_at(&options.to, cause))?;
    let mut alone = read.clone();
    if origins.len() > 1 {
        alone.log.jobs = 1;
    }
    let pack = |origin| InputPacker::new(origin, options, &alone)?.pack_input(progress);
    pool::map_in_order(read.log.jobs, origins.iter(), pack, |packed| match packed {
        Ok(packed) => take(&packed),
        Err(e @ Error::Damaged(_)) => Err(e),
        Err(e) => {
            report.error(&e.to_string());
            Ok(())
        }
    })
}

/// One input on its way to its part.
struct InputPacker<'p> {
    origin: &'p InputName,
    read: &'p calls::Options,
    source: PartSource,
    part: PathBuf,
}

impl<'p> InputPacker<'p> {
    fn new(
        origin: &'p InputName,
        options: &PackOptions,
        read: &'p calls::Options,
    ) -> Result<InputPacker<'p>> {
        let name = origin.name();
        let file = origin.path().ok_or_else(|| {
            Error::Usage(format!(
                "{name}: expected a file, as a part is made of all of it"
            ))
        })?;
        let (bytes, hash) =
            hash_source(file).map_err(|cause| failed_at(Path::new(&name), cause))?;
        let source = PartSource {
            name,
            host: host_name(),
            bytes,
            hash,
            listed: origin.is_listed(),
            utf16: false,
            addresses: options.addresses,
        };
        let own_name = Path::new(&source.name).file_name().unwrap_or_default();
        let own_name = own_name.to_string_lossy();
        let part = format!("{own_name}.{}.{PART_ENDING}", source.file_hash());
        Ok(InputPacker {
            origin,
            read,
            part: options.to.join(part),
            source,
        })
    }

    fn pack_input(mut self, progress: &dyn Progress) -> Result<PackedPart> {
        if let Some(facts) = self.read_finished_part() {
            progress.advance(self.source.bytes);
            return self.describe_part(Some(&facts), true);
        }
        let input = Input::open(self.origin, self.read.source, BLOCK_REJOINER)?;
        if is_archive(&input.read_head()?.bytes) {
            return self.copy_as_it_is();
        }
        self.source.utf16 = input.is_utf16();
        let found = self.find_contents(progress);
        let text = match input.mapped_range(0, u64::MAX)? {
            Some(text) => PartText::Whole(text),
            None => PartText::Read(input.open_document()?),
        };
        self.write_whole_file(&self.part, |out| {
            let end = || (found, input.unpack_damage());
            write_part(&self.source, text, self.read.log.jobs, out, end).map(|_| ())
        })?;
        let facts = self.read_finished_part();
        self.describe_part(facts.as_ref(), false)
    }

    /// Reads the facts of a whole part of this input that is there already.
    fn read_finished_part(&self) -> Option<PartFacts> {
        let facts = read_part_facts(&mut File::open(&self.part).ok()?).ok()?;
        let (there, here) = (&facts.source, &self.source);
        let is_same = (&there.name, there.bytes, &there.hash, there.addresses)
            == (&here.name, here.bytes, &here.hash, here.addresses);
        is_same.then_some(facts)
    }

    /// Walks over the input as the programs do.
    fn find_contents(&self, progress: &dyn Progress) -> PartContents {
        let mut silent = Report::new("", false, true).silenced();
        let origins = std::slice::from_ref(self.origin);
        let tally = tally::Options::by_size(SizeKey::Bucket(Vec::new()), ByteBasis::default());
        let counted = count_calls(origins, self.read, &tally, &mut silent, progress);
        let account = silent.total_account();
        PartContents {
            calls: counted.ok().map(|_| account.calls),
            damaged: account.damaged,
            torn: account.torn,
        }
    }

    /// Copies an archive: it has no text to pack, and is opened by its path.
    fn copy_as_it_is(mut self) -> Result<PackedPart> {
        let file = Path::new(&self.source.name);
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let ending = file.extension().unwrap_or_default().to_string_lossy();
        let name = format!("{stem}.{}.{ending}", self.source.file_hash());
        self.part = self.part.with_file_name(name);
        let is_there = fs::metadata(&self.part).is_ok_and(|meta| meta.len() == self.source.bytes);
        if !is_there {
            self.write_whole_file(&self.part, |out| {
                let path = self.origin.path().unwrap_or(file);
                io::copy(&mut File::open(path)?, out).map(|_| ())
            })?;
        }
        self.describe_part(None, is_there)
    }

    /// Writes a file that gets its name when all of it is written.
    fn write_whole_file(
        &self,
        path: &Path,
        write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> Result<()> {
        let written = || {
            let folder = path.parent().unwrap_or(Path::new("."));
            // Hidden, so that no program takes it for an input. The umask is applied.
            let file: NamedTempFile = tempfile::Builder::new()
                .prefix(".nccl-pack-")
                .permissions(Permissions::from_mode(0o666))
                .tempfile_in(folder)?;
            let mut out = BufWriter::new(file.as_file());
            write(&mut out)?;
            out.flush()?;
            drop(out);
            // A file system over a network may notice only now that it is full.
            file.as_file().sync_all()?;
            file.persist(path).map(|_| ()).map_err(|e| e.error)
        };
        written().map_err(|cause| failed_at(path, cause))
    }

    fn describe_part(&self, facts: Option<&PartFacts>, skipped: bool) -> Result<PackedPart> {
        let meta = fs::metadata(&self.part).map_err(|cause| failed_at(&self.part, cause))?;
        let totals = facts.map(|facts| &facts.totals);
        let found = totals.map(|totals| totals.found).unwrap_or_default();
        Ok(PackedPart {
            v: PART_VERSION,
            input: self.source.name.clone(),
            bytes: self.source.bytes,
            part: self.part.display().to_string(),
            part_bytes: meta.len(),
            lines: totals.map(|totals| totals.lines),
            calls: found.calls,
            damaged: found.damaged,
            torn: found.torn,
            skipped,
        })
    }
}

fn failed_at(path: &Path, cause: io::Error) -> Error {
    let path = path.to_owned();
    Error::Input { path, cause }
}
