//! Limits of the tables of known texts.

/// The fewest bytes of an error's words, cut at the end of a line, that name it: "peer acc". Fewer begin several.
pub(super) const MIN_CUT_WORDS_BYTES: usize = 8;

/// The fewest bytes of words of CUDA or HIP that name an error without its number: a sentence that nothing else has, such
/// as "an illegal memory access was encountered". Shorter ones ("out of memory") others have too.
pub(super) const MIN_TELLING_WORDS_BYTES: usize = 25;
