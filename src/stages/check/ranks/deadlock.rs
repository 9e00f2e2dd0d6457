//! What the ranks' last calls on all communicators together show: which differences come first,
//! and who keeps whom waiting in a circle.

use super::mismatch::{self, Details};
use super::names::{self, Names};
use super::replay::{Circle, Event, Replay, Step, Stuck};
use super::unusual_lag;
use super::whole_steps::{self, Uneven};
use crate::stages::check::finding::{Finding, Severity, Sure};
use crate::stages::check::streams::compare::{Compared, Ranked, Unpaired};
use crate::stages::check::streams::{Caller, Streams, Way};
use crate::stages::check::wording::{counted, verb};
use crate::stages::communicators::{Found, Gpu, gpu};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// So many calls before one are compared with those before another.
const CONTEXT: usize = 16;

/// What the last calls show.
pub(crate) struct Met {
    /// The communicators, as [`Event`]s number them: their number, and their members.
    communicators: Vec<(usize, Vec<Ranked>)>,
    /// The members' programs.
    members: Vec<Vec<u32>>,
    /// The first call of each that was let meet.
    from: Vec<u64>,
    programs: Vec<Vec<Step>>,
    /// Of each program its sends and receives: the stream, and how many collectives are before.
    between: Vec<Vec<(u32, usize)>>,
    /// The program of each GPU.
    numbers: FxHashMap<Gpu, u32>,
    stuck: Stuck,
    /// The circle that keeps the ranks for good, if there is one.
    circle: Option<Circle>,
    /// The log reports that the job failed.
    failed: bool,
    /// Whether a communicator's slowest members stopped, by their lines.
    stopped: BTreeMap<usize, bool>,
    /// Jobs of which two sides are whole steps apart.
    uneven: Vec<Uneven>,
}

/// Who is to blame for a circle: the ranks, what they wait in, and what the others wait in.
struct Blamed {
    ranks: Vec<u32>,
    own: Event,
    others: Event,
    waiting: Vec<u32>,
    is_sure: bool,
}

