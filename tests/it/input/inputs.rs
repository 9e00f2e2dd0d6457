//! What programs are given to read: many threads or none, the same log twice, folders with all
//! sorts of files, logs that change while they are read, packed files that are cut, endless lines.

use crate::support::{
    Account, Csv, Out, READERS, Work, arg, bins, captured, feed, gzip, job, long_job, run_in, sh,
    skipped, zstd,
};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn a_machine_that_starts_no_thread_is_worked_with_one() {
    let work = Work::new();
    work.file("long.log", long_job());
    for program in [
        "nccl-hist long.log -j4",
        "nccl-hist long.log --by step,comm -j4",
        "nccl-comms long.log -j4",
        "nccl-hist long.log long.log -j65535",
    ] {
        let usual = sh(work.dir(), program).ends(0);
        // No thread has room for such a stack.
        let alone = sh(
            work.dir(),
            &format!("RUST_MIN_STACK={} {program}", 1_u64 << 46),
        )
        .ends(0);
        assert!(usual.stdout == alone.stdout, "{program}");
        assert_eq!(usual.stderr, alone.stderr, "{program}");
    }
}

/// What is said of inputs that hold the same calls.
const TWICE: &str = "counted twice";

#[test]
fn a_file_with_several_names_is_read_once() {
    let work = Work::new();
    work.file("logs/run1.log", job(2, 3, 1));
    std::os::unix::fs::symlink("run1.log", work.dir().join("logs/z-latest.log")).unwrap();
    std::fs::hard_link(
        work.dir().join("logs/run1.log"),
        work.dir().join("logs/z-hard.log"),
    )
    .unwrap();
    for program in READERS {
        let once = run_in(work.dir(), program, &["logs/run1.log"]).ends(0);
        for inputs in [
            &["logs"][..],
            &["logs/run1.log"; 2],
            &["logs/run1.log", "./logs"],
        ] {
            let out = run_in(work.dir(), program, inputs).ends(0);
            assert_eq!(out.text(), once.text(), "{program} {inputs:?}");
            assert!(!out.stderr.contains(TWICE), "{program}: {}", out.stderr);
            out.says(&[
                "note: files with several names were read once: ",
                "logs/run1.log",
            ]);
        }
    }
    // Two sides of a comparison are two.
    let out = run_in(work.dir(), "nccl-diff", &["logs/run1.log", "logs"]).ends(0);
    assert!(!out.stderr.contains("twice"), "{}", out.stderr);
}

/// Runs the programs on inputs that hold the same calls: of the `pair`, the later one is reported.
#[track_caller]
fn all_warn(work: &Work, inputs: &[&str], pair: [&str; 2]) {
    for program in READERS {
        let out = run_in(work.dir(), program, inputs).calm();
        let [of, copy] = pair;
        out.says(&[&format!("{copy}: its calls are also in {of}")]);
    }
}

/// Runs the programs on inputs that hold different calls.
#[track_caller]
fn none_warns(work: &Work, inputs: &[&str]) {
    for program in READERS {
        let out = run_in(work.dir(), program, inputs).calm();
        assert!(
            !out.stderr.contains(TWICE),
            "{program} {inputs:?}: {}",
            out.stderr
        );
    }
}

#[test]
fn a_copy_of_a_log_is_warned_of_packed_or_not() {
    let work = Work::new();
    let log = job(2, 3, 1);
    work.file("a.log", &log);
    work.file("b.log", &log);
    work.file("a.log.gz", gzip(log.as_bytes()));
    work.file("short.log", &log[..log.len() * 2 / 3]);
    all_warn(&work, &["a.log", "b.log"], ["a.log", "b.log"]);
    all_warn(&work, &["a.log", "a.log.gz"], ["a.log", "a.log.gz"]);
    all_warn(&work, &["short.log", "a.log"], ["a.log", "short.log"]);
    let piped = sh(work.dir(), "nccl-hist a.log - < b.log");
    piped.says(&["stdin: its calls are also in a.log"]);
}

