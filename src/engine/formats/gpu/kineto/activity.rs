//! Events as what the GPUs did and what the program named.

use super::args::Args;
use super::header::{Header, plain, step};
use super::json::number;
use super::scan::Event;
use super::time::ns;
use crate::error::Result;
use crate::formats::gpu::{Activity, Kind, Range, Session, Visit};
use crate::output::table::Lacks;

/// What an event is, by its category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A GPU did it.
    Gpu(Kind),
    /// A range that the program named, on the host.
    HostRange,
    /// The same as the GPU saw it.
    GpuRange,
    /// The profiler itself, from its beginning to its end.
    Profiler,
    /// Anything else.
    Other,
}

impl What {
    /// That of an event. Only what has a duration is something that was done.
    pub(super) fn of(event: &Event<'_>) -> What {
        if event.ph != b"\"X\"" {
            return What::Other;
        }
        // PyTorch 1.8 to 1.12 write some with a capital.
        match event.cat {
            b"\"kernel\"" | b"\"Kernel\"" => What::Gpu(Kind::Kernel),
            b"\"gpu_memcpy\"" | b"\"Memcpy\"" => What::Gpu(Kind::Copy),
            b"\"gpu_memset\"" | b"\"Memset\"" => What::Gpu(Kind::Set),
            b"\"user_annotation\"" => What::HostRange,
            b"\"gpu_user_annotation\"" => What::GpuRange,
            b"\"Trace\"" => What::Profiler,
            _ => What::Other,
        }
    }
}

/// When an event began and ended, in ns.
pub(super) fn span(event: &Event<'_>) -> Result<(i64, i64), Lacks> {
    let start = ns(event.ts).ok_or("a time (ts)")?;
    let took = ns(event.dur)
        .filter(|&ns| ns >= 0)
        .ok_or("a duration (dur)")?;
    Ok((start, start.checked_add(took).ok_or("a duration (dur)")?))
}

/// The GPU of an event: the process that it is shown under, where the arguments do not name it.
pub(super) fn device(event: &Event<'_>, args: &Args<'_>) -> Result<u32, Lacks> {
    let device = number(args.device).or_else(|| number(event.pid));
    device
        .and_then(|n| u32::try_from(n).ok())
        .ok_or("the GPU's number")
}

/// Gives events to who takes a timeline.
pub(super) struct Timeline<'v> {
    pub(super) visit: &'v mut dyn Visit,
    pub(super) header: Header,
    /// When the first activity began.
    first: Option<i64>,
    window: Option<(i64, i64)>,
}

impl Timeline<'_> {
    pub(super) fn new(visit: &mut dyn Visit) -> Timeline<'_> {
        Timeline {
            visit,
            header: Header::default(),
            first: None,
            window: None,
        }
    }

    /// Takes an event; true for what a GPU did.
    pub(super) fn event(&mut self, event: &Event<'_>) -> Result<Result<bool, Lacks>> {
        let what = What::of(event);
        if what == What::Other {
            return Ok(Ok(false));
        }
        let (start_ns, end_ns) = match span(event) {
            Ok(span) => span,
            Err(lacks) => return Ok(Err(lacks)),
        };
        let name = plain(event.name);
        match what {
            What::Gpu(kind) => {
                let args = Args::of(event.args);
                let device = match device(event, &args) {
                    Ok(device) => device,
                    Err(lacks) => return Ok(Err(lacks)),
                };
                self.first = self.first.or(Some(start_ns));
                let small = |value| number(value).and_then(|n| u32::try_from(n).ok());
                self.visit.activity(&Activity {
                    kind,
                    name: if kind == Kind::Copy {
                        direction(&name)
                    } else {
                        &name
                    },
                    // One process writes a trace. Its number is told by other events.
                    pid: None,
                    device,
                    stream: number(args.stream).or_else(|| number(event.tid)),
                    start_ns,
                    end_ns,
                    bytes: number(args.bytes).filter(|_| kind != Kind::Kernel),
                    between: small(args.from).zip(small(args.to)),
                    correlation: number(args.correlation),
                    launched: three(args.grid).zip(three(args.block)),
                })?;
                return Ok(Ok(true));
            }
            What::HostRange | What::GpuRange => {
                let is_gpu = what == What::GpuRange;
                let device = number(event.pid).and_then(|n| u32::try_from(n).ok());
                self.visit.range(&Range {
                    name: &name,
                    pid: number(event.pid).filter(|_| !is_gpu),
                    tid: number(event.tid),
                    device: device.filter(|_| is_gpu),
                    start_ns,
                    end_ns,
                    step: step(&name),
                });
            }
            What::Profiler => self.window = Some((start_ns, end_ns)),
            What::Other => {}
        }
        Ok(Ok(false))
    }

    /// The trace has ended.
    pub(super) fn end(&mut self) {
        self.visit.session(&Session {
            host: Box::default(),
            rank: self.header.rank,
            window: self.window,
            utc_ns: self.header.utc(self.first),
        });
    }
}

/// The numbers of `[24, 1, 1]`.
fn three(value: &[u8]) -> Option<[u32; 3]> {
    serde_json::from_slice(value).ok()
}

/// `HtoD` of `Memcpy HtoD (Pinned -> Device)`.
fn direction(name: &[u8]) -> &[u8] {
    let rest = name.strip_prefix(b"Memcpy ").unwrap_or(name);
    rest.split(|&b| b == b' ').next().unwrap_or(rest)
}
