//! Stretches of calls that become whole one after another, in which the clocks of hosts are aligned.

use super::communicators::{ChunkMembers, SequencePlaces, SkewComm};
use crate::stages::skew::limits::{CALLS_PER_CLOCK_STRETCH, MIN_WHOLE_CALLS_TO_DROP};
use std::ops::Range;

/// Calls with clocks that are aligned together: communicators and numbers of calls, which rise for each
/// communicator.
pub(super) type ClockStretch = Vec<(usize, Range<u64>)>;

/// All calls of two ranks or more.
#[derive(Default)]
pub(super) struct ClockStretches {
    pub(super) all: Vec<ClockStretch>,
    now: ClockStretch,
    /// Calls of two ranks or more.
    pub(super) matched: u64,
    /// Calls of the current stretch.
    held: usize,
    /// Calls to which not all ranks came.
    pub(super) partly: u64,
    /// Calls to which one rank came.
    pub(super) alone: u64,
}

/// A communicator's calls as they come.
struct IncomingCalls {
    nranks: Option<u64>,
    /// The calls that each rank has made.
    made: Vec<u64>,
    /// The number of the first call that is not whole.
    first: u64,
    /// The number of the current stretch's first call.
    from: u64,
    /// The calls that are not whole: the ranks that came, and the place of the first line.
    waiting: Vec<(u64, u64)>,
    /// How many of these are whole since.
    gone: usize,
}

/// Puts calls in the order in which they become whole, and then the calls that stay partial, in the order of their
/// first lines. `None` if more than `window` parts of calls wait.
pub(super) fn order_stretches(
    chunks: &[ChunkMembers<'_>],
    comms: &[SkewComm<'_>],
    places: &SequencePlaces,
    window: u64,
) -> Option<ClockStretches> {
    let mut found = ClockStretches::default();
    let mut coming: Vec<IncomingCalls> = comms.iter().map(IncomingCalls::from_comm).collect();
    let (mut line, mut held) = (0, 0);
    for about in chunks {
        let place = |&sequence: &usize| {
            let place = places.get(sequence).copied().flatten();
            // The only rank of a communicator does not wait.
            place.filter(|&(comm, _)| coming[comm].nranks != Some(1))
        };
        let places: Vec<_> = about.sequence_of.iter().map(place).collect();
        for (member, is_made) in about.chunk.calls.iter_order() {
            let place = places.get(member as usize).copied().flatten();
            let (Some((comm, side)), true) = (place, is_made) else {
                continue;
            };
            line += 1;
            held += 1;
            if coming[comm].add_arrival(side, line) {
                held -= coming[comm].made.len() as u64;
                found.matched += 1;
                found.held += 1;
                if found.held >= CALLS_PER_CLOCK_STRETCH {
                    found.end_stretch(&mut coming);
                }
            } else if held > window {
                return None;
            }
        }
    }
    found.take_whole_calls(&mut coming);
    found.take_partial_calls(&coming);
    Some(found)
}

impl IncomingCalls {
    fn from_comm(comm: &SkewComm<'_>) -> IncomingCalls {
        IncomingCalls {
            nranks: comm.nranks.map(u64::from),
            made: vec![0; comm.sides.len()],
            first: 0,
            from: 0,
            waiting: Vec::new(),
            gone: 0,
        }
    }

    /// Adds a rank's next call; true if it is whole now. The calls before it are whole already, since its ranks had
    /// made them.
    #[inline]
    fn add_arrival(&mut self, side: usize, line: u64) -> bool {
        let at = (self.made[side] - self.first) as usize + self.gone;
        self.made[side] += 1;
        let came = match self.waiting.get_mut(at) {
            Some((came, _)) => {
                *came += 1;
                *came
            }
            None => {
                self.waiting.push((1, line));
                1
            }
        };
        let is_whole = self.nranks == Some(came);
        if is_whole {
            self.first += 1;
            self.gone += 1;
            if 2 * self.gone > self.waiting.len() + MIN_WHOLE_CALLS_TO_DROP {
                self.waiting.drain(..self.gone);
                self.gone = 0;
            }
        }
        is_whole
    }
}

impl ClockStretches {
    /// Ends the current stretch.
    fn end_stretch(&mut self, coming: &mut [IncomingCalls]) {
        self.take_whole_calls(coming);
        self.all.push(std::mem::take(&mut self.now));
        self.held = 0;
    }

    /// Takes the calls that became whole.
    fn take_whole_calls(&mut self, coming: &mut [IncomingCalls]) {
        for (comm, coming) in coming.iter_mut().enumerate() {
            if coming.first > coming.from {
                self.now.push((comm, coming.from..coming.first));
                coming.from = coming.first;
            }
        }
    }

    /// Takes the calls that stay partial.
    fn take_partial_calls(&mut self, coming: &[IncomingCalls]) {
        let mut rest = Vec::new();
        for (comm, coming) in coming.iter().enumerate() {
            let waiting = coming.waiting[coming.gone..].iter().zip(coming.first..);
            rest.extend(waiting.map(|(&(came, line), number)| (line, comm, number, came)));
        }
        rest.sort_unstable();
        for (_, comm, number, came) in rest {
            if came < 2 {
                self.alone += 1;
                continue;
            }
            self.matched += 1;
            self.partly += 1;
            self.held += 1;
            self.now.push((comm, number..number + 1));
            if self.held >= CALLS_PER_CLOCK_STRETCH {
                self.all.push(std::mem::take(&mut self.now));
                self.held = 0;
            }
        }
        if !self.now.is_empty() {
            self.all.push(std::mem::take(&mut self.now));
        }
    }
}
