//! What a new user meets: filters that match nothing, words of the help, tables that another
//! program reads.

use crate::support::{ALL, Csv, Out, Work, arg, feed, job, nemo, procs, run, run_in, sh, skipped};
use serde_json::Value;

/// A log with a step line, an INIT line for every rank and calls that run ahead of the step line.
fn ahead() -> String {
    let p = procs(2);
    let mut log: Vec<String> = (0..).zip(&p).map(|(rank, p)| p.init(rank, 0xabc)).collect();
    let call = |rank: usize| p[rank].call("AllReduce", 64, 7);
    for step in 0..3 {
        // Rank 1 makes one call of the next step before the line.
        log.extend([call(0), call(0), call(1), call(1)]);
        if step == 1 {
            log.push(call(1));
        }
        log.push(nemo(step));
    }
    log.push(call(0));
    log.join("\n") + "\n"
}

#[test]
fn a_filter_that_matches_nothing_says_what_there_is() {
    let log = job(8, 2, 1);
    let table = feed("nccl-comms", &[], log.as_str()).ends(0).stdout;
    let cases: [(&[&str], &[&str]); 7] = [
        (
            &["--op", "AllRedcue"],
            &[
                "no call has op = AllRedcue",
                "operations here: AllGather, AllReduce, ",
            ],
        ),
        (
            &["--rank", "99"],
            &["no call has global_rank = 99", "global_rank here: 0 to 7"],
        ),
        (
            &["--host", "foo"],
            &["no call has host = foo", "hosts here: 38dcf168f605, gpu-a"],
        ),
        (
            &["--comm", "0x1"],
            &["no call has comm = 0x1 or comm_id = 0x1", "comm here: 0x"],
        ),
        (
            &["--min-bytes", "1TB"],
            &["no call has bytes >= 1099511627776", "bytes here: "],
        ),
        (
            &["--op", "Foo", "--rank", "9"],
            &[
                "op = Foo, or global_rank = 9",
                "operations here",
                "_rank here",
            ],
        ),
        (
            &["--op", "Send", "--where", "bytes > 1 and op = Recv"],
            &["no call meets all of: op = Send; bytes > 1; op = Recv"],
        ),
    ];
    for (args, words) in cases {
        for input in [log.as_bytes(), &table] {
            for more in [
                &["-q"][..],
                &["--unique"],
                &["--steps", "1"],
                &["-j3", "--format", "awk"],
            ] {
                let out = feed("nccl-comms", &[args, more].concat(), input).ends(0);
                assert!(out.lines().len() <= 1, "{args:?} {more:?}");
                out.says(&[words, &["nccl-comms: warning: "]].concat());
            }
        }
    }
    let out = feed(
        "nccl-comms",
        &["--min-bytes", "10MB", "--max-bytes", "1MB"],
        log.as_str(),
    );
    out.ends(2)
        .says(&["--min-bytes", "--max-bytes", "no call can match"]);
    // In upper or lower case; and what matches is no reason for a word.
    let upper = feed(
        "nccl-comms",
        &["-q", "--op", "ALLREDUCE,send"],
        log.as_str(),
    )
    .ends(0);
    let as_printed = feed(
        "nccl-comms",
        &["-q", "--op", "AllReduce,Send"],
        log.as_str(),
    )
    .ends(0);
    assert_eq!(upper.stderr, "");
    assert!(upper.lines().len() > 1 && upper.stdout == as_printed.stdout);
    // Ranks that nobody tells.
    let bare: String = log
        .lines()
        .filter(|l| !l.contains("Init"))
        .map(|l| format!("{l}\n"))
        .collect();
    let out = feed("nccl-comms", &["--rank", "0"], bare).ends(0);
    out.says(&["global_rank is unknown for all calls", "--keep-init"]);
}

