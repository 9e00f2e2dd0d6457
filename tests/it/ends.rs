//! How a run ends: closed pipes, full disks, wrong words, missing and strange files.

use crate::support::{
    ALL, READERS, Work, arg, bins, feed, job, long_job, run, run_in, sh, tuned_job,
};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A run of each program that writes a lot, or as much as it has to say.
const WRITERS: [&str; 16] = [
    "nccl-steps long.log",
    "nccl-steps -q long.log --list",
    "nccl-timing long.log --per-step",
    "nccl-comms long.log",
    "nccl-comms long.log --format jsonl",
    "nccl-ops long.log",
    "nccl-hist long.log --by step,comm",
    "nccl-agg long.log --by step,comm",
    "nccl-communicators -q long.log --members",
    "nccl-net -q tuned.log --hosts",
    "nccl-net -q tuned.log --dot",
    "nccl-tuning -q tuned.log --sizes",
    "nccl-check -q long.log",
    "nccl-check -q tuned.log --coverage",
    "nccl-check -q tuned.log --coverage --format jsonl",
    "nccl-synth --ranks 8 --steps 200",
];

fn long() -> Work {
    let work = Work::new();
    work.file("long.log", long_job());
    tuned_job(&work);
    work
}

#[test]
fn a_reader_that_goes_away_is_no_error_and_no_word_is_said() {
    let work = long();
    for writer in WRITERS {
        let out = sh(
            work.dir(),
            &format!("{writer} | head -1; echo code ${{PIPESTATUS[0]}}"),
        );
        let lines = out.lines();
        assert_eq!(lines.last().unwrap(), "code 0", "{writer}: {}", out.stderr);
        assert_eq!(lines.len(), 2, "{writer}");
        assert_eq!(out.stderr, "", "{writer}");
    }
    let script = "nccl-steps long.log | nccl-comms | nccl-hist | head -1; echo ${PIPESTATUS[*]}";
    let out = sh(work.dir(), script);
    assert_eq!(out.lines().last().unwrap(), "0 0 0 0", "{}", out.stderr);
    // Without a reader at all, and with a pipe as the input.
    let out = sh(
        work.dir(),
        "cat long.log | nccl-comms | true; echo ${PIPESTATUS[1]}",
    );
    assert_eq!((out.text().as_str(), out.stderr.as_str()), ("0\n", ""));
}

#[test]
fn a_full_disk_is_an_error_with_a_message() {
    let work = long();
    work.file("short.log", job(2, 3, 1));
    let short = [
        "nccl-steps short.log",
        "nccl-steps short.log --list",
        "nccl-steps short.log --list --format table",
        "nccl-timing short.log",
        "nccl-timing short.log --format awk",
        "nccl-comms short.log",
        "nccl-comms short.log --unique",
        "nccl-comms short.log --format table",
        "nccl-comms short.log --format awk",
        "nccl-ops short.log",
        "nccl-ops short.log --format awk",
        "nccl-hist short.log",
        "nccl-hist short.log --format jsonl",
        "nccl-hist short.log --format awk",
        "nccl-agg short.log",
        "nccl-agg short.log --format table",
        "nccl-diff short.log short.log",
        "nccl-check short.log",
        "nccl-check short.log --format csv",
        "nccl-check short.log --expect nodes=1",
        "nccl-synth --ranks 2 --steps 1",
        "nccl-synth --ranks 2 --steps 1 -o /dev/full",
        "nccl-synth --ranks 2 --steps 1 -o /dev/null --truth /dev/full",
    ];
    for writer in WRITERS.into_iter().chain(short) {
        let out = sh(work.dir(), &format!("{writer} > /dev/full")).ends(2);
        let program = writer.split(' ').next().unwrap();
        out.says(&[&format!("{program}: error: "), "No space left"]);
    }
    for program in ALL {
        for what in ["--help", "--version", "--generate man"] {
            let out = sh(work.dir(), &format!("{program} {what} > /dev/full")).calm();
            if what.starts_with("--generate") && program != "nccl-synth" {
                assert_eq!(out.code, Some(2), "{program} {what}: {}", out.stderr);
            }
        }
    }
}

