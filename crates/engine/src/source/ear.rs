//! Which files grew, as the system tells: nobody need look at those that did not.

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use rustc_hash::FxHashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// So many names are kept until they are asked for; beyond it any file may have grown.
const MOST: usize = 1 << 16;

/// What was heard since it was last asked for.
#[derive(Debug, Default)]
pub(super) struct Heard {
    paths: FxHashSet<PathBuf>,
    /// Some was missed.
    all: bool,
}

impl Heard {
    /// The names; `None` where any file may have grown.
    pub(super) fn paths(&self) -> Option<impl Iterator<Item = &Path>> {
        (!self.all).then(|| self.paths.iter().map(PathBuf::as_path))
    }

    fn event(&mut self, event: notify::Result<notify::Event>) {
        match event {
            Ok(event) if event.need_rescan() => self.all = true,
            // Reading is an event, too.
            Ok(event) if matches!(event.kind, EventKind::Access(_)) => {}
            Ok(event) => self.paths.extend(event.paths),
            Err(_) => self.all = true,
        }
        if self.paths.len() > MOST {
            *self = Heard {
                all: true,
                ..Heard::default()
            };
        }
    }
}

/// Hears what happens in folders.
pub(super) struct Ear {
    /// Where the system tells nothing there is none.
    watcher: Option<RecommendedWatcher>,
    heard: Arc<Mutex<Heard>>,
    folders: FxHashSet<PathBuf>,
}

impl Ear {
    pub(super) fn new() -> Ear {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let to = Arc::clone(&heard);
        let hear = move |event| {
            let mut heard = to.lock().unwrap_or_else(PoisonError::into_inner);
            heard.event(event);
        };
        Ear {
            watcher: notify::recommended_watcher(hear).ok(),
            heard,
            folders: FxHashSet::default(),
        }
    }

    /// Listens to a file, which need not exist, through its folder: a thousand files of a folder need
    /// one watch. Gives the name that is heard, if anything can be.
    pub(super) fn listen(&mut self, path: &Path) -> Option<PathBuf> {
        let path = std::path::absolute(path).ok()?;
        let folder = path.parent()?;
        if !self.folders.contains(folder) {
            let watcher = self.watcher.as_mut()?;
            watcher.watch(folder, RecursiveMode::NonRecursive).ok()?;
            self.folders.insert(folder.to_owned());
        }
        Some(path)
    }

    /// What was heard since the last call.
    pub(super) fn heard(&self) -> Heard {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *heard)
    }
}
