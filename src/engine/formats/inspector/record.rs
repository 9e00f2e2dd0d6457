//! A record of any spelling, from its keys and values.

use super::seen_channels::SeenChannels;
use crate::formats::quality::{UNCHECKED_KERNEL_CPU, UNCHECKED_KERNEL_GPU};
use crate::formats::whole_number::parse_address;
use crate::output::table::Timing;
use serde_json::Value;

/// A value of a kind that records have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum InspectorScalar<'v> {
    /// An integer that is not negative.
    Int(u64),
    /// A number with a fraction.
    Float(f64),
    /// A text.
    Text(&'v [u8]),
    /// Anything else.
    Other,
}

impl<'v> InspectorScalar<'v> {
    fn from_value(value: &'v Value) -> InspectorScalar<'v> {
        match value {
            Value::Number(n) => match (n.as_u64(), n.as_f64()) {
                (Some(n), _) => InspectorScalar::Int(n),
                (None, Some(n)) => InspectorScalar::Float(n),
                (None, None) => InspectorScalar::Other,
            },
            Value::String(text) => InspectorScalar::Text(text.as_bytes()),
            _ => InspectorScalar::Other,
        }
    }

    pub(super) fn as_u64(self) -> Option<u64> {
        match self {
            InspectorScalar::Int(n) => Some(n),
            _ => None,
        }
    }

    fn as_u32(self) -> Option<u32> {
        self.as_u64().and_then(|n| u32::try_from(n).ok())
    }

    fn as_text(self) -> &'v [u8] {
        match self {
            InspectorScalar::Text(text) => text,
            _ => b"",
        }
    }

    /// Returns a name; empty if Inspector writes `unknown`.
    fn as_name(self) -> &'v [u8] {
        match self.as_text() {
            b"unknown" => b"",
            name => name,
        }
    }

    /// µs as ns.
    fn us_as_ns(self) -> Option<u64> {
        match self {
            InspectorScalar::Int(us) => us.checked_mul(1000),
            // RCCL may write a fraction.
            InspectorScalar::Float(us) if (0.0..1e15).contains(&us) => {
                Some((us * 1000.0).round() as u64)
            }
            _ => None,
        }
    }
}

/// A part of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordSection {
    /// The communicator and the rank in it.
    Header,
    /// The host and the process.
    Metadata,
    /// A collective.
    Coll,
    /// A Send or Recv.
    P2p,
    /// Counters of operations left out.
    Stats,
    /// An operation of the proxy.
    Proxy,
}

impl RecordSection {
    const ALL: [RecordSection; 6] = [
        RecordSection::Header,
        RecordSection::Metadata,
        RecordSection::Coll,
        RecordSection::P2p,
        RecordSection::Stats,
        RecordSection::Proxy,
    ];

    /// The sections that v4.3 writes without a header.
    pub(super) const HEADLESS: [RecordSection; 3] = [
        RecordSection::Coll,
        RecordSection::P2p,
        RecordSection::Proxy,
    ];

    /// Its key.
    pub(super) fn name(self) -> &'static [u8] {
        match self {
            RecordSection::Header => b"header",
            RecordSection::Metadata => b"metadata",
            RecordSection::Coll => b"coll_perf",
            RecordSection::P2p => b"p2p_perf",
            RecordSection::Stats => b"dump_stats",
            RecordSection::Proxy => b"proxy_trace",
        }
    }

    /// The section of a key.
    pub(super) fn from_key(key: &[u8]) -> Option<RecordSection> {
        RecordSection::ALL.into_iter().find(|s| s.name() == key)
    }
}

/// The kind of a record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum InspectorKind {
    /// A collective.
    Coll,
    /// A Send or Recv.
    P2p,
    /// Counters of operations left out.
    Stats,
    /// An operation of the proxy.
    Proxy,
    /// A kind that no known version writes.
    #[default]
    Unknown,
}

