//! `--sort`, `--top` and `-o`: the same in every program that writes rows.

use crate::support::{Csv, Work, captured, run, run_in, sh};

/// A folder with a real log.
fn work() -> Work {
    let work = Work::new();
    std::fs::copy(
        captured("megatron").join("nccl.log"),
        work.dir().join("nccl.log"),
    )
    .unwrap();
    work
}

#[test]
fn rows_are_sorted_by_number_and_the_rest_is_counted() {
    let work = work();
    let table =
        |args: &str| Csv::of(&sh(work.dir(), &format!("nccl-hist nccl.log {args}")).ends(0));
    let all = table("");
    let mut bytes: Vec<u128> = all
        .column("total_bytes")
        .iter()
        .map(|n| n.parse().unwrap())
        .collect();
    bytes.sort_by(|a, b| b.cmp(a));
    let sorted = table("--sort -total_bytes");
    let found: Vec<u128> = sorted
        .column("total_bytes")
        .iter()
        .map(|n| n.parse().unwrap())
        .collect();
    assert_eq!(found, bytes);
    assert_eq!(table("--sort=-total_bytes --top 2").rows, sorted.rows[..2]);
    // Without an order the largest are kept.
    assert_eq!(table("-n 3").rows, sorted.rows[..3]);
    assert_eq!(table("-n 3 --sort op").rows, all.rows[..3]);
    let steps = |args: &str| sh(work.dir(), &format!("nccl-steps nccl.log --list {args}")).ends(0);
    let longest = Csv::of(&steps("--sort -time_s")).rows[..2].to_vec();
    assert_eq!(Csv::of(&steps("-n 2")).rows, longest);
    assert!(table("-n 0").rows.is_empty());
    let of = |row: &Vec<String>| {
        (
            sorted.get(row, "op").to_owned(),
            sorted.get(row, "calls").parse::<u64>().unwrap(),
        )
    };
    let two = table("--sort -op,calls");
    assert!(two.rows.is_sorted_by(|a, b| {
        let (a, b) = (of(a), of(b));
        a.0 > b.0 || a.0 == b.0 && a.1 <= b.1
    }));
    let left = all.rows.len() - 2;
    let out = sh(work.dir(), "nccl-hist nccl.log -n 2").ends(0);
    out.says(&[&format!("note: -n leaves {left} rows out")]);
    let out = sh(work.dir(), "nccl-hist nccl.log -qn 2").ends(0);
    assert_eq!(out.stderr, "");
    // The same rows, whatever their format.
    let drawn = sh(work.dir(), "nccl-hist nccl.log -f table --sort -calls -n 1")
        .ends(0)
        .lines();
    assert_eq!(drawn.len(), 2, "{drawn:?}");
    let line = &sh(work.dir(), "nccl-ops nccl.log -f jsonl --sort -calls -n 1")
        .ends(0)
        .lines()[0];
    let row: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(row["op"], "AllGather");
}

#[test]
fn an_unknown_column_is_refused_with_those_that_are() {
    let work = work();
    for (command, column) in [
        ("nccl-ops nccl.log", "total_bytes"),
        ("nccl-agg nccl.log", "datatype"),
        ("nccl-hist nccl.log", "bucket"),
        ("nccl-timing nccl.log", "mean"),
        ("nccl-steps nccl.log --list", "first_line"),
        ("nccl-communicators nccl.log", "nranks"),
        ("nccl-net nccl.log", "minority"),
        ("nccl-tuning nccl.log", "lines"),
        ("nccl-check nccl.log", "severity"),
        ("nccl-matrix nccl.log", "basis"),
        ("nccl-diff nccl.log nccl.log", "aspect"),
    ] {
        let out = sh(work.dir(), &format!("{command} --sort=-none")).ends(2);
        out.says(&["--sort none: expected one of the columns ", column]);
        let out = sh(work.dir(), &format!("{command} --sort {column} --top 1")).calm();
        assert!(out.lines().len() <= 2, "{command}");
    }
    for refused in [
        "nccl-ops nccl.log -f awk --top 1",
        "nccl-agg nccl.log -f nccl-tests --sort calls",
        "nccl-matrix nccl.log -f dot -n 1",
        "nccl-check nccl.log -f text --sort step",
        "nccl-steps nccl.log -n 1",
        "nccl-net nccl.log --dot -n 1",
        "nccl-ops nccl.log --sort -",
        "nccl-ops nccl.log --top -1",
        "nccl-comms nccl.log --top 1",
    ] {
        let out = sh(work.dir(), refused).ends(2);
        assert!(!out.stderr.is_empty(), "{refused}");
    }
}

#[test]
fn rows_that_would_be_early_wait_for_the_end_where_they_are_sorted() {
    let work = work();
    for command in [
        "nccl-ops --by step",
        "nccl-timing --per-step",
        "nccl-steps --list",
    ] {
        let of = |source: &str| sh(work.dir(), &source.replace('$', command)).calm().text();
        let sorted = of("$ nccl.log --sort -step -n 3");
        assert!(sorted.lines().count() == 4, "{sorted}");
        assert_eq!(
            of("cat nccl.log | $ --sort -step -n 3"),
            sorted,
            "{command}"
        );
    }
}