#[test]
fn what_cannot_be_read_is_named_and_nothing_is_written() {
    let work = Work::new();
    std::fs::create_dir(work.dir().join("hollow")).unwrap();
    work.file("other/.hidden", "x\n");
    work.file("zip.log", b"PK\x03\x04\x14\x00\x00\x00");
    work.file("xz.log", b"\xfd7zXZ\x00\x00\x04");
    work.file("noise.log", [0_u8, 1, 2, 3, 4, 5, 6, 7].repeat(500));
    work.file("cut.log", &crate::support::gzip(b"x")[..9]);
    work.file(
        "torn.log",
        &crate::support::zstd(long_job().as_bytes())[..20],
    );
    for program in READERS {
        for (input, word) in [
            ("missing.log", "missing.log"),
            (
                "hollow",
                "hollow: expected NCCL logs in the folder, found no files",
            ),
            (
                "other",
                "other: expected NCCL logs in the folder, found no files",
            ),
            ("zip.log", "zip.log: a zip archive"),
            ("xz.log", "xz.log: an xz file"),
            ("noise.log", "noise.log: a binary file"),
            ("cut.log", "cut.log"),
            ("torn.log", "torn.log"),
        ] {
            let out = run_in(work.dir(), program, &[input]).ends(2);
            assert!(out.stdout.is_empty(), "{program} {input}");
            let out = out.says(&[&format!("{program}: error: "), word]);
            assert_eq!(
                out.stderr.lines().count(),
                1,
                "{program} {input}: {}",
                out.stderr
            );
        }
        let out = run(program, &["/bin/ls"]).ends(2);
        assert!(out.stdout.is_empty());
        out.says(&["/bin/ls: an ELF program or library"]);
    }
}

#[test]
fn an_empty_input_is_said_to_be_empty() {
    let work = Work::new();
    work.file("empty.log", "");
    work.file("packed.log", crate::support::gzip(b""));
    let tables = ["nccl-comms", "nccl-ops", "nccl-hist", "nccl-agg"];
    let others = ["nccl-communicators", "nccl-tuning", "nccl-net"];
    for program in tables.into_iter().chain(others) {
        for input in [
            "empty.log",
            "packed.log",
            "--no-mmap empty.log",
            "- < empty.log",
            "",
        ] {
            let out = sh(work.dir(), &format!("{program} {input}")).ends(1);
            assert!(
                out.stderr.contains("the input is empty"),
                "{program} {input}: {}",
                out.stderr
            );
        }
        // The table's header is written all the same; nccl-net says of each subject: unknown.
        let out = run_in(work.dir(), program, &["empty.log"]).ends(1);
        let unknown = out.lines().iter().any(|line| line.contains("unknown"));
        assert!(out.lines().len() == 1 || unknown, "{program}");
    }
    for program in ["nccl-steps", "nccl-timing"] {
        let out = run_in(work.dir(), program, &["empty.log"]).calm();
        assert_ne!(out.code, Some(0), "{program}");
        assert!(!out.stderr.is_empty(), "{program}");
    }
}

#[test]
fn an_empty_input_answers_nothing() {
    let work = Work::new();
    work.file("empty.log", "");
    work.file("good.log", job(2, 3, 1));
    for input in ["empty.log", "--no-mmap empty.log", "- < empty.log", ""] {
        let out = sh(work.dir(), &format!("nccl-check {input} --format csv")).ends(1);
        assert_eq!(out.lines().len(), 1, "{input}");
        out.says(&["the input is empty"]);
        sh(work.dir(), &format!("nccl-check --expect ranks=4 {input}")).ends(3);
        for sides in ["empty.log good.log", "good.log empty.log"] {
            let out = sh(work.dir(), &format!("nccl-diff {sides}")).calm();
            assert_ne!(out.code, Some(0), "{sides}");
            out.says(&["empty"]);
        }
    }
}

