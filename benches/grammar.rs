//! The parts that look at bytes: headers, bodies, step lines, and the walk that joins them.
//!
//! Every bench first holds its answer against the truth of the made log.

#![allow(missing_docs)]

mod common;

use common::{Made, job, make, size};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use nccl_pipe::grammar::trainer::{Recogniser, TrainerMark};
use nccl_pipe::grammar::values::Datatype;
use nccl_pipe::grammar::{coll, header};
use nccl_pipe::log::timeline;
use nccl_pipe::log::walk::{self, ChunkResult, LogCall, LogVisitor, RepairedCall};
use nccl_pipe::synth::Options;
use nccl_pipe::synth::options::{Damage, Nccl, Prefix, SynthTrainer, Timestamps};
use std::hint::black_box;

/// Bytes of a log here: far beyond the caches of a core, and quick to make.
const SIZE: u64 = 16 << 20;

/// The lines that hold a call.
fn call_lines(made: &Made) -> Vec<&[u8]> {
    let lines = made.log.split(|&b| b == b'\n');
    let lines: Vec<_> = lines
        .filter(|l| coll::COLL_ANCHOR_FINDER.find(l).is_some())
        .collect();
    assert_eq!(lines.len() as u64, made.truth.calls);
    lines
}

fn bytes_of(lines: &[&[u8]]) -> Throughput {
    Throughput::Bytes(lines.iter().map(|l| l.len() as u64 + 1).sum())
}

/// `NCCL INFO` headers of call lines.
fn headers(c: &mut Criterion) {
    let mut group = c.benchmark_group("header");
    for (name, options) in shapes() {
        let made = make(&options);
        let lines = call_lines(&made);
        let read = || -> u64 {
            let headers = lines
                .iter()
                .map(|line| header::find_header(black_box(line), 0));
            headers.map(|h| u64::from(black_box(h).is_some())).sum()
        };
        assert_eq!(read(), made.truth.calls);
        group.throughput(bytes_of(&lines));
        group.bench_function(name, |b| b.iter(read));
    }
    group.finish();
}

/// Bodies of call lines: all fields, and the bytes they add up to.
fn bodies(c: &mut Criterion) {
    let mut group = c.benchmark_group("body");
    for (name, nccl) in [("nccl-2.28", Nccl::V2_28), ("rccl-2.27", Nccl::Rccl2_27)] {
        let made = make(&Options {
            nccl,
            ..job(size(SIZE))
        });
        let lines = call_lines(&made);
        let read = || -> u128 {
            let body = |line: &&[u8]| {
                let anchor = coll::COLL_ANCHOR_FINDER.find(black_box(line))?;
                let (_, call, _) = coll::parse_coll_at(line, anchor).ok()?;
                let size = Datatype(call.datatype).size()?;
                Some(u128::from(call.count) * u128::from(size))
            };
            lines.iter().filter_map(body).sum()
        };
        let truth: u128 = made.truth.ops.values().map(|op| op.sum.bytes).sum();
        assert_eq!(read(), truth);
        group.throughput(bytes_of(&lines));
        group.bench_function(name, |b| b.iter(read));
    }
    group.finish();
}

/// Logs whose lines take different ways through the walk.
fn shapes() -> Vec<(&'static str, Options)> {
    let plain = || job(size(SIZE));
    vec![
        ("plain", plain()),
        (
            "stamped",
            Options {
                timestamps: Timestamps::Default,
                ..plain()
            },
        ),
        (
            "srun",
            Options {
                prefix: Prefix::Srun,
                ..plain()
            },
        ),
    ]
}

/// Counts calls and steps, and keeps nothing.
#[derive(Default)]
struct Count {
    calls: u64,
    slots: u64,
}

impl LogVisitor for Count {
    #[inline]
    fn call(&mut self, _: &LogCall<'_>) {
        self.calls += 1;
    }

    fn slot(&mut self) {
        self.slots += 1;
    }

    fn unify_processes(&mut self, _: &[u32]) {}

