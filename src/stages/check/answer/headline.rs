//! The answer in one sentence, with the command to run next.

use super::coverage::rerun_environment;
use crate::error::escape::shell_word;
use crate::grammar::token::dec_u32;
use crate::source::{InputName, unpack_command};
use crate::stages::check::CheckSummary;
use crate::stages::check::finding::{Finding, JobStage, Kind, Reason, Severity};
use crate::stages::check::limits::MAX_STAMP_PREFIX_BYTES;

/// The answer of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobAnswer {
    /// One sentence, without a full stop.
    pub sentence: String,
    /// The next command, or what else to do next.
    pub next: Option<String>,
    /// `next` is a command.
    pub is_command: bool,
}

impl JobAnswer {
    /// The answer where only records were given that have no end of a job, such as traces.
    pub fn of_records() -> JobAnswer {
        JobAnswer {
            sentence: "not judged: these records show what was sent and how long it took, not how the job ended"
                .to_owned(),
            next: Some("name the job's log or its flight recorder's dumps too".to_owned()),
            is_command: false,
        }
    }
}

impl CheckSummary {
    /// The answer in one sentence: the worst finding, or what was judged and found well.
    pub fn answer(&self) -> JobAnswer {
        let worst = self.findings.first();
        let worst = worst.filter(|finding| finding.severity != Severity::Note);
        let (sentence, (next, is_command)) = match worst {
            Some(finding) => (
                self.describe_worst(finding),
                match self.describe_running_job() {
                    Some(stop) => (Some(stop), false),
                    None => self.next_step(finding),
                },
            ),
            None => {
                let (says, advice) = self.describe_clean();
                (says, (advice, false))
            }
        };
        JobAnswer {
            sentence,
            next,
            is_command,
        }
    }

    pub(super) fn count_findings(&self, severity: Severity) -> u64 {
        let those = self.findings.iter().filter(|f| f.severity == severity);
        those.count() as u64
    }

    fn describe_worst(&self, finding: &Finding) -> String {
        let mut clause = first_clause(&finding.says).to_owned();
        let mut after = clause
            .match_indices("step ")
            .map(|(at, word)| at + word.len());
        let names_step = after.any(|at| clause[at..].starts_with(|c: char| c.is_ascii_digit()));
        match finding.about.stage {
            _ if names_step => {}
            Some(stage @ JobStage::AfterStep(_)) => {
                clause += &format!(", {}", stage.describe_stage());
            }
            _ => {
                if let Some(time) = find_time_of_day(finding) {
                    clause += &format!(", at {time}");
                }
            }
        }
        for reason in &finding.reasons {
            let is_told = match reason {
                Reason::StartedAgain => finding.severity == Severity::Error,
                reason => matches!(reason, Reason::MayWaitForUnseen(_)),
            };
            if let Some(text) = reason.in_sentence().filter(|_| is_told) {
                clause += &format!("; {text}");
            }
        }
        let all = self.count_findings(finding.severity);
        match (finding.severity, self.is_empty(), all) {
            (Severity::Error, _, 1) => clause,
            (Severity::Error, _, n) => format!("{clause} (the first of {n} errors)"),
            (_, true, 1) => format!("not judged, one warning: {clause}"),
            (_, true, n) => format!("not judged, {n} warnings; the first: {clause}"),
            (_, false, 1) => format!("{clause} (a warning; no error found)"),
            (_, false, n) => format!("{clause} (the first of {n} warnings; no error found)"),
        }
    }

    /// What the silence of a log would show if its job still ran.
    fn describe_running_job(&self) -> Option<String> {
        let stop = self.if_running.as_ref()?;
        Some(format!(
            "the log does not grow; if the job still runs: {stop}"
        ))
    }

    fn describe_clean(&self) -> (String, Option<String>) {
        let settings = || Some(format!("run the job again with {}", rerun_environment()));
        let open = |kind| self.findings.iter().find(|f| f.kind == kind);
        let end = open(Kind::JobCancelled).or_else(|| open(Kind::JobInterrupted));
        let failure = || self.findings.iter().find(|f| f.kind.is_first_failure());
        if let Some(end) = end.or_else(failure) {
            let end_clause = first_clause(&end.says);
            let parts = self.judged.list_parts().join(", ");
            let says = match self.is_empty() || parts.is_empty() {
                true => format!("only the job's end was judged: {end_clause}"),
                false => {
                    format!("{end_clause}; no other fault found in what this log shows: {parts}")
                }
            };
            return (says, first_advice(end));
        }
        let is_compared = self.judged.compared > 0 || !self.judged.records.is_nothing();
        // Where the calls were let go, the initialisation alone is no answer.
        let shortened = open(Kind::Shortened).filter(|_| !is_compared);
        if let Some(nothing) = shortened.or_else(|| open(Kind::NotChecked)) {
            let says = first_clause(&nothing.says);
            let says = says.strip_prefix("not judged: ").unwrap_or(says);
            return (format!("not judged: {says}"), first_advice(nothing));
        }
        if let Some(tables) = open(Kind::BenchmarkOnly) {
            return (first_clause(&tables.says).to_owned(), first_advice(tables));
        }
        let parts = self.judged.list_parts();
        if parts.is_empty() {
            return (
                "not judged: the inputs have no line of NCCL".to_owned(),
                settings(),
            );
        }
        let not = match self.known.calls && !is_compared {
            true => "; its calls were not compared",
            false => "",
        };
        let says = format!(
            "no fault found in what this log shows: {}{not}",
            parts.join(", ")
        );
        if let Some(stop) = self.describe_running_job() {
            return (says, Some(stop));
        }
        // Ranks at different calls are normal while a job runs.
        if !self.judged.have_all_ended && self.unjudged.iter().any(|of| of.is_of_last_calls) {
            let later = "if the job writes nothing more, nccl-watch names the rank that the others wait for";
            return (says, Some(later.to_owned()));
        }
        // Where the calls are there, the settings were right.
        let needed = self.unjudged.iter().find_map(|of| of.needs);
        let needed = needed.filter(|_| self.known.calls && !is_compared);
        match needed {
            Some(needed) => (says, Some(needed.to_owned())),
            None => (says, settings().filter(|_| !is_compared)),
        }
    }

