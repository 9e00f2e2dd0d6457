//! The messages about one input.

use super::Report;
use super::account::Account;
use super::limits::MAX_LISTED_NAMES;
use crate::error::escape::escape_for_terminal;
use crate::error::phrases::count_phrase;
use crate::members::duplicate_inputs::EarlierInputs;
use crate::source::STDIO_BUFFER_BYTES;

impl Report {
    /// Adds one input's account and prints the messages about it. Where messages are kept, several stages may read an
    /// input: it counts once.
    pub fn report_input(&mut self, input: &str, account: &Account) {
        match self.kept.is_none() || self.counted.insert(input.to_owned()) {
            true => {
                self.inputs += 1;
                self.total.add_totals(account);
            }
            false => self.damaged |= account.damaged > 0 || account.dropped > 0,
        }
        self.report_damage(input, account);
        self.report_input_end(input, account);
        if account.overwritten >= 2 {
            self.warn_of_input(
                input,
                &format!(
                    "several processes overwrote each other's bytes on {}: they shared one \
                 NCCL_DEBUG_FILE. A missing line is therefore not a missing call; rerun with \
                 NCCL_DEBUG_FILE=nccl.%h.%p.log",
                    count_phrase(account.overwritten, "line")
                ),
            );
        }
        if let Some(again) = &account.again {
            self.report_duplicate(input, again);
        }
        self.report_recorder(input, account);
        self.report_deduplication(input, account);
        self.report_buffering(input, account);
        if account.truncated > 0 {
            self.note_of_input(
                input,
                &format!(
                    "NCCL itself truncated {} line{}: it prints at most 1,023 bytes of a line \
                 before 2.29.2, RCCL about 2,100; no call is affected",
                    account.truncated,
                    if account.truncated == 1 { "" } else { "s" }
                ),
            );
        }
        if account.unread_cuts > 0 {
            self.note_of_input(input, &format!("{} without the other half: they are about memory, proxies, the machine's layout \
                 or libraries that were not found, of which no program reads anything; no call, WARN or \
                 fact is affected",
                count_phrase(account.unread_cuts, "torn line")
            ));
        }
        if account.dropped > 0 {
            self.warn_of_input(
                input,
                &format!(
                    "{} bytes of lines over 16 MiB were not read",
                    account.dropped
                ),
            );
        }
        self.report_missing_sums(input, account);
        self.report_unrecorded(input, account);
        self.warn_about_sources(input, account);
    }

