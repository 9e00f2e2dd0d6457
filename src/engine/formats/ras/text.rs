//! RAS' answer as text (since NCCL 2.24): a summary, and the ranks that differ from others of their communicator.
//! Ranks of a large group are counted and not named.

use super::limits::{MAX_OPERATIONS, MAX_UNNAMED_RANKS};
use super::snapshot::{
    RasCommunicator, RasCountGroup, RasLostProcess, RasMissingRank, RasProcess, RasRank,
    RasRankState, RasSnapshot,
};
use crate::members::comm_id::CommId;
use std::collections::{BTreeMap, BTreeSet};

/// Reads all snapshots that follow each other.
pub(super) fn read_text_snapshots(bytes: &[u8]) -> Vec<RasSnapshot> {
    let mut reader = TextReader::default();
    for (line, number) in bytes.split(|&b| b == b'\n').zip(0..) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        reader.read_line(&String::from_utf8_lossy(line), number);
    }
    reader.end_snapshot();
    reader.done
}

/// The part of the answer in which a line is.
#[derive(Debug, Default)]
enum TextPart {
    #[default]
    Summary,
    /// The table of groups of communicators.
    Groups,
    /// The processes without an answer.
    Lost { is_dead: bool },
    /// The missing ranks of the last communicator.
    Missing,
    /// The ranks of the last communicator with an error.
    Errors { error: Option<i32> },
    /// The ranks by state.
    States { state: Option<RasRankState> },
    /// The ranks by their operations.
    Counts { op: Box<str>, count: u64 },
}

/// A communicator so far: its parts are in several sections.
#[derive(Default)]
struct TextCommunicator {
    size: Option<u32>,
    ranks: BTreeMap<u32, RasRank>,
    missing: Vec<RasMissingRank>,
    unnamed: Vec<RasCountGroup>,
}

#[derive(Default)]
struct TextReader {
    done: Vec<RasSnapshot>,
    now: RasSnapshot,
    communicators: BTreeMap<CommId, TextCommunicator>,
    /// The communicator that the lines are about.
    current: Option<CommId>,
    part: TextPart,
    /// The size of the communicators of each group.
    sizes: BTreeMap<u32, u32>,
    /// The next line is the row of the job's totals.
    is_total_next: bool,
    has_summary: bool,
    unnamed: u32,
}

impl TextReader {
    fn end_snapshot(&mut self) {
        let mut now = std::mem::take(&mut self.now);
        for (id, read) in std::mem::take(&mut self.communicators) {
            now.communicators
                .push(read.into_communicator(id, &mut self.unnamed));
        }
        let has_any = self.has_summary || !now.communicators.is_empty() || !now.lost.is_empty();
        if has_any {
            self.done.push(now);
        }
        self.part = TextPart::Summary;
        self.current = None;
        self.sizes.clear();
        self.has_summary = false;
    }

    fn current_mut(&mut self) -> Option<&mut TextCommunicator> {
        self.communicators.get_mut(&self.current?)
    }

    fn read_line(&mut self, line: &str, number: u64) {
        if let Some(version) = line.strip_prefix("NCCL version ") {
            self.end_snapshot();
            let version = version.split(" compiled").next().unwrap_or(version);
            self.now.nccl_version = Some(version.trim().into());
        } else if line == "Job summary" {
            if self.has_summary {
                self.end_snapshot();
            }
            self.has_summary = true;
        } else if line.starts_with('#') {
            self.begin_communicator(line);
        } else if line == "INCOMPLETE" || line == "DEAD" {
            self.part = TextPart::Lost {
                is_dead: line == "DEAD",
            };
        } else if line.starts_with("    #  in group") {
            self.part = TextPart::Groups;
        } else if line.contains("(total)") {
            self.is_total_next = true;
        } else if std::mem::take(&mut self.is_total_next) {
            let last = line.split_whitespace().last();
            self.now.gpus = last.and_then(|n| n.parse().ok());
        } else if line.starts_with("Errors") || line.starts_with("Warnings") {
            self.part = TextPart::Summary;
        } else if let Some(line) = line.strip_prefix("  ") {
            self.read_indented(line.trim_end(), number);
        } else {
            // Narrow numbers of the table are not indented less than two blanks; wide ones may be.
            self.read_group_row(line);
        }
    }

