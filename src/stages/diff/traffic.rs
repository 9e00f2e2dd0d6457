//! Calls and bytes of two runs, by operation, bucket, datatype and kind of communicator.

use super::counts::{CallsAndBytes, DiffCall};
use super::row::{DiffAspect, DiffRow, DiffValue};
use super::run::DiffRun;
use crate::count::tally::UNNAMED_DATATYPE;
use crate::grammar::values::Datatype;
use crate::stages::hist;
use std::collections::{BTreeMap, BTreeSet};

/// Basis of a comparison.
#[derive(Debug, Clone, Copy)]
pub(super) struct DiffTrafficBasis {
    /// Compares means of a step, or else the whole.
    pub(super) per_step: bool,
    /// Distinguishes calls by the purpose of their communicators.
    pub(super) labels: bool,
    /// Share that may differ.
    pub(super) tolerance: f64,
}

/// Operation, bucket, datatype and purpose of the communicator.
type TrafficKey = (Vec<u8>, u64, String, &'static str);

fn traffic_by_name(run: &DiffRun, basis: DiffTrafficBasis) -> BTreeMap<TrafficKey, CallsAndBytes> {
    let labels = run.found.member_purposes();
    run.counts.group_by(basis.per_step, |call: &DiffCall| {
        let label = labels.get(&call.member).copied().unwrap_or("unknown");
        let datatype =
            Datatype::from_code(call.datatype).filter(|_| call.datatype != UNNAMED_DATATYPE);
        (
            run.found.op_name(call.op).to_vec(),
            call.bucket,
            datatype.map_or("unknown type".to_owned(), |d| d.to_string()),
            if basis.labels { label } else { "" },
        )
    })
}

/// Compares the calls and bytes of two runs.
pub(super) fn compare_traffic(
    a: &DiffRun,
    b: &DiffRun,
    basis: DiffTrafficBasis,
    rows: &mut Vec<DiffRow>,
) {
    let edges = hist::Options::default().edges;
    let all = |run: &DiffRun| {
        let mut all = run.counts.group_by(basis.per_step, |_| ());
        all.remove(&()).unwrap_or_default()
    };
    let mut push = |subject: Vec<u8>, a: &CallsAndBytes, b: &CallsAndBytes, weight: f64| {
        let pairs = [
            (DiffAspect::Bytes, a.bytes, b.bytes),
            (DiffAspect::Calls, a.calls, b.calls),
        ];
        for (aspect, a, b) in pairs {
            if a.differs(&b, basis.tolerance) {
                let row =
                    DiffRow::new(aspect, &subject, DiffValue::Number(a), DiffValue::Number(b));
                let basis = if basis.per_step { "per step" } else { "total" };
                rows.push(DiffRow {
                    basis,
                    weight,
                    ..row
                });
            }
        }
    };
    push(b"all".to_vec(), &all(a), &all(b), f64::INFINITY);
    let (a, b) = (traffic_by_name(a, basis), traffic_by_name(b, basis));
    let keys: BTreeSet<&TrafficKey> = a.keys().chain(b.keys()).collect();
    for key in keys {
        let of =
            |all: &BTreeMap<TrafficKey, CallsAndBytes>| all.get(key).copied().unwrap_or_default();
        let (a, b) = (of(&a), of(&b));
        let (op, bucket, datatype, label) = key;
        let bucket = hist::bucket_label(&edges, *bucket);
        let mut subject = op.clone();
        for word in [&bucket, datatype, *label] {
            if !word.is_empty() {
                subject.push(b' ');
                subject.extend_from_slice(word.as_bytes());
            }
        }
        push(subject, &a, &b, (a.bytes.value() - b.bytes.value()).abs());
    }
}