#[test]
fn a_copy_of_records_is_warned_of_whole_or_in_part() {
    let work = Work::new();
    let record = |pid: u32| {
        let file = captured("fsdp-inspector").join(format!("vm-pid{pid}.log.gz"));
        let text = std::fs::read(file).unwrap();
        std::io::read_to_string(flate2::read::GzDecoder::new(&text[..])).unwrap()
    };
    let (one, other) = (record(3753), record(3755));
    let lines: Vec<&str> = one.lines().collect();
    work.file("a.log", &one);
    work.file("copy.log", &one);
    work.file("part.log", lines[..90].join("\n") + "\n");
    // The second part of a file that was rotated, and another rank's.
    work.file("rest.log", lines[90..].join("\n") + "\n");
    work.file("other.log", &other);
    for program in ["nccl-ops", "nccl-comms", "nccl-skew"] {
        let run = |inputs: &[&str]| run_in(work.dir(), program, inputs);
        for copy in ["copy.log", "part.log"] {
            run(&["a.log", copy, "other.log"])
                .ends(0)
                .says(&[&format!("{copy}: its calls are also in a.log")]);
        }
        let out = run(&["part.log", "rest.log", "other.log"]).ends(0);
        assert!(!out.stderr.contains(TWICE), "{program}: {}", out.stderr);
    }
}

/// The lines of each process of a job, its step lines left out.
fn by_rank(log: &str, ranks: u32) -> Vec<String> {
    let of = |p: &crate::support::Proc| {
        let head = format!("{}:{}:", p.host, p.pid);
        let own = |line: &&str| line.starts_with(&head);
        log.split_inclusive('\n').filter(own).collect::<String>()
    };
    crate::support::procs(ranks).iter().map(of).collect()
}

#[test]
fn ranks_files_and_what_they_were_joined_into_are_warned_of() {
    for calls_only in [false, true] {
        let mut log = job(4, 3, 2);
        if calls_only {
            // A log of calls alone, by a NCCL that counts them.
            let number =
                |(i, line): (usize, &str)| line.replace("opCount 2c", &format!("opCount {i:x}"));
            let is_call = |line: &&str| line.contains("opCount");
            log = log
                .split_inclusive('\n')
                .filter(is_call)
                .enumerate()
                .map(number)
                .collect();
        }
        let files = by_rank(&log, 4);
        let work = Work::new();
        for (rank, file) in files.iter().enumerate() {
            work.file(&format!("ranks/r{rank}.log"), file);
        }
        work.file("all.log", files.concat());
        work.file("sum.log", files.concat());
        work.file("stream.log", &log);
        all_warn(
            &work,
            &["ranks", "sum.log"],
            ["ranks/r0.log and in 3 more inputs", "sum.log"],
        );
        all_warn(&work, &["all.log", "ranks"], ["all.log", "ranks/r2.log"]);
        all_warn(
            &work,
            &["ranks", "stream.log"],
            ["ranks/r0.log", "stream.log"],
        );
        none_warns(&work, &["ranks"]);
    }
}

#[test]
fn a_check_beside_copies_is_that_of_one_copy() {
    let log = job(4, 6, 2);
    let work = Work::new();
    let answer = |inputs: &[&str]| {
        let out = run_in(work.dir(), "nccl-check", &[inputs, &["-f", "csv"]].concat()).calm();
        (out.code, out.text().replace("b.log", "a.log"))
    };
    // The last rank stops in the middle of its calls.
    let last = by_rank(&log, 4).pop().unwrap();
    let calls = last.lines().filter(|line| line.contains("opCount"));
    let gone: Vec<&str> = calls.skip(7).collect();
    let is_kept = |line: &&str| !gone.contains(&line.trim_end());
    let hung: String = log.split_inclusive('\n').filter(is_kept).collect();
    for log in [log, hung] {
        work.file("a.log", &log);
        work.file("b.log", &log);
        work.file("a.log.gz", gzip(log.as_bytes()));
        work.file("short.log", &log[..log.len() * 2 / 3]);
        // One file has step lines after calls of its own rank, the log after calls of any.
        let files = by_rank(&log, 4);
        let steps = log.lines().filter(|line| !line.contains("NCCL"));
        for (rank, file) in files.iter().enumerate() {
            work.file(&format!("ranks/r{rank}.log"), file);
        }
        let steps: String = steps.map(|line| format!("{line}\n")).collect();
        work.file("ranks/r0.log", files[0].clone() + &steps);
        let alone = answer(&["a.log"]);
        for more in ["a.log.gz", "b.log"] {
            assert_eq!(answer(&["a.log", more]), alone, "{more}");
        }
        // A part may have lines of its own, and the cut log lacks calls of the ranks.
        let cut = log[..log.len() / 3].rfind('\n').map_or(0, |at| at + 1);
        work.file("end.log", &log[cut..]);
        let parts = ["short.log", "ranks", "end.log"].map(|part| ["a.log", part]);
        for inputs in [&parts[..], &[["short.log", "ranks"]]].concat() {
            let args = [&inputs[..], &["-f", "text"]].concat();
            let out = run_in(work.dir(), "nccl-check", &args);
            assert!(out.text().starts_with("not judged: "), "{}", out.text());
            assert_eq!(out.code, Some(3), "{inputs:?}");
        }
        let raised = "Traceback (most recent call last):\nRuntimeError: CUDA error: made up\n";
        work.file("ranks/r3.log", files[3].clone() + raised);
        let args = ["a.log", "ranks/r3.log", "-f", "text"];
        let out = run_in(work.dir(), "nccl-check", &args);
        assert!(out.text().contains("raised RuntimeError"), "{}", out.text());
    }
}

