//! nccl-report: each of its numbers is that of another program.

use crate::support::{Out, Work, data, feed, run, run_in};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The tables of the page: the key in JSON, the program and its arguments.
const TABLES: [(&str, &str, &[&str]); 15] = [
    ("net", "nccl-net", &[]),
    ("timing", "nccl-timing", &[]),
    ("steps", "nccl-timing", &["--per-step"]),
    ("step_calls", "nccl-ops", &["--by", "step"]),
    ("operations", "nccl-ops", &[]),
    ("sizes", "nccl-hist", &[]),
    ("communicators", "nccl-communicators", &[]),
    ("members", "nccl-communicators", &["--members"]),
    ("tuning", "nccl-tuning", &[]),
    ("durations", "nccl-ops", &["--time"]),
    ("overlap", "nccl-overlap", &[]),
    ("matrix", "nccl-matrix", &[]),
    ("skew", "nccl-skew", &[]),
    ("findings", "nccl-check", &[]),
    ("questions", "nccl-check", &["--coverage"]),
];

/// A file of the test data.
fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(name)
}

/// Inputs of each kind.
const INPUTS: [&[&str]; 14] = [
    &["captured/megatron/nccl.log"],
    &["captured/ddp-skip/nccl.log.gz"],
    &["captured/3d/nccl.log.gz"],
    &["captured/tp-stamps"],
    &["captured/tp-files"],
    &["captured/pp-recv/nccl.log.gz"],
    &["died/segv"],
    &["hung/crossed/nccl.log.gz"],
    &["captured/ddp-all/nccl.log.gz"],
    &["captured/fsdp-inspector"],
    &["captured/hf/nccl.log.gz"],
    &["hung/ddp-stall"],
    &["kineto/ep-rank0.json.gz", "kineto/ep-rank1.json.gz"],
    &["nsys/ring.sqlite.gz"],
];

fn paths(names: &[&str]) -> Vec<String> {
    let path = |name: &&str| testdata(name).display().to_string();
    names.iter().map(path).collect()
}

