//! What NCCL hands over, as it lies in memory. Only facts of the interface are here: the places and types of fields.
//!
//! The source is `src/include/plugin/profiler/profiler_vN.h` of NCCL 2.30.7 (of 2.23.4 for version 1, in
//! `src/include/nccl_profiler.h`); the struct for one kind of event has the name of the member of its union there.

use std::ffi::{c_char, c_int, c_void};

/// The part that all kinds of events have: versions 1 to 4 with a type of 8 bits, 5 and 6 with one of 64. The union
/// of the kinds follows at byte 24 in both.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Descriptor<T: Copy, U: Copy> {
    pub(super) kind: T,
    pub(super) parent: *const c_void,
    pub(super) rank: c_int,
    pub(super) of: U,
}

/// `coll` of version 1.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CollV1 {
    pub(super) name: *const c_char,
    pub(super) comm_hash: u64,
    pub(super) seq_number: u64,
    pub(super) func: u8,
    pub(super) send_buff: *const c_void,
    pub(super) recv_buff: *const c_void,
    pub(super) count: usize,
    pub(super) root: c_int,
    pub(super) datatype: u8,
    pub(super) op: u32,
    pub(super) traffic_bytes: usize,
    pub(super) n_max_channels: u8,
    pub(super) n_warps: u8,
    pub(super) algo: u8,
    pub(super) proto: u8,
    pub(super) is_collnet: c_int,
    pub(super) is_nvls: c_int,
}

/// `p2p` of version 1.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct P2pV1 {
    pub(super) name: *const c_char,
    pub(super) comm_hash: u64,
    pub(super) func: u8,
    pub(super) buff: *const c_void,
    pub(super) datatype: u8,
    pub(super) count: usize,
    pub(super) peer: c_int,
}

/// `coll` of version 2.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CollV2 {
    pub(super) name: *const c_char,
    pub(super) comm_hash: u64,
    pub(super) seq_number: u64,
    pub(super) func: *const c_char,
    pub(super) send_buff: *const c_void,
    pub(super) recv_buff: *const c_void,
    pub(super) count: usize,
    pub(super) root: c_int,
    pub(super) datatype: *const c_char,
    pub(super) traffic_bytes: usize,
    pub(super) n_max_channels: u8,
    pub(super) n_warps: u8,
    pub(super) algo: *const c_char,
    pub(super) proto: *const c_char,
}

/// `coll` of version 3: that of version 2 without `trafficBytes`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CollV3 {
    pub(super) name: *const c_char,
    pub(super) comm_hash: u64,
    pub(super) seq_number: u64,
    pub(super) func: *const c_char,
    pub(super) send_buff: *const c_void,
    pub(super) recv_buff: *const c_void,
    pub(super) count: usize,
    pub(super) root: c_int,
    pub(super) datatype: *const c_char,
    pub(super) n_max_channels: u8,
    pub(super) n_warps: u8,
    pub(super) algo: *const c_char,
    pub(super) proto: *const c_char,
}

/// `p2p` of versions 2 and 3.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct P2pV2 {
    pub(super) name: *const c_char,
    pub(super) comm_hash: u64,
    pub(super) func: *const c_char,
    pub(super) buff: *const c_void,
    pub(super) datatype: *const c_char,
    pub(super) count: usize,
    pub(super) peer: c_int,
}

/// `coll` of versions 4 to 6 (5 and 6 have a field more).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CollV4 {
    pub(super) seq_number: u64,
    pub(super) func: *const c_char,
    pub(super) send_buff: *const c_void,
    pub(super) recv_buff: *const c_void,
    pub(super) count: usize,
    pub(super) root: c_int,
    pub(super) datatype: *const c_char,
    pub(super) n_channels: u8,
    pub(super) n_warps: u8,
    pub(super) algo: *const c_char,
    pub(super) proto: *const c_char,
}

/// `p2p` of versions 4 to 6 (5 and 6 have a field more).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct P2pV4 {
    pub(super) func: *const c_char,
    pub(super) buff: *const c_void,
    pub(super) datatype: *const c_char,
    pub(super) count: usize,
    pub(super) peer: c_int,
    pub(super) n_channels: u8,
}

/// `collApi` of versions 5 and 6. A C `bool` is read as a byte: it may have any value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CollApiV5 {
    pub(super) func: *const c_char,
    pub(super) count: usize,
    pub(super) datatype: *const c_char,
    pub(super) root: c_int,
    pub(super) stream: *const c_void,
    pub(super) graph_captured: u8,
}

/// `p2pApi` of versions 5 and 6. It has no peer.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct P2pApiV5 {
    pub(super) func: *const c_char,
    pub(super) count: usize,
    pub(super) datatype: *const c_char,
    pub(super) stream: *const c_void,
    pub(super) graph_captured: u8,
}

