//! Filters of calls: what a program counts of a filtered log is what it counts of the filtered rows.

use crate::support::{Csv, captured_logs, feed, job, run};
use std::collections::BTreeMap;
use std::io::Write as _;

/// Expressions over columns of every kind; each keeps some calls of some log and leaves others out.
const EXPRESSIONS: [&str; 10] = [
    "op = allreduce",
    "bytes >= 64K and not op in (AllGather, Send)",
    "step in (2-4, 7) or rank = 0",
    "host != nowhere and datatype = BF16",
    "global_rank in (1, 3-5)",
    "nranks < 5 and redop = sum",
    "root = 0 or comm_id = 0x1",
    "count != 1 and src = log and (pid > 0 and dev < 2)",
    "algo = RING or step = 3",
    "not (bytes > 0)",
];

/// The logs of some jobs, and a table made of one.
fn inputs() -> Vec<Vec<u8>> {
    let unpacked = |name: &str| {
        let logs = captured_logs(name);
        let args: Vec<&str> = logs.iter().map(String::as_str).collect();
        let keep = [&args[..], &["--keep-init", "-q"]].concat();
        run("nccl-steps", &keep).calm().stdout
    };
    let made = job(8, 4, 2);
    let table = feed("nccl-comms", &["-q"], made.as_str()).ends(0).stdout;
    vec![
        unpacked("3d"),
        unpacked("ddp-buffered"),
        made.into_bytes(),
        table,
    ]
}

#[test]
fn counts_of_a_filtered_log_are_those_of_its_filtered_rows() {
    let programs: [(&str, &[&str]); 6] = [
        ("nccl-hist", &[]),
        (
            "nccl-hist",
            &["--log2", "--by", "step,rank", "--basis", "wire"],
        ),
        ("nccl-ops", &["--by", "comm,datatype"]),
        ("nccl-ops", &["--basis", "message", "--format", "awk"]),
        ("nccl-agg", &["--by", "host"]),
        ("nccl-agg", &["--basis", "wire", "--format", "jsonl"]),
    ];
    let mut kept = [0; EXPRESSIONS.len()];
    for input in inputs() {
        // A file: rows of a pipe that rests are written before later lines may change their steps.
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&input).unwrap();
        let path = file.path().to_str().unwrap();
        for (expression, kept) in EXPRESSIONS.iter().zip(&mut kept) {
            let filter = ["-q", "--where", expression];
            let rows = run("nccl-comms", &[&filter[..], &[path]].concat()).ends(0);
            let rows = rows.stdout;
            *kept += rows.iter().filter(|b| **b == b'\n').count() - 1;
            for (program, args) in programs {
                let counted = run(program, &[&filter, args, &[path]].concat()).ends(0);
                let expected = feed(program, &[args, &["-q"]].concat(), &rows[..]).ends(0);
                assert_eq!(
                    counted.text(),
                    expected.text(),
                    "{program} {args:?} {expression}"
                );
            }
        }
    }
    // The others say nothing about equal counts.
    let empty = kept.iter().filter(|kept| **kept == 0).count();
    assert!(empty <= 1, "{kept:?}");
}

#[test]
fn durations_of_a_filtered_table_are_those_of_its_filtered_rows() {
    let row = |op: &str, rank: u32, dur: u64, clock: &str| {
        format!("{op},{},int8,{rank},{dur},{clock}\n", 1000 * dur)
    };
    let mut table = "op,count,datatype,rank,dur_ns,clock\n".to_owned();
    for dur in 1..40 {
        table += &row("AllReduce", 0, dur, "gpu");
        table += &row("Send", 1, 2 * dur, "host");
    }
    for filter in ["rank = 1", "bytes < 20K", "clock = gpu and op != Send"] {
        let rows = feed("nccl-comms", &["--where", filter], table.as_str()).ends(0);
        for args in [&["--time"][..], &["--time", "--by", "rank"]] {
            let with = [args, &["--where", filter]].concat();
            let counted = feed("nccl-hist", &with, table.as_str()).ends(0);
            let expected = feed("nccl-hist", args, &rows.stdout[..]).ends(0);
            assert_eq!(counted.text(), expected.text(), "{filter} {args:?}");
            // What measured the others is not named.
            for clock in ["gpu", "host"] {
                let named = |stderr: &str| stderr.contains(clock);
                assert_eq!(named(&counted.stderr), named(&expected.stderr), "{filter}");
            }
        }
    }
}

