//! What a job answered while it hung: NCCL's RAS and the stacks of its processes, alone, together, and in a pipe.

use crate::support::{Csv, arg, run};
use std::path::{Path, PathBuf};

fn folder(job: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/ras")
        .join(job)
}

/// The job, the files, and each row: severity, finding, rank and confidence.
const JOBS: [(&str, &str, &[[&str; 4]]); 12] = [
    (
        "stop",
        "*",
        &[
            ["error", "rank_behind", "0", "high"],
            ["note", "stack_groups", "", "high"],
        ],
    ),
    ("stop", "ras*", &[["error", "rank_behind", "0", "low"]]),
    (
        "stop",
        "stack*",
        &[
            ["error", "rank_behind", "0", "low"],
            ["note", "stack_groups", "", "high"],
        ],
    ),
    ("skip", "*", &[["error", "rank_behind", "0", "high"]]),
    (
        "fewer",
        "*",
        &[
            ["error", "rank_behind", "5", "medium"],
            ["note", "stack_groups", "", "high"],
        ],
    ),
    (
        "fewer",
        "stack*",
        &[
            ["error", "line_mismatch", "5", "low"],
            ["note", "stack_groups", "", "high"],
        ],
    ),
    (
        "crossed",
        "*",
        &[
            ["error", "deadlock", "2", "medium"],
            ["note", "stack_groups", "", "high"],
        ],
    ),
    (
        "crossed",
        "stack*",
        &[
            ["note", "not_checked", "", "high"],
            ["note", "stack_groups", "", "high"],
        ],
    ),
    ("message", "ras*", &[["error", "rank_behind", "0", "low"]]),
    (
        "message",
        "*",
        &[
            ["error", "rank_behind", "", "low"],
            ["note", "stack_groups", "", "high"],
        ],
    ),
    ("die", "*.json", &[["error", "dead_process", "1", "high"]]),
    ("die", "*.txt", &[["error", "dead_process", "1", "high"]]),
];

#[test]
fn the_state_of_a_hung_job_names_the_rank() {
    for (job, files, rows) in JOBS {
        let out = run(
            "nccl-check",
            &[arg(&folder(job)), "--glob", files, "--format", "csv"],
        );
        let code = match rows[0][0] {
            "error" => 1,
            _ => 3,
        };
        let csv = Csv::of(&out.calm().ends(code));
        let names = ["severity", "finding", "global_rank", "sure"];
        let found: Vec<[&str; 4]> = csv
            .rows
            .iter()
            .map(|row| names.map(|name| csv.get(row, name)))
            .collect();
        assert_eq!(found, rows, "{job} {files}");
    }
}

#[test]
fn a_stack_answers_where_to_look() {
    for (files, next) in [
        (
            "*",
            "next: look at why the program is in layer (train.py:39)",
        ),
        ("ras*", "next: ssh 127.0.0.1 py-spy dump --pid 603"),
    ] {
        let stop = folder("stop");
        let args = [arg(&stop), "--glob", files, "--format", "text"];
        let out = run("nccl-check", &args).ends(1);
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(text.contains(next), "{files}: {text}");
    }
}

#[test]
fn other_programs_name_nccl_check() {
    for (file, what) in [
        ("die/ras.json", "an answer of NCCL's RAS (ncclras)"),
        ("die/ras.txt", "an answer of NCCL's RAS (ncclras)"),
        ("stop/stack.rank0.txt", "stacks of processes (py-spy dump)"),
        (
            "crossed/stack.rank0.json",
            "stacks of processes (py-spy dump)",
        ),
    ] {
        let out = run("nccl-hist", &[arg(&folder(file))]).ends(2);
        let expected = format!(
            "is {what}: it has no calls; an NCCL log has them; nccl-check reads this input"
        );
        assert!(out.stderr.contains(&expected), "{file}: {}", out.stderr);
    }
}
