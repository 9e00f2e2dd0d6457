//! nccl-check against jobs whose fault is known, and jobs that have none.

mod doubt;
mod dumps;
mod ended;
mod evidence;
mod faults;
mod jobs;
mod machine;
mod piped;
mod recorded;
mod records;
mod reports;
mod said;
mod starts;
mod states;
mod taken;
mod told;
mod uneven;
mod who;

use crate::check::recorded::{partings, sends};
use crate::real::captured::truth;
use crate::support::{Csv, Work, captured, captured_logs, run, sh};
use serde_json::Value;
use tempfile::TempDir;

/// Shapes of jobs.
pub(crate) const SHAPES: [&str; 4] = [
    "--ranks 8 --tp 4",
    "--ranks 8 --tp 2 --pp 2",
    "--ranks 16 --nodes 2 --tp 4 --pp 2 --split",
    "--ranks 32 --nodes 4 --tp 4 --ep 2 --nccl 2.22",
];

/// A job by nccl-synth, with its truth.
pub(crate) struct Job {
    _dir: TempDir,
    pub(crate) log: String,
    truth: Value,
}

/// The job, unless nccl-synth cannot make it.
pub(crate) fn job(shape: &str, more: &str) -> Option<Job> {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (log, truth) = (path("nccl.log"), path("truth.json"));
    let mut args: Vec<&str> = shape.split(' ').chain(more.split(' ')).collect();
    args.extend(["--truth", &truth, "-o", &log]);
    let made = run("nccl-synth", &args);
    // Not every job can have every fault, nor every version every option.
    let cannot = ["--fault", " needs ", "multiple times"];
    if made.code == Some(2) && cannot.iter().any(|word| made.stderr.contains(word)) {
        return None;
    }
    made.ends(0);
    let truth = serde_json::from_slice(&std::fs::read(&truth).unwrap()).unwrap();
    Some(Job {
        _dir: dir,
        log,
        truth,
    })
}

/// The findings as rows, worst first.
fn findings(log: &str) -> Csv {
    let out = run("nccl-check", &["-q", "--format", "csv", log]).calm();
    Csv::of(&out)
}

#[test]
fn every_fault_of_a_rank_is_found_with_its_place() {
    // The fault, the findings that may tell of it, and whether the call's number is told.
    let different = "op_mismatch count_mismatch datatype_mismatch redop_mismatch root_mismatch";
    let faults = [
        ("skip", different, true),
        ("order", different, true),
        ("count", "count_mismatch", true),
        ("datatype", "datatype_mismatch", true),
        ("redop", "redop_mismatch", true),
        ("root", "root_mismatch", true),
        ("die", "rank_behind", false),
        ("stall", "rank_behind", false),
        ("recv", "p2p_missing_counterpart", false),
    ];
    for (seed, shape) in (1..).zip(SHAPES) {
        for (fault, ids, has_place) in faults {
            let more = format!("--steps 8 --seed {seed} --fault {fault}");
            let Some(job) = job(shape, &more) else {
                assert!(fault == "recv" && !shape.contains("--pp"));
                continue;
            };
            let truth = &job.truth["fault"];
            let csv = findings(&job.log);
            let first = |name: &str| csv.column(name).first().cloned().unwrap_or_default();
            let told = first("finding");
            let what = format!("{shape} {fault}: {} {truth}", first("says"));
            assert!(ids.split(' ').any(|id| id == told), "{what}");
            assert_eq!(first("severity"), "error", "{what}");
            assert_eq!(first("host"), truth["host"].as_str().unwrap(), "{what}");
            assert_eq!(first("pid"), truth["pid"].to_string(), "{what}");
            if has_place {
                assert_eq!(
                    first("comm_id"),
                    truth["comm_id"].as_str().unwrap(),
                    "{what}"
                );
                assert_eq!(first("seq"), truth["seq"].to_string(), "{what}");
            }
            // One fault is one finding; what follows from it is none.
            let wrong = csv
                .column("severity")
                .iter()
                .filter(|s| *s == "error")
                .count();
            assert_eq!(wrong, 1, "{what}");
        }
    }
}