#[test]
fn a_group_column_that_is_empty_says_what_would_fill_it() {
    let log = job(4, 3, 1);
    let noted = |script: &str| {
        let work = Work::new();
        work.file("nccl.log", &log);
        let out = sh(work.dir(), script).ends(0);
        out.stderr
    };
    let cut = "nccl-steps nccl.log --steps 1..2";
    for by in ["rank", "comm_id"] {
        let said = noted(&format!("{cut} | nccl-comms | nccl-hist --by {by}"));
        assert!(
            said.contains(&format!("note: {by} is unknown for 32 of 32 calls")),
            "{said}"
        );
        assert!(said.contains("--keep-init"), "{said}");
        for script in [
            format!("{cut} | nccl-comms | nccl-hist -q --by {by}"),
            format!("{cut} --keep-init | nccl-comms | nccl-hist --by {by}"),
            format!("nccl-agg nccl.log --by {by}"),
        ] {
            assert!(!noted(&script).contains("is unknown"), "{script}");
        }
    }
    let said = noted("nccl-comms nccl.log --format awk | nccl-ops --by host");
    assert!(
        said.contains("host is unknown for 64 of 64 calls"),
        "{said}"
    );
    let said = noted("grep -v iteration nccl.log | nccl-ops --by step");
    assert!(
        said.contains("step is unknown") && said.contains("--step-regex"),
        "{said}"
    );
    let said = noted("nccl-ops nccl.log --by step");
    assert!(
        said.contains("step is unknown for 16 of 64 calls: these belong to no step"),
        "{said}"
    );
    // The examples of the help themselves.
    let help = run("nccl-hist", &["--help"]).ends(0).text();
    assert!(
        help.contains("--keep-init | nccl-comms | nccl-hist --by rank"),
        "{help}"
    );
}

#[test]
fn how_calls_were_placed_is_said_where_steps_are_asked_for() {
    let log = ahead();
    let said = |program: &str, args: &[&str]| {
        let out = feed(program, args, log.as_str()).ends(0);
        out.stderr.contains(" assigned to steps by ")
    };
    for args in [&["--steps", "0..2"][..], &["--list"], &[], &["--keep-init"]] {
        assert!(said("nccl-steps", args), "{args:?}");
        assert!(!said("nccl-steps", &[args, &["-q"]].concat()), "{args:?}");
    }
    assert!(said("nccl-comms", &[]) && said("nccl-comms", &["--steps", "1", "--format", "awk"]));
    assert!(!said("nccl-comms", &["-q"]) && !said("nccl-comms", &["--format", "awk"]));
    assert!(!said("nccl-comms", &["--unique"]) && !said("nccl-hist", &[]));
    assert!(said("nccl-hist", &["--steps", "0..2"]) && said("nccl-ops", &["--by", "step"]));
}

#[test]
fn the_chains_format_is_offered_where_the_chain_has_the_table() {
    for program in ALL {
        let help = run(program, &["--help"]).ends(0).text();
        let has = [
            "nccl-comms",
            "nccl-ops",
            "nccl-hist",
            "nccl-agg",
            "nccl-timing",
        ]
        .contains(&program);
        assert_eq!(
            help.contains("As the AWK chain prints it"),
            has,
            "{program}"
        );
        if !has
            && ![
                "nccl-synth",
                "nccl-watch",
                "nccl-report",
                "nccl-pack",
                "nccl-collect",
            ]
            .contains(&program)
        {
            // Before anything is read: there is no such file.
            let out = run(program, &["--format", "awk", "none.log", "none.log"]).ends(2);
            out.says(&["invalid value 'awk'", "csv, tsv, jsonl"]);
        }
    }
    let out = run(
        "nccl-timing",
        &["--per-step", "--format", "awk", "none.log"],
    )
    .ends(2);
    out.says(&["the AWK chain has no table of steps"]);
}

/// The keys of a JSON line, in their order.
fn keys(line: &str) -> Vec<String> {
    let Value::Object(row) = serde_json::from_str(line).unwrap() else {
        panic!("no object: {line}");
    };
    let mut keys: Vec<(usize, String)> = Vec::new();
    for key in row.keys() {
        keys.push((line.find(&format!("\"{key}\":")).unwrap(), key.clone()));
    }
    keys.sort();
    keys.into_iter().map(|(_, key)| key).collect()
}

/// Runs of each program that writes rows, with all its tables.
const TABLES: [&str; 19] = [
    "nccl-steps nccl.log --list",
    "nccl-steps nccl.log other.log --list",
    "nccl-timing nccl.log",
    "nccl-timing nccl.log --per-step",
    "nccl-comms nccl.log",
    "nccl-comms nccl.log --unique",
    "nccl-ops nccl.log --by step,comm,comm_id,rank,host,datatype",
    "nccl-hist nccl.log --by step,comm,comm_id,rank,host,datatype",
    "nccl-agg nccl.log --by step,comm,comm_id,rank,host",
    "nccl-communicators nccl.log",
    "nccl-communicators nccl.log --members",
    "nccl-net nccl.log other.log",
    "nccl-net nccl.log other.log --hosts",
    "nccl-net nccl.log --pairs",
    "nccl-tuning nccl.log",
    "nccl-check hangs.log",
    "nccl-check nccl.log --coverage",
    "nccl-check nccl.log --expect nodes=1,net=ib",
    "nccl-diff nccl.log other.log",
];

