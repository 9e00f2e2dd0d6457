//! The limits of joining lines: how far it looks, how long it waits, and how much evidence it wants.
//! Unless noted, they were set on the GPU jobs and the simulated logs that the tests hold.

use crate::log::walk::CALL_END_WAIT_LINES;

/// Heads and tails of torn lines that wait at a time; with more, the oldest is given up.
pub(super) const MAX_PENDING_PIECES: usize = 256;

/// Lines for which a head waits for its tail: as long as walks look for one.
pub(super) const HEAD_WAIT_LINES: u64 = CALL_END_WAIT_LINES;

/// Longest tail, in bytes, that is looked for after more bytes of its own line: each place takes a pass
/// over the rest of the line, and NCCL's lines are shorter.
pub(super) const MAX_TAIL_BYTES: usize = 16 << 10;

/// Addresses without a known user for which possible users are kept. More only cost memory.
pub(super) const MAX_NARROWED_ADDRESSES: usize = 4096;

/// Processes that are remembered in a log in blocks; beyond, the one that wrote longest ago is
/// forgotten.
pub(super) const MAX_WRITERS: usize = 4096;

/// Longest stamp in front of a header, in bytes.
pub(super) const MAX_STAMP_BYTES: usize = 64;

/// Longest host name, in bytes: `HOST_NAME_MAX` is 64, and other text may be glued to it.
pub(super) const MAX_HOST_BYTES: usize = 255;

/// Bytes of a log in memory at a time.
pub(super) const REJOIN_WINDOW_BYTES: usize = 1 << 20;

/// Distance after a write's end, in bytes, up to which the next buffer's first header is looked for.
pub(super) const HEADER_SEARCH_BYTES: usize = 128 << 10;

/// Searches for an end of a write that the length of a buffer does not give. Each takes long, and a
/// job has few such places.
pub(super) const MAX_SEAM_TRIES: u32 = 1 << 14;

/// Longest tail, in bytes, that is looked for without knowing where it begins.
pub(super) const MAX_BLIND_TAIL_BYTES: usize = 512;

/// Longest text of a header up to its message, without the host, in bytes.
pub(super) const MAX_HEADER_BYTES: usize = 64;

/// First bytes of a log that decide whether it is in blocks.
pub(super) const EVIDENCE_BYTES: usize = 1 << 20;

/// Lines that must be cut at a buffer's end and continue elsewhere: one may be chance.
pub(super) const MIN_CUT_LINES: u64 = 2;

/// Searches for the end of a write while it is unknown whether the log is in blocks: a log of lines
/// has many such places, a log in blocks has one for each process.
pub(super) const MAX_SUSPECT_SEAM_TRIES: u32 = 64;

/// Writes from which on their mean length decides between buffers and lines.
pub(super) const MIN_WRITES_FOR_MEAN: usize = 64;

/// Smallest mean length of buffers, in bytes, including those that were flushed early.
pub(super) const MIN_MEAN_BUFFER_BYTES: usize = 1024;

/// Bytes that the first look covers in full; later looks cover [`GLANCE_BYTES`] of as many.
pub(super) const GLANCE_STRIDE_BYTES: usize = 64 << 10;

/// Bytes of each later look.
pub(super) const GLANCE_BYTES: usize = 16 << 10;

/// Sound places after which a look ends.
pub(super) const MAX_SOUND_PLACES: u32 = 8;

/// Lines of other processes or other text after which a look ends.
pub(super) const MAX_FOREIGN_LINES: u32 = 32;

/// Longest tag of a launcher, with the stamp in front of it, in bytes.
pub(super) const MAX_TAG_BYTES: usize = 128;

/// Longest beginning of a line that waits for its writer's next piece, in bytes: NCCL's lines are shorter.
pub(super) const MAX_BEGUN_LINE_BYTES: usize = 16 << 10;

/// Lines that wait for their writer's next piece at a time; the pieces of further writers are passed on as they are.
pub(super) const MAX_BEGUN_LINES: usize = 1024;

/// Bytes of a log with tags that are read at a time.
pub(super) const TAGGED_READ_BYTES: usize = 64 << 10;

/// The length of the stamp that `--timestamp-output` puts in front of a tag, `Fri Nov 27 03:59:14 2026`.
pub(super) const TAG_STAMP_BYTES: usize = 24;

/// First bytes of a log that decide whether its newest line is the first.
pub(super) const UPSIDE_DOWN_HEAD_BYTES: usize = 16 << 10;

/// First bytes of a line in which its stamp is looked for: a level or a host may be in front.
pub(super) const STAMP_SEARCH_BYTES: usize = 96;

/// Lines with an earlier stamp than the line before: clocks of several hosts make a few.
pub(super) const MIN_DESCENTS: u32 = 8;

/// The longest log that is turned, which takes twice as much memory. What a console exports is shorter.
pub(super) const MAX_TURNED_BYTES: usize = 64 << 20;
