//! nccl-diff: what changed between two runs, and nothing else.

use crate::support::{
    Csv, Work, arg, captured, captured_logs, feed, files, gzip, job, run, run_in,
};
use std::path::{Path, PathBuf};

fn log(name: &str) -> String {
    arg(&captured(name).join("nccl.log.gz")).to_owned()
}

/// What changed, each row in its words.
fn changes(a: &str, b: &str, more: &[&str]) -> Vec<String> {
    let out = run("nccl-diff", &[&[a, b], more].concat()).calm();
    assert_eq!(out.code, Some(i32::from(out.lines().len() > 1)));
    rows(&Csv::of(&out))
}

fn rows(csv: &Csv) -> Vec<String> {
    let row = |row: &Vec<String>| {
        let fields = ["aspect", "subject", "a", "b", "change"].map(|c| csv.get(row, c));
        fields.join("|")
    };
    csv.rows.iter().map(row).collect()
}

/// A made job's log.
fn made(work: &Work, name: &str, options: &str) -> String {
    let args = [&options.split(' ').collect::<Vec<_>>()[..], &["-o", name]].concat();
    run_in(work.dir(), "nccl-synth", &args).ends(0);
    arg(&work.dir().join(name)).to_owned()
}

#[test]
fn a_log_does_not_differ_from_itself() {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut logs: Vec<PathBuf> = files(&testdata.join("logs"));
    logs.extend(files(&testdata.join("bad")));
    for name in std::fs::read_dir(testdata.join("captured")).unwrap() {
        let name = name.unwrap().file_name();
        logs.extend(
            captured_logs(name.to_str().unwrap())
                .iter()
                .map(PathBuf::from),
        );
    }
    for path in logs {
        let out = run("nccl-diff", &[arg(&path), arg(&path)]).calm();
        assert_eq!(out.lines().len(), 1, "{path:?}: {}", out.text());
        let damaged = out.stderr.contains(" damaged");
        assert_eq!(
            out.code,
            Some(i32::from(damaged)),
            "{path:?}: {}",
            out.stderr
        );
    }
}

#[test]
fn real_runs_on_other_networks_differ_in_what_that_brings() {
    // Whole steps of 39 and 29, calls up to a step ahead, torn lines: the same calls a step.
    assert_eq!(
        changes(&log("tp-stamps"), &log("tp-torn"), &[]),
        [
            "step_time_s||0.0981|2.068|more",
            "tflops_per_gpu||0.4|0.02|less",
            "job|step lines|megatron|torchtitan|differs",
            "job|whole steps|39|29|less",
            "version|nccl|2.28.9|2.30.7|differs",
            "transport|NET/Socket||NET/Socket|only-b",
            "transport|P2P/CUMEM|P2P/CUMEM||only-a",
            "nic|Socket.0|eth0 IPv4|lo IPv4|differs",
            "interface|oob|eth0 IPv4|lo IPv4|differs",
            "communicators|world of 4 ranks: nodes|1|4|more",
            "communicators|data of 2 ranks: nodes|1|2|more",
            "communicators|tensor of 2 ranks: nodes|1|2|more",
        ]
    );
    // Block-buffered output moves calls across step lines.
    assert_eq!(
        changes(
            &log("fsdp"),
            &log("fsdp-buffered"),
            &["--time-tolerance", "2000%"]
        ),
        ["job|step lines|megatron|torchtitan|differs"]
    );
    assert!(
        changes(
            &log("hf"),
            &log("hf-buffered"),
            &["--time-tolerance", "50%"]
        )
        .is_empty()
    );
}

#[test]
fn other_calls_are_told_by_what_they_are_the_most_bytes_first() {
    let calls = changes(&log("ddp"), &log("fsdp"), &["--time-tolerance", "1000%"]);
    assert_eq!(
        calls[..6],
        [
            "job|step lines|nemo2|megatron|differs",
            "bytes|all|58826807.385|35731472.41|less",
            "calls|all|28.3076923|60.1025641|more",
            "bytes|AllReduce 1MB-16MB bf16 data|58826752|0|only-a",
            "calls|AllReduce 1MB-16MB bf16 data|20|0|only-a",
            "bytes|AllGather 64KB-1MB bf16 data|0|12636160|only-b",
        ]
    );
}

