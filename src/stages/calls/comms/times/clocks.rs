//! Whether the times of records fit the time stamps of the log.
//!
//! Operations and bytes are the same in the next run of a job, and in each step of one run; times are not. A program
//! enqueues a call, NCCL writes its line, and only then does the program enqueue the next one.

use super::super::limits::{MAX_NS_TO_LINE, NS_PER_ZONE_STEP};
use super::logged::LoggedClass;
use super::records::{RecordedCall, TimingRecords};
use crate::grammar::stamp::TimeStamp;

/// Clears the places of records whose line was not written between their enqueue and the next one, in any time zone; if
/// most are so, of all: they are another run's. Returns the number of places cleared. Without both times nothing
/// is known, and nothing cleared.
pub(super) fn clear_untimely_places(
    places: &mut [Option<usize>],
    calls: &[RecordedCall],
    records: &TimingRecords,
    lines: &LoggedClass,
) -> u64 {
    let enqueue = |call: &RecordedCall| records.timings.get(call.timing as usize)?.enqueue_ns;
    let stamps = places.iter().map(|place| lines.stamp_of_call((*place)?));
    let stamps: Vec<Option<TimeStamp>> = stamps.collect();
    let apart = stamps.iter().zip(calls);
    let apart =
        apart.filter_map(|(stamp, call)| Some(stamp.as_ref()?.ns.saturating_sub(enqueue(call)?)));
    let mut apart: Vec<i64> = apart.collect();
    let middle = apart.len() / 2;
    if apart.is_empty() {
        return 0;
    }
    let (_, median, _) = apart.select_nth_unstable(middle);
    let zone = median
        .saturating_add(NS_PER_ZONE_STEP / 2)
        .div_euclid(NS_PER_ZONE_STEP);
    let (mut own, mut next) = (i64::MAX, i64::MAX);
    let mut untimely = Vec::new();
    for (at, call) in calls.iter().enumerate().rev() {
        let Some(ns) = enqueue(call) else { continue };
        // Calls that were enqueued as one have one time.
        if ns < own {
            (own, next) = (ns, own);
        }
        if let Some(stamp) = stamps[at] {
            let since = stamp
                .ns
                .saturating_sub(zone * NS_PER_ZONE_STEP)
                .saturating_sub(ns);
            let most = next.saturating_sub(ns).min(MAX_NS_TO_LINE);
            // A stamp lacks what is less than its last digit.
            if since <= -stamp.step || since > most {
                untimely.push(at);
            }
        }
    }
    let is_others = 2 * untimely.len() > apart.len();
    let before = places.iter().flatten().count();
    match is_others {
        true => places.fill(None),
        false => untimely.into_iter().for_each(|at| places[at] = None),
    }
    (before - places.iter().flatten().count()) as u64
}

