//! Connections that NCCL still tried when the log ends.

use super::SetupContext;
use super::limits::MAX_SETUP_EVIDENCE;
use crate::stages::check::finding::{About, Confidence, Evidence, Finding, Kind, Severity};
use crate::stages::check::ranks::names::{RankNames, describe_process};
use crate::stages::check::wording::{number_and_noun, quote_text};
use crate::stages::net::net_stage::FirstReportLine;
use crate::stages::net::sockets::{RetriedPeer, RetryLines};
use crate::stages::setup::thread::SpeakerThread;

/// A connection that a thread still tried in its last line.
type OpenRetry<'s> = (
    SpeakerThread,
    &'s RetriedPeer,
    &'s RetryLines<FirstReportLine>,
);

/// Returns the finding on the connection that was tried most, and the number of others.
pub(super) fn find_retries(context: &SetupContext<'_>) -> Option<Finding> {
    let open = context.net.all.sockets.open_retries();
    // Where a process made calls, it may have connected: that prints no line.
    let has_calls = |retry: &OpenRetry<'_>| {
        let sides = &context.found.sides;
        let mut own = sides.iter().filter(|side| side.process == retry.0.process);
        own.any(|side| side.count_calls() > 0)
    };
    let (called, silent): (Vec<OpenRetry<'_>>, Vec<OpenRetry<'_>>) =
        open.into_iter().partition(has_calls);
    let (all, is_sure) = match silent.is_empty() {
        true => (called, false),
        false => (silent, true),
    };
    let most = |retry: &&OpenRetry<'_>| {
        let (_, _, lines) = retry;
        (lines.count, std::cmp::Reverse(lines.first))
    };
    let &(thread, peer, lines) = all.iter().max_by_key(most)?;
    let says = describe_retry(context, thread, peer, lines, all.len());
    // NCCL gives up after its last try.
    let is_last_try = lines.tries.is_some_and(|(tried, of)| tried >= of);
    let severity = match (is_sure, context.is_stalled() || is_sure && is_last_try) {
        (_, true) => Severity::Error,
        (true, false) if !context.is_running() => Severity::Warning,
        (_, false) => Severity::Note,
    };
    let process = context.net.process(thread.process);
    let evidence = all
        .iter()
        .flat_map(|(_, _, lines)| [lines.last, lines.first]);
    Some(Finding {
        about: About {
            host: process.map(|process| process.host.clone()),
            pid: process.and_then(|process| process.pid),
            ..About::default()
        },
        why: match is_sure {
            true => "its last line reports the try; no later line shows that it connected",
            false => {
                "its last line reports the try; the process made calls, so it may have connected"
            }
        }
        .to_owned(),
        evidence: evidence
            .take(MAX_SETUP_EVIDENCE)
            .map(Evidence::from)
            .collect(),
        ..Finding::new(Kind::ConnectRetrying, severity, Confidence::Medium, says)
    })
}

/// Formats `n1:100 still tries to connect to 10.0.0.2<4391> when the log ends (Connection refused, try 3 of 34)`.
fn describe_retry(
    context: &SetupContext<'_>,
    thread: SpeakerThread,
    peer: &RetriedPeer,
    lines: &RetryLines<FirstReportLine>,
    all: usize,
) -> String {
    let process = context.net.process(thread.process).map(describe_process);
    let process = process.map_or("a process".to_owned(), |name| quote_text(name.as_bytes()));
    let names = RankNames {
        found: context.found,
    };
    let sides = 0..context.found.sides.len();
    let mut own = sides.filter(|&at| context.found.sides[at].process == thread.process);
    let rank = own.find_map(|at| names.job_rank_of_side(at));
    let who = rank.map_or(process.clone(), |rank| format!("rank {rank} ({process})"));
    let what = match &peer.peer {
        Some(peer) => format!("connect to {}", quote_text(peer)),
        None => {
            "connect to another rank, whose address this version of NCCL does not print".to_owned()
        }
    };
    let tries = match lines.tries {
        Some((tried, of)) => format!("try {tried} of {of}"),
        None => number_and_noun(lines.count, "line"),
    };
    let since = match &lines.since[..] {
        b"" => String::new(),
        since => format!(", since {}", quote_text(since)),
    };
    let more = match all {
        1 => String::new(),
        n => format!("; {} too", number_and_noun(n - 1, "more connection")),
    };
    format!(
        "{who} still tried to {what} when the log ends ({}, {tries}{since}){more}",
        quote_text(&peer.error)
    )
}
