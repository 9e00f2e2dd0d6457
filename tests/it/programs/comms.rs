//! The call table: its columns, what they mean, and the filters.

use crate::support::{Csv, Work, arg, captured, feed, job, procs, run, run_in, sh};
use nccl_pipe::output::table::COLUMNS;
use std::collections::BTreeSet;

/// Rows of a log, some columns joined with blanks.
fn rows(log: &str, args: &[&str], columns: &[&str]) -> Vec<String> {
    let table = Csv::of(&feed("nccl-comms", args, log).ends(0));
    assert_eq!(table.columns, COLUMNS);
    let of = |row: &Vec<String>| {
        let fields: Vec<&str> = columns.iter().map(|c| table.get(row, c)).collect();
        fields.join(" ")
    };
    table.rows.iter().map(of).collect()
}

#[test]
fn every_field_of_a_line_is_in_its_column() {
    let line = "[2026-03-03 12:11:38] 8h200-2:77:81 [3] NCCL INFO Broadcast: opCount 1a sendbuff \
                0x7f recvbuff (nil) count 10 datatype 9 op 0 root 2 comm 0x55d0 [nranks=4] stream \
                0x9 ";
    let out = feed("nccl-comms", &[], line).ends(0);
    let row = ",2026-03-03 12:11:38,8h200-2,77,81,3,,4,0x55d0,,0,26,Broadcast,10,bf16,,2,20,0x9,1,\
               log,,,,,,,,,,,";
    assert_eq!(out.text(), format!("{}\n{row}\n", COLUMNS.join(",")));
    let out = feed("nccl-comms", &["--format", "jsonl"], line).ends(0);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(json["host"], "8h200-2");
    assert_eq!(json["op_count"], 26);
    assert!(json.get("rank").is_none_or(serde_json::Value::is_null));
}

#[test]
fn datatypes_and_reductions_have_names_and_sizes() {
    let p = procs(1)[0];
    let mut log = String::new();
    for code in 0..13 {
        log.push_str(
            &p.call("AllReduce", 3, code)
                .replace(" op 0 ", &format!(" op {code} ")),
        );
        log.push('\n');
    }
    let out = feed("nccl-comms", &[], log.as_str()).ends(1);
    let table = Csv::of(&out);
    let types =
        "int8 uint8 int32 uint32 int64 uint64 fp16 fp32 fp64 bf16 fp8_e4m3 fp8_e5m2 type<12>";
    assert_eq!(table.column("datatype").join(" "), types);
    let bytes = [
        "3", "3", "12", "12", "24", "24", "6", "12", "24", "6", "3", "3", "",
    ];
    assert_eq!(table.column("bytes"), bytes);
    let redops = table.column("redop");
    assert_eq!(redops[..5], ["sum", "prod", "max", "min", "avg"]);
    assert!(
        redops[5..].iter().all(|r| r.starts_with("user")),
        "{redops:?}"
    );
    out.says(&["datatype 12 is unknown: the sums of bytes omit 1 call"]);
}

#[test]
fn rank_and_id_come_only_from_lines_that_say_them() {
    let p = procs(2);
    let call = |i: usize| format!("{}\n", p[i].call("AllReduce", 8, 7));
    let init = |i: usize, rank| format!("{}\n", p[i].init(rank, 0xfeed));
    let log = [init(0, 5), call(0), call(1), init(1, 6), call(1)].concat();
    let got = rows(&log, &[], &["pid", "rank", "comm_id"]);
    assert_eq!(got[0], "7000 5 0xfeed");
    assert_eq!(got[2], "7011 6 0xfeed");
    // An address is given anew after its communicator is gone.
    let gone = format!(
        "{}comm 0x55d0a0000000 rank 5 nranks 2 - Destroy COMPLETE\n",
        p[0].head()
    );
    let again = init(0, 1).replace("0xfeed", "0xbeef");
    let log = [init(0, 5), call(0), gone, again, call(0)].concat();
    let got = rows(&log, &[], &["rank", "comm_id"]);
    assert_eq!(got, ["5 0xfeed", "1 0xbeef"]);
}

