//! What is kept of a chunk: all that the stages it is made of keep, from one walk.

use crate::count::tally;
use crate::formats::log::walk::{Call, Said, Visit};
use crate::stages::{communicators, net, tuning};

/// One chunk's part.
pub(super) struct Partial<'o> {
    /// Calls, and lines about communicators.
    pub(super) calls: communicators::Partial<'o>,
    /// Facts and connections.
    pub(super) net: net::fold::Partial,
    /// TUNING lines.
    pub(super) tuning: tuning::fold::Partial,
}

impl<'o> Partial<'o> {
    pub(super) fn new(options: &'o tally::Options) -> Self {
        Partial {
            calls: communicators::Partial::new(options),
            net: net::fold::Partial::default(),
            tuning: tuning::fold::Partial::default(),
        }
    }
}

impl Visit for Partial<'_> {
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
}
