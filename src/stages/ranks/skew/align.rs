//! Clocks of hosts, aligned by the medians of many calls.
//!
//! A host with a clock that is ahead looks as if it were always late. So the median difference of hosts at
//! their common calls is taken as the difference of their clocks, stretch by stretch, and reported. So are the processes
//! of a host, where its calls disprove that they share a clock. Where a clock jumps (`jumps`), the calls on both sides are
//! aligned apart. Calls that contradict the clocks after that are left out.

use super::jumps::{ClockJump, find_calls_that_fit};
use super::median::lower_median;
use super::window::{RankArrival, SkewCall};
use crate::report::{Report, count_phrase};
use crate::stages::skew::limits::{CALLS_BESIDE_JUMP, MAX_HOSTS_NAMED, MIN_CALLS_THAT_DISPROVE};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The difference of a host's clock from the first host's, in each stretch.
#[derive(Debug, Clone, Default)]
struct HostClockOffsets {
    /// The difference in ns, and the median deviation of calls from it.
    found: Vec<(i64, i64)>,
}

/// The differences of pairs of hosts at calls, ns.
pub(super) type HostPairOffsets = BTreeMap<(u32, u32), Vec<i64>>;

/// By how many ns each host is ahead, and the median deviation of calls from it.
pub(super) type StretchOffsets = BTreeMap<u32, (i64, i64)>;

/// The differences of all hosts' clocks.
#[derive(Debug, Default)]
pub(super) struct HostClocks {
    hosts: BTreeMap<Vec<u8>, HostClockOffsets>,
    /// The hosts with processes that do not share a clock, once a stretch has durations.
    disproved: Option<BTreeSet<u32>>,
    /// The jumps, by the names of both clocks.
    jumps: BTreeMap<[Vec<u8>; 2], KnownJumps>,
    /// The calls beside them, and others that contradict the clocks.
    pub(super) beside_jumps: u64,
    pub(super) contradicted: u64,
}

/// Successive calls that are aligned together.
#[derive(Debug)]
struct AlignedSide {
    calls: Range<usize>,
    ahead: StretchOffsets,
}

/// The jumps of one of two clocks.
#[derive(Debug)]
struct KnownJumps {
    number: u64,
    /// The first one: by how many ns, where both of its sides are aligned, and the step of the calls in which it lies.
    ahead_ns: Option<i64>,
    step: Option<u64>,
}

