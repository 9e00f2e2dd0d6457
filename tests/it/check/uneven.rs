//! Jobs of which one copy of the model ran whole steps more or less than the others.

use super::{findings, job};

/// Hosts run up to two steps ahead of their GPUs.
const JOB: &str = "--ranks 8 --tp 2 --lead 2";

#[test]
fn a_copy_of_the_model_that_ran_a_step_more_or_less_is_named() {
    let cases = [
        (
            "more-steps",
            "rank_ahead",
            "ranks 4 and 5 made 3 calls on communicator ",
            "these calls repeat earlier steps: they ran more steps than the others (uneven data)",
        ),
        (
            "fewer-steps",
            "rank_behind",
            "rank 4 (node01, GPU 4, pid ",
            "the missing calls are whole steps: it ran fewer steps than the others (uneven data)",
        ),
    ];
    for (fault, id, who, what) in cases {
        let job = job(JOB, &format!("--steps 12 --fault {fault}")).unwrap();
        assert_eq!(job.truth["fault"]["ranks"], serde_json::json!([4, 5]));
        let whole = std::fs::read_to_string(&job.log).unwrap();
        let calls = whole.lines().filter(|line| line.contains("NCCL INFO"));
        let calls = calls.collect::<Vec<_>>().join("\n");
        // With the lines that report the failure, and by the calls alone.
        for (text, has_failure) in [(whole.as_str(), true), (&calls, false)] {
            std::fs::write(&job.log, text).unwrap();
            let csv = findings(&job.log);
            let first = |name: &str| csv.get(&csv.rows[0], name);
            let says = first("says");
            assert_eq!(first("finding"), id, "{says}");
            assert_eq!(first("severity"), "error", "{says}");
            assert!(says.starts_with(who) && says.contains(what), "{says}");
            let failed = first("why").contains("the log reports that the job failed");
            assert_eq!(failed, has_failure, "{}", first("why"));
        }
    }
}

#[test]
fn ranks_that_run_ahead_in_a_healthy_job_ran_no_step_more() {
    let job = job(JOB, "--steps 12").unwrap();
    let whole = std::fs::read_to_string(&job.log).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    // Wherever the log ends.
    for part in [1.0, 0.97, 0.9, 0.8, 0.71] {
        let end = (lines.len() as f64 * part) as usize;
        std::fs::write(&job.log, lines[..end].concat()).unwrap();
        let csv = findings(&job.log);
        assert_eq!(csv.column("says"), Vec::<String>::new(), "{end} lines");
    }
}

#[test]
fn who_skipped_a_step_is_named() {
    let cases = [
        // It prints the step lines, and made no call in one of them; the log ends with a step line.
        (
            "--ranks 8 --strategy fsdp --trainer megatron --nccl 2.27 --seed 11 --lead 1",
            "--steps 11 --fault skip-step,watchdog=off",
            "rank 7 (node01, GPU 7, pid ",
        ),
        // One of two copies of the model: a call of every fourth step comes too soon.
        (
            "--ranks 8 --tp 2 --pp 2 --trainer megatron --nccl 2.21 --seed 10 --lead 3",
            "--steps 11 --fault skip-step",
            "where ranks 0, 1, 4 and 5 call AllReduce",
        ),
    ];
    for (shape, fault, who) in cases {
        let csv = findings(&job(shape, fault).unwrap().log);
        let says = csv.get(&csv.rows[0], "says");
        assert!(says.contains(who), "{says}");
    }
}

#[test]
fn of_two_halves_the_announced_number_of_steps_tells_which_is_wrong() {
    let shape = "--ranks 8 --tp 2 --pp 2 --trainer megatron --nccl 2.21 --seed 17 --lead 2";
    for (fault, finding) in [("more-steps", "rank_ahead"), ("fewer-steps", "rank_behind")] {
        let job = job(shape, &format!("--steps 8 --fault {fault},watchdog=on")).unwrap();
        let csv = findings(&job.log);
        let first = |name: &str| csv.get(&csv.rows[0], name);
        assert_eq!(first("finding"), finding, "{}", first("says"));
        let guilty = [2, 3, 6, 7].map(|rank| rank.to_string());
        assert_eq!(job.truth["fault"]["ranks"], serde_json::json!([2, 3, 6, 7]));
        assert!(
            guilty.contains(&first("rank").to_owned()),
            "{}",
            first("says")
        );
    }
}
