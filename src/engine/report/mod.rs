//! Everything a person reads about bad input, on stderr: the account of all lines, the first
//! damaged places, how calls were placed in steps, and what a log does not show.

pub mod account;
pub mod methods;
pub mod progress;

pub use crate::error::phrases::{counted, names, ranges};
use crate::members::twice::Again;
use crate::report::progress::Bar;
use crate::source::{BLOCK, Listing};
use account::Account;
use methods::Methods;
use std::io::{IsTerminal, Write};

pub use crate::error::escape::{Escaped, printable};

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
    bar: Bar,
    passed: Names,
    again: Names,
    twice: usize,
    unfinished: usize,
    silent: bool,
    /// How calls were placed in steps.
    methods: Methods,
    /// The first input that has calls: of logs or tables, and of a recorder.
    sources: [Option<String>; 2],
}

/// The first of some names, and how many there are.
#[derive(Debug, Default)]
struct Names {
    first: Vec<String>,
    all: usize,
}

/// How many names are told.
const NAMES: usize = 5;

impl Names {
    fn push(&mut self, name: String) {
        self.all += 1;
        if self.first.len() < NAMES {
            self.first.push(name);
        }
    }

    /// The names, and how many more there are.
    fn list(&self) -> String {
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
            bar: Bar::default(),
            passed: Names::default(),
            again: Names::default(),
            twice: 0,
            unfinished: 0,
            silent: false,
            methods: Methods::default(),
            sources: [None, None],
        }
    }

    /// The same, printed nowhere: what is to be said is counted all the same.
    pub fn silent(self) -> Report {
        Report {
            silent: true,
            ..self
        }
    }

    /// The same beside a bar, which makes room for each line.
    pub fn beside(self, bar: &Bar) -> Report {
        Report {
            bar: bar.clone(),
            ..self
        }
    }

    /// What was listed and is no input.
    pub fn listed(&mut self, found: &Listing) {
        for (name, what) in &found.passed {
            self.pass(name, what);
        }
        for (name, read) in &found.again {
            self.again.push(format!("{name} is {read}"));
        }
        for error in &found.failed {
            self.error(&error.to_string());
        }
    }

    /// An input whose calls are in others too.
    pub fn again(&mut self, input: &str, again: &Again) {
        self.twice += 1;
        if self.twice <= NAMES {
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
    pub fn pass(&mut self, name: &str, what: &str) {
        self.passed.push(format!("{name} ({what})"));
    }

    /// The inputs that were skipped so far, if any.
    pub fn passed(&self) -> Option<String> {
        (self.passed.all > 0).then(|| self.passed.list())
    }

    /// Takes in one input's account and reports what was found in it.
    pub fn input(&mut self, input: &str, account: &Account) {
        self.inputs += 1;
        self.total.add(account);
        self.damage(input, account);
        self.end(input, account);
        if account.overwritten >= 2 {
            self.warn(&format!(
                "{input}: several processes overwrote each other's bytes on {}: they shared one \
                 NCCL_DEBUG_FILE. A missing line is therefore not a missing call; rerun with \
                 NCCL_DEBUG_FILE=nccl.%h.%p.log",
                counted(account.overwritten, "line")
            ));
        }
        if let Some(again) = &account.again {
            self.again(input, again);
        }
        self.recorder(input, account);
        self.deduplication(input, account);
        self.buffering(input, account);
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
        self.sums(input, account);
        self.unrecorded(input, account);
        self.source(input, account);
    }

    /// Its damaged lines: the first ones with their places.
    fn damage(&self, input: &str, account: &Account) {
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
            self.warn(&format!("{input}: {}", counted(more, "more damaged line")));
        }
    }

    /// How it ends: in the middle of a line, or where it could not be read on.
    fn end(&mut self, input: &str, account: &Account) {
        if let Some(broken) = &account.broken {
            self.damaged |= broken.is_lost;
            self.warn(&format!("{input}: {}", broken.what));
        } else if account.is_unfinished {
            self.unfinished += 1;
            if self.unfinished <= NAMES {
                self.note(&format!(
                    "{input}: the last line has no end, as in a log that is still being written or \
                     of a job that was killed: it is not counted"
                ));
            }
        }
    }

    /// What the program that wrote it got wrong, and what it left out.
    fn recorder(&self, input: &str, account: &Account) {
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
                counted(account.missing, "call")
            ));
        }
    }

    /// Lines that were left out before the log was written.
    fn deduplication(&self, input: &str, account: &Account) {
        if account.ray_lines > 0 {
            self.warn(&format!(
                "{input}: Ray omitted {} ([repeated Nx across cluster] on {}): counts are too low; \
                 rerun with RAY_DEDUP_LOGS=0",
                counted(account.ray_repeats, "line"),
                counted(account.ray_lines, "line")
            ));
        }
    }

    /// Standard output came in blocks, so lines are cut at their ends.
    fn buffering(&self, input: &str, account: &Account) {
        if account.block_writers > 0 {
            let unended = match account.block_unended {
                0 => String::new(),
                n => format!(" (the ends of {n} more are not in the log)"),
            };
            self.note(&format!(
                "{input}: standard output was block-buffered: {} process{} wrote in blocks of \
                 {BLOCK} bytes; {} lines cut at block ends were rejoined{unended}. Calls may be \
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
    fn sums(&self, input: &str, account: &Account) {
        if account.calls == u64::MAX {
            self.warn(&format!(
                "{input}: the column calls adds up to more than 2^64 - 1: the numbers of calls are \
                 too low"
            ));
        }
        for (code, calls) in &account.unknown_datatypes {
            self.warn(&format!(
                "{input}: datatype {code} is unknown: the sums of bytes omit {}",
                counted(*calls, "call")
            ));
        }
    }

    /// The inputs so far are not counted: they only tell more of the calls of those to come.
    pub fn told_beside(&mut self) {
        self.sources = [None, None];
    }

    /// Warns where a log and records may be of the same calls.
    fn source(&mut self, input: &str, account: &Account) {
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
    fn unrecorded(&self, input: &str, account: &Account) {
        let kinds = [
            "collective",
            "Send or Recv",
            "proxy step",
            "proxy operation",
        ];
        let dropped = account.unrecorded.dropped();
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
        let missing = account.unrecorded.missing();
        if missing > 0 {
            self.warn(&format!(
                "{input}: {} up to the last recorded ones have no record, as their numbers (coll_sn) \
                 show: between two dumps NCCL 2.28 keeps the last collective of a communicator, later \
                 ones leave out what is small (NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES) or timed by the CPU",
                counted(missing, "collective")
            ));
        }
    }

    /// Takes in the account of several inputs, of which nothing is to be said
    /// ([`Account::is_plain`]).
    pub fn plain(&mut self, inputs: u64, account: &Account) {
        debug_assert!(account.is_plain());
        self.inputs += inputs;
        self.total.add(account);
        self.source("other inputs", account);
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

    /// Rows were written before the input ended that would not be written so now.
    pub fn early(&self) {
        self.warn(
            "rows were written before a later line of the log changed their steps: read the whole log \
             as a file for the final rows",
        );
    }

    /// Calls were placed in steps: how is reported at the end.
    pub fn placed(&mut self, methods: Methods) {
        self.methods.add(methods);
    }

    /// Says what was not read, and the account of all lines, if asked for or if anything was
    /// damaged.
    pub fn finish(&self) {
        if let Some(words) = self.methods.said() {
            self.note(&words);
        }
        if let Some(passed) = self.passed() {
            self.note(&format!("files that are not logs were skipped: {passed}"));
        }
        if self.unfinished > NAMES {
            let more = self.unfinished - NAMES;
            self.note(&format!(
                "{more} more inputs have a last line without an end"
            ));
        }
        if self.twice > NAMES {
            let more = self.twice - NAMES;
            self.warn(&format!(
                "{more} more inputs have calls that are counted twice"
            ));
        }
        if self.again.all > 0 {
            let again = self.again.list();
            self.note(&format!("files with several names were read once: {again}"));
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
            format!("; {} calls in total", t.calls)
        }
    }

    /// How many inputs were read.
    pub fn inputs(&self) -> u64 {
        self.inputs
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
            || self.total.calls == u64::MAX
            || !self.total.unknown_datatypes.is_empty()
    }

    fn say(&self, severity: &str, text: &str) {
        self.line(&format!("{severity}: {text}"));
    }

    fn line(&self, text: &str) {
        if self.silent {
            return;
        }
        self.bar.aside(|| {
            let mut stderr = std::io::stderr().lock();
            let text = if stderr.is_terminal() {
                printable(text, true)
            } else {
                text.to_owned()
            };
            // A closed stderr is no reason to stop.
            let _ = writeln!(stderr, "{}: {text}", self.name);
        });
    }
}
