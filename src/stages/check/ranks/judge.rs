//! What the calls where ranks differ show: who is to blame, and where.

use super::absent_members;
use super::case::Case;
use super::deadlock::Met;
use super::doubt::is_damaged;
use super::doubt::unjudged::{is_over, running};
use super::fewer_calls::{self, Behind, End};
use super::last_calls::odd_one;
use super::messages::{Messages, wrong_peer};
use super::mismatch::same_kind::Kin;
use super::mismatch::{self, Details, Parting};
use super::stopped::lone_stop::{self, Lone};
use super::stopped::{Now, Stops};
use crate::grammar::values::has_root;
use crate::report::account::Account;
use crate::stages::check::finding::{Finding, Sure};
use crate::stages::check::streams::compare::{Apart, Compared, Ranked, Unpaired};
use crate::stages::check::streams::why::Why;
use crate::stages::check::streams::{BLOCK, Caller, Way};
use crate::stages::check::watchdog::{Watched, nccl_call};
use crate::stages::check::wording::counted;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// How the job ended, as far as lines other than the calls report it.
#[derive(Clone, Copy)]
pub(super) struct Ending<'a> {
    pub(super) watched: &'a [Watched],
    pub(super) end: End,
    pub(super) stops: Stops<'a>,
}

/// What was judged.
pub(super) struct Judged {
    pub(super) findings: Vec<Finding>,
    /// Communicators of which nothing can be judged.
    pub(super) unjudged: Vec<(Why, usize)>,
    /// What is missing at the end of the log was not cut off.
    pub(super) uncut: bool,
}

/// Communicators whose members part, by how.
#[derive(Default)]
struct Parts<'c> {
    /// Members call different things.
    different: Vec<(usize, Finding)>,
    /// Some made fewer calls.
    late: Vec<&'c Apart>,
    /// Nothing can be judged.
    unjudged: Vec<(Why, usize)>,
}

impl Case<'_> {
    /// Who and where. Leaves those messages in `compared` that the job did not go on without.
    pub(super) fn judge(&self, compared: &mut Compared, kin: &Kin, ending: Ending<'_>) -> Judged {
        let Ending {
            watched,
            end,
            stops,
        } = ending;
        let names = self.names;
        let now = stops.failures.now;
        let parts = self.parts(&compared.apart, kin);
        let mut unjudged = parts.unjudged;
        compared.unpaired.retain(|pair| {
            let is_held = !self.is_piped || self.is_held(pair);
            if !is_held {
                unjudged.push((Why::LetGo, pair.communicator));
            }
            is_held
        });
        let mut findings = first_of(self.met, parts.different);
        let caller = |number: u32| self.caller(number);
        findings.extend(self.met.finding(self.details, caller, names));
        let mut behind = fewer_calls::behind(
            &parts.late,
            &compared.unpaired,
            self.last,
            names,
            (end, stops),
            &nccl_call::waiting(watched, names),
        );
        if end.lost {
            self.dead(&mut behind, stops, watched);
        }
        let (going_on, skipped) = (behind.going_on.clone(), behind.skipped);
        let last_resort = std::mem::take(&mut behind.last_resort);
        let goes_on = |communicator: usize| {
            let job = stops.job_of(communicator);
            job.is_some_and(|job| going_on.contains(&job))
        };
        unjudged.extend(running(&parts.late, &compared.unpaired, goes_on));
        if findings.is_empty() {
            findings.extend(wrong_peer::wrong_peers(self, &compared.unpaired, goes_on));
        }
        // That one side is behind another is no finding where nothing shows that the job stopped.
        compared
            .unpaired
            .retain(|pair| pair.sent == pair.received || !goes_on(pair.communicator));
        let messages = Messages {
            unpaired: &compared.unpaired,
            case: self,
        };
        let told = !findings.is_empty();
        findings.extend(messages.lacking(behind, told));
        // A log that is watched is not cut off.
        let mut uncut = skipped || now == Now::Stalled;
        if findings.is_empty() && now == Now::Unknown {
            let lone = self.lone_stops(stops, &going_on);
            uncut = lone.iter().all(|lone| lone.is_long);
            let each = lone.iter().map(|lone| lone.process);
            findings = each
                .filter_map(|process| {
                    lone_stop::finding(process, self.last, names, lone_stop::SILENT)
                })
                .collect();
        }
        // Of a job that stalled the one in the middle of a step is it, however long it was silent.
        if findings.is_empty() && now == Now::Stalled {
            let middle = stops.middle.iter();
            let middle = middle.filter(|(job, _)| going_on.contains(job));
            findings = middle
                .filter_map(|(_, &process)| {
                    lone_stop::finding(process, self.last, names, lone_stop::WATCHED)
                })
                .collect();
        }
        // Nothing tells whom the others wait for but that it is behind.
        if findings.is_empty() {
            findings = last_resort;
        }
        Judged {
            findings,
            unjudged,
            uncut,
        }
    }

    /// True where the messages in which both sides differ could be read again.
    fn is_held(&self, pair: &Unpaired) -> bool {
        let first = pair.block * BLOCK;
        let is_held = |member: &Ranked, way: Way, made: u64| {
            let key = member.caller.map(|at| (self.caller(at), way));
            key.is_none_or(|key| is_held(self.details, key, first..made.min(first + BLOCK)))
        };
        is_held(&pair.from, Way::Send(pair.to.peer()), pair.sent)
            && is_held(&pair.to, Way::Recv(pair.from.peer()), pair.received)
    }

    /// Of a process that died others may be behind, as they wait for what its GPU did not do any more: all
    /// but it wait in the same call.
    fn dead(&self, behind: &mut Behind, stops: Stops<'_>, watched: &[Watched]) {
        let Some(&laggard) = behind.laggards.keys().next() else {
            return;
        };
        let job = stops.job(laggard);
        let waits = nccl_call::waiting(watched, self.names);
        let odd = odd_one(self.last, self.found, |process| stops.job(process) == job);
        let Some(odd) = odd.filter(|odd| !waits.contains(odd)) else {
            return;
        };
        let alone = behind.laggards.len() == 1 && odd == laggard;
        match &mut behind.findings[..] {
            [finding] if alone => {
                finding.sure = Sure::High;
                finding.why += "; all others wait in the same call";
            }
            [] => {}
            _ => {
                let finding = lone_stop::finding(odd, self.last, self.names, lone_stop::DEAD);
                if let Some(finding) = finding {
                    behind.findings = vec![finding];
                    behind.laggards = BTreeMap::from([(odd, 1)]);
                }
            }
        }
    }

    /// How the members of each communicator in `all` part.
    fn parts<'c>(&self, all: &'c [Apart], kin: &Kin) -> Parts<'c> {
        let caller = |number: u32| self.caller(number);
        let mut parts = Parts::default();
        for apart in all {
            let first = apart.block * BLOCK;
            let stretch = (first, first + BLOCK);
            let kin = kin.get(&apart.communicator).map_or(&[][..], |kin| kin);
            let mut unjudged = |why| parts.unjudged.push((why, apart.communicator));
            let is_held = |member: &Ranked| {
                let last = member.calls.min(first + BLOCK);
                let made = member.caller.map(|at| (caller(at), Way::Collective));
                made.is_none_or(|key| is_held(self.details, key, first..last))
            };
            if self.is_piped && !apart.members.iter().all(is_held) {
                unjudged(Why::LetGo);
                continue;
            }
            match mismatch::parting(apart, stretch, self.details, kin, caller, self.names) {
                Parting::Different(mut finding) => {
                    if let Some(doubt) = apart.doubt() {
                        finding.sure = finding.sure.max(Sure::Medium);
                        finding.why += doubt;
                    }
                    parts.different.push((apart.communicator, *finding));
                }
                // What those who are missing did is not known.
                Parting::Behind | Parting::Unknown(_) if apart.is_partial => {}
                Parting::Behind if is_over(apart, self.found) => unjudged(Why::Ended),
                Parting::Behind if is_in_rooted(apart, self.details, caller) => {
                    unjudged(Why::Rooted);
                }
                Parting::Behind => parts.late.push(apart),
                Parting::Unknown(why) => unjudged(why),
            }
        }
        parts
    }

    /// What differs if sides are of one communicator that has more ranks than the log.
    pub(super) fn few(&self, compared: &Compared, accounts: &[Account]) -> Option<Finding> {
        // Where lines are lost, only NCCL's own numbers say which call is which.
        let sound = self.streams.counts || !accounts.iter().any(is_damaged);
        let few = compared.few.as_ref().filter(|_| sound)?;
        absent_members::finding(few, self.details, |n| self.caller(n), self.names)
    }

    /// Processes that alone stopped, of the jobs that otherwise seem to go on.
    fn lone_stops(&self, stops: Stops<'_>, going_on: &BTreeSet<u32>) -> Vec<Lone> {
        let alone = self.tail(stops.steps, |process| stops.job(process)).alone();
        let alone = alone.into_iter().filter(|(job, _)| going_on.contains(job));
        alone.map(|(_, lone)| lone).collect()
    }
}