impl HostClocks {
    /// Returns the hosts with processes that cannot share a clock, by the first stretch with durations of calls that keep
    /// their ranks together: at none did the first rank there end after the last one began. Single calls prove nothing: a host
    /// may run ahead of its GPU, and a kernel's duration begins later. But it does not do so at a communicator's first
    /// call.
    pub(super) fn disproved_hosts<'c>(
        &mut self,
        calls: impl Iterator<Item = &'c SkewCall>,
        host: impl Fn(u32) -> u32,
    ) -> BTreeSet<u32> {
        let mut overlaps: BTreeMap<u32, Vec<bool>> = BTreeMap::new();
        let is_open = self.disproved.is_none();
        for call in calls.filter(|call| is_open && call.overlap_ns().is_some()) {
            let mut parts: BTreeMap<u32, SkewCall> = BTreeMap::new();
            for came in &call.came {
                parts.entry(host(came.who)).or_default().came.push(*came);
            }
            for (host, part) in parts.iter().filter(|(_, part)| part.came.len() > 1) {
                let known = overlaps.entry(*host).or_default();
                known.extend(part.overlap_ns().map(|ns| ns >= 0));
            }
        }
        if !overlaps.is_empty() {
            overlaps.retain(|_, all| all.len() >= MIN_CALLS_THAT_DISPROVE && !all.contains(&true));
            self.disproved = Some(overlaps.into_keys().collect());
        }
        self.disproved.clone().unwrap_or_default()
    }

    /// True if the processes of some host do not share a clock.
    pub(super) fn has_disproved(&self) -> bool {
        self.disproved
            .as_ref()
            .is_some_and(|hosts| !hosts.is_empty())
    }

    /// Aligns successive calls; `host` gives the number of a rank's clock, `name` the clock's name.
    pub(super) fn align_calls(
        &mut self,
        calls: &mut [SkewCall],
        host: impl Fn(u32) -> u32,
        name: impl Fn(u32) -> Option<Vec<u8>>,
    ) -> StretchOffsets {
        let mut pairs = collect_host_pairs(calls.iter(), &host, |came| Some(came.ns));
        let ahead = compute_host_offsets(&mut pairs);
        for call in calls {
            for came in &mut call.came {
                if let Some((ahead, _)) = ahead.get(&host(came.who)) {
                    came.ns = came.ns.saturating_sub(*ahead);
                }
            }
        }
        self.add_offsets(&ahead, name);
        ahead
    }

    /// Aligns successive calls on each side of `jumps`. Removes the calls in which these lie, the sides with too few calls for
    /// a median, and the calls that contradict their own alignment.
    pub(super) fn align_between_jumps(
        &mut self,
        calls: &mut Vec<SkewCall>,
        jumps: &[ClockJump],
        keeps_together: impl Fn(&&SkewCall) -> bool,
        host: impl Fn(u32) -> u32,
        name: impl Fn(u32) -> Option<Vec<u8>>,
    ) {
        let (mut done, mut sides) = (0, Vec::new());
        for jump in jumps {
            sides.push(done..jump.calls.start.max(done));
            done = done.max(jump.calls.end);
        }
        sides.push(done..calls.len());
        sides.retain(|side| jumps.is_empty() || side.len() >= CALLS_BESIDE_JUMP);
        let mut kept = vec![false; calls.len()];
        let mut aligned = Vec::new();
        for side in sides {
            let part = &mut calls[side.clone()];
            let ahead = self.align_calls(part, &host, &name);
            let fit = find_calls_that_fit(part, &keeps_together);
            self.contradicted += fit.iter().filter(|fits| !**fits).count() as u64;
            kept[side.clone()].copy_from_slice(&fit);
            aligned.push(AlignedSide { calls: side, ahead });
        }
        let in_sides: usize = aligned.iter().map(|side| side.calls.len()).sum();
        self.beside_jumps += (calls.len() - in_sides) as u64;
        for jump in jumps {
            self.add_jump(jump, calls, &aligned, &name);
        }
        let mut kept = kept.into_iter();
        calls.retain(|_| kept.next().unwrap_or(true));
    }

    /// Adds a jump; `aligned` are the sides of all jumps.
    fn add_jump(
        &mut self,
        jump: &ClockJump,
        calls: &[SkewCall],
        aligned: &[AlignedSide],
        name: impl Fn(u32) -> Option<Vec<u8>>,
    ) {
        let mut sides = aligned.iter();
        let before = sides.find(|side| side.calls.end == jump.calls.start);
        let after = sides.find(|side| side.calls.start == jump.calls.end);
        let apart = |AlignedSide { ahead, .. }: &AlignedSide| {
            let (first, other) = (ahead.get(&jump.first)?, ahead.get(&jump.other)?);
            Some(other.0.saturating_sub(first.0))
        };
        let sizes = before.and_then(apart).zip(after.and_then(apart));
        let names = [jump.first, jump.other].map(|clock| name(clock).unwrap_or_default());
        let known = self.jumps.entry(names).or_insert_with(|| KnownJumps {
            number: 0,
            ahead_ns: sizes.map(|(before, after)| after.saturating_sub(before)),
            step: calls[jump.calls.clone()].iter().find_map(|call| call.step),
        });
        known.number += 1;
    }

    /// Adds the differences that were found in a stretch.
    pub(super) fn add_offsets(
        &mut self,
        ahead: &StretchOffsets,
        name: impl Fn(u32) -> Option<Vec<u8>>,
    ) {
        for (&host, &found) in ahead {
            if let Some(name) = name(host) {
                let known = self.hosts.entry(name).or_default();
                known.found.push(found);
            }
        }
    }

    /// Reports the differences.
    pub(super) fn report_offsets(&self, aligned: bool, report: &Report) {
        if !aligned {
            return;
        }
        self.report_left_out(report);
        if self.hosts.len() < 2 {
            return;
        }
        if self.has_disproved() {
            report.warn(
                "processes of one host have different clocks: at none of the first calls did their first rank end after \
                 the last one began; each is aligned by medians, so that a rank which is always late by the same amount \
                 looks punctual",
            );
        }
        self.report_jumps(report);
        for (host, offsets) in self.hosts.iter().take(MAX_HOSTS_NAMED) {
            let Some(ahead) = offsets.describe() else {
                continue;
            };
            report.note(&format!(
                "{} is taken to be {ahead}: ranks that all come late by as much look the same; --no-align takes clocks as \
                 they are",
                String::from_utf8_lossy(host),
            ));
        }
    }

    fn report_jumps(&self, report: &Report) {
        for ([first, other], jumps) in self.jumps.iter().take(MAX_HOSTS_NAMED) {
            let by = jumps.ahead_ns.map(|ns| format!(" by {}", about_phrase(ns)));
            let step = jumps.step.map(|step| format!(" in step {step}"));
            let more = (jumps.number > 1)
                .then(|| format!(", and {} more", count_phrase(jumps.number - 1, "time")));
            report.warn(&format!(
                "the clock of {} jumps{}{} against that of {}{}: its ranks are aligned on each side of it, so that \
                 a rank which is always late by the same amount on one side looks punctual there",
                String::from_utf8_lossy(other),
                by.unwrap_or_default(),
                step.unwrap_or_default(),
                String::from_utf8_lossy(first),
                more.unwrap_or_default(),
            ));
        }
    }

    fn report_left_out(&self, report: &Report) {
        if self.beside_jumps > 0 {
            report.note(&format!(
                "{} beside a jump of a clock: left out",
                count_phrase(self.beside_jumps, "call")
            ));
        }
        if self.contradicted > 0 {
            report.warn(&format!(
                "{} left out: by the clocks a rank ended such a call long before another began it: a clock was set there, \
                 ranks of a host have different clocks, or a host ran far ahead of its GPU",
                count_phrase(self.contradicted, "call")
            ));
        }
    }
}

