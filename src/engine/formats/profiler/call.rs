//! Calls of a trace as rows of the call table.

use super::event::{ProfilerEvent, ProfilerEventKind};
use crate::error::Result;
use crate::formats::quality::WHOLE_KERNEL;
use crate::formats::whole_number::parse_pointer;
use crate::grammar::values::{Datatype, has_root};
use crate::members::comm_id::CommId;
use crate::output::table::{Row, Timing};

/// A call as the program made it (v5 and later).
#[derive(Debug, Clone)]
pub(super) struct ProfilerApiCall {
    name: Box<[u8]>,
    pub(super) pid: u64,
    count: u64,
    datatype: Option<Datatype>,
    root: Option<i64>,
    stream: Option<u64>,
    /// When its group began: its own start is printed as 0.
    begin: Option<u64>,
    pub(super) has_call: bool,
}

/// A call as NCCL launched it.
#[derive(Debug)]
pub(super) struct ProfilerCall {
    pub name: Box<[u8]>,
    pid: u64,
    pub(super) comm: Option<u64>,
    pub(super) rank: Option<u64>,
    pub(super) seq: Option<u64>,
    peer: Option<u64>,
    count: u64,
    datatype: Option<Datatype>,
    algo: Box<[u8]>,
    proto: Box<[u8]>,
    nchannels: Option<u32>,
    /// When it was enqueued, and when its slot was released: ns since the plugin began.
    pub(super) begin: u64,
    pub(super) end: Option<u64>,
    /// When the last of its proxy operations ended.
    proxied: Option<u64>,
    /// Channels of its kernel, and those with an end.
    pub(super) channels: u64,
    ended: u64,
    /// From the first start to the last stop of those.
    gpu: Option<GpuSpan>,
    /// When the plugin saw the last of them end.
    kernel_end: Option<u64>,
    /// A channel has the times of another call's kernel.
    pub(super) has_other_kernel: bool,
    /// Its kernel had times, which are withheld.
    is_withheld: bool,
    /// A copy engine's: ns, by the GPU.
    copied: Option<u64>,
    is_copied: bool,
}

/// The time of a kernel's channel: ns on the GPU's clock, 0 if unknown.
#[derive(Debug, Clone, Copy)]
pub(super) struct GpuSpan {
    pub(super) start: u64,
    pub(super) stop: u64,
}

impl GpuSpan {
    /// Returns true if it has both times.
    pub(super) fn is_known(self) -> bool {
        self.start > 0 && self.stop >= self.start
    }
}

/// The clock of times that the plugin takes on the host: ns since it began in the process.
const HOST_CLOCK: &[u8] = b"plugin";
/// The clock of the GPU (globaltimer), in ns since 1970.
pub const GPU_CLOCK: &[u8] = b"gpu";

/// NCCL's name of a type, or its number (v1).
fn parse_datatype(text: &[u8]) -> Option<Datatype> {
    let name = match text {
        b"ncclInt8" | b"ncclChar" => "int8",
        b"ncclUint8" => "uint8",
        b"ncclInt32" | b"ncclInt" => "int32",
        b"ncclUint32" => "uint32",
        b"ncclInt64" => "int64",
        b"ncclUint64" => "uint64",
        b"ncclFloat16" | b"ncclHalf" => "fp16",
        b"ncclFloat32" | b"ncclFloat" => "fp32",
        b"ncclFloat64" | b"ncclDouble" => "fp64",
        b"ncclBfloat16" => "bf16",
        b"ncclFloat8e4m3" => "fp8_e4m3",
        b"ncclFloat8e5m2" => "fp8_e5m2",
        digits => {
            let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
            return Some(Datatype(number));
        }
    };
    Datatype::from_name(name.as_bytes())
}

pub(super) fn named(name: &[u8]) -> Box<[u8]> {
    name.strip_prefix(b"nccl").unwrap_or(name).into()
}

impl ProfilerApiCall {
    pub(super) fn from_event(
        event: &ProfilerEvent<'_>,
        group: Option<u64>,
    ) -> Option<ProfilerApiCall> {
        let args = event.args;
        let root = args
            .number("root")
            .and_then(|root| i64::try_from(root).ok());
        Some(ProfilerApiCall {
            name: named(event.name),
            pid: event.pid,
            count: args.number("count")?,
            datatype: parse_datatype(args.text("datatype")?),
            root: root.filter(|_| has_root(event.name)),
            stream: args.text("Stream").and_then(parse_pointer),
            begin: Some(event.ts).filter(|&ts| ts > 0).or(group),
            has_call: false,
        })
    }

    /// Hands over the row of a call that the trace has no other event of; `owner` has the communicator and rank.
    pub(super) fn emit_row(
        &self,
        owner: Option<(u64, u64)>,
        mut take: impl FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let timing = Timing {
            start_ns: self.begin,
            clock: if self.begin.is_some() {
                HOST_CLOCK
            } else {
                b""
            },
            quality: b"API call only",
            ..Timing::default()
        };
        take(&Row {
            pid: Some(self.pid),
            rank: owner.and_then(|(_, rank)| u32::try_from(rank).ok()),
            comm_id: owner.map(|(comm, _)| CommId::from_printed(comm)),
            op: &self.name,
            count: Some(self.count),
            datatype: self.datatype,
            root: self.root,
            stream: self.stream,
            calls: 1,
            src: super::FORMAT.name.as_bytes(),
            timing: Some(&timing),
            ..Row::default()
        })
    }
}

