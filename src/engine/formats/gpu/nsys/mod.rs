//! Exports of Nsight Systems as SQLite databases (`nsys export --type sqlite`), schemas 3.0 (2022) to
//! 3.25 (2026). Every table is optional and columns are found by name, as they differ by version and by
//! the traced interfaces.
//!
//! The environment of the processes is in an export, too: in META_DATA_CAPTURE, which is never read, and
//! among the texts of StringIds, which are read only if an event names them.

mod calls;
mod embedded_log;
mod export;
mod kernels;
mod limits;
mod payload;
mod ranges;
#[cfg(test)]
mod tests;
mod text;
mod timeline;

pub(crate) use embedded_log::extract_log;
pub(crate) use export::SQLITE_MAGIC;
pub(crate) use timeline::read_timeline;

use export::NsysExport;

use crate::error::Result;
use crate::formats::ordered::RowTaker;
use crate::formats::{InputFormat, ProbeAnswer, Provides};
use crate::source::Input;
use memchr::memmem;

/// An SQLite database with the tables of Nsight Systems.
pub(in crate::formats) const FORMAT: InputFormat = InputFormat {
    name: "nsys",
    what: "an Nsight Systems export",
    tells: Provides::CALLS
        .and(Provides::STARTS)
        .and(Provides::DURATIONS)
        .and(Provides::GPU),
    probe: |head| {
        let has = |key: &[u8]| memmem::find(head.bytes, key).is_some();
        let is_export = || has(b"TARGET_INFO_") || has(b"NVTX_") || has(b"CUPTI_");
        ProbeAnswer::yes_or_no(head.bytes.starts_with(SQLITE_MAGIC) && is_export())
    },
};

/// Returns the process of a `globalTid` or a `globalPid`.
fn pid_of_global(global: i64) -> u64 {
    (global.cast_unsigned() >> 24) & 0xff_ffff
}

/// Reads the calls of an export.
///
/// # Errors
/// It is no database, or cannot be read; those of `taking`.
pub(in crate::formats) fn read_calls(input: &Input, taking: &mut RowTaker<'_>) -> Result<()> {
    let export = NsysExport::open_export(input)?;
    calls::read_calls(&export, taking)?;
    export.add_to_account(&mut taking.account);
    Ok(())
}

/// Returns true for a database with tables of Nsight Systems, even if its first bytes do not name them.
pub(in crate::formats) fn is_export(input: &Input) -> bool {
    NsysExport::open_export(input).is_ok_and(|export| export.is_nsys())
}
