//! The hashed streams against a naive twin that keeps every call: random jobs, a small change in
//! one rank, lines in any order that each rank's own order allows, torn or not.

use super::compare;
use crate::count::calls::{Options, Progress};
use crate::grammar::coll::Coll;
use crate::grammar::trainer::Recogniser;
use crate::log;
use crate::log::timeline;
use crate::log::walk::{LogCall, LogVisitor, MessageLine, RepairedCall};
use crate::report::Report;
use crate::report::account::Account;
use crate::source::{self, InputName};
use crate::stages::check::finding::Finding;
use crate::stages::check::ranks::unnamed_communicators;
use crate::stages::check::{CheckSummary, JobLiveness, check};
use crate::stages::{communicators, pieces};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a call must agree in: operation, count, datatype, reduction, root or peer.
type Made = (&'static str, u64, u32, u64, i64);

/// Each communicator's members, and what each of them calls.
type Job = Vec<BTreeMap<u32, Vec<Made>>>;

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides.max(1)
    }

    fn call(&mut self, size: i64) -> Made {
        let op = ["AllReduce", "AllGather", "Broadcast", "Reduce"][self.roll(4)];
        let root = match op {
            "Broadcast" | "Reduce" => self.roll(size as usize) as i64,
            _ => 0,
        };
        let redop = [0, 0, 2, 4][self.roll(4)];
        let datatype = [7, 9][self.roll(2)];
        (op, 1 << self.roll(6), datatype, redop, root)
    }
}

fn job(dice: &mut Dice, ranks: u32, communicators: usize, calls: usize) -> Job {
    let mut job = Job::new();
    for number in 0..communicators {
        let all = number == 0 || dice.roll(2) == 0;
        let members: Vec<u32> = match all {
            true => (0..ranks).collect(),
            false => (0..2).collect(),
        };
        let mut made: BTreeMap<u32, Vec<Made>> = members.iter().map(|&m| (m, vec![])).collect();
        let size = members.len() as i64;
        for _ in 0..calls {
            if dice.roll(8) == 0 {
                let (from, by) = (dice.roll(members.len()), 1 + dice.roll(members.len() - 1));
                let to = (from + by) % members.len();
                let count = 1 << dice.roll(6);
                let send = ("Send", count, 7, 0, to as i64);
                let receive = ("Recv", count, 7, 0, from as i64);
                made.get_mut(&members[from]).unwrap().push(send);
                made.get_mut(&members[to]).unwrap().push(receive);
            } else {
                let call = dice.call(size);
                made.values_mut().for_each(|list| list.push(call));
            }
        }
        job.push(made);
    }
    job
}

/// A small change in one rank.
fn change(dice: &mut Dice, job: &mut Job) {
    let at = dice.roll(job.len());
    let rank = dice.roll(job[at].len()) as u32;
    let size = job[at].len() as i64;
    let list = job[at].get_mut(&rank).unwrap();
    let seq = dice.roll(list.len());
    match dice.roll(7) {
        0 => {}
        1 => drop(list.remove(seq)),
        2 => list.insert(seq, dice.call(size)),
        3 => list[seq].1 += 1,
        4 => list[seq].2 = 8,
        5 if seq > 0 => list.swap(seq - 1, seq),
        _ => list.truncate(seq.max(1)),
    }
}

/// The processes' lines. An address is used again: communicators come one after the other, and
/// all of a process's have the same.
fn lines(job: &Job, counted: bool) -> Vec<Vec<String>> {
    let ranks = job[0].len();
    let mut all = vec![Vec::new(); ranks];
    for (number, made) in job.iter().enumerate() {
        let size = made.len();
        for (place, (&rank, list)) in made.iter().enumerate() {
            let head = format!("n0:{}:{} [{rank}] NCCL INFO ", 100 + rank, 200 + rank);
            let comm = 0x7f00_0000 + u64::from(rank) * 0x1000;
            let init = |what: &str| {
                format!(
                    "{head}ncclCommInitRank comm {comm:#x} rank {place} nranks {size} cudaDev {rank} \
                     nvmlDev {rank} busId 1b000 commId {:#x} - Init {what}",
                    0xab00 + number
                )
            };
            let out: &mut Vec<String> = &mut all[rank as usize];
            out.push(init("START"));
            out.push(init("COMPLETE"));
            for (seq, (op, count, datatype, redop, root)) in list.iter().enumerate() {
                let seq = if counted { seq } else { 0 };
                out.push(format!(
                    "{head}{op}: opCount {seq:x} sendbuff 0x7e2f40000000 recvbuff 0x7e2f48000000 count \
                     {count} datatype {datatype} op {redop} root {root} comm {comm:#x} \
                     [nranks={size}] stream 0x5581d0c3"
                ));
            }
        }
    }
    all
}

