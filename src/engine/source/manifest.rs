//! Manifests: lists of the inputs that a run must have. An engine that loses a task's output, or runs a task
//! twice, leaves a folder that looks whole.

use super::name::InputName;
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, stdin};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Reads a manifest: a path on each line; `-` is standard input. Empty lines do not count.
///
/// # Errors
/// It cannot be read.
pub fn read_manifest(path: &Path) -> Result<Vec<PathBuf>> {
    let failed = |cause| Error::Input {
        path: path.to_owned(),
        cause,
    };
    let reader: Box<dyn BufRead> = match path.as_os_str() == "-" {
        true => Box::new(stdin().lock()),
        false => Box::new(BufReader::new(File::open(path).map_err(failed)?)),
    };
    let mut paths = Vec::new();
    for line in reader.split(b'\n') {
        let mut line = line.map_err(failed)?;
        if line.ends_with(b"\r") {
            line.pop();
        }
        if !line.is_empty() {
            paths.push(OsString::from_vec(line).into());
        }
    }
    Ok(paths)
}

/// The inputs of a run beside those of its manifest; each list is in the order of names.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct InputDifferences {
    /// Inputs of the manifest that the run does not have.
    pub missing: Vec<String>,
    /// Inputs that the run has more often than the manifest.
    pub doubled: Vec<String>,
    /// Inputs of the run that are not in the manifest.
    pub unexpected: Vec<String>,
}

impl InputDifferences {
    /// Compares `origins` with the paths of a manifest.
    pub fn compare_inputs(expected: &[PathBuf], origins: &[InputName]) -> InputDifferences {
        // How often each is expected, and there.
        let mut all: BTreeMap<PathBuf, (usize, usize)> = BTreeMap::new();
        for path in expected {
            all.entry(plain_path(path)).or_default().0 += 1;
        }
        for origin in origins {
            // Two hosts may have packed logs of one name.
            let path = match origin {
                InputName::Part(part) => PathBuf::from(&part.source_name),
                _ => origin.source_path(),
            };
            all.entry(plain_path(&path)).or_default().1 += 1;
        }
        let mut found = InputDifferences::default();
        for (path, (expected, there)) in all {
            let list = match (expected, there) {
                (0, _) => &mut found.unexpected,
                (_, 0) => &mut found.missing,
                _ if there > expected => &mut found.doubled,
                _ => continue,
            };
            list.push(crate::error::escape::shown_path(&path));
        }
        found
    }
}

/// A path without `.` in it.
fn plain_path(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| *part != std::path::Component::CurDir)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_compared_with_a_manifest() {
        let dir = tempfile::tempdir().unwrap();
        let manifest = dir.path().join("list");
        std::fs::write(&manifest, "b.log\r\n\n./a.log\nsub/c.log").unwrap();
        let expected = read_manifest(&manifest).unwrap();
        let of = |names: &[&str]| -> Vec<InputName> {
            names
                .iter()
                .map(|name| InputName::Path(name.into()))
                .collect()
        };
        let whole = of(&["a.log", "b.log", "./sub/./c.log"]);
        let found = InputDifferences::compare_inputs(&expected, &whole);
        assert_eq!(found, InputDifferences::default());
        let other = of(&["a.log", "./a.log", "d.log", "b.log"]);
        let found = InputDifferences::compare_inputs(&expected, &other);
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(found.missing, names(&["sub/c.log"]));
        assert_eq!(found.doubled, names(&["a.log"]));
        assert_eq!(found.unexpected, names(&["d.log"]));
        assert!(read_manifest(&dir.path().join("none")).is_err());
    }
}