#[test]
fn a_stretch_of_a_log_beside_it_is_warned_of_and_other_stretches_are_not() {
    let work = Work::new();
    // Every step is the same, and opCount stands still.
    work.file("whole.log", job(4, 12, 1).replace(" count ", " count 1"));
    for (name, steps) in [("a", "2..4"), ("b", "3..3"), ("c", "5..7")] {
        for more in ["", "--keep-init"] {
            let cut = format!("nccl-steps whole.log --steps {steps} {more} > {name}{more}.log");
            sh(work.dir(), &cut).ends(0);
        }
    }
    for more in ["", "--keep-init"] {
        let [a, b, c] = ["a", "b", "c"].map(|name| format!("{name}{more}.log"));
        all_warn(&work, &["whole.log", &c], [&c, "whole.log"]);
        all_warn(&work, &[&a, "whole.log"], [&a, "whole.log"]);
        all_warn(&work, &[&a, &b], [&a, &b]);
        none_warns(&work, &[&a, &c]);
        none_warns(&work, &[&c, &b]);
    }
}

#[test]
fn parts_of_a_log_and_other_runs_are_not_taken_for_copies() {
    let work = Work::new();
    let log = job(4, 12, 1);
    // Rotated where a step begins.
    let step = log.find("global_step: 5 ").unwrap();
    let cut = step + log[step..].find('\n').unwrap() + 1;
    work.file("nccl.log.1", &log[..cut]);
    work.file("nccl.log.2", &log[cut..]);
    none_warns(&work, &["nccl.log.1", "nccl.log.2"]);
    for (rank, file) in by_rank(&log, 4).iter().enumerate() {
        let lines: Vec<&str> = file.split_inclusive('\n').collect();
        let calls = lines.iter().position(|l| l.contains("opCount")).unwrap();
        let (a, b) = lines.split_at(calls + 4 * 5);
        work.file(&format!("rotated/r{rank}.log.1"), a.concat());
        work.file(&format!("rotated/r{rank}.log.2"), b.concat());
    }
    none_warns(&work, &["rotated"]);
    // A container's pids are the same each time, addresses are not.
    work.file("again.log", log.replace("comm 0x55d0", "comm 0x55d1"));
    work.file("nccl.log", &log);
    none_warns(&work, &["nccl.log", "again.log"]);
}

/// A job's lines of NCCL alone, by a NCCL that counts each communicator's calls.
fn counted_log(ranks: u32, steps: u64) -> String {
    let mut made = std::collections::BTreeMap::new();
    let log = job(ranks, steps, 1);
    let lines = log
        .split_inclusive('\n')
        .filter(|line| line.contains("NCCL"));
    let number = |line: &str| {
        let Some((before, rest)) = line.split_once("opCount ") else {
            return line.to_owned();
        };
        let (_, rest) = rest.split_once(' ').unwrap();
        let comm = rest.split_once("comm ").unwrap().1.split(' ').next();
        let count = made.entry(comm.unwrap().to_owned()).or_insert(0);
        *count += 1;
        format!("{before}opCount {count:x} {rest}")
    };
    lines.map(number).collect()
}

