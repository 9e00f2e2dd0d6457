//! Counts the calls of a log by step while its text comes in pieces.

use super::collector::CallCollector;
use super::live::LiveCounts;
use super::{CountedCalls, Options};
use crate::count::tally::{self, TallyPartial};
use crate::log::LogState;
use crate::log::placement::SettleRule;
use crate::log::timeline::StepKey;
use crate::log::walk::{self, ChunkPlace};
use crate::members::MergedNumbers;
use crate::output::live_rows::{LiveBatch, LiveRows};
use crate::source::{CutPlace, FlushReason};
use std::sync::mpsc;

/// Counts the calls of a log that grows. The calls of a step are given once it is settled, as
/// [`count_calls_live`](super::count_calls_live) gives them.
pub struct GrowingCounts<'o> {
    all: CallCollector<'o, 'o>,
    tally: &'o tally::Options,
    options: &'o Options,
    log: LogState,
    settled: mpsc::Receiver<CountedCalls>,
    /// Where the next piece begins.
    place: ChunkPlace,
}

impl<'o> GrowingCounts<'o> {
    /// Nothing counted yet.
    pub fn new(options: &'o Options, tally: &'o tally::Options) -> GrowingCounts<'o> {
        let (sender, settled) = mpsc::channel();
        let sink = move |batch: LiveBatch<CountedCalls>| {
            if let LiveBatch::Rows(calls) = batch {
                // The receiver lives as long as the counts do.
                let _ = sender.send(calls);
            }
            Ok(())
        };
        let mut all = CallCollector::new(options, tally, 1);
        all.merged.twice.expect_single_input();
        all.live = LiveCounts::with_sink(Some(LiveRows::new(sink)), tally.steps);
        GrowingCounts {
            all,
            tally,
            options,
            log: LogState::default(),
            settled,
            place: ChunkPlace {
                offset: 0,
                is_quiet: true,
            },
        }
    }

    /// Adds whole lines.
    pub fn add_text(&mut self, text: &[u8]) {
        self.add_piece(text, None);
    }

    /// Returns the calls of the steps that are settled by `rule` since the last time, and the last settled step, which
    /// may have none.
    pub fn take_settled(&mut self, rule: SettleRule) -> (Vec<CountedCalls>, Option<StepKey>) {
        self.all.live.rule = rule;
        self.add_piece(&[], Some(FlushReason::Idle));
        let calls = self.settled.try_iter().collect();
        (calls, self.all.live.last_settled_step())
    }

    /// True if the text so far gives a step that was returned other calls than then.
    pub fn has_changed(&mut self) -> bool {
        let CallCollector {
            tally,
            merged,
            live,
            ..
        } = &mut self.all;
        live.compare_emitted(tally, self.options, &self.log, merged);
        live.is_contradicted()
    }

    fn add_piece(&mut self, text: &[u8], pause: Option<FlushReason>) {
        let visit = TallyPartial::new(self.tally);
        let recogniser = &self.options.log.recogniser;
        let mut scanned = walk::walk_bytes(text, self.place, recogniser, false, visit);
        scanned.pause = pause;
        let is_quiet = walk::classify_cut(text, self.place.is_quiet) == CutPlace::Quiet;
        self.place = ChunkPlace {
            offset: self.place.offset + text.len() as u64,
            is_quiet,
        };
        let CallCollector {
            tally,
            merged,
            logged,
            live,
            ..
        } = &mut self.all;
        let mut to = MergedNumbers::default();
        let (calls, part) = self.log.add_chunk(scanned, merged, &mut to).take_visit();
        tally.add_chunk(part.with_visit(calls), &self.options.timeline);
        // The sink does not fail.
        let _ = live.emit_settled(&part, tally, logged, self.options, self.tally);
    }
}
