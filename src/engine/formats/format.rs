//! A format: its name, the parts that it provides, and how it is recognised.

use crate::source::InputBeginning;
use memchr::{memmem, memrchr};
use serde::de::IgnoredAny;

/// A format that an input may have.
#[derive(Debug)]
pub struct InputFormat {
    /// Its name, which is the column `src` of its calls.
    pub name: &'static str,
    /// Its description, with an article: `an NCCL log`.
    pub what: &'static str,
    /// The parts that it provides; nothing if it is only recognised, to be refused.
    pub tells: Provides,
    /// Recognises an input by its beginning.
    pub probe: fn(&InputHead<'_>) -> ProbeAnswer,
}

/// The answer of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// It is another format.
    No,
    /// It looks like the format, which has no calls. Any text may have step lines.
    Perhaps,
    /// No other format looks like it.
    Yes,
    /// The bytes after an open head decide.
    Undecided,
}

impl ProbeAnswer {
    /// Yes or no.
    pub fn yes_or_no(is: bool) -> ProbeAnswer {
        if is {
            ProbeAnswer::Yes
        } else {
            ProbeAnswer::No
        }
    }

    /// Perhaps or no.
    pub fn perhaps_or_no(is: bool) -> ProbeAnswer {
        if is {
            ProbeAnswer::Perhaps
        } else {
            ProbeAnswer::No
        }
    }
}

/// Where the beginning of an input ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadEnd {
    /// The input ends there.
    Whole,
    /// The input goes on, but only these bytes are probed.
    Cut,
    /// More bytes of a pipe may come and be probed.
    Open,
}

/// The beginning of an input.
#[derive(Debug, Clone, Copy)]
pub struct InputHead<'h> {
    /// The first bytes, unpacked.
    pub bytes: &'h [u8],
    /// Where they end.
    pub end: HeadEnd,
}

impl<'h> InputHead<'h> {
    /// The head of an input at rest that begins with `bytes`.
    pub fn from_bytes(bytes: &'h [u8]) -> InputHead<'h> {
        let end = match bytes.len() < crate::source::INPUT_HEAD_BYTES {
            true => HeadEnd::Whole,
            false => HeadEnd::Cut,
        };
        InputHead { bytes, end }
    }

    /// The head of an input as far as it has come.
    pub fn from_beginning(head: &'h InputBeginning<'_>) -> InputHead<'h> {
        match head.is_open {
            true => InputHead {
                bytes: &head.bytes,
                end: HeadEnd::Open,
            },
            false => InputHead::from_bytes(&head.bytes),
        }
    }

    /// True if the bytes are the whole input.
    pub fn is_whole(&self) -> bool {
        self.end == HeadEnd::Whole
    }

    /// True if more bytes may come.
    pub fn is_open(&self) -> bool {
        self.end == HeadEnd::Open
    }

    /// True if a line that is not blank has its end.
    pub(super) fn has_whole_line(&self) -> bool {
        memrchr(b'\n', self.bytes).is_some_and(|end| !self.bytes[..end].trim_ascii().is_empty())
    }

    /// True for the beginning of a JSON document, which is recognised by keys anywhere in it.
    pub(super) fn is_document(&self) -> bool {
        let text = self.bytes.trim_ascii_start();
        if !matches!(text.first(), Some(b'{' | b'[')) {
            return false;
        }
        match serde_json::from_slice::<IgnoredAny>(text) {
            Ok(_) => text.trim_ascii_end().contains(&b'\n'),
            Err(error) => error.is_eof(),
        }
    }

    /// Returns the answer of a mark that only the whole head shows: an open head that `is` the format is
    /// undecided.
    pub(super) fn yes_once_closed(&self, is: bool) -> ProbeAnswer {
        match is {
            true if self.is_open() => ProbeAnswer::Undecided,
            is => ProbeAnswer::yes_or_no(is),
        }
    }

    /// Returns the answer for a missing mark: an open head that `may_be` the format is undecided.
    pub(super) fn no_once_closed(&self, may_be: bool) -> ProbeAnswer {
        match may_be && self.is_open() {
            true => ProbeAnswer::Undecided,
            false => ProbeAnswer::No,
        }
    }

    /// Returns its lines that are not blank, without blanks around them. The last line of an open head is
    /// left out if it has no end.
    pub fn lines(&self) -> impl Iterator<Item = &'h [u8]> {
        let whole = match self.end {
            HeadEnd::Open => &self.bytes[..memrchr(b'\n', self.bytes).unwrap_or(0)],
            HeadEnd::Whole | HeadEnd::Cut => self.bytes,
        };
        let lines = whole.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
        lines.filter(|line| !line.is_empty())
    }

    /// Returns the first of its lines.
    pub fn first_line(&self) -> &'h [u8] {
        self.lines().next().unwrap_or_default()
    }

    /// True if `is` holds for most lines.
    pub fn most_lines(&self, is: impl Fn(&[u8]) -> bool) -> bool {
        let (mut all, mut those) = (0, 0);
        for line in self.lines() {
            (all, those) = (all + 1, those + usize::from(is(line)));
        }
        2 * those > all
    }

    /// Returns the answer for another recorder's text: with NCCL's own lines in it, it is a log. An open
    /// head without them is undecided.
    pub fn probe_recorder(&self, is: bool) -> ProbeAnswer {
        let has = |word: &[u8]| memmem::find(self.bytes, word).is_some();
        self.yes_once_closed(is && !has(b"NCCL INFO") && !has(b"NCCL WARN"))
    }
}

