//! Calls in which two ranks differ, as PyTorch's wrapper of process groups compares them before it makes them.

use super::{WatchdogMessage, WatchdogRecord};
use crate::grammar::message::fingerprint::{DifferingCalls, RankCall};
use crate::stages::check::finding::{About, Confidence, Finding, Kind};
use crate::stages::check::wording::quote_text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A rank's call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
struct ComparedCall {
    rank: u32,
    seq: Option<u64>,
    op: Box<[u8]>,
    shape: Option<Box<[u8]>>,
    datatype: Option<Box<[u8]>>,
}

impl From<RankCall<'_>> for ComparedCall {
    fn from(call: RankCall<'_>) -> ComparedCall {
        ComparedCall {
            rank: call.rank,
            seq: call.seq,
            op: call.op.into(),
            shape: call.shape.map(Into::into),
            datatype: call.datatype.map(Into::into),
        }
    }
}

impl ComparedCall {
    /// `ALLREDUCE of [195, 16] BFloat16`.
    fn describe_content(&self) -> String {
        let shape = self
            .shape
            .as_ref()
            .map(|shape| format!(" of [{}]", quote_text(shape)));
        let datatype = self
            .datatype
            .as_ref()
            .map(|name| format!(" {}", quote_text(name)));
        [
            quote_text(&self.op),
            shape.unwrap_or_default(),
            datatype.unwrap_or_default(),
        ]
        .concat()
    }

    /// `rank 1 makes ALLREDUCE of [195] BFloat16, its call 7`.
    fn describe_call(&self) -> String {
        let number = self
            .seq
            .map_or(String::new(), |seq| format!(", its call {seq}"));
        format!(
            "rank {} makes {}{number}",
            self.rank,
            self.describe_content()
        )
    }
}

/// The calls of two ranks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ComparedCalls {
    one: ComparedCall,
    other: Option<ComparedCall>,
}

impl From<&DifferingCalls<'_>> for ComparedCalls {
    /// The lower rank comes first: both ranks report the difference.
    fn from(differ: &DifferingCalls<'_>) -> ComparedCalls {
        let (one, other) = (differ.one.into(), differ.other.map(ComparedCall::from));
        match other {
            Some(other) if other < one => ComparedCalls {
                one: other,
                other: Some(one),
            },
            other => ComparedCalls { one, other },
        }
    }
}

/// Makes a finding of the first difference; others follow from it.
pub(super) fn find_differing_calls(records: &[WatchdogRecord]) -> Option<Finding> {
    let all = records.iter().filter_map(|record| match &record.what {
        WatchdogMessage::Differ(calls) => Some((record, calls)),
        _ => None,
    });
    let all: Vec<(&WatchdogRecord, &ComparedCalls)> = all.collect();
    let whole = all.iter().find(|(_, calls)| calls.other.is_some());
    let &(record, calls) = whole.or(all.first())?;
    // Old versions print a rank's own call only; a third rank may be the one that differs.
    let differs = |other: &&ComparedCall| {
        other.rank != calls.one.rank
            && (other.seq != calls.one.seq
                || other.describe_content() != calls.one.describe_content())
    };
    let mut others = all.iter().map(|(_, other)| &other.one);
    let pairs = match whole {
        Some(_) => all
            .iter()
            .map(|(_, calls)| calls)
            .collect::<BTreeSet<_>>()
            .len(),
        None => 1,
    };
    let (kind, says) = match calls.other.as_ref().or_else(|| others.find(differs)) {
        Some(other) => (
            kind_of_difference(&calls.one, other),
            format!(
                "ranks make different calls: {}, {}",
                calls.one.describe_call(),
                other.describe_call()
            ),
        ),
        None => (
            Kind::OpMismatch,
            format!(
                "ranks make different calls: {}, and no line has one that differs from it",
                calls.one.describe_call()
            ),
        ),
    };
    Some(Finding {
        about: About {
            seq: calls.one.seq,
            ..About::default()
        },
        why: match pairs {
            1 => "PyTorch compares the ranks' calls before it makes them \
                  (TORCH_DISTRIBUTED_DEBUG=DETAIL); its numbers are those of the process group"
                .to_owned(),
            n => format!(
                "PyTorch compares the ranks' calls before it makes them \
                 (TORCH_DISTRIBUTED_DEBUG=DETAIL); {n} different pairs of calls are reported"
            ),
        },
        advice:
            "compare the branches of the program that lead these ranks to different calls, and the \
                 sizes of their inputs"
                .to_owned(),
        evidence: vec![record.to_evidence()],
        ..Finding::of_kind(kind, Confidence::High, says)
    })
}

