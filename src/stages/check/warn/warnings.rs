//! The WARN lines of a chunk and of all: who says what, how often, and where first. What they
//! mean is [`super::triage`]'s.
//!
//! A body's numbers and addresses are left out to tell it from others, so memory
//! follows the number of processes and kinds, not that of lines.

use super::normalise::normalise;
use crate::grammar::message::Message;
use crate::grammar::message::c10d::{self, C10d};
use crate::grammar::message::network::net::Net;
use crate::grammar::message::network::nic::{Kind, Nics};
use crate::grammar::message::trace::Return;
use crate::grammar::message::warn::Warn;
use crate::log::walk::{Said, Torn};
use crate::members::Interner;
use crate::stages::check::log::job_ends::Ends;
use crate::stages::check::watchdog::{Watchdog, Watched};
use crate::stages::check::wording::TEXT;
use crate::stages::net::all::First;
use memchr::memmem::Finder;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// How many pairs of a process and a body are kept apart; more are only counted.
const PAIRS: usize = 1 << 14;
/// How many peers are kept of a process and a body.
const PEERS: usize = 8;
/// How many addresses of processes are kept.
const ADDRESSES: usize = 1 << 16;

/// A process's thread.
type Thread = (u32, Option<u64>);

/// What a process says in lines of one body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// How often.
    pub count: u64,
    /// Where first.
    pub first: First,
    /// Where last.
    pub last: First,
    /// The first one's time stamp as printed; empty if there is none.
    pub time: Box<[u8]>,
    /// The first one as printed, with its header; at most 300 bytes of what it says.
    pub text: Box<[u8]>,
    /// Where in it NCCL's words begin, after the header.
    pub says: usize,
    /// The peers that are named, and how often; the first few.
    pub peers: Vec<(Box<[u8]>, u64)>,
    /// The result that NCCL's functions gave right after, first where there are several.
    pub result: Option<i32>,
    /// The chunk's line that it was given on, until all chunks are added.
    answered: Option<u64>,
    /// Calls of the process after the last line; in front of it until all is settled.
    pub calls: u64,
}

impl Seen {
    /// NCCL's words.
    pub(crate) fn says(&self) -> &[u8] {
        self.text.get(self.says..).unwrap_or_default()
    }

    /// Adds the same of lines that follow.
    fn follow(&mut self, next: Seen) {
        self.count += next.count;
        self.last = next.last;
        self.calls = next.calls;
        for (peer, count) in next.peers {
            self.peer(&peer, count);
        }
        self.result = self.result.or(next.result);
    }

    fn peer(&mut self, peer: &[u8], count: u64) {
        if let Some((_, times)) = self.peers.iter_mut().find(|(known, _)| **known == *peer) {
            *times += count;
        } else if self.peers.len() < PEERS {
            self.peers.push((peer.into(), count));
        }
    }
}

/// One chunk's WARN lines and PyTorch watchdog lines.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Partial {
    bodies: FxHashMap<Box<[u8]>, u32>,
    /// By process and body.
    seen: FxHashMap<(u32, u32), Seen>,
    uncounted: u64,
    /// Addresses that processes say are theirs, with the first line.
    addresses: FxHashMap<(u32, Box<[u8]>), u64>,
    /// Threads whose last message is a WARN.
    open: FxHashMap<Thread, (u32, u32)>,
    /// What each thread says first in the chunk, if that is a result, and its line.
    begins: FxHashMap<Thread, (Option<i32>, u64)>,
    /// Calls by process.
    calls: Vec<u64>,
    /// The line after the last WARN, and where that was at each slot.
    from: u64,
    slots: Vec<u64>,
    watchdog: Watchdog,
    ends: Ends,
    scratch: Vec<u8>,
}

impl Partial {
    /// Takes a message of NCCL's.
    pub(crate) fn message(&mut self, said: &Said<'_>) {
        self.ends.message(said);
        let thread = (said.process, said.tid);
        let result = match &said.message {
            Message::Return(Return { code, .. }) => Some(*code),
            _ => None,
        };
        self.begins.entry(thread).or_insert((result, said.line));
        if !self.open.is_empty()
            && let Some(pair) = self.open.remove(&thread)
            && let (Some(result), Some(seen)) = (result, self.seen.get_mut(&pair))
            && seen.result.is_none()
        {
            (seen.result, seen.answered) = (Some(result), Some(said.line));
        }
        match &said.message {
            Message::Warn(warn) => self.warn(said, warn),
            Message::Net(Net::Nics(nics)) => self.addresses(said, nics),
            _ => {}
        }
    }

    /// Counts a call of the chunk's process `process`, in line order with the messages. Where
    /// this stays unknown, nothing is reported of calls after a WARN.
    #[inline]
    pub(crate) fn call(&mut self, process: u32) {
        let at = process as usize;
        if at >= self.calls.len() {
            self.calls.resize(at + 1, 0);
        }
        self.calls[at] += 1;
    }

    /// Here may be a call whose line was torn.
    pub(crate) fn slot(&mut self) {
        self.slots.push(self.from);
    }

