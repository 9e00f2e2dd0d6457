//! Stages about several ranks: their traffic, their lateness, and the time of the network.

pub mod matrix;
pub mod proxy;
pub mod skew;