#[test]
fn numbers_count_by_process_and_communicator_and_by_peer() {
    let p = procs(2);
    let mut other = p[0];
    other.comm = 0x77;
    let log: String = [
        p[0].call("AllReduce", 1, 7),
        p[1].call("AllReduce", 1, 7),
        p[0].call_at("Send", 1, 7, 1),
        p[0].call("AllGather", 1, 7),
        p[0].call_at("Send", 1, 7, 2),
        p[0].call_at("Send", 1, 7, 1),
        other.call("AllReduce", 1, 7),
        p[1].call("Broadcast", 1, 7),
        p[0].call_at("Recv", 1, 7, 1),
    ]
    .map(|l| l + "\n")
    .concat();
    let got = rows(&log, &[], &["pid", "op", "root", "seq"]);
    let expect = [
        "7000 AllReduce  0",
        "7011 AllReduce  0",
        "7000 Send 1 0",
        "7000 AllGather  1",
        "7000 Send 2 0",
        "7000 Send 1 1",
        "7000 AllReduce  0",
        "7011 Broadcast 0 1",
        "7000 Recv 1 0",
    ];
    assert_eq!(got, expect);
}

#[test]
fn a_twin_in_a_call_line_is_no_second_call() {
    let p = procs(1)[0];
    let twin = "gpu-a:7000:7001 NCCL CALL ncclAllReduce(7e2f,7e2f,64,7,0,0,0x55d0a0000000,0x5581)";
    let log = format!(
        "{}\n{twin}\n{}\n{twin}\n",
        p.call("AllReduce", 64, 7),
        p.call("Send", 1, 0)
    );
    assert_eq!(
        rows(&log, &[], &["op", "count"]),
        ["AllReduce 64", "Send 1"]
    );
}

/// What a filter should keep, given how to read a row's fields.
type Filter<'f> = &'f dyn Fn(&dyn Fn(&str) -> String) -> bool;

#[test]
fn filters_keep_what_they_name() {
    let log = job(8, 4, 2);
    let all = Csv::of(&feed("nccl-comms", &[], log.as_str()).ends(0));
    let keep = |args: &[&str], of: Filter<'_>| {
        let got = Csv::of(&feed("nccl-comms", args, log.as_str()).ends(0)).rows;
        let expect: Vec<_> = all
            .rows
            .iter()
            .filter(|row| of(&|column| all.get(row, column).to_owned()))
            .cloned()
            .collect();
        assert!(
            !expect.is_empty() && expect.len() < all.rows.len(),
            "{args:?}"
        );
        assert_eq!(got, expect, "{args:?}");
        let direct = [args, &["--unique"]].concat();
        let unique = Csv::of(&feed("nccl-comms", &direct, log.as_str()).ends(0));
        assert_eq!(unique.sum("calls"), expect.len() as u128, "{args:?}");
    };
    keep(&["--op", "Send,Recv"], &|f| {
        ["Send", "Recv"].contains(&&*f("op"))
    });
    keep(&["--where", "rank in (0, 5)"], &|f| {
        ["0", "5"].contains(&&*f("rank"))
    });
    keep(&["--where", "not bytes >= 1M and datatype != FP32"], &|f| {
        f("bytes").parse::<u64>().unwrap() < 1 << 20 && f("datatype") != "fp32"
    });
    keep(&["--host", "38dcf168f605"], &|f| {
        f("host") == "38dcf168f605"
    });
    keep(&["--comm", "0x55d0a0010000"], &|f| {
        f("comm") == "0x55d0a0010000"
    });
    let size = |f: &dyn Fn(&str) -> String| f("bytes").parse::<u64>().unwrap();
    keep(&["--min-bytes", "16MB"], &|f| size(f) >= 16 << 20);
    keep(&["--max-bytes", "64KB"], &|f| size(f) <= 64 << 10);
    keep(&["--steps", "1..2", "--op", "AllReduce"], &|f| {
        f("op") == "AllReduce" && ["1", "2"].contains(&&*f("step"))
    });
}

#[test]
fn what_the_log_says_cannot_break_a_table() {
    let work = Work::new();
    // A NCCL host has no such bytes; a table's may.
    let table = "op,count,datatype,host\nSend,2,int8,\"a,\"\"b\"\"\nc\u{1b}[31m\"\n";
    work.file("calls.csv", table);
    let csv = run_in(work.dir(), "nccl-comms", &["calls.csv"]).ends(0);
    assert_eq!(Csv::of(&csv).column("host"), ["a,\"b\"\nc\u{1b}[31m"]);
    let drawn = run_in(
        work.dir(),
        "nccl-comms",
        &["calls.csv", "--format", "table"],
    )
    .ends(0);
    assert!(!drawn.text().contains('\u{1b}'), "{}", drawn.text());
    let drawn = ["calls.csv", "--by", "host", "--format", "table"];
    let drawn = run_in(work.dir(), "nccl-hist", &drawn).ends(0);
    assert!(!drawn.text().contains('\u{1b}'), "{}", drawn.text());
    let json = run_in(
        work.dir(),
        "nccl-comms",
        &["calls.csv", "--format", "jsonl"],
    )
    .ends(0);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["host"], "a,\"b\"\nc\u{1b}[31m");
}

