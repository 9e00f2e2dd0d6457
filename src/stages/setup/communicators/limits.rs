//! Limits by which traffic is classified. They were set on logs of real and simulated jobs with known
//! layouts (`data/jobs`, public logs of Megatron, DeepSpeed and FSDP).

/// Calls of at most this many bytes carry flags, losses, seeds or sizes: a larger limit takes small tensors
/// for control traffic.
pub(super) const MAX_SMALL_CALL_BYTES: u64 = 32 << 10;

/// A token's activations have at least this many bytes: a smaller limit takes scalars for tokens.
pub(super) const MIN_TOKEN_BYTES: u64 = 1 << 10;

/// Parts of an exchange of tensors have at least this many bytes on average: smaller ones are objects and
/// their sizes.
pub(super) const MIN_TENSOR_PART_BYTES: u64 = 4 << 10;

/// Buckets of gradients have at least this many sizes: fewer also occur for layers of one kind.
pub(super) const MIN_BUCKET_SIZES: usize = 4;

/// Equal calls are no part of a step if those of another kind are this many times as many: they were made at the
/// start. A larger ratio takes the scattering of a model's parts for a pipeline.
pub(super) const MAX_RARE_CALL_RATIO: u64 = 8;

/// Calls of one size that are made this often in a step are a layer's, however small: fewer may be flags.
pub(super) const MIN_TENSOR_CALLS_PER_STEP: u64 = 4;
