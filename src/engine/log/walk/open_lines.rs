//! Lines that were begun and whose ends may still come: while there are some, a line is not
//! simply what it looks like.

/// For how many lines after a beginning its end is looked for: the end may follow another line's
/// first 128 bytes, and that looks like a whole line.
pub(crate) const CALL_END_WAIT_LINES: u64 = 128;

/// The same for an end that looks like anybody's line.
pub(crate) const MESSAGE_END_WAIT_LINES: u64 = 16;

/// The lines that a walk saw begin.
///
/// What is looked for while they wait must not decide what a line is: the same line may be in a
/// chunk that begins after them, or in one that begins in front of them and knows more. So
/// [`Waiting::is_on`] is true wherever the merge may still have a line that was begun (and it may
/// be true where it has none), and all that a walk then leaves to the merge is what it would have
/// been without, if nothing waits there.
#[derive(Debug, Default)]
pub(super) struct OpenLines {
    lines: u64,
    messages: u64,
    /// Lines may have begun before the chunk, or by a process whose name is not sure.
    anyone: bool,
    /// Processes that began a line and were not heard since.
    open: Vec<u32>,
}

impl OpenLines {
    /// At a chunk's start; at a quiet place no line waits.
    pub(super) fn new(quiet: bool) -> OpenLines {
        let lines = if quiet { 0 } else { CALL_END_WAIT_LINES };
        OpenLines {
            lines,
            messages: lines,
            anyone: !quiet,
            ..OpenLines::default()
        }
    }

    /// True where an end may come in the next so many lines.
    #[inline(always)]
    pub(super) fn may_end_within(&self, lines: u64) -> bool {
        self.lines >= lines
    }

    /// True where a line that looks like anybody's may be a message's end.
    pub(super) fn is_message_open(&self) -> bool {
        self.messages > CALL_END_WAIT_LINES - MESSAGE_END_WAIT_LINES
    }

    /// True where the merge may learn what an address means.
    pub(super) fn may_learn(&self) -> bool {
        self.messages > 0
    }

    /// The next line comes.
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

    /// A process began a line, a call's or a message's, and its end is still to come. `None` is
    /// one whose name is not sure.
    pub(super) fn begin_line(&mut self, process: Option<u32>, is_call: bool) {
        self.note_possible_head(process);
        self.lines = CALL_END_WAIT_LINES;
        if !is_call {
            self.messages = CALL_END_WAIT_LINES;
        }
    }

    /// A process wrote a whole line by its looks: it may have begun one.
    pub(super) fn note_possible_head(&mut self, process: Option<u32>) {
        match process {
            None => self.anyone = true,
            Some(process) if !self.open.contains(&process) => self.open.push(process),
            Some(_) => {}
        }
    }

    /// A process writes its next line: true where the merge must know that its line before has
    /// its end. With the last of them nothing waits any more.
    pub(super) fn end_line_of(&mut self, process: Option<u32>) -> bool {
        let before = self.open.len();
        self.open.retain(|&open| Some(open) != process);
        let told = self.open.len() < before;
        if self.anyone || process.is_none() {
            return true;
        }
        if told && self.open.is_empty() {
            self.forget_begun_lines();
        }
        told
    }
}