    /// Reads `    0         1         1         8         8 ...`: the fifth number is the size.
    fn read_group_row(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let group = words.next().and_then(|n| n.parse().ok());
        let size = words.nth(3).and_then(|n| n.parse().ok());
        if let (TextPart::Groups, Some(group), Some(size)) = (&self.part, group, size) {
            self.sizes.insert(group, size);
        }
    }

    /// Reads `#0-0 (42f187a69ed99798) MISMATCH`.
    fn begin_communicator(&mut self, line: &str) {
        let mut words = line[1..].split_whitespace();
        let group = words.next().and_then(|place| place.split_once('-'));
        let group = group.and_then(|(group, _)| group.parse::<u32>().ok());
        let hash = words.next().and_then(|word| word.strip_prefix('('));
        let hash = hash.and_then(|word| word.strip_suffix(')'));
        let hash = hash.and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let Some(hash) = hash else {
            return;
        };
        let id = CommId::from_printed(hash);
        let size = group.and_then(|group| self.sizes.get(&group).copied());
        // What comes again of a communicator is added to it.
        let known = self.communicators.entry(id).or_default();
        known.size = known.size.or(size);
        self.current = Some(id);
        self.part = match words.next() {
            Some("INCOMPLETE") => TextPart::Missing,
            Some("ERROR") => TextPart::Errors { error: None },
            _ => TextPart::States { state: None },
        };
    }

    fn read_indented(&mut self, line: &str, number: u64) {
        if matches!(self.part, TextPart::Groups | TextPart::Summary) {
            return self.read_group_row(line);
        }
        if let TextPart::Lost { is_dead } = self.part {
            let process = line.strip_prefix("Process ").and_then(parse_process);
            self.now.lost.extend(process.map(|process| RasLostProcess {
                process,
                is_dead,
                line: number,
            }));
            return;
        }
        if let Some(op) = line.strip_prefix("Communicator ranks have different ") {
            self.part = match op.strip_suffix(" operation counts") {
                Some(op) => TextPart::Counts {
                    op: op.into(),
                    count: 0,
                },
                None => TextPart::States { state: None },
            };
        } else if let Some(ranks) = line.strip_prefix("The missing rank") {
            let ranks = ranks.trim_start_matches(['s', ':', ' ']);
            for rank in ranks.split(',').filter_map(|n| n.trim().parse().ok()) {
                self.add_missing(rank, None, number);
            }
        } else if let Some(rest) = line.strip_prefix("Rank ") {
            self.read_rank(rest, number);
        } else if let Some((ranks, what)) = line.split_once(" ranks ")
            && let Ok(ranks) = ranks.parse()
        {
            self.read_value(what);
            self.add_unnamed(ranks, number);
        }
    }

    /// Reads what a group of ranks, or a rank, has.
    fn read_value(&mut self, what: &str) {
        match &mut self.part {
            TextPart::Errors { error } => {
                let text = what.strip_prefix("reported ");
                *error = text.map(parse_error).or(*error);
            }
            TextPart::States { state } => {
                let words = ["have status ", "has status "];
                let word = words.iter().find_map(|begin| what.strip_prefix(begin));
                *state = word.map_or(*state, parse_state);
            }
            TextPart::Counts { count, .. } => {
                if let Some((_, launched)) = what.split_once("launched up to operation ") {
                    *count = launched.parse().unwrap_or(*count);
                } else if what.ends_with("not launched any operations") {
                    *count = 0;
                }
            }
            _ => {}
        }
    }

    /// Notes that `ranks` have the value that was read last. Those of them that are named follow.
    fn add_unnamed(&mut self, ranks: u32, line: u64) {
        let TextPart::Counts { op, count } = &self.part else {
            return;
        };
        let group = RasCountGroup {
            op: op.clone(),
            count: *count,
            ranks,
            line,
        };
        if let Some(current) = self.current_mut() {
            current.unnamed.push(group);
        }
    }

