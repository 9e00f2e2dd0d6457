//! NCCL's profiler interface, versions 1 to 6: NCCL looks for the highest symbol `ncclProfiler_vN` that it knows.
#![allow(unsafe_code, reason = "the interface is C's")]

mod begun;
mod callbacks;
mod descriptors;
mod states;
mod table;
mod words;