#[test]
fn parts_of_a_log_that_have_lines_twice_are_warned_of_by_nccls_count() {
    let work = Work::new();
    let log = counted_log(4, 12);
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    let part =
        |from: usize, to: usize| lines[lines.len() * from / 10..lines.len() * to / 10].concat();
    for [first, second] in [["a.log", "b.log"], ["b.log", "a.log"]] {
        work.file(first, part(0, 6));
        work.file(second, part(6, 10));
        none_warns(&work, &[first, second]);
        let out = run_in(work.dir(), "nccl-check", &[first, second, "-f", "text"]);
        assert!(out.text().starts_with("no fault found"), "{}", out.text());
        for part in [part(5, 10), part(5, 6)] {
            work.file(second, part);
            for program in READERS {
                let out = run_in(work.dir(), program, &[first, second]).calm();
                out.says(&["b.log: some of its calls are also in a.log"]);
            }
            let out = run_in(work.dir(), "nccl-check", &[first, second, "-f", "text"]);
            assert!(out.text().starts_with("not judged: "), "{}", out.text());
            assert_eq!(out.code, Some(3));
        }
    }
}

/// A communicator that has the address of an earlier one counts its own calls.
#[test]
fn an_address_that_is_used_again_is_no_overlap() {
    let work = Work::new();
    let calls = |counts: std::ops::Range<u32>| {
        let call = |count: u32| {
            format!(
                "h:1:1 [0] NCCL INFO AllReduce: opCount {count:x} sendbuff 0x1 recvbuff 0x2 count 4 datatype 7 op 0 \
                 root 0 comm 0x55 [nranks=2] stream 0x5\n"
            )
        };
        counts.map(call).collect::<String>()
    };
    let init = |id: &str| {
        format!(
            "h:1:1 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 5000 \
             commId {id} - Init COMPLETE\n"
        )
    };
    let none = String::new;
    for [first, second] in [
        [none(), none()],
        [none(), init("0x2")],
        [init("0x1"), init("0x2")],
    ] {
        work.file("a.log", first + &calls(0..301));
        work.file("b.log", calls(301..400) + &second + &calls(0..21));
        work.file("c.log", calls(21..60));
        none_warns(&work, &["a.log", "b.log", "c.log"]);
    }
}

#[test]
fn a_call_table_beside_its_log_or_its_copy_is_warned_of() {
    let work = Work::new();
    work.file("1.log", job(2, 6, 1));
    let make = "nccl-comms 1.log > a.csv; cp a.csv b.csv; nccl-comms 1.log --format jsonl > \
                c.jsonl; nccl-comms 1.log --steps 1..2 > w1.csv; nccl-comms 1.log --steps \
                3..4 > w2.csv; nccl-steps 1.log --steps 1..2 | nccl-comms --steps 1..2 > w3.csv";
    sh(work.dir(), make).ends(0);
    for program in ["nccl-hist", "nccl-ops", "nccl-agg", "nccl-comms"] {
        for [a, b] in [
            ["1.log", "a.csv"],
            ["a.csv", "b.csv"],
            ["a.csv", "c.jsonl"],
            ["a.csv", "w2.csv"],
            ["w1.csv", "w3.csv"],
        ] {
            let out = run_in(work.dir(), program, &[a, b]).ends(0);
            out.says(&[&format!("{b}: its calls are also in {a}")]);
        }
        let out = run_in(work.dir(), program, &["w1.csv", "w2.csv"]).ends(0);
        assert!(!out.stderr.contains(TWICE), "{program}: {}", out.stderr);
    }
}

/// Starts a program over a log of about 30 MB, with nobody reading its output yet; changes the
/// file; then reads. Gives what it wrote, what it said and its code, and the log as it was.
fn changed(args: &[&str], change: impl FnOnce(&Path)) -> (Out, Work) {
    let work = Work::new();
    let log = work.file("live.log", long_job().repeat(3));
    work.file("was.log", long_job().repeat(3));
    let mut child = Command::new(bins().join(args[0]))
        .args(&args[1..])
        .args(["-j1", "live.log"])
        .current_dir(work.dir())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first byte of output means that the second pass begins; the pipe fills and stops it.
    let mut stdout = child.stdout.take().unwrap();
    let mut out = vec![0; 1];
    stdout.read_exact(&mut out).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    change(&log);
    stdout.read_to_end(&mut out).unwrap();
    let rest = child.wait_with_output().unwrap();
    let out = Out {
        stdout: out,
        stderr: String::from_utf8_lossy(&rest.stderr).into_owned(),
        code: rest.status.code(),
    };
    (out, work)
}

/// Programs that read a log twice.
const TWO_PASSES: [&[&str]; 4] = [
    &["nccl-comms"],
    &["nccl-comms", "--no-mmap"],
    &["nccl-steps"],
    &["nccl-steps", "--no-mmap"],
];

