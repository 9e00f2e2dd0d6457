//! The network and the connections: which NICs there are, and who reaches whom over what.

pub(crate) mod channel;
pub(crate) mod end;
pub mod net;
pub(crate) mod nic;
pub(crate) mod transport;
