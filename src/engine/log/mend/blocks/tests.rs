use super::line::{BlockLineKind, line_end, opening_header, whole_line_kind};
use super::*;
use crate::source::{RejoinCounts, STDIO_BUFFER_BYTES};
use flate2::read::GzDecoder;
use memchr::memmem;
use nccl_pipe_synth::options::{
    Damage, LogLayout, Nccl, Options, Prefix, SynthTrainer, Timestamps,
};
use nccl_pipe_synth::{StreamSink, generate};
use proptest::prelude::*;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads `log`, which is known to be in blocks, `step` bytes at a time.
fn joined(log: &[u8], step: usize) -> (Vec<u8>, RejoinCounts) {
    let found = RejoinCountsSlot::default();
    let mut reader = BlockRejoinReader::of_blocks(Slow(Cursor::new(log), step), Arc::clone(&found));
    let (mut out, mut buffer) = (Vec::new(), vec![0; step]);
    loop {
        match reader.read(&mut buffer).unwrap() {
            0 => break,
            n => out.extend_from_slice(&buffer[..n]),
        }
    }
    let seen = found.lock().unwrap().unwrap();
    (out, seen)
}

struct Slow<'b>(Cursor<&'b [u8]>, usize);

impl Read for Slow<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let n = to.len().min(self.1);
        self.0.read(&mut to[..n])
    }
}

/// Whether `out` has all bytes of `log` and as many line ends, and no more but what a header lost.
fn is_complete(out: &[u8], log: &[u8]) -> bool {
    let count = |bytes: &[u8]| {
        let mut count = [0_u64; 256];
        bytes.iter().for_each(|&b| count[b as usize] += 1);
        count
    };
    let (out, log) = (count(out), count(log));
    out[b'\n' as usize] == log[b'\n' as usize] && out.iter().zip(&log).all(|(out, log)| out >= log)
}

fn lines(log: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = log.split_inclusive(|&b| b == b'\n').collect();
    lines.sort_unstable();
    lines
}

fn of<'b>(log: &'b [u8], start: &str) -> Vec<&'b [u8]> {
    log.split_inclusive(|&b| b == b'\n')
        .filter(|l| memmem::find(l, start.as_bytes()).is_some())
        .collect()
}

fn call(pid: u64, n: u64) -> String {
    let at = 0x7f00_0000_0000_u64 + n * 512;
    format!(
        "gpu-a:{pid}:{} [0] NCCL INFO AllReduce: opCount {n:x} sendbuff {at:#x} recvbuff \
         {at:#x} count {} datatype 9 op 0 root 0 comm 0x55d{pid}a0 [nranks=4] stream \
         0x60{pid}f0\n",
        pid + n % 3,
        1000 + n * 77,
    )
}

fn other(pid: u64, n: u64) -> String {
    let more = "via P2P/CUMEM ".repeat(n as usize % 9);
    format!("gpu-a:{pid}:{pid} [1] NCCL INFO Channel {n:02}/0 : 1[1] -> 2[2] {more}end\n")
}

/// The naive twin: processes with a buffer each, that one log is written from.
#[derive(Default)]
struct Job {
    held: std::collections::BTreeMap<u64, Vec<u8>>,
    /// How much of its first buffer a process filled with text that is not in the log.
    taken: std::collections::BTreeMap<u64, usize>,
    log: Vec<u8>,
    lines: Vec<u8>,
}

impl Job {
    fn say(&mut self, pid: u64, line: &str) {
        self.lines.extend_from_slice(line.as_bytes());
        let held = self.held.entry(pid).or_default();
        held.extend_from_slice(line.as_bytes());
        let mut room = STDIO_BUFFER_BYTES - self.taken.get(&pid).copied().unwrap_or(0);
        while held.len() >= room {
            self.log.extend(held.drain(..room));
            self.taken.remove(&pid);
            room = STDIO_BUFFER_BYTES;
        }
    }

    /// Writes what a process holds before its buffer is full.
    fn flush(&mut self, pid: u64) {
        let held = self.held.entry(pid).or_default();
        self.log.append(held);
        self.taken.remove(&pid);
    }

    fn print(&mut self, text: &str) {
        self.lines.extend_from_slice(text.as_bytes());
        self.log.extend_from_slice(text.as_bytes());
    }

    fn end(mut self) -> (Vec<u8>, Vec<u8>) {
        for held in self.held.values() {
            self.log.extend_from_slice(held);
        }
        (self.log, self.lines)
    }
}

