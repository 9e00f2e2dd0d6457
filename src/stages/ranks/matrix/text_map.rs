//! The matrix as text: shades of block characters with short numbers, within a terminal's columns.

use super::cells::{TrafficMatrix, TrafficSum, TrafficUnit};
use super::endpoints::Endpoint;
use crate::output::render::look::wrap_text;
use crate::report::escape_for_terminal;
use crate::stages::matrix::limits::{DEFAULT_MAP_COLUMNS, MAP_CELL_COLUMNS, MAX_MAP_LABEL_COLUMNS};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A matrix that fits into a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FittedMatrix {
    /// The names of rows and columns.
    pub names: Vec<String>,
    /// What stands before each name: `rank ` or `host `; nothing where the names have it.
    pub kind: &'static str,
    /// Sums by row (sender) and column (receiver).
    pub cells: BTreeMap<(usize, usize), TrafficSum>,
    /// The modelled part of these.
    pub modelled: BTreeMap<(usize, usize), TrafficSum>,
    /// Rows are hosts instead of ranks or GPUs.
    pub is_folded: bool,
    /// The number of ends that are left out, and their traffic.
    pub left_out: (usize, TrafficSum),
}

impl FittedMatrix {
    /// Returns at most `fit` ends, with all steps together: folded to hosts if these are fewer, then the
    /// busiest.
    pub fn fit_matrix(
        matrix: &TrafficMatrix,
        unit: TrafficUnit,
        fit: impl Fn(&[String]) -> usize,
    ) -> FittedMatrix {
        let (ends, cells) = sum_over_steps(matrix);
        let names = |ends: &[Endpoint]| ends.iter().map(endpoint_label).collect::<Vec<_>>();
        if ends.len() <= fit(&names(&ends)) {
            return FittedMatrix::choose_endpoints(&ends, &cells, unit, usize::MAX, false);
        }
        let folded = matrix.fold_to_hosts();
        let (hosts, by_host) = sum_over_steps(&folded);
        match hosts.len() > 1 && hosts.len() < ends.len() {
            true => {
                FittedMatrix::choose_endpoints(&hosts, &by_host, unit, fit(&names(&hosts)), true)
            }
            false => FittedMatrix::choose_endpoints(&ends, &cells, unit, fit(&names(&ends)), false),
        }
    }

    fn choose_endpoints(
        ends: &[Endpoint],
        cells: &EndpointSums,
        unit: TrafficUnit,
        fit: usize,
        is_folded: bool,
    ) -> FittedMatrix {
        let mut busy = vec![0_u128; ends.len()];
        for (&(from, to), sum) in &cells.all {
            for at in [from, to] {
                if let Some(all) = busy.get_mut(at) {
                    *all = all.saturating_add(unit.value_of(sum));
                }
            }
        }
        let mut order: Vec<usize> = (0..ends.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(busy.get(at).copied()));
        order.truncate(fit);
        order.sort_unstable();
        let place: BTreeMap<usize, usize> = order.iter().copied().zip(0..).collect();
        let mut picture = FittedMatrix {
            names: order
                .iter()
                .filter_map(|&at| ends.get(at))
                .map(endpoint_label)
                .collect(),
            kind: shared_kind(ends),
            cells: BTreeMap::new(),
            modelled: BTreeMap::new(),
            is_folded,
            left_out: (ends.len() - order.len(), TrafficSum::default()),
        };
        for (key, sum) in &cells.all {
            match place.get(&key.0).zip(place.get(&key.1)) {
                Some((&from, &to)) => {
                    picture.cells.insert((from, to), *sum);
                    let modelled = cells.modelled.get(key);
                    let modelled = modelled.map(|sum| ((from, to), *sum));
                    picture.modelled.extend(modelled);
                }
                None => picture.left_out.1.add_sum(*sum),
            }
        }
        picture
    }

    /// The least value of a cell that has any, and the largest.
    pub fn cell_range(&self, unit: TrafficUnit) -> (u128, u128) {
        let all = self.cells.values().map(|sum| unit.value_of(sum));
        let all = all.filter(|&n| n > 0);
        (all.clone().min().unwrap_or(0), all.max().unwrap_or(0))
    }
}

/// Sums by the places of two ends: all, and the modelled part.
#[derive(Default)]
struct EndpointSums {
    all: BTreeMap<(usize, usize), TrafficSum>,
    modelled: BTreeMap<(usize, usize), TrafficSum>,
}

