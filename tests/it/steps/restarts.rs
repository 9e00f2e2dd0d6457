//! A job that is started again: its attempts are told apart, whatever numbers they begin with.

use crate::support::{Csv, Proc, Work, arg, data, feed, megatron, procs, run};

/// The processes of an attempt: other pids, at other addresses.
fn attempt(n: u32) -> Vec<Proc> {
    let again = |p: Proc| Proc {
        pid: p.pid + 1000 * n,
        comm: p.comm + u64::from(n) * 0x100,
        ..p
    };
    procs(4).into_iter().map(again).collect()
}

/// What an attempt prints: its INIT lines if it has an id, three calls a rank before each step
/// line, and one of each rank after the last.
fn lines(n: u32, id: Option<u64>, steps: &[u64], line: impl Fn(u64) -> String) -> String {
    let procs = attempt(n);
    let mut text = String::new();
    let mut say = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    if let Some(id) = id {
        (0..)
            .zip(&procs)
            .for_each(|(rank, p)| say(p.init(rank, id)));
    }
    for &step in steps {
        for p in procs.iter().flat_map(|p| [p; 3]) {
            say(p.call("AllReduce", 1 << 20, 7));
        }
        say(line(step));
    }
    procs
        .iter()
        .for_each(|p| say(p.call("AllGather", 1 << 10, 7)));
    text
}

/// Segment, step and calls of each row of the list; the same however the log is read.
fn list(text: &str) -> Vec<String> {
    let work = Work::new();
    let log = work.file("nccl.log", text.as_bytes());
    let with = |more: &[&str]| {
        let args = [&["--list", arg(&log)], more].concat();
        let table = Csv::of(&run("nccl-steps", &args).ends(0));
        let row = |row: &Vec<String>| {
            let get = |column| table.get(row, column);
            format!("{}:{} {}", get("segment"), get("step"), get("calls"))
        };
        table.rows.iter().map(row).collect::<Vec<_>>()
    };
    let rows = with(&["-j1"]);
    assert_eq!(rows, with(&["-j3", "--no-mmap"]));
    rows
}

const FAILED: &str = "E1122 00:06:37.575000 685 torch/distributed/elastic/multiprocessing/api.py:986] \
                      failed (exitcode: 1) local_rank: 1 (pid: 786) of binary: python3\n";

#[test]
fn new_processes_begin_a_segment_whatever_their_first_number_is() {
    for (first, second) in [
        ([5, 6], [6, 7]),
        ([5, 6], [7, 8]),
        ([5, 6], [2, 3]),
        ([5, 6], [30, 31]),
    ] {
        let [one, two] = [(0, 0x1111, first), (1, 0x2222, second)]
            .map(|(n, id, steps)| lines(n, Some(id), &steps, megatron));
        // The calls after the last line of the first attempt are no step's, with or without a word of
        // the launcher.
        let [a, b] = second;
        let rows = [
            "0:5 12",
            "0:6 12",
            ":after 4",
            &format!("1:{a} 12"),
            &format!("1:{b} 12"),
            ":after 4",
        ];
        assert_eq!(list(&format!("{one}{two}")), rows, "{second:?}");
        assert_eq!(list(&format!("{one}{FAILED}{two}")), rows, "{second:?}");
    }
}

