//! What a chunk says.

use super::fact::{Fact, facts};
use super::link::{Channels, Hop, Link, Way};
use super::named::Named;
use super::named_later::{Event, Held, Waiting};
use super::owner::Claim;
use super::owner::{Thread, Threads, Whose};
use crate::grammar::message::Message;
use crate::grammar::message::communicator::init::{self, Stage};
use crate::grammar::message::graph::Graph;
use crate::grammar::message::network::channel::Connection;
use crate::grammar::message::tuning::{Algorithm, Tuning};
use crate::log::walk::{Call, Said, Torn, Visit};
use crate::members::Merged;
use crate::members::comm_id::CommId;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One chunk's facts and connections.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Partial {
    /// By process and fact: the first line that reports it.
    pub(super) facts: FxHashMap<(u32, Fact), u64>,
    pub(super) links: FxHashMap<Link, (Channels, u64)>,
    pub(super) threads: Threads,
    /// Connections that wait for an INIT line.
    pub(super) waiting: FxHashMap<Thread, Waiting<Claim>>,
    /// INIT lines of each process.
    pub(super) inits: FxHashMap<u32, Vec<(Stage, Named)>>,
    /// Communicators that INIT lines name.
    pub(super) comms: BTreeSet<(u32, Named)>,
    pub(super) tuned: bool,
    /// Processes whose calls the NVLink switches served, with the first line.
    pub(super) nvls: FxHashMap<(u32, Algorithm), u64>,
    pub(super) coverage: Coverage,
}

/// How many of NCCL's lines that are no calls were understood.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// What they say was read.
    pub read: u64,
    /// Only what they are about is known.
    pub known: u64,
}

/// A communicator as a process knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Comm {
    /// The id its members share.
    pub comm_id: Option<CommId>,
    /// Its address.
    pub comm: u64,
    /// The process's rank in it.
    pub rank: u32,
    /// Its size.
    pub nranks: u32,
}

impl Comm {
    /// The communicator of an INIT line of the chunk added last.
    pub(super) fn of(named: &Named, process: u32, merged: &Merged) -> Comm {
        let identity = merged.identity_at(process, named.comm, named.at);
        Comm {
            comm_id: identity.and_then(|identity| identity.comm_id),
            comm: named.comm,
            rank: named.rank,
            nranks: named.nranks,
        }
    }

    /// True where the process can print a line of this way for it.
    pub fn fits(&self, way: &Way) -> bool {
        way.fits(self.rank, self.nranks)
    }
}

impl Partial {
    fn fact(&mut self, process: u32, fact: Fact, line: u64) {
        self.facts.entry((process, fact)).or_insert(line);
    }

    fn connection(&mut self, thread: Thread, c: &Connection<'_>, line: u64) {
        let channel = (c.channel, c.index.unwrap_or(0));
        self.way(
            thread,
            c.of.map(|tail| tail.comm),
            Way::of(c),
            channel,
            line,
        );
    }

    /// The hops of rings and trees that a line has.
    fn hops(&mut self, thread: Thread, graph: &Graph<'_>, line: u64) {
        let mut hop = |of: Option<u64>, hop, (from, to), index| {
            self.way(thread, of, Way::hop(hop, from, to), (index, 0), line);
        };
        match graph {
            Graph::Ring(ring) if ring.cut => {}
            Graph::Ring(ring) => {
                let ranks: Vec<u32> = ring.ranks().collect();
                let behind = ranks.iter().cycle().skip(1);
                for (&from, &to) in ranks.iter().zip(behind) {
                    hop(None, Hop::RingOfAll, (from, to), ring.channel);
                }
            }
            Graph::Neighbours(ring) => {
                if let Ok(next) = u32::try_from(ring.next) {
                    let of = ring.of.map(|tail| tail.comm);
                    hop(of, Hop::Ring, (ring.rank, next), ring.ring);
                }
            }
            Graph::Trees(trees) => {
                let of = trees.of.map(|tail| tail.comm);
                for tree in trees.iter() {
                    if let Some(parent) = tree.parent {
                        hop(of, Hop::Tree, (tree.rank, parent), tree.index);
                    }
                }
            }
            Graph::Tree(tree) => {
                if let Some(parent) = tree.parent {
                    hop(None, Hop::Tree, (tree.rank, parent), tree.index);
                }
            }
            _ => {}
        }
    }

