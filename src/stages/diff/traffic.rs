//! Calls and bytes of two runs, by operation, bucket, datatype and kind of communicator.

use super::counts::{Call, Numbers};
use super::row::{Aspect, Row, Value};
use super::run::Run;
use crate::count::tally::NO_TYPE;
use crate::grammar::values::Datatype;
use crate::stages::hist;
use std::collections::{BTreeMap, BTreeSet};

/// What is compared, and how exactly.
#[derive(Debug, Clone, Copy)]
pub(super) struct Basis {
    /// Means of a step; else the whole.
    pub(super) per_step: bool,
    /// By what communicators are for too.
    pub(super) labels: bool,
    /// What may differ.
    pub(super) tolerance: f64,
}

/// An operation, a bucket, a datatype and what the communicator is for.
type Key = (Vec<u8>, u64, String, &'static str);

fn named(run: &Run, basis: Basis) -> BTreeMap<Key, Numbers> {
    let labels = run.found.labels();
    run.counts.by(basis.per_step, |call: &Call| {
        let label = labels.get(&call.member).copied().unwrap_or("unknown");
        let datatype = Datatype::from_code(call.datatype).filter(|_| call.datatype != NO_TYPE);
        (
            run.found.op(call.op).to_vec(),
            call.bucket,
            datatype.map_or("unknown type".to_owned(), |d| d.to_string()),
            if basis.labels { label } else { "" },
        )
    })
}

/// What differs.
pub(super) fn compare(a: &Run, b: &Run, basis: Basis, rows: &mut Vec<Row>) {
    let edges = hist::Options::default().edges;
    let all = |run: &Run| {
        let mut all = run.counts.by(basis.per_step, |_| ());
        all.remove(&()).unwrap_or_default()
    };
    let mut push = |subject: Vec<u8>, a: &Numbers, b: &Numbers, weight: f64| {
        let pairs = [
            (Aspect::Bytes, a.bytes, b.bytes),
            (Aspect::Calls, a.calls, b.calls),
        ];
        for (aspect, a, b) in pairs {
            if a.differs(&b, basis.tolerance) {
                let row = Row::new(aspect, &subject, Value::Number(a), Value::Number(b));
                let basis = if basis.per_step { "per step" } else { "total" };
                rows.push(Row {
                    basis,
                    weight,
                    ..row
                });
            }
        }
    };
    push(b"all".to_vec(), &all(a), &all(b), f64::INFINITY);
    let (a, b) = (named(a, basis), named(b, basis));
    let keys: BTreeSet<&Key> = a.keys().chain(b.keys()).collect();
    for key in keys {
        let of = |all: &BTreeMap<Key, Numbers>| all.get(key).copied().unwrap_or_default();
        let (a, b) = (of(&a), of(&b));
        let (op, bucket, datatype, label) = key;
        let bucket = hist::label(&edges, *bucket);
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
