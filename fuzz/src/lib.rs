//! What the targets share: made logs with damage that the fuzzer draws, and stages run over them in
//! several ways that must give the same.

pub mod answer;
pub mod limits;

use libfuzzer_sys::arbitrary::Unstructured;
use nccl_pipe::count::calls::{Options, Progress};
use nccl_pipe::grammar::trainer::Recogniser;
use nccl_pipe::log;
use nccl_pipe::log::timeline;
use nccl_pipe::output::render::look::DrawStyle;
use nccl_pipe::output::render::{Grid, Sheet};
use nccl_pipe::report::Report;
use nccl_pipe::report::account::Account;
use nccl_pipe::source::{self, InputName};
use nccl_pipe::synth::options::{LogLayout, Nccl, Prefix, SynthNet, SynthTrainer, Timestamps};
use nccl_pipe::synth::{self, StreamSink};
use std::fmt::Debug;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use tempfile::TempDir;

/// All recognisers of step lines.
pub static RECOGNISER: LazyLock<Recogniser> = LazyLock::new(Recogniser::all);

/// Nobody looks at progress here.
#[derive(Debug)]
pub struct Nobody;

impl Progress for Nobody {
    fn advance(&self, _: u64) {}
}

/// A report that says nothing.
pub fn report() -> Report {
    Report::new("fuzz", false, true).silenced()
}

/// How inputs are read: by so many threads, mapped or in blocks.
pub fn options(jobs: usize, mmap: bool) -> Options {
    Options {
        source: source::Options { mmap },
        log: log::Options {
            jobs,
            recogniser: RECOGNISER.clone(),
            strict: false,
            keep_init_lines: true,
            keep_marks: true,
        },
        timeline: timeline::Options::default(),
        window: None,
    }
}

/// A folder for inputs; it goes with the value.
#[derive(Debug)]
pub struct Work(TempDir);

impl Default for Work {
    fn default() -> Work {
        Work(tempfile::tempdir().expect("a temporary folder"))
    }
}

impl Work {
    /// Where a file is, or is to be.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file.
    pub fn file(&self, name: &str, bytes: &[u8]) -> InputName {
        let path = self.path(name);
        write(&path, bytes);
        InputName::Path(path)
    }
}

/// Writes a file.
pub fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("room for a file");
}

/// Bytes as gzip packs them.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).expect("memory");
    packer.finish().expect("memory")
}

/// Runs a stage over a log that is mapped, read in blocks by several threads, and packed: it must
/// give the same, and all lines must be in the account.
pub fn alike<R: PartialEq + Debug>(
    log: &[u8],
    stage: impl Fn(&[InputName], &Options, &mut Report) -> nccl_pipe::error::Result<R>,
) {
    let work = Work::default();
    let origins = [work.file("x.log", log)];
    let run = |options: &Options| {
        let mut report = report();
        let given = stage(&origins, options, &mut report).map_err(|e| e.to_string());
        adds_up(report.total_account());
        given
    };
    let mapped = run(&options(1, true));
    assert_eq!(mapped, run(&options(3, false)), "read in blocks");
    work.file("x.log", &gzip(log));
    assert_eq!(mapped, run(&options(2, true)), "packed");
}

/// Fails unless all lines are in one class.
pub fn adds_up(a: &Account) {
    assert_eq!(
        a.count_decided_lines(),
        a.lines,
        "every line is accounted for"
    );
}

/// A table as the bytes that are written of it, in all three forms.
pub fn written(grid: Grid) -> Vec<u8> {
    let sheet = Sheet::from(grid);
    let mut out = Vec::new();
    sheet.write_csv(1, &mut out).expect("memory");
    sheet.write_jsonl(1, &mut out).expect("memory");
    sheet
        .draw_table(&DrawStyle::default(), &mut out)
        .expect("memory");
    // A terminal's has fewer columns, and lines of its own below.
    let terminal = DrawStyle {
        width: Some(60),
        rows: Some(20),
        colour: true,
    };
    sheet
        .draw_table(&terminal, &mut std::io::sink())
        .expect("memory");
    out
}

