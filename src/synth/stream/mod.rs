//! From lines to the bytes of a log: the ranks' lines mixed, labelled, damaged and written.

mod damage;
mod damaged_lines;
pub(crate) mod mixer;
mod prefix;
pub(crate) mod sink;
pub(crate) mod writer;
