//! Inputs that grow while they are read: files, the files of folders, and a pipe.
//!
//! A file is followed by its name, as `tail -F` does: a replaced or truncated file is read from the
//! beginning, and a missing file once it appears. The system reports which files grew
//! ([`super::file_events`]). Some file systems (NFS) have no such events, so the sizes of all files are
//! polled, too: often for files that grew without an event, once a second for the others.

use super::file_events::FileEvents;
use super::limits::{
    ACTIVE_POLL_INTERVAL, FILE_TAIL_BYTES, GROWTH_READ_BYTES, MAX_UNHEARD_GROWTHS,
    MIN_FILE_TAIL_BYTES, SILENT_POLL_INTERVAL,
};
use super::live_reader::LiveReader;
use crate::error::{Error, Result};
use crate::source::coded::PackCodec;
use crate::source::file_pattern::FilePattern;
use crate::source::guard;
use crate::source::list::expand_paths;
use crate::source::name::InputName;
use crate::source::read::{open_without_waiting, read_some};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::mem;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Bytes that an input has grown by.
#[derive(Debug)]
pub struct AppendedBytes<'a> {
    /// The number of the input, in the order in which inputs appear.
    pub input: usize,
    /// The new bytes, cut anywhere.
    pub bytes: &'a [u8],
    /// The input is a pipe.
    pub is_pipe: bool,
    /// The bytes begin another file of the same name: the line before has no end.
    pub anew: bool,
}

/// Inputs that grow.
pub struct GrowingFiles {
    paths: Vec<PathBuf>,
    patterns: Vec<FilePattern>,
    listed: Instant,
    known: FxHashSet<PathBuf>,
    ear: FileEvents,
    /// Inputs by the paths that their events have.
    named: FxHashMap<PathBuf, usize>,
    /// The time when all files were polled.
    swept: Instant,
    inputs: Vec<GrowingInput>,
    piece: Vec<u8>,
}

enum GrowingInput {
    Pipe { live: LiveReader, ended: bool },
    File(FollowedFile),
}

/// A file that is followed by its name.
#[derive(Default)]
struct FollowedFile {
    path: PathBuf,
    open: Option<File>,
    /// The device and number of the file that is open, or was.
    identity: Option<(u64, u64)>,
    at: u64,
    /// The bytes before `at`.
    tail: Vec<u8>,
    /// When it was written last, as of the last look.
    written: Cell<Option<SystemTime>>,
    /// The next bytes begin another file.
    anew: bool,
    /// It may have grown.
    is_due: bool,
    /// How many times it grew without an event since its last one.
    silent: u8,
}

