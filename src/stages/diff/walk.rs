//! What is kept of a chunk: all that the stages it is made of keep, from one walk.

use crate::count::tally;
use crate::formats::log::walk::{Call, Said, Torn, Visit};
use crate::stages::{communicators, net, tuning};
use serde::{Deserialize, Serialize};

/// One chunk's part.
#[derive(Serialize, Deserialize)]
pub(super) struct Partial {
    /// Calls, and lines about communicators.
    pub(super) calls: communicators::Partial,
    /// Facts and connections.
    pub(super) net: net::fold::Partial,
    /// TUNING lines.
    pub(super) tuning: tuning::fold::Partial,
}

impl Partial {
    pub(super) fn new(options: &tally::Options) -> Self {
        Partial {
            calls: communicators::Partial::new(options),
            net: net::fold::Partial::default(),
            tuning: tuning::fold::Partial::default(),
        }
    }
}

impl Visit for Partial {
    const MESSAGES: bool = true;

    fn message(&mut self, said: &Said<'_>) {
        self.calls.message(said);
        self.net.message(said);
        self.tuning.message(said);
    }

    #[inline(always)]
    fn call(&mut self, call: &Call<'_>) {
        self.calls.call(call);
        self.net.call(call);
        self.tuning.call(call);
    }

    fn mark(&mut self) {
        self.calls.mark();
    }

    fn slot(&mut self) {
        self.calls.slot();
        self.net.slot();
        self.tuning.slot();
    }

    fn torn(&mut self, calls: &[Torn<'_>]) {
        self.calls.torn(calls);
        self.net.torn(calls);
        self.tuning.torn(calls);
    }
}
