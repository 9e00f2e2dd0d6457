//! Everything a person reads about bad input, on stderr: the account of all lines, the first
//! damaged places, and what a log cannot tell.

use crate::account::Account;
use crate::source::BLOCK;
use std::io::{IsTerminal, Write};

/// Collects what is to be said about each input, and says it at the end.
#[derive(Debug)]
pub struct Report {
    name: &'static str,
    verbose: bool,
    quiet: bool,
    total: Account,
    inputs: u64,
    damaged: bool,
}

impl Report {
    /// A report of the program `name`.
    pub fn new(name: &'static str, verbose: bool, quiet: bool) -> Report {
        Report {
            name,
            verbose,
            quiet,
            total: Account::default(),
            inputs: 0,
            damaged: false,
        }
    }

    /// Takes in one input's account and says what was found in it.
    pub fn input(&mut self, input: &str, account: &Account) {
        self.inputs += 1;
        self.total.add(account);
        for place in &account.places {
            let text = printable(&String::from_utf8_lossy(&place.text), false);
            let shown = if self.verbose && !text.is_empty() {
                format!(", found `{text}`")
            } else {
                String::new()
            };
            self.warn(&format!(
                "{input}:{}:{}: damaged: expected {}{shown}",
                place.line + 1,
                place.column,
                place.what
            ));
        }
        if account.damaged > account.places.len() as u64 {
            let more = account.damaged - account.places.len() as u64;
            self.warn(&format!("{input}: {more} more damaged lines"));
        }
        if account.overwritten >= 2 {
            self.warn(&format!(
                "{input}: several processes wrote over each other's bytes on {} lines: they shared \
                 one NCCL_DEBUG_FILE. Missing lines here are not missing calls; rerun with \
                 NCCL_DEBUG_FILE=nccl.%h.%p.log",
                account.overwritten
            ));
        }
        if account.ray_lines > 0 {
            self.warn(&format!(
                "{input}: Ray left out {} lines ([repeated Nx across cluster] on {} lines): counts \
                 are too low; rerun with RAY_DEDUP_LOGS=0",
                account.ray_repeats, account.ray_lines
            ));
        }
        if account.block_lines > 0 {
            self.note(&format!(
                "{input}: standard output was block-buffered: {} processes wrote in blocks of \
                 {BLOCK} bytes; {} lines cut at block ends were put together again. Calls may be \
                 counted to a later step (the step lines overtook them): rerun with \
                 PYTHONUNBUFFERED=1",
                account.block_writers, account.block_lines
            ));
        } else if account.spliced > 0 {
            self.warn(&format!(
                "{input}: step lines stand inside NCCL lines ({} of them): standard output was \
                 block-buffered, so up to 4 KiB of calls may be counted to the step after theirs; \
                 rerun with PYTHONUNBUFFERED=1",
                account.spliced
            ));
        }
        if account.dropped > 0 {
            self.warn(&format!(
                "{input}: {} bytes of lines over 16 MiB were not read",
                account.dropped
            ));
        }
        for (code, calls) in &account.unknown_datatypes {
            self.warn(&format!(
                "{input}: {calls} calls have the unknown datatype {code}: their bytes are not \
                 known and not in any sum of bytes"
            ));
        }
    }

    /// Takes in the account of several inputs, of which nothing is to be said
    /// ([`Account::is_plain`]).
    pub fn plain(&mut self, inputs: u64, account: &Account) {
        debug_assert!(account.is_plain());
        self.inputs += inputs;
        self.total.add(account);
    }

    /// A soft error: the run goes on, the exit code remembers.
    pub fn error(&mut self, text: &str) {
        self.damaged = true;
        self.say("error", text);
    }

    /// A warning.
    pub fn warn(&self, text: &str) {
        self.say("warning", text);
    }

    /// A note; not under `--quiet`.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.say("note", text);
        }
    }

    /// Says the account of all lines, if asked for or if anything was damaged.
    pub fn finish(&self) {
        let t = &self.total;
        if self.verbose || t.damaged > 0 {
            let lines = t.call_lines + t.other + t.foreign + t.repaired + t.damaged;
            debug_assert_eq!(lines, t.lines);
            let line = format!(
                "{} lines = {} calls + {} other NCCL + {} foreign + {} repaired + {} damaged{}",
                t.lines,
                t.call_lines,
                t.other,
                t.foreign,
                t.repaired,
                t.damaged,
                self.beyond()
            );
            self.line(&line);
        }
    }

    /// Lines and calls are the same number but for glued, torn and table lines.
    fn beyond(&self) -> String {
        let t = &self.total;
        if t.calls == t.call_lines {
            String::new()
        } else {
            format!("; {} calls in all", t.calls)
        }
    }

    /// What all inputs hold together.
    pub fn total(&self) -> &Account {
        &self.total
    }

    /// True where an input was damaged or unreadable, or a number is known to be incomplete.
    pub fn is_damaged(&self) -> bool {
        self.damaged
            || self.total.damaged > 0
            || self.total.dropped > 0
            || !self.total.unknown_datatypes.is_empty()
    }

    fn say(&self, severity: &str, text: &str) {
        self.line(&format!("{severity}: {text}"));
    }

    fn line(&self, text: &str) {
        let mut stderr = std::io::stderr().lock();
        let text = if stderr.is_terminal() {
            printable(text, true)
        } else {
            text.to_owned()
        };
        // A closed stderr is no reason to stop.
        let _ = writeln!(stderr, "{}: {text}", self.name);
    }
}

/// `text` with control bytes escaped, so that log text cannot drive a terminal. Newlines stay
/// when `multiline`.
pub fn printable(text: &str, multiline: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && !(multiline && c == '\n') {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Writes to a terminal with control bytes escaped, but for line ends and tabs: rows and lines
/// of a log carry whatever the job printed.
#[derive(Debug)]
pub struct Escaped<W>(pub W);

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for part in bytes.chunk_by(|a, b| is_control(*a) == is_control(*b)) {
            if part.iter().any(|b| is_control(*b)) {
                write!(self.0, "{}", part.escape_ascii())?;
            } else {
                self.0.write_all(part)?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn is_control(b: u8) -> bool {
    b.is_ascii_control() && b != b'\n' && b != b'\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_to_a_terminal_is_escaped() {
        let mut out = Escaped(Vec::new());
        out.write_all("a\x1b[2Jb\r\n█\t".as_bytes()).unwrap();
        assert_eq!(out.0, "a\\x1b[2Jb\\r\n█\t".as_bytes());
    }

    #[test]
    fn escapes_cannot_reach_a_terminal() {
        assert_eq!(printable("a\x1b[31mb\r\n", false), "a\\u{1b}[31mb\\r\\n");
        assert_eq!(printable("a\nb", true), "a\nb");
        assert_eq!(printable("шаг 1", false), "шаг 1");
    }
}
