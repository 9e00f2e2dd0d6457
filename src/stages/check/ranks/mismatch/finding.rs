//! The finding on ranks that call different things.

use super::after_difference::{
    CROSSED_ORDER_TEXT, NextCalls, classify_next_calls, explain_missing_call, makes_call_of_step,
};
use super::{MemberCalls, show_call};
use crate::calls::same::ContentDifference;
use crate::calls::usual::{Basis, Outliers};
use crate::stages::check::finding::{Confidence, Evidence, Finding, Kind};
use crate::stages::check::ranks::names::{self, RankNames};
use crate::stages::check::streams::compare::{CommMember, DifferingComm};
use crate::stages::check::streams::wanted_streams::CallDetail;
use crate::stages::check::wording::{number_and_noun, verb_form};

/// The members of a communicator by what they call there.
pub(super) struct CallGroups<'a> {
    pub(super) seq: u64,
    /// The right group first, if it is known; then the others, the largest first.
    pub(super) groups: Vec<Vec<usize>>,
    pub(super) all: &'a [MemberCalls<'a>],
}

/// Which side is right, and how that is known.
struct MismatchVerdict {
    sure: Confidence,
    why: String,
}

impl<'a> CallGroups<'a> {
    /// Puts the right group first, as far as it is known.
    fn decide_right_group(&mut self, similar: &[MemberCalls<'_>]) -> MismatchVerdict {
        let (seq, all) = (self.seq, self.all);
        let basis = Outliers { seq, all, similar }.put_right_group_first(&mut self.groups);
        let of_all = format!("on all {} ranks", all.len());
        let before = match seq {
            0 => format!("it is the communicator's first call {of_all}"),
            1 => format!("the call before it is the same {of_all}"),
            _ => format!("the {seq} calls before it are the same {of_all}"),
        };
        let why = match basis {
            Basis::Majority => String::new(),
            Basis::Similar(votes) => format!(
                "; {} of the same kind {} the same as the others there",
                number_and_noun(votes, "communicator"),
                verb_form(votes, "calls", "call")
            ),
            Basis::Rhythm => {
                "; the others keep the rhythm in which these calls came before".to_owned()
            }
            Basis::Before => {
                "; the call of the others has followed the same calls before".to_owned()
            }
            Basis::Around => {
                "; the call of the others has the same calls around it elsewhere".to_owned()
            }
            Basis::LongerMatch => {
                "; with a call left out, more of the later calls agree".to_owned()
            }
            Basis::Unknown => "; no side has a majority, so the wrong side is unknown".to_owned(),
        };
        let sure = match basis {
            Basis::Majority | Basis::Similar(_) => Confidence::High,
            _ => Confidence::Medium,
        };
        MismatchVerdict {
            sure,
            why: before + &why,
        }
    }

    fn right_calls(&self) -> &MemberCalls<'a> {
        &self.all[self.groups[0][0]]
    }