/// A log of another job, as long as `len` and more.
fn other(len: u64) -> Vec<u8> {
    let one = job(12, 30, 9).replace("55d0a", "66e1b");
    one.repeat(1 + len as usize / one.len()).into_bytes()
}

#[test]
fn of_a_log_that_grows_both_passes_see_the_same() {
    for program in TWO_PASSES {
        let (out, work) = changed(program, |log| {
            let mut file = std::fs::File::options().append(true).open(log).unwrap();
            file.write_all(&other(9 << 20)).unwrap();
        });
        let out = out.ends(0);
        let was = run_in(work.dir(), program[0], &["was.log"]).ends(0);
        assert!(out.stdout == was.stdout, "{program:?}: {}", out.stderr);
    }
}

#[test]
fn a_log_that_is_written_anew_between_two_passes_is_an_error() {
    for program in TWO_PASSES {
        let (out, _) = changed(program, |log| {
            let len = log.metadata().unwrap().len();
            let mut file = std::fs::File::options().write(true).open(log).unwrap();
            file.write_all(&other(len)[..len as usize]).unwrap();
        });
        assert_eq!(out.code, Some(2), "{program:?}: {}", out.stderr);
        let said: Vec<&str> = out.stderr.lines().filter(|l| l.contains("error")).collect();
        assert_eq!(said.len(), 1, "{program:?}: {}", out.stderr);
        let begin = format!("{}: error: live.log: ", program[0]);
        assert!(said[0].starts_with(&begin), "{said:?}");
        assert!(said[0].contains("overwritten"), "{said:?}");
    }
}

#[test]
fn a_log_that_is_truncated_between_two_passes_is_an_error() {
    for program in TWO_PASSES {
        let (out, _) = changed(program, |log| {
            std::fs::File::options()
                .write(true)
                .open(log)
                .unwrap()
                .set_len(5000)
                .unwrap();
        });
        assert_eq!(out.code, Some(2), "{program:?}: {}", out.stderr);
        out.says(&["error: live.log: ", "truncated"]);
    }
}

#[test]
fn a_last_line_that_is_not_finished_is_a_note() {
    let log = job(2, 3, 1);
    let at = log.rfind(" datatype ").unwrap();
    let live = &log[..at];
    let work = Work::new();
    work.file("live.log", live);
    for program in READERS {
        for input in [
            "live.log",
            "--no-mmap live.log",
            "- < live.log",
            "< <(cat live.log)",
        ] {
            let out = sh(work.dir(), &format!("{program} {input}")).ends(0);
            out.says(&["note: ", "the last line has no end"]);
        }
        let out = sh(work.dir(), &format!("{program} -q --strict live.log")).ends(0);
        assert!(!out.stderr.contains("has no end"), "{program}");
    }
    // Cut anywhere, it is never damage, and every line is accounted for.
    for cut in (at - 700..at).step_by(7) {
        let out = feed("nccl-hist", &["-v"], &log[..cut]).ends(0);
        assert_eq!(
            Account::of(&out).lines,
            log[..cut].lines().count() as u64,
            "{cut}"
        );
    }
    // A cut line with its end is.
    feed("nccl-hist", &[], format!("{live}\n"))
        .ends(1)
        .says(&["damaged"]);
    // Many are told together.
    for i in 0..9 {
        let log = live.replace("gpu-a:70", &format!("gpu-a:{i}70"));
        work.file(&format!("all/{i}.log"), log);
    }
    let out = run_in(work.dir(), "nccl-hist", &["all"]).ends(0);
    assert_eq!(out.stderr.matches("the last line has no end").count(), 2);
    out.says(&["8 more inputs (-v lists them): the last line has no end"]);
}

