//! The names of inputs.

use super::file_pattern::FilePattern;
use super::guard;
use super::pipe::PipeSlot;
use crate::error::Error;
use crate::error::escape::shown_path;
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

/// The files and folders to follow; standard input if none is named.
#[derive(Debug, Clone)]
pub struct FollowTargets {
    pub(super) paths: Vec<PathBuf>,
    pub(super) patterns: Vec<FilePattern>,
}

impl PartialEq for FollowTargets {
    fn eq(&self, other: &FollowTargets) -> bool {
        self.paths == other.paths
    }
}

impl Eq for FollowTargets {}

impl FollowTargets {
    /// Follows `paths`; in folders only files that one of `patterns` matches, if there are any.
    pub fn new(paths: &[PathBuf], patterns: &[FilePattern]) -> FollowTargets {
        FollowTargets {
            paths: paths.to_vec(),
            patterns: patterns.to_vec(),
        }
    }
}

/// A part ([`super::part`]) under the name of the input that was packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPart {
    /// The part's file.
    pub path: PathBuf,
    /// The input's name.
    pub name: String,
    /// The same as its host has it: two hosts may have inputs of one name.
    pub source_name: String,
    /// The input was found in a folder when it was packed.
    pub is_listed: bool,
    /// The input was UTF-16; its text in the part is not.
    pub is_utf16: bool,
}

/// The source of an input's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputName {
    /// Standard input.
    Stdin(PipeSlot),
    /// A file.
    Path(PathBuf),
    /// A named pipe or a device.
    Pipe(PathBuf, PipeSlot),
    /// A plain file that was found in a folder.
    Listed(PathBuf),
    /// A part of an input, which lies elsewhere.
    Part(Box<NamedPart>),
    /// A log that lies inside another input: [`super::Input::open_inner_log`].
    Inside(Box<InputName>),
    /// A file of an archive: where it was unpacked, and its name with the archive's.
    Member(PathBuf, String),
    /// A temporary copy of an input, and the name of that input.
    Copy(PathBuf, String),
    /// Files that grow, as one (`--follow`).
    Followed(FollowTargets),
}

impl InputName {
    /// Standard input.
    pub fn stdin() -> InputName {
        InputName::Stdin(PipeSlot::default())
    }

    /// Returns true for standard input.
    pub fn is_stdin(&self) -> bool {
        matches!(self, InputName::Stdin(_))
    }

    /// Returns the name in messages: the path as given, or `stdin`.
    pub fn name(&self) -> String {
        match self {
            InputName::Stdin(_) => "stdin".to_owned(),
            InputName::Copy(_, name) | InputName::Member(_, name) => name.clone(),
            InputName::Path(path) | InputName::Listed(path) | InputName::Pipe(path, _) => {
                shown_path(path)
            }
            InputName::Part(part) => part.name.clone(),
            InputName::Inside(outer) => format!("{} (its log)", outer.name()),
            InputName::Followed(names) => match &names.paths[..] {
                [] => InputName::stdin().name(),
                [path] => shown_path(path),
                [path, more @ ..] => format!("{} and {} more", shown_path(path), more.len()),
            },
        }
    }

    /// Returns the file's path.
    pub fn path(&self) -> Option<&Path> {
        match self {
            InputName::Stdin(_) | InputName::Followed(_) | InputName::Inside(_) => None,
            InputName::Part(part) => Some(&part.path),
            InputName::Path(path)
            | InputName::Listed(path)
            | InputName::Copy(path, _)
            | InputName::Member(path, _)
            | InputName::Pipe(path, _) => Some(path),
        }
    }

    /// Returns the path that distinguishes the input from others: of a copy or a part that of what was copied.
    pub fn source_path(&self) -> PathBuf {
        match (self, self.path()) {
            (InputName::Copy(..) | InputName::Member(..) | InputName::Part(_), _) | (_, None) => {
                self.name().into()
            }
            (_, Some(path)) => path.to_owned(),
        }
    }

    /// Returns the slot of an input that can be opened only once.
    pub(super) fn pipe_slot(&self) -> Option<&PipeSlot> {
        match self {
            InputName::Stdin(slot) | InputName::Pipe(_, slot) => Some(slot),
            _ => None,
        }
    }

    /// Returns true for a pipe, or another file that may still grow while it is read.
    pub fn is_piped(&self) -> bool {
        let is_piped = |meta: Metadata| !meta.is_file() && (self.is_stdin() || !meta.is_dir());
        matches!(self, InputName::Followed(_)) || self.metadata().is_some_and(is_piped)
    }

    /// Returns true for a plain file, also if it is standard input.
    pub fn is_file(&self) -> bool {
        self.metadata().is_some_and(|meta| meta.is_file())
    }

    fn metadata(&self) -> Option<Metadata> {
        match self {
            InputName::Stdin(_) => guard::stdin_file().ok()?.metadata().ok(),
            name => name.path()?.metadata().ok(),
        }
    }

    /// Returns true if the file was found in a folder or an archive, not named by the user: those hold more than logs.
    pub fn is_listed(&self) -> bool {
        match self {
            InputName::Listed(_) | InputName::Member(..) => true,
            InputName::Part(part) => part.is_listed,
            _ => false,
        }
    }

    pub(super) fn read_error(&self, source: io::Error) -> Error {
        Error::Input {
            path: PathBuf::from(self.name()),
            cause: source,
        }
    }
}