/// Clears the places of the first and of the last equal calls of records that no time confirms, for a log that lacks
/// calls: between two other calls their number shows whether one is missing, but the recorder may have begun after the first,
/// or ended before the last of these. Returns the number of places cleared.
pub(super) fn clear_open_runs(
    places: &mut [Option<usize>],
    calls: &[RecordedCall],
    records: &TimingRecords,
    lines: &LoggedClass,
) -> u64 {
    let is_confirmed = |call: &RecordedCall, at: usize| {
        let record = records.timings.get(call.timing as usize);
        record.is_some_and(|record| record.enqueue_ns.is_some()) && lines.has_fine_stamp(at)
    };
    let mut runs = calls.chunk_by(|a, b| a.shape == b.shape).map(<[_]>::len);
    let first = runs.next().unwrap_or(0);
    let last = calls.len() - runs.next_back().unwrap_or(0);
    let mut cleared = 0;
    for (at, (place, call)) in places.iter_mut().zip(calls).enumerate() {
        let is_open = at < first || at >= last;
        if is_open && place.is_some_and(|line| !is_confirmed(call, line)) {
            *place = None;
            cleared += 1;
        }
    }
    cleared
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::table::{Row, Timing};
    use crate::stages::comms::times::logged::LoggedSequences;
    use crate::stages::comms::times::shapes::{CallClass, ComparedShapes};

    const SECOND: u64 = 1_000_000_000;

    /// Joins records, enqueued at these ms after 20:00, with lines of these seconds after 20:00 in `hour`; returns the places
    /// that are left, and the number cleared.
    fn join(
        hour: u32,
        lines: &[&str],
        records: &[(u64, Option<usize>)],
    ) -> (Vec<Option<usize>>, u64) {
        let (mut logged, mut shapes) = (LoggedSequences::default(), ComparedShapes::default());
        let call = Row {
            op: b"AllReduce",
            only_bytes: Some(64),
            calls: 1,
            ..Row::default()
        };
        for second in lines {
            let time = format!("2026-04-28 {hour}:00:{second}");
            logged.add_call(
                &Row {
                    time: time.as_bytes(),
                    ..call
                },
                &mut shapes,
            );
        }
        let mut taken = TimingRecords::default();
        for (ms, _) in records {
            // 2026-04-28 20:00 UTC.
            let start = Some(1_777_406_400 * SECOND + ms * 1_000_000);
            let timing = Timing {
                start_ns: start,
                pg_name: b"0",
                ..Timing::default()
            };
            taken.add_record(
                &Row {
                    src: b"flight",
                    timing: Some(&timing),
                    ..call
                },
                &mut shapes,
            );
        }
        let calls = taken.members.values().flatten().next().unwrap().1;
        let mut places: Vec<_> = records.iter().map(|(_, place)| *place).collect();
        let lines = &logged.calls[&(0, CallClass::Collectives)];
        let cleared = clear_untimely_places(&mut places, calls, &taken, lines);
        (places, cleared)
    }

    #[test]
    fn a_line_is_written_between_its_enqueue_and_the_next() {
        let lines = ["01.010", "02.010", "03.010", "05.010"];
        let own = [
            (1000, Some(0)),
            (2000, Some(1)),
            (3000, Some(2)),
            (5000, Some(3)),
        ];
        // In any zone, with stamps that lack their fraction, and of calls that were enqueued as one.
        for hour in [20, 14] {
            assert_eq!(
                join(hour, &lines, &own),
                (vec![Some(0), Some(1), Some(2), Some(3)], 0)
            );
        }
        assert_eq!(
            join(20, &["01", "02"], &[(1900, Some(0)), (2100, Some(1))]).1,
            0
        );
        assert_eq!(
            join(20, &["01.1", "01.2"], &[(1000, Some(0)), (1000, Some(1))]).1,
            0
        );
        // The third line was lost: the records after it would get their neighbours'.
        let lost = [
            (1000, Some(0)),
            (2000, Some(1)),
            (2500, Some(2)),
            (3000, Some(3)),
        ];
        assert_eq!(
            join(20, &lines, &lost),
            (vec![Some(0), Some(1), None, Some(3)], 1)
        );
        // The record before the third was lost.
        let lost = [(1000, Some(0)), (2000, Some(1)), (5000, Some(2))];
        assert_eq!(join(20, &lines, &lost), (vec![Some(0), Some(1), None], 1));
    }

    #[test]
    fn records_of_another_run_are_refused() {
        let lines = ["01.010", "02.010", "03.010"];
        for ms in [84_000, 4_000, 450_000] {
            let other = [
                (1000 + ms, Some(0)),
                (2000 + ms, Some(1)),
                (3000 + ms, Some(2)),
            ];
            assert_eq!(join(20, &lines, &other), (vec![None; 3], 3), "{ms}");
        }
        // Nothing is known without a time stamp.
        assert_eq!(
            join(20, &["no", "time"], &[(1000, Some(0)), (2000, Some(1))]).1,
            0
        );
    }

    #[test]
    fn calls_at_the_ends_of_a_log_with_damage_are_open() {
        let (mut logged, mut shapes) = (LoggedSequences::default(), ComparedShapes::default());
        let mut taken = TimingRecords::default();
        for bytes in [8000, 8000, 64, 8000, 64, 64] {
            let call = Row {
                op: b"AllGather",
                only_bytes: Some(bytes),
                calls: 1,
                ..Row::default()
            };
            logged.add_call(&call, &mut shapes);
            let timing = Timing {
                pg_name: b"0",
                ..Timing::default()
            };
            let record = Row {
                timing: Some(&timing),
                ..call
            };
            taken.add_record(&record, &mut shapes);
        }
        let calls = taken.members.values().flatten().next().unwrap().1;
        let mut places: Vec<_> = (0..6).map(Some).collect();
        let lines = &logged.calls[&(0, CallClass::Collectives)];
        assert_eq!(clear_open_runs(&mut places, calls, &taken, lines), 4);
        assert_eq!(places, [None, None, Some(2), Some(3), None, None]);
        // One call after the other of one shape has no end that shows how many there are.
        let mut places = vec![Some(0), Some(1)];
        assert_eq!(clear_open_runs(&mut places, &calls[..2], &taken, lines), 2);
    }
}
