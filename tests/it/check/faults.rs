//! Made logs of jobs with one fault: what their lines show is that fault, and nothing else.

use crate::support::{Csv, Work, run_in};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A call as its members must agree on it: operation, count, datatype, reduction, root.
type Call = [String; 5];

/// A made log, its truth, and its calls as `nccl-comms` reads them.
struct Faulty {
    work: Work,
    options: String,
    truth: Value,
    /// Of each communicator, each rank's collectives.
    collectives: BTreeMap<usize, BTreeMap<u64, Vec<Call>>>,
    /// How many Sends and Recvs there are from one rank of a communicator to another.
    pairs: BTreeMap<(usize, String, String), [u64; 2]>,
    /// The last call of each rank of the job, with its number.
    last: BTreeMap<u64, (Call, String)>,
}

fn logs(per_rank: bool) -> &'static str {
    if per_rank { "logs" } else { "job.log" }
}

impl Faulty {
    fn new(options: &str) -> Faulty {
        let work = Work::new();
        let to = logs(options.contains("per-rank"));
        let mut args: Vec<&str> = options.split_whitespace().collect();
        args.extend(["-o", to, "--truth", "truth.json"]);
        run_in(work.dir(), "nccl-synth", &args).ends(0);
        let truth = std::fs::read(work.dir().join("truth.json")).unwrap();
        let truth: Value = serde_json::from_slice(&truth).unwrap();
        let table = Csv::of(&run_in(work.dir(), "nccl-comms", &[to]).ends(0));
        let mut made = Faulty {
            work,
            options: options.to_owned(),
            truth,
            collectives: BTreeMap::new(),
            pairs: BTreeMap::new(),
            last: BTreeMap::new(),
        };
        let mut members = BTreeMap::new();
        let comms = made.truth["communicators"].as_array().unwrap();
        for (i, comm) in comms.iter().enumerate() {
            for member in comm["members"].as_array().unwrap() {
                let text = |field: &str| match &member[field] {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let ranks = ["rank", "global_rank"].map(|f| member[f].as_u64().unwrap());
                members.insert([text("host"), text("pid"), text("comm")], (i, ranks));
            }
        }
        for row in &table.rows {
            let get = |column: &str| table.get(row, column).to_owned();
            let (comm, [rank, global]) = members[&["host", "pid", "comm"].map(get)];
            let call = ["op", "count", "datatype", "redop", "root"].map(get);
            let (me, peer) = (rank.to_string(), call[4].clone());
            match call[0].as_str() {
                "Send" => made.pairs.entry((comm, me, peer)).or_default()[0] += 1,
                "Recv" => made.pairs.entry((comm, peer, me)).or_default()[1] += 1,
                _ => {
                    let ranks = made.collectives.entry(comm).or_default();
                    ranks.entry(rank).or_default().push(call.clone());
                }
            }
            made.last.insert(global, (call, get("seq")));
        }
        made
    }

    fn fault(&self, field: &str) -> &Value {
        &self.truth["fault"][field]
    }

    fn number(&self, field: &str) -> u64 {
        self.fault(field).as_u64().unwrap()
    }

    /// The communicator of the fault.
    fn comm(&self) -> usize {
        let comms = self.truth["communicators"].as_array().unwrap();
        let id = self.fault("comm_id");
        comms.iter().position(|c| c["comm_id"] == *id).unwrap()
    }

    /// The first call of each communicator that its members do not agree on, and who differs.
    fn disagreed(&self) -> Vec<(usize, u64, BTreeSet<u64>)> {
        let mut found = Vec::new();
        for (&comm, ranks) in &self.collectives {
            let most = |n: usize| -> Option<Call> {
                let calls: Vec<&Call> = ranks.values().filter_map(|calls| calls.get(n)).collect();
                let times = |call: &Call| calls.iter().filter(|other| ***other == *call).count();
                calls
                    .iter()
                    .max_by_key(|call| times(call))
                    .map(|call| (*call).clone())
            };
            let longest = ranks.values().map(Vec::len).max().unwrap();
            for n in 0..longest {
                let usual = most(n).unwrap();
                let odd: BTreeSet<u64> = ranks
                    .iter()
                    .filter(|(_, calls)| calls.get(n).is_some_and(|call| *call != usual))
                    .map(|(rank, _)| *rank)
                    .collect();
                if !odd.is_empty() {
                    found.push((comm, n as u64, odd));
                    break;
                }
            }
        }
        found
    }

    /// Pairs of ranks with a Send that no Recv meets, or the other way round.
    fn unmatched(&self) -> Vec<usize> {
        let odd = self
            .pairs
            .iter()
            .filter(|(_, [sends, recvs])| sends != recvs);
        odd.map(|((comm, ..), _)| *comm).collect()
    }

    /// The files, by name.
    fn texts(&self) -> Vec<(PathBuf, String)> {
        let at = self
            .work
            .dir()
            .join(logs(self.options.contains("per-rank")));
        let mut paths = vec![at.clone()];
        if at.is_dir() {
            let files = std::fs::read_dir(at).unwrap();
            paths = files.map(|file| file.unwrap().path()).collect();
        }
        paths
            .into_iter()
            .map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()))
            .collect()
    }

    /// The line the truth names.
    fn line(&self) -> String {
        let file = self.fault("file").as_str();
        let texts = self.texts();
        let named = |path: &PathBuf| file.is_none_or(|file| path.ends_with(file));
        let (_, text) = texts.iter().find(|(path, _)| named(path)).unwrap();
        let line = self.number("line") as usize;
        text.lines().nth(line - 1).unwrap().to_owned()
    }

    /// What is wrong in it is what the truth says.
    #[track_caller]
    fn holds(&self) {
        let o = &self.options;
        let (comm, rank) = (self.comm(), self.number("comm_rank"));
        let disagreed = self.disagreed();
        let kind = self.fault("kind").as_str().unwrap();
        match kind {
            "die" | "stall" | "recv" => assert!(disagreed.is_empty(), "{o}: {disagreed:?}"),
            _ => {
                let [(at, n, odd)] = &disagreed[..] else {
                    panic!("{o}: {disagreed:?}");
                };
                assert_eq!((*at, *n), (comm, self.number("seq")), "{o}");
                let pair = self.collectives[&comm].len() == 2;
                assert!(pair || *odd == BTreeSet::from([rank]), "{o}: {odd:?}");
            }
        }
        let unmatched = self.unmatched();
        let hangs = self.fault("hangs").as_bool().unwrap();
        match kind {
            // What others had to send to it, or it to them, may be missing too.
            "die" | "stall" | "skip" => {}
            // Of a pair whose ranks hang one may have come farther.
            _ if o.contains("--lead") && hangs => {}
            "recv" => assert_eq!(unmatched, [comm], "{o}"),
            _ => assert!(unmatched.is_empty(), "{o}: {unmatched:?}"),
        }
        let line = self.line();
        let said = [self.fault("made"), self.fault("last_call")];
        if let Some(call) = said.iter().find(|call| call.is_object()) {
            let op = format!(" {}: opCount ", call["op"].as_str().unwrap());
            let count = format!(" count {} ", call["count"]);
            assert!(line.contains(&op) && line.contains(&count), "{o}: {line}");
        }
        let who = format!(
            "{}:{}:",
            self.fault("host").as_str().unwrap(),
            self.number("pid")
        );
        assert!(line.contains(&who), "{o}: {line}");
        if kind == "die" || kind == "stall" {
            let (call, seq) = &self.last[&self.number("rank")];
            let told = &self.fault("last_call");
            assert_eq!(
                (call[0].as_str(), seq.parse().ok()),
                (told["op"].as_str().unwrap(), told["seq"].as_u64()),
                "{o}"
            );
        }
        self.ends();
    }

    /// A job that hangs prints no more steps and takes nothing down; the watchdog speaks.
    #[track_caller]
    fn ends(&self) {
        let o = &self.options;
        let hangs = self.fault("hangs").as_bool().unwrap();
        let text: String = self.texts().into_iter().map(|(_, text)| text).collect();
        let caught = text.contains("Watchdog caught collective operation timeout: WorkNCCL(");
        assert_eq!(caught, hangs && !o.contains("watchdog=off"), "{o}");
        assert_eq!(text.contains("Destroy COMPLETE"), !hangs, "{o}");
        let last = self.truth["steps"].as_array().unwrap().last();
        let last = last.map_or(0, |step| step["step"].as_u64().unwrap());
        if hangs && self.fault("kind") != "skip" {
            let step = self.number("step");
            // A rank that was ahead takes with it what it had handed over; and if the last call of
            // a step is wrong, the rank that prints may be served and go on.
            let lasts = if o.contains("--lead") {
                last..=last + 4
            } else {
                last + 1..=last + 1
            };
            assert!(lasts.contains(&step), "{o}");
        }
        // A rank that is gone says nothing; one that only stands still does.
        let speaks = text.contains(&format!("[rank{}]:[E", self.number("rank")));
        match self.fault("kind").as_str().unwrap() {
            "die" => assert!(!speaks, "{o}"),
            "stall" => assert_eq!(speaks, caught, "{o}"),
            _ => {}
        }
    }
}

