//! The WARN lines of a chunk and of all chunks: process, body, number, and first place. [`super::triage`] has
//! their meaning.
//!
//! Bodies are compared without their numbers and addresses, so memory follows the number of processes and
//! kinds, not that of lines.

use super::normalise::normalise_text;
use super::returned_errors::ReturnedErrors;
pub(crate) use super::warning_lines::WarningLines;
use crate::grammar::ending::has_nccl_error;
use crate::grammar::message::NcclMessage;
use crate::grammar::message::c10d::{self, C10dMessage};
use crate::grammar::message::error_trace::ErrorReturn;
use crate::grammar::message::network::net::NetMessage;
use crate::grammar::message::network::nic::{NicKind, NicList};
use crate::grammar::message::warn::WarnMessage;
use crate::log::walk::{MessageLine, RepairedCall};
use crate::members::Interner;
use crate::stages::check::limits::MAX_LINE_TEXT_BYTES;
use crate::stages::check::log::job_ends::{JobEnds, has_version_suffix};
use crate::stages::check::warn::limits::{MAX_ADDRESSES_KEPT, MAX_PROCESS_BODY_PAIRS};
use crate::stages::check::watchdog::{Watchdog, WatchdogRecord};
use crate::stages::net::net_stage::FirstReportLine;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A process's thread.
type ProcessThread = (u32, Option<u64>);

/// One chunk's WARN lines and PyTorch watchdog lines.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct WarnPartial {
    bodies: FxHashMap<Box<[u8]>, u32>,
    /// Lines by process and body.
    seen: FxHashMap<(u32, u32), WarningLines>,
    uncounted: u64,
    /// Addresses that processes report as their own, with the first line.
    addresses: FxHashMap<(u32, Box<[u8]>), u64>,
    /// Threads that printed a WARN last.
    open: FxHashMap<ProcessThread, (u32, u32)>,
    /// The first message of each thread in the chunk, if it is a result, and its line.
    begins: FxHashMap<ProcessThread, (Option<i32>, u64)>,
    /// Calls by process.
    calls: Vec<u64>,
    /// The line after the last WARN, and its value at each slot.
    from: u64,
    slots: Vec<u64>,
    watchdog: Watchdog,
    ends: JobEnds,
    returned: ReturnedErrors,
    scratch: Vec<u8>,
}

impl WarnPartial {
    /// Takes a message of NCCL's.
    pub(crate) fn take_message(&mut self, said: &MessageLine<'_>) {
        if matches!(said.message, NcclMessage::Version(_)) && has_version_suffix(said.text) {
            self.take_foreign_line(said.text, said.line);
            return;
        }
        self.ends.take_message(said);
        if said.message.takes_communicator_down() {
            let at = FirstReportLine::in_chunk(said.line);
            self.returned.take_takedown(said.process, at);
        }
        let thread = (said.process, said.tid);
        let result = match &said.message {
            NcclMessage::Return(ErrorReturn { code, .. }) => Some(*code),
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
            NcclMessage::Warn(warn) => self.take_warn(said, warn),
            NcclMessage::Net(NetMessage::Network(_)) => {
                let at = FirstReportLine::in_chunk(said.line);
                self.returned.take_network(said.process, at);
            }
            NcclMessage::Net(NetMessage::Nics(nics)) => self.take_nic_addresses(said, nics),
            NcclMessage::Return(back) => {
                let calls = self.calls.get(said.process as usize).copied().unwrap_or(0);
                let at = FirstReportLine::in_chunk(said.line);
                self.returned
                    .take_return(said.process, back, said.text, at, calls);
            }
            _ => {}
        }
    }

    /// Counts a call of the chunk's process `process`, in line order with the messages. If no call is counted,
    /// nothing is reported of calls after a WARN.
    #[inline]
    pub(crate) fn count_call(&mut self, process: u32) {
        let at = process as usize;
        if at >= self.calls.len() {
            self.calls.resize(at + 1, 0);
        }
        self.calls[at] += 1;
    }

    /// Marks a place where a torn call may be inserted.
    pub(crate) fn note_torn_slot(&mut self) {
        self.slots.push(self.from);
    }

