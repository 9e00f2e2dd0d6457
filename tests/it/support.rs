//! Runs the programs, composes logs, finds the shared data.

pub(crate) use crate::shared::{data, skipped};
use assert_cmd::Command;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

/// The programs that read logs.
pub(crate) const READERS: [&str; 10] = [
    "nccl-steps",
    "nccl-timing",
    "nccl-comms",
    "nccl-ops",
    "nccl-hist",
    "nccl-agg",
    "nccl-communicators",
    "nccl-net",
    "nccl-tuning",
    "nccl-check",
];

/// Those of them that know no steps: what they read is said once.
pub(crate) const STEPLESS: [&str; 3] = ["nccl-net", "nccl-tuning", "nccl-check"];

/// All programs.
pub(crate) const ALL: [&str; 22] = [
    "nccl-steps",
    "nccl-timing",
    "nccl-comms",
    "nccl-ops",
    "nccl-hist",
    "nccl-agg",
    "nccl-communicators",
    "nccl-net",
    "nccl-tuning",
    "nccl-check",
    "nccl-diff",
    "nccl-skew",
    "nccl-watch",
    "nccl-proxy",
    "nccl-kernels",
    "nccl-overlap",
    "nccl-cuda",
    "nccl-report",
    "nccl-matrix",
    "nccl-synth",
    "nccl-pack",
    "nccl-collect",
];

/// The folder of the built programs.
pub(crate) fn bins() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_nccl-hist")).parent().unwrap()
}

/// What a program left behind.
#[derive(Debug)]
pub(crate) struct Out {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
}

impl Out {
    /// The output as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The output's lines.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.text().lines().map(str::to_owned).collect()
    }

    /// Fails unless it ended with `code`, and without a panic.
    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Out {
        assert_eq!(self.code, Some(code), "stderr: {}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// True if the program panicked, a signal ended it or its code is none of ours.
    pub(crate) fn is_wild(&self) -> bool {
        self.stderr.contains("panicked") || !matches!(self.code, Some(0..=3))
    }

    /// Fails if the program panicked or a signal ended it.
    #[track_caller]
    pub(crate) fn calm(self) -> Out {
        assert!(!self.is_wild(), "{:?}: {}", self.code, self.stderr);
        self
    }

    /// Fails unless stderr has all of `parts`.
    #[track_caller]
    pub(crate) fn says(self, parts: &[&str]) -> Out {
        for part in parts {
            assert!(
                self.stderr.contains(part),
                "no `{part}` in: {}",
                self.stderr
            );
        }
        self
    }
}

fn out(command: Command) -> Out {
    out_within(command, Duration::from_secs(100))
}

fn out_within(mut command: Command, limit: Duration) -> Out {
    let output = command.timeout(limit).output().unwrap();
    Out {
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        code: output.status.code(),
    }
}

fn command(program: &str) -> Command {
    let mut command = Command::new(bins().join(program));
    command.env_remove("CLICOLOR_FORCE").env("LC_ALL", "C");
    command
}

/// A program with arguments and an empty standard input.
pub(crate) fn run<S: AsRef<std::ffi::OsStr>>(program: &str, args: &[S]) -> Out {
    let mut c = command(program);
    c.args(args).write_stdin("");
    out(c)
}

/// The same, run in a folder.
pub(crate) fn run_in(dir: &Path, program: &str, args: &[&str]) -> Out {
    let mut c = command(program);
    c.args(args).current_dir(dir).write_stdin("");
    out(c)
}

/// A program with `stdin` in its pipe.
pub(crate) fn feed(program: &str, args: &[&str], stdin: impl Into<Vec<u8>>) -> Out {
    let mut c = command(program);
    c.args(args).write_stdin(stdin);
    out(c)
}

/// A shell script in `dir` with the programs on its path; `pipefail` is set.
pub(crate) fn sh(dir: &Path, script: &str) -> Out {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut c = Command::new("bash");
    c.args(["-c", &format!("set -o pipefail\n{script}")])
        .env("PATH", format!("{}:{path}", bins().display()))
        .env("LC_ALL", "C")
        .current_dir(dir)
        .write_stdin("");
    // Spark alone takes a minute where the machine is busy.
    out_within(c, Duration::from_secs(300))
}

/// A folder that goes when the test is over.
pub(crate) struct Work(TempDir);

impl Work {
    pub(crate) fn new() -> Work {
        Work(tempfile::tempdir().unwrap())
    }

    pub(crate) fn dir(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file, in folders if its name has them.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// The package's folder.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files of a folder and of the folders in it, by name.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut entries: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            all.extend(files(&entry));
        } else {
            all.push(entry);
        }
    }
    all
}

