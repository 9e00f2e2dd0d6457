//! What people see: the programs on a terminal.

use crate::support::{ALL, bins};
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::num::NonZero;
use std::process::{Child, Command, Stdio};

/// Programs with arguments, whose tables are wide.
const TABLES: [&str; 46] = [
    "nccl-agg captured/3d",
    "nccl-agg captured/3d --by step,comm,rank",
    "nccl-check captured/ddp-skip",
    "nccl-check captured/ddp-skip --format table",
    "nccl-check captured/ddp-skip --coverage",
    "nccl-check captured/ddp-skip --coverage --format table",
    "nccl-check captured/ddp-skip --expect mismatch=0,warn=0,net=ib",
    "nccl-check captured/ddp-skip --expect mismatch=0,warn=0,net=ib --format table",
    "nccl-comms captured/3d --steps 5",
    "nccl-comms captured/ddp-all --tuning --steps 12",
    "nccl-comms captured/fsdp-inspector --unique",
    "nccl-comms kineto",
    "nccl-communicators captured/3d",
    "nccl-communicators captured/3d --members",
    "nccl-cuda cuda",
    "nccl-diff captured/3d captured/3d-skip",
    "nccl-hist captured/3d",
    "nccl-hist captured/3d --by step,rank,datatype --log2",
    "nccl-hist captured/fsdp-inspector --time",
    "nccl-kernels kineto",
    "nccl-kernels kineto --by op,grid",
    "nccl-matrix captured/3d",
    "nccl-matrix captured/3d --by step",
    "nccl-matrix captured/3d --by host --unit calls",
    "nccl-matrix snoopie --by context",
    "nccl-matrix snoopie --by line",
    "nccl-matrix snoopie --by object",
    "nccl-matrix snoopie --by op",
    "nccl-net captured/3d",
    "nccl-net captured/3d --pairs",
    "nccl-net captured/3d --rings",
    "nccl-net captured/3d --trees",
    "nccl-ops captured/3d --by comm",
    "nccl-ops captured/fsdp-inspector --time --by rank",
    "nccl-overlap kineto",
    "nccl-overlap kineto --by step",
    "nccl-proxy captured/ddp-profiler",
    "nccl-report captured/3d",
    "nccl-report captured/ddp-skip --against captured/ddp",
    "nccl-report kineto",
    "nccl-skew captured/3d",
    "nccl-skew captured/fsdp-inspector --latency",
    "nccl-steps captured/megatron --list",
    "nccl-timing captured/ddp-skip",
    "nccl-timing captured/ddp-skip --per-step",
    "nccl-tuning captured/ddp-all --sizes --channels",
];

/// Starts `command` with its standard output, and perhaps its messages, on a terminal of so many columns.
fn start(
    command: &str,
    columns: u16,
    environment: &[(&str, &str)],
    has_messages: bool,
) -> (Child, File) {
    // Programs of other tests must not hold this terminal open.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let mode = rustix::fs::Mode::empty();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let slave = rustix::fs::open(&*name, flags, mode).unwrap();
    let size = Winsize {
        ws_row: 50,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&slave, size).unwrap();
    let mut words = command.split(' ');
    let slave = File::from(slave);
    let messages = match has_messages {
        true => Stdio::from(slave.try_clone().unwrap()),
        false => Stdio::null(),
    };
    let child = Command::new(bins().join(words.next().unwrap()))
        .args(words)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata"))
        // A terminal's colours also depend on these, and a build service sets CI.
        .env_remove("NO_COLOR")
        .env_remove("CLICOLOR")
        .env_remove("CLICOLOR_FORCE")
        .env_remove("CI")
        .env("TERM", "xterm-256color")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::from(slave))
        .stderr(messages)
        .spawn()
        .unwrap();
    (child, File::from(master))
}

