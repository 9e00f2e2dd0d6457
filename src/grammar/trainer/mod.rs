//! The step lines of trainers.
