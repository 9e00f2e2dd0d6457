//! All chunks together.

use super::burst::{Burst, Fit, How, Line, Made, Match, is_first};
use super::fold::{Late, Partial, Thread};
use super::served::Served;
use crate::grammar::values::kind;
use crate::log::Part;
use crate::members::Ops;
use crate::members::{Merged, Renumbered};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which calls a line serves, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct All {
    /// Names of operations and kernels.
    pub names: Ops,
    /// The lines by what they say and serve.
    pub found: BTreeMap<Key, Counts>,
    /// Collective calls by ranks 0, which print TUNING lines; those of one rank alone are not
    /// tuned.
    pub calls: u64,
    open: FxHashMap<Thread, Burst>,
    /// Which call was served how, if that is wanted.
    pub(super) served: Option<Served>,
}

impl All {
    /// For parts of [`Partial::in_order`]: also keeps how each call was served.
    pub(crate) fn in_order() -> All {
        All {
            served: Some(Served::default()),
            ..All::default()
        }
    }

    /// No more lines come, as after [`All::end`]: how each call was served.
    pub(crate) fn into_served(self) -> Served {
        self.served.unwrap_or_default().named(self.names)
    }

    /// How all lines and calls were joined.
    pub fn sum(&self) -> Counts {
        let mut sum = Counts::default();
        self.found.values().for_each(|counts| sum.add(*counts));
        sum
    }

    /// Adds a chunk that follows what was added before.
    pub fn add(&mut self, part: Part<'_, Partial>) {
        let Part {
            mut visit,
            to,
            merged,
            ..
        } = part;
        visit.settle();
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
        let mut numbers = Numbers {
            whole: &mut self.names,
            chunk: &names,
            to,
        };
        let matches: Vec<_> = matches
            .into_iter()
            .map(|(found, times)| (numbers.found(found), times))
            .collect();
        let threads: Vec<_> = threads
            .into_iter()
            .map(|(thread, stretch)| {
                let lead = stretch.lead.map(|burst| numbers.burst(burst));
                let open = numbers.burst(stretch.open);
                (numbers.thread(thread), lead, open)
            })
            .collect();
        let late: Vec<Late> = late.into_iter().map(|late| numbers.late(late)).collect();
        for (found, times) in matches {
            self.take(&found, times, merged);
        }
        for (thread, lead, open) in threads {
            for burst in lead.into_iter().chain([open]) {
                self.follow(thread, burst, merged);
            }
        }
        for late in late {
            match late {
                Late::Call(thread, made) => self.made(thread, made, merged),
                Late::Line(thread, line) => {
                    let burst = self.open.entry(thread).or_default();
                    *burst.lines.entry(line).or_default() += 1;
                }
            }
        }
    }

    /// Adds the lines and calls of inputs that were read elsewhere, and that come after these; `to`
    /// is how processes and members are numbered here. What belongs together is in inputs that are
    /// read together. How each call was served is known where it is read, and not merged.
    pub fn merge(&mut self, other: All, to: &Renumbered, merged: &Merged) {
        let mut numbers = Numbers {
            whole: &mut self.names,
            chunk: &other.names,
            to,
        };
        for (key, counts) in other.found {
            let key = numbers.key(key);
            self.found.entry(key).or_default().add(counts);
        }
        self.calls += other.calls;
        let open = other.open.into_iter();
        let open: Vec<_> = open
            .map(|(thread, burst)| (numbers.thread(thread), numbers.burst(burst)))
            .collect();
        for (thread, burst) in open {
            self.follow(thread, burst, merged);
        }
    }

    fn made(&mut self, thread: Thread, made: Made, merged: &Merged) {
        let burst = self.open.entry(thread).or_default();
        if burst.is_over() {
            let over = std::mem::take(burst);
            self.close(thread, &over, merged);
        }
        let burst = self.open.entry(thread).or_default();
        *burst.calls.entry(made).or_default() += 1;
    }

