//! Which of the questions people ask a log can answer, and what to set so that the next one can.
//!
//! The questions are the 25 that users of NCCL ask most. What answers them is from the lines that
//! a log has, not from what its job was.

use crate::stages::net::NET_RERUN_SETTING;
use Answerable::{No, Partly, Yes};

pub(crate) use super::line_kinds::{LineKinds, StampCoverage};

/// Whether a log can answer a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answerable {
    /// It can.
    Yes,
    /// In part, or with a model.
    Partly,
    /// It cannot.
    No,
}

impl Answerable {
    /// As printed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Yes => "yes",
            Partly => "partly",
            No => "no",
        }
    }
}

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Question {
    /// Its number, from 1.
    pub number: u8,
    /// The text.
    pub text: &'static str,
    /// Whether this log can answer it.
    pub answerable: Answerable,
    /// The program that does.
    pub by: &'static str,
    /// The lines that are missing, or which part of the answer there is; empty if nothing is
    /// missing.
    pub missing: &'static str,
}

const NEEDS_INIT_LINES: &str = "INIT lines: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT";
const NEEDS_NET_LINES: &str =
    "lines of the network and of connections: NCCL_DEBUG_SUBSYS=INIT,NET,P2P,SHM";
const NEEDS_CALL_LINES: &str = "the calls: NCCL_DEBUG_SUBSYS=INIT,COLL";
const NEEDS_ALL_RANKS: &str =
    "the calls of all members, with their INIT lines: NCCL_DEBUG_SUBSYS=INIT,COLL on every rank";
const NEEDS_STEP_LINES: &str = "the trainer's step lines";
const NEEDS_VERSION_LINE: &str = "a line with the version: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT, the log from its \
                       beginning; up to NCCL 2.21 only rank 0 prints it";
const NEEDS_COMM_IDS: &str = "commId in the INIT lines: NCCL 2.18 or later";

const LAST_CALLS_ONLY: &str = "the last calls of each rank; whether they completed needs a profiler or \
                               RCCL's kernel lines";
const LOWER_BOUND: &str = "a lower bound, the bytes of a step divided by its time; measured times need a \
                           profiler";
const FROM_A_MODEL: &str = "bytes between nodes follow from a model of rings and trees";

/// What a log must have for a case of an answer.
type Has = fn(&LineKinds) -> bool;

/// A question as a row: the first case that holds is the answer; if none does, `otherwise` is
/// missing.
struct QuestionRow {
    text: &'static str,
    by: &'static str,
    cases: &'static [(Has, Answerable, &'static str)],
    otherwise: &'static str,
}

const fn row(
    text: &'static str,
    by: &'static str,
    cases: &'static [(Has, Answerable, &'static str)],
    otherwise: &'static str,
) -> QuestionRow {
    QuestionRow {
        text,
        by,
        cases,
        otherwise,
    }
}

