//! `-o FILE`: a file in the place of standard output, which appears only when it is complete.
//!
//! The output goes into a file without a name, which gets its name when the program has written all:
//! a program that is killed leaves nothing. Where the file system has only files with names it goes
//! into a temporary one beside it. A device or a named pipe is written directly.

use crate::error::without_temporary_path;
use crate::program::closed_stdout::record_replaced_stdout;
use anyhow::Context;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat};
use rustix::io::Errno;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::{Builder, NamedTempFile, TempPath};

/// Links that are followed, as many as Linux follows.
const MAX_LINKS: usize = 40;

/// The file that gets its name at the end. Like standard output, it is the process's.
static PENDING: Mutex<Option<PendingFile>> = Mutex::new(None);

fn lock_pending_file() -> MutexGuard<'static, Option<PendingFile>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that has not got its name yet.
#[derive(Debug)]
struct PendingFile {
    file: File,
    /// The name that it has until then, where the file system needs one; it is removed with it.
    temporary: Option<TempPath>,
    target: PathBuf,
}

impl PendingFile {
    /// Makes a file that becomes the target; `mode` is the access that it has then, under the umask.
    fn create_beside(target: PathBuf, mode: u32) -> io::Result<PendingFile> {
        let folder = folder_of_file(&target);
        let (file, temporary) = match open_nameless(folder, mode) {
            Some(file) => (file, None),
            None => {
                let access = Permissions::from_mode(mode);
                let file = temporary_names().permissions(access).tempfile_in(folder)?;
                let (file, path) = file.into_parts();
                (file, Some(path))
            }
        };
        Ok(PendingFile {
            file,
            temporary,
            target,
        })
    }

    /// Puts the file into the place of the target. A link cannot replace a file, and a renamed file does.
    fn persist(self) -> io::Result<()> {
        let named = match self.temporary {
            Some(path) => path,
            None => {
                let link = |path: &Path| link_file(&self.file, path);
                let folder = folder_of_file(&self.target);
                temporary_names().make_in(folder, link)?.into_temp_path()
            }
        };
        Ok(named.persist(&self.target)?)
    }
}

fn temporary_names() -> Builder<'static, 'static> {
    let mut names = Builder::new();
    names.prefix(".nccl-pipe-");
    names
}

/// Returns a file without a name, if the file system has such files and they can be named later.
fn open_nameless(folder: &Path, mode: u32) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(folder, flags, Mode::from_raw_mode(mode)).ok()?;
    let file = File::from(file);
    path_of_open_file(&file).exists().then_some(file)
}

/// The path by which Linux links a file without a name, see open(2), `O_TMPFILE`.
fn path_of_open_file(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fn link_file(file: &File, path: &Path) -> io::Result<()> {
    let from = path_of_open_file(file);
    Ok(linkat(CWD, from, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// Lets standard output go into the file from here on.
///
/// # Errors
/// It cannot be written there.
pub(super) fn redirect_stdout(path: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let target = follow_links(path).with_context(failed)?;
    let there = target.metadata().ok();
    if there
        .as_ref()
        .is_some_and(|there| is_special(there) || there.is_dir())
    {
        let file = OpenOptions::new().write(true).open(path);
        return replace_stdout(&file.with_context(failed)?).with_context(failed);
    }
    let is_there = there.is_some();
    // Like any new file; the umask is applied to it.
    let mode = there.map_or(0o666, |there| there.permissions().mode() & 0o7777);
    let pending = PendingFile::create_beside(target.clone(), mode).map_err(without_temporary_path);
    let pending = match pending {
        // The folder may be protected, and its file not.
        Err(e) if is_there && e.kind() == ErrorKind::PermissionDenied => {
            let file = OpenOptions::new().write(true).truncate(true).open(&target);
            return replace_stdout(&file.with_context(failed)?).with_context(failed);
        }
        pending => pending.with_context(failed)?,
    };
    replace_stdout(&pending.file).with_context(failed)?;
    *lock_pending_file() = Some(pending);
    Ok(())
}

/// True for a target that is written in place, and not replaced.
fn is_special(there: &Metadata) -> bool {
    let kind = there.file_type();
    kind.is_char_device() || kind.is_block_device() || kind.is_fifo() || kind.is_socket()
}

/// Returns the file that a link leads to, which is replaced and not the link; it need not be there.
///
/// # Errors
/// The links lead in a circle.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    if let Ok(target) = path.canonicalize() {
        return Ok(target);
    }
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        match target.read_link() {
            Ok(next) => target = folder_of_file(&target).join(next),
            Err(_) => return Ok(target),
        }
    }
    Err(Errno::LOOP.into())
}

fn folder_of_file(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Writes a file, which others may read, in the place of an earlier one.
///
/// # Errors
/// It cannot be written.
pub fn replace_file(path: &Path, text: &[u8]) -> io::Result<()> {
    let path = &follow_links(path)?;
    if path.metadata().is_ok_and(|there| is_special(&there)) {
        // A named pipe without a reader is an error, and no reason to wait.
        let mut options = OpenOptions::new();
        let options = options.write(true).custom_flags(libc::O_NONBLOCK);
        return options.open(path)?.write_all(text);
    }
    let mut file = NamedTempFile::new_in(folder_of_file(path))?;
    file.write_all(text)?;
    let access = Permissions::from_mode(0o644);
    file.as_file().set_permissions(access)?;
    file.persist(path)?;
    Ok(())
}

fn replace_stdout(file: &File) -> anyhow::Result<()> {
    rustix::stdio::dup2_stdout(file)?;
    record_replaced_stdout();
    Ok(())
}

/// Gives the file its name: all is written. A file system that notices only now that it is full, as
/// one over a network may, is an error, too.
///
/// # Errors
/// The last bytes cannot be written; it cannot be renamed.
pub(super) fn name_output_file() -> anyhow::Result<()> {
    let Some(pending) = lock_pending_file().take() else {
        return Ok(());
    };
    let failed = format!("cannot write {}", pending.target.display());
    let written = io::stdout().flush();
    let written = written.and_then(|()| pending.file.sync_all());
    let named = written.and_then(|()| pending.persist());
    named.map_err(without_temporary_path).context(failed)
}

/// Removes what was written so far: a file with the name stays as it was.
pub(super) fn discard_output_file() {
    drop(lock_pending_file().take());
}
