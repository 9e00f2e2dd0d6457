//! Unpacks a tar archive into a temporary folder: its files are inputs, as those of a folder are. `nccl-pipe collect`
//! makes such archives.

use super::Options;
use super::coded::unpack_program;
use super::input::Input;
use super::limits::{MAX_ARCHIVE_BYTES, MAX_ARCHIVE_FILES};
use super::name::InputName;
use super::rejoin::LineRejoiner;
use crate::error::escape::{shell_word, shown_path};
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use tar::{Archive, EntryType};
use tempfile::TempDir;

/// The endings of the names of archives. Their content alone does not show them: the head of an archive of one log is that
/// of a log with some bytes in front.
const ENDINGS: [&str; 5] = [".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst"];

/// True for a name that an archive has.
pub(super) fn has_archive_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    ENDINGS.iter().any(|end| name.ends_with(end.as_bytes()))
}

/// An archive's files, unpacked.
#[derive(Debug)]
pub(super) struct UnpackedArchive {
    /// Where they lie; they are deleted with it.
    pub(super) folder: TempDir,
    /// The files, in the order of their names.
    pub(super) files: Vec<InputName>,
    /// Entries that are no files, and their kinds.
    pub(super) passed: Vec<(String, &'static str)>,
}

/// Unpacks the archive `path`, which may be packed itself. Hidden files are left out, as those of a folder are.
///
/// # Errors
/// It cannot be read, is no archive or is damaged; the temporary folder cannot be written; it has too much.
pub(super) fn unpack_archive(path: &Path) -> Result<UnpackedArchive> {
    let refused = |what: &str| Error::Content(format!("{}: {what}", shown_path(path)));
    let failed = |cause: io::Error| {
        refused(&format!(
            "expected a tar archive, by its name, that can be unpacked to a temporary folder (TMPDIR names where): {cause}"
        ))
    };
    let input = Input::open(
        &InputName::Path(path.to_owned()),
        Options::default(),
        LineRejoiner::NONE,
    )?;
    let mut archive = Archive::new(input.open_document()?);
    let folder = TempDir::new().map_err(failed)?;
    let (mut files, mut passed) = (BTreeMap::new(), Vec::new());
    let mut left = MAX_ARCHIVE_BYTES;
    for entry in archive.entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        let Some(name) = find_inner_name(&entry.path().map_err(failed)?) else {
            continue;
        };
        let raw = entry.path().map_err(failed)?.into_owned();
        let shown = format!(
            "{}/{}",
            shown_path(path),
            shown_path(&raw).trim_start_matches('/')
        );
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {}
            EntryType::Symlink | EntryType::Link => {
                passed.push((shown, "a link in an archive"));
                continue;
            }
            _ => continue,
        }
        if files.len() == MAX_ARCHIVE_FILES {
            return Err(refused(
                "it has too many files: unpack it, and name the folder",
            ));
        }
        let to = folder.path().join(&name);
        fs::create_dir_all(to.parent().unwrap_or(folder.path())).map_err(failed)?;
        let mut out = File::create(&to).map_err(failed)?;
        left -= io::copy(&mut (&mut entry).take(left), &mut out).map_err(failed)?;
        if left == 0 {
            return Err(refused(
                "its files are too large: unpack it, and name the folder",
            ));
        }
        // Of files with one name the last counts, as where tar unpacks them.
        files.insert(name, InputName::Member(to, shown));
    }
    if files.is_empty() {
        return Err(refused("expected logs in the archive, found no files"));
    }
    Ok(UnpackedArchive {
        folder,
        files: files.into_values().collect(),
        passed,
    })
}

/// Returns the shell's command that writes the text of an input which is not a plain file, by its name.
pub fn unpack_command(name: &str) -> Option<String> {
    let Some(extract) = extract_command(name) else {
        let unpack = unpack_program(Path::new(name))?;
        return Some(format!("{unpack} {}", shell_word(name)));
    };
    let packed = [(".gz", "zcat"), (".zst", "zstdcat")];
    match packed.iter().find(|(end, _)| name.ends_with(end)) {
        Some((_, unpack)) => Some(format!("{extract} | {unpack}")),
        None => Some(extract),
    }
}

/// Returns the command that writes the bytes of an archive's file.
fn extract_command(name: &str) -> Option<String> {
    let archives = name.match_indices('/').map(|(at, _)| name.split_at(at));
    let mut archives = archives.filter(|(archive, _)| has_archive_name(Path::new(archive)));
    let (archive, inner) = archives.find(|(archive, _)| Path::new(archive).is_file())?;
    let inner = inner.trim_start_matches('/');
    Some(format!(
        "tar -xOf {} {}",
        shell_word(archive),
        shell_word(inner)
    ))
}

/// The name of an entry below the archive; `None` for a hidden one, and for one that leads out of it.
fn find_inner_name(path: &Path) -> Option<PathBuf> {
    let mut name = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(part) if !part.as_encoded_bytes().starts_with(b".") => {
                name.push(part);
            }
            Component::CurDir | Component::RootDir => {}
            _ => return None,
        }
    }
    (!name.as_os_str().is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive of files with names and texts.
    fn archive_of(files: &[(&str, &str)]) -> Vec<u8> {
        let mut made = tar::Builder::new(Vec::new());
        for (name, text) in files {
            let mut header = tar::Header::new_gnu();
            // `set_path` refuses the names that a hostile archive has.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(text.len() as u64);
            header.set_cksum();
            made.append(&header, text.as_bytes()).unwrap();
        }
        made.into_inner().unwrap()
    }

    #[test]
    fn files_are_unpacked_under_the_archive_s_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("case.tar.zst");
        let files = [
            ("./logs/b.log", "old\n"),
            ("a.log", "a\n"),
            ("../out.log", "x\n"),
            ("/etc/c.log", "c\n"),
            ("logs/.hidden", "x\n"),
            ("logs/b.log", "new\n"),
        ];
        let packed = zstd::encode_all(&archive_of(&files)[..], 1).unwrap();
        fs::write(&path, packed).unwrap();
        let unpacked = unpack_archive(&path).unwrap();
        let read = |file: &InputName| {
            let name = file.name().replace(&*dir.path().to_string_lossy(), "");
            (name, fs::read_to_string(file.path().unwrap()).unwrap())
        };
        let expected = [
            ("/case.tar.zst/a.log", "a\n"),
            ("/case.tar.zst/etc/c.log", "c\n"),
            ("/case.tar.zst/logs/b.log", "new\n"),
        ];
        let found: Vec<(String, String)> = unpacked.files.iter().map(read).collect();
        assert_eq!(
            found,
            expected.map(|(name, text)| (name.into(), text.into()))
        );
        let folder = unpacked.folder.path().to_owned();
        drop(unpacked);
        assert!(!folder.exists());
        assert!(!dir.path().join("out.log").exists());
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        for bytes in [
            &b""[..],
            b"no archive, a log\n",
            &archive_of(&[("a", "b")])[..520],
        ] {
            fs::write(&path, bytes).unwrap();
            let error = unpack_archive(&path).unwrap_err().to_string();
            assert!(error.contains("expected"), "{error}");
        }
    }
}