/// A folder with the logs of [`TABLES`].
fn tables() -> Work {
    let work = Work::new();
    let made = "nccl-synth --ranks 16 --nodes 2 --tp 2 --pp 2 --steps 3 --net ib --nvls --tuning \
                --tail-calls -o nccl.log
                nccl-synth --ranks 8 --tp 4 --steps 2 -o other.log
                nccl-synth --ranks 8 --tp 4 --steps 3 --fault skip -o hangs.log";
    sh(work.dir(), made).ends(0);
    work
}

fn table(work: &Work, command: &str, format: &str) -> Out {
    sh(work.dir(), &format!("{command} --format {format}; true")).ends(0)
}

#[test]
fn every_json_line_has_every_column() {
    let work = tables();
    for command in TABLES {
        let columns = Csv::of(&table(&work, command, "csv")).columns;
        let lines = table(&work, command, "jsonl").lines();
        assert!(!lines.is_empty(), "{command}");
        for line in &lines {
            assert_eq!(keys(line), columns, "{command}: {line}");
            assert!(!line.contains(":\"\""), "{command}: {line}");
        }
    }
    // Addresses and ids are texts.
    let line = &table(&work, "nccl-comms nccl.log", "jsonl").lines()[0];
    let row: Value = serde_json::from_str(line).unwrap();
    for column in ["comm", "comm_id", "stream"] {
        assert!(row[column].as_str().unwrap().starts_with("0x"), "{line}");
    }
    assert_eq!(row["dur_ns"], Value::Null);
}

#[test]
fn each_column_of_each_table_is_named_in_its_programs_help_and_page() {
    let work = tables();
    for command in TABLES {
        let columns = Csv::of(&table(&work, command, "csv")).columns;
        let program = command.split(' ').next().unwrap();
        let help = run(program, &["--help"]).ends(0).text();
        let about = help.split("Usage: ").next().unwrap();
        let options = help.split("\n      --").collect::<Vec<_>>();
        let page = format!("{}/docs/{program}.md", env!("CARGO_MANIFEST_DIR"));
        let page = std::fs::read_to_string(page).unwrap();
        let is_word = |text: &str, word: &str| {
            let parts = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            parts.into_iter().any(|part| part == word)
        };
        for column in &columns {
            // In the text on what is written, or as a value or a subject of an option.
            let named = is_word(about, column) || options[1..].iter().any(|o| is_word(o, column));
            assert!(named, "{command}: no {column} in the help of {program}");
            let shown = page.contains(&format!("`{column}`"));
            assert!(shown, "{command}: no {column} in docs/{program}.md");
        }
    }
    // One name in the table to look at and in the rows.
    let drawn = table(&work, "nccl-communicators nccl.log", "table").text();
    let head = drawn.lines().next().unwrap();
    assert!(
        head.contains("confidence") && !head.contains("sure"),
        "{head}"
    );
}

