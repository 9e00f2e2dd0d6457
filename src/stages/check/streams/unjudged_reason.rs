//! Reasons for which a communicator's members are not compared, or a difference is not reported.

use std::borrow::Cow;

/// A reason for which members' calls are not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UnjudgedReason {
    /// No line names the other members.
    Unnamed,
    /// No line names the other members, and the log has lines of `.0` of `.1` ranks.
    Few(u32, u32),
    /// No line names the other members, and each process uses `.0` communicators of `.1` ranks.
    Several(u32, u32),
    /// Members have no lines in the log.
    Missing,
    /// Processes wrote over each other's lines.
    Overwritten,
    /// Ray left lines out.
    LeftOut,
    /// Only some processes log their calls.
    Quiet,
    /// The log begins in the middle of the job.
    Late,
    /// A member's calls appear under two names, since lines are damaged.
    TwoNames,
    /// Lines are damaged before the first call that differs.
    Damaged,
    /// By NCCL's own count, lines are missing, repeated or in another order.
    Numbers,
    /// The step number falls or jumps before: lines may be missing there.
    Seam,
    /// The log ends at a step line.
    Edge,
    /// Members that made more calls destroyed the communicator in order, which a rank that waits does not.
    Ended,
    /// Members made different numbers of calls, but nothing shows that they stopped.
    Running,
    /// Most members are one call behind, in a call that its root leaves first.
    Rooted,
    /// The calls came through a pipe and were dropped before the difference was known.
    LetGo,
}

impl UnjudgedReason {
    /// True where the calls that all members made were compared: of later ones nothing is certain.
    pub(crate) fn is_of_last_calls(self) -> bool {
        matches!(
            self,
            UnjudgedReason::Running | UnjudgedReason::Rooted | UnjudgedReason::Ended
        )
    }

    /// What more of the log would let them be compared.
    pub(crate) fn missing_input(self) -> Option<&'static str> {
        match self {
            UnjudgedReason::Unnamed | UnjudgedReason::Few(..) | UnjudgedReason::Several(..) => {
                Some(
                    "give the log from its beginning, with INIT lines (NCCL_DEBUG_SUBSYS=INIT,COLL): they name the members",
                )
            }
            UnjudgedReason::Missing => Some("give the logs of all ranks"),
            _ => None,
        }
    }

    /// The reason as text.
    pub(crate) fn describe_reason(self) -> Cow<'static, str> {
        let text = match self {
            UnjudgedReason::Unnamed => "no line names the other members",
            UnjudgedReason::Few(seen, nranks) => {
                return format!(
                    "no line names the other members, and the log has lines of {seen} of {nranks} \
                     ranks"
                )
                .into();
            }
            UnjudgedReason::Several(many, nranks) => {
                return format!(
                    "no line names the other members, and each process uses {many} communicators \
                     of {nranks} ranks"
                )
                .into();
            }
            UnjudgedReason::Missing => "not all members have lines in the log",
            UnjudgedReason::Overwritten => "processes overwrote each other's lines",
            UnjudgedReason::LeftOut => "Ray omitted lines",
            UnjudgedReason::Quiet => "only some processes log their calls",
            UnjudgedReason::Late => "the log begins in the middle of the job",
            UnjudgedReason::TwoNames => {
                "lines are damaged, and a member's calls appear under two names"
            }
            UnjudgedReason::Damaged => {
                "lines are damaged before the place where its members' calls differ"
            }
            UnjudgedReason::Numbers => {
                "by NCCL's own count (opCount) lines of calls are missing, repeated or in another \
                 order"
            }
            UnjudgedReason::Seam => {
                "the step number falls or jumps before the place where its members' calls differ: \
                 lines may be missing there"
            }
            UnjudgedReason::Edge => {
                "its members made different numbers of calls, and the log ends with a step line, \
                 as if it was cut from a longer log"
            }
            UnjudgedReason::Ended => {
                "some members' lines end early: the others made more calls and destroyed the \
                 communicator in order"
            }
            UnjudgedReason::Running => {
                "their members are at different calls where the log ends, and nothing shows that the \
                 job stopped there: it may have been running, or was ended"
            }
            UnjudgedReason::Rooted => {
                "most members are one call behind the others, in a call that its root leaves before \
                 them: they may wait in it"
            }
            UnjudgedReason::LetGo => {
                "its members' calls differ in a part of the pipe that is not held any more: name the log's \
                 file instead of using a pipe"
            }
        };
        text.into()
    }
}
