//! Communicators that no line names: NCCL up to 2.17, and logs of calls alone.

use crate::support::{Csv, Out, Work, captured_logs, feed, run_in};
use serde_json::Value;

/// A made job's log and its truth.
fn made(options: &str) -> Option<(String, Value)> {
    let work = Work::new();
    let mut args: Vec<&str> = options.split(' ').collect();
    args.extend(["-o", "job.log", "--truth", "truth.json"]);
    let out = run_in(work.dir(), "nccl-synth", &args);
    // Not every job can have every fault, nor every version every shape.
    let cannot = ["--fault", " need "];
    if out.code == Some(2) && cannot.iter().any(|word| out.stderr.contains(word)) {
        return None;
    }
    out.ends(0);
    let read = |name: &str| std::fs::read_to_string(work.dir().join(name)).unwrap();
    Some((
        read("job.log"),
        serde_json::from_str(&read("truth.json")).unwrap(),
    ))
}

/// What `grep opCount` leaves of a log.
fn calls(log: &str) -> String {
    let lines = log.lines().filter(|line| line.contains("opCount"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

fn check(log: impl Into<Vec<u8>>) -> Out {
    feed("nccl-check", &["-q", "--format", "csv"], log).calm()
}

/// Of the findings but notes: the finding, how bad, how sure, whose.
fn told(out: &Out) -> Vec<[String; 5]> {
    let csv = Csv::of(out);
    let row = |row: &Vec<String>| {
        ["finding", "severity", "sure", "host", "pid"].map(|c| csv.get(row, c).to_owned())
    };
    let rows = csv.rows.iter().map(row);
    rows.filter(|row| row[1] != "note").collect()
}

const FAULTS: [&str; 8] = [
    "skip", "order", "count", "datatype", "redop", "root", "die", "stall",
];

#[test]
fn a_fault_is_found_where_each_process_has_the_jobs_communicators() {
    let mut found = 0;
    for shape in [
        "--ranks 8 --tp 8 --nccl 2.12",
        "--ranks 8 --nodes 2 --tp 1 --nccl 2.16",
        "--ranks 4 --tp 4 --nccl 2.4",
    ] {
        for fault in FAULTS {
            let Some((log, truth)) = made(&format!("{shape} --steps 6 --fault {fault}")) else {
                continue;
            };
            let told = told(&check(log));
            let what = format!("{shape} {fault}: {told:?}");
            let [one] = &told[..] else { panic!("{what}") };
            assert_eq!(one[1..3], ["error", "medium"], "{what}");
            let whose = ["host", "pid"].map(|field| match &truth["fault"][field] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            });
            assert_eq!(one[3..], whose, "{what}");
            found += 1;
        }
    }
    assert!(found > 20, "{found}");
}

#[test]
fn a_fault_of_the_whole_job_is_found_in_calls_alone() {
    for nccl in ["2.4", "2.12", "2.28"] {
        for fault in FAULTS {
            let shape = format!("--ranks 8 --nodes 2 --tp 2 --steps 6 --nccl {nccl}");
            let Some((log, truth)) = made(&format!("{shape} --fault {fault},comm=world")) else {
                continue;
            };
            let out = check(calls(&log));
            let told = told(&out);
            // Calls alone do not tell a rank that stopped from a log that ends.
            if ["die", "stall"].contains(&fault) && told.is_empty() {
                continue;
            }
            let [one] = &told[..] else {
                panic!("{nccl} {fault}: {told:?}")
            };
            // The log may be half of a larger job's.
            assert_eq!(one[1..3], ["warning", "low"], "{nccl} {fault}");
            assert_eq!(one[4], truth["fault"]["pid"].to_string(), "{nccl} {fault}");
            assert_eq!(Csv::of(&out).column("rank")[0], "", "no line says the rank");
        }
    }
}

#[test]
fn what_counting_leaves_open_accuses_nobody() {
    // Each process uses two of all ranks, and calls alone do not say which is which.
    let (log, _) = made("--ranks 8 --tp 8 --steps 4 --fault skip").unwrap();
    assert_eq!(told(&check(calls(&log))), Vec::<[String; 5]>::new());
    let text = feed("nccl-check", &["-q", "--format", "text"], calls(&log)).text();
    assert!(
        text.contains("each process uses 2 communicators of 8 ranks"),
        "{text}"
    );
    // A host's half of a job: its members of one communicator are not all of its members.
    let (log, _) = made("--ranks 16 --nodes 2 --tp 2 --steps 4 --fault skip,comm=data").unwrap();
    for half in ["node01:", "node02:"] {
        let lines = log.lines().filter(|line| line.starts_with(half));
        let part: String = lines.flat_map(|line| [line, "\n"]).collect();
        let ranks = |row: &[String; 5]| !row[0].starts_with("watchdog");
        let told = told(&check(calls(&part)));
        assert_eq!(told.iter().filter(|row| ranks(row)).count(), 0, "{told:?}");
        let text = feed("nccl-check", &["-q", "--format", "text"], calls(&part)).text();
        assert!(
            text.contains("the log has lines of 8 of 16 ranks"),
            "{text}"
        );
    }
}

#[test]
fn healthy_jobs_have_no_findings_without_names_either() {
    let none = Vec::<[String; 5]>::new();
    for shape in [
        "--tp 1",
        "--tp 2",
        "--tp 8",
        "--tp 2 --pp 2",
        "--tp 2 --ep 2",
    ] {
        for nccl in ["2.4", "2.7", "2.12", "2.16", "2.28"] {
            let options = format!("--ranks 8 --nodes 2 {shape} --steps 4 --nccl {nccl}");
            let Some((log, _)) = made(&options) else {
                continue;
            };
            for log in [calls(&log), log] {
                let mut found = Csv::of(&check(log)).column("finding");
                found.retain(|finding| finding != "not_checked");
                assert_eq!(found, Vec::<String>::new(), "{shape} {nccl}");
            }
        }
    }
    for job in [
        "ddp",
        "fsdp",
        "3d",
        "pp",
        "ep",
        "tp-stamps",
        "torchtitan",
        "ddp-sockets",
    ] {
        for log in captured_logs(job) {
            let packed = std::fs::File::open(log).unwrap();
            let text = std::io::read_to_string(flate2::read::MultiGzDecoder::new(packed)).unwrap();
            assert_eq!(told(&check(calls(&text))), none, "{job}");
        }
    }
}

/// The first Broadcast of rank `n` of eight, as nccl#147 has it: rank 0's is another.
fn first(n: u32) -> String {
    let (count, datatype) = if n == 0 { (25_503_912, 6) } else { (53, 4) };
    let pid = 7000 + 2 * n;
    format!(
        "node1:{pid}:{pid} [{n}] NCCL INFO Broadcast: opCount 0 sendbuff 0x7f{n}040000000 recvbuff \
         0x7f{n}040000000 count {count} datatype {datatype} op 0 root 0 comm 0x7f{n}00005a260 \
         [nranks=8] stream 0x55d5ffb7{n}110\n"
    )
}

#[test]
fn the_rank_that_begins_with_another_broadcast_is_named() {
    let all: String = (0..8).map(first).collect();
    let out = check(all.clone()).ends(1);
    let row = ["count_mismatch", "error", "medium", "node1", "7000"].map(str::to_owned);
    assert_eq!(told(&out), [row]);
    let why = &Csv::of(&out).column("why")[0];
    assert!(
        why.contains(
            "each of the 8 processes in the log uses one communicator of 8 ranks and no \
                      other"
        ),
        "{why}"
    );
    // Without ids in the INIT lines the ranks are known.
    let init = |n: u32| {
        let pid = 7000 + 2 * n;
        format!(
            "node1:{pid}:{pid} [{n}] NCCL INFO comm 0x7f{n}00005a260 rank {n} nranks 8 cudaDev {n} \
             nvmlDev {n} - Init COMPLETE\n"
        )
    };
    let named: String = (0..8).map(init).collect();
    let out = check(named + &all).ends(1);
    assert_eq!(Csv::of(&out).column("rank")[0], "0");
    // Half of the lines: no verdict, but where the ranks part.
    let half: String = [0, 1, 4, 5].map(first).concat();
    let out = check(half.clone()).ends(3);
    let csv = Csv::of(&out);
    assert_eq!(csv.column("finding"), ["not_checked", "ranks_part"]);
    let says = &csv.column("says")[1];
    for apart in [
        "node1:7000 calls Broadcast of 25503912 fp16 root 0 as call 0 of communicator ",
        "where node1:7002, node1:7008 and node1:7010 call Broadcast of 53 int64 root 0",
    ] {
        assert!(says.contains(apart), "{says}");
    }
    let text = feed("nccl-check", &["-q", "--format", "text"], half).text();
    assert!(text.contains("the log has lines of 4 of 8 ranks"), "{text}");
}