/// The rows of a program as objects; none where it has none.
fn rows(program: &str, args: &[&str], inputs: &[String]) -> Vec<Value> {
    let mut all: Vec<String> = inputs.to_vec();
    all.extend(args.iter().map(|arg| (*arg).to_owned()));
    all.extend(["--format", "jsonl", "-q"].map(str::to_owned));
    let out = run(program, &all).calm();
    let line = |line: &&str| !line.is_empty();
    let text = out.text();
    let lines = text.lines().filter(line);
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The page of these inputs in JSON.
fn page(inputs: &[String]) -> Value {
    let mut args = inputs.to_vec();
    args.extend(["--format", "json", "-q"].map(str::to_owned));
    let out = run("nccl-report", &args).calm();
    serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{inputs:?}: {e}: {}", out.stderr))
}

#[test]
fn every_table_is_that_of_its_program() {
    let mut compared = 0;
    for names in INPUTS {
        let inputs = paths(names);
        let page = page(&inputs);
        for (key, program, args) in TABLES {
            let Some(list) = page[key].as_array() else {
                let why = page["missing"][key].as_str();
                assert!(why.is_some_and(|why| why.len() > 10), "{names:?} {key}");
                continue;
            };
            assert!(!list.is_empty(), "{names:?} {key}");
            // Beside a log a record has the durations, and calls are counted of the log alone.
            let of_calls = [
                "step_calls",
                "operations",
                "sizes",
                "durations",
                "matrix",
                "skew",
            ];
            if names == ["captured/fsdp-inspector"] && of_calls.contains(&key) {
                continue;
            }
            let own = rows(program, args, &inputs);
            assert_eq!(list.len(), own.len(), "{names:?} {key}");
            for (a, b) in list.iter().zip(&own) {
                assert_eq!(a, b, "{names:?} {key}");
            }
            compared += 1;
        }
    }
    assert!(compared > 70, "{compared}");
}

/// The cells of the tables of a page, by key.
fn tables(html: &str) -> Vec<(String, Vec<Vec<String>>)> {
    let unescaped = |text: &str| {
        let text = text.replace("&lt;", "<").replace("&gt;", ">");
        let text = text.replace("&quot;", "\"").replace("&#39;", "'");
        text.replace("&amp;", "&")
    };
    let parts = html.split("data-name=\"").skip(1);
    let table = |part: &str| {
        let (key, rest) = part.split_once('"').unwrap();
        let body = rest.split("<tbody>").nth(1).unwrap();
        let body = body.split("</tbody>").next().unwrap();
        let head = rest.split("</thead>").next().unwrap();
        let heads = head.split("<button type=\"button\">").skip(1);
        let heads = heads.map(|h| unescaped(h.split("</button>").next().unwrap()));
        let cells = |row: &str| -> Vec<String> {
            let cells = row.split("<td").skip(1);
            cells
                .map(|cell| unescaped(cell.split_once('>').unwrap().1.trim_end_matches('\n')))
                .collect()
        };
        let rows = body.split("<tr>").skip(1).map(cells);
        (
            key.to_owned(),
            std::iter::once(heads.collect()).chain(rows).collect(),
        )
    };
    parts.map(table).collect()
}

#[test]
fn the_tables_of_the_html_page_are_those_of_the_json_page() {
    for names in INPUTS {
        let inputs = paths(names);
        let page = page(&inputs);
        let mut args = inputs.clone();
        args.extend(["--format", "html", "-q"].map(str::to_owned));
        let html = run("nccl-report", &args).calm().text();
        let tables = tables(&html);
        assert!(!tables.is_empty(), "{names:?}");
        for (key, rows) in tables {
            let list = page[&key].as_array().unwrap();
            assert_eq!(rows.len() - 1, list.len().min(300), "{names:?} {key}");
            for (row, object) in rows[1..].iter().zip(list) {
                for (name, cell) in rows[0].iter().zip(row) {
                    let known = match &object[name] {
                        Value::Null => String::new(),
                        Value::String(text) => text.clone(),
                        number => number.to_string(),
                    };
                    let same = match (known.parse::<f64>(), cell.parse::<f64>()) {
                        (Ok(a), Ok(b)) => (a - b).abs() <= a.abs() * 1e-14,
                        _ => known == *cell,
                    };
                    assert!(same, "{names:?} {key} {name}: {known:?} {cell:?}");
                }
            }
        }
        // Nothing of it is elsewhere.
        for from in ["http://", "https://", "src=", "@import", "url("] {
            let own = html.split("<main>").next().unwrap();
            assert!(!own.contains(from), "{names:?} {from}");
        }
    }
}

#[test]
fn the_ranks_wait_in_one_call_by_the_answer_and_by_the_picture() {
    let cases = [
        (
            "ddp-die",
            "3 ranks wait for it in AllReduce of 2097152 bf16 sum or before;",
            "ranks 0, 2-3",
        ),
        (
            "3d-die",
            "7 ranks wait for it, 4 of them in AllReduce of 1 fp32 sum or before;",
            "ranks 2, 4, 6-7",
        ),
    ];
    for (job, answer, ranks) in cases {
        let log = testdata(&format!("captured/{job}"));
        let log = log.to_str().unwrap();
        let says = run("nccl-check", &[log]).text();
        assert!(says.contains(answer), "{job}: {says}");
        let page = run("nccl-report", &[log, "--format", "html"]);
        let call = answer
            .split(" in ")
            .nth(1)
            .unwrap()
            .trim_end_matches(" or before;");
        let waits = format!("<li>{ranks}: {call}, call ");
        assert!(page.calm().text().contains(&waits), "{job}");
    }
}

#[test]
fn a_text_that_also_has_stacks_is_one_input() {
    let text = "a line of the program\n\nProcess 1177: python3 train.py\nPython v3.12.3 (/usr/bin/python3.12)\n\n\
                Thread 1177 (active): \"MainThread\"\n    synchronize (torch/cuda/__init__.py:1162)\n    \
                <module> (train.py:76)\n";
    let page = feed("nccl-report", &["--format", "json"], text.to_owned()).calm();
    let page: Value = serde_json::from_str(&page.text()).unwrap();
    assert_eq!(page["inputs"], serde_json::json!(["stdin"]));
}

#[test]
fn the_page_fits_a_terminal() {
    for names in INPUTS {
        // Short names: the command of the answer is not broken.
        let text = run_in(&testdata(""), "nccl-report", names).calm().text();
        let wide = text.lines().map(|line| line.chars().count()).max();
        let setting = |line: &&str| !line.contains("NCCL_");
        let lines = text.lines().filter(setting).count();
        assert!(
            wide <= Some(80) && lines <= 56,
            "{names:?} {wide:?} {lines}\n{text}"
        );
    }
}

#[test]
fn what_a_log_says_is_text_on_every_page() {
    let evil = "<script>alert(\"x\")</script>&'`|*\u{1b}[31m";
    let log = format!(
        "h{evil}:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 commId 0x9 - Init START\n\
         h:1:1 [0] h.cc:1 NCCL WARN {evil} Call to ibv_reg_mr failed with error {evil}\n\
         h:1:1 [0] NCCL INFO All{evil}Reduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 4 datatype 7 op 0 root 0 comm 0x1 [nranks=2] stream 0x3\n\
         h:1:1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 4 datatype 7 op 0 root 0 comm 0x1 [nranks=2] stream 0x3\n"
    );
    let work = Work::new();
    work.file("a<b>'.log", &log);
    let of = |format| {
        run_in(
            work.dir(),
            "nccl-report",
            &["a<b>'.log", "--format", format],
        )
        .calm()
        .text()
    };
    let html = of("html");
    assert_eq!(html.matches("<script").count(), 1, "{html}");
    assert!(!html.contains("<b>") && !html.contains('\u{1b}'));
    assert!(html.contains("a&lt;b&gt;&#39;.log"));
    assert!(
        html.contains("&lt;script&gt;alert(&quot;x&quot;)"),
        "{html}"
    );
    let markdown = of("md");
    assert!(
        !markdown.replace("\\<", "").contains('<') && !markdown.contains('\u{1b}'),
        "{markdown}"
    );
    assert!(!of("text").contains('\u{1b}'));
    serde_json::from_str::<Value>(&of("json")).unwrap();
}

/// Each table of the page is that of its program, or there is a reason, and the program has no rows.
fn same(inputs: &[String], keys: &[&str]) -> Value {
    let page = page(inputs);
    for (key, program, args) in TABLES.into_iter().filter(|(key, ..)| keys.contains(key)) {
        match page[key].as_array() {
            Some(list) => assert_eq!(*list, rows(program, args, inputs), "{inputs:?} {key}"),
            None => assert!(page["missing"][key].is_string(), "{inputs:?} {key}"),
        }
    }
    page
}

/// nccl-check's walk counts for the page what these programs count in walks of their own: steps and none,
/// torn lines, a file for each process, several communicators.
#[test]
fn one_walk_counts_what_the_programs_count() {
    let keys = [
        "step_calls",
        "operations",
        "sizes",
        "communicators",
        "tuning",
        "matrix",
    ];
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(testdata("captured")).unwrap() {
        folders.push(entry.unwrap().path());
    }
    folders.sort();
    let mut pages = 0;
    for folder in folders {
        let of_process = |name: &str| name.starts_with("nccl.") && name.contains(".log");
        let mut logs: Vec<String> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| of_process(&path.file_name().unwrap().to_string_lossy()))
            .map(|path| path.display().to_string())
            .collect();
        logs.sort();
        if logs.is_empty() {
            continue;
        }
        let page = same(&logs, &keys);
        assert!(page["operations"].is_array(), "{logs:?}");
        pages += 1;
    }
    assert!(pages > 30, "{pages}");
}

