//! How many collectives each rank has made on each communicator.

use crate::members::Identity;
use crate::members::comm_id::CommId;
use std::collections::BTreeMap;

/// Ranks are remembered for so many seats, about 32 bytes each: 1,024 ranks in 256 communicators each.
/// A job that makes new communicators for a month loses the ones that it used longest ago.
const SEATS: usize = 1 << 18;

/// Collectives by communicator and rank.
#[derive(Debug, Default)]
pub struct Ranks {
    known: BTreeMap<CommId, Communicator>,
    seats: usize,
    /// Rises with each addition.
    now: u64,
}

/// One communicator.
#[derive(Debug)]
pub struct Communicator {
    /// Its size.
    pub nranks: u32,
    /// Collectives of all ranks.
    pub calls: u64,
    by_rank: BTreeMap<u32, u64>,
    last: u64,
}

impl Communicator {
    /// The ranks that have made fewer collectives than the one that has made most, with how many fewer,
    /// the ones that are furthest behind first. Ranks that have made none are not known to exist.
    pub fn behind(&self) -> Vec<(u32, u64)> {
        let most = self.by_rank.values().max().copied().unwrap_or(0);
        let fewer = |(&rank, &n): (&u32, &u64)| (n < most).then(|| (rank, most - n));
        let mut behind: Vec<_> = self.by_rank.iter().filter_map(fewer).collect();
        behind.sort_by_key(|&(rank, by)| (std::cmp::Reverse(by), rank));
        behind
    }

    /// How many ranks have made a collective.
    pub fn seen(&self) -> usize {
        self.by_rank.len()
    }
}

impl Ranks {
    pub(super) fn add(&mut self, identity: &Identity, n: u64) {
        let Some(id) = identity.comm_id else {
            return;
        };
        self.now += 1;
        let communicator = self.known.entry(id).or_insert_with(|| Communicator {
            nranks: identity.nranks,
            calls: 0,
            by_rank: BTreeMap::new(),
            last: 0,
        });
        communicator.calls += n;
        communicator.last = self.now;
        let before = communicator.by_rank.len();
        *communicator.by_rank.entry(identity.rank).or_default() += n;
        self.seats += communicator.by_rank.len() - before;
        while self.seats > SEATS && self.known.len() > 1 {
            self.forget();
        }
    }

    /// Forgets the communicator that was used longest ago.
    fn forget(&mut self) {
        let oldest = self.known.iter().min_by_key(|(_, of)| of.last);
        if let Some(gone) = oldest
            .map(|(id, _)| *id)
            .and_then(|id| self.known.remove(&id))
        {
            self.seats -= gone.by_rank.len();
        }
    }

    /// The communicators with their ids as printed, the ones with most ranks first.
    pub fn each(&self) -> Vec<(String, &Communicator)> {
        let mut each: Vec<_> = self.known.iter().collect();
        each.sort_by_key(|(id, of)| (std::cmp::Reverse((of.nranks, of.calls)), **id));
        each.into_iter()
            .map(|(id, of)| (id.to_string(), of))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_behind_is_counted_and_old_communicators_are_forgotten() {
        let mut ranks = Ranks::default();
        let at = |id: u64, rank: u32| Identity {
            rank,
            nranks: 4,
            comm_id: Some(CommId::printed(id)),
        };
        for (rank, n) in [(0, 9), (1, 7), (2, 9), (3, 6), (1, 1)] {
            ranks.add(&at(1, rank), n);
        }
        let [(id, of)] = &ranks.each()[..] else {
            panic!()
        };
        assert_eq!((&id[..], of.calls, of.seen()), ("0x1", 32, 4));
        assert_eq!(of.behind(), [(3, 3), (1, 1)]);
        for id in 2..SEATS as u64 + 2 {
            ranks.add(&at(id, 0), 1);
        }
        assert!(ranks.seats <= SEATS && ranks.known.len() == SEATS);
        assert!(!ranks.known.contains_key(&CommId::printed(1)));
    }
}
