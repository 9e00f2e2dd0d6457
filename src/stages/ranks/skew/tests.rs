use super::*;
use crate::output::render::TableCell;
use proptest::prelude::*;
use std::io::Write as _;

const HEADER: &str =
    "step,time,host,pid,rank,nranks,comm_id,seq,op,count,datatype,start_ns,dur_ns\n";

/// How far the second host's clock is ahead.
const AHEAD: i64 = 1_500_000_000;

const MS: i64 = 1_000_000;

/// The rows of a job of four ranks on two hosts, 40 steps of five calls, in the order of the ranks:
/// rank 1 is 20 ms late in every tenth step, rank 3 is always 2 ms late.
fn job(row: impl Fn(u64, u64, u64, i64) -> String) -> Vec<Vec<String>> {
    let rank = |rank: u64| {
        let calls = (1..=40).flat_map(|step| (0..5).map(move |call| (step, call)));
        calls.map(move |(step, call): (u64, u64)| {
            let late = match (rank, step % 10) {
                (1, 0) => 20 * MS,
                (3, _) => 2 * MS,
                _ => 0,
            };
            let seq = 5 * (step - 1) + call;
            // No two ranks are equal to the ns.
            let jitter = ((seq * 7 + rank * 13) % 11) as i64 * 10_000;
            (step, seq, late + jitter)
        })
    };
    let rows = |of: u64| {
        rank(of)
            .map(|(step, seq, late)| row(step, of, seq, late))
            .collect()
    };
    (0..4).map(rows).collect()
}

/// A row of a log with time stamps.
fn logged(step: u64, rank: u64, seq: u64, late: i64) -> String {
    let ahead = if rank < 2 { 0 } else { AHEAD };
    let us = (seq as i64 * 30 * MS + late + ahead) / 1000;
    let (s, us) = (us / 1_000_000, us % 1_000_000);
    let time = format!("2026-11-23 10:{:02}:{:02}.{us:06}", s / 60, s % 60);
    let host = ["a", "b"][rank as usize / 2];
    format!(
        "{step},{time},{host},{},{rank},4,0x9f3b,{seq},AllReduce,64,fp32,,\n",
        100 + rank
    )
}

/// A row of a record without a start: the late ones wait less.
fn recorded(_: u64, rank: u64, seq: u64, late: i64) -> String {
    let dur = 50 * MS - late;
    format!(
        ",,a,{},{rank},4,0x9f3b,{seq},AllReduce,64,fp32,,{dur}\n",
        100 + rank
    )
}

fn found(rows: impl Iterator<Item = String>, options: &Options, cut: usize) -> SkewSummary {
    let mut taken = SkewBuilder::default();
    let mut feed = TableFeed::new(|row: &Row<'_>| taken.add_row(row, options));
    let text: String = std::iter::once(HEADER.to_owned()).chain(rows).collect();
    for part in text.as_bytes().chunks(cut) {
        feed.write_all(part).unwrap();
    }
    taken.finish_rows(options)
}

/// Columns of the table, a row a line.
fn shown(grid: &Grid, names: &[&str]) -> Vec<String> {
    let at = |name: &&str| grid.columns.iter().position(|c| c == name).unwrap();
    let cell = |cell: &TableCell<'_>| match cell {
        TableCell::Int(n) => n.to_string(),
        TableCell::Float(x) | TableCell::Share(x) => x.to_string(),
        TableCell::Text(text) => String::from_utf8_lossy(text).into_owned(),
        TableCell::Empty => String::new(),
    };
    let row = |row: &Vec<TableCell<'_>>| {
        let cells = names.iter().map(|name| cell(&row[at(name)]));
        cells.collect::<Vec<_>>().join(" | ")
    };
    grid.rows.iter().map(row).collect()
}

const WHO: [&str; 4] = ["rank", "pattern", "every", "which_steps"];

#[test]
fn a_rank_that_is_late_at_times_is_told_from_one_that_always_is() {
    let options = Options::default();
    let rows = job(logged).into_iter().flatten();
    let found = found(rows, &options, 4096);
    assert_eq!((found.matched, found.partly, found.alone), (200, 0, 0));
    let grid = found.late.to_grid(options.late_ns);
    let expect = [
        "0 |  |  | ",
        "1 | at times | 10 | 10, 20, 30, 40",
        "2 |  |  | ",
        "3 | always |  | ",
    ];
    assert_eq!(shown(&grid, &WHO), expect);
}

