//! nccl-comms: the call table, a row for every call or for every distinct one.
//!
//! A call's step is known only when its step line comes, later in the log. So a log is walked
//! twice: once for its steps, once for its rows. Rows are made in rounds of a few chunks: walked
//! on all cores, numbered in order, written out as text on all cores.

use super::survey::survey;
use crate::calls::{self, Options as Read, Progress, Who};
use crate::error::{Error, Result};
use crate::fold;
use crate::formats::{self, Format, log, rows};
use crate::join::Joined;
use crate::origin::{Merged, Renumbered};
use crate::records::{Datatype, RedOp, has_redop, has_root};
use crate::report::Report;
use crate::scan::{self, Call, Scanned, Visit};
use crate::source::{Chunk, Input, Origin};
use crate::table::{Row, csv_header};
use crate::tally::{self, Key, NO_ROOT, NONE, Ops, Sizing, Value};
use crate::timeline::{self, Present, Timeline, Window};
use rustc_hash::FxHashMap;
use std::io::Write;

/// Bytes of a chunk whose rows are made at a time: its calls and its text are in memory.
const ROUND_CHUNK: usize = 2 << 20;

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Which rows.
    pub filter: Filter,
    /// How they are written.
    pub form: Form,
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// CSV with a header.
    #[default]
    Csv,
    /// JSON lines.
    Jsonl,
    /// The AWK chain's `op count datatype bytes`.
    Chain,
    /// Columns to look at.
    Table,
}

/// Which calls are wanted; an empty list asks for all.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Operations.
    pub ops: Vec<Vec<u8>>,
    /// Communicators, by address or by id.
    pub comms: Vec<u64>,
    /// Ranks in the communicator.
    pub ranks: Vec<u32>,
    /// Hosts.
    pub hosts: Vec<Vec<u8>>,
    /// Bytes from, on the API basis; a call whose bytes are not known does not pass.
    pub min_bytes: Option<u128>,
    /// Bytes up to and with.
    pub max_bytes: Option<u128>,
}

impl Filter {
    /// True for a row that is wanted.
    pub fn passes(&self, row: &Row<'_>) -> bool {
        let is = |p: Option<u64>| p.is_some_and(|p| self.comms.contains(&p));
        (self.ops.is_empty() || self.ops.iter().any(|op| op == row.op))
            && (self.comms.is_empty() || is(row.comm) || is(row.comm_id))
            && (self.ranks.is_empty() || row.rank.is_some_and(|r| self.ranks.contains(&r)))
            && (self.hosts.is_empty() || self.hosts.iter().any(|h| h == row.host))
            && self
                .min_bytes
                .is_none_or(|min| row.bytes().is_some_and(|b| b >= min))
            && self
                .max_bytes
                .is_none_or(|max| row.bytes().is_some_and(|b| b <= max))
    }
}

impl Form {
    fn header(self) -> Vec<u8> {
        match self {
            Form::Csv => csv_header().into_bytes(),
            Form::Table => table_header(),
            Form::Jsonl | Form::Chain => Vec::new(),
        }
    }

    fn row(self, row: &Row<'_>, out: &mut Vec<u8>) {
        match self {
            Form::Csv => row.csv(out),
            Form::Jsonl => row.jsonl(out),
            Form::Chain => row.chain(out),
            Form::Table => table_row(row, out),
        }
    }
}

/// What `--unique` tells apart: every column but time, tid, seq, op_count and stream, and the
/// step only where steps are asked for.
fn unique_tally(steps: bool) -> tally::Options {
    tally::Options {
        sizing: Sizing::Count,
        basis: crate::records::Basis::Api,
        members: true,
        datatypes: true,
        steps,
        exact: true,
    }
}

