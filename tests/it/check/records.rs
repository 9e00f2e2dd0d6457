//! NCCL Inspector's records of a captured job: alone, with its log, and where a rank passed another size.

use crate::support::{Csv, captured, feed, run};
use flate2::read::MultiGzDecoder;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The records of a captured job.
fn records(job: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(job)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.retain(|path| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("vm-pid")
    });
    paths.sort();
    paths
}

#[test]
fn equal_records_are_no_finding_and_another_size_is_one() {
    let job = captured("fsdp-inspector");
    let paths = records(&job);
    let names = |paths: &[PathBuf]| paths.iter().map(|p| p.display().to_string()).collect();
    let names: Vec<String> = names(&paths);
    let calm = run("nccl-check", &names).ends(0);
    assert_eq!(Csv::of(&calm).rows.len(), 0);
    assert!(
        calm.stderr
            .contains("180 recorded collectives by more than one rank: the sizes agree"),
        "{}",
        calm.stderr
    );
    // With the log.
    let folder = run("nccl-check", &[job.display().to_string()]).ends(0);
    assert!(
        !folder.stderr.contains("counted twice"),
        "{}",
        folder.stderr
    );

    let dir = tempfile::tempdir().unwrap();
    let mut damaged = names.clone();
    let mut text = String::new();
    let packed = std::fs::File::open(&paths[2]).unwrap();
    MultiGzDecoder::new(packed)
        .read_to_string(&mut text)
        .unwrap();
    let sized = "\"coll\":\"AllReduce\",\"coll_sn\":7,\"coll_msg_size_bytes\":4,";
    assert_eq!(text.matches(sized).count(), 1);
    let other = sized.replace(":4,", ":16,");
    let path = dir.path().join("other.log");
    std::fs::write(&path, text.replace(sized, &other)).unwrap();
    damaged[2] = path.display().to_string();
    let csv = Csv::of(&run("nccl-check", &damaged).ends(1));
    let errors: Vec<&str> = csv.rows.iter().map(|row| csv.get(row, "finding")).collect();
    assert_eq!(errors, ["count_mismatch"]);
    let says = csv.get(&csv.rows[0], "says");
    assert!(
        says.contains("AllReduce number 7 has 4 bytes on ranks")
            && says.contains("16 bytes on rank"),
        "{says}"
    );
}

/// Records of several ranks that have no call in common show nothing.
#[test]
fn records_without_a_common_call_are_not_judged() {
    let folder = tempfile::tempdir().unwrap();
    let paths = records(&captured("fsdp-inspector"));
    let names: Vec<String> = (0..2)
        .map(|rank| {
            let mut text = String::new();
            let packed = std::fs::File::open(&paths[rank]).unwrap();
            MultiGzDecoder::new(packed)
                .read_to_string(&mut text)
                .unwrap();
            let is_own = |line: &&str| {
                let number = line.split("\"coll_sn\":").nth(1);
                let number = number.and_then(|from| from.split(',').next()?.parse::<usize>().ok());
                number.is_none_or(|number| number % 2 == rank)
            };
            let kept: Vec<&str> = text.lines().filter(is_own).collect();
            assert!(kept.len() > 20 && kept.len() < text.lines().count());
            let path = folder.path().join(format!("{rank}.log"));
            std::fs::write(&path, kept.join("\n") + "\n").unwrap();
            path.display().to_string()
        })
        .collect();
    let answer = run(
        "nccl-check",
        &[&names[..], &["--format=text".to_owned()]].concat(),
    )
    .ends(3);
    assert_eq!(
        answer.lines()[0],
        "not judged: 2 recordings, and no calls or stacks of two ranks to compare"
    );
}

#[test]
fn records_of_a_pipe_are_read_as_those_of_a_file() {
    for path in records(&captured("fsdp-inspector")) {
        let mut text = Vec::new();
        let packed = std::fs::File::open(&path).unwrap();
        MultiGzDecoder::new(packed).read_to_end(&mut text).unwrap();
        let file = run("nccl-check", &[path.display().to_string()]);
        let pipe = feed("nccl-check", &[], text);
        assert_eq!((pipe.code, &pipe.stdout), (file.code, &file.stdout));
        let said = |err: &str, name: &str| err.replace(name, "it");
        assert_eq!(
            said(&pipe.stderr, "stdin"),
            said(&file.stderr, &path.display().to_string())
        );
    }
    let table = "step,op,count,datatype\n1,Send,1,int8\n";
    let refused = feed("nccl-check", &[], table).ends(2);
    assert!(
        refused.stderr.contains("it has no log lines"),
        "{}",
        refused.stderr
    );
}

#[test]
fn the_log_in_an_export_is_read_from_a_pipe() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/nsys/ring.sqlite.gz");
    let file = run("nccl-check", &["--coverage", path]).calm();
    let pipe = feed("nccl-check", &["--coverage"], std::fs::read(path).unwrap()).calm();
    assert_eq!((pipe.code, &pipe.stdout), (file.code, &file.stdout));
    assert!(!file.stdout.is_empty());
}
