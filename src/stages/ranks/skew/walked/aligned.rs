//! Calls of ranks of several hosts: the clocks of these are aligned stretch by stretch, and then who
//! comes late is added up.

use super::part::{Came, Cursors, NONE};
use super::stretches::Stretch;
use super::together::Comm;
use crate::stages::skew::align::{Pairs, Reached, median, reach};
use crate::stages::skew::late::{Own, middle};
use std::collections::BTreeMap;

/// What some stretches show.
pub(super) struct Aligned {
    /// How far the hosts were ahead in each.
    pub(super) reached: Vec<Reached>,
    /// By who makes calls.
    pub(super) own: Vec<Own>,
}

/// A communicator's ranks by the number of their host, rising.
pub(super) struct Hosts(Vec<(u32, Vec<usize>)>);

/// Some calls of a stretch.
struct Calls {
    comm: usize,
    came: Vec<Came>,
    /// Up to which call they are of which step.
    steps: Vec<(usize, Option<u64>)>,
}

impl Hosts {
    pub(super) fn of(comm: &Comm<'_>, host_of: &[u32]) -> Hosts {
        let mut hosts: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, side) in comm.sides.iter().enumerate() {
            let host = host_of.get(side.who as usize).copied().unwrap_or(0);
            hosts.entry(host).or_default().push(at);
        }
        Hosts(hosts.into_iter().collect())
    }

    /// How far hosts are apart at calls.
    fn pairs(&self, came: &[Came], n: usize, pairs: &mut Pairs) {
        let [_, _, ..] = self.0[..] else { return };
        // Most calls have a rank of the first host.
        let mut apart: Vec<Vec<i64>> = vec![Vec::new(); self.0.len()];
        let (mut times, mut medians) = (Vec::new(), Vec::new());
        for came in came.chunks_exact(n) {
            medians.clear();
            for (host, (_, sides)) in self.0.iter().enumerate() {
                times.clear();
                for &at in sides {
                    if came[at].0 != NONE {
                        times.push(came[at].1);
                    }
                }
                if let Some(ns) = median(&mut times) {
                    medians.push((host, ns));
                }
            }
            let Some((&(first, base), others)) = medians.split_first() else {
                continue;
            };
            for &(other, ns) in others {
                let ns = ns.saturating_sub(base);
                match first {
                    0 => apart[other].push(ns),
                    _ => self.pair(pairs, first, other).push(ns),
                }
            }
        }
        for (other, apart) in apart
            .iter()
            .enumerate()
            .filter(|(_, apart)| !apart.is_empty())
        {
            self.pair(pairs, 0, other).extend(apart);
        }
    }

    fn pair<'p>(&self, pairs: &'p mut Pairs, first: usize, other: usize) -> &'p mut Vec<i64> {
        pairs.entry((self.0[first].0, self.0[other].0)).or_default()
    }

    /// By how many ns each rank's clock is ahead.
    fn ahead(&self, reached: &Reached, n: usize) -> Vec<i64> {
        let mut ahead = vec![0; n];
        for (host, sides) in &self.0 {
            let by = reached.get(host).map_or(0, |(by, _)| *by);
            sides.iter().for_each(|&at| ahead[at] = by);
        }
        ahead
    }
}

/// What stretches that follow each other show, by so many ranks; `None` where ranks make different calls,
/// which would not wait for each other.
pub(super) fn aligned(
    stretches: &[Stretch],
    (comms, hosts): (&[Comm<'_>], &[Hosts]),
    (ranks, late_ns): (usize, u64),
) -> Option<Aligned> {
    let mut cursors: Vec<Option<Cursors<'_>>> = Vec::new();
    cursors.resize_with(comms.len(), || None);
    let mut found = Aligned {
        reached: Vec::new(),
        own: std::iter::repeat_with(Own::default).take(ranks).collect(),
    };
    for stretch in stretches {
        let calls = calls(stretch, comms, &mut cursors)?;
        let mut pairs = Pairs::new();
        for calls in &calls {
            let n = comms[calls.comm].sides.len();
            hosts[calls.comm].pairs(&calls.came, n, &mut pairs);
        }
        let reached = reach(&mut pairs);
        for calls in &calls {
            let comm = &comms[calls.comm];
            let ahead = hosts[calls.comm].ahead(&reached, comm.sides.len());
            late(calls, comm, &ahead, &mut found.own, late_ns);
        }
        found.reached.push(reached);
    }
    Some(found)
}

/// The calls of a stretch.
fn calls<'l>(
    stretch: &Stretch,
    comms: &'l [Comm<'l>],
    cursors: &mut [Option<Cursors<'l>>],
) -> Option<Vec<Calls>> {
    let mut by_comm: BTreeMap<usize, Calls> = BTreeMap::new();
    let mut is_alike = true;
    for (comm, numbers) in stretch {
        let of = &comms[*comm];
        let n = of.sides.len();
        let calls = by_comm.entry(*comm).or_insert_with(|| Calls {
            comm: *comm,
            came: Vec::with_capacity(n * (numbers.end - numbers.start) as usize),
            steps: Vec::new(),
        });
        let cursors = cursors.get_mut(*comm)?;
        if cursors
            .as_ref()
            .is_none_or(|known| known.next() != numbers.start)
        {
            *cursors = Some(Cursors::at(of, numbers.start));
        }
        cursors.as_mut()?.each(numbers.end, |came, step| {
            is_alike &= came.chunks_exact(n).all(are_alike);
            calls.came.extend_from_slice(came);
            calls.steps.push((calls.came.len() / n, step));
        });
    }
    is_alike.then(|| by_comm.into_values().collect())
}

/// True where all who came made the same call.
fn are_alike(came: &[Came]) -> bool {
    let mut ops = came.iter().map(|came| came.0).filter(|op| *op != NONE);
    ops.next().is_none_or(|first| ops.all(|op| op == first))
}

/// Adds who comes late to calls, by clocks that are this much ahead.
fn late(calls: &Calls, comm: &Comm<'_>, ahead: &[i64], own: &mut [Own], late_ns: u64) {
    let n = comm.sides.len();
    let mut times = Vec::with_capacity(n);
    let mut each = calls.came.chunks_exact(n);
    let mut from = 0;
    for &(end, step) in &calls.steps {
        for came in each.by_ref().take(end - from) {
            times.clear();
            for at in 0..n {
                if came[at].0 != NONE {
                    times.push(came[at].1.saturating_sub(ahead[at]));
                }
            }
            let (middle, last) = middle(&mut times);
            for (at, side) in comm.sides.iter().enumerate() {
                if came[at].0 != NONE {
                    let ns = came[at].1.saturating_sub(ahead[at]);
                    own[side.who as usize].add(ns, middle, last, late_ns);
                }
            }
        }
        for side in &comm.sides {
            own[side.who as usize].end(step);
        }
        from = end;
    }
}
