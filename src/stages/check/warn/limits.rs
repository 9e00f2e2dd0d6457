//! Limits of the rooms on WARN lines. They bound memory and the length of a report.

/// Bytes of a text that is compared with others; NCCL cuts its lines at 1,023 bytes.
pub(super) const MAX_NORMALISED_BYTES: usize = 1024;

/// Kinds of unknown bodies with a finding of their own.
pub(super) const MAX_UNKNOWN_FINDINGS: usize = 10;

/// Pairs of a process and a body that are kept apart; others are only counted.
pub(super) const MAX_PROCESS_BODY_PAIRS: usize = 1 << 14;

/// Peers that are kept of a process and a body.
pub(super) const MAX_PEERS_KEPT: usize = 8;

/// Addresses of processes that are kept.
pub(super) const MAX_ADDRESSES_KEPT: usize = 1 << 16;

/// Lines of other processes, or of the launcher, between an exception's text and NCCL's last WARN.
pub(super) const MAX_LAST_WARN_DISTANCE: usize = 8;

/// Programs' lines with an error of NCCL's that are kept: a few of each rank of a large job.
pub(super) const MAX_RELAYED_ERRORS: usize = 1 << 12;