    /// Counts calls whose lines were torn, where they were made.
    pub(crate) fn torn(&mut self, torn: &[Torn<'_>]) {
        let mut calls: Vec<(u32, u64)> = Vec::new();
        for Torn { slot, call, .. } in torn {
            let from = self.slots.get(*slot as usize).copied();
            calls.push((call.process, from.unwrap_or(u64::MAX)));
            self.call(call.process);
        }
        calls.sort_unstable();
        for (&(process, _), seen) in &mut self.seen {
            let until = |line| calls.partition_point(|&call| call < (process, line));
            seen.calls += (until(seen.last.line + 1) - until(0)) as u64;
        }
    }

    /// Takes a line that is not NCCL's; `number` is its line in the chunk, from 0. Gives what it
    /// is where PyTorch's watchdog printed it.
    pub(crate) fn foreign<'l>(&mut self, line: &'l [u8], number: u64) -> Option<C10d<'l>> {
        let what = c10d::line(line);
        match &what {
            Some(what) => {
                let at = First {
                    input: 0,
                    line: number,
                };
                self.watchdog.line(line, what, at);
                self.ends.spoke(line, at);
            }
            None => self.ends.foreign(line, number),
        }
        what
    }

    fn warn(&mut self, said: &Said<'_>, warn: &Warn<'_>) {
        let (header, says) = parted(said.text, warn.text);
        self.scratch.clear();
        normalise(says, &mut self.scratch);
        let next = self.bodies.len() as u32;
        let body = self.bodies.get(self.scratch.as_slice()).copied();
        let pair = (said.process, body.unwrap_or(next));
        let at = First {
            input: 0,
            line: said.line,
        };
        self.from = said.line + 1;
        let calls = self.calls.get(said.process as usize).copied().unwrap_or(0);
        if let Some(seen) = self.seen.get_mut(&pair) {
            seen.count += 1;
            seen.last = at;
            seen.calls = calls;
            if let Some(peer) = warn.peer() {
                seen.peer(peer, 1);
            }
        } else if self.seen.len() < PAIRS {
            if body.is_none() {
                self.bodies.insert(self.scratch.as_slice().into(), next);
            }
            let peers = warn.peer().map(|peer| (peer.into(), 1));
            let seen = Seen {
                count: 1,
                first: at,
                last: at,
                time: said.time.into(),
                text: [header, &says[..says.len().min(TEXT)]].concat().into(),
                says: header.len(),
                peers: peers.into_iter().collect(),
                result: None,
                answered: None,
                calls,
            };
            self.seen.insert(pair, seen);
        } else {
            self.uncounted += 1;
            return;
        }
        self.open.insert((said.process, said.tid), pair);
    }

    fn addresses(&mut self, said: &Said<'_>, nics: &Nics<'_>) {
        for nic in nics.iter().chain(nics.oob) {
            let Kind::Interface { address, .. } = nic.kind else {
                continue;
            };
            if self.addresses.len() < ADDRESSES {
                let key = (said.process, address.into());
                self.addresses.entry(key).or_insert(said.line);
            }
        }
    }
}

/// A line's header, and what it says.
fn parted<'a>(line: &'a [u8], says: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    static LEVEL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"NCCL WARN "));
    match LEVEL.find(line) {
        Some(at) if at <= TEXT => (&line[..at + LEVEL.needle().len()], says),
        _ => (b"", says),
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    bodies: Interner<Box<[u8]>>,
    seen: FxHashMap<(u32, u32), Seen>,
    uncounted: u64,
    /// Which processes say that an address is theirs.
    addresses: BTreeSet<(Box<[u8]>, u32)>,
    open: FxHashMap<Thread, (u32, u32)>,
    calls: BTreeMap<u32, u64>,
    watchdog: Watchdog,
    ends: Ends,
}