const CALLS: &[&str] = &[
    "skip", "count", "datatype", "redop", "root", "order", "die", "stall", "recv",
];

#[test]
fn a_wrong_call_is_the_only_one_in_every_shape_of_a_job() {
    for shape in [
        "--ranks 8 --steps 6",
        "--ranks 16 --nodes 2 --tp 4 --pp 2 --steps 5 --split",
        "--ranks 16 --nodes 4 --pp 2 --ep 2 --steps 5 --nccl 2.22 --trainer megatron --prefix srun",
        "--ranks 32 --nodes 4 --tp 8 --pp 2 --steps 4 --layers 2 --layout per-rank",
        "--ranks 64 --nodes 8 --tp 4 --pp 4 --ep 2 --steps 4 --split --trainer torchtitan",
    ] {
        for kind in CALLS {
            if *kind == "recv" && !shape.contains("--pp") {
                continue;
            }
            Faulty::new(&format!("{shape} --fault {kind}")).holds();
        }
    }
}

#[test]
fn a_wrong_call_is_the_only_one_where_ranks_run_ahead() {
    for shape in [
        "--ranks 8 --steps 6 --lead 3",
        "--ranks 16 --nodes 2 --tp 4 --pp 2 --steps 5 --split --lead 2",
        "--ranks 8 --strategy hsdp --steps 6 --trainer megatron --lead 1 --layout per-rank",
        "--ranks 8 --strategy zero2 --steps 6 --trainer deepspeed --lead 0 --nccl 2.22",
    ] {
        let kinds = CALLS.iter().filter(|kind| match **kind {
            "recv" => shape.contains("--pp"),
            "root" => !shape.contains("hsdp"),
            _ => true,
        });
        for kind in kinds.chain(&["op"]) {
            Faulty::new(&format!("{shape} --fault {kind}")).holds();
        }
    }
}

