//! Messages to a person on stderr: the account of all lines, the first damaged places, how calls
//! were placed in steps, and what a log does not show.

pub mod account;
mod input_report;
mod limits;
mod messages;
pub mod methods;
pub mod progress;

pub use crate::error::phrases::{count_phrase, names_phrase, ranges_phrase};
use crate::members::{MergedMembers, jobs};
use crate::output::render::look::{terminal_width, wrap_text};
use crate::report::progress::{ByteProgressBar, Progress as _};
use crate::source::{InputDifferences, InputListing, ending_signal};
use account::Account;
use limits::MAX_LISTED_NAMES;
pub use messages::ReportMessage;
use messages::{AlikeMessages, KeptMessages};
use methods::PlacementMethods;
use rustc_hash::FxHashSet;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, OnceLock, PoisonError};

pub use crate::error::escape::{EscapingWriter, escape_for_terminal};

/// Collects the messages about each input, and prints the account at the end.
#[derive(Debug)]
pub struct Report {
    name: &'static str,
    verbose: bool,
    quiet: bool,
    total: Account,
    inputs: u64,
    /// Inputs that count, where stages read them one after the other.
    counted: FxHashSet<String>,
    damaged: bool,
    /// An input is missing or could not be read.
    unread: bool,
    /// The progress bar on the same terminal.
    bar: ByteProgressBar,
    passed: FirstNames,
    again: FirstNames,
    twice: usize,
    silent: bool,
    /// The kinds of messages about inputs.
    alike: Mutex<AlikeMessages>,
    /// The messages so far, if they are kept.
    kept: Option<Mutex<KeptMessages>>,
    /// How calls were placed in steps.
    methods: PlacementMethods,
    /// The first input that has calls: of logs or tables, and of a recorder.
    sources: [Option<String>; 2],
    /// A log and records of the same calls are not added up.
    are_sources_apart: bool,
    /// The parts of the decision on steps that later lines changed.
    redecided: OnceLock<String>,
}

/// The first of some names, and how many there are.
#[derive(Debug, Default)]
struct FirstNames {
    first: Vec<String>,
    all: usize,
}

impl FirstNames {
    fn of(names: &[String]) -> FirstNames {
        let mut first = FirstNames::default();
        names.iter().for_each(|name| first.push(name.clone()));
        first
    }

    fn push(&mut self, name: String) {
        self.all += 1;
        if self.first.len() < MAX_LISTED_NAMES {
            self.first.push(name);
        }
    }

    /// Returns the names, and how many more there are.
    fn list_names(&self) -> String {
        let names = self.first.join(", ");
        match self.all - self.first.len() {
            0 => names,
            more => format!("{names} and {more} more"),
        }
    }
}

impl Report {
    /// Begins a report of the program `name`.
    pub fn new(name: &'static str, verbose: bool, quiet: bool) -> Report {
        Report {
            name,
            verbose,
            quiet,
            total: Account::default(),
            inputs: 0,
            counted: FxHashSet::default(),
            damaged: false,
            unread: false,
            bar: ByteProgressBar::default(),
            passed: FirstNames::default(),
            again: FirstNames::default(),
            twice: 0,
            silent: false,
            alike: Mutex::default(),
            kept: None,
            methods: PlacementMethods::default(),
            sources: [None, None],
            are_sources_apart: false,
            redecided: OnceLock::new(),
        }
    }

    /// Returns the report without printing: messages are counted all the same.
    pub fn silenced(self) -> Report {
        Report {
            silent: true,
            ..self
        }
    }

    /// Begins a report that prints nothing and keeps its messages, for a stage with a table that
    /// another program shows ([`Report::absorb`]).
    pub fn of_section() -> Report {
        let mut report = Report::new("", false, false).silenced();
        report.keep_messages();
        report.expect_sources_apart();
        report
    }

