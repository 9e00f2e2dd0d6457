//! Which communicator an address is: INIT lines, the times of an initialisation, names.

pub(crate) mod comm_name;
pub mod init;
pub(crate) mod rccl_tail;
pub mod timing;
