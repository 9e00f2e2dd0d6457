//! The number of collectives that each rank has made on each communicator.

use super::growing_log::MemberNews;
use crate::calls::compare::members_behind;
use crate::members::SpeakerProcess;
use crate::members::comm_id::CommId;
use crate::stages::watch::limits::MAX_COUNTED_SEATS;
use std::collections::BTreeMap;

/// Collectives by communicator and rank.
#[derive(Debug, Default)]
pub struct CollectiveCounts {
    known: BTreeMap<CommId, WatchedComm>,
    seats: usize,
    /// Rises with each addition.
    now: u64,
    /// Some calls are of communicators that no INIT line names.
    has_unknown: bool,
}

/// One communicator.
#[derive(Debug)]
pub struct WatchedComm {
    /// Its size.
    pub nranks: u32,
    /// Collectives of all ranks.
    pub calls: u64,
    /// `Send` and `Recv` of all ranks.
    messages: (u64, u64),
    by_rank: BTreeMap<u32, WatchedRank>,
    last: u64,
}

/// One rank.
#[derive(Debug)]
struct WatchedRank {
    /// The process that called first.
    process: SpeakerProcess,
    calls: u64,
}

impl WatchedComm {
    /// Returns the ranks that have made fewer collectives than the one that has made most, and how many
    /// fewer; those furthest behind first. Ranks without any collective are unknown.
    pub fn ranks_behind(&self) -> Vec<(u32, u64)> {
        members_behind(self.by_rank.iter().map(|(&rank, seat)| (rank, seat.calls)))
    }

    /// Returns the process of a rank.
    pub fn process_of_rank(&self, rank: u32) -> Option<&SpeakerProcess> {
        self.by_rank.get(&rank).map(|seat| &seat.process)
    }

    /// Returns the ranks that have called, with their processes.
    pub(super) fn processes(&self) -> impl Iterator<Item = (u32, &SpeakerProcess)> {
        let seats = self.by_rank.iter();
        seats.map(|(&rank, seat)| (rank, &seat.process))
    }

    /// The number of ranks that have made a collective.
    pub fn ranks_seen(&self) -> usize {
        self.by_rank.len()
    }
}

impl CollectiveCounts {
    pub(super) fn add_calls(&mut self, member: MemberNews) {
        let MemberNews {
            process,
            identity,
            calls: turns,
        } = member;
        let known = identity.and_then(|identity| Some((identity, identity.comm_id?)));
        let Some((identity, id)) = known else {
            self.has_unknown = true;
            return;
        };
        let n = turns.collectives;
        self.now += 1;
        let communicator = self.known.entry(id).or_insert_with(|| WatchedComm {
            nranks: identity.nranks,
            calls: 0,
            messages: (0, 0),
            by_rank: BTreeMap::new(),
            last: 0,
        });
        communicator.calls += n;
        communicator.messages.0 += turns.sent;
        communicator.messages.1 += turns.received;
        communicator.last = self.now;
        let before = communicator.by_rank.len();
        let seat = communicator.by_rank.entry(identity.rank);
        seat.or_insert(WatchedRank { process, calls: 0 }).calls += n;
        self.seats += communicator.by_rank.len() - before;
        while self.seats > MAX_COUNTED_SEATS && self.known.len() > 1 {
            self.forget_oldest();
        }
    }

    /// Forgets the communicator that was used longest ago.
    fn forget_oldest(&mut self) {
        let oldest = self.known.iter().min_by_key(|(_, of)| of.last);
        if let Some(gone) = oldest
            .map(|(id, _)| *id)
            .and_then(|id| self.known.remove(&id))
        {
            self.seats -= gone.by_rank.len();
        }
    }

    /// True if all ranks of each communicator have made equally many calls: a log that begins here is as
    /// complete as the whole log.
    pub fn are_level(&self) -> bool {
        let is_level = |of: &WatchedComm| {
            let (sent, received) = of.messages;
            let mut calls = of.by_rank.values().map(|seat| seat.calls);
            let any = calls.next();
            sent == received
                && of.by_rank.len() == of.nranks as usize
                && calls.all(|n| Some(n) == any)
        };
        !self.has_unknown && self.known.values().all(is_level)
    }

    /// Returns the communicators, those with most ranks first.
    pub fn largest_first(&self) -> Vec<(&CommId, &WatchedComm)> {
        let mut each: Vec<_> = self.known.iter().collect();
        each.sort_by_key(|(id, of)| (std::cmp::Reverse((of.nranks, of.calls)), **id));
        each
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::CommIdentity;
    use crate::stages::watch::calls::WatchedMemberCalls;

    #[test]
    fn who_is_behind_is_counted_and_old_communicators_are_forgotten() {
        let mut ranks = CollectiveCounts::default();
        let at = |id: u64, rank: u32| CommIdentity {
            rank,
            nranks: 4,
            comm_id: Some(CommId::from_printed(id)),
        };
        let process = || SpeakerProcess {
            host: (*b"node").into(),
            pid: Some(1),
        };
        let made = |collectives| WatchedMemberCalls {
            collectives,
            ..WatchedMemberCalls::default()
        };
        let news = |identity: CommIdentity, n| MemberNews {
            process: process(),
            identity: Some(identity),
            calls: made(n),
        };
        assert!(ranks.are_level());
        for (rank, n) in [(0, 9), (1, 7), (2, 9), (3, 6), (1, 1)] {
            ranks.add_calls(news(at(1, rank), n));
        }
        assert!(!ranks.are_level());
        let [(id, of)] = &ranks.largest_first()[..] else {
            panic!()
        };
        assert_eq!(
            (id.to_string(), of.calls, of.ranks_seen()),
            ("0x1".to_owned(), 32, 4)
        );
        assert_eq!(of.ranks_behind(), [(3, 3), (1, 1)]);
        for id in 2..MAX_COUNTED_SEATS as u64 + 2 {
            ranks.add_calls(news(at(id, 0), 1));
        }
        assert!(ranks.seats <= MAX_COUNTED_SEATS && ranks.known.len() == MAX_COUNTED_SEATS);
        assert!(!ranks.known.contains_key(&CommId::from_printed(1)));
    }
}
