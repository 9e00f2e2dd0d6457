//! Names of NCCL's kernels.
//!
//! Such a name gives only the operation. NCCL launches one kernel for several algorithms,
//! protocols and reductions: the name has `RING_LL` or `Sum` for any of them (`src/device/generate.py`;
//! before
//! 2.19 every protocol was launched as LL). One kernel may also hold a whole group.

use memchr::memmem;

/// The operation of a kernel of NCCL or RCCL: `AllReduce`, `SendRecv`, or `Generic` where one kernel serves
/// several. `None` for any other kernel.
pub fn op_of_kernel(name: &[u8]) -> Option<&[u8]> {
    let name = name.strip_prefix(b"void ").unwrap_or(name);
    let name = plain_of_mangled(name).unwrap_or(name);
    let rest = name.strip_prefix(b"nccl")?;
    let at = memmem::find(rest, b"Kernel_")?;
    let (before, after) = (rest.get(..at)?, rest.get(at + b"Kernel_".len()..)?);
    let op = match before {
        // 2.8 and later: ncclKernel_, ncclDevKernel_, ncclSymkDevKernel_, ncclSymDevKernel_.
        b"" | b"Dev" | b"SymkDev" | b"SymDev" => word(after),
        // Before: ncclAllReduceRingLLKernel_sum_f32.
        old => {
            let ends = |old: &[u8], ends: &[&[u8]]| {
                let end = ends
                    .iter()
                    .find(|end| old.ends_with(end))
                    .map_or(0, |end| end.len());
                old.len() - end
            };
            let old = old.get(..ends(old, &[b"LL128", b"LL"]))?;
            old.get(..ends(old, &[b"CollNet", b"Ring", b"Tree"]))?
        }
    };
    let is_name = |b: &u8| b.is_ascii_alphabetic();
    (!op.is_empty() && op.iter().all(is_name)).then_some(op)
}

/// The name in a mangled one, as rocprofiler may print it: `_Z` and its length come first.
fn plain_of_mangled(name: &[u8]) -> Option<&[u8]> {
    let rest = name.strip_prefix(b"_Z")?;
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let (length, rest) = rest.split_at_checked(digits)?;
    let length: usize = std::str::from_utf8(length).ok()?.parse().ok()?;
    rest.get(..length)
}

/// The letters that `text` begins with.
fn word(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|b| !b.is_ascii_alphabetic());
    text.get(..end.unwrap_or(text.len())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_operation() {
        let of = |name: &str| {
            op_of_kernel(name.as_bytes()).map(|op| String::from_utf8_lossy(op).into_owned())
        };
        for (name, expected) in [
            (
                "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm *, ncclWorkElem)",
                "AllReduce",
            ),
            (
                "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)",
                "SendRecv",
            ),
            (
                "ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgsSto…",
                "AllReduce",
            ),
            ("ncclDevKernel_Generic_4(ncclDevKernelArgs)", "Generic"),
            (
                "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>) [clone .kd]",
                "Generic",
            ),
            (
                "_Z23ncclDevKernel_Generic_424ncclDevKernelArgsStorageILm4096EE.kd",
                "Generic",
            ),
            (
                "ncclSymkDevKernel_AllGather_LL(ncclSymkDevWorkArgs)",
                "AllGather",
            ),
            ("ncclAllReduceRingLLKernel_sum_f32(ncclColl)", "AllReduce"),
            ("ncclSendRecvKernel_copy_i8(ncclColl)", "SendRecv"),
            (
                "ncclAllGatherTreeLL128Kernel_copy_i8(ncclColl)",
                "AllGather",
            ),
        ] {
            assert_eq!(of(name).as_deref(), Some(expected), "{name}");
        }
        for name in [
            "",
            "nccl",
            "ncclKernel_",
            "void at::native::ncclKernel",
            "_Z99ncclDevKernel_Generic_4",
            "_Zncc",
            "vllm::cross_device_reduce_1stage",
        ] {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
