use super::*;
use crate::stages::pieces::{read_after, stamped};
use crate::stages::skew::read_skew;
use crate::testing::options;
use proptest::prelude::*;
use std::sync::LazyLock;

static STAMPED: LazyLock<Vec<u8>> = LazyLock::new(stamped);

/// A log that is walked in pieces of about `size` bytes.
fn times(log: &[u8], size: usize) -> (SkewLogs, MergedMembers) {
    let (read, mut merged) = (options(1, false), MergedMembers::default());
    let mut times = SkewLogs::new(1, true, 1);
    times.begin_input();
    let new = || SkewPartial::new(true);
    let log = read_after(&mut merged, log, size, new, |part| {
        times.add_chunk(part, &read);
    });
    let taken = placement::TakenInput {
        held: None,
        methods: placement::PlacementMethods::default(),
        stepped: None,
        too_many: None,
    };
    let placed = (Placement::default(), taken);
    times.end_input(placed, &log.build_timeline(&read.timeline), &merged);
    (times, merged)
}

fn found(log: &[u8], size: usize) -> Option<Grid> {
    let (times, merged) = times(log, size);
    let silent = Report::new("", false, true).silenced();
    times.build_grid(&merged, None, &silent).map(Result::unwrap)
}

#[test]
fn the_table_is_that_of_the_rows_of_nccl_comms() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &*STAMPED).unwrap();
    let origins = [crate::source::InputName::Path(file.path().to_owned())];
    let mut silent = Report::new("", false, true).silenced();
    let read = options(1, false);
    let progress = &crate::testing::Nobody;
    let rows = read_skew(&origins, &read, &Options::default(), &mut silent, progress).unwrap();
    assert!(rows.rows.len() == 8, "{rows:?}");
    assert_eq!(found(&STAMPED, usize::MAX), Some(rows));
}

#[test]
fn a_call_without_a_stamp_leaves_no_table() {
    let line = b"host:7:7 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7 recvbuff 0x7 count 1 \
                 datatype 7 op 0 root 0 comm 0x9 [nranks=2] stream 0x1\n";
    let both = [&STAMPED[..], line].concat();
    assert_eq!(found(&both, usize::MAX), None);
    assert_eq!(found(&both, 4096), None);
}

/// The ranks of the communicators of a small job, and of one that only some of its ranks are in the log of.
const COMMS: [(&[usize], usize); 4] =
    [(&[0, 1, 2, 3], 4), (&[0, 1], 2), (&[2, 3], 2), (&[0, 3], 8)];

/// What a rank does instead of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Odd {
    /// It makes another one.
    Other,
    /// It makes none.
    Skip,
    /// It sends something before.
    Send,
    /// It is as late.
    Late(u64),
}

/// A call of a communicator, and a rank that does something else.
type Planned = (usize, bool, Option<(usize, Odd)>);

/// The lines of each rank; rank 0 prints a step's line after every five calls.
fn lines(plan: &[Planned], hosts: usize, stops: [usize; 4]) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = vec![Vec::new(); 4];
    let stamp = |us: u64| {
        let (s, us) = (us / 1_000_000, us % 1_000_000);
        format!("2026-11-23T10:{:02}:{:02}.{us:06}", s / 60, s % 60)
    };
    let head = |us: u64, rank: usize| {
        let (host, pid) = (rank % hosts, 100 + rank);
        format!("{} h{host}:{pid}:{pid} [{rank}] NCCL INFO", stamp(us))
    };
    for (comm, (ranks, n)) in COMMS.iter().enumerate() {
        for (at, &rank) in ranks.iter().enumerate() {
            all[rank].push(format!(
                "{} ncclCommInitRankConfig comm 0x{:x} rank {at} nranks {n} cudaDev {rank} nvmlDev {rank} \
                 busId {rank}0 commId 0xabc{comm} - Init COMPLETE\n",
                head(0, rank),
                0x1000 + comm
            ));
        }
    }
    for (number, &(comm, second, odd)) in plan.iter().enumerate() {
        let us = 10_000 * (1 + number as u64);
        for &rank in COMMS[comm].0.iter().filter(|rank| number < stops[**rank]) {
            let own = odd.filter(|odd| odd.0 == rank).map(|odd| odd.1);
            let late = match own {
                Some(Odd::Late(us)) => us,
                _ => (number * 7 + rank * 13) as u64 % 11,
            };
            let ahead = 1_000_000 * (rank % hosts) as u64;
            let mut call = |op: &str| {
                all[rank].push(format!(
                    "{} {op}: opCount 0 sendbuff 0x7 recvbuff 0x7 count 1 datatype 7 op 0 root 0 comm 0x{:x} \
                     [nranks={}] stream 0x1\n",
                    head(us + late + ahead, rank),
                    0x1000 + comm,
                    COMMS[comm].1
                ));
            };
            if own == Some(Odd::Send) {
                call("Send");
            }
            match (own, second) {
                (Some(Odd::Skip), _) => {}
                (Some(Odd::Other), _) => call("Broadcast"),
                (_, true) => call("AllGather"),
                (_, false) => call("AllReduce"),
            }
        }
        if number % 5 == 4 {
            all[0].push(format!(
                "Training epoch 0, iteration {}/99 | lr: 1 | reduced_train_loss: 1 | train_step_timing in \
                 s: 0.05\n",
                number / 5
            ));
        }
    }
    all
}