/// The traces that PARAM's replay takes: each file has all communicators, and its rank's calls in order.
#[test]
fn param_traces_have_the_calls_of_each_rank() {
    let work = Work::new();
    let log = captured("ep/nccl.log.gz");
    let folder = work.dir().join("traces");
    let out = run(
        "nccl-comms",
        &[arg(&log), "--format", "param", "--output", arg(&folder)],
    )
    .ends(0);
    assert!(out.stdout.is_empty());
    out.says(&[
        "9284 calls of 4 ranks on 2 communicators are in",
        "2560 messages of a rank to itself are left out",
    ]);
    let rows = Csv::of(&run("nccl-comms", &[arg(&log)]).ends(0));
    let mut heads = Vec::new();
    for rank in 0..4_u64 {
        let text = std::fs::read(folder.join(format!("{rank}.json"))).unwrap();
        let trace: Vec<serde_json::Value> = serde_json::from_slice(&text).unwrap();
        let (head, calls): (Vec<_>, Vec<_>) = trace.into_iter().partition(|e| e["comms"] == "init");
        // Both communicators have all ranks, in the same order.
        let own = rows.rows.iter().filter(|row| {
            let peer = rows.get(row, "root").parse() == Ok(rank);
            rows.get(row, "rank") == rank.to_string() && !peer
        });
        let own: Vec<_> = own.collect();
        assert_eq!(calls.len(), own.len());
        for (n, (call, row)) in (0_u64..).zip(calls.iter().zip(own)) {
            let count: u64 = rows.get(row, "count").parse().unwrap();
            let peer = || rows.get(row, "root").parse::<u64>().unwrap();
            assert_eq!((&call["req"], &call["world_size"]), (&n.into(), &4.into()));
            let (name, size) = match rows.get(row, "op") {
                "AllReduce" => ("all_reduce", count),
                "AlltoAll" => ("all_to_allv", 4 * count),
                "Send" => {
                    assert_eq!(
                        (&call["src_rank"], &call["dst_rank"]),
                        (&rank.into(), &peer().into())
                    );
                    ("isend", count)
                }
                "Recv" => {
                    assert_eq!(
                        (&call["src_rank"], &call["dst_rank"]),
                        (&peer().into(), &rank.into())
                    );
                    ("irecv", count)
                }
                op => panic!("{op}"),
            };
            assert_eq!(
                (&call["comms"], &call["in_msg_size"]),
                (&name.into(), &size.into())
            );
        }
        heads.push(head);
    }
    assert!(
        heads
            .iter()
            .all(|head| *head == heads[0] && head.len() == 2)
    );
    for (args, error) in [
        (&["--format", "param"][..], "name a folder with --output"),
        (
            &["--format", "param", "-o", "x", "--unique"],
            "omit --unique",
        ),
    ] {
        let all: Vec<&str> = [arg(&log)]
            .into_iter()
            .chain(args.iter().copied())
            .collect();
        run("nccl-comms", &all).ends(2).says(&[error]);
    }
    let args = ["--format", "param", "-o", arg(&folder)];
    feed("nccl-comms", &args, "a\n")
        .ends(2)
        .says(&["name files"]);
    let alone = work.file(
        "alone.log",
        "h:1:1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count 101 \
                                        datatype 1 op 0 root 0 comm 0xa [nranks=2] stream 0x5\n",
    );
    run(
        "nccl-comms",
        &[arg(&alone), "--format", "param", "-o", arg(&folder)],
    )
    .ends(2)
    .says(&["it is not known which ranks of the job"]);
}

#[test]
fn a_glued_name_that_a_later_piece_of_a_pipe_clears_has_one_sequence() {
    let call = procs(1)[0].call("AllReduce", 3, 7);
    let work = Work::new();
    work.file("glued", format!("  26.66      0{call}\n"));
    work.file("clean", format!("{call}\n"));
    let out = sh(work.dir(), "(cat glued; sleep 0.5; cat clean) | nccl-comms");
    assert_eq!(Csv::of(&out.ends(0)).column("seq"), ["0", "1"]);
}

