//! Every finding of nccl-check shows a line, and that line stands where it says.

use crate::check::{SHAPES, job};
use crate::support::{Proc, Work, arg, captured, captured_logs, data, files, nemo, procs, run};
use flate2::read::MultiGzDecoder;
use nccl_pipe::report::escape_for_terminal;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The lines of the logs that were looked into.
#[derive(Default)]
struct Logs(BTreeMap<String, Vec<Vec<u8>>>);

impl Logs {
    fn line(&mut self, name: &str, number: usize) -> Option<&[u8]> {
        let read = || {
            let (raw, mut bytes) = (std::fs::read(name).unwrap(), Vec::new());
            if raw.starts_with(&[0x1f, 0x8b]) {
                MultiGzDecoder::new(&raw[..])
                    .read_to_end(&mut bytes)
                    .unwrap();
            } else {
                bytes = raw;
            }
            bytes.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect()
        };
        let lines = self.0.entry(name.to_owned()).or_insert_with(read);
        lines.get(number.checked_sub(1)?).map(|line| &line[..])
    }
}

/// Bytes of a line that nccl-check shows.
const SHOWN: usize = 300;

/// What is told of these logs: each finding's name, once all its evidence was held against them.
fn told(logs: &[String]) -> Vec<String> {
    let text = ["--all", "--format", "text"].map(str::to_owned);
    let args = [&text[..], logs].concat();
    let text = run("nccl-check", &args).calm().text();
    let (mut told, mut seen): (Vec<String>, usize) = (Vec::new(), 1);
    let mut read = Logs::default();
    for line in text.lines() {
        let severity = ["error: ", "warning: ", "note: "];
        if severity.iter().any(|word| line.starts_with(word)) {
            assert!(seen > 0, "{logs:?}: no line shows {told:?}");
            let id = line.rsplit_once('[').unwrap().1.trim_end_matches(']');
            told.push(id.to_owned());
            seen = 0;
        }
        let Some(evidence) = line.strip_prefix("    at    ") else {
            continue;
        };
        let log = logs
            .iter()
            .find(|log| evidence.starts_with(&format!("{log}:")));
        let log = log.unwrap_or_else(|| panic!("{line}: of none of {logs:?}"));
        let (number, shown) = evidence[log.len() + 1..].split_once(": ").unwrap();
        let line = read.line(log, number.parse().unwrap()).unwrap();
        assert!(!shown.is_empty(), "{log}:{number}");
        let whole = escape_for_terminal(&String::from_utf8_lossy(line), false);
        let begins = escape_for_terminal(
            &String::from_utf8_lossy(&line[..line.len().min(SHOWN)]),
            false,
        );
        // What was put together from blocks ends where its line ends.
        let is_blocks = log.contains("-buffered/") || log.contains("-blocks.");
        let ends = line.len() >= SHOWN || whole.chars().last() == shown.chars().last();
        assert!(
            shown == begins || whole.contains(shown) || is_blocks && ends,
            "{log}:{number}: {shown:?} is not {begins:?}"
        );
        seen += 1;
    }
    assert!(seen > 0, "{logs:?}: no line shows {told:?}");
    told
}

/// Jobs of nccl-synth that something is wrong with, or their logs.
fn made(all: &mut BTreeSet<String>) {
    let ranks = "skip order count datatype redop root die stall recv";
    let hosts = "sockets gpudirect nvls channels version setting slow-init";
    let faults = ranks.split(' ').chain(hosts.split(' '));
    for (seed, fault) in faults.enumerate() {
        for shape in [
            SHAPES[seed % SHAPES.len()],
            "--ranks 16 --nodes 4 --tp 4 --pp 2 --net ib --nvls",
        ] {
            if let Some(job) = job(shape, &format!("--steps 6 --seed {seed} --fault {fault}")) {
                all.extend(told(&[job.log]));
            }
        }
    }
    let damages = [
        "torn=0.02",
        "torn=0.3",
        "cut=0.05",
        "glued=0.1",
        "overwritten=1",
        "spliced=0.5",
    ];
    for damage in damages {
        let more = format!("--steps 6 --nccl 2.29 --damage {damage}");
        all.extend(told(&[job("--ranks 8 --tp 4", &more).unwrap().log]));
    }
}