#[test]
fn a_call_left_out_before_the_rank_went_on_elsewhere_is_named() {
    let job = job("--ranks 8 --tp 2 --pp 2", "--steps 8 --seed 4 --fault skip").unwrap();
    let csv = findings(&job.log);
    let first = &csv.rows[0];
    let truth = &job.truth["fault"];
    assert_eq!(csv.get(first, "finding"), "deadlock");
    assert_eq!(csv.get(first, "pid"), truth["pid"].to_string());
    assert_eq!(
        csv.get(first, "comm_id"),
        truth["comm_id"].as_str().unwrap()
    );
    assert_eq!(csv.get(first, "seq"), truth["seq"].to_string());
    assert_eq!(csv.get(first, "rank"), truth["comm_rank"].to_string());
    let says = csv.get(first, "says");
    assert!(
        says.contains("has not made call 14, ")
            && says.contains(" waits for it: a deadlock; it waits in "),
        "{says}"
    );
}

/// One finding but notes: the rank that the truth names is behind.
fn has_only_a_laggard(job: &Job, what: &str) {
    let csv = findings(&job.log);
    let rows = csv.rows.iter();
    let rows = rows.filter(|row| csv.get(row, "severity") != "note");
    let ids: Vec<&str> = rows.map(|row| csv.get(row, "finding")).collect();
    assert_eq!(ids, ["rank_behind"], "{what}");
    let pid = job.truth["fault"]["pid"].to_string();
    assert_eq!(csv.get(&csv.rows[0], "pid"), pid, "{what}");
}

#[test]
fn who_stopped_among_many_peers_left_out_no_single_message() {
    for (shape, more) in [
        (
            "--ranks 64 --nodes 8 --tp 2 --ep 8 --nccl 2.22",
            "--steps 2 --fault die",
        ),
        (
            "--ranks 64 --nodes 8 --tp 4 --pp 8 --layers 8",
            "--steps 3 --seed 2 --fault stall",
        ),
    ] {
        let job = job(shape, more).unwrap();
        has_only_a_laggard(&job, shape);
    }
}

#[test]
fn of_two_ranks_the_other_communicators_of_the_kind_tell_who_is_wrong() {
    let shape = "--tp 2 --pp 2 --layers 8";
    for (ranks, fault) in [
        (
            "--ranks 8 --trainer torchtitan",
            "--steps 6 --seed 762 --fault order",
        ),
        (
            "--ranks 64 --nodes 8 --nccl 2.22",
            "--steps 3 --seed 986 --fault root",
        ),
    ] {
        let job = job(&format!("{ranks} {shape}"), fault).unwrap();
        let csv = findings(&job.log);
        let first = &csv.rows[0];
        assert_eq!(
            csv.get(first, "pid"),
            job.truth["fault"]["pid"].to_string(),
            "{fault}"
        );
        assert_eq!(csv.get(first, "sure"), "high");
        let why = csv.get(first, "why");
        assert!(
            why.contains("of the same kind call the same as the others there"),
            "{why}"
        );
    }
}

#[test]
fn an_alarm_in_one_ranks_file_ends_no_other_ranks_calls() {
    for fault in ["die", "stall"] {
        let more = format!("--steps 6 --layout per-rank --fault {fault}");
        let job = job("--ranks 32 --nodes 4 --tp 8 --ep 2", &more).unwrap();
        assert!(std::path::Path::new(&job.log).is_dir());
        has_only_a_laggard(&job, fault);
    }
}

#[test]
fn healthy_jobs_have_no_findings() {
    let more = [
        "",
        " --nccl 2.12",
        " --net ib --tuning --nvls",
        " --trainer megatron --eval-every 3",
        " --nccl 2.29 --damage torn=0.02",
        " --timestamps iso --prefix torchrun",
    ];
    let mut made = 0;
    for shape in SHAPES {
        for more in more {
            let more = format!("--steps 6{more}");
            let Some(job) = job(shape, &more) else {
                continue;
            };
            made += 1;
            let csv = findings(&job.log);
            // Torn lines are the log's fault, not the job's.
            let torn = more.contains("torn").then_some("lines_torn");
            let expected: Vec<&str> = torn.into_iter().collect();
            let says = csv.column("says");
            assert_eq!(csv.column("finding"), expected, "{shape} {more}: {says:?}");
        }
    }
    assert!(made > 15, "only {made} jobs were made");
}

