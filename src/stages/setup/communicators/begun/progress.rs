//! How far the initialisations have come at the end of the log.

use super::{ReachedPhase, SetupPhase, SetupStep};
use crate::stages::net::net_stage::FirstReportLine;
use crate::stages::setup::thread::SpeakerThread;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// A line and its time stamp as printed, which is empty if there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StampedSpot {
    pub(crate) at: FirstReportLine,
    pub(crate) time: Box<[u8]>,
}

/// How far one rank's initialisation has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SetupProgress {
    /// The last phase that its lines show.
    pub(crate) phase: SetupPhase,
    /// Its first line.
    pub(crate) began: Option<StampedSpot>,
    /// The first line of the last phase.
    pub(crate) reached: Option<StampedSpot>,
    /// The line that completes it.
    pub(crate) completed: Option<FirstReportLine>,
    /// The first error that a function of NCCL returned on the way, and its line.
    pub(crate) failed: Option<(i32, FirstReportLine)>,
}

impl SetupProgress {
    /// Returns the progress of a rank that begins.
    pub(in crate::stages::setup::communicators) fn begin_at(spot: StampedSpot) -> SetupProgress {
        SetupProgress {
            began: Some(spot),
            ..SetupProgress::default()
        }
    }

    /// Adds what the next line shows.
    pub(in crate::stages::setup::communicators) fn add_step(
        &mut self,
        step: SetupStep,
        spot: StampedSpot,
    ) {
        match step {
            SetupStep::Failed(code) => {
                self.failed.get_or_insert((code, spot.at));
            }
            SetupStep::Reached(ReachedPhase { phase, .. }) => {
                if self.began.is_none() {
                    self.began = Some(spot.clone());
                }
                if self.reached.is_none() || phase > self.phase {
                    (self.phase, self.reached) = (self.phase.max(phase), Some(spot));
                }
            }
        }
    }

    /// Renumbers the inputs if `inputs` others come before.
    pub(in crate::stages::setup::communicators) fn shift_inputs(
        self,
        inputs: u32,
    ) -> SetupProgress {
        let place = |spot: StampedSpot| StampedSpot {
            at: spot.at.shift_inputs(inputs),
            ..spot
        };
        SetupProgress {
            phase: self.phase,
            began: self.began.map(place),
            reached: self.reached.map(place),
            completed: self.completed.map(|at| at.shift_inputs(inputs)),
            failed: self
                .failed
                .map(|(code, at)| (code, at.shift_inputs(inputs))),
        }
    }

    /// Merges another account of the same rank.
    pub(in crate::stages::setup::communicators) fn merge_account(&mut self, other: SetupProgress) {
        if other.phase > self.phase {
            (self.phase, self.reached) = (other.phase, other.reached);
        }
        self.began = self.began.take().or(other.began);
        self.completed = self.completed.or(other.completed);
        self.failed = self.failed.or(other.failed);
    }

    /// Returns the last line that shows progress.
    pub(crate) fn last_spot(&self) -> Option<&StampedSpot> {
        let both = self.reached.iter().chain(&self.began);
        both.max_by_key(|spot| spot.at)
    }
}

/// An initialisation of an unnamed communicator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnnamedSetup {
    /// The number of the process.
    pub(crate) process: u32,
    /// The rank that prints its lines.
    pub(crate) rank: Option<u32>,
    /// How far it has come.
    pub(crate) progress: SetupProgress,
}

/// The open initialisations of threads without `Init START`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct UnnamedSetups(FxHashMap<SpeakerThread, UnnamedSetup>);

impl UnnamedSetups {
    /// Adds what a line of a thread shows. Only rings and trees begin an initialisation.
    pub(in crate::stages::setup::communicators) fn add_step(
        &mut self,
        thread: SpeakerThread,
        step: SetupStep,
        spot: StampedSpot,
    ) {
        let begins = matches!(step, SetupStep::Reached(ReachedPhase { begins: true, .. }));
        if begins {
            self.0.entry(thread).or_insert_with(|| UnnamedSetup {
                process: thread.process,
                rank: None,
                progress: SetupProgress::default(),
            });
        }
        if let Some(open) = self.0.get_mut(&thread) {
            if let SetupStep::Reached(ReachedPhase { rank, .. }) = step {
                open.rank = open.rank.or(rank);
            }
            open.progress.add_step(step, spot);
        }
    }

    /// Ends a thread's initialisation: an INIT line names the communicator.
    pub(in crate::stages::setup::communicators) fn end_setup(&mut self, thread: SpeakerThread) {
        self.0.remove(&thread);
    }

    /// Adds later inputs that were read elsewhere, after `before` others.
    pub(in crate::stages::setup::communicators) fn merge(
        &mut self,
        other: UnnamedSetups,
        here: impl Fn(u32) -> u32,
        before: u32,
    ) {
        for (thread, open) in other.0 {
            let process = here(thread.process);
            self.0.insert(
                SpeakerThread::new(process, thread.tid),
                UnnamedSetup {
                    process,
                    rank: open.rank,
                    progress: open.progress.shift_inputs(before),
                },
            );
        }
    }

    /// Returns the open ones in the order of their lines, with the real number of each process.
    pub(in crate::stages::setup::communicators) fn into_open(
        self,
        aliases: &[u32],
    ) -> Vec<UnnamedSetup> {
        let real = |open: UnnamedSetup| UnnamedSetup {
            process: aliases[open.process as usize],
            ..open
        };
        let mut open: Vec<UnnamedSetup> = self.0.into_values().map(real).collect();
        open.sort_by_key(|open| (open.progress.began.as_ref().map(|spot| spot.at), open.rank));
        open
    }
}
