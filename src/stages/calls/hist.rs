//! nccl-hist: per operation and size bucket the calls, their bytes, and the calls of a GPU.

use crate::count::caller::Caller;
use crate::count::calls::CountedCalls;
use crate::count::groups::{GroupBy, GroupEntry, GroupRowInputs, GroupedCalls, GroupsPart};
use crate::count::tally;
use crate::count::tally::{CallVolume, SizeKey, UNKNOWN_SIZE};
use crate::grammar::values::ByteBasis;
use crate::output::render::units::block_bar;
use crate::output::render::{Sheet, TableCell};
use crate::stages::timed::DurationRows;
use std::collections::BTreeMap;

/// The options of nccl-hist.
#[derive(Debug, Clone)]
pub struct Options {
    /// What groups rows further; default nothing.
    pub by: Vec<GroupBy>,
    /// What bytes mean; default the API's.
    pub basis: ByteBasis,
    /// The buckets' edges in bytes, rising; default 64 KB, 1 MB, 16 MB (of 1024).
    pub edges: Vec<u128>,
    /// True if a window of steps is given.
    pub window: bool,
    /// True for durations.
    pub time: bool,
}

impl Default for Options {
    fn default() -> Options {
        let edges = vec![64 << 10, 1 << 20, 16 << 20];
        Options {
            by: Vec::new(),
            basis: ByteBasis::default(),
            edges,
            window: false,
            time: false,
        }
    }
}

/// The edges of `--log2`: every power of two.
pub fn log2_edges() -> Vec<u128> {
    (0..64).map(|power| 1 << power).collect()
}

impl Options {
    /// Returns the tally's options: members always, since GPUs are counted.
    pub fn tally(&self) -> tally::Options {
        let sizing = SizeKey::Bucket(self.edges.clone());
        let mut tally = tally::Options::by_size(sizing, self.basis);
        (tally.members, tally.durations) = (true, self.time);
        GroupBy::add_needs(&self.by, self.window, &mut tally);
        tally
    }
}

/// One bucket of an operation of a group.
#[derive(Debug)]
struct HistBucket<'c> {
    op: &'c [u8],
    size: u64,
    value: CallVolume,
    /// How many GPUs made these calls; unknown where some call's host is.
    gpus: Option<u64>,
}

/// Calls by group, and in it by operation and bucket.
fn group_calls<'c>(calls: &'c CountedCalls, options: &Options) -> GroupedCalls<'c> {
    GroupedCalls::new(calls, &options.by, |key| (key.size, 0, 0))
}

/// The number of each member's GPU; `None` if its host is unknown.
struct MemberGpus(Vec<Option<u32>>);

impl MemberGpus {
    fn new<'c>(calls: &'c CountedCalls) -> MemberGpus {
        let mut numbers = BTreeMap::new();
        let gpu = |who: &'c Caller| {
            let next = numbers.len() as u32;
            let number = || *numbers.entry((&who.host, who.pid, who.dev)).or_insert(next);
            (!who.host.is_empty()).then(number)
        };
        MemberGpus(calls.who.iter().map(gpu).collect())
    }

    /// The buckets of a group; `gpus` is memory to use again.
    fn buckets<'b>(
        &self,
        part: &'b GroupsPart<'_>,
        group: &[GroupEntry],
        gpus: &mut Vec<u32>,
    ) -> impl Iterator<Item = HistBucket<'b>> {
        let same = move |a: &GroupEntry, b: &GroupEntry| {
            let (a, b) = (part.key_of(a), part.key_of(b));
            (a.op, a.size) == (b.op, b.size)
        };
        group.chunk_by(same).map(move |entries| {
            let mut value = CallVolume::default();
            let mut nobody = false;
            gpus.clear();
            for entry in entries {
                value.merge(&entry.value);
                let member = part.key_of(entry).member;
                match self.0.get(member as usize).copied().flatten() {
                    Some(gpu) => gpus.push(gpu),
                    None => nobody = true,
                }
            }
            gpus.sort_unstable();
            gpus.dedup();
            HistBucket {
                op: part.op_name(&entries[0]),
                size: part.key_of(&entries[0]).size,
                value,
                gpus: (!nobody).then_some(gpus.len() as u64),
            }
        })
    }
}

/// The rows of the table; with `bars` a column of bars that shows each row's share of the calls.
pub fn hist_sheet<'c>(calls: &'c CountedCalls, options: &'c Options, bars: bool) -> Sheet<'c> {
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
    let gpus = MemberGpus::new(calls);
    let labels: Vec<String> = (0..=options.edges.len() as u64)
        .map(|bucket| bucket_label(&options.edges, bucket))
        .collect();
    let groups = group_calls(calls, options);
    groups.build_sheet(
        &options.by,
        own,
        GroupRowInputs::Calls,
        move |part, group, out| {
            let list: Vec<_> = gpus.buckets(part, group, &mut Vec::new()).collect();
            push_group_rows(&list, &options.edges, &labels, bars, out);
        },
    )
}

