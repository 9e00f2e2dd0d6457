//! What nccl-diff and nccl-matrix keep of a log in one walk: calls and lines about communicators, networks
//! and connections, TUNING lines.

use crate::count::tally::{self, Tally};
use crate::log::{Part, timeline};
use crate::stages::Stage as _;
use crate::stages::communicators::{self, Sides};
use crate::stages::net::{self, all::First};
use crate::stages::tuning::{self, all::All as Tuning};

/// What is kept of a chunk.
pub(super) type Partial = (
    communicators::Partial,
    (net::fold::Partial, tuning::fold::Partial),
);

/// Nothing of a chunk yet.
pub(super) fn partial(tally: &tally::Options) -> Partial {
    (communicators::Partial::new(tally), Default::default())
}

/// What is kept of all chunks.
pub(super) struct Kept {
    /// The calls of the input in hand.
    pub(super) tally: Tally,
    pub(super) sides: Sides,
    pub(super) net: net::all::All,
    pub(super) tuning: Tuning,
}

impl Kept {
    /// Nothing of so many inputs yet.
    pub(super) fn new(tally: tally::Options, inputs: usize, jobs: usize) -> Kept {
        Kept {
            tally: Tally::new(tally, inputs, jobs),
            sides: Sides::default(),
            net: net::all::All::default(),
            tuning: Tuning::default(),
        }
    }

    /// The next log begins.
    pub(super) fn begin(&mut self, name: String) {
        self.net.begin(name);
        self.tally.clear();
    }

    /// Adds a chunk that follows what was added before.
    pub(super) fn add(&mut self, part: Part<'_, Partial>, steps: &timeline::Options) {
        let ((calls, (net, tuning)), part) = part.taken();
        let (calls, heard) = calls.parts();
        let from = First {
            input: self.net.input(),
            line: part.line,
        };
        self.sides.add(heard, part.to, from, part.merged);
        self.tally.add(part.with(calls), steps);
        self.net.add(part.with(net));
        self.tuning.add(part.with(tuning));
    }
}
