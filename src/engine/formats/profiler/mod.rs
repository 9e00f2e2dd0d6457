//! The trace that NCCL's example profiler plugin writes, versions 1 to 6: JSON in the main, an event's
//! beginning or end on each line. What it gets wrong is made good where that is certain, and
//! counted.

mod call;
mod event;
mod proxy;
#[cfg(test)]
mod tests;
mod trace;

pub use proxy::{Op, Phases, Side, Wait};
pub use trace::Visit;

use super::ordered::{self, Taking};
use super::{Format, Tells};
use crate::error::Result;
use crate::output::table::Row;
use crate::report::account::Account;
use crate::source::Input;
use event::Line;
use std::io::{BufRead, BufReader, Read};
use trace::Trace;

/// The format.
pub(super) const FORMAT: Format = Format {
    name: "profiler",
    what: "an NCCL profiler trace",
    tells: Tells::CALLS
        .and(Tells::STARTS)
        .and(Tells::DURATIONS)
        .and(Tells::PROXY),
    probe: |head| {
        let text = head.bytes.trim_ascii();
        // A trace without an event.
        let is_bare = text.iter().filter(|b| !b.is_ascii_whitespace()).eq(b"[{}]");
        let event = text.strip_prefix(b"[").unwrap_or(text).trim_ascii_start();
        let line = event.split(|&b| b == b'\n').next().unwrap_or_default();
        head.other((head.is_whole && is_bare) || matches!(event::line(line), Line::Event(_)))
    },
};

/// Reads the trace of an input.
pub(super) fn read(input: &Input, taking: &mut Taking<'_>) -> Result<()> {
    struct Calls<'c, 't>(&'c mut Taking<'t>);
    impl Visit for Calls<'_, '_> {
        fn call(&mut self, row: &Row<'_>) -> Result<()> {
            self.0.row(row)
        }
    }
    let mut account = Account::default();
    let name = input.name();
    let mut calls = Calls(taking);
    walk(&mut reader(input)?, &name, &mut account, &mut calls, |_| {})?;
    calls.0.account.merge(&account);
    Ok(())
}

fn reader(input: &Input) -> Result<BufReader<Box<dyn Read + Send>>> {
    Ok(BufReader::with_capacity(1 << 18, input.stream()?))
}

/// Reads the trace of an input and hands all it has to `visit`; the account of its lines.
///
/// # Errors
/// The input cannot be read; what `visit` says.
pub fn trace(input: &Input, visit: &mut dyn Visit) -> Result<Account> {
    let mut account = Account::default();
    walk(
        &mut reader(input)?,
        &input.name(),
        &mut account,
        visit,
        |_| {},
    )?;
    account.broken = crate::log::unbroken(input, false)?;
    Ok(account)
}

/// The longest line that is read; an event has a few hundred bytes.
const LONGEST: u64 = 1 << 16;

fn walk(
    reader: &mut dyn BufRead,
    name: &str,
    account: &mut Account,
    visit: &mut dyn Visit,
    progress: impl Fn(u64),
) -> Result<()> {
    let mut trace = Trace::default();
    ordered::each_line(reader, name, LONGEST, &mut |line| {
        progress(line.len() as u64);
        trace.line(line, account, visit)
    })?;
    trace.end(account, visit)
}

#[cfg(test)]
mod probe {
    use super::*;
    use crate::formats::{Head, Is};

    #[test]
    fn a_trace_is_known_by_its_first_event() {
        let is = |text: &str| (FORMAT.probe)(&Head::of(text.as_bytes())) == Is::Yes;
        let event = "{\"name\": \"Group\", \"cat\": \"GROUP\", \"ph\": \"b\", \"id\": 0, \"pid\": 7, \
                     \"tid\": 1, \"ts\": 46.244980, \"args\": {\"groupId\": 0}},\n";
        assert!(is(&format!("[\n{event}")) && is(event) && is("[\n{}]\n"));
        // Another tracer's events.
        assert!(!is(&event.replace("GROUP", "cpu_op")));
        assert!(!is("{\"name\": \"resnet\", \"epoch\": 1}\n") && !is("[]\n") && !is(""));
    }
}