/// A training job of `pids` processes: INIT lines, and some calls for each step's line, which
/// `step` gives. `odd` may do anything to the job before its first line.
fn job(pids: u64, step: impl Fn(u64) -> String, odd: impl FnOnce(&mut Job)) -> (Vec<u8>, Vec<u8>) {
    let mut job = Job::default();
    odd(&mut job);
    let pids: Vec<u64> = (0..pids).map(|p| 2600 + p * 1013).collect();
    for &pid in &pids {
        (0..20).for_each(|n| job.say(pid, &other(pid, n * 7 + pid)));
    }
    for n in 0..300 {
        for &pid in &pids {
            job.say(pid, &call(pid, n * n % 977 + n));
        }
        if n % 12 == 11 {
            job.print(&step(n));
        }
    }
    job.end()
}

fn megatron(n: u64) -> String {
    format!(
        " [2026-11-22 00:07:{:02}.685402] iteration {n:8}/     600 | consumed samples: {n:12} | \
         elapsed time per iteration (ms): {}.5 | learning rate: 3.000000E-04 | lm loss: 7.57E+00 |\n",
        n % 60,
        100 + n * 7 % 90,
    )
}

/// The calls of a process, in order.
fn calls_of(log: &[u8], pid: u64) -> Vec<&[u8]> {
    let mut calls = of(log, &format!(":{pid}:"));
    calls.retain(|line| is_call(line));
    calls
}

#[test]
fn step_lines_between_buffers_do_not_hide_them() {
    let steps: [&dyn Fn(u64) -> String; 3] =
        [&megatron, &|n| format!("step {n} loss 2.0\n"), &|n| {
            format!("\r {n}%|##   | {n}/600 [00:01<00:11,  3.11it/s]")
        }];
    for pids in [1, 2, 4, 8] {
        for (at, step) in steps.iter().enumerate() {
            let (log, whole) = job(pids, step, |_| {});
            assert!(is_blocks(&log) && !is_blocks(&whole), "{pids} {at}");
            let (out, seen) = joined(&log, 4096);
            assert_eq!((seen.processes, seen.unended), (pids, 0), "{at}");
            for pid in (0..pids).map(|p| 2600 + p * 1013) {
                // A bar may be drawn in front of a line.
                let got = of(&out, &format!(":{pid}:"));
                let mut rest = got.iter();
                let is_next = |line: &&[u8]| rest.any(|got| got.ends_with(line));
                assert!(calls_of(&whole, pid).iter().all(is_next), "{pids} {at}");
            }
        }
    }
}

#[test]
fn where_first_buffers_are_short_few_lines_are_lost_and_none_is_made_up() {
    let (mut lost, mut calls) = (0, 0);
    for seed in 0..24_u64 {
        let pids = [2, 4, 8][seed as usize % 3];
        let (log, whole) = job(pids, megatron, |job| {
            for p in 0..pids {
                let taken = (seed * 1237 + p * p * 811 + p * 97) % 4000;
                job.taken.insert(2600 + p * 1013, taken as usize);
            }
        });
        assert!(is_blocks(&log), "{seed}");
        let (out, _) = joined(&log, 5000);
        for pid in (0..pids).map(|p| 2600 + p * 1013) {
            let (got, want) = (calls_of(&out, pid), calls_of(&whole, pid));
            let mut rest = want.iter();
            let mut is_next = |line: &&[u8]| rest.any(|want| want == line);
            let odd = got.iter().copied().find(|line| !is_next(line));
            assert_eq!(odd.map(String::from_utf8_lossy), None, "{seed} {pid}");
            lost += want.len() - got.len();
            calls += want.len();
        }
    }
    assert!(lost * 1000 < calls, "{lost} of {calls}");
}

#[test]
fn a_log_that_was_cut_has_as_many_lines_as_before_and_none_that_is_made_up() {
    let (log, whole) = job(4, megatron, |_| {});
    for n in 0..60_usize {
        let (from, to) = match n % 3 {
            0 => (0, 5000 + n * 2111),
            1 => (0, line_end(&log, 5000 + n * 2111)),
            _ => (line_end(&log, n * 997), log.len()),
        };
        let log = &log[from..to];
        let (out, seen) = joined(log, 777);
        let count = |log: &[u8]| log.iter().filter(|&&b| b == b'\n').count();
        assert!(is_complete(&out, log), "{n}");
        assert_eq!(count(&out), count(log), "{n}");
        for pid in (0..4).map(|p| 2600 + p * 1013) {
            let want = calls_of(&whole, pid);
            let mut rest = want.iter();
            let got = calls_of(&out, pid);
            // Of the beginnings at the end one may be whole but for its stream's last digits.
            let is_next = |line: &&[u8]| rest.any(|want| want.starts_with(line.trim_ascii_end()));
            assert!(got.iter().all(is_next), "{n} {pid}");
        }
        assert!(n % 3 == 2 || seen.unended <= 4, "{seen:?}");
    }
}