#[test]
fn clocks_that_are_not_aligned_hide_who_is_late() {
    let options = Options {
        align: false,
        ..Options::default()
    };
    let rows = job(logged).into_iter().flatten();
    let grid = found(rows, &options, 4096).late.to_grid(options.late_ns);
    let always = ["0 | ", "1 | ", "2 | always", "3 | always"];
    assert_eq!(shown(&grid, &["rank", "pattern"]), always);
}

#[test]
fn durations_tell_who_came_last_without_a_clock() {
    let options = Options {
        from: ArrivalSource::Durations,
        ..Options::default()
    };
    let rows = job(recorded).into_iter().flatten();
    let grid = found(rows, &options, 4096).late.to_grid(options.late_ns);
    let expect = ["0 | ", "1 | at times", "2 | ", "3 | always"];
    assert_eq!(shown(&grid, &["rank", "pattern"]), expect);
}

fn read_rows(text: &str, options: &Options) -> SkewSummary {
    let mut taken = SkewBuilder::default();
    let mut feed = TableFeed::new(|row: &Row<'_>| taken.add_row(row, options));
    feed.write_all(text.as_bytes()).unwrap();
    drop(feed);
    taken.finish_rows(options)
}

/// Rows as of the profiler plugin's traces: two processes, each with a clock that began with it, no size of the
/// communicator. Rank 1 is 3 ms late at five of twelve calls; its first call has a time of the GPU's.
#[test]
fn clocks_that_begin_with_each_process_are_aligned_by_the_calls_of_both() {
    let head = "pid,rank,comm_id,seq,op,count,datatype,start_ns,clock\n".to_owned();
    let row = |rank: i64, seq: i64| {
        let late = if rank == 1 && seq % 12 < 5 { 3 * MS } else { 0 };
        let start = 30 * MS * seq + late + rank * 5_000 * MS;
        let clock = if (rank, seq) == (1, 12) {
            "gpu"
        } else {
            "plugin"
        };
        format!(
            "{},{rank},0x9f3b,{seq},AllReduce,64,fp32,{start},{clock}\n",
            100 + rank
        )
    };
    let rows = [0, 1].map(|rank| (0..13).map(move |seq| row(rank, seq)).collect::<String>());
    let options = Options::default();
    let found = read_rows(&(head + &rows.concat()), &options);
    assert_eq!((found.matched, found.partly, found.alone), (12, 0, 1));
    let grid = found.late.to_grid(options.late_ns);
    let columns = ["rank", "pid", "pattern", "late_calls", "max_us"];
    let expect = ["0 | 100 |  | 0 | 0", "1 | 101 | often | 5 | 3000"];
    assert_eq!(shown(&grid, &columns), expect);
    let options = Options {
        align: false,
        ..Options::default()
    };
    let refused = build_skew_table(&found, &options, &Report::of_section());
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("begin with each process")
    );
}

/// Rows with durations, by clocks that began together or not: rank 1 is always 2 ms late.
#[test]
fn clocks_that_begin_with_each_process_are_believed_until_a_call_contradicts_them() {
    for (apart, late) in [(0, 2000), (500, 0)] {
        let head = "pid,rank,comm_id,seq,op,count,datatype,start_ns,dur_ns,clock\n".to_owned();
        let row = |rank: i64, seq: i64| {
            let start = 30 * MS * seq + rank * (2 + apart) * MS;
            let dur = (5 - 2 * rank) * MS;
            format!(
                "{},{rank},0x9f3b,{seq},AllReduce,64,fp32,{start},{dur},plugin\n",
                100 + rank
            )
        };
        let rows = [0, 1].map(|rank| (0..13).map(move |seq| row(rank, seq)).collect::<String>());
        let options = Options::default();
        let found = read_rows(&(head + &rows.concat()), &options);
        assert_eq!(found.own_clocks.hidden_ns(), (apart == 0).then_some(3 * MS));
        let grid = found.late.to_grid(options.late_ns);
        let shown = shown(&grid, &["rank", "max_us"]);
        assert_eq!(shown[1], format!("1 | {late}"), "{apart}");
    }
}