    /// Counts calls with torn lines at the places where they were made.
    pub(crate) fn count_torn_calls(&mut self, torn: &[RepairedCall<'_>]) {
        let mut calls: Vec<(u32, u64)> = Vec::new();
        for RepairedCall { slot, call, .. } in torn {
            let from = self.slots.get(*slot as usize).copied();
            calls.push((call.process, from.unwrap_or(u64::MAX)));
            self.count_call(call.process);
        }
        calls.sort_unstable();
        self.returned.count_torn_calls(&calls);
        for (&(process, _), seen) in &mut self.seen {
            let until = |line| calls.partition_point(|&call| call < (process, line));
            seen.calls += (until(seen.last.line + 1) - until(0)) as u64;
        }
    }

    /// Takes a line that is not NCCL's; `number` is its line in the chunk, from 0. Returns its kind if
    /// PyTorch's watchdog printed it.
    pub(crate) fn take_foreign_line<'l>(
        &mut self,
        line: &'l [u8],
        number: u64,
    ) -> Option<C10dMessage<'l>> {
        let what = c10d::parse_c10d_line(line);
        let at = FirstReportLine::in_chunk(number);
        self.watchdog.take_piece(line, at);
        let is_nccl_failure = match &what {
            Some(what) => {
                self.watchdog.take_line(line, what, at);
                self.ends.note_rank_line(line, at);
                has_nccl_error(line)
            }
            None => self.ends.take_foreign_line(line, number),
        };
        self.returned.take_foreign_line(line, at, is_nccl_failure);
        what
    }

    fn take_warn(&mut self, said: &MessageLine<'_>, warn: &WarnMessage<'_>) {
        let (header, says) = split_header(said.text, warn.text);
        self.scratch.clear();
        normalise_text(says, &mut self.scratch);
        let next = self.bodies.len() as u32;
        let body = self.bodies.get(self.scratch.as_slice()).copied();
        let pair = (said.process, body.unwrap_or(next));
        let at = FirstReportLine::in_chunk(said.line);
        self.from = said.line + 1;
        let calls = self.calls.get(said.process as usize).copied().unwrap_or(0);
        if let Some(seen) = self.seen.get_mut(&pair) {
            seen.count += 1;
            seen.last = at;
            seen.calls = calls;
            if let Some(peer) = warn.peer() {
                seen.count_peer(peer, 1);
            }
        } else if self.seen.len() < MAX_PROCESS_BODY_PAIRS {
            if body.is_none() {
                self.bodies.insert(self.scratch.as_slice().into(), next);
            }
            let peers = warn.peer().map(|peer| (peer.into(), 1));
            let seen = WarningLines {
                count: 1,
                first: at,
                last: at,
                time: said.time.into(),
                text: [header, &says[..says.len().min(MAX_LINE_TEXT_BYTES)]]
                    .concat()
                    .into(),
                says: header.len(),
                peers: peers.into_iter().collect(),
                result: None,
                answered: None,
                calls,
                relayed_by: None,
            };
            self.seen.insert(pair, seen);
        } else {
            self.uncounted += 1;
            return;
        }
        self.open.insert((said.process, said.tid), pair);
    }

    fn take_nic_addresses(&mut self, said: &MessageLine<'_>, nics: &NicList<'_>) {
        for nic in nics.iter().chain(nics.oob) {
            let NicKind::Interface { address, .. } = nic.kind else {
                continue;
            };
            if self.addresses.len() < MAX_ADDRESSES_KEPT {
                let key = (said.process, address.into());
                self.addresses.entry(key).or_insert(said.line);
            }
        }
    }
}

/// Returns a line's header and its text, which ends the line.
fn split_header<'a>(line: &'a [u8], says: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    match line.trim_ascii_end().strip_suffix(says) {
        Some(header) if header.len() <= MAX_LINE_TEXT_BYTES => (header, says),
        _ => (b"", says),
    }
}

/// The warnings of all chunks.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    bodies: Interner<Box<[u8]>>,
    seen: FxHashMap<(u32, u32), WarningLines>,
    uncounted: u64,
    /// The processes that report an address as their own.
    addresses: BTreeSet<(Box<[u8]>, u32)>,
    open: FxHashMap<ProcessThread, (u32, u32)>,
    calls: BTreeMap<u32, u64>,
    watchdog: Watchdog,
    /// The reported ends of jobs.
    pub(crate) ends: JobEnds,
    /// The errors that NCCL's functions returned.
    pub(crate) returned: ReturnedErrors,
    /// NCCL's last WARNs as programs relay them, each with the number of its body, in line order.
    relayed: Vec<(u32, WarningLines)>,
}

