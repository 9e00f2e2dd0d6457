//! What a log holds gap by gap: calls, bytes and where its steps are. The first pass of every
//! stage that must know a call's step before it can write the call.

use super::skew::{Astray, Counts, Skew};
use crate::error::Result;
use crate::formats::log::{self, Log};
use crate::origin::Merged;
use crate::records::Datatype;
use crate::scan::{Call, Visit};
use crate::source::Input;
use crate::timeline::Timeline;

/// Calls and their bytes (API basis; those of unknown datatypes are left out).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Calls.
    pub calls: u64,
    /// Bytes.
    pub bytes: u128,
}

impl Sum {
    fn add(&mut self, datatype: u32, count: u64) {
        self.calls += 1;
        if let Some(size) = Datatype(datatype).size() {
            self.bytes += u128::from(count) * u128::from(size);
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: Sum) {
        self.calls += other.calls;
        self.bytes += other.bytes;
    }
}

/// One chunk's sums.
#[derive(Debug, Default)]
struct Partial {
    gap: usize,
    now: Sum,
    done: Vec<(usize, Sum)>,
    slots: Vec<usize>,
    counts: Counts,
}

impl Visit for Partial {
    #[inline(always)]
    fn call(&mut self, call: &Call<'_>) {
        self.now.add(call.coll.datatype, call.coll.count);
        self.counts.call(call);
    }

    fn mark(&mut self) {
        if self.now.calls > 0 {
            self.done.push((self.gap, std::mem::take(&mut self.now)));
        }
        self.counts.end(self.gap);
        self.gap += 1;
    }

    fn slot(&mut self) {
        self.slots.push(self.gap);
    }
}

/// What one log holds.
#[derive(Debug, Default)]
pub struct Survey {
    /// Its marks and its account.
    pub log: Log,
    /// Calls by gap, for those gaps that have any, in order.
    pub sums: Vec<(usize, Sum)>,
    /// Its collectives by rank and gap.
    pub skew: Skew,
}

impl Survey {
    /// The calls of a gap.
    pub fn sum(&self, gap: usize) -> Sum {
        match self.sums.binary_search_by_key(&gap, |(g, _)| *g) {
            Ok(at) => self.sums[at].1,
            Err(_) => Sum::default(),
        }
    }
}

impl Survey {
    /// Calls on the wrong side of step lines; `None` where that cannot be said, as where lines
    /// are lost.
    pub fn astray(&self, merged: &Merged, timeline: &Timeline) -> Option<Astray> {
        let account = &self.log.account;
        let whole = account.damaged == 0 && account.overwritten == 0 && account.dropped == 0;
        whole.then(|| self.skew.astray(merged, timeline)).flatten()
    }
}

/// Walks `input` once.
///
/// # Errors
/// As [`log::read`].
pub fn survey(
    input: &Input,
    options: &log::Options,
    merged: &mut Merged,
    progress: impl Fn(u64),
) -> Result<Survey> {
    let mut sums: Vec<(usize, Sum)> = Vec::new();
    let mut add = |gap: usize, sum: Sum| {
        let at = sums.partition_point(|(g, _)| *g < gap);
        match sums.get_mut(at) {
            Some((g, known)) if *g == gap => known.merge(sum),
            _ => sums.insert(at, (gap, sum)),
        }
    };
    let mut skew = Skew::default();
    let log = log::read(input, options, merged, Partial::default, progress, |part| {
        let mut partial = part.visit;
        partial.counts.end(partial.gap);
        for &(gap, member, n) in &partial.counts.done {
            let member = part.to.members[member as usize];
            skew.add(part.merged, member, part.gap + gap, n.into());
        }
        if partial.now.calls > 0 {
            partial.done.push((partial.gap, partial.now));
        }
        for (gap, sum) in partial.done {
            add(part.gap + gap, sum);
        }
        for joined in part.joined {
            let coll = joined.coll();
            let slot = partial.slots.get(joined.slot as usize).copied();
            let mut one = Sum::default();
            one.add(coll.datatype, coll.count);
            add(part.gap + slot.unwrap_or(partial.gap), one);
        }
        Ok(())
    })?;
    Ok(Survey { log, sums, skew })
}
