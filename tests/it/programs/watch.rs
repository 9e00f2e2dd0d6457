//! nccl-watch: steps as their lines come, and what is wrong once nothing moves.

use crate::support::{Work, arg, bins, feed, gzip, run, run_in, sh};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A started nccl-watch and the lines that it writes.
struct Watching {
    child: Child,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Watching {
    fn start(args: &[&str], stdin: Stdio) -> Watching {
        let mut child = Command::new(bins().join("nccl-watch"))
            .args(args)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in out.lines() {
                let _ = send.send(line.unwrap());
            }
        });
        Watching { child, lines }
    }

    /// The next line that begins with `begin`.
    fn line(&self, begin: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(60)).unwrap();
            if line.starts_with(begin) {
                return line;
            }
        }
    }

    fn rest(mut self) -> (Vec<String>, Option<i32>) {
        let code = self.child.wait().unwrap().code();
        (self.lines.into_iter().collect(), code)
    }
}

/// A made job's log.
fn made(args: &[&str]) -> Vec<u8> {
    run("nccl-synth", args).stdout
}

const JOB: [&str; 4] = ["--ranks", "4", "--steps", "6"];

/// The lines up to the end of the step line of `step`, and the rest.
fn split(log: &[u8], step: usize) -> (&[u8], &[u8]) {
    let text = String::from_utf8_lossy(log);
    let mut ends = text.match_indices("train_step_timing").map(|(at, _)| at);
    let at = ends.nth(step).unwrap();
    let end = at + text[at..].find('\n').unwrap() + 1;
    log.split_at(end)
}

#[test]
fn a_step_is_written_when_its_line_comes_wherever_pieces_end() {
    let log = made(&JOB);
    let mut watching = Watching::start(&[], Stdio::piped());
    let mut pipe = watching.child.stdin.take().unwrap();
    let mut rest = &log[..];
    for step in 0..6 {
        let (upto, _) = split(&log, step);
        let now = upto.len() - (log.len() - rest.len());
        // In pieces that end anywhere.
        let mut size = 7;
        let mut piece = &rest[..now];
        while !piece.is_empty() {
            let (first, more) = piece.split_at(size.min(piece.len()));
            pipe.write_all(first).unwrap();
            (piece, size) = (more, size * 3 % 5003 + 1);
        }
        rest = &rest[now..];
        // Three lines show whose lines they are; then each row comes before anything else is written.
        let rows = match step {
            0 | 1 => 0..0,
            2 => 0..3,
            _ => step..step + 1,
        };
        for step in rows {
            let line = watching.line("step ");
            assert!(line.starts_with(&format!("step {step}  ")), "{line}");
        }
    }
    pipe.write_all(rest).unwrap();
    drop(pipe);
    let (lines, code) = watching.rest();
    assert_eq!(
        lines,
        [
            "the input ended after step 5 and 800 calls",
            "no fault found in what this log shows: 4 ranks compared over 6 steps, all ended"
        ]
    );
    assert_eq!(code, Some(0));
}

#[test]
fn calls_are_those_since_the_step_line_before() {
    let log = made(&JOB);
    let text = feed("nccl-watch", &[], log.clone()).ends(0).text();
    let mut before = 0;
    for (step, line) in text.lines().take(6).enumerate() {
        let upto = split(&log, step).0;
        let calls = String::from_utf8_lossy(upto).matches(": opCount ").count();
        let since = format!("  {} calls  ", calls - before);
        assert!(line.contains(&since), "{line}: {since}");
        before = calls;
    }
}

/// The log up to the step line of `step`, without what the rank on device 3 wrote in that step.
fn hung(log: &[u8], step: usize) -> Vec<u8> {
    let (before, rest) = split(log, step - 1);
    let (within, _) = rest.split_at(split(log, step).0.len() - before.len());
    let within = String::from_utf8_lossy(within);
    let lines = within
        .split_inclusive('\n')
        .filter(|line| !line.contains(" [3] NCCL") && !line.contains("train_step"));
    let mut hung = before.to_vec();
    lines.for_each(|line| hung.extend_from_slice(line.as_bytes()));
    hung
}

