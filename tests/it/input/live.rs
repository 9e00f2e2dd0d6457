//! Logs that are still being written: rows leave as their steps end, and are those of the whole log.

use crate::support::{Csv, Work, bins, captured, feed, run, run_in, sh};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How long a row is waited for; it comes within a tenth of a second on a machine with time.
const PATIENT: Duration = Duration::from_secs(60);

/// A program that reads what is still being written.
struct Live {
    child: Child,
    lines: Receiver<String>,
    got: String,
    said: ChildStderr,
}

impl Live {
    fn start(program: &str, args: &[&str]) -> Live {
        let mut child = Command::new(bins().join(program))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let said = child.stderr.take().unwrap();
        let (send, lines) = channel();
        thread::spawn(move || {
            let mut line = String::new();
            while out.read_line(&mut line).unwrap() > 0 {
                let _ = send.send(std::mem::take(&mut line));
            }
        });
        Live {
            child,
            lines,
            got: String::new(),
            said,
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        let pipe = self.child.stdin.as_mut().unwrap();
        // In pieces that end anywhere.
        let (mut rest, mut size) = (bytes, 7);
        while !rest.is_empty() {
            let (first, more) = rest.split_at(size.min(rest.len()));
            pipe.write_all(first).unwrap();
            (rest, size) = (more, size * 3 % 50_021 + 1);
        }
    }

    /// Waits until a line is there that `is` it.
    fn waits_for(&mut self, what: &str, mut is: impl FnMut(&str) -> bool) {
        loop {
            match self.lines.recv_timeout(PATIENT) {
                Ok(line) => {
                    self.got += &line;
                    if is(&line) {
                        return;
                    }
                }
                Err(e) => panic!("{what} did not come: {e}; what came is\n{}", self.got),
            }
        }
    }

    /// Closes the pipe; all that was written, what was said, and the code.
    fn end(mut self) -> (String, String, Option<i32>) {
        drop(self.child.stdin.take());
        loop {
            match self.lines.recv_timeout(PATIENT) {
                Ok(line) => self.got += &line,
                Err(RecvTimeoutError::Disconnected) => break,
                Err(e) => panic!("it does not end: {e}"),
            }
        }
        let mut said = String::new();
        self.said.read_to_string(&mut said).unwrap();
        (self.got, said, self.child.wait().unwrap().code())
    }

    fn interrupt(&self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
        assert!(sent.success());
    }
}

/// The programs that write by step, and the column of the step in their rows.
const BY_STEP: [(&str, &[&str], usize); 6] = [
    ("nccl-comms", &[], 0),
    ("nccl-steps", &["--list"], 1),
    ("nccl-timing", &["--per-step"], 1),
    ("nccl-ops", &["--by", "step"], 0),
    ("nccl-hist", &["--by", "step"], 0),
    ("nccl-agg", &["--by", "step,rank"], 0),
];

/// A captured log, and where its step lines end.
fn log() -> (String, Vec<usize>) {
    let text = std::fs::read_to_string(captured("megatron").join("nccl.log")).unwrap();
    let lines = text.match_indices("] iteration ").map(|(at, _)| at);
    let ends = lines.map(|at| at + text[at..].find('\n').unwrap() + 1);
    let ends: Vec<usize> = ends.collect();
    assert_eq!(ends.len(), 4);
    (text, ends)
}

#[test]
fn rows_come_before_the_log_ends() {
    let (log, ends) = log();
    let path = captured("megatron").join("nccl.log");
    for (program, args, column) in BY_STEP {
        let whole = run(program, &[args, &[path.to_str().unwrap()]].concat());
        let mut live = Live::start(program, args);
        let mut from = 0;
        for (step, &end) in (11..).zip(&ends) {
            live.write(&log.as_bytes()[from..end]);
            from = end;
            // Which rank prints is known with the third line; step 13 differs from step 12, and ranks are ahead,
            // so that it waits for more steps.
            if step == 13 {
                let step = "12".to_owned();
                let is_its = |line: &str| line.split(',').nth(column) == Some(&step);
                live.waits_for(&format!("{program}: step {step}"), is_its);
            }
        }
        live.write(&log.as_bytes()[from..]);
        let (text, said, code) = live.end();
        assert_eq!(text, String::from_utf8_lossy(&whole.stdout), "{program}");
        assert!(!said.contains("were written before"), "{program}: {said}");
        assert_eq!(code, Some(0), "{program}");
    }
}

#[test]
fn lines_of_steps_are_passed_on_when_their_step_ends() {
    let (log, ends) = log();
    let path = captured("megatron").join("nccl.log");
    let whole = run("nccl-steps", &[path.to_str().unwrap()]);
    let mut live = Live::start("nccl-steps", &[]);
    live.write(&log.as_bytes()[..ends[2]]);
    live.waits_for("the line of step 12", |line| {
        line.contains("iteration       12/")
    });
    live.write(&log.as_bytes()[ends[2]..]);
    let (text, said, _) = live.end();
    assert_eq!(text, String::from_utf8_lossy(&whole.stdout));
    assert!(!said.contains("were written before"), "{said}");
}

/// Where ranks begin the next step before the line of this one, its last row comes with its line, too.
#[test]
fn ranks_that_run_ahead_hold_no_row_back() {
    let args = "--strategy fsdp --ranks 8 --lead 2 --trainer torchtitan --steps 12 --seed 5";
    let args: Vec<&str> = args.split(' ').collect();
    let log = String::from_utf8(run("nccl-synth", &args).stdout).unwrap();
    let is_line = |line: &&str| line.contains("step: ");
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    assert_eq!(lines.iter().filter(|line| is_line(line)).count(), 12);
    let by_step = ["-q", "--order", "step"];
    let whole = feed("nccl-comms", &by_step, log.as_str()).ends(0).text();
    let steps = |text: &str| -> Vec<u64> {
        let rows = text.lines().skip(1);
        rows.filter_map(|row| row.split(',').next()?.parse().ok())
            .collect()
    };
    let of_rows = steps(&whole);
    assert!(of_rows.is_sorted());
    let (mut rows, mut text) = (
        Live::start("nccl-comms", &by_step),
        Live::start("nccl-steps", &["-q"]),
    );
    let mut step = 0;
    for line in &lines {
        rows.write(line.as_bytes());
        text.write(line.as_bytes());
        if !is_line(line) {
            continue;
        }
        step += 1;
        // Which rank prints is known with the third line.
        if (3..12).contains(&step) {
            let mut left = of_rows.iter().filter(|of| **of == step).count();
            rows.waits_for(&format!("the last row of step {step}"), |row| {
                left -= usize::from(row.starts_with(&format!("{step},")));
                left == 0
            });
            text.waits_for(&format!("the line of step {step}"), |passed| {
                passed == *line
            });
        }
    }
    assert_eq!(rows.end().0, whole);
    let passed = feed("nccl-steps", &["-q"], log.as_str()).ends(0).text();
    assert_eq!(text.end().0, passed);
}

/// A rank has made as many calls as the others, one of them alone, and lacks its last one when the line comes.
#[test]
fn a_call_that_one_rank_makes_alone_stands_for_none_that_it_lacks() {
    let job = "--seed 4000700 --ranks 6 --strategy megatron --steps 14 --trainer nemo2 --nccl 2.28 --layers 2 \
               --nodes 1 --tp 1 --pp 1 --lead 2 --fault lone";
    let args: Vec<&str> = job.split_whitespace().collect();
    let log = String::from_utf8(run("nccl-synth", &args).stdout).unwrap();
    let by_step = ["-q", "--order", "step"];
    let whole = feed("nccl-comms", &by_step, log.as_str()).ends(0).text();
    // The others have ended the eighth step here; the program looks at what has come.
    let cut: usize = log.split_inclusive('\n').take(719).map(str::len).sum();
    let mut rows = Live::start("nccl-comms", &by_step);
    rows.write(&log.as_bytes()[..cut]);
    thread::sleep(Duration::from_millis(300));
    rows.write(&log.as_bytes()[cut..]);
    assert_eq!(rows.end().0, whole);
}

/// Steps enough that the last ones are looked at alone, and calls, that old step lines are packed, and that
/// what was written long ago is let go.
#[test]
fn rows_of_a_long_job_come_as_those_of_a_short_one() {
    let steps = 7000;
    let args = "--ranks 4 --strategy ddp --layers 1 --trainer megatron --eval-every 400 --lead 2";
    let number = steps.to_string();
    let args: Vec<&str> = args.split(' ').chain(["--steps", &number]).collect();
    let log = run("nccl-synth", &args).stdout;
    let text = std::str::from_utf8(&log).unwrap();
    let lines = text.match_indices("] iteration ").map(|(at, _)| at);
    let ends: Vec<usize> = lines
        .map(|at| at + text[at..].find('\n').unwrap() + 1)
        .collect();
    assert_eq!(ends.len(), steps);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nccl.log");
    std::fs::write(&file, &log).unwrap();
    let lines: (&str, &[&str], usize) = ("nccl-steps", &["--keep-init"], 0);
    for (program, args, column) in BY_STEP.into_iter().chain([lines]) {
        let whole = run(program, &[args, &[file.to_str().unwrap()]].concat());
        let mut live = Live::start(program, args);
        let mut from = 0;
        for step in (20..=steps).step_by(259) {
            live.write(&log[from..ends[step - 1]]);
            from = ends[step - 1];
            // Ranks are ahead of the line, or behind it.
            let (step, line) = ((step - 9).to_string(), format!("iteration {:8}/", step - 9));
            let is_its = |row: &str| match args {
                ["--keep-init"] => row.contains(&line),
                _ => row.split(',').nth(column) == Some(&step),
            };
            live.waits_for(&format!("{program}: step {step}"), is_its);
        }
        live.write(&log[from..]);
        let (text, said, code) = live.end();
        assert!(text.as_bytes() == whole.stdout, "{program}: {said}");
        assert!(!said.contains("were written before"), "{program}: {said}");
        assert_eq!(code, Some(0), "{program}");
    }
}

/// A progress bar has no line's end: a call of the next step may be on the same line.
#[test]
fn ranks_that_follow_each_other_in_a_pipe_are_placed_as_their_files() {
    let work = Work::new();
    // More steps than a pipe keeps that writes before its end.
    sh(
        work.dir(),
        "nccl-synth --ranks 2 --steps 5000 --layers 1 --layout per-rank -o d",
    )
    .ends(0);
    let files = sh(work.dir(), "nccl-hist d --steps 100..101").ends(0);
    let piped = sh(work.dir(), "cat d/* | nccl-hist --steps 100..101").ends(0);
    assert_eq!(piped.text(), files.text());
    assert_eq!(Csv::of(&files).sum("calls"), 50);
}

#[test]
fn a_line_in_which_a_step_ends_is_passed_on_once() {
    let path = captured("lightning").join("nccl.log.gz");
    let path = path.to_str().unwrap();
    let log = Command::new("gzip").args(["-dc", path]).output().unwrap();
    let whole = run("nccl-steps", &[path]);
    let mut live = Live::start("nccl-steps", &[]);
    live.write(&log.stdout);
    live.waits_for("the last bar", |line| line.contains("38/40"));
    let (text, ..) = live.end();
    assert_eq!(text, String::from_utf8_lossy(&whole.stdout));
}

/// One buffer at a time: until enough has come, lines that were cut look like damage.
#[test]
fn a_slow_pipe_of_buffers_is_read_as_a_file() {
    let path = captured("fsdp-buffered").join("nccl.log.gz");
    let path = path.to_str().unwrap();
    let log = Command::new("gzip").args(["-dc", path]).output().unwrap();
    let log = &log.stdout[..100_000];
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("nccl.log");
    std::fs::write(&file, log).unwrap();
    let whole = run("nccl-comms", &["--no-steps", file.to_str().unwrap()]);
    let mut live = Live::start("nccl-comms", &["--no-steps"]);
    for buffer in log.chunks(4096) {
        live.child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(buffer)
            .unwrap();
        thread::sleep(Duration::from_millis(25));
    }
    let (text, said, code) = live.end();
    assert_eq!(text, String::from_utf8_lossy(&whole.stdout));
    assert_eq!(code, whole.code, "{said}");
}

#[test]
fn what_is_held_goes_to_a_file_beyond_its_limit() {
    let (log, ends) = log();
    let path = captured("megatron").join("nccl.log");
    let whole = run("nccl-comms", &[path.to_str().unwrap()]);
    let mut live = Live::start("nccl-comms", &["--hold", "1KB"]);
    live.write(&log.as_bytes()[..ends[2]]);
    live.waits_for("a row", |line| line.starts_with("12,"));
    live.write(&log.as_bytes()[ends[2]..]);
    let (text, ..) = live.end();
    assert_eq!(text, String::from_utf8_lossy(&whole.stdout));
}

#[test]
fn without_steps_rows_come_at_once() {
    let log = run("nccl-synth", &["--ranks", "2", "--steps", "3"]).stdout;
    let log = String::from_utf8(log).unwrap();
    let first = log.find(": opCount ").unwrap();
    let end = first + log[first..].find('\n').unwrap() + 1;
    let mut live = Live::start("nccl-comms", &["--no-steps"]);
    live.write(&log.as_bytes()[..end]);
    live.waits_for("the first call", |line| line.starts_with(",,"));
    live.write(&log.as_bytes()[end..]);
    let (text, said, code) = live.end();
    assert!(text.lines().skip(1).all(|row| row.starts_with(',')));
    assert_eq!(text.lines().count(), 1 + log.matches(": opCount ").count());
    assert_eq!((said.as_str(), code), ("", Some(0)));
}

#[test]
fn a_reader_that_goes_away_ends_the_program() {
    // A log without an end, of which three lines are read.
    let path = captured("megatron").join("nccl.log");
    let comms = bins().join("nccl-comms");
    let script = format!(
        "while cat {}; do :; done 2>/dev/null | {} -q | head -3",
        path.display(),
        comms.display()
    );
    let out = sh(Path::new("."), &script);
    assert_eq!(out.text().lines().count(), 3);
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new();
    let mut file = file.create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn a_file_is_followed_until_a_signal() {
    let (log, ends) = log();
    let path = captured("megatron").join("nccl.log");
    for (program, args, _) in BY_STEP {
        let whole = run(program, &[args, &[path.to_str().unwrap()]].concat());
        let dir = tempfile::tempdir().unwrap();
        let grows = dir.path().join("nccl.log");
        append(&grows, &log[..ends[2]]);
        let name = grows.to_str().unwrap();
        let mut live = Live::start(program, &[args, &["--follow", name]].concat());
        // Step 13 differs from step 12: of so few steps it waits for more.
        live.waits_for(program, |line| {
            line.starts_with("12,") || line.starts_with("0,12,")
        });
        append(&grows, &log[ends[2]..]);
        live.interrupt();
        let (text, said, code) = live.end();
        assert_eq!(text, String::from_utf8_lossy(&whole.stdout), "{program}");
        assert_eq!(code, Some(130), "{program}");
        assert!(said.contains("interrupted: "), "{program}: {said}");
    }
}

#[test]
fn ranks_of_the_job_are_known_in_logs_that_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    let job = [
        "--ranks", "4", "--tp", "2", "--steps", "6", "-o", "nccl.log",
    ];
    run_in(dir.path(), "nccl-synth", &job);
    let log = dir.path().join("nccl.log");
    let args = ["--list", "--rank", "3", log.to_str().unwrap()];
    let whole = run("nccl-steps", &args).stdout;
    let mut live = Live::start("nccl-steps", &[&["--follow"], &args[..]].concat());
    live.waits_for("step 1", |line| line.starts_with("0,1,"));
    live.interrupt();
    let (text, ..) = live.end();
    assert_eq!(text, String::from_utf8_lossy(&whole));
}

#[test]
fn the_files_of_a_folder_are_followed_as_one_log() {
    let dir = tempfile::tempdir().unwrap();
    let job = [
        "--ranks", "4", "--steps", "6", "--layout", "per-rank", "-o", "logs",
    ];
    run_in(dir.path(), "nccl-synth", &job);
    let logs = dir.path().join("logs");
    let mut live = Live::start("nccl-comms", &["--follow", logs.to_str().unwrap()]);
    live.waits_for("step 3", |line| line.starts_with("3,"));
    live.interrupt();
    let (text, _, code) = live.end();
    let whole = run("nccl-comms", &[logs.to_str().unwrap()]).stdout;
    let rows = |text: &str| {
        let mut rows: Vec<String> = text.lines().map(str::to_owned).collect();
        rows.sort_unstable();
        rows
    };
    assert_eq!(rows(&text), rows(&String::from_utf8_lossy(&whole)));
    assert_eq!(code, Some(130));
}

#[test]
fn logs_that_are_compared_are_not_followed() {
    let out = run("nccl-diff", &["--follow", "a.log", "b.log"]);
    assert_eq!(out.code, Some(2));
    assert!(out.stderr.contains("nccl-watch follows"), "{}", out.stderr);
}
