//! Segments of a job: where step numbers begin anew, or new processes take over.

mod ranks_printing;

use crate::grammar::trainer::StepLine;
use crate::log::attempts::AttemptStart;

pub(super) use ranks_printing::{LineNovelty, PrintingRanks};

/// Counts segments and log intervals.
#[derive(Debug, Default)]
pub(super) struct SegmentCounter {
    pub(super) last: Option<u64>,
    epoch: Option<u64>,
    /// Every rank prints.
    pub(super) by_ranks: bool,
    /// What each printed last.
    voices: PrintingRanks,
    pub(super) segment: u32,
    /// Steps of the segment with a line.
    pub(super) lines: u64,
}

impl SegmentCounter {
    /// The counter before the first line; `by_ranks` if every rank prints.
    pub(super) fn for_lines(by_ranks: bool) -> SegmentCounter {
        SegmentCounter {
            by_ranks,
            ..SegmentCounter::default()
        }
    }

    /// Returns the segment of the line of `step` and how many steps it represents; `None` for a line of a
    /// step that was printed already. `anew` is true if new processes print it.
    pub(super) fn count_line(
        &mut self,
        step: u64,
        line: &StepLine,
        anew: bool,
    ) -> Option<(u32, u64)> {
        let (older, newer) = match (self.epoch, line.epoch) {
            (Some(last), Some(epoch)) => (epoch < last, epoch > last),
            _ => (false, false),
        };
        let at = (line.epoch.unwrap_or(0), step);
        let mut anew = anew;
        if self.by_ranks || line.trainer.printed_by_every_rank() {
            if anew {
                self.voices = PrintingRanks::default();
            }
            match self.voices.classify_line(at) {
                LineNovelty::First => {}
                LineNovelty::Again => return None,
                LineNovelty::Back => {
                    anew = true;
                    self.voices = PrintingRanks::default();
                    self.voices.classify_line(at);
                }
            }
        }
        let steps = match self.last {
            None => 1,
            // Numbers begin again in a later epoch, also where its first line's is larger.
            Some(last) if step > last && !anew && !newer => step - last,
            Some(last) if step == last && !anew && !newer && !older => return None,
            Some(_) => {
                self.segment += 1;
                self.lines = 0;
                1
            }
        };
        self.last = Some(step);
        self.epoch = line.epoch;
        self.lines += 1;
        Some((self.segment, steps))
    }
}

/// Events after a step line that show whether its processes print the next one.
#[derive(Debug, Default)]
pub(super) struct AttemptSuccessors {
    /// The start of new processes; several starts count as one with the best evidence of each.
    begun: Option<AttemptStart>,
    /// A launcher ended the processes: the mark.
    pub(super) ended: Option<usize>,
    /// `ended` of the processes before the last start.
    cut: Option<usize>,
    /// A launcher ended the processes between this start and the one before.
    is_told: bool,
    /// The mark at which the first of the new processes joins a communicator.
    joined: Option<usize>,
}

impl AttemptSuccessors {
    pub(super) fn begin_attempt(&mut self, begin: AttemptStart) {
        let before = self.begun.unwrap_or(begin);
        self.begun = Some(AttemptStart {
            sure: before.sure || begin.sure,
            smaller: before.smaller && begin.smaller,
            ..begin
        });
        self.is_told = self.ended != self.cut;
        self.cut = self.ended;
        self.joined = None;
    }

    /// Notes the mark at which a rank joins a communicator.
    pub(super) fn note_joined(&mut self, at: usize) {
        if self.begun.is_some() {
            self.joined.get_or_insert(at);
        }
    }

    /// True where the next line is another attempt's, after `lines` of the one before; its number
    /// `rises` or does not.
    pub(super) fn are_new_processes(&self, lines: u64, rises: bool) -> bool {
        self.begun.is_some_and(|begin| {
            // The processes of a log that begins in the middle of a job are seen one after the
            // other, but all before its second step is over.
            let known = begin.sure || lines > 1 || self.cut.is_some();
            // Beside others a job goes on.
            known && !(begin.smaller && rises)
        })
    }

    /// Returns the mark at which the attempt before ended: new processes make no calls before they
    /// join a communicator, and those before them none after it.
    pub(super) fn attempt_end(&self) -> Option<usize> {
        match self.begun {
            Some(_) if self.is_told => self.cut,
            Some(_) => self.joined.or(self.cut),
            None => self.ended,
        }
    }
}