#[test]
fn of_made_jobs_exactly_what_was_changed_is_told() {
    let work = Work::new();
    let base = "--ranks 16 --nodes 2 --tp 4 --pp 2 --net ib --tuning --steps 6";
    let a = made(&work, "a.log", base);
    let same = [
        "--seed 7 --host-style dots",
        "--steps 11",
        "--prefix srun",
        "--layout blocks",
    ];
    for more in same {
        // The last of an option counts.
        let base = base.replace(
            " --steps 6",
            if more.contains("steps") {
                ""
            } else {
                " --steps 6"
            },
        );
        let b = made(&work, "b.log", &format!("{base} {more}"));
        let expected: &[&str] = match more {
            "--steps 11" => &["job|whole steps|5|10|more"],
            _ => &[],
        };
        assert_eq!(changes(&a, &b, &[]), expected, "{more}");
    }
    let changed = |more: &str| {
        let b = made(&work, "b.log", &format!("{base} {more}"));
        changes(&a, &b, &[])
    };
    assert_eq!(
        changed("--nccl 2.30"),
        [
            "version|cuda|13.0|13.1|differs",
            "version|nccl|2.28.9|2.30.7|differs"
        ]
    );
    assert_eq!(
        changed("--nvls"),
        [
            "nvls|job|not available|used|differs",
            "algorithm|AllReduce of 4 ranks 33554432 B|RING SIMPLE|NVLS SIMPLE|differs",
            "algorithm|AllReduce of 4 ranks 1048576 B|RING LL128|NVLS SIMPLE|differs",
        ]
    );
    let b = made(&work, "b.log", &base.replace("--tp 4", "--tp 2"));
    assert_eq!(
        changes(&a, &b, &[]),
        [
            "communicators|data of 4 ranks|0|4|only-b",
            "communicators|tensor of 4 ranks|4|0|only-a",
            "communicators|data of 2 ranks|8|0|only-a",
            "communicators|tensor of 2 ranks|0|8|only-b",
            "bytes|all|8380715232|8227115232|less",
            "bytes|ReduceScatter 1MB-16MB fp32 data|204800000|102400000|less",
            "bytes|AllGather 1MB-16MB bf16 data|102400000|51200000|less",
        ]
    );
    let b = made(&work, "b.log", &base.replace("--net ib", "--net socket"));
    let lost = changes(&a, &b, &[]);
    for row in [
        "transport|NET/IB GDRDMA|NET/IB GDRDMA||only-a",
        "transport|NET/Socket||NET/Socket|only-b",
        "gpudirect|job|on|off|differs",
    ] {
        assert!(lost.iter().any(|r| r == row), "{row}: {lost:?}");
    }
}

#[test]
fn one_call_more_a_step_is_seen_where_ranks_run_ahead_of_the_step_lines() {
    let mut packed = flate2::read::GzDecoder::new(std::fs::File::open(log("fsdp")).unwrap());
    let log = std::io::read_to_string(&mut packed).unwrap();
    // Each rank makes its last one of a step twice.
    let mut made = std::collections::BTreeMap::new();
    let more: String = log
        .split_inclusive('\n')
        .map(|line| {
            let own = line.split_once(" NCCL INFO ReduceScatter: ");
            let again = own.is_some_and(|(rank, _)| {
                let n: &mut u32 = made.entry(rank).or_default();
                *n += 1;
                n.is_multiple_of(5)
            });
            line.repeat(1 + usize::from(again))
        })
        .collect();
    let work = Work::new();
    let (a, b) = (work.file("a.log", log), work.file("b.log", more));
    assert_eq!(
        changes(arg(&a), arg(&b), &[]),
        [
            "bytes|all|35731472.41|44120080.41|more",
            "calls|all|60.1025641|64.1025641|more",
            "bytes|ReduceScatter 1MB-16MB bf16 data|8388608|16777216|more",
            "calls|ReduceScatter 1MB-16MB bf16 data|4|8|more",
        ]
    );
}

