//! Events as activities of the GPUs and as named ranges.

use super::args::KinetoArgs;
use super::header::{KinetoHeader, parse_step, plain_text};
use super::json::parse_number;
use super::scan::KinetoEvent;
use super::time::parse_ns;
use crate::error::Result;
use crate::formats::gpu::{ActivityKind, GpuActivity, GpuVisitor, NamedRange, RecorderSession};
use crate::output::table::Lacks;

/// The kind of an event, by its category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventCategory {
    /// A GPU did it.
    Gpu(ActivityKind),
    /// A range that the program named, on the host.
    HostRange,
    /// A named range as the GPU ran it.
    GpuRange,
    /// The profiler itself, from its beginning to its end.
    Profiler,
    /// Anything else.
    Other,
}

impl EventCategory {
    /// Returns the category of an event. Events without a duration are no activities.
    pub(super) fn from_event(event: &KinetoEvent<'_>) -> EventCategory {
        if event.ph != b"\"X\"" {
            return EventCategory::Other;
        }
        // PyTorch 1.8 to 1.12 write some with a capital.
        match event.cat {
            b"\"kernel\"" | b"\"Kernel\"" => EventCategory::Gpu(ActivityKind::Kernel),
            b"\"gpu_memcpy\"" | b"\"Memcpy\"" => EventCategory::Gpu(ActivityKind::Copy),
            b"\"gpu_memset\"" | b"\"Memset\"" => EventCategory::Gpu(ActivityKind::Set),
            b"\"user_annotation\"" => EventCategory::HostRange,
            b"\"gpu_user_annotation\"" => EventCategory::GpuRange,
            b"\"Trace\"" => EventCategory::Profiler,
            _ => EventCategory::Other,
        }
    }
}

/// Returns when an event began and ended, in ns.
pub(super) fn parse_span(event: &KinetoEvent<'_>) -> Result<(i64, i64), Lacks> {
    let start = parse_ns(event.ts).ok_or("a time (ts)")?;
    let took = parse_ns(event.dur)
        .filter(|&ns| ns >= 0)
        .ok_or("a duration (dur)")?;
    Ok((start, start.checked_add(took).ok_or("a duration (dur)")?))
}

/// Returns the GPU of an event: if the arguments do not name it, it is the event's process.
pub(super) fn parse_device(event: &KinetoEvent<'_>, args: &KinetoArgs<'_>) -> Result<u32, Lacks> {
    let device = parse_number(args.device).or_else(|| parse_number(event.pid));
    device
        .and_then(|n| u32::try_from(n).ok())
        .ok_or("the GPU's number")
}

/// Passes events on to a visitor of GPU timelines.
pub(super) struct KinetoTimeline<'v> {
    pub(super) visit: &'v mut dyn GpuVisitor,
    pub(super) header: KinetoHeader,
    /// When the first activity began.
    first: Option<i64>,
    window: Option<(i64, i64)>,
}

impl KinetoTimeline<'_> {
    pub(super) fn new(visit: &mut dyn GpuVisitor) -> KinetoTimeline<'_> {
        KinetoTimeline {
            visit,
            header: KinetoHeader::default(),
            first: None,
            window: None,
        }
    }

    /// Takes an event; returns true for an activity of a GPU.
    pub(super) fn take_event(&mut self, event: &KinetoEvent<'_>) -> Result<Result<bool, Lacks>> {
        let what = EventCategory::from_event(event);
        if what == EventCategory::Other {
            return Ok(Ok(false));
        }
        let (start_ns, end_ns) = match parse_span(event) {
            Ok(span) => span,
            Err(lacks) => return Ok(Err(lacks)),
        };
        let name = plain_text(event.name);
        match what {
            EventCategory::Gpu(kind) => {
                let args = KinetoArgs::parse(event.args);
                let device = match parse_device(event, &args) {
                    Ok(device) => device,
                    Err(lacks) => return Ok(Err(lacks)),
                };
                self.first = self.first.or(Some(start_ns));
                let small = |value| parse_number(value).and_then(|n| u32::try_from(n).ok());
                self.visit.visit_activity(&GpuActivity {
                    kind,
                    name: if kind == ActivityKind::Copy {
                        copy_direction(&name)
                    } else {
                        &name
                    },
                    // One process writes a trace; events of the GPU have the GPU's number as pid.
                    pid: None,
                    device,
                    stream: parse_number(args.stream).or_else(|| parse_number(event.tid)),
                    start_ns,
                    end_ns,
                    bytes: parse_number(args.bytes).filter(|_| kind != ActivityKind::Kernel),
                    between: small(args.from).zip(small(args.to)),
                    correlation: parse_number(args.correlation),
                    launched: parse_three(args.grid).zip(parse_three(args.block)),
                })?;
                return Ok(Ok(true));
            }
            EventCategory::HostRange | EventCategory::GpuRange => {
                let is_gpu = what == EventCategory::GpuRange;
                let device = parse_number(event.pid).and_then(|n| u32::try_from(n).ok());
                self.visit.visit_range(&NamedRange {
                    name: &name,
                    pid: parse_number(event.pid).filter(|_| !is_gpu),
                    tid: parse_number(event.tid),
                    device: device.filter(|_| is_gpu),
                    start_ns,
                    end_ns,
                    step: parse_step(&name),
                });
            }
            EventCategory::Profiler => self.window = Some((start_ns, end_ns)),
            EventCategory::Other => {}
        }
        Ok(Ok(false))
    }

    /// The trace has ended.
    pub(super) fn finish(&mut self) {
        self.visit.visit_session(&RecorderSession {
            host: Box::default(),
            rank: self.header.rank,
            window: self.window,
            utc_ns: self.header.utc_offset(self.first),
        });
    }
}

/// The numbers of `[24, 1, 1]`.
fn parse_three(value: &[u8]) -> Option<[u32; 3]> {
    serde_json::from_slice(value).ok()
}

/// `HtoD` of `Memcpy HtoD (Pinned -> Device)`.
fn copy_direction(name: &[u8]) -> &[u8] {
    let rest = name.strip_prefix(b"Memcpy ").unwrap_or(name);
    rest.split(|&b| b == b' ').next().unwrap_or(rest)
}
