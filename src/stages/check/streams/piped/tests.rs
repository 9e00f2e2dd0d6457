//! A pipe of which calls are let go against its naive twin, the same log as a file: what is found is the
//! same, and so is every line that shows it.

use crate::stages::check::twins::{self, log};
use crate::synth;
use crate::synth::fault::{Fault, FaultKind};
use crate::synth::options::{Damage, Strategy};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;

thread_local! {
    /// The bytes of a pipe that lie in memory as they are, if a test says so.
    pub(super) static WINDOW: Cell<Option<u64>> = const { Cell::new(None) };
}

/// What is found in a file, and in a pipe of which so many bytes lie in memory.
fn both(log: &[u8], window: u64) -> [String; 2] {
    twins::both(log, log.len().max(1), |path| {
        WINDOW.set(Some(window));
        let found = twins::found(path, 2);
        WINDOW.set(None);
        found
    })
}

/// A job of some megabytes.
fn job(seed: u64) -> synth::Options {
    synth::Options {
        seed,
        ranks: 8,
        strategy: Strategy::Megatron,
        tp: 2,
        pp: 2,
        steps: 110,
        ..synth::Options::default()
    }
}

const FAULTS: [FaultKind; 6] = [
    FaultKind::Skip,
    FaultKind::Count,
    FaultKind::Datatype,
    FaultKind::Order,
    FaultKind::Recv,
    FaultKind::Stall,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    /// Faults anywhere in a job, of which all is let go as soon as it may be, or some megabytes later.
    #[test]
    fn a_pipe_of_which_calls_are_let_go_gives_the_findings_of_a_file(
        seed in 1..1000_u64,
        fault in 0..FAULTS.len(),
        step in 20..105_u64,
        window in prop_oneof![Just(0), 0..3_000_000_u64],
        damage in 0..4_usize,
    ) {
        let mut options = job(seed);
        options.fault = Some(Fault { step: Some(step), ..Fault::of(FAULTS[fault]) });
        if damage == 0 {
            options.damage = vec![(Damage::Glued, 0.002)];
        }
        let [file, piped] = both(&log(&options), window);
        prop_assert!(file.contains("severity: Error"));
        prop_assert_eq!(piped, file);
    }
}

#[test]
fn members_that_come_later_are_waited_for() {
    // The log of one process after another.
    let mut options = job(5);
    options.fault = Some(Fault {
        step: Some(60),
        ..Fault::of(FaultKind::Redop)
    });
    let log = log(&options);
    let text = String::from_utf8(log).unwrap();
    let mut by_process: BTreeMap<&str, String> = BTreeMap::new();
    for line in text.split_inclusive('\n') {
        let process = line
            .strip_prefix("node01:")
            .and_then(|rest| rest.split(':').next());
        let lines = by_process.entry(process.unwrap_or("others")).or_default();
        lines.push_str(line);
    }
    let apart: String = by_process.into_values().collect();
    let [file, piped] = both(apart.as_bytes(), 0);
    assert!(file.contains("RedopMismatch"));
    assert_eq!(piped, file);
}

#[test]
fn a_job_that_goes_on_after_its_ranks_differ_is_judged_by_where_they_began_to() {
    let mut options = job(7);
    options.fault = Some(Fault {
        step: Some(9),
        ..Fault::of(FaultKind::Redop)
    });
    let [file, piped] = both(&log(&options), 0);
    assert!(file.contains("RedopMismatch"));
    assert_eq!(piped, file);
}

#[test]
fn what_no_line_names_is_let_go_where_all_ranks_are_there() {
    let mut options = job(11);
    options.init = false;
    options.fault = Some(Fault {
        step: Some(100),
        ..Fault::of(FaultKind::Stall)
    });
    let [file, piped] = both(&log(&options), 0);
    assert_eq!(piped, file);
}
