//! Pure parsers: one line's bytes in, a value out that borrows from them. No I/O, no state, no
//! knowledge of files, of other lines, or of tables.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod coll;
pub mod ending;
pub mod expression;
pub mod fast_coll;
pub mod header;
pub mod kernel;
pub mod machine;
pub mod message;
pub mod nccl_tests;
mod rank_label;
#[cfg(test)]
#[path = "../../tests/it/shared.rs"]
mod shared;
pub mod short_header;
pub mod source_place;
pub mod stamp;
pub mod token;
pub mod trainer;
pub mod values;
pub mod wrap;
