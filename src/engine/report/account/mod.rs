//! The account of an input: the sum of the classes is the number of lines.

pub mod unrecorded;

pub use super::limits::MAX_DAMAGE_PLACES;
use super::limits::MAX_DAMAGE_TEXT_BYTES;
use crate::grammar::values::Datatype;
use crate::members::duplicate_inputs::EarlierInputs;
use crate::source::{RejoinCounts, UnpackDamage};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use unrecorded::UnrecordedCalls;

/// The class of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LineClass {
    /// It has at least one whole call, and no NCCL text that is cut.
    Call,
    /// NCCL's, whole as far as its text shows, without a call.
    Other,
    /// Not NCCL's: the trainer's prints, blank lines.
    Foreign,
    /// NCCL's, without a call, and cut by NCCL itself at its buffer's end.
    Truncated,
    /// It was cut, and its pieces were certainly joined.
    Repaired,
    /// NCCL's, but cut, glued to another or overwritten: something of it is lost.
    Damaged,
}

/// A damaged place, for a person to look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DamagePlace {
    /// Line, from 1 once it is placed in its input; from 0 in its chunk before.
    pub line: u64,
    /// Column in bytes, from 1.
    pub column: u64,
    /// What was expected or found there.
    pub what: Cow<'static, str>,
    /// The first bytes there.
    pub text: Vec<u8>,
}

