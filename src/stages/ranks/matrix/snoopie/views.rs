//! The tables: accesses by instruction, data object, line or place of launch, and by who accesses whom.

use super::By;
use super::fold::{BINS, Cell as Counts, Device, Key};
use super::runs::{Run, Runs};
use crate::formats::snoopie::op::Kind;
use crate::formats::snoopie::tables::{Site, Tables};
use crate::output::render::{Cell, Grid};
use std::collections::BTreeMap;

/// The rows of a table, those with the most accesses first.
pub fn grid(runs: &Runs, by: By) -> Grid {
    let mut found: Vec<(Counts, Vec<Cell<'static>>)> = Vec::new();
    for ((folder, pid), run) in &runs.by {
        let of = |key: &Key| subject(run, key, by);
        let mut groups: BTreeMap<(Subject, Way), Counts> = BTreeMap::new();
        for (key, counts) in run.fold.cells() {
            let way = (key.running, key.owner, key.kind);
            groups.entry((of(key), way)).or_default().add(counts);
        }
        let all: u64 = groups
            .values()
            .map(|counts| counts.accesses)
            .fold(0, u64::saturating_add);
        for ((subject, way), counts) in groups {
            let mut row: Vec<Cell<'static>> = vec![folder.clone().into(), (*pid).into()];
            row.extend(subject.cells(run));
            row.extend(cells(runs, way, &counts, all));
            found.push((counts, row));
        }
    }
    found.sort_by_key(|(counts, _)| std::cmp::Reverse(counts.accesses));
    let own: &[&str] = match by {
        By::Op => &["op"],
        By::Object => &[
            "object",
            "device",
            "address",
            "size",
            "strip",
            "allocated_at",
        ],
        By::Line => &["file", "line", "estimated"],
        By::Context => &["context", "launched_at"],
    };
    let shared = [
        "kind",
        "issuer",
        "owner",
        "from",
        "to",
        "accesses",
        "error",
        "bytes",
        "share",
        "warps",
        "lanes_per_warp",
        "sectors_per_warp",
        "cachelines_per_warp",
        "other_owner",
    ];
    let columns = ["run", "pid"].iter().chain(own).chain(&shared);
    Grid {
        columns: columns.map(|&name| name.to_owned()).collect(),
        rows: found.into_iter().map(|(_, row)| row).collect(),
    }
}

/// Who accesses whom, and how.
type Way = (Device, Device, Option<Kind>);

/// What a row is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Op(Box<[u8]>),
    /// A range of memory, by its place in the tool's list.
    Range(Option<usize>, Device, Option<Kind>),
    /// File, line, and whether the line is that of the instruction before.
    Line(Box<[u8]>, Option<u64>, bool),
    Context(Option<u64>),
}

fn subject(run: &Run, key: &Key, by: By) -> Subject {
    match by {
        By::Op => Subject::Op(run.fold.ops.get(key.op).clone()),
        By::Object => Subject::Range(key.range, key.running, key.kind),
        By::Line => {
            let (file, line, is_estimated) = place(&run.tables, key);
            Subject::Line(file, line, is_estimated)
        }
        By::Context => Subject::Context(key.context),
    }
}

/// The file and the line of an access, as far as they are known.
pub(super) fn place(tables: &Tables, key: &Key) -> (Box<[u8]>, Option<u64>, bool) {
    let known = key.line_index.and_then(|index| tables.lines.get(&index));
    match known {
        Some(known) if known.file.is_empty() => (
            Box::default(),
            Some(known.line).filter(|&n| n > 0),
            known.is_estimated,
        ),
        Some(known) => (
            path(&known.dir, &known.file),
            Some(known.line),
            known.is_estimated,
        ),
        None => (Box::default(), key.line.filter(|&n| n > 0), false),
    }
}

fn path(dir: &[u8], file: &[u8]) -> Box<[u8]> {
    match dir {
        b"" => file.into(),
        dir => [dir, b"/", file].concat().into(),
    }
}

