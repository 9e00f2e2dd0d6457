//! Descriptors of each version as events.

use super::descriptors::{
    CollV4, DescriptorV1, DescriptorV2, DescriptorV3, DescriptorV4, DescriptorV5, DescriptorV6,
    P2pV4, ProxyOpDescriptor,
};
use super::words::{ALGO_NAMES, DATATYPE_NAMES, OP_NAMES, PROTO_NAMES};
use crate::calls::{BegunEvent, Handle};
use crate::proxies::ProxyBegun;
use crate::settings::mask;
use nccl_pipe_recording::RecordedShape;
use nccl_pipe_recording::names::{ALGOS, UNKNOWN};
use std::ffi::c_void;

/// Types of events that are needed, but not recorded.
const GROUP: u32 = 1;
const GROUP_API: u32 = 1 << 8;
/// The place of `CE` in [`ALGOS`].
const CE: u8 = ALGOS.len() as u8 - 1;

/// Something that is a descriptor of a version.
pub(super) trait ReadDescriptor {
    /// Reads it.
    ///
    /// # Safety
    /// It is as NCCL makes it: the member of the union that its type names is filled, with texts that end with 0.
    unsafe fn read_event(&self) -> BegunEvent;
}

impl ReadDescriptor for DescriptorV1 {
    unsafe fn read_event(&self) -> BegunEvent {
        // SAFETY: the type names the member, as the caller promises.
        unsafe {
            match u32::from(self.kind) {
                mask::COLL => {
                    let coll = self.of.coll;
                    let shape = RecordedShape {
                        count: coll.count as u64,
                        peer: coll.root,
                        channels: u16::from(coll.n_max_channels),
                        op: coll.func,
                        datatype: coll.datatype,
                        redop: u8::try_from(coll.op).unwrap_or(UNKNOWN),
                        algo: coll.algo,
                        proto: coll.proto,
                        stream: 0,
                    };
                    task(
                        Handle::NONE,
                        Some(coll.seq_number),
                        shape,
                        coll.comm_hash,
                        self.rank,
                    )
                }
                mask::P2P => {
                    let p2p = self.of.p2p;
                    let shape = RecordedShape {
                        count: p2p.count as u64,
                        peer: p2p.peer,
                        op: p2p.func,
                        datatype: p2p.datatype,
                        ..RecordedShape::default()
                    };
                    task(Handle::NONE, None, shape, p2p.comm_hash, self.rank)
                }
                mask::PROXY_OP => read_proxy(&self.of.proxy_op, self.parent),
                kind => read_common(kind, self.parent),
            }
        }
    }
}

/// Reads versions 2 and 3: their structs differ in one field.
macro_rules! read_named {
    ($descriptor:ty, $kernel:expr) => {
        impl ReadDescriptor for $descriptor {
            unsafe fn read_event(&self) -> BegunEvent {
                // SAFETY: the type names the member, as the caller promises.
                unsafe {
                    match u32::from(self.kind) {
                        mask::COLL => {
                            let coll = self.of.coll;
                            let shape = RecordedShape {
                                count: coll.count as u64,
                                peer: coll.root,
                                channels: u16::from(coll.n_max_channels),
                                op: OP_NAMES.number(coll.func),
                                datatype: DATATYPE_NAMES.number(coll.datatype),
                                algo: ALGO_NAMES.number(coll.algo),
                                proto: PROTO_NAMES.number(coll.proto),
                                ..RecordedShape::default()
                            };
                            let seq = Some(coll.seq_number);
                            task(Handle::NONE, seq, shape, coll.comm_hash, self.rank)
                        }
                        mask::P2P => {
                            let p2p = self.of.p2p;
                            let shape = RecordedShape {
                                count: p2p.count as u64,
                                peer: p2p.peer,
                                op: OP_NAMES.number(p2p.func),
                                datatype: DATATYPE_NAMES.number(p2p.datatype),
                                ..RecordedShape::default()
                            };
                            task(Handle::NONE, None, shape, p2p.comm_hash, self.rank)
                        }
                        mask::PROXY_OP => read_proxy(&self.of.proxy_op, self.parent),
                        mask::KERNEL_CH if $kernel => BegunEvent::Kernel {
                            task: handle(self.parent),
                            gpu_ns: 0,
                        },
                        kind => read_common(kind, self.parent),
                    }
                }
            }
        }
    };
}

read_named!(DescriptorV2, false);
read_named!(DescriptorV3, true);

impl ReadDescriptor for DescriptorV4 {
    unsafe fn read_event(&self) -> BegunEvent {
        // SAFETY: the type names the member, as the caller promises. The parent is the group.
        unsafe {
            match u32::from(self.kind) {
                mask::COLL => read_coll(&self.of.coll, Handle::NONE),
                mask::P2P => read_p2p(&self.of.p2p, Handle::NONE),
                mask::PROXY_OP => read_proxy(&self.of.proxy_op, self.parent),
                mask::KERNEL_CH => BegunEvent::Kernel {
                    task: handle(self.parent),
                    gpu_ns: self.of.kernel_ch.p_timer,
                },
                kind => read_common(kind, self.parent),
            }
        }
    }
}