/// A job of two hosts with what NCCL says of it; `own` differs from run to run in any case.
fn said(own: u64, lines: &[&str], via: &str, channels: u32) -> String {
    let mut log = String::new();
    for rank in 0..2 {
        let mut say = |text: &str| {
            log += &format!("host{own}{rank}:{own}:{own} [0] NCCL INFO {text}\n");
        };
        say(&format!("Bootstrap: Using eth0:10.0.{own}.{rank}<0>"));
        say(&format!(
            "NCCL_COMM_ID set by environment to 10.0.{own}.0:{own}"
        ));
        say("NCCL_DEBUG set by environment to INFO");
        lines.iter().for_each(|line| say(line));
        let init = format!(
            "ncclCommInitRank comm {:#x} rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId {own}000 \
             commId {:#x}",
            own << 16,
            own << 32
        );
        say(&format!("{init} - Init START"));
        say(&format!(
            "{channels} coll channels, {channels} collnet channels, 0 nvls channels, {channels} \
             p2p channels, 2 p2p channels per peer"
        ));
        say(&format!("Channel 00/0 : 0[0] -> 1[0] [send] via {via}"));
        say(&format!("{init} - Init COMPLETE"));
    }
    log
}

#[test]
fn what_is_said_of_the_network_and_the_settings_is_compared_but_no_names() {
    let first = said(
        1,
        &["NCCL_IB_TIMEOUT set by environment to 18."],
        "NET/IB/0/GDRDMA",
        16,
    );
    let same = said(
        2,
        &["NCCL_IB_TIMEOUT set by environment to 18."],
        "NET/IB/0/GDRDMA",
        16,
    );
    let work = Work::new();
    let path = work.file("a.log", first);
    feed("nccl-diff", &[arg(&path), "-"], same)
        .ends(0)
        .says(&["no differences"]);
    let other = [
        "NCCL_IB_TIMEOUT set by environment to 22.",
        "NCCL_ALGO set by environment to Tree",
    ];
    let other = said(3, &other, "NET/IB/0", 24);
    let out = feed("nccl-diff", &[arg(&path), "-"], other).ends(1);
    assert_eq!(
        rows(&Csv::of(&out)),
        [
            "transport|NET/IB||NET/IB|only-b",
            "transport|NET/IB GDRDMA|NET/IB GDRDMA||only-a",
            "gpudirect|job|on|off|differs",
            "setting|NCCL_ALGO||Tree|only-b",
            "setting|NCCL_IB_TIMEOUT|18|22|differs",
            "channels|communicators of 2 ranks on 2 nodes: coll|16|24|more",
            "channels|communicators of 2 ranks on 2 nodes: collnet|16|24|more",
            "channels|communicators of 2 ranks on 2 nodes: p2p|16|24|more",
        ]
    );
    // A log that says none of it.
    let job = job(2, 2, 1);
    let out = feed("nccl-diff", &[arg(&path), "-"], job).calm();
    out.says(&[
        "B does not report ",
        "setting",
        "transport",
        "A does not report ",
        "calls",
    ]);
}

