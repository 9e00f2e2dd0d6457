//! How the log was written, where that spoils it.

use super::job_facts::JobFacts;
use crate::report::account::{Account, MAX_DAMAGE_PLACES};
use crate::stages::check::finding::{Confidence, Evidence, Finding, Kind, LineSpot};
use crate::stages::check::walk::WalkedInput;
use crate::stages::check::wording::number_and_noun;
use crate::stages::check::words::texts::describe_hygiene;
use crate::stages::net::net_stage::FirstReportLine;

/// Returns how many faults there are, if any, and the first ones.
type FindFaults = fn(&InputHygiene<'_>) -> Option<(u64, Vec<Evidence>)>;

/// The kinds that are reported by a number.
const HYGIENE_KINDS: [(Kind, FindFaults); 6] = [
    // Lines that were overwritten are damaged too.
    (Kind::DamagedLines, |log| {
        let damaged = log.account.damaged;
        let is_own = damaged > 0 && log.count_overwritten() == 0;
        is_own.then(|| (damaged, log.damaged_evidence().collect()))
    }),
    // NCCL's own buffer was too short for a line.
    (Kind::LinesTruncated, |log| {
        log.count_from(log.account.truncated, log.account.firsts.truncated)
    }),
    // Pieces of lines of several processes were written between each other.
    (Kind::LinesTorn, |log| {
        log.count_from(log.account.torn, log.account.firsts.torn)
    }),
    // Ray left out what several processes printed alike.
    (Kind::RayDedup, |log| {
        let (_, first) = log.count_from(log.account.ray_lines, log.account.firsts.ray)?;
        Some((log.account.ray_repeats, first))
    }),
    (Kind::BlockBuffered, |log| log.find_buffered()),
    (Kind::SeveralRuns, |log| log.find_step_falls()),
];

/// Returns the findings on how each input was written.
pub(super) fn find_hygiene_faults(job: &JobFacts<'_>) -> Vec<Finding> {
    job.ask_each_input(|number, input, account| {
        let log = InputHygiene {
            number,
            input,
            account,
        };
        let counted = HYGIENE_KINDS.iter().filter_map(|(kind, find)| {
            let (n, first) = find(&log)?;
            Some(log.input_finding(*kind, &describe_hygiene(*kind, n), first))
        });
        counted.chain(log.find_overwritten()).collect()
    })
}

/// How an input was written.
struct InputHygiene<'a> {
    /// Its place among the inputs.
    number: u32,
    input: &'a WalkedInput,
    account: &'a Account,
}

impl InputHygiene<'_> {
    fn input_finding(
        &self,
        kind: Kind,
        says: &str,
        evidence: impl IntoIterator<Item = Evidence>,
    ) -> Finding {
        let says = format!("{}: {says}", self.input.name);
        Finding {
            evidence: evidence.into_iter().collect(),
            ..Finding::of_kind(kind, Confidence::High, says)
        }
    }

    fn evidence_at(&self, line: u64) -> Evidence {
        let input = self.number;
        FirstReportLine { input, line }.into()
    }

    /// The first lines that are damaged.
    fn damaged_evidence(&self) -> impl Iterator<Item = Evidence> {
        self.account
            .places
            .iter()
            .map(|place| self.evidence_at(place.line))
    }

    /// Returns the number of lines that other processes wrote over; a single one shows nothing.
    fn count_overwritten(&self) -> u64 {
        // Lines without the beginning of a header are among both.
        let overwritten = self.account.overwritten.max(self.input.remains.count);
        if overwritten < 2 { 0 } else { overwritten }
    }

    /// Processes share a file and write over each other.
    fn find_overwritten(&self) -> Option<Finding> {
        let (account, remains) = (self.account, &self.input.remains);
        let overwritten = self.count_overwritten();
        if overwritten == 0 {
            return None;
        }
        let what = match account.overwritten > 0 && account.calls > 0 {
            true => "calls",
            false => "lines",
        };
        let says = format!(
            "processes overwrote each other's bytes on {}: {what} are lost",
            number_and_noun(overwritten, "line"),
        );
        let why = match account.overwritten {
            0 => "single lines among whole ones lack the beginning of their header",
            _ => "another process's text follows a line that is cut",
        };
        let first = account
            .firsts
            .overwritten
            .map(|line| self.evidence_at(line));
        let ends = remains.places.iter().copied().map(Evidence::from);
        let rest = ends.chain(self.damaged_evidence());
        let rest = rest.filter(|place| Some(place) != first.as_ref());
        let evidence = first.iter().cloned().chain(rest).take(MAX_DAMAGE_PLACES);
        Some(Finding {
            why: why.to_owned(),
            ..self.input_finding(Kind::SharedFile, &says, evidence)
        })
    }

    /// Returns the number of lines, unless it is 0, and the first one.
    fn count_from(&self, lines: u64, first: Option<u64>) -> Option<(u64, Vec<Evidence>)> {
        let first = first.map(|line| self.evidence_at(line));
        (lines > 0).then(|| (lines, Vec::from_iter(first)))
    }

    /// Lines that were cut at the ends of a process's buffers.
    fn find_buffered(&self) -> Option<(u64, Vec<Evidence>)> {
        let Account {
            block_writers,
            block_lines,
            spliced,
            firsts,
            ..
        } = self.account;
        let input = self.number;
        let joined = firsts.block.map(|at| Evidence {
            at: LineSpot::Byte { input, at },
            text: None,
        });
        let cut = firsts.spliced.map(|line| self.evidence_at(line));
        let evidence = joined.into_iter().chain(cut).collect();
        (block_writers + spliced > 0).then(|| (block_lines + spliced, evidence))
    }

    fn find_step_falls(&self) -> Option<(u64, Vec<Evidence>)> {
        let falls = self.input.timeline.steps.last()?.segment;
        let lines = self.input.first_step_fall()?;
        let lines = lines.into_iter().map(|line| self.evidence_at(line));
        (falls > 0).then(|| (falls.into(), lines.collect()))
    }
}