/// The log as processes of this host would write it, in the order of their numbers in it.
fn of_this_host(log: &[u8], pids: &[u32]) -> Vec<u8> {
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let mut known: Vec<String> = Vec::new();
    let text = String::from_utf8_lossy(log);
    let lines = text.split_inclusive('\n').map(|line| {
        let mut parts = line.split(':');
        let is_its = parts.next().is_some_and(|name| name.starts_with("node"));
        let Some(pid) = parts.next().filter(|_| is_its) else {
            return line.to_owned();
        };
        let at = known.iter().position(|own| own == pid).unwrap_or_else(|| {
            known.push(pid.to_owned());
            known.len() - 1
        });
        let (_, rest) = line.split_once(pid).unwrap();
        format!("{host}:{}{rest}", pids[at])
    });
    lines.collect::<String>().into_bytes()
}

#[test]
fn a_process_that_was_stopped_after_its_calls_is_named() {
    // A rank has NCCL in its memory: its own name does.
    let work = Work::new();
    let rank = work.dir().join("nccl-rank");
    // Another process copies it: a test that starts a program just then would keep the file open for writing, and a
    // file that is written cannot be run.
    let copied = Command::new("cp").arg("/bin/sleep").arg(&rank).status();
    assert!(copied.unwrap().success());
    let sleep = || Command::new(&rank).arg("600").spawn().unwrap();
    let mut children: Vec<Child> = (0..4).map(|_| sleep()).collect();
    let pids: Vec<u32> = children.iter().map(Child::id).collect();
    // All ranks have made the same calls.
    let log = of_this_host(&made(&JOB), &pids);
    let watch = |pipe: &[u8]| {
        let mut watching = Watching::start(&["--stall", "1", "--exit-on-stall"], Stdio::piped());
        let mut stdin = watching.child.stdin.take().unwrap();
        stdin.write_all(pipe).unwrap();
        let found = watching.rest();
        drop(stdin);
        found
    };
    let (lines, code) = watch(&log);
    assert!(
        lines
            .last()
            .unwrap()
            .contains("all ranks have made the same calls"),
        "{lines:?}"
    );
    assert_eq!(code, Some(1));
    let stopped = rustix::process::Pid::from_child(&children[2]);
    rustix::process::kill_process(stopped, rustix::process::Signal::STOP).unwrap();
    let (lines, code) = watch(&log);
    let says = lines
        .iter()
        .find(|line| line.starts_with("error: "))
        .unwrap();
    assert!(
        says.contains(&format!(":{}) is stopped", pids[2])),
        "{says}"
    );
    assert_eq!(code, Some(1));
    children[2].kill().unwrap();
    let (lines, _) = watch(&log);
    let says = lines
        .iter()
        .find(|line| line.starts_with("error: "))
        .unwrap();
    assert!(
        says.contains(&format!(":{}) has ended, and 3 other ranks", pids[2])),
        "{says}"
    );
    for child in &mut children {
        let _ = child.kill();
        child.wait().unwrap();
    }
    let (lines, _) = watch(&log);
    let note = "note: none of the 4 ranks of this log on this host runs any more";
    assert!(lines.iter().any(|line| line == note), "{lines:?}");
}

