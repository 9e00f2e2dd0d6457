//! From lines to the bytes of a log: the ranks' lines mixed, labelled, damaged and written.

mod damage;
mod harm;
pub(crate) mod out;
mod prefix;
pub(crate) mod stretch;
pub(crate) mod writer;
