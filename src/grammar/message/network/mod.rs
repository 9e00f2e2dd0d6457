//! The network and the connections: which NICs there are, and who reaches whom over what.

pub mod channel;
pub(crate) mod connection_end;
pub mod net;
pub mod nic;
pub mod transport;
