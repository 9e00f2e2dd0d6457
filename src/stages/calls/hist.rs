//! nccl-hist: per operation and size bucket the calls, their bytes, and the calls of a GPU.

use crate::count::calls::Calls;
use crate::count::groups::{By, Entry, Groups, MadeOf, Part};
use crate::count::tally;
use crate::count::tally::{Sizing, UNKNOWN, Value};
use crate::count::who::Who;
use crate::grammar::values::Basis;
use crate::output::render::units::bar;
use crate::output::render::{Cell, Sheet};
use crate::stages::timed;
use std::collections::BTreeMap;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Options {
    /// What groups rows further; default nothing.
    pub by: Vec<By>,
    /// What bytes mean; default the API's.
    pub basis: Basis,
    /// The buckets' edges in bytes, rising; default 64 KB, 1 MB, 16 MB (of 1024).
    pub edges: Vec<u128>,
    /// A window of steps is asked for.
    pub window: bool,
    /// Durations are asked for.
    pub time: bool,
}

impl Default for Options {
    fn default() -> Options {
        let edges = vec![64 << 10, 1 << 20, 16 << 20];
        Options {
            by: Vec::new(),
            basis: Basis::default(),
            edges,
            window: false,
            time: false,
        }
    }
}

/// The edges of `--log2`: every power of two.
pub fn powers_of_two() -> Vec<u128> {
    (0..64).map(|power| 1 << power).collect()
}

impl Options {
    /// What the tally must tell apart: members always, since GPUs are counted.
    pub fn tally(&self) -> tally::Options {
        tally::Options {
            sizing: Sizing::Bucket(self.edges.clone()),
            basis: self.basis,
            members: true,
            datatypes: self.by.contains(&By::Datatype),
            steps: self.window || self.by.contains(&By::Step),
            exact: false,
            durations: self.time,
            served: self.by.iter().any(|b| b.needs_served()),
        }
    }
}

/// One bucket of an operation of a group.
#[derive(Debug)]
struct Bucket<'c> {
    op: &'c [u8],
    size: u64,
    value: Value,
    /// How many GPUs made these calls; unknown where some call's host is.
    gpus: Option<u64>,
}

/// Calls by group, and in it by operation and bucket.
fn groups<'c>(calls: &'c Calls, options: &Options) -> Groups<'c> {
    Groups::new(calls, &options.by, |key| (key.size, 0, 0))
}

/// The number of each member's GPU; of none where its host is not known.
struct Gpus(Vec<Option<u32>>);

impl Gpus {
    fn new<'c>(calls: &'c Calls) -> Gpus {
        let mut numbers = BTreeMap::new();
        let gpu = |who: &'c Who| {
            let next = numbers.len() as u32;
            let number = || *numbers.entry((&who.host, who.pid, who.dev)).or_insert(next);
            (!who.host.is_empty()).then(number)
        };
        Gpus(calls.who.iter().map(gpu).collect())
    }

    /// The buckets of a group; `gpus` is memory to use again.
    fn buckets<'b>(
        &self,
        part: &'b Part<'_>,
        group: &[Entry],
        gpus: &mut Vec<u32>,
    ) -> impl Iterator<Item = Bucket<'b>> {
        let same = move |a: &Entry, b: &Entry| {
            let (a, b) = (part.key(a), part.key(b));
            (a.op, a.size) == (b.op, b.size)
        };
        group.chunk_by(same).map(move |entries| {
            let mut value = Value::default();
            let mut nobody = false;
            gpus.clear();
            for entry in entries {
                value.merge(&entry.value);
                let member = part.key(entry).member;
                match self.0.get(member as usize).copied().flatten() {
                    Some(gpu) => gpus.push(gpu),
                    None => nobody = true,
                }
            }
            gpus.sort_unstable();
            gpus.dedup();
            Bucket {
                op: part.op(&entries[0]),
                size: part.key(&entries[0]).size,
                value,
                gpus: (!nobody).then_some(gpus.len() as u64),
            }
        })
    }
}

/// The rows of the table; with `bars` a column of bars that shows each row's share of the calls.
pub fn sheet<'c>(calls: &'c Calls, options: &'c Options, bars: bool) -> Sheet<'c> {
    let own = [
        "op",
        "bucket",
        "from_bytes",
        "to_bytes",
        "calls",
        "share_calls",
        "total_bytes",
        "share_bytes",
        "gpus",
        "calls_per_gpu",
        "share of calls",
    ];
    let own = &own[..own.len() - usize::from(!bars)];
    let gpus = Gpus::new(calls);
    let labels: Vec<String> = (0..=options.edges.len() as u64)
        .map(|bucket| label(&options.edges, bucket))
        .collect();
    let groups = groups(calls, options);
    groups.sheet(&options.by, own, MadeOf::Calls, move |part, group, out| {
        let list: Vec<_> = gpus.buckets(part, group, &mut Vec::new()).collect();
        rows(&list, &options.edges, &labels, bars, out);
    })
}

