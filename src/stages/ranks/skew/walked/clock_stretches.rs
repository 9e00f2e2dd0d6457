//! Which calls become whole one after the other: the clocks of hosts are aligned by so many at a time.

use super::by_communicator::{ChunkMembers, SequencePlaces, SkewComm};
use crate::stages::skew::rows::CALLS_PER_CLOCK_STRETCH;
use std::ops::Range;

/// Calls whose clocks are aligned together: of communicators, by their numbers. Those of one
/// communicator rise.
pub(super) type ClockStretch = Vec<(usize, Range<u64>)>;

/// All calls of two ranks or more.
#[derive(Default)]
pub(super) struct ClockStretches {
    pub(super) all: Vec<ClockStretch>,
    now: ClockStretch,
    /// How many calls there are, and those of the stretch in hand.
    pub(super) matched: u64,
    held: usize,
    /// Calls that not all ranks came to, and those that one came to.
    pub(super) partly: u64,
    pub(super) alone: u64,
}

/// A communicator's calls as they come.
struct IncomingCalls {
    nranks: Option<u64>,
    /// How many calls each rank has made.
    made: Vec<u64>,
    /// The number of the first call that is not whole, and that of the first of the stretch in hand.
    first: u64,
    from: u64,
    /// Of those that are not: how many ranks came, and the place of the first of these lines.
    waiting: Vec<(u64, u64)>,
    /// How many of these are whole since.
    gone: usize,
}

/// So many calls that are whole stay before they are dropped, and as many as wait.
const MIN_WHOLE_CALLS_TO_DROP: usize = 256;

/// Puts calls in the order in which they become whole, and after them those that never do, in the order
/// in which they begin. `places` are communicator and rank by the number of a sequence. `None` where more
/// than `window` parts of calls wait.
pub(super) fn order_stretches(
    chunks: &[ChunkMembers<'_>],
    (comms, places): (&[SkewComm<'_>], &SequencePlaces),
    window: u64,
) -> Option<ClockStretches> {
    let mut found = ClockStretches::default();
    let mut coming: Vec<IncomingCalls> = comms.iter().map(IncomingCalls::from_comm).collect();
    let (mut line, mut held) = (0, 0);
    for about in chunks {
        let place = |&sequence: &usize| {
            let place = places.get(sequence).copied().flatten();
            // A rank that is alone waits for nobody.
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

    /// A rank comes to its next call; true where that is whole now. Those before it were so earlier, since
    /// its ranks had made them.
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
    /// The stretch in hand ends.
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

    /// Calls that never become whole.
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
