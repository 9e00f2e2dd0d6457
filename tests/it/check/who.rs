//! nccl-check where few ranks take part: which of two is wrong.

use crate::check::{findings, job};
use crate::support::{Csv, Proc, feed, procs, run};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The first finding: `finding sure pid`.
fn first(log: &str) -> String {
    // NCCL does not count here.
    let log = log.replace("opCount 2c", "opCount 0");
    let csv = Csv::of(&feed("nccl-check", &["-q", "--format", "csv"], log).calm());
    let row = &csv.rows[0];
    ["finding", "sure", "pid"]
        .map(|name| csv.get(row, name))
        .join(" ")
}

/// Four ranks in a world and two pairs that make six steps; `last` gives each rank's calls of the
/// last one: `w`, `W` and `e` of the world, `p` and `P` of its pair, `-` the world's on the pair.
fn steps(last: [&str; 4]) -> String {
    let mut all = [["ppw"; 4]; 6];
    all[5] = last;
    program(&all)
}

/// The same ranks, with the calls of each step.
fn program(steps: &[[&str; 4]]) -> String {
    let world = procs(4);
    let pair = |p: &Proc| Proc {
        host: p.host,
        comm: p.comm + 0x100,
        nranks: 2,
        ..*p
    };
    let pairs: Vec<Proc> = world.iter().map(pair).collect();
    let mut log = String::new();
    for (rank, (all, own)) in (0..).zip(world.iter().zip(&pairs)) {
        writeln!(log, "{}", all.init(rank, 0xa1)).unwrap();
        writeln!(log, "{}", own.init(rank % 2, 0xb1 + u64::from(rank / 2))).unwrap();
    }
    for step in steps {
        for rank in 0..4 {
            for call in step[rank].chars() {
                let line = match call {
                    'w' => world[rank].call("AllReduce", 1, 7),
                    'W' => world[rank].call("AllGather", 64, 7),
                    'e' => world[rank].call("AllReduce", 2, 2),
                    '-' => pairs[rank].call("AllReduce", 1, 7),
                    _ => pairs[rank].call("AllReduce", 4096, 7),
                };
                writeln!(log, "{line}").unwrap();
            }
        }
    }
    log
}

#[test]
fn a_call_on_the_wrong_communicator_and_another_call_come_before_a_circle() {
    let pid = |rank: usize| procs(4)[rank].pid;
    // Rank 1 made the world's call on its pair.
    let group = first(&steps(["ppw", "pp-", "ppw", "ppw"]));
    assert_eq!(group, format!("deadlock high {}", pid(1)));
    // Rank 3 calls something else: that rank 2 waits for it elsewhere follows.
    let other = first(&steps(["ppw", "ppw", "ppw", "W"]));
    assert_eq!(other, format!("op_mismatch high {}", pid(3)));
}

#[test]
fn who_goes_another_way_than_most_ran_a_step_more_or_less() {
    let pid = |rank: usize| procs(4)[rank].pid;
    // Rank 2 is done, and its pair is in a further step, as the others may be.
    let less = first(&steps(["pp", "pp", "e", "p"]));
    assert_eq!(less, format!("deadlock medium {}", pid(2)));
    // All but rank 3 are done, in a call of a new kind or in one that they also made before.
    let more = ["e", "e", "e", "p"];
    assert!(first(&steps(more)).ends_with(&pid(3).to_string()));
    let mut all = [["ppw"; 4]; 8];
    (all[3], all[7]) = (["ppwe"; 4], more);
    assert_eq!(first(&program(&all)), format!("deadlock medium {}", pid(3)));
}

