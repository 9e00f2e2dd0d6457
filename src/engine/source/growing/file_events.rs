//! The system's events of files that grew, so that the others need no check.

use super::limits::{MAX_CHANGED_PATHS, WRITE_SETTLE_TIME};
use crate::pool::lock_mutex;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use rustc_hash::FxHashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The files with events since the changes were last taken.
#[derive(Debug, Default)]
pub(super) struct ChangedPaths {
    paths: FxHashSet<PathBuf>,
    /// Events were missed.
    all: bool,
}

impl ChangedPaths {
    /// Returns the paths; `None` if any file may have grown.
    pub(super) fn paths(&self) -> Option<impl Iterator<Item = &Path>> {
        (!self.all).then(|| self.paths.iter().map(PathBuf::as_path))
    }

    fn has_no_change(&self) -> bool {
        !self.all && self.paths.is_empty()
    }

    fn record_event(&mut self, event: notify::Result<notify::Event>) {
        match event {
            Ok(event) if event.need_rescan() => self.all = true,
            // Reading is an event, too.
            Ok(event) if matches!(event.kind, EventKind::Access(_)) => {}
            Ok(event) => self.paths.extend(event.paths),
            Err(_) => self.all = true,
        }
        if self.paths.len() > MAX_CHANGED_PATHS {
            *self = ChangedPaths {
                all: true,
                ..ChangedPaths::default()
            };
        }
    }
}

/// The changes, and the signal that there are new ones.
#[derive(Debug, Default)]
struct FileEventInbox {
    heard: Mutex<ChangedPaths>,
    news: Condvar,
}

/// Watches folders for changed files.
pub(super) struct FileEvents {
    /// `None` if the system gives no events.
    watcher: Option<RecommendedWatcher>,
    heard: Arc<FileEventInbox>,
    folders: FxHashSet<PathBuf>,
}

impl FileEvents {
    pub(super) fn new() -> FileEvents {
        let heard = Arc::new(FileEventInbox::default());
        let to = Arc::clone(&heard);
        let hear = move |event| {
            let mut heard = lock_mutex(&to.heard);
            heard.record_event(event);
            if !heard.has_no_change() {
                to.news.notify_all();
            }
        };
        FileEvents {
            watcher: notify::recommended_watcher(hear).ok(),
            heard,
            folders: FxHashSet::default(),
        }
    }

    /// Watches a file, which need not exist, through its folder: a thousand files of a folder need one
    /// watch. Returns the path that its events will have, if the system gives events.
    pub(super) fn watch_file(&mut self, path: &Path) -> Option<PathBuf> {
        let path = std::path::absolute(path).ok()?;
        let folder = path.parent()?;
        if !self.folders.contains(folder) {
            let watcher = self.watcher.as_mut()?;
            watcher.watch(folder, RecursiveMode::NonRecursive).ok()?;
            self.folders.insert(folder.to_owned());
        }
        Some(path)
    }

    /// Returns the changes since the last call.
    pub(super) fn take_changes(&self) -> ChangedPaths {
        std::mem::take(&mut *lock_mutex(&self.heard.heard))
    }

    /// Waits until a file changes, for at most `most`.
    pub(super) fn wait_for_change(&self, most: Duration) {
        let heard = lock_mutex(&self.heard.heard);
        let waits = |heard: &mut ChangedPaths| heard.has_no_change();
        let waited = self.heard.news.wait_timeout_while(heard, most, waits);
        let (heard, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(heard);
        if !waited.timed_out() {
            std::thread::sleep(WRITE_SETTLE_TIME);
        }
    }
}