impl ProfilerCall {
    pub(super) fn from_event(event: &ProfilerEvent<'_>) -> Option<ProfilerCall> {
        let args = event.args;
        let is_copied = event.cat == ProfilerEventKind::CeColl;
        let count = args.number(if is_copied { "count" } else { "Count" })?;
        let of_type = args.text(if is_copied { "datatype" } else { "Datatype" })?;
        let channels = args.number("nChannels").or(args.number("nMaxChannels"));
        let text = |key| {
            args.text(key)
                .unwrap_or_default()
                .to_ascii_uppercase()
                .into()
        };
        Some(ProfilerCall {
            name: named(event.name),
            pid: event.pid,
            comm: args.number("CommHash").filter(|&id| id > 0),
            rank: args.number("Rank"),
            seq: args.number("SeqNum"),
            peer: args.number("Peer"),
            count,
            datatype: parse_datatype(of_type),
            algo: text("Algorithm"),
            proto: text("Protocol"),
            nchannels: channels.and_then(|n| u32::try_from(n).ok()),
            begin: event.ts,
            end: None,
            proxied: None,
            channels: 0,
            ended: 0,
            gpu: None,
            kernel_end: None,
            has_other_kernel: false,
            is_withheld: false,
            copied: args
                .number("duration_gpu_us")
                .and_then(|us| us.checked_mul(1000)),
            is_copied,
        })
    }

    /// Ends a channel of its kernel, which the plugin saw end at `seen`.
    pub(super) fn end_kernel_channel(&mut self, span: GpuSpan, seen: u64) {
        self.ended += 1;
        self.kernel_end = self.kernel_end.max(Some(seen));
        if span.is_known() {
            let known = self.gpu.unwrap_or(span);
            self.gpu = Some(GpuSpan {
                start: known.start.min(span.start),
                stop: known.stop.max(span.stop),
            });
        }
    }

    /// Returns the process, communicator and rank: their kernels run one after another.
    pub(super) fn kernel_owner(&self) -> (u64, Option<u64>, Option<u64>) {
        (self.pid, self.comm, self.rank)
    }

    /// Drops the times of its kernel; returns true if it had some.
    pub(super) fn withhold_kernel(&mut self) -> bool {
        self.is_withheld = self.ended > 0;
        (self.gpu, self.kernel_end) = (None, None);
        self.is_withheld
    }

    /// An operation of the proxy thread for it ended.
    pub(super) fn end_proxy_op(&mut self, end: u64) {
        self.proxied = self.proxied.max(Some(end));
    }

    /// Returns true if its count is in bytes: NCCL turns AllGather and Broadcast into calls of int8
    /// before the plugin sees them.
    pub(super) fn is_in_bytes(&self, api: Option<&ProfilerApiCall>) -> bool {
        let is_int8 = self.datatype == Datatype::from_name(b"int8");
        let is_turned = matches!(&*self.name, b"AllGather" | b"Broadcast") && !self.is_copied;
        is_turned
            && is_int8
            && self
                .matching_api(api)
                .is_none_or(|api| api.datatype != self.datatype)
    }

    /// The API call that it belongs to.
    fn matching_api<'a>(&self, api: Option<&'a ProfilerApiCall>) -> Option<&'a ProfilerApiCall> {
        api.filter(|api| api.name == self.name)
    }

    pub(super) fn emit_row(
        &self,
        api: Option<&ProfilerApiCall>,
        mut take: impl FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let api = self.matching_api(api);
        let quality = self.describe_quality();
        let (start, dur, clock) = self.call_times();
        let timing = Timing {
            start_ns: Some(start),
            dur_ns: dur,
            clock,
            quality: quality.as_bytes(),
            algo: &self.algo,
            proto: &self.proto,
            nchannels: self.nchannels,
            ..Timing::default()
        };
        let peer = self.peer.and_then(|peer| i64::try_from(peer).ok());
        take(&Row {
            pid: Some(self.pid),
            rank: self.rank.and_then(|rank| u32::try_from(rank).ok()),
            comm_id: self.comm.map(CommId::from_printed),
            seq: self.seq,
            op: &self.name,
            count: Some(api.map_or(self.count, |api| api.count)),
            datatype: api.map_or(self.datatype, |api| api.datatype),
            root: peer.or(api.and_then(|api| api.root)),
            stream: api.and_then(|api| api.stream),
            calls: 1,
            src: super::FORMAT.name.as_bytes(),
            timing: Some(&timing),
            enqueue_ns: Some(self.begin),
            ..Row::default()
        })
    }

    /// When it began, how long it took, and on which clock.
    fn call_times(&self) -> (u64, Option<u64>, &'static [u8]) {
        if let Some(GpuSpan { start, stop }) = self.gpu {
            return (start, Some(stop - start), GPU_CLOCK);
        }
        // The later end of the kernel and the proxy: either may be missing.
        let end = self.kernel_end.max(self.proxied);
        let dur = end.and_then(|end| end.checked_sub(self.begin));
        (self.begin, self.copied.or(dur), HOST_CLOCK)
    }

    fn describe_quality(&self) -> String {
        let channels = match self.ended < self.channels {
            true => ", some channels only",
            false => "",
        };
        let withheld = match self.is_withheld {
            true => ", kernel times withheld",
            false => "",
        };
        match (
            self.is_copied,
            self.copied,
            self.gpu,
            self.kernel_end,
            self.proxied,
        ) {
            (true, Some(_), ..) => "copy engine, duration by the GPU".to_owned(),
            (true, ..) => "copy engine, enqueue only".to_owned(),
            (_, _, Some(_), ..) => format!("{WHOLE_KERNEL}{channels}"),
            (_, _, _, Some(_), None) => format!("kernel as the host saw it{channels}"),
            (_, _, _, Some(_), Some(_)) => {
                format!("kernel and proxy as the host saw them{channels}")
            }
            (.., Some(_)) => format!("from enqueue to the proxy's end{withheld}"),
            _ => format!("enqueue only{withheld}"),
        }
    }
}