/// A path as an argument.
pub(crate) fn arg(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The folder of a captured job, or of all.
pub(crate) fn captured(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/captured")
        .join(name)
}

/// The logs of a captured job, without what other tools wrote beside them.
pub(crate) fn captured_logs(name: &str) -> Vec<String> {
    let mut logs: Vec<String> = std::fs::read_dir(captured(name))
        .unwrap()
        .map(|entry| entry.unwrap().path().display().to_string())
        .filter(|path| path.contains("/nccl."))
        .collect();
    logs.sort();
    logs
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

/// Lines as the account counts them: line ends, and a last line without one.
pub(crate) fn count_lines(bytes: &[u8]) -> u64 {
    let ends = bytes.iter().filter(|&&b| b == b'\n').count() as u64;
    ends + u64::from(bytes.last().is_some_and(|&b| b != b'\n'))
}

/// The account's numbers: lines, calls, other, foreign, repaired, damaged, and calls in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Account {
    pub(crate) lines: u64,
    pub(crate) call_lines: u64,
    pub(crate) other: u64,
    pub(crate) foreign: u64,
    pub(crate) repaired: u64,
    pub(crate) damaged: u64,
    pub(crate) truncated: u64,
    pub(crate) calls: u64,
}

impl Account {
    /// Reads the account from what `-v` says.
    #[track_caller]
    pub(crate) fn of(out: &Out) -> Account {
        let line = out
            .stderr
            .lines()
            .find(|l| l.contains(" lines = "))
            .unwrap_or_else(|| panic!("no account in: {}", out.stderr));
        let (line, truncated) = match line.split_once(" truncated by NCCL") {
            Some((before, after)) => {
                let (before, truncated) = before.rsplit_once(" + ").unwrap();
                (format!("{before}{after}"), truncated.parse().unwrap())
            }
            None => (line.to_owned(), 0),
        };
        let numbers: Vec<u64> = line
            .split(|c: char| !c.is_ascii_digit())
            .filter(|n| !n.is_empty())
            .map(|n| n.parse().unwrap())
            .collect();
        let calls = numbers.get(6).copied().unwrap_or(numbers[1]);
        let account = Account {
            lines: numbers[0],
            call_lines: numbers[1],
            other: numbers[2],
            foreign: numbers[3],
            repaired: numbers[4],
            damaged: numbers[5],
            truncated,
            calls,
        };
        let sum = account.call_lines
            + account.other
            + account.truncated
            + account.foreign
            + account.repaired
            + account.damaged;
        assert_eq!(sum, account.lines, "{line}");
        account
    }
}

/// A table that a program wrote as CSV.
#[derive(Debug, Clone)]
pub(crate) struct Csv {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Csv {
    pub(crate) fn of(out: &Out) -> Csv {
        Csv::read(&out.stdout)
    }

    pub(crate) fn read(text: &[u8]) -> Csv {
        let mut reader = csv::Reader::from_reader(text);
        let own = |r: &csv::StringRecord| r.iter().map(str::to_owned).collect();
        let columns = own(reader.headers().unwrap());
        let rows = reader.records().map(|r| own(&r.unwrap())).collect();
        Csv { columns, rows }
    }

    /// A field by its column.
    #[track_caller]
    pub(crate) fn get<'r>(&self, row: &'r [String], column: &str) -> &'r str {
        let at = self.columns.iter().position(|c| c == column);
        &row[at.unwrap_or_else(|| panic!("no column {column} in {:?}", self.columns))]
    }

    /// A column, whole.
    pub(crate) fn column(&self, column: &str) -> Vec<String> {
        let of = |row: &Vec<String>| self.get(row, column).to_owned();
        self.rows.iter().map(of).collect()
    }

    /// The sum of a column of whole numbers; an empty field counts as none.
    #[track_caller]
    pub(crate) fn sum(&self, column: &str) -> u128 {
        self.rows
            .iter()
            .map(|row| match self.get(row, column) {
                "" => 0,
                number => number.parse::<u128>().unwrap(),
            })
            .sum()
    }

    /// Some columns of all rows, each row joined with blanks, sorted.
    pub(crate) fn pick(&self, columns: &[&str]) -> Vec<String> {
        let mut picked: Vec<String> = self
            .rows
            .iter()
            .map(|row| {
                let fields: Vec<&str> = columns.iter().map(|c| self.get(row, c)).collect();
                fields.join(" ")
            })
            .collect();
        picked.sort();
        picked
    }
}

