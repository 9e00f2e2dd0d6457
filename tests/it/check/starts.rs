//! What nccl-check makes of a job's start: initialisations that had not ended, connections that are still tried,
//! interfaces and rails.

use crate::support::{Csv, captured_logs, feed};
use flate2::read::MultiGzDecoder;
use std::io::Read;

/// The INIT line of a rank on host `n0` or `n1`, four on each.
fn init(rank: u32, end: &str) -> String {
    says(
        rank,
        &format!(
            "ncclCommInitRank comm 0x55d0a000{rank}000 rank {rank} nranks 8 cudaDev {} nvmlDev {} busId \
             {rank}b000 commId 0x9f3b0c2d11e5a7c4 - Init {end}",
            rank % 4,
            rank % 4
        ),
    )
}

fn says(rank: u32, text: &str) -> String {
    let pid = 100 + rank;
    format!(
        "n{}:{pid}:{pid} [{}] NCCL INFO {text}\n",
        rank / 4,
        rank % 4
    )
}

fn trees(rank: u32) -> String {
    says(
        rank,
        &format!("Trees [0] -1/-1/-1->{rank}->-1 [1] -1/-1/-1->{rank}->-1"),
    )
}

/// `error init_incomplete medium` of each finding, but not of what was not judged.
fn findings(log: &str) -> Vec<String> {
    let mut findings = rows(log).pick(&["severity", "finding", "sure"]);
    findings.retain(|finding| !finding.contains("not_checked"));
    findings
}

fn rows(log: &str) -> Csv {
    Csv::of(&feed("nccl-check", &["-q", "--format", "csv"], log).calm())
}

fn all(each: impl Fn(u32) -> String) -> String {
    (0..8).map(each).collect()
}

#[test]
fn ranks_that_did_not_complete_are_named_with_their_phase() {
    let half: String = [0, 2, 4, 6].map(|rank| init(rank, "COMPLETE")).concat();
    let log = all(|rank| init(rank, "START")) + &half;
    assert_eq!(findings(&log), ["error init_incomplete medium"]);
    let csv = rows(&log);
    let text = &csv.column("says")[0];
    assert!(text.contains("had not ended on ranks 1, 3, 5, 7"), "{text}");
    assert!(text.contains("ranks 0, 2, 4, 6 completed it"), "{text}");
    // With the lines between, the log may have been cut among the last ones.
    let log = all(|rank| init(rank, "START")) + &all(trees) + &half;
    assert_eq!(findings(&log), ["note init_incomplete medium"]);
    // A failure shows that it will not end.
    let failed =
        log + &says(1, "misc/socket.cc:666 -> 2") + &says(1, "group.cc:64 -> 2 [Async thread]");
    assert_eq!(findings(&failed), ["error init_incomplete high"]);
    let csv = rows(&failed);
    let text = &csv.column("says")[0];
    assert!(text.contains("failed on rank 1 (n0:101)"), "{text}");
    assert!(
        text.contains("after the search of rings and trees"),
        "{text}"
    );
    assert_eq!(csv.column("pid"), ["101"]);
}

#[test]
fn a_rank_that_printed_nothing_is_named_unless_it_may_still_come() {
    let others: String = (0..8)
        .filter(|r| *r != 5)
        .map(|r| init(r, "START"))
        .collect();
    assert_eq!(findings(&others), ["warning init_missing_rank low"]);
    assert_eq!(rows(&others).column("rank"), ["5"]);
    // Its process has spoken, or there are lines of rank 0 only.
    let spoke = says(5, "Bootstrap: Using eth0:10.0.0.1<0>") + &others;
    assert_eq!(findings(&spoke), [""; 0]);
    assert_eq!(findings(&init(0, "START")), [""; 0]);
    assert_eq!(findings(&all(|r| init(r, "START"))), [""; 0]);
}

/// The same line as another communicator's, of two ranks: rank `own` there.
fn pair(rank: u32, own: u32, id: &str, end: &str) -> String {
    init(rank, end)
        .replace(
            &format!(" rank {rank} nranks 8"),
            &format!(" rank {own} nranks 2"),
        )
        .replace(&format!("0x55d0a000{rank}000"), &format!("0x{id}00{rank}0"))
        .replace("0x9f3b0c2d11e5a7c4", &format!("0x{id}"))
}