#[test]
fn runs_that_change_sides_change_signs() {
    let work = Work::new();
    let moe = "--ranks 16 --nodes 2 --tp 2 --ep 4 --net ib --tuning --nccl 2.22";
    let made = made(&work, "moe.log", moe);
    for (a, b) in [
        (log("ddp"), log("fsdp")),
        (log("tp-stamps"), log("tp-torn")),
        (log("3d"), made),
    ] {
        let of = |a: &str, b: &str| Csv::of(&run("nccl-diff", &[a, b]).calm());
        let (there, back) = (of(&a, &b), of(&b, &a));
        assert_eq!(there.column("aspect"), back.column("aspect"));
        assert_eq!(there.column("subject"), back.column("subject"));
        assert_eq!(there.column("a"), back.column("b"));
        assert_eq!(there.column("b"), back.column("a"));
        let turned = back.column("change").into_iter().map(|c| match &c[..] {
            "only-a" => "only-b".to_owned(),
            "only-b" => "only-a".to_owned(),
            "more" => "less".to_owned(),
            "less" => "more".to_owned(),
            _ => c,
        });
        assert_eq!(there.column("change"), turned.collect::<Vec<_>>());
        for (ratio, other) in there.column("ratio").iter().zip(back.column("ratio")) {
            if let (Ok(ratio), Ok(other)) = (ratio.parse::<f64>(), other.parse::<f64>()) {
                assert!((ratio * other - 1.0).abs() < 2e-8, "{ratio} {other}");
            }
        }
    }
}

#[test]
fn files_pipes_and_threads_give_the_same() {
    let (a, b) = (job(8, 6, 2), job(8, 9, 3));
    let work = Work::new();
    let (first, second) = (
        work.file("a.log", &a),
        work.file("b/log.gz", gzip(b.as_bytes())),
    );
    work.file("b/empty-of-calls.log", "nothing of NCCL's\n");
    let (first, second) = (arg(&first), arg(second.parent().unwrap()));
    let whole = run("nccl-diff", &[first, second]).ends(1);
    assert!(whole.lines().len() > 5, "{}", whole.text());
    for more in [&["-j1"][..], &["--no-mmap"], &["-j3", "--no-mmap"]] {
        let out = run("nccl-diff", &[&[first, second], more].concat()).ends(1);
        assert_eq!(out.text(), whole.text(), "{more:?}");
    }
    let piped = feed("nccl-diff", &["-", second], a.as_str()).ends(1);
    assert_eq!(piped.text(), whole.text());
    let piped = feed("nccl-diff", &[first, "-"], b.as_str()).ends(1);
    assert_eq!(piped.text(), whole.text());
    // A log and the tables made of it.
    for more in [
        &[][..],
        &["--format", "jsonl"],
        &["--unique", "--steps", "0.."],
    ] {
        let table = run("nccl-comms", &[&[first], more].concat()).ends(0);
        feed("nccl-diff", &[first, "-"], table.stdout)
            .ends(0)
            .says(&["B does not report", "no differences"]);
    }
}

#[test]
fn steps_are_compared_where_both_have_them_and_totals_else() {
    let (short, long) = (job(4, 5, 2), job(4, 12, 2));
    let work = Work::new();
    let path = work.file("short.log", &short);
    let short_path = arg(&path);
    // Sizes go round in five steps; those of 1..4 are not those of 1..11.
    let steps = ["--steps", "0..4"];
    feed(
        "nccl-diff",
        &[&[short_path, "-"], &steps[..]].concat(),
        long.as_str(),
    )
    .ends(0);
    let other = ["--steps", "0..4", "--steps-b", "5..9"];
    feed(
        "nccl-diff",
        &[&[short_path, "-"], &other[..]].concat(),
        long.as_str(),
    )
    .ends(0)
    .says(&["A: 5 whole steps (0..4); B: 5 whole steps (5..9)"]);
    let without = short.replace("iteration ", "round ");
    let out = feed("nccl-diff", &[short_path, "-"], without).ends(0);
    out.says(&[
        "B: no steps with calls",
        "calls and bytes are totals",
        "B does not report step times",
    ]);
    feed("nccl-diff", &[short_path, "-", "--steps", "3..8"], long)
        .ends(2)
        .says(&["step 5 is not in the input"]);
}