#[test]
fn a_file_is_what_standard_output_would_be_and_there_when_it_is_whole() {
    let work = work();
    for command in [
        "nccl-ops nccl.log",
        "nccl-ops nccl.log --by step -f jsonl",
        "nccl-hist nccl.log -f table",
        "nccl-agg nccl.log -f nccl-tests",
        "nccl-timing nccl.log -f awk",
        "nccl-comms nccl.log",
        "nccl-comms nccl.log -f chrome",
        "nccl-steps nccl.log -s 12",
        "nccl-steps nccl.log --list",
        "nccl-matrix nccl.log -f table",
        "nccl-check nccl.log",
        "nccl-net nccl.log --dot",
        "nccl-diff nccl.log nccl.log",
        "nccl-report nccl.log -f md",
        "nccl-tuning nccl.log",
        "nccl-communicators nccl.log",
    ] {
        let direct = sh(work.dir(), command).calm();
        work.file("out", "what was there before\n");
        let out = sh(work.dir(), &format!("{command} -o out")).calm();
        assert_eq!(
            (out.code, out.text().as_str()),
            (direct.code, ""),
            "{command}"
        );
        let written = std::fs::read(work.dir().join("out")).unwrap();
        assert_eq!(written, direct.stdout, "{command}");
        let out = sh(work.dir(), &format!("{command} -o /dev/full")).ends(2);
        out.says(&["error: ", "No space left"]);
        let out = sh(work.dir(), &format!("{command} -o none/out")).ends(2);
        out.says(&["error: cannot write none/out"]);
        sh(work.dir(), &format!("{command} -o .")).ends(2);
    }
    // What fails leaves the file as it was, and nothing beside it.
    work.file("out", "before\n");
    for failing in [
        "nccl-ops nccl.log --sort none -o out",
        "nccl-ops none.log -o out",
        "nccl-comms nothing -o out",
    ] {
        sh(work.dir(), failing).ends(2);
        let kept = std::fs::read(work.dir().join("out")).unwrap();
        assert_eq!(kept, b"before\n", "{failing}");
    }
    let names = sh(work.dir(), "ls -A").ends(0).lines();
    assert_eq!(names, ["nccl.log", "out"]);
    // Links and permissions stay; an input may be replaced by what is made of it.
    sh(
        work.dir(),
        "nccl-comms nccl.log > calls.csv && chmod 640 calls.csv && ln -s calls.csv link \
         && nccl-comms link -o link --rank 0 && test -L link",
    )
    .ends(0);
    let mode = sh(
        work.dir(),
        "stat -c %a calls.csv; umask 027; nccl-ops nccl.log -o new; stat -c %a new",
    );
    assert_eq!(mode.ends(0).lines(), ["640", "640"]);
    let ranks = Csv::of(&run_in(work.dir(), "nccl-comms", &["calls.csv"]).ends(0));
    assert!(ranks.column("rank").iter().all(|rank| rank == "0") && !ranks.rows.is_empty());
}

#[test]
fn nothing_of_it_is_needed_for_help() {
    run("nccl-ops", &["--generate", "man", "-o", "x"]).ends(2);
}

#[test]
fn the_ending_of_a_file_names_its_format() {
    let work = work();
    let written = |command: &str, name: &str| {
        sh(work.dir(), &format!("{command} -q nccl.log -o {name}")).ends(0);
        std::fs::read_to_string(work.dir().join(name)).unwrap()
    };
    for format in ["csv", "tsv", "jsonl"] {
        let rows = sh(work.dir(), &format!("nccl-hist -q nccl.log -f {format}"))
            .ends(0)
            .text();
        assert_eq!(written("nccl-hist", &format!("rows.{format}")), rows);
        assert_eq!(
            written(
                &format!("nccl-hist -f {format}"),
                &format!("again.{format}")
            ),
            rows
        );
        if format == "jsonl" {
            assert_eq!(written("nccl-hist", "rows.json"), rows);
            assert_eq!(written("nccl-hist -f json", "rows.ndjson"), rows);
        }
    }
    assert!(written("nccl-comms -f chrome", "trace.json").starts_with("{\"displayTimeUnit\""));
    assert!(written("nccl-report", "page.md").starts_with("## "));
    assert!(written("nccl-report", "page.HTML").starts_with("<!doctype html>"));
    assert!(written("nccl-check", "found.xml").starts_with("<?xml"));
    // The lines of a log are a text, and other endings mean nothing.
    let lines = written("nccl-steps --steps 12", "lines.txt");
    assert_eq!(written("nccl-steps --steps 12", "lines.log"), lines);
    assert!(written("nccl-hist", "rows.2026-11-26").starts_with("op,bucket,"));
    for (command, says) in [
        (
            "nccl-hist -o x.parquet",
            "does not write .parquet; it writes .csv, .tsv, .jsonl, .json",
        ),
        ("nccl-hist -o x.csv.gz", "does not write .gz"),
        (
            "nccl-steps --steps 12 -o x.jsonl",
            "name a file of text (.txt, .log)",
        ),
        ("nccl-comms -o x.html", "nccl-comms does not write .html"),
        (
            "nccl-hist -o x.json -f csv",
            "-o x.json and --format csv name different formats",
        ),
        (
            "nccl-hist --svg x.png",
            "a picture is SVG, not .png: name it x.svg",
        ),
    ] {
        sh(work.dir(), &format!("{command} nccl.log"))
            .ends(2)
            .says(&[says]);
    }
    let left = std::fs::read_dir(work.dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert!(
        !left
            .into_iter()
            .any(|name| name.to_str().unwrap().starts_with("x."))
    );
}
