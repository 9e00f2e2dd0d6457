//! nccl-check on jobs of an independent simulator, with the truth: whom the first finding names, and
//! nothing on jobs that are healthy, however their logs end.

use crate::support::{Csv, Work, arg, data, files, run, run_in};
use serde_json::Value;
use std::path::Path;

/// Of two ranks that make two calls in different orders, which is wrong nothing tells.
const OPEN: [&str; 1] = ["order-2-vllm"];

/// The first error or warning: its words, and the rank in the job of the process that it names.
fn first(log: &Path, truth: &Value) -> Option<(String, Option<usize>)> {
    let out = run("nccl-check", &["-q", "--format", "csv", arg(log)]).calm();
    let csv = Csv::of(&out);
    let row = csv
        .rows
        .iter()
        .find(|row| csv.get(row, "severity") != "note")?;
    let get = |column: &str| csv.get(row, column).to_owned();
    let ranks = truth["hosts"]
        .as_array()?
        .iter()
        .zip(truth["pids"].as_array()?);
    let is = |(host, pid): (&Value, &Value)| {
        get("host") == host.as_str().unwrap() && get("pid").parse() == Ok(pid.as_u64().unwrap())
    };
    let says = format!("{}: {}", get("finding"), get("says"));
    Some((says, ranks.map(is).position(|is| is)))
}

#[test]
fn the_first_finding_names_who_is_to_blame_and_healthy_jobs_have_none() {
    let Some(folder) = data("jobs") else { return };
    let mut judged = 0;
    for path in files(&folder) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some(name) = name.strip_suffix(".log.zst") else {
            continue;
        };
        let truth = std::fs::read(folder.join(format!("{name}.truth.json"))).unwrap();
        let truth: Value = serde_json::from_slice(&truth).unwrap();
        let found = first(&path, &truth);
        judged += 1;
        let Some(faults) = truth["truth"].as_array() else {
            assert_eq!(found, None, "{name}");
            continue;
        };
        let guilty: Vec<usize> = faults
            .iter()
            .flat_map(|fault| fault["ranks"].as_array().unwrap())
            .map(|rank| rank.as_u64().unwrap() as usize)
            .collect();
        let (says, rank) = found.unwrap_or_else(|| panic!("{name}: nothing, not {faults:?}"));
        if !OPEN.contains(&name) {
            let named = rank.is_some_and(|rank| guilty.contains(&rank));
            assert!(named, "{name}: {rank:?} is none of {guilty:?}: {says}");
        }
        if truth["fault"] == "crossed" {
            assert!(says.contains("deadlock"), "{name}: {says}");
        }
    }
    assert!(judged > 50);
}

/// What is wrong in captures of real jobs, by the rank in the job and a word of it.
const REAL: [(&str, &str, &str); 6] = [
    ("x-crossed-nodes4", "2", "deadlock"),
    ("x-direction", "1", "p2p_wrong_peer"),
    ("x-nanskip", "3", "count_mismatch"),
    ("x-redop", "2", "redop_mismatch"),
    ("x-oomexit", "0", ""),
    ("x-sigkill-nodes4", "2", ""),
];

#[test]
fn real_jobs_of_several_hosts_with_several_ranks_each_are_compared() {
    let Some(folder) = data("gpu") else { return };
    for (job, rank, id) in REAL {
        let log = folder.join(job).join("nccl.log.gz");
        let out = run("nccl-check", &["-q", "--format", "csv", arg(&log)]).calm();
        let csv = Csv::of(&out);
        let row = &csv.rows[0];
        assert_eq!(csv.get(row, "severity"), "error", "{job}: {row:?}");
        assert_eq!(csv.get(row, "rank"), rank, "{job}: {row:?}");
        assert!(csv.get(row, "finding").starts_with(id), "{job}: {row:?}");
    }
}

/// The file of a rank that prints no step line: its calls have the steps of the file that has step lines.
#[test]
fn a_call_of_a_rank_without_step_lines_has_its_step() {
    let faults = ["redop", "root", "order", "skip"].map(|fault| {
        let fault = format!("{fault},step=3,rank=6");
        ("--nodes 2 --tp 4 --steps 6", fault, 3)
    });
    // The wrong call is no other rank's: it has the step that the others have made it in.
    let alone = "--strategy fsdp --steps 18 --seed 341149";
    let alone = (alone, "count".to_owned(), 9);
    for (job, fault, step) in faults.into_iter().chain([alone]) {
        let work = Work::new();
        let made = ["--ranks", "16", "--layout", "per-rank", "-o", "logs"];
        let with = job.split(' ').chain(["--fault", &fault]);
        std::fs::create_dir(work.dir().join("logs")).unwrap();
        let args: Vec<&str> = made.into_iter().chain(with).collect();
        run_in(work.dir(), "nccl-synth", &args).ends(0);
        let out = run_in(work.dir(), "nccl-check", &["logs", "--format", "csv"]).calm();
        let csv = Csv::of(&out);
        let row = &csv.rows[0];
        let got = ["severity", "stage"].map(|column| csv.get(row, column));
        let stage = format!("after step {}", step - 1);
        assert_eq!(got, ["error", &stage], "{fault}: {row:?}");
        // A step in which the job hangs has no line.
        let is_of_step = |known: &str| known.is_empty() || known == step.to_string();
        assert!(is_of_step(csv.get(row, "step")), "{row:?}");
        let text = run_in(work.dir(), "nccl-check", &["logs", "--format", "text"]).calm();
        let first = text.text().lines().next().unwrap().to_owned();
        assert!(first.contains(&stage), "{first}");
    }
}

/// The answer is the first line and the last one, or has the command to run next after it.
#[test]
fn the_answer_is_first_and_last_with_and_without_a_fault() {
    for more in [&[][..], &["--fault", "skip"], &["--ranks", "2"]] {
        let work = Work::new();
        run_in(work.dir(), "nccl-synth", &[&["-o", "a.log"], more].concat()).ends(0);
        let out = run_in(work.dir(), "nccl-check", &["a.log", "--format", "text"]).calm();
        let lines = out.lines();
        let end = lines.iter().take_while(|line| !line.is_empty()).count();
        assert!((1..=2).contains(&end), "{lines:?}");
        assert_eq!(lines[..end], lines[lines.len() - end..], "{lines:?}");
    }
}
