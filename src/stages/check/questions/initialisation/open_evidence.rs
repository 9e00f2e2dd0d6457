//! What shows that an initialisation will not end: the end of a log alone does not.

use super::SetupContext;
use super::limits::{SILENT_INIT_ERROR_S, SILENT_INIT_WARNING_S};
use super::open_setups::OpenCommunicator;
use crate::stages::check::finding::{Confidence, Severity};
use crate::stages::communicators::CommunicatorSide;
use crate::stages::net::net_stage::FirstReportLine;

/// What shows that an initialisation will not end.
pub(super) enum OpenEvidence<'s> {
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
    /// Other ranks completed, and no line between the first and the last ones has more.
    OnlyEnds,
}

impl OpenEvidence<'_> {
    pub(super) fn severity(&self) -> Severity {
        match self {
            OpenEvidence::None => Severity::Note,
            OpenEvidence::Silent(seconds) if *seconds < SILENT_INIT_ERROR_S => Severity::Warning,
            OpenEvidence::Outrun(_) => Severity::Warning,
            _ => Severity::Error,
        }
    }

    pub(super) fn confidence(&self) -> Confidence {
        match self {
            OpenEvidence::Doubled(..) | OpenEvidence::Returned(..) => Confidence::High,
            _ => Confidence::Medium,
        }
    }

    pub(super) fn describe_reason(&self) -> String {
        let reason = match self {
            OpenEvidence::None => {
                "the log may have been cut, or copied while the job starts: the end of the log alone proves nothing"
            }
            OpenEvidence::Returned(..) => "NCCL prints the functions that an error left",
            // It has a finding of its own.
            OpenEvidence::Doubled(..) => "",
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
                "the log has only the first and the last lines of the initialisation; it may have been cut before its last lines"
            }
        };
        reason.to_owned()
    }
}

/// Finds what shows that an initialisation will not end, besides an error.
pub(super) fn find_open_evidence<'s>(
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
