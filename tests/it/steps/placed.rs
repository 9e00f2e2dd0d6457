//! Calls in their true steps: ranks that lead the rank that prints or lag behind it, one log or a
//! file for each rank, against what the job knows of itself.

use crate::support::{
    Csv, Out, Proc, Work, arg, captured, data, megatron, nemo, procs, run, run_in, sh, sorted,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

const STEPS: usize = 9;

/// A job of four ranks: one communicator of all, and one of each pair.
struct Job {
    /// By rank: INIT lines, and the lines of each step. `opCount` is the step.
    ranks: Vec<(String, Vec<Vec<String>>)>,
    printer: usize,
    line: fn(u64) -> String,
}

impl Job {
    fn new(printer: usize, line: fn(u64) -> String) -> Job {
        let all = procs(4);
        let rank = |(rank, p): (u32, &Proc)| {
            let pair = Proc {
                comm: p.comm + 0x800,
                nranks: 2,
                ..*p
            };
            let mut init = p.init(rank, 0x9f3b_0c2d_11e5_a7c4) + "\n";
            let id = 0x51aa_0c2d_11e5_0000 + u64::from(rank / 2);
            writeln!(init, "{}", pair.init(rank % 2, id)).unwrap();
            let step = |step: usize| {
                let mut lines = Vec::new();
                for layer in 0..3 {
                    lines.push(pair.call("AllGather", 4096 << layer, 9));
                    lines.push(pair.call("ReduceScatter", 8192 << layer, 9));
                }
                lines.push(p.call("AllReduce", 1 << 20, 7));
                lines.push(p.call("AllReduce", 1, 7));
                let truth = format!("opCount {step:x} ");
                let mark = |line: String| line.replace("opCount 2c ", &truth);
                lines.into_iter().map(mark).collect()
            };
            (init, (0..STEPS).map(step).collect())
        };
        Job {
            ranks: (0..).zip(&all).map(rank).collect(),
            printer,
            line,
        }
    }

    /// One log; at each line the ranks have made other numbers of calls of the steps around it.
    fn log(&self) -> String {
        let mut log: String = self.ranks.iter().map(|(init, _)| init.as_str()).collect();
        let lines = self.ranks.iter().map(|r| r.1.iter().flatten().collect());
        let lines: Vec<Vec<&String>> = lines.collect();
        let mut made = vec![0; lines.len()];
        for step in 0..STEPS {
            for (rank, lines) in lines.iter().enumerate() {
                let whole = lines.len() / STEPS;
                let ahead = (step * 7 + rank * 5) % (2 * whole) + rank;
                let until = match rank == self.printer {
                    true => (step + 1) * whole,
                    false => (step * whole + ahead).min(lines.len()),
                };
                let from = made[rank];
                made[rank] = until.max(from);
                for line in &lines[from..made[rank]] {
                    writeln!(log, "{line}").unwrap();
                }
            }
            writeln!(log, "{}", (self.line)(step as u64)).unwrap();
        }
        for (lines, made) in lines.iter().zip(made) {
            lines[made..]
                .iter()
                .for_each(|line| log += &format!("{line}\n"));
        }
        log
    }

    /// One file a rank; the step lines are in the printer's, or in one of their own.
    fn files(&self, work: &Work, apart: bool) -> Vec<String> {
        let mut paths = Vec::new();
        let mut printed = String::new();
        for (rank, (init, steps)) in self.ranks.iter().enumerate() {
            let mut text = init.clone();
            for (step, lines) in steps.iter().enumerate() {
                lines.iter().for_each(|line| text += &format!("{line}\n"));
                if rank == self.printer {
                    let to = if apart { &mut printed } else { &mut text };
                    writeln!(to, "{}", (self.line)(step as u64)).unwrap();
                }
            }
            let path = work.file(&format!("nccl.{rank}.log"), text);
            paths.push(arg(&path).to_owned());
        }
        if apart {
            paths.push(arg(&work.file("out.txt", printed)).to_owned());
        }
        paths
    }
}

fn jobs() -> [Job; 2] {
    [Job::new(0, nemo), Job::new(3, megatron)]
}

/// How many calls have a step, and of how many it is the true one.
fn right(out: &Out) -> (usize, usize) {
    let table = Csv::of(out);
    let steps = table
        .column("step")
        .into_iter()
        .zip(table.column("op_count"));
    let known: Vec<_> = steps.filter(|(step, _)| !step.is_empty()).collect();
    (known.len(), known.iter().filter(|(a, b)| a == b).count())
}

fn ran(program: &str, args: &[&str], files: &[String]) -> Out {
    let files = files.iter().map(String::as_str);
    let args: Vec<&str> = args.iter().copied().chain(files).collect();
    run(program, &args).ends(0)
}

#[test]
fn calls_of_ranks_ahead_and_late_have_their_true_step() {
    for job in jobs() {
        let work = Work::new();
        let log = job.log();
        let path = arg(&work.file("job.log", &log)).to_owned();
        let calls = log.matches("opCount").count();
        let out = ran("nccl-comms", &[], std::slice::from_ref(&path));
        assert_eq!(right(&out), (calls, calls), "{}", out.stderr);
        // By position many are not.
        let out = ran(
            "nccl-comms",
            &["--by-position"],
            std::slice::from_ref(&path),
        );
        let (known, true_ones) = right(&out);
        assert!(true_ones * 10 < known * 9, "{true_ones} of {known}");
        out.says(&["by the position of their lines (--by-position)"]);
        // Who prints may be said, and be wrong: no call is lost.
        let said = job.printer.to_string();
        let out = ran(
            "nccl-comms",
            &["--printer", &said],
            std::slice::from_ref(&path),
        );
        assert_eq!(right(&out), (calls, calls));
        let out = ran("nccl-comms", &["--printer", "1"], &[path]);
        assert_eq!(out.lines().len(), calls + 1);
        assert!(right(&out).1 < calls);
    }
}

#[test]
fn by_position_is_what_lies_between_the_lines() {
    let job = Job::new(0, nemo);
    let (work, log) = (Work::new(), job.log());
    let path = work.file("job.log", &log);
    let mut made: BTreeMap<String, usize> = BTreeMap::new();
    let mut step = 0;
    for line in log.lines() {
        if line.contains("global_step") {
            step += 1;
        } else if line.contains("opCount") {
            // What comes after the last line is the last step's.
            *made.entry(step.min(STEPS).to_string()).or_default() += 1;
        }
    }
    let out = run("nccl-steps", &[arg(&path), "--list", "--by-position"]).ends(0);
    let table = Csv::of(&out);
    let calls: usize = table
        .column("calls")
        .iter()
        .map(|n| n.parse::<usize>().unwrap())
        .sum();
    assert_eq!(calls, made.values().sum::<usize>());
    for (at, n) in table.column("calls").iter().take(STEPS).enumerate() {
        assert_eq!(*n, made[&at.to_string()].to_string(), "step {at}");
    }
}

#[test]
fn the_lines_of_steps_are_those_of_their_calls() {
    for job in jobs() {
        let work = Work::new();
        work.file("job.log", job.log());
        std::fs::create_dir(work.dir().join("files")).unwrap();
        for path in job.files(&work, false) {
            let to = work
                .dir()
                .join("files")
                .join(Path::new(&path).file_name().unwrap());
            std::fs::rename(path, to).unwrap();
        }
        for input in ["job.log", "files"] {
            let hist = sh(work.dir(), &format!("nccl-hist -q {input} --steps 3..5")).ends(0);
            let by_lines =
                format!("nccl-steps -q {input} --steps 3..5 | nccl-comms -q | nccl-hist -q");
            assert_eq!(
                hist.text(),
                sh(work.dir(), &by_lines).ends(0).text(),
                "{input}"
            );
            let table = format!("nccl-comms -q {input} --steps 3..5 | nccl-hist -q");
            assert_eq!(
                hist.text(),
                sh(work.dir(), &table).ends(0).text(),
                "{input}"
            );
            let list = sh(
                work.dir(),
                &format!("nccl-steps -q {input} --list --steps 3..5"),
            );
            let calls = Csv::of(&list.ends(0)).sum("calls");
            assert_eq!(calls, 3 * 4 * 8, "{input}");
        }
    }
}

#[test]
fn a_file_a_rank_gives_what_one_log_gives_in_any_order() {
    for job in jobs() {
        let work = Work::new();
        let log = [arg(&work.file("job.log", job.log())).to_owned()];
        let files = job.files(&work, false);
        let back: Vec<String> = files.iter().rev().cloned().collect();
        for args in [
            &["nccl-hist", "--by", "step,comm"][..],
            &["nccl-ops", "--by", "step"],
            &["nccl-ops", "--steps", "2..6"],
            &["nccl-agg", "--by", "step"],
            &["nccl-comms", "--unique", "--steps", "2..6"],
            &["nccl-communicators", "--steps", "2..6", "--format", "csv"],
        ] {
            let [program, args @ ..] = args else { continue };
            // Rows of communicators come in the order in which they were met.
            let rows = |out: Out| match *program {
                "nccl-communicators" => sorted(&out.stdout).join("\n"),
                _ => out.text(),
            };
            let want = rows(ran(program, args, &log));
            for jobs in ["1", "3"] {
                let args: Vec<&str> = args.iter().copied().chain(["-j", jobs]).collect();
                assert_eq!(
                    rows(ran(program, &args, &files)),
                    want,
                    "{program} {args:?}"
                );
                assert_eq!(rows(ran(program, &args, &back)), want, "{program} {args:?}");
            }
        }
        let out = ran("nccl-comms", &[], &back);
        let calls = out.lines().len() - 1;
        assert_eq!(right(&out), (calls, calls), "{}", out.stderr);
        assert!(!out.stderr.contains("have no step"), "{}", out.stderr);
        // Two runs, one of each kind, do not differ.
        let folder = Work::new();
        job.files(&folder, false);
        let out = run(
            "nccl-diff",
            &[&log[0], arg(folder.dir()), "--format", "csv"],
        )
        .calm();
        assert_eq!(out.code, Some(0), "{}{}", out.text(), out.stderr);
    }
}

#[test]
fn step_lines_apart_from_all_calls_place_none() {
    let (job, work) = (Job::new(0, nemo), Work::new());
    let files = job.files(&work, true);
    let out = ran("nccl-comms", &[], &files);
    let calls = out.lines().len() - 1;
    assert_eq!((right(&out), calls), ((0, 0), 4 * 8 * STEPS));
    out.says(&["288 have no step (the step lines are in a file without NCCL calls)"]);
    let out = ran("nccl-hist", &["--by", "step"], &files);
    assert!(!out.stderr.contains("no step lines"), "{}", out.stderr);
    out.says(&["step is unknown for 288 of 288 calls: these belong to no step"]);
}

#[test]
fn without_init_lines_position_is_all() {
    let (job, work) = (Job::new(0, nemo), Work::new());
    let log = job.log();
    let lines = log.lines().filter(|line| !line.contains("commId"));
    let path = work.file(
        "job.log",
        lines.map(|l| format!("{l}\n")).collect::<String>(),
    );
    let out = run("nccl-hist", &[arg(&path), "--by", "step"]).ends(0);
    let position = run("nccl-hist", &[arg(&path), "--by", "step", "--by-position"]);
    assert_eq!(out.text(), position.ends(0).text());
    out.says(&["288 were assigned to steps by the position of their lines (no INIT lines report"]);
}

#[test]
fn a_name_that_was_glued_and_a_torn_line_leave_a_call_in_its_place() {
    let all = procs(2);
    let (a, b) = (&all[0], &all[1]);
    let (first, torn) = (a.call("AllReduce", 1 << 20, 9), b.call("AllReduce", 7, 9));
    let glued = format!(
        "{}: {}Bootstrap : Using eth0:10.0.3.7<0>",
        &first[..90],
        b.head()
    );
    let b_first = b.call("AllReduce", 9, 9);
    let lines = [
        &glued,
        &b_first,
        &first,
        &nemo(5),
        &format!("{}{first}", &torn[..128]),
        &torn[128..].to_owned(),
        &b_first,
        &nemo(6),
    ];
    let log: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let work = Work::new();
    let path = work.file("nccl.log", log);
    for args in [&["-q", "--list"][..], &["-q", "--list", "--by-position"]] {
        let args = [args, &[arg(&path)]].concat();
        let steps = Csv::of(&run("nccl-steps", &args).ends(1));
        assert_eq!(steps.pick(&["step", "calls"]), ["5 2", "6 3"]);
    }
    let calls = Csv::of(&run("nccl-comms", &["-q", arg(&path)]).ends(1));
    let (pid, b) = (b.pid.to_string(), ["5 9", "6 7", "6 9"]);
    let own = calls.pick(&["pid", "step", "count"]);
    let own = own
        .iter()
        .filter_map(|row| row.strip_prefix(&format!("{pid} ")));
    assert_eq!(own.collect::<Vec<_>>(), b);
}

/// By call of a simulated job: its step, and the true one, if that is below `hangs`, whose line never
/// comes.
fn told_and_true(job: &str, hangs: u64) -> Vec<[Option<u64>; 2]> {
    let work = Work::new();
    let args = format!("{job} --truth truth.json -o nccl.log");
    let args: Vec<&str> = args.split_whitespace().collect();
    run_in(work.dir(), "nccl-synth", &args).ends(0);
    let truth = std::fs::read(work.dir().join("truth.json")).unwrap();
    let truth: serde_json::Value = serde_json::from_slice(&truth).unwrap();
    let truth = truth["call_steps"]["stream"].as_array().unwrap();
    let calls = Csv::of(&run_in(work.dir(), "nccl-comms", &["-q", "nccl.log"]).ends(0));
    let steps = calls.column("step");
    assert_eq!(steps.len(), truth.len());
    let both = steps.iter().zip(truth);
    both.map(|(step, truth)| [step.parse().ok(), truth.as_u64().filter(|&t| t < hangs)])
        .collect()
}

#[test]
fn what_one_rank_does_alone_moves_no_call_of_a_step() {
    let jobs = [
        // A rank makes two calls in the other order, once.
        (
            "--seed 30301 --ranks 4 --strategy ddp --steps 9 --trainer gpt-neox --nccl 2.21 --layers 2 \
             --lead 1 --fault order",
            5,
        ),
        // The rank that prints saves alone after its line; the others are ahead of it.
        (
            "--seed 301800 --ranks 12 --strategy server --steps 6 --trainer nemo2 --nccl 2.28 --layers 2 \
             --nodes 2 --lead 2 --fault lone-save",
            4,
        ),
        // Another rank, which is ahead, saves alone after a step: its calls there look like those of a step.
        (
            "--seed 906002 --ranks 8 --strategy zero3 --steps 20 --trainer megatron --nccl 2.18 --layers 2 \
             --nodes 2 --lead 2 --fault lone-save",
            12,
        ),
    ];
    for (job, hangs) in jobs {
        let all = told_and_true(job, hangs);
        assert!(all.iter().all(|[step, truth]| step == truth), "{job}");
    }
}

#[test]
fn the_step_before_one_that_the_printing_rank_skips_has_no_calls_of_later_ones() {
    let job = "--seed 311700 --ranks 16 --strategy megatron --steps 14 --trainer nemo2 --nccl 2.18 --layers 2 \
               --nodes 2 --tp 2 --pp 1 --lead 2 --fault skip-step";
    // Rank 0 skips step 7: no call of it is known to belong to the skipped step by its number.
    for [step, truth] in told_and_true(job, 8) {
        assert!(step == truth || step.is_none() && truth == Some(7));
    }
}

/// The lines of the second attempt say nothing of who printed in the first.
#[test]
fn each_attempt_is_placed_by_its_own_lines() {
    let job = "--seed 6012001 --ranks 6 --strategy megatron --steps 14 --trainer nanotron --nccl 2.18 --layers 2 \
               --nodes 2 --tp 1 --pp 1 --lead 3 --restart-at 4 --eval-every 2";
    let all = told_and_true(job, u64::MAX);
    let (mut wrong, mut unfinished) = (0, 0);
    for [told, truth] in all {
        // The first attempt died in its fifth step, which has no line.
        unfinished += usize::from(told != truth && truth == Some(5));
        wrong += usize::from(told != truth && truth != Some(5));
    }
    assert_eq!((wrong, unfinished), (0, 21));
}

/// Every rank of torchtitan prints each step, and no communicator of the log tells whose line is whose: what
/// all ranks do around their own lines does.
#[test]
fn whose_line_it_is_where_every_rank_prints_is_known_after_three_steps() {
    let log = std::fs::read(captured("torchtitan").join("nccl.log.gz")).unwrap();
    let log = std::io::read_to_string(flate2::read::GzDecoder::new(&log[..])).unwrap();
    let steps = |lines: usize| -> Vec<Option<u64>> {
        let cut: String = log.split_inclusive('\n').take(lines).collect();
        let work = Work::new();
        let path = work.file("nccl.log", cut);
        let calls = Csv::of(&run("nccl-comms", &["-q", arg(&path)]).ends(0));
        let column = calls.column("step");
        column.iter().map(|step| step.parse().ok()).collect()
    };
    let all = steps(usize::MAX);
    // After the third step's last line, and after that of the seventh.
    for lines in (2458..2474).step_by(3).chain((4028..4044).step_by(3)) {
        let here = steps(lines);
        let last = here.iter().flatten().max().copied().unwrap();
        assert!(last == 3 || last == 7);
        for (here, all) in here.iter().zip(&all) {
            assert!(here == all || here.is_none_or(|step| step == last) && *all >= Some(last));
        }
    }
}

/// Simulated jobs with the true step of every call: at least 99.5 % have it.
#[test]
fn simulated_jobs_have_their_calls_in_the_true_steps() {
    let Some(folder) = data("jobs") else { return };
    let mut jobs = 0;
    for path in crate::support::files(&folder) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some(job) = name
            .strip_suffix(".log.zst")
            .filter(|n| n.starts_with("steps-"))
        else {
            continue;
        };
        jobs += 1;
        let truth = std::fs::read(folder.join(format!("{job}.truth.json"))).unwrap();
        let truth: serde_json::Value = serde_json::from_slice(&truth).unwrap();
        let table = Csv::of(&run("nccl-comms", &["-q", arg(&path)]).ends(0));
        let steps = table.column("step");
        let calls = truth["calls"].as_array().unwrap();
        assert_eq!(steps.len(), calls.len(), "{job}");
        let numbers = || steps.iter().filter_map(|s| s.parse::<u64>().ok());
        // Trainers count from 0 or 1, or go on from a checkpoint.
        let (first, last) = (numbers().min().unwrap(), numbers().max().unwrap());
        let known = calls
            .iter()
            .zip(&steps)
            .filter_map(|(c, s)| Some((c.as_u64()?, s)));
        let (mut n, mut ok) = (0_usize, 0);
        for (call, step) in known {
            n += 1;
            // What comes after the last line has no step.
            let is_true = match step.parse::<u64>() {
                Ok(step) => step == call + first,
                Err(_) => call + first > last,
            };
            ok += usize::from(is_true);
        }
        assert!(n > 0 && ok * 1000 >= n * 995, "{job}: {ok} of {n}");
    }
    assert!(jobs > 0);
}