#[test]
fn a_large_healthy_job_has_none_either() {
    let shape = "--ranks 256 --nodes 32 --tp 8 --pp 2 --ep 2 --split --net ib";
    let job = job(shape, "--steps 2").unwrap();
    assert_eq!(findings(&job.log).column("says"), Vec::<String>::new());
}

/// What real jobs did wrong (testdata/captured; always rank 1 of the job): the finding, the rank in
/// the communicator, the step by its line, words of it.
const REAL: [(&str, &str, &str, &str, &str); 10] = [
    (
        "3d-die",
        "rank_behind",
        "1",
        "18",
        "call 37 of communicator ",
    ),
    (
        "3d-skip",
        "redop_mismatch",
        "1",
        "19",
        "it may have left this call out",
    ),
    ("3d-stall", "rank_behind", "1", "18", "7 ranks wait"),
    (
        "ddp-count",
        "count_mismatch",
        "1",
        "",
        "AllReduce of 4 fp32 sum as call",
    ),
    (
        "ddp-datatype",
        "datatype_mismatch",
        "1",
        "19",
        "AllReduce of 1 fp16 sum as call",
    ),
    ("ddp-die", "rank_behind", "1", "18", "3 ranks wait"),
    (
        "ddp-skip",
        "redop_mismatch",
        "1",
        "19",
        "it may have left this call out",
    ),
    ("ddp-stall", "rank_behind", "1", "18", "3 ranks wait"),
    (
        "pp-recv",
        "p2p_missing_counterpart",
        "0",
        "",
        "rank 1 (vm, GPU 1, pid 2674, its rank 0) lacks a Send",
    ),
    (
        "tp-count",
        "count_mismatch",
        "1",
        "",
        "AllReduce of 4 fp32 sum as call",
    ),
];

/// A log to which the next run was appended still has the hang of the first.
#[test]
fn a_hang_is_an_error_although_another_run_follows_it() {
    let work = Work::new();
    let job = "--ranks 8 --nodes 1 --tp 4 --steps 6";
    let script = format!(
        "nccl-synth --seed 61 {job} --fault stall -o a.log && nccl-synth --seed 62 {job} -o b.log
         cat a.log b.log > both.log; for log in a both; do nccl-check -f text $log.log | head -1; done"
    );
    let out = sh(work.dir(), &script);
    let lines = out.lines();
    assert!(
        lines[0].starts_with("rank ") && lines[0].contains(" wait for it"),
        "{lines:?}"
    );
    let who = |line: &str| line.split(')').next().unwrap().to_owned();
    assert_eq!(who(&lines[0]), who(&lines[1]), "{lines:?}");
}

#[test]
fn real_faults_are_found_and_real_healthy_jobs_have_none() {
    let folders = std::fs::read_dir(captured("")).unwrap();
    let mut names: Vec<String> = folders
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in names.iter().filter(|name| captured(name).is_dir()) {
        let logs = captured_logs(name);
        let mut args: Vec<&str> = vec!["-q", "--format", "csv"];
        args.extend(logs.iter().map(String::as_str));
        let csv = Csv::of(&run("nccl-check", &args).calm());
        let wrong: Vec<&Vec<String>> = csv
            .rows
            .iter()
            .filter(|row| csv.get(row, "severity") != "note")
            .collect();
        let Some((_, id, rank, step, words)) = REAL.iter().find(|real| real.0 == name) else {
            let wrong: Vec<&str> = wrong.iter().map(|row| csv.get(row, "finding")).collect();
            assert_eq!(wrong, told_to(name), "{name}");
            continue;
        };
        let first = wrong
            .first()
            .unwrap_or_else(|| panic!("{name}: nothing found"));
        assert_eq!(csv.get(first, "finding"), *id, "{name}: {first:?}");
        assert_eq!(csv.get(first, "rank"), *rank, "{name}: {first:?}");
        assert_eq!(csv.get(first, "step"), *step, "{name}: {first:?}");
        assert!(csv.get(first, "says").contains(words), "{name}: {first:?}");
        agrees_with_the_record(name, &csv, first);
        // What follows from it is no finding of its own; five jobs at once were slow to begin.
        let rest = wrong[1..].iter().map(|row| csv.get(row, "finding"));
        let rest: Vec<&str> = rest.filter(|id| *id != "init_slow").collect();
        assert_eq!(rest, Vec::<&str>::new(), "{name}");
    }
}

