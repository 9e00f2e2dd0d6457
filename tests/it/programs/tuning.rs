//! nccl-tuning: algorithm and protocol by operation and size, joined to the calls.

use crate::support::{Csv, Work, arg, data, feed, run, run_in, sh};
use std::collections::BTreeMap;
use std::path::Path;

const COLUMNS: [&str; 10] = [
    "op",
    "nranks",
    "from_bytes",
    "last_bytes",
    "algorithm",
    "protocol",
    "lines",
    "calls",
    "ambiguous",
    "without_call",
];

fn captured(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/captured");
    arg(&path.join(name).join("nccl.log.gz")).to_owned()
}

/// A COLL line of a thread.
fn coll(tid: u64, op: &str, count: u64, comm: u64, nranks: u32) -> String {
    format!(
        "h:1:{tid} [0] NCCL INFO {op}: opCount 0 sendbuff 0x7f0000000000 recvbuff 0x7f0000000000 \
         count {count} datatype 7 op 0 root 0 comm {comm:#x} [nranks={nranks}] stream 0x5600ea60\n"
    )
}

/// Another line of a thread.
fn says(tid: u64, body: &str) -> String {
    format!("h:1:{tid} [0] NCCL INFO {body}\n")
}

fn tuning(op: &str, bytes: u64, how: &str) -> String {
    says(
        1,
        &format!("{op}: {bytes} Bytes -> Algo {how} channel{{Lo..Hi}}={{0..3}}"),
    )
}

#[test]
fn every_tuning_line_of_a_real_job_finds_its_call() {
    let out = run("nccl-tuning", &[&captured("3d")])
        .ends(0)
        .says(&["11921 TUNING lines = 11921 with their call + 0 ambiguous + 0 without a call"]);
    assert_eq!(
        Csv::of(&out).pick(&COLUMNS),
        [
            "AllGather 2 65536 65536 RING LL 5440 5440 0 0",
            "AllReduce 2 4194304 4459264 RING SIMPLE 160 160 0 0",
            "AllReduce 2 512 789248 RING LL 640 640 0 0",
            "AllReduce 8 4 4 RING LL 81 81 0 0",
            "Broadcast 2 4 4 RING LL 160 160 0 0",
            "ReduceScatter 2 65536 65536 RING LL 5440 5440 0 0",
        ]
    );
    let out = run("nccl-tuning", &[&captured("ddp-all")]).ends(0);
    assert_eq!(Csv::of(&out).sum("without_call"), 0);
}

#[test]
fn real_logs_of_other_versions_are_joined_as_far_as_they_can_be() {
    let one = |rel: &str, rows: &[&str]| {
        let Some(path) = data(&format!("nccl-logs/{rel}")) else {
            return;
        };
        let out = run("nccl-tuning", &[arg(&path)]).calm();
        assert_eq!(Csv::of(&out).pick(&COLUMNS), rows, "{rel}");
    };
    // One process with two GPUs; 22 headers are glued to a row of nccl-tests, and are its own.
    one(
        "nccl-tests-2.27.7-2gpu-1process.log",
        &["AllReduce 2 8388608 8589934592 RING SIMPLE 495 495 0 0"],
    );
    // TUNING lines alone.
    one(
        "nccl-tests-2.29.2-4gpu-tuning.log",
        &["AllReduce  268435456 8589934592 RING SIMPLE 654 0 0 654"],
    );
    // No name of the operation: it is the call's.
    one(
        "excerpts/cuiboyuan__nccl_log_rca_bench_nccl_logs_2e194b931ff6_15980.excerpt.log",
        &["AllReduce 2 40 40 RING LL 2 2 0 0"],
    );
}

#[test]
fn sizes_with_the_same_choice_are_one_range() {
    let mut log = String::new();
    for (count, how) in [
        (64, "TREE proto LL"),
        (1024, "TREE proto LL"),
        (65536, "RING proto LL128"),
        (1 << 20, "RING proto SIMPLE"),
        (1 << 22, "RING proto SIMPLE"),
    ] {
        log += &coll(1, "AllReduce", count, 0xa0, 8);
        log += &tuning("AllReduce", 4 * count, how);
    }
    let out = Csv::of(&feed("nccl-tuning", &[], log.as_str()).ends(0));
    assert_eq!(
        out.pick(&[
            "op",
            "nranks",
            "from_bytes",
            "last_bytes",
            "algorithm",
            "protocol",
            "lines"
        ]),
        [
            "AllReduce 8 256 4096 TREE LL 2",
            "AllReduce 8 262144 262144 RING LL128 1",
            "AllReduce 8 4194304 16777216 RING SIMPLE 2",
        ]
    );
    assert_eq!(out.column("max_channels"), ["4", "4", "4"]);
    let out = Csv::of(&feed("nccl-tuning", &["--sizes"], log).ends(0));
    assert_eq!(out.rows.len(), 5);
}