#[test]
fn what_can_be_unpacked_of_a_damaged_file_is_read() {
    let work = Work::new();
    let (log, gz) = (job(4, 12, 2), gzip(job(4, 12, 2).as_bytes()));
    let long = zstd(long_job().as_bytes());
    work.file("nccl.log", &log);
    work.file("cut.gz", &gz[..gz.len() / 2]);
    work.file("cut.zst", &long[..long.len() / 2]);
    work.file("garbage.gz", [&gz[..], b"and something else"].concat());
    work.file("zeros.gz", [&gz[..], &[0; 5000]].concat());
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4];
    work.file(
        "skipped.zst",
        [&skipped[..], &zstd(log.as_bytes())].concat(),
    );
    for program in READERS {
        for (input, code, said) in [
            ("cut.gz", 1, "the gzip data ends too early"),
            ("cut.zst", 1, "the zstd data ends too early"),
            (
                "garbage.gz",
                1,
                "bytes that are not gzip follow the gzip data",
            ),
            ("zeros.gz", 0, "5000 zero bytes follow the gzip data"),
            ("skipped.zst", 0, ""),
        ] {
            for way in [input.to_owned(), format!("- < {input}")] {
                let out = sh(work.dir(), &format!("{program} {way}"))
                    .ends(code)
                    .says(&[said]);
                assert!(!out.stdout.is_empty(), "{program} {way}");
                if input.starts_with("cut") {
                    let way = format!("{program} --strict {way}");
                    sh(work.dir(), &way).ends(2);
                } else {
                    let whole = run_in(work.dir(), program, &["nccl.log"]);
                    let name = |out: &Out| {
                        out.text()
                            .replace(input, "nccl.log")
                            .replace("stdin", "nccl.log")
                    };
                    assert_eq!(name(&out), whole.text(), "{program} {way}");
                }
            }
        }
    }
    let calls = |input: &str| Csv::of(&run_in(work.dir(), "nccl-comms", &[input])).rows;
    let (cut, whole) = (calls("cut.gz"), calls("nccl.log"));
    assert!(cut.len() > 20 && cut.len() < whole.len());
    // Steps are named by the line behind their calls.
    let known = |row: &Vec<String>| row[1..].to_vec();
    assert!(
        cut.iter()
            .map(known)
            .eq(whole[..cut.len()].iter().map(known))
    );
}

#[test]
fn in_a_folder_what_is_no_log_is_passed_over_with_a_note() {
    let work = Work::new();
    let log = job(2, 3, 1);
    work.file("job/nccl.log", &log);
    work.file("job/model.pt", b"PK\x03\x04\x14\x00\x00\x00data.pkl");
    work.file("job/core.17", b"\x7fELF\x02\x01\x01");
    work.file(
        "job/sub/x.pkl",
        b"\x80\x04\x95\x0c\x00\x00\x00\x00\x00\x00\x00\x8c\x05hello",
    );
    work.file("job/empty.out", "");
    sh(
        work.dir(),
        "mkfifo job/fifo; ln -s nowhere job/dangling; ln -s . job/loop",
    )
    .ends(0);
    for program in READERS {
        let alone = run_in(work.dir(), program, &["job/nccl.log"]).ends(0);
        let out = run_in(work.dir(), program, &["job"]).ends(0);
        assert_eq!(out.text(), alone.text(), "{program}");
        let notes: Vec<&str> = out
            .stderr
            .lines()
            .filter(|line| line.contains("were skipped"))
            .collect();
        let [note] = notes[..] else {
            panic!("{program}: {}", out.stderr)
        };
        for part in [
            "job/dangling (a link that leads nowhere)",
            "job/fifo (a named pipe)",
            "job/loop (a link to a folder)",
            "job/core.17 (an ELF program or library)",
            " and 2 more",
        ] {
            assert!(note.contains(part), "{program}: {note}");
        }
        // Chosen by name, nothing else is looked at.
        let out = run_in(work.dir(), program, &["job", "--glob", "*.log"]).ends(0);
        assert_eq!(out.text(), alone.text(), "{program}");
        assert!(!out.stderr.contains("were skipped"), "{}", out.stderr);
        // What is named is to be read.
        run_in(work.dir(), program, &["job/nccl.log", "job/model.pt"])
            .ends(2)
            .says(&["error: job/model.pt: a zip archive"]);
        run_in(work.dir(), program, &["job/sub"])
            .ends(2)
            .says(&["none of the files is a log: job/sub/x.pkl (a Python pickle)"]);
        run_in(work.dir(), program, &["job", "--glob=*.txt"])
            .ends(2)
            .says(&["job: expected NCCL logs in the folder, found no files that match --glob"]);
    }
    run_in(work.dir(), "nccl-hist", &["job", "--glob", "["]).ends(2);
}

/// Runs a script as nobody, who may read what all may; `None` where that cannot be done.
fn as_nobody(work: &Work, script: &str) -> Option<Out> {
    let open = "chmod 755 .; cp $(command -v nccl-hist nccl-check) .; PATH=.:$PATH";
    let script = format!(
        "{open}; [ $(id -u) = 0 ] && as='setpriv --reuid=65534 --clear-groups' || as=; \
         $as true 2>/dev/null || exit 77; {script}"
    );
    let out = sh(work.dir(), &script);
    (out.code != Some(77)).then_some(out)
}