/// The owner of a record.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct InspectorMember<'v> {
    /// It has a header or metadata.
    pub(super) is_known: bool,
    /// The id of the communicator: the first 14 digits of `commId` on the log's INIT lines.
    pub(super) id: Option<u64>,
    pub(super) rank: Option<u32>,
    pub(super) nranks: Option<u32>,
    pub(super) host: &'v [u8],
    pub(super) pid: Option<u64>,
}

/// The counters of operations left out so far, by kind.
pub(super) const DROP_COUNTERS: [&[u8]; 4] = [
    b"coll_dropped_total",
    b"p2p_dropped_total",
    b"proxy_dropped_total",
    b"proxy_ops_dropped_total",
];

/// The quality of a record without the time, which its channels contradict.
const WITHHELD: &[u8] = b"kernel times withheld";

/// Adds to Inspector's source of a time what limits it. Times of NCCL 2.28 may be those of an earlier call, which only the
/// times of its channels show.
fn limit_quality(source: &[u8], is_checked: bool) -> &[u8] {
    match (source, is_checked) {
        (b"kernel_gpu", true) => b"kernel_gpu, without its launch",
        (b"kernel_gpu", false) => UNCHECKED_KERNEL_GPU.as_bytes(),
        (b"kernel_cpu", true) => b"kernel_cpu, without its launch",
        (b"kernel_cpu", false) => UNCHECKED_KERNEL_CPU.as_bytes(),
        _ => source,
    }
}

/// A record.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct InspectorRecord<'v> {
    pub(super) member: InspectorMember<'v>,
    pub(super) kind: InspectorKind,
    pub(super) op: &'v [u8],
    pub(super) sn: Option<u64>,
    pub(super) bytes: Option<u64>,
    peer: Option<u64>,
    dur_ns: Option<u64>,
    quality: &'v [u8],
    algo: &'v [u8],
    proto: &'v [u8],
    nchannels: Option<u32>,
    pub(super) channels: SeenChannels,
    start_ns: Option<u64>,
    pub(super) drops: [Option<u64>; 4],
}

