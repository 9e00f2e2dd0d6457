//! Lines without a tail so far: while there are some, a line is not simply what it looks like.

use super::limits::{CALL_END_WAIT_LINES, MESSAGE_END_WAIT_LINES};
use rustc_hash::FxHashSet;

/// The heads that a walk met and that may still get their tails.
///
/// The search for tails must not decide what a line is: the same line may be in a chunk that begins
/// after the heads, or in one that begins before them and knows more. So
/// [`OpenLines::may_end_within`] is true wherever the merge may still have a head (and may be true
/// where it has none); what a walk then leaves to the merge becomes what it is without the search,
/// if no head waits there.
#[derive(Debug, Default)]
pub(super) struct OpenLines {
    lines: u64,
    messages: u64,
    /// Heads may come from before the chunk, or from a process with an uncertain name.
    anyone: bool,
    /// Processes that wrote a head and no line since.
    open: FxHashSet<u32>,
}

impl OpenLines {
    /// Begins a chunk; at a quiet place no line waits.
    pub(super) fn new(quiet: bool) -> OpenLines {
        let lines = if quiet { 0 } else { CALL_END_WAIT_LINES };
        OpenLines {
            lines,
            messages: lines,
            anyone: !quiet,
            ..OpenLines::default()
        }
    }

    /// Returns true if a tail may come within this number of lines.
    #[inline(always)]
    pub(super) fn may_end_within(&self, lines: u64) -> bool {
        self.lines >= lines
    }

    /// Returns true if a line that any writer may have written may be a message's tail.
    pub(super) fn is_message_open(&self) -> bool {
        self.messages > CALL_END_WAIT_LINES - MESSAGE_END_WAIT_LINES
    }

    /// Returns true if the merge may learn the meaning of an address.
    pub(super) fn may_learn(&self) -> bool {
        self.messages > 0
    }

    /// Goes to the next line.
    pub(super) fn pass_line(&mut self) {
        self.messages = self.messages.saturating_sub(1);
        if self.lines > 0 {
            self.lines -= 1;
            if self.lines == 0 {
                self.forget_begun_lines();
            }
        }
    }

    fn forget_begun_lines(&mut self) {
        self.lines = 0;
        self.messages = 0;
        self.anyone = false;
        self.open.clear();
    }

    /// Adds a head of a call or a message; `None` is a process with an uncertain name.
    pub(super) fn begin_line(&mut self, process: Option<u32>, is_call: bool) {
        self.note_possible_head(process);
        self.lines = CALL_END_WAIT_LINES;
        if !is_call {
            self.messages = CALL_END_WAIT_LINES;
        }
    }

    /// Adds what looks like a whole line of a process and may be a head.
    pub(super) fn note_possible_head(&mut self, process: Option<u32>) {
        match process {
            None => self.anyone = true,
            Some(process) => {
                self.open.insert(process);
            }
        }
    }

    /// Notes that a process writes its next line. Returns true if the merge must learn that its
    /// line before has its tail. After the last one, nothing waits any more.
    pub(super) fn end_line_of(&mut self, process: Option<u32>) -> bool {
        let ended = process.is_some_and(|process| self.open.remove(&process));
        if self.anyone || process.is_none() {
            return true;
        }
        if ended && self.open.is_empty() {
            self.forget_begun_lines();
        }
        ended
    }
}