#[test]
fn who_is_behind_is_reported_once_nothing_moves() {
    let work = Work::new();
    let log = hung(&made(&JOB), 4);
    std::fs::write(work.dir().join("nccl.log"), &log).unwrap();
    let pid = String::from_utf8_lossy(&log);
    let pid = pid.lines().find(|line| line.contains(" [3] NCCL")).unwrap();
    let pid = pid.split(':').nth(1).unwrap();
    // Its writer is there, and writes nothing more.
    let script = "(cat nccl.log; sleep 3) | nccl-watch --stall 1s --exit-on-stall --on-stall \
         'cat > found.json; echo $NCCL_WATCH_FINDING $NCCL_WATCH_PID $NCCL_WATCH_RANK > env' \
         --metrics nccl.prom";
    let out = sh(work.dir(), script).ends(1);
    let text = out.text();
    let stall = text
        .lines()
        .find(|line| line.starts_with("stall: "))
        .unwrap();
    assert!(stall.contains(" since step 3, after "), "{stall}");
    let found = text
        .lines()
        .find(|line| line.starts_with("error: "))
        .unwrap();
    let who = format!("pid {pid})");
    assert!(
        found.contains(&who) && found.ends_with("[rank_behind]"),
        "{found}"
    );
    assert!(text.contains("no rank wrote anything more while the log was watched"));
    // The same log, read by itself, may have been copied while the job ran.
    let checked = run_in(work.dir(), "nccl-check", &["nccl.log"]).text();
    assert!(!checked.contains("rank_behind"), "{checked}");

    assert_eq!(
        std::fs::read_to_string(work.dir().join("env"))
            .unwrap()
            .trim(),
        format!("rank_behind {pid} 3")
    );
    let json = std::fs::read_to_string(work.dir().join("found.json")).unwrap();
    assert!(
        json.starts_with("{\"severity\":\"error\",\"finding\":\"rank_behind\","),
        "{json}"
    );
    assert_eq!(json.lines().count(), 1);
    let metrics = std::fs::read_to_string(work.dir().join("nccl.prom")).unwrap();
    let calls = String::from_utf8_lossy(&log).matches(": opCount ").count();
    let counted = |line: &str| line.strip_prefix("nccl_watch_calls_total{").is_some();
    let sum = metrics.lines().filter(|line| counted(line));
    let sum: usize = sum
        .map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap())
        .sum();
    assert_eq!(sum, calls);
    for line in [
        "nccl_watch_step 3",
        "nccl_watch_steps_total 4",
        "nccl_watch_stalled 1",
        "nccl_watch_findings{severity=\"error\",finding=\"rank_behind\"} 1",
    ] {
        assert!(metrics.lines().any(|l| l == line), "{line} in {metrics}");
    }
    // Each metric has its kind before its first sample.
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        assert!(metrics.contains(&format!("# TYPE {name} ")), "{line}");
    }
}

/// Buffered writers and network file systems show several steps of each rank's log at once, cut anywhere.
#[test]
fn steps_that_come_in_blocks_have_the_calls_of_all_ranks() {
    let work = Work::new();
    let made = ["--ranks", "4", "--steps", "9", "--layout", "per-rank"];
    run_in(
        work.dir(),
        "nccl-synth",
        &[&made[..], &["-o", "job"]].concat(),
    );
    let all = run_in(work.dir(), "nccl-ops", &["job", "--by", "step"]).text();
    let mut true_calls = std::collections::BTreeMap::<String, u64>::new();
    for row in all.lines().skip(1) {
        let cells: Vec<&str> = row.split(',').collect();
        *true_calls.entry(cells[0].to_owned()).or_default() += cells[2].parse::<u64>().unwrap();
    }
    let folder = work.dir().join("live");
    std::fs::create_dir(&folder).unwrap();
    let mut ranks = Vec::new();
    for log in std::fs::read_dir(work.dir().join("job")).unwrap() {
        let log = log.unwrap();
        let live = std::fs::File::create(folder.join(log.file_name())).unwrap();
        ranks.push((std::fs::read(log.path()).unwrap(), live));
    }
    let mut watching = Watching::start(&["--stall", "60s", arg(&folder)], Stdio::null());
    // Blocks of about three steps, which end in the middle of a step.
    for (block, step) in [(0..40, 2), (40..70, 5), (70..100, 8)] {
        for (text, live) in &mut ranks {
            let end_of = |tenth: usize| (text.len() * tenth).div_ceil(100);
            live.write_all(&text[end_of(block.start)..end_of(block.end)])
                .unwrap();
        }
        for step in step - 2..=step {
            let row = watching.line("step ");
            let calls = true_calls[&step.to_string()];
            assert!(row.starts_with(&format!("step {step} ")), "{row}");
            assert!(row.contains(&format!(" {calls} calls ")), "{row}: {calls}");
        }
    }
    watching.child.kill().unwrap();
    watching.rest();
    // One after the other in a pipe.
    let all: Vec<u8> = ranks.into_iter().flat_map(|(text, _)| text).collect();
    let text = feed("nccl-watch", &[], all).ends(0).text();
    for (step, row) in text.lines().take(9).enumerate() {
        let calls = true_calls[&step.to_string()];
        assert!(row.contains(&format!(" {calls} calls ")), "{row}: {calls}");
    }
}