/// The questions, in the order of their numbers.
const QUESTIONS: [QuestionRow; 25] = [
    row(
        "Is it IB/EFA or did it fall back to sockets?",
        "nccl-net, nccl-check",
        &[(|k| k.network || k.links, Yes, "")],
        NEEDS_NET_LINES,
    ),
    row(
        "Is GPUDirect RDMA in use?",
        "nccl-net, nccl-check",
        &[
            (|k| k.links, Yes, ""),
            (
                |k| k.reach,
                Partly,
                "the abilities of the NICs; for connections: NCCL_DEBUG_SUBSYS=INIT,NET,P2P",
            ),
        ],
        NEEDS_NET_LINES,
    ),
    row(
        "Which rank hangs or lags?",
        "nccl-check",
        &[
            (|k| k.kernels && k.whole, Yes, ""),
            (|k| k.calls && k.whole, Partly, LAST_CALLS_ONLY),
            (|k| k.calls, Partly, NEEDS_ALL_RANKS),
        ],
        NEEDS_CALL_LINES,
    ),
    row(
        "Did ranks call different collectives or sizes?",
        "nccl-check",
        &[
            (|k| k.whole, Yes, ""),
            (|k| k.calls, Partly, NEEDS_ALL_RANKS),
        ],
        NEEDS_CALL_LINES,
    ),
    row(
        "Which algorithm, protocol and channels serve which size?",
        "nccl-tuning",
        &[(
            |k| k.tuning,
            Partly,
            "only rank 0 of each communicator prints it, without the communicator",
        )],
        "TUNING lines: NCCL_DEBUG_SUBSYS=INIT,COLL,TUNING on rank 0",
    ),
    row(
        "What collectives and sizes does my model issue?",
        "nccl-ops, nccl-hist",
        &[(|k| k.calls, Yes, "")],
        NEEDS_CALL_LINES,
    ),
    row(
        "How many bytes per step, and between nodes?",
        "nccl-ops --by step, nccl-communicators",
        &[
            (|k| k.calls && k.steps && k.ids, Yes, FROM_A_MODEL),
            (|k| k.calls && k.steps, Partly, NEEDS_INIT_LINES),
            (|k| k.calls, Partly, NEEDS_STEP_LINES),
        ],
        NEEDS_CALL_LINES,
    ),
    row(
        "What does count mean, per rank or total?",
        "nccl-ops --basis",
        &[(|k| k.calls, Yes, "")],
        NEEDS_CALL_LINES,
    ),
    row(
        "Which ranks are in this communicator?",
        "nccl-communicators --members",
        &[(|k| k.ids, Yes, ""), (|k| k.init, Partly, NEEDS_COMM_IDS)],
        NEEDS_INIT_LINES,
    ),
    row(
        "Which GPU sends data to which?",
        "nccl-net --pairs",
        &[
            (
                |k| k.calls && k.links && k.ids,
                Partly,
                "Send and Recv are exact; collectives follow from rings and trees",
            ),
            (|k| k.links, Partly, NEEDS_CALL_LINES),
            (|k| k.calls, Partly, NEEDS_NET_LINES),
        ],
        NEEDS_NET_LINES,
    ),
    row(
        "Which communicator is TP, DP, PP or EP?",
        "nccl-communicators",
        &[
            (
                |k| k.ids && k.calls,
                Partly,
                "inferred from members and calls, with a confidence",
            ),
            (|k| k.calls, Partly, NEEDS_INIT_LINES),
            (|k| k.ids, Partly, NEEDS_CALL_LINES),
        ],
        NEEDS_INIT_LINES,
    ),
    row(
        "Is NVLink or NVLS used?",
        "nccl-net, nccl-tuning",
        &[
            (|k| k.nvls && k.tuning, Yes, ""),
            (
                |k| k.nvls || k.links,
                Partly,
                "whether calls use it: NCCL_DEBUG_SUBSYS=INIT,NVLS,TUNING",
            ),
        ],
        "NCCL_DEBUG_SUBSYS=INIT,NVLS,P2P,TUNING",
    ),
    row(
        "Which GPU uses which NIC; rails; PXN?",
        "nccl-net --pairs",
        &[
            (|k| k.links && k.cards, Yes, ""),
            (|k| k.links || k.cards, Partly, NEEDS_NET_LINES),
        ],
        NEEDS_NET_LINES,
    ),
    row(
        "Why is init slow at scale?",
        "nccl-communicators, nccl-check",
        &[
            (|k| k.timings, Yes, ""),
            (
                |k| k.init && k.stamps == StampCoverage::All,
                Partly,
                "how long it takes; the parts need NCCL 2.22 or later",
            ),
        ],
        "Init timings lines: NCCL_DEBUG_SUBSYS=INIT, NCCL 2.22 or later",
    ),
    row(
        "What caused this WARN?",
        "nccl-check",
        &[
            (|k| k.hosts > 0 && !k.warns, Yes, "the log has no WARN"),
            (
                |k| k.warns && k.stamps == StampCoverage::All,
                Partly,
                "the first one, with an explanation",
            ),
            (
                |k| k.warns,
                Partly,
                "time stamps on all lines: NCCL_DEBUG_TIMESTAMP_LEVELS=ALL",
            ),
        ],
        "NCCL_DEBUG=INFO",
    ),
    row(
        "Is one node different?",
        "nccl-net, nccl-check",
        &[
            (|k| k.hosts == 1, No, "the log has only one host"),
            (
                |k| k.hosts > 1 && k.network && k.settings && k.versions,
                Yes,
                "",
            ),
            (
                |k| k.hosts > 1 && (k.network || k.settings || k.versions),
                Partly,
                "NCCL_DEBUG_SUBSYS=INIT,ENV,NET on all hosts",
            ),
        ],
        "NCCL_DEBUG_SUBSYS=INIT,ENV,NET on all hosts",
    ),
    row(
        "Are NCCL or CUDA versions mixed?",
        "nccl-net, nccl-check",
        &[
            (|k| k.versions, Yes, ""),
            (
                |k| k.version,
                Partly,
                "not every host prints it: NCCL 2.22 or later does, under INFO",
            ),
        ],
        NEEDS_VERSION_LINE,
    ),
    row(
        "What changed between two runs?",
        "nccl-diff",
        &[(|k| k.hosts > 0, Yes, "the other run's log")],
        "NCCL_DEBUG=INFO",
    ),
    row(
        "The log is gigabytes; how do I survive it?",
        "all programs: memory does not grow with the log",
        &[(|_| true, Yes, "")],
        "",
    ),
    row(
        "Why are there no time stamps?",
        "nccl-check",
        &[
            (|k| k.stamps == StampCoverage::All, Yes, "the log has them"),
            (
                |k| k.stamps == StampCoverage::Warn,
                Yes,
                "only WARN lines have them: NCCL_DEBUG_TIMESTAMP_LEVELS=ALL",
            ),
            (
                |k| k.stamps == StampCoverage::None,
                Yes,
                "NCCL_DEBUG_TIMESTAMP_LEVELS=ALL, NCCL 2.26 or later",
            ),
            (
                |k| k.hosts > 0,
                Yes,
                "NCCL_DEBUG_TIMESTAMP_LEVELS=ALL adds them to all lines",
            ),
        ],
        "NCCL_DEBUG=INFO",
    ),
    row(
        "Are lines interleaved or torn?",
        "all programs, with -v",
        &[(|_| true, Yes, "")],
        "",
    ),
    row(
        "Which configuration is in effect?",
        "nccl-net",
        &[(|k| k.settings, Yes, "")],
        "the lines of the settings, if any are set: NCCL_DEBUG_SUBSYS=INIT,ENV",
    ),
    row(
        "Why do calls vanish under CUDA graphs?",
        "nccl-ops --by step",
        &[
            (
                |k| k.calls && k.steps,
                Partly,
                "the steps without calls: a graph's calls are printed when it is captured",
            ),
            (|k| k.calls, No, NEEDS_STEP_LINES),
        ],
        NEEDS_CALL_LINES,
    ),
    row(
        "How many communicators, and how much memory?",
        "nccl-communicators",
        &[(|k| k.init, Partly, "their number, but not the memory")],
        NEEDS_INIT_LINES,
    ),
    row(
        "Training is slower than nccl-tests; what bus bandwidth do I get?",
        "nccl-ops --basis wire --by step, nccl-timing",
        &[
            (|k| k.kernels && k.calls, Yes, ""),
            (|k| k.calls && k.step_times, Partly, LOWER_BOUND),
            (|k| k.calls, No, "the trainer's step lines with their time"),
        ],
        NEEDS_CALL_LINES,
    ),
];

