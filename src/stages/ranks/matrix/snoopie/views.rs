//! The tables: accesses by instruction, data object, line or place of launch, and by device and owner.

use super::AccessGrouping;
use super::fold::{AccessCounts as Counts, AccessKey, MemoryOwner};
use super::runs::{SnoopieRun, SnoopieRuns};
use crate::formats::snoopie::op::AccessKind;
use crate::formats::snoopie::tables::{CodeSite, SnoopieTables};
use crate::output::render::{Grid, TableCell};
use crate::stages::matrix::limits::BINS_PER_RANGE;
use std::collections::BTreeMap;

/// Returns the rows of a table, those with most accesses first. A row is for one subject of each of `by`.
pub fn access_grid(runs: &SnoopieRuns, by: &[AccessGrouping]) -> Grid {
    let mut found: Vec<(Counts, Vec<TableCell<'static>>)> = Vec::new();
    // A strip is kept for each object, and not for a part of its accesses.
    let has_strips = by.len() == 1;
    for ((folder, pid), run) in &runs.by {
        let of = |key: &AccessKey| -> Vec<AccessSubject> {
            by.iter()
                .map(|&by| subject_of_access(run, key, by))
                .collect()
        };
        let mut groups: BTreeMap<(Vec<AccessSubject>, AccessRoute), Counts> = BTreeMap::new();
        for (key, counts) in run.fold.iter_cells() {
            let way = (key.running, key.owner, key.kind);
            groups.entry((of(key), way)).or_default().add_counts(counts);
        }
        let all: u64 = groups
            .values()
            .map(|counts| counts.accesses)
            .fold(0, u64::saturating_add);
        for ((subjects, way), counts) in groups {
            let mut row: Vec<TableCell<'static>> = vec![folder.clone().into(), (*pid).into()];
            for subject in &subjects {
                row.extend(subject.subject_cells(run, has_strips.then_some(way)));
            }
            row.extend(count_cells(runs, way, &counts, all));
            found.push((counts, row));
        }
    }
    found.sort_by_key(|(counts, _)| std::cmp::Reverse(counts.accesses));
    let own = by.iter().flat_map(|&by| subject_columns(by, has_strips));
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
    let columns = ["run", "pid"].into_iter().chain(own).chain(shared);
    Grid {
        columns: columns.map(str::to_owned).collect(),
        rows: found.into_iter().map(|(_, row)| row).collect(),
    }
}

/// Returns the columns of a subject.
fn subject_columns(by: AccessGrouping, has_strips: bool) -> Vec<&'static str> {
    match by {
        AccessGrouping::Op => vec!["op"],
        AccessGrouping::Object => ["object", "device", "address", "size"]
            .into_iter()
            .chain(has_strips.then_some("strip"))
            .chain(["allocated_at"])
            .collect(),
        AccessGrouping::Line => vec!["file", "line", "estimated"],
        AccessGrouping::Context => vec!["context", "launched_at"],
    }
}

/// The device, the owner and the kind of accesses.
type AccessRoute = (MemoryOwner, MemoryOwner, Option<AccessKind>);

/// The subject of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum AccessSubject {
    Op(Box<[u8]>),
    /// A range of memory, by its position in the tool's list.
    Range(Option<usize>),
    /// File, line, and true if the line is that of the instruction before.
    Line(Box<[u8]>, Option<u64>, bool),
    Context(Option<u64>),
}

fn subject_of_access(run: &SnoopieRun, key: &AccessKey, by: AccessGrouping) -> AccessSubject {
    match by {
        AccessGrouping::Op => AccessSubject::Op(run.fold.ops.get(key.op).clone()),
        AccessGrouping::Object => AccessSubject::Range(key.range),
        AccessGrouping::Line => {
            let (file, line, is_estimated) = source_place(&run.tables, key);
            AccessSubject::Line(file, line, is_estimated)
        }
        AccessGrouping::Context => AccessSubject::Context(key.context),
    }
}

/// Returns the file and the line of an access, if they are known.
pub(super) fn source_place(
    tables: &SnoopieTables,
    key: &AccessKey,
) -> (Box<[u8]>, Option<u64>, bool) {
    let known = key.line_index.and_then(|index| tables.lines.get(&index));
    match known {
        Some(known) if known.file.is_empty() => (
            Box::default(),
            Some(known.line).filter(|&n| n > 0),
            known.is_estimated,
        ),
        Some(known) => (
            join_source_path(&known.dir, &known.file),
            Some(known.line),
            known.is_estimated,
        ),
        None => (Box::default(), key.line.filter(|&n| n > 0), false),
    }
}

