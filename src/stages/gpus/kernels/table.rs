//! The tables: nccl-kernels' own, and that of `nsys stats`.

use super::sums::{KernelSums, KernelTimes};
use super::{KernelGrouping, KernelInventory, KernelKey, LaunchSize, Options};
use crate::grammar::kernel;
use crate::output::render::{Grid, TableCell};
use crate::output::table::push_csv_text;
use std::collections::BTreeMap;

/// A row of kernels and their times.
struct KernelRow<'f> {
    /// The operation of NCCL.
    op: Option<&'f [u8]>,
    /// The name; `None` if rows are operations.
    name: Option<&'f [u8]>,
    device: Option<u32>,
    launched: Option<(LaunchSize, LaunchSize)>,
    sums: KernelSums,
}

/// Key of a row: operation, name and the rest.
type KernelRowKey<'f> = (Option<&'f [u8]>, Option<&'f [u8]>, KernelKey);

/// Builds the rows, the longest first, and the ns of all kernels.
fn build_rows<'f>(found: &'f mut KernelInventory, options: &Options) -> (Vec<KernelRow<'f>>, u128) {
    let KernelInventory { names, rows, .. } = found;
    let names: &'f [Box<[u8]>] = names;
    let name = |at: usize| names.get(at).map_or(&b""[..], |name| &name[..]);
    let all = rows.iter().fold(0, |sum: u128, (_, times)| {
        sum.saturating_add(times.total_ns())
    });
    let mut of: BTreeMap<KernelRowKey<'f>, KernelTimes> = BTreeMap::new();
    for (key, times) in rows.drain(..) {
        let text = name(key.name);
        let op = kernel::op_of_kernel(text);
        let key = KernelKey { name: 0, ..key };
        let row = match options.groups_by(KernelGrouping::Op) {
            true if op.is_none() => continue,
            true => (op, None, KernelKey { row: 0, ..key }),
            false => (op, Some(text), key),
        };
        match of.entry(row) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut().append(times),
            std::collections::btree_map::Entry::Vacant(entry) => _ = entry.insert(times),
        }
    }
    let row = |((op, name, key), mut times): (_, KernelTimes)| {
        let KernelKey {
            device, launched, ..
        } = key;
        KernelRow {
            op,
            name,
            device,
            launched,
            sums: times.compute_sums(),
        }
    };
    let mut rows: Vec<KernelRow<'f>> = of.into_iter().map(row).collect();
    // The sort is stable: equal rows stay in the order of their names.
    rows.sort_by_key(|row| std::cmp::Reverse(row.sums.total));
    (rows, all)
}

/// Builds nccl-kernels' own table.
pub fn build_grid(mut found: KernelInventory, options: &Options) -> Grid {
    let mut columns = vec![
        "share",
        "total_ns",
        "instances",
        "avg_ns",
        "median_ns",
        "min_ns",
        "max_ns",
        "stddev_ns",
    ];
    let has = |by| options.groups_by(by);
    columns.extend(has(KernelGrouping::Device).then_some("device"));
    columns.extend(
        has(KernelGrouping::Grid)
            .then_some(["grid", "block"])
            .into_iter()
            .flatten(),
    );
    columns.push("op");
    columns.extend((!has(KernelGrouping::Op)).then_some("name"));
    let (rows, all) = build_rows(&mut found, options);
    let size = |[x, y, z]: LaunchSize| format!("{x}x{y}x{z}");
    let made = |row: KernelRow<'_>| {
        let sums = row.sums;
        let mut cells: Vec<TableCell<'static>> = vec![
            TableCell::share_of(sums.total as f64, all as f64),
            sums.total.into(),
            sums.instances.into(),
            sums.mean_ns().into(),
            sums.median.into(),
            sums.min.into(),
            sums.max.into(),
            sums.deviation.into(),
        ];
        if has(KernelGrouping::Device) {
            cells.push(row.device.map(u64::from).into());
        }
        if has(KernelGrouping::Grid) {
            cells.push(row.launched.map(|(grid, _)| size(grid)).into());
            cells.push(row.launched.map(|(_, block)| size(block)).into());
        }
        cells.push(row.op.map(<[u8]>::to_vec).into());
        if let Some(name) = row.name {
            cells.push(name.to_vec().into());
        }
        cells
    };
    Grid {
        columns: columns.into_iter().map(str::to_owned).collect(),
        rows: rows.into_iter().map(made).collect(),
    }
}

/// Writes the table as `nsys stats --format csv` prints it, to the last digit.
pub fn render_nsys_csv(mut found: KernelInventory, options: &Options) -> Vec<u8> {
    let has = |by| options.groups_by(by);
    let sizes = if has(KernelGrouping::Grid) {
        "GridXYZ,BlockXYZ,"
    } else {
        ""
    };
    let device = if has(KernelGrouping::Device) {
        "Device,"
    } else {
        ""
    };
    let mut out = format!(
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),{device}{sizes}Name\n"
    )
    .into_bytes();
    let (rows, all) = build_rows(&mut found, options);
    for row in rows {
        let sums = row.sums;
        let whole = |n: Option<u64>| n.map_or(String::new(), |n| n.to_string());
        let mean = match sums.average {
            Some(printed) => round_tenth(printed),
            None => quotient_tenths(sums.total, sums.instances.into()),
        };
        // nsys writes a deviation of 0 for a single kernel.
        let deviation = match (sums.deviation, sums.instances) {
            (None, 1) => Some(0.0),
            (deviation, _) => deviation,
        };
        let known = |value: Option<f64>| value.map_or(String::new(), round_tenth);
        let mut text = format!(
            "{},{},{},{mean},{},{},{},{},",
            quotient_tenths(sums.total.saturating_mul(100), all),
            sums.total,
            sums.instances,
            known(sums.median),
            whole(sums.min),
            whole(sums.max),
            known(deviation),
        );
        if has(KernelGrouping::Device) {
            text += &row
                .device
                .map_or(String::new(), |device| device.to_string());
            text.push(',');
        }
        if has(KernelGrouping::Grid) {
            let size = |of: Option<LaunchSize>| {
                of.map_or(String::new(), |[x, y, z]| format!("{x:4} {y:4} {z:4}"))
            };
            let (grid, block) = row.launched.unzip();
            text += &format!("{},{},", size(grid), size(block));
        }
        out.extend_from_slice(text.as_bytes());
        push_csv_text(row.name.or(row.op).unwrap_or_default(), &mut out);
        out.push(b'\n');
    }
    out
}

/// Formats a quotient with one decimal; a half is rounded up, as SQLite does.
fn quotient_tenths(n: u128, of: u128) -> String {
    match n.checked_mul(20).zip(of.checked_mul(2)).filter(|_| of > 0) {
        Some((twenty, two)) => {
            let tenths = twenty.saturating_add(of) / two;
            format!("{}.{}", tenths / 10, tenths % 10)
        }
        None => format!("{:.1}", n as f64 / of.max(1) as f64),
    }
}

/// Formats a number with one decimal; a half is rounded up.
fn round_tenth(x: f64) -> String {
    let up = (x * 10.0 + 0.5).floor() / 10.0;
    format!("{up:.1}")
}
