//! Inputs that are no logs: what is recognised and refused, and a call table on any number of threads.

use crate::support::{READERS, Work, feed, gzip, job, long_job, run_in};

/// Texts that are no log, and what they are.
const OTHERS: [(&str, &str); 5] = [
    (
        "nccl_bus_bandwidth_gbs{version=\"v5.1\",node=\"vm\",gpu=\"GPU0\"} 0.621034\n",
        "stdin is a file of NCCL Inspector's metrics, which are means over an unknown number of calls: it \
         has no calls; nccl-ops --time reads its times",
    ),
    (
        "PK\u{3}\u{4}a.log",
        "stdin: a zip archive, expected a log as text (plain, gzip or zstd): unzip -p FILE | PROGRAM -",
    ),
    (
        "SQLite format 3\0CREATE TABLE TARGET_INFO_GPU (id INTEGER)",
        "stdin: the database cannot be read: file is not a database",
    ),
    (
        "SQLite format 3\0CREATE TABLE users (id INTEGER)",
        "stdin: an SQLite database, expected a log as text (plain, gzip or zstd), or an export of Nsight \
         Systems: nsys export --type sqlite --include-blobs=true REPORT",
    ),
    (
        "[{\"rank\": 0, \"calls\": 5}]\n",
        "stdin: a JSON file without calls, expected a log as text (plain, gzip or zstd)",
    ),
];

/// A log of Snoopie.
const ACCESS: &str = "op_code, addr, thread_indx, running_dev_id, mem_dev_id, code_linenum, code_line_index, \
                      code_line_estimated_status\nSTG.E,0x7f,1,1,0,125,7,1\n";

#[test]
fn what_is_no_log_is_refused_by_its_name() {
    for (text, error) in OTHERS {
        for program in READERS {
            // Any text may have step lines, so that a file of data is read where they are wanted.
            if error.contains("JSON") && ["nccl-steps", "nccl-timing"].contains(&program) {
                continue;
            }
            let out = feed(program, &[], text).ends(2);
            assert!(out.stdout.is_empty(), "{program}");
            let error = error.replace("PROGRAM", program);
            assert_eq!(out.stderr, format!("{program}: error: {error}\n"));
        }
    }
}

#[test]
fn a_part_that_a_table_lacks_is_named() {
    let table = "step,op,count,datatype\n1,Send,5,int8\n";
    for (program, part) in [
        ("nccl-steps", "step lines"),
        ("nccl-timing", "step lines"),
        ("nccl-communicators", "members of communicators"),
        ("nccl-net", "other lines of NCCL"),
        ("nccl-tuning", "algorithms"),
        ("nccl-check", "log lines"),
    ] {
        for (text, what) in [
            (table, "a call table"),
            ("Send 5 int8 5\n", "the output of the AWK chain"),
        ] {
            let out = feed(program, &[], text).ends(2);
            assert!(out.stdout.is_empty(), "{program}");
            let error = format!(
                "stdin is {what}: it has no {part}; an NCCL log has them; nccl-hist reads this input\n"
            );
            assert_eq!(out.stderr, format!("{program}: error: {error}"));
        }
    }
}

#[test]
fn a_trace_in_a_folder_of_logs_is_skipped() {
    let work = Work::new();
    work.file("job/nccl.log", job(2, 3, 1));
    work.file("job/a.zip", OTHERS[1].0);
    work.file("job/snoopie_log_1.csv", ACCESS);
    for program in READERS {
        let alone = run_in(work.dir(), program, &["job/nccl.log"]).ends(0);
        let out = run_in(work.dir(), program, &["job"]).ends(0);
        assert_eq!(out.text(), alone.text(), "{program}");
        let out = out.says(&[
            "job/a.zip (a zip archive)",
            "job/snoopie_log_1.csv (a log of Snoopie's accesses)",
        ]);
        assert!(out.stderr.contains("skipped"), "{}", out.stderr);
        // One that is named is an error, and the rest is read.
        let both = run_in(work.dir(), program, &["job/nccl.log", "job/a.zip"]).ends(2);
        both.says(&["error: job/a.zip: a zip archive, expected a log as text"]);
    }
}

