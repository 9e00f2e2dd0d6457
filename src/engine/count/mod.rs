//! Calls counted by step and key: gathered from all inputs, merged, put in the order of their rows.

pub mod caller;
pub mod calls;
pub mod cells;
pub mod durations;
pub mod filtered;
pub mod groups;
mod limits;
pub mod member_filter;
pub mod notes;
pub mod row_counts;
pub mod spread;
pub mod tally;
pub mod timed;
pub(crate) mod times;
pub mod values;
