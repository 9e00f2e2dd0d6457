//! Did the ranks call the same things, and if not, who and where: from the hashes of their calls to
//! findings.

mod absent_members;
mod deadlock;
pub(crate) mod fewer_calls;
mod lone_stop;
pub(crate) mod mismatch;
pub(crate) mod names;
mod replay;
mod same_kind;
pub(super) mod stopped;
pub(super) mod unnamed_communicators;
mod unpaired_messages;
mod unusual_lag;
mod whole_steps;
mod wrong_peer;

use super::evidence;
use super::finding::{About, Evidence, Finding, Severity, Spot, Sure};
use super::log::job_spans::{Jobs, Silence};
use super::streams::compare::{Apart, Begins, Compared, Ranked, Unpaired, Whose, compare, whose};
use super::streams::reread::{Wanted, again};
use super::streams::why::Why;
use super::streams::{BLOCK, Caller, Streams, Way};
use super::walk::Walked;
use super::watchdog::nccl_call;
use super::watchdog::{Watched, What};
use super::wording::{counted, listed};
use crate::count::calls::Options;
use crate::error::Result;
use crate::formats::account::Account;
use crate::grammar::values::has_root;
use crate::source::Input;
use crate::stages::communicators::{Found, State};
use crate::stages::net::all::First;
use deadlock::Met;
use fewer_calls::{Behind, End, LastCalls};
use mismatch::{AHEAD, Details, Parting};
use names::Names;
use rustc_hash::FxHashMap;
use same_kind::Kin;
use std::collections::{BTreeMap, BTreeSet};
use stopped::{Failures, Stops};
use unnamed_communicators::Open;

/// What is known of the ranks' calls.
pub(crate) struct Ranks {
    /// What the hashes say.
    pub(crate) compared: Compared,
    /// What is wrong.
    pub(crate) findings: Vec<Finding>,
}

/// The inputs, to be read again.
pub(crate) struct Inputs<'a, F: Fn(u32) -> Result<Input>> {
    /// Opens an input by its number.
    pub(crate) open: F,
    /// For each input the processes with lines in it.
    pub(crate) processes: &'a [BTreeSet<u32>],
    /// Where their lines went.
    pub(crate) accounts: &'a [Account],
    /// What is known of them.
    pub(crate) walked: &'a [Walked],
    /// How they are read.
    pub(crate) options: &'a Options,
    /// They look as if they had been cut out of longer ones.
    pub(crate) cut: bool,
}

/// Compares the ranks' calls and says what is wrong.
///
/// # Errors
/// An input cannot be read again.
pub(crate) fn ranks<F: Fn(u32) -> Result<Input>>(
    found: &Found,
    open: &Open,
    streams: &Streams,
    (watched, end, failures): (&[Watched], End, &Failures),
    inputs: &Inputs<'_, F>,
) -> Result<Ranks> {
    let begins = begins(streams, inputs.cut);
    let compared = compare(found, open, streams, inputs.accounts, begins);
    let late = |w: &Watched| matches!(w.what, What::Timeout(_));
    let hung = watched.iter().any(late);
    let met = deadlock::meet(&compared, found, streams, end.failed);
    let differ = met.is_circle() || !compared.apart.is_empty() || !compared.unpaired.is_empty();
    if !differ && compared.few.is_none() && !hung {
        return Ok(Ranks {
            compared,
            findings: Vec::new(),
        });
    }
    judge(
        (compared, &met),
        (found, streams),
        (watched, end, failures),
        inputs,
    )
}

/// Where the log begins, by NCCL's own count or by what it looks like.
fn begins(streams: &Streams, cut: bool) -> Begins {
    match (streams.is_late(), cut && !streams.counts) {
        (true, _) => Begins::Late,
        (false, true) => Begins::Unsure,
        _ => Begins::First,
    }
}

