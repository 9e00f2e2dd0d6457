//! Initialisations that had not ended, and ranks that never began.

use super::SetupContext;
use super::limits::{
    MAX_RANKS_SHOWN, MAX_SETUP_EVIDENCE, SILENT_INIT_ERROR_S, SILENT_INIT_WARNING_S,
};
use super::open_setups::{OpenCommunicator, completes_later, list_open_communicators};
use crate::stages::check::finding::{About, Confidence, Evidence, Finding, Kind, Reason, Severity};
use crate::stages::check::ranks::names::{RankNames, describe_process};
use crate::stages::check::wording::{
    list_names, name_result, number_and_noun, quote_text, rank_ranges, verb_form,
};
use crate::stages::communicators::CommunicatorSide;
use crate::stages::communicators::begun::{SetupPhase, UnnamedSetup};
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

/// What shows that an initialisation will not end.
enum OpenEvidence<'s> {
    /// Nothing: the log may have been cut.
    None,
    /// A function of NCCL returned an error.
    Returned(&'s CommunicatorSide, i32, FirstReportLine),
    /// Two processes are the same rank.
    Doubled(u32, [&'s CommunicatorSide; 2]),
    /// The job failed.
    Failed,
    /// Nothing more was written while the log was watched.
    Stalled,
    /// The log goes on for this many seconds.
    Silent(f64),
    /// Other ranks completed, and the log has many lines after the last one of this rank.
    Outrun(&'s CommunicatorSide),
    /// Other ranks completed, and no line between the first and the last ones tells more.
    OnlyEnds,
}

impl OpenEvidence<'_> {
    fn severity(&self) -> Severity {
        match self {
            OpenEvidence::None => Severity::Note,
            OpenEvidence::Silent(seconds) if *seconds < SILENT_INIT_ERROR_S => Severity::Warning,
            OpenEvidence::Outrun(_) => Severity::Warning,
            _ => Severity::Error,
        }
    }

    fn confidence(&self) -> Confidence {
        match self {
            OpenEvidence::Doubled(..) | OpenEvidence::Returned(..) => Confidence::High,
            _ => Confidence::Medium,
        }
    }

    fn describe_reason(&self) -> String {
        let reason = match self {
            OpenEvidence::None => {
                "the log may have been cut, or copied while the job starts: its end alone is no fault"
            }
            OpenEvidence::Returned(..) => "NCCL prints the functions that an error left",
            OpenEvidence::Doubled(..) => "each rank of a communicator is one process",
            OpenEvidence::Failed => "these ranks print no Init COMPLETE, and the log has a failure",
            OpenEvidence::Stalled => {
                "these ranks print no Init COMPLETE, and nothing more was written while the log was \
                 watched"
            }
            OpenEvidence::Silent(seconds) => {
                return format!(
                    "these ranks print no Init COMPLETE, and the log goes on for {seconds:.0} s after \
                     the last line of one of them"
                );
            }
            OpenEvidence::Outrun(_) => {
                "the log has far more lines after the last one of a rank than any other rank needed, \
                 and no rank completes long before the others"
            }
            OpenEvidence::OnlyEnds => {
                "the log has only the first and the last lines of the initialisation; it may have been \
                 cut among the last ones"
            }
        };
        reason.to_owned()
    }
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
    let mut finding = match never_began && !matches!(shown, OpenEvidence::Returned(..)) {
        true => missing_finding(context, of, &shown),
        false => incomplete_finding(context, of, &shown),
    };
    if went_on {
        finding.severity = Severity::Note;
        finding.reasons.push(Reason::WentOn);
    }
    Some(finding)
}

/// Finds what shows that an initialisation will not end, besides an error.
fn find_open_evidence<'s>(
    context: &SetupContext<'_>,
    of: &OpenCommunicator<'s>,
) -> OpenEvidence<'s> {
    let doubled = of.find_doubled_rank().filter(|_| !context.is_damaged());
    // Lines of the initialisation may be left out of a log that has steps.
    let is_known = !context.has_steps() && !context.is_damaged() && !context.is_running();
    match doubled {
        Some((rank, sides)) => OpenEvidence::Doubled(rank, sides),
        None if context.is_stalled() => OpenEvidence::Stalled,
        None if context.failed && is_known => OpenEvidence::Failed,
        None if !is_known => OpenEvidence::None,
        None => match (of.silent_seconds(context), of.find_outrun_side(context)) {
            (Some(seconds), _) if seconds >= SILENT_INIT_WARNING_S => OpenEvidence::Silent(seconds),
            (_, Some(side)) => OpenEvidence::Outrun(side),
            _ if of.has_only_ends() => OpenEvidence::OnlyEnds,
            _ => OpenEvidence::None,
        },
    }
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
    if let OpenEvidence::Doubled(rank, sides) = shown {
        let names = sides.map(|side| name_process(context, side.process));
        says += &format!(
            "; {} both are its rank {rank}: processes create their groups in different orders, or use \
             one id twice",
            list_names(names)
        );
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
        advice: match shown {
            OpenEvidence::Doubled(..) => {
                "all ranks must create all process groups, in the same order: look in the code for \
                 groups that ranks create in a loop or a branch of their own (new_group, split)"
            }
            _ => phase_advice(first.progress.phase),
        }
        .to_owned(),
        evidence: evidence_of_sides(&of.open, returned),
        ..Finding::new(
            Kind::InitIncomplete,
            shown.severity(),
            shown.confidence(),
            says,
        )
    }
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

/// Returns the finding on initialisations of NCCL 2.4 to 2.17, which print no `Init START`.
fn judge_unnamed(context: &SetupContext<'_>) -> Option<Finding> {
    let open = &context.found.unnamed_setups;
    let first = open.first()?;
    let failed = open
        .iter()
        .find_map(|open| Some((open, open.progress.failed?)));
    let is_known = !context.has_steps() && !context.is_damaged();
    let stalled = context.is_stalled() && is_known;
    let mut says = match failed {
        Some((open, (code, _))) => format!(
            "the initialisation of a communicator failed on {}: a function of NCCL returned {}",
            describe_unnamed(context, open),
            name_result(code)
        ),
        None => {
            let names = open.iter().map(|open| describe_unnamed(context, open));
            let names: Vec<String> = names.collect();
            format!(
                "the initialisation of a communicator had not ended on {} when the log ends",
                list_names(names)
            )
        }
    };
    let mut by_phase: BTreeMap<SetupPhase, BTreeSet<u32>> = BTreeMap::new();
    for open in open {
        by_phase
            .entry(open.progress.phase)
            .or_default()
            .extend(open.rank);
    }
    says += &format!(": {}", describe_phases(&by_phase));
    let severity = match failed.is_some() || stalled {
        true => Severity::Error,
        false => Severity::Note,
    };
    let spots = open.iter().filter_map(|open| open.progress.last_spot());
    let lines = failed.map(|(_, (_, at))| at).into_iter();
    let lines = lines.chain(spots.map(|spot| spot.at));
    Some(Finding {
        why: match (failed.is_some(), stalled) {
            (true, _) => "NCCL prints the functions that an error left",
            (_, true) => "they print no Init COMPLETE, and nothing more was written",
            _ => "the log may have been cut, or copied while the job starts",
        }
        .to_owned(),
        advice: phase_advice(first.progress.phase).to_owned(),
        evidence: lines.take(MAX_SETUP_EVIDENCE).map(Evidence::from).collect(),
        ..Finding::new(Kind::InitIncomplete, severity, Confidence::Medium, says)
    })
}

fn describe_unnamed(context: &SetupContext<'_>, open: &UnnamedSetup) -> String {
    let process = name_process(context, open.process);
    match open.rank {
        Some(rank) => format!("rank {rank} ({process})"),
        None => process,
    }
}

fn name_communicator(context: &SetupContext<'_>, number: usize) -> String {
    let names = RankNames {
        found: context.found,
    };
    format!("communicator {}", names.describe_communicator(number))
}

fn name_process(context: &SetupContext<'_>, process: u32) -> String {
    quote_text(describe_process(&context.found.processes[process as usize]).as_bytes())
}

fn describe_side(context: &SetupContext<'_>, side: &CommunicatorSide) -> String {
    let process = name_process(context, side.process);
    match side.rank {
        Some(rank) => format!("rank {rank} ({process})"),
        None => process,
    }
}

/// Formats `ranks 1 and 3 in the bootstrap, rank 5 while it connected`.
fn describe_phases(by_phase: &BTreeMap<SetupPhase, BTreeSet<u32>>) -> String {
    let each = by_phase.iter().map(|(phase, ranks)| match ranks.len() {
        0 => describe_phase(*phase).to_owned(),
        n => format!(
            "{} {} {}",
            verb_form(n, "rank", "ranks"),
            rank_ranges(ranks),
            describe_phase(*phase)
        ),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Returns where a rank is whose last lines are of this phase.
fn describe_phase(phase: SetupPhase) -> &'static str {
    match phase {
        SetupPhase::Bootstrap => "in the bootstrap (waits for the other ranks)",
        SetupPhase::Found => "after the bootstrap",
        SetupPhase::Topology => "after the search of the hardware",
        SetupPhase::Graphs => "after the search of rings and trees",
        SetupPhase::Connections => "connecting to peers",
        SetupPhase::Nvls => "setting up NVLS",
        SetupPhase::Channels => "before the last exchange, with all its channels",
    }
}

/// Returns what to do about a rank that stays in a phase.
fn phase_advice(phase: SetupPhase) -> &'static str {
    match phase {
        SetupPhase::Bootstrap => {
            "compare with the ranks that print nothing: do they run, and can they reach the interface \
             that Bootstrap names (NCCL_SOCKET_IFNAME, firewalls, NCCL_OOB_NET_IFNAME)? Take a stack \
             of each process (py-spy dump)"
        }
        SetupPhase::Found | SetupPhase::Topology | SetupPhase::Graphs => {
            "take a stack of these processes (py-spy dump, gdb -p); look at nvidia-smi, at \
             nvidia-persistenced and at NCCL_TOPO_FILE"
        }
        SetupPhase::Connections => {
            "look at the network of these hosts: the interfaces and NICs that NCCL lists, firewalls, \
             NCCL_IB_HCA; as tests NCCL_IB_DISABLE=1 and, on one host, NCCL_P2P_DISABLE=1"
        }
        SetupPhase::Nvls => "as a test set NCCL_NVLS_ENABLE=0; look at the Fabric Manager",
        SetupPhase::Channels => {
            "take a stack of these processes (py-spy dump, gdb -p), and look at their own output"
        }
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
