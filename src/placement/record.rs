//! One chunk's calls as the walk meets them: short records by process, in line order.

use super::streams::Kind;
use crate::scan::{Call, Visit};
use crate::tally::Ops;
use rustc_hash::FxHashMap;

/// Kinds that are found again without a hash table; a power of two.
const RECENT: usize = 1024;

/// A chunk's calls by process.
#[derive(Debug)]
pub struct Recorder {
    pub(super) ops: Ops,
    /// The kinds of calls met, by number; members and operations as the chunk numbers them.
    pub(super) kinds: Vec<Kind>,
    index: FxHashMap<Kind, u32>,
    recent: Vec<u32>,
    /// By the chunk's process.
    pub(super) lists: Vec<List>,
    touched: Vec<u32>,
    /// Where each call's line is, too.
    lines: bool,
    gap: u32,
    /// For each slot: its gap, and how many calls each process had made.
    pub(super) slots: Vec<(u32, Box<[u32]>)>,
}

/// One process's calls in a chunk, in line order.
#[derive(Debug, Default)]
pub(super) struct List {
    /// The number of each call's kind.
    pub(super) kinds: Vec<u32>,
    /// Each call's elements.
    pub(super) counts: Vec<u64>,
    /// Where each call is in the input, if that is wanted.
    pub(super) at: Vec<u64>,
    /// (gap, calls up to its end), of gaps with calls.
    pub(super) ends: Vec<(u32, u32)>,
    is_touched: bool,
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder {
            ops: Ops::default(),
            kinds: Vec::new(),
            index: FxHashMap::default(),
            recent: vec![u32::MAX; RECENT],
            lists: Vec::new(),
            touched: Vec::new(),
            lines: false,
            gap: 0,
            slots: Vec::new(),
        }
    }
}

impl Recorder {
    /// Keeps where each call's line is.
    pub fn with_lines() -> Recorder {
        Recorder {
            lines: true,
            ..Recorder::default()
        }
    }

    #[cold]
    fn find(&mut self, kind: Kind, place: usize) -> u32 {
        let next = self.kinds.len() as u32;
        let at = *self.index.entry(kind).or_insert(next);
        if at == next {
            self.kinds.push(kind);
        }
        self.recent[place] = at;
        at
    }

    /// Ends the gap in hand; gives the number of the last one.
    pub(super) fn close(&mut self) -> u32 {
        for process in self.touched.drain(..) {
            if let Some(list) = self.lists.get_mut(process as usize) {
                list.ends.push((self.gap, list.kinds.len() as u32));
                list.is_touched = false;
            }
        }
        self.gap
    }
}

impl Visit for Recorder {
    #[inline(always)]
    fn call(&mut self, call: &Call<'_>) {
        let coll = &call.coll;
        let (op, _) = self.ops.intern(coll.op);
        let kind = Kind {
            member: call.member,
            op,
            datatype: coll.datatype,
            nranks: coll.nranks,
            redop: coll.redop,
            root: coll.root,
        };
        let mixed = (u64::from(kind.member) << 32 | u64::from(op))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (u64::from(kind.datatype) << 48 ^ kind.root.cast_unsigned() << 8 ^ kind.redop)
                .wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        let place = (mixed >> 40) as usize & (RECENT - 1);
        let recent = self.recent[place];
        let at = if self.kinds.get(recent as usize) == Some(&kind) {
            recent
        } else {
            self.find(kind, place)
        };
        let process = call.process as usize;
        if self.lists.len() <= process {
            self.lists.resize_with(process + 1, List::default);
        }
        let list = &mut self.lists[process];
        list.kinds.push(at);
        list.counts.push(coll.count);
        if self.lines {
            list.at.push(call.at);
        }
        if !list.is_touched {
            list.is_touched = true;
            self.touched.push(call.process);
        }
    }

    fn mark(&mut self) {
        self.close();
        self.gap += 1;
    }

    fn slot(&mut self) {
        let made = self.lists.iter().map(|list| list.kinds.len() as u32);
        self.slots.push((self.gap, made.collect()));
    }
}
