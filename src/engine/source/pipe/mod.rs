//! Inputs that can be read only once. Such an input is opened once: its name keeps it ([`PipeSlot`]), and
//! its first bytes stay readable until a pass takes the stream, so that several stages may recognise it.

pub(super) mod copy_store;
mod limits;
pub(super) mod spool;

use super::coded::{DecodedText, UnpackDamageSlot, decode_text};
use super::growing::live_reader::IdleReports;
use super::guard::FileMap;
use super::limits::INPUT_HEAD_BYTES;
use super::read::{FillEnd, fill_until_idle};
use crate::pool::lock_mutex;
use std::fmt;
use std::io::{self, Cursor, Read};
use std::sync::{Arc, Mutex};
use tempfile::TempPath;

/// The place in an input's name for the opened input, if it can be read only once. Not a part of the name:
/// all slots are equal.
#[derive(Clone, Default)]
pub struct PipeSlot(Arc<Mutex<Option<Arc<SharedPipe>>>>);

impl PipeSlot {
    /// Returns the input, which `open` opens the first time.
    pub(super) fn get_or_open<E>(
        &self,
        open: impl FnOnce() -> Result<SharedPipe, E>,
    ) -> Result<Arc<SharedPipe>, E> {
        let mut slot = lock_mutex(&self.0);
        if let Some(pipe) = &*slot {
            return Ok(Arc::clone(pipe));
        }
        let pipe = Arc::new(open()?);
        *slot = Some(Arc::clone(&pipe));
        Ok(pipe)
    }

    /// Returns the input, if it was opened before.
    pub(super) fn opened(&self) -> Option<Arc<SharedPipe>> {
        lock_mutex(&self.0).clone()
    }
}

impl fmt::Debug for PipeSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipeSlot").finish_non_exhaustive()
    }
}

impl PartialEq for PipeSlot {
    fn eq(&self, _: &PipeSlot) -> bool {
        true
    }
}

impl Eq for PipeSlot {}

/// A stream of bytes, and the switch of its reports that it is idle, if it has one.
pub(super) struct LiveStream {
    pub(super) reader: Box<dyn Read + Send>,
    pub(super) idles: Option<IdleReports>,
}

/// An input that can be read only once.
pub(super) struct SharedPipe {
    state: Mutex<PipeState>,
    /// The text is UTF-16, and is read as UTF-8.
    pub(super) is_utf16: bool,
    /// Reports of an idle input, if it can give them.
    pub(super) idles: Option<IdleReports>,
    pub(super) damage: UnpackDamageSlot,
}

struct PipeState {
    /// `None` once a pass has taken it.
    reader: Option<Box<dyn Read + Send>>,
    /// The bytes read to recognise it.
    head: Vec<u8>,
    /// The input has no bytes after the head.
    is_ended: bool,
    /// The whole input, if it was copied to be recognised.
    copy: Option<PipeFileCopy>,
}

/// The whole of a pipe in a temporary file.
#[derive(Clone)]
pub(super) struct PipeFileCopy {
    pub(super) map: Arc<FileMap>,
    pub(super) path: Arc<TempPath>,
}

impl SharedPipe {
    /// Begins a stream, unpacked and decoded; waits for its first bytes.
    pub(super) fn new(stream: LiveStream) -> io::Result<SharedPipe> {
        let damage = UnpackDamageSlot::default();
        let DecodedText {
            reader,
            is_packed,
            is_utf16,
        } = decode_text(stream.reader, &damage)?;
        let pipe = SharedPipe {
            state: Mutex::new(PipeState {
                reader: Some(reader),
                head: Vec::new(),
                is_ended: false,
                copy: None,
            }),
            is_utf16,
            // A decoder fails for good if its input reports that it is idle.
            idles: stream.idles.filter(|_| !is_packed && !is_utf16),
            damage,
        };
        pipe.read_more_head()?;
        Ok(pipe)
    }

    /// Returns the bytes of the head so far, and true if more of them may come.
    pub(super) fn head(&self) -> (Vec<u8>, bool) {
        let state = lock_mutex(&self.state);
        let is_short = state.head.len() < INPUT_HEAD_BYTES;
        let is_open = is_short && !state.is_ended && state.reader.is_some();
        (state.head.clone(), is_open)
    }

    /// Returns true if the input has no bytes.
    pub(super) fn is_empty(&self) -> bool {
        lock_mutex(&self.state).head.is_empty()
    }

    /// Waits until more of the head has come, or its end.
    pub(super) fn read_more_head(&self) -> io::Result<()> {
        let mut state = lock_mutex(&self.state);
        let state = &mut *state;
        let Some(reader) = &mut state.reader else {
            return Ok(());
        };
        let switch = |on: bool| {
            if let Some(idles) = &self.idles {
                idles.switch_reports(on);
            }
        };
        let had = state.head.len();
        switch(true);
        let end = loop {
            match fill_until_idle(&mut **reader, &mut state.head, INPUT_HEAD_BYTES) {
                Ok(FillEnd::Idle) if state.head.len() == had => {}
                end => break end,
            }
        };
        switch(false);
        state.is_ended |= end? == FillEnd::Ended;
        Ok(())
    }

    /// Returns the stream from its first byte; `None` if a pass has taken it before.
    pub(super) fn take_reader(&self) -> Option<Box<dyn Read + Send>> {
        let mut state = lock_mutex(&self.state);
        let reader = state.reader.take()?;
        Some(Box::new(Cursor::new(state.head.clone()).chain(reader)))
    }

    /// Returns the copy of the whole input, if one was made.
    pub(super) fn file_copy(&self) -> Option<PipeFileCopy> {
        lock_mutex(&self.state).copy.clone()
    }

    /// Keeps the copy of the whole input for later openings by name.
    pub(super) fn set_file_copy(&self, copy: PipeFileCopy) {
        lock_mutex(&self.state).copy = Some(copy);
    }
}
