//! Inputs that are read more than once, and the copies of pipes that this needs.

use super::Input;
use super::data::{FileSource, InputData, PipeKeep, copy_failed, map_copy};
use crate::error::Result;
use crate::source::change_check::InputFingerprint;
use crate::source::limits::MIN_CHUNK_BYTES;
use crate::source::name::InputName;
use crate::source::pipe::PipeFileCopy;
use crate::source::pipe::copy_store::PipeCopyStore;
use crate::source::pipe::spool::PipeSpool;
use crate::source::rejoin::LineRejoiner;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tempfile::NamedTempFile;

impl Input {
    /// Returns the input once more, if it need not be opened anew.
    pub fn share_input(&self) -> Option<Input> {
        self.is_rewindable().then(|| Input {
            fingerprint: self.fingerprint.clone(),
            is_utf16: self.is_utf16,
            ..Input::new(self.origin.clone(), self.data.clone(), self.rejoin)
        })
    }

    /// Releases a small file's map between two passes: there may be more small files than the kernel has
    /// maps for.
    pub fn release_map(self) -> Input {
        let path = self.origin.path().filter(|_| self.origin.is_file());
        match (&self.data, path.map(Path::to_owned)) {
            (InputData::Map(map) | InputData::Cut(map), Some(path))
                if map.bytes().len() <= MIN_CHUNK_BYTES =>
            {
                let data = InputData::Again(FileSource::Path(path));
                Input { data, ..self }
            }
            _ => self,
        }
    }

    /// Returns the input in a form that can be read twice, with an error if it changes. A pipe is copied to
    /// memory, or to an unnamed temporary file (in `$TMPDIR`), in its first pass, and needs
    /// [`Input::rewind_input`] after it.
    pub fn make_rewindable(self) -> Result<Input> {
        self.make_rewindable_with(|| PipeCopyStore::new().map(PipeKeep::Copy))
    }

    /// Like [`Input::make_rewindable`]; lines of a pipe's copy may be dropped while it is read: see
    /// [`PipeSpool`].
    ///
    /// # Errors
    /// As [`Input::make_rewindable`].
    pub fn make_rewindable_spool(self) -> Result<Input> {
        self.make_rewindable_with(|| PipeSpool::new().map(PipeKeep::Spool))
    }

    fn make_rewindable_with(mut self, kept: fn() -> io::Result<PipeKeep>) -> Result<Input> {
        if self.is_rewindable() {
            self.fingerprint = Some(Arc::new(InputFingerprint::new(self.name())));
            return Ok(self);
        }
        if let InputData::Pipe(_, keep @ PipeKeep::Nothing) = &mut self.data {
            *keep = kept().map_err(|e| copy_failed(&self.origin, &e))?;
        }
        Ok(self)
    }

    /// Copies a pipe to a temporary file, for formats that are not read from first byte to last. The file is
    /// kept with the name of the input.
    ///
    /// # Errors
    /// The pipe cannot be read or copied.
    pub fn into_file_copy(self) -> Result<Input> {
        let InputData::Pipe(pipe, _) = &self.data else {
            return Ok(self);
        };
        let failed = |e: io::Error| copy_failed(&self.origin, &e);
        let mut file = NamedTempFile::new().map_err(failed)?;
        io::copy(&mut self.open_document()?, &mut file).map_err(failed)?;
        let map = Arc::new(map_copy(file.as_file(), &self.origin)?);
        pipe.set_file_copy(PipeFileCopy {
            map: Arc::clone(&map),
            path: Arc::new(file.into_temp_path()),
        });
        let data = InputData::Map(map);
        Ok(Input { data, ..self })
    }

    /// Returns the copy of a pipe that can drop lines, if there is one.
    pub fn pipe_spool(&self) -> Option<PipeSpool> {
        match &self.data {
            InputData::Pipe(_, PipeKeep::Spool(thin)) | InputData::Thinned(thin) => {
                Some(thin.clone())
            }
            _ => None,
        }
    }

    /// Returns the copy of a pipe so far, if there is one.
    pub fn pipe_copy(&self) -> Option<PipeCopy> {
        match &self.data {
            InputData::Pipe(_, PipeKeep::Copy(store)) => Some(PipeCopy {
                origin: self.origin.clone(),
                store: store.clone(),
                rejoin: self.rejoin,
            }),
            _ => None,
        }
    }

    /// Returns the input after its first pass.
    pub fn rewind_input(self) -> Result<Input> {
        let data = match self.data {
            InputData::Pipe(_, PipeKeep::Copy(store)) => map_store(&store, &self.origin)?,
            InputData::Pipe(_, PipeKeep::Spool(thin)) => InputData::Thinned(thin),
            data => data,
        };
        Ok(Input { data, ..self })
    }
}

/// Maps the copy of a pipe so far.
fn map_store(store: &PipeCopyStore, origin: &InputName) -> Result<InputData> {
    let file = store.clone_copy_file().map_err(|e| origin.read_error(e))?;
    Ok(InputData::Map(Arc::new(map_copy(&file, origin)?)))
}

/// The copy of a pipe so far.
#[derive(Debug)]
pub struct PipeCopy {
    origin: InputName,
    store: PipeCopyStore,
    rejoin: LineRejoiner,
}

impl PipeCopy {
    /// Gives the space of the bytes before `until` back: they will not be read again.
    pub fn release_until(&self, until: u64) {
        self.store.release_space(until);
    }

    /// Opens the copy so far as an input.
    ///
    /// # Errors
    /// The copy cannot be read.
    pub fn open_copied_part(&self) -> Result<Input> {
        let data = map_store(&self.store, &self.origin)?;
        Ok(Input::new(self.origin.clone(), data, self.rejoin))
    }
}
