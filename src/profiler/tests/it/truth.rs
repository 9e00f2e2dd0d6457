//! Calls that a stub makes, known before it makes them.

use crate::nccl::*;
use std::ffi::CStr;

/// A call of the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrueCall {
    pub(crate) op: u8,
    pub(crate) count: u64,
    pub(crate) peer: i32,
    pub(crate) datatype: u8,
    pub(crate) algo: u8,
    pub(crate) proto: u8,
    pub(crate) channels: u16,
    /// NCCL's own number; none of a message.
    pub(crate) seq: Option<u64>,
}

/// Names by NCCL's own numbers; `ncclUint8` has none.
const OPS: [&CStr; 8] = [
    c"Broadcast",
    c"Reduce",
    c"AllGather",
    c"ReduceScatter",
    c"AllReduce",
    c"SendRecv",
    c"Send",
    c"Recv",
];
const DATATYPES: [&CStr; 10] = [
    c"ncclInt8",
    c"Unknown",
    c"ncclInt32",
    c"ncclUint32",
    c"ncclInt64",
    c"ncclUint64",
    c"ncclFloat16",
    c"ncclFloat32",
    c"ncclFloat64",
    c"ncclBfloat16",
];
const ALGOS: [&CStr; 7] = [
    c"TREE",
    c"RING",
    c"COLLNET_DIRECT",
    c"COLLNET_CHAIN",
    c"NVLS",
    c"NVLS_TREE",
    c"PAT",
];
const PROTOS: [&CStr; 3] = [c"LL", c"LL128", c"SIMPLE"];

/// Calls of one communicator, in groups as a program makes them.
pub(crate) fn calls_of(comm: u64, groups: usize) -> Vec<Vec<TrueCall>> {
    let (mut seqs, mut at) = ([0_u64; 8], comm as usize * 7);
    let mut groups_made = Vec::new();
    for group in 0..groups {
        let in_group = 1 + (group + comm as usize) % 3;
        let calls = (0..in_group).map(|_| {
            at += 1;
            let op = [4, 4, 2, 3, 6, 7, 0, 1][at % 8];
            let is_message = op >= 5;
            let seq = (!is_message).then(|| seqs[op as usize]);
            seqs[op as usize] += 1;
            TrueCall {
                op,
                count: 1024 << (at % 14),
                peer: (at % 5) as i32,
                datatype: (at % 10) as u8,
                algo: if is_message { u8::MAX } else { (at % 7) as u8 },
                proto: if is_message { u8::MAX } else { (at % 3) as u8 },
                channels: if is_message { 4 } else { 1 + (at % 24) as u16 },
                seq,
            }
        });
        groups_made.push(calls.collect());
    }
    groups_made
}

impl Nccl {
    /// Makes the calls of a group as NCCL does; returns the handles of its tasks.
    pub(crate) fn make_group(&self, context: Context, id: u64, calls: &[TrueCall]) -> Vec<Event> {
        let has_api = self.version >= 5;
        let (mut api_group, mut apis) = (0, vec![0; calls.len()]);
        if has_api {
            api_group = self.start(context, &self.describe(GROUP_API, 0));
            self.record(api_group, 23, None);
            for (api, call) in apis.iter_mut().zip(calls) {
                *api = self.begin_api(context, api_group, call);
                self.stop(*api);
            }
            self.record(api_group, 24, None);
        }
        let group = self.start(context, &self.describe(GROUP, 0));
        assert_ne!(
            group, 0,
            "old versions make no tasks without a group's handle"
        );
        let begin = |(call, api): (&TrueCall, &Event)| {
            let parent = if has_api { *api } else { group };
            self.begin_task(context, id, parent, call)
        };
        let tasks: Vec<Event> = calls.iter().zip(&apis).map(begin).collect();
        for task in &tasks {
            self.stop(*task);
        }
        self.stop(group);
        if has_api {
            self.stop(api_group);
        }
        tasks
    }

    fn begin_api(&self, context: Context, group: Event, call: &TrueCall) -> Event {
        let (kind, prefix) = match call.seq {
            Some(_) => (COLL_API, "collApi"),
            None => (P2P_API, "p2pApi"),
        };
        let mut made = self.describe(kind, group);
        made.put_name(&format!("{prefix}.func"), OPS[call.op as usize]);
        made.put(&format!("{prefix}.count"), call.count);
        made.put_name(
            &format!("{prefix}.datatype"),
            DATATYPES[call.datatype as usize],
        );
        made.put(&format!("{prefix}.stream"), 0x7f12_3456_7890);
        made.put_if_any(
            &format!("{prefix}.root"),
            u64::from(call.peer.cast_unsigned()),
        );
        self.start(context, &made)
    }

    fn begin_task(&self, context: Context, id: u64, parent: Event, call: &TrueCall) -> Event {
        let is_message = call.seq.is_none();
        let (kind, prefix) = if is_message {
            (P2P, "p2p")
        } else {
            (COLL, "coll")
        };
        let field = |name: &str| format!("{prefix}.{name}");
        let mut made = self.describe(kind, parent);
        made.put("rank", 3);
        made.put_if_any(&field("commHash"), id);
        made.put(&field("count"), call.count);
        let peer = if is_message { "peer" } else { "root" };
        made.put(&field(peer), u64::from(call.peer.cast_unsigned()));
        made.put_if_any(&field("nChannels"), u64::from(call.channels));
        made.put_if_any(&field("nMaxChannels"), u64::from(call.channels));
        made.put_if_any(&field("seqNumber"), call.seq.unwrap_or(0));
        if self.version == 1 {
            made.put(&field("func"), u64::from(call.op))
                .put(&field("datatype"), u64::from(call.datatype));
        } else {
            made.put_name(&field("func"), OPS[call.op as usize]);
            made.put_name(&field("datatype"), DATATYPES[call.datatype as usize]);
        }
        match (is_message, self.version) {
            (true, _) => {}
            (false, 1) => {
                made.put("coll.algo", u64::from(call.algo))
                    .put("coll.proto", u64::from(call.proto));
            }
            (false, _) => {
                made.put_name("coll.algo", ALGOS[call.algo as usize]);
                made.put_name("coll.proto", PROTOS[call.proto as usize]);
            }
        }
        self.start(context, &made)
    }

    /// Has the kernel of a task begin and end on each channel, as the proxy thread tells it.
    pub(crate) fn run_kernel(&self, context: Context, task: Event, channels: u16, start_ns: u64) {
        let begin = |channel: u16| {
            let mut made = self.describe(KERNEL_CH, task);
            made.put("kernelCh.channelId", u64::from(channel));
            made.put_if_any("kernelCh.pTimer", start_ns + u64::from(channel));
            self.start(context, &made)
        };
        let events: Vec<Event> = (0..channels).map(begin).collect();
        for (channel, event) in events.into_iter().enumerate() {
            if self.version >= 4 {
                self.record(event, 22, Some(start_ns + 1000 + channel as u64));
            }
            self.stop(event);
        }
    }
}
