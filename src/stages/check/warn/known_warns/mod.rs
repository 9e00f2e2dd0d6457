//! What is known of WARN bodies: what they mean, what to do, and the public source of that.
//!
//! A reference is a thread in which the body is shown and explained, a page of NVIDIA's, or the
//! source file that prints it. `NVIDIA/nccl#426` is issue or pull request 426 of that repository.

pub(crate) mod table;

use crate::grammar::message::warn::{WarnCause, WarnMessage, parse_warn};
use crate::stages::check::finding::{Confidence, Kind, Severity, WarnKind};
use memchr::memmem;

use table::{CUDA_ERRORS, CUDA_OTHER_ERROR, IB_OTHER_STATUS, IB_STATUS, WARNS_BY_TEXT};

/// What a body is to the job's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WarnRole {
    /// It may be where a failure begins.
    Cause,
    /// Something is less than it could be; no failure elsewhere begins there.
    Setback,
    /// It follows from a failure elsewhere.
    Consequence,
    /// NCCL takes its connections down: at the end of a job, or after a failure.
    Teardown,
    /// Nothing fails by it.
    Harmless,
}

/// What is known of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WarnMeaning {
    /// Its finding's kind.
    pub id: &'static str,
    /// What it is to a failure.
    pub role: WarnRole,
    /// How bad it is by itself.
    pub severity: Severity,
    /// How sure that is.
    pub sure: Confidence,
    /// What it means: a clause.
    pub means: &'static str,
    /// What to do: a clause.
    pub advice: &'static str,
    /// The source of that.
    pub reference: &'static str,
}

/// True for a kind of WARN that only follows from a failure elsewhere.
pub(crate) fn is_follower(kind: Kind) -> bool {
    let Kind::Warn(WarnKind(id)) = kind else {
        return false;
    };
    let known = all_meanings().find(|known| known.id == id);
    known.is_some_and(|known| matches!(known.role, WarnRole::Consequence | WarnRole::Teardown))
}

/// What is known of a WARN's text. The source file that prints it says where NCCL was, not what
/// failed: it decides nothing.
pub(crate) fn look_up_warn(text: &[u8]) -> Option<&'static WarnMeaning> {
    let WarnMessage { cause, .. } = parse_warn(text);
    match cause {
        WarnCause::IbCompletion(completion) => {
            let of = IB_STATUS.iter().find(|(s, _)| *s == completion.status);
            Some(of.map_or(&IB_OTHER_STATUS, |(_, known)| known))
        }
        WarnCause::Cuda { error } => {
            let of = CUDA_ERRORS
                .iter()
                .find(|(words, _)| contains_pattern(error, words));
            Some(of.map_or(&CUDA_OTHER_ERROR, |(_, known)| known))
        }
        _ => {
            let of = WARNS_BY_TEXT
                .iter()
                .find(|(words, _)| contains_pattern(text, words));
            of.map(|(_, known)| known)
        }
    }
}

/// True where one of `patterns` is in `text`; `*` in it matches any bytes.
fn contains_pattern(text: &[u8], patterns: &[&str]) -> bool {
    patterns.iter().any(|pattern| {
        let mut rest = text;
        pattern.split('*').all(|part| {
            let at = memmem::find(rest, part.as_bytes());
            rest = at.map_or(&[], |at| &rest[at + part.len()..]);
            at.is_some()
        })
    })
}