    /// A thread's next burst, or the rest of the one before.
    fn follow(&mut self, thread: Thread, burst: Burst, merged: &Merged) {
        let before = self.open.entry(thread).or_default();
        if before.is_over() && !burst.calls.is_empty() {
            let over = std::mem::replace(before, burst);
            self.close(thread, &over, merged);
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
        for (thread, burst) in std::mem::take(&mut self.open) {
            self.close(thread, &burst, merged);
        }
    }

    fn close(&mut self, thread: Thread, burst: &Burst, merged: &Merged) {
        let names = &self.names;
        let matches: Vec<Match> = burst.matches(|op| kind(names.name(op))).collect();
        if let Some(served) = &mut self.served {
            served.burst(thread, burst, &matches, names, merged);
        }
        for found in matches {
            self.take(&found, 1, merged);
        }
    }

    /// Counts a line for the calls it serves: those by a rank 0 if ranks are known, for no other
    /// prints it.
    fn take(&mut self, found: &Match, times: u64, merged: &Merged) {
        let fit = found.printed_by(merged);
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

/// From a chunk's numbers to those of the whole.
struct Numbers<'a> {
    whole: &'a mut Ops,
    chunk: &'a Ops,
    to: &'a Renumbered,
}

impl Numbers<'_> {
    fn name(&mut self, number: u32) -> u32 {
        self.whole.intern(self.chunk.name(number)).0
    }

    fn thread(&self, (process, tid): Thread) -> Thread {
        (self.to.processes[process as usize], tid)
    }

    fn how(&mut self, how: How) -> How {
        match how {
            How::Kernel(kernel) => How::Kernel(self.name(kernel)),
            how => how,
        }
    }

    fn line(&mut self, line: Line) -> Line {
        Line {
            op: line.op.map(|op| self.name(op)),
            how: self.how(line.how),
            ..line
        }
    }

    fn key(&mut self, key: Key) -> Key {
        Key {
            op: key.op.map(|op| self.name(op)),
            how: self.how(key.how),
            ..key
        }
    }

    fn made(&mut self, made: Made) -> Made {
        Made {
            member: self.to.members[made.member as usize],
            op: self.name(made.op),
            ..made
        }
    }

    fn found(&mut self, found: Match) -> Match {
        let line = self.line(found.line);
        let fit = found.fit.into_iter().map(|fit| Fit {
            made: self.made(fit.made),
            ..fit
        });
        Match {
            line,
            lines: found.lines,
            fit: fit.collect(),
        }
    }

    fn burst(&mut self, burst: Burst) -> Burst {
        let calls = burst.calls.into_iter();
        let calls = calls.map(|(made, n)| (self.made(made), n)).collect();
        let lines = burst.lines.into_iter();
        let lines = lines.map(|(line, n)| (self.line(line), n)).collect();
        Burst { calls, lines }
    }

    fn late(&mut self, late: Late) -> Late {
        match late {
            Late::Call(of, made) => Late::Call(self.thread(of), self.made(made)),
            Late::Line(of, line) => Late::Line(self.thread(of), self.line(line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::pieces::{made, walk};
    use crate::stages::tuning::table::{self, Options};
    use crate::testing::sent;

    /// The log with some of its calls torn at byte 128, after which another process's line is.
    fn torn(log: &[u8]) -> (Vec<u8>, usize) {
        let speaker = |line: &[u8]| line.split(|&b| b == b' ').next().map(<[u8]>::to_vec);
        let is_call = |line: &[u8]| memchr::memmem::find(line, b": opCount ").is_some();
        let mut lines = log.split_inclusive(|&b| b == b'\n').peekable();
        let (mut out, mut tears) = (Vec::new(), 0);
        while let Some(line) = lines.next() {
            let may = is_call(line) && out.len() % 5 == 0;
            let other = |next: &&[u8]| may && next.len() > 40 && speaker(line) != speaker(next);
            let (head, tail) = line.split_at(line.len().min(128));
            out.extend_from_slice(head);
            if let Some(next) = lines.next_if(other) {
                tears += 1;
                out.extend_from_slice(next);
            }
            out.extend_from_slice(tail);
        }
        (out, tears)
    }

    #[test]
    fn a_torn_call_serves_its_line_wherever_it_is_joined() {
        let log = made("2.30");
        let (torn, tears) = torn(&log);
        assert!(tears > 20, "{tears}");
        let read = |log: &[u8]| {
            let mut all = All::default();
            let merged = walk(log, log.len(), Partial::default, |part| all.add(part));
            all.end(&merged);
            let mut sum = Counts::default();
            all.found.values().for_each(|counts| sum.add(*counts));
            (sum, all.calls)
        };
        let ((whole, calls), (sum, left)) = (read(&log), read(&torn));
        assert_eq!((whole.alone, whole.lines), (0, sum.lines));
        // Only the lines of calls that cannot be joined with certainty stay alone.
        let lost = calls - left;
        assert!(lost < 4, "{lost}");
        assert_eq!((sum.joined, sum.alone), (whole.joined - lost, lost));
    }

    #[test]
    fn what_is_kept_in_order_is_the_same() {
        let (log, _) = torn(&made("2.30"));
        for size in [log.len(), 3000, 500, 1] {
            let (mut all, mut twin) = (All::in_order(), All::default());
            let merged = walk(&log, size, Partial::in_order, |part| {
                all.add(part);
                // Another machine may go on.
                if size == 3000 {
                    all = sent(&all);
                }
            });
            all.end(&merged);
            let merged = walk(&log, size, Partial::default, |part| twin.add(part));
            twin.end(&merged);
            assert_eq!((all.sum(), all.calls), (twin.sum(), twin.calls), "{size}");
            let rows = |all: &All| table::grid(all, &Options::default());
            assert_eq!(rows(&all), rows(&twin), "{size}");
        }
    }

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
