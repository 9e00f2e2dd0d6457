//! The ranks of a communicator by how far their initialisation has come.

use super::SetupContext;
use super::limits::{MIN_OUTRUN_LINES, OUTRUN_INIT_TIMES};
use crate::grammar::stamp::parse_stamp;
use crate::stages::communicators::begun::{SetupPhase, SetupProgress};
use crate::stages::communicators::{CommunicatorSide, CommunicatorState};
use crate::stages::net::net_stage::FirstReportLine;
use std::collections::{BTreeMap, BTreeSet};

/// A communicator with ranks that had not ended its initialisation.
pub(super) struct OpenCommunicator<'s> {
    /// Its number.
    pub(super) number: usize,
    /// Its size.
    pub(super) nranks: u32,
    /// The sides that began and did not complete.
    pub(super) open: Vec<&'s CommunicatorSide>,
    /// The sides that completed.
    pub(super) done: Vec<&'s CommunicatorSide>,
    /// The ranks that no line names.
    pub(super) missing: BTreeSet<u32>,
}

/// Returns the communicators with ranks that began and did not complete. Only versions with `Init START` (2.18 and
/// later) show them.
pub(super) fn list_open_communicators<'s>(context: &SetupContext<'s>) -> Vec<OpenCommunicator<'s>> {
    let found = context.found;
    let parents: BTreeSet<usize> = found.sides.iter().filter_map(|side| side.parent).collect();
    // A call on a communicator, or a line after `Init COMPLETE`, shows that it completed.
    let is_complete = |at: usize| {
        let side = &found.sides[at];
        side.state != CommunicatorState::Started
            || side.count_calls() > 0
            || side.timing.is_some()
            || parents.contains(&at)
    };
    let mut all = Vec::new();
    for (number, communicator) in found.communicators.iter().enumerate() {
        let (done, open): (Vec<usize>, Vec<usize>) =
            communicator.sides.iter().partition(|&&at| is_complete(at));
        let (Some(nranks), false) = (communicator.nranks, open.is_empty()) else {
            continue;
        };
        let side = |at: &usize| &found.sides[*at];
        let seen: BTreeSet<u32> = communicator
            .sides
            .iter()
            .filter_map(|at| side(at).rank)
            .collect();
        // A rank that is not in its communicator is damage.
        if seen.last().is_none_or(|&last| last >= nranks) {
            continue;
        }
        all.push(OpenCommunicator {
            number,
            nranks,
            open: open.iter().map(side).collect(),
            done: done.iter().map(side).collect(),
            missing: list_missing_ranks(&seen, nranks),
        });
    }
    all
}

/// Returns the ranks that are not among `seen`: all of them only if most are.
fn list_missing_ranks(seen: &BTreeSet<u32>, nranks: u32) -> BTreeSet<u32> {
    match 2 * seen.len() > nranks as usize {
        true => (0..nranks).filter(|rank| !seen.contains(rank)).collect(),
        false => BTreeSet::new(),
    }
}

impl<'s> OpenCommunicator<'s> {
    /// Returns the ranks that did not complete, by their last phase.
    pub(super) fn ranks_by_phase(&self) -> BTreeMap<SetupPhase, BTreeSet<u32>> {
        let mut by_phase: BTreeMap<SetupPhase, BTreeSet<u32>> = BTreeMap::new();
        for side in &self.open {
            let ranks = by_phase.entry(side.progress.phase).or_default();
            ranks.extend(side.rank);
        }
        by_phase
    }

    /// Returns the last line of all its open ranks.
    pub(super) fn last_line(&self) -> Option<FirstReportLine> {
        let spots = self
            .open
            .iter()
            .filter_map(|side| side.progress.last_spot());
        spots.map(|spot| spot.at).max()
    }