#[test]
fn unique_rows_keep_what_recorded_them_and_add_up_durations() {
    let table = "op,count,datatype,host,calls,src,dur_ns,clock,quality,start_ns,algo,proto,nchannels,pg_name\n\
                 Send,5,int8,a,1,profiler,100,gpu,exact,1,RING,LL,2,\n\
                 Send,5,int8,a,3,profiler,50,gpu,exact,200,RING,LL,2,\n\
                 Send,5,int8,a,1,profiler,7,cpu,exact,,RING,LL,2,\n\
                 Send,5,int8,a,1,inspector,7,gpu,exact,,RING,LL,2,\n\
                 Send,5,int8,a,1,profiler,7,gpu,rough,,RING,LL,2,\n\
                 Send,5,int8,a,1,profiler,7,gpu,exact,,TREE,LL,2,\n\
                 Send,5,int8,a,1,profiler,7,gpu,exact,,RING,LL128,2,\n\
                 Send,5,int8,a,1,profiler,7,gpu,exact,,RING,LL,,\n\
                 Send,5,int8,a,1,profiler,7,gpu,exact,,RING,LL,2,tp\n\
                 Recv,5,int8,a,1,profiler,7,gpu,exact,,,,,\n\
                 Recv,5,int8,a,1,profiler,,gpu,exact,,,,,\n\
                 Recv,9,int8,a,1,profiler,18446744073709551615,gpu,exact,,,,,\n\
                 Recv,9,int8,a,1,profiler,1,gpu,exact,,,,,\n";
    let unique = |input: Vec<u8>| feed("nccl-comms", &["--unique"], input).ends(0);
    let out = unique(table.into());
    let csv = Csv::of(&out);
    let columns = [
        "op",
        "count",
        "calls",
        "src",
        "dur_ns",
        "clock",
        "quality",
        "algo",
        "proto",
        "nchannels",
        "pg_name",
    ];
    let expect = [
        "Recv 5 2 profiler  gpu exact    ",
        "Recv 9 2 profiler  gpu exact    ",
        "Send 5 1 inspector 7 gpu exact RING LL 2 ",
        "Send 5 1 profiler 7 cpu exact RING LL 2 ",
        "Send 5 1 profiler 7 gpu exact RING LL  ",
        "Send 5 1 profiler 7 gpu exact RING LL 2 tp",
        "Send 5 1 profiler 7 gpu exact RING LL128 2 ",
        "Send 5 1 profiler 7 gpu exact TREE LL 2 ",
        "Send 5 1 profiler 7 gpu rough RING LL 2 ",
        "Send 5 4 profiler 150 gpu exact RING LL 2 ",
    ];
    assert_eq!(csv.pick(&columns), expect);
    assert!(csv.column("start_ns").iter().all(String::is_empty));
    // Each row as it is passes every column, in either form.
    let work = Work::new();
    work.file("a.csv", table);
    let same = "nccl-comms a.csv --format jsonl | nccl-comms | nccl-comms --unique";
    assert_eq!(sh(work.dir(), same).ends(0).stdout, out.stdout);
    let all = Csv::of(&run_in(work.dir(), "nccl-comms", &["a.csv"]).ends(0));
    assert_eq!(all.column("start_ns")[..3], ["1", "200", ""]);
    // Unique rows are unique.
    assert_eq!(unique(out.stdout.clone()).stdout, out.stdout);
    // A log's calls are a log's, also beside a table.
    work.file("b.log", job(2, 1, 1));
    let both = run_in(work.dir(), "nccl-comms", &["--unique", "a.csv", "b.log"]).ends(0);
    let src = Csv::of(&both).column("src");
    let of = |name: &str| src.iter().filter(|s| *s == name).count();
    assert_eq!((of("log"), of("profiler"), of("inspector")), (16, 9, 1));
    // What recorded them groups no calls of the other programs.
    let hist = Csv::of(&feed("nccl-hist", &["--by", "host"], table).ends(0));
    assert_eq!(
        hist.pick(&["host", "op", "calls"]),
        ["a Recv 4", "a Send 11"]
    );
}

#[test]
fn a_program_that_reads_step_lines_says_so_of_a_call_table() {
    let table = "step,op,count,datatype\n1,Send,5,int8\n";
    for program in ["nccl-steps", "nccl-timing"] {
        let out = feed(program, &[], table).ends(2);
        assert!(out.stdout.is_empty(), "{program}");
        out.says(&["stdin is a call table: it has no step lines; an NCCL log has them"]);
    }
}

#[test]
fn many_operations_take_as_long_as_they_are_many() {
    let n = 300_000;
    let rows = (0..n).map(|i| format!("op_of_the_number_{i},1,int8\n"));
    let table = format!("op,count,datatype\n{}", rows.collect::<String>());
    let out = feed("nccl-agg", &[], table).ends(0);
    assert_eq!(out.lines().len(), n + 1);
}

#[test]
fn more_calls_than_can_be_counted_are_said() {
    let row = format!("Send,1,int8,{}\n", u64::MAX);
    let table = format!("op,count,datatype,calls\n{row}{row}");
    for program in ["nccl-comms", "nccl-ops", "nccl-hist", "nccl-agg"] {
        let out = feed(program, &["-v"], table.as_str()).ends(1);
        out.says(&["numbers of calls are too low"]);
    }
    let work = Work::new();
    let one = format!("op,count,datatype,calls\n{row}");
    work.file("a.csv", &one);
    work.file("b.csv", &one);
    run_in(work.dir(), "nccl-agg", &["-v", "a.csv", "b.csv"]).ends(1);
}

#[test]
fn flags_that_mean_nothing_together_are_refused() {
    for (program, args, word) in [
        ("nccl-net", &["--dot", "--format", "jsonl"][..], "--dot"),
        ("nccl-steps", &["--format", "csv"], "--list"),
    ] {
        let out = run(program, &[args, &["none.log"]].concat()).ends(2);
        out.says(&[word, "--format"]);
    }
}