#[test]
fn the_side_of_a_message_is_wrong_whose_size_is_new() {
    let two = procs(2);
    let log = |sizes: &[(u64, u64)]| {
        let mut log = String::new();
        for (rank, p) in (0..).zip(&two) {
            writeln!(log, "{}", p.init(rank, 0xa1)).unwrap();
        }
        for (sent, received) in sizes {
            writeln!(log, "{}", two[0].call_at("Send", *sent, 9, 1)).unwrap();
            writeln!(log, "{}", two[1].call_at("Recv", *received, 9, 0)).unwrap();
        }
        first(&log)
    };
    let usual = [(100, 100); 6];
    let then = |last: (u64, u64)| log(&[&usual[..], &[last]].concat());
    let [from, to] = [0, 1].map(|rank| two[rank].pid);
    assert_eq!(then((102, 100)), format!("count_mismatch high {from}"));
    assert_eq!(then((100, 102)), format!("count_mismatch high {to}"));
    assert_eq!(then((101, 102)), "count_mismatch medium ");
}

#[test]
fn who_alone_has_another_number_of_messages_made_one_too_many_or_too_few() {
    // Ranks 1 and 2 send to rank 0 in each of six steps, which all end with a collective.
    let three = procs(3);
    let log = |sent: u32, received: u32| {
        let mut log = String::new();
        for (rank, p) in (0..).zip(&three) {
            writeln!(log, "{}", p.init(rank, 0xa1)).unwrap();
        }
        for step in 0..6 {
            let (sent, received) = if step == 4 { (sent, received) } else { (1, 1) };
            let mut put = |rank: usize, op: &str, peer: u32, times: u32| {
                for _ in 0..times {
                    writeln!(log, "{}", three[rank].call_at(op, 64, 9, peer)).unwrap();
                }
            };
            put(1, "Send", 0, 1);
            put(0, "Recv", 1, 1);
            put(2, "Send", 0, sent);
            put(0, "Recv", 2, received);
            (0..3).for_each(|rank| put(rank, "AllReduce", 0, 1));
        }
        first(&log)
    };
    let told = |rank: usize| format!("p2p_missing_counterpart high {}", three[rank].pid);
    assert_eq!(log(2, 1), told(2));
    assert_eq!(log(1, 0), told(0));
}

#[test]
fn who_makes_an_exchange_alone_is_in_all_pairs_that_do_not_fit() {
    let four = procs(4);
    let log = |alone: usize, times: u32| {
        let mut log = String::new();
        for (rank, p) in (0..).zip(&four) {
            writeln!(log, "{}", p.init(rank, 0xa1)).unwrap();
        }
        for step in 0..6 {
            for (rank, p) in four.iter().enumerate() {
                let times = if step == 4 && rank == alone { times } else { 1 };
                let line = |op: &str, peer: u32| p.call_at(op, 64, 7, peer);
                for peer in (0..times).flat_map(|_| 0..4) {
                    writeln!(log, "{}\n{}", line("Send", peer), line("Recv", peer)).unwrap();
                }
                writeln!(log, "{}", line("AllReduce", 0)).unwrap();
            }
        }
        first(&log)
    };
    let told = |rank: usize| format!("p2p_missing_counterpart high {}", four[rank].pid);
    assert_eq!(log(1, 2), told(1));
    assert_eq!(log(2, 0), told(2));
}

