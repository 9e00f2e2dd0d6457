//! Lines that were cut and are joined again.
//!
//! Two causes cut lines. NCCL tears its own lines every 128 bytes ([`torn`]), and C's buffers cut
//! them every 4,096 bytes ([`blocks`]). Both rooms use the same words: the *head* of a line is its
//! first bytes, its *tail* the rest, and a head and a tail are *joined* if the grammar takes them for
//! one line of one process.

pub mod blocks;
mod limits;
pub mod torn;
