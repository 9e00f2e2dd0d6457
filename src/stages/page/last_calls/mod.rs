//! The last calls of the job's ranks beside each other, and those that not all ranks have made.
//!
//! | | |
//! |---|---|
//! | `tail` | the last calls of each rank, of those that the walk keeps |
//! | `columns` | alike calls of different ranks get one column |
//! | `waits` | the calls that ranks wait in, in words |
//! | `rows` | the rows that are drawn |

mod columns;
mod rows;
mod tail;
mod waits;

use crate::count::calls::CountedCalls;
use crate::error::escape::escape_markup;
use crate::stages::check::CheckSummary;
use crate::stages::check::finding::{Finding, Severity};
use crate::stages::check::ranks::names::RankNames;
use crate::stages::check::walk::CheckGathered;
use crate::stages::communicators::{CommunicatorsSummary, JobGpu};
use crate::stages::page::limits::LAST_CALLS_PER_RANK;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use tail::{CallWords, SideCalls, TailCall};

/// The last calls of the ranks.
#[derive(Debug, Default)]
pub struct LastCalls {
    /// The ranks with a row, in order.
    pub ranks: Vec<RankRow>,
    /// How many ranks have no row.
    pub left_out: usize,
    /// How many columns the rows have.
    pub columns: usize,
    /// The kinds of communicators, those with the most calls here first.
    pub kinds: Vec<CommunicatorGroup>,
    /// True where the check has an error: the calls that not all members made are marked.
    pub is_stuck: bool,
    /// Calls that ranks wait in, in the order of their columns: the call, and the ranks.
    pub waits: Vec<(String, String)>,
    /// Ranks lack calls of others, and none of them is one that an error names: hosts may run ahead of their GPUs.
    pub is_ahead: bool,
}

/// Communicators of one purpose and size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommunicatorGroup {
    /// Their purpose.
    pub label: &'static str,
    /// Their size.
    pub nranks: Option<u32>,
    /// How many there are.
    pub communicators: usize,
}

/// A rank's row.
#[derive(Debug, Default)]
pub struct RankRow {
    /// `rank 12`.
    pub name: String,
    /// Its host.
    pub host: String,
    /// `stopped`, `failed`, `differs` or `error`, where an error names it.
    pub mark: Option<&'static str>,
    /// Its last calls, as far as they are drawn.
    pub calls: Vec<DrawnCall>,
    /// The last of all.
    pub last: Option<DrawnCall>,
    /// The first of them that not all members have made alike.
    pub unmet: Option<usize>,
    /// Calls in which drawn ranks wait for it: the column, and the call.
    pub missing: BTreeMap<usize, String>,
}

/// A call with its place.
#[derive(Debug)]
pub struct DrawnCall {
    /// Its column.
    pub column: usize,
    /// Its kind of communicator: an index in [`LastCalls::kinds`].
    pub kind: usize,
    /// What it is: one for all ranks that make the call.
    pub text: Arc<CallText>,
}

/// A call in words, as markup has them.
#[derive(Debug)]
pub struct CallText {
    /// `AllReduce of 1 fp32 sum, call 157 of 0x5aa5 (tensor, 8 ranks), step 5`.
    pub with_step: String,
    /// Where the step begins.
    words_end: usize,
    /// The trainer's step.
    pub step: Option<u64>,
}

impl CallText {
    /// Makes the text of a call.
    fn new(words: &str, step: Option<u64>) -> CallText {
        let mut with_step = escape_markup(words);
        let words_end = with_step.len();
        if let Some(step) = step {
            let _ = write!(with_step, ", step {step}");
        }
        CallText {
            with_step,
            words_end,
            step,
        }
    }

    /// Returns the words without the step.
    pub fn without_step(&self) -> &str {
        &self.with_step[..self.words_end]
    }
}

/// A rank and its last calls.
struct RankTail {
    gpu: JobGpu,
    rank: Option<u32>,
    mark: Option<&'static str>,
    calls: Vec<TailCall>,
    unmet: Option<usize>,
}

impl RankTail {
    /// Keeps as many calls as are drawn: the last ones, and those around the one that it waits in.
    fn keep_drawn_calls(&mut self) {
        let last = self.calls.len().saturating_sub(LAST_CALLS_PER_RANK);
        let before = |at: usize| at.saturating_sub(LAST_CALLS_PER_RANK / 2);
        let first = self.unmet.map_or(last, |at| before(at).min(last));
        self.calls.drain(..first);
        self.unmet = self.unmet.map(|at| at - first);
    }
}