#[test]
fn what_is_printed_reads_as_written() {
    // The error of a pattern is one line, without the letters of an escaped line end.
    let out = feed("nccl-steps", &["--step-regex", r"step=(?P<step>\d+"], "x\n").ends(2);
    assert!(!out.stderr.contains("\\n"), "{}", out.stderr);
    assert_eq!(out.stderr.lines().count(), 1, "{}", out.stderr);
    out.says(&["--step-regex: ", r"`step=(?P<step>\d+`: unclosed group"]);
    // What it repeats cannot drive a terminal, nor be read as another line.
    let out = feed("nccl-steps", &["--step-regex", "x\n\x1b[2J("], "x\n").ends(2);
    out.says(&[r"`x\n\u{1b}[2J(`: "]);
    let out = feed("nccl-comms", &[], "hello\n").ends(0);
    out.says(&["no NCCL calls in 1 line;"]);
    // A mean of printed decimals.
    let log: String = ["5.9", "6.1758"]
        .iter()
        .zip(0..)
        .map(|(time, step)| {
            nemo(step).replace(&format!("{}.5 | TF", step % 7 + 1), &format!("{time} | TF")) + "\n"
        })
        .collect();
    let table = Csv::of(&feed("nccl-timing", &[], log).ends(0));
    assert_eq!(table.get(&table.rows[0], "mean"), "6.0379");
    for program in ALL {
        let man = run(program, &["--generate", "man"]).ends(0).text();
        assert!(
            !man.contains("EXTRA") && man.contains(".SH EXAMPLES"),
            "{program}"
        );
        let help = run(program, &["--help"]).ends(0).text();
        assert!(help.contains("--generate <WHAT>"), "{program}");
        let codes = man.contains("EXIT STATUS") || program == "nccl-synth";
        assert!(codes, "{program}");
    }
    let work = Work::new();
    let ib = work.dir().join("ib.log");
    run(
        "nccl-synth",
        &[
            "--net",
            "ib",
            "--nodes",
            "2",
            "--steps",
            "1",
            "-o",
            arg(&ib),
        ],
    )
    .ends(0);
    let out = run(
        "nccl-check",
        &[arg(&ib), "--expect", "net=ib", "--format", "csv"],
    )
    .ends(0);
    assert_eq!(Csv::of(&out).column("found"), ["IB over InfiniBand"]);
}

/// What a command writes to a terminal, standard output and error; `None`, with a word, where
/// nothing here makes one.
fn on_a_terminal(work: &Work, command: &str) -> Option<String> {
    let out = sh(work.dir(), &format!("script -qec '{command}' /dev/null"));
    if out.stderr.contains("script: command not found") {
        skipped("script (of util-linux) is missing");
        return None;
    }
    Some(out.text())
}

#[test]
fn what_a_log_carries_does_not_drive_a_terminal() {
    let work = Work::new();
    let text = "a \u{9b}2J b \u{202e}c \x1b[31m d";
    let lines = [text.as_bytes(), b" \x9b2J e\n", nemo(0).as_bytes(), b"\n"].concat();
    work.file("noisy.log", [&lines[..], job(2, 0, 1).as_bytes()].concat());
    let Some(shown) = on_a_terminal(&work, "nccl-steps -q noisy.log") else {
        return;
    };
    for acting in ["\u{9b}", "\u{202e}", "\x1b[31m", "\u{fffd}"] {
        assert!(!shown.contains(acting), "{acting:?} in {shown:?}");
    }
    let escaped = "a \\u{9b}2J b \\u{202e}c \\x1b[31m d \\x9b2J e";
    assert!(shown.contains(escaped), "{shown:?}");
    // In a pipe the bytes are as they were.
    let piped = run_in(work.dir(), "nccl-steps", &["-q", "noisy.log"]).ends(0);
    assert!(piped.stdout.starts_with(&lines), "{}", piped.text());
}

#[test]
fn a_warning_has_a_line_of_its_own_beside_the_bar() {
    let work = Work::new();
    work.file(
        "cut.log",
        job(8, 20, 9).replacen("datatype 6 op 0", "datatype 6 o", 1),
    );
    for command in ["nccl-steps", "nccl-comms", "nccl-hist"] {
        let Some(shown) = on_a_terminal(&work, &format!("{command} cut.log > /dev/null")) else {
            return;
        };
        let warning = shown
            .lines()
            .find(|line| line.contains("warning: cut.log"))
            .unwrap();
        // What was on the line was taken away.
        let (_, line) = warning.rsplit_once("\x1b[2K").unwrap_or(("", warning));
        let start = format!("{command}: warning: ");
        assert!(
            line.trim_start_matches('\r').starts_with(&start),
            "{command}: {shown:?}"
        );
        assert!(
            shown.lines().all(|l| !l.ends_with("s\r")),
            "{command}: {shown:?}"
        );
    }
}
