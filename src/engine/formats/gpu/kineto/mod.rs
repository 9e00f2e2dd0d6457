//! Traces of torch.profiler, which its library Kineto writes in Chrome's format, a file a rank.
//!
//! A trace is an object with a header and the list `traceEvents`, or only that list. Its events are in no
//! order that can be relied on. In the account an event is a line, and so is the header.

mod activity;
mod args;
mod calls;
mod header;
mod json;
mod limits;
mod scan;
#[cfg(test)]
mod tests;
mod time;

use crate::error::{Error, Result};
use crate::formats::gpu::GpuVisitor;
use crate::formats::ordered::RowTaker;
use crate::formats::{InputFormat, Provides};
use crate::output::table::Lacks;
use crate::report::account::{Account, LineClass};
use crate::report::count_phrase;
use crate::source::Input;
use activity::{EventCategory, KinetoTimeline, parse_device, parse_span};
use args::{KinetoArgs, KinetoCallArgs};
use calls::{HostRecord, KinetoCalls, KinetoKernel};
use header::{KinetoHeader, parse_step, plain_text};
use json::parse_number;
use memchr::memmem;
use scan::{KinetoEvent, KinetoTraceEnd, KinetoVisitor};
use std::path::PathBuf;

/// The format.
pub(in crate::formats) const FORMAT: InputFormat = InputFormat {
    name: "kineto",
    what: "a Chrome trace, as torch.profiler writes",
    tells: Provides::CALLS
        .and(Provides::STEPS)
        .and(Provides::STARTS)
        .and(Provides::DURATIONS)
        .and(Provides::GPU),
    probe: |head| {
        let text = head.bytes.trim_ascii_start();
        let has = |key: &[u8]| memmem::find(text, key).is_some();
        head.probe_recorder(match text.first() {
            Some(b'{') => {
                has(b"\"traceEvents\"")
                    || (has(b"\"schemaVersion\"") && has(b"\"deviceProperties\""))
            }
            Some(b'[') => is_event(text[1..].trim_ascii_start()),
            _ => false,
        })
    },
};

/// Returns true for an object with the keys that every event has.
fn is_event(text: &[u8]) -> bool {
    let event = &text[..memchr::memchr(b'}', text).unwrap_or(text.len())];
    let has = |key: &[u8]| memmem::find(event, key).is_some();
    event.starts_with(b"{") && has(b"\"ph\"") && has(b"\"pid\"") && has(b"\"ts\"")
}

/// Reads the collectives of a trace.
pub(in crate::formats) fn read_calls(input: &Input, taking: &mut RowTaker<'_>) -> Result<()> {
    let mut found = KinetoCollectives {
        calls: KinetoCalls::default(),
        header: KinetoHeader::default(),
        first: None,
        has_events: false,
        bare: 0,
        taking,
    };
    let end = walk_trace(input, &mut found)?;
    found.taking.count_line(LineClass::Other);
    if end.is_cut {
        let lacks = "more of the trace, which is cut";
        found.taking.count_damaged(lacks, b"");
    }
    check_is_torch(input, &found.header, found.has_events)?;
    let account = &mut found.taking.account;
    let named = found.calls.name_calls_by_kernels();
    if named > 0 {
        account.call_lines += named;
        account.other -= named;
        account.remarks.push(format!(
            "the trace has no arguments of calls, as those of PyTorch 2.0 and before: the rows are {} of NCCL, by \
             their names, without count, type, bytes and communicator",
            count_phrase(named, "kernel")
        ));
    }
    let utc = found.header.utc_offset(found.first);
    let KinetoCollectives { bare, taking, .. } = found;
    found.calls.emit_rows(utc, found.header.rank, taking)?;
    if taking.account.calls == 0 && bare > 0 {
        taking.account.remarks.push(format!(
            "it has no row: {} of calls without arguments, as those of PyTorch 2.0 and before, and no kernel of NCCL",
            count_phrase(bare, "host record")
        ));
    }
    Ok(())
}

