//! A record, of whatever spelling: what each key's value says.

use crate::grammar::token::hex_u64;
use crate::output::table::Timing;
use serde_json::Value;

/// A value, as far as a record has such.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scalar<'v> {
    /// An integer that is not negative.
    Int(u64),
    /// A number with a fraction.
    Float(f64),
    /// A text.
    Text(&'v [u8]),
    /// Anything else.
    Other,
}

impl<'v> Scalar<'v> {
    fn of(value: &'v Value) -> Scalar<'v> {
        match value {
            Value::Number(n) => match (n.as_u64(), n.as_f64()) {
                (Some(n), _) => Scalar::Int(n),
                (None, Some(n)) => Scalar::Float(n),
                (None, None) => Scalar::Other,
            },
            Value::String(text) => Scalar::Text(text.as_bytes()),
            _ => Scalar::Other,
        }
    }

    fn int(self) -> Option<u64> {
        match self {
            Scalar::Int(n) => Some(n),
            _ => None,
        }
    }

    fn small(self) -> Option<u32> {
        self.int().and_then(|n| u32::try_from(n).ok())
    }

    fn text(self) -> &'v [u8] {
        match self {
            Scalar::Text(text) => text,
            _ => b"",
        }
    }

    /// A name, which is empty where Inspector does not know it.
    fn name(self) -> &'v [u8] {
        match self.text() {
            b"unknown" => b"",
            name => name,
        }
    }

    /// µs as ns.
    fn us(self) -> Option<u64> {
        match self {
            Scalar::Int(us) => us.checked_mul(1000),
            // RCCL may write a fraction.
            Scalar::Float(us) if (0.0..1e15).contains(&us) => Some((us * 1000.0).round() as u64),
            _ => None,
        }
    }
}

/// A part of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    /// The communicator and the rank in it.
    Header,
    /// The process.
    Metadata,
    /// A collective.
    Coll,
    /// A Send or Recv.
    P2p,
    /// What was left out.
    Stats,
    /// An operation of the proxy.
    Proxy,
}

impl Section {
    const ALL: [Section; 6] = [
        Section::Header,
        Section::Metadata,
        Section::Coll,
        Section::P2p,
        Section::Stats,
        Section::Proxy,
    ];

    /// Those that v4.3 writes without a header.
    pub(super) const HEADLESS: [Section; 3] = [Section::Coll, Section::P2p, Section::Proxy];

    /// Its key.
    pub(super) fn name(self) -> &'static [u8] {
        match self {
            Section::Header => b"header",
            Section::Metadata => b"metadata",
            Section::Coll => b"coll_perf",
            Section::P2p => b"p2p_perf",
            Section::Stats => b"dump_stats",
            Section::Proxy => b"proxy_trace",
        }
    }

    /// The section of a key.
    pub(super) fn named(key: &[u8]) -> Option<Section> {
        Section::ALL.into_iter().find(|s| s.name() == key)
    }
}

/// What a record is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// A collective.
    Coll,
    /// A Send or Recv.
    P2p,
    /// What was left out.
    Stats,
    /// An operation of the proxy.
    Proxy,
    /// What no version so far writes.
    #[default]
    Unknown,
}

/// Whose a record is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Member<'v> {
    /// It has a header or metadata.
    pub(super) is_told: bool,
    /// The id of the communicator: the first 14 digits of what the log's INIT lines print as `commId`.
    pub(super) id: Option<u64>,
    pub(super) rank: Option<u32>,
    pub(super) nranks: Option<u32>,
    pub(super) host: &'v [u8],
    pub(super) pid: Option<u64>,
}

/// What was left out in all so far, by kind: `coll_dropped_total` and the like.
pub(super) const DROPS: [&[u8]; 4] = [
    b"coll_dropped_total",
    b"p2p_dropped_total",
    b"proxy_dropped_total",
    b"proxy_ops_dropped_total",
];

/// A record.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Record<'v> {
    pub(super) member: Member<'v>,
    pub(super) kind: Kind,
    pub(super) op: &'v [u8],
    pub(super) sn: Option<u64>,
    pub(super) bytes: Option<u64>,
    peer: Option<u64>,
    dur_ns: Option<u64>,
    quality: &'v [u8],
    algo: &'v [u8],
    proto: &'v [u8],
    nchannels: Option<u32>,
    start_ns: Option<u64>,
    pub(super) drops: [Option<u64>; 4],
}

