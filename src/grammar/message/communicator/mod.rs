//! Which communicator an address is: INIT lines, the times of an initialisation, names, its end.

pub(crate) mod comm_name;
pub mod init;
pub mod life_line;
pub(crate) mod rccl_tail;
pub mod timing;
