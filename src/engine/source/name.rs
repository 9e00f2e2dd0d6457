//! What the user named.

use super::growing_stream::FollowTargets;
use super::guard;
use super::pipe::PipeSlot;
use crate::error::Error;
use crate::error::escape::shown_path;
use std::io;
use std::path::{Path, PathBuf};

/// Where an input's bytes come from.
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
    /// A log that lies inside another input: [`super::Input::open_inner_log`].
    Inside(Box<InputName>),
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

    /// True for standard input.
    pub fn is_stdin(&self) -> bool {
        matches!(self, InputName::Stdin(_))
    }

    /// The name in messages: the path as given, or `stdin`.
    pub fn name(&self) -> String {
        match self {
            InputName::Stdin(_) => "stdin".to_owned(),
            InputName::Copy(_, name) => name.clone(),
            InputName::Path(path) | InputName::Listed(path) | InputName::Pipe(path, _) => {
                shown_path(path)
            }
            InputName::Inside(outer) => format!("{} (its log)", outer.name()),
            InputName::Followed(names) => match &names.paths[..] {
                [] => InputName::stdin().name(),
                [path] => shown_path(path),
                [path, more @ ..] => format!("{} and {} more", shown_path(path), more.len()),
            },
        }
    }

    /// The file's path.
    pub fn path(&self) -> Option<&Path> {
        match self {
            InputName::Stdin(_) | InputName::Followed(_) | InputName::Inside(_) => None,
            InputName::Path(path)
            | InputName::Listed(path)
            | InputName::Copy(path, _)
            | InputName::Pipe(path, _) => Some(path),
        }
    }

    /// The slot of an input that can be opened only once.
    pub(super) fn pipe_slot(&self) -> Option<&PipeSlot> {
        match self {
            InputName::Stdin(slot) | InputName::Pipe(_, slot) => Some(slot),
            _ => None,
        }
    }

    /// True for a pipe, or another file that may still grow while it is read.
    pub fn is_piped(&self) -> bool {
        match self {
            InputName::Followed(_) => return true,
            InputName::Inside(_) => return false,
            _ => {}
        }
        match self.path() {
            Some(path) => path.metadata().is_ok_and(|m| !m.is_file() && !m.is_dir()),
            None => {
                guard::stdin_file().is_ok_and(|file| file.metadata().is_ok_and(|m| !m.is_file()))
            }
        }
    }

    /// True for a plain file, also where it is standard input.
    pub fn is_file(&self) -> bool {
        match self {
            InputName::Stdin(_) => {
                guard::stdin_file().is_ok_and(|file| file.metadata().is_ok_and(|m| m.is_file()))
            }
            name => {
                let is_file = |path: &Path| path.metadata().is_ok_and(|meta| meta.is_file());
                name.path().is_some_and(is_file)
            }
        }
    }

    /// True if the file was found in a folder, not named by the user: folders hold more than logs.
    pub fn is_listed(&self) -> bool {
        matches!(self, InputName::Listed(_))
    }

    pub(super) fn read_error(&self, source: io::Error) -> Error {
        Error::Input {
            path: PathBuf::from(self.name()),
            cause: source,
        }
    }
}
