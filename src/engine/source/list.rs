//! Lists the inputs that the user named: folders become the files in them, and a file with several
//! names is read once.

use super::archive::{has_archive_name, unpack_archive};
use super::file_pattern::FilePattern;
use super::name::InputName;
use super::named_parts::name_parts;
use super::pipe::PipeSlot;
use crate::error::escape::shown_path;
use crate::error::{Error, Result};
use rustc_hash::FxHashMap;
use std::ffi::OsString;
use std::fs::{self, DirEntry, FileType, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirEntryExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The inputs that paths name.
#[derive(Debug, Default)]
pub struct InputListing {
    /// The inputs, in the order of their names; in the order given if one is a pipe.
    pub origins: Vec<InputName>,
    /// Other names of files that are inputs already, each with its first name.
    pub again: Vec<(String, String)>,
    /// Entries of folders that cannot be read as files, and their kinds.
    pub passed: Vec<(String, &'static str)>,
    /// Folders and archives that cannot be read, or that have no files.
    pub failed: Vec<Error>,
    /// Where the files of archives lie: they are deleted with it.
    pub unpacked: Vec<TempDir>,
}

/// Returns the inputs that `paths` name, in the order of their names, so that a run has one result for any order
/// in which a shell or an engine names them. If one is a pipe they stay in the order given: a pipe's name
/// tells nothing. A folder's files come with the files of its folders but no hidden ones, and only those
/// that one of `patterns` matches, if there are any; so do an archive's. No path, or `-`, is standard input.
///
/// # Errors
/// There is nothing to read.
pub fn expand_paths(paths: &[PathBuf], patterns: &[FilePattern]) -> Result<InputListing> {
    let mut lister = FolderLister {
        found: InputListing::default(),
        patterns,
        known: FxHashMap::default(),
    };
    if paths.is_empty() {
        lister.found.origins.push(InputName::stdin());
    }
    let mut named: Vec<NamedPath<'_>> = paths.iter().map(|path| NamedPath::new(path)).collect();
    if !named.iter().any(NamedPath::is_pipe) {
        named.sort_by_key(|named| named.path);
    }
    named
        .into_iter()
        .for_each(|named| lister.add_named_path(named));
    let mut found = lister.found;
    found.origins = name_parts(found.origins, &mut found.failed);
    if found.origins.is_empty() && !found.failed.is_empty() {
        return Err(found.failed.swap_remove(0));
    }
    Ok(found)
}

/// A path that the user named, and what it is.
struct NamedPath<'p> {
    path: &'p Path,
    meta: std::io::Result<Metadata>,
}

impl NamedPath<'_> {
    fn new(path: &Path) -> NamedPath<'_> {
        let meta = path.metadata();
        NamedPath { path, meta }
    }

    fn is_stdin(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    fn is_pipe(&self) -> bool {
        let is_other = |meta: &Metadata| !meta.is_file() && !meta.is_dir();
        self.is_stdin() || self.meta.as_ref().is_ok_and(is_other)
    }
}

/// A file's device and its number there.
type FileId = (u64, u64);

struct FolderLister<'p> {
    found: InputListing,
    patterns: &'p [FilePattern],
    /// The input's index by file.
    known: FxHashMap<FileId, usize>,
}

