//! Every kind of damage: what is said of it, word for word, and what is never lost by it.
//!
//! `BLESS=1` writes the expected files anew; the numbers in [`CASES`] are by hand.

use crate::support::{Account, Csv, Out, READERS, Work, arg, feed, run_in};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What is in a damaged log: its name, the calls that can be read, repaired and damaged lines.
const CASES: [(&str, u64, u64, u64); 28] = [
    ("almost-calls", 1, 0, 2),
    ("call-twins", 3, 0, 1),
    ("changed-word", 2, 0, 3),
    ("count-over-64-bits", 2, 0, 2),
    ("crlf", 2, 0, 1),
    ("cut-anywhere", 1, 0, 6),
    ("cut-glued", 3, 0, 2),
    ("cut-line", 2, 0, 1),
    ("escape-codes", 4, 0, 1),
    ("glued", 6, 0, 0),
    ("glued-hosts", 5, 0, 0),
    ("glued-row", 3, 0, 0),
    ("invalid-utf8", 2, 0, 1),
    ("no-line-end", 2, 0, 0),
    ("no-line-end-cut", 1, 0, 0),
    ("nul-bytes", 3, 0, 1),
    ("orphan-body", 3, 0, 1),
    ("own-cut-1023", 2, 0, 0),
    ("ray-repeats", 3, 0, 0),
    ("shared-file", 5, 0, 4),
    ("spliced-step", 4, 2, 0),
    ("torn-128", 4, 2, 0),
    ("torn-lost", 4, 0, 1),
    ("torn-or-not", 2, 0, 2),
    ("torn-twice", 4, 2, 0),
    ("trailing-blanks", 4, 0, 0),
    ("unknown-datatype", 3, 0, 1),
    ("wrapped", 1, 0, 2),
];

fn testdata(rel: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(rel)
}

/// Runs the programs on a log and puts down all they say.
fn told(dir: &Path, log: &str) -> String {
    let mut text = String::new();
    for command in [
        "nccl-comms -v",
        "nccl-comms --strict --format awk",
        "nccl-hist --by host",
        "nccl-steps --list",
    ] {
        let mut words = command.split(' ');
        let program = words.next().unwrap();
        let args: Vec<&str> = words.chain([log]).collect();
        let out = run_in(dir, program, &args).calm();
        let code = out.code.unwrap();
        writeln!(text, "$ {command} {log}\ncode {code}\n-- stdout").unwrap();
        text.push_str(&out.text());
        writeln!(text, "-- stderr\n{}", out.stderr).unwrap();
    }
    text
}

/// Compares with the expected file, or writes it under `BLESS`.
fn expected(name: &str, got: &str) -> Result<(), String> {
    let path = testdata(&format!("expect/bad/{name}.txt"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, got).unwrap();
        return Ok(());
    }
    let expect = std::fs::read(&path).map_err(|e| format!("{name}: {e} (BLESS=1 writes it)"))?;
    let expect = String::from_utf8_lossy(&expect).into_owned();
    if expect == got {
        return Ok(());
    }
    let differs = |(a, b): &(&str, &str)| a != b;
    let first = expect.lines().zip(got.lines()).find(differs);
    Err(match first {
        Some((expect, got)) => format!("{name}:\n  expected {expect}\n  got      {got}"),
        None => format!("{name}: one is longer"),
    })
}