/// Writes one row for each distinct call, with how often it was made, sorted.
///
/// # Errors
/// As [`calls::count`]; the output cannot be written.
pub fn unique(
    origins: &[Origin],
    read: &Read,
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    out: &mut dyn Write,
) -> Result<()> {
    let calls = calls::count(
        origins,
        read,
        &unique_tally(read.window.is_some()),
        report,
        progress,
    )?;
    let mut rows: Vec<(Row<'_>, &Who)> = calls
        .cells
        .iter()
        .map(|((step, key), value)| (unique_row(&calls, *step, key, value), key))
        .filter(|(row, _)| options.filter.passes(row))
        .map(|(row, key)| (row, &calls.who[key.member as usize]))
        .collect();
    // Numbers given to members and operations depend on the order of the inputs; values do not.
    rows.sort_by(|(a, who_a), (b, who_b)| {
        let key = |r: &Row<'_>| {
            let step = (r.step.is_none(), r.step);
            (step, r.count, r.datatype, r.nranks, r.redop, r.root)
        };
        (key(a).0, who_a, a.op)
            .cmp(&(key(b).0, who_b, b.op))
            .then_with(|| key(a).cmp(&key(b)))
    });
    let mut text = options.form.header();
    for (row, _) in &rows {
        options.form.row(row, &mut text);
        if text.len() > 1 << 20 {
            out.write_all(&text).map_err(Error::Output)?;
            text.clear();
        }
    }
    out.write_all(&text).map_err(Error::Output)
}

fn unique_row<'c>(calls: &'c calls::Calls, step: Option<u64>, key: &Key, value: &Value) -> Row<'c> {
    let who = &calls.who[key.member as usize];
    let op = calls.ops.name(key.op);
    Row {
        step,
        host: &who.host,
        pid: who.pid,
        dev: who.dev,
        rank: who.rank,
        nranks: (key.nranks > 0).then_some(key.nranks),
        comm: who.comm,
        comm_id: who.comm_id,
        op,
        count: key.size,
        datatype: Datatype::from_code(key.datatype),
        redop: Some(key.redop)
            .filter(|&r| r != NONE && has_redop(op))
            .map(RedOp),
        root: Some(key.root).filter(|&r| r != NO_ROOT && has_root(op)),
        calls: value.calls,
        src: b"log",
        ..Row::default()
    }
}

/// Writes a row for every call.
///
/// # Errors
/// The window is not there; an input cannot be read, the output not written.
pub fn rows(
    origins: &[Origin],
    read: &Read,
    options: &Options,
    report: &mut Report,
    progress: &dyn Progress,
    out: &mut dyn Write,
) -> Result<()> {
    let mut run = Run {
        read,
        options,
        surveyed: Merged::default(),
        merged: Merged::default(),
        seqs: Seqs::default(),
    };
    // The window is checked over all inputs before the first row goes out.
    let mut present = Present::default();
    let mut plans = Vec::new();
    calls::each(origins, read.source, report, |input, report| {
        plans.push(run.plan(input, report, progress, &mut present)?);
        Ok(())
    })?;
    if let Some(window) = &read.window {
        present.check(window).map_err(Error::Content)?;
    }
    progress.finish();
    out.write_all(&options.form.header())
        .map_err(Error::Output)?;
    for plan in plans {
        match plan {
            Plan::Log(input, timeline, aliases) => run.log(&input, &timeline, &aliases, out)?,
            Plan::Table(input, format) => run.table(&input, format, report, out)?,
        }
    }
    Ok(())
}

/// What is known of an input before its rows are written.
enum Plan {
    Log(Input, Timeline, Vec<u32>),
    Table(Input, Format),
}

struct Run<'o> {
    read: &'o Read,
    options: &'o Options,
    /// Who was met in the first walk.
    surveyed: Merged,
    /// Who was met so far in the second.
    merged: Merged,
    seqs: Seqs,
}

