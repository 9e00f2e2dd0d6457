//! Pages of logs with any bytes, on terminals of any size.

use super::{PageView, WatchHistory, WatchPage, draw_page};
use crate::count::filtered::CountFilter;
use crate::filter::CallFilter;
use crate::log::placement::SettleRule;
use crate::source::AppendedBytes;
use crate::stages::watch::labels::KnownComm;
use crate::stages::watch::waiting_steps::WaitingSteps;
use crate::stages::watch::{JobWatch, STEP_TALLY};
use crate::testing::options;
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;
use std::time::{Duration, Instant};

/// What a terminal of this size shows of a job whose log is `log`, as lines.
fn shown(log: &[u8], size: (u16, u16), rests: Duration) -> Vec<String> {
    shown_by_view(log, size, rests, &mut PageView::default())
}

/// The same with a view of it.
fn shown_by_view(
    log: &[u8],
    (width, height): (u16, u16),
    rests: Duration,
    view: &mut PageView,
) -> Vec<String> {
    let read = options(1, false);
    let start = Instant::now();
    let mut watch = JobWatch::new(&read, None, start);
    let mut told = WatchHistory::default();
    let grown = AppendedBytes {
        input: 0,
        bytes: log,
        is_pipe: false,
        anew: false,
    };
    let every = CallFilter::default();
    let all = CountFilter::new(&every, &STEP_TALLY).unwrap();
    let mut waiting = WaitingSteps::new();
    waiting.add_events(watch.read_growth(&grown, start), start);
    waiting.count_calls(&mut watch, &all, SettleRule::Lines);
    let label = |nranks| if nranks == 2 { "tensor?" } else { "world" };
    let each = watch.ranks().largest_first();
    let known = each.iter().map(|(id, of)| {
        let known = KnownComm {
            label: label(of.nranks).to_owned(),
            job_ranks: (0..of.nranks).map(|rank| (rank, rank + 70)).collect(),
        };
        (**id, known)
    });
    watch.known = known.collect();
    let events = waiting.take_ready(&watch, start);
    events.iter().for_each(|event| told.add_event(event));
    let now = start + rests;
    watch.detect_stall(now);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut page = WatchPage {
        watch: &watch,
        told: &told,
        found: None,
        name: "a\x1b]0;x\x07.log",
        view,
        now,
    };
    terminal.draw(|frame| draw_page(&mut page, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(width.max(1)));
    rows.map(|row| row.iter().map(|cell| cell.symbol()).collect())
        .collect()
}

fn job() -> Vec<u8> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/testdata/captured/megatron/nccl.log"
    );
    std::fs::read(path).unwrap()
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_page_shows_the_job_at_80_by_24_and_at_200_by_60() {
    for size in [(80, 24), (200, 60)] {
        let rows = shown(&job(), size, SECOND);
        let all = rows.join("\n");
        for part in [
            "last call 1.0 s ago",
            "q: leave",
            "step 14  0.1434 s  median 0.1290 s",
            "41.6 TFLOP/s",
            "time of the last 4 steps",
            "AllGather",
            "832",
            "ReduceScatter",
            "9.61 GiB",
            "ranks behind",
            "world      0x",
            "tensor?    0x",
            "█",
        ] {
            assert!(all.contains(part), "{part} at {size:?}:\n{all}");
        }
    }
    let stalled = shown(&job(), (80, 24), Duration::from_secs(90)).join("\n");
    assert!(stalled.contains("stalled for 90 s"), "{stalled}");
}

#[test]
fn the_communicators_scroll_and_the_keys_are_listed() {
    let view = |keys: &[KeyCode]| {
        let mut view = PageView::default();
        shown_by_view(&job(), (80, 24), SECOND, &mut view);
        keys.iter().for_each(|&key| _ = view.press_key(key));
        shown_by_view(&job(), (80, 24), SECOND, &mut view).join("\n")
    };
    let (first, last) = (view(&[]), view(&[KeyCode::End]));
    assert!(first.contains("communicators, 1 to "), "{first}");
    let rows = |page: &str| page.lines().filter(|l| l.contains("    0x")).count();
    assert!(
        last.contains(" to 20 ") && rows(&last) == rows(&first),
        "{last}"
    );
    let back = view(&[
        KeyCode::End,
        KeyCode::PageUp,
        KeyCode::PageUp,
        KeyCode::PageUp,
    ]);
    assert_eq!(back, first);
    assert!(view(&[KeyCode::Char('?')]).contains("leave the page"));
    assert_eq!(view(&[KeyCode::Char('?'), KeyCode::Char('?')]), first);
}

#[test]
fn a_log_cannot_drive_the_terminal() {
    let evil = "\x1b[2J\x1b]52;c;AAAA\x07\u{9b}31m\u{202e}\r\x08";
    let mut log = job();
    let line = format!("node00:1:1 [0] misc/x.cc:1 NCCL WARN {evil} bad\n");
    log.extend_from_slice(line.as_bytes());
    for size in [(80, 24), (200, 60)] {
        let all = shown(&log, size, SECOND).concat();
        assert!(all.contains("a\\u{1b}]0;x\\u{7}.log"), "{all}");
        assert!(all.contains("\\u{9b}31m\\u{202e}\\r\\u{8} bad"), "{all}");
        let acts = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}');
        assert!(!all.contains(acts), "{all:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_bytes_are_drawn_on_any_terminal(
        noise in proptest::collection::vec(any::<u8>(), 0..60),
        cut in any::<proptest::sample::Index>(),
        size in prop_oneof![(0..4_u16, 0..4_u16), (1..220_u16, 1..70_u16)],
        rests in 0..200_u64,
    ) {
        let mut log = job();
        log.truncate(4 << 16);
        let at = cut.index(log.len());
        log.splice(at..at, noise.iter().copied());
        log.extend_from_slice(b"\nnode00:1:1 [0] x.cc:1 NCCL WARN ");
        log.extend_from_slice(&noise);
        log.push(b'\n');
        let rows = shown(&log, size, Duration::from_secs(rests));
        prop_assert!(!rows.concat().contains(char::is_control));
    }
}
