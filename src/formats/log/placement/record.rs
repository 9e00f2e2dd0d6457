//! One chunk's calls as the walk meets them: short records by process, in line order.

use super::what::{What, Whats};
use crate::count::tally::Ops;
use crate::formats::log::walk::{Call, Visit};
use serde::{Deserialize, Serialize};

/// A chunk's calls by process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Recorder {
    pub(super) ops: Ops,
    /// What was met; members and operations as the chunk numbers them.
    pub(super) whats: Whats,
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
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct List {
    /// What each call is, by number.
    pub(super) calls: Vec<u32>,
    /// Where each call is in the input, if that is wanted.
    pub(super) at: Vec<u64>,
    /// (gap, calls up to its end), of gaps with calls.
    pub(super) ends: Vec<(u32, u32)>,
    is_touched: bool,
}

impl Recorder {
    /// Keeps where each call's line is.
    pub fn with_lines() -> Recorder {
        Recorder {
            lines: true,
            ..Recorder::default()
        }
    }

    /// Ends the gap in hand; gives the number of the last one.
    pub(super) fn close(&mut self) -> u32 {
        for process in self.touched.drain(..) {
            if let Some(list) = self.lists.get_mut(process as usize) {
                list.ends.push((self.gap, list.calls.len() as u32));
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
        let what = self.whats.number(What {
            member: call.member,
            op,
            datatype: coll.datatype,
            nranks: coll.nranks,
            redop: coll.redop,
            root: coll.root,
            count: coll.count,
        });
        let process = call.process as usize;
        if self.lists.len() <= process {
            self.lists.resize_with(process + 1, List::default);
        }
        let list = &mut self.lists[process];
        list.calls.push(what);
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
        let made = self.lists.iter().map(|list| list.calls.len() as u32);
        self.slots.push((self.gap, made.collect()));
    }
}