#[test]
fn a_folder_in_a_folder_that_cannot_be_read_is_not_the_end_of_everything() {
    let work = Work::new();
    work.file("logs/nccl.log", job(2, 3, 1));
    work.file("logs/closed/other.log", job(2, 3, 1));
    work.file("logs/secret.log", job(2, 3, 1));
    for program in ["nccl-hist", "nccl-check"] {
        let script = format!("chmod 000 logs/closed logs/secret.log; $as {program} logs");
        let Some(out) = as_nobody(&work, &script) else {
            skipped("there is no other user to run as");
            return;
        };
        let out = out.ends(2);
        sh(work.dir(), "chmod 755 logs/closed logs/secret.log").ends(0);
        let alone = run_in(work.dir(), program, &["logs/nccl.log"]).ends(0);
        assert_eq!(out.text(), alone.text(), "{program}");
        out.says(&[
            "logs/closed: Permission denied",
            "logs/secret.log: Permission denied",
        ]);
    }
}

#[test]
fn names_whose_bytes_are_no_text_are_told_apart() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let work = Work::new();
    let cut = job(2, 3, 1).replacen("datatype 6 op 0", "datatype 6 o", 1);
    for name in [&b"a\xff.log"[..], b"a\xfe.log"] {
        std::fs::write(work.dir().join(OsStr::from_bytes(name)), &cut).unwrap();
    }
    let out = run_in(work.dir(), "nccl-steps", &["--list", "."]).ends(1);
    let files: std::collections::BTreeSet<String> =
        Csv::of(&out).column("file").into_iter().collect();
    let want = [r"$'./a\xfe.log'", r"$'./a\xff.log'"].map(str::to_owned);
    assert_eq!(files, want.clone().into());
    out.says(&[&format!("{}:", want[0]), &format!("{}:", want[1])]);
}

#[test]
fn a_line_beyond_all_measure_counts_the_same_mapped_and_in_a_pipe() {
    let call = crate::support::procs(1)[0].call("AllReduce", 64, 7);
    let mut log = format!("{call}\n").into_bytes();
    for more in [300, 2 << 20] {
        let line = log.len();
        log.extend_from_slice(call.as_bytes());
        log.resize(line + (16 << 20) + more, b' ');
        log.extend_from_slice(format!("{call}\n{call}\n").as_bytes());
    }
    let work = Work::new();
    let path = work.file("made.log", &log);
    let mapped = run_in(work.dir(), "nccl-comms", &["-v", arg(&path)]).ends(1);
    for way in ["--no-mmap made.log", "< <(cat made.log)", "- < made.log"] {
        let out = sh(work.dir(), &format!("nccl-comms -v {way}")).ends(1);
        assert_eq!(out.text(), mapped.text(), "{way}");
        assert_eq!(Account::of(&out), Account::of(&mapped), "{way}");
    }
    assert_eq!(Account::of(&mapped).lines, 5);
}

#[test]
fn a_table_of_endless_rows_needs_no_memory() {
    let work = Work::new();
    let rows = "echo op,count,datatype,time; echo Send,1,int8,x";
    let long = "head -c 150M /dev/zero | tr '\\0'";
    for (what, make) in [
        (
            "a quoted field",
            format!("{rows}; printf 'Send,2,int8,\"'; {long} x"),
        ),
        ("commas", format!("{rows}; {long} ,")),
        (
            "a JSON string",
            format!(
                "echo '{{\"op\":\"Send\",\"count\":1,\"datatype\":\"int8\"}}'; printf '{{\"op\":\"'; {long} y"
            ),
        ),
    ] {
        for (end, damaged) in [
            ("echo", 1),
            (
                "echo; echo Send,3,int8,z",
                1 + usize::from(what == "a JSON string"),
            ),
        ] {
            let script = format!("ulimit -v 400000; {{ {make}; {end}; }} | nccl-hist -v");
            let out = sh(work.dir(), &script).ends(1);
            assert_eq!(
                Account::of(&out).damaged,
                damaged as u64,
                "{what}: {}",
                out.stderr
            );
            let rows = 1 + u128::from(end.contains(",3,") && damaged == 1);
            assert_eq!(Csv::of(&out).sum("calls"), rows, "{what}: {}", out.stderr);
        }
    }
}