/// Declares an account. A counter is declared once: merging adds it up, and keeps the number of its
/// first line where `first` names a field of [`FirstLines`].
macro_rules! account {
    (
        counters { $($(#[$doc:meta])+ $count:ident $(first $first:ident)?,)+ }
        $($others:tt)+
    ) => {
        /// The account of one input, or of a part of it.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Account {
            $($(#[$doc])+ pub $count: u64,)+
            $($others)+
        }

        impl Account {
            fn add_counters(&mut self, next: &Account) {
                $(self.$count = self.$count.saturating_add(next.$count);)+
            }
        }

        /// The numbers of the first lines of each kind, from 0, in the input once merged.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct FirstLines {
            $($(
                #[doc = concat!("The first of [`Account::", stringify!($count), "`].")]
                pub $first: Option<u64>,
            )?)+
            /// The first of [`Account::block_lines`]: not the line's number but a byte of it, in the
            /// joined input.
            pub block: Option<u64>,
        }

        impl FirstLines {
            /// Adds those of the next part, before which there are `lines` lines.
            fn merge(&mut self, next: &FirstLines, lines: u64) {
                $($(self.$first = self.$first.or(next.$first.map(|line| line + lines));)?)+
                self.block = self.block.or(next.block);
            }
        }
    };
}

account! {
    counters {
        /// Lines, counted as `wc -l` does, plus a last one without an end.
        lines,
        /// Lines of [`LineClass::Call`].
        call_lines,
        /// Lines of [`LineClass::Other`].
        other,
        /// Lines of [`LineClass::Foreign`].
        foreign,
        /// Lines of [`LineClass::Truncated`].
        truncated first truncated,
        /// Lines of [`LineClass::Repaired`].
        repaired,
        /// Lines of [`LineClass::Damaged`].
        damaged,
        /// Calls on any line; `u64::MAX` means more than can be counted.
        calls,
        /// Lines that NCCL 2.29 tore at byte 128 and that were joined; the first one's head is kept.
        torn first torn,
        /// Torn lines without their other half that hold nothing that is read: not damaged.
        unread_cuts,
        /// Lines on which another process's text follows a line that was cut anywhere but at NCCL
        /// 2.29's byte 128: the mark of one `NCCL_DEBUG_FILE` written by several processes.
        overwritten first overwritten,
        /// Lines that begin with the rest of a header: another line was written over its first bytes,
        /// or a person left them out.
        headless first headless,
        /// Lines that Ray printed once for several workers.
        ray_lines first ray,
        /// How many lines Ray left out.
        ray_repeats,
        /// Step lines spliced into a NCCL line: standard output was block-buffered.
        spliced first spliced,
        /// Processes with lines that were cut at their buffers' ends and joined.
        block_writers,
        /// Those lines.
        block_lines,
        /// Their heads of lines without a tail in the log.
        block_unended,
        /// Bytes of over-long lines that were dropped.
        dropped,
        /// Calls that its own numbers show to be missing.
        missing,
    }
    /// The first damaged places, in order.
    pub places: Vec<DamagePlace>,
    /// Calls with a datatype code this version does not know, by code.
    pub unknown_datatypes: BTreeMap<u32, u64>,
    /// What its recorder has no record of.
    pub unrecorded: UnrecordedCalls,
    /// The first lines of some of these kinds.
    pub firsts: FirstLines,
    /// Mistakes of the program that wrote it which were made good: which, and how often.
    pub repairs: BTreeMap<Cow<'static, str>, u64>,
    /// Inputs before this one that have calls of it.
    pub again: Option<EarlierInputs>,
    /// Further remarks for the user.
    pub remarks: Vec<String>,
    /// The damage of a packed input.
    pub broken: Option<UnpackDamage>,
    /// The last line has no end.
    pub is_open: bool,
    /// The log had its newest line first; lines are numbered as they were read.
    pub is_turned: bool,
    /// The last line is NCCL's and has neither an end nor all that belongs on it: the log is still
    /// written, or was cut. It is of [`LineClass::Other`].
    pub is_unfinished: bool,
    /// The last damaged line, counted as those of `places` are.
    last_place: Option<u64>,
}

impl Account {
    /// Counts one line.
    pub fn count_line(&mut self, class: LineClass) {
        self.lines += 1;
        *match class {
            LineClass::Call => &mut self.call_lines,
            LineClass::Other => &mut self.other,
            LineClass::Foreign => &mut self.foreign,
            LineClass::Truncated => &mut self.truncated,
            LineClass::Repaired => &mut self.repaired,
            LineClass::Damaged => &mut self.damaged,
        } += 1;
    }

    /// Counts a row of a record, which has `calls` equal calls.
    #[inline]
    pub fn count_row(&mut self, calls: u64, datatype: Option<Datatype>) {
        self.calls = self.calls.saturating_add(calls);
        if let Some(datatype) = datatype.filter(|d| d.size().is_none()) {
            let known = self.unknown_datatypes.entry(datatype.0).or_default();
            *known = known.saturating_add(calls);
        }
    }

    /// Returns the lines with a known class: all of them, once the log is read.
    pub fn count_decided_lines(&self) -> u64 {
        [
            self.call_lines,
            self.other,
            self.foreign,
            self.truncated,
            self.repaired,
            self.damaged,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }

    /// Returns true if only the classes of the lines are worth reporting, and no line is torn.
    pub fn is_plain(&self) -> bool {
        let numbers = Account {
            lines: self.lines,
            call_lines: self.call_lines,
            other: self.other,
            foreign: self.foreign,
            calls: self.calls,
            ..Account::default()
        };
        *self == numbers
    }

    /// Notes that the log had its newest line first.
    pub fn note_turned(&mut self) {
        self.is_turned = true;
        self.remarks.push(
            "its newest line is the first, as the stamps show: it was read from its last line to its first".to_owned(),
        );
    }

    /// Returns the line's number in the file, from 0, by its number as it was read.
    pub fn number_in_file(&self, line: u64) -> u64 {
        match self.is_turned {
            true => self.lines.saturating_sub(line + 1),
            false => line,
        }
    }

    /// Counts the lines that were joined before they were read as repaired. Heads without a tail in the log were read
    /// as its last line, which has no end.
    pub fn add_joined_lines(&mut self, seen: RejoinCounts) {
        self.block_writers += seen.processes;
        self.block_lines += seen.calls + seen.others;
        self.firsts.block = self.firsts.block.or(seen.first);
        for (lines, class) in [
            (seen.calls, &mut self.call_lines),
            (seen.others, &mut self.other),
        ] {
            let moved = lines.min(*class);
            *class -= moved;
            self.repaired += moved;
        }
        self.block_unended += seen.unended;
        // Pieces without another half do not show a shared file here.
        (self.overwritten, self.firsts.overwritten) = (0, None);
    }

    /// Adds names that begin with bytes of another line. With lines that begin with the rest of a
    /// header, they show a shared file too.
    pub fn add_overwritten_names(&mut self, ghosts: u64) {
        if ghosts > 0 && self.overwritten + self.headless > 0 {
            self.overwritten += self.headless + ghosts;
            self.firsts.overwritten = self.firsts.overwritten.or(self.firsts.headless);
        }
    }

    /// Counts a torn line that begins on `line` and was joined.
    pub fn count_torn_line(&mut self, line: u64) {
        self.torn += 1;
        let first = self.firsts.torn.map_or(line, |first| first.min(line));
        self.firsts.torn = Some(first);
    }

    /// Ends the input: a last line that is only unfinished is not damaged.
    pub fn end_input(&mut self) {
        let last = self.lines.checked_sub(1);
        let is_damaged = self.damaged > 0 && last.is_some() && self.last_place == last;
        if self.is_open && is_damaged {
            self.is_unfinished = true;
            self.damaged -= 1;
            self.other += 1;
            self.places.retain(|place| Some(place.line) != last);
        }
    }

    /// Returns the first damaged place but that of an unfinished last line.
    pub fn first_damage(&self) -> Option<&DamagePlace> {
        let is_last = |place: &DamagePlace| self.is_open && place.line + 1 == self.lines;
        self.places.first().filter(|place| !is_last(place))
    }

    /// Counts the next line as damaged, from its beginning on.
    pub fn count_damaged_line(&mut self, what: impl Into<Cow<'static, str>>, text: &[u8]) {
        self.add_damage_place(self.lines, 0, what, text);
        self.count_line(LineClass::Damaged);
    }

    /// Notes a damaged place, if it is among the first.
    pub fn add_damage_place(
        &mut self,
        line: u64,
        column: usize,
        what: impl Into<Cow<'static, str>>,
        text: &[u8],
    ) {
        self.last_place = self.last_place.max(Some(line));
        let place = DamagePlace {
            line,
            column: column as u64 + 1,
            what: what.into(),
            text: text[..text.len().min(MAX_DAMAGE_TEXT_BYTES)].to_vec(),
        };
        let at = self
            .places
            .partition_point(|p| (p.line, p.column) <= (place.line, place.column));
        if at < MAX_DAMAGE_PLACES {
            self.places.insert(at, place);
            self.places.truncate(MAX_DAMAGE_PLACES);
        }
    }

    /// Adds the account of the next part.
    pub fn merge(&mut self, next: &Account) {
        let before = self.lines;
        for place in &next.places {
            self.add_damage_place(
                place.line + before,
                place.column as usize - 1,
                place.what.clone(),
                &place.text,
            );
        }
        self.firsts.merge(&next.firsts, before);
        let last = next.last_place.map(|line| line + before);
        self.last_place = self.last_place.max(last);
        self.is_open = next.is_open;
        self.add_totals(next);
    }

    /// Adds another account's numbers, without places.
    pub fn add_totals(&mut self, next: &Account) {
        self.add_counters(next);
        for (code, calls) in &next.unknown_datatypes {
            let known = self.unknown_datatypes.entry(*code).or_default();
            *known = known.saturating_add(*calls);
        }
        for (what, times) in &next.repairs {
            *self.repairs.entry(what.clone()).or_default() += times;
        }
        self.unrecorded.merge(&next.unrecorded);
    }
}