/// Reads again what differs, and says who and where.
fn judge<F: Fn(u32) -> Result<Input>>(
    (mut compared, met): (Compared, &Met),
    (found, streams): (&Found, &Streams),
    (watched, end, failures): (&[Watched], End, &Failures),
    inputs: &Inputs<'_, F>,
) -> Result<Ranks> {
    let whose = whose(found, streams);
    let kin = same_kind::kin(&compared.apart, &whose, found);
    let mut silence = Silence::new(Jobs::of(found));
    let read = (inputs, &mut silence);
    let details = read_again((&compared, met), &kin, found, streams, read)?;
    let stops = Stops {
        found,
        silence: &silence,
        failures,
        lags: met,
    };
    let names = Names { found };
    let case = Case {
        found,
        streams,
        details: &details,
        met,
        names,
    };
    let last = last_calls(&details, streams, &whose);
    let mut unjudged = drop_ended(&mut compared.unpaired, found);
    let parts = case.parts(&compared.apart, &kin);
    unjudged.extend(parts.unjudged);
    let caller = |number: u32| case.caller(number);
    let mut findings = first_of(met, parts.different);
    findings.extend(met.finding(&details, caller, names));
    let few = case.few(&compared, inputs.accounts);
    let doubts = doubts(&compared, found);
    let different = !findings.is_empty();
    let behind = fewer_calls::behind(
        &parts.late,
        &compared.unpaired,
        &last,
        names,
        (end, stops),
        &nccl_call::waiting(watched, names),
    );
    let goes_on = |communicator: usize| {
        let job = stops.job_of(communicator);
        job.is_some_and(|job| behind.going_on.contains(&job))
    };
    unjudged.extend(running(&parts.late, &compared.unpaired, goes_on));
    if !different {
        findings.extend(case.wrong_peers(&compared.unpaired, goes_on));
    }
    // That one side is behind another is no finding where nothing shows that the job stopped.
    compared
        .unpaired
        .retain(|pair| pair.sent == pair.received || !goes_on(pair.communicator));
    let messages = case.pairs(&compared.unpaired, &last);
    let told = different || !findings.is_empty();
    let going_on = behind.going_on.clone();
    findings.extend(messages.lacking(caller, names, behind, told));
    if findings.is_empty() && !failures.running {
        findings.extend(case.lone_stops(&whose, stops, &going_on, &last));
    }
    leave_unjudged(&mut compared, unjudged);
    evidence::resolve(&mut findings, inputs.walked, &inputs.open)?;
    doubt_all(
        &mut findings,
        &mut compared,
        &doubts,
        (inputs, streams, end),
    );
    if !findings.is_empty() {
        findings.extend(stopped(&last, found));
    }
    findings.extend(nccl_call::findings(
        watched,
        &details,
        &case.made(),
        &whose,
        names,
    ));
    findings.extend(few);
    Ok(Ranks { compared, findings })
}

/// What is known of the calls where ranks differ.
#[derive(Clone, Copy)]
struct Case<'a> {
    found: &'a Found,
    streams: &'a Streams,
    details: &'a Details,
    met: &'a Met,
    names: Names<'a>,
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

