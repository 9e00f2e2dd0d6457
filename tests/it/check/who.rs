//! nccl-check where few ranks take part: which of two is wrong.

use crate::support::{Csv, Proc, feed, procs};
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
