//! Whether the times of records fit the time stamps of the log.
//!
//! Operations and bytes are the same in the next run of a job, and in each step of one run; times are not. A program
//! enqueues a call, NCCL writes its line, and only then does the program enqueue the next one.

use super::super::limits::{
    MAX_NS_TO_LINE, MAX_USUAL_DISTANCES, NS_PER_SECOND, NS_PER_ZONE_STEP, ZONES,
};
use super::logged::LoggedClass;
use super::records::{RecordedCall, TimingRecords};
use super::shapes::CallClass;

/// Recorded calls of a class, and their places in the log.
pub(super) struct PlacedRun<'a> {
    pub(super) of: (u32, CallClass),
    pub(super) calls: &'a [RecordedCall],
    pub(super) lines: &'a LoggedClass,
    pub(super) places: Vec<Option<usize>>,
    /// The log may lack calls among these: that they fit it at one place does not prove that place.
    pub(super) is_open: bool,
}

/// How many places were cleared, by reason.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ClearedPlaces {
    /// Their times do not fit the time stamps.
    pub(super) untimely: u64,
    /// The log may lack calls, or nothing follows the record, and no time stamp proves the place.
    pub(super) unproven: u64,
}

/// The times of a call and its line.
struct CallTimes {
    /// The ns from the enqueue to the line, by two clocks of unknown zones.
    since: i64,
    /// The ns of the stamp's last digit: it lacks less than that.
    step: i64,
    /// The ns to the next recorded enqueue, if there is one.
    until_next: Option<i64>,
}

impl CallTimes {
    fn is_timely(&self) -> bool {
        let most = self
            .until_next
            .map_or(MAX_NS_TO_LINE, |ns| ns.min(MAX_NS_TO_LINE));
        self.since > -self.step && self.since <= most
    }

    /// The most ns between the enqueue and the line.
    fn distance(&self) -> i64 {
        self.since.saturating_add(self.step)
    }

    /// Returns true if the line follows as closely as others do. Before a pause or after the last record, a call that the
    /// recorder did not see may have written it.
    fn is_close(&self, usual: i64) -> bool {
        self.distance() <= usual.saturating_mul(MAX_USUAL_DISTANCES)
    }

    /// Returns true if nothing contradicts the join; in a log that may lack calls, only if no other call's line can be there.
    fn is_sure(&self, usual: i64, is_open: bool) -> bool {
        let is_bounded = self.until_next.is_some();
        match is_open {
            true => is_bounded && self.step < NS_PER_SECOND && self.is_close(usual),
            false => is_bounded || self.is_close(usual),
        }
    }
}