impl<'a> Case<'a> {
    fn caller(&self, number: u32) -> Caller {
        *self.streams.callers.get(number)
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
    fn few(&self, compared: &Compared, accounts: &[Account]) -> Option<Finding> {
        // Where lines are lost, only NCCL's own numbers say which call is which.
        let sound = self.streams.counts || !accounts.iter().any(is_damaged);
        let few = compared.few.as_ref().filter(|_| sound)?;
        absent_members::finding(few, self.details, |n| self.caller(n), self.names)
    }

    /// Messages that went to a wrong peer: what is settled first; what follows from it is not told
    /// of.
    fn wrong_peers(&self, unpaired: &[Unpaired], goes_on: impl Fn(usize) -> bool) -> Vec<Finding> {
        let line = |odd: &wrong_peer::Odd<'_>| self.unmet(odd);
        let counts = |pair: &Unpaired| self.met.settled(pair, self.found, self.streams);
        let settled: Vec<wrong_peer::Odd<'_>> = unpaired
            .iter()
            .filter_map(|pair| counts(pair).map(|counts| wrong_peer::Odd { pair, counts }))
            .filter(|odd| odd.counts.0 != odd.counts.1)
            .collect();
        if !settled.is_empty() {
            return wrong_peer::findings(&settled, true, self.names, line);
        }
        let all: Vec<wrong_peer::Odd<'_>> = unpaired
            .iter()
            .filter(|pair| pair.before.0 != pair.before.1)
            .map(|pair| wrong_peer::Odd {
                pair,
                counts: pair.before,
            })
            .collect();
        if all.iter().any(|odd| !goes_on(odd.pair.communicator)) || wrong_peer::is_new(&all) {
            return wrong_peer::findings(&all, false, self.names, line);
        }
        Vec::new()
    }

    /// The call that nobody met, by the side that made it.
    fn unmet(&self, odd: &wrong_peer::Odd<'_>) -> Option<Evidence> {
        let (pair, (sent, received)) = (odd.pair, odd.counts);
        let (member, way) = match sent < received {
            true => (&pair.to, Way::Recv(pair.from.peer())),
            false => (&pair.from, Way::Send(pair.to.peer())),
        };
        let calls = self.details.get(&(self.caller(member.caller?), way))?;
        let at = calls
            .iter()
            .rev()
            .find(|call| call.seq <= sent.min(received));
        at.or(calls.last()).map(mismatch::spot)
    }

    /// Processes that alone stopped, of the jobs that otherwise seem to go on.
    fn lone_stops(
        &self,
        whose: &FxHashMap<Caller, Whose>,
        stops: Stops<'_>,
        going_on: &BTreeSet<u32>,
        last: &LastCalls<'_>,
    ) -> Vec<Finding> {
        let mut process_of: FxHashMap<u32, u32> = FxHashMap::default();
        for ((number, _), &stream) in &self.streams.at {
            let own = whose.get(&self.caller(*number));
            process_of.extend(own.map(|own| (stream, own.process)));
        }
        let process = |stream: u32| process_of.get(&stream).copied();
        let alone = lone_stop::alone(&self.streams.tail(), process, |process| stops.job(process));
        let alone = alone.into_iter().filter(|(job, _)| going_on.contains(job));
        alone
            .filter_map(|(_, process)| lone_stop::finding(process, last, self.names))
            .collect()
    }

    /// The messages that do not fit.
    fn pairs(&self, unpaired: &'a [Unpaired], last: &'a LastCalls<'a>) -> Pairs<'a> {
        Pairs {
            unpaired,
            details: self.details,
            last,
            found: self.found,
        }
    }

    /// How many collectives each caller made.
    fn made(&self) -> FxHashMap<Caller, u64> {
        let all = self.streams.at.iter();
        let collectives = all.filter(|((_, way), _)| *way == Way::Collective);
        collectives
            .map(|((number, _), &at)| (self.caller(*number), self.streams.calls(at)))
            .collect()
    }
}

/// Drops the pairs of which the side that made more calls ended the communicator in order.
fn drop_ended(unpaired: &mut Vec<Unpaired>, found: &Found) -> Vec<(Why, usize)> {
    let mut unjudged = Vec::new();
    unpaired.retain(|pair| {
        let more = if pair.sent > pair.received {
            &pair.from
        } else {
            &pair.to
        };
        let ended = pair.sent != pair.received && has_ended(more, found);
        if ended {
            unjudged.push((Why::Ended, pair.communicator));
        }
        !ended
    });
    unjudged
}

/// The communicators on which some made fewer calls or one side of messages is missing, while the
/// job goes on.
fn running(
    late: &[&Apart],
    unpaired: &[Unpaired],
    goes_on: impl Fn(usize) -> bool,
) -> Vec<(Why, usize)> {
    let late = late.iter().map(|apart| apart.communicator);
    let lacking = unpaired.iter().filter(|pair| pair.sent != pair.received);
    let those = late.chain(lacking.map(|pair| pair.communicator));
    those
        .filter(|&at| goes_on(at))
        .map(|at| (Why::Running, at))
        .collect()
}

/// Takes communicators out of those that differ. Each is told of once, with what was found first.
fn leave_unjudged(compared: &mut Compared, unjudged: Vec<(Why, usize)>) {
    let mut unsure: BTreeMap<usize, Why> = BTreeMap::new();
    for (why, at) in unjudged {
        unsure.entry(at).or_insert(why);
    }
    compared
        .apart
        .retain(|a| !unsure.contains_key(&a.communicator));
    for (communicator, why) in unsure {
        compared.unjudged.entry(why).or_default().push(communicator);
    }
}

/// Drops the findings that the log may be to blame for, and says of the others how sure they are.
fn doubt_all<F: Fn(u32) -> Result<Input>>(
    findings: &mut Vec<Finding>,
    compared: &mut Compared,
    doubts: &Option<(Sure, String)>,
    (inputs, streams, end): (&Inputs<'_, F>, &Streams, End),
) {
    let mut dropped: BTreeSet<Why> = BTreeSet::new();
    findings.retain(|finding| {
        let why = doubtful(finding, inputs, streams.counts, end);
        dropped.extend(why);
        why.is_none()
    });
    for finding in findings {
        doubt(finding, inputs.accounts);
        if !streams.counts {
            doubt_parts(finding, inputs.walked);
        }
        doubt_members(finding, doubts, compared);
    }
    if let Some(why) = dropped.pop_first() {
        let apart = compared.apart.drain(..).map(|apart| apart.communicator);
        let pairs = compared.unpaired.drain(..).map(|pair| pair.communicator);
        let those: BTreeSet<usize> = apart.chain(pairs).collect();
        compared.unjudged.entry(why).or_default().extend(those);
    }
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

/// True where the member ended the communicator in order: it waits for nobody.
fn has_ended(member: &Ranked, found: &Found) -> bool {
    found.sides[member.side].state == State::Destroyed
}

/// True where a member that made more calls than others was not kept waiting by them.
fn is_over(apart: &Apart, found: &Found) -> bool {
    let least = apart.members.iter().map(|m| m.before).min();
    let mut ahead = apart.members.iter().filter(|m| Some(m.before) > least);
    ahead.any(|member| has_ended(member, found))
}

/// Why it may be the log that is not right, if it may be. One that says itself that the job failed
/// was not cut out of the log of a healthy one.
fn doubtful<F: Fn(u32) -> Result<Input>>(
    finding: &Finding,
    inputs: &Inputs<'_, F>,
    counts: bool,
    end: End,
) -> Option<Why> {
    if !is_certain(finding, inputs) {
        return Some(Why::Damaged);
    }
    if end.said {
        return None;
    }
    let mut used = inputs.walked.iter().filter(|w| w.sums.last_gap().is_some());
    if lacks(finding) && used.all(|input| input.cuts.at_end) {
        return Some(Why::Edge);
    }
    let is_behind = |evidence: &Evidence| {
        let input = inputs.walked.get(evidence.at.input() as usize);
        let line = evidence.at.line();
        input
            .zip(line)
            .is_some_and(|(input, line)| input.cuts.is_behind(line))
    };
    (!counts && finding.evidence.iter().any(is_behind)).then_some(Why::Seam)
}

/// True for a finding that something was not done: it shows at the end of the log.
fn lacks(finding: &Finding) -> bool {
    matches!(
        finding.id,
        "rank_behind" | "rank_silent" | "p2p_missing_counterpart"
    )
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

/// True where no call can have been lost in front of the lines that show the finding: calls are
/// numbered from the start. What is missing may be lost on any damaged line.
fn is_certain<F: Fn(u32) -> Result<Input>>(finding: &Finding, inputs: &Inputs<'_, F>) -> bool {
    if lacks(finding) {
        return !inputs.accounts.iter().any(is_damaged);
    }
    finding.evidence.iter().all(|evidence| {
        let Spot::Line(First { input, line }) = evidence.at else {
            return false;
        };
        inputs.accounts.get(input as usize).is_some_and(|account| {
            let first = account.places.first().map(|place| place.line);
            account.dropped == 0 && first.is_none_or(|first| line < first)
        })
    })
}

fn is_damaged(account: &Account) -> bool {
    account.damaged > 0 || account.dropped > 0
}

/// How sure it is who the members are of what differs, and why: where no line says it, the least.
fn doubts(compared: &Compared, found: &Found) -> Option<(Sure, String)> {
    let apart = compared.apart.iter().map(|apart| apart.communicator);
    let pairs = compared.unpaired.iter().map(|pair| pair.communicator);
    let told = apart
        .chain(pairs)
        .filter_map(|at| unnamed_communicators::told(&found.communicators[at]));
    let doubts = told.map(|(told, nranks)| unnamed_communicators::doubt(told, nranks));
    doubts.reduce(|a, b| if b.0 > a.0 { b } else { a })
}

/// Nothing is surer than who the members are; and who is behind may be known only by communicators
/// that are not compared.
fn doubt_members(finding: &mut Finding, doubts: &Option<(Sure, String)>, compared: &Compared) {
    let Some((sure, why)) = doubts else { return };
    let mut least = *sure;
    finding.why += &format!("; {why}");
    let untold = |why: &Why| matches!(why, Why::Unnamed | Why::Few(..) | Why::Several(..));
    let lacks = matches!(finding.id, "rank_behind" | "rank_silent");
    if lacks && compared.unjudged.keys().any(untold) {
        least = Sure::Low;
        finding.why += "; another rank may be behind on communicators that are not compared";
    }
    finding.sure = finding.sure.max(least);
    if *sure == Sure::Low {
        finding.severity = finding.severity.max(Severity::Warning);
    }
}

/// A line may be damaged so that nothing shows that it was a call: where others are damaged, none of
/// what is missing is sure.
fn doubt(finding: &mut Finding, accounts: &[Account]) {
    let is_damaged = |evidence: &Evidence| {
        let account = accounts.get(evidence.at.input() as usize);
        account.is_some_and(|account| account.damaged > 0)
    };
    if finding.sure == Sure::High && finding.evidence.iter().any(is_damaged) {
        finding.sure = Sure::Medium;
        finding.why += "; but other lines are damaged, and one of them may hide a call";
    }
}

/// A file whose step number falls may be put together of parts; where NCCL does not count its calls,
/// nothing else shows that some are missing between them.
fn doubt_parts(finding: &mut Finding, walked: &[Walked]) {
    let is_of_parts = |evidence: &Evidence| {
        let input = walked.get(evidence.at.input() as usize);
        let last = input.and_then(|input| input.timeline.steps.last());
        last.is_some_and(|step| step.segment > 0)
    };
    if finding.sure == Sure::High && finding.evidence.iter().any(is_of_parts) {
        finding.sure = Sure::Medium;
        finding.why += "; but the step number falls, so the file may consist of several parts";
    }
}

/// Messages that do not fit.
struct Pairs<'a> {
    unpaired: &'a [Unpaired],
    details: &'a Details,
    last: &'a LastCalls<'a>,
    found: &'a Found,
}

/// The side of a pair that made fewer calls.
fn lacking(pair: &Unpaired) -> &Ranked {
    let (sent, received) = pair.before;
    if sent < received {
        &pair.from
    } else {
        &pair.to
    }
}

impl Pairs<'_> {
    /// Who is behind and which messages lack a side; `told` where something else was found already.
    fn lacking(
        &self,
        caller: impl Fn(u32) -> Caller + Copy,
        names: Names<'_>,
        behind: Behind,
        told: bool,
    ) -> Vec<Finding> {
        let all = !told && behind.laggards.is_empty();
        let missing = self.findings(caller, names, &behind, (!told, all));
        let mut findings = Vec::new();
        if !told && missing.iter().all(|f| f.id != "p2p_missing_counterpart") {
            findings.extend(behind.findings);
        }
        findings.extend(missing);
        findings
    }

    /// The findings. A message whose other side is missing is one where that rank went on without
    /// it, or where nothing else explains it (`all`): a rank that stopped lacks many.
    fn findings(
        &self,
        caller: impl Fn(u32) -> Caller + Copy,
        names: Names<'_>,
        behind: &Behind,
        (shown, all): (bool, bool),
    ) -> Vec<Finding> {
        let last = |member: &Ranked| {
            let process = self.found.sides[member.side].process;
            self.last.get(&process).map_or(0, |(_, _, call)| call.nth)
        };
        let told = |pair: &Unpaired| {
            let lacking = lacking(pair);
            // Who went on is ahead of somebody; who stopped is of nobody, and behind on much.
            let process = self.found.sides[lacking.side].process;
            let stopped = behind.laggards.get(&process).is_some_and(|&lags| lags > 1);
            let left_out = (!stopped && pair.sent != pair.received)
                .then(|| unpaired_messages::left_out(pair, self.details, caller, last(lacking)))
                .flatten();
            let is_of_size = pair.sent == pair.received && shown;
            (all || is_of_size || shown && left_out.is_some())
                .then(|| unpaired_messages::unpaired(pair, left_out, self.details, caller, names))
                .flatten()
        };
        let all = self.unpaired.iter();
        let all: Vec<_> = all.filter_map(|pair| Some((pair, told(pair)?))).collect();
        let (of_size, mut rest): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|(pair, finding)| pair.sent == pair.received && finding.about.seq.is_some());
        rest.extend(wrong_peer::of_sizes(of_size, names));
        rest.into_iter().map(|(_, finding)| finding).collect()
    }
}

/// Reads the stretches in which streams part, and every stream's last call.
fn read_again<F: Fn(u32) -> Result<Input>>(
    (compared, met): (&Compared, &Met),
    kin: &Kin,
    found: &Found,
    streams: &Streams,
    (inputs, silence): (&Inputs<'_, F>, &mut Silence),
) -> Result<Details> {
    let mut wanted = Wanted::default();
    for ((caller, way), &at) in &streams.at {
        let calls = streams.calls(at);
        let key = (*streams.callers.get(*caller), *way);
        let last = calls.saturating_sub(nccl_call::BACK)..calls;
        wanted.entry(key).or_default().push(last);
    }
    for (number, seq) in met.wanted() {
        let key = (*streams.callers.get(number), Way::Collective);
        wanted.entry(key).or_default().push(seq..seq + 1);
    }
    let mut want = |caller: Option<Caller>, way: Way, block: u64| {
        let Some(caller) = caller else { return };
        // Of the block before it is seen what usually comes.
        let first = block.saturating_sub(1) * BLOCK;
        let stretch = first..(block + 1) * BLOCK + AHEAD;
        let ranges = wanted.entry((caller, way)).or_default();
        ranges.insert(0, stretch);
    };
    let caller = |member: &Ranked| member.caller.map(|caller| *streams.callers.get(caller));
    for apart in compared.apart.iter().chain(&compared.few) {
        for member in &apart.members {
            want(caller(member), Way::Collective, apart.block);
        }
        for &other in kin.get(&apart.communicator).into_iter().flatten() {
            want(Some(other), Way::Collective, apart.block);
        }
    }
    for pair in &compared.unpaired {
        want(caller(&pair.from), Way::Send(pair.to.peer()), pair.block);
        want(caller(&pair.to), Way::Recv(pair.from.peer()), pair.block);
    }
    let those = 0..u32::try_from(inputs.processes.len()).unwrap_or(u32::MAX);
    again(
        &wanted,
        &found.processes,
        those,
        &inputs.open,
        inputs.options,
        silence,
    )
}

fn last_calls<'d>(
    details: &'d Details,
    streams: &Streams,
    whose: &FxHashMap<Caller, Whose>,
) -> LastCalls<'d> {
    let mut last = LastCalls::new();
    for ((number, way), &stream) in &streams.at {
        let caller = *streams.callers.get(*number);
        let made = streams.calls(stream);
        let calls = details.get(&(caller, *way)).into_iter().flatten();
        let Some(call) = calls.rev().find(|call| call.seq < made) else {
            continue;
        };
        let Some(whose) = whose.get(&caller) else {
            continue;
        };
        let this = (whose.communicator, whose.rank, call);
        let known = last.entry(whose.process).or_insert(this);
        if (known.2.input, known.2.at) < (call.input, call.at) {
            *known = this;
        }
    }
    last
}

/// Where the job stopped: every rank's last call, equal ones together.
fn stopped(last: &LastCalls<'_>, found: &Found) -> Option<Finding> {
    type Group<'a> = Vec<&'a (usize, Option<u32>, &'a super::streams::reread::Detail)>;
    let mut groups: BTreeMap<(String, String), Group<'_>> = BTreeMap::new();
    for at in last.values() {
        let (communicator, _, call) = at;
        let label = found.communicators[*communicator].label.of.name();
        groups
            .entry((names::call(call), label.to_owned()))
            .or_default()
            .push(at);
    }
    if groups.len() < 2 {
        return None;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.len()));
    let told: Vec<String> = groups
        .iter()
        .map(|((call, label), group)| {
            let on = match &label[..] {
                "unknown" => String::new(),
                label => format!(" on a {label} communicator"),
            };
            format!("{}: {call}{on}", counted(group.len() as u64, "rank"))
        })
        .collect();
    let evidence: Vec<Evidence> = groups
        .iter()
        .take(4)
        .filter_map(|(_, group)| Some(mismatch::spot(group.first()?.2)))
        .collect();
    Some(Finding {
        id: "last_calls",
        severity: Severity::Note,
        says: format!("the ranks' last calls: {}", listed(&told)),
        about: About::default(),
        sure: Sure::High,
        why:
            "they are the last calls in the lines of their processes; a call is logged when it is \
              enqueued, and it may not have begun"
                .to_owned(),
        advice: "look first at the calls of the fewest ranks".to_owned(),
        evidence,
    })
}
