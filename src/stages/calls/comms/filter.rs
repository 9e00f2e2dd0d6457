//! Filters calls; if none passes, reports the values present.

use crate::members::comm_id::CommId;
use crate::output::table::Row;
use crate::report::{Report, names_phrase, ranges_phrase};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which calls are wanted; an empty list asks for all.
#[derive(Debug, Clone, Default)]
pub struct CallFilter {
    /// Operations, in any case.
    pub ops: Vec<Vec<u8>>,
    /// Communicators, by address or by id.
    pub comms: Vec<CommId>,
    /// Ranks in the communicator.
    pub ranks: Vec<u32>,
    /// Hosts.
    pub hosts: Vec<Vec<u8>>,
    /// Minimum bytes on the API basis; a call with unknown bytes does not pass.
    pub min_bytes: Option<u128>,
    /// Maximum bytes.
    pub max_bytes: Option<u128>,
}

impl CallFilter {
    /// True for a row that is wanted.
    #[inline(always)]
    pub fn does_pass(&self, row: &Row<'_>) -> bool {
        self.is_op(row.op)
            && self.is_comm(row)
            && self.is_rank(row.rank)
            && self.is_host(row.host)
            && self.is_size(row.bytes())
    }

    #[inline(always)]
    fn is_op(&self, name: &[u8]) -> bool {
        self.ops.is_empty() || self.ops.iter().any(|op| op.eq_ignore_ascii_case(name))
    }

    #[inline(always)]
    fn is_comm(&self, row: &Row<'_>) -> bool {
        let is = |id: Option<CommId>| id.is_some_and(|id| self.comms.contains(&id));
        self.comms.is_empty() || is(row.comm.map(CommId::from_printed)) || is(row.comm_id)
    }

    #[inline(always)]
    fn is_rank(&self, rank: Option<u32>) -> bool {
        self.ranks.is_empty() || rank.is_some_and(|r| self.ranks.contains(&r))
    }

    #[inline(always)]
    fn is_host(&self, name: &[u8]) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|host| host == name)
    }

    fn is_size(&self, bytes: Option<u128>) -> bool {
        self.min_bytes
            .is_none_or(|min| bytes.is_some_and(|b| b >= min))
            && self
                .max_bytes
                .is_none_or(|max| bytes.is_some_and(|b| b <= max))
    }
}

/// The values of calls that do not pass: one for each part of the input, then merged.
#[derive(Debug, Default)]
pub(super) struct UnmatchedCalls {
    calls: bool,
    ops: BTreeSet<Vec<u8>>,
    /// True if a wanted communicator is among them.
    comm: bool,
    ranks: BTreeSet<u32>,
    hosts: BTreeSet<Vec<u8>>,
    /// The least and the most bytes.
    bytes: Option<(u128, u128)>,
}

impl UnmatchedCalls {
    /// Notes a call that `filter` does not pass.
    pub(super) fn add_call(&mut self, row: &Row<'_>, filter: &CallFilter) {
        fn insert_name(set: &mut BTreeSet<Vec<u8>>, name: &[u8]) {
            if !set.contains(name) {
                set.insert(name.to_vec());
            }
        }
        self.calls = true;
        insert_name(&mut self.ops, row.op);
        insert_name(&mut self.hosts, row.host);
        self.comm |= filter.is_comm(row);
        self.ranks.extend(row.rank);
        let bytes = row.bytes().map(|b| (b, b));
        self.bytes = widen_range(self.bytes, bytes);
    }

    fn merge(&mut self, other: UnmatchedCalls) {
        self.calls |= other.calls;
        self.ops.extend(other.ops);
        self.hosts.extend(other.hosts);
        self.comm |= other.comm;
        self.ranks.extend(other.ranks);
        self.bytes = widen_range(self.bytes, other.bytes);
    }

    /// Describes the flags that no call fits, and the values present.
    fn describe_unmatched(&self, filter: &CallFilter) -> String {
        let (mut flags, mut there) = (Vec::new(), Vec::new());
        let mut miss = |flag: &'static str, what: String| {
            flags.push(flag);
            there.push(what);
        };
        if !self.ops.iter().any(|op| filter.is_op(op)) {
            let ops = names_phrase(self.ops.iter().map(|op| &op[..]));
            miss("--op", format!("operations present: {ops}"));
        }
        if !self.comm {
            miss(
                "--comm",
                "nccl-communicators lists those present".to_owned(),
            );
        }
        if !self.ranks.iter().any(|&rank| filter.is_rank(Some(rank))) && !filter.ranks.is_empty() {
            let what = match self.ranks.is_empty() {
                true => NO_RANK_HELP.to_owned(),
                false => format!(
                    "ranks present: {}",
                    ranges_phrase(self.ranks.iter().map(|&r| r.into()))
                ),
            };
            miss("--rank", what);
        }
        if !self.hosts.iter().any(|host| filter.is_host(host)) {
            let hosts = names_phrase(self.hosts.iter().map(|host| &host[..]));
            miss("--host", format!("hosts present: {hosts}"));
        }
        let fits = |(least, most): (u128, u128)| {
            filter.min_bytes.is_none_or(|min| most >= min)
                && filter.max_bytes.is_none_or(|max| least <= max)
        };
        if (filter.min_bytes, filter.max_bytes) != (None, None) && !self.bytes.is_some_and(fits) {
            let what = match self.bytes {
                Some((least, most)) => format!("the calls have {least} to {most} bytes"),
                None => "the bytes of all calls are unknown".to_owned(),
            };
            miss("--min-bytes, --max-bytes", what);
        }
        match flags.is_empty() {
            true => "no call matches all filters together".to_owned(),
            false => format!("no call matches {}; {}", flags.join(", "), there.join("; ")),
        }
    }
}

