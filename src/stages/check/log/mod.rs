//! How the log is: whether it is whole, which jobs it holds and how they ended.

pub(super) mod earlier_attempts;
pub(super) mod first_failure;
mod job_done;
pub(super) mod job_end_lines;
pub(super) mod job_ends;
pub(crate) mod job_processes;
pub(crate) mod job_spans;
pub(crate) mod job_stage;
pub(crate) mod limits;
pub(super) mod missing_steps;
pub(super) mod nothing_to_check;
pub(super) mod old_steps;
pub(super) mod overwritten;
mod reported_failures;
mod resumed_jobs;