/// Gives the GPUs' activities to `visit`; returns the account of the events.
///
/// # Errors
/// The input cannot be read, or is another program's trace; those of `visit`.
pub(crate) fn read_timeline(input: &Input, visit: &mut dyn GpuVisitor) -> Result<Account> {
    let mut found = KinetoActivities {
        timeline: KinetoTimeline::new(visit),
        account: Account::default(),
        has_events: false,
        gpu: 0,
    };
    let end = walk_trace(input, &mut found)?;
    let (mut timeline, mut account) = (found.timeline, found.account);
    check_is_torch(input, &timeline.header, found.has_events)?;
    timeline.finish();
    account.count_line(LineClass::Other);
    if end.is_cut {
        let text = format!(
            "the trace ends in the middle, after {} bytes: what is missing may be of any time, since \
             events are in no order",
            end.bytes
        );
        timeline.visit.add_note(&text);
        account.count_damaged_line("more of the trace, which is cut", b"");
    }
    if found.gpu == 0 {
        timeline.visit.add_note(
            "the trace has no activity of a GPU: torch.profiler records them with \
             ProfilerActivity.CUDA",
        );
    }
    account.broken = crate::log::check_unpacked(input, false)?;
    Ok(account)
}

fn walk_trace(input: &Input, take: &mut dyn KinetoVisitor) -> Result<KinetoTraceEnd> {
    let mut reader = input.open_unmapped_reader()?;
    scan::scan_trace(&mut *reader, take)?.map_err(|cause| Error::Input {
        path: PathBuf::from(input.name()),
        cause,
    })
}

/// Refuses the trace of another program, as Chrome's own.
fn check_is_torch(input: &Input, header: &KinetoHeader, has_events: bool) -> Result<()> {
    match header.is_kineto || has_events {
        true => Ok(()),
        false => Err(Error::Content(format!(
            "{} is a Chrome trace, but not of torch.profiler: none of its events is a kernel, a copy \
             or an operator of PyTorch",
            input.name()
        ))),
    }
}

/// Returns true for an event that only torch.profiler writes: a bare list has no other mark of it.
fn is_torch_event(event: &KinetoEvent<'_>, what: EventCategory) -> bool {
    const TORCH_EVENT_NAMES: [&[u8]; 4] = [
        b"\"cpu_op\"",
        b"\"cuda_runtime\"",
        b"\"cuda_driver\"",
        b"\"user_annotation\"",
    ];
    what != EventCategory::Other || TORCH_EVENT_NAMES.contains(&event.cat)
}

/// Takes the GPUs' activities.
struct KinetoActivities<'v> {
    timeline: KinetoTimeline<'v>,
    account: Account,
    has_events: bool,
    /// How many activities there were.
    gpu: u64,
}

impl KinetoVisitor for KinetoActivities<'_> {
    fn visit_member(&mut self, key: &[u8], value: &[u8]) {
        self.timeline.header.take_member(key, value);
    }

    fn visit_event(&mut self, event: &KinetoEvent<'_>) -> Result<()> {
        self.has_events =
            self.has_events || is_torch_event(event, EventCategory::from_event(event));
        match self.timeline.take_event(event)? {
            Ok(is_gpu) => {
                self.gpu += u64::from(is_gpu);
                self.account.count_line(if is_gpu {
                    LineClass::Other
                } else {
                    LineClass::Foreign
                });
            }
            Err(lacks) => self.account.count_damaged_line(lacks, event.name),
        }
        Ok(())
    }

    fn visit_damaged(&mut self, what: Lacks, text: &[u8]) {
        self.account.count_damaged_line(what, text);
    }

    fn progress(&mut self, _: u64) {}
}

/// Takes collectives.
struct KinetoCollectives<'c, 't> {
    calls: KinetoCalls,
    header: KinetoHeader,
    /// When the first activity began.
    first: Option<i64>,
    has_events: bool,
    /// The host's records of calls without arguments.
    bare: u64,
    taking: &'c mut RowTaker<'t>,
}