/// Clears the places in a process' runs of records with lines not written between their enqueue and the next one,
/// in one time zone; if most are so, of all: they are another run's. Where the log may lack calls, only what the times
/// prove is left. Without both times nothing is known.
pub(super) fn clear_untimely_places(
    runs: &mut [PlacedRun<'_>],
    records: &TimingRecords,
) -> ClearedPlaces {
    let mut times: Vec<Vec<Option<CallTimes>>> =
        runs.iter().map(|run| list_times(run, records)).collect();
    let all = || times.iter().flatten().flatten();
    let middle = median(all().map(|call| call.since).collect());
    let zone = middle
        .saturating_add(NS_PER_ZONE_STEP / 2)
        .div_euclid(NS_PER_ZONE_STEP)
        .saturating_mul(NS_PER_ZONE_STEP);
    for call in times.iter_mut().flatten().flatten() {
        call.since = call.since.saturating_sub(zone);
    }
    let all = || times.iter().flatten().flatten();
    let timely = all().filter(|call| call.is_timely());
    let timely: Vec<i64> = timely.map(CallTimes::distance).collect();
    let is_others = !ZONES.contains(&zone) || 2 * timely.len() < all().count();
    let usual = median(timely);
    let mut cleared = ClearedPlaces::default();
    for (run, times) in runs.iter_mut().zip(&times) {
        let compared = times.iter().flatten().count();
        let untimely = times.iter().flatten().filter(|call| !call.is_timely());
        let untimely = untimely.count();
        let is_refused = is_others || 2 * untimely > compared || (run.is_open && untimely > 0);
        for (place, call) in run.places.iter_mut().zip(times) {
            if place.is_none() {
                continue;
            }
            let call = call.as_ref();
            if is_refused || call.is_some_and(|call| !call.is_timely()) {
                cleared.untimely += 1;
                *place = None;
            } else if !call.map_or(!run.is_open, |call| call.is_sure(usual, run.is_open)) {
                cleared.unproven += 1;
                *place = None;
            }
        }
    }
    cleared
}

/// The middle one of some numbers; 0 if there are none.
fn median(mut all: Vec<i64>) -> i64 {
    let middle = all.len() / 2;
    if all.is_empty() {
        return 0;
    }
    *all.select_nth_unstable(middle).1
}

/// Lists the times of the calls that have a place, an enqueue and a time stamp.
fn list_times(run: &PlacedRun<'_>, records: &TimingRecords) -> Vec<Option<CallTimes>> {
    let (mut own, mut next) = (i64::MAX, i64::MAX);
    let calls = run.calls.iter().zip(&run.places).rev();
    let times = calls.map(|(call, place)| {
        let ns = records.timings.get(call.timing as usize)?.enqueue_ns?;
        // Calls that were enqueued as one have one time.
        if ns < own {
            (own, next) = (ns, own);
        }
        let stamp = run.lines.stamp_of_call((*place)?)?;
        Some(CallTimes {
            since: stamp.ns.saturating_sub(ns),
            step: stamp.step,
            until_next: (next < i64::MAX).then(|| next.saturating_sub(ns)),
        })
    });
    let mut times: Vec<_> = times.collect();
    times.reverse();
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::table::{Row, Timing};
    use crate::stages::comms::times::logged::LoggedSequences;
    use crate::stages::comms::times::shapes::{CallClass, ComparedShapes};

    const SECOND: u64 = 1_000_000_000;

    /// Lines of these seconds after 20:00 in `hour`, and records enqueued at these ms after 20:00.
    fn sides(hour: u32, lines: &[&str], ms: &[u64]) -> (LoggedSequences, TimingRecords) {
        let (mut logged, mut shapes) = (LoggedSequences::default(), ComparedShapes::default());
        let call = Row {
            op: b"AllReduce",
            only_bytes: Some(64),
            calls: 1,
            ..Row::default()
        };
        for second in lines {
            let time = format!("2026-04-28 {hour}:00:{second}");
            let time = time.as_bytes();
            logged.add_call(&Row { time, ..call }, &mut shapes);
        }
        let mut taken = TimingRecords::default();
        for ms in ms {
            let timing = Timing {
                // 2026-04-28 20:00 UTC.
                start_ns: Some(1_777_406_400 * SECOND + ms * 1_000_000),
                pg_name: b"0",
                ..Timing::default()
            };
            let record = Row {
                src: b"flight",
                timing: Some(&timing),
                ..call
            };
            taken.add_record(&record, &mut shapes);
        }
        (logged, taken)
    }

    /// Joins each record with the line of its place, in runs of `chunk` records.
    fn join_runs(
        sides: &(LoggedSequences, TimingRecords),
        places: &[Option<usize>],
        chunk: usize,
        is_open: bool,
    ) -> (Vec<Option<usize>>, ClearedPlaces) {
        let (logged, taken) = sides;
        let calls = taken.members.values().flatten().next().unwrap().1;
        let of = (0, CallClass::Collectives);
        let runs = calls.chunks(chunk).zip(places.chunks(chunk));
        let runs = runs.map(|(calls, places)| PlacedRun {
            of: of.clone(),
            calls,
            lines: &logged.calls[&of],
            places: places.to_vec(),
            is_open,
        });
        let mut runs: Vec<_> = runs.collect();
        let cleared = clear_untimely_places(&mut runs, taken);
        let places = runs.into_iter().flat_map(|run| run.places).collect();
        (places, cleared)
    }

    /// Returns the places that are left, and the number cleared.
    fn join(
        hour: u32,
        lines: &[&str],
        records: &[(u64, Option<usize>)],
    ) -> (Vec<Option<usize>>, u64) {
        let (ms, places): (Vec<u64>, Vec<_>) = records.iter().copied().unzip();
        let (places, cleared) = join_runs(&sides(hour, lines, &ms), &places, ms.len(), false);
        (places, cleared.untimely + cleared.unproven)
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
            (vec![Some(0), Some(1), None, None], 2)
        );
        // The record before the third was lost.
        let lost = [(1000, Some(0)), (2000, Some(1)), (5000, Some(2))];
        assert_eq!(join(20, &lines, &lost), (vec![Some(0), Some(1), None], 1));
    }

    #[test]
    fn records_of_another_run_are_refused() {
        let lines = ["01.010", "02.010", "03.010"];
        // A day later is no time zone.
        for ms in [84_000, 4_000, 450_000, 86_400_000] {
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
    fn one_decision_is_made_for_all_communicators_of_a_process() {
        // The one record of a communicator has no next one that its line must come before.
        let lines = ["01.010", "02.010", "03.010", "04.010", "05.010"];
        let others = sides(20, &lines, &[4000, 5000, 6000, 7000, 8000]);
        let places: Vec<_> = (0..5).map(Some).collect();
        let (left, cleared) = join_runs(&others, &places, 4, false);
        assert_eq!((left, cleared.untimely), (vec![None; 5], 5));
    }

    #[test]
    fn a_log_that_lacks_calls_has_those_that_times_prove() {
        let ms = [1000, 2000, 3000, 4000, 5000];
        let places: Vec<_> = (0..5).map(Some).collect();
        let open = |lines: &[&str]| join_runs(&sides(20, lines, &ms), &places, 5, true);
        // Nothing bounds the last one's line, and the third's comes late: both may be of calls that were not recorded.
        let (left, cleared) = open(&["01.010", "02.010", "03.900", "04.010", "05.010"]);
        assert_eq!(left, [Some(0), Some(1), None, Some(3), None]);
        assert_eq!((cleared.untimely, cleared.unproven), (0, 2));
        // A line at a time that it cannot have refuses them all.
        let (left, cleared) = open(&["01.010", "02.010", "04.010", "04.020", "05.010"]);
        assert_eq!((left, cleared.untimely), (vec![None; 5], 5));
        // Whole seconds, and none.
        for lines in [["01", "02", "03", "04", "05"], ["no"; 5]] {
            let (left, cleared) = open(&lines);
            assert_eq!((left, cleared.unproven), (vec![None; 5], 5));
        }
    }
}