#[test]
fn what_is_said_of_each_damage_is_said_word_for_word() {
    let dir = testdata("bad");
    let wrong: Vec<String> = CASES
        .iter()
        .filter_map(|(name, ..)| expected(name, &told(&dir, &format!("{name}.log"))).err())
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_damaged_log_has_its_numbers_by_hand() {
    let dir = testdata("bad");
    let names = crate::support::files(&dir);
    assert_eq!(names.len(), CASES.len(), "a log without numbers: {names:?}");
    let mut wrong = Vec::new();
    for (name, calls, repaired, damaged) in CASES {
        let out = run_in(&dir, "nccl-comms", &["-v", &format!("{name}.log")]).calm();
        let account = Account::of(&out);
        let got = (account.calls, account.repaired, account.damaged);
        if got != (calls, repaired, damaged) {
            wrong.push(format!(
                "{name}: {got:?}, not {:?}",
                (calls, repaired, damaged)
            ));
        }
        let rows = Csv::of(&out).rows.len() as u64;
        let code = i32::from(damaged > 0 || name == "unknown-datatype");
        if rows != calls || out.code != Some(code) {
            wrong.push(format!("{name}: {rows} rows, code {:?}", out.code));
        }
        for host in Csv::of(&out).column("host") {
            if !["gpu-a", "mew1", ""].contains(&host.as_str()) {
                wrong.push(format!("{name}: nobody is called `{host}`"));
            }
        }
        let bytes = std::fs::read(dir.join(format!("{name}.log"))).unwrap();
        if account.lines != crate::support::count_lines(&bytes) {
            wrong.push(format!("{name}: {} lines", account.lines));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn strict_refuses_every_damaged_log_and_takes_every_whole_one() {
    let dir = testdata("bad");
    for (name, _, _, damaged) in CASES {
        for program in ["nccl-comms", "nccl-hist"] {
            let out = run_in(&dir, program, &["--strict", &format!("{name}.log")]).calm();
            let refused = out.code == Some(2);
            assert_eq!(refused, damaged > 0, "{program} {name}: {}", out.stderr);
            if refused {
                out.says(&[&format!("{program}: error: {name}.log:")]);
            }
        }
    }
}

#[test]
fn damage_is_the_same_in_blocks_and_with_other_threads() {
    let dir = testdata("bad");
    for (name, ..) in CASES {
        let log = format!("{name}.log");
        let plain = run_in(&dir, "nccl-comms", &["-v", &log]).calm();
        for more in ["-j1", "-j4", "--no-mmap"] {
            let out = run_in(&dir, "nccl-comms", &["-v", more, &log]).calm();
            assert_eq!(out.text(), plain.text(), "{name} {more}");
            assert_eq!(out.stderr, plain.stderr, "{name} {more}");
        }
    }
}

#[test]
fn all_programs_end_well_on_every_cut_of_a_log() {
    let whole = std::fs::read(testdata("bad/torn-128.log")).unwrap();
    let mut bytes = whole.clone();
    bytes.extend(std::fs::read(testdata("bad/spliced-step.log")).unwrap());
    // Every cut costs a spawn: a prime number of bytes apart meets all fields.
    for cut in (0..bytes.len()).step_by(13) {
        let out = feed("nccl-comms", &["-v"], &bytes[..cut]).calm();
        if cut > 0 {
            assert_eq!(
                Account::of(&out).lines,
                crate::support::count_lines(&bytes[..cut])
            );
            assert_eq!(
                Account::of(&out).calls,
                Csv::of(&out).rows.len() as u64,
                "{cut}"
            );
        }
    }
    for program in READERS {
        for cut in [1, 100, 400, 900] {
            feed(program, &[], &bytes[..cut]).calm();
            feed(program, &[], &bytes[cut..]).calm();
        }
    }
}

#[test]
fn half_a_name_is_never_an_operation() {
    let p = crate::support::procs(1)[0];
    let call = p.call("AllReduce", 64, 7);
    let name = call.find("AllReduce").unwrap();
    let bar = "\rEpoch 0: :  11%|#         | 1/9 [00:06<00:49, v_num=0, reduced_train_loss=11.70, \
               global_step=0.000, train_step_timing in s=6.190]";
    let mut wrong = Vec::new();
    for cut in name - 3..name + "AllReduce: opCount 2c sendbuff".len() {
        let (head, tail) = call.split_at(cut);
        let labels = ["", "0: ", "[1,3]<stdout>:", "[default0]:"];
        let markers = [crate::support::nemo(0), bar.to_owned()];
        for (label, marker) in labels
            .iter()
            .flat_map(|l| markers.iter().map(move |m| (l, m)))
        {
            let log = format!("{label}{call}\n{label}{head}{marker}\n{label}{tail}\n");
            let out = feed("nccl-comms", &["-v"], log.as_str()).calm();
            let ops = Csv::of(&out).column("op");
            if ops.is_empty() || ops.len() > 2 || ops.iter().any(|op| op != "AllReduce") {
                wrong.push(format!("{log}{ops:?}"));
            }
            // What is not joined is said to be lost.
            if ops.len() < 2 && Account::of(&out).damaged == 0 {
                wrong.push(format!("{log}{}", out.stderr));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} logs:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The account and the number of rows of a log made here.
fn account(log: &[u8]) -> (Account, Out) {
    let work = Work::new();
    let path = work.file("made.log", log);
    let mapped = run_in(work.dir(), "nccl-comms", &["-v", arg(&path)]).calm();
    let read = run_in(work.dir(), "nccl-comms", &["-v", "--no-mmap", arg(&path)]).calm();
    assert_eq!(mapped.text(), read.text());
    assert_eq!(mapped.stderr, read.stderr);
    (Account::of(&mapped), mapped)
}

#[test]
fn a_line_of_a_megabyte_is_one_line() {
    let call = crate::support::procs(1)[0].call("AllReduce", 64, 7);
    let long = "x".repeat(1 << 20);
    let log = format!("{call}\n{long}\n{call}\n{long} {call}\n{call}{long}\n{call}\n");
    let (account, out) = account(log.as_bytes());
    assert_eq!((account.lines, account.calls, account.foreign), (6, 5, 1));
    assert_eq!(Csv::of(&out).rows.len(), 5);
}

#[test]
fn a_line_beyond_all_measure_is_said_and_the_lines_behind_it_are_read() {
    let call = crate::support::procs(1)[0].call("AllReduce", 64, 7);
    let mut log = format!("{call}\n").into_bytes();
    log.resize(log.len() + (20 << 20), b'x');
    log.extend(format!("\n{call}\n").bytes());
    let work = Work::new();
    let path = work.file("made.log", &log);
    for more in ["--mmap", "--no-mmap"] {
        let out = run_in(work.dir(), "nccl-comms", &["-v", more, arg(&path)]).calm();
        let account = Account::of(&out);
        assert_eq!(
            (account.lines, account.calls),
            (3, 2),
            "{more}: {}",
            out.stderr
        );
    }
}

#[test]
fn nothing_but_noise_is_no_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    let call = crate::support::procs(1)[0]
        .call("AllReduce", 64, 7)
        .into_bytes();
    for round in 0..20 {
        // A log with bytes changed at random.
        let mut log: Vec<u8> = Vec::new();
        for _ in 0..40 {
            log.extend(&call);
            log.push(b'\n');
        }
        for _ in 0..(round * 10) {
            let at = (usize::from(byte()) << 8 | usize::from(byte())) % log.len();
            log[at] = byte();
        }
        let lines = crate::support::count_lines(&log);
        let (account, out) = account(&log);
        assert_eq!(account.lines, lines);
        assert_eq!(account.calls, Csv::of(&out).rows.len() as u64);
    }
}

#[test]
fn what_is_quoted_from_a_log_cannot_drive_a_terminal() {
    let dir = testdata("bad");
    let out = run_in(&dir, "nccl-comms", &["-v", "escape-codes.log"]).ends(1);
    assert!(!out.stderr.contains('\u{1b}'), "{}", out.stderr);
    assert!(out.stderr.contains("\\u{1b}]0;pwned"), "{}", out.stderr);
    let drawn = run_in(
        &dir,
        "nccl-comms",
        &["--format", "table", "escape-codes.log"],
    )
    .ends(1);
    assert!(!drawn.text().contains('\u{1b}'));
}
