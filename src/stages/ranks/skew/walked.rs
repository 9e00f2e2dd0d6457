//! The calls of logs that another stage walks: who comes late, without a walk of its own.
//!
//! Of each call a few bytes wait ([`super::times`]) until all logs are read. Then they are met again in line
//! order, with the steps and numbers that nccl-comms' rows would have.

use super::rows::{Caller, Taken};
use super::times::{Packed, Partial};
use super::{Options, table};
use crate::count::calls::Options as Read;
use crate::count::who::{Who, who_as};
use crate::error::Result;
use crate::formats::log::Part;
use crate::formats::log::placement::{self, Across, Placed, Placement, Placer};
use crate::formats::log::timeline::Timeline;
use crate::grammar::values::{Kind, kind};
use crate::members::{Merged, Ops};
use crate::output::render::Grid;
use crate::output::table::Row;
use crate::report::Report;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A chunk's calls.
struct Chunk {
    calls: Packed,
    ops: Ops,
    /// Merged member by the chunk's.
    members: Vec<u32>,
}

/// A log that is read.
struct Log {
    chunks: Vec<Chunk>,
    /// The gap that each call was made in, and the steps of gaps.
    placement: Placement,
    timeline: Arc<Timeline>,
    aliases: Vec<u32>,
    /// Its number among those whose calls are placed when all are read.
    held: Option<u32>,
}

/// The calls of all logs so far.
pub(crate) struct Times {
    logs: Vec<Log>,
    /// Of the log in hand.
    now: Vec<Chunk>,
    /// What places calls, where nobody else does.
    own: Option<(Placer, Across)>,
    /// Calls without a time stamp: nothing is kept.
    is_bare: bool,
    /// How fine the times are, in ns.
    step: i64,
    jobs: usize,
}

impl Times {
    /// Nothing yet of so many inputs; `places` says that nobody else places their calls.
    pub(crate) fn new(inputs: usize, places: bool, jobs: usize) -> Times {
        Times {
            logs: Vec::new(),
            now: Vec::new(),
            own: places.then(|| (Placer::of(jobs), Across::of(inputs))),
            is_bare: false,
            step: 0,
            jobs,
        }
    }

    /// The next log begins.
    pub(crate) fn begin_input(&mut self) {
        self.now.clear();
        if let Some((placer, _)) = &mut self.own {
            *placer = Placer::of(self.jobs);
        }
    }

    /// Adds a chunk.
    pub(crate) fn add(&mut self, part: Part<'_, Partial>, read: &Read) {
        let (visit, part) = part.taken();
        if visit.is_bare || self.is_bare {
            *self = Times {
                is_bare: true,
                ..Times::new(0, false, self.jobs)
            };
            return;
        }
        if let (Some((placer, _)), Some(calls)) = (&mut self.own, visit.recorder) {
            placer.add(calls, &part, &read.timeline, |_, _| {});
        }
        self.step = self.step.max(visit.step);
        self.now.push(Chunk {
            calls: visit.calls.trimmed(),
            ops: visit.ops,
            members: part.to.members.clone(),
        });
    }

    /// The log is read. `placed` is where its calls were made, if someone else has placed them.
    pub(crate) fn end_input(
        &mut self,
        (placement, taken): (Placement, placement::Taken),
        timeline: &Timeline,
        merged: &Merged,
    ) {
        if self.is_bare {
            return;
        }
        let (placement, taken) = match &mut self.own {
            Some((placer, across)) => {
                let placer = std::mem::take(placer);
                across.end(placer, (timeline, merged), |_, _| {})
            }
            None => (placement, taken),
        };
        self.logs.push(Log {
            chunks: std::mem::take(&mut self.now),
            placement: placement.trimmed(),
            timeline: timeline.clone().into(),
            aliases: merged.aliases(),
            held: taken.held,
        });
    }

    /// All logs are read; `placed` are the calls that were held, if someone else has placed them. `None` where
    /// a call has no time stamp.
    pub(crate) fn grid(
        mut self,
        merged: &Merged,
        placed: Option<Placed>,
        report: &Report,
    ) -> Option<Result<Grid>> {
        if self.is_bare {
            return None;
        }
        let placed = match &mut self.own {
            Some((_, across)) => across.place(merged, self.jobs),
            None => placed,
        };
        let options = Options::default();
        let mut again = Again::new(merged, &options);
        again.taken.timed(0, self.step);
        for mut log in self.logs {
            if let (Some(held), Some(placed)) = (log.held, &placed)
                && placed.has(held)
            {
                log.placement = placed.placement(held);
                log.timeline = Arc::clone(&placed.timeline);
            }
            again.log(log);
        }
        Some(table(&again.taken.end(&options), false, &options, report))
    }
}

/// Calls as they are met again.
struct Again<'m> {
    merged: &'m Merged,
    options: &'m Options,
    /// How many collectives each (process, communicator) made so far.
    made: Vec<u64>,
    sequences: FxHashMap<(u32, u64, u32), usize>,
    taken: Taken,
}

/// A member, as far as it was met in a log.
#[derive(Clone, Copy)]
struct Member {
    process: u32,
    /// The number of its sequence of calls.
    sequence: usize,
    /// Known from its first call with a time on.
    caller: Option<Option<Caller>>,
}