/// Small whole logs, of all versions, trainers and launchers.
static LOGS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    const FAULTS: [&str; 6] = ["skip", "count", "redop", "die", "stall", "sockets"];
    let made = (0..96).filter_map(|i| {
        let mut options = synth::Options {
            // A log of two ranks is read more than twice as often as one of four.
            ranks: if i % 8 == 7 { 4 } else { 2 },
            nodes: 1 + i % 2,
            layers: 1,
            steps: 2,
            nccl: Nccl::ALL[i % Nccl::ALL.len()],
            trainer: SynthTrainer::ALL[i / 2 % SynthTrainer::ALL.len()],
            ..synth::Options::default()
        };
        match i % 6 {
            0 => options.prefix = Prefix::ALL[i / 6 % Prefix::ALL.len()],
            1 => options.timestamps = Timestamps::ALL[i / 6 % Timestamps::ALL.len()],
            2 => options.layout = LogLayout::Blocks,
            3 => options.net = Some(SynthNet::ALL[i / 6 % SynthNet::ALL.len()]),
            4 => options.fault = FAULTS[i / 6 % FAULTS.len()].parse().ok(),
            _ => (options.pp, options.tail_calls) = (2, true),
        }
        (options.tuning, options.nvls) = (i % 4 < 2, i % 6 == 3 && i % 4 == 1);
        let mut log = Vec::new();
        synth::generate(&options, &mut StreamSink::new(&mut log)).ok()?;
        Some(log)
    });
    let made: Vec<_> = made.collect();
    assert!(made.len() > 48, "most of these can be made: {}", made.len());
    made
});

/// Texts that change what a log means.
const PHRASES: [&[u8]; 12] = [
    b"\n",
    b"\r",
    b"\x1b[0m",
    b"h:1:2 [0] NCCL INFO ",
    b"node01:4242:4250 [3] NCCL WARN Call to ibv_modify_qp failed",
    b" iteration 3/ 9 | elapsed time per iteration (ms): 7.5 |\n",
    b"NCCL INFO AllReduce: opCount ",
    b" - Init COMPLETE\n",
    b"[repeated 3x across cluster]",
    b"18446744073709551615",
    b"{\"op\":\"Send\",\"count\":1,\"datatype\":\"int8\"}\n",
    b"0x",
];

/// A made log with up to a dozen changes, drawn from `data`.
pub fn log(data: &[u8]) -> Vec<u8> {
    let mut u = Unstructured::new(data);
    drawn(&mut u).unwrap_or_default()
}

/// See [`log`].
pub fn drawn(u: &mut Unstructured<'_>) -> libfuzzer_sys::arbitrary::Result<Vec<u8>> {
    changed(&LOGS, u)
}

/// Records of calls by other tools, each as it is in a sample: NCCL Inspector's, traces of its profiler
/// plugin, and dumps of PyTorch's flight recorder.
static RECORDS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata");
    let mut all = Vec::new();
    for folder in [
        "captured/ddp-inspector-2.28",
        "captured/fsdp-inspector",
        "captured/ddp-profiler",
        "captured/fsdp-profiler-2.28",
        "profiler",
        "flight",
        "hung/pp-recv",
    ] {
        let files = std::fs::read_dir(format!("{HERE}/{folder}")).expect("a folder of samples");
        let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
        files.sort();
        files.retain(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            !(name.starts_with("nccl.") || name.starts_with("truth") || name == "command.json")
        });
        for path in files.iter().take(6) {
            let packed = std::fs::read(path).expect("a sample");
            let mut text = Vec::new();
            let unpacked = flate2::read::MultiGzDecoder::new(&packed[..]).read_to_end(&mut text);
            all.push(unpacked.map_or(packed, |_| text));
        }
    }
    // What is changed is to be near what is read.
    for record in &mut all {
        record.truncate(64 << 10);
    }
    all
});

/// The files of a run of Snoopie, by name: the main log comes first.
static RUN: LazyLock<Vec<(&str, Vec<u8>)>> = LazyLock::new(|| {
    const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/snoopie/edge/");
    let names = [
        "snoopie_log_1.csv",
        "address_range_log_1.txt",
        "codeline_log_1.txt",
        "data_object_log_1.txt",
        "mem_alloc_site_log_1.txt",
        "exec_site_log_1.txt",
        "exec_context_log_1.txt",
    ];
    let file = |name| {
        (
            name,
            std::fs::read([HERE, name].concat()).expect("a sample"),
        )
    };
    names.into_iter().map(file).collect()
});

/// That run with up to a dozen changes in each file, drawn from `data`.
pub fn accesses(data: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut u = Unstructured::new(data);
    let mut one = |(name, bytes): &(&'static str, Vec<u8>)| {
        let changed = changed(std::slice::from_ref(bytes), &mut u);
        (*name, changed.unwrap_or_default())
    };
    RUN.iter().map(&mut one).collect()
}

