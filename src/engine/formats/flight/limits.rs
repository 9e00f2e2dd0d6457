//! The limits of dumps: a dump of PyTorch has some thousands of calls, of about 40 values each.

/// Bytes of the longest dump that is read.
pub const MAX_DUMP_BYTES: usize = 128 << 20;

/// Values of a document.
pub(super) const MAX_VALUES: usize = 4 << 20;

/// Items of all lists and dictionaries of a document together.
pub(super) const MAX_LIST_ITEMS: usize = 16 << 20;

/// Keys of a record that are searched.
pub(super) const MAX_RECORD_KEYS: usize = 64;

/// Values on a pickle's stack, and in its memo.
pub(super) const MAX_STACK_OR_MEMO: usize = 4 << 20;

/// Bytes of a dump's JSON form: ten times the largest dump of a real job. A small hostile pickle could grow without end, by
/// values that are used again and again.
pub(super) const MAX_DUMP_JSON_BYTES: usize = 1 << 30;

/// How deep a dump's values may lie in each other; PyTorch's lie six deep.
pub(super) const MAX_DUMP_JSON_DEPTH: usize = 64;