/// What an operation's name tells.
struct Op {
    number: u32,
    /// It is one of the sequence of collectives.
    counts: bool,
    /// Ranks wait for each other.
    compared: bool,
}

impl<'m> Again<'m> {
    fn new(merged: &'m Merged, options: &'m Options) -> Again<'m> {
        Again {
            merged,
            options,
            made: Vec::new(),
            sequences: FxHashMap::default(),
            taken: Taken::default(),
        }
    }

    fn log(&mut self, log: Log) {
        let mut members: Vec<Option<Member>> = Vec::new();
        let mut gaps = log.placement.again();
        // Most calls are of the gap of the call before.
        let mut known = (None, None);
        let mut timed = 0;
        for chunk in log.chunks {
            let ops: Vec<Op> = chunk.ops.names().map(|name| self.op(name)).collect();
            for call in chunk.calls.calls() {
                let Some(&number) = chunk.members.get(call.member as usize) else {
                    continue;
                };
                let member = match members.get_mut(number as usize) {
                    Some(Some(member)) => member,
                    _ => self.member(&mut members, number),
                };
                let gap = gaps.next(member.process);
                let op = &ops[call.op as usize];
                if !op.counts {
                    continue;
                }
                let made = &mut self.made[member.sequence];
                let seq = *made;
                *made += 1;
                let Some(ns) = call.ns.filter(|_| op.compared) else {
                    continue;
                };
                timed += 1;
                let caller = *member.caller.get_or_insert_with(|| {
                    caller(&mut self.taken, self.merged, &log.aliases, number)
                });
                let Some(caller) = caller else { continue };
                if known.0 != gap {
                    let step = gap.and_then(|gap| log.timeline.step_of(gap as usize));
                    known = (gap, step.map(|step| step.step));
                }
                let call = (op.number, seq, known.1);
                self.taken.came(caller, call, (ns, None), self.options);
            }
        }
        self.taken.timed(timed, 0);
    }

    fn op(&mut self, name: &[u8]) -> Op {
        Op {
            number: self.taken.op(name),
            counts: !matches!(name, b"Send" | b"Recv"),
            compared: kind(name) != Kind::PointToPoint,
        }
    }

    /// A member that was not met in this log.
    #[cold]
    fn member<'l>(&mut self, members: &'l mut Vec<Option<Member>>, number: u32) -> &'l mut Member {
        let own = self.merged.origins.members.get(number);
        let process = self.merged.origins.places.get(own.place).process;
        let next = self.made.len();
        let key = (process, own.comm, own.identity);
        let sequence = *self.sequences.entry(key).or_insert(next);
        if sequence == next {
            self.made.push(0);
        }
        let at = number as usize;
        if members.len() <= at {
            members.resize(at + 1, None);
        }
        members[at].insert(Member {
            process,
            sequence,
            caller: None,
        })
    }
}

/// Who a member is.
#[cold]
fn caller(taken: &mut Taken, merged: &Merged, aliases: &[u32], number: u32) -> Option<Caller> {
    let member = merged.origins.members.get(number);
    let Who {
        host,
        pid,
        dev,
        comm_id,
        rank,
        ..
    } = who_as(merged, merged, aliases, member);
    taken.caller(&Row {
        host: &host,
        pid,
        dev,
        comm_id,
        rank,
        nranks: member.nranks,
        ..Row::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::pieces::{read_after, stamped};
    use crate::stages::skew::skew;
    use crate::testing::options;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    static STAMPED: LazyLock<Vec<u8>> = LazyLock::new(stamped);

    /// Walked in pieces of about `size` bytes.
    fn found(log: &[u8], size: usize) -> Option<Grid> {
        let (read, mut merged) = (options(1, false), Merged::default());
        let mut times = Times::new(1, true, 1);
        times.begin_input();
        let new = || Partial::new(true);
        let log = read_after(&mut merged, log, size, new, |part| times.add(part, &read));
        let taken = placement::Taken {
            held: None,
            methods: placement::Methods::default(),
            too_many: None,
        };
        let placed = (Placement::default(), taken);
        times.end_input(placed, &log.timeline(&read.timeline), &merged);
        let silent = Report::new("", false, true).silent();
        times.grid(&merged, None, &silent).map(Result::unwrap)
    }

    #[test]
    fn the_table_is_that_of_the_rows_of_nccl_comms() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &*STAMPED).unwrap();
        let origins = [crate::source::Origin::Path(file.path().to_owned())];
        let mut silent = Report::new("", false, true).silent();
        let read = options(1, false);
        let progress = &crate::testing::Nobody;
        let rows = skew(&origins, &read, &Options::default(), &mut silent, progress).unwrap();
        assert!(rows.rows.len() == 8, "{rows:?}");
        assert_eq!(found(&STAMPED, usize::MAX), Some(rows));
    }

    #[test]
    fn a_call_without_a_stamp_leaves_no_table() {
        let line =
            b"host:7:7 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7 recvbuff 0x7 count 1 \
                     datatype 7 op 0 root 0 comm 0x9 [nranks=2] stream 0x1\n";
        let both = [&STAMPED[..], line].concat();
        assert_eq!(found(&both, usize::MAX), None);
        assert_eq!(found(&both, 4096), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn chunks_change_nothing(size in 2000..400_000_usize) {
            prop_assert_eq!(found(&STAMPED, size), found(&STAMPED, usize::MAX));
        }
    }
}
