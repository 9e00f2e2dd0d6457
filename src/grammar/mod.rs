//! Pure parsers: one line's bytes in, a value out that borrows from them. No I/O, no state.

pub mod trainer;