/// Up to NCCL 2.17 no line tells which addresses are one communicator. nccl-check counts, and says so in
/// its findings; the table has what lines tell.
#[test]
fn communicators_without_an_id_are_those_of_their_program() {
    let rank = |n: u32| {
        format!(
            "h:{n}:{n} [{n}] NCCL INFO comm 0x{n}a rank {n} nranks 2 cudaDev {n} busId {n}000 - Init COMPLETE\n\
             h:{n}:{n} [{n}] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 4 datatype 7 op 0 root 0 \
             comm 0x{n}a [nranks=2] stream 0x3\n"
        )
    };
    let work = Work::new();
    work.file("old.log", &(rank(1) + &rank(0)));
    let input = [work.dir().join("old.log").display().to_string()];
    let page = same(&input, &["communicators", "members"]);
    assert_eq!(page["communicators"].as_array().unwrap().len(), 2);
    let text = run("nccl-report", &input).calm().text();
    assert!(
        text.contains("unknown, by process        2 of    2 ranks"),
        "{text}"
    );
}

#[test]
fn what_only_lines_tell_is_not_made_of_records() {
    let dump = paths(&["flight/nccl_trace_rank_0.gz"]);
    let page = same(&dump, &["operations", "findings", "questions"]);
    let lines = [
        "net",
        "timing",
        "steps",
        "communicators",
        "members",
        "tuning",
    ];
    for key in lines {
        assert!(page[key].is_null(), "{key}");
        let why = page["missing"][key].as_str().unwrap();
        assert!(why.starts_with("it needs an NCCL log"), "{why}");
    }
    assert_eq!(page["job"], serde_json::json!({}));
    // The log that an export has inside is one.
    let Some(export) = data("gpu/nsys/nsring.sqlite.gz") else {
        return;
    };
    let all: Vec<&str> = TABLES.iter().map(|(key, ..)| *key).collect();
    let page = same(&[export.display().to_string()], &all);
    for key in &lines[..5] {
        assert!(page[key].is_array(), "{key}");
    }
}