#[test]
fn a_message_left_out_is_an_error_where_both_ranks_ended_in_order() {
    let two = procs(2);
    // The Recv of message 3 is missing; without a collective, and with equal sizes or others.
    let log = |ends: &[usize], left_out: Option<u64>, grows: u64| {
        let mut log = String::new();
        for (rank, p) in (0..).zip(&two) {
            writeln!(log, "{}", p.init(rank, 0xa1)).unwrap();
        }
        for message in 0..9 {
            let size = 64 + grows * message;
            writeln!(log, "{}", two[0].call_at("Send", size, 9, 1)).unwrap();
            if left_out != Some(message) {
                writeln!(log, "{}", two[1].call_at("Recv", size, 9, 0)).unwrap();
            }
        }
        for &rank in ends {
            let Proc {
                host, pid, comm, ..
            } = two[rank];
            let end = format!(
                "comm {comm:#x} rank {rank} nranks 2 cudaDev {rank} busId 0 - Destroy COMPLETE"
            );
            writeln!(log, "{host}:{pid}:{pid} [{rank}] NCCL INFO {end}").unwrap();
        }
        let log = log.replace("opCount 2c", "opCount 0");
        let csv = Csv::of(&feed("nccl-check", &["-q", "--format", "csv"], log).calm());
        csv.pick(&["severity", "finding", "sure", "pid", "seq"])
    };
    // Of two ranks with equal messages alone, the other may have sent one too many.
    let told = |seq: u32| format!("error p2p_missing_counterpart medium {} {seq}", two[1].pid);
    assert_eq!(log(&[0, 1], Some(3), 0)[0], told(8));
    // Other sizes show the place.
    assert_eq!(log(&[0, 1], Some(3), 1)[0], told(3));
    assert_eq!(log(&[0, 1], None, 1), [""; 0]);
    // Where the receiver did not end, its lines may.
    assert_eq!(log(&[0], Some(8), 0), [""; 0]);
}

#[test]
fn only_whole_steps_that_are_missing_suggest_uneven_data() {
    let three = procs(3);
    // Six steps of three calls; `last` has the calls of rank 2 in the seventh, of those of the others.
    let says = |others: &[(&str, u64, u32)], last: &[(&str, u64, u32)]| {
        let step = [
            ("AllGather", 8, 4),
            ("AllReduce", 64, 7),
            ("AllReduce", 1, 7),
        ];
        let mut log = String::new();
        for (rank, p) in (0..).zip(&three) {
            writeln!(log, "{}", p.init(rank, 0xa1)).unwrap();
        }
        for (rank, p) in three.iter().enumerate() {
            let last = if rank == 2 { last } else { others };
            let calls = std::iter::repeat_n(step, 6)
                .flatten()
                .chain(last.iter().copied());
            for (op, count, datatype) in calls {
                let line = p.call_at(op, count, datatype, 0);
                writeln!(log, "{}", line.replace("opCount 2c", "opCount 0")).unwrap();
            }
        }
        let csv = Csv::of(&feed("nccl-check", &["-q", "--format", "csv"], log).calm());
        csv.column("says")[0].clone()
    };
    let begins = [("AllGather", 8, 4)];
    let within = [("AllGather", 8, 4), ("AllReduce", 64, 7)];
    let cases: [(&[_], &[_], &str); 6] = [
        (
            &begins,
            &[("AllReduce", 2, 8)],
            "it is done with the steps that the others continue",
        ),
        (
            &[("AllReduce", 2, 8)],
            &begins,
            "it runs one more step than the others",
        ),
        (
            &within,
            &[within[0], ("AllReduce", 63, 7)],
            "the same operation with another size",
        ),
        (
            &within,
            &[within[0], ("AllReduce", 64, 6)],
            "the same operation with another data type",
        ),
        (
            &within,
            &[within[0], ("Broadcast", 5, 7)],
            "only this rank makes this call",
        ),
        (
            &within,
            &[within[0], within[0]],
            "it left out the rest of the step",
        ),
    ];
    for (at, (others, last, text)) in cases.into_iter().enumerate() {
        let says = says(others, last);
        assert!(says.contains(text), "{text}: {says}");
        assert_eq!(says.contains("uneven data"), at < 2, "{says}");
    }
}

