//! All inputs as one tally: logs, call tables and chain lines together, steps resolved, members
//! named. What nccl-ops, nccl-hist and nccl-agg finish into rows.

use crate::error::{Error, Result};
use crate::formats::{self, Format, log, rows};
use crate::origin::{Interner, Merged};
use crate::records;
use crate::report::Report;
use crate::source::{self, Input, Origin};
use crate::table::Row;
use crate::tally::{self, Bag, Counted, Key, Ops, Partial, Tally, Value};
use crate::timeline::{self, Present, Timeline, Window};

/// How inputs are read.
#[derive(Debug)]
pub struct Options {
    /// How bytes come in.
    pub source: source::Options,
    /// How logs are read.
    pub log: log::Options,
    /// How steps are found.
    pub timeline: timeline::Options,
    /// The steps that count; all calls if none.
    pub window: Option<Window>,
}

/// Who made a call, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Who {
    /// The host.
    pub host: Box<[u8]>,
    /// The process.
    pub pid: Option<u64>,
    /// The CUDA device.
    pub dev: Option<u32>,
    /// The communicator's address.
    pub comm: Option<u64>,
    /// The communicator's id.
    pub comm_id: Option<u64>,
    /// The rank in it.
    pub rank: Option<u32>,
}

/// Calls of all inputs, counted.
#[derive(Debug, Default)]
pub struct Calls {
    /// Operations by number.
    pub ops: Ops,
    /// Who made calls, by the number in [`Key::member`].
    pub who: Vec<Who>,
    /// The counts by step (`None` where steps are not told apart or not known) and key.
    /// Sorted, each key once.
    pub cells: Vec<((Option<u64>, Key), Value)>,
}

/// Progress of a run: told of bytes read.
pub trait Progress: Sync {
    /// `bytes` more were read.
    fn advance(&self, bytes: u64);
    /// All is read: output begins.
    fn finish(&self) {}
}

/// Counts the calls of all `origins`.
///
/// # Errors
/// No input could be read, the window is not there, damage under `--strict`.
pub fn count(
    origins: &[Origin],
    options: &Options,
    tally: &tally::Options,
    report: &mut Report,
    progress: &dyn Progress,
) -> Result<Calls> {
    let mut all = Collector {
        options,
        tally: Tally::new(tally.clone()),
        tally_options: tally,
        merged: Merged::default(),
        logged: Bag::default(),
        rows: Bag::default(),
        who: Interner::default(),
        present: Present::default(),
    };
    each(origins, options.source, report, |input, report| {
        all.input(&input, report, progress)
    })?;
    if let Some(window) = &options.window {
        all.present.check(window).map_err(Error::Content)?;
    }
    progress.finish();
    Ok(all.finish())
}

/// Opens each input in turn and hands it to `take`. One of several that cannot be opened or
/// read is said and passed over.
///
/// # Errors
/// The only input's, or the first where none could be read; output and strict errors at once.
pub fn each(
    origins: &[Origin],
    source: source::Options,
    report: &mut Report,
    mut take: impl FnMut(Input, &mut Report) -> Result<()>,
) -> Result<()> {
    let mut read = 0;
    let mut first = None;
    for origin in origins {
        match Input::open(origin, source).and_then(|input| take(input, report)) {
            Ok(()) => read += 1,
            Err(e @ (Error::Output(_) | Error::Damaged(_) | Error::Usage(_))) => return Err(e),
            Err(e) => {
                if origins.len() > 1 {
                    report.error(&e.to_string());
                }
                first.get_or_insert(e);
            }
        }
    }
    match first {
        Some(_) if origins.len() > 1 && read == 0 => Err(Error::Content(
            "none of the inputs could be read".to_owned(),
        )),
        Some(e) if read == 0 => Err(e),
        _ => Ok(()),
    }
}

struct Collector<'o> {
    options: &'o Options,
    tally: Tally,
    tally_options: &'o tally::Options,
    merged: Merged,
    /// By merged member.
    logged: Bag<(Option<u64>, Key)>,
    /// By `who`.
    rows: Bag<(Option<u64>, Key)>,
    who: Interner<Who>,
    present: Present,
}

