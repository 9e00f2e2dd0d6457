//! Every way in gives one answer: a file, `<`, a pipe, `/dev/stdin`, packed files, and a pipe that rests.

use crate::support::{Work, arg, bins, captured, feed, gzip, root, run, zstd};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// How long a pipe rests: longer than a program waits before it looks at what has come.
const REST: Duration = Duration::from_millis(120);

/// The programs that read one kind of input or another, and never more than once.
pub(super) const ACCEPTING_PROGRAMS: [&str; 13] = [
    "nccl-check",
    "nccl-comms",
    "nccl-communicators",
    "nccl-cuda",
    "nccl-kernels",
    "nccl-matrix",
    "nccl-net",
    "nccl-ops",
    "nccl-overlap",
    "nccl-proxy",
    "nccl-report",
    "nccl-skew",
    "nccl-timing",
];

/// The page as text is broken into lines that depend on the length of the input's name.
pub(super) fn format_of(program: &str) -> &'static [&'static str] {
    match program {
        "nccl-report" => &["--format", "json"],
        _ => &[],
    }
}

/// How a program gets its input.
#[derive(Clone, Copy)]
enum Way<'w> {
    Named(&'w Path),
    Redirected(&'w Path),
    /// Through a pipe that rests after some bytes, named `/dev/stdin` or not named.
    Piped {
        bytes: &'w [u8],
        rests_at: usize,
        is_named: bool,
    },
}

impl Way<'_> {
    fn describe(&self) -> String {
        match self {
            Way::Named(path) => format!("{}", path.display()),
            Way::Redirected(path) => format!("< {}", path.display()),
            Way::Piped {
                rests_at, is_named, ..
            } => {
                format!("a pipe that rests at {rests_at}, /dev/stdin: {is_named}")
            }
        }
    }

    /// Runs a program; its output without the input's name, and its exit code.
    fn run(&self, program: &str) -> (String, Option<i32>) {
        let mut command = Command::new(bins().join(program));
        command
            .env_remove("CLICOLOR_FORCE")
            .env("LC_ALL", "C")
            .args(format_of(program))
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        match self {
            Way::Named(path) => command.arg(path).stdin(Stdio::null()),
            Way::Redirected(path) => command.stdin(File::open(path).unwrap()),
            Way::Piped { is_named, .. } => command
                .args(is_named.then_some("/dev/stdin"))
                .stdin(Stdio::piped()),
        };
        let mut child = command.spawn().unwrap();
        let mut out = Vec::new();
        let mut stdout = child.stdout.take().unwrap();
        let pipe = child.stdin.take();
        thread::scope(|scope| {
            scope.spawn(|| stdout.read_to_end(&mut out).unwrap());
            if let (
                Some(mut pipe),
                Way::Piped {
                    bytes, rests_at, ..
                },
            ) = (pipe, self)
            {
                let (first, rest) = bytes.split_at(*rests_at);
                // A program that refuses its input closes the pipe.
                let _ = pipe.write_all(first);
                if *rests_at > 0 {
                    thread::sleep(REST);
                }
                let _ = pipe.write_all(rest);
            }
        });
        let name = match self {
            Way::Named(path) => path.display().to_string(),
            Way::Piped { is_named: true, .. } => "/dev/stdin".to_owned(),
            _ => "stdin".to_owned(),
        };
        let out = String::from_utf8_lossy(&out).replace(&name, "INPUT");
        (out, child.wait().unwrap().code())
    }
}

/// Unpacks what a sample is stored as.
pub(super) fn unpacked(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    if !bytes.starts_with(b"\x1f\x8b") {
        return bytes;
    }
    let mut out = Vec::new();
    let mut decoder = flate2::read::MultiGzDecoder::new(&bytes[..]);
    decoder.read_to_end(&mut out).unwrap();
    out
}