#[test]
fn a_job_that_only_pauses_is_left_in_peace() {
    let work = Work::new();
    let log = made(&JOB);
    let (before, after) = split(&log, 2);
    std::fs::create_dir(work.dir().join("logs")).unwrap();
    let path = work.dir().join("logs/nccl.log");
    std::fs::write(&path, before).unwrap();
    let folder = work.dir().join("logs");
    let mut watching = Watching::start(&["--stall", "1s", arg(&folder)], Stdio::null());
    watching.line("stall: no call and no step line for ");
    watching.line("no fault found in what this log shows: ");
    let mut file = std::fs::File::options().append(true).open(&path).unwrap();
    file.write_all(after).unwrap();
    watching.line("the job moves again after ");
    watching.line("step 3  ");
    watching.line("step 5  ");
    watching.child.kill().unwrap();
    watching.rest();
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let work = Work::new();
    std::fs::write(work.dir().join("a.log.gz"), gzip(&made(&JOB))).unwrap();
    run_in(work.dir(), "nccl-watch", &["a.log.gz"])
        .ends(2)
        .says(&["a.log.gz: expected text that grows, found packed data"]);
    for stall in ["0", "x", "5d", "-1", "1e400"] {
        let stall = format!("--stall={stall}");
        run_in(work.dir(), "nccl-watch", &[&stall, "a.log"])
            .ends(2)
            .says(&["invalid time"]);
    }
    let out = feed("nccl-watch", &["-"], "").ends(0);
    assert_eq!(
        out.lines()[..2],
        [
            "the input ended after 0 calls",
            "not judged: the inputs have no line of NCCL"
        ]
    );
    // One that is not there yet may still appear.
    let args = ["none.log", "--stall=0.2", "--exit-on-stall"];
    run_in(work.dir(), "nccl-watch", &args).says(&["none.log does not exist yet"]);
}

#[test]
fn a_signal_ends_a_watched_pipe() {
    let log = made(&JOB);
    let mut watching = Watching::start(&[], Stdio::piped());
    let mut pipe = watching.child.stdin.take().unwrap();
    pipe.write_all(split(&log, 2).0).unwrap();
    watching.line("step 2  ");
    let pid = watching.child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let (lines, code) = watching.rest();
    assert!(
        lines[0].starts_with("the input ended after step 2 and "),
        "{lines:?}"
    );
    assert_eq!(code, Some(130));
}

#[test]
fn a_log_that_stalls_after_a_step_line_was_not_cut() {
    let work = Work::new();
    let log = made(&JOB);
    let mut hung = hung(&log, 4);
    let line = split(&log, 4).0;
    let line = line.split_inclusive(|&b| b == b'\n').next_back().unwrap();
    hung.extend_from_slice(line);
    std::fs::write(work.dir().join("nccl.log"), &hung).unwrap();
    let script = "(cat nccl.log; sleep 3) | nccl-watch --stall 1s --exit-on-stall";
    let text = sh(work.dir(), script).ends(1).text();
    assert!(text.contains(" since step 4, after "), "{text}");
    assert!(text.contains("[rank_behind]"), "{text}");
    // The same log without a writer may be a copy.
    let args = ["nccl.log", "--stall", "0.2s", "--exit-on-stall"];
    let text = run_in(work.dir(), "nccl-watch", &args).ends(1).text();
    let next = "next: the log does not grow; if the job still runs: rank ";
    assert!(text.contains(next) && !text.contains("error: "), "{text}");
}

