//! Everything a person reads about bad input, on stderr: the account of all lines, the first
//! damaged places, how calls were placed in steps, and what a log does not show.

pub mod account;
pub mod methods;
pub mod progress;

pub use crate::error::phrases::{count_phrase, names_phrase, ranges_phrase};
use crate::members::duplicate_inputs::EarlierInputs;
use crate::report::progress::ByteProgressBar;
use crate::source::{InputListing, STDIO_BUFFER_BYTES};
use account::Account;
use methods::PlacementMethods;
use rustc_hash::FxHashSet;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

pub use crate::error::escape::{EscapingWriter, escape_for_terminal};

/// A message as it was reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportMessage {
    /// The stage that reported it, for messages of [`Report::absorb`].
    pub stage: Option<&'static str>,
    /// `error`, `warning` or `note`.
    pub severity: &'static str,
    /// The message without the program's name.
    pub text: String,
}

/// Messages without repeats, in their order.
#[derive(Debug, Default)]
struct KeptMessages {
    list: Vec<ReportMessage>,
    known: FxHashSet<(&'static str, String)>,
}

impl KeptMessages {
    /// Adds a message; `false` if it is known.
    fn push(&mut self, message: &ReportMessage) -> bool {
        let is_new = self.known.insert((message.severity, message.text.clone()));
        if is_new {
            self.list.push(message.clone());
        }
        is_new
    }
}

/// Collects what is to be reported about each input, and reports it at the end.
#[derive(Debug)]
pub struct Report {
    name: &'static str,
    verbose: bool,
    quiet: bool,
    total: Account,
    inputs: u64,
    damaged: bool,
    /// What is shown where these lines go.
    bar: ByteProgressBar,
    passed: FirstNames,
    again: FirstNames,
    twice: usize,
    unfinished: usize,
    silent: bool,
    /// The messages so far, if they are kept.
    kept: Option<Mutex<KeptMessages>>,
    /// How calls were placed in steps.
    methods: PlacementMethods,
    /// The first input that has calls: of logs or tables, and of a recorder.
    sources: [Option<String>; 2],
}

/// The first of some names, and how many there are.
#[derive(Debug, Default)]
struct FirstNames {
    first: Vec<String>,
    all: usize,
}

/// How many names are told.
const MAX_LISTED_NAMES: usize = 5;

impl FirstNames {
    fn push(&mut self, name: String) {
        self.all += 1;
        if self.first.len() < MAX_LISTED_NAMES {
            self.first.push(name);
        }
    }

