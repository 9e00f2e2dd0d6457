//! How much a picture shows: more rows make it unreadable, and the table has all of them.

/// Rows of a picture, and columns of a map.
pub(crate) const MAX_PICTURE_ROWS: usize = 64;