impl Run<'_> {
    fn plan(
        &mut self,
        input: Input,
        report: &mut Report,
        progress: &dyn Progress,
        present: &mut Present,
    ) -> Result<Plan> {
        let format = formats::recognise(&input.head()?);
        if format != Format::Log {
            return self.plan_table(input, format, present);
        }
        let input = input.rewindable()?;
        let merged = &mut self.surveyed;
        let survey = survey(&input, &self.read.log, merged, |b| progress.advance(b))?;
        report.input(&input.name(), &survey.log.account);
        if survey.log.account.calls == 0 {
            calls::no_calls(&input.name(), survey.log.account.lines, report);
        }
        let timeline = timeline::resolve(&survey.log.marks, &self.read.timeline);
        if self.read.window.is_some() {
            calls::said(&input.name(), &timeline, report);
        }
        present.add(&timeline);
        Ok(Plan::Log(input, timeline, self.surveyed.aliases()))
    }

    fn plan_table(&self, input: Input, format: Format, present: &mut Present) -> Result<Plan> {
        if self.read.window.is_none() {
            return Ok(Plan::Table(input, format));
        }
        let input = input.rewindable()?;
        rows::read(
            &input,
            format,
            false,
            |_| {},
            |row| {
                if let Some(step) = row.step {
                    present.step(step, 1);
                }
                Ok(())
            },
        )?;
        Ok(Plan::Table(input, format))
    }

    /// A table's rows, filtered, in their order.
    fn table(
        &self,
        input: &Input,
        format: Format,
        report: &mut Report,
        out: &mut dyn Write,
    ) -> Result<()> {
        let mut text = Vec::new();
        let strict = self.read.log.strict;
        let account = rows::read(
            input,
            format,
            strict,
            |_| {},
            |row| {
                let in_window = |w: &Window| row.step.is_some_and(|step| w.contains(step));
                if self.read.window.as_ref().is_none_or(in_window)
                    && self.options.filter.passes(row)
                {
                    self.options.form.row(row, &mut text);
                    if text.len() > 1 << 18 {
                        out.write_all(&text).map_err(Error::Output)?;
                        text.clear();
                    }
                }
                Ok(())
            },
        )?;
        report.input(&input.name(), &account);
        out.write_all(&text).map_err(Error::Output)
    }

    /// A log's rows.
    fn log(
        &mut self,
        input: &Input,
        timeline: &Timeline,
        aliases: &[u32],
        out: &mut dyn Write,
    ) -> Result<()> {
        self.merged.next_input();
        let jobs = self.read.log.jobs;
        let mut chunks = input.chunks(ROUND_CHUNK, scan::quiet)?;
        let mut log = log::Log::default();
        let (options, read) = (self.options, self.read);
        loop {
            let round: Vec<Result<Chunk>> = chunks.by_ref().take(4 * jobs).collect();
            if round.is_empty() {
                return Ok(());
            }
            let mut parts = Vec::with_capacity(round.len());
            let walk = |chunk: Result<Chunk>| -> Result<(Chunk, Scanned<Records>)> {
                let chunk = chunk?;
                let scanned = log::scan(&chunk, &read.log, Records::new(chunk.bytes()));
                Ok((chunk, scanned))
            };
            fold::ordered(jobs, round.into_iter(), walk, |walked| {
                let (chunk, scanned) = walked?;
                let (mut to, mut joined) = (Renumbered::default(), Vec::new());
                let part = log.add(scanned, &mut self.merged, &mut to, &mut joined);
                let (gap, mut records) = (part.gap, part.visit);
                records.put_in(&joined, &to, &self.merged, &mut self.seqs);
                parts.push((chunk, records, gap));
                Ok(())
            })?;
            let (merged, surveyed) = (&self.merged, &self.surveyed);
            let texts = |(chunk, records, gap): (Chunk, Records, usize)| {
                let mut text = Vec::new();
                records.write(
                    chunk.bytes(),
                    gap,
                    merged,
                    (surveyed, aliases),
                    timeline,
                    |row| {
                        let in_window = |w: &Window| row.step.is_some_and(|s| w.contains(s));
                        if read.window.as_ref().is_none_or(in_window) && options.filter.passes(row)
                        {
                            options.form.row(row, &mut text);
                        }
                    },
                );
                text
            };
            fold::ordered(jobs, parts.into_iter(), texts, |text| {
                out.write_all(&text).map_err(Error::Output)
            })?;
        }
    }
}

/// How many calls each (process, communicator) made so far; Send and Recv apart, per peer.
type Seqs = FxHashMap<SeqKey, Seq>;

/// A sequence's number of calls before the chunk in hand and behind it.
#[derive(Debug, Clone, Copy, Default)]
struct Seq {
    now: u64,
    next: u64,
}

/// Send or not, and to whom; `None` for collectives.
type Peer = Option<(bool, i64)>;

/// The process, the communicator, its identity, and for Send and Recv which and to whom.
type SeqKey = (u32, u64, u32, Peer);

/// A call of a chunk, small.
#[derive(Debug, Clone, Copy)]
struct Record {
    member: u32,
    op: u32,
    gap: u32,
    datatype: u32,
    count: u64,
    redop: u64,
    root: i64,
    stream: u64,
    op_count: u64,
    tid: Option<u64>,
    /// Where the time stamp stands: in the chunk, or in `Records::times` for a joined line.
    time: (u32, u32),
    /// Its number among the calls of `sequence` in the chunk.
    seq: u64,
    /// Index into `Records::sequences`.
    sequence: u32,
}

