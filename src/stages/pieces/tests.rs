//! Runs over pieces and machines give the tables of one run.

use super::{files, made, read, read_after};
use crate::count::calls::{self, CountedCalls, RowCounter};
use crate::count::groups::GroupBy;
use crate::count::row_counts::RowCounts;
use crate::count::tally::{self, Tally};
use crate::formats::lines::RowVisitor as _;
use crate::grammar::values::{ByteBasis, Datatype};
use crate::log::timeline::{self, StepTimeline};
use crate::members::MergedMembers;
use crate::output::render::Sheet;
use crate::output::table::{Row, Timing};
use crate::report::Report;
use crate::source::InputName;
use crate::stages::communicators::{self, CommunicatorTotals};
use crate::stages::{agg, hist, net, ops, tuning};
use crate::testing::{self, Nobody, sent};
use proptest::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// All that a run keeps beside rows: members, and the state of stages.
#[derive(Serialize, serde::Deserialize)]
struct State {
    merged: MergedMembers,
    tally: Tally,
    gathered: CommunicatorTotals,
    net: net::net_stage::NetStage,
    tuning: tuning::tuning_stage::TuningStage,
}

/// Calls by step, process and communicator, operation, size.
type Rows = BTreeMap<(Option<u64>, (Box<[u8]>, Option<u64>), u64, Vec<u8>, u64), u64>;

impl State {
    /// Reads `files`, some of `all`, in pieces of `size` bytes; with `often` the state is sent after each piece.
    /// Calls of known steps go to `rows`.
    fn of(files: &[Vec<u8>], all: usize, size: usize, often: bool, rows: &mut Rows) -> State {
        let tally = tally::Options {
            members: true,
            datatypes: true,
            steps: true,
            exact: true,
            ..tally::Options::by_size(tally::SizeKey::Count, ByteBasis::Api)
        };
        let of_sides = communicators::tally_options(true);
        let mut state = State {
            merged: MergedMembers::default(),
            tally: Tally::new(tally.clone(), all, 1),
            gathered: CommunicatorTotals::new(&of_sides, all, 1),
            net: net::net_stage::NetStage::default(),
            tuning: tuning::tuning_stage::TuningStage::default(),
        };
        let steps = timeline::Options::default();
        for file in files {
            state.merged.begin_next_input();
            state.tally.clear();
            state.gathered.begin_input("a".to_owned());
            state.net.begin_numbered_input(usize::MAX, "a".to_owned());
            let State {
                merged,
                tally: of_calls,
                gathered,
                net,
                tuning,
            } = &mut state;
            let new = || {
                let calls = tally::TallyPartial::new(&tally);
                let sides = communicators::CommunicatorsPartial::new(&of_sides);
                let lines = <(net::fold::NetPartial, tuning::fold::TuningPartial)>::default();
                ((calls, sides), lines)
            };
            let log = read_after(merged, file, size, new, |part| {
                let (((calls, sides), (facts, lines)), part) = part.take_visit();
                of_calls.add_chunk(part.with_visit(calls), &steps);
                gathered.add_chunk(part.with_visit(sides), &steps);
                net.add_chunk(part.with_visit(facts));
                tuning.add_chunk(part.with_visit(lines));
                if often {
                    (*of_calls, *gathered) = (sent(of_calls), sent(gathered));
                    (*net, *tuning) = (sent(net), sent(tuning));
                }
            });
            let timeline = log.build_timeline(&steps);
            of_calls.place_input(&timeline, merged, |_| true);
            gathered.end_input(&timeline, merged, None);
            state.rows(&timeline, rows);
        }
        state
    }

    fn rows(&mut self, timeline: &StepTimeline, rows: &mut Rows) {
        let names: Vec<Vec<u8>> = self.tally.ops.op_names().map(<[u8]>::to_vec).collect();
        let origins = &self.merged.origins;
        let mut add = |gap, key: tally::CallKey, value: tally::CallVolume, names: &[Vec<u8>]| {
            let step = timeline.step_of(gap).map(|step| step.step);
            let member = origins.members.get(key.member);
            let process = origins
                .processes
                .get(origins.places.get(member.place).process);
            let who = (process.host.clone(), process.pid);
            let op = names[key.op as usize].clone();
            *rows
                .entry((step, who, member.comm, op, key.size))
                .or_default() += value.calls;
        };
        self.tally
            .drain_wanted(|_| true, |gap, key, value| add(gap, key, value, &names));
    }