/// Lets the last calls meet; `failed` where the log reports that the job failed.
pub(crate) fn meet(compared: &Compared, found: &Found, streams: &Streams, failed: bool) -> Met {
    let calls = streams.tail();
    // A rank is a GPU; one with two places in a communicator has no one program.
    let of = |members: &[Ranked]| -> Vec<Gpu> {
        members.iter().map(|m| gpu(&found.sides[m.side])).collect()
    };
    // Whose calls those on an address are that was used again is known by the id alone.
    let mut lives: FxHashMap<(u32, u64), u32> = FxHashMap::default();
    for side in &found.sides {
        *lives.entry((side.process, side.comm)).or_default() += 1;
    }
    let is_clear = |member: &Ranked| {
        let side = &found.sides[member.side];
        side.comm_id.is_some() || lives.get(&(side.process, side.comm)) == Some(&1)
    };
    let mut numbers: FxHashMap<Gpu, u32> = FxHashMap::default();
    let (mut communicators, mut members) = (Vec::new(), Vec::new());
    for (at, ranked) in &compared.judged {
        let gpus = of(ranked);
        let distinct: FxHashSet<&Gpu> = gpus.iter().collect();
        if distinct.len() < gpus.len() || !ranked.iter().all(is_clear) {
            continue;
        }
        let number = |gpu| {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            *numbers.entry(gpu).or_insert(next)
        };
        members.push(gpus.into_iter().map(number).collect::<Vec<u32>>());
        communicators.push((*at, ranked.clone()));
    }
    // Whose collectives a stream is.
    let mut whose: FxHashMap<u32, (u32, u32)> = FxHashMap::default();
    for (at, ((_, ranked), programs)) in (0..).zip(communicators.iter().zip(&members)) {
        for (member, &program) in ranked.iter().zip(programs) {
            let key = member.caller.map(|caller| (caller, Way::Collective));
            let stream = key.and_then(|key| streams.at.get(&key));
            whose.extend(stream.map(|&stream| (stream, (at, program))));
        }
    }
    // Of what is not kept of all members nothing is known.
    let mut first: FxHashMap<u32, u64> = FxHashMap::default();
    for call in &calls {
        first.entry(call.stream).or_insert(call.seq);
    }
    let mut begun: Vec<Vec<(u32, u64)>> = Vec::with_capacity(members.len());
    for ((_, ranked), programs) in communicators.iter().zip(&members) {
        let begins = |member: &Ranked| {
            let key = member.caller.map(|caller| (caller, Way::Collective));
            let stream = key.and_then(|key| streams.at.get(&key));
            let kept = stream.and_then(|stream| first.get(stream)).copied();
            kept.unwrap_or(member.before)
        };
        let all = programs.iter().zip(ranked);
        begun.push(
            all.map(|(&program, member)| (program, begins(member)))
                .collect(),
        );
    }
    let most = |all: &Vec<(u32, u64)>| all.iter().map(|(_, made)| *made).max().unwrap_or(0);
    let from: Vec<u64> = begun.iter().map(most).collect();
    let mut of_between: FxHashMap<u32, u32> = FxHashMap::default();
    for ((_, ranked), programs) in communicators.iter().zip(&members) {
        for (member, &program) in ranked.iter().zip(programs) {
            let ways = member.caller.map(|caller| (caller, streams.ways(caller)));
            for (caller, way) in ways
                .iter()
                .flat_map(|(c, ways)| ways.iter().map(move |w| (*c, *w)))
            {
                if way != Way::Collective
                    && let Some(&stream) = streams.at.get(&(caller, way))
                {
                    of_between.insert(stream, program);
                }
            }
        }
    }
    let mut programs: Vec<Vec<Step>> = vec![Vec::new(); numbers.len()];
    let mut between = vec![Vec::new(); numbers.len()];
    for call in &calls {
        if let Some(&program) = of_between.get(&call.stream) {
            let program = program as usize;
            between[program].push((call.stream, programs[program].len()));
        } else if let Some(&(at, program)) = whose.get(&call.stream)
            && call.seq >= from[at as usize]
        {
            programs[program as usize].push(Step {
                event: (at, call.seq),
                mark: call.mark,
            });
        }
    }
    let stuck = Replay {
        members: &members,
        programs: &programs,
    }
    .run();
    let stopped = unusual_lag::stopped(&calls, |stream| whose.get(&stream).copied(), &begun);
    let place = |stream: u32| {
        let own = whose.get(&stream).map(|&(at, program)| (Some(at), program));
        own.or_else(|| Some((None, *of_between.get(&stream)?)))
    };
    let uneven = whole_steps::uneven(&calls, place, &begun);
    let number = |at: u32| communicators[at as usize].0;
    let stopped = stopped.iter().map(|(&at, &is)| (number(at), is));
    let mut met = Met {
        stopped: stopped.collect(),
        uneven,
        communicators,
        members,
        from,
        programs,
        between,
        numbers,
        stuck,
        circle: None,
        failed,
    };
    met.circle = met.last_circle().cloned();
    met
}

impl Met {
    /// The circle that the ranks did not come out of. One whose calls were all made is one only where
    /// there is no other, and the ranks did not go on for long or the job failed.
    fn last_circle(&self) -> Option<&Circle> {
        let circles = &self.stuck.circles;
        if let Some(circle) = circles.iter().find(|circle| !circle.is_made) {
            return Some(circle);
        }
        let [circle] = &circles[..] else { return None };
        let went_on = |&(rank, at): &(u32, usize)| {
            let rest = self.programs[rank as usize].len() - at;
            !self.failed && rest > at / 4 + 64
        };
        (!circle.waits.values().flatten().any(went_on)).then_some(circle)
    }

    /// True where ranks wait for each other in a circle.
    pub(crate) fn is_circle(&self) -> bool {
        self.circle.is_some()
    }

    /// Whether a communicator's slowest members stopped, where their lines tell.
    pub(crate) fn is_stopped(&self, communicator: usize) -> Option<bool> {
        self.stopped.get(&communicator).copied()
    }

    /// True where nothing went wrong before this call, as far as the last calls show it.
    pub(crate) fn is_first(&self, communicator: usize, seq: u64) -> bool {
        let at = self.communicators.iter().position(|c| c.0 == communicator);
        at.is_none_or(|at| {
            let event = (u32::try_from(at).unwrap_or(u32::MAX), seq);
            seq < self.from[at] || self.stuck.different.contains(&event)
        })
    }

    /// The two sides of a communicator's job, where they are whole steps apart.
    pub(crate) fn uneven(&self, communicator: usize) -> Option<&Uneven> {
        let is_it = |&at: &u32| self.communicators[at as usize].0 == communicator;
        let mut all = self.uneven.iter();
        all.find(|uneven| uneven.communicators.iter().any(is_it))
    }