impl FolderLister<'_> {
    /// Adds a path that the user named.
    fn add_named_path(&mut self, named: NamedPath<'_>) {
        if named.is_stdin() {
            return self.found.origins.push(InputName::stdin());
        }
        let path = named.path;
        match named.meta {
            Ok(meta) if meta.is_dir() => self.add_named_folder(path, &meta),
            Ok(meta) if meta.is_file() && has_archive_name(path) => self.add_archive(path),
            Ok(meta) => {
                let path = path.to_owned();
                let name = match meta.is_file() {
                    true => InputName::Path(path),
                    false => InputName::Pipe(path, PipeSlot::default()),
                };
                // Several names may be one device: a terminal, /dev/null.
                match meta.file_type().is_char_device() {
                    true => self.found.origins.push(name),
                    false => self.add_file(name, (meta.dev(), meta.ino())),
                }
            }
            // The error is reported when it is opened.
            Err(_) => self.found.origins.push(InputName::Path(path.to_owned())),
        }
    }

    /// Adds the files of an archive that the user named.
    fn add_archive(&mut self, path: &Path) {
        match unpack_archive(path) {
            Ok(unpacked) => {
                let folder = unpacked.folder.path();
                let is_chosen = |file: &InputName| {
                    let path = file.path().and_then(|path| path.strip_prefix(folder).ok());
                    path.is_some_and(|path| self.is_chosen(path))
                };
                let files: Vec<InputName> = unpacked.files.into_iter().filter(is_chosen).collect();
                self.found.origins.extend(files);
                self.found.passed.extend(unpacked.passed);
                self.found.unpacked.push(unpacked.folder);
            }
            Err(error) => self.found.failed.push(error),
        }
    }

    /// Adds a folder that the user named.
    fn add_named_folder(&mut self, path: &Path, meta: &Metadata) {
        let size =
            |found: &InputListing| found.origins.len() + found.again.len() + found.failed.len();
        let before = (size(&self.found), self.found.passed.len());
        self.add_folder_files(path, path, meta.dev());
        if size(&self.found) > before.0 {
            return;
        }
        let others: Vec<String> = self.found.passed[before.1..]
            .iter()
            .map(|(name, what)| format!("{name} is {what}"))
            .take(3)
            .collect();
        let but = match (&others[..], self.patterns) {
            ([], []) => String::new(),
            ([], _) => " that match --glob".to_owned(),
            _ => format!(" ({})", others.join(", ")),
        };
        self.found.failed.push(Error::Content(format!(
            "{}: expected NCCL logs in the folder, found no files{but}",
            shown_path(path)
        )));
    }

    /// Adds the files in or below the folder `path`, which is on the device `dev`.
    fn add_folder_files(&mut self, top: &Path, path: &Path, dev: u64) {
        let entries = match read_folder_entries(path) {
            Ok(entries) => entries,
            Err(cause) => {
                let path = path.to_owned();
                return self.found.failed.push(Error::Input { path, cause });
            }
        };
        for (name, kind, inode) in entries {
            let entry = path.join(name);
            // A link to a folder is not followed: it may lead back here.
            if kind.is_some_and(|kind| kind.is_dir()) {
                let dev = entry.symlink_metadata().map_or(dev, |meta| meta.dev());
                self.add_folder_files(top, &entry, dev);
            } else if self.is_chosen(entry.strip_prefix(top).unwrap_or(&entry)) {
                self.add_entry(entry, kind, (dev, inode));
            }
        }
    }

    fn is_chosen(&self, path: &Path) -> bool {
        let mut patterns = self.patterns.iter();
        self.patterns.is_empty() || patterns.any(|pattern| pattern.matches_path(path))
    }

    /// Adds an entry of a folder that is not a folder. The folder has the kinds of its entries; only a
    /// link needs a look at its target.
    fn add_entry(&mut self, path: PathBuf, kind: Option<FileType>, identity: FileId) {
        if kind.is_some_and(|kind| kind.is_file()) {
            return self.add_file(InputName::Listed(path), identity);
        }
        let is_link = kind.is_none_or(|kind| kind.is_symlink());
        let what = match path.metadata() {
            Ok(meta) if meta.is_file() => {
                return self.add_file(InputName::Listed(path), (meta.dev(), meta.ino()));
            }
            Ok(meta) if meta.is_dir() => "a link to a folder",
            Ok(meta) => file_type_name(meta.file_type()),
            Err(e) if is_link && e.kind() == ErrorKind::NotFound => "a link that leads nowhere",
            Err(cause) => return self.found.failed.push(Error::Input { path, cause }),
        };
        self.found.passed.push((shown_path(&path), what));
    }

    /// Adds a file, if it is not among the inputs already.
    fn add_file(&mut self, origin: InputName, identity: FileId) {
        let next = self.found.origins.len();
        let at = *self.known.entry(identity).or_insert(next);
        // A folder's numbers are not always those of its files (where one is mounted on another).
        match self.found.origins.get(at) {
            Some(before) if is_same_file(before, &origin) => {
                self.found.again.push((origin.name(), before.name()));
            }
            _ => self.found.origins.push(origin),
        }
    }
}

/// Returns true if two names are one file's.
fn is_same_file(a: &InputName, b: &InputName) -> bool {
    let of = |origin: &InputName| -> Option<FileId> {
        let meta = fs::metadata(origin.path()?).ok()?;
        Some((meta.dev(), meta.ino()))
    };
    of(a).is_some_and(|identity| of(b) == Some(identity))
}

