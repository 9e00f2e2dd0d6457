//! The rows that are drawn: which ranks, which calls, and in which columns.

use super::columns::{SharedCall, place_from_end};
use super::tail::{CallWords, SideCalls, TailCall};
use super::waits::name_rank;
use super::{CallText, CommunicatorGroup, DrawnCall, LastCalls, RankRow, RankTail};
use crate::calls::same::{Sequence, SequenceKind, StreamKind};
use crate::stages::communicators::JobGpu;
use crate::stages::page::limits::{MAX_CALL_COLUMNS, MAX_DRAWN_RANKS, MIN_MARKED_CALLS};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Makes the rows.
pub(super) struct RowBuilder<'a> {
    pub(super) sides: &'a SideCalls<'a>,
    pub(super) words: &'a CallWords<'a>,
}

/// The sequence of a call; with a side, no other rank is known to share it.
type CallSequence = Sequence<(usize, Option<usize>)>;

/// The ranks with a row, and the places of their calls.
pub(super) struct RowLayout<'r> {
    ranks: Vec<&'r RankTail>,
    /// The column of each call, from the last one.
    from_end: Vec<Vec<usize>>,
    columns: usize,
    /// Columns at the end that are not drawn.
    skipped: usize,
}

impl RowLayout<'_> {
    /// Returns the calls that drawn ranks wait in, with their columns from the last one.
    pub(super) fn iter_waits(&self) -> impl Iterator<Item = (&RankTail, &TailCall, usize)> {
        let rows = self.ranks.iter().zip(&self.from_end);
        rows.filter_map(|(rank, from_end)| {
            let at = rank.unmet?;
            Some((*rank, &rank.calls[at], from_end[at]))
        })
    }

    /// The drawn column of a place from the end.
    fn column_of(&self, from_end: usize) -> Option<usize> {
        let shown = from_end.checked_sub(self.skipped)?;
        self.columns.checked_sub(shown + 1)
    }
}