    /// How many messages of a pair were sent and received before the last collective that both
    /// ranks made; `None` where none is known.
    pub(crate) fn settled(
        &self,
        pair: &Unpaired,
        found: &Found,
        streams: &Streams,
    ) -> Option<(u64, u64)> {
        let program = |member: &Ranked| {
            let at = self.numbers.get(&gpu(&found.sides[member.side]))?;
            Some(*at as usize)
        };
        let (from, to) = (program(&pair.from)?, program(&pair.to)?);
        let steps = self.programs[to].iter().enumerate();
        let places: FxHashMap<Event, usize> = steps.map(|(at, step)| (step.event, at)).collect();
        let (at_from, at_to) = (0..self.programs[from].len()).rev().find_map(|at| {
            let event = self.programs[from][at].event;
            Some((at, *places.get(&event)?))
        })?;
        let before = |member: &Ranked, way: Way, program: usize, at: usize| {
            let stream = streams.at.get(&(member.caller?, way));
            let Some(&stream) = stream else {
                return Some(0);
            };
            let later = self.between[program].iter();
            let later = later.filter(|(of, place)| *of == stream && *place > at);
            Some(streams.calls(stream) - later.count() as u64)
        };
        let sent = before(&pair.from, Way::Send(pair.to.peer()), from, at_from)?;
        let received = before(&pair.to, Way::Recv(pair.from.peer()), to, at_to)?;
        Some((sent, received))
    }

    fn member(&self, event: Event, rank: u32) -> Option<&Ranked> {
        let at = event.0 as usize;
        let place = self.members.get(at)?.iter().position(|&m| m == rank)?;
        self.communicators.get(at)?.1.get(place)
    }