/// Returns the ends in order, and the cells by their positions, over all steps and sources.
fn sum_over_steps(matrix: &TrafficMatrix) -> (Vec<Endpoint>, EndpointSums) {
    let entries = matrix.entries();
    let mut ends: Vec<Endpoint> = entries
        .iter()
        .flat_map(|entry| [entry.from.clone(), entry.to.clone()])
        .collect();
    ends.sort();
    ends.dedup();
    let mut cells = EndpointSums::default();
    for entry in &entries {
        let place = |end: &Endpoint| ends.binary_search(end).unwrap_or(0);
        let at = (place(entry.from), place(entry.to));
        cells.all.entry(at).or_default().add_sum(entry.sum);
        if entry.basis.is_model() {
            cells.modelled.entry(at).or_default().add_sum(entry.sum);
        }
    }
    (ends, cells)
}

/// Returns what stands before the names of these ends.
fn shared_kind(ends: &[Endpoint]) -> &'static str {
    let all =
        |is: fn(&Endpoint) -> bool| ends.iter().all(|end| *end == Endpoint::Unknown || is(end));
    match () {
        () if all(|end| matches!(end, Endpoint::Rank(_))) => "rank ",
        () if all(|end| matches!(end, Endpoint::Host(_))) => "host ",
        () => "",
    }
}

/// Returns an end's name for a picture.
fn endpoint_label(end: &Endpoint) -> String {
    if *end == Endpoint::Unknown {
        return "unknown".to_owned();
    }
    let text = escape_for_terminal(&String::from_utf8_lossy(&end.to_text()), false);
    let chars: Vec<char> = text.chars().collect();
    match chars.len() > MAX_MAP_LABEL_COLUMNS {
        true => {
            let (head, tail) = (MAX_MAP_LABEL_COLUMNS / 2 - 1, MAX_MAP_LABEL_COLUMNS / 2);
            let first = chars.iter().take(head);
            let last = chars.iter().skip(chars.len() - tail);
            first.chain(['…'].iter()).chain(last).collect()
        }
        false => text,
    }
}

/// Formats a number in at most five characters: bytes in units of 1024, calls of 1000.
pub fn short_number(n: u128, unit: TrafficUnit) -> String {
    let step = match unit {
        TrafficUnit::Bytes => 1024.0,
        TrafficUnit::Calls => 1000.0,
    };
    if n < 1000 {
        return n.to_string();
    }
    let mut value = n as f64;
    for letter in ["", "K", "M", "G", "T", "P", "E", "Z", "Y"] {
        if value < 99.95 && !letter.is_empty() {
            return format!("{value:.1}{letter}");
        }
        if value < 999.5 {
            return format!("{value:.0}{letter}");
        }
        value /= step;
    }
    "many".to_owned()
}

/// Returns one of four shades for the share of the largest cell.
fn shade_of(n: u128, most: u128) -> char {
    match n.saturating_mul(4).checked_div(most) {
        None | Some(0) if n == 0 => '·',
        None | Some(0) => '░',
        Some(1) => '▒',
        Some(2) => '▓',
        Some(_) => '█',
    }
}

/// Returns the columns of the row names, and the number of cells that fit beside them.
fn fit_columns(names: &[String], width: usize) -> (usize, usize) {
    let longest = names.iter().map(|name| name.chars().count()).max();
    let longest = longest.unwrap_or(0).max("from".len());
    // If names do not fit above columns, columns have numbers.
    let number = match longest >= MAP_CELL_COLUMNS {
        true => names.len().to_string().len() + 1,
        false => 0,
    };
    let side = longest + number;
    (side, (width.saturating_sub(side) / MAP_CELL_COLUMNS).max(1))
}

