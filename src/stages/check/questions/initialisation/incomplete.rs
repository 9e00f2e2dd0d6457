//! Initialisations that had not ended, and ranks that never began.

use super::SetupContext;
use super::group_order::report_group_order;
use super::limits::MAX_RANKS_SHOWN;
use super::open_evidence::{OpenEvidence, find_open_evidence};
use super::open_setups::{OpenCommunicator, completes_later, list_open_communicators};
use super::phase_words::{describe_phases, name_process, phase_advice};
use super::unnamed::judge_unnamed;
use crate::stages::check::finding::{About, Confidence, Evidence, Finding, Kind, Reason, Severity};
use crate::stages::check::ranks::names::RankNames;
use crate::stages::check::wording::{
    name_result, number_and_noun, quote_text, rank_ranges, verb_form,
};
use crate::stages::communicators::CommunicatorSide;
use crate::stages::net::net_stage::FirstReportLine;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the findings: for each kind the worst communicator, and the number of others.
pub(super) fn find_open_setups(context: &SetupContext<'_>) -> Vec<Finding> {
    let all = list_open_communicators(context);
    let each = all.iter().filter_map(|of| judge_communicator(context, of));
    let mut worst: BTreeMap<&'static str, (Finding, usize)> = BTreeMap::new();
    for finding in each.chain(judge_unnamed(context)) {
        match worst.get_mut(finding.kind.id()) {
            None => {
                worst.insert(finding.kind.id(), (finding, 0));
            }
            Some((known, more)) => {
                *more += 1;
                if (finding.severity, finding.sure) < (known.severity, known.sure) {
                    *known = finding;
                }
            }
        }
    }
    let said = |(mut finding, more): (Finding, usize)| {
        if more > 0 {
            finding.says += &format!("; {} too", number_and_noun(more, "more communicator"));
        }
        finding
    };
    worst.into_values().map(said).collect()
}

fn judge_communicator(context: &SetupContext<'_>, of: &OpenCommunicator<'_>) -> Option<Finding> {
    let went_on = of
        .last_line()
        .is_some_and(|last| completes_later(context, last));
    let shown = match of.find_returned_error() {
        Some((side, code, at)) => OpenEvidence::Returned(side, code, at),
        None => find_open_evidence(context, of),
    };
    let never_began = of.done.is_empty() && of.is_in_bootstrap() && !of.missing.is_empty();
    let mut finding = match shown {
        OpenEvidence::Doubled(rank, sides) => report_group_order(context, of, rank, sides),
        OpenEvidence::Returned(..) => incomplete_finding(context, of, &shown),
        _ if never_began => missing_finding(context, of, &shown),
        _ => incomplete_finding(context, of, &shown),
    };
    if went_on {
        finding.severity = Severity::Note;
        finding.reasons.push(Reason::WentOn);
    }
    Some(finding)
}

fn missing_finding(
    context: &SetupContext<'_>,
    of: &OpenCommunicator<'_>,
    shown: &OpenEvidence<'_>,
) -> Finding {
    let missing = &of.missing;
    let seen = of.nranks as usize - missing.len();
    let says = format!(
        "the log has lines of {seen} of the {} ranks of {}: {} {} printed none: {} did not begin, or \
         {} log is missing; the others wait for {} in the bootstrap",
        of.nranks,
        name_communicator(context, of.number),
        verb_form(missing.len(), "rank", "ranks"),
        rank_ranges(missing),
        verb_form(missing.len(), "it", "they"),
        verb_form(missing.len(), "its", "their"),
        verb_form(missing.len(), "it", "them"),
    );
    // A process that has spoken may still begin.
    let all_speak = context.speakers >= of.nranks as usize;
    let (severity, sure) = match shown {
        OpenEvidence::None if all_speak || context.is_running() => {
            (Severity::Note, Confidence::Low)
        }
        OpenEvidence::None => (Severity::Warning, Confidence::Low),
        shown => (shown.severity(), Confidence::Medium),
    };
    Finding {
        about: About {
            rank: missing.first().copied().filter(|_| missing.len() == 1),
            comm_id: RankNames {
                found: context.found,
            }
            .communicator_id(of.number),
            ..About::default()
        },
        why: match shown {
            OpenEvidence::None => {
                "no rank completes before all have begun; the log may also end before \
                                   their first lines"
                    .to_owned()
            }
            _ => shown.describe_reason(),
        },
        evidence: evidence_of_sides(&of.open, None),
        ..Finding::new(Kind::InitMissingRank, severity, sure, says)
    }
}