#[test]
fn a_wrong_call_is_where_it_was_asked_for() {
    let shape = "--ranks 16 --nodes 2 --tp 2 --pp 2 --ep 2 --steps 8";
    for (fault, kind) in [
        ("skip,comm=tensor,step=2", "tp"),
        ("count,comm=data,rank=7", "dp"),
        ("datatype,comm=expert", "ep"),
        ("redop,comm=world,rank=0", "world"),
        ("order,comm=data,step=7", "dp"),
        ("die,comm=pipeline,watchdog=off", "pp"),
        ("stall,comm=world,step=0", "world"),
    ] {
        let made = Faulty::new(&format!("{shape} --fault {fault}"));
        assert_eq!(made.fault("comm_kind"), kind, "{fault}");
        for key in ["rank", "step"] {
            let asked = fault
                .split(',')
                .find_map(|p| p.strip_prefix(key)?.strip_prefix('='));
            let asked = asked.map(|n| n.parse::<u64>().unwrap());
            assert!(asked.is_none_or(|n| n == made.number(key)), "{fault}");
        }
        if !fault.contains("step=0") {
            made.holds();
        }
    }
}

#[test]
fn a_rank_a_call_ahead_goes_on_into_the_next_step() {
    // As in testdata/captured/ddp-skip: its last call was met, and its host does not wait.
    let mut ahead = 0;
    for seed in 1..6 {
        let made = Faulty::new(&format!(
            "--ranks 8 --steps 12 --seed {seed} --fault skip,comm=world,step=5"
        ));
        made.holds();
        let more = |ranks: &BTreeMap<u64, Vec<Call>>| {
            let lengths: BTreeSet<usize> = ranks.values().map(Vec::len).collect();
            lengths.len() > 1
        };
        let apart = made.collectives.iter().filter(|(_, ranks)| more(ranks));
        ahead += u64::from(apart.count() > 1);
    }
    assert!(ahead > 0);
}

/// The lines that are no calls, by host, without what is drawn.
fn said(work: &Work, options: &str, fault: &str) -> (BTreeMap<String, Vec<String>>, Value) {
    let mut args: Vec<&str> = options.split_whitespace().collect();
    args.extend(["-o", "job.log", "--truth", "truth.json"]);
    if !fault.is_empty() {
        args.extend(["--fault", fault]);
    }
    run_in(work.dir(), "nccl-synth", &args).ends(0);
    let text = std::fs::read_to_string(work.dir().join("job.log")).unwrap();
    let truth = std::fs::read(work.dir().join("truth.json")).unwrap();
    let mut hosts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| line.contains(" NCCL INFO ")) {
        let host = line.split(':').next().unwrap().to_owned();
        let body = match line.split_once(" sendbuff ") {
            Some((head, tail)) => format!("{head} {}", tail.split_once(" count ").unwrap().1),
            None => line.to_owned(),
        };
        hosts.entry(host).or_default().push(body);
    }
    for lines in hosts.values_mut() {
        lines.sort();
    }
    (hosts, serde_json::from_slice(&truth).unwrap())
}

