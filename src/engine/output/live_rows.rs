//! Rows that are given out before the input ends.

use crate::error::Result;

/// Rows of an input that goes on.
#[derive(Debug)]
pub enum LiveBatch<T> {
    /// The next rows. They come again when the input has ended, unless two turns came in between.
    Rows(T),
    /// A turn: the rows from before the last turn do not come again.
    Turn,
}

/// A receiver of rows before the input ends.
pub struct LiveRows<'e, T> {
    sink: Box<dyn FnMut(LiveBatch<T>) -> Result<()> + Send + 'e>,
    keeps: bool,
}

impl<'e, T> LiveRows<'e, T> {
    /// Gives rows to `sink`.
    pub fn new(sink: impl FnMut(LiveBatch<T>) -> Result<()> + Send + 'e) -> LiveRows<'e, T> {
        LiveRows {
            sink: Box::new(sink),
            keeps: false,
        }
    }

    /// Gives rows to `sink`; all rows must come again when the input has ended.
    #[must_use]
    pub fn keep_all(self, keeps: bool) -> LiveRows<'e, T> {
        LiveRows { keeps, ..self }
    }

    /// Gives out the next rows.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn send_rows(&mut self, rows: T) -> Result<()> {
        (self.sink)(LiveBatch::Rows(rows))
    }

    /// Returns true if there may be turns.
    pub fn has_checkpoints(&self) -> bool {
        !self.keeps
    }

    /// A turn.
    ///
    /// # Errors
    /// Never: nothing is written.
    pub fn send_checkpoint(&mut self) -> Result<()> {
        (self.sink)(LiveBatch::Turn)
    }
}