fn incomplete_finding(
    context: &SetupContext<'_>,
    of: &OpenCommunicator<'_>,
    shown: &OpenEvidence<'_>,
) -> Finding {
    let says = describe_open_ranks(context, of, shown);
    let first = first_to_look_at(of, shown);
    let process = &context.found.processes[first.process as usize];
    let one = of.open.len() == 1 || matches!(shown, OpenEvidence::Returned(..));
    let returned = match shown {
        OpenEvidence::Returned(_, _, at) => Some(*at),
        _ => None,
    };
    Finding {
        about: About {
            host: one.then(|| process.host.clone()),
            pid: process.pid.filter(|_| one),
            rank: first.rank.filter(|_| one),
            comm_id: RankNames {
                found: context.found,
            }
            .communicator_id(of.number),
            ..About::default()
        },
        why: shown.describe_reason(),
        advice: phase_advice(first.progress.phase).to_owned(),
        evidence: evidence_of_sides(&of.open, returned),
        ..Finding::new(
            Kind::InitIncomplete,
            shown.severity(),
            shown.confidence(),
            says,
        )
    }
}

/// Returns the sentence: which ranks are open, where each is, since when, and which ones completed.
fn describe_open_ranks(
    context: &SetupContext<'_>,
    of: &OpenCommunicator<'_>,
    shown: &OpenEvidence<'_>,
) -> String {
    let name = name_communicator(context, of.number);
    let by_phase = of.ranks_by_phase();
    let open: BTreeSet<u32> = by_phase.values().flatten().copied().collect();
    let ranks = verb_form(open.len(), "rank", "ranks");
    let mut says = match shown {
        OpenEvidence::Returned(side, code, _) => format!(
            "the initialisation of {name} failed on {}: a function of NCCL returned {}",
            describe_side(context, side),
            name_result(*code)
        ),
        _ => format!(
            "the initialisation of {name} had not ended on {ranks} {} when the log ends",
            rank_ranges(&open)
        ),
    };
    says += &format!(": {}", describe_phases(&by_phase));
    if let [side] = &of.open[..]
        && !matches!(shown, OpenEvidence::Returned(..))
    {
        says += &format!(" ({})", name_process(context, side.process));
    }
    if let Some(since) = earliest_stamp(&of.open) {
        says += &format!(", since {}", quote_text(since));
    }
    let done: BTreeSet<u32> = of.done.iter().filter_map(|side| side.rank).collect();
    let done: BTreeSet<u32> = done.difference(&open).copied().collect();
    if !done.is_empty() {
        says += &format!(
            "; {} {} completed it",
            verb_form(done.len(), "rank", "ranks"),
            rank_ranges(&done)
        );
    }
    let seen = open.len() + done.len();
    if seen < of.nranks as usize {
        says += &format!("; the log has lines of {seen} of its {} ranks", of.nranks);
    }
    says
}

/// Returns the rank that has come least far, or that failed.
fn first_to_look_at<'s>(
    of: &OpenCommunicator<'s>,
    shown: &OpenEvidence<'s>,
) -> &'s CommunicatorSide {
    let least = |sides: &[&'s CommunicatorSide]| {
        sides.iter().copied().min_by_key(|side| side.progress.phase)
    };
    match shown {
        OpenEvidence::Returned(side, ..) => side,
        OpenEvidence::Outrun(side) => side,
        _ => least(&of.open).unwrap_or(of.open[0]),
    }
}

fn name_communicator(context: &SetupContext<'_>, number: usize) -> String {
    let names = RankNames {
        found: context.found,
    };
    format!("communicator {}", names.describe_communicator(number))
}

fn describe_side(context: &SetupContext<'_>, side: &CommunicatorSide) -> String {
    let process = name_process(context, side.process);
    match side.rank {
        Some(rank) => format!("rank {rank} ({process})"),
        None => process,
    }
}

/// Returns the stamp of the open rank that has printed nothing for longest.
fn earliest_stamp<'s>(open: &[&'s CommunicatorSide]) -> Option<&'s [u8]> {
    let spots = open.iter().filter_map(|side| side.progress.last_spot());
    let first = spots.min_by_key(|spot| spot.at)?;
    (!first.time.is_empty()).then_some(&first.time[..])
}

/// Returns the last lines of the open ranks, those that have come least far first.
fn evidence_of_sides(open: &[&CommunicatorSide], first: Option<FirstReportLine>) -> Vec<Evidence> {
    let mut sides: Vec<&&CommunicatorSide> = open.iter().collect();
    sides.sort_by_key(|side| (side.progress.phase, side.rank));
    let spots = sides.iter().filter_map(|side| side.progress.last_spot());
    let spots = spots.take(MAX_RANKS_SHOWN).map(|spot| spot.at);
    first.into_iter().chain(spots).map(Evidence::from).collect()
}
