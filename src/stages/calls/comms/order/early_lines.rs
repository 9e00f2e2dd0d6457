//! Calls with lines before the stretch in which they were made.

use std::collections::{BTreeMap, VecDeque};

/// Calls that wait for the stretch they were made in, in the order of their lines.
pub(super) struct EarlyLineCalls<C> {
    /// How many came before the first one here.
    gone: u64,
    calls: VecDeque<Option<WaitingCall<C>>>,
    /// Their numbers here by the stretch they were made in.
    by_gap: BTreeMap<u32, Vec<u64>>,
    /// Those with an unknown stretch.
    unknown: Vec<u64>,
}

struct WaitingCall<C> {
    /// The call's number in the log.
    index: u64,
    is_known: bool,
    call: C,
}

impl<C> Default for EarlyLineCalls<C> {
    fn default() -> EarlyLineCalls<C> {
        EarlyLineCalls {
            gone: 0,
            calls: VecDeque::new(),
            by_gap: BTreeMap::new(),
            unknown: Vec::new(),
        }
    }
}

impl<C> EarlyLineCalls<C> {
    /// Adds the call with this number in the log; `gap` is the last gap of the stretch that it was made in.
    pub(super) fn push(&mut self, index: u64, gap: Option<u32>, call: C) {
        let number = self.gone + self.calls.len() as u64;
        match gap {
            Some(gap) => self.by_gap.entry(gap).or_default().push(number),
            None => self.unknown.push(number),
        }
        self.calls.push_back(Some(WaitingCall {
            index,
            is_known: gap.is_some(),
            call,
        }));
    }

    /// Looks up the stretches that were unknown.
    pub(super) fn learn_gaps(&mut self, gap: impl Fn(&C) -> Option<u32>) {
        let (gone, calls, by_gap) = (self.gone, &mut self.calls, &mut self.by_gap);
        self.unknown.retain(|&number| {
            let at = number.checked_sub(gone).map(|at| at as usize);
            let Some(Some(waits)) = at.and_then(|at| calls.get_mut(at)) else {
                return false;
            };
            let gap = gap(&waits.call);
            if let Some(gap) = gap {
                waits.is_known = true;
                by_gap.entry(gap).or_default().push(number);
            }
            gap.is_none()
        });
    }

    /// Removes the calls made in stretches up to the one that ends with `gap`, stretch by stretch.
    pub(super) fn take_until(&mut self, gap: u32, mut take: impl FnMut(u32, C)) {
        while let Some(first) = self
            .by_gap
            .first_entry()
            .filter(|first| *first.key() <= gap)
        {
            let (gap, numbers) = first.remove_entry();
            for number in numbers {
                if let Some(call) = self.remove(number) {
                    take(gap, call);
                }
            }
        }
    }

    /// Returns the first call's number in the log, and whether its stretch is known.
    pub(super) fn first_waiting(&self) -> Option<(u64, bool)> {
        let first = self.calls.front()?.as_ref()?;
        Some((first.index, first.is_known))
    }

    /// Removes the first call.
    pub(super) fn pop(&mut self) -> Option<C> {
        self.remove(self.gone)
    }

    fn remove(&mut self, number: u64) -> Option<C> {
        let at = number.checked_sub(self.gone)?;
        let waits = self.calls.get_mut(usize::try_from(at).ok()?)?.take();
        while let Some(None) = self.calls.front() {
            self.calls.pop_front();
            self.gone += 1;
        }
        waits.map(|waits| waits.call)
    }
}