#[test]
fn a_rank_is_the_ranks_of_the_job() {
    let args: Vec<&str> = "--ranks 8 --tp 2 --steps 3".split(' ').collect();
    let log = run("nccl-synth", &args).ends(0).text();
    let members = Csv::of(&feed("nccl-communicators", &["--members"], log.as_str()).ends(0));
    let mut calls: BTreeMap<String, u128> = BTreeMap::new();
    for row in &members.rows {
        let made = members.get(row, "calls").parse::<u128>().unwrap();
        *calls
            .entry(members.get(row, "global_rank").to_owned())
            .or_default() += made;
    }
    assert_eq!(calls.len(), 8, "{calls:?}");
    for (rank, calls) in calls {
        for program in ["nccl-agg", "nccl-hist", "nccl-ops"] {
            let table = Csv::of(&feed(program, &["--rank", &rank], log.as_str()).ends(0));
            assert_eq!(table.sum("calls"), calls, "{program} --rank {rank}");
        }
    }
    // Without the INIT lines no rank is known.
    let bare: String = log
        .lines()
        .filter(|line| !line.contains("Init"))
        .map(|line| format!("{line}\n"))
        .collect();
    feed("nccl-hist", &["--rank", "0-3"], bare)
        .ends(0)
        .says(&["no call has global_rank = 0-3; global_rank is unknown for all calls"]);
}

#[test]
fn a_count_says_how_many_calls_were_left_out() {
    let log = job(4, 2, 1);
    let count = |args: &[&str]| Csv::of(&feed("nccl-agg", args, log.as_str()).ends(0)).sum("calls");
    let (kept, all) = (count(&["--op", "send"]), count(&[]));
    let out = feed("nccl-agg", &["--op", "send"], log.as_str()).ends(0);
    out.says(&[&format!("note: the filter kept {kept} of {all} calls")]);
    let none = feed("nccl-hist", &["--op", "AllRduce"], log.as_str()).ends(0);
    none.says(&["warning: no call has op = AllRduce; operations here: AllGather, AllReduce"]);
}

#[test]
fn an_error_of_an_expression_says_where_and_what_was_expected() {
    for (expression, words) in [
        (
            "byte > 1",
            "unknown column `byte`; the columns are step, time, host,",
        ),
        (
            "bytes > 1 and",
            "expected a column, `not` or `(` at the end",
        ),
        ("bytes ~ 1", "expected one of = != < <= > >= in at `~ 1`"),
        (
            "op > a",
            "op has no order: `>` compares numbers; use =, != or in",
        ),
        ("datatype = float", "expected a datatype such as fp32"),
        (
            "dur_ns > 5",
            "dur_ns differs from call to call and is not counted",
        ),
    ] {
        let out = run("nccl-hist", &["--where", expression, "/dev/null"]);
        let out = out.ends(2).says(&["--where", words]);
        assert!(out.stdout.is_empty(), "{expression}");
    }
}

#[test]
fn a_tip_names_an_option_that_is_alike() {
    for (program, option) in [("nccl-skew", "--op"), ("nccl-skew", "--rank")] {
        let out = run(program, &[option, "x"]).ends(2);
        assert!(!out.stderr.contains("similar"), "{}", out.stderr);
    }
    run("nccl-skew", &["--outptu", "x"])
        .ends(2)
        .says(&["similar argument exists: '--output'"]);
}

