//! Limits of the kept facts on sockets. They bound memory for any text.

/// Interfaces that are kept, by process. A job of 4,096 processes lists some 20,000; later ones are left out.
pub(super) const MAX_INTERFACES_KEPT: usize = 1 << 16;

/// Connections that are tried again, by thread, peer and error. A question names a few of them; later ones are
/// left out.
pub(super) const MAX_RETRIES_KEPT: usize = 1 << 12;
