//! A chunk's bursts, and all chunks together. A burst that a chunk's edge cuts is put together
//! at the merge, so that the result does not depend on where the edges are.

use super::burst::{Burst, Fit, How, Line, Made, Match};
use crate::formats::log::Part;
use crate::grammar::coll::Coll;
use crate::grammar::message::Message;
use crate::grammar::message::tuning::Tuning;
use crate::join::Joined;
use crate::origin::Merged;
use crate::records::kind;
use crate::scan::{Call, Piece, Said, Visit};
use crate::tally::Ops;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A thread: its process, and its number where the line has one.
type Thread = (u32, Option<u64>);

/// What a thread printed in a chunk.
#[derive(Debug, Default)]
struct Stretch {
    /// The burst that the chunk's beginning may have cut, if another follows.
    lead: Option<Burst>,
    /// The last one, which may go on behind the chunk.
    open: Burst,
}

/// What NCCL tunes: AlltoAll, Gather and Scatter are sent and received.
const TUNED: [&[u8]; 5] = [
    b"AllReduce",
    b"AllGather",
    b"ReduceScatter",
    b"Broadcast",
    b"Reduce",
];

/// One chunk's bursts.
#[derive(Debug, Default)]
pub struct Partial {
    names: Ops,
    threads: FxHashMap<Thread, Stretch>,
    matches: FxHashMap<Match, u64>,
    /// Calls of each member that NCCL tunes.
    calls: FxHashMap<u32, u64>,
    /// Slots met.
    slots: u32,
    /// What comes behind the first slot that may get a call: where the merge puts one decides which
    /// burst it is in.
    late: Vec<Late>,
}

/// A line behind a slot.
#[derive(Debug)]
enum Late {
    Call(Thread, Made),
    Line(Thread, Line),
    Slot(u32),
}

/// What a call is to the join, if it is no Send or Recv.
fn made(names: &mut Ops, member: u32, coll: &Coll<'_>) -> Option<Made> {
    let (op, kind) = names.intern(coll.op);
    (kind != crate::records::Kind::PointToPoint).then_some(Made {
        member,
        op,
        count: coll.count,
        datatype: coll.datatype,
        nranks: coll.nranks,
    })
}

impl Partial {
    fn made(&mut self, thread: Thread, made: Made) {
        let stretch = self.threads.entry(thread).or_default();
        if stretch.open.is_over() {
            let burst = std::mem::take(&mut stretch.open);
            if stretch.lead.is_none() {
                stretch.lead = Some(burst);
            } else {
                count(&mut self.matches, &burst, &self.names);
            }
        }
        *stretch.open.calls.entry(made).or_default() += 1;
    }
}

impl Visit for Partial {
    const MESSAGES: bool = true;

    #[inline]
    fn call(&mut self, call: &Call<'_>) {
        let Some(made) = made(&mut self.names, call.member, &call.coll) else {
            return;
        };
        if TUNED.contains(&call.coll.op) {
            *self.calls.entry(call.member).or_default() += 1;
        }
        let thread = (call.process, call.tid);
        if self.late.is_empty() {
            self.made(thread, made);
        } else {
            self.late.push(Late::Call(thread, made));
        }
    }

    fn slot_of(&mut self, piece: &Piece) {
        // A step line joins nothing.
        if !matches!(piece, Piece::Close) {
            self.late.push(Late::Slot(self.slots));
        }
        self.slots += 1;
    }

    fn message(&mut self, said: &Said<'_>) {
        let Message::Tuning(tuning) = &said.message else {
            return;
        };
        let mut number = |name: &[u8]| self.names.intern(name).0;
        let line = match *tuning {
            Tuning::Choice(choice) => Line {
                op: choice.op.map(&mut number),
                bytes: choice.bytes,
                how: How::By(choice.algorithm, choice.protocol),
                channels: choice
                    .channels
                    .map(|(first, last)| last.saturating_sub(first) + 1),
                api: choice.channels.is_some(),
            },
            Tuning::Symmetric(kernel) => Line {
                op: Some(number(kernel.op)),
                bytes: kernel.bytes,
                how: How::Kernel(number(kernel.kernel)),
                channels: Some(kernel.channels),
                api: true,
            },
            Tuning::CopyEngine { op, bytes } => Line {
                op: Some(number(op)),
                bytes,
                how: How::CopyEngine,
                channels: None,
                api: true,
            },
        };
        let thread = (said.process, said.tid);
        if said.tid.is_none() {
            // Who printed it is not known, nor therefore which calls are its own.
            let (lines, fit) = (1, Vec::new());
            *self.matches.entry(Match { line, lines, fit }).or_default() += 1;
        } else if self.late.is_empty() {
            let stretch = self.threads.entry(thread).or_default();
            *stretch.open.lines.entry(line).or_default() += 1;
        } else {
            self.late.push(Late::Line(thread, line));
        }
    }
}