/// The name of the host's record of a call.
const HOST_RECORD_NAME: &[u8] = b"\"record_param_comms\"";

impl KinetoCollectives<'_, '_> {
    /// Takes an event; returns its class.
    fn take_call_event(
        &mut self,
        event: &KinetoEvent<'_>,
        what: EventCategory,
    ) -> Result<LineClass, Lacks> {
        match what {
            EventCategory::Gpu(crate::formats::gpu::ActivityKind::Kernel) => {
                self.take_kernel(event)
            }
            EventCategory::Other if event.name == HOST_RECORD_NAME => self.take_record(event),
            EventCategory::HostRange => {
                if let Some(step) = parse_step(&plain_text(event.name)) {
                    let (from, to) = parse_span(event)?;
                    self.calls.steps.push((from, to, step));
                }
                Ok(LineClass::Foreign)
            }
            _ => Ok(LineClass::Foreign),
        }
    }

    fn take_kernel(&mut self, event: &KinetoEvent<'_>) -> Result<LineClass, Lacks> {
        let args = KinetoArgs::parse(event.args);
        let is_nccl = memmem::find(event.name, b"nccl").is_some();
        if !is_nccl && !args.has_collective() {
            return Ok(LineClass::Foreign);
        }
        let (start, end) = parse_span(event)?;
        self.first = self.first.or(Some(start));
        let passed = args
            .parse_call(&self.header)
            .map(|passed| self.calls.intern_args(passed));
        let (shape, seq) = passed.map_or((None, None), |(shape, seq)| (Some(shape), seq));
        let by_name = match shape {
            Some(_) => None,
            None => KinetoCallArgs::from_kernel_name(event.name)
                .map(|passed| self.calls.intern_args(passed).0),
        };
        self.calls.kernels.push(KinetoKernel {
            start,
            end,
            device: parse_device(event, &args)?,
            external: parse_number(args.external),
            shape,
            by_name,
            seq,
        });
        // A kernel that a group of calls launched has no arguments.
        Ok(if shape.is_some() {
            LineClass::Call
        } else {
            LineClass::Other
        })
    }

    fn take_record(&mut self, event: &KinetoEvent<'_>) -> Result<LineClass, Lacks> {
        let args = KinetoArgs::parse(event.args);
        let Some(passed) = args.parse_call(&self.header) else {
            self.bare += 1;
            return Ok(LineClass::Other);
        };
        let (start, _) = parse_span(event)?;
        let (shape, seq) = self.calls.intern_args(passed);
        self.calls.pid = self.calls.pid.or(parse_number(event.pid));
        self.calls.records.push(HostRecord {
            start,
            tid: parse_number(event.tid),
            external: parse_number(args.external),
            shape,
            seq,
        });
        Ok(LineClass::Call)
    }
}

impl KinetoVisitor for KinetoCollectives<'_, '_> {
    fn visit_member(&mut self, key: &[u8], value: &[u8]) {
        self.header.take_member(key, value);
    }

    fn visit_event(&mut self, event: &KinetoEvent<'_>) -> Result<()> {
        let what = EventCategory::from_event(event);
        self.has_events = self.has_events || is_torch_event(event, what);
        match self.take_call_event(event, what) {
            Ok(class) => self.taking.count_line(class),
            Err(lacks) => self.taking.count_damaged(lacks, event.name),
        }
        Ok(())
    }

    fn visit_damaged(&mut self, what: Lacks, text: &[u8]) {
        self.taking.count_damaged(what, text);
    }

    fn progress(&mut self, bytes: u64) {
        self.taking.add_progress(bytes);
    }
}

#[cfg(test)]
mod probe {
    use super::*;
    use crate::formats::{InputHead, ProbeAnswer};

    #[test]
    fn a_trace_is_known_by_its_keys() {
        let is = |text: &str| {
            (FORMAT.probe)(&InputHead::from_bytes(text.as_bytes())) == ProbeAnswer::Yes
        };
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
