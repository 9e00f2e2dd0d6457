//! Small jobs with one fault each, as dumps in JSON.

use super::*;
use crate::stages::check::finding::Confidence;
use std::fmt::Write as _;
use std::sync::Arc;

/// A call: group, operation with its elements, line of the program, whether it ended.
type Call<'a> = (&'a str, &'a str, u64, bool);

/// The dump of a rank whose groups are `0`, of all, and pairs.
fn dump(rank: u32, world: u32, calls: &[Call<'_>]) -> FlightDump {
    let all: Vec<u32> = (0..world).collect();
    let (low, pair) = (rank / 2 * 2, format!("pair{}", rank / 2));
    let groups = format!(
        r#""pg_config":{{"0":{{"name":"0","desc":"default_pg","ranks":"{all:?}"}},"{pair}":{{"name":"{pair}","desc":"pair","ranks":"[{low}, {}]"}}}}"#,
        low + 1
    );
    let (mut entries, mut world_seq, mut pair_seq, mut p2p) = (String::new(), 0, 0, 0);
    for (at, (group, op, line, ended)) in calls.iter().enumerate() {
        let (name, elements) = op.split_once('/').unwrap();
        let is_p2p = name.contains(' ');
        let (id, seq, name_of) = match *group {
            "0" => (0, &mut world_seq, r#"["0","default_pg"]"#.to_owned()),
            _ => (1, &mut pair_seq, format!(r#"["{pair}","pair"]"#)),
        };
        match is_p2p {
            true => p2p += 1,
            false => *seq += 1,
        }
        let state = if *ended { "completed" } else { "scheduled" };
        write!(
            entries,
            r#"{}{{"record_id":{at},"pg_id":{id},"process_group":{name_of},"collective_seq_id":{seq},"p2p_seq_id":{p2p},"op_id":{at},"profiling_name":"nccl:{name}","time_created_ns":{},"input_sizes":[[{elements}]],"input_dtypes":["Float"],"output_sizes":[[{elements}]],"output_dtypes":["Float"],"state":"{state}","time_discovered_started_ns":null,"time_discovered_completed_ns":null,"retired":false,"timeout_ms":1000,"is_p2p":{is_p2p},"frames":[{{"name":"main","filename":"/job/train.py","line":{line}}}]}}"#,
            if at == 0 { "" } else { "," },
            1_000_000 * (at as u64 + 1) + u64::from(rank),
        )
        .unwrap();
    }
    let text = format!(r#"{{"version":"2.10",{groups},"pg_status":{{}},"entries":[{entries}]}}"#);
    let name = format!("nccl_trace_rank_{rank}");
    let (dump, cut) = flight::parse_dump(text.as_bytes(), &name, |_| {}).unwrap();
    assert_eq!((cut, dump.damaged, dump.rank), (None, 0, Some(rank)));
    dump
}

/// What the dumps of these ranks show: the finding, its rank, the sentence.
fn shown(ranks: &[(u32, Vec<Call<'_>>)]) -> Option<(&'static str, Option<u32>, String)> {
    let mut dumps = FlightDumps::default();
    for (rank, calls) in ranks {
        dumps.names.push(format!("nccl_trace_rank_{rank}"));
        dumps.read.push((dump(*rank, 4, calls), true));
    }
    let report = Report::new("nccl-check", false, false);
    let ShownFinding { finding, .. } = dumps.into_finding(0, &report).0?;
    Some((finding.kind.id(), finding.about.rank, finding.says))
}

/// What is judged of the dumps of a job's ranks; the second part is false for a dump that is cut.
fn judged(dumps: Vec<(FlightDump, bool)>) -> JudgedRecords {
    let dumps = FlightDumps {
        read: dumps,
        ..FlightDumps::default()
    };
    dumps
        .into_finding(0, &Report::new("nccl-check", false, false))
        .1
}

/// Four ranks that make three steps, the last of them open; `change` changes one rank's calls.
fn job(odd: u32, change: impl Fn(&mut Vec<Call<'static>>)) -> Vec<(u32, Vec<Call<'static>>)> {
    let ranks = (0..4).map(|rank| {
        let mut calls = Vec::new();
        for step in 0..3 {
            let ended = step < 2;
            calls.push(("0", "all_reduce/400", 10, ended));
            calls.push(("pair", "_all_gather_base/64", 11, ended));
            calls.push(("0", "all_reduce/1", 12, ended));
            calls.push(("0", "all_reduce/1", 13, ended));
        }
        if rank == odd {
            change(&mut calls);
        }
        (rank, calls)
    });
    ranks.collect()
}

#[test]
fn calls_that_all_wait_in_are_named_and_not_judged() {
    let (id, rank, says) = shown(&job(9, |_| {})).unwrap();
    assert_eq!((id, rank), ("not_checked", None));
    assert!(
        says.starts_with(
            "not judged: all 4 ranks of process group 0 (default_pg) wait in PyTorch's call 7, \
             AllReduce of 400 fp32 at train.py:10, and in 4 later calls"
        ),
        "{says}"
    );
    // Rank 0 has seen one end: the record is that of a rank that waits, in its own dump.
    let mut some = job(9, |_| {});
    some[0].1.iter_mut().for_each(|call| call.3 = true);
    let read = some.iter().map(|(rank, calls)| {
        let mut dump = dump(*rank, 4, calls);
        let of_rank = |entry: &mut DumpEntry| entry.record_id += 100 * u64::from(*rank);
        dump.entries.iter_mut().for_each(of_rank);
        (dump, true)
    });
    let dumps = FlightDumps {
        read: read.collect(),
        ..FlightDumps::default()
    };
    let report = Report::new("nccl-check", false, false);
    let found = dumps.into_finding(0, &report).0.unwrap().finding;
    assert!(found.says.contains("3 of 4 ranks"), "{}", found.says);
    let at = FirstReportLine {
        input: 1,
        line: 108,
    }
    .into();
    assert_eq!(found.evidence[0].at, at);
    let ended = |(rank, mut calls): (u32, Vec<Call<'static>>)| {
        calls.iter_mut().for_each(|call| call.3 = true);
        (rank, calls)
    };
    let all: Vec<_> = job(9, |_| {}).into_iter().map(ended).collect();
    assert_eq!(shown(&all), None);
}

#[test]
fn only_ranks_whose_calls_were_compared_are_judged() {
    let of = |rank, group| dump(rank, 4, &[(group, "all_reduce/400", 10, true)]);
    let counts = |dumps| {
        let judged = judged(dumps);
        (judged.job_ranks, judged.dumped, judged.cut, judged.compared)
    };
    let two = vec![(of(0, "0"), true), (of(1, "0"), true)];
    assert_eq!(counts(two), (4, 2, 0, 2));
    // Pairs of which the log has one rank each.
    let apart = vec![(of(0, "pair"), true), (of(2, "pair"), true)];
    assert_eq!(counts(apart), (4, 2, 0, 0));
    let empty = vec![(dump(0, 4, &[]), true), (dump(1, 4, &[]), true)];
    assert_eq!(counts(empty), (4, 2, 0, 0));
    let cut = vec![(of(0, "0"), false), (of(1, "0"), true), (of(2, "0"), true)];
    assert_eq!(counts(cut), (4, 3, 1, 2));
    // Messages of which no dump has the other end.
    let send = |rank, to| dump(rank, 4, &[("0", to, 10, true)]);
    let ends = [send(0, "send 0->1/4"), send(2, "send 2->3/4")];
    assert_eq!(counts(ends.map(|end| (end, true)).into()), (4, 2, 0, 0));
    let ends = [send(0, "send 0->1/4"), send(1, "recv 1<-0/4")];
    assert_eq!(counts(ends.map(|end| (end, true)).into()), (4, 2, 0, 2));
    // The later dump of a rank counts.
    let later = dump(0, 4, &[("0", "all_reduce/400", 10, true); 2]);
    let twice = vec![(of(0, "0"), false), (later, true), (of(1, "0"), true)];
    assert_eq!(counts(twice), (4, 2, 0, 2));
}

/// Of the dumps of some ranks most may be those of the ranks at fault.
#[test]
fn most_of_some_ranks_are_not_sure_to_be_right() {
    let two_wrong = |rank| {
        let op = match rank {
            0 | 1 => "broadcast/400",
            _ => "all_reduce/400",
        };
        let calls = [("0", "all_reduce/1", 9, true), ("0", op, 10, false)];
        (dump(rank, 8, &calls), true)
    };
    let sure = |ranks: &[u32]| {
        let dumps = FlightDumps {
            read: ranks.iter().map(|&rank| two_wrong(rank)).collect(),
            ..FlightDumps::default()
        };
        let report = Report::new("nccl-check", false, false);
        let found = dumps.into_finding(0, &report).0.unwrap();
        (found.finding.sure, found.ranks)
    };
    assert_eq!(
        sure(&[0, 1, 2, 3, 4, 5, 6, 7]),
        (Confidence::High, BTreeSet::from([0, 1]))
    );
    assert_eq!(sure(&[0, 1, 5]).0, Confidence::Medium);
}

/// The calls of a rank, this many seconds later.
fn later(mut dump: FlightDump, seconds: u64) -> FlightDump {
    for entry in &mut dump.entries {
        let at = entry.created_ns.map(|ns| ns + seconds * 1_000_000_000);
        entry.created_ns = at;
        entry.completed_ns = at.map(|ns| ns + 1_000_000);
    }
    dump
}

#[test]
fn dumps_of_another_run_are_not_compared() {
    let calls = [("0", "all_reduce/400", 10, true); 3];
    let other = [("0", "_all_gather_base/64", 11, true); 3];
    let of = |rank, world| (later(dump(rank, world, &calls), 0), true);
    let counts = |dumps| {
        let judged = judged(dumps);
        (judged.dumped, judged.compared)
    };
    // A slow rank makes its first call late, and the others end theirs after it.
    let slow = later(dump(3, 4, &calls), 50);
    assert_eq!(counts(vec![of(0, 4), of(1, 4), (slow, true)]), (3, 3));
    // The end of the others' calls was seen minutes before.
    let stale = later(dump(3, 4, &other), 320);
    let read = vec![of(0, 4), of(1, 4), (stale, true)];
    assert_eq!(counts(read.clone()), (2, 2));
    let dumps = FlightDumps {
        read,
        ..FlightDumps::default()
    };
    let report = Report::new("nccl-check", false, false);
    assert!(dumps.into_finding(0, &report).0.is_none());
    // A job that was started again with fewer ranks.
    assert_eq!(counts(vec![of(0, 3), of(1, 3), of(3, 4)]), (2, 2));
}

/// The dumps of few ranks do not show which of the others are missing.
#[test]
fn a_wait_that_few_dumps_show_is_not_judged() {
    let calls = [("0", "all_reduce/400", 10, false)];
    let read = [1, 5, 7].map(|rank| (dump(rank, 8, &calls), true));
    let dumps = FlightDumps {
        read: read.into(),
        ..FlightDumps::default()
    };
    let report = Report::new("nccl-check", false, false);
    let found = dumps.into_finding(0, &report).0.unwrap().finding;
    assert_eq!(found.kind.id(), "not_checked");
    let begin = "not judged: ranks 1, 5 and 7 wait in PyTorch's call 1 of process group 0";
    assert!(found.says.starts_with(begin), "{}", found.says);
}

#[test]
fn who_made_another_call_is_named_with_both_lines() {
    let (id, rank, says) = shown(&job(2, |calls| calls[8].1 = "broadcast/400")).unwrap();
    assert_eq!((id, rank), ("op_mismatch", Some(2)));
    assert!(
        says.contains("rank 2 called Broadcast of 400 fp32 at train.py:10"),
        "{says}"
    );
    let (id, rank, _) = shown(&job(3, |calls| calls[8].1 = "all_reduce/404")).unwrap();
    assert_eq!((id, rank), ("count_mismatch", Some(3)));
}

/// A dump may have no `pg_config`.
#[test]
fn dumps_that_list_no_groups_are_compared_by_who_calls_in_them() {
    let ranks = job(2, |calls| calls[8].1 = "broadcast/400");
    let whole = shown(&ranks);
    let mut dumps = FlightDumps::default();
    for (rank, calls) in &ranks {
        let mut dump = dump(*rank, 4, calls);
        dump.groups.clear();
        for entry in &mut dump.entries {
            entry.group = Arc::new(flight::FlightGroup {
                ranks: Arc::from([]),
                ..flight::FlightGroup::clone(&entry.group)
            });
        }
        dumps.read.push((dump, true));
    }
    let report = Report::new("nccl-check", false, false);
    let found = dumps.into_finding(0, &report).0.map(|of| of.finding);
    let found = found.map(|of| (of.kind.id(), of.about.rank, of.says));
    assert!(whole.is_some());
    assert_eq!(found, whole);
}

#[test]
fn a_call_left_out_is_found_by_its_line_where_the_next_is_the_same_call() {
    let left_out = |calls: &mut Vec<Call<'static>>| {
        calls.remove(6);
    };
    let (id, rank, says) = shown(&job(1, left_out)).unwrap();
    assert_eq!((id, rank), ("line_mismatch", Some(1)));
    assert!(says.contains("rank 1 left out 1 call"), "{says}");
}

#[test]
fn who_never_made_a_call_is_named_with_where_the_others_wait() {
    let (id, rank, says) = shown(&job(0, |calls| calls.truncate(8))).unwrap();
    assert_eq!((id, rank), ("rank_behind", Some(0)));
    assert!(
        says.contains("rank 0 never made PyTorch's call 7 of process group 0"),
        "{says}"
    );
    assert!(
        says.contains("AllReduce of 400 fp32 at train.py:10; ranks 1, 2 and 3 made it"),
        "{says}"
    );
    assert!(
        says.ends_with("AllReduce of 1 fp32 at train.py:13"),
        "{says}"
    );
}

#[test]
fn a_rank_without_a_dump_is_named_where_the_others_wait() {
    let mut three = job(9, |_| {});
    three.remove(2);
    let (id, rank, says) = shown(&three).unwrap();
    assert_eq!((id, rank), ("dead_process", Some(2)));
    assert!(says.contains("rank 2 left no dump"), "{says}");
}

#[test]
fn groups_in_crossed_order_are_a_deadlock() {
    let mut all = job(9, |calls| calls.truncate(8));
    for (rank, calls) in &mut all {
        calls.truncate(8);
        match rank {
            1 => calls.push(("pair", "_all_gather_base/64", 11, false)),
            _ => calls.push(("0", "all_reduce/400", 10, false)),
        }
    }
    let (id, rank, says) = shown(&all).unwrap();
    assert_eq!((id, rank), ("deadlock", Some(1)));
    assert!(
        says.contains("rank 1 waits in PyTorch's call 3 of process group pair0"),
        "{says}"
    );
}

#[test]
fn messages_without_a_counterpart_name_the_rank_common_to_them() {
    let ring = |wrong: bool| {
        let names = [
            ("send 0->1/8", "recv 0<-3/8"),
            ("send 1->2/8", "recv 1<-0/8"),
            ("send 2->3/8", "recv 2<-1/8"),
            ("send 3->0/8", "recv 3<-2/8"),
        ];
        (0..4_u32).zip(names).map(move |(rank, names)| {
            let (send, recv) = match (rank, wrong) {
                (1, true) => ("send 1->0/8", "recv 1<-2/8"),
                _ => names,
            };
            (rank, vec![("0", send, 20, false), ("0", recv, 20, false)])
        })
    };
    let (id, rank, _) = shown(&ring(false).collect::<Vec<_>>()).unwrap();
    assert_eq!((id, rank), ("not_checked", None));
    let (id, rank, _) = shown(&ring(true).collect::<Vec<_>>()).unwrap();
    assert_eq!((id, rank), ("p2p_wrong_peer", Some(1)));
    let mut missing: Vec<_> = ring(false).collect();
    missing[3].1.remove(0);
    let (id, rank, says) = shown(&missing).unwrap();
    assert_eq!((id, rank), ("p2p_missing_counterpart", Some(3)));
    assert!(says.contains("rank 3 made no send for it"), "{says}");
}

#[test]
fn a_rank_waits_for_no_message_that_its_peer_ended() {
    // Each sends around a ring and receives in one launch; in the second round rank 1 leaves its send out.
    let ring = (0..4_u32).map(|rank| {
        let (send, recv): (&str, &str) = [
            ("send 0->1/8", "recv 0<-3/8"),
            ("send 1->2/8", "recv 1<-0/8"),
            ("send 2->3/8", "recv 2<-1/8"),
            ("send 3->0/8", "recv 3<-2/8"),
        ][rank as usize];
        let has_ended = rank != 2;
        let mut calls = vec![("0", send, 20, true), ("0", recv, 20, true)];
        calls.extend((rank != 1).then_some(("0", send, 20, has_ended)));
        calls.extend([("0", recv, 20, has_ended), ("0", "all_reduce/4", 30, false)]);
        (rank, calls)
    });
    let (id, rank, says) = shown(&ring.collect::<Vec<_>>()).unwrap();
    assert_eq!((id, rank), ("p2p_missing_counterpart", Some(1)), "{says}");
    assert!(says.contains("rank 1 made no send for it"), "{says}");
}

#[test]
fn a_recorder_that_forgot_the_first_calls_is_compared_from_what_it_has() {
    let mut all = job(0, |calls| calls.truncate(8));
    // Rank 3's recorder is full: its first calls are gone. Numbers stay.
    let whole = dump(3, 4, &all[3].1);
    let mut cut = whole.clone();
    cut.entries.drain(..5);
    all.remove(3);
    let mut dumps = FlightDumps::default();
    for (rank, calls) in &all {
        dumps.names.push(rank.to_string());
        dumps.read.push((dump(*rank, 4, calls), true));
    }
    dumps.names.push("3".to_owned());
    dumps.read.push((cut, true));
    let shown = dumps
        .into_finding(0, &Report::new("nccl-check", false, false))
        .0
        .unwrap();
    assert_eq!(shown.finding.kind.id(), "rank_behind");
    assert_eq!(shown.finding.about.rank, Some(0));
}

#[test]
fn a_dump_that_is_cut_accuses_nobody_of_what_it_may_have_lost() {
    let mut dumps = FlightDumps::default();
    for (rank, calls) in job(0, |calls| calls.truncate(8)) {
        dumps.names.push(rank.to_string());
        dumps.read.push((dump(rank, 4, &calls), rank != 0));
    }
    let shown = dumps
        .into_finding(0, &Report::new("nccl-check", false, false))
        .0;
    assert_eq!(shown.unwrap().finding.kind.id(), "not_checked");
}

#[test]
fn numbers_as_large_as_can_be_end_in_time() {
    let mut three: Vec<_> = job(9, |_| {})
        .into_iter()
        .map(|(rank, calls)| dump(rank, 4, &calls))
        .collect();
    three.pop();
    for dump in &mut three {
        dump.entries
            .iter_mut()
            .for_each(|entry| entry.collective_seq += u64::MAX - 20);
    }
    let read = three.into_iter().map(|dump| (dump, true)).collect();
    let dumps = FlightDumps {
        read,
        ..FlightDumps::default()
    };
    let shown = dumps
        .into_finding(0, &Report::new("nccl-check", false, false))
        .0
        .unwrap();
    assert_eq!(shown.finding.kind.id(), "dead_process");
}

/// Two ranks of one group, each with calls by letter: `A` and `R`.
fn alternating(first: &str, second: &str) -> Vec<(u32, Vec<Call<'static>>)> {
    let calls = |letters: &str| {
        let each = letters.chars().map(|letter| match letter {
            'A' => ("pair", "_all_gather_base/64", 11, false),
            _ => ("pair", "_reduce_scatter_base/64", 12, false),
        });
        each.collect::<Vec<Call<'static>>>()
    };
    vec![(0, calls(first)), (1, calls(second))]
}

#[test]
fn of_two_ranks_the_one_whose_calls_stop_alternating_is_odd() {
    let (id, rank, says) = shown(&alternating("ARARARARAR", "ARRARARARA")).unwrap();
    assert_eq!((id, rank), ("op_mismatch", Some(1)), "{says}");
    assert!(says.contains("rank 1 left out 1 call"), "{says}");
    let (_, rank, says) = shown(&alternating("ARRARARARA", "ARARARARAR")).unwrap();
    assert_eq!(rank, Some(0), "{says}");
    // The pair beside them calls what rank 0 does.
    let mut four = alternating("ARRARARARA", "ARARARARAR");
    let others = alternating("ARRARARARA", "ARRARARARA");
    four.extend(others.into_iter().map(|(rank, calls)| (rank + 2, calls)));
    let (_, rank, _) = shown(&four).unwrap();
    assert_eq!(rank, Some(1));
}

#[test]
fn a_call_that_all_made_and_the_watchdog_gave_up_is_an_error() {
    let mut dumps = FlightDumps::default();
    for (rank, calls) in job(9, |_| {}) {
        let mut dump = dump(rank, 4, &calls);
        dump.entries
            .iter_mut()
            .for_each(|entry| entry.is_retired = true);
        dumps.read.push((dump, true));
    }
    let report = Report::new("nccl-check", false, false);
    let shown = dumps.into_finding(0, &report).0.unwrap();
    assert_eq!(shown.finding.kind.id(), "watchdog_timeout");
    assert!(shown.clause.contains("all 4 ranks"), "{}", shown.clause);
}

#[test]
fn ranks_that_went_on_from_crossed_groups_are_a_deadlock_too() {
    let crossed = job(1, |calls| calls.swap(8, 9));
    let (id, rank, says) = shown(&crossed).unwrap();
    assert_eq!((id, rank), ("deadlock", Some(1)), "{says}");
    assert!(says.ends_with("in different orders"), "{says}");
}

#[test]
fn a_send_left_out_is_found_where_later_ones_hide_it() {
    let messages = |rank: u32, left_out: Option<usize>| {
        let mut calls = Vec::new();
        for at in 0..12 {
            let (call, ended) = match (at % 2 == 0, rank) {
                (true, 0) => ("send 0->1/8", at < 6),
                (true, _) => ("recv 1<-0/8", at < 6),
                (false, 0) => ("recv 0<-1/8", at < 6),
                (false, _) => ("send 1->0/8", at < 6),
            };
            calls.push(("pair", call, 20, ended));
        }
        if let Some(at) = left_out {
            calls.remove(at);
        }
        (rank, calls)
    };
    let (id, rank, says) = shown(&[messages(0, Some(6)), messages(1, None)]).unwrap();
    assert_eq!((id, rank), ("p2p_missing_counterpart", Some(0)), "{says}");
    assert!(says.contains("rank 0 left out 1 call"), "{says}");
}