    /// Returns the next step: look at the stack of the process that stopped, or at the line of the call that differs;
    /// else the advice, or to look at the first line. Also returns whether that is a command.
    fn next_step(&self, finding: &Finding) -> (Option<String>, bool) {
        let is_call = finding.about.seq.is_some() && !finding.kind.is_stop();
        if !is_call && let Some(stack) = show_stack(finding) {
            return (Some(stack), true);
        }
        let advice = first_advice(finding);
        match self.show_first_line(finding) {
            Some(line) if is_call || advice.is_none() => (Some(line), true),
            _ => (advice, false),
        }
    }

    /// The command that shows the first line of a finding among its neighbours.
    fn show_first_line(&self, finding: &Finding) -> Option<String> {
        let (name, line) = super::table::evidence_place(self, finding.evidence.first()?);
        let line = line?;
        // Standard input cannot be read again.
        if name.is_empty() || name.starts_with('-') || name == InputName::stdin().name() {
            return None;
        }
        Some(match unpack_command(name) {
            Some(unpack) => format!("{unpack} | less +{line}"),
            None => format!("less +{line} {}", shell_word(name)),
        })
    }
}

/// The sentence up to its first semicolon outside of brackets: the rest gives details.
pub(crate) fn first_clause(says: &str) -> &str {
    let mut depth = 0_u32;
    for (at, byte) in says.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b';' if depth == 0 && says[at..].starts_with("; ") => return &says[..at],
            _ => {}
        }
    }
    says
}

/// The time of day in front of the text of a finding's first line, `17:48:01`.
fn find_time_of_day(finding: &Finding) -> Option<&str> {
    let text = finding.evidence.first()?.text.as_deref()?;
    let text = &text[..text.len().min(MAX_STAMP_PREFIX_BYTES)];
    let is_time = |at: usize| {
        let is_end =
            |byte: Option<&u8>| byte.is_none_or(|b| !b.is_ascii_alphanumeric() && *b != b':');
        let before = at.checked_sub(1).map(|at| &text[at]);
        // `2026-11-27T17:48:01`
        let begins = before.is_none_or(|b| *b == b'T') || is_end(before);
        let number = |at: usize| {
            dec_u32(&text[at..at + 2])
                .ok()
                .filter(|(rest, _)| rest.is_empty())
        };
        let is_below = |at: usize, most: u32| number(at).is_some_and(|(_, n)| n < most);
        let colons = text[at + 2] == b':' && text[at + 5] == b':';
        begins
            && colons
            && is_end(text.get(at + 8))
            && is_below(at, 24)
            && is_below(at + 3, 60)
            && is_below(at + 6, 60)
    };
    let at = (0..(text.len() + 1).saturating_sub(8)).find(|&at| is_time(at))?;
    std::str::from_utf8(&text[at..at + 8]).ok()
}

/// The command that shows where a process that stopped is, or how it died.
fn show_stack(finding: &Finding) -> Option<String> {
    let about = &finding.about;
    let is_waited_for = finding.kind.is_stop() || finding.kind == Kind::WatchdogTimeout;
    let is_needless = |why: &Reason| {
        // A process of an earlier attempt is gone.
        let is_past = [Reason::StackKnown, Reason::StartedAgain].contains(why);
        is_past || matches!(why, Reason::MayWaitForUnseen(_))
    };
    let needs_stack = is_waited_for && !finding.reasons.iter().any(is_needless);
    let pid = about.pid.filter(|_| needs_stack)?;
    let host = std::str::from_utf8(about.host.as_deref()?).ok()?;
    let is_dead = |reason: &Reason| matches!(reason, Reason::Dead(dead) if dead.is_connection_lost);
    let command = match finding.reasons.iter().any(is_dead) {
        true => "dmesg -T | tail -50".to_owned(),
        false => format!("py-spy dump --pid {pid}"),
    };
    is_plain_word(host).then(|| format!("ssh {host} {command}"))
}

fn first_advice(finding: &Finding) -> Option<String> {
    let advice = first_clause(&finding.advice);
    (!advice.is_empty()).then(|| advice.to_owned())
}

/// True for a text of a log that is safe within a command line.
fn is_plain_word(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/+=:@%,-".contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::check::finding::Confidence;

    #[test]
    fn an_answer_has_the_number_of_findings_like_the_first() {
        let answer = |severity, n| {
            let stop = |at| {
                let says = format!("rank {at} stopped; it is behind");
                Finding::new(Kind::RankBehind, severity, Confidence::High, says)
            };
            let findings = (0..n).map(stop).collect();
            let checked = CheckSummary {
                findings,
                ..CheckSummary::default()
            };
            checked.answer().sentence
        };
        assert_eq!(answer(Severity::Error, 1), "rank 0 stopped");
        assert_eq!(
            answer(Severity::Error, 2),
            "rank 0 stopped (the first of 2 errors)"
        );
        assert_eq!(
            answer(Severity::Warning, 2),
            "rank 0 stopped (the first of 2 warnings; no error found)"
        );
    }
}