impl GrowingFiles {
    /// Follows `paths`: files, which need not exist yet, and folders with their files, or only the files
    /// that one of `patterns` matches; no path, or `-`, is standard input.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn new(paths: &[PathBuf], patterns: &[FilePattern]) -> Result<GrowingFiles> {
        let mut follow = GrowingFiles {
            paths: paths.to_vec(),
            patterns: patterns.to_vec(),
            listed: Instant::now(),
            known: FxHashSet::default(),
            ear: FileEvents::new(),
            named: FxHashMap::default(),
            swept: Instant::now(),
            inputs: Vec::new(),
            piece: vec![0; GROWTH_READ_BYTES],
        };
        if paths.is_empty() || paths.iter().any(|path| path.as_os_str() == "-") {
            let file = guard::stdin_file().map_err(|e| InputName::stdin().read_error(e))?;
            follow.inputs.push(GrowingInput::Pipe {
                live: LiveReader::new(file),
                ended: false,
            });
        }
        follow.list_files()?;
        Ok(follow)
    }

    /// Looks for new files now. Returns true if there are any.
    ///
    /// # Errors
    /// A folder cannot be read.
    pub fn find_new_files(&mut self) -> Result<bool> {
        let before = self.inputs.len();
        self.list_files()?;
        Ok(self.inputs.len() > before)
    }

    /// Looks for new files.
    fn list_files(&mut self) -> Result<()> {
        self.listed = Instant::now();
        for path in &self.paths {
            if path.as_os_str() == "-" {
                continue;
            }
            // A folder without files gets some later.
            let found = match path.is_dir() {
                false => vec![path.clone()],
                true => match expand_paths(std::slice::from_ref(path), &self.patterns) {
                    Ok(found) => {
                        let paths = found.origins.iter().filter_map(InputName::path);
                        paths.map(Path::to_owned).collect()
                    }
                    Err(Error::Content(_)) => Vec::new(),
                    Err(e) => return Err(e),
                },
            };
            for path in found {
                if self.known.insert(path.clone()) {
                    // The folder of a link has no events of the link's file.
                    let is_link = path.is_symlink();
                    let name = (!is_link).then(|| self.ear.watch_file(&path)).flatten();
                    let silent = name.as_ref().map_or(MAX_UNHEARD_GROWTHS, |_| 0);
                    self.named
                        .extend(name.map(|name| (name, self.inputs.len())));
                    self.inputs.push(GrowingInput::File(FollowedFile {
                        path,
                        is_due: true,
                        silent,
                        ..FollowedFile::default()
                    }));
                }
            }
        }
        Ok(())
    }

    /// Gives new bytes of each input to `take`. Returns true if there are any.
    ///
    /// # Errors
    /// An input cannot be read, or `take` fails.
    pub fn read_growth(
        &mut self,
        mut take: impl FnMut(AppendedBytes<'_>) -> Result<()>,
    ) -> Result<bool> {
        if self.listed.elapsed() >= SILENT_POLL_INTERVAL {
            self.list_files()?;
        }
        self.note_changed_files();
        let sweeps = self.swept.elapsed() >= SILENT_POLL_INTERVAL;
        if sweeps {
            self.swept = Instant::now();
        }
        let mut any = false;
        for (number, input) in self.inputs.iter_mut().enumerate() {
            let (n, anew) = match input {
                GrowingInput::Pipe { ended: true, .. } => continue,
                GrowingInput::File(file) if !sweeps && !file.is_expected() => continue,
                GrowingInput::Pipe { live, ended } => {
                    let mut read = || match live.wait_until_readable(Duration::ZERO)? {
                        true => live.read(&mut self.piece).map(Some),
                        false => Ok(None),
                    };
                    let n = read().map_err(|e| InputName::stdin().read_error(e))?;
                    *ended = n == Some(0);
                    (n.unwrap_or(0), false)
                }
                GrowingInput::File(file) => {
                    let read = file.read_and_note_growth(&mut self.piece);
                    read.map_err(|cause| {
                        let path = file.path.clone();
                        Error::Input { path, cause }
                    })?
                }
            };
            if n > 0 {
                any = true;
                take(AppendedBytes {
                    input: number,
                    bytes: &self.piece[..n],
                    is_pipe: matches!(input, GrowingInput::Pipe { .. }),
                    anew,
                })?;
            }
        }
        Ok(any)
    }

    /// Makes the next [`GrowingFiles::read_growth`] poll all files, also those without an event.
    pub(super) fn expect_growth_everywhere(&mut self) {
        for input in &mut self.inputs {
            if let GrowingInput::File(file) = input {
                file.is_due = true;
            }
        }
    }

    /// Notes which files may have grown.
    fn note_changed_files(&mut self) {
        let heard = self.ear.take_changes();
        let Some(paths) = heard.paths() else {
            return self.expect_growth_everywhere();
        };
        for path in paths {
            let number = self.named.get(path).copied();
            if let Some(GrowingInput::File(file)) = number.and_then(|at| self.inputs.get_mut(at)) {
                file.is_due = true;
                file.silent = 0;
            }
        }
    }

    /// Waits for a moment, or until a pipe has bytes or a file has an event.
    ///
    /// # Errors
    /// The pipe cannot be waited for.
    pub fn wait_for_growth(&self) -> Result<()> {
        let pipe = self.inputs.iter().find_map(|input| match input {
            GrowingInput::Pipe { live, ended: false } => Some(live),
            _ => None,
        });
        if let Some(live) = pipe {
            let waited = live.wait_until_readable(ACTIVE_POLL_INTERVAL);
            waited.map_err(|e| InputName::stdin().read_error(e))?;
        } else {
            self.ear.wait_for_change(ACTIVE_POLL_INTERVAL);
        }
        Ok(())
    }

    /// Returns true if nothing more can come: all inputs are pipes that ended.
    pub fn is_over(&self) -> bool {
        let is_over =
            |input: &GrowingInput| matches!(input, GrowingInput::Pipe { ended: true, .. });
        self.inputs.iter().all(is_over) && !self.inputs.is_empty()
    }

    /// Returns true if one of the inputs is a pipe.
    pub fn has_pipe(&self) -> bool {
        let is_pipe = |input: &GrowingInput| matches!(input, GrowingInput::Pipe { .. });
        self.inputs.iter().any(is_pipe)
    }

    /// Returns true for several files, and for a folder: more may come.
    pub fn is_of_several_files(&self) -> bool {
        self.files().nth(1).is_some() || self.paths.iter().any(|path| path.is_dir())
    }

    /// Returns the files that were found so far.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.inputs.iter().filter_map(|input| match input {
            GrowingInput::File(file) => Some(&*file.path),
            GrowingInput::Pipe { .. } => None,
        })
    }
}