/// One file of all processes' lines; with `torn` some are cut at byte 128 by another's.
fn mixed(dice: &mut Dice, all: &[Vec<String>], torn: bool) -> String {
    let mut next = vec![0; all.len()];
    let mut log = String::new();
    let left = |next: &[usize]| -> Vec<usize> {
        (0..all.len()).filter(|&p| next[p] < all[p].len()).collect()
    };
    loop {
        let open = left(&next);
        if open.is_empty() {
            return log;
        }
        let one = open[dice.roll(open.len())];
        let line = &all[one][next[one]];
        next[one] += 1;
        let others: Vec<usize> = open.into_iter().filter(|&p| p != one).collect();
        if torn && line.contains("opCount") && !others.is_empty() && dice.roll(20) == 0 {
            let other = others[dice.roll(others.len())];
            let (head, tail) = line.split_at(128);
            log += &format!("{head}{}\n{tail}\n", all[other][next[other]]);
            next[other] += 1;
        } else {
            log += line;
            log.push('\n');
        }
    }
}

/// What the twin says of a job's collectives and messages.
#[derive(Debug, Default, PartialEq)]
struct Naive {
    /// Where a communicator's members first differ: (communicator, call).
    different: BTreeSet<(usize, u64)>,
    /// Communicators with members behind.
    behind: BTreeSet<usize>,
    /// Those of them whose members may be in a call that its root leaves before them.
    rooted: BTreeSet<usize>,
    /// Communicators where messages do not fit.
    unpaired: BTreeSet<usize>,
    /// Of as many messages on both sides the first that differs: (communicator, message).
    sizes: BTreeSet<(usize, u64)>,
}

fn naive(job: &Job) -> Naive {
    let mut naive = Naive::default();
    for (at, made) in job.iter().enumerate() {
        let is_message = |call: &&Made| matches!(call.0, "Send" | "Recv");
        let lists: Vec<Vec<&Made>> = made
            .values()
            .map(|list| list.iter().filter(|call| !is_message(call)).collect())
            .collect();
        let shortest = lists.iter().map(Vec::len).min().unwrap();
        // The first call at which two that made one differ, if nobody is behind before it.
        let differs = |seq: &usize| {
            let calls: BTreeSet<_> = lists.iter().filter_map(|list| list.get(*seq)).collect();
            calls.len() > 1
        };
        match (0..=shortest).find(differs) {
            Some(seq) => drop(naive.different.insert((at, seq as u64))),
            None if lists.iter().any(|list| list.len() > shortest) => {
                naive.behind.insert(at);
                let longest = lists.iter().map(Vec::len).max().unwrap();
                let those = lists.iter().filter(|list| list.len() == shortest);
                let last = shortest.checked_sub(1).map(|last| lists[0][last].0);
                if longest == shortest + 1
                    && 2 * those.count() > lists.len()
                    && matches!(last, Some("Broadcast" | "Reduce"))
                {
                    naive.rooted.insert(at);
                }
            }
            None => {}
        }
        let of = |rank: usize, op: &str, peer: usize| -> Vec<(u64, u32)> {
            let list = made.values().nth(rank).unwrap().iter();
            list.filter(|call| call.0 == op && call.4 == peer as i64)
                .map(|call| (call.1, call.2))
                .collect()
        };
        for from in 0..made.len() {
            for to in 0..made.len() {
                let (sent, received) = (of(from, "Send", to), of(to, "Recv", from));
                if sent != received {
                    naive.unpaired.insert(at);
                }
                let mut both = sent.iter().zip(&received);
                if sent.len() == received.len()
                    && let Some(seq) = both.position(|(a, b)| a != b)
                {
                    naive.sizes.insert((at, seq as u64));
                }
            }
        }
    }
    naive
}