/// Returns the 25 questions, each with the answer for this log.
pub(crate) fn list_questions(known: &LineKinds) -> Vec<Question> {
    let question = |(number, row): (u8, &QuestionRow)| {
        let case = row.cases.iter().find(|(has, ..)| has(known));
        let (answerable, missing) = case.map_or((No, row.otherwise), |case| (case.1, case.2));
        Question {
            number,
            text: row.text,
            answerable,
            by: row.by,
            missing,
        }
    };
    (1..).zip(&QUESTIONS).map(question).collect()
}

/// Returns the environment for the next run, as one line for a shell. It is the same for every log,
/// so that a job is run again only once.
pub(crate) fn rerun_environment() -> String {
    // In the format underscores represent blanks (env.rst), so that no launcher can lose them.
    [
        NET_RERUN_SETTING,
        ",COLL NCCL_DEBUG_TIMESTAMP_LEVELS=ALL NCCL_DEBUG_TIMESTAMP_FORMAT='[%F_%T.%6f]_' \
         NCCL_DEBUG_FILE=nccl.%h.%p.log PYTHONUNBUFFERED=1 RAY_DEDUP_LOGS=0",
    ]
    .concat()
}

/// Returns remarks on the line of [`rerun_environment`], a sentence each.
pub(crate) fn rerun_remarks(known: &LineKinds) -> Vec<&'static str> {
    let mut all = vec![
        "NCCL_DEBUG_TIME does not exist: the time stamps are NCCL_DEBUG_TIMESTAMP_LEVELS and \
         NCCL_DEBUG_TIMESTAMP_FORMAT, of NCCL 2.26 or later",
        "set it on every rank: a rank that prints nothing cannot be compared with the others",
    ];
    if known.steps || !known.calls {
        all.push(
            "with NCCL_DEBUG_FILE calls and step lines are in different files: omit it to count \
             calls by step, and set PYTHONUNBUFFERED=1 to keep lines whole",
        );
    }
    if known.tuning || !known.calls {
        all.push(
            "only rank 0 of a communicator prints TUNING lines, and they do not name the \
                  communicator",
        );
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn answerable(known: &LineKinds) -> String {
        let letter = |q: &Question| q.answerable.name().chars().next();
        list_questions(known).iter().filter_map(letter).collect()
    }

    #[test]
    fn each_question_is_asked_once_and_says_what_is_missing() {
        let all = list_questions(&LineKinds::default());
        assert_eq!(all.len(), 25);
        for (at, q) in all.iter().enumerate() {
            assert_eq!(usize::from(q.number), at + 1);
            assert!(q.text.ends_with('?') && !q.by.is_empty());
            assert!(!q.text.contains("  ") && !q.missing.contains("  "), "{q:?}");
            assert!(q.answerable == Yes || !q.missing.is_empty(), "{q:?}");
        }
        let texts: BTreeSet<&str> = all.iter().map(|q| q.text).collect();
        assert_eq!(texts.len(), 25);
    }

    #[test]
    fn what_a_log_has_decides() {
        //                                  1234567890123456789012345
        assert_eq!(
            answerable(&LineKinds::default()),
            "nnnnnnnnnnnnnnnnnnynynnnn"
        );
        // The README of the AWK chain: COLL,NET,NVLS.
        let awk = LineKinds {
            hosts: 2,
            calls: true,
            links: true,
            nvls: true,
            steps: true,
            step_times: true,
            warns: true,
            stamps: StampCoverage::Warn,
            ..LineKinds::default()
        };
        assert_eq!(
            answerable(&awk),
            "yyppnypynpppPnpnnyyyynpnp".replace('P', "p")
        );
        let all = LineKinds {
            hosts: 2,
            calls: true,
            whole: true,
            init: true,
            ids: true,
            timings: true,
            network: true,
            cards: true,
            reach: true,
            links: true,
            nvls: true,
            settings: true,
            version: true,
            versions: true,
            tuning: true,
            kernels: false,
            warns: true,
            steps: true,
            step_times: true,
            stamps: StampCoverage::All,
        };
        assert_eq!(answerable(&all), "yypypyyyyppyyypyyyyyyyppp");
    }

    #[test]
    fn the_next_run_is_told_in_one_line() {
        assert_eq!(
            rerun_environment(),
            "NCCL_DEBUG=INFO \
             NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,P2P,SHM,GRAPH,NVLS,TUNING,COLL \
             NCCL_DEBUG_TIMESTAMP_LEVELS=ALL NCCL_DEBUG_TIMESTAMP_FORMAT='[%F_%T.%6f]_' \
             NCCL_DEBUG_FILE=nccl.%h.%p.log PYTHONUNBUFFERED=1 RAY_DEDUP_LOGS=0"
        );
        assert!(!rerun_environment().contains("NCCL_DEBUG_TIME="));
        assert!(
            rerun_remarks(&LineKinds::default())[0].starts_with("NCCL_DEBUG_TIME does not exist")
        );
    }
}