fn count(matches: &mut FxHashMap<Match, u64>, burst: &Burst, names: &Ops) {
    for found in burst.matches(|op| kind(names.name(op))) {
        *matches.entry(found).or_default() += 1;
    }
}

/// Which calls a line serves, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The operation's number.
    pub op: Option<u32>,
    /// The communicator's size.
    pub nranks: Option<u32>,
    /// The bytes, as printed.
    pub bytes: u64,
    /// How the call is served.
    pub how: How,
    /// How many channels.
    pub channels: Option<u32>,
}

impl Key {
    /// True where the bytes are what the caller passed, as since NCCL 2.24, whose lines name the
    /// channels; before they are those of all ranks for AllGather and ReduceScatter.
    pub fn is_api(&self) -> bool {
        self.channels.is_some() || !matches!(self.how, How::By(..))
    }
}

/// How often.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// TUNING lines.
    pub lines: u64,
    /// Those whose calls were found.
    pub joined: u64,
    /// These calls: up to 2.23 a line may serve several.
    pub calls: u64,
    /// Lines that fit calls of several operations or sizes of communicator.
    pub ambiguous: u64,
    /// Lines without a call.
    pub alone: u64,
}

impl Counts {
    /// Adds others.
    pub fn add(&mut self, other: Counts) {
        self.lines += other.lines;
        self.joined += other.joined;
        self.calls += other.calls;
        self.ambiguous += other.ambiguous;
        self.alone += other.alone;
    }
}

/// All TUNING lines, with their calls.
#[derive(Debug, Default)]
pub struct All {
    /// Names of operations and kernels.
    pub names: Ops,
    /// The lines by what they say and serve.
    pub found: BTreeMap<Key, Counts>,
    /// Collective calls by ranks 0, which print TUNING lines; those of one rank alone are not
    /// tuned.
    pub calls: u64,
    open: FxHashMap<Thread, Burst>,
}

impl All {
    /// Adds a chunk that follows what was added before.
    pub fn add(&mut self, part: Part<'_, Partial>) {
        let Part {
            visit,
            to,
            merged,
            joined,
            ..
        } = part;
        let Partial {
            names,
            threads,
            matches,
            calls,
            late,
            ..
        } = visit;
        for (member, calls) in calls {
            if is_first(merged, to.members[member as usize]) == Some(true) {
                self.calls += calls;
            }
        }
        let mut numbered = |number: u32| self.names.intern(names.name(number)).0;
        let matches: Vec<_> = matches
            .into_iter()
            .map(|(found, times)| {
                let line = renamed(found.line, &mut numbered);
                let fit = found.fit.into_iter().map(|fit| Fit {
                    made: remade(fit.made, &to.members, &mut numbered),
                    ..fit
                });
                let (fit, lines) = (fit.collect(), found.lines);
                (Match { line, lines, fit }, times)
            })
            .collect();
        let mut bursts = |burst: Burst| Burst {
            calls: burst
                .calls
                .into_iter()
                .map(|(made, n)| (remade(made, &to.members, &mut numbered), n))
                .collect(),
            lines: burst
                .lines
                .into_iter()
                .map(|(line, n)| (renamed(line, &mut numbered), n))
                .collect(),
        };
        let threads: Vec<_> = threads
            .into_iter()
            .map(|((process, tid), stretch)| {
                let thread = (to.processes[process as usize], tid);
                (thread, stretch.lead.map(&mut bursts), bursts(stretch.open))
            })
            .collect();
        let thread = |(process, tid): Thread| (to.processes[process as usize], tid);
        let late: Vec<Late> = late
            .into_iter()
            .map(|late| match late {
                Late::Call(of, made) => {
                    Late::Call(thread(of), remade(made, &to.members, &mut numbered))
                }
                Late::Line(of, line) => Late::Line(thread(of), renamed(line, &mut numbered)),
                Late::Slot(slot) => Late::Slot(slot),
            })
            .collect();
        for (found, times) in matches {
            self.take(&found, times, merged);
        }
        for (thread, lead, open) in threads {
            for burst in lead.into_iter().chain([open]) {
                self.follow(thread, burst, merged);
            }
        }
        let mut joined = joined.iter().peekable();
        for late in late {
            match late {
                Late::Call(thread, made) => self.made(thread, made, merged),
                Late::Line(thread, line) => {
                    let burst = self.open.entry(thread).or_default();
                    *burst.lines.entry(line).or_default() += 1;
                }
                Late::Slot(slot) => {
                    while let Some(call) = joined.next_if(|call| call.slot <= slot) {
                        self.joined(call, merged);
                    }
                }
            }
        }
        joined.for_each(|call| self.joined(call, merged));
    }

    /// A call whose line was torn.
    fn joined(&mut self, call: &Joined, merged: &Merged) {
        let coll = call.coll();
        let Some(made) = made(&mut self.names, call.member, &coll) else {
            return;
        };
        if TUNED.contains(&coll.op) && is_first(merged, call.member) == Some(true) {
            self.calls += 1;
        }
        let origins = &merged.origins;
        let place = origins.members.get(call.member).place;
        let (tid, _) = call.header();
        self.made((origins.places.get(place).process, tid), made, merged);
    }