/// All that is known.
fn all_meanings() -> impl Iterator<Item = &'static WarnMeaning> {
    let of_ib = IB_STATUS.iter().map(|(_, known)| known);
    let of_cuda = CUDA_ERRORS.iter().map(|(_, known)| known);
    let others = WARNS_BY_TEXT.iter().map(|(_, known)| known);
    let rest = [&IB_OTHER_STATUS, &CUDA_OTHER_ERROR].into_iter();
    of_ib.chain(of_cuda).chain(others).chain(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_kind_is_said_once_and_with_a_reference() {
        let mut ids: BTreeMap<&str, u32> = BTreeMap::new();
        for known in all_meanings() {
            *ids.entry(known.id).or_default() += 1;
            assert!(known.id.starts_with("warn_"), "{}", known.id);
            assert!(known.reference.contains(['#', '/']), "{}", known.id);
            for clause in [known.means, known.advice] {
                assert!(!clause.is_empty() && !clause.ends_with('.'), "{}", known.id);
            }
            let harmless = known.role == WarnRole::Harmless;
            assert_eq!(harmless, known.severity == Severity::Note, "{}", known.id);
        }
        assert!(ids.values().all(|&n| n == 1), "{ids:?}");
    }

    #[test]
    fn real_bodies_are_known() {
        for (text, id) in [
            (
                "NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129",
                "warn_ib_retry_exceeded",
            ),
            (
                "NET/IB: Got completion from peer 10.99.91.63<51161> with status=4 opcode=32614 len=32614 vendor err 81 (Send) localGid ::ffff:10.0.0.1 remoteGids::ffff:10.0.0.2 hca mlx5_1",
                "warn_ib_local_protection",
            ),
            (
                "NET/IB : Got completion from peer fe80::1%ib0<33397> with error 4, opcode 32611, len 32611, vendor err 81 (Send)",
                "warn_ib_local_protection",
            ),
            (
                "NET/IB : Got completion from peer 172.36.143.59<44206> with status=5 opcode=32656 len=32659 vendor err 249 (Recv)",
                "warn_ib_flushed",
            ),
            (
                "NET/IB : Got async event : port error",
                "warn_ib_port_error",
            ),
            (
                "NET/IB : collective mismatch error local size 32768 remote 1048576 addr 0 rkey 3beac3 seq adf/adf",
                "warn_collective_mismatch",
            ),
            (
                "Mismatched collective detected, please check your collective calls at and around rank 39. You can use NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=COLL to see the collective logs",
                "warn_collective_mismatch",
            ),
            (
                "Message truncated : received 1024 bytes instead of 256",
                "warn_message_truncated",
            ),
            (
                "NET/Socket : message truncated : receiving 696320 bytes instead of 32768",
                "warn_message_truncated",
            ),
            ("Call to ibv_open_device failed", "warn_ib_open_device"),
            (
                "NET/IB : Unable to open device mlx5_10",
                "warn_ib_open_device",
            ),
            (
                "Call to ibv_modify_qp failed with 22 Invalid argument, on dev mlx5_0:1",
                "warn_ib_gid",
            ),
            (
                "Call to ibv_reg_mr_iova2 failed with error Bad address",
                "warn_ib_gpu_memory",
            ),
            (
                "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
                "warn_locked_memory",
            ),
            ("Cuda failure 'out of memory'", "warn_cuda_oom"),
            ("Cuda failure 1 'invalid argument'", "warn_cuda_failure"),
            (
                "Cuda failure 700 'an illegal memory access was encountered'",
                "warn_cuda_fault",
            ),
            ("Cuda failure 4 'driver shutting down'", "warn_cuda_exit"),
            (
                "[Service thread] Could not receive type from localRank 6, res=3, closed=0",
                "warn_proxy_shutdown",
            ),
            (
                "[Service thread] Accept failed Resource temporarily unavailable",
                "warn_proxy_shutdown",
            ),
            (
                "[Proxy Service 511] Failed to execute operation Close from rank 510, retcode 3",
                "warn_proxy_shutdown",
            ),
            (
                "[Proxy Service 2] Failed to execute operation Connect from rank 2, retcode 3",
                "warn_proxy_operation",
            ),
            (
                "[Service thread] Error encountered progressing operation=Connect, res=2, closing connection",
                "warn_proxy_operation",
            ),
            (
                "Socket recv failed while polling for opId=0x7f4774cc9620",
                "warn_proxy_no_answer",
            ),
            (
                "socketProgress: Connection closed by remote peer node2<42830>",
                "warn_peer_closed",
            ),
            (
                "Net : Call to recv from 10.200.84.247<58355> failed : Broken pipe",
                "warn_peer_closed",
            ),
            (
                "socketStartConnect: Connect to 10.0.0.2<45763> failed : Software caused connection abort",
                "warn_socket",
            ),
            (
                "socketStartConnect: Connect to 10.0.0.2<45763> failed : Connection refused",
                "warn_socket_refused",
            ),
            (
                "socketStartConnect: Connect to 10.0.0.2<45763> failed : No route to host",
                "warn_socket_no_route",
            ),
            (
                "socketStartConnect: exceeded timeouts (3)",
                "warn_socket_timeout",
            ),
            (
                "socketFinalizeAccept: wrong magic 74656d2f20544547 != 7970663b906d70b9",
                "warn_socket_stranger",
            ),
            (
                "socketFinalizeAccept: wrong type 4 != 3",
                "warn_socket_stranger",
            ),
            ("Bootstrap : no socket interface found", "warn_no_interface"),
            (
                "Error: failed to extend /dev/shm/nccl-fjwOOB to 5967876 bytes",
                "warn_no_space_shm",
            ),
            (
                "Call to posix_fallocate failed : No space left on device",
                "warn_no_space_shm",
            ),
            (
                "Error while creating shared memory segment /dev/shm/nccl-KWfVyt (size 5967872)",
                "warn_shm_segment",
            ),
            (
                "Duplicate GPU detected : rank 3 and rank 2 both on CUDA device e2000",
                "warn_duplicate_gpu",
            ),
            (
                "Mismatched NCCL version detected : rank 0 version 22707 rank 1 version 22304",
                "warn_version_mismatch",
            ),
            (
                "NET/IB :SHARP coll init error: Cannot create SHArP job(-11)",
                "warn_sharp_unavailable",
            ),
            (
                "Cannot initialize CollNet, using point-to-point network instead",
                "warn_sharp_unavailable",
            ),
            (
                "MSCCL++: Cannot enable MSCCL++; environment is not MSCCL compatible",
                "warn_msccl",
            ),
            (
                "NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument",
                "warn_ofi_address_vector",
            ),
            (
                "NET/OFI Creating new endpoint for domain 0x7f9befa99380 failed: Invalid argument",
                "warn_ofi_endpoint",
            ),
            (
                "NET/OFI Request completed with error. RC: 21. Error: unknown error",
                "warn_ofi_request",
            ),
            (
                "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'the operation cannot be performed in the present state'.",
                "warn_nvls_bind",
            ),
            (
                "Could not open XML topology file /topo.xml : No such file or directory",
                "warn_topology_xml",
            ),
            (
                "ncclAllReduce : sendbuff 0x7f is not a valid pointer",
                "warn_argument",
            ),
            ("Failed to malloc 64 bytes", "warn_host_memory"),
            (
                "[Service thread] Accept failed Success",
                "warn_proxy_shutdown",
            ),
            (
                "[Service thread] Accept failed Cannot allocate memory",
                "warn_proxy_accept",
            ),
            (
                "Could not find any local path from gpu 0 to net.",
                "warn_no_near_card",
            ),
            ("Could not read node # 4", "warn_rccl_node"),
            (
                "NET/OFI Could not find ncclGetVersion symbol",
                "warn_ofi_optional",
            ),
            (
                "NET/OFI aws-ofi-nccl initialization failed",
                "warn_ofi_unused",
            ),
            (
                "Failed: UCX error ucx_plugin.c:498 '-5' Invalid parameter",
                "warn_ucx",
            ),
            (
                "Cuda failure 217 'peer access is not supported between these two devices'",
                "warn_cuda_peer",
            ),
            ("Cuda failure 3 'initialization error'", "warn_cuda_setup"),
            (
                "Cuda failure 802 'system not yet initialized'",
                "warn_cuda_fabric",
            ),
            (
                "Cuda failure 35 'CUDA driver version is insufficient for CUDA runtime version'",
                "warn_cuda_driver",
            ),
            (
                "CUDA Driver version found is 11020. Minimum requirement is 11040",
                "warn_cuda_library",
            ),
            (
                "Cuda failure 220 'uncorrectable NVLink error detected during the execution'",
                "warn_cuda_hardware",
            ),
            (
                "ncclSocketSend: socket state (9) is not ready",
                "warn_socket_closed",
            ),
            (
                "rank 2 deregister IPC buffer 0x7f3f56000000 peerRank 5 failed",
                "warn_comm_teardown",
            ),
            ("Failed to initialize any NET plugin", "warn_no_network"),
            ("ncclTopoRankToIndex could not find rank 1", "warn_topology"),
            (
                "Could not find a path for pattern 4, falling back to simple order",
                "warn_topology_search",
            ),
            (
                "Could not find real path of mlx5_0 (/sys/class/infiniband/mlx5_0/device)",
                "warn_nic_place",
            ),
            ("Attribute arch of node cpu not found", "warn_topology_xml"),
            (
                "Timeout waiting for connection from peer 10.0.0.3",
                "warn_socket_timeout",
            ),
            (
                "RMA/Socket : rma_socket requires GDRCopy; and GDR Copy is not available",
                "warn_no_gdrcopy",
            ),
            (
                "NET/OFI Unable to register memory (type = 2) for device 3. RC: -22, Error: Invalid argument",
                "warn_ofi_memory",
            ),
            (
                "rank 0 failed to IPC register userbuff 0x7f3f56000000 buffSize 37748736 nPeers 2 isLegacyIpc 0x7ffe",
                "warn_not_registered",
            ),
            (
                "nvmlDeviceGetHandleByPciBusId() failed: Not Found",
                "warn_nvml",
            ),
            (
                "failed to open CUDA IPC handle : 201 invalid device context",
                "warn_ipc",
            ),
            (
                "UDS: Sending data over socket /tmp/nccl-socket-3-1f failed : Connection refused (111)",
                "warn_uds",
            ),
            (
                "Net : error encountered when getting address info : Name or service not known",
                "warn_address",
            ),
            (
                "Bootstrap Root : rank 3 of 8 ranks has already checked in",
                "warn_bootstrap_ranks",
            ),
            (
                "Bootstrap Root : mismatch in rank count from procs 8 : 4",
                "warn_bootstrap_ranks",
            ),
            ("Invalid config blocking attribute value 7", "warn_argument"),
            (
                "NCCL_WORK_FIFO_BYTES=100 is being ignored because it is not a power of 2.",
                "warn_setting_adjusted",
            ),
            (
                "Invalid NCCL_NTHREADS 1000 (maximum 512).",
                "warn_setting_adjusted",
            ),
            (
                "Missing \"iommu=pt\" from kernel command line which can lead to system instablity or hang!",
                "warn_rccl_host",
            ),
            (
                "NUMA auto balancing enabled which can lead to variability in the RCCL performance!",
                "warn_rccl_host",
            ),
            (
                "ncclAsyncJobComplete: job 0x5581c0 failed, job error 2",
                "warn_comm_failed",
            ),
            (
                "P2P is disabled between NVLINK connected GPUs 0 and 1. This should not be the case",
                "warn_p2p_disabled",
            ),
            (
                "NET/IB: Device 1 marked as failed. Initiating recovery? yes (send comm=0x7f00, outstandingRecovery=1)",
                "warn_ib_failover",
            ),
        ] {
            let got = look_up_warn(text.as_bytes()).map(|known| known.id);
            assert_eq!(got, Some(id), "{text}");
        }
        assert_eq!(look_up_warn(b"something new"), None);
    }
}