/// True where all these calls of a stream could be read again.
pub(super) fn is_held(details: &Details, key: (Caller, Way), calls: Range<u64>) -> bool {
    let all = details.get(&key).map_or(&[][..], |all| all);
    let known = all.partition_point(|call| call.seq < calls.end)
        - all.partition_point(|call| call.seq < calls.start);
    known as u64 == calls.end.saturating_sub(calls.start)
}

/// The differences before which nothing went wrong: what the ranks call afterwards follows from it.
fn first_of(met: &Met, all: Vec<(usize, Finding)>) -> Vec<Finding> {
    let is_first = |(communicator, finding): &(usize, Finding)| {
        finding
            .about
            .seq
            .is_none_or(|seq| met.is_first(*communicator, seq))
    };
    let (mut first, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(is_first);
    if first.is_empty() && !met.is_circle() {
        first = rest;
    } else if let (Some((_, finding)), more @ 1..) = (first.first_mut(), rest.len()) {
        finding.why += &format!(
            "; calls also differ on {} as a consequence",
            counted(more as u64, "other communicator")
        );
    }
    first.into_iter().map(|(_, finding)| finding).collect()
}

/// True where most members have made their last call with the others, who went on by one, and it is
/// one that its root is done with before them: they may be in it still, and wait for what is wrong.
fn is_in_rooted(apart: &Apart, details: &Details, caller: impl Fn(u32) -> Caller) -> bool {
    let calls = || apart.members.iter().map(|m| m.before);
    let (least, most) = (calls().min().unwrap_or(0), calls().max().unwrap_or(0));
    let many = calls().filter(|&n| n == least).count();
    let last = |member: &Ranked| {
        let list = details.get(&(caller(member.caller?), Way::Collective))?;
        list.iter().find(|call| call.seq + 1 == least)
    };
    let call = apart
        .members
        .iter()
        .find(|m| m.before == least)
        .and_then(last);
    least + 1 == most && 2 * many > apart.members.len() && call.is_some_and(|c| has_root(&c.op))
}