#[test]
fn a_tolerance_is_a_share_of_the_smaller() {
    let log = job(4, 5, 2);
    // Three more of eight in every step.
    let call = log.lines().rfind(|l| l.contains("AllReduce")).unwrap();
    let more = log.replace("loss is", &format!("{call}\n{call}\n{call}\nloss is"));
    let work = Work::new();
    let path = work.file("a.log", &log);
    let of = |tolerance: &str| {
        let args = [arg(&path), "-", "--tolerance", tolerance];
        let out = Csv::of(&feed("nccl-diff", &args, more.as_str()).calm());
        out.pick(&["aspect", "subject", "a", "b"])
    };
    let bytes = "bytes AllReduce <64KB fp32 104 164";
    let calls = "calls AllReduce <64KB fp32 8 11";
    assert_eq!(of("37%"), [bytes, calls]);
    assert_eq!(of("38%"), [bytes]);
    assert_eq!(of("58%"), [""; 0]);
    run("nccl-diff", &[arg(&path), arg(&path), "--tolerance", "5"])
        .ends(2)
        .says(&["expected percent"]);
}

#[test]
fn the_exit_code_is_explained() {
    let log = job(2, 3, 1);
    let work = Work::new();
    let whole = work.file("a.log", &log);
    let cut = work.file("b.log", log.replacen("datatype 6 op 0", "datatype 6 o", 1));
    run("nccl-diff", &[arg(&whole), arg(&whole)])
        .ends(0)
        .says(&["no differences (times within 5 % count as equal)"]);
    run("nccl-diff", &[arg(&cut), arg(&cut)]).ends(1).says(&[
        "no differences",
        "the exit code is 1 because of the damaged input",
    ]);
    run("nccl-diff", &[arg(&whole), arg(&cut)])
        .ends(1)
        .says(&["damaged"]);
    let table = ["--format", "table"];
    let out = run(
        "nccl-diff",
        &[&[arg(&whole), arg(&whole)], &table[..]].concat(),
    )
    .ends(0);
    assert_eq!(out.text(), "");
    run("nccl-diff", &[arg(&whole)]).ends(2);
    run("nccl-diff", &["-", "-"]).ends(2);
    run("nccl-diff", &[arg(&whole), "nothing.log"])
        .ends(2)
        .says(&["nothing.log"]);
    feed("nccl-diff", &[arg(&whole), "-"], "")
        .ends(1)
        .says(&["the input is empty"]);
}

/// The output of nccl-tests with this bus bandwidth at each size from 1 MiB on.
fn nccl_tests(busbw: &[f64]) -> String {
    let mut text = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
        .to_owned();
    for (at, busbw) in busbw.iter().enumerate() {
        let size = 1_u64 << (20 + at);
        let values = format!(
            "  {:7.1}  {:6.2}  {busbw:6.2}      0",
            size as f64 / busbw / 1e3,
            busbw
        );
        text += &format!(
            "{size:12}  {:12}     float     sum      -1{values}{values}\n",
            size / 4
        );
    }
    text + "# Out of bounds values : 0 OK\n"
}

#[test]
fn tables_of_nccl_tests_are_compared_by_size() {
    let work = Work::new();
    let file = |name: &str, text: String| arg(&work.file(name, text.as_bytes())).to_owned();
    let a = file("a.log", nccl_tests(&[10.0, 20.0, 40.0]));
    let b = file("b.log", nccl_tests(&[10.2, 20.1, 20.0]));
    let row = |place| format!("busbw_gb_per_s|float sum 4 MiB {place}|40|20|less");
    assert_eq!(changes(&a, &b, &[]), [row("out of place"), row("in place")]);
    let out = run("nccl-diff", &[&a, &b]).ends(1);
    out.says(&[
        "nccl-tests, float sum: B is slower in 2 of 6 rows by more than 10 %",
        "bus bandwidth at 4 MiB out of place: A 40 GB/s, B 20 GB/s",
    ]);
    assert!(changes(&a, &b, &["--time-tolerance", "110%"]).is_empty());
    assert!(changes(&a, &a, &[]).is_empty());
}