    /// Adds what another machine sent.
    fn merge(&mut self, other: State) {
        let to = self.merged.merge(&other.merged);
        self.tally.merge(other.tally, &to);
        self.gathered.merge(other.gathered, &to, None);
        self.net.merge(other.net, &to);
        self.tuning.merge(other.tuning, &to, &self.merged);
    }

    /// Returns the tables of nccl-communicators, nccl-net and nccl-tuning after the last input.
    fn end(mut self, rows: &mut Rows) -> [String; 5] {
        if let Some((timeline, _)) = self.tally.count_held(&self.merged, |_, _| true) {
            self.rows(&timeline, rows);
        }
        self.gathered.take_rest(&self.merged, None);
        let found = self.gathered.finish(&self.merged);
        let (sides, members) = (
            communicators::build_communicator_grid(&found),
            communicators::build_member_grid(&found),
        );
        self.tuning.end_lines(&self.merged);
        let tuning =
            tuning::table::build_crossover_grid(&self.tuning, &tuning::table::Options::default());
        let net = net::NetSummary::from_stage(self.net, &self.merged);
        let facts = net::table::build_net_grid(&net, &net::table::Options { hosts: true });
        let pairs = net::pairs::build_pair_grid(&net);
        [sides, members, facts, pairs, tuning].map(|table| format!("{table:?}"))
    }
}

/// Returns the rows and tables of a run over `files`; each machine reads one of `counts` of them.
fn machines(files: &[Vec<u8>], counts: &[usize], size: usize, often: bool) -> (Rows, [String; 5]) {
    let (mut rows, mut rest) = (Rows::new(), files);
    let states = counts.iter().map(|&count| {
        let (own, others) = rest.split_at(count);
        rest = others;
        sent(&State::of(own, files.len(), size, often, &mut rows))
    });
    // Later ones come to the first as they are read.
    let all = states.reduce(|mut all, state| {
        all.merge(state);
        all
    });
    let tables = all.unwrap().end(&mut rows);
    (rows, tables)
}

/// The files of a job, and its rows and tables read in one run.
type Made = (Vec<Vec<u8>>, (Rows, [String; 5]));