impl Subject {
    fn cells(&self, run: &Run) -> Vec<Cell<'static>> {
        let text = |bytes: &[u8]| (!bytes.is_empty()).then(|| bytes.to_vec()).into();
        match self {
            Subject::Op(name) => vec![text(name)],
            Subject::Range(None, ..) => vec![Cell::Empty; 6],
            Subject::Range(Some(at), running, kind) => {
                let range = run.fold.range(*at);
                let object = range.and_then(|range| range.object);
                let device = range.and_then(|range| range.device);
                let stack = object.and_then(|id| run.tables.objects.get(&id));
                let frames = stack.map(|stack| frames(stack, &run.tables.sites));
                vec![
                    object.into(),
                    device.map(|device| device.to_string()).into(),
                    range.map(|range| format!("{:#018x}", range.start)).into(),
                    range.map(|range| range.size).into(),
                    run.fold
                        .strips
                        .get(&(*at, *running, *kind))
                        .map(|bins| strip(bins))
                        .into(),
                    frames.filter(|text| !text.is_empty()).into(),
                ]
            }
            Subject::Line(file, line, is_estimated) => vec![
                text(file),
                (*line).into(),
                match is_estimated {
                    true => "yes".into(),
                    false if line.is_some() => "no".into(),
                    false => Cell::Empty,
                },
            ],
            Subject::Context(context) => {
                let stack = context.and_then(|id| run.tables.contexts.get(&id));
                let frames = stack.map(|stack| frames(stack, &run.tables.exec_sites));
                vec![(*context).into(), frames.into()]
            }
        }
    }
}

/// A call stack, the innermost frame first: `main a.cu:3 < ...`; a frame that is not known by its number.
fn frames(stack: &[u64], sites: &rustc_hash::FxHashMap<u64, Site>) -> String {
    let frame = |number: &u64| match sites.get(number) {
        None => format!("{number:#x}"),
        Some(site) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let place = match (&site.file[..], site.line) {
                (b"", _) => String::new(),
                (file, line) => format!("{}:{line}", text(file)),
            };
            let function = text(&site.function);
            match (function.is_empty(), place.is_empty()) {
                (false, false) => format!("{function} {place}"),
                (false, true) => function,
                (true, false) => place,
                (true, true) => format!("{number:#x}"),
            }
        }
    };
    stack.iter().map(frame).collect::<Vec<_>>().join(" < ")
}

/// Accesses over the addresses of a range: a character for each part, blank where there are none.
fn strip(bins: &[u64; BINS]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = bins.iter().copied().max().unwrap_or(0).max(1);
    let block = |&n: &u64| match n {
        0 => '·',
        n => BLOCKS[(u128::from(n - 1) * 8 / u128::from(most)).min(7) as usize],
    };
    bins.iter().map(block).collect()
}

/// What every table has of a row.
fn cells(
    runs: &Runs,
    (running, owner, kind): Way,
    counts: &Counts,
    all: u64,
) -> [Cell<'static>; 14] {
    let (from, to) = kind.unwrap_or(Kind::Store).way(running, owner);
    let known = |device: Device| kind.map(|_| device.text()).into();
    let warps = counts.warps;
    let each = |n: u64| (warps > 0).then(|| n as f64 / warps as f64);
    let bytes = (counts.unsized_ == 0).then(|| runs.scaled(counts.bytes, kind));
    // Each packet was recorded with the chance 1/n: the variance is n (n - 1) times the sum of squares.
    let n = runs.sampling as f64;
    let is_sampled = n > 1.0 && kind != Some(Kind::Copy);
    let error = is_sampled.then(|| (n * (n - 1.0) * counts.squares as f64).sqrt());
    let lanes = counts.accesses.min(warps.saturating_mul(32));
    [
        kind.map(Kind::name).into(),
        running.text().into(),
        owner.text().into(),
        known(from),
        known(to),
        runs.scaled(counts.accesses, kind).into(),
        error.into(),
        bytes.into(),
        Cell::share(counts.accesses as f64, all as f64),
        warps.into(),
        each(lanes).into(),
        each(counts.sectors).into(),
        each(counts.lines).into(),
        counts.others.into(),
    ]
}
