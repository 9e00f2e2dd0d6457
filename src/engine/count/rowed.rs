//! The calls of a call table's rows, counted by what tells them apart.

use super::durations::Clocks;
use super::timed::Timed;
use super::times::Total;
use super::who::{Recorded, Who};
use crate::count::tally::{self, Counted, Key, Value};
use crate::formats::lines::Rows;
use crate::grammar::values::Basis;
use crate::log::timeline::{Present, Window};
use crate::members::Interner;
use crate::members::Ops;
use crate::output::table::Row;
use rustc_hash::{FxHashMap, FxHasher};
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};

/// Counts by step and key.
type By<T> = FxHashMap<(Option<u64>, Key), T>;

/// The rows of a part of a table, or of all tables.
#[derive(Debug, Serialize, Deserialize)]
pub struct Rowed {
    options: tally::Options,
    /// The steps that count; all rows if none.
    window: Option<Window>,
    /// Operations by number.
    pub(crate) ops: Ops,
    /// Who made calls, by the number in [`Key::member`].
    pub(super) who: Interner<Who>,
    /// Who made a row's calls, by the hash of who that is.
    rows_by: FxHashMap<u64, u32>,
    /// The counts.
    pub(super) cells: By<Value>,
    /// How long they took, where a tally is exact.
    pub(super) durations: By<Total>,
    /// How long each took, where that is asked for.
    pub(super) times: By<Timed>,
    /// Whose clocks measured them.
    pub(super) clocks: Clocks,
    /// The steps, where they are told apart.
    pub present: Present,
}

impl Rows for Rowed {
    fn row(&mut self, row: &Row<'_>) {
        if let (true, Some(step)) = (self.options.steps, row.step) {
            self.present.step(step, 1);
        }
        let in_window = |window: &Window| row.step.is_some_and(|s| window.contains(s));
        if self.window.as_ref().is_none_or(in_window) {
            self.add(row);
        }
    }
}

impl Rowed {
    /// Nothing counted yet.
    pub fn new(options: &tally::Options, window: Option<Window>) -> Rowed {
        Rowed {
            options: options.clone(),
            window,
            ops: Ops::default(),
            who: Interner::default(),
            rows_by: FxHashMap::default(),
            cells: FxHashMap::default(),
            durations: FxHashMap::default(),
            times: FxHashMap::default(),
            clocks: Clocks::default(),
            present: Present::default(),
        }
    }

    /// Adds what follows, with the operations numbered by `ops`.
    pub fn merge(&mut self, part: Rowed, ops: &mut Ops) {
        let of_op: Vec<u32> = part.ops.names().map(|name| ops.intern(name).0).collect();
        let who = part.who.items().iter().cloned();
        let of_member: Vec<u32> = who.map(|who| self.who.intern(who)).collect();
        let known = |(step, key): (Option<u64>, Key)| {
            let op = of_op[key.op as usize];
            let member = of_member.get(key.member as usize).copied().unwrap_or(0);
            (step, Key { op, member, ..key })
        };
        for (key, value) in part.cells {
            self.cells.entry(known(key)).or_default().merge(&value);
        }
        for (key, one) in part.durations {
            self.durations.entry(known(key)).or_default().merge(&one);
        }
        for (key, one) in part.times {
            self.times.entry(known(key)).or_default().merge(&one);
        }
        self.clocks.merge(&part.clocks);
        self.present.merge(&part.present);
    }

    /// The number of who made a row's calls.
    fn member(&mut self, row: &Row<'_>) -> u32 {
        // What calls share that are counted as one.
        let (src, timing) = match (self.options.exact, self.options.served) {
            (true, _) => (row.src, row.timing.map(|timing| timing.shared())),
            (false, true) => (&b""[..], row.timing.map(|timing| timing.tuned())),
            (false, false) => (&b""[..], None),
        };
        let is_told = self.options.exact || self.options.served;
        // Looked up without making a key: most rows are by someone known.
        let mut hasher = FxHasher::default();
        (row.host, row.pid, row.dev, row.comm, row.comm_id, row.rank).hash(&mut hasher);
        (src, timing).hash(&mut hasher);
        let known = self.rows_by.entry(hasher.finish()).or_insert(u32::MAX);
        if let Some(who) = self.who.items().get(*known as usize)
            && *who.host == *row.host
            && (who.pid, who.dev, who.comm) == (row.pid, row.dev, row.comm)
            && (who.comm_id, who.rank) == (row.comm_id, row.rank)
            && (!is_told
                || *who.recorded.src == *src
                    && who.recorded.timing(None) == timing.unwrap_or_default())
        {
            return *known;
        }
        *known = self.who.intern(Who {
            host: row.host.into(),
            pid: row.pid,
            dev: row.dev,
            comm: row.comm,
            comm_id: row.comm_id,
            rank: row.rank,
            recorded: Recorded::new(src, &timing.unwrap_or_default()),
        });
        *known
    }

    fn add(&mut self, row: &Row<'_>) {
        let (op, kind) = self.ops.intern(row.op);
        let basis = self.options.basis;
        let bytes = row.bytes().and_then(|api| basis.of(kind, api, row.nranks));
        let who = if self.options.members {
            self.member(row)
        } else {
            0
        };
        let (count, datatype) = match (row.count, row.only_bytes) {
            (None, Some(bytes)) => (bytes, tally::BYTES),
            (count, _) => (
                count.unwrap_or(0),
                row.datatype.map_or(tally::NO_TYPE, |d| d.0.into()),
            ),
        };
        let key = self.options.key_of(&Counted {
            op,
            member: who,
            datatype,
            count,
            nranks: row.nranks,
            redop: row.redop.map_or(tally::NONE, |r| r.0),
            root: row.root.unwrap_or(tally::NO_ROOT),
            bytes,
        });
        let step = row.step.filter(|_| self.options.steps);
        let value = self.cells.entry((step, key)).or_default();
        value.add(row.calls, bytes);
        if let (true, Some(dur_ns)) = (self.options.exact, row.times().dur_ns) {
            let all = self.durations.entry((step, key)).or_default();
            all.add(row.calls, dur_ns);
        }
        // Of several calls a row has only the sum.
        if let (true, 1, Some(dur_ns)) = (self.options.durations, row.calls, row.times().dur_ns) {
            let on = |basis: Basis| {
                let api = row.bytes()?;
                basis.of(kind, api, row.nranks)
            };
            let all = self.times.entry((step, key)).or_default();
            all.add(dur_ns, on(Basis::Message), on(Basis::Wire));
            let timing = row.times();
            self.clocks.add(row.src, timing.clock, timing.quality);
        }
    }
}
