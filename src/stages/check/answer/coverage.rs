//! Which of the questions people ask a log can answer, and what to set so that the next one can.
//!
//! The questions are the 25 that users of NCCL ask most. What answers them is from the lines that
//! a log has, not from what its job was.

use crate::stages::net::NET_RERUN_SETTING;

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
            Answerable::Yes => "yes",
            Answerable::Partly => "partly",
            Answerable::No => "no",
        }
    }
}

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Question {
    /// Its number, from 1.
    pub number: u8,
    /// What is asked.
    pub text: &'static str,
    /// Whether this log can answer it.
    pub answerable: Answerable,
    /// The program that does.
    pub by: &'static str,
    /// What is missing, or what a part of the answer is; empty where nothing is.
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

/// The 25 questions, each with what this log has for it.
pub(crate) fn list_questions(known: &LineKinds) -> Vec<Question> {
    use Answerable::{No, Partly, Yes};
    let LineKinds {
        hosts,
        calls,
        whole,
        init,
        ids,
        timings,
        network,
        cards,
        reach,
        links,
        nvls,
        settings,
        version,
        versions,
        tuning,
        kernels,
        warns,
        steps,
        step_times,
        stamps,
    } = *known;
    let any = hosts > 0;
    // The first that holds.
    let first = |cases: &[(bool, Answerable, &'static str)], or: &'static str| {
        let case = cases.iter().find(|case| case.0);
        case.map_or((No, or), |case| (case.1, case.2))
    };
    let last_calls = "the last calls of each rank; whether they completed needs a profiler or \
                      RCCL's kernel lines";
    let bound = "a lower bound, the bytes of a step divided by its time; measured times need a \
                 profiler";
    let model = "bytes between nodes follow from a model of rings and trees";
    let list: [(&str, &str, (Answerable, &str)); 25] = [
        (
            "Is it IB/EFA or did it fall back to sockets?",
            "nccl-net, nccl-check",
            first(&[(network || links, Yes, "")], NEEDS_NET_LINES),
        ),
        (
            "Is GPUDirect RDMA in use?",
            "nccl-net, nccl-check",
            first(
                &[
                    (links, Yes, ""),
                    (
                        reach,
                        Partly,
                        "the abilities of the NICs; for connections: NCCL_DEBUG_SUBSYS=INIT,NET,P2P",
                    ),
                ],
                NEEDS_NET_LINES,
            ),
        ),
        (
            "Which rank hangs or lags?",
            "nccl-check",
            first(
                &[
                    (kernels && whole, Yes, ""),
                    (calls && whole, Partly, last_calls),
                    (calls, Partly, NEEDS_ALL_RANKS),
                ],
                NEEDS_CALL_LINES,
            ),
        ),
        (
            "Did ranks call different collectives or sizes?",
            "nccl-check",
            first(
                &[(whole, Yes, ""), (calls, Partly, NEEDS_ALL_RANKS)],
                NEEDS_CALL_LINES,
            ),
        ),
        (
            "Which algorithm, protocol and channels serve which size?",
            "nccl-tuning",
            first(
                &[(
                    tuning,
                    Partly,
                    "only rank 0 of each communicator prints it, without the communicator",
                )],
                "TUNING lines: NCCL_DEBUG_SUBSYS=INIT,COLL,TUNING on rank 0",
            ),
        ),
        (
            "What collectives and sizes does my model issue?",
            "nccl-ops, nccl-hist",
            first(&[(calls, Yes, "")], NEEDS_CALL_LINES),
        ),
        (
            "How many bytes per step, and between nodes?",
            "nccl-ops --by step, nccl-communicators",
            first(
                &[
                    (calls && steps && ids, Yes, model),
                    (calls && steps, Partly, NEEDS_INIT_LINES),
                    (calls, Partly, NEEDS_STEP_LINES),
                ],
                NEEDS_CALL_LINES,
            ),
        ),
        (
            "What does count mean, per rank or total?",
            "nccl-ops --basis",
            first(&[(calls, Yes, "")], NEEDS_CALL_LINES),
        ),
        (
            "Which ranks are in this communicator?",
            "nccl-communicators --members",
            first(
                &[(ids, Yes, ""), (init, Partly, NEEDS_COMM_IDS)],
                NEEDS_INIT_LINES,
            ),
        ),
        (
            "Which GPU sends data to which?",
            "nccl-net --pairs",
            first(
                &[
                    (
                        calls && links && ids,
                        Partly,
                        "Send and Recv are exact; collectives follow from rings and trees",
                    ),
                    (links, Partly, NEEDS_CALL_LINES),
                    (calls, Partly, NEEDS_NET_LINES),
                ],
                NEEDS_NET_LINES,
            ),
        ),
        (
            "Which communicator is TP, DP, PP or EP?",
            "nccl-communicators",
            first(
                &[
                    (
                        ids && calls,
                        Partly,
                        "inferred from members and calls, with a confidence",
                    ),
                    (calls, Partly, NEEDS_INIT_LINES),
                    (ids, Partly, NEEDS_CALL_LINES),
                ],
                NEEDS_INIT_LINES,
            ),
        ),
        (
            "Is NVLink or NVLS used?",
            "nccl-net, nccl-tuning",
            first(
                &[
                    (nvls && tuning, Yes, ""),
                    (
                        nvls || links,
                        Partly,
                        "whether calls use it: NCCL_DEBUG_SUBSYS=INIT,NVLS,TUNING",
                    ),
                ],
                "NCCL_DEBUG_SUBSYS=INIT,NVLS,P2P,TUNING",
            ),
        ),
        (
            "Which GPU uses which NIC; rails; PXN?",
            "nccl-net --pairs",
            first(
                &[
                    (links && cards, Yes, ""),
                    (links || cards, Partly, NEEDS_NET_LINES),
                ],
                NEEDS_NET_LINES,
            ),
        ),
        (
            "Why is init slow at scale?",
            "nccl-communicators, nccl-check",
            first(
                &[
                    (timings, Yes, ""),
                    (
                        init && stamps == StampCoverage::All,
                        Partly,
                        "how long it takes; the parts need NCCL 2.22 or later",
                    ),
                ],
                "Init timings lines: NCCL_DEBUG_SUBSYS=INIT, NCCL 2.22 or later",
            ),
        ),
        (
            "What caused this WARN?",
            "nccl-check",
            first(
                &[
                    (any && !warns, Yes, "the log has no WARN"),
                    (
                        warns && stamps == StampCoverage::All,
                        Partly,
                        "the first one, with an explanation",
                    ),
                    (
                        warns,
                        Partly,
                        "time stamps on all lines: NCCL_DEBUG_TIMESTAMP_LEVELS=ALL",
                    ),
                ],
                "NCCL_DEBUG=INFO",
            ),
        ),
        (
            "Is one node different?",
            "nccl-net, nccl-check",
            first(
                &[
                    (hosts == 1, No, "the log has only one host"),
                    (hosts > 1 && network && settings && versions, Yes, ""),
                    (
                        hosts > 1 && (network || settings || versions),
                        Partly,
                        "NCCL_DEBUG_SUBSYS=INIT,ENV,NET on all hosts",
                    ),
                ],
                "NCCL_DEBUG_SUBSYS=INIT,ENV,NET on all hosts",
            ),
        ),
        (
            "Are NCCL or CUDA versions mixed?",
            "nccl-net, nccl-check",
            first(
                &[
                    (versions, Yes, ""),
                    (
                        version,
                        Partly,
                        "not every host prints it: NCCL 2.22 or later does, under INFO",
                    ),
                ],
                NEEDS_VERSION_LINE,
            ),
        ),
        (
            "What changed between two runs?",
            "nccl-diff",
            first(&[(any, Yes, "the other run's log")], "NCCL_DEBUG=INFO"),
        ),
        (
            "The log is gigabytes; how do I survive it?",
            "all programs: memory does not grow with the log",
            (Yes, ""),
        ),
        (
            "Why are there no time stamps?",
            "nccl-check",
            match stamps {
                StampCoverage::All => (Yes, "the log has them"),
                StampCoverage::Warn => (
                    Yes,
                    "only WARN lines have them: NCCL_DEBUG_TIMESTAMP_LEVELS=ALL",
                ),
                StampCoverage::None => (Yes, "NCCL_DEBUG_TIMESTAMP_LEVELS=ALL, NCCL 2.26 or later"),
                StampCoverage::Unknown if any => (
                    Yes,
                    "NCCL_DEBUG_TIMESTAMP_LEVELS=ALL adds them to all lines",
                ),
                StampCoverage::Unknown => (No, "NCCL_DEBUG=INFO"),
            },
        ),
        (
            "Are lines interleaved or torn?",
            "all programs, with -v",
            (Yes, ""),
        ),
        (
            "Which configuration is in effect?",
            "nccl-net",
            first(
                &[(settings, Yes, "")],
                "the lines of the settings, if any are set: NCCL_DEBUG_SUBSYS=INIT,ENV",
            ),
        ),
        (
            "Why do calls vanish under CUDA graphs?",
            "nccl-ops --by step",
            first(
                &[
                    (
                        calls && steps,
                        Partly,
                        "the steps without calls: a graph's calls are printed when it is captured",
                    ),
                    (calls, No, NEEDS_STEP_LINES),
                ],
                NEEDS_CALL_LINES,
            ),
        ),
        (
            "How many communicators, and how much memory?",
            "nccl-communicators",
            first(
                &[(init, Partly, "their number, but not the memory")],
                NEEDS_INIT_LINES,
            ),
        ),
        (
            "Training is slower than nccl-tests; what bus bandwidth do I get?",
            "nccl-ops --basis wire --by step, nccl-timing",
            first(
                &[
                    (kernels && calls, Yes, ""),
                    (calls && step_times, Partly, bound),
                    (calls, No, "the trainer's step lines with their time"),
                ],
                NEEDS_CALL_LINES,
            ),
        ),
    ];
    let question = |(number, (text, by, (answerable, missing))): (u8, (_, _, (_, _)))| Question {
        number,
        text,
        answerable,
        by,
        missing,
    };
    (1..).zip(list).map(question).collect()
}

/// The environment for the next run, so that its log can answer what this one cannot: one line
/// for a shell. What is in it is the same for every log: a job is run again once.
pub(crate) fn rerun_environment() -> String {
    // In the format underscores represent blanks (env.rst), so that no launcher can lose them.
    [
        NET_RERUN_SETTING,
        ",COLL NCCL_DEBUG_TIMESTAMP_LEVELS=ALL NCCL_DEBUG_TIMESTAMP_FORMAT='[%F_%T.%6f]_' \
         NCCL_DEBUG_FILE=nccl.%h.%p.log PYTHONUNBUFFERED=1 RAY_DEDUP_LOGS=0",
    ]
    .concat()
}

/// What to know of [`rerun`]'s line, a sentence each.
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
            assert!(
                q.answerable == Answerable::Yes || !q.missing.is_empty(),
                "{q:?}"
            );
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
