//! Lifetimes of a process's communicators, bounded by its INIT lines.
//!
//! A line that does not name its communicator can only be about one that had begun and not ended when it
//! was printed. The lines of a process keep their order within an input, even with lines of others between
//! them.

use super::fold::NetComm;
use crate::grammar::message::communicator::init::{InitEvent, InitStage};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Moment in the log of a process.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct InitMoment {
    /// The input's number.
    pub input: u32,
    /// Number of INIT lines printed before.
    pub inits: u32,
}

impl InitMoment {
    /// Renumbers the input if `inputs` others come before.
    pub(crate) fn shift_inputs(self, inputs: u32) -> InitMoment {
        InitMoment {
            input: self.input.saturating_add(inputs),
            ..self
        }
    }
}

/// Lifetime of a communicator, as far as its lines show it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct CommLifetime {
    begun: Option<InitMoment>,
    ended: Option<InitMoment>,
}

/// Lifetimes of all processes' communicators.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct CommLifetimes {
    printed: FxHashMap<u32, u32>,
    of: FxHashMap<(u32, NetComm), CommLifetime>,
    last: FxHashMap<(u32, u64), NetComm>,
}

impl CommLifetimes {
    /// Returns the moment of a process after `inits` INIT lines of the current chunk.
    pub(crate) fn moment(&self, process: u32, input: u32, inits: u32) -> InitMoment {
        let before = self.printed.get(&process).copied().unwrap_or(0);
        InitMoment {
            input,
            inits: before.saturating_add(inits),
        }
    }

    /// Adds the next INIT line of a process.
    pub(crate) fn add_init_line(
        &mut self,
        process: u32,
        input: u32,
        stage: InitStage,
        event: InitEvent,
        comm: NetComm,
    ) {
        let printed = self.printed.entry(process).or_default();
        *printed = printed.saturating_add(1);
        let now = InitMoment {
            input,
            inits: *printed,
        };
        let at = (process, comm.comm);
        if event != InitEvent::Init {
            if let Some(comm) = self.last.get(&at)
                && let Some(life) = self.of.get_mut(&(process, *comm))
            {
                life.ended = Some(now);
            }
            return;
        }
        self.last.insert(at, comm);
        let begun = (stage == InitStage::InitStart).then_some(now);
        self.of
            .entry((process, comm))
            // Without an id, a reused address looks like the same communicator.
            .and_modify(|life| {
                if begun.is_some() {
                    *life = CommLifetime::default();
                }
            })
            .or_insert(CommLifetime { begun, ended: None });
    }

    /// Adds inputs that come after `before` others; `here` renumbers processes.
    pub(crate) fn merge(&mut self, other: CommLifetimes, here: impl Fn(u32) -> u32, before: u32) {
        for (process, printed) in other.printed {
            let known = self.printed.entry(here(process)).or_default();
            *known = known.saturating_add(printed);
        }
        for ((process, comm), CommLifetime { begun, ended }) in other.of {
            let moment =
                |moment: Option<InitMoment>| moment.map(|moment| moment.shift_inputs(before));
            let life = self.of.entry((here(process), comm)).or_default();
            if begun.is_some() {
                *life = CommLifetime::default();
            }
            life.begun = moment(begun).or(life.begun);
            life.ended = moment(ended).or(life.ended);
        }
        let last = other.last.into_iter();
        self.last
            .extend(last.map(|((process, at), comm)| ((here(process), at), comm)));
    }

    /// True if a communicator may have lived at that moment.
    pub(crate) fn may_live_at(&self, process: u32, comm: &NetComm, at: InitMoment) -> bool {
        let Some(life) = self.of.get(&(process, *comm)) else {
            return true;
        };
        // The order of two inputs is unknown.
        let edge = |edge: Option<InitMoment>| edge.filter(|edge| edge.input == at.input);
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
        let comm = |comm, id: Option<u64>| NetComm {
            comm,
            rank: 0,
            nranks: 2,
            comm_id: id.map(CommId::from_printed),
        };
        let (a, b) = (comm(1, Some(7)), comm(2, Some(8)));
        let mut lives = CommLifetimes::default();
        lives.add_init_line(0, 0, InitStage::InitStart, InitEvent::Init, a);
        lives.add_init_line(0, 0, InitStage::InitComplete, InitEvent::Init, a);
        lives.add_init_line(0, 0, InitStage::InitStart, InitEvent::Init, b);
        lives.add_init_line(
            0,
            0,
            InitStage::DestroyComplete,
            InitEvent::End,
            comm(1, None),
        );
        let at = |input, inits| InitMoment { input, inits };
        let alive = |comm: &NetComm| -> Vec<u32> {
            let may = |n: &u32| lives.may_live_at(0, comm, at(0, *n));
            (0..6).filter(may).collect()
        };
        assert_eq!(alive(&a), [1, 2, 3]);
        assert_eq!(alive(&b), [3, 4, 5]);
        // Of another input nothing is known.
        assert!(lives.may_live_at(0, &b, at(1, 0)));
        assert_eq!(lives.moment(0, 0, 2), at(0, 6));
    }
}