/// A log of the ranks' lines in some mixture.
fn mixed(lines: Vec<Vec<String>>, turns: &[usize]) -> Vec<u8> {
    let mut ranks: Vec<_> = lines.into_iter().map(Vec::into_iter).collect();
    let mut log: Vec<String> = Vec::new();
    for rank in &mut ranks {
        log.extend(rank.next());
    }
    for turn in turns {
        log.extend(ranks[*turn].next());
    }
    log.extend(ranks.into_iter().flatten());
    log.concat().into_bytes()
}

fn plan(odd: bool) -> impl Strategy<Value = Vec<Planned>> {
    let what = prop_oneof![
        Just(Odd::Other),
        Just(Odd::Skip),
        Just(Odd::Send),
        (0..30_000_u64).prop_map(Odd::Late),
    ];
    let late = (0..30_000_u64).prop_map(Odd::Late);
    let what = if odd { what.boxed() } else { late.boxed() };
    let odd = proptest::option::weighted(0.2, (0..4_usize, what));
    proptest::collection::vec((0..COMMS.len(), any::<bool>(), odd), 0..60)
}

/// All that is known of calls: numbers, the hosts' clocks, and the table.
fn told(found: &SkewSummary) -> (String, Grid) {
    let numbers = (found.timed, found.matched, found.partly, found.alone);
    (
        format!("{numbers:?} {:?}", found.clocks),
        found.late.to_grid(1_000_000),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Matched by number, cut anywhere and on any number of threads, calls are as in line order.
    #[test]
    fn calls_matched_together_are_those_in_line_order(
        (plan, is_odd) in any::<bool>().prop_flat_map(|odd| (plan(odd), Just(odd))),
        hosts in 1..4_usize,
        stops in [0..90_usize, 0..90, 0..90, 0..90],
        turns in proptest::collection::vec(0..4_usize, 0..300),
        (size, jobs) in (200..20_000_usize, 1..4_usize),
        window in prop_oneof![Just(2_000_000_usize), 1..60_usize],
    ) {
        let log = mixed(lines(&plan, hosts, stops), &turns);
        let (times, merged) = times(&log, size);
        let options = Options { window, ..Options::default() };
        let expect = told(&replay_in_line_order(&times.logs, &merged, &options));
        let together = by_communicator::match_all_logs(&times.logs, &merged, jobs, &options);
        // Only what is odd, or too much to wait for, is met in line order.
        prop_assert!(together.is_some() || is_odd && hosts > 1 || window < 100);
        if let Some(together) = together {
            prop_assert_eq!(told(&together), expect);
        }
    }
}

/// More calls than one thread matches, or than are aligned at a time.
#[test]
fn many_calls_are_matched_as_few_are() {
    let plan: Vec<Planned> = (0..48_000)
        .map(|n| {
            let odd = (n % 97 == 0).then_some((n % 4, Odd::Late(2_000)));
            ([0, 0, 0, 0, 1, 0, 0, 2][n % 8], n % 3 == 0, odd)
        })
        .collect();
    for hosts in [1, 2] {
        let turns: Vec<usize> = (0..200_000).map(|n| (n * 7 + n / 13) % 4).collect();
        let log = mixed(
            lines(&plan, hosts, [48_000, 48_000, 47_000, 48_000]),
            &turns,
        );
        let (times, merged) = times(&log, 400_000);
        let options = Options::default();
        let expect = replay_in_line_order(&times.logs, &merged, &options);
        assert!(expect.matched > 40_000, "{}", expect.matched);
        let together = by_communicator::match_all_logs(&times.logs, &merged, 3, &options).unwrap();
        assert_eq!(told(&together), told(&expect));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn chunks_change_nothing(size in 2000..400_000_usize) {
        prop_assert_eq!(found(&STAMPED, size), found(&STAMPED, usize::MAX));
    }
}