impl ReadDescriptor for DescriptorV5 {
    unsafe fn read_event(&self) -> BegunEvent {
        let parent = handle(self.parent);
        // SAFETY: the type names the member, as the caller promises. The parent of a task is its call.
        unsafe {
            match u32::try_from(self.kind).unwrap_or(0) {
                mask::COLL_API => {
                    let api = self.of.coll_api;
                    let shape = RecordedShape {
                        count: api.count as u64,
                        stream: api.stream as u64,
                        peer: api.root,
                        op: OP_NAMES.number(api.func),
                        datatype: DATATYPE_NAMES.number(api.datatype),
                        ..RecordedShape::default()
                    };
                    let is_captured = api.graph_captured != 0;
                    BegunEvent::Call { shape, is_captured }
                }
                mask::P2P_API => {
                    let api = self.of.p2p_api;
                    let shape = RecordedShape {
                        count: api.count as u64,
                        stream: api.stream as u64,
                        op: OP_NAMES.number(api.func),
                        datatype: DATATYPE_NAMES.number(api.datatype),
                        ..RecordedShape::default()
                    };
                    let is_captured = api.graph_captured != 0;
                    BegunEvent::Call { shape, is_captured }
                }
                mask::COLL => read_coll(&self.of.coll, parent),
                mask::P2P => read_p2p(&self.of.p2p, parent),
                mask::PROXY_OP => read_proxy(&self.of.proxy_op, self.parent),
                mask::KERNEL_CH => BegunEvent::Kernel {
                    task: parent,
                    gpu_ns: self.of.kernel_ch.p_timer,
                },
                kind => read_common(kind, self.parent),
            }
        }
    }
}

impl ReadDescriptor for DescriptorV6 {
    unsafe fn read_event(&self) -> BegunEvent {
        if u32::try_from(self.kind) != Ok(mask::CE_COLL) {
            let DescriptorV6 {
                kind,
                parent,
                rank,
                of,
            } = *self;
            // SAFETY: all kinds but those of copy engines are version 5's.
            let of = unsafe { of.v5 };
            let v5 = DescriptorV5 {
                kind,
                parent,
                rank,
                of,
            };
            // SAFETY: as the caller promises.
            return unsafe { v5.read_event() };
        }
        // SAFETY: the type names the member, as the caller promises.
        unsafe {
            let ce = self.of.ce_coll;
            let shape = RecordedShape {
                count: ce.count as u64,
                stream: ce.stream as u64,
                peer: ce.root,
                op: OP_NAMES.number(ce.func),
                datatype: DATATYPE_NAMES.number(ce.datatype),
                algo: CE,
                ..RecordedShape::default()
            };
            // NCCL counts them apart.
            task(handle(self.parent), None, shape, 0, self.rank)
        }
    }
}

fn task(
    call: Handle,
    seq: Option<u64>,
    shape: RecordedShape,
    comm_id: u64,
    rank: i32,
) -> BegunEvent {
    BegunEvent::Task {
        call,
        seq,
        shape,
        comm_id,
        rank,
    }
}

/// # Safety
/// The texts end with 0.
unsafe fn read_coll(coll: &CollV4, call: Handle) -> BegunEvent {
    // SAFETY: as the caller promises.
    let shape = unsafe {
        RecordedShape {
            count: coll.count as u64,
            peer: coll.root,
            channels: u16::from(coll.n_channels),
            op: OP_NAMES.number(coll.func),
            datatype: DATATYPE_NAMES.number(coll.datatype),
            algo: ALGO_NAMES.number(coll.algo),
            proto: PROTO_NAMES.number(coll.proto),
            ..RecordedShape::default()
        }
    };
    task(call, Some(coll.seq_number), shape, 0, -1)
}

/// # Safety
/// The texts end with 0.
unsafe fn read_p2p(p2p: &P2pV4, call: Handle) -> BegunEvent {
    // SAFETY: as the caller promises.
    let shape = unsafe {
        RecordedShape {
            count: p2p.count as u64,
            peer: p2p.peer,
            channels: u16::from(p2p.n_channels),
            op: OP_NAMES.number(p2p.func),
            datatype: DATATYPE_NAMES.number(p2p.datatype),
            ..RecordedShape::default()
        }
    };
    task(call, None, shape, 0, -1)
}

fn read_proxy(op: &ProxyOpDescriptor, parent: *const c_void) -> BegunEvent {
    // With PXN it works for another process of the host: those handles mean nothing here.
    let is_own = u32::try_from(op.pid) == Ok(std::process::id());
    BegunEvent::Proxy(ProxyBegun {
        task: if is_own { handle(parent) } else { Handle::NONE },
        peer: op.peer,
        channel: op.channel_id,
        is_send: op.is_send != 0,
        steps: u32::try_from(op.n_steps).unwrap_or(0),
        chunk_bytes: u32::try_from(op.chunk_size).unwrap_or(0),
    })
}

/// Reads the kinds that have nothing in the union that is recorded.
fn read_common(kind: u32, parent: *const c_void) -> BegunEvent {
    match kind {
        GROUP | GROUP_API => BegunEvent::Group,
        mask::PROXY_STEP => BegunEvent::Step {
            proxy: handle(parent),
        },
        _ => BegunEvent::Other,
    }
}

/// Returns the handle that NCCL holds as an address.
pub(super) fn handle(pointer: *const c_void) -> Handle {
    Handle(pointer as u64)
}