/// Two processes with three GPUs each, in a world, in threes on a host and in pairs: of a pair each process has one.
/// Rank 4 makes another call with the others of its host.
fn wrong_gpu_of_a_process() -> String {
    let members = |rank: u32| {
        let member = |kind: u32, nranks: u32, own: u32, id: u64| {
            let of = Proc {
                host: ["gpu-a", "gpu-b"][(rank / 3) as usize],
                pid: 7000,
                dev: rank % 3,
                comm: 0x55d0_a000_0000 + u64::from(rank * 3 + kind) * 0x1000,
                nranks,
            };
            (of, own, id)
        };
        [
            member(0, 6, rank, 0xa1),
            member(1, 2, rank / 3, 0xc1 + u64::from(rank % 3)),
            member(2, 3, rank % 3, 0xb1 + u64::from(rank / 3)),
        ]
    };
    let mut log = String::new();
    for kind in 0..3 {
        for rank in 0..6 {
            let (of, own, id) = members(rank)[kind];
            writeln!(log, "{}", of.init(own, id)).unwrap();
        }
    }
    for step in 0..4 {
        for rank in 0..6 {
            let wrong = u64::from(step == 3 && rank == 4);
            for (at, count) in [(0, 1), (2, 4096 + wrong), (1, 64)] {
                let (of, ..) = members(rank)[at];
                writeln!(log, "{}", of.call("AllReduce", count, 7)).unwrap();
            }
        }
    }
    log.replace("opCount 2c", "opCount 0")
}

#[test]
fn of_a_process_with_several_gpus_the_rank_is_that_of_the_gpu() {
    let log = wrong_gpu_of_a_process();
    let check = |more: &[&str]| {
        let args = [&["-q", "--format", "csv"], more].concat();
        Csv::of(&feed("nccl-check", &args, log.as_str()).calm())
    };
    for csv in [check(&[]), check(&["--rank", "4"])] {
        let first = ["finding", "rank", "global_rank"].map(|name| csv.get(&csv.rows[0], name));
        assert_eq!(first, ["count_mismatch", "1", "4"]);
        let says = csv.get(&csv.rows[0], "says");
        assert!(says.starts_with("rank 4 (gpu-b, GPU 1, pid 7000"), "{says}");
    }
    // The table of calls has it in each row, as the filter has.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nccl.log");
    std::fs::write(&path, &log).unwrap();
    let calls = |more: &[&str]| {
        let args = [&["-q", path.to_str().unwrap()], more].concat();
        Csv::of(&run("nccl-comms", &args).ends(0))
    };
    let mut rows = BTreeMap::new();
    let all = calls(&[]);
    for row in &all.rows {
        *rows.entry(all.get(row, "global_rank")).or_insert(0) += 1;
    }
    let ranks = ["0", "1", "2", "3", "4", "5"];
    assert_eq!(rows, BTreeMap::from(ranks.map(|rank| (rank, 12))));
    let of_rank = calls(&["--rank", "4"]).column("global_rank");
    assert_eq!(of_rank, ["4"; 12]);
}

#[test]
fn a_sentence_names_the_rank_of_the_job_and_that_in_the_communicator() {
    let shape = "--ranks 16 --nodes 4 --tp 4 --steps 4";
    for seed in 1..=4 {
        for fault in ["slow-init,comm=tensor", "crossed"] {
            let more = format!("--seed {seed} --lead 1 --fault {fault}");
            let job = job(shape, &more).unwrap();
            let truth = &job.truth["fault"];
            let csv = findings(&job.log);
            let of = |name: &str| csv.get(&csv.rows[0], name);
            assert_eq!(
                of("global_rank"),
                truth["rank"].to_string(),
                "{}",
                of("says")
            );
            let gpu = truth["rank"].as_u64().unwrap() % 4;
            let place = format!("{}, GPU {gpu}, pid {}", of("host"), of("pid"));
            let own = match of("rank") == of("global_rank") {
                true => String::new(),
                false => format!(", its rank {}", of("rank")),
            };
            let named = format!("rank {} ({place}{own})", of("global_rank"));
            // Of a communicator in which all wait the slowest is named last.
            let is_named = of("says").starts_with(&named)
                || of("says").ends_with(&format!(", where {named} is the slowest"));
            assert!(is_named, "{named}: {}", of("says"));
        }
    }
}
