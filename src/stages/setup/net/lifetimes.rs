//! When a process's communicators lived: between which of its INIT lines.
//!
//! A line that does not name its communicator can only be about one that had begun and not ended
//! when it was printed. Lines of one process keep their order in one input, whatever is
//! between them.

use super::fold::Comm;
use crate::grammar::message::communicator::init::{Event, Stage};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// A moment of a process.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Moment {
    /// The input's number.
    pub input: u32,
    /// How many INIT lines it had printed.
    pub inits: u32,
}

impl Moment {
    /// The same where so many inputs come before.
    pub(crate) fn after(self, inputs: u32) -> Moment {
        Moment {
            input: self.input.saturating_add(inputs),
            ..self
        }
    }
}

/// From when to when a communicator lived, as far as lines say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Life {
    begun: Option<Moment>,
    ended: Option<Moment>,
}

/// The lives of all processes' communicators.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Lives {
    printed: FxHashMap<u32, u32>,
    of: FxHashMap<(u32, Comm), Life>,
    last: FxHashMap<(u32, u64), Comm>,
}

impl Lives {
    /// The moment when a process had printed so many INIT lines in the chunk that is added.
    pub(crate) fn moment(&self, process: u32, input: u32, inits: u32) -> Moment {
        let before = self.printed.get(&process).copied().unwrap_or(0);
        Moment {
            input,
            inits: before.saturating_add(inits),
        }
    }

    /// Adds a process's next INIT line, of this communicator.
    pub(crate) fn add(
        &mut self,
        process: u32,
        input: u32,
        (stage, event): (Stage, Event),
        comm: Comm,
    ) {
        let printed = self.printed.entry(process).or_default();
        *printed = printed.saturating_add(1);
        let now = Moment {
            input,
            inits: *printed,
        };
        let at = (process, comm.comm);
        if event != Event::Init {
            if let Some(comm) = self.last.get(&at)
                && let Some(life) = self.of.get_mut(&(process, *comm))
            {
                life.ended = Some(now);
            }
            return;
        }
        self.last.insert(at, comm);
        let begun = (stage == Stage::InitStart).then_some(now);
        self.of
            .entry((process, comm))
            // An address without an id that begins again is not told from itself.
            .and_modify(|life| {
                if begun.is_some() {
                    *life = Life::default();
                }
            })
            .or_insert(Life { begun, ended: None });
    }

    /// Adds those of inputs that come after `before` others; `here` gives a process its number.
    pub(crate) fn merge(&mut self, other: Lives, here: impl Fn(u32) -> u32, before: u32) {
        for (process, printed) in other.printed {
            let known = self.printed.entry(here(process)).or_default();
            *known = known.saturating_add(printed);
        }
        for ((process, comm), Life { begun, ended }) in other.of {
            let moment = |moment: Option<Moment>| moment.map(|moment| moment.after(before));
            let life = self.of.entry((here(process), comm)).or_default();
            if begun.is_some() {
                *life = Life::default();
            }
            life.begun = moment(begun).or(life.begun);
            life.ended = moment(ended).or(life.ended);
        }
        let last = other.last.into_iter();
        self.last
            .extend(last.map(|((process, at), comm)| ((here(process), at), comm)));
    }

    /// Whether a communicator may have lived then.
    pub(crate) fn may(&self, process: u32, comm: &Comm, at: Moment) -> bool {
        let Some(life) = self.of.get(&(process, *comm)) else {
            return true;
        };
        // Which of two inputs came first is not known.
        let edge = |edge: Option<Moment>| edge.filter(|edge| edge.input == at.input);
        edge(life.begun).is_none_or(|begun| begun.inits <= at.inits)
            && edge(life.ended).is_none_or(|ended| at.inits < ended.inits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::comm_id::CommId;

    #[test]
    fn a_communicator_lives_from_its_start_to_its_end() {
        let comm = |comm, id: Option<u64>| Comm {
            comm,
            rank: 0,
            nranks: 2,
            comm_id: id.map(CommId::printed),
        };
        let (a, b) = (comm(1, Some(7)), comm(2, Some(8)));
        let mut lives = Lives::default();
        lives.add(0, 0, (Stage::InitStart, Event::Init), a);
        lives.add(0, 0, (Stage::InitComplete, Event::Init), a);
        lives.add(0, 0, (Stage::InitStart, Event::Init), b);
        lives.add(0, 0, (Stage::DestroyComplete, Event::End), comm(1, None));
        let at = |input, inits| Moment { input, inits };
        let alive = |comm: &Comm| -> Vec<u32> {
            let may = |n: &u32| lives.may(0, comm, at(0, *n));
            (0..6).filter(may).collect()
        };
        assert_eq!(alive(&a), [1, 2, 3]);
        assert_eq!(alive(&b), [3, 4, 5]);
        // Of another input nothing is known.
        assert!(lives.may(0, &b, at(1, 0)));
        assert_eq!(lives.moment(0, 0, 2), at(0, 6));
    }
}