#[test]
fn a_table_gives_the_same_on_any_number_of_threads() {
    let work = Work::new();
    // More than a chunk, with fields that go on over line ends, torn rows and several steps.
    let rows = (0..60_000_u64).map(|i| {
        let host = if i % 97 == 0 { "\"a\nb\"" } else { "node" };
        let count = if i % 5003 == 0 {
            "x".to_owned()
        } else {
            (i % 999).to_string()
        };
        let op = ["AllReduce", "Send", "AllGather"][i as usize % 3];
        format!(
            "{},{host},{},{i},{op},{count},bf16,0x7f00,0x5500\n",
            i / 6000,
            i % 7
        )
    });
    let header = "step,host,pid,op_count,op,count,datatype,comm,stream\n";
    let table = format!("{header}{}", rows.collect::<String>());
    assert!(table.len() > 2 << 20);
    work.file("a.csv", &table);
    for (program, args) in [
        ("nccl-comms", &["--op", "Send"][..]),
        ("nccl-comms", &["--unique", "--steps", "3..4"]),
        ("nccl-hist", &["--by", "step,host"]),
        ("nccl-agg", &[]),
        ("nccl-diff", &["a.csv"]),
    ] {
        let with = |jobs| {
            run_in(
                work.dir(),
                program,
                &[args, &["a.csv", "-j", jobs]].concat(),
            )
        };
        let (one, two) = (with("1"), with("2"));
        assert_eq!(one.code, two.code, "{program}");
        assert!(one.stdout == two.stdout, "{program} {args:?}");
        assert_eq!(one.stderr, two.stderr, "{program} {args:?}");
        assert!(
            !one.stdout.is_empty() || program == "nccl-diff",
            "{}",
            one.stderr
        );
    }
}

#[test]
fn a_folder_gives_the_same_on_any_number_of_threads() {
    let work = Work::new();
    // Small logs, one of several chunks, packed ones, a torn one, data, a table.
    for rank in 1..9 {
        let log = job(rank % 4 + 1, 4, 1).replace("node", &format!("r{rank}n"));
        work.file(
            &format!("job/r{rank}.log"),
            &log[..log.len() - 40 * (rank as usize % 2)],
        );
        work.file(
            &format!("job/r{rank}.log.gz"),
            gzip(log.replace(&format!("r{rank}n"), "q").as_bytes()),
        );
    }
    work.file("job/s.log", long_job());
    work.file("job/s.log.gz", gzip(long_job().as_bytes()));
    work.file("job/t.json", OTHERS[0].0);
    work.file("job/u.csv", "op,count,datatype\nSend,5,int8\nSend,x,int8\n");
    work.file("other.log", job(2, 4, 1));
    for program in READERS {
        let args: &[&str] = match program {
            "nccl-diff" => &["other.log"],
            _ => &[],
        };
        let with = |jobs| run_in(work.dir(), program, &[args, &["job", "-j", jobs]].concat());
        let (one, three) = (with("1"), with("3"));
        assert_eq!(one.code, three.code, "{program}");
        assert!(one.stdout == three.stdout, "{program}");
        assert_eq!(one.stderr, three.stderr, "{program}");
    }
}

#[test]
fn what_a_program_cannot_read_is_refused_with_the_command_that_can() {
    let work = Work::new();
    work.file("run.nsys-rep", [0_u8, 1, 2, 3, 4, 5, 6, 7].repeat(500));
    work.file("a.log.xz", b"\xfd7zXZ\x00\x00\x04");
    work.file("a.log.bz2", b"BZh91AY&SY");
    let trace = crate::support::root().join("testdata/kineto/ep-rank0.json.gz");
    std::fs::copy(trace, work.dir().join("trace.json.gz")).unwrap();
    for (program, input, says) in [
        (
            "nccl-hist",
            "run.nsys-rep",
            "nsys export --type sqlite --include-blobs=true run.nsys-rep",
        ),
        ("nccl-hist", "a.log.xz", ": xz -dc a.log.xz | nccl-hist -"),
        (
            "nccl-pipe",
            "a.log.bz2",
            ": bzip2 -dc a.log.bz2 | nccl-pipe -",
        ),
        (
            "nccl-check",
            "trace.json.gz",
            "; nccl-overlap reads this input",
        ),
        (
            "nccl-check",
            "https://a.b/c.log",
            ": curl -L https://a.b/c.log | nccl-check -",
        ),
        (
            "nccl-pipe",
            "https://a.b/c.log",
            ": curl -L https://a.b/c.log | nccl-pipe -",
        ),
    ] {
        run_in(work.dir(), program, &[input]).ends(2).says(&[says]);
    }
}