#[test]
fn dumps_beside_a_log_do_not_hide_its_times() {
    let page = same(&paths(&["hung/ddp-stall"]), &["skew"]);
    assert!(page["skew"].is_array());
}

#[test]
fn a_long_name_leaves_room_for_what_was_found() {
    let work = Work::new();
    let name = format!("{}/nccl.log", "long/".repeat(20).trim_end_matches('/'));
    std::fs::create_dir_all(work.dir().join(&name).parent().unwrap()).unwrap();
    let log = std::fs::read(testdata("captured/megatron/nccl.log")).unwrap();
    std::fs::write(work.dir().join(&name), log).unwrap();
    let text = run_in(work.dir(), "nccl-report", &["-q", &name])
        .ends(0)
        .text();
    let headline = text.lines().find(|line| line.starts_with('…')).unwrap();
    assert_eq!(headline.chars().count(), 80);
    assert!(headline.contains("/nccl.log: no fault found"), "{headline}");
}

#[test]
fn a_pipe_gives_the_page_of_the_file() {
    let log = std::fs::read(testdata("captured/megatron/nccl.log")).unwrap();
    let piped = feed("nccl-report", &["-q"], log).ends(0).text();
    // A short name: a long one would be cut to the width of the page.
    let folder = testdata("captured/megatron");
    let read = run_in(&folder, "nccl-report", &["nccl.log", "-q"]);
    assert_eq!(piped, read.ends(0).text().replace("nccl.log", "stdin"));
    assert!(piped.contains("\nstdin: no fault found"));
}

#[test]
fn the_ending_of_a_file_names_the_format() {
    let work = Work::new();
    let log = testdata("captured/ddp-skip/nccl.log.gz")
        .display()
        .to_string();
    let write = |to: &str| run_in(work.dir(), "nccl-report", &[&log, "-q", "-o", to]);
    for (to, begins) in [
        ("a.html", "<!doctype html>"),
        ("a.md", "## "),
        ("a.json", "{"),
        ("a.txt", "rank 1 "),
    ] {
        assert!(write(to).ends(0).stdout.is_empty());
        let text = std::fs::read_to_string(work.dir().join(to)).unwrap();
        assert!(text.starts_with(begins), "{to}: {text}");
        // The answer is first and last.
        let answers = text.matches("next: ").count();
        assert!(answers == 2 || to == "a.json", "{to}: {text}");
    }
    write("a.pdf")
        .ends(2)
        .says(&["nccl-report does not write .pdf; it writes "]);
    write("no/such/folder.html")
        .ends(2)
        .says(&["cannot write no/such/folder.html"]);
}

#[test]
fn what_tells_nothing_is_refused() {
    let work = Work::new();
    work.file("empty.log", "");
    work.file("a.png", b"\x89PNG\r\n\x1a\n\0\0");
    let of = |name: &str| run_in(work.dir(), "nccl-report", &[name]);
    of("no.log").ends(2).says(&["no.log"]);
    let empty = of("empty.log").calm();
    assert!(empty.text().contains("unknown: "), "{}", empty.text());
    of("a.png").ends(2);
}