/// At the first call the ranks overlap; later the hosts run further ahead of their GPUs than the kernels take.
#[test]
fn the_clocks_of_one_host_are_believed_until_all_calls_disprove_them() {
    for (ahead, late) in [(2 * MS, 2000), (3_700 * MS, 0)] {
        let row = |rank: i64, seq: i64| {
            let start = 30 * MS * seq + rank * ahead;
            let dur = if seq == 0 { 5 * MS } else { MS };
            let call = format!("{seq},AllReduce,64,fp32,{start},{dur}");
            format!(",,a,{},{rank},2,0x9f3b,{call}\n", 100 + rank)
        };
        let options = Options::default();
        let rows = (0..13).flat_map(|seq| [row(0, seq), row(1, seq)]);
        let found = found(rows, &options, 4096);
        assert_eq!(found.clocks.has_disproved(), late == 0);
        let grid = found.late.to_grid(options.late_ns);
        assert_eq!(shown(&grid, &["rank", "max_us"])[1], format!("1 | {late}"));
    }
}

/// A record with kernels: rank 1's enqueues are 2 ms late, its kernels 3 ms. The clock of the enqueues begins with each
/// process; each has a kernel that began 20 us after its enqueue. Five of twelve calls have no kernel. The GPU's clock of
/// rank 1 is ahead by `ahead` ns. Only `whole` kernels are whole.
fn kernels_of_ranks(ahead: i64, whole: i64, quick: i64) -> String {
    let head =
        "pid,rank,nranks,comm_id,seq,op,count,datatype,start_ns,dur_ns,clock,quality,enqueue_ns\n";
    let row = |rank: i64, seq: i64| {
        let enqueue = 30 * MS * seq + 2 * MS * rank;
        let own = enqueue - rank * 700 * MS + 900 * MS;
        let launch = if seq < quick {
            20_000
        } else {
            5 * MS + rank * MS
        };
        let (start, times) = match seq < 7 {
            true => {
                let start = 1_790_000_000_000_000_000 + enqueue + launch;
                let took = 10 * MS - 2 * MS * rank - launch;
                let part = if seq < whole {
                    ""
                } else {
                    ", some channels only"
                };
                (
                    start + rank * ahead,
                    format!("{took},gpu,\"kernel, without its launch{part}\""),
                )
            }
            false => (own, ",plugin,enqueue only".to_owned()),
        };
        format!(
            "{},{rank},2,0x9f3b,{seq},AllReduce,64,fp32,{start},{times},{own}\n",
            100 + rank
        )
    };
    let rows = [0, 1].map(|rank| (0..12).map(move |seq| row(rank, seq)).collect::<String>());
    head.to_owned() + &rows.concat()
}

#[test]
fn enqueues_are_compared_and_their_clocks_aligned_by_kernels() {
    let text = kernels_of_ranks(0, 7, 2);
    for (from, calls, late) in [
        (ArrivalSource::Starts, 12, 2000),
        (ArrivalSource::Kernels, 7, 3000),
    ] {
        let options = Options {
            from,
            ..Options::default()
        };
        let found = read_rows(&text, &options);
        let grid = found.late.to_grid(options.late_ns);
        let shown = shown(&grid, &["rank", "calls", "max_us"]);
        assert_eq!(shown[1], format!("1 | {calls} | {late}"));
        assert!(found.own_clocks.hidden_ns().is_none() && found.other_kinds.is_empty());
    }
}

/// One quick launch a process may be a slower one of another: its clock is known to 5 ms only.
#[test]
fn no_lateness_is_given_below_the_error_of_the_clocks() {
    let options = Options::default();
    let found = read_rows(&kernels_of_ranks(0, 7, 1), &options);
    let grid = found.late.to_grid(options.late_ns);
    let columns = [
        "rank",
        "calls",
        "pattern",
        "late_calls",
        "last_share",
        "p50_us",
        "max_us",
    ];
    let expect = ["0 | 12 |  |  |  |  | ", "1 | 12 |  |  |  |  | "];
    assert_eq!(shown(&grid, &columns), expect);
    // A longer time is longer than the error.
    let grid = found.late.to_grid(10 * MS as u64);
    assert_eq!(shown(&grid, &["rank", "max_us"]), ["0 | 0", "1 | 2000"]);
}

/// The clocks of GPUs differ on one host, and more on two. Where too few kernels show by how much, medians are left.
#[test]
fn clocks_of_gpus_are_aligned_by_the_ends_of_kernels() {
    for (ahead, whole, late) in [(16_000, 7, 2000), (-700 * MS, 3, 2000), (16_000, 2, 0)] {
        let options = Options::default();
        let found = read_rows(&kernels_of_ranks(ahead, whole, 2), &options);
        let grid = found.late.to_grid(options.late_ns);
        let shown = shown(&grid, &["rank", "calls", "max_us"]);
        assert_eq!(shown[1], format!("1 | 12 | {late}"), "{ahead}");
    }
}

