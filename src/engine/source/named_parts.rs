//! Parts among the inputs: each goes by the name of the input that was packed, and must be its only whole part.

use super::name::{InputName, NamedPart};
use super::part::{PART_MAGIC, PartFacts, hash_source, read_part_facts};
use super::read::read_first_bytes;
use crate::error::escape::shown_path;
use crate::error::{Error, Result};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The ending of a part's file name.
pub const PART_ENDING: &str = "ncp";

/// Gives parts among the inputs the names of what was packed; takes out, and reports, those that are no whole
/// part of this version, a second part of an input, and parts of files that have changed since.
pub(super) fn name_parts(origins: Vec<InputName>, failed: &mut Vec<Error>) -> Vec<InputName> {
    let mut parts: FxHashMap<(String, String), PathBuf> = FxHashMap::default();
    let mut names: FxHashMap<String, FxHashSet<String>> = FxHashMap::default();
    let mut described = Vec::with_capacity(origins.len());
    for origin in origins {
        let facts = match read_facts(&origin) {
            Ok(facts) => facts,
            Err(e) => {
                failed.push(e);
                continue;
            }
        };
        let Some((path, PartFacts { source, .. })) = origin.path().zip(facts.as_ref()) else {
            described.push((origin, None));
            continue;
        };
        // One input that two hosts packed, or one host in two states.
        let keys = [&source.host, &source.hash].map(|key| (source.name.clone(), key.clone()));
        if let Some(first) = keys.iter().find_map(|key| parts.get(key)) {
            let (path, first) = (shown_path(path), shown_path(first));
            let text = format!(
                "{path}: another part of {} is {first}: remove one of them",
                source.name
            );
            failed.push(Error::Content(text));
            continue;
        }
        parts.extend(keys.map(|key| (key, path.to_owned())));
        let hosts = names.entry(source.name.clone()).or_default();
        hosts.insert(source.host.clone());
        described.push((origin, facts));
    }
    let mut named: Vec<InputName> = described
        .into_iter()
        .map(|(origin, facts)| match (origin.path(), facts) {
            (Some(path), Some(PartFacts { source, .. })) => {
                let is_one = names.get(&source.name).is_none_or(|hosts| hosts.len() == 1);
                let name = match is_one {
                    true => source.name.clone(),
                    false => format!("{}:{}", source.host, source.name),
                };
                InputName::Part(Box::new(NamedPart {
                    path: path.to_owned(),
                    name,
                    source_name: source.name,
                    is_listed: source.listed,
                    is_utf16: source.utf16,
                }))
            }
            _ => origin,
        })
        .collect();
    if !names.is_empty() && !named.iter().any(InputName::is_piped) {
        named.sort_by_cached_key(InputName::source_path);
    }
    named
}

/// Reads the facts of a part; `None` if the input is not a part.
///
/// # Errors
/// It is no whole part of this version; what it was made of has changed.
fn read_facts(origin: &InputName) -> Result<Option<PartFacts>> {
    let (InputName::Path(path) | InputName::Listed(path)) = origin else {
        return Ok(None);
    };
    if path.extension().is_none_or(|ending| ending != PART_ENDING) {
        return Ok(None);
    }
    // What cannot be opened is reported when it is read.
    let Ok(mut file) = File::open(path) else {
        return Ok(None);
    };
    let failed = |e| origin.read_error(e);
    if read_first_bytes(&mut file, PART_MAGIC.len()).map_err(failed)? != PART_MAGIC {
        return Ok(None);
    }
    io::Seek::rewind(&mut file).map_err(failed)?;
    let facts = read_part_facts(&mut file)
        .map_err(|e| Error::Content(format!("{}: {e}: pack the log again", shown_path(path))))?;
    let source = Path::new(&facts.source.name);
    if facts.source.host == host_name()
        && let Ok((bytes, hash)) = hash_source(source)
        && (bytes, &hash) != (facts.source.bytes, &facts.source.hash)
    {
        return Err(Error::Content(format!(
            "{}: {} has changed since it was packed: pack it again",
            shown_path(path),
            facts.source.name
        )));
    }
    Ok(Some(facts))
}

/// The name of this host.
pub fn host_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}