fn join_source_path(dir: &[u8], file: &[u8]) -> Box<[u8]> {
    match dir {
        b"" => file.into(),
        dir => [dir, b"/", file].concat().into(),
    }
}

impl AccessSubject {
    /// Returns its cells; with the strip of these accesses for a range.
    fn subject_cells(
        &self,
        run: &SnoopieRun,
        strip: Option<AccessRoute>,
    ) -> Vec<TableCell<'static>> {
        let text = |bytes: &[u8]| (!bytes.is_empty()).then(|| bytes.to_vec()).into();
        match self {
            AccessSubject::Op(name) => vec![text(name)],
            AccessSubject::Range(None) => {
                let columns = subject_columns(AccessGrouping::Object, strip.is_some());
                vec![TableCell::Empty; columns.len()]
            }
            AccessSubject::Range(Some(at)) => {
                let range = run.fold.range_at(*at);
                let object = range.and_then(|range| range.object);
                let device = range.and_then(|range| range.device);
                let stack = object.and_then(|id| run.tables.objects.get(&id));
                let frames = stack.map(|stack| describe_call_stack(stack, &run.tables.sites));
                let mut cells: Vec<TableCell<'static>> = vec![
                    object.into(),
                    device.map(|device| device.to_string()).into(),
                    range.map(|range| format!("{:#018x}", range.start)).into(),
                    range.map(|range| range.size).into(),
                ];
                if let Some((running, _, kind)) = strip {
                    let bins = run.fold.strips.get(&(*at, running, kind));
                    cells.push(bins.map(|bins| draw_strip(bins)).into());
                }
                cells.push(frames.filter(|text| !text.is_empty()).into());
                cells
            }
            AccessSubject::Line(file, line, is_estimated) => vec![
                text(file),
                (*line).into(),
                match is_estimated {
                    true => "yes".into(),
                    false if line.is_some() => "no".into(),
                    false => TableCell::Empty,
                },
            ],
            AccessSubject::Context(context) => {
                let stack = context.and_then(|id| run.tables.contexts.get(&id));
                let frames = stack.map(|stack| describe_call_stack(stack, &run.tables.exec_sites));
                vec![(*context).into(), frames.into()]
            }
        }
    }
}

/// Formats a call stack, innermost frame first: `main a.cu:3 < ...`; unknown frames have their number.
fn describe_call_stack(stack: &[u64], sites: &rustc_hash::FxHashMap<u64, CodeSite>) -> String {
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

/// Draws accesses over the addresses of a range: a character for each part, `·` for none.
fn draw_strip(bins: &[u64; BINS_PER_RANGE]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = bins.iter().copied().max().unwrap_or(0).max(1);
    let block = |&n: &u64| match n {
        0 => '·',
        n => BLOCKS[(u128::from(n - 1) * 8 / u128::from(most)).min(7) as usize],
    };
    bins.iter().map(block).collect()
}

/// Returns the cells that all tables have.
fn count_cells(
    runs: &SnoopieRuns,
    route: AccessRoute,
    counts: &Counts,
    all: u64,
) -> [TableCell<'static>; 14] {
    let (running, owner, kind) = route;
    let (from, to) = kind
        .unwrap_or(AccessKind::Store)
        .source_and_target(running, owner);
    let known = |device: MemoryOwner| kind.map(|_| device.to_text()).into();
    let warps = counts.warps;
    let each = |n: u64| (warps > 0).then(|| n as f64 / warps as f64);
    let bytes = (counts.unsized_ == 0).then(|| runs.scale_sampled(counts.bytes, kind));
    // Each packet was recorded with a chance of 1/n: the variance is n (n - 1) times the sum of squares.
    let n = runs.sampling as f64;
    let is_sampled = n > 1.0 && kind != Some(AccessKind::Copy);
    let error = is_sampled.then(|| (n * (n - 1.0) * counts.squares as f64).sqrt());
    let lanes = counts.accesses.min(warps.saturating_mul(32));
    [
        kind.map(AccessKind::name).into(),
        running.to_text().into(),
        owner.to_text().into(),
        known(from),
        known(to),
        runs.scale_sampled(counts.accesses, kind).into(),
        error.into(),
        bytes.into(),
        TableCell::share_of(counts.accesses as f64, all as f64),
        warps.into(),
        each(lanes).into(),
        each(counts.sectors).into(),
        each(counts.lines).into(),
        counts.others.into(),
    ]
}