    fn insert_torn_calls(&mut self, _: &[RepairedCall<'_>]) {}
}

fn walk(log: &[u8], recogniser: &Recogniser) -> ChunkResult<Count> {
    walk::walk_bytes(
        black_box(log),
        walk::ChunkPlace {
            offset: 0,
            is_quiet: true,
        },
        recogniser,
        false,
        Count::default(),
    )
}

/// The whole walk: every line looked at, every call read, every line accounted for.
fn walks(c: &mut Criterion) {
    let recogniser = Recogniser::all();
    let mut group = c.benchmark_group("walk");
    for (name, options) in shapes() {
        let made = make(&options);
        let scanned = walk(&made.log, &recogniser);
        assert_eq!(scanned.visit.calls, made.truth.calls);
        assert_eq!(scanned.account.lines, made.truth.lines);
        assert_eq!(steps(&scanned), made.truth.steps.len());
        group.throughput(Throughput::Bytes(made.log.len() as u64));
        group.bench_function(name, |b| b.iter(|| walk(&made.log, &recogniser)));
    }
    damaged(&mut group, &recogniser);
    group.finish();
}

/// NCCL 2.29's lines of over 128 bytes, two in a hundred torn. Whether pieces belong together
/// is decided at the merge: here each is only found.
fn damaged(group: &mut BenchmarkGroup<'_, WallTime>, recogniser: &Recogniser) {
    let made = make(&Options {
        nccl: Nccl::V2_29,
        damage: vec![(Damage::Torn, 0.02)],
        ..job(size(SIZE))
    });
    let scanned = walk(&made.log, recogniser);
    let torn = made.truth.joinable.torn;
    assert!(torn > 0 && scanned.visit.calls + scanned.visit.slots >= made.truth.calls);
    assert!(scanned.visit.calls <= made.truth.calls);
    group.throughput(Throughput::Bytes(made.log.len() as u64));
    group.bench_function("torn", |b| b.iter(|| walk(&made.log, recogniser)));
}

/// The steps that have calls. MaxText prints a line one step late: its last has none.
fn steps(scanned: &ChunkResult<Count>) -> usize {
    let timeline = timeline::resolve_timeline(&scanned.marks, &[], &timeline::Options::default());
    timeline.steps.len() - usize::from(timeline.lags)
}

/// Every trainer's own lines, those that are steps and those that are not, without NCCL's.
fn trainers(recogniser: &Recogniser) -> (Vec<u8>, usize) {
    let mut text = Vec::new();
    let mut expected = 0;
    for &trainer in SynthTrainer::ALL {
        let made = make(&Options {
            trainer,
            steps: 40,
            layers: 1,
            ..Options::default()
        });
        if trainer != SynthTrainer::None {
            let found = steps(&walk(&made.log, recogniser));
            assert_eq!(found, made.truth.steps.len(), "{trainer:?}");
        }
        let foreign = made.log.split(|&b| b == b'\n');
        for line in foreign.filter(|l| memchr::memmem::find(l, b"NCCL ").is_none()) {
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        expected += made.truth.steps.len();
    }
    (text, expected)
}

fn marks(text: &[u8], recogniser: &Recogniser) -> usize {
    let mut found = Vec::new();
    let mut steps = 0;
    for line in text.split(|&b| b == b'\n') {
        found.clear();
        recogniser.marks(black_box(line), &mut found);
        steps += found
            .iter()
            .filter(|f| matches!(f.mark, TrainerMark::Step(_)))
            .count();
    }
    steps
}

/// Step lines among a trainer's other lines, and text without any.
fn recognisers(c: &mut Criterion) {
    let recogniser = Recogniser::all();
    let mut group = c.benchmark_group("recogniser");
    let (once, steps) = trainers(&recogniser);
    // Bars and second ranks print a step more than once.
    let all = marks(&once, &recogniser);
    assert!(steps > 0 && all >= steps, "{all} marks of {steps} steps");
    let times = (size(SIZE) as usize / once.len()).max(1);
    let text = once.repeat(times);
    assert_eq!(marks(&text, &recogniser), all * times);
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("trainers", |b| b.iter(|| marks(&text, &recogniser)));

    let prose = b"[rank3]: loading shard 17 of 64 from checkpoint in 3.51 s, 12 tensors remain\n\
        /opt/env/lib/python3/site-packages/torch/utils/data.py:557: UserWarning: 8 workers\n\
        INFO:root:tokenizer has 128256 entries; padded to a multiple of 128\n";
    let text = prose.repeat(size(SIZE) as usize / prose.len());
    assert_eq!(marks(&text, &recogniser), 0);
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("prose", |b| b.iter(|| marks(&text, &recogniser)));
    group.finish();
}

criterion_group!(benches, headers, bodies, walks, recognisers);
criterion_main!(benches);
