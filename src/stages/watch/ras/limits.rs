//! Limits of a watch of NCCL's RAS.

use std::time::Duration;

/// NCCL's port, `NCCL_RAS_CLIENT_PORT` in `src/ras/ras_internal.h`.
pub(super) const RAS_PORT: u16 = 28028;

/// How long a connection may take.
pub(super) const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// How long RAS waits for processes that do not answer it: NCCL's own default.
pub(super) const RAS_WAIT_SECONDS: u64 = 5;

/// How long no byte of an answer may come: RAS asks twice, and waits each time.
pub(super) const ANSWER_WAIT: Duration = Duration::from_secs(4 * RAS_WAIT_SECONDS);

/// Bytes of a reply before the answer.
pub(super) const MAX_REPLY_BYTES: u64 = 4096;

/// Bytes of an answer: 16,384 ranks in 60 communicators have 400 MB of JSON.
pub(super) const MAX_ANSWER_BYTES: u64 = 1 << 30;

/// The time without a new call after which a job has stalled, unless the user sets another.
pub(super) const STALL_TIME: Duration = Duration::from_secs(60);

/// How often the state is written while the job moves.
pub(super) const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Questions in a row without an answer after which the job has ended.
pub(super) const MAX_SILENT_ASKS: u32 = 3;