impl FollowedFile {
    /// Returns true if it may have grown: an event came, or its events cannot be relied on.
    fn is_expected(&self) -> bool {
        self.is_due || self.silent >= MAX_UNHEARD_GROWTHS
    }

    /// Reads new bytes as `read_growth_of_file` does, and notes whether more may follow.
    fn read_and_note_growth(&mut self, to: &mut [u8]) -> io::Result<(usize, bool)> {
        let was_due = self.is_due;
        let read = self.read_growth_of_file(to)?;
        self.is_due = read.0 > 0;
        if self.is_due && !was_due {
            self.silent = self.silent.saturating_add(1);
        }
        Ok(read)
    }

    /// Reads new bytes. Returns their number, and true if they begin another file.
    fn read_growth_of_file(&mut self, to: &mut [u8]) -> io::Result<(usize, bool)> {
        let n = match &self.open {
            Some(file) => ignore_not_found(self.read_open_file(file, to))?,
            None => None,
        };
        match n {
            Some((n, false)) if n > 0 => return Ok(self.take_bytes(&to[..n])),
            // It was truncated, and may have grown again.
            Some((n, true)) => {
                self.begin_new_file();
                return Ok(self.take_bytes(&to[..n]));
            }
            Some(_) => {}
            None => self.open = None,
        }
        // Is there another file of this name?
        let named = self.path.metadata().and_then(|meta| match meta.is_dir() {
            // A folder has no lines: the file's name may come back.
            true => Err(ErrorKind::NotFound.into()),
            false => Ok((meta.dev(), meta.ino())),
        });
        let Some(identity) = ignore_not_found(named)? else {
            return Ok((0, false));
        };
        if self.open.is_some() && self.identity == Some(identity) {
            return Ok((0, false));
        }
        let opened = open_without_waiting(&self.path);
        let Some(file) = ignore_not_found(opened)? else {
            return Ok((0, false));
        };
        // Some file systems give a file another number from time to time.
        let is_same = self.at >= MIN_FILE_TAIL_BYTES && self.has_same_tail(&file)?;
        if self.identity.replace(identity).is_some() && !is_same {
            self.begin_new_file();
        }
        let n = read_at(&file, to, self.at)?;
        if self.at == 0 && PackCodec::detect_codec(&to[..n]).is_some() {
            return Err(io::Error::other(
                "expected text that grows, found packed data (nccl-check reads packed logs)",
            ));
        }
        self.open = Some(file);
        Ok(self.take_bytes(&to[..n]))
    }

    /// Reads new bytes of the open file. Returns their number, and true if they begin it anew, since it
    /// was truncated.
    fn read_open_file(&self, file: &File, to: &mut [u8]) -> io::Result<(usize, bool)> {
        let meta = file.metadata()?;
        let n = read_at(file, to, self.at)?;
        // The length does not show a file that was overwritten: it may be as long.
        let written = meta.modified().ok();
        let is_written = self.written.replace(written) != written;
        // Network file systems can give an old length.
        if (n > 0 || meta.len() < self.at || is_written) && !self.has_same_tail(file)? {
            return Ok((read_at(file, to, 0)?, true));
        }
        Ok((n, false))
    }

