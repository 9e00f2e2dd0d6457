//! Which group of members made the expected call where members make different ones.
//!
//! The largest group is right. Of equally large ones the first of these decides: the members of similar
//! communicators; the rhythm in which the call came before; the calls around it; the longer match.

use super::compare::{KnownCalls, find_shift, is_same_call};
use super::limits::{MAX_CALLS_AROUND, MAX_CALLS_SEARCHED, MIN_CALLS_AROUND};

/// How the right group is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// More members made this call than any other.
    Majority,
    /// This many members of similar communicators made this call there.
    Similar(usize),
    /// The call comes as often as before.
    Rhythm,
    /// The call came after the same calls before.
    Before,
    /// The call has the same calls around it elsewhere.
    Around,
    /// The others' later calls are this group's, from a later place on.
    LongerMatch,
    /// Nothing shows it.
    Unknown,
}

/// The first call that differs, and the members' known calls.
#[derive(Debug)]
pub struct Outliers<'a, K, S> {
    /// The number of the call.
    pub seq: u64,
    /// All members' calls.
    pub all: &'a [K],
    /// Calls of members of similar communicators.
    pub similar: &'a [S],
}

impl<K, S> Outliers<'_, K, S>
where
    K: KnownCalls,
    S: KnownCalls<Content = K::Content>,
{
    /// Puts the right group first, as far as it is known. `groups` has at least two groups of places in the
    /// list of members, the largest first.
    pub fn put_right_group_first(&self, groups: &mut [Vec<usize>]) -> Basis {
        let [first, second, ..] = groups else {
            return Basis::Majority;
        };
        if first.len() > second.len() {
            return Basis::Majority;
        }
        let size = first.len();
        let tied = groups.iter().take_while(|group| group.len() == size);
        let members: Vec<&K> = tied
            .filter_map(|group| self.all.get(*group.first()?))
            .collect();
        let found = self.vote_of_similar(&members).or_else(|| {
            let rhythm = self.find_rhythm(&members).map(|at| (at, Basis::Rhythm));
            rhythm.or_else(|| self.find_repeated(&members))
        });
        let found = found.or_else(|| self.find_longer_match(&members));
        let Some((at, basis)) = found else {
            return Basis::Unknown;
        };
        groups.swap(0, at);
        basis
    }

    /// The member with the call that similar communicators make there, if they make only one of the calls.
    fn vote_of_similar(&self, members: &[&K]) -> Option<(usize, Basis)> {
        let votes = members.iter().map(|own| {
            let is_same = |list: &&S| {
                let both = |at: u64| is_same_call(*own, at, *list, at);
                both(self.seq) && self.seq.checked_sub(1).is_none_or(both)
            };
            self.similar.iter().filter(is_same).count()
        });
        let votes: Vec<usize> = votes.collect();
        let at = find_only(&votes, |&votes| votes > 0)?;
        Some((at, Basis::Similar(votes[at])))
    }

    /// Of two members the one that keeps the rhythm of the rarer call. If that call comes sooner than ever, calls
    /// before it were left out; if it comes as before, the other member made some in addition.
    fn find_rhythm(&self, members: &[&K]) -> Option<usize> {
        let [a, b] = members else { return None };
        let (a, b) = (self.rhythm_of(a)?, self.rhythm_of(b)?);
        let (rare, rhythm) = match (a, b) {
            (a, b) if a.least > b.most.max(b.now) => (0, a),
            (a, b) if b.least > a.most.max(a.now) => (1, b),
            _ => return None,
        };
        if rhythm.now < rhythm.least {
            Some(1 - rare)
        } else {
            (rhythm.now <= rhythm.most).then_some(rare)
        }
    }

    /// The first call of a member that is searched.
    fn first_searched(&self, own: &K) -> Option<u64> {
        let first = self.seq.saturating_sub(MAX_CALLS_SEARCHED);
        Some(first.max(own.first_seq()?))
    }

    fn rhythm_of(&self, own: &K) -> Option<Rhythm> {
        let (first, seq) = (self.first_searched(own)?, self.seq);
        let came = (first..seq).filter(|&at| is_same_call(own, at, own, seq));
        // The first call of a communicator comes after its beginning.
        let begin = (first == 0).then_some(0);
        let places: Vec<u64> = begin.into_iter().chain(came.map(|at| at + 1)).collect();
        let apart = || places.windows(2).map(|w| w[1] - w[0]);
        Some(Rhythm {
            least: apart().min()?,
            most: apart().max()?,
            now: seq.saturating_add(1) - places.last()?,
        })
    }

    /// The member that made its call elsewhere with most of the same calls before it, of any size if not of the
    /// same size. If no earlier place decides, later ones do.
    fn find_repeated(&self, members: &[&K]) -> Option<(usize, Basis)> {
        let before = |same: &Same<'_, K>| {
            self.find_most_repeated(members, |own| {
                let first = self.first_searched(own)?;
                (first..self.seq)
                    .filter(|&at| same(own, at, self.seq))
                    .map(|at| self.calls_before(own, at, first, same))
                    .max()
            })
        };
        let same_call = |own: &K, at: u64, then: u64| is_same_call(own, at, own, then);
        let same_op = |own: &K, at: u64, then: u64| {
            let op = own.op_at(at);
            op.is_some() && op == own.op_at(then)
        };
        let at = before(&same_call).or_else(|| before(&same_op));
        at.map(|at| (at, Basis::Before)).or_else(|| {
            let around = self.find_most_repeated(members, |own| {
                let first = self.first_searched(own)?;
                let last = self.seq.saturating_add(MAX_CALLS_SEARCHED);
                let last = last.min(own.last_seq()?);
                (self.seq.saturating_add(1)..=last)
                    .filter(|&at| same_call(own, at, self.seq))
                    .map(|at| self.calls_before(own, at, first, &same_call))
                    .max()
            });
            around.map(|at| (at, Basis::Around))
        })
    }

    /// How many calls before place `at` are those before the call that differs.
    fn calls_before(&self, own: &K, at: u64, first: u64, same: &Same<'_, K>) -> usize {
        let back = 1..=MAX_CALLS_AROUND.min(at - first);
        back.take_while(|back| {
            let then = self.seq.saturating_sub(*back);
            same(own, at - back, then)
        })
        .count()
    }

    fn find_most_repeated(
        &self,
        members: &[&K],
        repeated: impl Fn(&K) -> Option<usize>,
    ) -> Option<usize> {
        let alike: Vec<usize> = members
            .iter()
            .map(|own| repeated(own).unwrap_or(0))
            .collect();
        let most = alike
            .iter()
            .max()
            .copied()
            .filter(|&most| most >= MIN_CALLS_AROUND)?;
        find_only(&alike, |&many| many == most)
    }

    /// Of two members the right one if the other makes its later calls too early, and that explains more calls
    /// than the opposite.
    fn find_longer_match(&self, members: &[&K]) -> Option<(usize, Basis)> {
        let [a, b] = members else { return None };
        let agreed = |own: &K, other: &K| find_shift(own, other, self.seq).map_or(0, |s| s.agreed);
        let (a_early, b_early) = (agreed(a, b), agreed(b, a));
        let right = match a_early.cmp(&b_early) {
            std::cmp::Ordering::Equal => return None,
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Greater => 1,
        };
        Some((right, Basis::LongerMatch))
    }
}