/// Draws the matrix. Without a terminal, the width is the default, and sentences are not wrapped.
pub fn draw_text_map(matrix: &TrafficMatrix, unit: TrafficUnit, terminal: Option<usize>) -> String {
    let width = terminal.unwrap_or(DEFAULT_MAP_COLUMNS);
    let picture = FittedMatrix::fit_matrix(matrix, unit, |names| fit_columns(names, width).1);
    let names = &picture.names;
    let (side, _) = fit_columns(names, width);
    let is_numbered = names
        .iter()
        .any(|name| name.chars().count() >= MAP_CELL_COLUMNS);
    let mut out = String::new();
    let units = match unit {
        TrafficUnit::Bytes => "K is 1024",
        TrafficUnit::Calls => "K is 1000",
    };
    let head = format!(
        "{} from each row to each column, {units}; {}",
        unit.name(),
        describe_totals(matrix, unit, |n| short_number(n, unit))
    );
    wrap_sentence(&head, terminal, &mut out);
    let _ = write!(out, "{:side$}", "from");
    for (at, name) in (1..).zip(names) {
        let head = if is_numbered {
            at.to_string()
        } else {
            name.clone()
        };
        let _ = write!(out, "{head:>MAP_CELL_COLUMNS$}");
    }
    out.push('\n');
    let (_, most) = picture.cell_range(unit);
    let digits = names.len().to_string().len();
    for (row, name) in names.iter().enumerate() {
        let head = match is_numbered {
            true => format!("{:>digits$} {name}", row + 1),
            false => name.clone(),
        };
        let _ = write!(out, "{head:side$}");
        for column in 0..names.len() {
            let sum = picture.cells.get(&(row, column)).copied();
            let n = sum.map_or(0, |sum| unit.value_of(&sum));
            let number = match sum {
                None => String::new(),
                Some(sum) if unit == TrafficUnit::Bytes && sum.unknown == sum.calls => {
                    "?".to_owned()
                }
                Some(_) => short_number(n, unit),
            };
            let _ = write!(out, " {} {number:>5}", shade_of(n, most));
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    if picture.is_folded {
        let folded = "ranks and GPUs are folded to hosts, so that they fit; --format csv has all";
        wrap_sentence(folded, terminal, &mut out);
    }
    let (ends, sum) = picture.left_out;
    if ends > 0 {
        let less = format!(
            "the busiest rows and columns; {ends} more are left out, with {} {} from or to them; \
             --format csv has all",
            short_number(unit.value_of(&sum), unit),
            unit.name()
        );
        wrap_sentence(&less, terminal, &mut out);
    }
    out
}

/// Wraps a sentence to the terminal.
fn wrap_sentence(text: &str, terminal: Option<usize>, out: &mut String) {
    for line in wrap_text(text, terminal.unwrap_or(usize::MAX)) {
        out.push_str(&line);
        out.push('\n');
    }
}

/// Describes the sum of each source; `words` formats it.
pub fn describe_totals(
    matrix: &TrafficMatrix,
    unit: TrafficUnit,
    words: impl Fn(u128) -> String,
) -> String {
    let all = matrix.totals_by_basis();
    let all = all
        .iter()
        .map(|(basis, sum)| format!("{} {}", basis.name(), words(unit.value_of(sum))));
    all.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::matrix::cells::TrafficBasis;
    use crate::stages::matrix::endpoints::HostLabel;

    fn ring(ranks: u32, hosts: u32) -> TrafficMatrix {
        let mut matrix = TrafficMatrix::default();
        let ends: Vec<_> = (0..ranks)
            .map(|rank| {
                let host = format!("node{}", rank * hosts / ranks);
                matrix.intern_endpoint(Endpoint::Rank(rank), &HostLabel::from_host(host.as_bytes()))
            })
            .collect();
        for (at, &from) in ends.iter().enumerate() {
            let to = ends[(at + 1) % ends.len()];
            let bytes = 1000 * (at as u128 + 1);
            matrix.add_to_cell(
                None,
                from,
                to,
                TrafficBasis::Sent,
                TrafficSum::from_calls(1, Some(bytes)),
            );
        }
        matrix
    }

    #[test]
    fn eight_ranks_fit_eighty_columns() {
        let text = draw_text_map(&ring(8, 1), TrafficUnit::Bytes, Some(DEFAULT_MAP_COLUMNS));
        assert!(
            text.lines()
                .all(|line| line.chars().count() <= DEFAULT_MAP_COLUMNS),
            "{text}"
        );
        assert_eq!(text.lines().count(), 10, "{text}");
        assert!(
            text.contains("▒  2.9K") && text.contains("█  7.8K"),
            "{text}"
        );
    }

    #[test]
    fn more_are_folded_to_hosts_or_the_busiest_are_shown() {
        let folded = draw_text_map(&ring(16, 2), TrafficUnit::Bytes, Some(DEFAULT_MAP_COLUMNS));
        assert!(folded.contains("node0") && folded.contains("folded to hosts"));
        let one = draw_text_map(&ring(16, 1), TrafficUnit::Bytes, Some(DEFAULT_MAP_COLUMNS));
        assert!(
            one.contains("7 more are left out") && one.contains("\n15 "),
            "{one}"
        );
        for text in [folded, one] {
            let widest = text.lines().take(10).map(|line| line.chars().count()).max();
            assert!(widest <= Some(DEFAULT_MAP_COLUMNS), "{text}");
        }
    }

    #[test]
    fn numbers_are_short() {
        let of = |n| short_number(n, TrafficUnit::Bytes);
        assert_eq!(
            (of(0), of(999), of(1000)),
            ("0".into(), "999".into(), "1.0K".into())
        );
        assert_eq!(
            (of(1023 * 1024), of(1 << 20)),
            ("1.0M".into(), "1.0M".into())
        );
        assert_eq!((of(102_400), of(u128::MAX)), ("100K".into(), "many".into()));
        assert_eq!(short_number(12_345, TrafficUnit::Calls), "12.3K");
        for n in 0..200_000 {
            assert!(of(n).len() <= 5);
        }
    }
}
