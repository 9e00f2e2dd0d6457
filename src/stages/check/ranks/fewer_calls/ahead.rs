//! Few ranks that made calls which most others did not.

use super::{LagContext, ProcessProgress};
use crate::stages::check::finding::{Confidence, Finding, Kind};
use crate::stages::check::ranks::mismatch::show_call;
use crate::stages::check::ranks::stopped::StopEvidence;
use crate::stages::check::streams::compare::{CommMember, DifferingComm};
use crate::stages::check::wording::{number_and_noun, verb_form};

impl LagContext<'_> {
    /// The finding on ranks that made calls that most others did not.
    pub(super) fn report_ranks_ahead(&self, apart: &[&DifferingComm]) -> Option<Finding> {
        let is_ahead = |s: &ProcessProgress| s.ahead && s.behind.is_empty();
        let those = self.standings.iter().filter(|(_, s)| is_ahead(s));
        let ahead: Vec<u32> = those.map(|(&process, _)| process).collect();
        let process = |member: &CommMember| self.names.found.sides[member.side].process;
        let has_ahead =
            |group: &&&DifferingComm| group.members.iter().any(|m| ahead.contains(&process(m)));
        // The largest of them, and the first of equal ones.
        let group = apart
            .iter()
            .rev()
            .filter(has_ahead)
            .max_by_key(|group| group.members.len())?;
        // Of two equal halves, the one that went on after the last step ran too many.
        let is_after = self.uneven.is_some() && self.stops.is_last_step();
        let is_less = |few: usize, many: usize| few < many || few == many && is_after;
        if !(self.end.failed || self.uneven.is_some()) || !is_less(ahead.len(), self.laggards) {
            return None;
        }
        let least = group.members.iter().map(|m| m.before).min()?;
        let (few, many): (Vec<CommMember>, Vec<CommMember>) =
            group.members.iter().partition(|m| m.before > least);
        let first = few.iter().max_by_key(|m| m.before)?;
        if !is_less(few.len(), many.len()) {
            return None;
        }
        let steps = match self.uneven.is_some() {
            true => format!(
                "; these calls repeat earlier steps: {} more steps than the others (uneven data)",
                verb_form(few.len(), "it ran", "they ran")
            ),
            false => String::new(),
        };
        let last = self.last.get(&process(first));
        let made = last.map_or_else(String::new, |last| {
            let call = self.names.describe_call_on(last.call, last.communicator);
            format!("; its last call is {call}")
        });
        let communicator = group.communicator;
        let says = format!(
            "{} made {} on communicator {} that {} did not make{steps}{made}",
            self.names.describe_members(&few),
            number_and_noun(first.before - least, "call"),
            self.names.describe_communicator(communicator),
            self.names.describe_members(&many),
        );
        Some(Finding {
            about: self.names.about_call(first, communicator, least),
            why: match self.end.failed {
                _ if few.len() == many.len() => {
                    "the step lines end with the last step that they announce, and these ranks \
                     went on"
                }
                true => "few ranks are ahead of many, and the log reports that the job failed",
                false if self.stop == StopEvidence::Stalled => {
                    "few ranks are ahead of many, and no rank wrote anything more while the log was watched"
                }
                false => "few ranks are ahead of many, and these are all at the same call",
            }
            .to_owned(),
            evidence: last.map(|last| show_call(last.call)).into_iter().collect(),
            ..Finding::of_kind(Kind::RankAhead, Confidence::Medium, says)
        })
    }
}
