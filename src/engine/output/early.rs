//! Rows that are handed over before the input ends.

use crate::error::Result;

/// What is handed over of an input that goes on.
#[derive(Debug)]
pub enum Next<T> {
    /// The next rows. They come again when the input has ended, unless two turns came in between.
    Rows(T),
    /// A turn: the rows from before the last turn do not come again.
    Turn,
}

/// Who takes rows before the input ends.
pub struct Early<'e, T> {
    sink: &'e mut (dyn FnMut(Next<T>) -> Result<()> + Send),
    keeps: bool,
}

impl<'e, T> Early<'e, T> {
    /// Gives rows to `sink`.
    pub fn new(sink: &'e mut (dyn FnMut(Next<T>) -> Result<()> + Send)) -> Early<'e, T> {
        Early { sink, keeps: false }
    }

    /// The same, where all rows must come again when the input has ended.
    #[must_use]
    pub fn keeping(self, keeps: bool) -> Early<'e, T> {
        Early { keeps, ..self }
    }

    /// Hands the next rows over.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn rows(&mut self, rows: T) -> Result<()> {
        (self.sink)(Next::Rows(rows))
    }

    /// Whether there may be turns.
    pub fn turns(&self) -> bool {
        !self.keeps
    }

    /// A turn.
    ///
    /// # Errors
    /// Never: nothing is written.
    pub fn turn(&mut self) -> Result<()> {
        (self.sink)(Next::Turn)
    }
}
