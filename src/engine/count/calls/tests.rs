//! Small files that are walked ahead, against files that are read in turn.

use super::*;
use crate::count::tally::SizeKey;
use crate::formats::open::{self, InputOutcomes};
use crate::grammar::values::ByteBasis;
use crate::log::walk::{self, tests::healthy};
use crate::testing::{Nobody, options};
use proptest::prelude::*;
use std::fs;
use std::path::Path;

/// Logs of no line and more, a damaged one, a table, a binary file, one that is not there, and
/// one that is no small file.
fn folder(dir: &Path) -> Vec<InputName> {
    let call = |rank: usize, i: usize| {
        format!(
            "h{}:{}:{} [{rank}] NCCL INFO AllReduce: opCount {i:x} sendbuff 0x7f0000000000 \
             recvbuff 0x7f0000000000 count {} datatype 7 op 0 root 0 comm 0x5500299{:05x} \
             [nranks=32] stream 0x5600ea6658e0\n",
            rank % 3,
            100 + rank,
            200 + rank,
            1 << (i % 20),
            rank % 7,
        )
    };
    for rank in 0..40 {
        let lines = if rank == 20 { 6000 } else { rank * rank };
        let log: String = (0..lines).map(|i| call(rank, i)).collect();
        fs::write(dir.join(format!("r{rank:02}.log")), log).unwrap();
    }
    fs::write(dir.join("r07b.csv"), "op,count,datatype\nSend,5,int8\n").unwrap();
    fs::write(dir.join("r08b.log"), b"\x7fELF\x02\x01").unwrap();
    fs::write(
        dir.join("r09b.log"),
        "h1:2:3 [0] NCCL INFO AllReduce: opCount 5 sendbuff\n",
    )
    .unwrap();
    let mut origins = source::expand_paths(&[dir.to_owned()], &[])
        .unwrap()
        .origins;
    origins.insert(11, InputName::Path(dir.join("nothing")));
    origins
}

fn tally(steps: bool) -> tally::Options {
    tally::Options {
        members: true,
        datatypes: true,
        steps,
        exact: true,
        ..tally::Options::by_size(SizeKey::Count, ByteBasis::Api)
    }
}

/// The twin: each input opened when it is its turn.
fn one_by_one(
    origins: &[InputName],
    options: &Options,
    tally: &tally::Options,
    report: &mut Report,
) -> Result<CountedCalls> {
    let mut all = CallCollector::new(options, tally, origins.len());
    let mut outcome = InputOutcomes::new(origins);
    for origin in origins {
        let result = open::open_input(origin, options.source, Provides::CALLS);
        let result = result.and_then(|mut input| all.read_input(&mut input, report, &Nobody));
        outcome.add_result(origin, result, report)?;
    }
    outcome.finish(report)?;
    all.count_held_inputs();
    Ok(all.finish())
}

/// Holds the inputs as workers walk them against the twin.
fn hold(origins: &[InputName], options: &Options, steps: bool) -> Result<CountedCalls> {
    let tally = tally(steps);
    let (mut report, mut other) = (Report::new("a", false, true), Report::new("b", false, true));
    let got = count_calls(origins, options, &tally, &mut report, &Nobody);
    let want = one_by_one(origins, options, &tally, &mut other);
    let all = |calls: &Result<CountedCalls>| match calls {
        Ok(calls) => format!(
            "{:?} {:?} {:?}",
            calls.ops,
            calls.who,
            calls.cells.list_counts()
        ),
        Err(e) => e.to_string(),
    };
    assert_eq!(all(&got), all(&want));
    assert_eq!(report.total_account(), other.total_account());
    assert_eq!(report.is_damaged(), other.is_damaged());
    got
}

#[test]
fn small_files_read_ahead_give_what_they_give_in_turn() {
    let dir = tempfile::tempdir().unwrap();
    let origins = folder(dir.path());
    for (jobs, strict) in [(1, false), (2, false), (5, false), (1, true), (4, true)] {
        let got = hold(&origins, &options(jobs, strict), false);
        assert_eq!(got.is_err(), strict);
    }
}

proptest! {
    /// Files with torn lines, with step lines and without, and such that are no logs.
    #[test]
    fn small_files_walked_as_one_give_what_each_gives(
        files in proptest::collection::vec(prop_oneof![
            9 => healthy(),
            1 => walk::tests::log(),
            1 => Just(b"op,count,datatype\nSend,5,int8\n".to_vec()),
        ], 1..40),
        jobs in 1..4_usize,
        steps: bool,
    ) {
        let dir = tempfile::tempdir().unwrap();
        for (at, file) in files.iter().enumerate() {
            fs::write(dir.path().join(format!("{at:02}.log")), file).unwrap();
        }
        let origins = source::expand_paths(&[dir.path().to_owned()], &[]).unwrap().origins;
        // A folder of empty files has no log.
        let is_ok = files.iter().any(|file| !file.is_empty());
        prop_assert_eq!(hold(&origins, &options(jobs, false), steps).is_ok(), is_ok);
    }
}
