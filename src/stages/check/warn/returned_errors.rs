//! Errors that NCCL's functions returned: the lines of an error's way to the caller, which NCCL prints, and the
//! words of programs that relay it, mostly with NCCL's last WARN.
//!
//! Of each process and result the first and the last line of the way are kept, so memory follows the number of
//! processes; of the programs' lines the first few thousand.

use crate::grammar::ending::{
    LastWarn, RelayedError, find_relayed_error, process_of_line, read_last_warn_line,
};
use crate::grammar::message::error_trace::ErrorReturn;
use crate::stages::check::limits::MAX_LINE_TEXT_BYTES;
use crate::stages::check::warn::limits::{MAX_LAST_WARN_DISTANCE, MAX_RELAYED_ERRORS};
use crate::stages::net::net_stage::FirstReportLine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An error as a program relays it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RelayedLine {
    /// Where it is.
    pub at: FirstReportLine,
    /// The line; at most 300 bytes.
    pub text: Box<[u8]>,
    /// The rank that the line names.
    pub rank: Option<u32>,
    /// The result of NCCL's function.
    pub result: Option<i32>,
    /// NCCL's last WARN, without a header; empty if there is none.
    pub last_warn: Box<[u8]>,
    /// In its place there is an error that the program got itself.
    pub is_own: bool,
}

/// The way that an error took through NCCL's functions in one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ErrorWay {
    /// The line of the function where it began.
    pub first: FirstReportLine,
    /// That line as printed; at most 300 bytes.
    pub text: Box<[u8]>,
    /// That function's source file with the line's number, and its name if it is printed.
    pub place: Box<[u8]>,
    /// The last line of the way.
    pub last: FirstReportLine,
    /// Calls of the process after the last line; calls before it until all chunks are added.
    pub calls: u64,
    /// A function that the program called returned it, or a thread that works for the program.
    pub has_reached_program: bool,
}

/// An exception's text that goes on with NCCL's last WARN in the next line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct AwaitedWarn {
    /// What the line has in front: the next line of the process has it too.
    label: Box<[u8]>,
    rank: Option<u32>,
    /// How many more lines may come before it, of other processes.
    left: usize,
}

/// The returned errors of a chunk, or of all chunks.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ReturnedErrors {
    relayed: Vec<RelayedLine>,
    /// By process and result.
    ways: BTreeMap<(u32, i32), ErrorWay>,
    /// The line at which a process began to take a communicator down: its functions return errors after it,
    /// since connections are closed.
    takedowns: BTreeMap<u32, FirstReportLine>,
    /// The line at which a process last chose a network.
    networks: BTreeMap<u32, FirstReportLine>,
    awaited: Vec<AwaitedWarn>,
    /// The first lines of the chunk that are not NCCL's: the chunk before may await one of them.
    heads: Vec<(FirstReportLine, Box<[u8]>)>,
}

impl ReturnedErrors {
    /// Takes a line that is not NCCL's, in line order; `is_failure` where it reports a failure of NCCL's or
    /// announces NCCL's last WARN.
    pub(super) fn take_foreign_line(&mut self, line: &[u8], at: FirstReportLine, is_failure: bool) {
        if self.heads.len() < MAX_LAST_WARN_DISTANCE {
            self.heads.push((at, clip_line(line)));
        }
        self.offer_line(line, at);
        if is_failure && let Some(error) = find_relayed_error(line) {
            self.take_relayed_error(line, at, &error);
        }
    }

    fn take_relayed_error(&mut self, line: &[u8], at: FirstReportLine, error: &RelayedError<'_>) {
        let rank = process_of_line(line).rank;
        let last_warn = match error.last_warn {
            LastWarn::Text(text) | LastWarn::Own(text) => text,
            LastWarn::Missing => b"",
            LastWarn::NextLine { label } => {
                if self.awaited.len() < MAX_RELAYED_ERRORS {
                    self.awaited.push(AwaitedWarn {
                        label: clip_line(label),
                        rank,
                        left: MAX_LAST_WARN_DISTANCE,
                    });
                }
                b""
            }
        };
        if error.result.is_some() || !last_warn.is_empty() {
            self.push_relayed(RelayedLine {
                at,
                text: clip_line(line),
                rank,
                result: error.result,
                last_warn: clip_line(last_warn),
                is_own: matches!(error.last_warn, LastWarn::Own(_)),
            });
        }
    }