    /// Begins another file of the name, or the truncated one again.
    fn begin_new_file(&mut self) {
        (self.at, self.anew) = (0, true);
        self.tail.clear();
    }

    /// Notes the bytes that were read.
    fn take_bytes(&mut self, bytes: &[u8]) -> (usize, bool) {
        self.at += bytes.len() as u64;
        let last = &bytes[bytes.len().saturating_sub(FILE_TAIL_BYTES)..];
        let more = (self.tail.len() + last.len()).saturating_sub(FILE_TAIL_BYTES);
        self.tail.drain(..more);
        self.tail.extend_from_slice(last);
        let is_first = !bytes.is_empty() && mem::take(&mut self.anew);
        (bytes.len(), is_first)
    }

    /// Returns true if a file still has the last bytes that were read, at their place.
    fn has_same_tail(&self, file: &File) -> io::Result<bool> {
        let mut own = [0; FILE_TAIL_BYTES];
        let own = &mut own[..self.tail.len()];
        let from = self.at - self.tail.len() as u64;
        match file.read_exact_at(own, from) {
            Ok(()) => Ok(*own == *self.tail),
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
            // A pipe cannot be compared.
            Err(e) if e.raw_os_error() == Some(libc::ESPIPE) => Ok(true),
            Err(e) => Err(e),
        }
    }
}

/// Reads from a place on; a pipe is read as it comes.
fn read_at(mut file: &File, to: &mut [u8], at: u64) -> io::Result<usize> {
    loop {
        match file.read_at(to, at) {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.raw_os_error() == Some(libc::ESPIPE) => {
                return match read_some(&mut file, to) {
                    Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(0),
                    read => read,
                };
            }
            read => return read,
        }
    }
}

