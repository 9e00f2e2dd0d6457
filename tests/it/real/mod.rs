//! Real logs: nothing panics, every line is accounted for, every whole call is found.

pub(crate) mod captured;
mod captured_tables;
mod facts;
mod gpu;
mod gpu_steps;
mod kineto;
mod timed;

use crate::support::{
    Account, Csv, READERS, arg, body, count_lines, data, files, naive_calls, run,
};
use std::path::{Path, PathBuf};

/// Every file of the real logs, excerpts included, and of the trainers' lines.
fn logs() -> Vec<PathBuf> {
    ["nccl-logs", "trainers", "awk-chain/nemo-4ranks.log"]
        .iter()
        .filter_map(|rel| data(rel))
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// Files whose lines are torn or overwritten: joined calls stand on no one line.
fn is_torn(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy();
    name.contains("torn") || name.contains("2.29")
}

/// Fails with all that was found wrong.
#[track_caller]
fn nothing(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_line_of_every_real_log_is_accounted_for() {
    let mut wrong = Vec::new();
    for path in logs() {
        let lines = count_lines(&std::fs::read(&path).unwrap());
        let out = run("nccl-hist", &[arg(&path), "-v"]);
        if out.is_wild() {
            wrong.push(format!("{}: {}", path.display(), out.stderr));
            continue;
        }
        let account = Account::of(&out);
        if account.lines != lines {
            wrong.push(format!("{}: {lines} lines, {account:?}", path.display()));
        }
        // Something was damaged: then the code says so, and else it does not.
        let unknown = out.stderr.contains("unknown datatype");
        let code = i32::from(account.damaged > 0 || unknown);
        if out.code != Some(code) {
            wrong.push(format!("{}: {:?}, not {code}", path.display(), out.code));
        }
    }
    nothing(&wrong);
}

#[test]
fn every_whole_call_of_every_real_log_is_found() {
    let body = body();
    let mut wrong = Vec::new();
    for path in logs() {
        let bytes = std::fs::read(&path).unwrap();
        let whole: usize = bytes
            .split(|&b| b == b'\n')
            .map(|line| body.find_iter(line).count())
            .sum();
        let out = run("nccl-comms", &[arg(&path), "--format", "awk", "-v"]);
        let got = out.lines();
        if out.is_wild() || Account::of(&out).calls != got.len() as u64 {
            wrong.push(format!(
                "{}: {} rows, {}",
                path.display(),
                got.len(),
                out.stderr
            ));
            continue;
        }
        // Calls that were joined stand on no one line.
        let right = match is_torn(&path) {
            true => got.len() >= whole,
            false => got == naive_calls(&bytes),
        };
        if !right {
            wrong.push(format!(
                "{}: {} of {whole} calls",
                path.display(),
                got.len()
            ));
        }
    }
    nothing(&wrong);
}

#[test]
fn no_program_panics_on_any_real_file() {
    let Some(root) = data("") else { return };
    let mut wrong = Vec::new();
    for path in files(&root) {
        let small = std::fs::metadata(&path).unwrap().len() < 300_000;
        for program in READERS {
            let mut runs = vec![vec![arg(&path)]];
            if program == "nccl-steps" {
                runs.push(vec![arg(&path), "--list"]);
            }
            if small && program == "nccl-comms" {
                runs.push(vec![arg(&path), "--unique", "--format", "table"]);
            }
            for args in runs {
                let out = run(program, &args);
                let error = out.stderr.contains(&format!("{program}: error: "));
                // Code 2 comes with a word.
                if out.is_wild() || (out.code == Some(2) && !error) {
                    wrong.push(format!("{program} {args:?}: {:?} {}", out.code, out.stderr));
                }
            }
        }
    }
    nothing(&wrong);
}

#[test]
fn all_programs_count_the_same_calls_of_a_real_log() {
    let mut wrong = Vec::new();
    for path in logs() {
        let calls = run("nccl-comms", &[arg(&path)]);
        let calls = Csv::of(&calls).rows.len() as u128;
        let mut same = |program: &str, args: &[&str]| {
            let out = run(program, &[&[arg(&path)], args].concat());
            let sum = match out.code {
                Some(2) if program == "nccl-steps" => calls,
                _ => Csv::of(&out).sum("calls"),
            };
            if sum != calls {
                wrong.push(format!("{program} {}: {sum}, not {calls}", path.display()));
            }
        };
        same("nccl-hist", &[]);
        same("nccl-ops", &[]);
        same("nccl-agg", &[]);
        same("nccl-comms", &["--unique"]);
        same("nccl-steps", &["--list"]);
    }
    nothing(&wrong);
}

/// The step numbers in a file by a plain pattern, a number that comes again at once taken once.
fn naive_steps(path: &Path, pattern: &str) -> Vec<u64> {
    let pattern = regex::bytes::Regex::new(pattern).unwrap();
    let bytes = std::fs::read(path).unwrap();
    let mut steps = Vec::new();
    for piece in bytes.split(|&b| b == b'\n' || b == b'\r') {
        if piece.starts_with(b"#@") {
            continue;
        }
        if let Some(m) = pattern.captures(piece) {
            let text = String::from_utf8_lossy(&m[1]).into_owned();
            steps.push(text.parse().unwrap());
        }
    }
    steps.dedup();
    steps
}

#[test]
fn the_steps_of_every_trainer_are_read() {
    let trainers = [
        (
            "nemo2",
            "nemo2",
            Some(r"Training epoch \d+, iteration \d+/\d+ .*global_step: (\d+)"),
        ),
        ("nemo1_pbar", "nemo1", None),
        (
            "megatron_lm",
            "megatron",
            Some(r"iteration +(\d+)/ *\d+ \|.*elapsed time per iteration \(ms\): "),
        ),
        ("megatron_bridge", "megatron-bridge", None),
        ("megatron_deepspeed", "megatron-deepspeed", None),
        ("gpt_neox", "gpt-neox", None),
        ("deepspeed", "deepspeed", None),
        ("torchtitan", "torchtitan", None),
        (
            "maxtext",
            "maxtext",
            Some(r"completed step: (\d+), seconds: "),
        ),
        (
            "nanotron",
            "nanotron",
            Some(r"iteration: (\d+) / \d+ \|.*time_per_iteration_ms: "),
        ),
        ("hf_trainer", "hf", None),
        ("axolotl", "axolotl", None),
    ];
    for (file, name, pattern) in trainers {
        let Some(path) = data(&format!("trainers/{file}.log")) else {
            return;
        };
        let out = run(
            "nccl-timing",
            &[arg(&path), "--per-step", "--trainer", name],
        )
        .calm();
        assert_eq!(out.code, Some(0), "{file}: {}", out.stderr);
        let table = Csv::of(&out);
        assert!(!table.rows.is_empty(), "{file}");
        if let Some(pattern) = pattern {
            let steps: Vec<u64> = table
                .column("step")
                .iter()
                .map(|s| s.parse().unwrap())
                .collect();
            let mut naive = naive_steps(&path, pattern);
            let mut steps = steps;
            // Every host prints MaxText's lines: of 9, 8, 9 the second is taken for a late one.
            if name == "maxtext" {
                naive.sort_unstable();
                naive.dedup();
                steps.sort_unstable();
                steps.dedup();
            }
            assert_eq!(steps, naive, "{file}");
        }
    }
}