    /// Warns about damaged lines: the first ones with their places.
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
            self.warn_of_input(input, &count_phrase(more, "more damaged line"));
        }
    }

    /// Reports an end in the middle of a line, or where the input became unreadable.
    fn report_input_end(&mut self, input: &str, account: &Account) {
        if let Some(broken) = &account.broken {
            self.damaged |= broken.is_lost;
            self.warn_of_input(input, &broken.what);
        } else if account.is_unfinished {
            self.note_of_input(
                input,
                "the last line has no end, as in a log that is still being written or \
                 of a job that was killed: it is not counted",
            );
        }
    }

    /// Reports mistakes and gaps of the program that wrote it.
    fn report_recorder(&self, input: &str, account: &Account) {
        for remark in &account.remarks {
            self.note_of_input(input, remark);
        }
        if !account.repairs.is_empty() {
            let all = account
                .repairs
                .iter()
                .map(|(what, n)| format!("{n} {what}"));
            let all: Vec<String> = all.collect();
            self.note_of_input(
                input,
                &format!("mistakes of the recorder were repaired: {}", all.join(", ")),
            );
        }
        if account.missing > 0 {
            self.note_of_input(
                input,
                &format!(
                    "the recorder dropped {} (gaps in their numbers): its pools hold only a few",
                    count_phrase(account.missing, "call")
                ),
            );
        }
    }

    /// Warns about lines that were left out before the log was written.
    fn report_deduplication(&self, input: &str, account: &Account) {
        if account.ray_lines > 0 {
            self.warn_of_input(
                input,
                &format!(
                    "Ray omitted {} ([repeated Nx across cluster] on {}): counts are too low; \
                 rerun with RAY_DEDUP_LOGS=0",
                    count_phrase(account.ray_repeats, "line"),
                    count_phrase(account.ray_lines, "line")
                ),
            );
        }
    }

    /// Reports lines that were cut since standard output came in blocks.
    fn report_buffering(&self, input: &str, account: &Account) {
        if account.block_writers > 0 {
            let unended = match account.block_unended {
                0 => String::new(),
                n => format!(" (the ends of {n} more are not in the log)"),
            };
            self.note_of_input(input, &format!("standard output was block-buffered: {} process{} wrote in blocks of \
                 {STDIO_BUFFER_BYTES} bytes; {} lines cut at block ends were rejoined{unended}. Calls may be \
                 counted in a later step, since step lines overtook them: rerun with \
                 PYTHONUNBUFFERED=1",
                account.block_writers,
                if account.block_writers == 1 { "" } else { "es" },
                account.block_lines
            ));
        } else if account.spliced > 0 {
            self.warn_of_input(
                input,
                &format!(
                    "step lines appear inside NCCL lines ({} of them): standard output was \
                 block-buffered, so up to 4 KiB of calls may be counted in the step after theirs; \
                 rerun with PYTHONUNBUFFERED=1",
                    account.spliced
                ),
            );
        }
    }

    /// Warns about incomplete sums.
    fn report_missing_sums(&self, input: &str, account: &Account) {
        if account.calls == u64::MAX {
            self.warn_of_input(
                input,
                "the column calls adds up to more than 2^64 - 1: the numbers of calls are \
                 too low",
            );
        }
        for (code, calls) in &account.unknown_datatypes {
            self.warn_of_input(
                input,
                &format!(
                    "datatype {code} is unknown: the sums of bytes omit {}",
                    count_phrase(*calls, "call")
                ),
            );
        }
    }

    /// Reports an input with calls that other inputs have too.
    pub fn report_duplicate(&mut self, input: &str, again: &EarlierInputs) {
        self.twice += 1;
        if self.twice <= MAX_LISTED_NAMES {
            let more = match again.more {
                0 => String::new(),
                n => format!(" and in {}", count_phrase(n as u64, "more input")),
            };
            let (calls, advice) = if again.is_overlap {
                (
                    "some of its calls",
                    "cut the lines that both have from one of the inputs",
                )
            } else {
                ("its calls", "omit one of the inputs")
            };
            self.warn(&format!(
                "{input}: {calls} are also in {}{more}, counted twice where both are read: {advice}",
                again.of
            ));
        }
    }

    /// Expects a log and records of the same calls: they are not added up.
    pub fn expect_sources_apart(&mut self) {
        self.are_sources_apart = true;
    }

    /// Warns if a log and records may have the same calls.
    pub(super) fn warn_about_sources(&mut self, input: &str, account: &Account) {
        let [logged, recorded] = &mut self.sources;
        let (own, other) = match account.unrecorded.is_recorded {
            true => (recorded, logged),
            false => (logged, recorded),
        };
        if account.calls == 0 || own.is_some() || self.are_sources_apart {
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

    /// Warns about calls that its recorder has no record of.
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
            self.warn_of_input(
                input,
                &format!(
                    "NCCL Inspector counted what it dropped ({}): the numbers of calls are too \
                 low",
                    dropped.join(", ")
                ),
            );
        }
        let missing = account.unrecorded.count_missing_calls();
        if missing > 0 {
            self.warn_of_input(input, &format!("{} up to the last recorded ones have no record, as their numbers (coll_sn) \
                 show: between two dumps NCCL 2.28 keeps the last collective of a communicator, later \
                 ones leave out what is small (NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES) or timed by the CPU",
                count_phrase(missing, "collective")
            ));
        }
    }
}