fn two(n: u64) -> (Vec<u8>, Vec<u8>) {
    let mut job = Job::default();
    for i in 0..n {
        for pid in [1422, 1423] {
            job.say(pid, &call(pid, i));
        }
        if i % 30 == 29 {
            job.print(&format!(" iteration {i}/ 100 | lm loss: 2.0 |\n"));
        }
    }
    job.end()
}

#[test]
fn lines_cut_at_buffers_ends_are_whole_again_and_step_lines_too() {
    let (log, whole) = two(120);
    assert!(is_blocks(&log) && !is_blocks(&whole));
    let (out, seen) = joined(&log, 1000);
    assert_eq!(lines(&out), lines(&whole));
    assert_eq!((seen.processes, seen.others), (2, 0));
    // The first that was joined is the first that is not in the log.
    let (before, rest) = out.split_at(seen.first.unwrap() as usize);
    assert!(before.ends_with(b"\n"));
    let is_in = |line: &[u8]| memmem::find(&log, line).is_some();
    assert!(before.split_inclusive(|&b| b == b'\n').all(is_in));
    assert!(!is_in(&rest[..line_end(rest, 0)]));
    assert!(seen.calls >= 8, "{seen:?}");
}

/// Gives a log in pieces, and reports after each that nothing more has come.
struct Pieces<'l> {
    rest: &'l [u8],
    step: usize,
    rests: bool,
}

impl Read for Pieces<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if std::mem::take(&mut self.rests) && !self.rest.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.rests = true;
        let n = self.step.min(to.len()).min(self.rest.len());
        let (now, rest) = self.rest.split_at(n);
        to[..n].copy_from_slice(now);
        self.rest = rest;
        Ok(n)
    }
}

/// Joins a log that comes slowly. Returns the result, and how much of it came before the end.
fn slowly(log: &[u8], step: usize) -> (Vec<u8>, usize) {
    let pieces = Pieces {
        rest: log,
        step,
        rests: false,
    };
    let mut reader = BlockRejoinReader::new(pieces, RejoinCountsSlot::default());
    let (mut out, mut early, mut piece) = (Vec::new(), 0, vec![0; 3000]);
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return (out, early),
            Ok(n) => out.extend_from_slice(&piece[..n]),
            Err(e) => {
                assert_eq!(e.kind(), io::ErrorKind::WouldBlock);
                early = out.len();
            }
        }
    }
}

#[test]
fn a_pipe_that_gives_a_buffer_at_a_time_is_put_together_as_a_file_is() {
    let (log, _) = two(120);
    assert!(is_blocks(&log));
    for step in [STDIO_BUFFER_BYTES, 1000, 4 * STDIO_BUFFER_BYTES + 17] {
        assert_eq!(slowly(&log, step).0, joined(&log, 1 << 20).0, "{step}");
    }
    // Of a log of lines nothing waits.
    let log = made(&Options {
        steps: 4,
        ..Options::default()
    });
    let log = log.unwrap();
    let (out, early) = slowly(&log, 5000);
    assert!(out == log && log.len() - early < 10_000, "{early}");
}

#[test]
fn what_was_still_held_back_when_the_job_was_killed_is_passed_on_as_it_is() {
    let (log, _) = two(120);
    let log = &log[..5 * STDIO_BUFFER_BYTES];
    let (out, _) = joined(log, 77);
    assert_eq!(out.len(), log.len());
    let count = |bytes: &[u8]| bytes.iter().filter(|&&b| b == b'\n').count();
    assert_eq!(count(&out), count(log));
}

#[test]
fn a_progress_bar_without_a_line_end_is_no_part_of_a_line() {
    let mut job = Job::default();
    for i in 0..200 {
        for pid in [7001, 7002, 7003] {
            job.say(pid, &call(pid, i));
            job.say(pid, &other(pid, i));
        }
        job.print(&format!("\r {i}%|##   | {i}/200 [00:01<00:11,  3.11it/s]"));
    }
    let (log, _) = job.end();
    let (out, _) = joined(&log, 4096);
    for pid in [7001, 7002, 7003] {
        for i in 0..200 {
            for line in [call(pid, i), other(pid, i)] {
                assert!(memmem::find(&out, line.as_bytes()).is_some(), "{line}");
            }
        }
    }
}