#[test]
fn a_process_that_creates_its_groups_in_another_order_is_named() {
    // Rank 1 meets rank 2 in the group of ranks 2 and 3; rank 0 waits for it.
    let world = all(|rank| init(rank, "START")) + &all(|rank| init(rank, "COMPLETE"));
    let met = pair(0, 0, "a1", "START")
        + &pair(2, 0, "b1", "START")
        + &pair(1, 1, "b1", "START")
        + &pair(3, 1, "b1", "START")
        + &pair(2, 0, "b1", "COMPLETE")
        + &pair(1, 1, "b1", "COMPLETE");
    let timeout = "[rank0]: Traceback (most recent call last):\n\
                   [rank0]: torch.distributed.DistBackendError: [0] is setting up NCCL communicator and retrieving \
                   ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: wait \
                   timeout after 20000ms\n";
    let csv = rows(&(world + &met + timeout));
    let errors = csv.pick(&["severity", "finding", "sure", "pid", "global_rank"]);
    let errors: Vec<&String> = errors
        .iter()
        .filter(|row| row.starts_with("error"))
        .collect();
    assert_eq!(
        errors,
        ["error group_order high 101 1"],
        "{:?}",
        csv.column("says")
    );
    // Without a communicator of all ranks, hosts show the order: all ranks of one are before those of another.
    let hosts = pair(1, 0, "c1", "COMPLETE") + &pair(5, 1, "c1", "COMPLETE");
    let met =
        pair(4, 0, "b1", "COMPLETE") + &pair(1, 1, "b1", "COMPLETE") + &pair(6, 1, "b1", "START");
    let csv = rows(&(hosts + &met));
    assert_eq!(csv.pick(&["finding", "pid"])[0], "group_order 101");
    // Nothing shows which of two processes is wrong.
    let other = init(1, "START").replace("n0:101:101", "n1:201:201");
    let log = init(0, "START") + &init(1, "START") + &other;
    assert_eq!(findings(&log), ["error group_order high"]);
    let csv = rows(&log);
    let says = &csv.column("says")[0];
    assert!(
        says.contains("n0:101 and n1:201 are both its rank 1"),
        "{says}"
    );
    assert_eq!(csv.column("pid"), [""]);
}

#[test]
fn connections_that_are_still_tried_are_named() {
    let retry = |n: u32| {
        format!(
            "socketPollConnect: connect to 10.0.0.9<43921> returned Connection refused, retrying \
             ({n}/34) after sleep for {n}00 msec"
        )
    };
    let tried = says(1, &retry(1)) + &says(1, &retry(2));
    let log = init(1, "START") + &tried;
    assert_eq!(findings(&log), ["warning connect_retrying medium"]);
    let text = rows(&log).column("says")[0].clone();
    assert!(
        text.contains("10.0.0.9<43921>") && text.contains("try 2 of 34"),
        "{text}"
    );
    // It connected.
    let log = log + &trees(1);
    assert_eq!(findings(&log), [""; 0]);
}

#[test]
fn two_hosts_with_one_address_cannot_find_each_other() {
    let uses = |rank, name: &str| says(rank, &format!("Bootstrap : Using {name}<0>"));
    let docker = uses(0, "docker0:172.17.0.1") + &uses(4, "docker0:172.17.0.1");
    assert_eq!(findings(&docker)[0], "error interface_unsuitable medium");
    // Ranks of both found each other.
    let works = docker + &all(|r| init(r, "START")) + &all(|r| init(r, "COMPLETE"));
    assert!(!findings(&works).concat().contains("interface"), "{works}");
    // One host needs no other interface.
    let alone: String = (0..2)
        .map(|rank| uses(rank, "docker0:172.17.0.1"))
        .collect();
    let alone = alone
        + &[0, 1]
            .map(|r| init(r, "START").replace("nranks 8", "nranks 2"))
            .concat()
        + &[0, 1]
            .map(|r| init(r, "COMPLETE").replace("nranks 8", "nranks 2"))
            .concat();
    assert_eq!(findings(&alone), ["note no_first_call low"]);
    let data = |rank, list: &str| says(rank, &format!("NET/Socket : Using {list}"));
    let veth = "[0]ens5:10.0.0.1<0> [1]veth75fa783:fe80::14ad:64ff:fe64:b31e%veth75fa783<0>";
    let veth = data(0, veth) + &data(4, &veth.replace("10.0.0.1", "10.0.0.2"));
    let csv = rows(&veth);
    assert_eq!(csv.column("finding")[0], "interface_unsuitable");
    assert!(csv.column("advice")[0].contains("NCCL_SOCKET_IFNAME=ens5"));
}