    fn wrong_calls(&self) -> &MemberCalls<'a> {
        &self.all[self.groups[1][0]]
    }

    fn group_members<'g>(&self, group: impl IntoIterator<Item = &'g usize>) -> Vec<CommMember> {
        let group = group.into_iter();
        group.map(|&at| self.all[at].member).collect()
    }

    /// Describes the groups and their calls.
    fn describe_groups(
        &self,
        communicator: usize,
        expected: &CallDetail,
        made: &CallDetail,
        names: RankNames<'_>,
    ) -> String {
        let (right, wrong) = (&self.groups[0], &self.groups[1]);
        let who = match &self.group_members(wrong)[..] {
            [one] => names.describe_actor(one.side),
            members => names.describe_members(members),
        };
        let mut says = format!(
            "{who} {} {} as call {} of communicator {}, where {} {} {}",
            verb_form(wrong.len(), "calls", "call"),
            names::describe_call(made),
            self.seq,
            names.describe_communicator(communicator),
            names.describe_members(&self.group_members(right)),
            verb_form(right.len(), "calls", "call"),
            names::describe_call(expected),
        );
        if self.groups.len() > 2 {
            let rest = self.group_members(self.groups[2..].iter().flatten());
            let call = verb_form(rest.len(), "calls", "call");
            says += &format!("; {} {call} something else", names.describe_members(&rest));
        }
        says
    }

    /// How it came about, by the calls after it. Where one side begins a step as before and the other
    /// does not, one made a step more; a call that no step had is one that only some ranks make.
    fn explain_by_later_calls(&self, expected: &CallDetail, made: &CallDetail) -> String {
        let (right, wrong, seq) = (self.right_calls(), self.wrong_calls(), self.seq);
        let many = self.groups[1].len();
        let verb = |one, more| verb_form(many, one, more);
        match explain_missing_call(seq, right, wrong) {
            Some(CROSSED_ORDER_TEXT) => {
                return format!(
                    ": two calls are in crossed order; {} {} first and then {}",
                    verb("it makes", "they make"),
                    names::describe_call(made),
                    names::describe_call(expected),
                );
            }
            Some(how) => return how.replace(": it ", verb(": it ", ": they ")),
            None => {}
        }
        let is_same_op = made.op == expected.op;
        match (
            classify_next_calls(seq, right),
            classify_next_calls(seq, wrong),
        ) {
            (NextCalls::NewCall | NextCalls::KnownCall, NextCalls::WholeStep) => format!(
                "; {} one more step than the others, which suggests uneven data",
                verb("it runs", "they run")
            ),
            (NextCalls::WholeStep | NextCalls::RestOfStep, NextCalls::KnownCall)
                if makes_call_of_step(seq, right, wrong) =>
            {
                format!(
                    "; {} the rest of the step, which the others make",
                    verb("it left out", "they left out")
                )
            }
            // At the beginning of a step it may be either.
            (NextCalls::WholeStep, NextCalls::NewCall) if is_same_op => String::new(),
            (NextCalls::RestOfStep, NextCalls::NewCall) if is_same_op => format!(
                "; the others go on as in the steps before: it is the same operation with another {}",
                match made.line.datatype == expected.line.datatype {
                    true => "size or root",
                    false => "data type",
                }
            ),
            (NextCalls::WholeStep, _) => format!(
                "; {} with the steps that the others continue, which suggests uneven data",
                verb("it is done", "they are done")
            ),
            (NextCalls::RestOfStep, NextCalls::NewCall) => format!(
                "; the others go on as in the steps before: only {} this call",
                verb("this rank makes", "these ranks make")
            ),
            _ => String::new(),
        }
    }

    /// Lines of both sides.
    fn show_both_sides(&self) -> Vec<Evidence> {
        let outliers = self.groups[1..].iter().flatten().take(2);
        let shown = outliers.chain(self.groups[0].iter().take(2));
        let calls = shown.filter_map(|&at| self.all[at].call_at(self.seq));
        calls.map(show_call).collect()
    }
}

pub(super) fn report_mismatch(
    apart: &DifferingComm,
    mut groups: CallGroups<'_>,
    similar: &[MemberCalls<'_>],
    names: RankNames<'_>,
) -> Option<Finding> {
    let MismatchVerdict { sure, why } = groups.decide_right_group(similar);
    let (right, wrong, seq) = (groups.right_calls(), groups.wrong_calls(), groups.seq);
    let calls = right.call_at(seq).zip(wrong.call_at(seq))?;
    let kind = difference_kind(calls.0.content().find_difference(&calls.1.content())?);
    let says = groups.describe_groups(apart.communicator, calls.0, calls.1, names)
        + &groups.explain_by_later_calls(calls.0, calls.1);
    Some(Finding {
        about: names.about_call(&wrong.member, apart.communicator, seq),
        why,
        evidence: groups.show_both_sides(),
        ..Finding::of_kind(kind, sure, says)
    })
}

/// The finding on a difference, by FlagScale's words.
pub(crate) fn difference_kind(difference: ContentDifference) -> Kind {
    match difference {
        ContentDifference::Op => Kind::OpMismatch,
        ContentDifference::Count => Kind::CountMismatch,
        ContentDifference::Datatype => Kind::DatatypeMismatch,
        ContentDifference::Redop => Kind::RedopMismatch,
        ContentDifference::Root => Kind::RootMismatch,
    }
}