/// nccl-watch names nobody in a log that does not grow, unless nccl-check does: each capture, cut after each tenth of it.
#[test]
fn a_log_that_does_not_grow_has_the_answer_of_nccl_check() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/captured");
    let jobs = std::fs::read_dir(folder).unwrap();
    let packed = jobs.map(|job| job.unwrap().path().join("nccl.log.gz"));
    let packed: Vec<_> = packed.filter(|path| path.exists()).collect();
    assert!(packed.len() > 25, "{}", packed.len());
    // Most of the time is the stall's.
    let share = packed.len().div_ceil(8);
    std::thread::scope(|scope| {
        for packed in packed.chunks(share) {
            scope.spawn(move || {
                for packed in packed {
                    compare_stalled_answers(packed);
                }
            });
        }
    });
}

fn compare_stalled_answers(packed: &Path) {
    let log = Command::new("gzip").arg("-dc").arg(packed).output();
    let log = log.unwrap().stdout;
    let work = Work::new();
    for tenth in 1..10 {
        let near = log.len() / 10 * tenth;
        let end = near + log[near..].iter().position(|&b| b == b'\n').unwrap() + 1;
        std::fs::write(work.dir().join("nccl.log"), &log[..end]).unwrap();
        let answer = |program, args: &[&str], before: &str| {
            let text = run_in(work.dir(), program, args).text();
            let mut lines = text.lines();
            let found = before.is_empty() || lines.any(|line| line.starts_with(before));
            assert!(found, "{packed:?} {tenth}: {text}");
            lines.next().unwrap().to_owned()
        };
        let watched = ["nccl.log", "--stall", "0.2s", "--exit-on-stall"];
        assert_eq!(
            answer("nccl-watch", &watched, "stall: "),
            answer("nccl-check", &["-q", "-f", "text", "nccl.log"], ""),
            "{packed:?} {tenth}"
        );
    }
}

/// Of real jobs the rank that prints is behind all others: it waits at the end of a step.
#[test]
fn the_rank_that_was_stopped_is_named_in_real_jobs() {
    let work = Work::new();
    for (name, who) in [("ring", "pid 803)"), ("3d", "node03:960 stopped")] {
        let packed = format!(
            "{}/testdata/stopped/{name}.log.gz",
            env!("CARGO_MANIFEST_DIR")
        );
        let log = Command::new("gzip")
            .args(["-dc", &packed])
            .output()
            .unwrap();
        std::fs::write(work.dir().join("nccl.log"), log.stdout).unwrap();
        let script = "(cat nccl.log; sleep 3) | nccl-watch --stall 1s --exit-on-stall";
        let text = sh(work.dir(), script).ends(1).text();
        let found: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("error: "))
            .collect();
        let [found] = found[..] else { panic!("{text}") };
        assert!(
            found.contains(who) && found.contains(" stopped in the middle of a step"),
            "{found}"
        );
    }
}

/// A packed log of the repository.
fn captured(name: &str) -> Vec<u8> {
    let root = env!("CARGO_MANIFEST_DIR");
    let packed = format!("{root}/testdata/captured/{name}/nccl.log.gz");
    let log = Command::new("gzip").args(["-dc", &packed]).output();
    log.unwrap().stdout
}

/// Real jobs that hung, up to the line by which PyTorch's watchdog reports it.
#[test]
fn a_hung_job_is_explained_before_the_watchdog_speaks() {
    let expected = [
        ("ddp-stall", "rank 1 ", "[rank_behind]"),
        ("ddp-skip", "rank 1 ", "[redop_mismatch]"),
        ("ddp-count", "rank 1 ", "[count_mismatch]"),
        ("pp-recv", "rank 1 ", "missing"),
    ];
    for (name, who, what) in expected {
        let log = captured(name);
        let text = String::from_utf8_lossy(&log);
        let at = text.find("Watchdog caught").unwrap();
        let before = &text[..text[..at].rfind('\n').unwrap() + 1];
        let args = ["--stall", "1s", "--exit-on-stall"];
        let mut watching = Watching::start(&args, Stdio::piped());
        let mut pipe = watching.child.stdin.take().unwrap();
        pipe.write_all(before.as_bytes()).unwrap();
        let found = watching.line("error: ");
        assert!(
            found.contains(who) && found.contains(what),
            "{name}: {found}"
        );
        drop(pipe);
        assert_eq!(watching.rest().1, Some(1));
    }
}