#[test]
fn the_tables_of_a_page_are_those_of_the_programs_with_the_filter() {
    let (log, broken) = (job(8, 4, 2), ["--fault", "skip"]);
    let args: Vec<&str> = "--ranks 8 --tp 4 --steps 6".split(' ').collect();
    let hung = run("nccl-synth", &[&args[..], &broken].concat()).ends(0);
    for text in [log, hung.text()] {
        for filter in [
            ["--where", "op = AllReduce and bytes > 8"],
            ["--rank", "1-2"],
        ] {
            let page = |args: &[&str]| -> serde_json::Value {
                let out = feed(
                    "nccl-report",
                    &[args, &["--format", "json"]].concat(),
                    text.as_str(),
                );
                serde_json::from_slice(&out.stdout).unwrap()
            };
            let (all, some) = (page(&[]), page(&filter));
            // What is wrong is judged by all calls.
            assert!(all["answer"].is_string());
            for key in ["answer", "findings"] {
                assert_eq!(all[key], some[key], "{key} {filter:?}");
            }
            for (key, program, more) in [
                ("operations", "nccl-ops", &[][..]),
                ("sizes", "nccl-hist", &[]),
                ("step_calls", "nccl-ops", &["--by", "step"]),
            ] {
                let args = [&filter[..], more, &["-q", "--format", "jsonl"]].concat();
                let counted = feed(program, &args, text.as_str()).ends(0).text();
                let rows: Vec<serde_json::Value> = counted
                    .lines()
                    .map(|line| serde_json::from_str(line).unwrap())
                    .collect();
                assert!(!rows.is_empty(), "{program} {filter:?}");
                assert_eq!(some[key], serde_json::Value::from(rows), "{key} {filter:?}");
                assert_ne!(some[key], all[key], "{key} {filter:?}");
            }
        }
    }
}

#[test]
fn nccl_check_shows_the_findings_of_a_filter_and_judges_all_calls() {
    let args: Vec<&str> = "--ranks 16 --tp 4 --fault stall --seed 3"
        .split(' ')
        .collect();
    let log = run("nccl-synth", &args).text();
    let all = Csv::of(&feed("nccl-check", &[], log.as_str()).ends(1));
    let rank = all.get(&all.rows[0], "global_rank").to_owned();
    let other = if rank == "3" { "4" } else { "3" };
    let shown = feed("nccl-check", &["--rank", &rank], log.as_str()).ends(1);
    let kept = Csv::of(&shown).rows;
    assert!(!kept.is_empty() && kept.len() < all.rows.len());
    assert!(kept.iter().all(|row| all.rows.contains(row)));
    let said = format!(
        "the filter shows {} of {} findings; all calls were judged",
        kept.len(),
        all.rows.len()
    );
    shown.says(&[&said]);
    // The answer and the exit code stay those of the job.
    let text = |args: &[&str]| feed("nccl-check", args, log.as_str()).ends(1).text();
    let none = text(&["--format", "text", "--rank", other]);
    let first = |text: &str| text.lines().next().map(str::to_owned);
    assert_eq!(first(&none), first(&text(&["--format", "text"])));
    assert!(!none.contains("[rank_behind]"), "{none}");
}

/// The rows of nccl-watch have the calls that nccl-ops keeps, and those that it leaves out; all are judged.
#[test]
fn the_steps_of_a_watched_job_have_the_calls_of_a_filter() {
    let log = run("nccl-synth", &["--ranks", "4", "--steps", "5"]).text();
    for filter in [
        ["--op", "AllReduce"],
        ["--rank", "2"],
        ["--where", "bytes < 1M"],
    ] {
        let by_step = [&["--by", "step"][..], &filter].concat();
        let counted = Csv::of(&feed("nccl-ops", &by_step, log.as_str()).ends(0));
        let watched = feed("nccl-watch", &filter, log.as_str()).ends(0).text();
        assert!(
            watched.contains("4 ranks compared over 5 steps"),
            "{watched}"
        );
        for step in 0..5 {
            let step = step.to_string();
            let of_step = counted
                .rows
                .iter()
                .filter(|row| counted.get(row, "step") == step);
            let kept: u64 = of_step
                .map(|row| counted.get(row, "calls").parse::<u64>().unwrap())
                .sum();
            let begin = format!("step {step}  ");
            let row = watched
                .lines()
                .find(|line| line.starts_with(&begin))
                .unwrap();
            assert!(
                kept > 0 && row.contains(&format!("  {kept} of 13")),
                "{row}: {kept}"
            );
        }
    }
}

