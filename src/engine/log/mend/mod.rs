//! Lines that were torn or cut in blocks, made whole again.

pub mod blocks;
pub mod torn;