impl Warnings {
    /// Adds the next chunk. `processes[p]` is the merged number of the chunk's process p, `input` the input's
    /// number, `line` the input's line at which the chunk begins.
    pub(crate) fn add_chunk(
        &mut self,
        part: WarnPartial,
        processes: &[u32],
        input: u32,
        line: u64,
    ) {
        let placed = |at: FirstReportLine| at.place_in_input(input, line);
        let merged = |process: u32| processes.get(process as usize).copied().unwrap_or(process);
        // Threads that print equal lines share the first one's result.
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
        // In line order, so that the limit drops the same lines wherever the log is cut.
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
                known.add_following(seen);
            } else if self.seen.len() < MAX_PROCESS_BODY_PAIRS {
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
        let before = &self.calls;
        self.returned
            .add_chunk(part.returned, placed, merged, |process| {
                before.get(&process).copied().unwrap_or(0)
            });
        for (process, calls) in (0..).zip(part.calls) {
            *self.calls.entry(merged(process)).or_default() += calls;
        }
        let mut addresses: Vec<_> = part.addresses.into_iter().collect();
        addresses.sort_unstable_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
        for ((process, address), _) in addresses {
            if self.addresses.len() < MAX_ADDRESSES_KEPT {
                self.addresses.insert((address, merged(process)));
            }
        }
        self.watchdog.add_chunk(part.watchdog, placed);
        self.ends.add_chunk(part.ends, placed, merged);
    }

    /// Resolves facts that need all chunks. `aliases[p]` is the process that p really is (see
    /// [`crate::members::MergedMembers::process_aliases`]).
    pub(crate) fn resolve_aliases(&mut self, aliases: &[u32]) {
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
                    known.get_mut().add_following(seen);
                    (known.get_mut().calls, known.get_mut().last) = (calls, last);
                }
                std::collections::hash_map::Entry::Vacant(free) => {
                    free.insert(seen);
                }
            }
        }
        let addresses = std::mem::take(&mut self.addresses);
        self.addresses = addresses.into_iter().map(|(a, p)| (a, real(p))).collect();
        self.watchdog.name_timeout_groups();
        let all = &self.calls;
        self.returned
            .resolve_aliases(real, |process| all.get(&process).copied().unwrap_or(0));
        let mut body = Vec::new();
        for line in self.returned.relayed_lines() {
            if !line.last_warn.is_empty() {
                body.clear();
                normalise_text(&line.last_warn, &mut body);
                let body = self.bodies.intern(body.as_slice().into());
                self.relayed
                    .push((body, WarningLines::from_relayed_line(line)));
            }
        }
    }

    /// The number of lines beyond those kept apart.
    pub(crate) fn uncounted_lines(&self) -> u64 {
        self.uncounted
    }

    /// The lines of PyTorch's watchdog, in line order.
    pub(crate) fn watchdog_lines(&self) -> &[WatchdogRecord] {
        self.watchdog.kept_records()
    }

    /// The number of processes that reported at their ordinary end that they left a process group, and the
    /// first line that reports it.
    pub(crate) fn ordinary_ends(&self) -> (u64, Option<&WatchdogRecord>) {
        self.watchdog.ordinary_ends()
    }

    /// True if calls were counted.
    pub(crate) fn counts_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// The lines by process and body, in line order.
    pub(crate) fn lines_in_order(&self) -> Vec<(u32, u32, &WarningLines)> {
        let mut all: Vec<_> = self.seen.iter().map(|(&(p, b), s)| (p, b, s)).collect();
        all.sort_unstable_by_key(|&(process, body, seen)| (seen.first, process, body));
        all
    }

    /// NCCL's last WARNs as programs relay them, each with the number of its body; in line order.
    pub(crate) fn relayed_in_order(&self) -> impl Iterator<Item = (u32, &WarningLines)> {
        self.relayed.iter().map(|(body, seen)| (*body, seen))
    }

    /// The addresses that processes report as their own.
    pub(crate) fn addresses(&self) -> &BTreeSet<(Box<[u8]>, u32)> {
        &self.addresses
    }
}