    /// True if some ranks completed, and the log has nothing but the first and last lines of the initialisation.
    /// Where it has the lines between them, it may have been cut before its last lines.
    pub(super) fn has_only_ends(&self) -> bool {
        let mut sides = self.done.iter().chain(&self.open);
        let began = |side: &&CommunicatorSide| side.progress.began.is_some();
        !self.done.is_empty()
            && self.done.iter().any(began)
            && sides.all(|side| side.progress.phase == SetupPhase::Bootstrap)
    }

    /// Returns an open side; after its last line the log has far more lines than any rank needed for its whole
    /// initialisation. Others completed: they cannot do so before all ranks have come to the last phase. Where some
    /// of those have no line yet, lines come late.
    pub(super) fn find_outrun_side(
        &self,
        context: &SetupContext<'_>,
    ) -> Option<&'s CommunicatorSide> {
        let lines_of = |side: &&CommunicatorSide| {
            let (began, end) = (side.progress.began.as_ref()?.at, side.progress.completed?);
            (began.input == end.input).then(|| end.line.saturating_sub(began.line))
        };
        let whole = self.done.iter().filter_map(lines_of).max();
        let seen = self.done.len() + self.open.len();
        let whole = whole.filter(|_| seen >= self.nranks as usize)?;
        let usual = whole
            .saturating_mul(OUTRUN_INIT_TIMES)
            .max(MIN_OUTRUN_LINES);
        let is_outrun = |side: &&&CommunicatorSide| {
            let last = context.last_lines.get(&side.process).copied();
            let last = last.max(side.progress.last_spot().map(|spot| spot.at));
            let lines = |at: FirstReportLine| {
                let account = context.accounts.get(at.input as usize)?;
                Some(account.lines.saturating_sub(at.line + 1))
            };
            last.and_then(lines).is_some_and(|lines| lines > usual)
        };
        self.open.iter().find(is_outrun).copied()
    }

    /// Returns the seconds from the last line of the open rank that is silent for longest to the last line of the
    /// log, if both have time stamps with a date.
    pub(super) fn silent_seconds(&self, context: &SetupContext<'_>) -> Option<f64> {
        let end = parse_stamp(context.net.all.sockets.last_time())?;
        let silent = self.open.iter().filter_map(|side| {
            let own = parse_stamp(&side.progress.last_spot()?.time)?;
            Some((end.ns - own.ns) as f64 / 1e9)
        });
        silent.max_by(f64::total_cmp)
    }

    /// Returns two processes that are the same rank: each rank of a communicator is one process.
    pub(super) fn find_doubled_rank(&self) -> Option<(u32, [&'s CommunicatorSide; 2])> {
        let mut by_rank: BTreeMap<u32, &'s CommunicatorSide> = BTreeMap::new();
        for &side in self.done.iter().chain(&self.open) {
            let Some(rank) = side.rank else { continue };
            match by_rank.get(&rank) {
                Some(&first) if first.process != side.process => {
                    return Some((rank, [first, side]));
                }
                _ => {
                    by_rank.insert(rank, side);
                }
            }
        }
        None
    }

    /// Returns the first error that a function returned to an open rank.
    pub(super) fn find_returned_error(
        &self,
    ) -> Option<(&'s CommunicatorSide, i32, FirstReportLine)> {
        let failed = self.open.iter().filter_map(|&side| {
            let (code, at) = side.progress.failed?;
            Some((side, code, at))
        });
        failed.min_by_key(|failed| failed.2)
    }

    /// True if no open rank has come further than the bootstrap, in which each waits for all.
    pub(super) fn is_in_bootstrap(&self) -> bool {
        self.open
            .iter()
            .all(|side| side.progress.phase == SetupPhase::Bootstrap)
    }
}

/// True if a communicator of the log began after `last`, in the same input, and completed.
pub(super) fn completes_later(context: &SetupContext<'_>, last: FirstReportLine) -> bool {
    context.found.sides.iter().any(|side| {
        let SetupProgress { began, .. } = &side.progress;
        let later = began
            .as_ref()
            .is_some_and(|spot| spot.at.input == last.input && spot.at > last);
        later && side.state.is_set_up()
    })
}
