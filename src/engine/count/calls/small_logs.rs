//! Inputs that workers open or walk before their turn.

use super::Options;
use crate::count::limits::BATCHES_WALKED_APART;
use crate::count::row_counts::RowCounts;
use crate::count::tally::{self, TallyPartial};
use crate::error::Result;
use crate::formats::Provides;
use crate::formats::lines::RowVisitor;
use crate::formats::open::{self, OpenInput};
use crate::log;
use crate::log::mend::blocks::BLOCK_REJOINER;
use crate::log::timeline::StepWindow;
use crate::log::walk::{FileSpan, LogCall, LogVisitor, RepairedCall};
use crate::output::table::Row;
use crate::source::{self, InputName, SmallFileTexts};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The counts of a part of an input.
pub(super) struct InputPartial {
    /// Of a log.
    pub(super) calls: TallyPartial,
    /// Of a table.
    pub(super) rows: RowCounts,
}

impl InputPartial {
    pub(super) fn new(options: &tally::Options, window: Option<StepWindow>) -> InputPartial {
        InputPartial {
            calls: TallyPartial::new(options),
            rows: RowCounts::new(options, window),
        }
    }
}

impl LogVisitor for InputPartial {
    #[inline(always)]
    fn call(&mut self, call: &LogCall<'_>) {
        self.calls.call(call);
    }

    fn mark(&mut self) {
        self.calls.mark();
    }

    fn slot(&mut self) {
        self.calls.slot();
    }

    fn unify_processes(&mut self, first: &[u32]) {
        self.calls.unify_processes(first);
    }

    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        self.calls.insert_torn_calls(calls);
    }
}

impl RowVisitor for InputPartial {
    #[inline]
    fn visit_row(&mut self, row: &Row<'_>) {
        self.rows.visit_row(row);
    }
}

/// Inputs before their turn.
pub(super) enum PrewalkedInput {
    /// Small logs, walked as one, and what each had.
    Together(Box<log::WalkedLog<TallyPartial>>, Vec<FileSpan>),
    /// Small logs, each walked by itself.
    Each(Vec<log::WalkedLog<TallyPartial>>),
    /// Anything else, if it could be opened early.
    Other(Option<Box<Result<OpenInput<InputPartial>>>>),
}

/// Walks small logs before their turn.
pub(super) struct SmallLogWalker<'o> {
    pub(super) options: &'o Options,
    pub(super) tally: &'o tally::Options,
    /// There is more than one input.
    pub(super) several: bool,
    /// The number of further batches in which logs are walked one by one: after a torn log others may be torn,
    /// and a joint walk in vain costs more than it saves.
    pub(super) apart: AtomicUsize,
}

impl<'o> SmallLogWalker<'o> {
    /// Opens or walks inputs, many small ones at a time.
    pub(super) fn walk_ahead<'i>(
        &self,
        origins: &'i [InputName],
    ) -> Vec<(&'i [InputName], PrewalkedInput)> {
        let mut all = Vec::new();
        // Empty files are not walked, and not reported if found in a folder.
        let is_log = |head: &[u8]| !head.is_empty() && open::is_log(head);
        source::read_small_files(origins, BLOCK_REJOINER, is_log, |origins, texts| {
            let ahead = match (texts, origins) {
                (Some(texts), _) => self.walk_texts(&texts),
                (None, [origin]) => PrewalkedInput::Other(self.open_input(origin)),
                (None, _) => PrewalkedInput::Other(None),
            };
            all.push((origins, ahead));
        });
        all
    }

    fn open_input(&self, origin: &InputName) -> Option<Box<Result<OpenInput<InputPartial>>>> {
        let (tally, window) = (self.tally, self.options.window);
        let opening = self.options.opening_for(tally_needs(tally));
        let new = || InputPartial::new(tally, window);
        opening.open_ahead(origin, self.several, new).map(Box::new)
    }

    fn walk_texts(&self, texts: &SmallFileTexts<'_>) -> PrewalkedInput {
        let new = || TallyPartial::new(self.tally);
        let next = |apart: usize| apart.checked_sub(1);
        let apart = self
            .apart
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        if texts.text_ranges().len() > 1 && apart.is_err() {
            match log::walk_files_ahead(texts, &self.options.log, self.tally.steps, new()) {
                Some((log, had)) => return PrewalkedInput::Together(Box::new(log), had),
                None => self.apart.store(BATCHES_WALKED_APART, Ordering::Relaxed),
            }
        }
        let walked = texts
            .iter_texts()
            .map(|text| log::walk_file_ahead(text, &self.options.log, new));
        PrewalkedInput::Each(walked.collect())
    }
}

/// What an input must provide for `tally`.
pub(super) fn tally_needs(tally: &tally::Options) -> Provides {
    let calls = match tally.durations {
        true => Provides::TIMED,
        false => Provides::CALLS,
    };
    match tally.steps {
        true => calls.and(Provides::BY_STEP),
        false => calls,
    }
}