/// Parts that an input may provide; by default nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Provides(u32);

impl Provides {
    /// Nothing that is read.
    pub const NOTHING: Provides = Provides(0);
    /// Which calls were made.
    pub const CALLS: Provides = Provides(1 | Provides::TIMED.0);
    /// Which calls were made, or times of calls without their number.
    pub const TIMED: Provides = Provides(1 << 13);
    /// The steps of calls.
    pub const STEPS: Provides = Provides(1 << 1);
    /// A trainer's step lines.
    pub const STEP_LINES: Provides = Provides(1 << 2);
    /// The members of communicators.
    pub const MEMBERS: Provides = Provides(1 << 3);
    /// NCCL's other lines.
    pub const MESSAGES: Provides = Provides(1 << 4);
    /// When a call began.
    pub const STARTS: Provides = Provides(1 << 5);
    /// How long a call took.
    pub const DURATIONS: Provides = Provides(1 << 6);
    /// Which algorithm served a call.
    pub const ALGORITHMS: Provides = Provides(1 << 7);
    /// The lines of a log, with which anything can be shown.
    pub const LINES: Provides = Provides(1 << 8);
    /// Operations of NCCL's proxy thread.
    pub const PROXY: Provides = Provides(1 << 9);

    /// The name of that part.
    pub(super) const PROXY_PART_NAME: &str = "operations of NCCL's proxy thread";

    /// Activities of GPUs, and their times: see [`gpu`](super::gpu).
    pub const GPU: Provides = Provides(1 << 11);

    /// No part: rows need steps, so of an input with calls without steps and a log, the log is read.
    pub const BY_STEP: Provides = Provides(1 << 12);

    /// The name of that part.
    pub(super) const GPU_PART_NAME: &str = "activities of GPUs";
    /// Calls of CUDA's interfaces: see [`cuda`](super::cuda).
    pub const CUDA: Provides = Provides(1 << 14);

    /// The name of that part.
    pub(super) const CUDA_PART_NAME: &str = "calls of CUDA";

    /// Loads and stores of GPUs in others' memory (Snoopie).
    pub const ACCESSES: Provides = Provides(1 << 15);

    /// The name of that part.
    pub(super) const ACCESSES_PART_NAME: &str = "accesses to other GPUs' memory";

    /// Calls of MPI, whose communicators have no id and whose processes have no number.
    pub const MPI: Provides = Provides(1 << 16);

    /// The state of a job that runs, as NCCL's RAS collected it: see [`ras`](super::ras).
    pub const LIVE_STATE: Provides = Provides(1 << 17);

    /// The name of the part [`Provides::TOPOLOGY`].
    pub(super) const TOPOLOGY_PART_NAME: &str = "topology of a machine";

    /// The stacks of processes: see [`stacks`](super::stacks).
    pub const STACKS: Provides = Provides(1 << 18);

    /// What a machine reports of itself: see [`machine`](super::machine).
    pub const MACHINE: Provides = Provides(1 << 19);

    /// The topology of a machine: see [`topology`](super::topology).
    pub const TOPOLOGY: Provides = Provides(1 << 20);

    /// Each part by its name.
    const PART_NAMES: [(Provides, &str); 19] = [
        (Provides::CALLS, "calls"),
        (Provides::TIMED, "times of calls"),
        (Provides::STEPS, "steps"),
        (Provides::STEP_LINES, "step lines"),
        (Provides::MEMBERS, "members of communicators"),
        (Provides::MESSAGES, "other lines of NCCL"),
        (Provides::STARTS, "start times"),
        (Provides::DURATIONS, "durations"),
        (Provides::ALGORITHMS, "algorithms"),
        (Provides::LINES, "log lines"),
        (Provides::PROXY, Provides::PROXY_PART_NAME),
        (Provides::GPU, Provides::GPU_PART_NAME),
        (Provides::CUDA, Provides::CUDA_PART_NAME),
        (Provides::ACCESSES, Provides::ACCESSES_PART_NAME),
        (Provides::MPI, "calls of MPI"),
        (Provides::LIVE_STATE, "states of ranks"),
        (Provides::STACKS, "stacks of processes"),
        (Provides::MACHINE, "messages of a machine"),
        (Provides::TOPOLOGY, Provides::TOPOLOGY_PART_NAME),
    ];

    /// These parts and `other`.
    pub const fn and(self, other: Provides) -> Provides {
        Provides(self.0 | other.0)
    }

    /// These parts without `other`.
    pub(super) const fn without(self, other: Provides) -> Provides {
        Provides(self.0 & !other.0)
    }

    /// True if it has all of `parts`.
    pub const fn has(self, parts: Provides) -> bool {
        self.0 & parts.0 == parts.0
    }

    /// The name of the first of `needs` that is missing.
    pub(super) fn first_missing(self, needs: Provides) -> Option<&'static str> {
        let mut names = Provides::PART_NAMES.into_iter();
        let is_lacking = |part: Provides| needs.has(part) && !self.has(part);
        names.find_map(|(part, name)| is_lacking(part).then_some(name))
    }
}