/// A log in UTF-16 whose first letters have no zero beside them.
fn utf16(text: &str) -> Vec<u8> {
    let text = format!("\u{feff}训练日志：第一步已经开始了，请稍等片刻。\n{text}");
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// As NCCL 2.28 writes it.
const INSPECTOR_RECORD: &str = concat!(
    r#"{"header":{"id":"0x7f8c496ae9f661","rank":0,"n_ranks":2,"nnodes":1},"#,
    r#""metadata":{"inspector_output_format_version":"v4.0","git_rev":"","#,
    r#""rec_mechanism":"profiler_plugin","dump_timestamp_us":1748030377748202,"#,
    r#""hostname":"node","pid":77},"coll_perf":{"coll":"AllReduce","coll_sn":7,"#,
    r#""coll_msg_size_bytes":4096,"coll_exec_time_us":61,"coll_algobw_gbs":1.5,"#,
    r#""coll_busbw_gbs":1.5}}"#,
    "\n"
);

/// An input of each format.
pub(super) fn samples() -> Vec<(String, Vec<u8>)> {
    let of = |path: &str| {
        let path: PathBuf = root().join("testdata").join(path);
        let name = path.display().to_string();
        (name, unpacked(&path))
    };
    let log = String::from_utf8(unpacked(&captured("jax").join("nccl.log.gz"))).unwrap();
    let head: String = log.split_inclusive('\n').take(400).collect();
    let mut all = vec![
        ("UTF-16".to_owned(), utf16(&head)),
        ("a log".to_owned(), log.into_bytes()),
        (
            "a call table".to_owned(),
            b"step,op,count,datatype\n1,Send,1,int8\n2,AllReduce,8,bf16\n".to_vec(),
        ),
        (
            "calls as JSON lines".to_owned(),
            b"{\"step\":1,\"op\":\"Send\",\"count\":1,\"datatype\":\"int8\"}\n".to_vec(),
        ),
        (
            "MPI's calls".to_owned(),
            b"[0.000492] MPI_Init: world_rank=0\n[0.000592] MPI_Init: world_rank=1\n".to_vec(),
        ),
        (
            "Inspector's records after a cut one".to_owned(),
            [
                &INSPECTOR_RECORD.as_bytes()[40..],
                INSPECTOR_RECORD.as_bytes(),
            ]
            .concat(),
        ),
        (
            "another table".to_owned(),
            b"epoch,rate,loss\n1,2,3\n2,3,4\n".to_vec(),
        ),
        (
            "another document".to_owned(),
            b"{\n  \"ranks\": 8,\n  \"name\": \"a\"\n}\n".to_vec(),
        ),
    ];
    all.extend(
        [
            "flight/nccl_trace_rank_0.gz",
            "flight/protocol0.pkl.gz",
            "flight/protocol.json.gz",
            "nsys/infer.sqlite.gz",
            "cuda/timeline.log",
            "cuda/metrics.log",
        ]
        .map(of),
    );
    all
}

/// Logs whose encoding changes: another program appended to them. Each with the text that the first part has.
fn logs_of_two_encodings() -> [(String, Vec<u8>); 3] {
    let log = String::from_utf8(unpacked(&captured("jax").join("nccl.log.gz"))).unwrap();
    let lines: Vec<&str> = log.split_inclusive('\n').take(400).collect();
    let (first, rest) = (lines[..300].concat(), lines[300..].concat());
    let units =
        |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    [
        (
            "UTF-16, then UTF-8".to_owned(),
            [units(&first), rest.clone().into_bytes()].concat(),
        ),
        (
            "UTF-8, then UTF-16".to_owned(),
            [first.clone().into_bytes(), units(&rest)].concat(),
        ),
        (
            "a short head, then UTF-16".to_owned(),
            [b"job 1\n".to_vec(), units(&log)].concat(),
        ),
    ]
}

#[test]
fn utf_8_after_utf_16_is_read_and_the_reverse_is_damage() {
    let work = Work::new();
    let whole = captured("jax").join("nccl.log.gz");
    let lines = unpacked(&whole);
    let head = lines.split_inclusive(|&byte| byte == b'\n').take(400);
    let whole = work.file("two.log", head.collect::<Vec<_>>().concat());
    for program in ["nccl-comms", "nccl-agg", "nccl-check", "nccl-steps"] {
        let wanted = run(program, &[arg(&whole), "-q"]);
        let [(_, both), (_, damaged), _] = logs_of_two_encodings();
        for jobs in ["-j1", "-j4"] {
            for bytes in [both.clone(), gzip(&both)] {
                let out = feed(program, &[jobs, "-q"], bytes);
                assert_eq!(
                    (out.code, out.stdout),
                    (wanted.code, wanted.stdout.clone()),
                    "{program}"
                );
            }
            for bytes in [damaged.clone(), gzip(&damaged)] {
                let out = feed(program, &[jobs], bytes);
                assert_eq!(out.code, Some(1), "{program}: {}", out.stderr);
                assert!(out.stderr.contains("UTF-16"), "{program}: {}", out.stderr);
            }
        }
    }
}

#[test]
fn every_way_in_gives_one_answer() {
    let work = Work::new();
    let mut wrong = Vec::new();
    let empty = [("nothing".to_owned(), Vec::new())];
    let odd = logs_of_two_encodings().into_iter().chain(empty);
    for (what, bytes) in samples().into_iter().chain(odd) {
        let plain = work.file("sample", &bytes);
        let gz = work.file("sample.gz", gzip(&bytes));
        let zst = work.file("sample.zst", zstd(&bytes));
        let piped = |rests_at, is_named| Way::Piped {
            bytes: &bytes,
            rests_at,
            is_named,
        };
        let early = 41.min(bytes.len() / 2);
        let late = bytes.len() / 2;
        let ways = [
            Way::Redirected(&plain),
            piped(0, false),
            piped(early, true),
            piped(late, false),
            Way::Named(&gz),
            Way::Redirected(&gz),
            Way::Named(&zst),
        ];
        for program in ACCEPTING_PROGRAMS {
            let (out, code) = Way::Named(&plain).run(program);
            // A refusal must be one, whatever the way.
            for way in &ways {
                let other = way.run(program);
                if other != (out.clone(), code) {
                    let way = way.describe();
                    let (other, its) = other;
                    let both = [&out, &other].map(|out| {
                        let lines: Vec<&str> = out.lines().take(4).collect();
                        format!("{} lines: {lines:?}", out.lines().count())
                    });
                    wrong.push(format!(
                        "{program}, {what}: {code:?} {}\n  {way}: {its:?} {}",
                        both[0], both[1]
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
