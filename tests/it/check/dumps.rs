//! Hung jobs of one GPU with the dumps of PyTorch's flight recorder: who, which call, and which line
//! of the program; from the dumps alone, and with the log.

use crate::support::{Csv, run};
use flate2::read::GzDecoder;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

/// The job, the finding of the dumps alone and with the log, the rank in the job, and what the
/// sentence has.
const HUNG: [(&str, &str, &str, &str, &str); 6] = [
    ("crossed", "deadlock", "deadlock", "1", "late.py:34"),
    (
        "ddp-skip",
        "line_mismatch",
        "redop_mismatch",
        "1",
        "job.py:317",
    ),
    ("ddp-stall", "rank_behind", "rank_behind", "1", "job.py:336"),
    ("kill", "dead_process", "rank_behind", "2", "late.py:38"),
    (
        "pp-recv",
        "p2p_missing_counterpart",
        "p2p_missing_counterpart",
        "1",
        "job.py:213",
    ),
    ("skippair", "deadlock", "deadlock", "3", "late.py:39"),
];

/// The errors: finding, rank, sentence.
fn errors(path: &Path, only_dumps: bool) -> Vec<[String; 3]> {
    let mut args = vec![path.to_str().unwrap().to_owned()];
    args.extend(["-q", "--format", "csv"].map(str::to_owned));
    if only_dumps {
        args.extend(["--glob", "nccl_trace_*"].map(str::to_owned));
    }
    let csv = Csv::of(&run("nccl-check", &args).calm().ends(1));
    let errors = csv
        .rows
        .iter()
        .filter(|row| csv.get(row, "severity") == "error");
    errors
        .map(|row| ["finding", "rank", "says"].map(|name| csv.get(row, name).to_owned()))
        .collect()
}

#[test]
fn hung_jobs_are_told_with_the_source_line() {
    let hung = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/hung");
    for (name, alone, joined, rank, line) in HUNG {
        let [one] = &errors(&hung.join(name), true)[..] else {
            panic!("{name}: not one error");
        };
        assert_eq!([&one[0], &one[1]], [alone, rank], "{name}");
        assert!(one[2].contains(line), "{name}: {}", one[2]);
        let [both] = &errors(&hung.join(name), false)[..] else {
            panic!("{name}: not one error with the log");
        };
        assert_eq!(both[0], joined, "{name}");
        assert!(
            both[2].contains("the flight recorder shows: "),
            "{name}: {}",
            both[2]
        );
        assert!(both[2].contains(line), "{name}: {}", both[2]);
    }
}

/// Unpacks a hung job's dump.
fn unpack_dump(job: &str, rank: u32) -> Vec<u8> {
    let hung = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/hung");
    let packed = File::open(hung.join(job).join(format!("nccl_trace_rank_{rank}.gz")));
    let mut dump = Vec::new();
    GzDecoder::new(packed.unwrap())
        .read_to_end(&mut dump)
        .unwrap();
    dump
}

/// A dump that is cut lacks its last calls, where a hang is: where all are cut nothing was judged.
#[test]
fn cut_dumps_are_not_judged() {
    let folder = tempfile::tempdir().unwrap();
    let answer = |cut: u32| {
        for rank in 0..4 {
            let name = format!("nccl_trace_rank_{rank}");
            let mut dump = unpack_dump("ddp-stall", rank);
            if rank < cut {
                dump.truncate(dump.len() / 2);
            }
            fs::write(folder.path().join(name), dump).unwrap();
        }
        let args = [folder.path().to_str().unwrap(), "--format", "text"].map(str::to_owned);
        run("nccl-check", &args).ends(1).lines()[0].clone()
    };
    assert_eq!(
        answer(4),
        "not judged: the dumps of 4 of 4 ranks are cut or damaged"
    );
    // The only whole dump is not that of the rank that stopped.
    assert_eq!(
        answer(3),
        "not judged: the dumps of 3 of 4 ranks are cut or damaged"
    );
    assert!(answer(1).starts_with("rank 1"), "{}", answer(1));
}

/// Records of a process with a communicator that the log does not have fill no call of it.
#[test]
fn dumps_of_another_job_give_no_times() {
    let hung = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/hung");
    let filled = |job: &str| {
        let mut args = vec![hung.join("ddp-stall/nccl.log.gz").display().to_string()];
        for rank in 0..4 {
            let dump = hung.join(job).join(format!("nccl_trace_rank_{rank}.gz"));
            args.extend(["--times".to_owned(), dump.display().to_string()]);
        }
        run("nccl-comms", &args).ends(0).stderr
    };
    let own = filled("ddp-stall");
    assert!(own.contains("557 of 557 calls have a record"), "{own}");
    let other = filled("pp-recv");
    assert!(other.contains("0 of 557 calls have a record"), "{other}");
}
