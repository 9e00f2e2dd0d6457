//! nccl-collect: its archive is read as what it was made of, and shows no name with `--redact`.

use crate::support::{Csv, Work, arg, gzip, root, run, run_in, sh};
use std::io::Read as _;
use std::path::Path;

/// What nccl-check finds, without names.
fn findings(dir: &Path, inputs: &[&str]) -> Vec<String> {
    let args = [&["-q", "--format", "csv"], inputs].concat();
    let table = Csv::of(&run_in(dir, "nccl-check", &args).calm());
    table.pick(&[
        "severity",
        "finding",
        "pid",
        "rank",
        "seq",
        "step",
        "sure",
        "global_rank",
    ])
}

/// The files of an archive by name.
fn unpack(path: &Path) -> Vec<(String, String)> {
    let packed = std::fs::File::open(path).unwrap();
    let mut archive = tar::Archive::new(zstd::Decoder::new(packed).unwrap());
    let read = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let (mut entry, mut text) = (entry.unwrap(), Vec::new());
        let name = entry.path().unwrap().to_string_lossy().into_owned();
        entry.read_to_end(&mut text).unwrap();
        (name, String::from_utf8_lossy(&text).into_owned())
    };
    archive.entries().unwrap().map(read).collect()
}

/// The words of a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric())
}

#[test]
fn a_redacted_archive_has_the_findings_of_its_job_and_not_its_names() {
    let work = Work::new();
    for job in [
        "crossed",
        "ddp-skip",
        "ddp-stall",
        "kill",
        "pp-recv",
        "skippair",
    ] {
        let job = root().join("testdata/hung").join(job);
        let args = [
            "-q",
            "--redact",
            "--no-machine",
            "-o",
            "case.tar.zst",
            arg(&job),
        ];
        run_in(work.dir(), "nccl-collect", &args).ends(0);
        let found = findings(work.dir(), &["case.tar.zst"]);
        assert!(
            found.iter().any(|finding| finding.starts_with("error")),
            "{found:?}"
        );
        assert_eq!(found, findings(work.dir(), &[arg(&job)]), "{job:?}");
        let files = unpack(&work.dir().join("case.tar.zst"));
        let (list, files) = files.split_last().unwrap();
        assert_eq!(list.0, "collected.json");
        assert!(files.len() > 3, "{files:?}");
        for (name, text) in files {
            // The captures' only host, and a folder of each job.
            let shown = words(name)
                .chain(words(text))
                .find(|word| ["vm", "testdata"].contains(word));
            assert_eq!(shown, None, "{name}");
            assert!(!text.contains("10.0.2."), "{name}");
        }
    }
}

#[test]
fn evidence_in_an_archive_is_shown_by_a_command() {
    let work = Work::new();
    let log = "n1:31:31 [0] NCCL INFO x\nn1:31:31 [0] init.cc:1 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 \
               both on CUDA device 1000\n";
    work.file("logs/plain.log", log);
    let answer = |archive: &str| {
        let out = run_in(
            work.dir(),
            "nccl-check",
            &["-q", "--format", "csv", archive],
        )
        .calm();
        Csv::of(&out).pick(&["input", "line"])[0].clone()
    };
    sh(work.dir(), "tar -czf a.tgz logs").ends(0);
    assert_eq!(answer("a.tgz"), "a.tgz/logs/plain.log 2");
    // The names in the archive stay as tar has them.
    sh(work.dir(), "tar -cf b.tar ./logs").ends(0);
    assert_eq!(answer("b.tar"), "b.tar/./logs/plain.log 2");
    work.file("c.tar", gzip(b"no archive"));
    run_in(work.dir(), "nccl-check", &["c.tar"])
        .ends(2)
        .says(&["c.tar: expected a tar archive"]);
}

#[test]
fn what_the_machine_has_is_in_the_archive_and_what_it_lacks_is_listed() {
    let work = Work::new();
    work.file("nccl.log", "n1:31:31 [0] NCCL INFO x\n");
    work.file("job.n1.31.log", "n1:31:31 [0] NCCL INFO y\n");
    work.file("bin/nvidia-smi", "#!/bin/sh\necho \"$*\"\n");
    let script = "chmod +x bin/nvidia-smi; PATH=$PWD/bin:$PATH NCCL_DEBUG_FILE=job.%h.%p.log NCCL_P2P_LEVEL=NVL SECRET_KEY=x \
                  nccl-collect nccl.log > case.tar.zst";
    let out = sh(work.dir(), script).ends(0);
    out.says(&["--redact replaces them"]);
    let files = unpack(&work.dir().join("case.tar.zst"));
    let text_of = |begin: &str| {
        let found = files.iter().find(|(name, _)| name.starts_with(begin));
        found.map(|(_, text)| text.as_str())
    };
    assert_eq!(text_of("nccl.log"), Some("n1:31:31 [0] NCCL INFO x\n"));
    assert_eq!(text_of("job.n1.31.log"), Some("n1:31:31 [0] NCCL INFO y\n"));
    assert_eq!(text_of("machine/topology."), Some("topo -m\n"));
    let settings = text_of("machine/settings.").unwrap();
    assert!(
        settings.contains("NCCL_P2P_LEVEL=NVL\n") && !settings.contains("SECRET"),
        "{settings}"
    );
    let list: serde_json::Value = serde_json::from_str(text_of("collected.json").unwrap()).unwrap();
    let left_out = list["left_out"].as_array().unwrap();
    assert!(
        left_out
            .iter()
            .any(|why| why.as_str().unwrap().contains("rocm-smi")),
        "{left_out:?}"
    );
    assert_eq!(list["files"].as_array().unwrap().len() + 1, files.len());
    assert_eq!(
        run("nccl-collect", &["none.log", "-o", "/dev/null"]).code,
        Some(2)
    );
}

#[test]
fn what_is_missing_is_listed_without_names() {
    let work = Work::new();
    work.file("nccl.log", "n1:31:31 [0] NCCL INFO x\n");
    let script = "HOME=/home/zoe PATH=$(dirname $(command -v nccl-collect)) nccl-collect --redact -q -o case.tar.zst nccl.log";
    sh(work.dir(), script).ends(0);
    let files = unpack(&work.dir().join("case.tar.zst"));
    let (name, list) = files.last().unwrap();
    assert_eq!(name, "collected.json");
    assert!(list.contains("/.nccl.conf cannot be read"), "{list}");
    let host = nccl_pipe::source::host_name();
    let host = host.split('.').next().unwrap();
    let shown = words(list).find(|word| *word == "zoe" || *word == host);
    assert_eq!(shown, None, "{list}");
}