impl Warnings {
    /// Adds a chunk that follows those before. `processes[p]` is the merged number of the chunk's
    /// process p, `input` the input's number, `line` that of the chunk's first line in it.
    pub(crate) fn add(&mut self, part: Partial, processes: &[u32], input: u32, line: u64) {
        let placed = |at: First| First {
            input,
            line: at.line + line,
        };
        let merged = |process: u32| processes.get(process as usize).copied().unwrap_or(process);
        // Threads that print the same line share its result: it is the first one's.
        let mut begins: Vec<_> = part.begins.into_iter().collect();
        begins.sort_unstable_by_key(|&(_, (_, line))| line);
        let mut late: FxHashMap<(u32, u32), (u64, i32)> = FxHashMap::default();
        for (thread, (result, line)) in begins {
            let thread = (merged(thread.0), thread.1);
            if let (Some(pair), Some(result)) = (self.open.remove(&thread), result) {
                late.entry(pair).or_insert((line, result));
            }
        }
        self.uncounted += part.uncounted;
        let mut names = vec![Box::default(); part.bodies.len()];
        for (name, body) in part.bodies {
            names[body as usize] = name;
        }
        // In line order, so that those beyond the cap are the same however the log is cut.
        let mut seen: Vec<_> = part.seen.into_iter().collect();
        seen.sort_unstable_by_key(|(_, seen)| seen.first);
        let mut pairs = FxHashMap::default();
        for (pair, mut seen) in seen {
            let process = merged(pair.0);
            let before = self.calls.get(&process).copied().unwrap_or(0);
            (seen.first, seen.last) = (placed(seen.first), placed(seen.last));
            seen.calls += before;
            let name = &names[pair.1 as usize];
            let key = (process, self.bodies.intern(name.clone()));
            if let Some(known) = self.seen.get_mut(&key) {
                if let Some((line, result)) = late.remove(&key)
                    && seen.answered.is_none_or(|answered| line < answered)
                {
                    seen.result = Some(result);
                }
                known.follow(seen);
            } else if self.seen.len() < PAIRS {
                seen.answered = None;
                self.seen.insert(key, seen);
            } else {
                self.uncounted += seen.count;
                continue;
            }
            pairs.insert(pair, key);
        }
        for (pair, (_, result)) in late {
            if let Some(seen) = self.seen.get_mut(&pair) {
                seen.result.get_or_insert(result);
            }
        }
        for ((process, tid), pair) in part.open {
            if let Some(&key) = pairs.get(&pair) {
                self.open.insert((merged(process), tid), key);
            }
        }
        for (process, calls) in (0..).zip(part.calls) {
            *self.calls.entry(merged(process)).or_default() += calls;
        }
        let mut addresses: Vec<_> = part.addresses.into_iter().collect();
        addresses.sort_unstable_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
        for ((process, address), _) in addresses {
            if self.addresses.len() < ADDRESSES {
                self.addresses.insert((address, merged(process)));
            }
        }
        self.watchdog.add(part.watchdog, placed);
        self.ends.add(part.ends, placed, merged);
    }

    /// Adds where the training steps of the input `input` end: its lines, in order, with the step's
    /// number.
    pub(crate) fn steps(&mut self, input: u32, lines: Vec<(u64, u64)>) {
        self.ends.steps(input, lines);
    }

    /// The same of steps that are long over, of which what is asked of them is kept.
    pub(crate) fn old_steps(&mut self, input: u32, lines: &[(u64, u64)]) {
        self.ends.old_steps(input, lines);
    }

    /// Adds where processes of the input `input` took over from others, in bytes of it.
    pub(crate) fn again(&mut self, input: u32, bytes: impl Iterator<Item = u64>) {
        self.ends.again(input, bytes);
    }

    /// Decides what only the whole can. `aliases[p]` is the process that p really is (see
    /// [`crate::members::Merged::aliases`]).
    pub(crate) fn settle(&mut self, aliases: &[u32]) {
        let real = |process: u32| aliases.get(process as usize).copied().unwrap_or(process);
        let mut seen: Vec<_> = std::mem::take(&mut self.seen).into_iter().collect();
        seen.sort_unstable_by_key(|(_, seen)| seen.first);
        for ((process, body), mut seen) in seen {
            let all = self.calls.get(&process).copied().unwrap_or(0);
            seen.calls = all.saturating_sub(seen.calls);
            match self.seen.entry((real(process), body)) {
                std::collections::hash_map::Entry::Occupied(mut known) => {
                    let calls = known.get().calls.max(seen.calls);
                    let last = known.get().last.max(seen.last);
                    known.get_mut().follow(seen);
                    (known.get_mut().calls, known.get_mut().last) = (calls, last);
                }
                std::collections::hash_map::Entry::Vacant(free) => {
                    free.insert(seen);
                }
            }
        }
        let addresses = std::mem::take(&mut self.addresses);
        self.addresses = addresses.into_iter().map(|(a, p)| (a, real(p))).collect();
        self.watchdog.settle();
    }

    /// Of those, how many are beyond those kept apart.
    pub(crate) fn uncounted(&self) -> u64 {
        self.uncounted
    }

    /// What PyTorch's watchdog says, in line order.
    pub(crate) fn watchdog(&self) -> &[Watched] {
        self.watchdog.records()
    }

    /// How many processes said at their ordinary end that they left a process group, and the
    /// first line that reports it.
    pub(crate) fn ordinary_ends(&self) -> (u64, Option<&Watched>) {
        self.watchdog.ordinary_ends()
    }

    /// How jobs say that they ended.
    pub(crate) fn ends(&self) -> &Ends {
        &self.ends
    }

    /// True where calls were counted.
    pub(crate) fn counts_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Who says what, by process and body; in line order.
    pub(crate) fn seen(&self) -> Vec<(u32, u32, &Seen)> {
        let mut all: Vec<_> = self.seen.iter().map(|(&(p, b), s)| (p, b, s)).collect();
        all.sort_unstable_by_key(|&(process, body, seen)| (seen.first, process, body));
        all
    }

    /// The addresses that processes say are theirs.
    pub(crate) fn addresses(&self) -> &BTreeSet<(Box<[u8]>, u32)> {
        &self.addresses
    }
}
