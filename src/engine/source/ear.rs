//! Which files grew, as the system tells: nobody need look at those that did not.

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use rustc_hash::FxHashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So many names are kept until they are asked for; beyond it any file may have grown.
const MOST: usize = 1 << 16;

/// How long is waited for more of what is heard: a line is often written in pieces.
const PIECES: Duration = Duration::from_millis(4);

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

    fn is_nothing(&self) -> bool {
        !self.all && self.paths.is_empty()
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

/// What was heard, and who waits for it.
#[derive(Debug, Default)]
struct Ears {
    heard: Mutex<Heard>,
    news: Condvar,
}

impl Ears {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hears what happens in folders.
pub(super) struct Ear {
    /// Where the system tells nothing there is none.
    watcher: Option<RecommendedWatcher>,
    heard: Arc<Ears>,
    folders: FxHashSet<PathBuf>,
}

impl Ear {
    pub(super) fn new() -> Ear {
        let heard = Arc::new(Ears::default());
        let to = Arc::clone(&heard);
        let hear = move |event| {
            let mut heard = to.heard();
            heard.event(event);
            if !heard.is_nothing() {
                to.news.notify_all();
            }
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
        std::mem::take(&mut *self.heard.heard())
    }

    /// Waits for so long until something is heard.
    pub(super) fn wait(&self, most: Duration) {
        let heard = self.heard.heard();
        let waits = |heard: &mut Heard| heard.is_nothing();
        let waited = self.heard.news.wait_timeout_while(heard, most, waits);
        let (heard, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(heard);
        if !waited.timed_out() {
            std::thread::sleep(PIECES);
        }
    }
}
