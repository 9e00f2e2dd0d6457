//! `-o FILE`: a file in the place of standard output, which appears only when it is complete.
//!
//! The output goes into a temporary file beside it, which gets its name when the program has
//! written all. A device or a named pipe is written directly.

use crate::error::without_temporary_path;
use crate::program::closed_stdout::record_replaced_stdout;
use anyhow::Context;
use rustix::io::Errno;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::{Builder, NamedTempFile};

/// Links that are followed, as many as Linux follows.
const MAX_LINKS: usize = 40;

/// The file that gets its name at the end. Like standard output, it is the process's.
static UNNAMED: Mutex<Option<(NamedTempFile, PathBuf)>> = Mutex::new(None);

fn lock_pending_file() -> MutexGuard<'static, Option<(NamedTempFile, PathBuf)>> {
    UNNAMED.lock().unwrap_or_else(PoisonError::into_inner)
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
    let access = there.map_or_else(|| Permissions::from_mode(0o666), |t| t.permissions());
    let file = Builder::new()
        .prefix(".nccl-pipe-")
        .permissions(access)
        .tempfile_in(folder_of_file(&target))
        .map_err(without_temporary_path);
    let file = match file {
        // The folder may be protected, and its file not.
        Err(e) if is_there && e.kind() == ErrorKind::PermissionDenied => {
            let file = OpenOptions::new().write(true).truncate(true).open(&target);
            return replace_stdout(&file.with_context(failed)?).with_context(failed);
        }
        file => file.with_context(failed)?,
    };
    replace_stdout(file.as_file()).with_context(failed)?;
    *lock_pending_file() = Some((file, target));
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
    let Some((file, path)) = lock_pending_file().take() else {
        return Ok(());
    };
    let failed = || format!("cannot write {}", path.display());
    io::stdout().flush().with_context(failed)?;
    file.as_file().sync_all().with_context(failed)?;
    file.persist(&path)
        .map_err(|e| e.error)
        .with_context(failed)?;
    Ok(())
}

/// Removes what was written so far: a file with the name stays as it was.
pub(super) fn discard_output_file() {
    drop(lock_pending_file().take());
}
