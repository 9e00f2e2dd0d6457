//! The calls of a call table's rows, counted by key.

use super::caller::{CallProvenance, Caller};
use super::durations::DurationKinds;
use super::timed::TimedCalls;
use super::times::DurationTotal;
use crate::count::tally::{self, CallKey, CallVolume, TallyCall};
use crate::formats::lines::RowVisitor;
use crate::grammar::values::ByteBasis;
use crate::log::timeline::{PresentSteps, StepWindow};
use crate::members::Interner;
use crate::members::OpInterner;
use crate::output::table::Row;
use rustc_hash::{FxHashMap, FxHasher};
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};

/// Counts by step and key.
type StepKeyMap<T> = FxHashMap<(Option<u64>, CallKey), T>;

/// The rows of a part of a table, or of all tables.
#[derive(Debug, Serialize, Deserialize)]
pub struct RowCounts {
    options: tally::Options,
    /// The steps that count; all rows if none.
    window: Option<StepWindow>,
    /// Operations by number.
    pub(crate) ops: OpInterner,
    /// The callers, by [`CallKey::member`].
    pub(super) who: Interner<Caller>,
    /// The numbers of callers by the hash of their columns.
    rows_by: FxHashMap<u64, u32>,
    /// The counts.
    pub(super) cells: StepKeyMap<CallVolume>,
    /// How long they took, where a tally is exact.
    pub(super) durations: StepKeyMap<DurationTotal>,
    /// How long each took by step, key and kind, if wanted.
    pub(super) times: FxHashMap<(Option<u64>, CallKey, u32), TimedCalls>,
    /// The kinds of `times`.
    pub(super) kinds: DurationKinds,
    /// The steps, if the tally has steps.
    pub present: PresentSteps,
}

impl RowVisitor for RowCounts {
    fn visit_row(&mut self, row: &Row<'_>) {
        if let (true, Some(step)) = (self.options.steps, row.step) {
            self.present.add_step(step, 1);
        }
        let in_window = |window: &StepWindow| row.step.is_some_and(|s| window.contains(s));
        if self.window.as_ref().is_none_or(in_window) {
            self.count_row(row);
        }
    }
}

impl RowCounts {
    /// Nothing counted yet.
    pub fn new(options: &tally::Options, window: Option<StepWindow>) -> RowCounts {
        RowCounts {
            options: options.clone(),
            window,
            ops: OpInterner::default(),
            who: Interner::default(),
            rows_by: FxHashMap::default(),
            cells: FxHashMap::default(),
            durations: FxHashMap::default(),
            times: FxHashMap::default(),
            kinds: DurationKinds::default(),
            present: PresentSteps::default(),
        }
    }

    /// Adds a later part, with the operations numbered by `ops`.
    pub fn merge(&mut self, part: RowCounts, ops: &mut OpInterner) {
        let of_op: Vec<u32> = part.ops.op_names().map(|name| ops.intern(name).0).collect();
        let who = part.who.items().iter().cloned();
        let of_member: Vec<u32> = who.map(|who| self.who.intern(who)).collect();
        let known = |(step, key): (Option<u64>, CallKey)| {
            let op = of_op[key.op as usize];
            let member = of_member.get(key.member as usize).copied().unwrap_or(0);
            (step, CallKey { op, member, ..key })
        };
        for (key, value) in part.cells {
            self.cells.entry(known(key)).or_default().merge(&value);
        }
        for (key, one) in part.durations {
            self.durations.entry(known(key)).or_default().merge(&one);
        }
        let kinds = self.kinds.merge(&part.kinds);
        for ((step, key, kind), one) in part.times {
            let (step, key) = known((step, key));
            let to = (step, key, kinds[kind as usize]);
            self.times.entry(to).or_default().merge(&one);
        }
        self.present.merge(&part.present);
    }

    /// Returns the number of a row's caller.
    fn member_of_row(&mut self, row: &Row<'_>) -> u32 {
        // The fields that equal calls share.
        let (src, timing) = match (self.options.exact, self.options.served) {
            (true, _) => (row.src, row.timing.map(|timing| timing.shared())),
            (false, true) => (&b""[..], row.timing.map(|timing| timing.without_times())),
            (false, false) => (&b""[..], None),
        };
        let is_told = self.options.exact || self.options.served;
        // Looked up without making a key: most callers are known.
        let mut hasher = FxHasher::default();
        (row.host, row.pid, row.dev, row.comm, row.comm_id).hash(&mut hasher);
        (row.rank, row.global_rank).hash(&mut hasher);
        (src, timing).hash(&mut hasher);
        let known = self.rows_by.entry(hasher.finish()).or_insert(u32::MAX);
        if let Some(who) = self.who.items().get(*known as usize)
            && *who.host == *row.host
            && (who.pid, who.dev, who.comm) == (row.pid, row.dev, row.comm)
            && (who.comm_id, who.rank) == (row.comm_id, row.rank)
            && who.global_rank == row.global_rank
            && (!is_told
                || *who.recorded.src == *src
                    && who.recorded.timing_of_calls(None) == timing.unwrap_or_default())
        {
            return *known;
        }
        *known = self.who.intern(Caller {
            host: row.host.into(),
            pid: row.pid,
            dev: row.dev,
            comm: row.comm,
            comm_id: row.comm_id,
            rank: row.rank,
            global_rank: row.global_rank,
            recorded: CallProvenance::new(src, &timing.unwrap_or_default()),
        });
        *known
    }

    fn count_row(&mut self, row: &Row<'_>) {
        let (op, kind) = self.ops.intern(row.op);
        let basis = self.options.basis;
        let bytes = row
            .bytes()
            .and_then(|api| basis.bytes_on_basis(kind, api, row.nranks));
        let who = if self.options.members {
            self.member_of_row(row)
        } else {
            0
        };
        let (count, datatype) = match (row.count, row.only_bytes) {
            (None, Some(bytes)) => (bytes, tally::BYTE_DATATYPE),
            (count, _) => (
                count.unwrap_or(tally::UNKNOWN_SIZE),
                row.datatype.map_or(tally::UNNAMED_DATATYPE, |d| d.0.into()),
            ),
        };
        let key = self.options.key_of_call(&TallyCall {
            op,
            member: who,
            datatype,
            count,
            nranks: row.nranks,
            redop: row.redop.map_or(tally::NO_REDUCTION, |r| r.0),
            root: row.root.unwrap_or(tally::NO_ROOT),
            bytes,
        });
        let step = row.step.filter(|_| self.options.steps);
        let value = self.cells.entry((step, key)).or_default();
        value.add_calls(row.calls, bytes);
        if let (true, Some(dur_ns)) = (self.options.exact, row.times().dur_ns) {
            let all = self.durations.entry((step, key)).or_default();
            all.add_calls(row.calls, dur_ns);
        }
        // A row of several calls has only the sum.
        if let (true, 1, Some(dur_ns)) = (self.options.durations, row.calls, row.times().dur_ns) {
            let on = |basis: ByteBasis| {
                let api = row.bytes()?;
                basis.bytes_on_basis(kind, api, row.nranks)
            };
            let timing = row.times();
            let kind = self.kinds.number_of(row.src, timing.clock, timing.quality);
            let all = self.times.entry((step, key, kind)).or_default();
            all.add_call(dur_ns, on(ByteBasis::Message), on(ByteBasis::Wire));
        }
    }
}
