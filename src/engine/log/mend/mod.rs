//! Lines that were cut and are joined again.
//!
//! Three causes cut lines. NCCL tears its own lines every 128 bytes ([`torn`]), C's buffers cut
//! them every 4,096 bytes ([`blocks`]), and a launcher puts its tags in front of the pieces that it
//! reads (`tagged`). In the first two cases the *head* of a line is its first bytes, its *tail* the
//! rest, and a head and a tail are *joined* if the grammar takes them for one line of one process. A
//! tag names the process: nothing has to be decided.

pub mod blocks;
mod limits;
mod tagged;
pub mod torn;
mod upside_down;