#[test]
fn a_line_that_fits_several_calls_is_ambiguous() {
    // Two communicators of other sizes, the same bytes in one group, no INIT lines.
    let group = [
        coll(1, "AllReduce", 256, 0xa0, 8),
        coll(1, "AllReduce", 256, 0xb0, 2),
        tuning("AllReduce", 1024, "RING proto LL"),
    ]
    .concat();
    let out = feed("nccl-tuning", &[], group.as_str()).ends(0);
    assert_eq!(
        Csv::of(&out).pick(&COLUMNS),
        ["AllReduce  1024 1024 RING LL 1 0 1 0"]
    );
    // INIT lines say that this process is rank 0 of the second alone.
    let init = [(0xa0, 3, 8), (0xb0, 0, 2)].map(|(comm, rank, n)| {
        says(1, &format!(
            "ncclCommInitRank comm {comm:#x} rank {rank} nranks {n} cudaDev 0 nvmlDev 0 busId 1000 \
             commId {comm:#x} - Init COMPLETE"
        ))
    });
    let out = feed(
        "nccl-tuning",
        &[],
        [&init.concat(), group.as_str()].concat(),
    )
    .ends(0);
    assert_eq!(
        Csv::of(&out).pick(&COLUMNS),
        ["AllReduce 2 1024 1024 RING LL 1 1 0 0"]
    );
    // Without a name both operations fit.
    let nameless = [
        coll(1, "AllReduce", 256, 0xa0, 8),
        coll(1, "Broadcast", 256, 0xa0, 8),
        says(1, "1024 Bytes -> Algo 1 proto 0 time 8.616000"),
    ]
    .concat();
    let out = feed("nccl-tuning", &[], nameless).ends(0);
    assert_eq!(
        Csv::of(&out).pick(&COLUMNS),
        [" 8 1024 1024 RING LL 1 0 1 0"]
    );
}

#[test]
fn a_call_of_the_burst_before_serves_no_line() {
    let log = [
        coll(1, "AllReduce", 256, 0xa0, 8),
        tuning("AllReduce", 1024, "RING proto LL"),
        coll(1, "AllReduce", 64, 0xa0, 8),
        tuning("AllReduce", 1024, "RING proto LL"),
        // Nor does another thread's.
        coll(2, "AllReduce", 512, 0xa0, 8),
        tuning("AllReduce", 2048, "RING proto LL"),
    ]
    .concat();
    let out = Csv::of(&feed("nccl-tuning", &[], log).ends(0));
    assert_eq!(
        out.pick(&["nranks", "from_bytes", "calls", "without_call"]),
        [" 1024 0 2", "8 1024 1 0"]
    );
}

#[test]
fn a_call_whose_line_was_torn_serves_its_line() {
    let other = coll(1, "Broadcast", 9, 0xb0, 2).replace("h:1:1 [0]", "h:2:2 [1]");
    let torn = |count: u64| {
        let whole = coll(1, "AllReduce", count, 0xa0, 8);
        let (head, tail) = whole.split_at(128);
        format!("{head}{other}{tail}")
    };
    let log = [
        coll(1, "AllReduce", 256, 0xa0, 8),
        tuning("AllReduce", 1024, "RING proto LL"),
        torn(512),
        tuning("AllReduce", 2048, "RING proto LL"),
        // Two in a group, one of them torn; then one whose line comes before it: not its own.
        torn(4096),
        coll(1, "AllReduce", 8192, 0xa0, 8),
        tuning("AllReduce", 32_768, "RING proto SIMPLE"),
        tuning("AllReduce", 16_384, "RING proto SIMPLE"),
        tuning("AllReduce", 65_536, "RING proto SIMPLE"),
        torn(16_384),
    ]
    .concat();
    let out = feed("nccl-tuning", &["--sizes"], log)
        .ends(0)
        .says(&["5 TUNING lines = 4 with their call + 0 ambiguous + 1 without a call"]);
    assert_eq!(
        Csv::of(&out).pick(&["from_bytes", "nranks", "calls", "without_call"]),
        [
            "1024 8 1 0",
            "16384 8 1 0",
            "2048 8 1 0",
            "32768 8 1 0",
            "65536  0 1",
        ]
    );
}