#[test]
fn a_log_written_line_by_line_is_not_taken_for_blocks() {
    for pids in 1..5_u64 {
        let mut log = String::new();
        for i in 0..3000 {
            log += &call(100 + (i * 7919 / 3) % pids, i);
            if i % 40 == 7 {
                log += "step 3 loss 2.0\n";
            }
            if i % 100 == 9 {
                // Torn at byte 128.
                let (a, b) = (call(100, i), call(101, i));
                log += &format!("{}{}{}", &a[..128], b, &a[128..]);
            }
        }
        assert!(!is_blocks(log.as_bytes()), "{pids}");
    }
}

#[test]
fn a_plain_log_is_read_as_it_is() {
    let log = (0..20_000).map(|i| call(5, i)).collect::<String>();
    let found = RejoinCountsSlot::default();
    let mut out = Vec::new();
    let mut reader = BlockRejoinReader::new(log.as_bytes(), Arc::clone(&found));
    reader.read_to_end(&mut out).unwrap();
    assert!(out == log.as_bytes() && found.lock().unwrap().is_none());
}

/// The logs in `folder`, unpacked.
fn logs_in(folder: PathBuf) -> Vec<(String, Vec<u8>)> {
    let mut logs = Vec::new();
    let mut todo = vec![folder];
    while let Some(path) = todo.pop() {
        if path.is_dir() {
            todo.extend(path.read_dir().unwrap().map(|e| e.unwrap().path()));
            continue;
        }
        let (raw, mut bytes) = (std::fs::read(&path).unwrap(), Vec::new());
        if raw.starts_with(&[0x1f, 0x8b]) {
            GzDecoder::new(&raw[..]).read_to_end(&mut bytes).unwrap();
        } else {
            bytes = raw;
        }
        logs.push((path.display().to_string(), bytes));
    }
    logs
}

#[test]
fn only_the_sample_logs_written_in_blocks_are_taken_for_such() {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let mut n = 0;
    for folder in ["logs", "captured", "bad"] {
        for (name, log) in logs_in(testdata.join(folder)) {
            let told = name.contains("-buffered/nccl.log") || name.contains("-blocks.log");
            assert_eq!(is_blocks(&log), told, "{name}");
            n += u32::from(told);
        }
    }
    assert!(n >= 3, "{n}");
}

fn made(options: &Options) -> Option<Vec<u8>> {
    options.check().ok()?;
    let mut log = Vec::new();
    generate(options, &mut StreamSink::new(&mut log)).unwrap();
    Some(log)
}

#[test]
fn no_damage_no_launcher_and_no_time_stamp_is_taken_for_blocks() {
    let base = |nccl| Options {
        nccl,
        steps: 6,
        layers: 2,
        ..Options::default()
    };
    let mut all = Vec::new();
    for nccl in [Nccl::V2_4, Nccl::V2_28, Nccl::V2_29] {
        for &kind in Damage::ALL {
            for rate in [0.02, 0.3, 1.0] {
                all.push(Options {
                    damage: vec![(kind, rate)],
                    ..base(nccl)
                });
            }
        }
    }
    for &prefix in Prefix::ALL {
        for &timestamps in Timestamps::ALL {
            all.push(Options {
                prefix,
                timestamps,
                ..base(Nccl::V2_28)
            });
        }
    }
    for &trainer in SynthTrainer::ALL {
        for layout in [LogLayout::Stream, LogLayout::PerRank] {
            all.push(Options {
                trainer,
                layout,
                ..base(Nccl::V2_28)
            });
        }
    }
    let mut n = 0;
    for options in &all {
        if let Some(log) = made(options) {
            assert!(!is_blocks(&log), "{options:?}");
            n += 1;
        }
    }
    assert!(n > 80, "{n}");
}

fn is_call(line: &[u8]) -> bool {
    opening_header(line).is_some_and(|h| whole_line_kind(line, &h) == Some(BlockLineKind::Call))
}