    fn way(&mut self, thread: Thread, of: Option<u64>, way: Way, channel: (u32, u32), line: u64) {
        let (process, _) = thread;
        let channels = Channels::from([channel]);
        let (whose, late) = match of {
            Some(comm) => (Whose::Address(comm), None),
            None => self.threads.whose(thread),
        };
        if matches!(whose, Whose::Address(_) | Whose::Init(_)) {
            return self.link(process, (whose, 0, None), way, channels, line);
        }
        let inits = self.inits.get(&process).map_or(0, Vec::len);
        let claim = (whose, u32::try_from(inits).unwrap_or(u32::MAX), late);
        self.calls_of(thread);
        match self.waiting.entry(thread).or_default().place() {
            Some(held) => held.add(claim, way, channels, line),
            None => self.link(process, claim, way, channels, line),
        }
    }

    fn link(&mut self, process: u32, claim: Claim, way: Way, channels: Channels, line: u64) {
        let link = Link {
            process,
            claim,
            way,
        };
        let (known, first) = self
            .links
            .entry(link)
            .or_insert_with(|| (Channels::new(), line));
        *first = line.min(*first);
        known.extend(channels);
    }

    /// The chunk is over.
    pub(super) fn end(&mut self) {
        let called: BTreeSet<Thread> = self.threads.whole().map(|call| call.0).collect();
        for thread in called {
            self.calls_of(thread);
        }
    }

    /// Ends the waiting of a thread that has called since it began.
    fn calls_of(&mut self, thread: Thread) {
        let called = self.threads.called(thread);
        let waiting = self.waiting.entry(thread).or_default();
        if let Some(mut held) = waiting.called(called) {
            self.free(thread, &mut held, Event::Other);
        }
    }

    /// What waited belongs to the communicator that is named now, if one is and it fits.
    fn free(&mut self, (process, _): Thread, held: &mut Held<Claim, u64>, event: Event) {
        for (claim, way, channels, line) in held.take() {
            let claim = match event {
                Event::Complete(named) if way.fits(named.rank, named.nranks) => {
                    (Whose::Init(named), 0, None)
                }
                _ => claim,
            };
            self.link(process, claim, way, channels, line);
        }
    }

    fn init(&mut self, thread: Thread, line: &init::Line<'_>, at: u64) {
        let (process, _) = thread;
        let named = Named::of(&line.init, at);
        let inits = self.inits.entry(process).or_default();
        inits.push((line.stage, named));
        if line.init.event == init::Event::Init {
            self.comms.insert((process, named));
        }
        self.calls_of(thread);
        // Since there are ids there is a START.
        let names = line.stage == Stage::InitComplete
            && line.init.comm_id.is_none()
            && !self.threads.is_begun(thread);
        let event = match names {
            true => Event::Complete(named),
            false => Event::Other,
        };
        match line.stage {
            Stage::InitStart => self.threads.begin(thread, named),
            _ => self.threads.end(thread),
        }
        let now = self.threads.tick();
        let mut held = self.waiting.entry(thread).or_default().init(event, now);
        self.free(thread, &mut held, event);
    }
}

impl Visit for Partial {
    const MESSAGES: bool = true;

    #[inline(always)]
    fn call(&mut self, call: &Call<'_>) {
        self.threads.call(call.member, call.process, call.tid);
    }

    fn slot(&mut self) {
        self.threads.slot();
    }

    fn torn(&mut self, calls: &[Torn<'_>]) {
        self.threads.torn(calls);
    }

    fn message(&mut self, said: &Said<'_>) {
        let (process, line) = (said.process, said.line);
        let thread = (process, said.tid);
        match &said.message {
            Message::Plain(..) => self.coverage.known += 1,
            _ => self.coverage.read += 1,
        }
        match &said.message {
            Message::Connection(c) => return self.connection(thread, c, line),
            Message::Graph(Graph::Trees(_) | Graph::Ring(_)) => {
                self.calls_of(thread);
                let now = self.threads.tick();
                self.waiting.entry(thread).or_default().begins(now);
            }
            Message::Tuning(Tuning::Choice(choice)) => {
                self.tuned = true;
                if matches!(choice.algorithm, Algorithm::Nvls | Algorithm::NvlsTree) {
                    let used = (process, choice.algorithm);
                    self.nvls.entry(used).or_insert(line);
                }
                return;
            }
            Message::Init(init) => self.init(thread, init, said.at),
            _ => {}
        }
        if let Message::Graph(graph) = &said.message {
            self.hops(thread, graph, line);
        }
        facts(&said.message, |fact| self.fact(process, fact, line));
    }
}
