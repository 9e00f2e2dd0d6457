//! What a wrong path may have meant: the entry of its folder whose name is most like it.

use super::escape::shown_path;
use super::limits::{MAX_NEARBY_ENTRIES, MIN_NAME_LIKENESS};
use std::fs;
use std::path::Path;

/// The next step after a path that is not there, after a colon.
pub(super) fn advise_on_missing(path: &Path) -> String {
    if path.symlink_metadata().is_ok() {
        return ": it is a link to a file that is not there".to_owned();
    }
    let mut missing = path;
    let folder = loop {
        let parent = match missing.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            Some(_) => break Path::new("."),
            None => return String::new(),
        };
        if parent.is_dir() {
            break parent;
        }
        missing = parent;
    };
    let wanted = missing.file_name().unwrap_or_default().to_string_lossy();
    if let Some(name) = find_like_name(folder, &wanted) {
        let meant = missing.with_file_name(name);
        let rest = path.strip_prefix(missing).ok();
        let whole = rest
            .map(|rest| meant.join(rest))
            .filter(|whole| whole.exists());
        let meant = whole.unwrap_or(meant);
        return format!(": did you mean {}?", shown_path(&meant));
    }
    let place = match folder == Path::new(".") {
        true => "ls".to_owned(),
        false => format!("ls {}", shown_path(folder)),
    };
    format!(": {place} shows what is there")
}

/// Returns the name in a folder that is most like `wanted`, if one is like it. Of equal ones the first
/// by name.
fn find_like_name(folder: &Path, wanted: &str) -> Option<std::ffi::OsString> {
    let entries = fs::read_dir(folder).ok()?.take(MAX_NEARBY_ENTRIES);
    let rated = entries.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        let likeness = strsim::normalized_damerau_levenshtein(&name.to_string_lossy(), wanted);
        (likeness >= MIN_NAME_LIKENESS).then_some((likeness, name))
    });
    let best = rated.max_by(|(a, a_name), (b, b_name)| a.total_cmp(b).then(b_name.cmp(a_name)));
    best.map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_like_name_or_the_folder_is_advised() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("run7")).unwrap();
        for name in ["nccl.log", "nccl-2.log", "trace_0.json"] {
            fs::write(folder.path().join("run7").join(name), "").unwrap();
        }
        let advice = |path: &str| {
            let advice = advise_on_missing(&folder.path().join(path));
            advice.replace(&*folder.path().to_string_lossy(), "T")
        };
        assert_eq!(advice("run7/ncll.log"), ": did you mean T/run7/nccl.log?");
        assert_eq!(advice("rum7/nccl.log"), ": did you mean T/run7/nccl.log?");
        assert_eq!(advice("rum7/other"), ": did you mean T/run7?");
        assert_eq!(advice("run7/other"), ": ls T/run7 shows what is there");
        assert_eq!(advice("a/b/c"), ": ls T shows what is there");
    }
}
