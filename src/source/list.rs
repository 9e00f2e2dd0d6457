//! What the user named, as a list of inputs: folders become the files in them.

use super::Origin;
use crate::error::{Error, Result};
use std::ffi::OsString;
use std::fs::FileType;
use std::path::{Path, PathBuf};

/// The inputs that `paths` name, in the order given; a folder's files in the order of their
/// names, folders in it too, hidden ones left out. No path, or `-`, is standard input.
///
/// # Errors
/// A path that does not exist, a folder without files, `-` named twice.
pub fn expand(paths: &[PathBuf]) -> Result<Vec<Origin>> {
    if paths.is_empty() {
        return Ok(vec![Origin::Stdin]);
    }
    let mut origins = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            if origins.contains(&Origin::Stdin) {
                return Err(Error::Usage(
                    "standard input (-) can be named only once".to_owned(),
                ));
            }
            origins.push(Origin::Stdin);
        } else if path.is_dir() {
            let before = origins.len();
            folder(path, &mut origins)?;
            if origins.len() == before {
                return Err(Error::Content(format!(
                    "{}: a folder without files, expected NCCL logs in it",
                    path.display()
                )));
            }
        } else {
            origins.push(Origin::Path(path.clone()));
        }
    }
    Ok(origins)
}

fn folder(path: &Path, origins: &mut Vec<Origin>) -> Result<()> {
    let error = |source| Error::Input {
        path: path.to_owned(),
        cause: source,
    };
    let mut entries: Vec<(OsString, Option<FileType>)> = Vec::new();
    for entry in std::fs::read_dir(path).map_err(error)? {
        let entry = entry.map_err(error)?;
        let name = entry.file_name();
        if !name.as_encoded_bytes().starts_with(b".") {
            entries.push((name, entry.file_type().ok()));
        }
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, kind) in entries {
        let entry = path.join(name);
        // A link to a folder is not followed: it may lead back here. The folder itself says what
        // its entries are; only of a link must be asked what it leads to.
        if kind.is_some_and(|k| k.is_dir()) {
            folder(&entry, origins)?;
        } else if kind.is_some_and(|k| k.is_file()) {
            origins.push(Origin::Listed(entry));
        } else if entry.is_file() {
            origins.push(Origin::Path(entry));
        }
    }
    Ok(())
}