    /// Reads `0 has launched up to operation 1 -- GPU 0 managed by process 603 on node 127.0.0.1`.
    fn read_rank(&mut self, line: &str, number: u64) {
        let (left, right) = line.split_once(" -- ").unwrap_or((line, ""));
        let (rank, what) = left.split_once(' ').unwrap_or((left, ""));
        let Ok(rank) = rank.parse::<u32>() else {
            return;
        };
        let process = right.split_once("managed by process ");
        let process = process.and_then(|(_, process)| parse_process(process));
        if matches!(self.part, TextPart::Missing) {
            return self.add_missing(rank, process, number);
        }
        if !what.is_empty() {
            self.read_value(what);
        }
        let current = self.current.and_then(|id| self.communicators.get_mut(&id));
        let Some(current) = current else {
            return;
        };
        if let TextPart::Counts { op, count } = &self.part
            && what.is_empty()
            && let Some(group) = current.unnamed.last_mut()
            && (&group.op, group.count) == (op, *count)
        {
            group.ranks = group.ranks.saturating_sub(1);
        }
        let known = current.ranks.entry(rank).or_default();
        (known.rank, known.line) = (rank, number);
        known.process = process.or(known.process.take());
        match &self.part {
            TextPart::Errors { error } => known.error = *error,
            TextPart::States { state } => known.state = *state,
            TextPart::Counts { op, count } => _ = known.counts.insert(op.clone(), *count),
            _ => {}
        }
    }

    fn add_missing(&mut self, rank: u32, process: Option<RasProcess>, line: u64) {
        let Some(current) = self.current_mut() else {
            return;
        };
        current.missing.push(RasMissingRank {
            rank,
            process,
            is_unresponsive: None,
            is_dead: false,
            line,
        });
    }
}

impl TextCommunicator {
    /// Returns the communicator. If one group of an operation has no names, its ranks are all others; `filled` counts
    /// them.
    fn into_communicator(mut self, id: CommId, filled: &mut u32) -> RasCommunicator {
        let mut by_op: BTreeMap<Box<str>, Vec<RasCountGroup>> = BTreeMap::new();
        for group in std::mem::take(&mut self.unnamed) {
            if group.ranks > 0 {
                by_op.entry(group.op.clone()).or_default().push(group);
            }
        }
        let can_fill = by_op.len() <= MAX_OPERATIONS;
        for groups in by_op.into_values() {
            match &groups[..] {
                [only] if can_fill && self.fill_group(only, filled) => {}
                _ => self.unnamed.extend(groups),
            }
        }
        RasCommunicator {
            size: self.size,
            ranks: self.ranks.into_values().collect(),
            missing: self.missing,
            unnamed: self.unnamed,
            ..RasCommunicator::of_id(id)
        }
    }

    /// Gives the ranks without a count of an operation that of the group; false if they are not as many.
    fn fill_group(&mut self, group: &RasCountGroup, filled: &mut u32) -> bool {
        let is_named = |rank: &RasRank| rank.counts.contains_key(&group.op);
        let named = self.ranks.values().filter(|rank| is_named(rank)).count();
        let known = (named + self.missing.len()) as u64;
        let is_rest = self.size.map(u64::from) == Some(known + u64::from(group.ranks));
        if !is_rest || group.ranks > MAX_UNNAMED_RANKS.saturating_sub(*filled) {
            return false;
        }
        *filled += group.ranks;
        let missing: BTreeSet<u32> = self.missing.iter().map(|rank| rank.rank).collect();
        for rank in 0..self.size.unwrap_or(0) {
            if !missing.contains(&rank) {
                let new = || RasRank {
                    rank,
                    line: group.line,
                    ..RasRank::default()
                };
                let known = self.ranks.entry(rank).or_insert_with(new);
                known.counts.entry(group.op.clone()).or_insert(group.count);
            }
        }
        true
    }
}

/// Reads `603 on node 127.0.0.1`, maybe with ` managing GPU 0`.
fn parse_process(text: &str) -> Option<RasProcess> {
    let (pid, host) = text.split_once(" on node ")?;
    Some(RasProcess {
        host: host.split_whitespace().next()?.into(),
        pid: pid.trim().parse().ok()?,
    })
}

/// Reads a status word of RAS.
fn parse_state(word: &str) -> Option<RasRankState> {
    Some(match word.trim() {
        "NOCOMM" | "UNKNOWN" => RasRankState::NoMember,
        "INIT" => RasRankState::Initialising,
        "RUNNING" => RasRankState::Running,
        "FINALIZE" => RasRankState::Finalising,
        "ABORT" => RasRankState::Aborting,
        _ => return None,
    })
}