#[test]
fn what_cannot_be_compared_is_named() {
    let work = Work::new();
    work.file("good.log", job(2, 3, 1));
    work.file("noise.log", [0_u8, 1, 2, 3, 4, 5, 6, 7].repeat(500));
    for other in ["missing.log", "noise.log"] {
        for sides in [[other, "good.log"], ["good.log", other]] {
            let out = run_in(work.dir(), "nccl-diff", &sides).ends(2);
            assert!(out.stdout.is_empty(), "{sides:?}");
            out.says(&["nccl-diff: error: ", other]);
        }
    }
}

#[test]
fn runs_without_a_common_part_are_not_called_equal() {
    let work = Work::new();
    work.file("good.log", job(2, 3, 1));
    work.file("text.log", "hello\nworld\n");
    let out = run_in(work.dir(), "nccl-diff", &["good.log", "text.log"]).ends(3);
    out.says(&["nothing was compared: A and B have no part in common"]);
}

#[test]
fn a_wrong_path_is_answered_with_the_one_that_is_there() {
    let work = Work::new();
    work.file("run7/nccl.log", job(2, 3, 1));
    for program in READERS {
        let out = run_in(work.dir(), program, &["run7/ncll.log"]).ends(2);
        out.says(&["No such file or directory: did you mean run7/nccl.log?"]);
    }
}

/// A named pipe that has no writer is waited for, until a signal ends that.
#[test]
fn a_pipe_without_a_writer_does_not_outlive_a_signal() {
    let work = Work::new();
    for command in ["nccl-hist pipe", "nccl-hist pipe --follow"] {
        let line = format!("mkfifo pipe; timeout -s TERM -k 20 1 {command}; echo $?; rm pipe");
        // What `timeout` gives where its signal ended the program, and not the later SIGKILL.
        let out = sh(work.dir(), &line).ends(0);
        assert_eq!(out.text().lines().last(), Some("124"), "{command}");
    }
}

#[test]
fn a_link_that_leads_nowhere_is_followed_by_the_output() {
    let work = Work::new();
    work.file("good.log", job(2, 3, 1));
    let line = "ln -s made.csv link; ln -s round round; nccl-hist good.log -o link && test -L link && test -s made.csv";
    sh(work.dir(), line).ends(0);
    sh(work.dir(), "nccl-hist good.log -o round").ends(2);
}

#[test]
fn a_log_without_calls_says_what_would_bring_them() {
    for program in ["nccl-comms", "nccl-ops", "nccl-hist", "nccl-agg"] {
        let out = feed(program, &[], "hello\nworld\n").ends(0);
        out.says(&["no NCCL calls in 2 lines", "NCCL_DEBUG_SUBSYS=INIT,COLL"]);
    }
}

#[test]
fn one_missing_file_of_several_leaves_the_others() {
    let work = Work::new();
    work.file("a.log", job(2, 3, 1));
    work.file("b.log", job(2, 3, 1));
    for program in READERS {
        let both = run_in(work.dir(), program, &["a.log", "b.log"]).ends(0);
        let out = run_in(work.dir(), program, &["a.log", "missing.log", "b.log"]).ends(2);
        assert_eq!(out.text(), both.text(), "{program}");
        out.says(&[&format!("{program}: error: missing.log: ")]);
        let out = run_in(work.dir(), program, &["missing.log", "gone.log"]).ends(2);
        assert!(out.stdout.is_empty(), "{program}");
        out.says(&["missing.log", "gone.log"]);
    }
}

#[test]
fn a_closed_standard_error_changes_no_code() {
    let work = Work::new();
    work.file("good.log", job(2, 3, 1));
    work.file(
        "cut.log",
        job(2, 3, 1).replace("datatype 6 op 0", "datatype 6 o"),
    );
    for program in READERS {
        for (input, code) in [("good.log -v", 0), ("cut.log -v", 1), ("missing.log", 2)] {
            let out = sh(work.dir(), &format!("{program} {input} 2>&-"));
            assert_eq!(out.code, Some(code), "{program} {input}");
        }
        // What is written to a closed standard output is lost.
        let out = sh(work.dir(), &format!("{program} good.log >&-")).ends(2);
        out.says(&["standard output is closed"]);
    }
}