/// A chunk's calls, in line order.
struct Records {
    /// Address of the chunk's first byte, to place time stamps in it.
    base: usize,
    ops: Ops,
    gap: u32,
    list: Vec<Record>,
    /// The sequences that calls of this chunk belong to: by member, and for Send and Recv by
    /// peer. How many calls each has here; once merged, how many it had before.
    sequences: Vec<((u32, Peer), u64)>,
    sequence_of: FxHashMap<(u32, Peer), u32>,
    /// Merged member by the chunk's; joined calls' members stand behind.
    members: Vec<u32>,
    /// For each slot: its place in `list` and its gap.
    slots: Vec<(usize, u32)>,
    /// Stamps of joined lines, behind the chunk's bytes.
    times: Vec<u8>,
    len: usize,
}

impl Visit for Records {
    #[inline]
    fn call(&mut self, call: &Call<'_>) {
        let mut record = self.record(call, self.gap);
        self.number(&mut record);
        self.list.push(record);
    }

    fn mark(&mut self) {
        self.gap += 1;
    }

    fn slot(&mut self) {
        self.slots.push((self.list.len(), self.gap));
    }
}

impl Records {
    fn new(bytes: &[u8]) -> Records {
        Records {
            base: bytes.as_ptr() as usize,
            ops: Ops::default(),
            gap: 0,
            list: Vec::with_capacity(bytes.len() / 256),
            sequences: Vec::new(),
            sequence_of: FxHashMap::default(),
            members: Vec::new(),
            slots: Vec::new(),
            times: Vec::new(),
            len: bytes.len(),
        }
    }

    fn record(&mut self, call: &Call<'_>, gap: u32) -> Record {
        let (op, _) = self.ops.intern(call.coll.op);
        // A chunk is far below 4 GiB, but for one line of that length: then the stamp is lost.
        let from = (call.time.as_ptr() as usize).wrapping_sub(self.base);
        let time = match (u32::try_from(from), call.time.len()) {
            (Ok(from), len) if len > 0 => (from, from.saturating_add(len as u32)),
            _ => (0, 0),
        };
        let coll = &call.coll;
        Record {
            member: call.member,
            op,
            gap,
            datatype: coll.datatype,
            count: coll.count,
            redop: coll.redop,
            root: coll.root,
            stream: coll.stream,
            op_count: coll.op_count,
            tid: call.tid,
            time,
            seq: 0,
            sequence: 0,
        }
    }

    /// Gives a call its number in its sequence.
    #[inline]
    fn number(&mut self, record: &mut Record) {
        let peer = match self.ops.name(record.op) {
            b"Send" => Some((true, record.root)),
            b"Recv" => Some((false, record.root)),
            _ => None,
        };
        let key = (record.member, peer);
        let next = self.sequences.len() as u32;
        let at = *self.sequence_of.entry(key).or_insert(next);
        if at == next {
            self.sequences.push((key, 0));
        }
        let (_, calls) = &mut self.sequences[at as usize];
        (record.sequence, record.seq) = (at, *calls);
        *calls += 1;
    }

    /// Puts the joined calls in at their slots, and turns each sequence's number of calls into
    /// the number it had before this chunk.
    fn put_in(&mut self, joined: &[Joined], to: &Renumbered, merged: &Merged, seqs: &mut Seqs) {
        self.members.clone_from(&to.members);
        self.put_joined(joined);
        let key = |(member, peer): (u32, Peer), members: &[u32]| {
            let member = merged.origins.members.get(members[member as usize]);
            let process = merged.origins.places.get(member.place).process;
            (process, member.comm, member.identity, peer)
        };
        // A process whose device changed has two members for one communicator, and a joined
        // call comes in between others: then the numbers of this chunk are counted anew.
        let mut keys: Vec<SeqKey> = self
            .sequences
            .iter()
            .map(|(k, _)| key(*k, &self.members))
            .collect();
        let distinct: rustc_hash::FxHashSet<&SeqKey> = keys.iter().collect();
        if distinct.len() < keys.len() || !joined.is_empty() {
            let mut counts: FxHashMap<SeqKey, u64> = FxHashMap::default();
            for record in &mut self.list {
                let (of, _) = self.sequences[record.sequence as usize];
                let count = counts.entry(key(of, &self.members)).or_default();
                record.seq = *count;
                *count += 1;
            }
            for (key, (_, calls)) in keys.iter().zip(&mut self.sequences) {
                *calls = counts.get(key).copied().unwrap_or(0);
            }
        }
        // Sequences of one key have one number before, and advance it once.
        for (key, (_, calls)) in keys.drain(..).zip(&mut self.sequences) {
            let before = seqs.entry(key).or_default();
            let here = std::mem::replace(calls, before.now);
            before.next = before.now + here;
        }
        for (of, _) in &self.sequences {
            if let Some(seq) = seqs.get_mut(&key(*of, &self.members)) {
                seq.now = seq.next;
            }
        }
    }