/// Small logs: the calls and step lines of the made ones, without their long initialisations.
static SMALL_LOGS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let is_kept = |line: &&[u8]| {
        let has = |word: &[u8]| memchr::memmem::find(line, word).is_some();
        has(b"opCount") || has(b"Init COMPLETE") || !has(b"NCCL INFO")
    };
    let cut = |log: &Vec<u8>| {
        let lines = log.split_inclusive(|&b| b == b'\n').filter(is_kept);
        let all: Vec<&[u8]> = lines.collect();
        let every = 1 + all.len() / 24;
        let some: Vec<&[u8]> = all.into_iter().step_by(every).collect();
        some.concat()
    };
    LOGS.iter().map(cut).collect()
});

/// A small log with up to a dozen changes.
pub fn drawn_small(u: &mut Unstructured<'_>) -> libfuzzer_sys::arbitrary::Result<Vec<u8>> {
    changed(&SMALL_LOGS, u)
}

/// A small log as it was made.
pub fn whole_small(u: &mut Unstructured<'_>) -> Vec<u8> {
    let which = u.int_in_range(0..=SMALL_LOGS.len() - 1).unwrap_or(0);
    SMALL_LOGS[which].clone()
}

/// See [`drawn_small`].
pub fn small_log(data: &[u8]) -> Vec<u8> {
    drawn_small(&mut Unstructured::new(data)).unwrap_or_default()
}

/// A log as the stages' options read it: `drawn_small` in pieces, each cut anywhere.
pub fn pieces<'l>(log: &'l [u8], u: &mut Unstructured<'_>) -> Vec<&'l [u8]> {
    let mut cuts: Vec<usize> = (0..u.int_in_range(0..=5).unwrap_or(0))
        .map(|_| u.int_in_range(0..=log.len()).unwrap_or(0))
        .collect();
    cuts.extend([0, log.len()]);
    cuts.sort_unstable();
    cuts.windows(2)
        .map(|ends| &log[ends[0]..ends[1]])
        .filter(|piece| !piece.is_empty())
        .collect()
}

/// Files of `testdata`, as they are.
pub fn samples(paths: &[&str]) -> Vec<Vec<u8>> {
    const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/");
    let read = |path: &&str| std::fs::read([HERE, path].concat()).expect("a sample");
    paths.iter().map(read).collect()
}

/// A record with up to a dozen changes, drawn from `data`.
pub fn record(data: &[u8]) -> Vec<u8> {
    changed(&RECORDS, &mut Unstructured::new(data)).unwrap_or_default()
}

/// One of `all` with up to a dozen changes.
pub fn changed(
    all: &[Vec<u8>],
    u: &mut Unstructured<'_>,
) -> libfuzzer_sys::arbitrary::Result<Vec<u8>> {
    let which = u.int_in_range(0..=all.len() - 1)?;
    let mut log = all[which].clone();
    for _ in 0..u.int_in_range(0..=12)? {
        let at = u.int_in_range(0..=log.len())?;
        match u.int_in_range(0..=7)? {
            0 => {
                if let Some(byte) = log.get_mut(at) {
                    *byte = u.arbitrary()?;
                }
            }
            1 => {
                let to = log.len().min(at + u.int_in_range(0..=300_usize)?);
                log.drain(at..to);
            }
            2 => {
                let n = u.int_in_range(0..=40)?;
                let bytes = u.bytes(n.min(u.len()))?.to_vec();
                log.splice(at..at, bytes);
            }
            3 => {
                let line = line_at(&log, at).to_vec();
                let to = u.int_in_range(0..=log.len())?;
                let to = to + line_at(&log[to..], 0).len();
                log.splice(to..to, line);
            }
            4 => {
                let from = at - start_of(&log, at);
                let len = line_at(&log, at).len();
                log.drain(from..from + len);
            }
            5 => log.truncate(at),
            6 => {
                let phrase = *u.choose(&PHRASES)?;
                log.splice(at..at, phrase.iter().copied());
            }
            _ => {
                // A line that another process wrote between a line's bytes.
                let from = u.int_in_range(0..=log.len())?;
                let line = line_at(&log, from).to_vec();
                log.splice(at..at, line);
            }
        }
    }
    Ok(log)
}

/// How many bytes of its line stand before `at`.
fn start_of(text: &[u8], at: usize) -> usize {
    text[..at].iter().rev().take_while(|&&b| b != b'\n').count()
}

/// The line that `at` is in, with its end.
fn line_at(text: &[u8], at: usize) -> &[u8] {
    let from = at - start_of(text, at);
    let end = text[from..].iter().position(|&b| b == b'\n');
    &text[from..end.map_or(text.len(), |end| from + end + 1)]
}
