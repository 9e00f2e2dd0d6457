//! A finding, with its evidence.

pub(crate) use super::kind::{Kind, Severity, WarnKind};
use crate::stages::net::net_stage::FirstReportLine;

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Confidence {
    /// The lines report it.
    High,
    /// The lines report what usually means it.
    Medium,
    /// Other causes fit as well.
    Low,
}

impl Confidence {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Confidence::High => "high",
            Confidence::Medium => "medium",
            Confidence::Low => "low",
        }
    }
}

/// A line that shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Where it is.
    pub at: LineSpot,
    /// The line, if it was kept; else it is read again.
    pub text: Option<Vec<u8>>,
}

/// Where a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LineSpot {
    /// By its number.
    Line(FirstReportLine),
    /// By a byte of it; its number is counted when it is read again.
    Byte {
        /// The input's number.
        input: u32,
        /// From the start of the input.
        at: u64,
    },
}

impl LineSpot {
    /// The input's number.
    pub fn input(&self) -> u32 {
        match self {
            LineSpot::Line(first) => first.input,
            LineSpot::Byte { input, .. } => *input,
        }
    }

    /// The line, from 0, where it is known.
    pub fn line(&self) -> Option<u64> {
        match self {
            LineSpot::Line(first) => Some(first.line),
            LineSpot::Byte { .. } => None,
        }
    }
}

impl From<FirstReportLine> for LineSpot {
    fn from(at: FirstReportLine) -> LineSpot {
        LineSpot::Line(at)
    }
}

impl From<FirstReportLine> for Evidence {
    fn from(at: FirstReportLine) -> Evidence {
        Evidence {
            at: LineSpot::Line(at),
            text: None,
        }
    }
}

/// The process, call and step that a finding is about, as far as it is about one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The host.
    pub host: Option<Box<[u8]>>,
    /// The process.
    pub pid: Option<u64>,
    /// The GPU's number on its host.
    pub gpu: Option<u32>,
    /// The rank in the job.
    pub global_rank: Option<u32>,
    /// The rank in the communicator; in the job where no communicator is given.
    pub rank: Option<u32>,
    /// The communicator's id, as printed.
    pub comm_id: Option<String>,
    /// The call's number in its communicator, as `seq` of the call table.
    pub seq: Option<u64>,
    /// The trainer's step.
    pub step: Option<u64>,
    /// How far the job had come.
    pub stage: Option<JobStage>,
}

/// How far a job had come, by the lines before a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStage {
    /// A rank had begun the initialisation of a communicator and had not completed it.
    Initialisation,
    /// The initialisations that had begun were complete; the input has no step.
    Initialised,
    /// The input's first step line comes later.
    BeforeFirstStep,
    /// The last step line is that of this step.
    AfterStep(u64),
}

impl About {
    /// A rank, if it is known.
    pub(crate) fn of_rank(rank: Option<u32>) -> About {
        About {
            rank,
            ..About::default()
        }
    }

    /// A call by PyTorch's number, which counts from 1.
    pub(crate) fn of_pytorch_call(rank: Option<u32>, seq: u64) -> About {
        About {
            seq: seq.checked_sub(1),
            ..About::of_rank(rank)
        }
    }
}

/// Something that is wrong, or worth knowing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub kind: Kind,
    /// How bad it is.
    pub severity: Severity,
    /// One sentence, without a full stop.
    pub says: String,
    /// The process, call and step.
    pub about: About,
    /// How sure it is.
    pub sure: Confidence,
    /// Why it is that sure.
    pub why: String,
    /// What to do.
    pub advice: String,
    /// The lines that show it, the most important first; a few.
    pub evidence: Vec<Evidence>,
    /// What else is known of it, as facts: [`words::write_texts`] puts them into words last.
    ///
    /// [`words::write_texts`]: super::words::write_texts
    pub reasons: Vec<Reason>,
}

impl Finding {
    /// A finding that is as bad as its kind usually is, with its sentence only.
    pub(crate) fn of_kind(kind: Kind, sure: Confidence, says: String) -> Finding {
        Finding::new(kind, kind.usual_severity(), sure, says)
    }

    /// A finding with its sentence only.
    pub(crate) fn new(kind: Kind, severity: Severity, sure: Confidence, says: String) -> Finding {
        Finding {
            kind,
            severity,
            says,
            about: About::default(),
            sure,
            why: String::new(),
            advice: String::new(),
            evidence: Vec::new(),
            reasons: Vec::new(),
        }
    }
}

/// A fact about a finding. The folding of findings reads facts, never a sentence; the words for them
/// are in [`words`](super::words).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The process may have ended itself because of an error: an exit code, an abort.
    AnswersError,
    /// NCCL's functions returned an error after it, so a program knows it.
    ErrorReturned,
    /// The ranks that printed nothing after the job failed.
    Dead(DeadRanks),
    /// Its error comes from the end of another process, or of the process that reports it.
    ErrorOfEnd,
    /// Processes waited for it until their time was up.
    TimeWasUp,
    /// The job went on after the failure.
    WentOn,
    /// The job was started again after the failure.
    StartedAgain,
    /// The job was started again after the failure, and went on.
    OutlivedByRestart,
    /// Other ranks raised an exception too.
    AlsoRaised(usize),
    /// The ranks that are behind also printed nothing after the failure.
    PrintedNothing(DeadRanks),
    /// Only the calls show which process failed.
    NamedByCalls {
        /// Its rank in the job.
        rank: Option<u32>,
        /// Its host.
        host: Box<[u8]>,
        /// Its process id.
        pid: u64,
    },
    /// One member is in all pairs with different messages.
    InAllPairs {
        /// The member, as printed.
        member: String,
        /// The pairs.
        pairs: usize,
    },
    /// The dumps of the flight recorder show it too: a clause.
    DumpsShow(String),
    /// The answers of RAS or the stacks show it too: a clause.
    StatesShow(String),
    /// It may wait for ranks without lines: which ones.
    MayWaitForUnseen(String),
    /// The stack of the process is among the inputs.
    StackKnown,
    /// The lines of PyTorch's watchdog show it too: a clause.
    WatchdogShows(String),
    /// A machine reports it: the kernel, nvidia-smi or DCGM.
    MachineReports,
    /// The records show different sizes.
    RecordsShow(String),
    /// The records have the ends of calls: a clause.
    RecordsEnd(String),
    /// Another finding explains it.
    FollowsFrom(Kind),
    /// The log has an error of its own.
    LogHas(Kind),
    /// How the members of a communicator that no line names are known.
    Grouped(String),
    /// Calls differ on other communicators too.
    AlsoDiffer(u64),
    /// No process reports a failure after it.
    EndedTogether,
    /// It comes after the end of the job or of the attempt.
    AfterJobEnd,
    /// All other ranks wait in one call.
    OthersWaitInOneCall,
    /// Some communicators are not compared.
    OthersNotCompared,
    /// Some members have no lines.
    MembersMissing,
    /// The log may begin in the middle of the job.
    LogBeginsLate,
    /// Other lines are damaged.
    LinesDamaged,
    /// The step number falls.
    StepNumberFalls,
}

/// Ranks that printed nothing after the job failed, when all others did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadRanks {
    /// They are all ranks of a host.
    pub is_host: bool,
    /// There are several.
    pub are_many: bool,
    /// Another rank lost its connection to them.
    pub is_connection_lost: bool,
}
