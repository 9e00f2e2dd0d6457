//! Which communicator an address is: INIT lines, the times of an initialisation, names.

pub mod init;
pub(crate) mod name;
pub(crate) mod tail;
pub mod timing;