/// The warnings of jobs that were told to do without what the machine has.
fn told_to(name: &str) -> &'static [&'static str] {
    match name {
        // It shared the machine with three other jobs.
        "ddp-shm" => &["setting", "init_slow"],
        "ddp-noshm" => &["setting"],
        _ => &[],
    }
}

/// The process, the communicator's members and the call's number are those of the job's own record.
fn agrees_with_the_record(name: &str, csv: &Csv, found: &[String]) {
    let truth = truth(name);
    let number = |column: &str| -> u64 { csv.get(found, column).parse().unwrap() };
    let (pid, at) = (number("pid"), number("seq"));
    if csv.get(found, "finding") == "p2p_missing_counterpart" {
        assert_eq!(at, sends(&truth, pid), "{name}");
        return;
    }
    let comms = Csv::of(&run("nccl-comms", &captured_logs(name)).calm());
    let of_comm = comms
        .rows
        .iter()
        .filter(|row| comms.get(row, "comm_id") == csv.get(found, "comm_id"));
    let members = of_comm
        .map(|row| comms.get(row, "pid").parse().unwrap())
        .collect();
    let partings = partings(&truth);
    let here = partings
        .iter()
        .find(|p| p.members == members)
        .unwrap_or_else(|| panic!("{name}: the record knows of nothing there: {partings:?}"));
    assert_eq!(here.pid, pid, "{name}: {here:?}");
    if here.missing {
        assert_eq!(at + 1, here.at, "{name}: the last call before {here:?}");
    } else if csv.get(found, "finding") == "redop_mismatch" {
        assert!(
            (here.from..=here.at).contains(&at),
            "{name}: {at}, {here:?}"
        );
    } else {
        assert_eq!(at, here.at, "{name}: {here:?}");
    }
}

/// A step in which real jobs made one call more, a barrier as before a checkpoint (testdata/capture,
/// `job.py`), also where ranks run ahead of the step lines: words of it.
const MORE: [(&str, &str); 8] = [
    (
        "3d",
        "in step 20 each rank of communicator 0x6c14862336af7f7e (world, 8 ranks) made 3",
    ),
    ("ddp", "in step 20 each rank"),
    ("ddp-all", "in step 21 each rank"),
    (
        "ddp-sockets",
        "made 8 collectives, in the other steps it made 7",
    ),
    ("ep", "in step 21 each rank"),
    (
        "fsdp",
        "in step 21 each rank of communicator 0xa0c23da1f975147a (data, 4 ranks) made 16 ",
    ),
    ("pp", "in step 20 each rank"),
    (
        "tp-stamps",
        "in step 21 each rank of communicator 0x2ddebaa4150a1a57 (world, 4 ranks) made 3",
    ),
];

#[test]
fn one_steps_call_more_is_told_where_a_rank_is_in_step_with_its_lines() {
    let odd = |logs: &[String]| -> Vec<String> {
        let args = [
            &["-q".to_owned(), "--format".into(), "csv".into()][..],
            logs,
        ]
        .concat();
        let csv = Csv::of(&run("nccl-check", &args).calm());
        let rows = csv
            .rows
            .iter()
            .filter(|row| csv.get(row, "finding") == "odd_step");
        rows.map(|row| csv.get(row, "says").to_owned()).collect()
    };
    for (name, words) in MORE {
        let told = odd(&captured_logs(name));
        assert!(
            told.len() == 1 && told[0].contains(words),
            "{name}: {told:?}"
        );
    }
    // No rank of theirs is in step, or none of their steps is unlike the others.
    for name in [
        "ddp-tee",
        "hf",
        "lightning",
        "megatron",
        "torchtitan",
        "tp-files",
    ] {
        assert_eq!(odd(&captured_logs(name)), [""; 0], "{name}");
    }
}
