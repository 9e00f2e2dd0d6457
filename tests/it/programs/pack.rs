//! nccl-pack: parts are read as the logs they are made of.

use crate::support::{Csv, Out, Work, arg, captured, gzip, root, run, run_in, sh};
use std::path::Path;

/// Programs with arguments; each reads all kinds of inputs here.
const READINGS: [&[&str]; 13] = [
    &["nccl-agg"],
    &["nccl-check"],
    &["nccl-comms"],
    &["nccl-communicators", "--members"],
    &["nccl-hist", "--by", "step,rank"],
    &["nccl-matrix"],
    &["nccl-net", "--pairs"],
    &["nccl-ops", "--time"],
    &["nccl-report", "--format", "json"],
    &["nccl-skew"],
    &["nccl-steps", "--list"],
    &["nccl-timing"],
    &["nccl-tuning"],
];

fn read(dir: &Path, program: &[&str], inputs: &[&str]) -> Out {
    run_in(dir, program[0], &[&program[1..], inputs].concat())
}

/// Packs inputs into the folder `parts` and returns the receipts.
#[track_caller]
fn pack(dir: &Path, inputs: &[&str]) -> Vec<serde_json::Value> {
    let out = run_in(dir, "nccl-pack", &[&["--to", "parts"], inputs].concat()).ends(0);
    let receipts = out.lines();
    let receipts = receipts
        .iter()
        .map(|line| serde_json::from_str(line).unwrap());
    receipts.collect()
}

#[test]
fn programs_read_parts_as_the_logs_and_records() {
    for sample in [
        "captured/3d-skip",
        "captured/ddp-inspector-2.28",
        "captured/ddp-profiler",
        "captured/megatron",
        "kineto",
        "logs/2.29/nemo2-torn.log",
        "nsys",
    ] {
        let work = Work::new();
        let input = root().join("testdata").join(sample);
        pack(work.dir(), &["--addresses", arg(&input)]);
        for program in READINGS {
            let of_log = read(work.dir(), program, &[arg(&input)]);
            let of_part = read(work.dir(), program, &["parts"]);
            assert_eq!(of_log.text(), of_part.text(), "{program:?} {sample}");
            assert_eq!(of_log.stderr, of_part.stderr, "{program:?} {sample}");
            assert_eq!(of_log.code, of_part.code, "{program:?} {sample}");
        }
    }
}

#[test]
fn addresses_are_left_out_unless_they_are_wanted() {
    let work = Work::new();
    let input = captured("ddp").join("nccl.log.gz");
    let streams = |input: &str| {
        let out = run_in(work.dir(), "nccl-comms", &["-q", input]).ends(0);
        Csv::of(&out).column("stream").join(" ")
    };
    let of_log = streams(arg(&input));
    pack(work.dir(), &[arg(&input)]);
    assert!(streams("parts").chars().all(|c| "0x ".contains(c)));
    let out = run_in(
        work.dir(),
        "nccl-pack",
        &["--addresses", "--to", "all", arg(&input)],
    );
    out.ends(0);
    assert_eq!(streams("all"), of_log);
}

/// Rank files of a job in the folder `job`; their names.
fn write_job(work: &Work, ranks: &str) -> Vec<String> {
    let sizes = [
        "--ranks", ranks, "--nodes", "2", "--tp", "2", "--pp", "2", "--steps", "3",
    ];
    let layout = ["--layout", "per-rank", "--timestamps", "iso", "-o", "job"];
    run_in(work.dir(), "nccl-synth", &[&sizes[..], &layout].concat()).ends(0);
    let mut names: Vec<String> = std::fs::read_dir(work.dir().join("job"))
        .unwrap()
        .map(|entry| format!("job/{}", entry.unwrap().file_name().display()))
        .collect();
    names.sort();
    names
}

#[test]
fn the_order_in_which_inputs_are_named_does_not_matter() {
    let work = Work::new();
    let names = write_job(&work, "16");
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    let mut others = names.clone();
    others.reverse();
    others.swap(1, 9);
    for program in READINGS {
        let first = read(work.dir(), program, &names);
        for inputs in [&others[..], &["job"]] {
            let other = read(work.dir(), program, inputs);
            assert_eq!(first.text(), other.text(), "{program:?}");
            assert_eq!(first.stderr, other.stderr, "{program:?}");
            assert_eq!(first.code, other.code, "{program:?}");
        }
    }
}

#[test]
fn packed_in_groups_and_again_parts_are_the_same() {
    let work = Work::new();
    let names = write_job(&work, "8");
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    let (some, others) = names.split_at(3);
    let receipts = [pack(work.dir(), others), pack(work.dir(), some)].concat();
    assert_eq!(receipts.len(), 8);
    assert!(receipts.iter().all(|receipt| receipt["skipped"] == false));
    // What a killed packer leaves is no input.
    work.file("parts/.nccl-pack-Xy12", b"\x8aNCP\x01\0\0\0");
    run_in(
        work.dir(),
        "nccl-pack",
        &[&["--to", "again"], &names[..]].concat(),
    )
    .ends(0);
    for receipt in pack(work.dir(), &names) {
        assert_eq!(receipt["skipped"], true);
        let part = receipt["part"].as_str().unwrap();
        let bytes = |path: &str| std::fs::read(work.dir().join(path)).unwrap();
        assert!(
            bytes(part) == bytes(&part.replace("parts/", "again/")),
            "{part}"
        );
    }
    let of_logs = run_in(work.dir(), "nccl-check", &["job"]);
    assert_eq!(
        run_in(work.dir(), "nccl-check", &["parts"]).text(),
        of_logs.text()
    );
}