    /// Keeps all messages from now on, besides printing them.
    pub fn keep_messages(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// Returns the messages kept so far, and those that [`Report::finish`] will add.
    pub fn messages(&self) -> Vec<ReportMessage> {
        let messages = self.with_kept(|kept| {
            for (severity, text) in self.end_messages() {
                kept.push(&ReportMessage {
                    stage: None,
                    severity,
                    text,
                    is_of_filter: false,
                });
            }
            kept.list.clone()
        });
        messages.unwrap_or_default()
    }

    /// Adds the end of the run of `stage`: this report is damaged if that one is, and keeps its messages, for the
    /// page to show. What touches the exit code is printed as well, if it is new.
    pub fn absorb(&mut self, stage: &'static str, ended: &Report) {
        self.damaged |= ended.is_damaged();
        self.unread |= ended.unread;
        let is_printed = |severity| match ended.is_damaged() {
            true => severity != "note",
            false => severity == "error",
        };
        for mut message in ended.messages() {
            message.stage = message.stage.or(Some(stage));
            let is_new = self.with_kept(|kept| kept.push(&message));
            if is_new != Some(false) && is_printed(message.severity) {
                self.print_line(&format!("{}: {}", message.severity, message.text));
            }
        }
    }

    fn with_kept<T>(&self, use_kept: impl FnOnce(&mut KeptMessages) -> T) -> Option<T> {
        let kept = self.kept.as_ref()?.lock();
        Some(use_kept(&mut kept.unwrap_or_else(PoisonError::into_inner)))
    }

    /// Returns the report beside a bar, which makes room for each line.
    pub fn with_bar(self, bar: &ByteProgressBar) -> Report {
        Report {
            bar: bar.clone(),
            ..self
        }
    }

    /// Reports files that were listed and are no inputs.
    pub fn report_listing(&mut self, found: &InputListing) {
        for (name, what) in &found.passed {
            self.report_skipped(name, what);
        }
        for (name, read) in &found.again {
            self.again.push(format!("{name} is {read}"));
        }
        for error in &found.failed {
            self.error(&error.to_string());
        }
    }

    /// Reports inputs that are missing, doubled or not expected.
    pub fn report_differences(&mut self, found: &InputDifferences) {
        for (names, what) in [
            (&found.missing, "expected inputs are missing"),
            (&found.doubled, "inputs are there more than once"),
        ] {
            if !names.is_empty() {
                self.error(&format!("{what}: {}", FirstNames::of(names).list_names()));
            }
        }
        if !found.unexpected.is_empty() {
            let names = FirstNames::of(&found.unexpected).list_names();
            self.note(&format!("inputs that were not expected: {names}"));
        }
    }

    /// Reports a file in a folder that is not a log.
    pub fn report_skipped(&mut self, name: &str, what: &str) {
        self.passed.push(format!("{name} ({what})"));
    }

    /// Returns the inputs that were skipped so far, if any.
    pub fn skipped_inputs(&self) -> Option<String> {
        (self.passed.all > 0).then(|| self.passed.list_names())
    }

    /// Does not count the inputs so far: they only add facts about the calls of later ones.
    pub fn restart_input_count(&mut self) {
        self.sources = [None, None];
    }

    /// Adds the account of several inputs without anything to report ([`Account::is_plain`]).
    pub fn add_plain_inputs(&mut self, inputs: u64, account: &Account) {
        debug_assert!(account.is_plain());
        self.inputs += inputs;
        self.total.add_totals(account);
        self.warn_about_sources("other inputs", account);
    }

    /// Prints that an input is missing or could not be read; the run goes on, and the exit code shows it.
    pub fn error(&mut self, text: &str) {
        self.damaged = true;
        self.unread = true;
        self.print_message("error", text);
    }

    /// Prints an error about an input that could not be read, as [`Report::warn_of_input`] does.
    pub fn error_of_input(&mut self, input: &str, text: &str) {
        self.damaged = true;
        self.unread = true;
        self.print_of_input("error", input, text);
    }

    /// Prints what the errors and warnings of other inputs have in common: the run ends without its last messages.
    pub fn print_counted_messages(&self) {
        let alike = self.alike.lock().unwrap_or_else(PoisonError::into_inner);
        let rest: Vec<_> = alike.describe_rest().collect();
        drop(alike);
        for (severity, text) in rest.into_iter().filter(|_| !self.verbose) {
            self.print_message(severity, &text);
        }
    }

    /// Prints a warning of damage that no account of lines has: the exit code remembers it.
    pub fn warn_damaged(&mut self, text: &str) {
        self.damaged = true;
        self.warn(text);
    }

    /// Prints a warning.
    pub fn warn(&self, text: &str) {
        self.print_message("warning", text);
    }

    /// Prints a note, but not under `--quiet`.
    pub fn note(&self, text: &str) {
        self.print_message("note", text);
    }

    /// Prints what a filter kept: tables of a page show it beside their calls.
    pub fn print_of_filter(&self, severity: &'static str, text: String) {
        self.print_and_keep(&ReportMessage {
            stage: None,
            severity,
            text,
            is_of_filter: true,
        });
    }

    /// Warns about an input. Of inputs with messages that differ in numbers only, the first is named, and the
    /// others are counted at the end; under `-v` all are named.
    pub fn warn_of_input(&self, input: &str, text: &str) {
        self.print_of_input("warning", input, text);
    }

    /// Notes something about an input, as [`Report::warn_of_input`] does, but not under `--quiet`.
    pub fn note_of_input(&self, input: &str, text: &str) {
        self.print_of_input("note", input, text);
    }

    fn print_of_input(&self, severity: &'static str, input: &str, text: &str) {
        let mut alike = self.alike.lock().unwrap_or_else(PoisonError::into_inner);
        if alike.add_message(severity, input, text) || self.verbose {
            drop(alike);
            self.print_message(severity, &format!("{input}: {text}"));
        }
    }

    /// Notes that the inputs are of several jobs, which the program adds up; `at_once` of them are read together.
    pub fn note_separate_jobs(&self, members: &MergedMembers, at_once: usize) {
        if self.silent || at_once == 0 {
            return;
        }
        let found = members.find_separate_jobs();
        if found.len() > 1 {
            self.note(&jobs::describe_added_jobs(&found, self.name, at_once));
        }
    }

    /// Notes `text` under `-v`.
    pub fn explain(&self, text: &str) {
        if self.verbose {
            self.note(text);
        }
    }

    /// Remembers in which parts later lines changed the decision on which steps rest.
    pub fn remember_redecided(&self, parts: &[&'static str]) {
        if !parts.is_empty() {
            // The first input's: a pipe has one.
            let _ = self.redecided.set(parts.join(", "));
        }
    }

    /// Warns that rows were written before the input ended that would now be different.
    pub fn warn_rows_changed(&self) {
        let decided = match self.redecided.get() {
            Some(parts) => format!(" ({parts} turned out to be other than in the first lines)"),
            None => String::new(),
        };
        self.warn(&format!(
            "rows were written before a later line of the log changed their steps{decided}: read the whole \
             log as a file for the final rows"
        ));
    }

    /// Adds counts of placed calls, which are reported at the end.
    pub fn add_placements(&mut self, methods: PlacementMethods) {
        self.methods.add_counts(methods);
    }

    /// Returns the messages at the end of a run: how calls were placed, and what was not read.
    fn end_messages(&self) -> Vec<(&'static str, String)> {
        let mut messages = Vec::new();
        if let Some(text) = self.methods.summary_text() {
            let is_lossy = self.methods.lost_calls() > 0;
            messages.push((if is_lossy { "warning" } else { "note" }, text));
        }
        if let Some(passed) = self.skipped_inputs() {
            let text = format!("files that are not logs were skipped: {passed}");
            messages.push(("note", text));
        }
        if !self.verbose {
            let alike = self.alike.lock().unwrap_or_else(PoisonError::into_inner);
            messages.extend(alike.describe_rest());
        }
        if self.twice > MAX_LISTED_NAMES {
            let more = self.twice - MAX_LISTED_NAMES;
            let text = format!("{more} more inputs have calls that are counted twice");
            messages.push(("warning", text));
        }
        if self.again.all > 0 {
            let again = self.again.list_names();
            let text = format!("files with several names were read once: {again}");
            messages.push(("note", text));
        }
        messages
    }

    /// Reports what was not read, and the account of all lines if any was damaged or under `-v`.
    pub fn finish(&self) {
        for (severity, text) in self.end_messages() {
            self.print_message(severity, &text);
        }
        let t = &self.total;
        if self.verbose || t.damaged > 0 {
            let sound = t.call_lines + t.other + t.truncated + t.foreign;
            debug_assert_eq!(sound + t.repaired + t.damaged, t.lines);
            let truncated = match t.truncated {
                0 => String::new(),
                n => format!(" + {n} truncated by NCCL"),
            };
            let line = format!(
                "{} lines = {} calls + {} other NCCL{truncated} + {} foreign + {} repaired + {} \
                 damaged{}",
                t.lines,
                t.call_lines,
                t.other,
                t.foreign,
                t.repaired,
                t.damaged,
                self.calls_beyond_lines()
            );
            self.print_line(&line);
        }
    }

    /// Returns the number of calls if it differs from that of lines: glued, torn and table lines.
    fn calls_beyond_lines(&self) -> String {
        let t = &self.total;
        if t.calls == t.call_lines {
            String::new()
        } else {
            format!("; {} calls in total", t.calls)
        }
    }

    /// Returns how many inputs were read.
    pub fn count_inputs(&self) -> u64 {
        self.inputs
    }

    /// Returns the account of all inputs.
    pub fn total_account(&self) -> &Account {
        &self.total
    }

    /// Returns true if an input was damaged or unreadable, or a number is known to be incomplete.
    pub fn is_damaged(&self) -> bool {
        self.damaged
            || self.total.damaged > 0
            || self.total.dropped > 0
            || self.total.calls == u64::MAX
            || self.methods.lost_calls() > 0
            || !self.total.unknown_datatypes.is_empty()
    }

    /// Returns true if an input is missing or could not be read.
    pub fn lacks_inputs(&self) -> bool {
        self.unread
    }

    /// Ends the progress bar: everything is read, and output begins.
    pub fn end_progress(&self) {
        self.bar.finish();
    }

    fn print_message(&self, severity: &'static str, text: &str) {
        self.print_and_keep(&ReportMessage {
            stage: None,
            severity,
            text: text.to_owned(),
            is_of_filter: false,
        });
    }

    fn print_and_keep(&self, message: &ReportMessage) {
        let is_new = self.with_kept(|kept| kept.push(message));
        let ReportMessage { severity, text, .. } = message;
        if is_new != Some(false) && !(self.quiet && *severity == "note") {
            self.print_line(&format!("{severity}: {text}"));
        }
    }

    fn print_line(&self, text: &str) {
        if self.silent {
            return;
        }
        self.bar.hide_while(|| {
            let text = if std::io::stderr().is_terminal() {
                escape_for_terminal(text, true)
            } else {
                text.to_owned()
            };
            write_message(format!("{}: {text}", self.name));
        });
    }
}

/// Writes a message to stderr; a terminal gets it broken between words.
pub fn write_message(mut text: String) {
    let mut stderr = std::io::stderr().lock();
    if let Some(width) = terminal_width(&stderr) {
        let lines = text.lines().flat_map(|line| wrap_text(line, width));
        text = Vec::from_iter(lines).join("\n");
        if ending_signal().is_some() {
            // The terminal shows ^C where the cursor was.
            text.insert(0, '\r');
        }
    }
    // A closed stderr is no reason to stop, and must not turn an exit code into a panic.
    let _ = writeln!(stderr, "{text}");
}
