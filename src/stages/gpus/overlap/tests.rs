//! Timelines that are made, against sums over single ns, and real ones.

use super::intervals::Interval;
use super::*;
use crate::formats::gpu::{ActivityKind, GpuActivity, GpuVisitor, NamedRange, RecorderSession};
use proptest::prelude::*;

/// One activity: of which process and device, what, from, how long.
type One = (Option<u64>, u32, usize, i64, i64);

const KINDS: [(ActivityKind, &str); 5] = [
    (ActivityKind::Kernel, "gemm"),
    (
        ActivityKind::Kernel,
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    ),
    (ActivityKind::Copy, "HtoD"),
    (ActivityKind::Set, "Memset"),
    (ActivityKind::Graph, "graph"),
];

fn activities() -> impl Strategy<Value = Vec<One>> {
    let one = (
        proptest::option::of(1..3_u64),
        0..2_u32,
        0..5_usize,
        -40..40_i64,
        0..15_i64,
    );
    proptest::collection::vec(one, 0..20)
}

/// The rows of activities and ranges.
fn rows(options: &Options, all: &[One], ranges: &[NamedRange<'_>]) -> Vec<OverlapRow> {
    let mut comm = CommKernels::new(None).unwrap();
    let mut gather = OverlapGatherer::new(options, &mut comm);
    gather.visit_session(&RecorderSession {
        window: Some((-50, 70)),
        ..RecorderSession::default()
    });
    for &(pid, device, kind, from, took) in all {
        let (kind, name) = KINDS[kind];
        gather
            .visit_activity(&GpuActivity {
                kind,
                name: name.as_bytes(),
                pid,
                device,
                stream: None,
                start_ns: from,
                end_ns: from + took,
                bytes: None,
                between: None,
                correlation: None,
                launched: None,
            })
            .unwrap();
    }
    ranges.iter().for_each(|range| gather.visit_range(range));
    gather.devices.values_mut().for_each(OverlapDevice::finish);
    gather.build_rows("x").unwrap()
}

/// The sums of one device, ns by ns, of those that `is_in` the window.
fn naive(
    all: &[One],
    (pid, device): (Option<u64>, u32),
    is_in: impl Fn(i64) -> bool,
) -> OverlapSums {
    let mut sums = OverlapSums::default();
    for at in -100..100_i64 {
        if !is_in(at) {
            continue;
        }
        let own = all.iter().filter(|one| (one.0, one.1) == (pid, device));
        let now = own.filter(|(.., from, took)| (*from..from + took).contains(&at));
        let mut is = [false; 5];
        now.for_each(|one| is[one.2] = true);
        let (compute, comm, memory) = (is[0], is[1], is[2] || is[3]);
        sums.window += 1;
        sums.active += u64::from(is.contains(&true));
        sums.compute += u64::from(compute);
        sums.comm += u64::from(comm);
        sums.memory += u64::from(memory);
        sums.compute_comm += u64::from(compute && comm);
        sums.compute_memory += u64::from(compute && memory);
        sums.comm_memory += u64::from(comm && memory);
    }
    sums
}

fn range(
    name: &str,
    pid: Option<u64>,
    device: Option<u32>,
    span: Interval,
    step: Option<u64>,
) -> NamedRange<'_> {
    NamedRange {
        name: name.as_bytes(),
        pid,
        tid: None,
        device,
        start_ns: span.0,
        end_ns: span.1,
        step,
    }
}

proptest! {
    /// Each window gives what single ns add up to.
    #[test]
    fn sums_are_those_of_single_ns(
        all in activities(),
        spans in proptest::collection::vec((0..3_u64, -60..60_i64, 0..30_i64, proptest::option::of(0..2_u32)), 0..6),
    ) {
        for row in rows(&Options::default(), &all, &[]) {
            let own = all.iter().filter(|one| (one.0, Some(one.1)) == (row.pid, row.device));
            let first = own.clone().map(|one| one.3).min().unwrap();
            let last = own.map(|one| one.3 + one.4).max().unwrap();
            let key = (row.pid, row.device.unwrap());
            prop_assert_eq!(row.sums, naive(&all, key, |at| (first..last).contains(&at)));
        }
        let session = Options { window: ShareWindow::Session, ..Options::default() };
        for row in rows(&session, &all, &[]) {
            let key = (row.pid, row.device.unwrap());
            prop_assert_eq!(row.sums, naive(&all, key, |at| (-50..70).contains(&at)));
        }
        let ranges: Vec<NamedRange<'_>> = spans.iter()
            .map(|&(step, from, took, device)| range("s", None, device, (from, from + took), Some(step)))
            .collect();
        let by_step = Options { by: Some(OverlapGrouping::Step), ..Options::default() };
        for row in rows(&by_step, &all, &ranges) {
            let RangeLabel::Step(step) = row.label else { panic!("{row:?}") };
            let own = |range: &&NamedRange<'_>| range.step == Some(step);
            let device = row.device;
            let has_gpu = ranges.iter().filter(own).any(|range| range.device == device);
            prop_assert_eq!(row.basis, if has_gpu { "gpu range" } else { "host range" });
            let of: Vec<_> = ranges.iter().filter(own)
                .filter(|range| range.device == device.filter(|_| has_gpu)).collect();
            let is_in = |at: i64| of.iter().any(|range| (range.start_ns..range.end_ns).contains(&at));
            prop_assert_eq!(row.sums, naive(&all, (row.pid, device.unwrap()), is_in));
        }
    }
}

#[test]
fn a_range_is_of_the_devices_of_its_process() {
    let all = [(Some(1), 0, 0, 0, 10), (Some(2), 1, 0, 0, 10)];
    let named = Options {
        window: ShareWindow::parse("forward"),
        ..Options::default()
    };
    let ranges = [
        range("forward", Some(1), None, (5, 20), None),
        range("backward", Some(2), None, (0, 20), None),
    ];
    let rows = rows(&named, &all, &ranges);
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0].device, rows[0].sums.compute, rows[0].sums.window),
        (Some(0), 5, 15)
    );
}

#[test]
fn the_last_row_adds_devices_up() {
    let all = [(Some(1), 0, 0, 0, 10), (Some(2), 1, 1, 5, 10)];
    let rows = with_totals(rows(&Options::default(), &all, &[]));
    assert_eq!(rows.len(), 3);
    let sums = rows[2].sums;
    assert_eq!((rows[2].device, rows[2].basis), (None, "gpu"));
    assert_eq!(
        (sums.window, sums.compute, sums.comm, sums.compute_comm),
        (20, 10, 10, 0)
    );
    assert_eq!((sums.exposed_ns(), sums.idle_ns()), (10, 0));
}