#[test]
fn a_line_of_calls_put_together_serves_them_all() {
    let line = |bytes: u64| {
        says(
            1,
            &format!("{bytes} Bytes -> Algo 1 proto 2 time 86.968750"),
        )
    };
    // Up to 2.23: three gradients of a group, one line; then a group of two sizes far apart.
    let log = [
        coll(1, "AllReduce", 256, 0xa0, 8),
        coll(1, "AllReduce", 256, 0xa0, 8),
        coll(1, "AllReduce", 512, 0xa0, 8),
        line(4096),
        coll(1, "AllGather", 100, 0xa0, 8),
        coll(1, "AllGather", 200, 0xa0, 8),
        coll(1, "AllGather", 4000, 0xa0, 8),
        line(300 * 4 * 8),
        line(4000 * 4 * 8),
        // As many bytes by two operations: which is not known.
        coll(1, "AllReduce", 64, 0xa0, 8),
        coll(1, "AllReduce", 96, 0xa0, 8),
        coll(1, "Broadcast", 80, 0xa0, 8),
        coll(1, "Broadcast", 80, 0xa0, 8),
        line(640),
    ]
    .concat();
    let out = feed("nccl-tuning", &["--sizes"], log)
        .ends(0)
        .says(&["4 TUNING lines = 3 with their call + 1 ambiguous + 0 without a call"]);
    assert_eq!(
        Csv::of(&out).pick(&["op", "nranks", "from_bytes", "lines", "calls", "ambiguous"]),
        [
            " 8 640 1 0 1",
            "AllGather 8 128000 1 1 0",
            "AllGather 8 9600 1 2 0",
            "AllReduce 8 4096 1 3 0",
        ]
    );
}

#[test]
fn kernels_on_symmetric_memory_and_copies_are_choices_too() {
    let log = [
        says(
            1,
            "AllReduce [Symmetric]: 1024 Bytes -> Kernel AGxLL_R nchannels 8 nthreads 512",
        ),
        says(
            1,
            "AllGather [Copy Engine]: 4096 Bytes -> cudaMemcpyBatchAsync",
        ),
    ]
    .concat();
    let out = Csv::of(&feed("nccl-tuning", &[], log).ends(0));
    assert_eq!(
        out.pick(&["op", "from_bytes", "algorithm", "protocol", "max_channels"]),
        [
            "AllGather 4096 COPY_ENGINE  ",
            "AllReduce 1024 SYMMETRIC AGxLL_R 8"
        ]
    );
}

#[test]
fn a_log_without_the_lines_says_how_to_get_them() {
    let out = feed("nccl-tuning", &[], coll(1, "AllReduce", 1, 1, 2)).ends(0);
    let out = out.says(&["NCCL_DEBUG_SUBSYS=INIT,COLL,TUNING"]);
    assert_eq!(out.lines().len(), 1);
    feed("nccl-tuning", &[], "op,count,datatype\nSend,5,int8\n").ends(2);
    feed("nccl-tuning", &[], "")
        .ends(1)
        .says(&["the input is empty"]);
}

#[test]
fn a_made_jobs_tuning_comes_back_exactly() {
    for options in [
        "--ranks 8 --tp 4 --tuning",
        "--ranks 16 --nodes 2 --tp 4 --pp 2 --ep 2 --net ib --nvls --tuning",
        "--ranks 16 --nodes 2 --tp 2 --tuning --nccl 2.23",
        "--ranks 8 --tp 2 --pp 2 --tuning --nccl 2.30 --layout per-rank",
        "--ranks 64 --nodes 8 --tp 8 --pp 2 --ep 4 --tuning --restart-at 6 --steps 9",
    ] {
        let work = Work::new();
        std::fs::create_dir(work.dir().join("logs")).unwrap();
        let to = match options.contains("per-rank") {
            true => "logs",
            false => "logs/job.log",
        };
        let mut args: Vec<&str> = options.split(' ').collect();
        args.extend(["-o", to, "--truth", "truth.json"]);
        run_in(work.dir(), "nccl-synth", &args).ends(0);
        let truth = std::fs::read(work.dir().join("truth.json")).unwrap();
        let truth: serde_json::Value = serde_json::from_slice(&truth).unwrap();
        let mut want: Vec<String> = truth["tuning"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| {
                let (row, lines) = (&row[0], &row[1]);
                let text = |c: &str| row[c].as_str().unwrap().to_owned();
                let channels = row["channels"]
                    .as_u64()
                    .map_or(String::new(), |n| n.to_string());
                let (op, n, bytes) = (text("op"), &row["nranks"], &row["bytes"]);
                let (algorithm, protocol) = (text("algorithm"), text("protocol"));
                format!("{op} {n} {bytes} {algorithm} {protocol} {channels} {lines} {lines}")
            })
            .collect();
        want.sort();
        let args = ["logs", "--sizes", "--channels"];
        let out = run_in(work.dir(), "nccl-tuning", &args).ends(0);
        let columns = [
            "op",
            "nranks",
            "from_bytes",
            "algorithm",
            "protocol",
            "max_channels",
            "lines",
            "calls",
        ];
        assert_eq!(Csv::of(&out).pick(&columns), want, "{options}");
        let gathered = options.contains("2.23");
        assert_eq!(told(&work, "logs", gathered), want, "{options}");
    }
}

