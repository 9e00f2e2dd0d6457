//! Compares the timeline with the sums: both must have the same calls and µs for each function. A
//! difference is a lost tail, a snapshot that was taken early, or another process.

use super::CudaSummary;
use crate::formats::cuda::CudaSnapshot;
use crate::report::{Report, count_phrase};
use std::collections::BTreeMap;

/// Result of comparing a function's sums with the timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SumsAgreement {
    /// Both are equal.
    Equal,
    /// The timeline has no line for the function.
    Untold,
    /// The sums also count lookups of the function: more calls in equal time.
    Lookups(u64),
    /// This many calls are missing from the timeline.
    Lost(u64),
    /// This many calls of the timeline are missing from the sums.
    More(u64),
    /// The numbers of calls are equal, and the times differ.
    Time,
}

impl SumsAgreement {
    pub(super) fn text(self) -> String {
        match self {
            SumsAgreement::Equal => "equal".to_owned(),
            SumsAgreement::Untold => "not in timelines".to_owned(),
            SumsAgreement::Lookups(n) => format!("equal, with {}", count_phrase(n, "lookup")),
            SumsAgreement::Lost(n) => format!("timeline lacks {n}"),
            SumsAgreement::More(n) => format!("sums lack {n}"),
            SumsAgreement::Time => "other times".to_owned(),
        }
    }
}

/// Sums up calls and µs of each function in the timelines.
pub(super) fn sum_timeline(found: &CudaSummary) -> BTreeMap<&[u8], (u64, u128)> {
    let mut all: BTreeMap<&[u8], (u64, u128)> = BTreeMap::new();
    for ((name, _), stats) in &found.by {
        let (calls, us) = all.entry(name).or_default();
        *calls += stats.calls;
        *us += stats.times.total_ns() / 1000;
    }
    all
}

/// Returns the only snapshot; with several, none belongs to the timelines.
pub(super) fn only_snapshot(found: &CudaSummary) -> Option<&CudaSnapshot> {
    match &found.sums[..] {
        [sums] => Some(sums),
        _ => None,
    }
}

/// Compares a function's sums with the timeline's.
pub(super) fn compare_sums(
    name: &[u8],
    sums: (u64, Option<u64>),
    timeline: (u64, u128),
) -> SumsAgreement {
    let ((count, us), (calls, of_calls)) = (sums, timeline);
    // The interposer prints no line for these.
    if matches!(name, b"cuLaunchKernel" | b"cuGetProcAddress") {
        return SumsAgreement::Untold;
    }
    let same_time = us.is_none_or(|us| us == (of_calls as u64 & u64::from(u32::MAX)));
    let has_lookups = matches!(name, b"cuMemcpyH2D" | b"cuMemcpyD2H");
    match (count.checked_sub(calls), calls.checked_sub(count)) {
        (Some(0), _) if same_time => SumsAgreement::Equal,
        (Some(0), _) => SumsAgreement::Time,
        (Some(n), _) if has_lookups && same_time => SumsAgreement::Lookups(n),
        (Some(n), _) => SumsAgreement::Lost(n),
        (None, n) => SumsAgreement::More(n.unwrap_or(0)),
    }
}

/// Reports differences between the logs, and impossible values.
pub fn report_differences(found: &CudaSummary, report: &Report) {
    if found.emptied > 0 {
        report.note(&format!(
            "{} empty: the interposer empties metrics.log before it writes it again, and the job may have \
             ended then",
            if found.emptied == 1 { "a file is".to_owned() } else { format!("{} files are", found.emptied) }
        ));
    }
    let untimed: u64 = found.by.values().map(|stats| stats.untimed).sum();
    if untimed > 0 {
        report.warn(&format!(
            "{} longer than a day: the time is left out. Versions before a846db5 print a variable that \
             was never set",
            if untimed == 1 { "a call is".to_owned() } else { format!("{untimed} calls are") }
        ));
    }
    if found.earlier > 0 {
        report.note(&format!(
            "{} before the call of the line above ended: several threads or processes write this file, and \
             its lines do not tell which",
            if found.earlier == 1 { "a call begins".to_owned() } else { format!("{} calls begin", found.earlier) }
        ));
    }
    if found.sums.len() > 1 {
        report.note("several snapshots of sums: they are not compared with the timelines");
    }
    let Some(sums) = only_snapshot(found).filter(|_| found.timelines > 0) else {
        return;
    };
    let timeline = sum_timeline(found);
    let (mut lost, mut more) = (Vec::new(), Vec::new());
    for (name, sum) in &sums.of {
        let of_calls = timeline.get(&**name).copied().unwrap_or_default();
        let shown = String::from_utf8_lossy(name);
        match compare_sums(name, (sum.count, sum.burst_us), of_calls) {
            SumsAgreement::Lost(n) => lost.push(format!("{n} of {shown}")),
            SumsAgreement::More(n) => more.push(format!("{n} of {shown}")),
            SumsAgreement::Time => more.push(format!("other times of {shown}")),
            SumsAgreement::Equal | SumsAgreement::Untold | SumsAgreement::Lookups(_) => {}
        }
    }
    if !lost.is_empty() {
        report.warn(&format!(
            "the timeline lacks calls that the sums have ({}): the end of the timeline was lost, or the sums \
             are of another run",
            lost.join(", ")
        ));
    }
    if !more.is_empty() {
        report.warn(&format!(
            "the sums lack calls that the timeline has ({}): the snapshot is an early one, or several processes \
             or runs wrote the timeline and the sums are of the last",
            more.join(", ")
        ));
    }
    if lost.is_empty() && more.is_empty() {
        report.note("the sums and the timeline agree");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_compared_by_calls_and_time() {
        let of = |name: &str, sums, timeline| compare_sums(name.as_bytes(), sums, timeline);
        assert_eq!(of("cuInit", (1, Some(5)), (1, 5)), SumsAgreement::Equal);
        assert_eq!(of("cuInit", (1, Some(6)), (1, 5)), SumsAgreement::Time);
        assert_eq!(of("cuInit", (4, Some(9)), (1, 5)), SumsAgreement::Lost(3));
        assert_eq!(of("cuInit", (1, Some(5)), (3, 15)), SumsAgreement::More(2));
        // A lookup takes no time.
        assert_eq!(
            of("cuMemcpyH2D", (6, Some(0)), (0, 0)),
            SumsAgreement::Lookups(6)
        );
        assert_eq!(
            of("cuMemcpyH2D", (6, Some(4)), (0, 0)),
            SumsAgreement::Lost(6)
        );
        assert_eq!(
            of("cuLaunchKernel", (6, Some(4)), (0, 0)),
            SumsAgreement::Untold
        );
        // 32 bits of µs.
        assert_eq!(
            of("cuInit", (2, Some(1)), (2, (1 << 32) + 1)),
            SumsAgreement::Equal
        );
    }
}