fn event() -> impl Strategy<Value = (u8, u64, u64)> {
    (0..12_u8, 0..4_u64, 0..5000_u64)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_bytes_it_goes_on(
        pieces in proptest::collection::vec((0..7_u8, 0..3_u64, 0..400_usize, any::<bool>()), 1..120),
    ) {
        let mut log = Vec::new();
        for (kind, pid, cut, ends) in pieces {
            let pid = 1000 + pid * 17;
            let mut text = match kind {
                0 => format!("step {cut} loss 2.0"),
                1 => other(pid, cut as u64),
                2 => format!("[2026-11-20 14:02:30] {}", call(pid, cut as u64)),
                3 => format!("gpu-a:{pid}:{pid} [0] NCCL INFO {}", "x".repeat(12 * cut)),
                4 => format!("[{}] {}", "1, ".repeat(4 * cut), call(pid, 1)),
                _ => call(pid, cut as u64),
            };
            text.truncate(if kind == 5 { cut } else { text.len() });
            log.extend_from_slice(text.as_bytes());
            if ends {
                log.push(b'\n');
            }
        }
        let (mut joiner, mut at, mut out) = (BlockJoiner::new(MAX_SEAM_TRIES), 0, Vec::new());
        while at < log.len() {
            let taken = joiner.take_write(&log[at..], true, &mut out);
            prop_assert!(taken > 0, "{}", String::from_utf8_lossy(&log[at..]));
            at += taken;
        }
        joiner.finish(&mut out);
        prop_assert!(is_complete(&out, &log));
    }

    #[test]
    fn what_is_put_together_is_what_the_naive_twin_wrote(
        events in proptest::collection::vec(event(), 100..900),
        step in 1..9000_usize,
    ) {
        let mut job = Job::default();
        for (kind, pid, n) in events {
            let pid = 1000 + pid * 17;
            match kind {
                0 => job.print(&format!("step {n} loss 2.0\n")),
                1..4 => job.say(pid, &other(pid, n)),
                _ => job.say(pid, &call(pid, n)),
            }
        }
        let (log, whole) = job.end();
        let (out, _) = joined(&log, step);
        prop_assert_eq!(out.len(), log.len());
        for pid in (0..4).map(|pid| 1000 + pid * 17) {
            let of_pid = format!("gpu-a:{pid}:");
            let (got, want) = (of(&out, &of_pid), of(&whole, &of_pid));
            // Each process's lines come in order, and none that it did not write. A last flush that
            // is only a tail does not show its process: that line stays in two, once a process.
            let (mut rest, mut left) = (want.iter(), Vec::new());
            let mut found = 0;
            for line in &got {
                let before = rest.clone();
                if rest.any(|w| w == line) {
                    found += 1;
                } else {
                    rest = before;
                    left.push(*line);
                }
            }
            let shown = || left.iter().map(|l| String::from_utf8_lossy(l)).collect::<Vec<_>>();
            prop_assert!(want.len() - found <= 1, "{found} of {}: {:?}", want.len(), shown());
            prop_assert!(left.len() <= 1, "{:?}", shown());
            for line in left.iter().filter(|l| is_call(l)) {
                let last = want[want.len() - 1];
                prop_assert!(last.starts_with(line), "{:?}", shown());
            }
        }
        let printed = |log| of(log, "step ").into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>();
        prop_assert_eq!(printed(&out), printed(&whole));
    }

    #[test]
    fn a_pipe_in_any_pieces_is_put_together_as_a_file_is(
        events in proptest::collection::vec((0..13_u8, 0..4_u64, 0..5000_u64), 100..600),
        step in 1..9000_usize,
        hosts in 1..3_u64,
    ) {
        let mut job = Job::default();
        for (kind, pid, n) in events {
            let pid = 1000 + pid * 17;
            let host = |line: String| match pid % hosts {
                1 => line.replace("gpu-a", "gpu-b17"),
                _ => line,
            };
            match kind {
                0 => job.print(&format!("step {n} loss 2.0\n")),
                1..3 => job.say(pid, &host(other(pid, n))),
                12 => {
                    job.flush(pid);
                    job.print(&format!("step {n} loss 2.0\n"));
                }
                _ => job.say(pid, &host(call(pid, n))),
            }
        }
        let (log, _) = job.end();
        let file = match is_blocks(&log) {
            true => joined(&log, 1 << 20).0,
            false => log.clone(),
        };
        let (pipe, _) = slowly(&log, step);
        prop_assert!(pipe == file);
    }

    #[test]
    fn any_bytes_come_out_complete(
        pieces in proptest::collection::vec((any::<u16>(), 0..9000_usize), 0..40),
        noise in proptest::collection::vec(any::<u8>(), 0..300),
        step in 1..5000_usize,
    ) {
        let source = two(60).0;
        let mut log = Vec::new();
        for (from, len) in pieces {
            let from = from as usize % source.len();
            log.extend_from_slice(&source[from..(from + len).min(source.len())]);
            log.extend_from_slice(&noise[..noise.len().min(len % 50)]);
        }
        log.extend_from_slice(&noise);
        let (out, _) = joined(&log, step);
        is_blocks(&log);
        prop_assert!(is_complete(&out, &log));
    }
}