/// The rows of `--time`: how long the calls of each bucket took that have a duration of their own.
pub fn hist_times_sheet<'c>(calls: &'c CountedCalls, options: &'c Options) -> Sheet<'c> {
    let durations = DurationRows::new(calls, options.by.contains(&GroupBy::Step));
    let own = durations.columns_after(&["op", "bucket", "from_bytes", "to_bytes"]);
    let groups = group_calls(calls, options);
    groups.build_sheet(
        &options.by,
        &own,
        GroupRowInputs::More,
        move |part, group, out| {
            let of = |e: &GroupEntry| (part.key_of(e).op, part.key_of(e).size);
            for entries in group.chunk_by(|a, b| of(a) == of(b)) {
                let size = part.key_of(&entries[0]).size;
                let (from, to) = bucket_bounds(&options.edges, size);
                let own = [
                    part.op_name(&entries[0]).into(),
                    bucket_label(&options.edges, size).into(),
                    from.into(),
                    to.into(),
                ];
                durations.push_rows(part, entries, &own, out);
            }
        },
    )
}

/// The rows of a group's buckets.
fn push_group_rows(
    list: &[HistBucket<'_>],
    edges: &[u128],
    labels: &[String],
    bars: bool,
    out: &mut dyn FnMut(&[TableCell<'_>]),
) {
    // A share is of all calls of the group, so that a group's shares add up to 1.
    let (mut calls, mut bytes) = (0_u64, 0_u128);
    for HistBucket { value, .. } in list {
        calls = calls.saturating_add(value.calls);
        bytes = bytes.saturating_add(value.bytes);
    }
    for bucket in list {
        let (value, known) = (&bucket.value, bucket.size != UNKNOWN_SIZE);
        let share = value.calls as f64 / calls as f64;
        let gpus = bucket.gpus;
        let (from, to) = bucket_bounds(edges, bucket.size);
        let label = usize::try_from(bucket.size).ok();
        let label = label.and_then(|at| labels.get(at));
        let row = [
            bucket.op.into(),
            label.map_or("unknown", String::as_str).into(),
            from.into(),
            to.into(),
            value.calls.into(),
            TableCell::share_of(value.calls as f64, calls as f64),
            known.then_some(value.bytes).into(),
            if known {
                TableCell::share_of(value.bytes as f64, bytes as f64)
            } else {
                TableCell::Empty
            },
            gpus.into(),
            gpus.filter(|&n| n > 0)
                .map(|n| value.calls as f64 / n as f64)
                .into(),
            if bars {
                block_bar(share, 24).into()
            } else {
                TableCell::Empty
            },
        ];
        out(&row[..row.len() - usize::from(!bars)]);
    }
}

/// The rows as the AWK chain's fourth script prints them, in its order.
pub fn hist_chain(calls: &CountedCalls, options: &Options) -> Vec<u8> {
    let (groups, gpus) = (group_calls(calls, options), MemberGpus::new(calls));
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let mut own = Vec::new();
    for part in groups.split_parts() {
        let part = groups.take_part(part);
        for group in part.iter_groups() {
            lines.extend(gpus.buckets(&part, group, &mut own).map(|bucket| {
                let label = bucket_label(&options.edges, bucket.size).replace(">=", ">");
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
fn bucket_bounds(edges: &[u128], bucket: u64) -> (Option<u128>, Option<u128>) {
    let Some(at) = usize::try_from(bucket).ok().filter(|&at| at <= edges.len()) else {
        return (None, None);
    };
    let from = if at == 0 { 0 } else { edges[at - 1] };
    (Some(from), edges.get(at).copied())
}

/// Calls with sizes of three digits, in buckets instead, over all steps. Edges are
/// powers of two, which sizes of three digits do not cross.
pub(crate) fn put_in_buckets(calls: &CountedCalls, edges: &[u128]) -> CountedCalls {
    calls.sum_over_steps(|key| key.size = bucket_of_size(edges, key.size))
}

/// The bucket of a size, as [`in_buckets`] has it.
pub(crate) fn bucket_of_size(edges: &[u128], size: u64) -> u64 {
    if size == UNKNOWN_SIZE {
        return UNKNOWN_SIZE;
    }
    let below = edges.iter().take_while(|&&edge| edge <= size.into());
    below.count() as u64
}

/// A bucket's name, `64KB-1MB`.
pub(in crate::stages) fn bucket_label(edges: &[u128], bucket: u64) -> String {
    match bucket_bounds(edges, bucket) {
        (None, _) => "unknown".to_owned(),
        (Some(0), Some(to)) => format!("<{}", format_size(to)),
        (Some(from), Some(to)) => format!("{}-{}", format_size(from), format_size(to)),
        (Some(from), None) => format!(">={}", format_size(from)),
    }
}

/// A size in the largest unit that divides it.
fn format_size(bytes: u128) -> String {
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
        let names: Vec<_> = (0..4).map(|b| bucket_label(&edges, b)).collect();
        assert_eq!(names, ["<64KB", "64KB-1MB", "1MB-16MB", ">=16MB"]);
        assert_eq!(bucket_label(&edges, UNKNOWN_SIZE), "unknown");
        let log2 = log2_edges();
        assert_eq!(
            [0, 1, 11, 64].map(|b| bucket_label(&log2, b)),
            ["<1B", "1B-2B", "1KB-2KB", ">=8EB"]
        );
        assert_eq!(bucket_bounds(&edges, 3), (Some(16 << 20), None));
    }
}
