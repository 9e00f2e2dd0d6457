//! The numbers of the format, and its limits: what a reader believes of a file that anybody may have written.

/// Bytes of text in a frame. More would need more memory to read; less would repeat templates more often.
pub(super) const FRAME_TEXT_BYTES: usize = 4 << 20;

/// Bytes of a frame, packed, and of any of its columns, unpacked: a line of a frame gives each column at
/// most ten bytes, and has more than two.
pub(super) const MAX_COLUMN_BYTES: usize = 10 * FRAME_TEXT_BYTES;

/// Bytes of the description in front of the frames, or after them.
pub(super) const MAX_FACT_BYTES: usize = 64 << 10;

/// Templates of a frame. A log of calls has some hundreds; lines beyond are kept whole.
pub(super) const MAX_TEMPLATES: usize = 1 << 14;

/// Numbers in front of ` NCCL `: a time stamp has seven, a header three, a launcher's prefix a few.
pub(super) const MAX_DIGIT_RUNS: usize = 32;

/// Digits of a number in front of ` NCCL `: any such number fits in 64 bits.
pub(super) const MAX_DIGITS: usize = 18;

/// How hard zstd tries. A higher level takes twice the time for a tenth less.
pub(super) const ZSTD_LEVEL: i32 = 3;

/// First bytes of an input that its hash is made of: INIT lines, and some hundreds of calls.
pub(super) const HASHED_SOURCE_BYTES: usize = 64 << 10;

/// The first number that eight digits cannot hold.
pub(super) const EIGHT_DIGITS: u64 = 100_000_000;
/// The first number that eight hexadecimal digits cannot hold.
pub(super) const EIGHT_HEX_DIGITS: u64 = 1 << 32;

/// Digits of an address, or of `opCount`.
pub(super) const MAX_HEX_DIGITS: usize = 16;

/// Bytes of a line that is known by its text: twice what a call's line has with a time stamp and a launcher's
/// prefix. Longer ones are split.
pub(super) const MAX_KNOWN_LINE_BYTES: usize = 512;

/// Layouts of addresses that are tried on a line: a log has one, or a few if some addresses are null or short.
pub(super) const MAX_ADDRESS_LAYOUTS: usize = 8;

/// The version that is written, and the only one that is read.
pub const PART_VERSION: u32 = 1;

/// What comes next in a part.
pub(super) const FRAME_MARK: u8 = b'F';
/// What comes next in a part.
pub(super) const END_MARK: u8 = b'E';

/// In a template: a hole comes next, and its kind is the next byte. A line that has this byte is no call's.
pub(super) const HOLE_MARK: u8 = 0x01;
/// The kind of `opCount`.
pub(super) const OP_COUNT_HOLE: u8 = b'o';
/// The kinds of runs of digits are counted up from here: one digit, two, and so on.
pub(super) const DIGITS_HOLE: u8 = 0x80;
/// The kinds of addresses are counted up from here.
pub(super) const ADDRESS_HOLE: u8 = 0xa0;