    /// The calls of a circle's ranks: whose, and which.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = (u32, u64)> {
        let waits = self.circle.iter().flat_map(|circle| &circle.waits);
        waits.flat_map(move |(&event, ranks)| {
            let caller = move |&(rank, _): &(u32, usize)| self.member(event, rank)?.caller;
            ranks.iter().filter_map(caller).map(move |c| (c, event.1))
        })
    }

    /// How many of the calls before a rank's next one came before such a call before; `None` for a
    /// call that is the first of its kind.
    fn habit(&self, rank: u32, at: usize) -> Option<usize> {
        let program = self.programs.get(rank as usize)?;
        let kind = |step: &Step| (step.event.0, step.mark);
        let head = kind(program.get(at)?);
        let alike = |end: usize| {
            let pairs = program[..end].iter().rev().zip(program[..at].iter().rev());
            let same = pairs.take_while(|(a, b)| kind(a) == kind(b));
            same.take(CONTEXT).count()
        };
        let before = (0..at).filter(|&end| kind(&program[end]) == head);
        before.map(alike).max()
    }

    /// Who is to blame: of two collectives whose members wait in one for the other, the fewer.
    fn blamed(&self, circle: &Circle) -> Option<Blamed> {
        let mut best: Option<Blamed> = None;
        for (&a, at_a) in &circle.waits {
            for (&b, at_b) in circle.waits.range((a.0, a.1 + 1)..) {
                let shared = |ranks: &[(u32, usize)], of: Event| -> Vec<(u32, usize)> {
                    let is = |rank: &u32| self.member(of, *rank).is_some();
                    ranks.iter().filter(|(rank, _)| is(rank)).copied().collect()
                };
                let (in_a, in_b) = (shared(at_a, b), shared(at_b, a));
                if in_a.is_empty() || in_b.is_empty() {
                    continue;
                }
                let habit = |ranks: &[(u32, usize)]| {
                    let all = ranks.iter().map(|&(rank, at)| self.habit(rank, at));
                    all.min().flatten()
                };
                let fewer = match in_a.len().cmp(&in_b.len()) {
                    std::cmp::Ordering::Equal => None,
                    order => Some(order.is_lt()),
                };
                // A call of a new kind ends what the others go on with.
                let habits = (habit(&in_a), habit(&in_b));
                let is_clear = matches!(habits, (Some(a), Some(b)) if a.abs_diff(b) >= CONTEXT / 4);
                let is_unused = match habits {
                    (Some(a), Some(b)) if a != b => Some(a < b),
                    (Some(_), None) => Some(true),
                    (None, Some(_)) => Some(false),
                    _ => None,
                };
                let is_a = fewer.or(is_unused);
                let (ranks, own, others, waiting) = match is_a {
                    Some(false) => (in_b, b, a, at_a),
                    _ => (in_a, a, b, at_b),
                };
                let first = |list: &[(u32, usize)]| list.iter().map(|(rank, _)| *rank).collect();
                let blamed = Blamed {
                    ranks: first(&ranks),
                    own,
                    others,
                    waiting: first(waiting),
                    is_sure: fewer.is_some() || is_clear,
                };
                // The most wait for those who keep them.
                let rank = |b: &Blamed| (b.is_sure, b.waiting.len());
                if best.as_ref().is_none_or(|best| rank(&blamed) > rank(best)) {
                    best = Some(blamed);
                }
            }
        }
        best
    }

    /// The finding on the circle.
    pub(crate) fn finding(
        &self,
        details: &Details,
        caller: impl Fn(u32) -> Caller,
        names: Names<'_>,
    ) -> Option<Finding> {
        let circle = self.circle.as_ref()?;
        let blamed = self.blamed(circle).or_else(|| self.any_of(circle))?;
        let of = |event: Event, ranks: &[u32]| -> Vec<Ranked> {
            let members = ranks.iter().filter_map(|&rank| self.member(event, rank));
            members.copied().collect()
        };
        let call = |event: Event, member: &Ranked| {
            let key = (caller(member.caller?), Way::Collective);
            details.get(&key)?.iter().find(|call| call.seq == event.1)
        };
        let wrong = of(blamed.own, &blamed.ranks);
        let right = of(blamed.others, &blamed.waiting);
        let (one, other) = (wrong.first()?, right.first()?);
        let lacks = self.member(blamed.others, *blamed.ranks.first()?);
        let place = |event: Event, member: &Ranked| {
            let communicator = names.communicator(self.communicators[event.0 as usize].0);
            let what = call(event, member).map(names::call);
            let what = what.map_or_else(String::new, |what| format!(", {what}"));
            format!("call {}{what} on communicator {communicator}", event.1)
        };
        let circled: usize = circle.waits.values().map(Vec::len).sum();
        let rest = circled - blamed.ranks.len() - blamed.waiting.len();
        let more = match rest {
            0 => String::new(),
            n => format!("; the circle has {}", counted(n as u64, "more rank")),
        };
        let says = match lacks {
            Some(_) => format!(
                "deadlock: {} {} not made {}, and {} {} for it; {} in {}, which the others have \
                 not made{}{more}",
                names.ranks(&wrong),
                verb(wrong.len(), "has", "have"),
                place(blamed.others, other),
                names.ranks(&right),
                verb(right.len(), "waits", "wait"),
                verb(wrong.len(), "it waits", "they wait"),
                place(blamed.own, one),
                ": two communicators in crossed order, or a call left out",
            ),
            None => format!(
                "deadlock: {} {} in {}, while {} {} in {}: each waits for the other{more}",
                names.ranks(&wrong),
                verb(wrong.len(), "waits", "wait"),
                place(blamed.own, one),
                names.ranks(&right),
                verb(right.len(), "waits", "wait"),
                place(blamed.others, other),
            ),
        };
        let evidence = [(blamed.own, one), (blamed.others, other)];
        let evidence = evidence.iter().filter_map(|(event, m)| call(*event, m));
        let of = lacks.map_or(blamed.own, |_| blamed.others);
        let communicator = self.communicators[of.0 as usize].0;
        let mut why =
            "no order of the calls lets all ranks complete them, wherever the log ends".to_owned();
        if !blamed.is_sure {
            why += "; both sides have the same number of ranks, so the wrong side is unknown";
        }
        Some(Finding {
            id: "deadlock",
            severity: Severity::Error,
            says,
            about: names.about(lacks.unwrap_or(one), communicator, of.1),
            sure: match blamed.is_sure && (self.failed || !circle.is_made) {
                true => Sure::High,
                false => Sure::Medium,
            },
            why,
            advice:
                "ranks that share two communicators must use them in the same order: look for a \
                     branch that only some ranks take between these two calls, and for calls from \
                     several threads"
                    .to_owned(),
            evidence: evidence.map(mismatch::spot).collect(),
        })
    }

    /// Of a longer circle: those in the collective that the fewest wait in, and others.
    fn any_of(&self, circle: &Circle) -> Option<Blamed> {
        let mut waits: Vec<_> = circle.waits.iter().collect();
        waits.sort_by_key(|(event, ranks)| (ranks.len(), **event));
        let first = |list: &[(u32, usize)]| list.iter().map(|(rank, _)| *rank).collect();
        let (own, ranks) = waits.first()?;
        let (others, waiting) = waits.last()?;
        Some(Blamed {
            ranks: first(ranks),
            own: **own,
            others: **others,
            waiting: first(waiting),
            is_sure: false,
        })
    }
}
