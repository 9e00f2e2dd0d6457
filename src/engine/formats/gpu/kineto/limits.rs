//! The limits of traces.

/// Bytes that are read together.
pub(super) const KINETO_BLOCK_BYTES: usize = 1 << 20;

/// Bytes of the longest event and the longest member of the header that are read; most have some hundred.
pub(super) const MAX_EVENT_BYTES: usize = 16 << 20;

/// Bytes of a key of an event and the blanks around it.
pub(super) const MAX_KEY_BYTES: usize = 256;

/// Levels of nested objects and lists: those that fit into 128 bits, a bit each.
pub(super) const MAX_JSON_DEPTH: u32 = 127;