impl Collector<'_> {
    fn input(&mut self, input: &Input, report: &mut Report, p: &dyn Progress) -> Result<()> {
        match formats::recognise(&input.head()?) {
            Format::Log => self.log(input, report, p),
            format => self.table(input, format, report, p),
        }
    }

    fn log(&mut self, input: &Input, report: &mut Report, progress: &dyn Progress) -> Result<()> {
        let (tally, options) = (&mut self.tally, self.tally_options);
        let log = log::read(
            input,
            &self.options.log,
            &mut self.merged,
            || Partial::new(options),
            |bytes| progress.advance(bytes),
            |part| {
                tally.merge(part.visit, part.gap, part.to, part.joined);
                Ok(())
            },
        )?;
        report.input(&input.name(), &log.account);
        if log.account.calls == 0 {
            no_calls(&input.name(), log.account.lines, report);
        }
        let timeline = if self.tally_options.steps {
            let timeline = timeline::resolve(&log.marks, &self.options.timeline);
            said(&input.name(), &timeline, report);
            self.present.add(&timeline);
            timeline
        } else {
            Timeline::default()
        };
        for ((gap, key), value) in std::mem::take(&mut self.tally.calls).into_sorted() {
            let step = timeline.step_of(gap).map(|s| s.step);
            if let Some(window) = &self.options.window
                && !step.is_some_and(|s| window.contains(s))
            {
                continue;
            }
            self.logged.push((step, key), value);
        }
        Ok(())
    }

    fn table(
        &mut self,
        input: &Input,
        format: Format,
        report: &mut Report,
        progress: &dyn Progress,
    ) -> Result<()> {
        let strict = self.options.log.strict;
        let steps = self.tally_options.steps;
        let account = rows::read(
            input,
            format,
            strict,
            |b| progress.advance(b),
            |row| {
                if let (true, Some(step)) = (steps, row.step) {
                    self.present.step(step, 1);
                }
                if let Some(window) = &self.options.window
                    && !row.step.is_some_and(|s| window.contains(s))
                {
                    return Ok(());
                }
                self.row(row)
            },
        )?;
        report.input(&input.name(), &account);
        Ok(())
    }

    fn row(&mut self, row: &Row<'_>) -> Result<()> {
        let (op, kind) = self.tally.ops.intern(row.op);
        let basis = self.tally_options.basis;
        let bytes = row.bytes().and_then(|api| basis.of(kind, api, row.nranks));
        let who = if self.tally_options.members {
            self.who.intern(Who {
                host: row.host.into(),
                pid: row.pid,
                dev: row.dev,
                comm: row.comm,
                comm_id: row.comm_id,
                rank: row.rank,
            })
        } else {
            0
        };
        let datatype = row.datatype.map_or(tally::NO_TYPE, |d| d.0.into());
        let key = self.tally_options.key_of(&Counted {
            op,
            member: who,
            datatype,
            count: row.count,
            nranks: row.nranks,
            redop: row.redop.map_or(tally::NONE, |r| r.0),
            root: row.root.unwrap_or(tally::NO_ROOT),
            bytes,
        });
        let step = row.step.filter(|_| self.tally_options.steps);
        let mut value = Value::default();
        value.add(row.calls, bytes);
        self.rows.push((step, key), value);
        Ok(())
    }

    fn finish(mut self) -> Calls {
        let mut to = Vec::new();
        if self.tally_options.members {
            let aliases = self.merged.aliases();
            for member in self.merged.origins.members.items() {
                to.push(self.who.intern(who(&self.merged, &aliases, member)));
            }
        }
        let mut cells = self.rows;
        for ((step, key), value) in self.logged.into_sorted() {
            let member = to.get(key.member as usize).copied().unwrap_or(0);
            cells.push((step, Key { member, ..key }), value);
        }
        let cells = cells.into_sorted();
        Calls {
            ops: self.tally.ops,
            who: self.who.items().to_vec(),
            cells,
        }
    }
}