fn log(work: &Work, name: &str, lines: &[String]) -> Vec<String> {
    let path = work.file(name, lines.join("\n") + "\n");
    vec![arg(&path).to_owned()]
}

/// Logs that show what no job of nccl-synth does.
fn composed(all: &mut BTreeSet<String>) {
    let work = Work::new();
    let four = procs(4);
    let init = |id: u64| -> Vec<String> { (0..).zip(&four).map(|(r, p)| p.init(r, id)).collect() };
    // NCCL counts from 0, or not at all.
    let call = |p: &Proc| p.call("AllReduce", 8, 7).replace("opCount 2c", "opCount 0");
    let step = |step: u64| {
        four.iter()
            .map(call)
            .chain([nemo(step)])
            .collect::<Vec<_>>()
    };
    // Each of two ranks waits for the other, on two communicators.
    let other = |p: &Proc| Proc {
        comm: p.comm + 0x100,
        ..*p
    };
    let two: Vec<Proc> = four[..2].iter().map(|p| Proc { nranks: 2, ..*p }).collect();
    let mut circle = Vec::new();
    for (rank, p) in (0..).zip(&two) {
        circle.extend([p.init(rank, 0xa1), other(p).init(rank, 0xa2)]);
        circle.extend([call(p), call(&other(p))]);
    }
    circle.extend([call(&two[0]), call(&other(&two[1]))]);
    all.extend(told(&log(&work, "circle.log", &circle)));
    // One rank of four makes no call.
    let mut silent = init(0xa3);
    silent.extend((0..40).flat_map(|_| four[..3].iter().map(call)));
    silent.push(
        "[rank0]:[E203 04:05:06.1 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective \
         operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, \
         Timeout(ms)=600000) ran for 600001 milliseconds before timing out."
            .to_owned(),
    );
    all.extend(told(&log(&work, "silent.log", &silent)));
    // A file of two runs; then steps of which one is slow, and one odd or the rest without calls.
    let mut runs = init(0xa4);
    runs.extend((0..5).chain(0..5).flat_map(step));
    all.extend(told(&log(&work, "runs.log", &runs)));
    for (name, from, to, calls) in [("odd.log", 20, 21, 9), ("graph.log", 20, 30, 0)] {
        let mut steps = init(0xa5);
        for n in 0..30 {
            let of = step(n);
            steps.extend(
                (0..if (from..to).contains(&n) { calls } else { 3 }).flat_map(|_| of[..4].to_vec()),
            );
            let slow = if n == 10 { "in s: 99" } else { "in s: " };
            steps.push(of[4].replace("in s: ", slow));
        }
        all.extend(told(&log(&work, name, &steps)));
    }
}

#[test]
fn every_finding_shows_lines_that_stand_where_it_says() {
    let mut all = BTreeSet::new();
    let folders = std::fs::read_dir(captured("")).unwrap();
    let names = folders.map(|f| f.unwrap().file_name().into_string().unwrap());
    for name in names.filter(|name| captured(name).is_dir()) {
        all.extend(told(&captured_logs(&name)));
    }
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut logs: Vec<PathBuf> = files(&testdata.join("logs"));
    logs.extend(files(&testdata.join("bad")));
    logs.extend(data("nccl-logs").iter().flat_map(|folder| files(folder)));
    for path in logs {
        all.extend(told(&[arg(&path).to_owned()]));
    }
    made(&mut all);
    composed(&mut all);
    // What the test is worth: those that are hard to come by among them.
    for id in [
        "rank_behind",
        "rank_silent",
        "p2p_missing_counterpart",
        "op_mismatch",
        "last_calls",
        "watchdog_timeout",
        "watchdog_call",
        "lines_torn",
        "shared_file",
        "damaged_lines",
        "block_buffered",
        "ray_dedup",
        "several_runs",
        "slow_step",
        "odd_step",
        "calls_stop",
        "socket_fallback",
        "channels_fewer",
        "init_slow",
        "setting_differs",
    ] {
        assert!(all.contains(id), "{id} is not among {all:?}");
    }
}
