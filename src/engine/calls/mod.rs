//! What "the same call on all members" means, for every source of calls: a log, dumps, records and the
//! lines of PyTorch's watchdog.
//!
//! | file | the question it answers |
//! |---|---|
//! | [`same`] | which calls belong together, and what their callers must agree on |
//! | [`hashes`] | in which block of calls streams begin to differ, without keeping a call |
//! | [`compare`] | the first call that differs, and what a member did: left one out, added one, fell behind |
//! | [`usual`] | which of two equally large groups made the expected call |
//! | [`wait`] | which ranks wait for which others, and in which circle |
//! | [`circle`] | which ranks are to blame for a circle |

pub mod circle;
pub mod compare;
pub mod hashes;
mod limits;
pub mod same;
pub mod usual;
pub mod wait;
