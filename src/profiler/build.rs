//! Keeps the library in the process: NCCL unloads a profiler with its last communicator, but the thread that writes
//! goes on.

#![allow(clippy::print_stdout, reason = "Cargo reads it")]

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