static MADE: LazyLock<Vec<Made>> = LazyLock::new(|| {
    let of = |nccl: &str| {
        let files = files(&made(nccl));
        let whole = machines(&files, &[files.len()], usize::MAX, false);
        let first = &whole.0.keys().next().unwrap().1;
        let stepped = whole.0.keys().filter(|key| key.0.is_some());
        let others = stepped.filter(|key| key.1 != *first);
        assert!(files.len() == 8 && others.count() > 20, "{nccl}");
        (files, whole)
    };
    ["2.30", "2.16", "rccl-2.22"].into_iter().map(of).collect()
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Each process writes its own file. The state of a run may be sent on after any chunk, too.
    #[test]
    fn files_read_on_several_machines_are_one_run(
        job in 0..3_usize,
        mut cuts in proptest::collection::vec(0..=8_usize, 0..5),
        (size, often) in (2000..60_000_usize, any::<bool>()),
    ) {
        cuts.extend([0, 8]);
        cuts.sort_unstable();
        let counts: Vec<usize> = cuts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let (files, whole) = &MADE[job];
        prop_assert_eq!(&machines(files, &counts, size, often), whole);
    }
}

/// The table as text.
fn csv(sheet: &Sheet<'_>) -> String {
    let mut text = Vec::new();
    sheet.write_csv(1, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// The tables of nccl-ops (sizes, durations), nccl-hist and nccl-agg; `count` counts the calls for
/// each.
fn tables(by: &[GroupBy], count: impl Fn(tally::Options) -> CountedCalls) -> [String; 4] {
    let by = by.to_vec();
    let (of_ops, of_hist, of_agg) = (
        ops::Options {
            by: by.clone(),
            ..ops::Options::default()
        },
        hist::Options {
            by: by.clone(),
            ..hist::Options::default()
        },
        agg::Options {
            by,
            ..agg::Options::default()
        },
    );
    let of_times = ops::Options {
        time: true,
        ..of_ops.clone()
    };
    [
        csv(&ops::ops_sheet(&count(of_ops.tally()), &of_ops)),
        csv(&ops::ops_times_sheet(&count(of_times.tally()), &of_times)),
        csv(&hist::hist_sheet(&count(of_hist.tally()), &of_hist, false)),
        csv(&agg::agg_sheet(&count(of_agg.tally()), &of_agg)),
    ]
}

const BY: [&[GroupBy]; 4] = [
    &[],
    &[GroupBy::Step, GroupBy::CommId],
    &[GroupBy::Rank, GroupBy::Datatype],
    &[GroupBy::Host, GroupBy::Comm],
];

#[test]
fn halves_of_a_log_counted_elsewhere_give_its_table() {
    for nccl in ["2.30", "2.16"] {
        let log = made(nccl);
        for by in BY {
            let of = |size: usize| {
                tables(by, |tally| {
                    let new = || tally::TallyPartial::new(&tally);
                    let calls =
                        calls::count_log_parts(&testing::options(1, false), &tally, |take| {
                            read(&log, size, new, take)
                        });
                    match size < log.len() {
                        true => sent(&calls),
                        false => calls,
                    }
                })
            };
            let whole = of(usize::MAX);
            assert!(whole.iter().all(|table| table.lines().count() > 3));
            assert_eq!(of(log.len().div_ceil(2)), whole, "{nccl} {by:?}");
            assert_eq!(of(log.len() / 5), whole, "{nccl} {by:?}");
        }
    }
}

#[test]
fn logs_counted_apart_and_merged_give_the_table_of_one_run() {
    let dir = tempfile::tempdir().unwrap();
    let origins = ["2.30", "2.16", "rccl-2.22"].map(|nccl| {
        let path = dir.path().join(nccl);
        std::fs::write(&path, made(nccl)).unwrap();
        InputName::Path(path)
    });
    let read = testing::options(1, false);
    let count = |origins: &[InputName], tally: &tally::Options| {
        let mut report = Report::new("a", false, true);
        calls::count_calls(origins, &read, tally, &mut report, &Nobody).unwrap()
    };
    for by in BY {
        let whole = tables(by, |tally| count(&origins, &tally));
        let apart = tables(by, |tally| {
            let parts = origins.chunks(1).map(|origin| sent(&count(origin, &tally)));
            let merge = |mut all: CountedCalls, part| {
                all.merge(part);
                all
            };
            parts.rev().fold(CountedCalls::default(), merge)
        });
        assert_eq!(apart, whole, "{by:?}");
    }
}

/// A row: step, operation, elements, calls, duration.
type Counted = (Option<u64>, usize, u64, u64, Option<u64>);

proptest! {
    /// Rows with durations and without; a row may represent many calls.
    #[test]
    fn halves_of_a_table_counted_elsewhere_give_its_table(
        rows in proptest::collection::vec((
            proptest::option::of(0..3_u64),
            0..3_usize,
            0..9_u64,
            prop_oneof![1..3_u64, Just(u64::MAX)],
            prop_oneof![Just(None), (0..9_u64).prop_map(Some), Just(Some(u64::MAX))],
        ), 0..40),
        half in 0..40_usize,
    ) {
        let add = |rowed: &mut RowCounts, list: &[Counted]| {
            for &(step, op, count, calls, dur_ns) in list {
                let timing = dur_ns.map(|_| Timing { dur_ns, clock: b"gpu", ..Timing::default() });
                rowed.visit_row(&Row {
                    step,
                    op: [&b"Send"[..], b"AllReduce", b"Broadcast"][op],
                    count: Some(count),
                    datatype: Some(Datatype(7)),
                    host: b"a",
                    rank: Some(op as u32),
                    calls,
                    timing: timing.as_ref(),
                    ..Row::default()
                });
            }
        };
        let at = half.min(rows.len());
        let of = |parts: &[&[_]], tally: tally::Options| {
            let read = testing::options(1, false);
            let mut counting = RowCounter::new(&read, &tally);
            for part in parts {
                let mut rowed = RowCounts::new(&tally, None);
                add(&mut rowed, part);
                counting.merge(sent(&rowed));
            }
            counting.finish()
        };
        let (whole, halves) = ([&rows[..]], [&rows[..at], &rows[at..]]);
        for by in BY {
            let both = [&whole[..], &halves[..]].map(|parts| tables(by, |tally| of(parts, tally)));
            prop_assert_eq!(&both[0], &both[1]);
            let merged = tables(by, |tally| {
                let mut all = of(&[&rows[..at]], tally.clone());
                all.merge(sent(&of(&[&rows[at..]], tally)));
                all
            });
            prop_assert_eq!(&merged, &both[0]);
        }
    }
}