/// What `nccl-comms --tuning` tells of the calls of an input, as nccl-tuning's rows are: the bytes
/// those of all ranks where they are `gathered`, as up to NCCL 2.23.
fn told(work: &Work, input: &str, gathered: bool) -> Vec<String> {
    let mut rows: BTreeMap<String, u64> = BTreeMap::new();
    let out = run_in(work.dir(), "nccl-comms", &[input, "--tuning"]).calm();
    let table = Csv::of(&out);
    for row in table
        .rows
        .iter()
        .filter(|row| !table.get(row, "algo").is_empty())
    {
        let text = |column| table.get(row, column);
        let number = |column| text(column).parse::<u64>().unwrap();
        let (op, n) = (text("op"), number("nranks"));
        let each = ["AllGather", "ReduceScatter"].contains(&op);
        let bytes = number("bytes") * if gathered && each { n } else { 1 };
        let how = ["algo", "proto", "nchannels"].map(text).join(" ");
        let of = format!("{op} {n} {bytes} {how}");
        *rows.entry(of).or_default() += 1;
    }
    // Unique rows are the same calls.
    let out = run_in(work.dir(), "nccl-comms", &[input, "--tuning", "--unique"]).calm();
    let unique = run_in(work.dir(), "nccl-comms", &[input, "--unique"]).calm();
    assert_eq!(Csv::of(&out).sum("calls"), table.rows.len() as u128);
    assert_eq!(Csv::of(&out).sum("calls"), Csv::of(&unique).sum("calls"));
    let rows = rows.into_iter();
    let mut rows: Vec<String> = rows
        .map(|(row, calls)| format!("{row} {calls} {calls}"))
        .collect();
    rows.sort();
    rows
}

#[test]
fn the_call_table_has_what_served_each_call_of_a_real_job() {
    let rows = |name: &str, more: &[&str]| {
        let log = captured(name);
        let args = [&[&log[..], "--tuning", "--unique"], more].concat();
        let out = run("nccl-comms", &args).ends(0);
        Csv::of(&out.says(&["with their call + 0 ambiguous + 0 without a call"]))
    };
    let columns = [
        "nranks",
        "op",
        "count",
        "datatype",
        "calls",
        "algo",
        "proto",
        "nchannels",
    ];
    // Every call of a rank 0, and no other.
    let mut first = rows(
        "3d",
        &["--where", "rank = 0", "--op", "AllReduce,Broadcast"],
    )
    .pick(&columns);
    first.dedup();
    assert_eq!(
        first,
        [
            "2 AllReduce 132736 bf16 40 RING LL 22",
            "2 AllReduce 2048 bf16 40 RING LL 1",
            "2 AllReduce 2097152 bf16 40 RING SIMPLE 24",
            "2 AllReduce 2229632 bf16 40 RING SIMPLE 24",
            "2 AllReduce 256 bf16 40 RING LL 1",
            "2 AllReduce 263936 bf16 40 RING LL 24",
            "2 AllReduce 394624 bf16 40 RING LL 23",
            "2 Broadcast 1 fp32 40 RING LL 1",
            "8 AllReduce 1 fp32 40 RING LL 1",
            "8 AllReduce 1 fp32 41 RING LL 1",
        ]
    );
    let others = rows("3d", &["--where", "rank >= 1"]);
    assert!(others.column("algo").iter().all(String::is_empty));
    assert_eq!(
        rows("ddp-all", &["--where", "rank = 0"]).pick(&columns),
        [
            "4 AllGather 1 int64 1 RING LL 1",
            "4 AllReduce 1 fp32 40 RING LL 1",
            "4 AllReduce 1 fp32 41 RING LL 1",
            "4 AllReduce 1052160 bf16 39 RING LL 24",
            "4 AllReduce 1052928 bf16 39 RING LL 24",
            "4 AllReduce 1053440 bf16 39 RING LL 24",
            "4 AllReduce 2097152 bf16 39 RING LL128 24",
            "4 AllReduce 2097664 bf16 39 RING LL128 24",
            "4 AllReduce 7353344 bf16 1 RING SIMPLE 24",
            "4 Broadcast 136 int64 1 RING LL 1",
            "4 Broadcast 5 int32 1 RING LL 1",
            "4 Broadcast 51 int32 1 RING LL 1",
            "4 Broadcast 7353344 bf16 1 RING SIMPLE 24",
        ]
    );
}

