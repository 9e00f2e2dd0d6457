//! `results-4102198.zip`, as Snoopie's launcher packs the files of a run: they are unpacked into a temporary
//! folder, each by the last part of its name.

use crate::error::{Error, Result};
use crate::source::InputName;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// More files of one archive are refused: a run has seven, and some for each process.
const MAX_SNOOPIE_FILES: usize = 1 << 12;

/// An archive of more bytes is not unpacked: a small one may be made of endless zeros.
const MAX_UNZIPPED_BYTES: u64 = 64 << 30;

/// True for a packed run.
pub(super) fn is_zip(path: &Path) -> bool {
    let mut first = [0; 4];
    let mut file = match File::open(path) {
        Ok(file) if path.metadata().is_ok_and(|meta| meta.is_file()) => file,
        _ => return false,
    };
    file.read_exact(&mut first).is_ok() && first == *b"PK\x03\x04"
}

/// Unpacks the files of a run; the folder goes with what is given back. `None` where none is Snoopie's.
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
        // No part of a name but the last: a name may lead out of the folder.
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
        // Files of one name may come from several runs.
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
