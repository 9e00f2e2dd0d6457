//! The user's own command at a stall.

use crate::output::render::{Grid, Sheet};
use crate::stages::check::CheckSummary;
use crate::stages::check::answer::table;
use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

/// Starts `command` in a shell. It gets the first finding that is no note as a JSON object on standard
/// input, and in its environment `NCCL_WATCH_FINDING`, `NCCL_WATCH_HOST`, `NCCL_WATCH_PID`,
/// `NCCL_WATCH_GLOBAL_RANK` (the rank in the job) and `NCCL_WATCH_RANK` (in the communicator), as far as they are
/// known; without a finding none of them. Where its output is not `shown`, it is discarded: a page is on the terminal.
///
/// # Errors
/// The shell cannot be started.
pub fn start_stall_command(command: &str, found: &CheckSummary, shown: bool) -> io::Result<Child> {
    let wrong = found.is_wrong();
    let first = found.findings.first().filter(|_| wrong);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::piped());
    if !shown {
        shell.stdout(Stdio::null()).stderr(Stdio::null());
    }
    if let Some(first) = first {
        let about = &first.about;
        let host = about.host.as_deref().map(String::from_utf8_lossy);
        let each = [
            ("FINDING", Some(first.kind.id().to_owned())),
            // No byte of a log that ends a text early.
            ("HOST", host.map(|host| host.replace('\0', ""))),
            ("PID", about.pid.map(|pid| pid.to_string())),
            ("RANK", about.rank.map(|rank| rank.to_string())),
            (
                "GLOBAL_RANK",
                about.global_rank.map(|rank| rank.to_string()),
            ),
        ];
        for (name, value) in each {
            shell.envs(value.map(|value| (format!("NCCL_WATCH_{name}"), value)));
        }
    }
    let mut child = shell.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        let mut text = Vec::new();
        let Grid { columns, rows } = table::findings_grid(found);
        let rows = rows.into_iter().take(usize::from(first.is_some()));
        let sheet = Sheet::from(Grid {
            columns,
            rows: rows.collect(),
        });
        sheet.write_jsonl(1, &mut text).map_err(io::Error::other)?;
        // A command need not read it.
        match stdin.write_all(&text) {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => return Err(e),
            _ => {}
        }
    }
    Ok(child)
}