/// Steps, communicators and TUNING lines have the calls that nccl-ops keeps.
#[test]
fn rows_of_other_things_have_the_calls_of_a_filter() {
    let args = [
        "--ranks", "8", "--tp", "2", "--steps", "4", "--seed", "5", "--tuning",
    ];
    let log = run("nccl-synth", &args).text();
    let table = |program: &str, args: &[&str]| {
        let args = [&["-q"], args].concat();
        Csv::of(&feed(program, &args, log.as_str()).ends(0))
    };
    let sums = |table: &Csv, by: &str| {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for row in &table.rows {
            let calls: u64 = table.get(row, "calls").parse().unwrap();
            if calls > 0 && !table.get(row, by).is_empty() {
                *sums.entry(table.get(row, by).to_owned()).or_default() += calls;
            }
        }
        sums
    };
    let tuning = table("nccl-tuning", &[]);
    for filter in [
        ["--op", "AllReduce"],
        ["--rank", "2,5"],
        ["--where", "bytes >= 1M and nranks < 8"],
        ["--where", "global_rank = 3 or op = Broadcast"],
    ] {
        let ops = |by: &str| {
            sums(
                &table("nccl-ops", &[&["--by", by][..], &filter].concat()),
                by,
            )
        };
        let (by_step, by_comm) = (ops("step"), ops("comm_id"));
        assert!(by_step.len() == 4 && by_comm.len() > 1, "{filter:?}");
        let mut steps = sums(
            &table("nccl-steps", &[&["--list"][..], &filter].concat()),
            "step",
        );
        steps.retain(|step, _| step.parse::<u64>().is_ok());
        assert_eq!(steps, by_step, "{filter:?}");
        let comms = table("nccl-communicators", &filter);
        assert_eq!(sums(&comms, "comm_id"), by_comm, "{filter:?}");
        let members = table(
            "nccl-communicators",
            &[&["--members"][..], &filter].concat(),
        );
        assert_eq!(sums(&members, "comm_id"), by_comm, "{filter:?}");
    }
    let of_op = table("nccl-tuning", &["--op", "allgather"]);
    let mut expected = tuning.rows.clone();
    expected.retain(|row| tuning.get(row, "op") == "AllGather");
    assert!(!expected.is_empty() && expected.len() < tuning.rows.len());
    assert_eq!(of_op.rows, expected);
    let known = "--where: step is not known here; expected one of op, bytes";
    feed("nccl-tuning", &["--where", "step = 1"], log.as_str())
        .ends(2)
        .says(&[known]);
}

/// Before NCCL 2.18 lines give communicators no ids: the ranks of the job follow from counting.
#[test]
fn a_rank_is_known_without_ids_of_communicators() {
    let args = [
        "--ranks", "8", "--tp", "2", "--steps", "4", "--nccl", "2.16",
    ];
    let log = run("nccl-synth", &args).text();
    let table = |program: &str, args: &[&str]| {
        let args = [&["-q", "--rank", "3"], args].concat();
        Csv::of(&feed(program, &args, log.as_str()).ends(0))
    };
    let sum = |table: &Csv, step: u64| -> u64 {
        let step = step.to_string();
        let rows = table.rows.iter();
        let rows = rows.filter(|row| table.get(row, "step") == step);
        rows.map(|row| table.get(row, "calls").parse::<u64>().unwrap())
            .sum()
    };
    let (ops, steps) = (
        table("nccl-ops", &["--by", "step"]),
        table("nccl-steps", &["--list"]),
    );
    for step in 0..4 {
        assert!(sum(&ops, step) > 0, "{step}");
        assert_eq!(sum(&steps, step), sum(&ops, step), "{step}");
    }
}

/// An operation of the proxy thread passes by its call's operation and its rank; a rank comes with that in the job.
#[test]
fn operations_of_the_proxy_thread_pass_a_filter() {
    let traces = "testdata/captured/ddp-profiler";
    let table = |args: &[&str]| {
        Csv::of(&run(
            "nccl-proxy",
            &[&["-q", "--by", "rank,op"], args, &[traces]].concat(),
        ))
    };
    let all = table(&[]);
    let kept = table(&["--rank", "1,2", "--op", "AllReduce"]);
    let mut expected = all.rows.clone();
    expected.retain(|row| matches!(all.get(row, "global_rank"), "1" | "2"));
    assert_eq!(kept.rows, expected);
    assert!(!expected.is_empty() && expected.len() < all.rows.len());
}

#[test]
fn programs_without_a_filter_name_one_that_has_it() {
    for program in ["nccl-net", "nccl-timing"] {
        run(program, &["--op", "AllReduce", "x.log"])
            .ends(2)
            .says(&[&format!(
                "tip: {program} has no filter of calls; this counts some of a log: nccl-ops"
            )]);
    }
}
