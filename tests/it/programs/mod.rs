//! Each program by itself: its rows, and what they mean.

mod chain;
mod comms;
mod communicators;
mod cuda;
mod diff;
mod filters;
mod inspector;
mod kernels;
mod matrix;
mod mpi;
mod net;
mod nsys;
mod overlap;
mod pack;
mod parquet;
mod proxy;
mod ras_watch;
mod report;
mod rows;
mod several_jobs;
mod skew;
mod synth;
mod tables;
mod timing;
mod tuning;
mod watch;
