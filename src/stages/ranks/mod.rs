//! What happens between ranks: who sends to whom, who is late, where the network's time goes.

pub mod matrix;
pub mod proxy;
pub mod skew;