/// What comes until `is_enough`, or until nobody has the other end any more.
fn read_until(master: &mut File, is_enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut written = Vec::new();
    let mut piece = [0; 4096];
    while !is_enough(&written) {
        match master.read(&mut piece) {
            Ok(n) if n > 0 => written.extend_from_slice(&piece[..n]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            // How a terminal ends that no program has open any more.
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => break,
            end => panic!("{end:?} after {:?}", String::from_utf8_lossy(&written)),
        }
    }
    written
}

/// What `command` writes to a terminal of so many columns.
fn on_terminal(command: &str, columns: u16, environment: &[(&str, &str)]) -> Vec<u8> {
    let (mut child, mut master) = start(command, columns, environment, false);
    let written = read_until(&mut master, |_| false);
    assert!(
        child.wait().unwrap().code().is_some_and(|code| code < 2),
        "{command}"
    );
    written
}

/// What is on the screen, line by line; true where a line goes on in the next row.
fn screen(written: &[u8], columns: u16) -> Vec<(String, bool)> {
    let rows = u16::try_from(written.len() / 20 + 400).unwrap_or(u16::MAX);
    let of = |n: u16| NonZero::new(n).unwrap();
    let mut terminal = vt100::Parser::new(of(rows), of(columns), 0);
    terminal.process(written);
    let screen = terminal.screen();
    let mut lines: Vec<(String, bool)> = Vec::new();
    let mut goes_on = false;
    for (at, row) in (0..).zip(screen.rows(0, columns)) {
        match lines.last_mut() {
            Some((line, is_broken)) if goes_on => {
                line.push_str(&row);
                *is_broken = true;
            }
            _ => lines.push((row, false)),
        }
        goes_on = screen.row_wrapped(at);
    }
    lines
}

#[test]
fn no_row_breaks_on_a_terminal() {
    for command in TABLES {
        for columns in [60, 80, 120, 200] {
            let lines = screen(&on_terminal(command, columns, &[]), columns);
            let broken = lines.iter().find(|(line, is_broken)| {
                // Settings are there to be copied.
                *is_broken && !line.contains("NCCL_DEBUG=")
            });
            assert_eq!(broken, None, "{command} at {columns} columns");
            let words = lines.iter().filter(|(line, _)| !line.is_empty());
            assert!(words.count() > 1, "{command} at {columns} columns");
        }
    }
}

/// nccl-watch writes lines as they come (tests/it/input/live.rs), nccl-synth writes a log, nccl-pack receipts, nccl-collect an
/// archive.
#[test]
fn every_program_with_a_table_is_looked_at() {
    let named = |program: &str| {
        TABLES
            .iter()
            .any(|of| of.split(' ').next() == Some(program))
    };
    let others: Vec<&str> = ALL.into_iter().filter(|program| !named(program)).collect();
    assert_eq!(
        others,
        ["nccl-watch", "nccl-synth", "nccl-pack", "nccl-collect"]
    );
}

#[test]
fn what_has_no_room_is_named_and_long_tables_end() {
    let text = |command: &str, columns| {
        let written = on_terminal(command, columns, &[]);
        let lines = screen(&written, columns);
        let lines: Vec<String> = lines.into_iter().map(|(line, _)| line).collect();
        lines.join("\n")
    };
    let narrow = text("nccl-hist captured/3d", 80);
    assert!(
        narrow.contains("hidden columns (narrow terminal): share of calls, from_bytes,")
            && narrow.contains("calls_per_gpu"),
        "{narrow}"
    );
    assert!(
        narrow.contains("680 MiB") && !narrow.contains("713 031 680"),
        "{narrow}"
    );
    let wide = text("nccl-hist captured/3d", 200);
    assert!(
        wide.contains("share of calls") && !wide.contains("hidden columns"),
        "{wide}"
    );
    let long = text("nccl-comms captured/3d", 120);
    assert!(long.contains("... 26 788 more rows"), "{long}");
}

/// The lines on a terminal of 80 columns.
fn lines_of(command: &str) -> Vec<String> {
    let lines = screen(&on_terminal(command, 80, &[]), 80);
    let lines = lines.into_iter().map(|(line, _)| line);
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_answer_comes_before_the_table_and_after_one_that_scrolls() {
    for (command, answer) in [
        (
            "nccl-communicators captured/3d",
            "17 communicators: 1 world of 8 ranks, 4 tensor",
        ),
        (
            "nccl-net captured/3d",
            "hosts: 1; network: Socket; GPUDirect: no network connections",
        ),
        (
            "nccl-hist captured/3d",
            "93 % of 26888 calls are of 64KB-1MB; 60 % of the bytes",
        ),
        (
            "nccl-skew captured/fsdp-inspector",
            "rank 3 on vm comes latest: ",
        ),
        (
            "nccl-steps captured/ddp-skip --list --sort -time_s -n 3",
            "step 4 is the slowest of 19 steps: 0.1711 s, median 0.02422 s (first steps left",
        ),
        // The row `between` begins no segment.
        (
            "nccl-steps captured/megatron --list",
            "step 14 is the slowest of 3 steps: 0.1434 s",
        ),
    ] {
        let lines = lines_of(command);
        assert!(lines[0].starts_with(answer), "{command}: {lines:#?}");
        let again = lines.iter().filter(|line| line.starts_with(answer));
        assert_eq!(again.count(), 1, "{command}");
    }
    let lines = lines_of("nccl-diff captured/megatron captured/ddp-skip");
    let answer = [
        "48 differences from A to B: job 3, communicators 6, bytes 18, calls 19; and",
        "  step_time_s: 0.1290 -> 0.02422",
        "  tflops_per_gpu: 42.70 -> 1.788",
    ];
    assert_eq!(lines[..3], answer);
    assert_eq!(lines[lines.len() - 3..], answer);
    // Other tables, and pipes, have rows only.
    let other = lines_of("nccl-skew captured/fsdp-inspector --latency");
    assert!(other[0].starts_with("op"), "{other:?}");
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let is_coloured = |command: &str, environment: &[(&str, &str)]| {
        on_terminal(command, 100, environment).contains(&0x1b)
    };
    for command in [
        "nccl-check captured/ddp-skip",
        "nccl-diff captured/3d captured/3d-skip",
        "nccl-report captured/ddp-skip",
    ] {
        assert!(is_coloured(command, &[]), "{command}");
        assert!(!is_coloured(command, &[("NO_COLOR", "1")]), "{command}");
        assert!(!is_coloured(command, &[("TERM", "dumb")]), "{command}");
        let never = format!("{command} --color never");
        assert!(!is_coloured(&never, &[]), "{command}");
        let always = format!("{command} --color always");
        assert!(is_coloured(&always, &[("NO_COLOR", "1")]), "{command}");
    }
}

#[test]
fn a_terminal_gets_no_parquet() {
    let command = "nccl-comms captured/megatron/nccl.log -f parquet";
    let (mut child, mut master) = start(command, 100, &[], true);
    let written = read_until(&mut master, |_| false);
    let written = String::from_utf8(written).unwrap();
    assert!(
        written.contains("name a file (-o calls.parquet)"),
        "{written}"
    );
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

/// True once a process has its handler of SIGINT.
fn catches_interrupts(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 2 != 0))
}

#[test]
fn no_progress_bar_is_left_behind() {
    for (command, code) in [
        ("nccl-overlap kineto", 0),
        ("nccl-proxy captured/ddp-profiler", 0),
        ("nccl-hist captured/3d/command.json missing.log", 2),
        ("nccl-hist captured/ddp/nccl.log.gz --by step", 0),
        ("nccl-hist captured/megatron/nccl.log --follow", 130),
    ] {
        let (mut child, mut master) = start(command, 120, &[], true);
        if code == 130 {
            while !catches_interrupts(child.id()) {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            let pid = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        }
        let written = read_until(&mut master, |_| false);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{command}");
        let lines = screen(&written, 120);
        let left = lines.iter().find(|(line, _)| line.contains("B/s"));
        assert_eq!(left, None, "{command}");
    }
}
