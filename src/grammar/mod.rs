//! Pure parsers: one line's bytes in, a value out that borrows from them. No I/O, no state, no
//! knowledge of files, of other lines, or of tables.

pub mod coll;
pub(crate) mod ending;
pub mod header;
pub mod hot;
pub mod kernel;
pub mod message;
pub mod stamp;
pub(crate) mod token;
pub mod trainer;
pub mod values;
pub(crate) mod wrap;
