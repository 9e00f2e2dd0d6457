//! How the log was written, where that spoils it.

use super::job_facts::JobFacts;
use crate::report::account::{Account, MAX_DAMAGE_PLACES};
use crate::stages::check::finding::{Confidence, Evidence, Finding, Kind, LineSpot};
use crate::stages::check::walk::WalkedInput;
use crate::stages::check::wording::number_and_noun;
use crate::stages::net::net_stage::FirstReportLine;

/// What keeps every process's lines apart.
const OWN_FILES_ADVICE: &str = "rerun with NCCL_DEBUG_FILE=nccl.%h.%p.log, a file for each process";

/// A kind of lines that is reported by its number of lines.
struct HygieneKind {
    kind: Kind,
    /// The sentence for one line, and for several.
    says: [&'static str; 2],
    why: &'static str,
    advice: &'static str,
    /// Whether there are any, how many, and the first ones.
    of: fn(&Account) -> (bool, u64, Vec<u64>),
}

const HYGIENE_KINDS: [HygieneKind; 4] = [
    HygieneKind {
        kind: Kind::DamagedLines,
        says: ["{} is damaged", "{} are damaged"],
        why: "they begin like NCCL's lines and do not end like them",
        advice: OWN_FILES_ADVICE,
        of: |a| {
            let places = a.places.iter().map(|place| place.line);
            (a.damaged > 0, a.damaged, places.collect())
        },
    },
    // NCCL's own buffer was too short for a line.
    HygieneKind {
        kind: Kind::LinesTruncated,
        says: ["NCCL itself truncated {}; no call is affected"; 2],
        why: "they end where NCCL's own buffer ends: NCCL prints at most 1,023 bytes of a line, \
              RCCL about 2,100",
        advice: "no action is needed; NCCL prints longer lines since 2.29.2",
        of: |a| {
            (
                a.truncated > 0,
                a.truncated,
                Vec::from_iter(a.firsts.truncated),
            )
        },
    },
    // Pieces of lines of several processes were written between each other.
    HygieneKind {
        kind: Kind::LinesTorn,
        says: ["{} was torn and rejoined", "{} were torn and rejoined"],
        why: "they end at byte 128, where NCCL 2.29.2 and later ends a write to a pipe that \
              processes share, and exactly one other piece fits each of them",
        advice: OWN_FILES_ADVICE,
        of: |a| (a.torn > 0, a.torn, Vec::from_iter(a.firsts.torn)),
    },
    // Ray left out what several processes printed alike.
    HygieneKind {
        kind: Kind::RayDedup,
        says: ["Ray omitted {}: counts are too low"; 2],
        why: "lines end in `[repeated Nx across cluster]`",
        advice: "rerun with RAY_DEDUP_LOGS=0",
        of: |a| (a.ray_lines > 0, a.ray_repeats, Vec::from_iter(a.firsts.ray)),
    },
];

/// Returns the findings on how each input was written.
pub(super) fn find_hygiene_faults(job: &JobFacts<'_>) -> Vec<Finding> {
    job.ask_each_input(find_input_faults)
}

fn find_input_faults(number: u32, input: &WalkedInput, account: &Account) -> Vec<Finding> {
    let log = InputHygiene {
        number,
        input,
        account,
    };
    let [damaged, truncated, torn, deduplicated] = HYGIENE_KINDS.map(|kind| log.find_kind(&kind));
    let all = [
        log.find_overwritten().or(damaged),
        truncated,
        torn,
        log.find_buffered(),
        deduplicated,
        log.find_several_runs(),
    ];
    all.into_iter().flatten().collect()
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
        says: String,
        why: &str,
        advice: &str,
        evidence: impl IntoIterator<Item = Evidence>,
    ) -> Finding {
        let says = format!("{}: {says}", self.input.name);
        Finding {
            why: why.to_owned(),
            advice: advice.to_owned(),
            evidence: evidence.into_iter().collect(),
            ..Finding::note(kind, Confidence::High, says)
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

    /// Processes share a file and write over each other.
    fn find_overwritten(&self) -> Option<Finding> {
        let (account, remains) = (self.account, &self.input.remains);
        // Lines without the beginning of a header are among both.
        let overwritten = account.overwritten.max(remains.count);
        if overwritten < 2 {
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
        Some(self.input_finding(Kind::SharedFile, says, why, OWN_FILES_ADVICE, evidence))
    }

    fn find_kind(&self, kind: &HygieneKind) -> Option<Finding> {
        let (any, n, first) = (kind.of)(self.account);
        let [one, more] = kind.says;
        let says = if n == 1 { one } else { more };
        let says = says.replace("{}", &number_and_noun(n, "line"));
        let first = first.into_iter().map(|line| self.evidence_at(line));
        any.then(|| self.input_finding(kind.kind, says, kind.why, kind.advice, first))
    }

    fn find_buffered(&self) -> Option<Finding> {
        let account = self.account;
        if account.block_writers == 0 && account.spliced == 0 {
            return None;
        }
        let says = format!(
            "standard output was block-buffered ({} rejoined): calls may appear in a later step \
             than theirs",
            number_and_noun(account.block_lines + account.spliced, "line")
        );
        let why = "lines are cut at the ends of 4 KiB buffers";
        let advice = "rerun with PYTHONUNBUFFERED=1";
        let input = self.number;
        let joined = account.firsts.block.map(|at| Evidence {
            at: LineSpot::Byte { input, at },
            text: None,
        });
        let spliced = account.firsts.spliced.map(|line| self.evidence_at(line));
        let evidence = joined.into_iter().chain(spliced);
        Some(self.input_finding(Kind::BlockBuffered, says, why, advice, evidence))
    }

    fn find_several_runs(&self) -> Option<Finding> {
        let steps = &self.input.timeline.steps;
        let falls = steps.last().map_or(0, |step| step.segment);
        let says = format!(
            "the step number falls {}: the file has restarts, epochs, several jobs or step lines \
             of several ranks",
            number_and_noun(falls, "time")
        );
        let why = "the step lines show it";
        let advice = "nccl-steps --list shows the runs (column segment)";
        let lines = self.input.first_step_fall()?;
        let lines = lines.into_iter().map(|line| self.evidence_at(line));
        (falls > 0).then(|| self.input_finding(Kind::SeveralRuns, says, why, advice, lines))
    }
}