/// A job's calls by two clocks: the kind of most calls is taken, and the others are reported.
#[test]
fn times_of_two_kinds_do_not_add_up() {
    let row = |rank: i64, seq: i64| {
        let clock = if seq < 7 { "unix" } else { "mpi_wtime" };
        let start = 1_790_000_000_000_000_000 + 30 * MS * seq + rank * MS * seq;
        format!(
            "{},{rank},2,0x9f3b,{seq},AllReduce,64,fp32,{start},{clock}\n",
            100 + rank
        )
    };
    let rows = [0, 1].map(|rank| (0..12).map(move |seq| row(rank, seq)).collect::<String>());
    let head = "pid,rank,nranks,comm_id,seq,op,count,datatype,start_ns,clock\n".to_owned();
    let options = Options::default();
    let found = read_rows(&(head + &rows.concat()), &options);
    let grid = found.late.to_grid(options.late_ns);
    assert_eq!(
        shown(&grid, &["rank", "calls", "max_us"])[1],
        "1 | 7 | 6000"
    );
    assert_eq!(
        found.other_kinds,
        [("their start (clock mpi_wtime)".to_owned(), 5)]
    );
}

#[test]
fn the_latency_of_a_call_is_the_least_duration_of_its_ranks() {
    let options = Options {
        latency: true,
        ..Options::default()
    };
    let row = |rank: u64, seq: u64, dur: &str| {
        format!(",,a,{rank},{rank},2,0x9,{seq},AllReduce,64,fp32,,{dur}\n")
    };
    let rows = [
        (0, 0, "9000"),
        (0, 1, "4000"),
        (0, 2, "5"),
        (1, 0, "1000"),
        (1, 1, "6000"),
        (1, 2, ""),
    ];
    let rows = rows.into_iter().map(|(rank, seq, dur)| row(rank, seq, dur));
    let grid = found(rows, &options, 4096).latencies.to_grid();
    let columns = ["op", "calls", "mean_us", "p50_us", "max_us", "wait_share"];
    assert_eq!(
        shown(&grid, &columns),
        ["AllReduce | 2 | 2.5 | 1 | 4 | 0.5"]
    );
}

#[test]
fn calls_that_are_too_far_apart_are_given_up() {
    let options = Options {
        window: 100,
        ..Options::default()
    };
    let rows = job(logged).into_iter().flatten();
    let apart = found(rows, &options, 4096);
    assert_eq!((apart.matched, apart.alone), (0, 800));
}

#[test]
fn the_files_of_other_ranks_are_asked_for_where_only_one_rank_has_calls() {
    let refused = |text: &str| {
        let options = Options::default();
        let found = read_rows(text, &options);
        let table = build_skew_table(&found, &options, &Report::of_section());
        table.unwrap_err().to_string()
    };
    let rows = "rank,comm_id,seq,op,count,datatype,start_ns\n0,0x9f3b,1,AllReduce,64,fp32,1000\n";
    let alone = refused(rows);
    assert!(
        alone.starts_with("only one rank is in the input for each of 1 call: "),
        "{alone}"
    );
    assert!(
        alone.contains("files of the other ranks too: nccl-skew FILE"),
        "{alone}"
    );
    // A trace of torch.profiler names communicators by the traces of other ranks.
    let trace = refused(
        "pid,rank,nranks,op,count,datatype,start_ns\n7,0,2,AllReduce,64,fp32,1000\n7,1,2,AllReduce,64,fp32,1001\n",
    );
    assert!(
        trace.starts_with("only one rank is in the input for each of 2 calls: "),
        "{trace}"
    );
    let nameless = refused("op,count,datatype,start_ns\nAllReduce,64,fp32,1000\n");
    assert!(
        nameless.contains("rows need comm_id, rank and seq"),
        "{nameless}"
    );
}