/// Returns `None` for a file that does not exist: it may be replaced at any moment.
fn ignore_not_found<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) if e.raw_os_error() == Some(libc::ESTALE) => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    /// What comes until nothing more does; all files are looked at.
    fn read(follow: &mut GrowingFiles) -> Vec<(usize, Vec<u8>, bool)> {
        follow.swept = Instant::now().checked_sub(SILENT_POLL_INTERVAL).unwrap();
        let mut all = Vec::new();
        let take = |grown: AppendedBytes<'_>| {
            all.push((grown.input, grown.bytes.to_vec(), grown.anew));
            Ok(())
        };
        follow.read_growth(take).unwrap();
        all
    }

    #[test]
    fn a_file_is_followed_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let mut follow = GrowingFiles::new(std::slice::from_ref(&path), &[]).unwrap();
        assert_eq!(read(&mut follow), []);
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(read(&mut follow), [(0, b"one\ntw".to_vec(), false)]);
        assert_eq!(read(&mut follow), []);
        file.write_all(b"o\n").unwrap();
        assert_eq!(read(&mut follow), [(0, b"o\n".to_vec(), false)]);
        // Renamed, and written on under the old name; then a new one.
        fs::rename(&path, dir.path().join("a.log.1")).unwrap();
        file.write_all(b"last\n").unwrap();
        assert_eq!(read(&mut follow), [(0, b"last\n".to_vec(), false)]);
        assert_eq!(read(&mut follow), []);
        fs::write(&path, "new\n").unwrap();
        assert_eq!(read(&mut follow), [(0, b"new\n".to_vec(), true)]);
        // Truncated.
        fs::write(&path, "x\n").unwrap();
        assert_eq!(read(&mut follow), [(0, b"x\n".to_vec(), true)]);
        // And written on beyond where it was read, before it was looked at.
        fs::write(&path, "longer\n").unwrap();
        assert_eq!(read(&mut follow), [(0, b"longer\n".to_vec(), true)]);
        // It is not there for a moment.
        fs::remove_file(&path).unwrap();
        assert_eq!(read(&mut follow), []);
        fs::write(&path, "again\n").unwrap();
        assert_eq!(read(&mut follow), [(0, b"again\n".to_vec(), true)]);
        // Overwritten with the same length, when the clock of the file system has moved on.
        std::thread::sleep(Duration::from_millis(30));
        fs::write(&path, "equal\n").unwrap();
        assert_eq!(read(&mut follow), [(0, b"equal\n".to_vec(), true)]);
        assert_eq!(read(&mut follow), []);
        // A folder takes its name for a while.
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(read(&mut follow), []);
        fs::remove_dir(&path).unwrap();
        fs::write(&path, "back\n").unwrap();
        assert_eq!(read(&mut follow), [(0, b"back\n".to_vec(), true)]);
    }

    #[test]
    fn a_file_that_gets_another_number_is_not_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let [path, other] = ["a.log", "b"].map(|name| dir.path().join(name));
        let mut text = b"a line of the log\n".repeat(200);
        fs::write(&path, &text).unwrap();
        let mut follow = GrowingFiles::new(std::slice::from_ref(&path), &[]).unwrap();
        assert_eq!(read(&mut follow), [(0, text.clone(), false)]);
        text.extend(b"more\n");
        fs::write(&other, &text).unwrap();
        fs::rename(&other, &path).unwrap();
        assert_eq!(read(&mut follow), [(0, b"more\n".to_vec(), false)]);
        assert_eq!(read(&mut follow), []);
        // Another log that is longer.
        let text = b"a line of a new log\n".repeat(300);
        fs::write(&other, &text).unwrap();
        fs::rename(&other, &path).unwrap();
        assert_eq!(read(&mut follow), [(0, text, true)]);
    }

    #[test]
    fn a_file_that_grows_is_heard_and_one_that_does_not_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.log", "b.log"] {
            fs::write(dir.path().join(name), "begin\n").unwrap();
        }
        let target = dir.path().join("b.log");
        std::os::unix::fs::symlink(&target, dir.path().join("c.log")).unwrap();
        let paths = ["a.log", "c.log"].map(|name| dir.path().join(name));
        let mut follow = GrowingFiles::new(&paths, &[]).unwrap();
        assert_eq!(read(&mut follow).len(), 2);
        // No look at all files from now on.
        let mut until = |number: usize| {
            let start = Instant::now();
            let mut all = Vec::new();
            while all.is_empty() && start.elapsed() < Duration::from_secs(20) {
                follow.swept = Instant::now();
                let take = |grown: AppendedBytes<'_>| {
                    all.push((grown.input, grown.bytes.to_vec()));
                    Ok(())
                };
                follow.read_growth(take).unwrap();
                follow.wait_for_growth().unwrap();
            }
            assert_eq!(all, [(number, b"more\n".to_vec())]);
        };
        for (at, path) in paths.iter().enumerate() {
            let mut file = File::options().append(true).open(path).unwrap();
            file.write_all(b"more\n").unwrap();
            until(at);
        }
        let silent = |input: &GrowingInput| match input {
            GrowingInput::File(file) => file.silent,
            GrowingInput::Pipe { .. } => 0,
        };
        assert_eq!(silent(&follow.inputs[0]), 0);
        assert!(
            silent(&follow.inputs[1]) >= MAX_UNHEARD_GROWTHS,
            "a link is looked at"
        );
    }

    #[test]
    fn files_appear_in_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let paths = [dir.path().to_owned()];
        let mut follow = GrowingFiles::new(&paths, &["*.log".parse().unwrap()]).unwrap();
        assert_eq!(read(&mut follow), []);
        fs::write(dir.path().join("a.log"), "a\n").unwrap();
        fs::write(dir.path().join("b.txt"), "b\n").unwrap();
        follow.list_files().unwrap();
        assert_eq!(read(&mut follow), [(0, b"a\n".to_vec(), false)]);
        fs::write(dir.path().join("c.log"), "c\n").unwrap();
        follow.list_files().unwrap();
        assert_eq!(read(&mut follow), [(1, b"c\n".to_vec(), false)]);
        assert!(!follow.is_over());
    }
}
