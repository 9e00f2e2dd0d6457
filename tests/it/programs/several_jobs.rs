//! Inputs of several jobs: every program that adds them up reports it.

use crate::support::{Work, arg, captured_logs, run, run_in};

/// Makes a job with a file for each rank in a folder.
fn make_job(work: &Work, seed: &str, folder: &str) {
    make_faulty_job(work, &["--seed", seed], folder);
}

/// The same with more options.
fn make_faulty_job(work: &Work, more: &[&str], folder: &str) {
    let sizes = ["--ranks", "16", "--nodes", "2", "--tp", "4", "--steps", "4"];
    let to = ["--layout", "per-rank", "-o", folder];
    std::fs::create_dir_all(work.dir().join(folder)).unwrap();
    run_in(work.dir(), "nccl-synth", &[&sizes[..], more, &to].concat()).ends(0);
}

/// The notes on several jobs.
fn notes(work: &Work, program: &str, args: &[&str]) -> Vec<String> {
    let out = run_in(work.dir(), program, args);
    let lines = out.stderr.lines();
    lines
        .filter(|line| line.contains(" jobs, "))
        .map(str::to_owned)
        .collect()
}

/// Programs that read all inputs as one job.
const PROGRAMS: [&[&str]; 10] = [
    &["nccl-hist"],
    &["nccl-ops"],
    &["nccl-agg", "--by", "step"],
    &["nccl-comms"],
    &["nccl-timing"],
    &["nccl-skew"],
    &["nccl-steps", "--list"],
    &["nccl-matrix"],
    &["nccl-communicators"],
    &["nccl-net"],
];

#[test]
fn every_program_reports_several_jobs_by_every_way() {
    let work = Work::new();
    make_job(&work, "1", "jobs/a");
    make_job(&work, "2", "jobs/b");
    for call in PROGRAMS {
        let (program, own) = call.split_first().unwrap();
        let is = |args: &[&str], first: &str| {
            let args = [own, args].concat();
            let found = notes(&work, program, &args);
            let [note] = &found[..] else {
                panic!("{program} {args:?}: {found:?}");
            };
            assert!(
                note.contains("the inputs are of 2 jobs, or attempts of one"),
                "{note}"
            );
            assert!(
                note.contains(&format!("16 ranks in jobs/{first}/nccl.")),
                "{note}"
            );
            assert!(note.contains(" and 15 other inputs, 16 ranks in"), "{note}");
            assert!(
                note.ends_with(&format!("{program} jobs/{first}/")),
                "{note}"
            );
        };
        is(&["jobs"], "a");
        is(&["-j1", "jobs"], "a");
        is(&["jobs/b", "jobs/a"], "a");
        assert_eq!(notes(&work, program, &[own, &["jobs/a"]].concat()), [""; 0]);
        assert_eq!(
            notes(&work, program, &[own, &["-q", "jobs"]].concat()),
            [""; 0]
        );
    }
    let compared = notes(&work, "nccl-diff", &["jobs", "jobs/a"]);
    assert!(
        compared[0].ends_with("nccl-diff jobs/a/ jobs/b/"),
        "{compared:?}"
    );
    // nccl-check has it as a finding.
    let found = run_in(work.dir(), "nccl-check", &["-f", "text", "jobs"]).text();
    assert!(found.contains("note: the inputs are of 2 jobs"), "{found}");
    assert_eq!(notes(&work, "nccl-check", &["jobs"]), [""; 0]);
}

#[test]
fn parts_of_one_job_are_one_job() {
    let work = Work::new();
    let parts = |name: &str| {
        let log = run(
            "nccl-steps",
            &[
                &captured_logs(name)[..],
                &["--keep-init".into(), "-q".into()],
            ]
            .concat(),
        );
        let log = log.stdout;
        let half = log.len() / 2
            + log[log.len() / 2..]
                .iter()
                .position(|b| *b == b'\n')
                .unwrap()
            + 1;
        let first = work.file(&format!("{name}.log.1"), &log[..half]);
        let second = work.file(&format!("{name}.log"), &log[half..]);
        [arg(&second).to_owned(), arg(&first).to_owned()]
    };
    let [ddp, fsdp] = [parts("ddp"), parts("fsdp")];
    for of_one in [&ddp, &fsdp] {
        let args: Vec<&str> = of_one.iter().map(String::as_str).collect();
        assert_eq!(notes(&work, "nccl-hist", &args), [""; 0]);
    }
    // An input with lines of both connects them: these are attempts, which steps tell apart.
    let both = std::fs::read(&ddp[0]).unwrap();
    let both = work.file(
        "both.log",
        [both, std::fs::read(&fsdp[1]).unwrap()].concat(),
    );
    let args = [&ddp[1], arg(&both), &fsdp[0]].map(|name: &str| name);
    assert_eq!(notes(&work, "nccl-hist", &args), [""; 0]);
    assert_eq!(
        notes(&work, "nccl-hist", &[&args[..], &["-j1"]].concat()),
        [""; 0]
    );
}

#[test]
fn the_rank_that_stopped_is_not_that_of_another_job() {
    let work = Work::new();
    make_faulty_job(&work, &["--seed", "1", "--fault", "stall"], "jobs/a");
    make_job(&work, "2", "jobs/b");
    for folder in ["jobs/a", "jobs"] {
        let page = run_in(work.dir(), "nccl-report", &["-q", folder, "-f", "html"]);
        let page = page.calm().text();
        let stopped = page.matches(" stopped</strong>").count();
        assert_eq!(stopped, 1, "{folder}\n{page}");
    }
}

#[test]
fn a_watch_of_several_jobs_reports_them_before_their_steps() {
    let work = Work::new();
    make_job(&work, "1", "jobs/a");
    make_job(&work, "2", "jobs/b");
    let watch = |folder: &str| {
        let stall = ["--stall", "1", "--exit-on-stall", folder];
        run_in(work.dir(), "nccl-watch", &stall).calm().lines()
    };
    let lines = watch("jobs");
    let is_note = |line: &String| {
        line.starts_with("note: the inputs are of 2 jobs, or attempts of one")
            && line.ends_with("To read one alone: nccl-watch jobs/a/")
    };
    let note = lines.iter().position(is_note);
    let step = lines.iter().position(|line| line.starts_with("step "));
    assert!(note < step && note.is_some(), "{lines:?}");
    assert!(!watch("jobs/a").iter().any(|line| line.contains(" jobs")));
}