/// Traces of PyTorch 2.0 and before have no arguments of calls: neither count nor bytes.
#[test]
fn calls_known_by_their_kernels_alone_are_read_back() {
    let trace = r#"{"schemaVersion": 1, "traceEvents": [
{"ph":"X","cat":"Kernel","name":"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)","pid":0,"tid":7,"ts":110,"dur":20,"args":{"device":0,"stream":7,"correlation":3,"External id":1}}
]}"#;
    let work = Work::new();
    let file = work.file("old.json", trace);
    let calls = run("nccl-comms", &["-q", arg(&file)]).ends(0);
    let again = feed("nccl-comms", &["-q"], &*calls.text()).ends(0);
    assert_eq!(again.text(), calls.text());
    let equal = feed("nccl-agg", &["-q"], &*calls.text()).ends(0);
    assert_eq!(equal.text().lines().nth(1), Some("AllReduce,,,,1,"));
}

/// Two runs of a job make the same calls on the same groups: only the time stamps of the log tell their dumps apart.
#[test]
fn dumps_of_another_run_fill_no_call() {
    let dumps = |run: &str| -> Vec<String> {
        let files =
            [0, 1, 2, 3].map(|rank| format!("testdata/hung/{run}/nccl_trace_rank_{rank}.gz"));
        let files = files
            .into_iter()
            .filter(|file| std::path::Path::new(file).exists());
        files
            .flat_map(|file| ["--times".to_owned(), file])
            .collect()
    };
    let filled = |log: &str, records: &str| {
        let log = format!("testdata/hung/{log}/nccl.log.gz");
        let args: Vec<String> = [log].into_iter().chain(dumps(records)).collect();
        let table = Csv::of(&run("nccl-comms", &args).ends(0));
        let rows = table.rows.iter();
        rows.filter(|row| !table.get(row, "start_ns").is_empty())
            .count()
    };
    assert_eq!(
        [filled("kill", "kill"), filled("skippair", "skippair")],
        [405, 539]
    );
    assert_eq!(
        [filled("kill", "skippair"), filled("skippair", "kill")],
        [0, 0]
    );
}

/// A shell writes the names of all files behind one option: none of them is a log's input.
#[test]
fn records_beside_a_log_fill_its_calls_and_are_no_calls_of_their_own() {
    let dumps = [0, 1, 3].map(|rank| format!("testdata/hung/kill/nccl_trace_rank_{rank}.gz"));
    let log = "testdata/hung/kill/nccl.log.gz".to_owned();
    let each = dumps.iter().flat_map(|file| ["--times", file]);
    let of_each: Vec<&str> = [&log[..]].into_iter().chain(each).collect();
    let [first, others @ ..] = &dumps;
    let behind_one = [&log[..], "--times", first, &others[0], &others[1]];
    let tables = [&of_each[..], &behind_one].map(|args| run("nccl-comms", args).ends(0).text());
    assert_eq!(tables[0], tables[1]);
    // Without the option their calls count, with a warning, whatever the recorder.
    for record in [
        first,
        "testdata/captured/ddp-profiler/trace_12687207925689636612_0.json.gz",
    ] {
        run("nccl-ops", &[&log, record]).says(&["what is in both is counted twice"]);
    }
}

/// The lines of one rank of four are lost: the others' ranks are still those of the job, in a pipe once it has ended.
#[test]
fn a_pipe_knows_ranks_without_the_lines_of_one_at_its_end() {
    let log = job(4, 2, 1);
    let ranks = |log: &str| {
        let rows = Csv::of(&feed("nccl-comms", &["-", "-f", "csv"], log.as_bytes()));
        let rank = |row: &Vec<String>| rows.get(row, "global_rank").to_owned();
        rows.rows.iter().map(rank).collect::<BTreeSet<_>>()
    };
    assert_eq!(ranks(&log).len(), 4);
    let mut pids: Vec<&str> = log
        .lines()
        .filter_map(|line| line.split(':').nth(1))
        .collect();
    pids.retain(|pid| pid.parse::<u64>().is_ok());
    let last = format!(":{}:", pids.iter().max().unwrap());
    let no_steps = |line: &&str| line.contains("NCCL") && !line.contains(&last);
    let lines = log.lines().filter(no_steps).map(|line| format!("{line}\n"));
    let found = ranks(&lines.collect::<String>());
    assert_eq!((found.len(), found.contains("")), (3, false), "{found:?}");
}
