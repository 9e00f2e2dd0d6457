//! The interface of a format with a record on each line.

use crate::error::Result;
use crate::output::table::{Lacks, Row};
use crate::report::account::Account;

/// A format with a record on each line.
pub trait RecordFormat: Clone + Send + Sync {
    /// Memory that is used again for each record.
    type Scratch: Default;
    /// The first record names the others' fields.
    const HAS_HEADER: bool = false;
    /// A quoted field may contain line ends.
    const HAS_QUOTES: bool = false;
    /// Records may need the context that one before them set.
    const CARRIES_CONTEXT: bool = false;

    /// Returns the reader of the input `name`, with the header if the format has one.
    ///
    /// # Errors
    /// The header lacks a needed column.
    fn read_header(header: &[u8], name: &str) -> Result<Self>;

    /// Reads a record.
    ///
    /// # Errors
    /// The part that the record lacks.
    fn read_record(
        &self,
        scratch: &mut Self::Scratch,
        record: RecordText<'_>,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks>;

    /// Returns true for a record that sets the context of those after it, up to the next such record.
    /// Only its own bytes decide that.
    fn sets_context(_record: &[u8]) -> bool {
        false
    }

    /// Adds the facts of records other than calls to an account.
    fn report_context(_scratch: &mut Self::Scratch, _account: &mut Account) {}
}

/// A record that is not blank.
#[derive(Debug, Clone, Copy)]
pub struct RecordText<'r> {
    /// Its bytes, with its line's end if it has one.
    pub bytes: &'r [u8],
    /// False if it has no quotes.
    pub may_have_quotes: bool,
    /// The last record that set a context; empty if none did. It stays in its place while a reader lives.
    pub context: &'r [u8],
}

impl<'r> RecordText<'r> {
    /// Makes a record without a context.
    pub(in crate::formats) fn from_bytes(bytes: &'r [u8]) -> RecordText<'r> {
        RecordText {
            bytes,
            may_have_quotes: true,
            context: b"",
        }
    }
}

/// Takes the rows of a chunk of records for a stage.
pub trait RowVisitor {
    /// Takes the next row.
    fn visit_row(&mut self, row: &Row<'_>);
}