impl RowBuilder<'_> {
    /// Places the calls of the ranks that errors name, of those that others wait for, of those that wait where the fewest
    /// wait, and of as many others as fit.
    pub(super) fn place_calls<'r>(&self, ranks: &'r [RankTail]) -> RowLayout<'r> {
        let ranks = self.choose_ranks(ranks);
        let mut numbers: FxHashMap<CallSequence, u32> = FxHashMap::default();
        let mut shared = |call: &TailCall| -> SharedCall {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            let number = numbers.entry(self.sequence_of(call)).or_insert(next);
            (*number, call.place.seq)
        };
        let calls = ranks
            .iter()
            .map(|rank| rank.calls.iter().map(&mut shared).collect());
        let calls: Vec<Vec<SharedCall>> = calls.collect();
        let mut missing = vec![FxHashSet::default(); ranks.len()];
        for (rank, shared) in ranks.iter().zip(&calls) {
            let Some(unmet) = rank.unmet else { continue };
            for row in self.list_absent_rows(&ranks, &rank.calls[unmet]) {
                missing[row].insert(shared[unmet]);
            }
        }
        let from_end = place_from_end(&calls, missing);
        // The calls that ranks wait in may be long before the last ones that they enqueued.
        let waits = ranks.iter().zip(&from_end);
        let first = waits.filter_map(|(rank, from_end)| Some(from_end[rank.unmet?]));
        let first = first.max().unwrap_or(0) + MIN_MARKED_CALLS;
        let skipped = first.saturating_sub(MAX_CALL_COLUMNS);
        RowLayout {
            columns: choose_columns(&ranks, &from_end, skipped),
            ranks,
            from_end,
            skipped,
        }
    }

    /// Lists the rows of the ranks that have not made their part of a call: of those that errors name, if they name any,
    /// since the hosts of others stop later for that reason.
    fn list_absent_rows(&self, ranks: &[&RankTail], call: &TailCall) -> Vec<usize> {
        let absent = self.sides.list_absent_sides(call).into_iter();
        let has_named = ranks.iter().any(|rank| rank.mark.is_some());
        let is_shown = |rank: &RankTail| rank.mark.is_some() || !has_named;
        let row = |gpu| {
            ranks
                .iter()
                .position(|rank| rank.gpu == gpu && is_shown(rank))
        };
        absent
            .filter_map(|side| row(self.sides.gpu_of(side)))
            .collect()
    }

    /// Chooses the ranks with a row, in their order.
    fn choose_ranks<'r>(&self, ranks: &'r [RankTail]) -> Vec<&'r RankTail> {
        let waited = |rank: &RankTail| {
            let call = *rank.unmet.and_then(|at| rank.calls.get(at))?;
            Some(((call.communicator, call.place.way, call.place.seq), call))
        };
        let mut waiting: BTreeMap<_, (usize, TailCall)> = BTreeMap::new();
        for (key, call) in ranks.iter().filter_map(waited) {
            waiting.entry(key).or_insert((0, call)).0 += 1;
        }
        let calls = waiting.values().map(|(_, call)| call);
        let absent = calls.flat_map(|call| self.sides.list_absent_sides(call));
        let absent: BTreeSet<JobGpu> = absent.map(|side| self.sides.gpu_of(side)).collect();
        let mut all: Vec<(usize, &RankTail)> = ranks.iter().enumerate().collect();
        all.sort_by_key(|(at, rank)| {
            // A rank that waits itself is awaited for that reason.
            let is_awaited = rank.unmet.is_none() && absent.contains(&rank.gpu);
            let others = waited(rank).map_or(usize::MAX, |(key, _)| waiting[&key].0);
            (rank.mark.is_none(), !is_awaited, others, *at)
        });
        all.truncate(MAX_DRAWN_RANKS);
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, rank)| rank).collect()
    }

    /// Makes the rows.
    pub(super) fn draw_rows(&self, layout: &RowLayout<'_>) -> LastCalls {
        let (kinds, kind_of) = self.list_kinds(&layout.ranks);
        let found = self.sides.found;
        let mut texts: FxHashMap<TailCall, Arc<CallText>> = FxHashMap::default();
        let mut draw = |(rank, from_end): (&&RankTail, &Vec<usize>)| {
            let mut drawn_at = |call: &TailCall, column| DrawnCall {
                column,
                kind: kind_of.get(&call.communicator).copied().unwrap_or(0),
                text: Arc::clone(texts.entry(call.without_side()).or_insert_with(|| {
                    let words = self.words.describe_in_communicator(call, self.sides);
                    Arc::new(CallText::new(&words, call.step))
                })),
            };
            let call = |(at, (call, from_end)): (usize, (&TailCall, &usize))| {
                Some((at, drawn_at(call, layout.column_of(*from_end)?)))
            };
            let drawn = (0..).zip(rank.calls.iter().zip(from_end));
            let drawn: Vec<(usize, DrawnCall)> = drawn.filter_map(call).collect();
            let host = &found.processes[rank.gpu.0 as usize].host;
            RankRow {
                name: name_rank(rank, found),
                host: String::from_utf8_lossy(host).into_owned(),
                mark: rank.mark,
                unmet: rank
                    .unmet
                    .and_then(|unmet| drawn.iter().position(|(at, _)| *at == unmet)),
                calls: drawn.into_iter().map(|(_, call)| call).collect(),
                last: rank.calls.last().map(|call| drawn_at(call, layout.columns)),
                ..RankRow::default()
            }
        };
        let rows = layout.ranks.iter().zip(&layout.from_end);
        let mut rows: Vec<RankRow> = rows.map(&mut draw).collect();
        for (rank, call, from_end) in layout.iter_waits() {
            let Some(column) = layout.column_of(from_end) else {
                continue;
            };
            let text = match (
                self.words.describe_in_communicator(call, self.sides),
                call.place.way,
            ) {
                (text, StreamKind::Collective) => text,
                (text, StreamKind::Send(_) | StreamKind::Recv(_)) => {
                    let who = name_rank(rank, found);
                    format!("the other end of {who}'s {text}")
                }
            };
            for row in self.list_absent_rows(&layout.ranks, call) {
                // In a circle a rank waits elsewhere in the same column.
                let row: &mut RankRow = &mut rows[row];
                if row.calls.iter().all(|own| own.column != column) {
                    row.missing.insert(column, text.clone());
                }
            }
        }
        LastCalls {
            ranks: rows,
            columns: layout.columns,
            kinds,
            ..LastCalls::default()
        }
    }

    /// Returns the sequence of a call; one of its own rank alone where the calls of others have other numbers.
    fn sequence_of(&self, call: &TailCall) -> CallSequence {
        let rank = self.sides.found.sides[call.place.side].rank;
        let is_shared = self.sides.is_shared(call.communicator)
            && (rank.is_some() || call.place.way == StreamKind::Collective);
        let comm = (call.communicator, (!is_shared).then_some(call.place.side));
        match rank {
            Some(own) => call.place.way.sequence_of(comm, own.into()),
            None => Sequence {
                comm,
                kind: SequenceKind::Collective,
            },
        }
    }

    /// Returns the kinds of communicators of these ranks' calls, and each communicator's kind.
    fn list_kinds(&self, ranks: &[&RankTail]) -> (Vec<CommunicatorGroup>, FxHashMap<usize, usize>) {
        let all = &self.sides.found.communicators;
        let kind = |at: usize| (all[at].label.of.name(), all[at].nranks);
        let mut calls_of = vec![0; all.len()];
        for call in ranks.iter().flat_map(|rank| &rank.calls) {
            calls_of[call.communicator] += 1;
        }
        let mut calls: FxHashMap<_, usize> = FxHashMap::default();
        for (at, calls_of) in calls_of.into_iter().enumerate().filter(|of| of.1 > 0) {
            *calls.entry(kind(at)).or_default() += calls_of;
        }
        let mut kinds: Vec<_> = calls.into_iter().collect();
        kinds.sort_by_key(|&(kind, calls)| (Reverse(calls), kind));
        let mut groups: Vec<CommunicatorGroup> = Vec::new();
        let mut kind_of = FxHashMap::default();
        for (number, (of, _)) in kinds.into_iter().enumerate() {
            let own: Vec<usize> = (0..all.len()).filter(|&at| kind(at) == of).collect();
            groups.push(CommunicatorGroup {
                label: of.0,
                nranks: of.1,
                communicators: own.len(),
            });
            kind_of.extend(own.into_iter().map(|at| (at, number)));
        }
        (groups, kind_of)
    }
}

/// Returns the number of columns: as many as two ranks reach, and some calls of each rank that an error names.
fn choose_columns(ranks: &[&RankTail], from_end: &[Vec<usize>], skipped: usize) -> usize {
    let most = from_end.iter().flatten().max();
    let mut rows_of_column = vec![0_u32; most.map_or(0, |most| most + 1)];
    for &column in from_end.iter().flatten() {
        rows_of_column[column] += 1;
    }
    let shared = rows_of_column.iter().rposition(|rows| *rows > 1);
    let marked = ranks
        .iter()
        .zip(from_end)
        .filter(|(rank, _)| rank.mark.is_some());
    let marked =
        marked.filter_map(|(_, columns)| columns.iter().rev().take(MIN_MARKED_CALLS).max());
    let last = shared.into_iter().chain(marked.copied()).max();
    let last = last.unwrap_or(0) + 1;
    last.saturating_sub(skipped).clamp(1, MAX_CALL_COLUMNS)
}