#[test]
fn two_runs_show_what_changed() {
    let of = |name: &str| testdata(name).display().to_string();
    let (before, now) = (
        of("captured/ddp/nccl.log.gz"),
        of("captured/ddp-skip/nccl.log.gz"),
    );
    let page = run(
        "nccl-report",
        &[&now, "--against", &before, "-q", "--format", "json"].map(str::to_owned),
    );
    let page: Value = serde_json::from_slice(&page.ends(0).stdout).unwrap();
    let lines = run(
        "nccl-diff",
        &[&before, &now, "-q", "--format", "jsonl"].map(str::to_owned),
    )
    .calm();
    let lines = lines.lines();
    let rows: Vec<Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(!rows.is_empty());
    assert_eq!(page["changes"], Value::Array(rows));
    for (form, begin) in [
        ("text", "\nCHANGES\n  step_time_s: "),
        ("md", "\n### Changes\n\n- step\\_time\\_s: "),
    ] {
        let args = [&now, "--against", &before, "-q", "--format", form].map(str::to_owned);
        let text = run("nccl-report", &args).ends(0).text();
        assert!(text.contains(begin), "{text}");
        assert!(
            text.contains("0.09148 before, 0.02422 now, 0.265 times"),
            "{text}"
        );
    }
}

/// All logs of the shared data, one by one.
#[test]
fn no_real_log_is_too_much_for_a_page() {
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in ["nccl-logs", "wild", "trainers"] {
        let Some(root) = data(folder) else {
            return;
        };
        walk(&root, &mut files);
    }
    assert!(files.len() > 20, "{}", files.len());
    for file in files {
        let args = [file.display().to_string(), "-q".into()];
        let out: Out = run("nccl-report", &args).calm();
        if out.code == Some(2) {
            assert!(out.stderr.contains("error: "), "{}", out.stderr);
            continue;
        }
        let text = out.text();
        let wide = text.lines().map(|line| line.chars().count()).max();
        assert!(wide <= Some(80), "{}: {text}", file.display());
    }
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        match path.is_dir() {
            true => walk(&path, files),
            false if path.metadata().unwrap().len() < 4 << 20 => files.push(path),
            false => {}
        }
    }
}

/// nccl-overlap ends with 1 over a damaged activity of a GPU, so the page does too, with its warning.
#[test]
fn a_page_never_ends_better_than_the_programs_it_quotes() {
    let work = Work::new();
    let event = |name: &str, ts: u32, more: &str| {
        format!(
            "{{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"{name}\", \"pid\": 0, \"tid\": 7, \"ts\": {ts}.0{more}, \
             \"args\": {{\"device\": 0, \"stream\": 7, \"Collective name\": \"allreduce\", \
             \"In msg nelems\": 4, \"Out msg nelems\": 4, \"Group size\": 2, \"dtype\": \"Float\"}}}}"
        )
    };
    let whole = event(
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        2,
        ", \"dur\": 3.0",
    );
    let trace = format!(
        "{{\"schemaVersion\": 1, \"deviceProperties\": [{{\"id\": 0}}], \"traceEvents\": [\n{},\n{whole}\n]}}\n",
        event("gemm", 1, "")
    );
    work.file("trace.json", trace);
    run_in(work.dir(), "nccl-overlap", &["trace.json"]).ends(1);
    let page = run_in(work.dir(), "nccl-report", &["trace.json", "-f", "json"]);
    let page: Value = serde_json::from_slice(&page.ends(1).stdout).unwrap();
    let caveats = page["caveats"].as_array().unwrap();
    let is_damage = |caveat: &Value| {
        caveat["severity"] == "warning" && caveat["text"].to_string().contains("damaged")
    };
    assert!(caveats.iter().any(is_damage), "{caveats:?}");
    let text = run_in(work.dir(), "nccl-report", &["trace.json"])
        .ends(1)
        .text();
    assert!(text.contains("WARNINGS ABOUT THESE NUMBERS"), "{text}");
}

