//! Words that the sentences of findings share.

use crate::report::escape_for_terminal;
use crate::stages::check::limits::MAX_NAMES_LISTED;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// Lines that follow from a cause: how many of each kind, by host.
pub(super) type FollowerCounts<'a> = BTreeMap<&'static str, BTreeMap<&'a [u8], u64>>;

/// `warn_peer_closed 12 on a (7), b (5)`, for each kind.
pub(super) fn describe_followers(folded: &FollowerCounts<'_>) -> String {
    let each = folded.iter().map(|(id, hosts)| {
        let count: u64 = hosts.values().sum();
        format!(
            "{id} {} on {}",
            number_of_times(count),
            describe_hosts(hosts)
        )
    });
    each.collect::<Vec<_>>().join(", ")
}

/// The most frequent few.
pub(super) fn most_frequent<'a>(
    of: &BTreeMap<&'a [u8], u64>,
) -> impl Iterator<Item = (&'a [u8], u64)> {
    let mut all: Vec<(&[u8], u64)> = of.iter().map(|(&what, &count)| (what, count)).collect();
    all.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    all.into_iter().take(MAX_NAMES_LISTED)
}

/// `host a`, or `3 hosts: a (7), b (5), c (1)`.
pub(super) fn describe_hosts(hosts: &BTreeMap<&[u8], u64>) -> String {
    let name = |host: &[u8]| match host {
        b"" => "an unnamed host".to_owned(),
        host => format!("host {}", quote_text(host)),
    };
    if let (1, Some(host)) = (hosts.len(), hosts.keys().next()) {
        return name(host);
    }
    let each = most_frequent(hosts).map(|(host, count)| format!("{} ({count})", quote_text(host)));
    let each = each.collect::<Vec<_>>().join(", ");
    let more = match hosts.len().saturating_sub(MAX_NAMES_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{} hosts: {each}{more}", hosts.len())
}

/// A result of NCCL's functions, `ncclResult_t` of `nccl.h`.
pub(super) fn name_result(result: i32) -> String {
    let name = match result {
        1 => "a CUDA error",
        2 => "a system error",
        3 => "an internal error",
        4 => "an invalid argument",
        5 => "an invalid usage",
        6 => "a remote error",
        _ => "a result",
    };
    format!("{name} ({result})")
}

/// `a`, `a and b`, `a, b, c, d and 12 more`.
pub(crate) fn list_names<T: AsRef<[u8]>>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<T> = names.into_iter().collect();
    let shown = if names.len() > MAX_NAMES_LISTED + 1 {
        MAX_NAMES_LISTED
    } else {
        names.len()
    };
    let mut parts: Vec<String> = names[..shown]
        .iter()
        .map(|n| quote_text(n.as_ref()))
        .collect();
    if names.len() > shown {
        parts.push(format!("{} more", names.len() - shown));
    }
    match parts.pop() {
        None => String::new(),
        Some(last) if parts.is_empty() => last,
        Some(last) => format!("{} and {last}", parts.join(", ")),
    }
}

/// `1 host`, `2 hosts`.
pub(super) fn number_and_noun<N: Display + PartialEq + From<u8>>(n: N, what: &str) -> String {
    let s = if n == N::from(1) { "" } else { "s" };
    format!("{n} {what}{s}")
}

/// Groups what has an equal key, in the order of the first of each.
pub(crate) fn group_alike<'t, T, K: PartialEq>(
    all: impl IntoIterator<Item = &'t T>,
    key: impl Fn(&T) -> K,
) -> Vec<Vec<&'t T>> {
    let mut groups: Vec<Vec<&T>> = Vec::new();
    for one in all {
        match groups.iter_mut().find(|of| key(of[0]) == key(one)) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

/// Returns the form of a verb for `n` subjects.
pub(super) fn verb_form<'a>(n: usize, one: &'a str, many: &'a str) -> &'a str {
    if n == 1 { one } else { many }
}

pub(super) fn number_of_lines(count: u64) -> String {
    number_and_noun(count, "WARN line")
}

pub(super) fn number_of_processes(count: usize) -> String {
    format!("{count} process{}", if count == 1 { "" } else { "es" })
}

pub(super) fn number_of_times(count: u64) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        _ => format!("{count} times"),
    }
}

/// Log text in a sentence.
pub(super) fn quote_text(bytes: &[u8]) -> String {
    escape_for_terminal(&String::from_utf8_lossy(bytes), false)
}

/// `rank 3`, `ranks 0, 1 and 2`, `ranks 0-4, 8-11`.
pub(crate) fn list_ranks(ranks: &BTreeSet<u32>) -> String {
    let noun = verb_form(ranks.len(), "rank", "ranks");
    let numbers = match ranks.len() > MAX_NAMES_LISTED + 1 {
        true => rank_ranges(ranks),
        false => list_names(ranks.iter().map(u32::to_string)),
    };
    format!("{noun} {numbers}")
}

/// Ranks as `0-2, 5`.
pub(crate) fn rank_ranges(ranks: &BTreeSet<u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, end)) if end.checked_add(1) == Some(rank) => *end = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let each: Vec<String> = runs
        .iter()
        .take(16)
        .map(|&(from, to)| match to - from {
            0 => from.to_string(),
            _ => format!("{from}-{to}"),
        })
        .collect();
    let more = match runs.len() - each.len() {
        0 => String::new(),
        more => format!(" and {more} more runs of ranks"),
    };
    each.join(", ") + &more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut() {
        let all: Vec<String> = (0..9).map(|n| n.to_string()).collect();
        assert_eq!(list_names(&all[..0]), "");
        assert_eq!(list_names(&all[..1]), "0");
        assert_eq!(list_names(&all[..2]), "0 and 1");
        assert_eq!(list_names(&all[..5]), "0, 1, 2, 3 and 4");
        assert_eq!(list_names(&all), "0, 1, 2, 3 and 5 more");
    }

    #[test]
    fn one_has_no_s() {
        assert_eq!(number_and_noun(1_u64, "call"), "1 call");
        assert_eq!(number_and_noun(0_usize, "call"), "0 calls");
    }
}