impl<'v> Record<'v> {
    /// The record of an object.
    pub(super) fn of(value: &'v Value) -> Option<Record<'v>> {
        let mut record = Record::default();
        for (key, value) in value.as_object()? {
            let Some(section) = Section::named(key.as_bytes()) else {
                continue;
            };
            let Value::Object(fields) = value else {
                continue;
            };
            record.begin(section);
            for (key, value) in fields {
                record.set(section, key.as_bytes(), Scalar::of(value));
                if key == "event_trace_ts" && matches!(section, Section::Coll | Section::P2p) {
                    let fields = value.as_object().into_iter().flatten();
                    for (key, value) in fields {
                        record.trace(key.as_bytes(), Scalar::of(value));
                        if let ("kernel_events", Value::Array(list)) = (&key[..], value) {
                            record.channels(list.len());
                        }
                    }
                }
            }
        }
        Some(record)
    }

    /// A part of it comes.
    #[inline]
    pub(super) fn begin(&mut self, section: Section) {
        match section {
            Section::Header | Section::Metadata => self.member.is_told = true,
            Section::Coll => self.kind = Kind::Coll,
            // What is both is a collective: no version writes that.
            Section::P2p if self.kind != Kind::Coll => self.kind = Kind::P2p,
            Section::Stats if self.kind == Kind::Unknown => self.kind = Kind::Stats,
            Section::Proxy if self.kind == Kind::Unknown => self.kind = Kind::Proxy,
            Section::P2p | Section::Stats | Section::Proxy => {}
        }
    }

    /// What a key of a part says.
    #[inline]
    pub(super) fn set(&mut self, section: Section, key: &[u8], value: Scalar<'v>) {
        let member = &mut self.member;
        match (section, key) {
            (Section::Header, b"id") => member.id = id(value.text()),
            (Section::Header, b"rank") => member.rank = value.small(),
            (Section::Header, b"n_ranks") => member.nranks = value.small(),
            (Section::Metadata, b"hostname") => member.host = value.text(),
            (Section::Metadata, b"pid") => member.pid = value.int(),
            (Section::Coll, b"coll") | (Section::P2p, b"p2p") => self.op = value.name(),
            (Section::Coll, b"coll_sn") => self.sn = value.int(),
            (Section::Coll, b"coll_msg_size_bytes") | (Section::P2p, b"p2p_msg_size_bytes") => {
                self.bytes = value.int();
            }
            (Section::Coll, b"coll_exec_time_us") | (Section::P2p, b"p2p_exec_time_us") => {
                self.dur_ns = value.us();
            }
            (Section::Coll, b"coll_timing_source") | (Section::P2p, b"p2p_timing_source") => {
                self.quality = value.name();
            }
            (Section::Coll, b"coll_algo") => self.algo = value.name(),
            (Section::Coll, b"coll_proto") => self.proto = value.name(),
            (Section::Coll, b"coll_n_channels") => self.nchannels = value.small(),
            (Section::P2p, b"p2p_peer") => self.peer = value.int(),
            (Section::Stats, key) => {
                let mut drops = DROPS.iter().zip(&mut self.drops);
                if let Some((_, drop)) = drops.find(|(name, _)| **name == key) {
                    *drop = value.int();
                }
            }
            _ => {}
        }
    }

    /// What a key of `event_trace_ts` says: when the host began to launch the operation.
    #[inline]
    pub(super) fn trace(&mut self, key: &[u8], value: Scalar<'v>) {
        if matches!(key, b"coll_start_ts" | b"p2p_start_ts") {
            // What was not seen is 0.
            self.start_ns = value.us().filter(|&ns| ns > 0);
        }
    }

    /// The kernel's events: one for each channel.
    #[inline]
    pub(super) fn channels(&mut self, n: usize) {
        self.nchannels = u32::try_from(n).ok().filter(|&n| n > 0);
    }

    /// The number of a collective among those of its name on its communicator.
    #[inline]
    pub(super) fn seq(&self) -> Option<u64> {
        self.sn.filter(|_| self.kind == Kind::Coll)
    }

    /// The peer of a Send or Recv.
    #[inline]
    pub(super) fn peer(&self) -> Option<i64> {
        let peer = self.peer.filter(|_| self.kind == Kind::P2p);
        peer.and_then(|peer| i64::try_from(peer).ok())
    }

    /// When and how it was served.
    #[inline]
    pub(super) fn timing(&self) -> Timing<'v> {
        Timing {
            dur_ns: self.dur_ns,
            clock: match self.start_ns {
                Some(_) => super::CLOCK,
                None => b"",
            },
            quality: self.quality,
            start_ns: self.start_ns,
            algo: self.algo,
            proto: self.proto,
            nchannels: self.nchannels,
            ..Timing::default()
        }
    }
}

/// `0xe62dedaa97644a`.
fn id(text: &[u8]) -> Option<u64> {
    match hex_u64(text.strip_prefix(b"0x")?) {
        Ok((b"", id)) => Some(id),
        _ => None,
    }
}
