//! The shared data beside a checkout, for tests of the library and of the programs.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A file or folder of it. Where it is missing the test reports that and gets `None`.
pub(crate) fn data(name: &str) -> Option<PathBuf> {
    // Beside the checkout: a crate's own folder is below it.
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|above| above.join("../shared/data").join(name))
        .find(|path| path.exists());
    if path.is_none() {
        skipped(&format!("../shared/data/{name} is missing"));
    }
    path
}

/// Reports once for each test that it, or a part of it, has nothing to read. The macros that print
/// would leave this to the test harness, which shows nothing of a test that passes.
pub(crate) fn skipped(why: &str) {
    static REPORTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default().to_owned();
    let is_new = REPORTED
        .lock()
        .is_ok_and(|mut all| all.insert(test.clone()));
    if is_new {
        let _ = writeln!(std::io::stderr(), "skipped: {test}: {why}");
    }
}