impl<'v> InspectorRecord<'v> {
    /// The record of an object.
    pub(super) fn from_object(value: &'v Value) -> Option<InspectorRecord<'v>> {
        let mut record = InspectorRecord::default();
        for (key, value) in value.as_object()? {
            let Some(section) = RecordSection::from_key(key.as_bytes()) else {
                continue;
            };
            let Value::Object(fields) = value else {
                continue;
            };
            record.begin_section(section);
            for (key, value) in fields {
                record.set_field(section, key.as_bytes(), InspectorScalar::from_value(value));
                if key == "event_trace_ts"
                    && matches!(section, RecordSection::Coll | RecordSection::P2p)
                {
                    let fields = value.as_object().into_iter().flatten();
                    for (key, value) in fields {
                        record.set_trace_field(key.as_bytes(), InspectorScalar::from_value(value));
                        if let ("kernel_events", Value::Array(list)) = (&key[..], value) {
                            record.set_channels(list.len());
                            for event in list {
                                let time = |key| event.get(key).and_then(Value::as_u64);
                                record
                                    .channels
                                    .add_channel(time("kernel_start_ts"), time("kernel_stop_ts"));
                            }
                        }
                    }
                }
            }
        }
        Some(record)
    }

    /// Begins a section of the record.
    #[inline]
    pub(super) fn begin_section(&mut self, section: RecordSection) {
        match section {
            RecordSection::Header | RecordSection::Metadata => self.member.is_known = true,
            RecordSection::Coll => self.kind = InspectorKind::Coll,
            // A record with both would be a collective: no version writes that.
            RecordSection::P2p if self.kind != InspectorKind::Coll => {
                self.kind = InspectorKind::P2p;
            }
            RecordSection::Stats if self.kind == InspectorKind::Unknown => {
                self.kind = InspectorKind::Stats;
            }
            RecordSection::Proxy if self.kind == InspectorKind::Unknown => {
                self.kind = InspectorKind::Proxy;
            }
            RecordSection::P2p | RecordSection::Stats | RecordSection::Proxy => {}
        }
    }

    /// Sets the field of a section's key.
    #[inline]
    pub(super) fn set_field(
        &mut self,
        section: RecordSection,
        key: &[u8],
        value: InspectorScalar<'v>,
    ) {
        let member = &mut self.member;
        match (section, key) {
            (RecordSection::Header, b"id") => member.id = parse_address(value.as_text()),
            (RecordSection::Header, b"rank") => member.rank = value.as_u32(),
            (RecordSection::Header, b"n_ranks") => member.nranks = value.as_u32(),
            (RecordSection::Metadata, b"hostname") => member.host = value.as_text(),
            (RecordSection::Metadata, b"pid") => member.pid = value.as_u64(),
            (RecordSection::Coll, b"coll") | (RecordSection::P2p, b"p2p") => {
                self.op = value.as_name();
            }
            (RecordSection::Coll, b"coll_sn") => self.sn = value.as_u64(),
            (RecordSection::Coll, b"coll_msg_size_bytes")
            | (RecordSection::P2p, b"p2p_msg_size_bytes") => {
                self.bytes = value.as_u64();
            }
            (RecordSection::Coll, b"coll_exec_time_us")
            | (RecordSection::P2p, b"p2p_exec_time_us") => {
                self.dur_ns = value.us_as_ns();
            }
            (RecordSection::Coll, b"coll_timing_source")
            | (RecordSection::P2p, b"p2p_timing_source") => {
                self.quality = value.as_name();
            }
            (RecordSection::Coll, b"coll_algo") => self.algo = value.as_name(),
            (RecordSection::Coll, b"coll_proto") => self.proto = value.as_name(),
            (RecordSection::Coll, b"coll_n_channels") => self.nchannels = value.as_u32(),
            (RecordSection::P2p, b"p2p_peer") => self.peer = value.as_u64(),
            (RecordSection::Stats, key) => {
                let mut drops = DROP_COUNTERS.iter().zip(&mut self.drops);
                if let Some((_, drop)) = drops.find(|(name, _)| **name == key) {
                    *drop = value.as_u64();
                }
            }
            _ => {}
        }
    }

    /// Sets the start from a key of `event_trace_ts`: when the host began to launch the operation.
    #[inline]
    pub(super) fn set_trace_field(&mut self, key: &[u8], value: InspectorScalar<'v>) {
        if matches!(key, b"coll_start_ts" | b"p2p_start_ts") {
            // 0 is a start that was not seen.
            self.start_ns = value.us_as_ns().filter(|&ns| ns > 0);
        }
    }

    /// The kernel's events: one for each channel.
    #[inline]
    pub(super) fn set_channels(&mut self, n: usize) {
        self.nchannels = u32::try_from(n).ok().filter(|&n| n > 0);
    }

    /// The number of a collective among those of its name on its communicator.
    #[inline]
    pub(super) fn seq(&self) -> Option<u64> {
        self.sn.filter(|_| self.kind == InspectorKind::Coll)
    }

    /// The peer of a Send or Recv.
    #[inline]
    pub(super) fn peer(&self) -> Option<i64> {
        let peer = self.peer.filter(|_| self.kind == InspectorKind::P2p);
        peer.and_then(|peer| i64::try_from(peer).ok())
    }

    /// Returns when and how it was served.
    #[inline]
    pub(super) fn timing(&self) -> Timing<'v> {
        let is_kernel = self.quality.starts_with(b"kernel");
        let dur_us = self.dur_ns.filter(|_| is_kernel).unwrap_or(0) / 1000;
        let is_own = self.channels.can_be_kernel_of(dur_us);
        let quality = limit_quality(self.quality, self.channels.is_seen());
        Timing {
            dur_ns: self.dur_ns.filter(|_| is_own),
            clock: match self.start_ns {
                Some(_) => super::UNIX_CLOCK,
                None => b"",
            },
            quality: if is_own { quality } else { WITHHELD },
            start_ns: self.start_ns,
            algo: self.algo,
            proto: self.proto,
            nchannels: self.nchannels,
            ..Timing::default()
        }
    }
}