proptest! {
    /// The ranks' rows in any mixture, cut anywhere, give the same table.
    #[test]
    fn the_order_of_the_ranks_does_not_matter(
        turns in proptest::collection::vec(0..4_usize, 800),
        cut in 1..5000_usize,
    ) {
        let options = Options::default();
        let expect = found(job(logged).into_iter().flatten(), &options, 4096);
        let mut ranks: Vec<_> = job(logged).into_iter().map(Vec::into_iter).collect();
        let mut rows = Vec::new();
        for turn in turns {
            rows.extend(ranks[turn].next());
        }
        rows.extend(ranks.into_iter().flatten());
        let mixed = found(rows.into_iter(), &options, cut);
        prop_assert_eq!(mixed.late.to_grid(options.late_ns), expect.late.to_grid(options.late_ns));
    }

    /// Whatever a table holds.
    #[test]
    fn any_rows_are_read(
        rows in proptest::collection::vec(
            "[0-9]{0,2},([0-9:. \\-]{0,20}|2026-11-23 10:00:0[0-9]),[ab]?,[0-9]?,[0-3]?,[0-4]?,(0x[0-3])?,\
             [0-9]{0,20},(AllReduce|Send),[0-9]{1,3},(fp32)?,[0-9]{0,20},[0-9]{0,20}\n", 0..60),
        late in any::<u64>(),
    ) {
        for (from, latency) in [(ArrivalSource::Starts, false), (ArrivalSource::Durations, false), (ArrivalSource::Starts, true)] {
            let options = Options { from, latency, late_ns: late, ..Options::default() };
            let found = found(rows.iter().cloned(), &options, 64);
            found.late.to_grid(late);
            found.latencies.to_grid();
        }
    }
}

/// The clock of the second host jumps at call `at`; kernels begin some ms after the hosts' starts, and end together.
fn job_with_jump(at: i64, jump: i64, calls: i64) -> SkewSummary {
    let row = |rank: i64, seq: i64| {
        let late = if rank == 1 { 5 * MS } else { 0 };
        let ahead = if rank > 1 && seq >= at { jump } else { 0 };
        let begin = 30 * MS * seq + late + (seq * 7 + rank * 13) % 11 * 100_000;
        let (start, took) = (begin + ahead, 30 * MS * seq + 9 * MS - begin);
        let host = ["a", "b"][rank as usize / 2];
        let call = format!("{seq},AllReduce,64,fp32,{start},{took}");
        format!("{seq},,{host},{},{rank},4,0x9f3b,{call}\n", 100 + rank)
    };
    let rows = (0..calls).flat_map(|seq| (0..4).map(move |rank| row(rank, seq)));
    found(rows, &Options::default(), 4096)
}

/// No rank is later than it was without the jump.
fn check_most_late(found: &SkewSummary, at: i64) {
    let most = shown(&found.late.to_grid(MS as u64), &["max_us"]);
    assert!(
        most.iter().all(|us| us.parse::<f64>().unwrap() < 7000.0),
        "{at} {most:?}"
    );
}

#[test]
fn a_clock_that_jumps_is_aligned_on_each_side() {
    for (at, jump) in [(20, 2000 * MS), (31, -300 * MS), (99, 0)] {
        let found = job_with_jump(at, jump, 60);
        let left_out = found.clocks.beside_jumps;
        assert_eq!(
            (left_out > 0, left_out < 9),
            (jump != 0, true),
            "{at} {left_out}"
        );
        assert_eq!(found.clocks.contradicted, 0);
        let grid = found.late.to_grid(MS as u64);
        let expect = ["0 | ", "1 | always", "2 | ", "3 | "];
        assert_eq!(shown(&grid, &["rank", "pattern"]), expect, "{at}");
        check_most_late(&found, at);
    }
}

#[test]
fn a_clock_that_jumps_near_an_end_makes_no_rank_late() {
    for at in [1, 2, 3, 5, 55, 57, 58, 59] {
        let found = job_with_jump(at, 2000 * MS, 60);
        let left_out = found.clocks.beside_jumps + found.clocks.contradicted;
        assert!((1..16).contains(&left_out), "{at} {left_out}");
        check_most_late(&found, at);
    }
    // Beside the end of a stretch, some calls more are in the next one.
    for at in [4094, 4095, 4097, 4098] {
        check_most_late(&job_with_jump(at, 2000 * MS, 4110), at);
    }
}

#[test]
fn calls_lack_ranks_without_a_time_and_ranks_that_are_not_there() {
    let rows = job(logged).into_iter().enumerate();
    let row = |rank: usize, (at, row): (usize, String)| match (rank, at) {
        (1, 0..10) => {
            let cells: Vec<&str> = row.splitn(3, ',').collect();
            Some(format!("{},,{}", cells[0], cells[2]))
        }
        (2, 5..20) => None,
        _ => Some(row),
    };
    let rows = rows.flat_map(|(rank, rows)| {
        rows.into_iter()
            .enumerate()
            .filter_map(move |at| row(rank, at))
    });
    let found = found(rows, &Options::default(), 4096);
    assert_eq!(
        (found.partly, found.lack_times, found.lack_ranks),
        (20, 10, 15)
    );
    assert!(found.are_gaps_known);
}