#[test]
fn two_hosts_in_different_networks_are_named_where_the_start_fails() {
    let uses = |rank, name: &str| says(rank, &format!("Bootstrap : Using {name}<0>"));
    let retry = says(
        4,
        "socketPollConnect: connect to 10.0.0.5<43921> returned Connection refused, retrying (1/34) after sleep for 100 msec",
    );
    let start = |other: &str| uses(0, "eth0:10.0.0.5") + &uses(4, other) + &init(0, "START");
    let split = start("eth0:192.168.4.5") + &retry;
    let csv = rows(&split);
    let says = csv.column("says").concat();
    assert!(says.contains("are in different networks"), "{says}");
    // Addresses of one range may be in one subnet.
    let same = rows(&(start("eth0:10.9.9.9") + &retry))
        .column("says")
        .concat();
    assert!(!same.contains("different networks"), "{same}");
}

#[test]
fn rails_are_compared_by_both_ends_where_nccl_must_not_change_them() {
    let set = says(0, "NCCL_CROSS_NIC set by environment to 0.");
    let ends = says(
        0,
        "Channel 03/0 : 7[3] -> 0[0] [receive] via NET/IB/0/GDRDMA",
    ) + &says(7, "Channel 03/0 : 7[3] -> 0[0] [send] via NET/IB/1/GDRDMA");
    assert_eq!(
        findings(&(set.clone() + &ends)),
        ["warning rails_crossed medium"]
    );
    assert_eq!(findings(&ends), [""; 0]);
    let out = feed("nccl-net", &["-q", "--format", "csv"], ends.as_str()).ends(0);
    let rails = "job,,job.rails,different NIC numbers at the ends of 1 of 1 connections";
    assert!(out.text().contains(rails), "{}", out.text());
    // Two processes print one end: they are of two communicators.
    let twice = set + &ends + &says(6, "Channel 03/0 : 7[3] -> 0[0] [send] via NET/IB/0/GDRDMA");
    assert_eq!(findings(&twice), [""; 0]);
}

#[test]
fn a_log_that_ends_after_the_initialisation_says_so() {
    let log = all(|rank| init(rank, "START")) + &all(|rank| init(rank, "COMPLETE"));
    assert_eq!(findings(&log), ["note no_first_call low"]);
    assert_eq!(findings(&(log + "Loading the data\n")), [""; 0]);
}

#[test]
fn an_answer_on_the_start_counts_ranks_of_the_job_and_names_groups_that_are_not_complete() {
    let answer = |log: &str| feed("nccl-check", &["-q", "--format", "text"], log).text();
    let world = all(|rank| init(rank, "START"));
    let groups = pair(0, 0, "a1", "START") + &pair(1, 1, "a1", "START");
    let begun = answer(&(world.clone() + &groups));
    assert!(begun.contains(": 8 ranks of the largest"), "{begun}");
    let world = world + &all(|rank| init(rank, "COMPLETE"));
    let half = groups + &pair(2, 0, "b1", "START");
    let said = answer(&(world + &half));
    let right =
        "the initialisation of the largest communicator (8 ranks) but not of 2 other communicators";
    assert!(said.contains(right), "{said}");
}

#[test]
fn captured_jobs_that_are_cut_while_they_start_have_no_fault() {
    for name in ["ddp", "ddp-sockets", "ddp-tee", "tp-torn", "ddp-buffered"] {
        let mut text = Vec::new();
        for log in captured_logs(name) {
            let file = std::fs::File::open(&log).unwrap();
            MultiGzDecoder::new(file).read_to_end(&mut text).unwrap();
        }
        let lines: Vec<&[u8]> = text.split_inclusive(|&b| b == b'\n').collect();
        for end in (10..lines.len().min(160)).step_by(30) {
            let out = feed(
                "nccl-check",
                &["-q", "--format", "csv"],
                lines[..end].concat(),
            )
            .calm();
            let severity = Csv::of(&out).column("severity");
            assert!(
                !severity.contains(&"error".to_owned()),
                "{name} {end}: {}",
                out.text()
            );
        }
    }
}

#[test]
fn members_show_the_phase_that_they_reached() {
    let log = all(|rank| init(rank, "START")) + &trees(3) + &init(0, "COMPLETE");
    let args = ["-q", "--members", "--format", "csv"];
    let csv = Csv::of(&feed("nccl-communicators", &args, log.as_str()).ends(0));
    let phases = csv.pick(&["rank", "state", "phase"]);
    assert_eq!(phases[..2], ["0 ready ", "1 started bootstrap"]);
    assert_eq!(phases[3], "3 started graphs");
}