/// Returns RAS' text of an error as `ncclResult_t`.
fn parse_error(text: &str) -> i32 {
    match text.trim() {
        "Unhandled CUDA error" => 1,
        "System error" => 2,
        "Internal error" => 3,
        "Invalid argument" => 4,
        "Invalid usage" => 5,
        "Remote process error" => 6,
        _ => -1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOP: &str = include_str!("../../../../testdata/ras/stop/ras.txt");
    const DIE: &str = include_str!("../../../../testdata/ras/die/ras.txt");

    #[test]
    fn ranks_that_are_not_named_are_the_others() {
        let all = read_text_snapshots(STOP.as_bytes());
        let last = all.last().unwrap();
        assert_eq!(
            (last.gpus, &*last.communicators.len().to_string()),
            (Some(8), "3")
        );
        let world = last
            .communicators
            .iter()
            .find(|c| c.size == Some(8))
            .unwrap();
        let counts: Vec<u64> = world
            .ranks
            .iter()
            .map(|rank| rank.counts["AllReduce"])
            .collect();
        assert_eq!(counts, [10, 12, 12, 12, 12, 12, 12, 12]);
        assert_eq!(world.ranks[0].process.as_ref().map(|p| p.pid), Some(603));
        assert_eq!(world.ranks[1].process, None);
        assert!(world.ranks[1].line > world.ranks[0].line - 2);
        assert_eq!(world.unnamed, []);
    }

    #[test]
    fn processes_without_an_answer_are_named() {
        let all = read_text_snapshots(DIE.as_bytes());
        let last = all.last().unwrap();
        let [lost] = &last.lost[..] else {
            panic!("{last:?}");
        };
        assert_eq!((lost.process.pid, lost.is_dead), (2413, false));
        let [pair] = &last.communicators[..] else {
            panic!("{last:?}");
        };
        assert_eq!(pair.missing[0].rank, 1);
        assert_eq!((pair.ranks[0].rank, pair.ranks[0].error), (0, Some(6)));
    }

    /// NCCL 2.24 and 2.25 count all operations together.
    #[test]
    fn older_answers_are_read() {
        let text = "Job summary\n===========\n\n  Nodes  Processes         GPUs  Processes     GPUs\n\
            (total)   per node  per process    (total)  (total)\n      4          8            1         32       32\n\n\
            Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n    #  in group  per comm  per node  per comm  in group\n\
            \x20   0         1         4       7-8        32        32   RUNNING  MISMATCH\n\nErrors\n======\n\nDEAD\n\
            \x20 1 job process is considered dead (unreachable via the RAS network)\n  Process 3487984 on node 172.16.64.213 managing GPU 5\n\n\
            #0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 rank\n  The missing rank: 21\n\n\
            Warnings\n========\n\n#0-0 (cf264af53edbe986) MISMATCH\n  Communicator ranks have different collective operation counts\n\
            \x20 26 ranks have launched up to operation 6650\n  5 ranks have launched up to operation 6649\n\
            \x20 Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210\n  Rank 2 -- GPU 2 (NVML 6) managed by process 483074 on node 172.16.64.210\n\
            \x20 Rank 3 -- [process information not found]\n  Rank 4 -- GPU 4 managed by process 5 on node a\n  Rank 5 -- GPU 4 managed by process 6 on node a\n";
        let [snapshot] = &read_text_snapshots(text.as_bytes())[..] else {
            panic!();
        };
        assert_eq!(snapshot.gpus, Some(32));
        assert!(snapshot.lost[0].is_dead);
        let [only] = &snapshot.communicators[..] else {
            panic!("{snapshot:?}");
        };
        assert_eq!(
            (only.size, only.missing[0].rank, only.ranks.len()),
            (Some(32), 21, 31)
        );
        let behind = only
            .ranks
            .iter()
            .filter(|rank| rank.counts["collective"] == 6649);
        assert_eq!(
            behind.map(|rank| rank.rank).collect::<Vec<_>>(),
            [0, 2, 3, 4, 5]
        );
    }

    #[test]
    fn a_number_in_the_text_asks_for_no_memory() {
        let text = "    #  in group\n    0  1  1  1  4000000000  1 RUNNING MISMATCH\n#0-0 (1) MISMATCH\n\
            \x20 Communicator ranks have different Reduce operation counts\n  3999999999 ranks have launched up to operation 1\n\
            \x20 Rank 7 has launched up to operation 2 -- x\n";
        let [snapshot] = &read_text_snapshots(text.as_bytes())[..] else {
            panic!();
        };
        let only = &snapshot.communicators[0];
        assert_eq!((only.ranks.len(), only.unnamed.len()), (1, 1));
    }
}