#[test]
fn what_is_not_whole_is_named() {
    let work = Work::new();
    let names = write_job(&work, "8");
    let list = work.file("list", names.join("\n"));
    let list = ["--expect-inputs", arg(&list), "parts"];
    let receipts = pack(work.dir(), &["job"]);
    let part = |at: usize| work.dir().join(receipts[at]["part"].as_str().unwrap());
    let hist = |code: i32, parts: &[&str]| {
        run_in(work.dir(), "nccl-hist", &list)
            .ends(code)
            .says(parts);
    };
    hist(0, &[]);
    let bytes = std::fs::read(part(2)).unwrap();
    std::fs::remove_file(part(2)).unwrap();
    hist(2, &[&format!("expected inputs are missing: {}", names[2])]);
    std::fs::write(part(2), &bytes[..bytes.len() - 9]).unwrap();
    hist(
        2,
        &["the part is cut, or other bytes follow it: pack the log again"],
    );
    let version = [&bytes[..4], &[9], &bytes[5..]].concat();
    std::fs::write(part(2), version).unwrap();
    hist(2, &["expected a part of version 1, found version 9"]);
    std::fs::write(part(2), &bytes).unwrap();
    work.file("parts/other.ncp", &bytes);
    hist(
        2,
        &["other.ncp: another part of job/", "remove one of them"],
    );
    std::fs::remove_file(work.dir().join("parts/other.ncp")).unwrap();
    hist(0, &[]);
    work.file(&names[2], "h:1:1 [0] NCCL INFO another run\n");
    hist(
        2,
        &[&format!(
            "{} has changed since it was packed: pack it again",
            names[2]
        )],
    );
    // A damaged frame shows only when it is read.
    let mut damaged = bytes.clone();
    let middle = bytes.len() / 2;
    damaged[middle] ^= 0x40;
    let alone = work.file("damaged/a.ncp", &damaged);
    std::fs::remove_file(work.dir().join(&names[2])).unwrap();
    let out = run("nccl-hist", &[arg(&alone)]);
    assert!(matches!(out.code, Some(1 | 2)), "{}", out.stderr);
    out.says(&["damaged"]);
}

#[test]
fn damaged_torn_and_empty_inputs_are_packed_and_others_named() {
    let work = Work::new();
    write_job(&work, "8");
    let torn = root().join("testdata/logs/2.29/nemo2-torn.log");
    work.file("job/torn.log", std::fs::read(torn).unwrap());
    work.file("job/empty.log", "");
    let packed = gzip(&std::fs::read(captured("megatron").join("nccl.log")).unwrap());
    work.file("job/cut.log.gz", &packed[..packed.len() / 2]);
    let receipts = pack(work.dir(), &["job"]);
    assert_eq!(receipts.len(), 11);
    let of = |name: &str| {
        let is_it = |receipt: &&serde_json::Value| receipt["input"] == format!("job/{name}");
        receipts.iter().find(is_it).unwrap()
    };
    assert!(
        of("torn.log")["damaged"].as_u64() > Some(0),
        "{}",
        of("torn.log")
    );
    assert_eq!(of("empty.log")["lines"], 0);
    // Without addresses torn lines are joined all the same: those have the length that they had.
    for program in [&["nccl-hist"][..], &["nccl-steps", "--list"]] {
        let of_log = read(work.dir(), program, &["job"]);
        let of_part = read(work.dir(), program, &["parts"]);
        assert_eq!(
            (of_log.text(), of_log.stderr),
            (of_part.text(), of_part.stderr)
        );
        assert_eq!(of_log.code, of_part.code);
    }
    let others = ["--to", "others", "gone.log", "job/torn.log"];
    let out = run_in(work.dir(), "nccl-pack", &others).ends(2);
    assert_eq!(out.lines().len(), 1);
    out.says(&["nccl-pack: error: gone.log: "]);
    let to = work.file("file", "");
    let out = run_in(work.dir(), "nccl-pack", &["--to", arg(&to), "job"]).ends(2);
    out.says(&["file: "]);
}

#[test]
fn a_manifest_names_the_inputs() {
    let work = Work::new();
    write_job(&work, "8");
    let script = "find job -name '*.log' | nccl-pack --to parts --manifest - | wc -l";
    assert_eq!(sh(work.dir(), script).ends(0).text().trim(), "8");
    let empty = work.file("empty", "");
    let out = run_in(
        work.dir(),
        "nccl-pack",
        &["--to", "parts", "--manifest", arg(&empty)],
    );
    assert!(out.ends(0).stdout.is_empty());
    // A packer whose reader has left must not look like one that has ended.
    let script = "{ sleep 0.5; nccl-pack --to parts job; echo $? > code; } | true; cat code";
    assert_eq!(sh(work.dir(), script).text().trim(), "141");
    let pipe = sh(
        work.dir(),
        "cat job/* | nccl-pack --to piped && nccl-hist -q piped | wc -l",
    );
    assert!(pipe.ends(0).text().trim() > "1");
}