/// One process of a composed job.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Proc {
    pub(crate) host: &'static str,
    pub(crate) pid: u32,
    pub(crate) dev: u32,
    pub(crate) comm: u64,
    pub(crate) nranks: u32,
}

impl Proc {
    /// The header in front of its lines, with the level.
    pub(crate) fn head(&self) -> String {
        let Proc { host, pid, dev, .. } = self;
        format!("{host}:{pid}:{} [{dev}] NCCL INFO ", pid + 1)
    }

    /// The COLL line of a call, without its end.
    pub(crate) fn call(&self, op: &str, count: u64, datatype: u32) -> String {
        self.call_at(op, count, datatype, 0)
    }

    /// The same with a peer or root.
    pub(crate) fn call_at(&self, op: &str, count: u64, datatype: u32, root: u32) -> String {
        format!(
            "{}{op}: opCount 2c sendbuff 0x7e2f40000000 recvbuff 0x7e2f48000000 count {count} \
             datatype {datatype} op 0 root {root} comm {:#x} [nranks={}] stream 0x5581d0c3{:04x}",
            self.head(),
            self.comm,
            self.nranks,
            self.pid % 0x10000,
        )
    }

    /// The line that says which rank of which communicator it is.
    pub(crate) fn init(&self, rank: u32, id: u64) -> String {
        format!(
            "{}ncclCommInitRank comm {:#x} rank {rank} nranks {} cudaDev {} nvmlDev {} busId \
             1b000 commId {id:#x} - Init COMPLETE",
            self.head(),
            self.comm,
            self.nranks,
            self.dev,
            self.dev,
        )
    }
}

/// `ranks` processes, four to a host.
pub(crate) fn procs(ranks: u32) -> Vec<Proc> {
    const HOSTS: [&str; 4] = ["gpu-a", "38dcf168f605", "ip-10-0-3-7", "gpu-d"];
    (0..ranks)
        .map(|r| Proc {
            host: HOSTS[(r / 4) as usize % HOSTS.len()],
            pid: 7000 + r * 11,
            dev: r % 4,
            comm: 0x55d0_a000_0000 + u64::from(r % 4) * 0x1_0000,
            nranks: ranks,
        })
        .collect()
}

/// NeMo 2's step line.
pub(crate) fn nemo(step: u64) -> String {
    format!(
        "Training epoch 0, iteration {step}/999 | lr: 1e-05 | global_batch_size: 64 | \
         global_step: {step} | reduced_train_loss: 3.25 | train_step_timing in s: {}.5 | \
         TFLOPS_per_GPU: 40{}.5",
        step % 7 + 1,
        step % 9,
    )
}

/// Megatron-LM's step line.
pub(crate) fn megatron(step: u64) -> String {
    format!(
        " [2026-02-03 04:05:06] iteration {step:8}/     100 | consumed samples: {:12} | elapsed \
         time per iteration (ms): {}.5 | throughput per GPU (TFLOP/s/GPU): 31{}.5 | learning \
         rate: 1.000000E-05 | number of nan iterations:   0 |",
        step * 8,
        1000 + step,
        step % 9,
    )
}

