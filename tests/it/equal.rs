//! The same calls by another way are the same bytes: another program in front, other threads,
//! another way in, another table between.

use crate::support::{
    Csv, READERS, STEPLESS, Work, arg, data, feed, gzip, job, long_job, run, run_in, sh, tuned_job,
    zstd,
};

/// What counts calls, with groupings that survive the pipe.
const COUNTERS: [&str; 9] = [
    "nccl-hist",
    "nccl-hist --by step",
    "nccl-hist --by host",
    "nccl-hist --by step,datatype --basis wire",
    "nccl-hist --log2",
    "nccl-ops --by step",
    "nccl-ops --by comm --basis message",
    "nccl-agg",
    "nccl-agg --by host,step",
];

#[test]
fn a_window_through_the_pipe_is_the_window_at_once() {
    let work = Work::new();
    work.file("nccl.log", job(6, 12, 2));
    for counter in COUNTERS {
        // Behind nccl-steps the numbers of the steps are the same: its lines are passed too.
        let piped = format!("nccl-steps nccl.log --steps 4..7 | nccl-comms | {counter}");
        let piped = sh(work.dir(), &piped).ends(0);
        let at_once = sh(work.dir(), &format!("{counter} nccl.log --steps 4..7")).ends(0);
        assert!(at_once.lines().len() > 3);
        assert_eq!(piped.text(), at_once.text(), "{counter}");
    }
}

#[test]
fn a_window_keeps_its_ranks_if_asked_to() {
    let work = Work::new();
    work.file("nccl.log", job(6, 12, 1));
    for by in ["rank", "comm_id", "rank,step"] {
        let piped = format!(
            "nccl-steps nccl.log --steps 4..7 --keep-init | nccl-comms --steps 4..7 | \
             nccl-hist --by {by}"
        );
        let piped = sh(work.dir(), &piped).ends(0);
        let at_once = sh(
            work.dir(),
            &format!("nccl-hist nccl.log --steps 4..7 --by {by}"),
        );
        assert_eq!(piped.text(), at_once.ends(0).text(), "{by}");
    }
}

#[test]
fn the_awk_chains_log_through_the_pipe_is_the_same_at_once() {
    let Some(log) = data("awk-chain/nemo-4ranks.log") else {
        return;
    };
    for counter in COUNTERS {
        let piped = format!("nccl-steps nemo-4ranks.log --steps 45..49 | nccl-comms | {counter}");
        let piped = sh(log.parent().unwrap(), &piped).ends(0);
        let at_once = format!("{counter} nemo-4ranks.log --steps 45..49");
        let at_once = sh(log.parent().unwrap(), &at_once).ends(0);
        assert_eq!(piped.text(), at_once.text(), "{counter}");
    }
}

#[test]
fn the_number_of_threads_changes_no_byte() {
    let work = Work::new();
    let log = work.file("nccl.log", long_job());
    assert!(log.metadata().unwrap().len() > 9 << 20);
    for (program, more) in [
        ("nccl-steps", "--steps=3..50"),
        ("nccl-steps", "--list"),
        ("nccl-timing", "--per-step"),
        ("nccl-comms", "--steps=2..58"),
        ("nccl-comms", "--unique"),
        ("nccl-ops", "--by=rank,step"),
        ("nccl-hist", "--by=comm"),
        ("nccl-agg", "--by=comm_id"),
    ] {
        let of = |jobs: &str| run(program, &[arg(&log), more, "-v", jobs]).ends(0);
        let (one, two, five) = (of("-j1"), of("-j2"), of("-j5"));
        assert!(one.stdout.len() > 100);
        assert!(one.stdout == two.stdout, "{program} {more} -j2");
        assert!(one.stdout == five.stdout, "{program} {more} -j5");
        assert_eq!(one.stderr, two.stderr, "{program} {more}");
        assert_eq!(one.stderr, five.stderr, "{program} {more}");
    }
}

#[test]
fn what_other_lines_say_is_the_same_by_threads_and_by_ways_in() {
    let work = Work::new();
    assert!(tuned_job(&work).metadata().unwrap().len() > 9 << 20);
    for program in [
        "nccl-net",
        "nccl-net --hosts",
        "nccl-net --pairs",
        "nccl-tuning --sizes --channels",
        "nccl-communicators --members",
    ] {
        let of = |way: &str| sh(work.dir(), &way.replace('P', program)).ends(0);
        let one = of("P tuned.log -j1");
        assert!(one.lines().len() > 10, "{program}");
        for way in [
            "P tuned.log -j2",
            "P tuned.log -j5",
            "P tuned.log --no-mmap",
            "cat tuned.log | P -j3",
        ] {
            let other = of(way);
            assert!(one.stdout == other.stdout, "{program}: {way}");
            assert_eq!(one.stderr, other.stderr, "{program}: {way}");
        }
    }
}

