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

    /// Reads a record, which is not blank, with its line's end if it has one; `quotes` is false if it
    /// has none.
    ///
    /// # Errors
    /// The part that the record lacks.
    fn read_record(
        &self,
        scratch: &mut Self::Scratch,
        record: &[u8],
        quotes: bool,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks>;

    /// Returns true for a record that sets the context of those after it, up to the next such record.
    /// Only its own bytes decide that.
    fn sets_context(_record: &[u8]) -> bool {
        false
    }

    /// Reads a record after the last one that set a `context`, which is empty if none did. The context
    /// stays in its place while a reader lives.
    ///
    /// # Errors
    /// As [`RecordFormat::read_record`].
    #[inline]
    fn read_record_after(
        &self,
        scratch: &mut Self::Scratch,
        _context: &[u8],
        record: &[u8],
        quotes: bool,
        take: &mut impl FnMut(&Row<'_>),
    ) -> Result<(), Lacks> {
        self.read_record(scratch, record, quotes, take)
    }

    /// Adds the facts of records other than calls to an account.
    fn report_context(_scratch: &mut Self::Scratch, _account: &mut Account) {}
}

/// What a stage keeps of a chunk of records.
pub trait RowVisitor {
    /// The next row.
    fn visit_row(&mut self, row: &Row<'_>);
}