#[test]
fn the_lines_of_a_table_add_up_and_damage_has_its_line() {
    let table = "op,count,datatype,time\nSend,1,int8,\n\nSend,x,int8,\n\"Recv\",2,int8,\"a\nb\n\nc\"\n\n\
                 Send,y,int8,\nRecv,3,int8,\"never closed\nSend,4,int8,d\n";
    let lines = table.lines().count() as u64;
    for way in ["", "--no-mmap"] {
        let work = Work::new();
        work.file("t.csv", table);
        let script = format!("nccl-hist -v {way} t.csv");
        let out = sh(work.dir(), &script).ends(1);
        let account = Account::of(&out);
        assert_eq!(account.lines, lines, "{}", out.stderr);
        // A row on four lines; one behind the quote that is not closed.
        assert_eq!((account.damaged, account.calls), (2, 4), "{}", out.stderr);
        let out = out.says(&[
            "t.csv:4:1: damaged: expected a valid count",
            "t.csv:10:1: damaged",
        ]);
        assert_eq!(Csv::of(&out).sum("calls"), 4);
    }
    let json = "{\"op\":\"Send\",\"count\":1,\"datatype\":\"int8\"}\n\n{\"op\":\"Send\"}\n";
    let out = feed("nccl-hist", &["-v"], json).ends(1);
    assert_eq!(Account::of(&out).lines, 3);
    out.says(&["stdin:3:1: damaged"]);
    // A table that is still written.
    for cut in ["Send,5,i", "Send,5", "Send,1234"] {
        let out = feed(
            "nccl-hist",
            &["-v"],
            format!("op,count,datatype,time\nSend,1,int8,\n{cut}"),
        );
        let out = out.ends(0).says(&["the last line has no end"]);
        assert_eq!(
            (Account::of(&out).lines, Account::of(&out).calls),
            (3, 1),
            "{cut}"
        );
    }
    let whole = feed(
        "nccl-hist",
        &["-v"],
        "op,count,datatype\nSend,1,int8\nSend,5,int8",
    )
    .ends(0);
    assert_eq!(Account::of(&whole).calls, 2);
}

/// Few files may be open at a time: fewer threads read them, and every answer is that without the limit.
#[test]
fn few_open_files_change_no_answer() {
    let work = Work::new();
    let line = "h:{p}:{p} [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 4 datatype 7 op 0 root 0 \
                comm 0x5 [nranks=64] stream 0x6\n";
    for rank in 0..64 {
        let text = line.replace("{p}", &(100 + rank).to_string());
        work.file(&format!("logs/nccl.h.{rank}.log"), text);
    }
    for program in ["nccl-hist", "nccl-check", "nccl-report", "nccl-comms"] {
        let of = |limit: &str| {
            sh(
                work.dir(),
                &format!("{limit} {program} logs --no-mmap -j 8"),
            )
        };
        let (few, any) = (of("ulimit -n 6;").ends(0), of("").ends(0));
        assert_eq!(few.text(), any.text(), "{program}");
        assert_eq!(few.stderr, any.stderr, "{program}");
    }
}

/// A table that a program cannot read lies in many jobs' folders; named, it is refused.
#[test]
fn in_a_folder_tables_without_what_is_needed_are_passed_over() {
    let work = Work::new();
    work.file("job/nccl.log", job(2, 3, 1));
    work.file(
        "job/truth.csv",
        "rank,op_count,start_ns,bytes,event\n0,1,2,3,4\n",
    );
    for program in READERS {
        let alone = run_in(work.dir(), program, &["job/nccl.log"]).ends(0);
        let out = run_in(work.dir(), program, &["job"]).ends(0);
        assert_eq!(out.text(), alone.text(), "{program}");
        out.says(&["job/truth.csv (a table without calls)", "skipped"]);
    }
    run_in(work.dir(), "nccl-ops", &["job/truth.csv"])
        .ends(2)
        .says(&["column \"op\" is missing"]);
    let calls = run_in(work.dir(), "nccl-comms", &["job/nccl.log"]).stdout;
    work.file("job/truth.csv", calls);
    run_in(work.dir(), "nccl-check", &["job"])
        .ends(0)
        .says(&["job/truth.csv (a call table)", "skipped"]);
    run_in(work.dir(), "nccl-check", &["job/truth.csv"])
        .ends(2)
        .says(&["is a call table: it has no log lines"]);
}
