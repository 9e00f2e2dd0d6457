//! Unpacks `results-4102198.zip`, in which Snoopie's launcher packs the files of a run, into a temporary
//! folder, each file by the last part of its name.

use crate::error::{Error, Result};
use crate::formats::is_archive;
use crate::source::InputName;
use crate::stages::matrix::limits::{MAX_SNOOPIE_FILES, MAX_UNZIPPED_BYTES};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// True for a packed run.
pub(super) fn is_zip(path: &Path) -> bool {
    let mut first = [0; 4];
    let mut file = match File::open(path) {
        Ok(file) if path.metadata().is_ok_and(|meta| meta.is_file()) => file,
        _ => return false,
    };
    file.read_exact(&mut first).is_ok() && is_archive(&first)
}

/// Unpacks the files of a run, and returns them with their folder. `None` if no file is Snoopie's.
///
/// # Errors
/// The archive or a file in it is damaged; the folder cannot be written.
pub(super) fn unzip_run(path: &Path) -> Result<Option<(TempDir, Vec<InputName>)>> {
    let failed = |cause: io::Error| Error::Input {
        path: path.to_owned(),
        cause,
    };
    let mut archive = zip::ZipArchive::new(File::open(path).map_err(failed)?)
        .map_err(|error| failed(error.into()))?;
    let folder = tempfile::tempdir().map_err(failed)?;
    let mut origins = Vec::new();
    let mut left = MAX_UNZIPPED_BYTES;
    for at in 0..archive.len() {
        let mut file = archive.by_index(at).map_err(|error| failed(error.into()))?;
        // Only the last part of a name is used: a name may lead out of the folder.
        let Ok(full) = file.name().map(|name| name.into_owned()) else {
            continue;
        };
        let name = PathBuf::from(&full);
        let Some(name) = name.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if file.is_dir() || !name.contains("_log_") {
            continue;
        }
        if origins.len() == MAX_SNOOPIE_FILES {
            let cause = "it has more than 4096 files of Snoopie: unpack it, and name the folder";
            return Err(failed(io::Error::other(cause)));
        }
        // Files of several runs may have equal names.
        let to = folder.path().join(at.to_string());
        std::fs::create_dir(&to).map_err(failed)?;
        let to = to.join(name);
        let mut out = File::create(&to).map_err(failed)?;
        let mut some = (&mut file).take(left);
        left -= io::copy(&mut some, &mut out).map_err(failed)?;
        if left == 0 {
            let cause = "its files are more than 64 GiB: unpack it, and name the folder";
            return Err(failed(io::Error::other(cause)));
        }
        let shown = format!("{}/{}", path.display(), full.trim_start_matches("../"));
        origins.push(InputName::Copy(to, shown));
    }
    Ok((!origins.is_empty()).then_some((folder, origins)))
}