/// The rows of `--time`: how long the calls of each bucket took that have a duration of their own.
pub fn times<'c>(calls: &'c Calls, options: &'c Options) -> Sheet<'c> {
    let own = ["op", "bucket", "from_bytes", "to_bytes"];
    let own: Vec<&str> = own.into_iter().chain(timed::COLUMNS).collect();
    let durations = calls.durations_of(options.by.contains(&By::Step));
    let groups = groups(calls, options);
    groups.sheet(&options.by, &own, MadeOf::More, move |part, group, out| {
        let of = |e: &Entry| (part.key(e).op, part.key(e).size);
        for entries in group.chunk_by(|a, b| of(a) == of(b)) {
            let size = part.key(&entries[0]).size;
            let (from, to) = bounds(&options.edges, size);
            let mut row = vec![
                part.op(&entries[0]).into(),
                label(&options.edges, size).into(),
                from.into(),
                to.into(),
            ];
            row.extend(timed::cells(&timed::of(&durations, part, entries)));
            out(&row);
        }
    })
}

/// The rows of a group's buckets.
fn rows(
    list: &[Bucket<'_>],
    edges: &[u128],
    labels: &[String],
    bars: bool,
    out: &mut dyn FnMut(&[Cell<'_>]),
) {
    // A share is of all calls of the group, so that a group's shares add up to 1.
    let (mut calls, mut bytes) = (0_u64, 0_u128);
    for Bucket { value, .. } in list {
        calls = calls.saturating_add(value.calls);
        bytes = bytes.saturating_add(value.bytes);
    }
    for bucket in list {
        let (value, known) = (&bucket.value, bucket.size != UNKNOWN);
        let share = value.calls as f64 / calls as f64;
        let gpus = bucket.gpus;
        let (from, to) = bounds(edges, bucket.size);
        let label = usize::try_from(bucket.size).ok();
        let label = label.and_then(|at| labels.get(at));
        let row = [
            bucket.op.into(),
            label.map_or("unknown", String::as_str).into(),
            from.into(),
            to.into(),
            value.calls.into(),
            Cell::share(value.calls as f64, calls as f64),
            known.then_some(value.bytes).into(),
            if known {
                Cell::share(value.bytes as f64, bytes as f64)
            } else {
                Cell::Empty
            },
            gpus.into(),
            gpus.filter(|&n| n > 0)
                .map(|n| value.calls as f64 / n as f64)
                .into(),
            if bars {
                bar(share, 24).into()
            } else {
                Cell::Empty
            },
        ];
        out(&row[..row.len() - usize::from(!bars)]);
    }
}

/// The rows as the AWK chain's fourth script prints them, in its order.
pub fn chain(calls: &Calls, options: &Options) -> Vec<u8> {
    let (groups, gpus) = (groups(calls, options), Gpus::new(calls));
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let mut own = Vec::new();
    for part in groups.parts() {
        let part = groups.part(part);
        for group in part.groups() {
            lines.extend(gpus.buckets(&part, group, &mut own).map(|bucket| {
                let label = label(&options.edges, bucket.size).replace(">=", ">");
                [
                    bucket.op,
                    format!(":{label} {}\n", bucket.value.calls).as_bytes(),
                ]
                .concat()
            }));
        }
    }
    lines.sort();
    lines.concat()
}

/// The first byte in a bucket and the first beyond it.
fn bounds(edges: &[u128], bucket: u64) -> (Option<u128>, Option<u128>) {
    let Some(at) = usize::try_from(bucket).ok().filter(|&at| at <= edges.len()) else {
        return (None, None);
    };
    let from = if at == 0 { 0 } else { edges[at - 1] };
    (Some(from), edges.get(at).copied())
}

/// Calls with sizes of three digits, in buckets instead, over all steps. Edges are
/// powers of two, which sizes of three digits do not cross.
pub(crate) fn in_buckets(calls: &Calls, edges: &[u128]) -> Calls {
    calls.over_steps(|key| key.size = bucket(edges, key.size))
}

/// The bucket of a size, as [`in_buckets`] has it.
pub(crate) fn bucket(edges: &[u128], size: u64) -> u64 {
    if size == UNKNOWN {
        return UNKNOWN;
    }
    let below = edges.iter().take_while(|&&edge| edge <= size.into());
    below.count() as u64
}

/// A bucket's name, `64KB-1MB`.
pub(in crate::stages) fn label(edges: &[u128], bucket: u64) -> String {
    match bounds(edges, bucket) {
        (None, _) => "unknown".to_owned(),
        (Some(0), Some(to)) => format!("<{}", size(to)),
        (Some(from), Some(to)) => format!("{}-{}", size(from), size(to)),
        (Some(from), None) => format!(">={}", size(from)),
    }
}

/// A size in the largest unit that divides it.
fn size(bytes: u128) -> String {
    let units = [
        (60, "EB"),
        (50, "PB"),
        (40, "TB"),
        (30, "GB"),
        (20, "MB"),
        (10, "KB"),
    ];
    for (power, unit) in units {
        if bytes > 0 && bytes.trailing_zeros() >= power {
            return format!("{}{unit}", bytes >> power);
        }
    }
    format!("{bytes}B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_have_the_chains_names() {
        let edges = Options::default().edges;
        let names: Vec<_> = (0..4).map(|b| label(&edges, b)).collect();
        assert_eq!(names, ["<64KB", "64KB-1MB", "1MB-16MB", ">=16MB"]);
        assert_eq!(label(&edges, UNKNOWN), "unknown");
        let log2 = powers_of_two();
        assert_eq!(
            [0, 1, 11, 64].map(|b| label(&log2, b)),
            ["<1B", "1B-2B", "1KB-2KB", ">=8EB"]
        );
        assert_eq!(bounds(&edges, 3), (Some(16 << 20), None));
    }
}