#[test]
fn every_way_in_gives_the_same_bytes() {
    let work = Work::new();
    let text = job(8, 40, 6);
    assert!(text.len() > 1 << 20, "more than one block");
    work.file("nccl.log", &text);
    work.file("packed.log", gzip(text.as_bytes()));
    // Two members, as rotated logs are packed, and cut inside a line.
    let (a, b) = text.as_bytes().split_at(text.len() / 2);
    work.file("members.log", [gzip(a), gzip(b)].concat());
    work.file("packed.log.old", zstd(text.as_bytes()));
    work.file("frames.log", [zstd(a), zstd(b)].concat());
    for program in READERS {
        for more in ["--steps 7..30", ""] {
            if STEPLESS.contains(&program) && !more.is_empty() {
                continue;
            }
            let expect = sh(work.dir(), &format!("{program} nccl.log {more}")).ends(0);
            assert!(expect.stdout.len() > 50, "{program}");
            for way in [
                "P nccl.log --no-mmap",
                "P - < nccl.log",
                "P < nccl.log",
                "P --no-mmap < nccl.log",
                "cat nccl.log | P",
                "cat nccl.log | P -",
                "P packed.log",
                "P --no-mmap packed.log",
                "P < packed.log",
                "cat packed.log | P",
                "P members.log",
                "P packed.log.old",
                "cat packed.log.old | P",
                "P < frames.log",
                "P <(cat nccl.log)",
            ] {
                let script = format!("{} {more}", way.replace('P', program));
                let script = if let Some((cmd, file)) = way.split_once(" < ") {
                    format!("{} {more} < {file}", cmd.replace('P', program))
                } else {
                    script
                };
                let got = sh(work.dir(), &script).ends(0);
                assert!(got.stdout == expect.stdout, "{script}");
            }
        }
    }
}

#[test]
fn findings_and_differences_are_the_same_by_every_way_in() {
    let work = Work::new();
    let made = "nccl-synth --ranks 8 --tp 2 --pp 2 --steps 12";
    sh(work.dir(), &format!("{made} --fault skip -o bad.log")).ends(0);
    sh(
        work.dir(),
        &format!("{made} --damage torn=0.02 -o good.log"),
    )
    .ends(0);
    let other = "nccl-synth --ranks 8 --tp 4 --steps 12 -o other.log";
    sh(work.dir(), other).ends(0);
    for name in ["bad", "good", "other"] {
        let text = std::fs::read(work.dir().join(format!("{name}.log"))).unwrap();
        work.file(&format!("{name}.gz"), gzip(&text));
        work.file(&format!("{name}.zst"), zstd(&text));
    }
    // The input's name aside.
    let check = |way: &str, code: i32| {
        let csv = Csv::of(&sh(work.dir(), &format!("{way} --format csv")).ends(code));
        let columns = csv.columns.iter().map(String::as_str);
        let columns: Vec<&str> = columns.filter(|&c| c != "input").collect();
        // What is said of a log as it was written begins with its name.
        let nameless = |row: String| match row.split_once(" lines_torn ") {
            Some((_, says)) => says.split_once(": ").unwrap().1.to_owned(),
            None => row,
        };
        csv.pick(&columns)
            .into_iter()
            .map(nameless)
            .collect::<Vec<_>>()
    };
    for (name, code) in [("bad", 1), ("good", 0)] {
        let expect = check(&format!("nccl-check {name}.log"), code);
        let only_torn = expect.len() == 1 && expect[0].contains(" torn and rejoined");
        assert_eq!(only_torn, code == 0, "{expect:?}");
        for way in [
            "nccl-check F.log -j1",
            "nccl-check F.log --no-mmap",
            "cat F.log | nccl-check",
            "cat F.gz | nccl-check - -j3",
            "nccl-check F.gz",
            "nccl-check F.zst",
        ] {
            let way = way.replace('F', name);
            assert_eq!(check(&way, code), expect, "{way}");
        }
    }
    let diff = |way: &str| sh(work.dir(), way).ends(1).text();
    let expect = diff("nccl-diff good.log other.log");
    for way in [
        "nccl-diff good.log other.log -j1",
        "nccl-diff good.log other.log --no-mmap",
        "cat good.log | nccl-diff - other.zst",
        "nccl-diff good.gz - < other.log",
    ] {
        assert_eq!(diff(way), expect, "{way}");
    }
}

