use super::waiting_steps::{InputNews, WaitingSteps, calls_by_step};
use super::{JobWatch, STEP_TALLY, WatchEvent};
use crate::count::calls::count_calls;
use crate::count::filtered::CountFilter;
use crate::filter::CallFilter;
use crate::report::Report;
use crate::report::progress::ByteProgressBar;
use crate::source::{AppendedBytes, InputName};
use crate::stages::watch::limits::MAX_WAITING_LINE_BYTES;
use crate::synth::{self, LogSink, options::LogLayout};
use crate::testing;
use memchr::memmem;
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn call(rank: u32) -> String {
    format!(
        "n1:{rank}:{rank} [{rank}] NCCL INFO AllReduce: opCount 1 sendbuff 0x1 recvbuff 0x2 count 4 datatype 7 op 0 root 0 \
         comm 0x5 [nranks=3] stream 0x6\n"
    )
}

/// The rest of a line over the limit is dropped, counted and reported once; what it holds is no call, and the next
/// line is read.
#[test]
fn a_line_over_the_limit_is_reported_and_not_kept() {
    let read = testing::options(1, false);
    let now = Instant::now();
    for begins_anew in [false, true] {
        let mut watch = JobWatch::new(&read, None, now);
        let over = call(2).trim_end().to_owned();
        let long = format!("{}{over}", "x".repeat(MAX_WAITING_LINE_BYTES));
        let end = if begins_anew { "" } else { "\n" };
        let text = format!("{}{long}{end}", call(0));
        let pieces = text.as_bytes().chunks(1 << 20).map(|bytes| (bytes, false));
        let next = call(1);
        let mut events = Vec::new();
        for (bytes, anew) in pieces.chain([(next.as_bytes(), begins_anew)]) {
            let grown = AppendedBytes {
                input: 0,
                bytes,
                is_pipe: false,
                anew,
            };
            events.extend(watch.read_growth(&grown, now));
            assert!(watch.unfinished_line(0).len() <= MAX_WAITING_LINE_BYTES);
        }
        assert_eq!(events, [WatchEvent::Dropped(over.len() as u64)]);
        assert_eq!(watch.calls().total().calls, 2);
        assert!(watch.has_dropped);
    }
}

/// The replays of a CUDA graph write no lines: a step without calls waits until nothing comes for a second.
#[test]
fn steps_without_calls_come_while_the_job_runs() {
    let read = testing::options(1, false);
    let every = CallFilter::default();
    let all = CountFilter::new(&every, &STEP_TALLY).unwrap();
    let mut now = Instant::now();
    let mut watch = JobWatch::new(&read, None, now);
    let mut waiting = WaitingSteps::new();
    let mut rows = Vec::new();
    for step in 0..12 {
        let calls = if step < 4 { call(0) } else { String::new() };
        let text = format!(
            "{calls} [2026-11-29 06:00:00] iteration {step:8}/      12 | elapsed time per iteration (ms): 7.5 | learning rate: 1.0E-4 |\n"
        );
        let grown = AppendedBytes {
            input: 0,
            bytes: text.as_bytes(),
            is_pipe: false,
            anew: false,
        };
        waiting.add_events(watch.read_growth(&grown, now), now);
        for round in 0..15 {
            let news = InputNews {
                has_grown: round == 0,
                has_files: false,
                is_of_several: false,
            };
            if let Some(rule) = waiting.find_due_count(news, now) {
                waiting.count_calls(&mut watch, &all, rule);
            }
            rows.extend(waiting.take_ready(&watch, now));
            now += Duration::from_millis(100);
        }
        // The first three lines show whose they are.
        let come = if step < 2 { 0 } else { step + 1 };
        assert_eq!(rows.len(), come, "{step}: {rows:?}");
    }
}

/// The text of each rank.
#[derive(Default)]
struct RankTexts(Vec<Vec<u8>>);

impl LogSink for RankTexts {
    fn open(&mut self, rank: usize, _: &str) -> std::io::Result<()> {
        self.0.resize(self.0.len().max(rank + 1), Vec::new());
        Ok(())
    }

    fn write(&mut self, rank: usize, bytes: &[u8]) -> std::io::Result<()> {
        self.0[rank].extend_from_slice(bytes);
        Ok(())
    }

