//! Jobs that hung on a GPU by a known fault, each with what RAS answered and the stacks of its processes.

use super::LiveStates;
use crate::report::Report;
use crate::source::{Input, InputName, Options};
use crate::stages::check::finding::{Confidence, Finding, Kind};
use crate::stages::communicators::CommunicatorsSummary;
use std::path::Path;

/// What the states in files of a job show: the first cause or note.
fn find(job: &str, inputs: &[&str]) -> Finding {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/ras")
        .join(job);
    let mut report = Report::new("test", false, true).silenced();
    let mut states = LiveStates::default();
    let mut files: Vec<_> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !inputs.iter().any(|begin| name.starts_with(begin)) {
            continue;
        }
        let origin = InputName::Path(path);
        let input = Input::open(
            &origin,
            Options::default(),
            crate::log::mend::blocks::BLOCK_REJOINER,
        )
        .unwrap();
        match name.starts_with("ras") {
            true => states.load_ras(&input, &mut report).unwrap(),
            false => states.load_stacks(&input, &mut report).unwrap(),
        }
    }
    let found = CommunicatorsSummary::default();
    let shown = states.find_causes(&found, false);
    let causes = shown.causes.into_iter().map(|shown| shown.finding);
    causes.chain(shown.notes).next().unwrap()
}

#[test]
fn the_state_of_a_job_shows_the_fault() {
    use Confidence::{High, Low, Medium};
    use Kind::{DeadProcess, Deadlock, LineMismatch, RankBehind, StackGroups};
    for (job, inputs, kind, rank, sure) in [
        ("stop", &["ras"][..], RankBehind, Some(0), Low),
        ("stop", &["stack"], RankBehind, Some(0), Low),
        ("stop", &["ras", "stack"], RankBehind, Some(0), High),
        ("skip", &["ras"], RankBehind, Some(0), High),
        ("fewer", &["ras"], RankBehind, Some(5), Medium),
        ("fewer", &["stack"], LineMismatch, Some(5), Low),
        ("fewer", &["ras", "stack"], RankBehind, Some(5), Medium),
        ("crossed", &["ras"], Deadlock, Some(2), Medium),
        ("crossed", &["stack"], StackGroups, None, High),
        ("crossed", &["ras", "stack"], Deadlock, Some(2), Medium),
        // A message is missing, which RAS does not count: the rank that is behind waits for it.
        ("message", &["ras"], RankBehind, Some(0), Low),
        ("message", &["ras", "stack"], RankBehind, None, Low),
        ("die", &["ras.json"], DeadProcess, Some(1), High),
        ("die", &["ras.txt"], DeadProcess, Some(1), High),
    ] {
        let found = find(job, inputs);
        assert_eq!(
            (found.kind, found.about.rank, found.sure),
            (kind, rank, sure),
            "{job}, {inputs:?}: {found:#?}"
        );
    }
}

#[test]
fn a_sentence_has_the_counts_and_the_lines() {
    assert_eq!(
        find("stop", &["ras", "stack"]).says,
        "rank 0 (pid 603 on 127.0.0.1) is in layer (train.py:39), and ranks 1-7 wait for it; ranks 1-7 are in \
         synchronize from train.py:76; by RAS it launched 10 AllReduce on communicator 0x42f187a69ed99798, ranks 1-7 \
         launched 12"
    );
    assert_eq!(
        find("fewer", &["ras", "stack"]).says,
        "rank 5 (pid 1186 on 127.0.0.1) is behind: it launched 26 ReduceScatter on communicator 0x47bba60fc0797457, ranks \
         1, 3, 7 launched 28; it is in barrier from train.py:84; ranks 0-4, 6-7 are in synchronize from train.py:76; also on \
         1 other communicator"
    );
}

/// Judges what RAS answered, as text.
fn judge_texts(texts: &[&str]) -> Vec<(Kind, Option<u32>, Confidence)> {
    let mut states = LiveStates::default();
    for text in texts {
        for snapshot in crate::formats::ras::parse_ras_snapshots(text.as_bytes()) {
            states
                .snapshots
                .push(super::NumberedSnapshot { input: 0, snapshot });
        }
    }
    let shown = states.find_causes(&CommunicatorsSummary::default(), false);
    let causes = shown.causes.into_iter().map(|shown| shown.finding);
    let all = causes.chain(shown.notes);
    all.map(|found| (found.kind, found.about.rank, found.sure))
        .collect()
}

/// An answer with one communicator: the state of each rank, and its AllReduces.
fn answer(ranks: &[(u32, u64)]) -> String {
    let each = ranks.iter().zip(0..).map(|((state, count), rank)| {
        format!(
            r#"{{"rank": {rank}, "host": "10.0.0.{rank}", "pid": {rank}, "status": {{"init_state": {state}}},
            "collective_counts": {{"AllReduce": {count}}}}}"#
        )
    });
    let each = each.collect::<Vec<_>>().join(",");
    let size = ranks.len();
    format!(r#"{{"communicators": [{{"hash": "0x1", "size": {size}, "ranks": [{each}]}}]}}"#)
}

#[test]
fn a_job_that_moves_has_no_fault() {
    let first = answer(&[(0, 5), (0, 6), (0, 6)]);
    let behind = (Kind::RankBehind, Some(0));
    let moved = answer(&[(0, 7), (0, 8), (0, 8)]);
    assert_eq!(
        judge_texts(&[&first, &moved]),
        [(Kind::NotChecked, None, Confidence::High)]
    );
    // One answer does not show that it stopped.
    assert_eq!(
        judge_texts(&[&first]),
        [(behind.0, behind.1, Confidence::Low)]
    );
    // In a job that runs several ranks are behind.
    let several = answer(&[(0, 5), (0, 5), (0, 6), (0, 6), (0, 7)]);
    assert_eq!(judge_texts(&[&several])[0].0, Kind::NotChecked);
    assert_eq!(judge_texts(&[&several, &several])[0].0, Kind::RankBehind);
    assert_eq!(
        judge_texts(&[&first, &first]),
        [(behind.0, behind.1, Confidence::Low)]
    );
    let level = answer(&[(0, 5), (0, 5)]);
    assert_eq!(
        judge_texts(&[&level, &level]),
        [(Kind::NotChecked, None, Confidence::High)]
    );
}

#[test]
fn an_initialisation_that_did_not_end_is_found() {
    let open = answer(&[(7, 0), (7, 0), (0, 0)]);
    assert_eq!(
        judge_texts(&[&open])[0],
        (Kind::InitIncomplete, None, Confidence::Low)
    );
    let missing = open.replace("\"size\": 3", "\"size\": 4").replace(
        "]}]}",
        "], \"missing_ranks\": [{\"rank\": 3, \"host\": \"h\", \"pid\": 9, \"status\": {\"unresponsive\": false}}]}]}",
    );
    let found = judge_texts(&[&missing, &missing]);
    assert_eq!(
        found[0],
        (Kind::InitMissingRank, Some(3), Confidence::Medium)
    );
}