    fn push_relayed(&mut self, line: RelayedLine) {
        // NCCL's last WARN may have the words of a program's own report.
        let is_known = line.is_own && self.relayed.iter().any(|known| known.at == line.at);
        if !is_known && self.relayed.len() < MAX_RELAYED_ERRORS {
            self.relayed.push(line);
        }
    }

    /// Takes a line if it is the last WARN that a process's text before it announced.
    fn offer_line(&mut self, line: &[u8], at: FirstReportLine) {
        if self.awaited.is_empty() {
            return;
        }
        let rank = process_of_line(line).rank;
        let found = self.awaited.iter().position(|awaited| awaited.rank == rank);
        if let Some(awaited) = found.map(|at| self.awaited.remove(at))
            && let Some(text) = read_last_warn_line(line, &awaited.label)
        {
            self.push_relayed(RelayedLine {
                at,
                text: clip_line(line),
                rank,
                result: None,
                last_warn: clip_line(text),
                is_own: false,
            });
        }
        self.awaited.retain_mut(|awaited| {
            awaited.left -= 1;
            awaited.left > 0
        });
    }

    /// Takes a line of an error's way in the chunk's process `process`, which made `calls` calls before.
    pub(super) fn take_return(
        &mut self,
        process: u32,
        back: &ErrorReturn<'_>,
        line: &[u8],
        at: FirstReportLine,
        calls: u64,
    ) {
        if matches!(back.code, 0 | 7) {
            return;
        }
        let way = self.ways.entry((process, back.code)).or_insert_with(|| {
            let mut place = back.file.to_vec();
            place.extend_from_slice(format!(":{}", back.line).as_bytes());
            if let Some(function) = back.function {
                place.extend([b" (", function, b")"].concat());
            }
            ErrorWay {
                first: at,
                text: clip_line(line),
                place: clip_line(&place),
                last: at,
                calls,
                has_reached_program: false,
            }
        });
        (way.last, way.calls) = (at, calls);
        way.has_reached_program |= is_of_program(back);
    }

    /// Takes the line at which the chunk's process chose a network: what failed before and did not reach the
    /// program was only a network that is not there.
    pub(super) fn take_network(&mut self, process: u32, at: FirstReportLine) {
        self.drop_handled(process);
        self.networks.insert(process, at);
    }

    fn drop_handled(&mut self, process: u32) {
        self.ways
            .retain(|(of, _), way| *of != process || way.has_reached_program);
    }

    /// True if a process went on with another network after a line, and no error reached its program.
    pub(crate) fn is_handled(&self, process: u32, at: FirstReportLine) -> bool {
        let went_on = self
            .networks
            .get(&process)
            .is_some_and(|network| *network > at);
        let mut ways = self.ways.range((process, i32::MIN)..=(process, i32::MAX));
        went_on && !ways.any(|(_, way)| way.has_reached_program)
    }

    /// Takes the line at which the chunk's process begins to abort or destroy a communicator.
    pub(super) fn take_takedown(&mut self, process: u32, at: FirstReportLine) {
        self.takedowns.entry(process).or_insert(at);
    }

    /// Counts calls of torn lines before the ways' last lines; `calls` are processes and lines, in order.
    pub(super) fn count_torn_calls(&mut self, calls: &[(u32, u64)]) {
        for (&(process, _), way) in &mut self.ways {
            let until = |line| calls.partition_point(|&call| call < (process, line));
            way.calls += (until(way.last.line + 1) - until(0)) as u64;
        }
    }