/// A job whose log has everything the programs group by: hosts, ranks, communicators, steps,
/// operations, datatypes, sizes in every bucket, a pair of Send and Recv, calls behind the last
/// step, lines of others between. `rounds` makes it longer.
pub(crate) fn job(ranks: u32, steps: u64, rounds: u64) -> String {
    let procs = procs(ranks);
    let mut log = String::new();
    for (rank, p) in (0..).zip(&procs) {
        writeln!(log, "{}NET/IB : Using [0]mlx5_0:1/IB [RO]", p.head()).unwrap();
        writeln!(log, "{}", p.init(rank, 0x9f3b_0c2d_11e5_a7c4)).unwrap();
    }
    let calls = |log: &mut String, step: u64, rounds: u64| {
        for round in 0..rounds {
            for (rank, p) in (0..ranks).zip(&procs) {
                let n = 1 + (step * 31 + round * 7) % 5;
                writeln!(log, "{}", p.call("AllGather", 131_072 * n * n, 9)).unwrap();
                writeln!(log, "{}", p.call("ReduceScatter", 12_000_000 * n, 9)).unwrap();
                writeln!(log, "{}", p.call("AllReduce", n, 7)).unwrap();
                let (op, peer) = match rank % 2 {
                    0 => ("Send", rank + 1),
                    _ => ("Recv", rank - 1),
                };
                writeln!(log, "{}", p.call_at(op, 600_000 * n, 6, peer)).unwrap();
            }
        }
    };
    for step in 0..steps {
        calls(&mut log, step, rounds);
        writeln!(log, "loss is still falling").unwrap();
        writeln!(log, "{}", nemo(step)).unwrap();
    }
    calls(&mut log, 99, 1);
    log
}

/// A job's log of more than two chunks of a mapped file, the same for all tests.
pub(crate) fn long_job() -> &'static str {
    static LOG: OnceLock<String> = OnceLock::new();
    LOG.get_or_init(|| job(8, 60, 26))
}

/// A made log of all that nccl-net and nccl-tuning read, of more than two chunks of a mapped file.
pub(crate) fn tuned_job(work: &Work) -> PathBuf {
    let path = work.dir().join("tuned.log");
    let job = "--ranks 16 --nodes 2 --tp 2 --pp 2 --net ib --nvls --tuning --size 10M";
    let mut args: Vec<&str> = job.split(' ').collect();
    args.extend(["-o", arg(&path)]);
    run("nccl-synth", &args).ends(0);
    path
}

/// A pattern of a whole COLL body, independent of the grammar under test.
pub(crate) fn body() -> regex::bytes::Regex {
    let p = r"(?:0x[0-9a-f]+|\(nil\)|0)";
    regex::bytes::Regex::new(&format!(
        r"([A-Za-z][A-Za-z0-9_]*): opCount [0-9a-f]+ sendbuff {p} recvbuff {p}(?: acc {p})? count (\d+) datatype (\d+) op \d+ root -?\d+ comm {p}(?: \[nranks=\d+\])? stream {p}"
    ))
    .unwrap()
}

/// The whole calls in a text, line by line, as the chain prints them.
pub(crate) fn naive_calls(text: &[u8]) -> Vec<String> {
    const TYPES: [(&str, u128); 12] = [
        ("int8", 1),
        ("uint8", 1),
        ("int32", 4),
        ("uint32", 4),
        ("int64", 8),
        ("uint64", 8),
        ("fp16", 2),
        ("fp32", 4),
        ("fp64", 8),
        ("bf16", 2),
        ("fp8_e4m3", 1),
        ("fp8_e5m2", 1),
    ];
    let body = body();
    let of = |m: regex::bytes::Captures<'_>| {
        let part = |i| String::from_utf8_lossy(&m[i]).into_owned();
        let count: u128 = part(2).parse().unwrap();
        let (name, size) = TYPES[part(3).parse::<usize>().unwrap()];
        format!("{} {count} {name} {}", part(1), count * size)
    };
    text.split(|&b| b == b'\n')
        .flat_map(|line| body.captures_iter(line).map(of).collect::<Vec<_>>())
        .collect()
}

/// Sorted lines, to compare where the order is another's.
pub(crate) fn sorted(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}
