//! How long things take: each rank has its own pace, and nothing takes equally long twice.

use crate::options::Options;
use crate::rng::{Rng, hash_parts};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens to a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AgendaEvent {
    /// Its host goes on.
    Host(usize),
    /// Its GPU has done a work.
    Done(usize),
}

/// Future events in the order of time; events of the same time in the order they were scheduled.
#[derive(Debug, Default)]
pub(super) struct EventAgenda {
    events: BinaryHeap<Reverse<(u64, u64, AgendaEvent)>>,
    asked: u64,
    /// The time of the event last taken, in microseconds.
    pub(super) now: u64,
}

impl EventAgenda {
    /// Nothing is to happen yet.
    pub(super) fn from(now: u64) -> Self {
        Self {
            now,
            ..Self::default()
        }
    }

    /// Schedules an event `us` microseconds from now.
    pub(super) fn schedule(&mut self, us: u64, event: AgendaEvent) {
        self.asked += 1;
        self.events
            .push(Reverse((self.now + us, self.asked, event)));
    }

    /// The next thing to happen.
    pub(super) fn pop_next(&mut self) -> Option<AgendaEvent> {
        let Reverse((at, _, event)) = self.events.pop()?;
        self.now = at;
        Some(event)
    }
}

/// The paces of the ranks.
#[derive(Debug)]
pub(super) struct RankPaces {
    rng: Rng,
    /// A host's time for its calls, as a share of the GPUs' time.
    hosts: Vec<f64>,
}

impl RankPaces {
    /// From the seed; in half of the jobs one host is slow.
    pub(super) fn new(options: &Options, segment: u64) -> Self {
        let mut rng = Rng::new(hash_parts(options.seed, &[50, segment]));
        // From jobs with hosts that are far ahead at once to jobs that wait for their hosts.
        let all = 0.3 + 0.8 * rng.next_unit();
        let mut hosts: Vec<f64> = (0..options.ranks)
            .map(|_| all * (0.6 + 0.8 * rng.next_unit()))
            .collect();
        let slow = rng.below(2 * options.ranks);
        if let Some(slow) = hosts.get_mut(slow) {
            *slow *= 2.0;
        }
        Self { rng, hosts }
    }

    /// A share of what a thing takes on average, a quarter to three and a quarter of it. It is
    /// made of products alone, so that it is the same on all machines.
    fn spread_us(&mut self, us: f64) -> u64 {
        let u = self.rng.next_unit();
        (us * (0.25 + 3.0 * u * u * u)) as u64
    }

    /// A host makes a call that takes a GPU `us` on average; seldom it is held up.
    pub(super) fn host_call_us(&mut self, rank: usize, us: f64) -> u64 {
        let held_up = if self.rng.draw_chance(0.002) {
            40.0
        } else {
            1.0
        };
        let host = self.hosts[rank];
        self.spread_us(us * host * held_up)
    }

    /// GPUs run a work.
    pub(super) fn gpu_work_us(&mut self, us: f64) -> u64 {
        self.spread_us(us)
    }

    /// From one thing a host does to the next.
    pub(super) fn small_delay_us(&mut self) -> u64 {
        20 + self.rng.below(200) as u64
    }

    /// A number below `n`.
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.rng.below(n)
    }
}
