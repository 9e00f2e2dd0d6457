//! Recognises kernels that communicate by their names.

use super::super::limits::{MAX_NAMES_IN_NOTE, MAX_REMEMBERED_NAMES};
use crate::error::{Error, Result};
use regex::bytes::Regex;
use rustc_hash::FxHashMap;

/// Libraries with kernels that communicate, and patterns of their names (case is ignored).
pub const KNOWN_COMM_KERNELS: [(&str, &str); 10] = [
    (
        "NCCL and RCCL (ncclDevKernel_*, ncclKernel_*, ncclSymkDevKernel_*)",
        "nccl",
    ),
    ("MSCCL and MSCCL++ (mscclKernel_*)", "msccl"),
    (
        "vLLM, SGLang and AITER (cross_device_reduce_1stage)",
        "cross_device_",
    ),
    (
        "vLLM on ROCm (quickreduce::allreduce_prototype)",
        "quickreduce::",
    ),
    (
        "TensorRT-LLM and FlashInfer (allreduce_fusion_kernel_oneshot_lamport, oneShotAllReduceKernel)",
        "allreduce_fusion|(?:one|two)_?shot_?all_?reduce|lamport|moe_?a(?:ll)?(?:2|_?to_?)a",
    ),
    (
        "PyTorch's symmetric memory (multimem_all_gather_kernel, two_shot_all_reduce_kernel)",
        "multimem_|symmetric_memory::",
    ),
    ("DeepEP (deep_ep::internode_ll::dispatch)", "deep_ep::"),
    ("NVSHMEM", "nvshmem"),
    ("rocSHMEM", "rocshmem"),
    (
        "Transformer Engine (kuserbuffers_pushsend, userbuffers_fp16_sum_inplace_gpu_rw_ag)",
        "userbuffers",
    ),
];

/// Recognises kernels that communicate.
#[derive(Debug)]
pub struct CommKernels {
    pattern: Regex,
    known: FxHashMap<Box<[u8]>, (bool, u64)>,
}

impl CommKernels {
    /// Uses a pattern, or the known ones.
    ///
    /// # Errors
    /// The pattern does not compile.
    pub fn new(pattern: Option<&str>) -> Result<CommKernels> {
        let known = || {
            format!(
                "(?i){}",
                KNOWN_COMM_KERNELS.map(|(_, pattern)| pattern).join("|")
            )
        };
        let pattern = pattern.map_or_else(known, str::to_owned);
        let compiled = Regex::new(&pattern);
        let pattern =
            compiled.map_err(|e| Error::Usage(format!("--comm-kernels {pattern}: {e}")))?;
        let known = FxHashMap::default();
        Ok(CommKernels { pattern, known })
    }

    /// True if a kernel communicates.
    pub fn is_comm(&mut self, name: &[u8]) -> bool {
        if let Some((is, n)) = self.known.get_mut(name) {
            *n += 1;
            return *is;
        }
        let is = self.pattern.is_match(name);
        if self.known.len() < MAX_REMEMBERED_NAMES && name.len() < 1 << 12 {
            self.known.insert(name.into(), (is, 1));
        }
        is
    }

    /// Describes the kernels that communicated, the most frequent first.
    pub fn describe_comm(&self) -> String {
        let mut names: FxHashMap<Vec<u8>, u64> = FxHashMap::default();
        for (name, (_, n)) in self.known.iter().filter(|(_, (is, _))| *is) {
            *names.entry(strip_arguments(name).to_vec()).or_default() += n;
        }
        let mut all: Vec<(Vec<u8>, u64)> = names.into_iter().collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        if all.is_empty() {
            return "no kernel communicates, by its name (--comm-kernels REGEX names others)"
                .to_owned();
        }
        let told = all.iter().take(MAX_NAMES_IN_NOTE);
        let told = told.map(|(name, n)| format!("{} ({n})", String::from_utf8_lossy(name)));
        let told: Vec<String> = told.collect();
        let more = match all.len().saturating_sub(MAX_NAMES_IN_NOTE) {
            0 => String::new(),
            more => format!(" and {more} more names"),
        };
        format!(
            "kernels that communicate, by their names: {}{more}",
            told.join(", ")
        )
    }
}

/// Returns a kernel's name without its arguments: `void f<int>(int*)` is `f`.
fn strip_arguments(name: &[u8]) -> &[u8] {
    let name = name.strip_prefix(b"void ").unwrap_or(name);
    let end = name.iter().position(|b| matches!(b, b'(' | b'<'));
    &name[..end.filter(|&at| at > 0).unwrap_or(name.len()).min(80)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_known_by_their_names() {
        let mut comm = CommKernels::new(None).unwrap();
        for name in [
            "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
            "mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)",
            "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)",
            "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<int>(int)",
            "void deep_ep::internode_ll::dispatch<false, 3, 10, 7168>(void*)",
            "void c10d::symmetric_memory::multimem_one_shot_all_reduce_kernel<float, 16>(float*)",
            "kuserbuffers_pushrecv(int, int, int*)",
            "moeA2ADispatchKernel",
        ] {
            assert!(comm.is_comm(name.as_bytes()), "{name}");
        }
        for name in [
            "void at::native::vectorized_elementwise_kernel<4, at::native::sqrt_kernel_cuda>(int)",
            "void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)",
            "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64",
            "void at::native::reduce_kernel<512, 1>(int)",
            "void flash::flash_fwd_splitkv_combine_kernel<int>(int)",
        ] {
            assert!(!comm.is_comm(name.as_bytes()), "{name}");
        }
        assert!(
            comm.describe_comm()
                .ends_with("moeA2ADispatchKernel (1) and 4 more names"),
            "{}",
            comm.describe_comm()
        );
        assert!(CommKernels::new(Some("(")).is_err());
        assert!(CommKernels::new(Some("gemm")).unwrap().is_comm(b"x_gemm_y"));
    }
}
