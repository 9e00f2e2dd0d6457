//! Writes what a watch of NCCL's RAS finds.

use super::on_stall;
use crate::error::{Error, Result};
use crate::report::{Report, count_phrase};
use crate::stages::check::CheckSummary;
use crate::stages::check::answer::findings_text::{ShownFindings, write_findings_text};
use crate::stages::watch::ras::{RasListener, RasState};
use std::io::{self, Write};
use std::process::Child;
use std::time::Duration;

/// Writes lines to standard output, and runs the user's command at a stall.
pub struct RasPrinter<'p> {
    report: &'p Report,
    on_stall: Option<&'p str>,
    children: Vec<Child>,
}

impl<'p> RasPrinter<'p> {
    /// Nothing is written yet; `on_stall` is a command for a shell.
    pub fn new(report: &'p Report, on_stall: Option<&'p str>) -> RasPrinter<'p> {
        RasPrinter {
            report,
            on_stall,
            children: Vec::new(),
        }
    }

    /// Waits for the user's commands.
    ///
    /// # Errors
    /// One cannot be waited for.
    pub fn wait_for_commands(self) -> io::Result<()> {
        self.children
            .into_iter()
            .try_for_each(|mut child| child.wait().map(|_| ()))
    }

    fn print_line(&self, line: &str) -> Result<()> {
        let mut out = io::stdout();
        writeln!(out, "{line}")
            .and_then(|()| out.flush())
            .map_err(Error::Output)
    }
}

impl RasListener for RasPrinter<'_> {
    fn on_state(&mut self, state: &RasState) -> Result<()> {
        let ranks = count_phrase(state.ranks.into(), "rank");
        let communicators = count_phrase(state.communicators as u64, "communicator");
        self.print_line(&match state.launched {
            Some(launched) => {
                let calls = count_phrase(launched, "collective");
                format!("{ranks} in {communicators}: {calls} launched")
            }
            None => format!(
                "{ranks}; this version of NCCL has counts only where ranks differ, in {communicators}"
            ),
        })
    }

    fn on_wait(&mut self, why: &str) {
        self.report.note(&format!("{why}; waiting for the job"));
    }

    fn on_silence(&mut self, why: &io::Error) {
        self.report
            .warn(&format!("NCCL's RAS gave no answer: {why}"));
    }

    fn on_stall(&mut self, rested: Duration, found: &CheckSummary) -> Result<()> {
        let seconds = rested.as_secs();
        self.print_line(&format!(
            "no rank has launched a collective for {seconds} s"
        ))?;
        match found.is_wrong() {
            true => write_findings_text(found, &[], ShownFindings::default(), &mut io::stdout())
                .map_err(Error::Output)?,
            false => self.print_line(
                "no rank is behind another in what RAS counts: all wait in the same call, or for something else; \
                 the stacks of the processes show it (py-spy dump --pid PID)",
            )?,
        }
        if let Some(command) = self.on_stall {
            match on_stall::start_stall_command(command, found, true) {
                Ok(child) => self.children.push(child),
                Err(e) => self
                    .report
                    .warn(&format!("cannot run --on-stall {command}: {e}")),
            }
        }
        Ok(())
    }

    fn on_end(&mut self) -> Result<()> {
        self.print_line("NCCL's RAS answers no more: the job has ended")
    }
}