#[test]
fn wrong_words_are_usage_errors() {
    let work = Work::new();
    work.file("a.log", job(2, 3, 1));
    for program in ALL {
        for args in [&["--no-such-flag"][..], &["-Z"]] {
            let out = run_in(work.dir(), program, args).ends(2);
            assert!(out.stdout.is_empty(), "{program} {args:?}");
            assert!(out.stderr.contains(args[0]), "{program}: {}", out.stderr);
        }
    }
    for program in READERS {
        let out = run_in(work.dir(), program, &["-", "a.log", "-"]).ends(2);
        assert!(out.stdout.is_empty(), "{program}");
        out.says(&["standard input (-) can be named only once"]);
        for args in [
            &["-j0", "a.log"][..],
            &["-jx", "a.log"],
            &["--steps", "9..1", "a.log"],
            &["--marker", "middle", "a.log"],
            &["--compat", "perl", "a.log"],
            &["--format", "xml", "a.log"],
            &["--trainer", "nobody", "a.log"],
            &["--step-regex", "(", "a.log"],
            &["--step-regex", "no group", "a.log"],
        ] {
            let out = run_in(work.dir(), program, args).ends(2);
            assert!(out.stdout.is_empty(), "{program} {args:?}");
            assert!(!out.stderr.is_empty(), "{program} {args:?}");
        }
    }
    for (program, args) in [
        ("nccl-hist", &["--edges", "1MB,64KB"][..]),
        ("nccl-hist", &["--edges", "0"]),
        ("nccl-hist", &["--edges", "many"]),
        ("nccl-hist", &["--edges", "64KB", "--log2"]),
        ("nccl-hist", &["--by", "colour"]),
        ("nccl-ops", &["--basis", "bits"]),
        ("nccl-comms", &["--comm", "55d0"]),
        ("nccl-comms", &["--min-bytes", "1XB"]),
        ("nccl-comms", &["--rank", "first"]),
        ("nccl-comms", &["--unique", "--format", "awk"]),
        ("nccl-steps", &["--list", "--keep-init"]),
        ("nccl-timing", &["--per-step", "--format", "awk"]),
        ("nccl-synth", &["--layout", "per-rank"]),
        ("nccl-synth", &["--damage", "torn"]),
        ("nccl-synth", &["--ranks", "0"]),
    ] {
        let args = match program {
            "nccl-synth" => args.to_vec(),
            _ => [args, &["a.log"]].concat(),
        };
        let out = run_in(work.dir(), program, &args).ends(2);
        assert!(out.stdout.is_empty(), "{program} {args:?}");
        assert!(!out.stderr.is_empty(), "{program} {args:?}");
    }
}

#[test]
fn every_program_explains_itself() {
    for program in ALL {
        let long = run(program, &["--help"]).ends(0).text();
        let short = run(program, &["-h"]).ends(0).text();
        assert!(
            long.contains("Usage: ") && short.contains("Usage: "),
            "{program}"
        );
        assert!(
            long.contains("Examples:") && long.len() > short.len(),
            "{program}"
        );
        assert!(short.lines().all(|l| l.len() <= 100), "{program}");
        for flag in ["--version", "-V"] {
            let version = run(program, &[flag]).ends(0).text();
            let expect = format!("{program} {}\n", env!("CARGO_PKG_VERSION"));
            assert_eq!(version, expect);
        }
    }
}

#[test]
fn every_program_makes_its_man_page_and_completions() {
    for program in ALL {
        let man = run(program, &["--generate", "man"]).ends(0).text();
        assert!(man.contains(".TH") && man.contains(program), "{program}");
        let bash = run(program, &["--generate", "complete-bash"]).ends(0);
        assert!(bash.text().contains(&format!(" {program}\n")), "{program}");
        for shell in ["complete-zsh", "complete-fish"] {
            assert!(
                run(program, &["--generate", shell])
                    .ends(0)
                    .text()
                    .contains(program)
            );
        }
    }
}

