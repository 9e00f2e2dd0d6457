//! The texts of the column `quality` that programs read back.

/// Times of a kernel on all of its channels: events around the call include the launch on the host, too.
pub(crate) const WHOLE_KERNEL: &str = "kernel, without its launch";

/// The end of a quality with times that NCCL may have taken from an earlier call.
macro_rules! of_another_call {
    () => {
        ", may be another call's"
    };
}

/// Kernel times by the GPU and by the proxy thread, without the times of channels that could rule out another call.
pub(super) const UNCHECKED_KERNEL_GPU: &str =
    concat!("kernel_gpu, without its launch", of_another_call!());
pub(super) const UNCHECKED_KERNEL_CPU: &str =
    concat!("kernel_cpu, without its launch", of_another_call!());

/// Returns true if times of this quality may be another call's.
pub fn may_be_of_another_call(quality: &[u8]) -> bool {
    quality.ends_with(of_another_call!().as_bytes())
}

/// Returns true if times of this quality are those of a kernel on all of its channels.
pub fn is_whole_kernel(quality: &[u8]) -> bool {
    quality == WHOLE_KERNEL.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualities_are_read_as_they_are_written() {
        for unchecked in [UNCHECKED_KERNEL_GPU, UNCHECKED_KERNEL_CPU] {
            assert!(may_be_of_another_call(unchecked.as_bytes()), "{unchecked}");
            assert!(!is_whole_kernel(unchecked.as_bytes()));
        }
        assert!(is_whole_kernel(WHOLE_KERNEL.as_bytes()));
        assert!(!may_be_of_another_call(WHOLE_KERNEL.as_bytes()));
    }
}
