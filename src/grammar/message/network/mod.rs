//! The network and the connections: the NICs, and the transports between ranks.

pub mod channel;
pub(crate) mod connection_end;
pub mod net;
pub mod nic;
pub mod retry;
pub mod transport;