#[test]
fn a_table_without_a_needed_column_is_named_with_who_makes_it() {
    let rows = "op,count,datatype,host\nSend,1,int8,a\n";
    for program in ["nccl-comms", "nccl-ops", "nccl-hist", "nccl-agg"] {
        feed(program, &[], rows).ends(0);
        for missing in ["op", "count", "datatype"] {
            let table = rows.replacen(missing, &format!("{missing}_2"), 1);
            let out = feed(program, &[], table).ends(2);
            // No row; a header may be out already.
            assert!(out.lines().len() <= 1, "{program}");
            out.says(&["stdin: ", &format!("\"{missing}\""), "nccl-comms"]);
        }
    }
}

/// Starts a program over a file that it maps, with nobody reading its output yet; shortens the
/// file; then reads. Gives the code, stderr, and whether a signal ended it.
fn truncated(args: &[&str]) -> (Option<i32>, String) {
    let work = Work::new();
    let log = work.file("running.log", "");
    let mut file = std::fs::File::create(&log).unwrap();
    let text = long_job().as_bytes();
    let mut written = 0;
    while written < 64 << 20 {
        file.write_all(text).unwrap();
        written += text.len();
    }
    file.flush().unwrap();
    let mut child = Command::new(bins().join(args[0]))
        .args(&args[1..])
        .arg(arg(&log))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first byte of output means that it reads; the pipe fills and stops it.
    let mut stdout = child.stdout.take().unwrap();
    let mut first = [0; 1];
    stdout.read_exact(&mut first).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    file.set_len(4096).unwrap();
    let drain = std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it hangs");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    drain.join().unwrap().unwrap();
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    (status.code(), stderr)
}

#[test]
fn a_mapped_log_that_shrinks_while_it_is_read_ends_with_its_name() {
    let (code, stderr) = truncated(&["nccl-comms", "-j1", "--format", "awk"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("running.log"), "{stderr}");
    assert!(
        stderr.contains("truncated") && stderr.contains("--follow"),
        "{stderr}"
    );
    assert!(stderr.starts_with("nccl-comms: error: "), "{stderr}");
}

#[test]
fn a_log_read_in_blocks_that_shrinks_is_reported() {
    let (code, stderr) = truncated(&["nccl-comms", "-j1", "--format", "awk", "--no-mmap"]);
    // It reads a file twice.
    assert_eq!(code, Some(2), "{stderr}");
    assert!(
        stderr.contains("running.log: the file was truncated"),
        "{stderr}"
    );
}

#[test]
fn strict_ends_at_the_first_damage() {
    let text = job(2, 3, 1);
    let cut = text.replacen("datatype 6 op 0", "datatype 6 o", 1);
    let line = 1 + cut.lines().position(|l| l.contains(" 6 o ")).unwrap();
    for program in READERS {
        feed(program, &["--strict"], text.as_str()).ends(0);
        let out = feed(program, &["--strict"], cut.as_str()).ends(2);
        out.says(&[&format!("{program}: error: stdin:{line}:")]);
        feed(program, &[], cut.as_str())
            .ends(1)
            .says(&[&format!("stdin:{line}:")]);
    }
}

#[test]
fn quiet_leaves_out_notes_but_not_warnings() {
    let text = job(2, 3, 1)
        .replace("iteration 2/", "iteration 1/")
        .replace("global_step: 2", "global_step: 0");
    let loud = feed("nccl-steps", &["--list"], text.as_str()).ends(0);
    let quiet = feed("nccl-steps", &["--list", "-q"], text.as_str()).ends(0);
    assert!(loud.stderr.contains("note: "), "{}", loud.stderr);
    assert_eq!(quiet.stderr, "");
    assert_eq!(loud.text(), quiet.text());
    let cut = text.replacen("datatype 6 op 0", "datatype 6 o", 1);
    feed("nccl-steps", &["--list", "-q"], cut)
        .ends(1)
        .says(&["damaged"]);
}
