//! How many calls each member of a communicator made, as they come.

use rustc_hash::FxHashMap;

/// The members' calls, counted.
#[derive(Debug, Default)]
pub(super) struct MemberCallCounts {
    of: FxHashMap<u32, u64>,
    /// The fewest, and how many members made no more.
    least: (u64, usize),
    most: u64,
}

impl MemberCallCounts {
    /// Members by the number of calls that they made before.
    pub(super) fn new(members: impl Iterator<Item = (u32, u64)>) -> MemberCallCounts {
        let mut made = MemberCallCounts {
            of: members.collect(),
            ..MemberCallCounts::default()
        };
        made.most = made.iter_counts().map(|(_, made)| made).max().unwrap_or(0);
        made.recount_fewest();
        made
    }

    fn recount_fewest(&mut self) {
        let least = self.of.values().copied().min().unwrap_or(0);
        let many = self.of.values().filter(|&&made| made == least).count();
        self.least = (least, many);
    }

    /// The member's next call. False where it is none of the members.
    pub(super) fn count_call(&mut self, member: u32) -> bool {
        let Some(made) = self.of.get_mut(&member) else {
            return false;
        };
        *made += 1;
        self.most = self.most.max(*made);
        if *made == self.least.0 + 1 {
            self.least.1 -= 1;
            if self.least.1 == 0 {
                self.recount_fewest();
            }
        }
        true
    }

    /// Each member, and how many calls it made.
    pub(super) fn iter_counts(&self) -> impl Iterator<Item = (u32, u64)> {
        self.of.iter().map(|(&member, &made)| (member, made))
    }

    pub(super) fn member_count(&self) -> u64 {
        self.of.len() as u64
    }

    /// How many calls those with fewest made; 0 without members.
    pub(super) fn fewest_calls(&self) -> u64 {
        self.least.0
    }

    pub(super) fn most_calls(&self) -> u64 {
        self.most
    }
}
