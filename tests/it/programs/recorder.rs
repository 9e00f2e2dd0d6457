//! Recordings of nccl-pipe's profiler plugin, beside the log of the same job.

use crate::support::{Csv, Work, arg, root, run};
use std::collections::BTreeMap;

/// The calls of each member of each communicator, in order: operation, elements, type, root or peer.
type CallsByMember = BTreeMap<[String; 2], Vec<[String; 4]>>;

const PROCESSES: [u32; 2] = [894, 895];

/// A file of the recorded job.
fn file(name: &str) -> String {
    let path = root().join("testdata/recorder").join(name);
    path.display().to_string()
}

fn calls_of(input: &str, wanted: impl Fn(&str) -> bool) -> CallsByMember {
    let table = Csv::of(&run("nccl-comms", &["-q", "--format", "csv", &file(input)]).ends(0));
    let mut calls = CallsByMember::new();
    for row in table.rows.iter().filter(|row| wanted(table.get(row, "op"))) {
        let of = |column| table.get(row, column).to_owned();
        let call = ["op", "count", "datatype", "root"].map(of);
        calls
            .entry(["comm_id", "rank"].map(of))
            .or_default()
            .push(call);
    }
    calls
}

#[test]
fn a_recording_has_the_calls_of_the_log() {
    // NCCL makes an AlltoAll of Sends and Recvs.
    let is_whole = |op: &str| !["AlltoAll", "Send", "Recv"].contains(&op);
    for pid in PROCESSES {
        let recorded = calls_of(&format!("nccl-vm-{pid}.ncclrec"), is_whole);
        let logged = calls_of(&format!("nccl.vm.{pid}.log.gz"), is_whole);
        assert!(recorded.values().map(Vec::len).sum::<usize>() > 200);
        assert_eq!(recorded, logged);
    }
}

#[test]
fn recordings_are_counted_and_compared_as_calls() {
    let inputs = PROCESSES.map(|pid| file(&format!("nccl-vm-{pid}.ncclrec")));
    let sizes = Csv::of(&run("nccl-hist", &["-q", &inputs[0], &inputs[1]]).ends(0));
    assert_eq!(sizes.sum("calls"), 2 * 601);
    run("nccl-check", &["--format", "text", &inputs[0], &inputs[1]])
        .ends(3)
        .says(&["recorded collectives by more than one rank: the sizes agree"]);
    // A recorder that was killed leaves whole frames.
    let (whole, work) = (std::fs::read(&inputs[0]).unwrap(), Work::new());
    let cut = work.file("cut.ncclrec", &whole[..whole.len() * 2 / 3]);
    let rest = run("nccl-hist", &[arg(&cut)])
        .ends(1)
        .says(&["damaged: expected a whole frame"]);
    assert!(Csv::of(&rest).sum("calls") > 100);
}
