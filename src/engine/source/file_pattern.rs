//! Patterns that choose files of a folder.

use globset::{GlobBuilder, GlobMatcher};
use std::path::Path;

/// A pattern that chooses files of a folder: without a `/` it matches the file's name, with one its
/// path in the folder.
#[derive(Debug, Clone)]
pub struct FilePattern {
    matcher: GlobMatcher,
    of_path: bool,
}

impl std::str::FromStr for FilePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<FilePattern, String> {
        let glob = GlobBuilder::new(text).literal_separator(true).build();
        Ok(FilePattern {
            matcher: glob.map_err(|e| e.to_string())?.compile_matcher(),
            of_path: text.contains('/'),
        })
    }
}

impl FilePattern {
    pub(super) fn matches_path(&self, path: &Path) -> bool {
        let name = path.file_name().map_or(path, Path::new);
        self.matcher
            .is_match(if self.of_path { path } else { name })
    }
}
