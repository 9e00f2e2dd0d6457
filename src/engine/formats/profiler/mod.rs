//! The trace that NCCL's example profiler plugin writes, versions 1 to 6: mostly JSON, an event's
//! beginning or end on each line. Its mistakes are counted, and repaired if the repair is certain.

mod call;
mod event;
mod kernels;
mod limits;
mod proxy;
#[cfg(test)]
mod tests;
mod trace;

pub use call::GPU_CLOCK;
pub use proxy::{ProxyOp, ProxyPhases, ProxyWait, TransferSide};
pub use trace::ProfilerVisitor;

use super::ordered::{self, RowTaker};
use super::{InputFormat, Provides};
use crate::error::Result;
use crate::output::table::Row;
use crate::report::account::Account;
use crate::source::Input;
use event::ProfilerLine;
use limits::MAX_TRACE_LINE_BYTES;
use std::io::{BufRead, BufReader};
use trace::ProfilerTrace;

/// The format.
pub(super) const FORMAT: InputFormat = InputFormat {
    name: "profiler",
    what: "an NCCL profiler trace",
    tells: Provides::CALLS
        .and(Provides::STARTS)
        .and(Provides::DURATIONS)
        .and(Provides::PROXY),
    probe: |head| {
        let text = head.bytes.trim_ascii();
        // A trace without an event.
        let is_bare = text.iter().filter(|b| !b.is_ascii_whitespace()).eq(b"[{}]");
        let event = text.strip_prefix(b"[").unwrap_or(text).trim_ascii_start();
        let line = event.split(|&b| b == b'\n').next().unwrap_or_default();
        head.probe_recorder(
            (head.is_whole() && is_bare)
                || matches!(event::parse_line(line), ProfilerLine::Event(_)),
        )
    },
};

/// Reads the trace of an input.
pub(super) fn read_calls(input: &Input, taking: &mut RowTaker<'_>) -> Result<()> {
    struct ProfilerCalls<'c, 't>(&'c mut RowTaker<'t>);
    impl ProfilerVisitor for ProfilerCalls<'_, '_> {
        fn visit_call(&mut self, row: &Row<'_>) -> Result<()> {
            self.0.take_row(row)
        }
    }
    let account = walk_input(input, &mut ProfilerCalls(taking))?;
    taking.account.merge(&account);
    Ok(())
}

/// Reads the trace of an input for `visit`; returns the account of its lines.
///
/// # Errors
/// The input cannot be read; those of `visit`.
pub fn read_trace(input: &Input, visit: &mut dyn ProfilerVisitor) -> Result<Account> {
    let mut account = walk_input(input, visit)?;
    account.broken = crate::log::check_unpacked(input, false)?;
    Ok(account)
}

fn walk_input(input: &Input, visit: &mut dyn ProfilerVisitor) -> Result<Account> {
    let mut reader = BufReader::with_capacity(1 << 18, input.open_unmapped_reader()?);
    walk_trace(&mut reader, &input.name(), visit)
}

fn walk_trace(
    reader: &mut dyn BufRead,
    name: &str,
    visit: &mut dyn ProfilerVisitor,
) -> Result<Account> {
    let (mut trace, mut account) = (ProfilerTrace::default(), Account::default());
    ordered::for_each_line(reader, name, MAX_TRACE_LINE_BYTES, &mut |line| {
        trace.read_line(line, &mut account, visit)
    })?;
    trace.finish(&mut account, visit)?;
    Ok(account)
}

#[cfg(test)]
mod probe {
    use super::*;
    use crate::formats::{InputHead, ProbeAnswer};

    #[test]
    fn a_trace_is_known_by_its_first_event() {
        let is = |text: &str| {
            (FORMAT.probe)(&InputHead::from_bytes(text.as_bytes())) == ProbeAnswer::Yes
        };
        let event = "{\"name\": \"Group\", \"cat\": \"GROUP\", \"ph\": \"b\", \"id\": 0, \"pid\": 7, \
                     \"tid\": 1, \"ts\": 46.244980, \"args\": {\"groupId\": 0}},\n";
        assert!(is(&format!("[\n{event}")) && is(event) && is("[\n{}]\n"));
        // Another tracer's events.
        assert!(!is(&event.replace("GROUP", "cpu_op")));
        assert!(!is("{\"name\": \"resnet\", \"epoch\": 1}\n") && !is("[]\n") && !is(""));
    }
}