/// Why no call has a rank.
const NO_RANK_HELP: &str = "the ranks of all calls are unknown; ranks come from NCCL's INIT lines \
                       (NCCL_DEBUG_SUBSYS=INIT,COLL; nccl-steps writes them under --keep-init)";

fn widen_range(a: Option<(u128, u128)>, b: Option<(u128, u128)>) -> Option<(u128, u128)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (a, b) => a.or(b),
    }
}

/// Reports the values present, where none of `others` passes `filter`.
pub(super) fn report_no_call<'r>(
    filter: &CallFilter,
    others: impl Iterator<Item = &'r Row<'r>>,
    report: &Report,
) {
    let watch = FilterWatch::default();
    let mut part = UnmatchedCalls::default();
    others.for_each(|row| part.add_call(row, filter));
    watch.add_part(Some(part), false);
    watch.report_if_none_passed(filter, report);
}

/// Reports a filter that no call passes. Once a call passes, nothing more is noted.
#[derive(Debug, Default)]
pub(super) struct FilterWatch {
    passed: AtomicBool,
    others: Mutex<UnmatchedCalls>,
}

impl FilterWatch {
    /// Returns where to note a part's failing calls, unless a call has passed.
    pub(super) fn new_part(&self) -> Option<UnmatchedCalls> {
        (!self.passed.load(Ordering::Relaxed)).then(UnmatchedCalls::default)
    }

    /// Adds a part; `passed` if one of its calls passed.
    pub(super) fn add_part(&self, part: Option<UnmatchedCalls>, passed: bool) {
        if passed {
            self.passed.store(true, Ordering::Relaxed);
        } else if let Some(part) = part {
            let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
            others.merge(part);
        }
    }

    /// Reports the values present if no call passed.
    pub(super) fn report_if_none_passed(self, filter: &CallFilter, report: &Report) {
        let others = self.others.into_inner();
        let others = others.unwrap_or_else(PoisonError::into_inner);
        if others.calls && !self.passed.into_inner() {
            report.warn(&others.describe_unmatched(filter));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::values::Datatype;

    #[test]
    fn each_flag_that_nothing_fits_says_what_there_is() {
        let row = |op, rank, count| Row {
            op,
            rank,
            count: Some(count),
            host: b"a",
            datatype: Some(Datatype(7)),
            ..Row::default()
        };
        let said = |filter: CallFilter, rows: &[Row<'_>]| {
            let mut others = UnmatchedCalls::default();
            for row in rows {
                assert!(!filter.does_pass(row));
                others.add_call(row, &filter);
            }
            others.describe_unmatched(&filter)
        };
        let rows = [row(&b"Send"[..], Some(0), 1), row(b"Recv", Some(3), 9)];
        let of = |text: &str| vec![text.as_bytes().to_vec()];
        let ops = CallFilter {
            ops: of("Gather"),
            ..CallFilter::default()
        };
        assert_eq!(
            said(ops, &rows),
            "no call matches --op; operations present: Recv, Send"
        );
        let ranks = CallFilter {
            ranks: vec![9],
            ..CallFilter::default()
        };
        assert_eq!(
            said(ranks.clone(), &rows),
            "no call matches --rank; ranks present: 0, 3"
        );
        let unknown = said(ranks, &[row(b"Send", None, 1)]);
        assert!(
            unknown.contains("ranks of all calls are unknown") && unknown.contains("INIT"),
            "{unknown}"
        );
        let sizes = CallFilter {
            min_bytes: Some(37),
            ..CallFilter::default()
        };
        let sizes = said(sizes, &rows);
        assert!(sizes.ends_with("calls have 4 to 36 bytes"), "{sizes}");
        let both = CallFilter {
            ops: of("send"),
            ranks: vec![3],
            ..CallFilter::default()
        };
        assert_eq!(said(both, &rows), "no call matches all filters together");
        let two = CallFilter {
            ops: of("x"),
            hosts: of("b"),
            ..CallFilter::default()
        };
        let two = said(two, &rows);
        assert!(
            two.contains("operations present") && two.contains("hosts present: a"),
            "{two}"
        );
    }

    #[test]
    fn operations_are_found_in_any_case() {
        let filter = CallFilter {
            ops: vec![b"allreduce".to_vec()],
            ..CallFilter::default()
        };
        let row = |op| Row {
            op,
            ..Row::default()
        };
        assert!(filter.does_pass(&row(b"AllReduce")) && !filter.does_pass(&row(b"AllGather")));
    }
}