/// Compares two calls of one member.
type Same<'s, K> = dyn Fn(&K, u64, u64) -> bool + 's;

/// How many calls are between two that are the same: the fewest and the most so far, and now.
#[derive(Debug, Clone, Copy)]
struct Rhythm {
    least: u64,
    most: u64,
    now: u64,
}

/// The place of the only value for which `is` holds.
fn find_only<T>(values: &[T], is: impl Fn(&T) -> bool) -> Option<usize> {
    let mut those = values.iter().enumerate().filter(|(_, value)| is(value));
    let (first, _) = those.next()?;
    those.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::super::compare::tests::Letters;
    use super::*;

    fn decide(seq: u64, all: &[Letters], similar: &[Letters]) -> (usize, Basis) {
        let mut groups: Vec<Vec<usize>> = (0..all.len()).map(|at| vec![at]).collect();
        let basis = Outliers { seq, all, similar }.put_right_group_first(&mut groups);
        (groups[0][0], basis)
    }

    #[test]
    fn of_two_members_with_alternating_calls_the_one_that_alternates_is_right() {
        let all = [Letters(0, b"ARARARARAR"), Letters(0, b"ARRARARARA")];
        assert_eq!(decide(2, &all, &[]), (0, Basis::Around));
        let all = [Letters(0, b"ARRARARARA"), Letters(0, b"ARARARARAR")];
        assert_eq!(decide(2, &all, &[]), (1, Basis::Around));
        // The others of its kind are stronger.
        let similar = [Letters(0, b"ARRARARARA")];
        assert_eq!(decide(2, &all, &similar), (0, Basis::Similar(1)));
    }

    #[test]
    fn who_made_fewer_calls_left_one_out() {
        let all = [Letters(0, b"ABCDEFG"), Letters(0, b"ABDEFG")];
        assert_eq!(decide(2, &all, &[]), (0, Basis::LongerMatch));
        let all = [Letters(0, b"ABC"), Letters(0, b"ABX")];
        assert_eq!(decide(2, &all, &[]), (0, Basis::Unknown));
    }

    #[test]
    fn a_call_that_comes_sooner_than_ever_shows_that_others_were_left_out() {
        let all = [Letters(0, b"AAABAAABAAAB"), Letters(0, b"AAABAAABAABA")];
        assert_eq!(decide(10, &all, &[]), (0, Basis::Rhythm));
        let mut groups = vec![vec![1, 2], vec![0]];
        let all = [Letters(0, b"A"), Letters(0, b"B"), Letters(0, b"B")];
        let none: &[Letters] = &[];
        let outliers = Outliers {
            seq: 0,
            all: &all,
            similar: none,
        };
        assert_eq!(outliers.put_right_group_first(&mut groups), Basis::Majority);
    }
}
