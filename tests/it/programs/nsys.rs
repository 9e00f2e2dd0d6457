//! Exports of Nsight Systems: their calls are those of the job's own log, and nothing of the environment is
//! ever printed.

use crate::support::{ALL, Csv, Work, arg, data, run};
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

/// What a call is, in both.
const COLUMNS: [&str; 9] = [
    "comm_id", "op", "bytes", "rank", "nranks", "seq", "redop", "root", "dev",
];

/// Each process' calls, in its order.
fn calls(path: &str) -> BTreeMap<String, Vec<Vec<String>>> {
    let out = run("nccl-comms", &[path, "--format", "csv", "-q"]).ends(0);
    let table = Csv::of(&out);
    let mut all = BTreeMap::<String, Vec<Vec<String>>>::new();
    for row in &table.rows {
        let call = COLUMNS.map(|name| table.get(row, name).to_owned()).to_vec();
        all.entry(table.get(row, "pid").to_owned())
            .or_default()
            .push(call);
    }
    all
}

#[test]
fn calls_are_those_of_the_log() {
    let mut compared = 0;
    for export in ["testdata/nsys/ring", "testdata/nsys/infer"] {
        let [seen, logged] = ["sqlite.gz", "log.gz"].map(|end| calls(&format!("{export}.{end}")));
        assert_eq!(seen.len(), 2, "{export}");
        for (process, seen) in seen {
            // The kept export has the first steps alone.
            assert_eq!(seen, logged[&process][..seen.len()], "{export} {process}");
            compared += seen.len();
        }
    }
    assert!(compared > 200, "{compared}");
    let Some(folder) = data("gpu/nsys") else {
        return;
    };
    let mut compared = 0;
    for name in ["nsring", "nsinfer"] {
        let [export, log] =
            ["sqlite.gz", "nccl.log.gz"].map(|end| folder.join(format!("{name}.{end}")));
        let (seen, logged) = (calls(arg(&export)), calls(arg(&log)));
        assert_eq!(seen, logged, "{name}");
        compared += seen.values().map(Vec::len).sum::<usize>();
    }
    assert_eq!(compared, 216 + 348);
}

/// `nccl-comms LOG --times EXPORT`: each call of the log that the export has gets its times, and no other call's.
#[test]
fn a_logs_calls_get_their_times_in_the_export() {
    let times = |paths: &[&str]| {
        let out = run("nccl-comms", &[paths, &["--format", "csv", "-q"]].concat()).ends(0);
        let table = Csv::of(&out);
        let of = |row: &Vec<String>| {
            let call = ["pid", "comm_id", "rank", "op", "root", "seq"];
            let times = ["start_ns", "dur_ns", "quality"];
            let of = |names: &[&str]| {
                names
                    .iter()
                    .map(|name| table.get(row, name).to_owned())
                    .collect()
            };
            (of(&call), of(&times))
        };
        table
            .rows
            .iter()
            .map(of)
            .collect::<BTreeMap<Vec<String>, Vec<String>>>()
    };
    for name in ["ring", "infer"] {
        let [export, log] =
            ["sqlite.gz", "log.gz"].map(|end| format!("testdata/nsys/{name}.{end}"));
        let (seen, joined) = (times(&[&export]), times(&[&log, "--times", &export]));
        assert!(seen.len() > 30 && joined.len() >= seen.len(), "{name}");
        let with = joined.iter().filter(|(_, times)| !times[0].is_empty());
        assert_eq!(with.clone().count(), seen.len(), "{name}");
        assert!(
            with.into_iter()
                .all(|(call, times)| seen.get(call) == Some(times)),
            "{name}"
        );
    }
}

#[test]
fn the_log_inside_is_the_log() {
    for name in ["ring", "infer"] {
        let [inside, log] = ["sqlite.gz", "log.gz"].map(|end| {
            let path = format!("testdata/nsys/{name}.{end}");
            run("nccl-communicators", &[&path, "--format", "csv", "-q"])
                .ends(0)
                .text()
        });
        assert_eq!(inside, log, "{name}");
    }
    let out = run(
        "nccl-ops",
        &["testdata/nsys/ring.sqlite.gz", "--by", "step"],
    )
    .ends(0);
    out.says(&["what the job printed lies inside the export and is read as a log"]);
}

#[test]
fn the_environment_is_never_printed() {
    let mut read = 0;
    for program in ALL.iter().filter(|program| **program != "nccl-synth") {
        for more in [&[][..], &["-v", "--format", "csv"]] {
            let args = [
                &[
                    "testdata/nsys/ring.sqlite.gz",
                    "testdata/nsys/infer.sqlite.gz",
                ],
                more,
            ]
            .concat();
            let out = run(program, &args);
            read += u32::from(out.code == Some(0));
            for text in [out.text(), out.stderr.clone()] {
                assert!(
                    !text.contains("SECRET_TOKEN") && !text.contains("hunter2"),
                    "{program}: {text}"
                );
            }
            out.calm();
        }
    }
    assert!(read > 20, "{read}");
}

#[test]
fn nothing_is_written_beside_an_export() {
    let work = Work::new();
    let mut bytes = Vec::new();
    let packed = std::fs::File::open("testdata/nsys/ring.sqlite.gz").unwrap();
    GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    let path = work.file("ring.sqlite", &bytes);
    let plain = run("nccl-ops", &[arg(&path), "--time", "-q"])
        .ends(0)
        .text();
    let packed = run(
        "nccl-ops",
        &["testdata/nsys/ring.sqlite.gz", "--time", "-q"],
    )
    .ends(0)
    .text();
    assert_eq!(plain, packed);
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    let beside: Vec<_> = std::fs::read_dir(work.dir()).unwrap().collect();
    assert_eq!(beside.len(), 1, "{beside:?}");
    // An export that ends too early: what is there is read.
    let cut = work.file("cut.sqlite", &bytes[..bytes.len() / 2]);
    let out = run("nccl-comms", &[arg(&cut)]).ends(1);
    out.says(&["the database ends too early"]);
    assert!(Path::new(&cut).exists());
}
