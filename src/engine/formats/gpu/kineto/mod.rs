//! Traces of torch.profiler: what its library Kineto writes in Chrome's format, a file a rank.
//!
//! A trace is an object with a header and the list `traceEvents`, or only that list. Its events are in no
//! order that can be relied on. In the account an event is a line, and so is the header.

mod activity;
mod args;
mod calls;
mod header;
mod json;
mod scan;
#[cfg(test)]
mod tests;
mod time;

use crate::error::{Error, Result};
use crate::formats::gpu::Visit;
use crate::formats::ordered::Taking;
use crate::formats::{Format, Tells};
use crate::output::table::Lacks;
use crate::report::account::{Account, Class};
use crate::source::Input;
use activity::{Timeline, What, device, span};
use args::Args;
use calls::{Calls, Kernel, Record};
use header::{Header, plain, step};
use json::number;
use memchr::memmem;
use scan::{End, Event, Take};
use std::path::PathBuf;

/// The format.
pub(in crate::formats) const FORMAT: Format = Format {
    name: "kineto",
    what: "a Chrome trace, as torch.profiler writes",
    tells: Tells::CALLS
        .and(Tells::STEPS)
        .and(Tells::STARTS)
        .and(Tells::DURATIONS)
        .and(Tells::GPU),
    probe: |head| {
        let text = head.bytes.trim_ascii_start();
        let has = |key: &[u8]| memmem::find(text, key).is_some();
        head.other(match text.first() {
            Some(b'{') => {
                has(b"\"traceEvents\"")
                    || (has(b"\"schemaVersion\"") && has(b"\"deviceProperties\""))
            }
            Some(b'[') => is_event(text[1..].trim_ascii_start()),
            _ => false,
        })
    },
};

/// True for an object with the keys that every event has.
fn is_event(text: &[u8]) -> bool {
    let event = &text[..memchr::memchr(b'}', text).unwrap_or(text.len())];
    let has = |key: &[u8]| memmem::find(event, key).is_some();
    event.starts_with(b"{") && has(b"\"ph\"") && has(b"\"pid\"") && has(b"\"ts\"")
}

/// Reads the collectives of a trace.
pub(in crate::formats) fn read(input: &Input, taking: &mut Taking<'_>) -> Result<()> {
    let mut found = Collectives {
        calls: Calls::default(),
        header: Header::default(),
        first: None,
        has_events: false,
        taking,
    };
    let end = walk(input, &mut found)?;
    let Collectives {
        calls,
        header,
        first,
        has_events,
        taking,
    } = found;
    taking.line(Class::Other);
    if end.is_cut {
        taking.damaged("more of the trace, which is cut", b"");
    }
    is_of_torch(input, &header, has_events)?;
    taking.account.unrecorded.is_recorded = true;
    calls.rows(header.utc(first), taking)
}

/// Reads what the GPUs did, and hands it to `visit`; the account of the events.
///
/// # Errors
/// The input cannot be read, or is another program's trace; what `visit` says.
pub(crate) fn timeline(input: &Input, visit: &mut dyn Visit) -> Result<Account> {
    let mut found = Activities {
        timeline: Timeline::new(visit),
        account: Account::default(),
        has_events: false,
        gpu: 0,
    };
    let end = walk(input, &mut found)?;
    let Activities {
        mut timeline,
        mut account,
        has_events,
        gpu,
    } = found;
    is_of_torch(input, &timeline.header, has_events)?;
    timeline.end();
    account.line(Class::Other);
    if end.is_cut {
        let text = format!(
            "the trace ends in the middle, after {} bytes: what is missing may be of any time, since \
             events are in no order",
            end.bytes
        );
        timeline.visit.note(&text);
        account.damage("more of the trace, which is cut", b"");
    }
    if gpu == 0 {
        timeline.visit.note(
            "the trace has no activity of a GPU: torch.profiler records them with \
             ProfilerActivity.CUDA",
        );
    }
    account.broken = crate::log::unbroken(input, false)?;
    Ok(account)
}

fn walk(input: &Input, take: &mut dyn Take) -> Result<End> {
    let mut reader = input.stream()?;
    scan::scan(&mut *reader, take)?.map_err(|cause| Error::Input {
        path: PathBuf::from(input.name()),
        cause,
    })
}

/// Refuses the trace of another program, as Chrome's own.
fn is_of_torch(input: &Input, header: &Header, has_events: bool) -> Result<()> {
    match header.is_kineto || has_events {
        true => Ok(()),
        false => Err(Error::Content(format!(
            "{} is a Chrome trace, but not of torch.profiler: none of its events is a kernel, a copy \
             or an operator of PyTorch",
            input.name()
        ))),
    }
}

/// True for an event that only torch.profiler writes: in a bare list there is nothing else to tell it by.
fn is_torch(event: &Event<'_>, what: What) -> bool {
    const OWN: [&[u8]; 4] = [
        b"\"cpu_op\"",
        b"\"cuda_runtime\"",
        b"\"cuda_driver\"",
        b"\"user_annotation\"",
    ];
    what != What::Other || OWN.contains(&event.cat)
}