#[test]
fn unique_rows_and_rows_count_the_same() {
    let work = Work::new();
    work.file("nccl.log", job(8, 10, 3));
    for counter in COUNTERS
        .into_iter()
        .chain(["nccl-hist --by rank", "nccl-ops --by comm_id"])
    {
        let direct = sh(work.dir(), &format!("{counter} nccl.log"))
            .ends(0)
            .text();
        for table in [
            "nccl-comms nccl.log",
            "nccl-comms nccl.log --unique",
            "nccl-comms nccl.log --format jsonl",
            "nccl-comms nccl.log --unique --format jsonl",
            "nccl-comms nccl.log | nccl-comms --unique",
            "nccl-comms nccl.log --format jsonl | nccl-comms",
        ] {
            // Equal calls of all steps are one row, unless steps are asked for.
            if table.contains("--unique") && counter.contains("step") {
                let window = "--steps 2..4";
                let direct = sh(work.dir(), &format!("{counter} nccl.log {window}")).ends(0);
                let got = sh(work.dir(), &format!("{table} {window} | {counter}")).ends(0);
                assert_eq!(got.text(), direct.text(), "{table} {window} | {counter}");
                continue;
            }
            let got = sh(work.dir(), &format!("{table} | {counter}")).ends(0);
            assert_eq!(got.text(), direct, "{table} | {counter}");
        }
    }
}

#[test]
fn a_table_read_and_written_again_is_the_same_table() {
    let work = Work::new();
    work.file("nccl.log", job(4, 3, 1));
    for form in ["csv", "jsonl"] {
        for unique in ["", "--unique"] {
            let once = format!("nccl-comms nccl.log {unique} --format {form}");
            let twice = format!("{once} | nccl-comms {unique} --format {form}");
            let once = sh(work.dir(), &once).ends(0).text();
            assert_eq!(
                sh(work.dir(), &twice).ends(0).text(),
                once,
                "{form} {unique}"
            );
        }
    }
}

#[test]
fn the_chains_lines_give_the_same_calls_by_size() {
    let work = Work::new();
    work.file("nccl.log", job(8, 10, 2));
    let direct = sh(work.dir(), "nccl-hist nccl.log").ends(0);
    let chain = sh(work.dir(), "nccl-comms nccl.log --format awk | nccl-hist").ends(0);
    let columns = [
        "op",
        "bucket",
        "from_bytes",
        "to_bytes",
        "calls",
        "total_bytes",
    ];
    let (direct, chain) = (Csv::of(&direct), Csv::of(&chain));
    assert_eq!(direct.pick(&columns), chain.pick(&columns));
    // Who made the calls is not in these lines, and is not guessed.
    assert!(chain.column("gpus").iter().all(String::is_empty));
    let agg = sh(work.dir(), "nccl-agg nccl.log").ends(0).text();
    let chain = sh(work.dir(), "nccl-comms nccl.log --format awk | nccl-agg").ends(0);
    assert_eq!(chain.text(), agg);
}

#[test]
fn several_files_and_a_folder_of_them_are_one_log_each_and_one_sum() {
    let work = Work::new();
    let text = job(4, 6, 1);
    // Two files of two hosts' lines; the trainer prints into one of them only.
    let (mut one, mut two) = (String::new(), String::new());
    for line in text.lines() {
        let to = if line.contains(":7022:") || line.contains(":7033:") {
            &mut two
        } else {
            &mut one
        };
        to.push_str(line);
        to.push('\n');
    }
    work.file("logs/a.log", &one);
    work.file("logs/deep/b.log", &two);
    work.file("logs/.hidden", "not a log\n");
    work.file("whole.log", &text);
    for counter in [
        "nccl-hist",
        "nccl-agg",
        "nccl-ops --by host",
        "nccl-hist --by rank",
    ] {
        let whole = sh(work.dir(), &format!("{counter} whole.log"))
            .ends(0)
            .text();
        for inputs in [
            "logs",
            "logs/a.log logs/deep/b.log",
            "logs/deep logs/a.log",
            "logs/a.log - < logs/deep/b.log",
        ] {
            let got = sh(work.dir(), &format!("{counter} {inputs}")).ends(0);
            assert_eq!(got.text(), whole, "{counter} {inputs}");
        }
    }
    let parts = run_in(work.dir(), "nccl-comms", &["logs"]).ends(0);
    assert_eq!(
        Csv::of(&parts).rows.len(),
        text.matches(": opCount ").count()
    );
}

#[test]
fn the_last_line_counts_without_a_line_end_and_with_a_carriage_return() {
    let text = job(4, 3, 1);
    let trimmed = text.trim_end_matches('\n');
    let dos = text.replace('\n', "\r\n");
    for program in ["nccl-hist", "nccl-comms", "nccl-timing"] {
        let expect = feed(program, &[], text.as_str()).ends(0);
        assert_eq!(feed(program, &[], trimmed).ends(0).text(), expect.text());
        assert_eq!(
            feed(program, &[], dos.as_str()).ends(0).text(),
            expect.text()
        );
    }
}