    fn made(&mut self, thread: Thread, made: Made, merged: &Merged) {
        let burst = self.open.entry(thread).or_default();
        if burst.is_over() {
            let over = std::mem::take(burst);
            self.close(&over, merged);
        }
        let burst = self.open.entry(thread).or_default();
        *burst.calls.entry(made).or_default() += 1;
    }

    /// A thread's next burst, or the rest of the one before.
    fn follow(&mut self, thread: Thread, burst: Burst, merged: &Merged) {
        let before = self.open.entry(thread).or_default();
        if before.is_over() && !burst.calls.is_empty() {
            let over = std::mem::replace(before, burst);
            self.close(&over, merged);
            return;
        }
        for (made, n) in burst.calls {
            *before.calls.entry(made).or_default() += n;
        }
        for (line, n) in burst.lines {
            *before.lines.entry(line).or_default() += n;
        }
    }

    /// No more lines come.
    pub fn end(&mut self, merged: &Merged) {
        for (_, burst) in std::mem::take(&mut self.open) {
            self.close(&burst, merged);
        }
    }

    fn close(&mut self, burst: &Burst, merged: &Merged) {
        let names = &self.names;
        let matches: Vec<Match> = burst.matches(|op| kind(names.name(op))).collect();
        for found in matches {
            self.take(&found, 1, merged);
        }
    }

    /// Counts a line for the calls it serves: those by a rank 0 if ranks are known, for no other
    /// prints it.
    fn take(&mut self, found: &Match, times: u64, merged: &Merged) {
        let by = |first: Option<bool>| {
            let fit = found.fit.iter();
            fit.filter(move |fit| is_first(merged, fit.made.member) == first)
        };
        let sure = by(Some(true)).next().is_some();
        let fit: Vec<_> = if sure { by(Some(true)) } else { by(None) }.collect();
        // What all of them share.
        let same = |of: fn(&Made) -> Option<u32>| {
            let first = of(&fit.first()?.made);
            fit.iter()
                .all(|fit| of(&fit.made) == first)
                .then_some(first)
        };
        let op = same(|made| Some(made.op));
        let nranks = same(|made| made.nranks);
        let fitting: u64 = fit.iter().map(|fit| fit.times).sum();
        let joined = fitting.min(found.lines);
        let each = fit.first().map_or(1, |fit| fit.each);
        let unsure = op.is_none() || nranks.is_none() || fit.iter().any(|fit| fit.each != each);
        let ambiguous = !fit.is_empty() && unsure;
        let line = found.line;
        let key = Key {
            op: line.op.or(op.flatten()),
            nranks: nranks.flatten(),
            bytes: line.bytes,
            how: line.how,
            channels: line.channels,
        };
        let mut counts = Counts {
            lines: joined * times,
            ..Counts::default()
        };
        if ambiguous {
            counts.ambiguous = counts.lines;
        } else {
            counts.joined = counts.lines;
            counts.calls = counts.lines.saturating_mul(each);
        }
        if joined > 0 {
            self.found.entry(key).or_default().add(counts);
        }
        let alone = (found.lines - joined) * times;
        if alone > 0 {
            let key = Key {
                op: line.op,
                nranks: None,
                ..key
            };
            self.found.entry(key).or_default().add(Counts {
                lines: alone,
                alone,
                ..Counts::default()
            });
        }
    }
}

/// Whether a member is rank 0 of more than one, if its rank is known.
fn is_first(merged: &Merged, member: u32) -> Option<bool> {
    let identity = merged.identity_of(merged.origins.members.get(member))?;
    Some(identity.rank == 0 && identity.nranks > 1)
}

fn renamed(line: Line, number: &mut impl FnMut(u32) -> u32) -> Line {
    Line {
        op: line.op.map(&mut *number),
        how: match line.how {
            How::Kernel(kernel) => How::Kernel(number(kernel)),
            how => how,
        },
        ..line
    }
}

fn remade(made: Made, members: &[u32], number: &mut impl FnMut(u32) -> u32) -> Made {
    Made {
        member: members[made.member as usize],
        op: number(made.op),
        ..made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::pieces::{made, walk};
    use crate::stages::tuning::table::{self, Options};

    #[test]
    fn pieces_of_any_size_give_the_same_rows() {
        for nccl in ["2.28", "2.22"] {
            let log = made(nccl);
            let rows = |size: usize| {
                let mut all = All::default();
                let merged = walk(&log, size, Partial::default, |part| all.add(part));
                all.end(&merged);
                let options = Options {
                    channels: true,
                    sizes: true,
                };
                (table::grid(&all, &options), all.calls)
            };
            let whole = rows(log.len());
            assert!(whole.0.rows.len() > 5 && whole.1 > 50);
            for size in [1, 500, 3000, 40_000] {
                assert_eq!(rows(size), whole, "{nccl} {size}");
            }
        }
    }
}
