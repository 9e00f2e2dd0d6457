//! What must hold, in any words: it is refused or every part of it is answered.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nccl_pipe::stages::check::answer::expect::{ExpectVerdict, Expectations, LogFacts, answer_all};
use nccl_pipe::stages::check::answer::table;
use nccl_pipe::stages::check::{self, JobLiveness};
use nccl_pipe_fuzz::{Nobody, Work, log, options, report, written};
use std::sync::LazyLock;

/// What some logs say.
static FACTS: LazyLock<Vec<LogFacts>> = LazyLock::new(|| {
    let facts = |seed: u8| {
        let work = Work::default();
        let origin = work.file("x.log", &log(&[seed]));
        let checked = check::check(
            &[origin],
            &options(1, true),
            JobLiveness::Unknown,
            &mut report(),
            &Nobody,
        );
        checked.ok().map(|checked| checked.facts)
    };
    (0..=255).step_by(16).filter_map(facts).collect()
});

fuzz_target!(|text: &str| {
    let Ok(expect) = text.parse::<Expectations>() else {
        return;
    };
    let parts = text
        .split(',')
        .filter(|part| !part.trim().is_empty())
        .count();
    for facts in FACTS.iter() {
        let answers = answer_all(&expect, facts);
        assert_eq!(answers.len(), parts, "an answer for each");
        let _ = (
            ExpectVerdict::worst_of(&answers),
            written(table::answers_grid(&answers)),
        );
    }
});
