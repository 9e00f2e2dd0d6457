//! The finding on ranks that call different things.

use super::sequel::{CROSSED, how, repeats};
use super::usual::{of_kin, rhythmic, usual};
use super::{Calls, USERS, spot};
use crate::stages::check::finding::{Evidence, Finding, Severity, Sure};
use crate::stages::check::ranks::names::{self, Names};
use crate::stages::check::streams::compare::{Apart, Ranked};
use crate::stages::check::streams::reread::Detail;
use crate::stages::check::wording::{counted, verb};
use std::cmp::Reverse;

/// The members of a communicator by what they call there.
pub(super) struct Groups<'a> {
    seq: u64,
    /// Those that are right first, as far as it is known; of the others the largest group first.
    groups: Vec<Vec<usize>>,
    all: &'a [Calls<'a>],
}

/// Which side is right, and how that is known.
struct Verdict {
    sure: Sure,
    why: String,
}

impl<'a> Groups<'a> {
    pub(super) fn new(seq: u64, mut groups: Vec<Vec<usize>>, all: &'a [Calls<'a>]) -> Groups<'a> {
        groups.sort_by_key(|group| (Reverse(group.len()), group[0]));
        Groups { seq, groups, all }
    }

    /// Puts those first that are right.
    fn decide(&mut self, kin: &[&[Detail]]) -> Verdict {
        let (seq, groups, all) = (self.seq, &mut self.groups, self.all);
        let of_all = format!("on all {} ranks", all.len());
        let mut why = match seq {
            0 => format!("it is the communicator's first call {of_all}"),
            1 => format!("the call before it is the same {of_all}"),
            _ => format!("the {seq} calls before it are the same {of_all}"),
        };
        if groups[0].len() > groups[1].len() {
            let sure = Sure::High;
            return Verdict { sure, why };
        }
        let mut sure = Sure::Medium;
        if let Some((of_kin, votes)) = of_kin(seq, groups, all, kin) {
            groups.swap(0, of_kin);
            sure = Sure::High;
            why += &format!(
                "; {} of the same kind {} the same as the others there",
                counted(votes, "communicator"),
                verb(votes, "calls", "call")
            );
        } else if let Some(rhythmic) = rhythmic(seq, groups, all) {
            groups.swap(0, rhythmic);
            why += "; the others keep the rhythm in which these calls came before";
        } else if let Some(usual) = usual(seq, groups, all) {
            groups.swap(0, usual);
            why += "; the call of the others has followed the same calls before";
        } else {
            why += "; no side has a majority, so the wrong side is unknown";
        }
        Verdict { sure, why }
    }

    fn right(&self) -> &Calls<'a> {
        &self.all[self.groups[0][0]]
    }

    fn wrong(&self) -> &Calls<'a> {
        &self.all[self.groups[1][0]]
    }

    fn members<'g>(&self, group: impl IntoIterator<Item = &'g usize>) -> Vec<Ranked> {
        let group = group.into_iter();
        group.map(|&at| self.all[at].member).collect()
    }

    /// Who calls what.
    fn says(
        &self,
        communicator: usize,
        (expected, made): (&Detail, &Detail),
        names: Names<'_>,
    ) -> String {
        let (right, wrong) = (&self.groups[0], &self.groups[1]);
        let mut says = format!(
            "call {} on communicator {}: {} {} {} where {} {} {}",
            self.seq,
            names.communicator(communicator),
            names.ranks(&self.members(wrong)),
            verb(wrong.len(), "calls", "call"),
            names::call(made),
            names.ranks(&self.members(right)),
            verb(right.len(), "calls", "call"),
            names::call(expected),
        );
        if self.groups.len() > 2 {
            let rest = self.members(self.groups[2..].iter().flatten());
            let call = verb(rest.len(), "calls", "call");
            says += &format!("; {} {call} something else", names.ranks(&rest));
        }
        says
    }

    /// How it came about, by the calls after it. Where one side goes on with a step as before and
    /// the other does not, one made a step more.
    fn sequel(&self, (expected, made): (&Detail, &Detail)) -> String {
        let (right, wrong, seq) = (self.right(), self.wrong(), self.seq);
        let many = self.groups[1].len();
        let how = how(seq, right, wrong);
        match (how, repeats(seq, right), repeats(seq, wrong)) {
            (Some(CROSSED), ..) => format!(
                ": two calls are in crossed order; {} {} first and then {}",
                verb(many, "it makes", "they make"),
                names::call(made),
                names::call(expected),
            ),
            (Some(how), ..) => how.replace(": it ", verb(many, ": it ", ": they ")),
            (None, false, true) => format!(
                "; {} one more step than the others, which suggests uneven data",
                verb(many, "it runs", "they run")
            ),
            (None, true, false) => format!(
                "; {} with the step that the others continue, which suggests uneven data",
                verb(many, "it is done", "they are done")
            ),
            _ => String::new(),
        }
    }

    /// Lines of both sides.
    fn evidence(&self) -> Vec<Evidence> {
        let outliers = self.groups[1..].iter().flatten().take(2);
        let shown = outliers.chain(self.groups[0].iter().take(2));
        let calls = shown.filter_map(|&at| self.all[at].at(self.seq));
        calls.map(spot).collect()
    }
}

pub(super) fn different(
    apart: &Apart,
    mut groups: Groups<'_>,
    kin: &[&[Detail]],
    names: Names<'_>,
) -> Option<Finding> {
    let Verdict { sure, why } = groups.decide(kin);
    let (right, wrong, seq) = (groups.right(), groups.wrong(), groups.seq);
    let calls = right.at(seq).zip(wrong.at(seq))?;
    Some(Finding {
        id: word(calls.0, calls.1),
        severity: Severity::Error,
        says: groups.says(apart.communicator, calls, names) + &groups.sequel(calls),
        about: names.about(&wrong.member, apart.communicator, seq),
        sure,
        why,
        advice: "every rank of a communicator must make the same calls in the same order: look in \
                 the code for a branch that only some ranks take before this call"
            .to_owned(),
        evidence: groups.evidence(),
    })
}

/// What two calls differ in, by FlagScale's words.
fn word(expected: &Detail, made: &Detail) -> &'static str {
    if expected.op != made.op {
        "op_mismatch"
    } else if expected.count != made.count {
        "count_mismatch"
    } else if expected.datatype != made.datatype {
        "datatype_mismatch"
    } else if expected.redop.min(USERS) != made.redop.min(USERS) {
        "redop_mismatch"
    } else {
        "root_mismatch"
    }
}