#[test]
fn what_served_a_call_is_told_only_where_it_is_certain() {
    let told = |log: &str| {
        let out = feed("nccl-comms", &["--tuning"], log).ends(0);
        let columns = ["op", "count", "algo", "proto", "nchannels"];
        let out = Csv::of(&out);
        let row = |row: &Vec<String>| columns.map(|c| out.get(row, c).to_owned()).join(" ");
        out.rows.iter().map(row).collect::<Vec<_>>()
    };
    let call = |tid, count| coll(tid, "AllReduce", count, 0xa0, 8);
    let log = [
        // Two equal calls and one line; then two lines; then lines of two kinds.
        call(1, 256) + &call(1, 256) + &tuning("AllReduce", 1024, "RING proto LL"),
        call(1, 256) + &call(1, 256) + &tuning("AllReduce", 1024, "RING proto LL").repeat(2),
        call(1, 256) + &call(1, 256) + &tuning("AllReduce", 1024, "RING proto LL"),
        tuning("AllReduce", 1024, "TREE proto LL"),
        // One by one, of threads that take turns.
        call(1, 256) + &call(2, 256) + &tuning("AllReduce", 1024, "TREE proto SIMPLE"),
        call(1, 512) + &tuning("AllReduce", 2048, "PAT proto LL128"),
        // A name that is not known, and what has no channels.
        call(1, 256) + &tuning("AllReduce", 1024, "NEW proto LL"),
        call(1, 128) + &says(1, "512 Bytes -> Algo 1 proto 0 time 8.616000"),
        call(1, 64)
            + &says(
                1,
                "AllReduce [Copy Engine]: 256 Bytes -> cudaMemcpyBatchAsync",
            ),
        // Up to 2.23 one line for the three.
        call(1, 16) + &call(1, 16) + &call(1, 32),
        says(1, "256 Bytes -> Algo 0 proto 2 time 8.616000"),
        coll(1, "Send", 16, 0xa0, 8),
    ]
    .concat();
    assert_eq!(
        told(&log),
        [
            "AllReduce 256   ",
            "AllReduce 256   ",
            "AllReduce 256 RING LL 4",
            "AllReduce 256 RING LL 4",
            "AllReduce 256   ",
            "AllReduce 256   ",
            "AllReduce 256 TREE SIMPLE 4",
            "AllReduce 256   ",
            "AllReduce 512 PAT LL128 4",
            "AllReduce 256  LL 4",
            "AllReduce 128 RING LL ",
            "AllReduce 64 COPY_ENGINE  ",
            "AllReduce 16 TREE SIMPLE ",
            "AllReduce 16 TREE SIMPLE ",
            "AllReduce 32 TREE SIMPLE ",
            "Send 16   ",
        ]
    );
    // It goes through a pipe as any column does; a log without the lines is told how to get them.
    let work = Work::new();
    work.file("a.log", log);
    let piped = sh(
        work.dir(),
        "nccl-comms -q a.log --tuning | nccl-comms -q --unique",
    )
    .ends(0);
    let whole = sh(work.dir(), "nccl-comms -q a.log --tuning --unique").ends(0);
    assert_eq!(piped.text(), whole.text());
    feed("nccl-comms", &["--tuning"], coll(1, "AllReduce", 1, 1, 2))
        .ends(0)
        .says(&["the log has no TUNING lines", "INIT,COLL,TUNING"]);
    feed("nccl-comms", &["--tuning", "--format", "awk"], "").ends(2);
}
