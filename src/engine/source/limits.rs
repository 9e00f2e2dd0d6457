//! The limits of this room, and what each of them trades.

/// Bytes that are read to recognise the format of an input.
pub const INPUT_HEAD_BYTES: usize = 64 * 1024;

/// Bytes of all files of an archive, which are unpacked to a temporary folder. More should lie where their reader chooses.
pub(super) const MAX_ARCHIVE_BYTES: u64 = 64 << 30;

/// Files of an archive: a job of 100,000 ranks has as many.
pub(super) const MAX_ARCHIVE_FILES: usize = 200_000;

/// Bytes of a writer's buffer: C's library takes as many for a file or a pipe.
pub const STDIO_BUFFER_BYTES: usize = 4096;

/// A file of at most so much is one chunk, mapped or read. Smaller chunks would learn the processes of a log
/// anew more often.
pub(super) const MIN_CHUNK_BYTES: usize = 1 << 20;

/// Bytes of the first read into an empty buffer. More cost time for each of many small files; fewer need more reads.
pub(super) const MIN_READ_BYTES: usize = 16 << 10;

/// The longest line that is kept whole. The rest of a longer one is dropped and reported, since a stream
/// without line ends must not fill the memory; a file is treated alike.
pub(super) const MAX_LINE_BYTES: usize = 16 << 20;

/// Bytes that share one hash of a pass. Larger blocks need less memory, and more bytes are checked for a
/// small range.
pub(super) const HASH_BLOCK_BYTES: usize = 1 << 20;

/// Bytes for each one that is hashed: a log that is overwritten differs everywhere, and to hash more would
/// cost more than some hundredths of the walk, as each byte is a line of the cache.
pub(super) const HASH_STRIDE_BYTES: u64 = 4096;

/// Bytes of small files that are handed over together, while they are in a core's own cache.
pub(super) const SMALL_FILES_BATCH_BYTES: usize = MIN_CHUNK_BYTES;

/// The alignment of a small file's text, in bytes: the kernel copies slower to other addresses.
pub(super) const TEXT_ALIGNMENT_BYTES: usize = 64;

/// Files that are mapped at a time; more are read in blocks. Linux allows a process 65,530 maps (vm.max_map_count),
/// and the allocator needs some of them.
pub(super) const MAX_FILE_MAPS: usize = 16 << 10;

/// The shortest run of NULs that is a hole: a log has them that is truncated while another process writes it.
pub(crate) const MIN_HOLE_BYTES: usize = 64;