/// An entry of a folder: its name, its kind, and its number.
type FolderEntry = (OsString, Option<FileType>, u64);

/// Returns the entries of a folder but the hidden ones, by name.
fn read_folder_entries(path: &Path) -> std::io::Result<Vec<FolderEntry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry: DirEntry = entry?;
        let name = entry.file_name();
        if !name.as_encoded_bytes().starts_with(b".") {
            entries.push((name, entry.file_type().ok(), entry.ino()));
        }
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(entries)
}

/// Returns the name of a kind that is neither a file nor a folder.
fn file_type_name(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(dir: &Path, patterns: &[&str]) -> (Vec<String>, InputListing) {
        let patterns: Vec<FilePattern> = patterns.iter().map(|p| p.parse().unwrap()).collect();
        let found = expand_paths(&[dir.to_owned()], &patterns).unwrap();
        let below = |origin: &InputName| {
            let path = origin.path().unwrap().strip_prefix(dir).unwrap();
            path.display().to_string()
        };
        (found.origins.iter().map(below).collect(), found)
    }

    #[test]
    fn a_file_is_listed_once_whatever_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        fs::write(at("b.log"), "x\n").unwrap();
        fs::write(at("sub/c.log"), "x\n").unwrap();
        std::os::unix::fs::symlink("b.log", at("a.log")).unwrap();
        fs::hard_link(at("b.log"), at("sub/hard.log")).unwrap();
        let (names, found) = list(dir.path(), &[]);
        assert_eq!(names, ["a.log", "sub/c.log"]);
        assert_eq!(found.again.len(), 2);
        let twice = [at("b.log"), at("b.log"), at("."), PathBuf::from("-")];
        let found = expand_paths(&twice, &[]).unwrap();
        assert_eq!((found.origins.len(), found.again.len()), (3, 4));
        assert_eq!(found.origins[2], InputName::stdin());
    }

    #[test]
    fn what_is_no_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        fs::write(at("b.log"), "x\n").unwrap();
        std::os::unix::fs::symlink("sub", at("folder")).unwrap();
        std::os::unix::fs::symlink("gone", at("nowhere")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("s.sock")).unwrap();
        let (names, found) = list(dir.path(), &[]);
        assert_eq!(names, ["b.log"]);
        let passed: Vec<&str> = found.passed.iter().map(|(_, what)| *what).collect();
        let want = [
            "a link to a folder",
            "a link that leads nowhere",
            "a socket",
        ];
        assert_eq!(passed, want);
        assert!(list(dir.path(), &["*.log"]).1.passed.is_empty());
    }

    #[test]
    fn patterns_choose_files_by_name_or_by_path() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.log", "b.txt", "sub/c.log", "sub/deep/d.log"] {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x\n").unwrap();
        }
        let of = |patterns: &[&str]| list(dir.path(), patterns).0;
        assert_eq!(of(&["*.log"]), ["a.log", "sub/c.log", "sub/deep/d.log"]);
        assert_eq!(of(&["sub/*.log"]), ["sub/c.log"]);
        assert_eq!(
            of(&["sub/**", "*.txt"]),
            ["b.txt", "sub/c.log", "sub/deep/d.log"]
        );
        assert_eq!(of(&["[ab].{log,txt}"]), ["a.log", "b.txt"]);
        let none: FilePattern = "*.out".parse().unwrap();
        let error = expand_paths(&[dir.path().to_owned()], &[none]).unwrap_err();
        assert!(error.to_string().contains("--glob"), "{error}");
        assert!("[".parse::<FilePattern>().is_err());
    }

    #[test]
    fn names_whose_bytes_are_no_text_are_told_apart() {
        use std::os::unix::ffi::OsStrExt;
        let of = |bytes: &[u8]| shown_path(Path::new(std::ffi::OsStr::from_bytes(bytes)));
        assert_eq!(of("übung.log".as_bytes()), "übung.log");
        assert_eq!(of(b"a\xff.log"), r"$'a\xff.log'");
        assert_eq!(of(b"it's\\\xfe"), r"$'it\'s\\\xfe'");
        assert_eq!(of(br"a\xff.log"), r"a\xff.log");
    }
}
