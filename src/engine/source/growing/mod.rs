//! Inputs that grow while they are read.

mod file_events;
pub(super) mod growing_files;
pub(super) mod growing_stream;
mod limits;
pub(super) mod live_reader;