/// Gathers the last calls of all ranks; `None` where calls of fewer than two ranks are known.
pub(super) fn gather_last_calls(
    seen: &CheckGathered,
    counted: &CountedCalls,
    checked: &CheckSummary,
) -> Option<LastCalls> {
    let sides = SideCalls::new(&seen.found, &seen.streams);
    let names = RankNames { found: &seen.found };
    let is_error = |finding: &&Finding| finding.severity == Severity::Error;
    let errors: Vec<&Finding> = checked.findings.iter().filter(is_error).collect();
    let of_rank = |(gpu, calls): (JobGpu, Vec<TailCall>)| {
        let side = calls.iter().map(|call| call.place.side);
        let rank = side
            .into_iter()
            .find_map(|side| names.job_rank_of_side(side));
        RankTail {
            gpu,
            rank,
            mark: mark_of_rank(&errors, rank, gpu.0, &seen.found),
            calls,
            unmet: None,
        }
    };
    // Without an error no rank waits, and only the calls that are drawn matter.
    let most = match errors.is_empty() {
        true => LAST_CALLS_PER_RANK,
        false => usize::MAX,
    };
    let last = sides.list_last_calls(seen, most);
    let mut ranks: Vec<RankTail> = last.into_iter().map(of_rank).collect();
    if ranks.len() < 2 {
        return None;
    }
    ranks.sort_by_key(|rank| (rank.rank.unwrap_or(u32::MAX), rank.gpu));
    for rank in &mut ranks {
        // One that stopped waits for nobody.
        if !errors.is_empty() && !matches!(rank.mark, Some("stopped" | "failed")) {
            rank.unmet = rank
                .calls
                .iter()
                .position(|call| checked.unmet.contains(&call.place));
        }
        rank.keep_drawn_calls();
    }
    let is_ahead = lacks_named_ranks(&ranks, &sides);
    if is_ahead {
        ranks.iter_mut().for_each(|rank| rank.unmet = None);
    }
    let words = CallWords::new(counted);
    let rows = rows::RowBuilder {
        sides: &sides,
        words: &words,
    };
    let layout = rows.place_calls(&ranks);
    let drawn = rows.draw_rows(&layout);
    Some(LastCalls {
        is_ahead,
        is_stuck: !errors.is_empty(),
        waits: waits::list_waits(
            &ranks,
            &sides,
            &words,
            layout
                .iter_waits()
                .map(|(_, call, from_end)| (call, from_end)),
        ),
        left_out: ranks.len() - drawn.ranks.len(),
        ..drawn
    })
}

/// True if errors name ranks, and calls of others are missing, but none of these ranks lacks one or made one that differs.
fn lacks_named_ranks(ranks: &[RankTail], sides: &SideCalls<'_>) -> bool {
    let waited = ranks.iter().filter_map(|rank| rank.calls.get(rank.unmet?));
    let absent = waited.flat_map(|call| sides.list_absent_sides(call));
    let absent: BTreeSet<JobGpu> = absent.map(|side| sides.gpu_of(side)).collect();
    let mut named = ranks.iter().filter(|rank| rank.mark.is_some()).peekable();
    let is_any = named.peek().is_some() && ranks.iter().any(|rank| rank.unmet.is_some());
    is_any && named.all(|rank| rank.unmet.is_none() && !absent.contains(&rank.gpu))
}

/// Returns the word for a rank that an error names.
fn mark_of_rank(
    errors: &[&Finding],
    rank: Option<u32>,
    process: u32,
    found: &CommunicatorsSummary,
) -> Option<&'static str> {
    let is_named = |finding: &&&Finding| {
        let about = &finding.about;
        let host = about.host.as_deref();
        let side = host.and_then(|host| found.sides_of_process(host, about.pid).first());
        let is_process = side.map(|&side| found.sides[side].process == process);
        match (about.global_rank, rank) {
            // The rank may be that of another job; a process that no line of NCCL names may be any.
            (Some(named), Some(rank)) => named == rank && is_process != Some(false),
            _ => about.pid.is_some() && is_process == Some(true),
        }
    };
    let finding = errors.iter().find(is_named)?;
    Some(match finding.kind {
        kind if kind.is_stop() => "stopped",
        kind if kind.is_first_failure() => "failed",
        _ if finding.about.seq.is_some() => "differs",
        _ => "error",
    })
}