/// `ceColl` of version 6, as far as it is read.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CeCollV6 {
    pub(super) seq_number: u64,
    pub(super) func: *const c_char,
    pub(super) send_buff: *const c_void,
    pub(super) recv_buff: *const c_void,
    pub(super) count: usize,
    pub(super) root: c_int,
    pub(super) datatype: *const c_char,
    pub(super) sync_strategy: *const c_char,
    pub(super) intra_batch_sync: u8,
    pub(super) batch_size: u32,
    pub(super) num_batches: u32,
    pub(super) ce_seq_num: u32,
    pub(super) stream: *const c_void,
}

/// `proxyOp` of all versions.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ProxyOpDescriptor {
    pub(super) pid: libc::pid_t,
    pub(super) channel_id: u8,
    pub(super) peer: c_int,
    pub(super) n_steps: c_int,
    pub(super) chunk_size: c_int,
    pub(super) is_send: c_int,
}

/// `kernelCh` of version 3.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct KernelChV3 {
    pub(super) channel_id: u8,
}

/// `kernelCh` of versions 4 to 6.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct KernelChV4 {
    pub(super) channel_id: u8,
    pub(super) p_timer: u64,
}

/// Makes the union of a version.
macro_rules! kinds {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)+ }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub(super) union $name {
            $(pub(super) $field: $type,)+
        }
    };
}

kinds! {
    /// The kinds of version 1.
    KindsV1 { coll: CollV1, p2p: P2pV1, proxy_op: ProxyOpDescriptor, }
}
kinds! {
    /// The kinds of version 2.
    KindsV2 { coll: CollV2, p2p: P2pV2, proxy_op: ProxyOpDescriptor, }
}
kinds! {
    /// The kinds of version 3.
    KindsV3 { coll: CollV3, p2p: P2pV2, proxy_op: ProxyOpDescriptor, kernel_ch: KernelChV3, }
}
kinds! {
    /// The kinds of version 4.
    KindsV4 { coll: CollV4, p2p: P2pV4, proxy_op: ProxyOpDescriptor, kernel_ch: KernelChV4, }
}
kinds! {
    /// The kinds of version 5.
    KindsV5 {
        coll_api: CollApiV5, p2p_api: P2pApiV5, coll: CollV4, p2p: P2pV4, proxy_op: ProxyOpDescriptor,
        kernel_ch: KernelChV4,
    }
}
kinds! {
    /// The kinds of version 6.
    KindsV6 { v5: KindsV5, ce_coll: CeCollV6, }
}

/// `ncclProfilerEventDescr_v1_t`
pub(super) type DescriptorV1 = Descriptor<u8, KindsV1>;
/// `ncclProfilerEventDescr_v2_t`
pub(super) type DescriptorV2 = Descriptor<u8, KindsV2>;
/// `ncclProfilerEventDescr_v3_t`
pub(super) type DescriptorV3 = Descriptor<u8, KindsV3>;
/// `ncclProfilerEventDescr_v4_t`
pub(super) type DescriptorV4 = Descriptor<u8, KindsV4>;
/// `ncclProfilerEventDescr_v5_t`
pub(super) type DescriptorV5 = Descriptor<u64, KindsV5>;
/// `ncclProfilerEventDescr_v6_t`
pub(super) type DescriptorV6 = Descriptor<u64, KindsV6>;

/// `ncclProfilerEventStateArgs_vN_t`, as far as it is read: every member begins with its only wide field.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union StateArgs {
    /// `proxyOp.transSize` (1 to 3), `proxyStep.transSize` (4 on).
    pub(super) trans_size: usize,
    /// `kernelCh.pTimer` (4 on).
    pub(super) p_timer: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of NCCL's own structs: none of ours may reach beyond.
    #[test]
    fn no_descriptor_is_larger_than_nccls() {
        let offsets = include_str!("../tests/it/offsets.txt");
        let size = |version: u32, of: &str| -> usize {
            let key = format!("v{version} {of} ");
            let line = offsets.lines().find_map(|line| line.strip_prefix(&key));
            line.unwrap().split(' ').next().unwrap().parse().unwrap()
        };
        let ours = [
            size_of::<DescriptorV1>(),
            size_of::<DescriptorV2>(),
            size_of::<DescriptorV3>(),
            size_of::<DescriptorV4>(),
            size_of::<DescriptorV5>(),
            size_of::<DescriptorV6>(),
        ];
        for (version, ours) in (1..).zip(ours) {
            assert!(ours <= size(version, "size"), "{version}");
            assert!(size_of::<StateArgs>() <= size(version, "args"), "{version}");
        }
    }
}