#[test]
fn a_host_unlike_others_differs_in_that_alone() {
    let work = Work::new();
    for (options, fault, gone, new) in [
        ("--net ib", "sockets", "IB", "Socket"),
        ("", "sockets", "IB", "Socket"),
        ("--net ib", "gpudirect", "RDMA", "NET/"),
        ("--net efa", "gpudirect,host=0", "/GDRDMA", "NET/AWS"),
        ("--net ib --nvls --tuning", "nvls", "NVLS", ""),
        ("", "channels,host=3", "", ""),
        ("--net ib --split", "channels", "", ""),
        ("", "version", "NCCL version 2.28.9", "NCCL version 2.27.7"),
        (
            "--nccl rccl-2.27",
            "version",
            "RCCL version",
            "RCCL version",
        ),
        ("", "setting", "NCCL_IB_TIMEOUT", "NCCL_IB_"),
        ("--seed 2", "setting", "NCCL_IB_TIMEOUT", "NCCL_IB_"),
        ("", "slow-init", "Init timings", "Init timings"),
        (
            "",
            "slow-init,comm=tensor,rank=0",
            "Init timings",
            "Init timings",
        ),
    ] {
        let options = format!("--ranks 16 --nodes 4 --tp 4 --steps 2 {options}");
        let (healthy, _) = said(&work, &options, "");
        let (wrong, truth) = said(&work, &options, fault);
        let odd = truth["fault"]["host"].as_str().unwrap();
        let mut differ = 0;
        for (host, lines) in &healthy {
            if host != odd {
                assert_eq!(lines, &wrong[host], "{options} {fault}: {host}");
                continue;
            }
            // Of equal lines there may be several: each is taken once.
            let less = |a: &[String], b: &[String]| {
                let mut b = b.to_vec();
                let mut rest = a.to_vec();
                rest.retain(|line| match b.binary_search(line) {
                    Ok(at) => {
                        b.remove(at);
                        false
                    }
                    Err(_) => true,
                });
                rest
            };
            let (lost, won) = (less(lines, &wrong[host]), less(&wrong[host], lines));
            differ = lost.len() + won.len();
            let calls = |lines: &[String]| lines.iter().any(|l| l.contains(": opCount "));
            assert!(!calls(&lost) && !calls(&won), "{options} {fault}");
            for (lines, part) in [(&lost, gone), (&won, new)] {
                let wild = lines.iter().find(|line| !line.contains(part));
                let allowed = fault.starts_with("nvls") || fault == "sockets";
                assert!(wild.is_none() || allowed, "{options} {fault}: {wild:?}");
            }
        }
        assert!(differ > 0, "{options} {fault}");
        if fault.starts_with("slow-init") {
            assert_eq!(differ, 2, "{fault}");
        }
        // The truth names a line of that host.
        let text = std::fs::read_to_string(work.dir().join("job.log")).unwrap();
        let line = truth["fault"]["line"].as_u64().unwrap() as usize;
        let line = text.lines().nth(line - 1).unwrap();
        assert!(line.starts_with(&format!("{odd}:")), "{fault}: {line}");
        assert_eq!(truth["fault"]["hangs"], false);
    }
}

#[test]
fn nccl_net_names_the_host_that_is_unlike_others() {
    let work = Work::new();
    for (options, fault) in [
        ("--net ib", "sockets,host=2"),
        ("--net ib", "gpudirect,host=2"),
        ("", "version,host=2"),
        ("", "setting,host=2"),
    ] {
        let options = format!("--ranks 16 --nodes 4 --tp 4 --steps 2 {options}");
        said(&work, &options, fault);
        let table = Csv::of(&run_in(work.dir(), "nccl-net", &["job.log"]).ends(0));
        let odd: BTreeSet<String> = table
            .rows
            .iter()
            .filter(|row| table.get(row, "scope") == "host")
            .map(|row| table.get(row, "host").to_owned())
            .collect();
        assert_eq!(odd, BTreeSet::from(["node03".to_owned()]), "{fault}");
    }
}

#[test]
fn a_rank_that_died_while_others_ran_ahead_of_the_step_lines_is_named() {
    let shape = "--ranks 16 --nodes 4 --strategy zero3 --trainer deepspeed --nccl 2.28 --lead 2";
    let job = super::job(shape, "--seed 12 --steps 11 --fault die,watchdog=off").unwrap();
    let csv = super::findings(&job.log);
    let says = csv.get(&csv.rows[0], "says");
    let who = format!("pid {})", job.truth["fault"]["pid"]);
    assert!(
        says.contains("stopped in the middle of a step") && says.contains(&who),
        "{says}"
    );
}