/// What the streams of a log say.
#[derive(Debug, PartialEq)]
struct Hashed {
    same: u64,
    apart: Vec<(String, u64)>,
    unpaired: Vec<(String, u32, u32, u64)>,
    hidden: usize,
}

#[derive(Default)]
struct Nobody;
impl Progress for Nobody {
    fn advance(&self, _: u64) {}
}

#[derive(Serialize, Deserialize)]
struct Both(communicators::CommunicatorsPartial, super::StreamsPartial);

impl LogVisitor for Both {
    const MESSAGES: bool = true;

    fn message(&mut self, said: &MessageLine<'_>) {
        self.0.message(said);
    }

    fn call(&mut self, call: &LogCall<'_>) {
        self.0.call(call);
        self.1.add_call(call);
    }

    fn mark(&mut self) {
        self.0.mark();
    }

    fn slot(&mut self) {
        self.0.slot();
        self.1.add_slot();
    }

    fn unify_processes(&mut self, _first: &[u32]) {}

    fn insert_torn_calls(&mut self, calls: &[RepairedCall<'_>]) {
        self.0.insert_torn_calls(calls);
        self.1.insert_torn_calls(calls);
    }
}

/// Walks a log in pieces of about `size` bytes.
fn hashed(log: &str, size: usize) -> Hashed {
    let tally = communicators::tally_options(false);
    let mut gathered = communicators::CommunicatorTotals::new(&tally, 1, 1);
    gathered.begin_input("a".to_owned());
    let mut all = super::CallStreams::default();
    let new = || {
        let partial = communicators::CommunicatorsPartial::new(&tally);
        Both(partial, super::StreamsPartial::default())
    };
    let merged = pieces::walk(log.as_bytes(), size, new, |part| {
        let (Both(named, calls), part) = part.take_visit();
        all.add_chunk(calls, part.to, part.merged, 0);
        gathered.add_chunk(part.with_visit(named), &timeline::Options::default());
    });
    let steps = timeline::resolve_timeline(&[], &[], &timeline::Options::default());
    gathered.end_input(&steps, &merged, None);
    let found = gathered.finish(&merged);
    let compared = compare::compare_communicators(
        &found,
        &unnamed_communicators::UnnamedComms::default(),
        &all,
        &[Account::default()],
        match all.lacks_first_calls() {
            true => compare::LogStart::Late,
            false => compare::LogStart::First,
        },
    );
    let id = |at: usize| found.communicators[at].key.format_id().unwrap();
    let apart = compared.apart.iter().map(|a| (id(a.communicator), a.block));
    let unpaired = compared.unpaired.iter();
    let rank = |of: &compare::CommMember| of.rank.unwrap_or(u32::MAX);
    let unpaired = unpaired.map(|p| (id(p.communicator), rank(&p.from), rank(&p.to), p.block));
    Hashed {
        same: compared.same,
        apart: apart.collect(),
        unpaired: unpaired.collect(),
        hidden: compared.unjudged.values().map(Vec::len).sum(),
    }
}

/// The program's findings on files of these texts.
fn checked(files: &[String], jobs: usize, mmap: bool) -> CheckSummary {
    let dir = tempfile::tempdir().unwrap();
    let paths = files.iter().enumerate().map(|(at, text)| {
        let path = dir.path().join(format!("{at}.log"));
        std::fs::write(&path, text).unwrap();
        path
    });
    let origins: Vec<InputName> = paths.map(InputName::Path).collect();
    let options = Options {
        source: source::Options { mmap },
        log: log::Options {
            jobs,
            recogniser: Recogniser::all(),
            strict: false,
            keep_init_lines: false,
            keep_marks: true,
        },
        timeline: timeline::Options::default(),
        window: None,
    };
    let mut report = Report::new("test", false, true);
    check(
        &origins,
        &options,
        JobLiveness::Unknown,
        &mut report,
        &Nobody,
    )
    .unwrap()
}

/// What of a finding does not depend on where the lines stand.
fn told(checked: &CheckSummary) -> Vec<(&'static str, String, String, Option<u64>)> {
    let of = |f: &Finding| {
        let id = f.about.comm_id.clone().unwrap_or_default();
        (f.kind.id(), f.says.clone(), id, f.about.seq)
    };
    let mut told: Vec<_> = checked
        .findings
        .iter()
        .filter(|f| !["last_calls", "damaged_lines", "lines_torn"].contains(&f.kind.id()))
        .map(of)
        .collect();
    told.sort();
    told
}

/// Where mismatches are: (communicator, call); those of messages, or of collectives.
fn places(checked: &CheckSummary, of_messages: bool) -> BTreeSet<(usize, u64)> {
    let those = checked.findings.iter();
    let is_of = |f: &Finding| f.says.starts_with("message ") == of_messages;
    let those = those.filter(|f| f.kind.id().ends_with("_mismatch") && is_of(f));
    let place = |f: &Finding| {
        let id = f.about.comm_id.clone().unwrap();
        let at = usize::from_str_radix(&id[2..], 16).unwrap() - 0xab00;
        (at, f.about.seq.unwrap())
    };
    those.map(place).collect()
}

fn agrees(job: &Job, log: &str, files: &[String], torn: bool) -> Result<(), TestCaseError> {
    let expected = naive(job);
    let whole = hashed(log, log.len());
    prop_assert_eq!(whole.hidden, 0, "{:?}", &whole);
    let apart: BTreeSet<String> = whole.apart.iter().map(|a| a.0.clone()).collect();
    let ids = |those: &mut dyn Iterator<Item = usize>| -> BTreeSet<String> {
        those.map(|at| format!("{:#x}", 0xab00 + at)).collect()
    };
    let differ = expected.different.iter().map(|d| d.0);
    let differ = ids(&mut differ.chain(expected.behind.iter().copied()));
    prop_assert_eq!(&apart, &differ);
    let unpaired: BTreeSet<String> = whole.unpaired.iter().map(|p| p.0.clone()).collect();
    prop_assert_eq!(&unpaired, &ids(&mut expected.unpaired.iter().copied()));
    for (at, seq) in &expected.different {
        let id = format!("{:#x}", 0xab00 + at);
        let block = whole.apart.iter().find(|a| a.0 == id).map(|a| a.1);
        prop_assert_eq!(block, Some(seq / super::CALLS_PER_HASH_BLOCK));
    }
    // One line a chunk takes long.
    let small = if log.len() < 100_000 { 1 } else { 400 };
    for size in [small, 700, 5000] {
        prop_assert_eq!(&hashed(log, size), &whole, "{}", size);
    }

    let one = checked(&[log.to_owned()], 1, true);
    let found = places(&one, false);
    // Sizes of messages are left out where something was found that they may follow from: ranks that
    // call different things, a deadlock, a call that one of two never made.
    let sizes = places(&one, true);
    let is_cause = |f: &Finding| f.kind.id() == "deadlock" || f.kind.id().starts_with("p2p_");
    let is_first = expected.different.is_empty() && !one.findings.iter().any(is_cause);
    prop_assert!(sizes.is_subset(&expected.sizes), "{:?}", told(&one));
    prop_assert!(
        !is_first || sizes.is_empty() == expected.sizes.is_empty(),
        "{:?}",
        told(&one)
    );
    // Two calls of a rank, one of them torn, may stand in the wrong order: then this is reported.
    let ends =
        crate::stages::check::streams::unjudged_reason::UnjudgedReason::Running.describe_reason();
    let (ends, doubts): (Vec<_>, Vec<_>) = one.unjudged.iter().partition(|of| of.why == ends);
    let doubtful = doubts.iter().map(|of| of.number as usize).sum::<usize>();
    prop_assert!(found.is_subset(&expected.different), "{:?}", told(&one));
    // At least one difference is reported: others may follow from it.
    let any = !found.is_empty() || one.findings.iter().any(|f| f.kind.id() == "deadlock");
    prop_assert!(
        expected.different.is_empty() || any || doubtful > 0,
        "{:?} {:?}",
        one.unjudged,
        told(&one)
    );
    let rooted = expected.rooted.len();
    prop_assert!(torn || doubtful <= rooted, "{:?}", one.unjudged);
    let any = !differ.is_empty() || !expected.unpaired.is_empty();
    let open = doubtful > 0 || !ends.is_empty();
    prop_assert!(one.is_wrong() == any || open, "{:?}", told(&one));
    for (jobs, mmap) in [(3, true), (2, false)] {
        prop_assert_eq!(told(&checked(&[log.to_owned()], jobs, mmap)), told(&one));
    }
    // The order of lines shows who is behind, which files do not have.
    let lacks = |f: &Finding| {
        let id = f.kind.id();
        id.starts_with("rank_") || id.starts_with("p2p_") || id == "deadlock"
    };
    if !open && !one.findings.iter().any(lacks) {
        prop_assert_eq!(told(&checked(files, 2, true)), told(&one));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn hashes_say_what_whole_lists_say(
        seed in 1_u64..,
        ranks in 2_u32..6,
        communicators in 1_usize..4,
        calls in prop_oneof![4 => 2_usize..40, 1 => 250_usize..700],
        changes in 0_usize..3,
        counted: bool,
        torn: bool,
    ) {
        let mut dice = Dice(seed);
        let mut job = job(&mut dice, ranks, communicators, calls);
        for _ in 0..changes {
            change(&mut dice, &mut job);
        }
        let all = lines(&job, counted);
        let log = mixed(&mut dice, &all, torn);
        let files: Vec<String> = all.iter().map(|lines| lines.join("\n") + "\n").collect();
        agrees(&job, &log, &files, torn)?;
    }
}

/// A call whose opCount is `at`: a collective or a Send.
fn numbered(member: u32, collective: bool, at: u64) -> LogCall<'static> {
    LogCall {
        coll: Coll {
            op: if collective { b"AllReduce" } else { b"Send" },
            op_count: at,
            count: at,
            datatype: 7,
            redop: 0,
            root: 0,
            comm: 1,
            nranks: None,
            stream: 0,
        },
        member,
        process: member,
        is_sure: true,
        tid: None,
        time: b"",
        at,
    }
}

proptest! {
    /// Calls, a line that says that the job hangs, and slots with torn calls or without.
    #[test]
    fn torn_calls_are_as_if_their_lines_were_whole(
        events in proptest::collection::vec(
            (0..8_u8, proptest::collection::vec((0..3_u32, any::<bool>()), 0..3)), 0..30
        ),
    ) {
        let (mut partial, mut twin) = (super::StreamsPartial::default(), super::StreamsPartial::default());
        let mut torn = Vec::new();
        for (at, (kind, made)) in (1_u64..).zip(&events) {
            match (kind, &made[..]) {
                (0, _) => {
                    partial.note_hang();
                    twin.note_hang();
                }
                (1..=4, &[(member, collective), ..]) => {
                    partial.add_call(&numbered(member, collective, at));
                    twin.add_call(&numbered(member, collective, at));
                }
                _ => {
                    let slot = partial.slots.len() as u32;
                    partial.add_slot();
                    for &(member, collective) in made {
                        let call = numbered(member, collective, at);
                        torn.push(RepairedCall { slot, call, is_own: false });
                        twin.add_call(&call);
                    }
                }
            }
        }
        partial.insert_torn_calls(&torn);
        let told = |partial: super::StreamsPartial| {
            let between = partial.between.iter();
            let between: Vec<_> = between.map(|b| (b.member, b.way, b.mark, b.collectives_before)).collect();
            let alarm = partial.alarm.map(|alarm| alarm.place);
            let known = |first: Vec<Option<u64>>| {
                let all = first.into_iter().enumerate();
                all.filter(|(_, count)| count.is_some()).collect::<Vec<_>>()
            };
            let first = (known(partial.first), known(partial.first_between));
            (partial.calls, between, alarm, first, partial.counts > 0)
        };
        prop_assert_eq!(told(partial), told(twin));
    }
}