    /// The names, and how many more there are.
    fn list_names(&self) -> String {
        let names = self.first.join(", ");
        match self.all - self.first.len() {
            0 => names,
            more => format!("{names} and {more} more"),
        }
    }
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
            bar: ByteProgressBar::default(),
            passed: FirstNames::default(),
            again: FirstNames::default(),
            twice: 0,
            unfinished: 0,
            silent: false,
            kept: None,
            methods: PlacementMethods::default(),
            sources: [None, None],
        }
    }

    /// The same, printed nowhere: what is to be said is counted all the same.
    pub fn silenced(self) -> Report {
        Report {
            silent: true,
            ..self
        }
    }

    /// A report that prints nothing and keeps its messages: that of a stage whose table another program
    /// shows ([`Report::absorb`]).
    pub fn of_section() -> Report {
        let mut report = Report::new("", false, false).silenced();
        report.keep_messages();
        report
    }

    /// Keeps all messages from now on, besides printing them.
    pub fn keep_messages(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// The messages kept so far, and those that [`Report::finish`] will add.
    pub fn messages(&self) -> Vec<ReportMessage> {
        let messages = self.with_kept(|kept| {
            for (severity, text) in self.end_messages() {
                kept.push(&ReportMessage {
                    stage: None,
                    severity,
                    text,
                });
            }
            kept.list.clone()
        });
        messages.unwrap_or_default()
    }

    /// Takes over how the run of `stage` ended: this report is damaged if that one is, keeps its messages,
    /// and prints its warnings and errors if they are new.
    pub fn absorb(&mut self, stage: &'static str, ended: &Report) {
        self.damaged |= ended.is_damaged();
        for mut message in ended.messages() {
            message.stage = message.stage.or(Some(stage));
            let is_new = self.with_kept(|kept| kept.push(&message));
            if is_new != Some(false) && message.severity != "note" {
                self.print_line(&format!("{}: {}", message.severity, message.text));
            }
        }
    }

    fn with_kept<T>(&self, use_kept: impl FnOnce(&mut KeptMessages) -> T) -> Option<T> {
        let kept = self.kept.as_ref()?.lock();
        Some(use_kept(&mut kept.unwrap_or_else(PoisonError::into_inner)))
    }

    /// The same beside a bar, which makes room for each line.
    pub fn with_bar(self, bar: &ByteProgressBar) -> Report {
        Report {
            bar: bar.clone(),
            ..self
        }
    }

    /// What was listed and is no input.
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

    /// An input whose calls are in others too.
    pub fn report_duplicate(&mut self, input: &str, again: &EarlierInputs) {
        self.twice += 1;
        if self.twice <= MAX_LISTED_NAMES {
            let more = match again.more {
                0 => String::new(),
                1 => " and in 1 more input".to_owned(),
                n => format!(" and in {n} more inputs"),
            };
            self.warn(&format!(
                "{input}: its calls are also in {}{more} and are counted twice: omit one of the \
                 inputs",
                again.of
            ));
        }
    }

    /// Something in a folder that is no log.
    pub fn report_skipped(&mut self, name: &str, what: &str) {
        self.passed.push(format!("{name} ({what})"));
    }

    /// The inputs that were skipped so far, if any.
    pub fn skipped_inputs(&self) -> Option<String> {
        (self.passed.all > 0).then(|| self.passed.list_names())
    }

    /// Takes in one input's account and reports what was found in it.
    pub fn report_input(&mut self, input: &str, account: &Account) {
        self.inputs += 1;
        self.total.add_totals(account);
        self.report_damage(input, account);
        self.report_input_end(input, account);
        if account.overwritten >= 2 {
            self.warn(&format!(
                "{input}: several processes overwrote each other's bytes on {}: they shared one \
                 NCCL_DEBUG_FILE. A missing line is therefore not a missing call; rerun with \
                 NCCL_DEBUG_FILE=nccl.%h.%p.log",
                count_phrase(account.overwritten, "line")
            ));
        }
        if let Some(again) = &account.again {
            self.report_duplicate(input, again);
        }
        self.report_recorder(input, account);
        self.report_deduplication(input, account);
        self.report_buffering(input, account);
        if account.truncated > 0 {
            self.note(&format!(
                "{input}: NCCL itself truncated {} line{}: it prints at most 1,023 bytes of a line \
                 before 2.29.2, RCCL about 2,100; no call is affected",
                account.truncated,
                if account.truncated == 1 { "" } else { "s" }
            ));
        }
        if account.dropped > 0 {
            self.warn(&format!(
                "{input}: {} bytes of lines over 16 MiB were not read",
                account.dropped
            ));
        }
        self.report_missing_sums(input, account);
        self.report_unrecorded(input, account);
        self.warn_about_sources(input, account);
    }

    /// Its damaged lines: the first ones with their places.
    fn report_damage(&self, input: &str, account: &Account) {
        for place in &account.places {
            let text = escape_for_terminal(&String::from_utf8_lossy(&place.text), false);
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
            self.warn(&format!(
                "{input}: {}",
                count_phrase(more, "more damaged line")
            ));
        }
    }

    /// How it ends: in the middle of a line, or where it could not be read on.
    fn report_input_end(&mut self, input: &str, account: &Account) {
        if let Some(broken) = &account.broken {
            self.damaged |= broken.is_lost;
            self.warn(&format!("{input}: {}", broken.what));
        } else if account.is_unfinished {
            self.unfinished += 1;
            if self.unfinished <= MAX_LISTED_NAMES {
                self.note(&format!(
                    "{input}: the last line has no end, as in a log that is still being written or \
                     of a job that was killed: it is not counted"
                ));
            }
        }
    }

    /// What the program that wrote it got wrong, and what it left out.
    fn report_recorder(&self, input: &str, account: &Account) {
        for remark in &account.remarks {
            self.note(&format!("{input}: {remark}"));
        }
        if !account.repairs.is_empty() {
            let all = account
                .repairs
                .iter()
                .map(|(what, n)| format!("{n} {what}"));
            let all: Vec<String> = all.collect();
            self.note(&format!(
                "{input}: mistakes of the recorder were repaired: {}",
                all.join(", ")
            ));
        }
        if account.missing > 0 {
            self.note(&format!(
                "{input}: the recorder dropped {} (gaps in their numbers): its pools hold only a few",
                count_phrase(account.missing, "call")
            ));
        }
    }

    /// Lines that were left out before the log was written.
    fn report_deduplication(&self, input: &str, account: &Account) {
        if account.ray_lines > 0 {
            self.warn(&format!(
                "{input}: Ray omitted {} ([repeated Nx across cluster] on {}): counts are too low; \
                 rerun with RAY_DEDUP_LOGS=0",
                count_phrase(account.ray_repeats, "line"),
                count_phrase(account.ray_lines, "line")
            ));
        }
    }

    /// Standard output came in blocks, so lines are cut at their ends.
    fn report_buffering(&self, input: &str, account: &Account) {
        if account.block_writers > 0 {
            let unended = match account.block_unended {
                0 => String::new(),
                n => format!(" (the ends of {n} more are not in the log)"),
            };
            self.note(&format!(
                "{input}: standard output was block-buffered: {} process{} wrote in blocks of \
                 {STDIO_BUFFER_BYTES} bytes; {} lines cut at block ends were rejoined{unended}. Calls may be \
                 counted in a later step, since step lines overtook them: rerun with \
                 PYTHONUNBUFFERED=1",
                account.block_writers,
                if account.block_writers == 1 { "" } else { "es" },
                account.block_lines
            ));
        } else if account.spliced > 0 {
            self.warn(&format!(
                "{input}: step lines appear inside NCCL lines ({} of them): standard output was \
                 block-buffered, so up to 4 KiB of calls may be counted in the step after theirs; \
                 rerun with PYTHONUNBUFFERED=1",
                account.spliced
            ));
        }
    }

    /// What its sums lack.
    fn report_missing_sums(&self, input: &str, account: &Account) {
        if account.calls == u64::MAX {
            self.warn(&format!(
                "{input}: the column calls adds up to more than 2^64 - 1: the numbers of calls are \
                 too low"
            ));
        }
        for (code, calls) in &account.unknown_datatypes {
            self.warn(&format!(
                "{input}: datatype {code} is unknown: the sums of bytes omit {}",
                count_phrase(*calls, "call")
            ));
        }
    }

    /// The inputs so far are not counted: they only tell more of the calls of those to come.
    pub fn restart_input_count(&mut self) {
        self.sources = [None, None];
    }

    /// Warns where a log and records may be of the same calls.
    fn warn_about_sources(&mut self, input: &str, account: &Account) {
        let [logged, recorded] = &mut self.sources;
        let (own, other) = match account.unrecorded.is_recorded {
            true => (recorded, logged),
            false => (logged, recorded),
        };
        if account.calls == 0 || own.is_some() {
            return;
        }
        *own = Some(input.to_owned());
        if let Some(other) = other {
            let text = format!(
                "{other} and {input}: one has a log's calls, one what a recorder saw of calls: what is \
                 in both is counted twice; read one kind at a time (--glob)"
            );
            self.warn(&text);
        }
    }

    /// What its recorder has no record of.
    fn report_unrecorded(&self, input: &str, account: &Account) {
        let kinds = [
            "collective",
            "Send or Recv",
            "proxy step",
            "proxy operation",
        ];
        let dropped = account.unrecorded.sum_drops();
        let dropped = dropped.into_iter().zip(kinds).filter(|(n, _)| *n > 0);
        let dropped = dropped.map(|(n, kind)| format!("{n} x {kind}"));
        let dropped: Vec<String> = dropped.collect();
        if !dropped.is_empty() {
            self.warn(&format!(
                "{input}: NCCL Inspector counted what it dropped ({}): the numbers of calls are too \
                 low",
                dropped.join(", ")
            ));
        }
        let missing = account.unrecorded.count_missing_calls();
        if missing > 0 {
            self.warn(&format!(
                "{input}: {} up to the last recorded ones have no record, as their numbers (coll_sn) \
                 show: between two dumps NCCL 2.28 keeps the last collective of a communicator, later \
                 ones leave out what is small (NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES) or timed by the CPU",
                count_phrase(missing, "collective")
            ));
        }
    }

    /// Takes in the account of several inputs, of which nothing is to be said
    /// ([`Account::is_plain`]).
    pub fn add_plain_inputs(&mut self, inputs: u64, account: &Account) {
        debug_assert!(account.is_plain());
        self.inputs += inputs;
        self.total.add_totals(account);
        self.warn_about_sources("other inputs", account);
    }

    /// A soft error: the run goes on, the exit code remembers.
    pub fn error(&mut self, text: &str) {
        self.damaged = true;
        self.print_message("error", text);
    }

    /// A warning.
    pub fn warn(&self, text: &str) {
        self.print_message("warning", text);
    }

    /// A note; not printed under `--quiet`.
    pub fn note(&self, text: &str) {
        self.print_message("note", text);
    }

    /// Rows were written before the input ended that would not be written so now.
    pub fn warn_rows_changed(&self) {
        self.warn(
            "rows were written before a later line of the log changed their steps: read the whole log \
             as a file for the final rows",
        );
    }

    /// Calls were placed in steps: how is reported at the end.
    pub fn add_placements(&mut self, methods: PlacementMethods) {
        self.methods.add_counts(methods);
    }

    /// What is reported at the end of a run: how calls were placed, and what was not read.
    fn end_messages(&self) -> Vec<(&'static str, String)> {
        let mut messages = Vec::new();
        if let Some(text) = self.methods.summary_text() {
            messages.push(("note", text));
        }
        if let Some(passed) = self.skipped_inputs() {
            let text = format!("files that are not logs were skipped: {passed}");
            messages.push(("note", text));
        }
        if self.unfinished > MAX_LISTED_NAMES {
            let more = self.unfinished - MAX_LISTED_NAMES;
            let text = format!("{more} more inputs have a last line without an end");
            messages.push(("note", text));
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

    /// Lines and calls are the same number but for glued, torn and table lines.
    fn calls_beyond_lines(&self) -> String {
        let t = &self.total;
        if t.calls == t.call_lines {
            String::new()
        } else {
            format!("; {} calls in total", t.calls)
        }
    }

    /// How many inputs were read.
    pub fn count_inputs(&self) -> u64 {
        self.inputs
    }

    /// What all inputs hold together.
    pub fn total_account(&self) -> &Account {
        &self.total
    }

    /// True where an input was damaged or unreadable, or a number is known to be incomplete.
    pub fn is_damaged(&self) -> bool {
        self.damaged
            || self.total.damaged > 0
            || self.total.dropped > 0
            || self.total.calls == u64::MAX
            || !self.total.unknown_datatypes.is_empty()
    }

    fn print_message(&self, severity: &'static str, text: &str) {
        self.with_kept(|kept| {
            let (stage, text) = (None, text.to_owned());
            kept.push(&ReportMessage {
                stage,
                severity,
                text,
            })
        });
        if !(self.quiet && severity == "note") {
            self.print_line(&format!("{severity}: {text}"));
        }
    }

    fn print_line(&self, text: &str) {
        if self.silent {
            return;
        }
        self.bar.hide_while(|| {
            let mut stderr = std::io::stderr().lock();
            let text = if stderr.is_terminal() {
                escape_for_terminal(text, true)
            } else {
                text.to_owned()
            };
            // A closed stderr is no reason to stop.
            let _ = writeln!(stderr, "{}: {text}", self.name);
        });
    }
}