impl HostClockOffsets {
    /// Returns by how much a clock was taken to be ahead in all stretches; none if it was not.
    fn describe(&self) -> Option<String> {
        let found = &self.found[..];
        let ms = |ns: i64| ns as f64 / 1e6;
        let ahead = || found.iter().map(|(ahead, _)| *ahead);
        let (least, most) = (ahead().min()?, ahead().max()?);
        let error = found.iter().map(|(_, error)| *error).max()?;
        let ahead = match found {
            [_] => format!("{:.3} ms ahead by its clock", ms(least)),
            _ if least == most => format!("{:.3} ms ahead by its clock", ms(least)),
            _ => format!(
                "{:.3} to {:.3} ms ahead by its clock over {} stretches of calls",
                ms(least),
                ms(most),
                found.len()
            ),
        };
        let differ = match found {
            [_] => format!("half of the calls differ by more than {:.3} ms", ms(error)),
            _ => format!(
                "half of the calls of each differ by up to {:.3} ms",
                ms(error)
            ),
        };
        ((least, most, error) != (0, 0, 0)).then(|| format!("{ahead} ({differ})"))
    }
}

/// A time that is known to two digits.
fn about_phrase(ns: i64) -> String {
    let ms = ns as f64 / 1e6;
    let digit = 10_f64.powf(ms.abs().max(1.0).log10().floor() - 1.0);
    let ms = (ms / digit).round() * digit;
    match ms.abs() >= 1000.0 {
        true if ms.abs() < 10_000.0 => format!("about {:.1} s", ms / 1000.0),
        true => format!("about {:.0} s", ms / 1000.0),
        false => format!("about {ms:.0} ms"),
    }
}

/// Returns the differences of each host's median time from that of the first host of its call.
pub(super) fn collect_host_pairs<'c>(
    calls: impl Iterator<Item = &'c SkewCall>,
    host: impl Fn(u32) -> u32,
    time: impl Fn(&RankArrival) -> Option<i64>,
) -> HostPairOffsets {
    let mut pairs = HostPairOffsets::new();
    let mut of_host: FxHashMap<u32, Vec<i64>> = FxHashMap::default();
    for call in calls {
        of_host.clear();
        for came in &call.came {
            if let Some(ns) = time(came) {
                of_host.entry(host(came.who)).or_default().push(ns);
            }
        }
        let Some(first) = of_host.keys().min().copied() else {
            continue;
        };
        let medians = of_host.iter_mut();
        let medians = medians.filter_map(|(&host, times)| Some((host, lower_median(times)?)));
        let medians: FxHashMap<u32, i64> = medians.collect();
        let Some(base) = medians.get(&first).copied() else {
            continue;
        };
        for (&other, &ns) in medians.iter().filter(|(other, _)| **other != first) {
            let apart = ns.saturating_sub(base);
            pairs.entry((first, other)).or_default().push(apart);
        }
    }
    pairs
}

/// Returns the difference of each host from the first host that it is connected with, over other hosts if
/// necessary.
pub(super) fn compute_host_offsets(pairs: &mut HostPairOffsets) -> StretchOffsets {
    let mut apart: BTreeMap<(u32, u32), (usize, i64, i64)> = BTreeMap::new();
    for (pair, list) in pairs.iter_mut() {
        let Some(middle) = lower_median(list) else {
            continue;
        };
        let mut off: Vec<i64> = list
            .iter()
            .map(|ns| ns.saturating_sub(middle).saturating_abs())
            .collect();
        let error = lower_median(&mut off).unwrap_or(0);
        apart.insert(*pair, (list.len(), middle, error));
    }
    let mut known = StretchOffsets::new();
    let hosts: Vec<u32> = apart.keys().map(|(first, _)| *first).collect();
    for start in hosts {
        known.entry(start).or_insert((0, 0));
        // The pair with the most calls that reaches a new host comes next.
        loop {
            let next = apart
                .iter()
                .filter(|((a, b), _)| known.contains_key(a) != known.contains_key(b))
                .max_by_key(|(pair, (calls, ..))| (*calls, std::cmp::Reverse(**pair)));
            let Some((&(a, b), &(_, middle, error))) = next else {
                break;
            };
            let (from, to, middle) = match known.contains_key(&a) {
                true => (a, b, middle),
                false => (b, a, middle.saturating_neg()),
            };
            let (base, off) = known.get(&from).copied().unwrap_or_default();
            known.insert(to, (base.saturating_add(middle), off.max(error)));
        }
    }
    known
}