fn kind_of_difference(one: &ComparedCall, other: &ComparedCall) -> Kind {
    if one.op != other.op || one.seq != other.seq {
        Kind::OpMismatch
    } else if one.shape != other.shape {
        Kind::CountMismatch
    } else {
        Kind::DatatypeMismatch
    }
}

#[cfg(test)]
mod tests {
    use super::super::Watchdog;
    use super::*;
    use crate::grammar::message::c10d::parse_c10d_line;
    use crate::stages::net::net_stage::FirstReportLine;

    fn find(lines: &[String]) -> Finding {
        let mut watchdog = Watchdog::default();
        for (number, line) in (0..).zip(lines) {
            let what = parse_c10d_line(line.as_bytes()).unwrap();
            watchdog.take_line(line.as_bytes(), &what, FirstReportLine::in_chunk(number));
        }
        find_differing_calls(watchdog.kept_records()).unwrap()
    }

    fn line(one: (u32, &str), other: (u32, &str)) -> String {
        let ((one, its), (other, others)) = (one, other);
        format!(
            "[rank{one}]: RuntimeError: Detected mismatch between collectives on ranks. Rank {one} is running collective: \
             CollectiveFingerPrint({its}), but Rank {other} is running collective: CollectiveFingerPrint({others})."
        )
    }

    #[test]
    fn two_reports_of_one_difference_are_one_finding() {
        let small = "SequenceNumber=7, OpType=ALLREDUCE, TensorShape=[19], TensorDtypes=Float, x";
        let large = "SequenceNumber=7, OpType=ALLREDUCE, TensorShape=[64], TensorDtypes=Float, x";
        let found = find(&[line((3, large), (2, small)), line((2, small), (3, large))]);
        assert_eq!((found.kind, found.about.rank), (Kind::CountMismatch, None));
        assert_eq!(
            found.says,
            "ranks make different calls: rank 2 makes ALLREDUCE of [19] Float, its call 7, \
             rank 3 makes ALLREDUCE of [64] Float, its call 7"
        );
        assert!(!found.why.contains("pairs"), "{}", found.why);
        let other = find(&[line((3, "SequenceNumber=1OpType=BARRIER"), (2, small))]);
        assert_eq!(other.kind, Kind::OpMismatch);
    }

    #[test]
    fn ranks_that_print_their_own_call_only_are_compared() {
        let own = |rank: u32, call: &str| {
            format!(
                "RuntimeError: Detected mismatch between collectives on ranks. Rank {rank} is running inconsistent \
                 collective: CollectiveFingerPrint({call}"
            )
        };
        let whole = [
            "OpType=ALLGATHER, TensorShape=[41], x",
            "OpType=ALLGATHER, TensorShape=[40], x",
        ];
        let found = find(&[own(0, whole[0]), own(1, whole[1])]);
        let says = "ranks make different calls: rank 0 makes ALLGATHER of [41], rank 1 makes ALLGATHER of [40]";
        assert_eq!((found.kind, &*found.says), (Kind::CountMismatch, says));
        assert!(!found.why.contains("pairs"), "{}", found.why);
        let cut = "OpType=ALLGATHER, TensorShape";
        let found = find(&[own(0, cut), own(1, cut)]);
        let says = "ranks make different calls: rank 0 makes ALLGATHER, and no line has one that differs from it";
        assert_eq!(found.says, says);
        // Two ranks with equal calls: the third one differs.
        let found = find(&[own(0, whole[0]), own(1, whole[0]), own(2, whole[1])]);
        assert!(
            found.says.ends_with("rank 2 makes ALLGATHER of [40]"),
            "{}",
            found.says
        );
    }
}
