//! What machines report, beside a log and alone: the kernel's messages, nvidia-smi and DCGM.

use crate::support::{Csv, arg, feed, run};
use std::path::{Path, PathBuf};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/machine")
        .join(name)
}

/// The findings on files: severity, finding, rank, process id and confidence.
fn findings(files: &[&str], code: i32) -> Vec<String> {
    let paths: Vec<PathBuf> = files.iter().map(|name| file(name)).collect();
    let mut args: Vec<&str> = paths.iter().map(|path| arg(path)).collect();
    args.extend(["--format", "csv"]);
    let csv = Csv::of(&run("nccl-check", &args).calm().ends(code));
    let names = ["severity", "finding", "global_rank", "pid", "sure"];
    let row = |row: &Vec<String>| names.map(|name| csv.get(row, name)).join(" ");
    csv.rows.iter().map(row).collect()
}

#[test]
fn a_process_that_the_kernel_killed_is_the_rank_that_is_missing() {
    let alone = findings(&["nccl.log"], 1);
    assert!(alone[0].starts_with("error dead_process 2 "), "{alone:?}");
    let with = findings(&["nccl.log", "messages.n2"], 1);
    assert_eq!(with[0], "error host_out_of_memory 2 91 high");
    assert!(
        with[1..].iter().all(|row| row.starts_with("note")),
        "{with:?}"
    );
}

#[test]
fn a_gpu_that_the_driver_lost_is_that_of_its_rank() {
    let with = findings(&["nccl.log", "dmesg.n2.txt"], 1);
    assert_eq!(with[0], "error gpu_failed 2 91 high");
    assert!(
        with[1..].iter().all(|row| row.starts_with("note")),
        "{with:?}"
    );
    let state = findings(&["nccl.log", "nvidia-smi.n2.txt"], 1);
    assert!(
        state.contains(&"error gpu_failed 2 91 medium".to_owned()),
        "{state:?}"
    );
}

#[test]
fn other_hosts_are_notes() {
    let with = findings(&["nccl.log", "other.json"], 1);
    let own: Vec<&String> = with
        .iter()
        .filter(|row| row.contains("machine_message"))
        .collect();
    assert_eq!(
        own,
        [
            "note machine_message  92 high",
            "note machine_message   high"
        ]
    );
    assert_eq!(with[0], findings(&["nccl.log"], 1)[0]);
}

#[test]
fn messages_without_a_log_are_an_answer() {
    let all = findings(&["all.txt"], 1);
    assert_eq!(
        all,
        [
            "error gpu_failed  81 high",
            "error gpu_failed   high",
            "error host_memory_error   high",
            // Any process of the host may be meant.
            "warning machine_message  84 high",
            "warning gpu_program_error  82 medium",
            "warning link_down   medium",
            "warning rank_crashed  83 medium",
            "note machine_message  81 high",
            "note machine_message   high",
        ]
    );
    assert_eq!(findings(&["dcgm.txt"], 1), ["error gpu_failed   high"]);
    assert_eq!(findings(&["clean.txt"], 3), ["note not_checked   high"]);
    let out = run("nccl-check", &[arg(&file("clean.txt")), "--format", "text"]).ends(3);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(
        text.starts_with("not judged: the messages of the machine show no fault"),
        "{text}"
    );
}

#[test]
fn a_pipe_and_the_page_have_them_too() {
    let text = std::fs::read_to_string(file("messages.n2")).unwrap();
    let csv = Csv::of(
        &feed("nccl-check", &["--format", "csv"], text.as_str())
            .calm()
            .ends(1),
    );
    assert_eq!(csv.get(&csv.rows[0], "finding"), "host_out_of_memory");
    let out = run(
        "nccl-report",
        &[
            arg(&file("nccl.log")),
            arg(&file("messages.n2")),
            "--format",
            "json",
        ],
    );
    let page = String::from_utf8(out.stdout).unwrap();
    assert!(page.contains("host_out_of_memory"), "{page}");
    let out = run("nccl-hist", &[arg(&file("all.txt"))]).ends(2);
    let expected = "is the kernel's messages (dmesg, syslog, the journal): it has no calls; an NCCL log has them; \
                    nccl-check reads this input";
    assert!(out.stderr.contains(expected), "{}", out.stderr);
}
