//! The only place that knows exit codes: 0 all well (also if the reader of our pipe went
//! away), 1 written but some input was damaged or a check found something, 2 the program failed or an
//! input is missing, 3 (nccl-check --expect) unanswerable from this input, 128 plus a signal's number if that ended
//! an input and the output covers the part before.

use super::closed_stdout::is_stdout_closed;
use super::output_file;
use crate::error::Error;
use crate::error::phrases::without_error_number;
use crate::report::{escape_for_terminal, write_message};
use crate::source;
use anyhow::anyhow;
use std::process::ExitCode;

/// How a run ended that wrote its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Everything was understood and written: code 0.
    Clean,
    /// Written, but some input was damaged or unreadable: code 1.
    Damaged,
    /// Written, and what was looked for is there: a fault, a difference: code 1.
    Found,
    /// Written, but the input is not enough to judge an expectation: code 3.
    Unanswerable,
    /// Written, but an input is missing or could not be read: code 2.
    Unread,
    /// The reader of our pipe went away, in a program whose output is a receipt: code 141, as of a program
    /// that SIGPIPE ended.
    ReaderLeft,
}

/// Runs a program's body and turns its end into an exit code, with `<name>: error: <message>` on
/// stderr for an error: one line, but for proposals.
pub fn run_program(name: &str, body: impl FnOnce() -> anyhow::Result<Exit>) -> ExitCode {
    exit_code(name, body())
}

/// Compiled once, not in each program.
fn exit_code(name: &str, ended: anyhow::Result<Exit>) -> ExitCode {
    // A file of -o is there when all of it is written, and only then.
    let ended = ended.and_then(|exit| output_file::name_output_file().map(|()| exit));
    output_file::discard_output_file();
    let ended = match is_stdout_closed() {
        true => ended.and(Err(anyhow!(
            "cannot write the output: standard output is closed"
        ))),
        false => ended,
    };
    if let (Ok(_), Some(signal)) = (&ended, source::ending_signal()) {
        let said = "interrupted: the output covers only the input that was read";
        write_message(format!("{name}: warning: {said}"));
        return ExitCode::from(128_u8.saturating_add(u8::try_from(signal).unwrap_or(0)));
    }
    match ended {
        Ok(Exit::Clean) => ExitCode::SUCCESS,
        Ok(Exit::Damaged | Exit::Found) => ExitCode::from(1),
        Ok(Exit::Unanswerable) => ExitCode::from(3),
        Ok(Exit::Unread) => ExitCode::from(2),
        Ok(Exit::ReaderLeft) => ExitCode::from(141),
        Err(e) if is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            let is_proposed = |e: &Error| matches!(e, Error::Proposed(_));
            let multiline = e.downcast_ref().is_some_and(is_proposed);
            let text = escape_for_terminal(&format!("{e:#}"), multiline);
            let text = without_error_number(&text);
            write_message(format!("{name}: error: {text}"));
            ExitCode::from(2)
        }
    }
}

fn is_broken_pipe(e: &anyhow::Error) -> bool {
    e.chain().any(|cause| {
        cause
            .downcast_ref::<Error>()
            .is_some_and(Error::is_broken_pipe)
            || cause
                .downcast_ref::<std::io::Error>()
                .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