/// A merged member as its columns.
pub fn who(merged: &Merged, aliases: &[u32], member: &crate::origin::Member) -> Who {
    let place = merged.origins.places.get(member.place);
    let real = aliases[place.process as usize];
    let process = merged.origins.processes.get(real);
    let identity = merged.identity_as(member, real);
    Who {
        host: process.host.clone(),
        pid: process.pid,
        dev: place.dev,
        comm: Some(member.comm),
        comm_id: identity.and_then(|i| i.comm_id),
        rank: identity.map(|i| i.rank),
    }
}

/// Says what an input without calls lacks.
pub fn no_calls(name: &str, lines: u64, report: &mut Report) {
    if lines == 0 {
        report.error(&format!("{name}: the input is empty"));
    } else {
        report.warn(&format!(
            "{name}: no NCCL calls in {lines} lines; NCCL prints them under NCCL_DEBUG=INFO \
             NCCL_DEBUG_SUBSYS=INIT,COLL"
        ));
    }
}

/// Says where step times do not stand on the step lines.
pub fn stamps(name: &str, timeline: &Timeline, report: &Report) {
    if timeline.times_from_stamps {
        report.note(&format!(
            "{name}: these step lines carry no step time: it is the difference of the lines' time \
             stamps over the difference of their step numbers"
        ));
    }
}

/// Says what a reader of step numbers must know of a timeline.
pub fn said(name: &str, timeline: &Timeline, report: &Report) {
    let interval = timeline.interval();
    if interval > 1 {
        report.note(&format!(
            "{name}: the step lines come every {interval} steps: what is given for a step is the \
             sum over the steps since the line before"
        ));
    }
    let falls = timeline.steps.last().map_or(0, |s| s.segment);
    if falls > 0 {
        report.note(&format!(
            "{name}: the step number falls {falls} time{} (a restart or a new epoch): a step \
             number means that step of each of the {} segments",
            if falls == 1 { "" } else { "s" },
            falls + 1
        ));
    }
}

/// What groups rows further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The step.
    Step,
    /// The communicator as a process names it: host, pid and address.
    Comm,
    /// The communicator's id.
    CommId,
    /// The rank in the communicator.
    Rank,
    /// The host.
    Host,
    /// The datatype.
    Datatype,
}

impl By {
    /// The columns it puts in front.
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            By::Step => &["step"],
            By::Comm => &["host", "pid", "comm"],
            By::CommId => &["comm_id"],
            By::Rank => &["rank"],
            By::Host => &["host"],
            By::Datatype => &["datatype"],
        }
    }

    /// True where members must be told apart for it.
    pub fn needs_members(self) -> bool {
        !matches!(self, By::Step | By::Datatype)
    }
}

/// A value of a group's column. Numbers come in their order, then texts, then the unknown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// A number.
    Number(u64),
    /// A text.
    Text(Vec<u8>),
    /// Not known.
    Unknown,
}

impl Calls {
    /// The values of the group columns of a cell.
    pub fn group(&self, by: &[By], step: Option<u64>, key: &Key) -> Vec<Field> {
        let number = |n: Option<u64>| n.map_or(Field::Unknown, Field::Number);
        let pointer = |p: Option<u64>| p.map_or(Field::Unknown, |p| text(format!("0x{p:x}")));
        let host = |who: &Who| {
            if who.host.is_empty() {
                Field::Unknown
            } else {
                Field::Text(who.host.to_vec())
            }
        };
        let nobody = Who::default();
        let who = self.who.get(key.member as usize).unwrap_or(&nobody);
        let mut fields = Vec::new();
        for by in by {
            match by {
                By::Step => fields.push(number(step)),
                By::Comm => fields.extend([host(who), number(who.pid), pointer(who.comm)]),
                By::CommId => fields.push(pointer(who.comm_id)),
                By::Rank => fields.push(number(who.rank.map(u64::from))),
                By::Host => fields.push(host(who)),
                By::Datatype => fields.push(datatype(key.datatype)),
            }
        }
        fields
    }
}

/// A datatype's code as a field.
pub fn datatype(code: u64) -> Field {
    match records::Datatype::from_code(code) {
        Some(datatype) => text(datatype.to_string()),
        None => Field::Unknown,
    }
}

fn text(text: String) -> Field {
    Field::Text(text.into_bytes())
}