#[test]
fn attempts_of_one_step_each_and_a_file_of_one_rank_are_told_apart() {
    let all: String = (0..3)
        .map(|n| lines(n, Some(0x1111 + u64::from(n)), &[6], megatron))
        .collect();
    let rows = ["0:6 12", "1:6 12", "2:6 12"].map(|row| [row, ":after 4"]);
    assert_eq!(list(&all), rows.concat());
    // A rank's own file: one process at a time, of four.
    let own = |n: u32| {
        let pid = format!(":{}:", attempt(n)[1].pid);
        let text = lines(n, Some(0x1111 + u64::from(n)), &[6, 7], megatron);
        let of = |line: &&str| line.contains(&pid) || line.contains("iteration");
        text.lines()
            .filter(of)
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    let rows = ["0:6 3", "0:7 3", ":after 1", "1:6 3", "1:7 3", ":after 1"];
    assert_eq!(list(&(own(0) + &own(1))), rows);
}

#[test]
fn calls_alone_tell_a_restart_where_all_processes_were_seen() {
    let [one, two] = [(0, [5, 6]), (1, [6, 7])].map(|(n, steps)| lines(n, None, &steps, megatron));
    let rows = ["0:5 12", "0:6 12", "1:6 16", "1:7 12", ":after 4"];
    assert_eq!(list(&(one + &two)), rows);
    // Two of the four were lost, and nobody knows which.
    let few = |n: u32, steps: &[u64]| {
        let lost = [2, 3].map(|rank: usize| format!(":{}:", attempt(n)[rank].pid));
        let text = lines(n, None, steps, megatron);
        let kept = |line: &&str| !lost.iter().any(|pid| line.contains(pid));
        text.lines()
            .filter(kept)
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    assert_eq!(
        list(&(few(0, &[5, 6]) + &few(1, &[6, 7]))),
        ["0:5 6", "0:6 6", "0:7 14", ":after 2"]
    );
}

#[test]
fn a_step_that_every_rank_prints_is_no_restart() {
    let titan = |rank: usize, step: u64| {
        format!(
            "[rank{rank}]:[titan] 2026-02-03 04:05:{step:02},123 - root - INFO - step: {step:2}  \
             loss:  7.62585  grad_norm:  1.0  memory: 10.00GiB(12.00%)  tps: 1,234  tflops: \
             31{step}.50  mfu: 13.99%"
        )
    };
    let each = |step: u64| {
        (0..4)
            .map(|rank| titan(rank, step))
            .collect::<Vec<_>>()
            .join("\n")
    };
    for id in [Some(0x1111), None] {
        let text = lines(0, id, &[1, 2, 3], each);
        let rows = ["0:1 12", "0:2 12", "0:3 12", ":after 4"];
        assert_eq!(list(&text), rows);
        // A log that begins in the middle of a step: who calls is seen one after the other.
        let from = text.find("step:  1").unwrap() - 80;
        let tail = &text[text[..from].rfind('\n').unwrap() + 1..];
        let table = Csv::of(&feed("nccl-steps", &["--list"], tail).ends(0));
        assert!(table.column("segment").iter().all(|segment| segment != "1"));
    }
}

#[test]
fn processes_beside_the_job_are_no_restart() {
    // An inference server of two, made and ended between steps.
    let server = |n: u32| {
        let pair = procs(2).into_iter().map(|p| Proc {
            pid: p.pid + 500 + n,
            ..p
        });
        (0..)
            .zip(pair)
            .map(|(rank, p)| {
                let id = 0x7777 + u64::from(n);
                format!("{}\n{}\n", p.init(rank, id), p.call("AllReduce", 8, 7))
            })
            .collect::<String>()
    };
    let text = lines(0, Some(0x1111), &[1, 2, 3], megatron);
    let mut with = String::new();
    for (n, line) in (0..).zip(text.lines()) {
        with.push_str(line);
        with.push('\n');
        if line.contains("iteration") {
            with.push_str(&server(n * 10));
        }
    }
    assert_eq!(list(&with), ["0:1 12", "0:2 14", "0:3 14", ":after 6"]);
}

/// A packed table.
fn gunzipped(path: &std::path::Path) -> Csv {
    let packed = flate2::read::MultiGzDecoder::new(std::fs::File::open(path).unwrap());
    Csv::read(std::io::read_to_string(packed).unwrap().as_bytes())
}

/// torchrun with two restarts; the record of each process' calls says which step they are of.
#[test]
fn a_captured_job_with_restarts_has_its_three_attempts() {
    let Some(folder) = data("gpu/elastic") else {
        return;
    };
    let log = folder.join("nccl.log.gz");
    let table = Csv::of(&run("nccl-steps", &["--list", arg(&log)]).ends(0));
    let of = |segment: &str| {
        let rows = table
            .rows
            .iter()
            .filter(|r| table.get(r, "segment") == segment);
        rows.map(|r| table.get(r, "step").parse().unwrap())
            .collect::<Vec<u64>>()
    };
    assert_eq!(of("0"), (1..=6).collect::<Vec<u64>>());
    assert_eq!(of("1"), (6..=8).collect::<Vec<u64>>());
    assert_eq!(of("2"), (6..=14).collect::<Vec<u64>>());
    // The calls of a process after its last step are of a step that was never over.
    let truth = gunzipped(&folder.join("truth.csv.gz"));
    let mut over = std::collections::BTreeMap::new();
    let mut unfinished = 0_u128;
    for row in truth.rows.iter().rev() {
        let pid = truth.get(row, "pid").to_owned();
        match truth.get(row, "ev") {
            "mark" if truth.get(row, "extra") == "before_step" => {
                over.insert(pid, true);
            }
            "mark" | "CommInit" | "result" => {}
            _ => unfinished += u128::from(!over.contains_key(&pid)),
        }
    }
    let after = table
        .rows
        .iter()
        .filter(|r| table.get(r, "step") == "after");
    let after: u128 = after
        .map(|r| table.get(r, "calls").parse::<u128>().unwrap())
        .sum();
    // Ranks run ahead of the line that one of them prints, by some of these calls.
    assert!((1..=unfinished).contains(&after), "{after} {unfinished}");
}