    /// Adds the chunk that follows; `calls` returns the calls of a process before it.
    pub(super) fn add_chunk(
        &mut self,
        part: ReturnedErrors,
        placed: impl Fn(FirstReportLine) -> FirstReportLine,
        merged: impl Fn(u32) -> u32,
        calls: impl Fn(u32) -> u64,
    ) {
        for (at, line) in &part.heads {
            self.offer_line(line, placed(*at));
        }
        for mut relayed in part.relayed {
            relayed.at = placed(relayed.at);
            self.push_relayed(relayed);
        }
        self.awaited.extend(part.awaited);
        for (process, at) in part.takedowns {
            self.takedowns.entry(merged(process)).or_insert(placed(at));
        }
        for (process, at) in part.networks {
            let process = merged(process);
            self.drop_handled(process);
            self.networks.insert(process, placed(at));
        }
        for ((process, code), mut way) in part.ways {
            let process = merged(process);
            (way.first, way.last) = (placed(way.first), placed(way.last));
            way.calls += calls(process);
            self.add_way(process, code, way);
        }
    }

    fn add_way(&mut self, process: u32, code: i32, way: ErrorWay) {
        match self.ways.entry((process, code)) {
            std::collections::btree_map::Entry::Occupied(mut known) => {
                let known = known.get_mut();
                (known.last, known.calls) = (way.last, way.calls);
                known.has_reached_program |= way.has_reached_program;
            }
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(way);
            }
        }
    }

    /// Gives the ways to the processes that theirs really are, with the calls after them; `all` returns the
    /// calls of a process.
    pub(super) fn resolve_aliases(&mut self, real: impl Fn(u32) -> u32, all: impl Fn(u32) -> u64) {
        let mut takedowns = BTreeMap::new();
        for (&process, &at) in &self.takedowns {
            let first = takedowns.entry(real(process)).or_insert(at);
            *first = at.min(*first);
        }
        self.takedowns = takedowns;
        let networks = std::mem::take(&mut self.networks).into_iter();
        self.networks = networks.map(|(process, at)| (real(process), at)).collect();
        let mut ways: Vec<_> = std::mem::take(&mut self.ways).into_iter().collect();
        ways.sort_by_key(|(_, way)| way.first);
        for ((process, code), mut way) in ways {
            way.calls = all(process).saturating_sub(way.calls);
            self.add_way(real(process), code, way);
        }
        self.relayed.sort_by_key(|line| line.at);
    }

    /// The programs' lines, in line order. NCCL's last WARN alone proves nothing: other programs print such
    /// words too, so all are left out where no line names a result or an error of its own.
    pub(crate) fn relayed_lines(&self) -> &[RelayedLine] {
        let is_sure = |line: &RelayedLine| line.result.is_some() || line.is_own;
        match self.relayed.iter().any(is_sure) {
            true => &self.relayed,
            false => &[],
        }
    }

    /// The way of a result in a process, unless it began after the process took a communicator down.
    pub(crate) fn error_way(&self, process: u32, code: i32) -> Option<&ErrorWay> {
        let way = self.ways.get(&(process, code))?;
        let takedown = self.takedowns.get(&process);
        Some(way).filter(|way| takedown.is_none_or(|takedown| way.first < *takedown))
    }

    /// The ways by process and result, but those that began after the process took a communicator down.
    pub(crate) fn error_ways(&self) -> impl Iterator<Item = (u32, i32, &ErrorWay)> {
        let keys = self.ways.keys();
        keys.filter_map(|&(process, code)| Some((process, code, self.error_way(process, code)?)))
    }
}

/// True for a function of NCCL's interface, or a thread whose errors the program is given.
fn is_of_program(back: &ErrorReturn<'_>) -> bool {
    const FILES: [&[u8]; 4] = [b"init.cc", b"group.cc", b"enqueue.cc", b"collectives.cc"];
    let is_file = FILES.iter().any(|file| back.file.ends_with(file));
    is_file
        || back
            .thread
            .is_some_and(|thread| !thread.starts_with(b"Service"))
}

fn clip_line(line: &[u8]) -> Box<[u8]> {
    line[..line.len().min(MAX_LINE_TEXT_BYTES)].into()
}
