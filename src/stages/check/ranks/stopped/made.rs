//! How many calls each member of a communicator made, as they come.

use rustc_hash::FxHashMap;

/// The members' calls, counted.
#[derive(Debug, Default)]
pub(super) struct Made {
    of: FxHashMap<u32, u64>,
    /// The fewest, and how many members made no more.
    least: (u64, usize),
    most: u64,
}

impl Made {
    /// Members that have made so many calls before.
    pub(super) fn new(members: impl Iterator<Item = (u32, u64)>) -> Made {
        let mut made = Made {
            of: members.collect(),
            ..Made::default()
        };
        made.most = made.each().map(|(_, made)| made).max().unwrap_or(0);
        made.count();
        made
    }

    fn count(&mut self) {
        let least = self.of.values().copied().min().unwrap_or(0);
        let many = self.of.values().filter(|&&made| made == least).count();
        self.least = (least, many);
    }

    /// The member's next call. False where it is none of the members.
    pub(super) fn push(&mut self, member: u32) -> bool {
        let Some(made) = self.of.get_mut(&member) else {
            return false;
        };
        *made += 1;
        self.most = self.most.max(*made);
        if *made == self.least.0 + 1 {
            self.least.1 -= 1;
            if self.least.1 == 0 {
                self.count();
            }
        }
        true
    }

    /// Each member, and how many calls it made.
    pub(super) fn each(&self) -> impl Iterator<Item = (u32, u64)> {
        self.of.iter().map(|(&member, &made)| (member, made))
    }

    pub(super) fn members(&self) -> u64 {
        self.of.len() as u64
    }

    /// How many calls those with fewest made; 0 without members.
    pub(super) fn least(&self) -> u64 {
        self.least.0
    }

    pub(super) fn most(&self) -> u64 {
        self.most
    }
}