/// Sums have no section, but their damage counts on a page, alone and beside a log.
#[test]
fn damage_of_sums_is_damage_of_the_page() {
    let work = Work::new();
    let head = "Time (%),Total Time (ns),Instances,Avg (ns),Min (ns),Max (ns),Name\n";
    work.file("whole.csv", format!("{head}100.0,30,3,10.0,9,11,f\n"));
    work.file(
        "kernels.csv",
        format!("{head}50.0,30,3,10.0,9,11,f\n50.0,3x0,3,10.0,9,11,g\n"),
    );
    let sums = "name:mem_used,count:5\nname:cuInit,count:1,burst:2\n";
    work.file(
        "metrics.log",
        format!("{sums}name:cuMemAlloc,count:x,burst:3\n"),
    );
    run_in(work.dir(), "nccl-report", &["whole.csv"]).calm();
    let log = testdata("captured/ddp/nccl.log.gz").display().to_string();
    for (program, name) in [
        ("nccl-kernels", "kernels.csv"),
        ("nccl-cuda", "metrics.log"),
    ] {
        run_in(work.dir(), program, &[name]).ends(1);
        for inputs in [&[name][..], &[name, &log]] {
            let page = run_in(work.dir(), "nccl-report", inputs).ends(1);
            page.says(&[name, "damaged"]);
            let strict = [inputs, &["--strict"]].concat();
            run_in(work.dir(), "nccl-report", &strict).ends(2);
        }
    }
}

/// The picture of the last calls names who stopped and who waits in which call, in boxes and in words.
#[test]
fn the_last_calls_show_who_waits_in_which_call() {
    let html = |inputs: &[String]| {
        let mut args = inputs.to_vec();
        args.extend(["--format", "html", "-q"].map(str::to_owned));
        run("nccl-report", &args).calm().text()
    };
    let hung = html(&paths(&["hung/ddp-stall"]));
    for text in [
        "<strong>rank 1 stopped</strong>; its last call: AllReduce of 1 fp32 avg, call 133 of 0xef88322a6a20f3ae (data, 4 \
         ranks), step 18.",
        "<li>ranks 0, 2-3: AllReduce of 2097152 bf16 sum, call 134 of 0xef88322a6a20f3ae (data, 4 ranks)</li>",
        "<title>rank 1 has not made AllReduce of 2097152 bf16 sum, call 134 of 0xef88322a6a20f3ae (data, 4 ranks)</title>",
        "aria-label=\"The last calls of 4 ranks; rank 1 stopped.",
    ] {
        assert!(hung.contains(text), "{text}\n{hung}");
    }
    assert_eq!(hung.matches(" unmet\"").count(), 3, "{hung}");
    // The ends of a pipeline are ranks of the job.
    let unsent = html(&paths(&["captured/pp-recv/nccl.log.gz"]));
    assert!(unsent.contains(" bf16 from rank 1, call "), "{unsent}");
    let well = html(&paths(&["captured/3d/nccl.log.gz"]));
    assert!(
        well.contains("<summary>8 ranks, call by call</summary>"),
        "{well}"
    );
    assert!(!well.contains(" unmet\""), "{well}");
    // Two ranks come to one call with different sizes.
    let rank = |n: u32| {
        format!(
            "h{n}:{n}:{n} [{n}] NCCL INFO ncclCommInitRank comm 0x{n}a rank {n} nranks 2 cudaDev {n} busId {n}000 \
             commId 0x9 - Init COMPLETE\n\
             h{n}:{n}:{n} [{n}] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count {n} datatype 7 op 0 \
             root 0 comm 0x{n}a [nranks=2] stream 0x3\n"
        )
    };
    let work = Work::new();
    work.file("two.log", &(rank(1) + &rank(0)));
    let two = html(&[work.dir().join("two.log").display().to_string()]);
    assert_eq!(two.matches(" unmet\"").count(), 2, "{two}");
    assert!(two.contains("<title>rank 1 on h1</title>"), "{two}");
}

#[test]
fn every_form_of_the_page_has_the_note_on_the_filter() {
    let inputs = paths(&["hung/ddp-stall"]);
    let note = "tables of calls: the filter kept 141 of 557 calls";
    for form in ["text", "md", "html", "json"] {
        let mut args = inputs.clone();
        args.extend(["--rank", "0", "-q", "--format", form].map(str::to_owned));
        let page = run("nccl-report", &args).calm().text();
        assert!(page.contains(note), "{form}\n{page}");
        assert!(
            !page.to_lowercase().contains("over all ranks"),
            "{form}\n{page}"
        );
    }
}