/// A made job's log in two: up to where each rank has made `upto` calls, and all that it calls later.
fn level(log: &[u8], upto: usize) -> (String, String) {
    let text = String::from_utf8_lossy(log);
    let mut made = std::collections::HashMap::new();
    let (mut before, mut after) = (String::new(), String::new());
    for line in text.split_inclusive('\n') {
        let is_later = line.contains(": opCount ") && {
            let made = made.entry(line.split(':').nth(1).unwrap()).or_insert(0);
            *made += 1;
            *made > upto
        };
        if is_later {
            after.push_str(line);
        } else if after.is_empty() || line.contains(": opCount ") {
            before.push_str(line);
        }
    }
    (before, after)
}

/// What is let go of a pipe is let go where the ranks are level: what comes later is compared.
#[test]
fn a_pipe_is_kept_up_to_a_limit() {
    let log = made(&JOB);
    let (before, after) = level(&log, 100);
    let args = ["--keep", "100k", "--stall", "1s"];
    let mut watching = Watching::start(&args, Stdio::piped());
    let mut pipe = watching.child.stdin.take().unwrap();
    pipe.write_all(before.as_bytes()).unwrap();
    watching.line("stall: ");
    let answer = watching.line("not judged: ");
    assert_eq!(
        answer,
        "not judged: only what came after the first 400 calls was kept (--keep)"
    );
    watching.line("next: name the log's file instead of using a pipe, or give a larger --keep");
    watching
        .line("next: if the job still runs, take a stack of each process (py-spy dump --pid PID)");
    // A rank stops after some more calls.
    let mut more = 0;
    let of_3 = |line: &&str| {
        more += usize::from(line.contains(" [3] NCCL"));
        !line.contains(" [3] NCCL") || more <= 20
    };
    let hung: String = after.split_inclusive('\n').take(250).filter(of_3).collect();
    pipe.write_all(hung.as_bytes()).unwrap();
    watching.line("the job moves again after ");
    watching.line("stall: ");
    let found = watching.line("error: ");
    let pid = String::from_utf8_lossy(&log);
    let pid = pid.lines().find(|line| line.contains(" [3] NCCL")).unwrap();
    let pid = format!("pid {})", pid.split(':').nth(1).unwrap());
    assert!(
        found.contains(&pid) && found.ends_with("[rank_behind]"),
        "{found}"
    );
    drop(pipe);
    let (lines, code) = watching.rest();
    assert!(
        !lines.iter().any(|line| line.contains("mismatch")),
        "{lines:?}"
    );
    assert_eq!(code, Some(1));
}

