//! Limits of nccl-matrix. They bound memory, or fit a terminal or a picture.

/// Rows that are made together.
pub(super) const MATRIX_ROWS_PER_BATCH: usize = 4096;

/// Pairs of ranks that exchange parts, in all: an AlltoAll of 2,048 ranks has as many. A damaged line may have
/// any size of communicator.
pub(super) const MAX_EXCHANGED_PAIRS: u64 = 1 << 22;

/// Bytes of a source file that is annotated.
pub(super) const MAX_SOURCE_BYTES: u64 = 16 << 20;

/// Cells of Snoopie's accesses: the tool writes fewer.
pub(super) const MAX_ACCESS_CELLS: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };

/// Strips of accesses over a range, each of 384 bytes.
pub(super) const MAX_ACCESS_STRIPS: usize = 1 << 16;

/// Files of an archive of Snoopie: a run has seven, one of them perhaps for each of some processes.
pub(super) const MAX_SNOOPIE_FILES: usize = 1 << 12;

/// Bytes of an unpacked archive: a small one may be made of endless zeros.
pub(super) const MAX_UNZIPPED_BYTES: u64 = 64 << 30;

/// Ends of a picture.
pub(super) const MAX_PICTURE_ENDPOINTS: usize = 256;

/// Columns of a map without a terminal.
pub(super) const DEFAULT_MAP_COLUMNS: usize = 80;

/// Columns of a map's cell: a blank, its shade, a blank and a number.
pub(super) const MAP_CELL_COLUMNS: usize = 8;

/// Columns of a map's name; longer names are cut in the middle.
pub(super) const MAX_MAP_LABEL_COLUMNS: usize = 32;

/// Parts of a range with counts of their own.
pub(super) const BINS_PER_RANGE: usize = 48;

/// Lanes of a warp.
pub(super) const LANES_PER_WARP: usize = 32;
