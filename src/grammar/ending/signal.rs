//! The signals that end processes: their numbers, names and words.

/// A signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndSignal {
    /// Its number on Linux.
    pub number: i32,
    /// Its name: `SIGSEGV`.
    pub name: &'static str,
    /// The system's words for it, as shells, launchers and Python print them.
    words: &'static str,
}

const fn signal(number: i32, name: &'static str, words: &'static str) -> EndSignal {
    EndSignal {
        number,
        name,
        words,
    }
}

const SIGNALS: [EndSignal; 8] = [
    signal(1, "SIGHUP", "Hangup"),
    signal(4, "SIGILL", "Illegal instruction"),
    signal(6, "SIGABRT", "Aborted"),
    signal(7, "SIGBUS", "Bus error"),
    signal(8, "SIGFPE", "Floating point exception"),
    signal(9, "SIGKILL", "Killed"),
    signal(11, "SIGSEGV", "Segmentation fault"),
    signal(15, "SIGTERM", "Terminated"),
];

impl EndSignal {
    /// True for a signal that a process gets by its own fault.
    pub fn is_crash(self) -> bool {
        !matches!(self.number, 1 | 9 | 15)
    }

    /// The signal with a number.
    pub fn of_number(number: i32) -> Option<EndSignal> {
        SIGNALS.into_iter().find(|signal| signal.number == number)
    }

    /// Reads the name, without its `SIG`, at the beginning of a text: `SEGV, Segmentation fault`. Returns the text after it too.
    pub(super) fn parse_name(text: &[u8]) -> Option<(EndSignal, &[u8])> {
        SIGNALS
            .into_iter()
            .find_map(|signal| Some((signal, text.strip_prefix(&signal.name.as_bytes()[3..])?)))
    }

    /// Reads the words at the beginning of a text: `Segmentation fault (core dumped)`. Returns the text after them too.
    pub(super) fn parse_words(text: &[u8]) -> Option<(EndSignal, &[u8])> {
        SIGNALS
            .into_iter()
            .find_map(|signal| Some((signal, text.strip_prefix(signal.words.as_bytes())?)))
    }
}