/// The same where nothing could be let go: only the number of calls is known.
#[test]
fn who_is_behind_is_counted_where_the_pipe_is_too_long() {
    let log = hung(&made(&JOB), 4);
    let args = ["--keep", "10k", "--stall", "1s", "--exit-on-stall"];
    let mut watching = Watching::start(&args, Stdio::piped());
    let mut pipe = watching.child.stdin.take().unwrap();
    for piece in log.chunks(3000) {
        pipe.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    let found = watching.line("error: ");
    assert!(
        found.starts_with("error: rank ") && found.contains(" fewer than the others [rank_behind]"),
        "{found}"
    );
    watching.line("note: the pipe's text is longer than --keep, and was not compared [shortened]");
    drop(pipe);
    assert_eq!(watching.rest().1, Some(1));
}

/// What Prometheus' own checker says of metrics; `None` where it is not installed.
fn promtool(metrics: &[u8]) -> Option<(bool, String)> {
    let started = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(cause) => {
            eprintln!("skipped: promtool cannot be run: {cause}");
            return None;
        }
    };
    child.stdin.take().unwrap().write_all(metrics).unwrap();
    let out = child.wait_with_output().unwrap();
    let said = [out.stdout, out.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    Some((out.status.success(), said))
}

#[test]
fn prometheus_takes_the_metrics_of_all_logs() {
    let work = Work::new();
    let warns = "node00:1:1 [0] misc/x.cc:1 NCCL WARN a \"b\\ \n";
    let logs = [
        captured("fsdp"),
        [captured("3d-die"), warns.into()].concat(),
        captured("pp-recv"),
        made(&["--ranks", "2", "--steps", "1", "--trainer", "none"]),
        b"no line of NCCL\n".to_vec(),
    ];
    let file = work.dir().join("nccl.prom");
    let file = arg(&file);
    for (at, log) in logs.into_iter().enumerate() {
        let name = format!("{at}.log");
        work.file(&name, &log);
        feed("nccl-watch", &["--metrics", file], log);
        let watched = std::fs::read(file).unwrap();
        let args = [
            "-q",
            "--format",
            "prometheus",
            "--label",
            "job=a\"b\\",
            &name,
        ];
        let checked = run_in(work.dir(), "nccl-check", &args).stdout;
        for metrics in [watched, checked] {
            let Some((is_well, said)) = promtool(&metrics) else {
                return;
            };
            let text = String::from_utf8_lossy(&metrics);
            assert!(is_well && said.is_empty(), "{at}: {said}\n{text}");
        }
    }
}

/// While the logs of ranks are read one after another, a step still has the calls of all ranks.
#[test]
fn a_backlog_of_rank_logs_has_the_calls_of_all_ranks() {
    let work = Work::new();
    let args = ["--ranks", "8", "--nodes", "2", "--tp", "4", "--steps", "6"];
    let layout = ["--layout", "per-rank", "-o", "logs"];
    run_in(work.dir(), "nccl-synth", &[&args[..], &layout].concat()).ends(0);
    let counted = run_in(work.dir(), "nccl-ops", &["--by", "step", "logs"]).text();
    let args = ["logs", "--stall", "1s", "--exit-on-stall"];
    let watched = run_in(work.dir(), "nccl-watch", &args).text();
    let steps: Vec<&str> = watched
        .lines()
        .filter(|line| line.starts_with("step "))
        .collect();
    assert_eq!(steps.len(), 6, "{watched}");
    for (step, line) in steps.iter().enumerate() {
        let rows = counted.lines().skip(1).map(|row| row.split(','));
        let own = rows.filter_map(|mut row| (row.next()? == step.to_string()).then_some(row));
        let calls: u64 = own
            .map(|mut row| row.nth(1).unwrap().parse::<u64>().unwrap())
            .sum();
        assert!(
            line.contains(&format!("  {calls} calls  ")),
            "{line}: {calls}"
        );
    }
}

/// Lines of a launcher do not show that a stalled job moves, and the end of its pipe does not excuse it.
#[test]
fn a_stall_lasts_until_a_rank_calls() {
    let log = hung(&made(&JOB), 4);
    let mut watching = Watching::start(&["--stall", "1s"], Stdio::piped());
    let mut pipe = watching.child.stdin.take().unwrap();
    pipe.write_all(&log).unwrap();
    let found = watching.line("error: ");
    assert!(found.ends_with("[rank_behind]"), "{found}");
    let launcher =
        "slurmstepd: error: *** STEP 7.0 ON node01 CANCELLED AT 2026-11-20T19:44:30 ***\n";
    pipe.write_all(launcher.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    drop(pipe);
    let (lines, code) = watching.rest();
    let begins = |begin: &str| lines.iter().any(|line| line.starts_with(begin));
    assert!(!begins("the job moves again"), "{lines:?}");
    assert!(begins("error: ") && begins("note: "), "{lines:?}");
    let contradicts = |line: &String| line.contains("no action is needed for the ranks");
    assert!(!lines.iter().any(contradicts), "{lines:?}");
    assert_eq!(code, Some(1));
}

/// What a job prints while it is taken down is no progress, and a job that was cancelled is silent for that reason.
#[test]
fn a_stall_outlives_the_last_lines_of_a_job_and_a_cancelled_job_has_none() {
    let log = made(&JOB);
    let hang = hung(&log, 4);
    let (before, rest) = split(&log, 3);
    let within = &rest[..split(&log, 4).0.len() - before.len()];
    let within = String::from_utf8_lossy(within);
    let step_line = within.lines().find(|line| line.contains("train_step"));
    let step_line = format!("{}\n", step_line.unwrap());
    let watch = |parts: [&[u8]; 2]| {
        let mut watching = Watching::start(&["--stall", "1s"], Stdio::piped());
        let mut pipe = watching.child.stdin.take().unwrap();
        pipe.write_all(parts[0]).unwrap();
        watching.line("stall: ");
        pipe.write_all(parts[1]).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        drop(pipe);
        watching.rest()
    };
    let errors = |lines: &[String]| {
        let is_error =
            |line: &&String| line.starts_with("error: ") && line.contains("[rank_behind]");
        lines.iter().filter(is_error).count()
    };
    let (lines, code) = watch([&hang, step_line.as_bytes()]);
    assert_eq!((errors(&lines), code), (2, Some(1)), "{lines:?}");
    let cancel =
        b"slurmstepd: error: *** STEP 7.0 ON node01 CANCELLED AT 2026-11-20T19:44:30 ***\n";
    let (lines, code) = watch([&[&hang[..], cancel].concat(), b""]);
    assert_eq!((errors(&lines), code), (0, Some(0)), "{lines:?}");
}

/// A job that writes into nccl-watch dies of its end, so nothing that nccl-watch writes may end it first.
#[test]
fn a_job_outlives_all_that_its_watch_cannot_write() {
    let work = Work::new();
    let log = made(&["--ranks", "8", "--steps", "60"]);
    assert!(log.len() > 1 << 20, "longer than a pipe holds");
    work.file("job.log", &log);
    let metrics = "--metrics /nonexistent/m.prom";
    for (settings, option, sink, code, warned) in [
        (
            "TMPDIR=/nonexistent",
            "",
            "> out",
            0,
            "cannot keep the pipe's text",
        ),
        ("", metrics, "> out", 0, "/nonexistent/m.prom"),
        ("", "", "> /dev/full", 2, "No space left"),
        ("", "", "| head -n 1 > out", 0, "Broken pipe"),
    ] {
        let watch = format!("env {settings} nccl-watch --plain --stall 1h {option}");
        let script = format!(
            "rm -f done; (cat job.log && echo > done) | ({watch} 2> err; echo $? > code) {sink}"
        );
        sh(work.dir(), &script);
        let read = |name| std::fs::read_to_string(work.dir().join(name)).unwrap_or_default();
        let said = read("err");
        assert!(work.dir().join("done").exists(), "{script}: {said}");
        assert_eq!(read("code").trim(), code.to_string(), "{script}: {said}");
        let warnings = said.lines().filter(|line| line.contains(warned));
        assert!((1..=2).contains(&warnings.count()), "{script}: {said}");
    }
}

#[test]
fn what_was_not_compared_has_a_next_step() {
    let work = Work::new();
    // One rank alone has nothing to be compared with.
    let log = crate::support::job(2, 3, 1);
    let other = crate::support::procs(2).remove(1).head();
    let own = |line: &&str| !line.starts_with(&other);
    work.file(
        "a.log",
        log.split_inclusive('\n').filter(own).collect::<String>(),
    );
    let stall = ["--stall", "1", "--exit-on-stall", "a.log"];
    let lines = run_in(work.dir(), "nccl-watch", &stall).calm().lines();
    let [.., answer, next] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert!(
        answer.starts_with("not judged: the log has neither calls"),
        "{answer}"
    );
    assert!(
        next.starts_with("next: ") && next.contains("NCCL_DEBUG_SUBSYS="),
        "{next}"
    );
    // Before the first call a note has how far the initialisation has come.
    let start = log.split_once(": opCount ").unwrap().0;
    work.file("a.log", &start[..=start.rfind('\n').unwrap()]);
    for (quiet, notes) in [(&[][..], 1), (&["-q"], 0)] {
        let text = run_in(work.dir(), "nccl-watch", &[&stall, quiet].concat()).text();
        assert!(
            text.contains("\nno fault found in") || text.contains("\nnot judged: "),
            "{text}"
        );
        assert_eq!(text.matches("\nnote: ").count(), notes, "{text}");
    }
}