/// Takes what the GPUs did.
struct Activities<'v> {
    timeline: Timeline<'v>,
    account: Account,
    has_events: bool,
    /// How many activities there were.
    gpu: u64,
}

impl Take for Activities<'_> {
    fn member(&mut self, key: &[u8], value: &[u8]) {
        self.timeline.header.member(key, value);
    }

    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        self.has_events = self.has_events || is_torch(event, What::of(event));
        match self.timeline.event(event)? {
            Ok(is_gpu) => {
                self.gpu += u64::from(is_gpu);
                self.account
                    .line(if is_gpu { Class::Other } else { Class::Foreign });
            }
            Err(lacks) => self.account.damage(lacks, event.name),
        }
        Ok(())
    }

    fn damaged(&mut self, what: Lacks, text: &[u8]) {
        self.account.damage(what, text);
    }

    fn progress(&mut self, _: u64) {}
}

/// Takes collectives.
struct Collectives<'c, 't> {
    calls: Calls,
    header: Header,
    /// When the first activity began.
    first: Option<i64>,
    has_events: bool,
    taking: &'c mut Taking<'t>,
}

/// What the host records of a call.
const RECORD: &[u8] = b"\"record_param_comms\"";

impl Collectives<'_, '_> {
    /// Takes an event; what it is.
    fn call(&mut self, event: &Event<'_>, what: What) -> Result<Class, Lacks> {
        match what {
            What::Gpu(crate::formats::gpu::Kind::Kernel) => self.kernel(event),
            What::Other if event.name == RECORD => self.record(event),
            What::HostRange => {
                if let Some(step) = step(&plain(event.name)) {
                    let (from, to) = span(event)?;
                    self.calls.steps.push((from, to, step));
                }
                Ok(Class::Foreign)
            }
            _ => Ok(Class::Foreign),
        }
    }

    fn kernel(&mut self, event: &Event<'_>) -> Result<Class, Lacks> {
        let args = Args::of(event.args);
        let is_nccl = memmem::find(event.name, b"nccl").is_some();
        if !is_nccl && !args.has_collective() {
            return Ok(Class::Foreign);
        }
        let (start, end) = span(event)?;
        self.first = self.first.or(Some(start));
        let passed = args
            .call(&self.header)
            .map(|passed| self.calls.shape(passed));
        let (shape, seq) = passed.map_or((None, None), |(shape, seq)| (Some(shape), seq));
        self.calls.kernels.push(Kernel {
            start,
            end,
            device: device(event, &args)?,
            external: number(args.external),
            shape,
            seq,
        });
        // Where a group of calls launched it, it has the arguments of none.
        Ok(if shape.is_some() {
            Class::Call
        } else {
            Class::Other
        })
    }

    fn record(&mut self, event: &Event<'_>) -> Result<Class, Lacks> {
        let args = Args::of(event.args);
        let Some(passed) = args.call(&self.header) else {
            return Ok(Class::Other);
        };
        let (start, _) = span(event)?;
        let (shape, seq) = self.calls.shape(passed);
        self.calls.pid = self.calls.pid.or(number(event.pid));
        self.calls.records.push(Record {
            start,
            tid: number(event.tid),
            external: number(args.external),
            shape,
            seq,
        });
        Ok(Class::Call)
    }
}

impl Take for Collectives<'_, '_> {
    fn member(&mut self, key: &[u8], value: &[u8]) {
        self.header.member(key, value);
    }

    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        let what = What::of(event);
        self.has_events = self.has_events || is_torch(event, what);
        match self.call(event, what) {
            Ok(class) => self.taking.line(class),
            Err(lacks) => self.taking.damaged(lacks, event.name),
        }
        Ok(())
    }

    fn damaged(&mut self, what: Lacks, text: &[u8]) {
        self.taking.damaged(what, text);
    }

    fn progress(&mut self, bytes: u64) {
        self.taking.progress(bytes);
    }
}

#[cfg(test)]
mod probe {
    use super::*;
    use crate::formats::{Head, Is};

    #[test]
    fn a_trace_is_known_by_its_keys() {
        let is = |text: &str| (FORMAT.probe)(&Head::of(text.as_bytes())) == Is::Yes;
        assert!(is(
            "\n  {\n    \"schemaVersion\": 1,\n    \"deviceProperties\": [\n    {\n"
        ));
        assert!(is("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"));
        assert!(is(
            "[{\"ph\":\"X\",\"cat\":\"kernel\",\"pid\":1,\"tid\":7,\"ts\":3}]"
        ));
        assert!(
            !is("{\"step\": 1, \"loss\": 2.5}\n") && !is("[{\"step\": 1}]") && !is("[1/2] x\n")
        );
    }
}