    fn put_joined(&mut self, joined: &[Joined]) {
        for call in joined.iter().rev() {
            let Some((coll, tid, time)) = call.call() else {
                continue;
            };
            let slot = self.slots.get(call.slot as usize);
            let (at, gap) = slot.copied().unwrap_or((0, 0));
            let member = self.members.len() as u32;
            self.members.push(call.member);
            let mut record = self.record(
                &Call {
                    coll,
                    member,
                    tid,
                    time: b"",
                },
                gap,
            );
            self.number(&mut record);
            if !time.is_empty() {
                let from = (self.len + self.times.len()) as u32;
                self.times.extend_from_slice(time);
                record.time = (from, from + time.len() as u32);
            }
            self.list.insert(at, record);
        }
    }

    fn write(
        &self,
        bytes: &[u8],
        gap: usize,
        merged: &Merged,
        who: (&Merged, &[u32]),
        timeline: &Timeline,
        mut sink: impl FnMut(&Row<'_>),
    ) {
        for r in &self.list {
            let member = self.members[r.member as usize];
            let member = merged.origins.members.get(member);
            let place = merged.origins.places.get(member.place);
            let real = who
                .1
                .get(place.process as usize)
                .copied()
                .unwrap_or(place.process);
            let process = merged.origins.processes.get(real);
            let identity = merged
                .identity_of(member)
                .or_else(|| who.0.sole_identity(place.process, real, member.comm));
            let op = self.ops.name(r.op);
            let (from, until) = (r.time.0 as usize, r.time.1 as usize);
            let time = if from >= self.len {
                &self.times[from - self.len..until - self.len]
            } else {
                &bytes[from..until]
            };
            sink(&Row {
                step: timeline.step_of(gap + r.gap as usize).map(|s| s.step),
                time,
                host: &process.host,
                pid: process.pid,
                tid: r.tid,
                dev: place.dev,
                rank: identity.map(|i| i.rank),
                nranks: member.nranks,
                comm: Some(member.comm),
                comm_id: identity.and_then(|i| i.comm_id),
                seq: Some(self.sequences[r.sequence as usize].1 + r.seq),
                op_count: Some(r.op_count),
                op,
                count: r.count,
                datatype: Some(Datatype(r.datatype)),
                redop: has_redop(op).then_some(RedOp(r.redop)),
                root: has_root(op).then_some(r.root),
                stream: Some(r.stream),
                calls: 1,
                src: b"log",
                ..Row::default()
            });
        }
    }
}

/// The columns to look at, and how wide.
const LOOK: [(&str, usize); 12] = [
    ("step", 6),
    ("host", 18),
    ("pid", 8),
    ("rank", 5),
    ("nranks", 6),
    ("comm", 15),
    ("seq", 7),
    ("op", 14),
    ("count", 12),
    ("datatype", 9),
    ("bytes", 13),
    ("calls", 6),
];

fn table_header() -> Vec<u8> {
    look(LOOK.map(|(name, _)| name.to_owned()))
}

fn table_row(row: &Row<'_>, out: &mut Vec<u8>) {
    fn number(n: Option<impl ToString>) -> String {
        n.map_or(String::new(), |n| n.to_string())
    }
    let text = |t: &[u8]| crate::report::printable(&String::from_utf8_lossy(t), false);
    out.extend(look([
        number(row.step),
        text(row.host),
        number(row.pid),
        number(row.rank),
        number(row.nranks),
        row.comm.map_or(String::new(), |c| format!("0x{c:x}")),
        number(row.seq),
        text(row.op),
        row.count.to_string(),
        number(row.datatype),
        number(row.bytes()),
        row.calls.to_string(),
    ]));
}

fn look(cells: [String; LOOK.len()]) -> Vec<u8> {
    let mut line = String::new();
    for (cell, (_, width)) in cells.iter().zip(LOOK) {
        line.push_str(&format!("{cell:>width$}  "));
    }
    let mut line = line.trim_end().as_bytes().to_vec();
    line.push(b'\n');
    line
}
