//! Lines that were begun and whose ends may still come: while there are some, a line is not
//! simply what it looks like.

/// For how many lines behind a beginning its end is looked for: the end may follow another line's
/// first 128 bytes, and that looks like a whole line.
pub(crate) const WAIT: u32 = 256;

/// The same for a line that is no call's: its end looks like anybody's line.
const WAIT_FOR_MESSAGE: u32 = 16;

/// The lines that a walk saw begin.
///
/// Each end ends one line, so counting tells when all have ended. What counting may get wrong,
/// where the log has damage of other kinds too, shows when a process that began a line makes its
/// next call: up to then a call is believed only of a process that is known to use its
/// communicator.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    lines: u32,
    messages: u32,
    /// Ends of calls' lines that have not come.
    ends: u32,
    /// Lines may have begun before the chunk.
    anyone: bool,
    /// Processes that began a call's line and made no call since.
    open: Vec<u32>,
}

impl Waiting {
    /// At a chunk's start; at a quiet place no line waits.
    pub(super) fn new(quiet: bool) -> Waiting {
        Waiting {
            lines: if quiet { 0 } else { WAIT },
            messages: if quiet { 0 } else { WAIT_FOR_MESSAGE },
            anyone: !quiet,
            ..Waiting::default()
        }
    }

    /// True where an end may come in the next so many lines.
    #[inline(always)]
    pub(super) fn is_on(&self, lines: u32) -> bool {
        self.lines >= lines
    }

    /// True where a line that looks like anybody's may be a message's end.
    pub(super) fn is_message_open(&self) -> bool {
        self.messages > 0
    }

    /// True where every line that a call's line begins with has its end, by their number.
    pub(super) fn all_ended(&self) -> bool {
        self.ends == 0 && !self.anyone
    }

    /// The next line comes.
    pub(super) fn pass(&mut self) {
        self.messages = self.messages.saturating_sub(1);
        if self.lines > 0 {
            self.lines -= 1;
            if self.lines == 0 {
                self.forget();
            }
        }
    }

    fn forget(&mut self) {
        self.lines = 0;
        self.ends = 0;
        self.anyone = false;
        self.open.clear();
    }

    /// A process began a call's line, and its end is still to come.
    pub(super) fn begins(&mut self, process: u32) {
        self.may_have_begun(process);
        self.ends += 1;
        self.lines = WAIT;
    }

    /// A process wrote a whole line by its looks: it may have begun one.
    pub(super) fn may_have_begun(&mut self, process: u32) {
        if !self.open.contains(&process) {
            self.open.push(process);
        }
    }

    /// A message's line was begun.
    pub(super) fn begins_message(&mut self) {
        self.messages = WAIT_FOR_MESSAGE;
    }

    /// The end of a call's line came.
    pub(super) fn ends(&mut self) {
        self.ends = self.ends.saturating_sub(1);
    }

    /// A process makes a call: true where the merge must know that its line before has its end.
    pub(super) fn hears(&mut self, process: u32) -> bool {
        let before = self.open.len();
        self.open.retain(|&open| open != process);
        let told = self.open.len() < before;
        if told && self.open.is_empty() && self.all_ended() {
            self.forget();
        }
        told || self.anyone
    }
}
