//! cuda_gpu_trace: a row for each kernel, copy and fill. Kernels are added up as the summaries do.

use super::{StatsField, StatsKernel, StatsLine, StatsSummary, number};
use rustc_hash::FxHashMap;

/// The key of a kernel: its name, and its grid and block if they separate rows.
type LaunchedName = (Vec<u8>, Option<([u32; 3], [u32; 3])>);

/// The durations of kernels, in ns.
#[derive(Debug)]
pub(super) struct TracedKernels {
    by_grid: bool,
    durations: FxHashMap<LaunchedName, Vec<u64>>,
}

impl TracedKernels {
    pub(super) fn new(by_grid: bool) -> TracedKernels {
        TracedKernels {
            by_grid,
            durations: FxHashMap::default(),
        }
    }

    /// Adds a launch.
    pub(super) fn add_launch(&mut self, kernel: StatsKernel) {
        let key = (kernel.name, kernel.launched.filter(|_| self.by_grid));
        let all = self.durations.entry(key).or_default();
        all.push(kernel.summary.total);
    }

    /// Returns a row for each kernel, the longest total first.
    pub(super) fn into_kernels(self) -> Vec<StatsKernel> {
        let add = |all: u128, ns: &u64| all + u128::from(*ns);
        let all = self.durations.values().flatten().fold(0, add);
        let mut kernels: Vec<StatsKernel> = self
            .durations
            .into_iter()
            .filter_map(|((name, launched), durations)| {
                let summary = sum_up(durations)?;
                Some(StatsKernel {
                    name,
                    launched,
                    percent: Some(100.0 * summary.total as f64 / (all as f64).max(1.0)),
                    summary,
                    has_copies: false,
                    is_launch: false,
                })
            })
            .collect();
        kernels.sort_by(|a, b| {
            let order = b.summary.total.cmp(&a.summary.total);
            order.then_with(|| (&a.name, a.launched).cmp(&(&b.name, b.launched)))
        });
        kernels
    }
}

/// Adds durations up; `None` if there are none.
fn sum_up(mut durations: Vec<u64>) -> Option<StatsSummary> {
    durations.sort_unstable();
    let n = durations.len();
    let (min, max) = (*durations.first()?, *durations.last()?);
    let total = durations
        .iter()
        .fold(0, |all: u64, ns| all.saturating_add(*ns));
    let average = total as f64 / n as f64;
    let squares = durations.iter().map(|&ns| (ns as f64 - average).powi(2));
    let middle = |at: usize| durations.get(at).map(|&ns| ns as f64);
    Some(StatsSummary {
        total,
        instances: n as u64,
        average,
        median: Some((middle((n - 1) / 2)? + middle(n / 2)?) / 2.0),
        min,
        max,
        deviation: (n > 1).then(|| (squares.sum::<f64>() / (n - 1) as f64).sqrt()),
    })
}

/// Returns true for the columns of a trace of kernels.
pub(super) fn are_columns_of_trace(columns: &[(StatsField, u64)]) -> bool {
    let needed = [
        StatsField::Start,
        StatsField::Duration,
        StatsField::GridSide(0),
        StatsField::BlockSide(0),
        StatsField::Name,
    ];
    let has = |field| columns.iter().any(|(known, _)| *known == field);
    needed.into_iter().all(has)
}

/// Reads the fields of a row: of a copy or a fill, grid and block are empty.
pub(super) fn parse_launch(fields: &[((StatsField, u64), &[u8])]) -> StatsLine {
    let (mut grid, mut block) = ([None; 3], [None; 3]);
    let (mut duration, mut name) = (None, None);
    for &((field, ns), text) in fields {
        let side = || number::parse_whole_ns(text, 1).and_then(|n| u32::try_from(n).ok());
        match field {
            StatsField::GridSide(at) if at < 3 => grid[at] = side(),
            StatsField::BlockSide(at) if at < 3 => block[at] = side(),
            StatsField::Duration => duration = number::parse_whole_ns(text, ns),
            StatsField::Name => name = Some(text.trim_ascii()),
            _ => {}
        }
    }
    let name = name.filter(|name| !name.is_empty());
    let (Some(total), Some(name)) = (duration, name) else {
        return StatsLine::Damaged;
    };
    if name.starts_with(b"[CUDA mem") {
        return StatsLine::Other;
    }
    let whole = |sides: [Option<u32>; 3]| Some([sides[0]?, sides[1]?, sides[2]?]);
    StatsLine::Kernel(Box::new(StatsKernel {
        name: name.to_vec(),
        launched: whole(grid).zip(whole(block)),
        summary: StatsSummary {
            total,
            instances: 1,
            average: total as f64,
            median: None,
            min: total,
            max: total,
            deviation: None,
        },
        percent: None,
        has_copies: false,
        is_launch: true,
    }))
}
