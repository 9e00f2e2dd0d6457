//! Inputs that workers open or walk before it is their turn.

use super::{Options, needs};
use crate::count::rowed::Rowed;
use crate::count::tally::{self, Partial};
use crate::error::Result;
use crate::formats::door::{self, Known};
use crate::formats::lines::Rows;
use crate::log;
use crate::log::mend::blocks::REJOIN;
use crate::log::timeline::Window;
use crate::log::walk::{Call, Had, Torn, Visit};
use crate::output::table::Row;
use crate::source::{self, Origin, Texts};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a part of any input adds.
pub(super) struct Part {
    /// Of a log.
    pub(super) calls: Partial,
    /// Of a table.
    pub(super) rows: Rowed,
}

impl Part {
    pub(super) fn new(options: &tally::Options, window: Option<Window>) -> Part {
        Part {
            calls: Partial::new(options),
            rows: Rowed::new(options, window),
        }
    }
}

impl Visit for Part {
    #[inline(always)]
    fn call(&mut self, call: &Call<'_>) {
        self.calls.call(call);
    }

    fn mark(&mut self) {
        self.calls.mark();
    }

    fn slot(&mut self) {
        self.calls.slot();
    }

    fn same(&mut self, first: &[u32]) {
        self.calls.same(first);
    }

    fn torn(&mut self, calls: &[Torn<'_>]) {
        self.calls.torn(calls);
    }
}

impl Rows for Part {
    #[inline]
    fn row(&mut self, row: &Row<'_>) {
        self.rows.row(row);
    }
}

/// Inputs before it is their turn.
pub(super) enum Ahead {
    /// Small logs, walked as one, and what each had.
    Together(Box<log::Ahead<Partial>>, Vec<Had>),
    /// Small logs, each walked by itself.
    Each(Vec<log::Ahead<Partial>>),
    /// Anything else, if it could be opened before it is its turn.
    Other(Option<Box<Result<Known<Part>>>>),
}

/// Walks small logs before it is their turn.
pub(super) struct Walker<'o> {
    pub(super) options: &'o Options,
    pub(super) tally: &'o tally::Options,
    /// There is more than one input.
    pub(super) several: bool,
    /// How many times to come logs are not walked as one: where one is torn, so may be others,
    /// and what was walked for nothing would cost more than is won.
    pub(super) apart: AtomicUsize,
}

/// After so many times logs are walked as one again.
const APART: usize = 32;

impl<'o> Walker<'o> {
    /// Opens or walks inputs, many small ones at a time.
    pub(super) fn ahead<'i>(&self, origins: &'i [Origin]) -> Vec<(&'i [Origin], Ahead)> {
        let mut all = Vec::new();
        // What is empty is nothing to walk, and in a folder nothing to be said of.
        let is_log = |head: &[u8]| !head.is_empty() && door::is_log(head);
        source::texts(origins, REJOIN, is_log, |origins, texts| {
            let ahead = match (texts, origins) {
                (Some(texts), _) => self.walk(&texts),
                (None, [origin]) => Ahead::Other(self.open(origin)),
                (None, _) => Ahead::Other(None),
            };
            all.push((origins, ahead));
        });
        all
    }

    fn open(&self, origin: &Origin) -> Option<Box<Result<Known<Part>>>> {
        let (tally, window) = (self.tally, self.options.window);
        let opening = self.options.opening(needs(tally));
        let new = || Part::new(tally, window);
        opening.ahead(origin, self.several, new).map(Box::new)
    }

    fn walk(&self, texts: &Texts<'_>) -> Ahead {
        let new = || Partial::new(self.tally);
        let next = |apart: usize| apart.checked_sub(1);
        let apart = self
            .apart
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        if texts.at().len() > 1 && apart.is_err() {
            match log::together(texts, &self.options.log, self.tally.steps, new()) {
                Some((log, had)) => return Ahead::Together(Box::new(log), had),
                None => self.apart.store(APART, Ordering::Relaxed),
            }
        }
        let walked = texts
            .each()
            .map(|text| log::ahead(text, &self.options.log, new));
        Ahead::Each(walked.collect())
    }
}