    fn finish(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The calls of each step that nccl-ops gives for files of `texts`.
fn count_files(texts: &[Vec<u8>]) -> Vec<(u64, u64)> {
    let folder = tempfile::tempdir().unwrap();
    let origins = texts.iter().enumerate().map(|(rank, text)| {
        let path = folder.path().join(format!("rank{rank}.log"));
        std::fs::write(&path, text).unwrap();
        InputName::Path(path)
    });
    let origins: Vec<InputName> = origins.collect();
    let mut report = Report::new("nccl-watch", false, true).silenced();
    let read = testing::options(1, false);
    let progress = ByteProgressBar::default();
    let counted = count_calls(&origins, &read, &STEP_TALLY, &mut report, &progress).unwrap();
    let steps = calls_by_step(&counted).into_iter();
    steps
        .map(|(step, calls)| (step.step, calls.total().calls))
        .collect()
}

/// Bytes by which a rank's log is ahead of another's: two steps.
const MAX_LEAD_BYTES: usize = 10_000;

/// Which log grows, by how many bytes, and how long the watch waits after it, in tenths of a second.
type Growth = (usize, usize, u64);

/// The logs of a job's ranks, and the order in which they grow.
fn growing_logs() -> impl Strategy<Value = (Vec<Vec<u8>>, Vec<Growth>)> {
    let pause = prop_oneof![4 => Just(0_u64), 1 => 1..15_u64];
    let growth = (0..8_usize, 1..9000_usize, pause);
    (0..1000_u64, prop::collection::vec(growth, 20..120)).prop_map(|(seed, growths)| {
        let options = synth::Options {
            ranks: 4,
            steps: 12,
            layers: 2,
            seed,
            layout: LogLayout::PerRank,
            ..synth::Options::default()
        };
        let mut texts = RankTexts::default();
        synth::generate(&options, &mut texts).unwrap();
        (texts.0, growths)
    })
}

/// What a watch reports of logs that grow.
#[derive(Default)]
struct WatchedRows {
    /// Steps and their calls.
    steps: Vec<(u64, u64)>,
    /// Steps that may have more calls.
    open: Vec<u64>,
    has_changed: bool,
    /// The lines of all logs in the order in which they came.
    lines: Vec<u8>,
}

/// Lets logs grow; none is ahead of another by more than `lead` bytes.
fn watch_growths(
    texts: &[Vec<u8>],
    growths: impl Iterator<Item = Growth>,
    lead: usize,
) -> WatchedRows {
    let read = testing::options(1, false);
    let mut now = Instant::now();
    let mut watch = JobWatch::new(&read, None, now);
    let every = CallFilter::default();
    let all = CountFilter::new(&every, &STEP_TALLY).unwrap();
    let mut waiting = WaitingSteps::new();
    let mut rests: Vec<&[u8]> = texts.iter().map(|text| &text[..]).collect();
    let mut rows = Vec::new();
    let mut found = WatchedRows::default();
    let mut unfinished = vec![Vec::new(); rests.len()];
    for (rank, bytes, tenths) in growths {
        let input = rank % rests.len();
        let most = rests.iter().map(|rest| rest.len()).max().unwrap_or(0);
        let ahead = most - rests[input].len();
        let bytes = bytes.min(lead.saturating_sub(ahead));
        let (bytes, rest) = rests[input].split_at(bytes.min(rests[input].len()));
        rests[input] = rest;
        let begun: &mut Vec<u8> = &mut unfinished[input];
        begun.extend_from_slice(bytes);
        let end = memchr::memrchr(b'\n', begun).map_or(0, |at| at + 1);
        found.lines.extend(begun.drain(..end));
        let grown = AppendedBytes {
            input,
            bytes,
            is_pipe: false,
            anew: false,
        };
        waiting.add_events(watch.read_growth(&grown, now), now);
        for round in 0..=tenths {
            let news = InputNews {
                has_grown: round == 0 && !bytes.is_empty(),
                has_files: false,
                is_of_several: true,
            };
            if let Some(rule) = waiting.find_due_count(news, now) {
                waiting.count_calls(&mut watch, &all, rule);
            }
            rows.extend(waiting.take_ready(&watch, now));
            now += Duration::from_millis(100);
        }
    }
    waiting.add_events(watch.read_last_lines(now), now);
    waiting.count_last_calls(&mut watch, &all, now);
    rows.extend(waiting.take_ready(&watch, now));
    for event in rows {
        match event {
            WatchEvent::Step(ended) => {
                let number = ended.step.step;
                found.steps.push((number, ended.calls.total().calls));
                found.open.extend(ended.is_open.then_some(number));
            }
            WatchEvent::StepsChanged => found.has_changed = true,
            _ => {}
        }
    }
    found
}

/// The rest of each log, piece by piece.
fn all_rests() -> impl Iterator<Item = Growth> {
    (0..400).map(|rank| (rank, 9000, 0))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// However the logs of ranks grow, each step has the calls of nccl-ops, and comes once.
    #[test]
    fn each_step_has_the_calls_of_nccl_ops((texts, growths) in growing_logs()) {
        // Ranks wait for each other: none makes a call before all have joined, and what one has written, the others
        // write soon.
        let joined = |text: &[u8]| memmem::find(text, b": opCount ").unwrap_or(0);
        let begins = (0..).zip(&texts).map(|(rank, text)| (rank, joined(text), 0));
        let begins: Vec<_> = begins.collect();
        let growths = begins.into_iter().chain(growths).chain(all_rests());
        let found = watch_growths(&texts, growths, MAX_LEAD_BYTES);
        prop_assert_eq!(found.steps, count_files(&texts));
        prop_assert!(!found.has_changed);
        prop_assert!(found.open.is_empty());
    }

    /// Where logs come in an order in which no job writes them, steps may lack calls of later lines; if they do, that is
    /// reported.
    #[test]
    fn a_step_that_lacks_calls_is_reported((texts, growths) in growing_logs()) {
        let found = watch_growths(&texts, growths.into_iter().chain(all_rests()), usize::MAX);
        let is_right = found.steps == count_files(&[found.lines]);
        prop_assert_eq!(is_right, !found.has_changed, "{:?}", found.steps);
    }
}
