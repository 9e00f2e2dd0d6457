//! The limits of the walk: the sizes of its tables, and how far it looks around a torn line.

/// Headers that a chunk's walk recognises without parsing: enough for the ranks of some nodes.
pub(super) const MAX_HEADER_SLOTS: usize = 1024;

/// Members that are found without a hash table.
pub(super) const MAX_MEMBER_SLOTS: usize = 1024;

/// Texts in front of bodies that are remembered with their speaker. A log with more of them (time stamps that
/// the grammar does not know) only becomes slower.
pub(super) const MAX_SPEAKER_TEXTS: usize = 1 << 16;

/// Bytes of a chunk for each place of these tables: to clear a large table takes as long as to walk a
/// small file.
pub(super) const CHUNK_BYTES_PER_SLOT: usize = 1024;

/// Bytes at the end of a chunk in which a call that NCCL counted is looked for: some 30 lines, as some ranks of eight count.
pub(super) const LAST_CALLS_BYTES: usize = 8 << 10;

/// Smallest size of these tables.
pub(super) const MIN_TABLE_SLOTS: usize = 64;

/// Lines after a head in which its tail is looked for: the tail may follow another line's first 128
/// bytes, and that looks like a whole line.
pub(crate) const CALL_END_WAIT_LINES: u64 = 128;

/// Lines after a message's head in which a tail is looked for that any writer may have written.
pub(crate) const MESSAGE_END_WAIT_LINES: u64 = 16;

/// Bytes after a tear that may continue a line by chance: another line's bytes may look like the next
/// digits.
pub(super) const MAX_CHANCE_BYTES: usize = 16;

/// Length, in bytes, at which NCCL before 2.29.2 cuts a line (`char buffer[1024]` in `src/debug.cc`).
pub(super) const NCCL_LINE_CUT_BYTES: usize = 1023;

/// Longest launcher's label in front of a tail, in bytes.
pub(super) const MAX_LABEL_BYTES: usize = 64;

/// Longest text in front of a header that may be a known prefix (Ray's, CloudWatch's), in bytes.
pub(super) const MAX_PREFIX_BYTES: usize = 160;

/// The length at which NCCL 2.29.2+ tears a line, in bytes. It prints with one `vfprintf`
/// (`src/debug.cc`), and if standard output has no buffer glibc 2.37+ writes each 128 bytes by
/// themselves (`PRINTF_BUFFER_SIZE_TO_FILE_STAGE` in `stdio-common/printf_buffer_to_file.h`).
pub const TEAR_STRIDE_BYTES: usize = 128;
