//! The matrix to look at: shades of block characters with numbers in short units, in a terminal's
//! columns.

use super::cells::{Matrix, Sum, Unit};
use super::ends::End;
use crate::output::render::look::wrapped;
use crate::report::printable;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The columns of a page that is on no terminal.
const WIDTH: usize = 80;

/// The columns of a cell: a blank, its shade, a blank and a number.
const CELL: usize = 8;

/// The columns of a name; what is longer is cut in its middle.
const LABEL: usize = 32;

/// A matrix that fits a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// The names of rows and columns.
    pub names: Vec<String>,
    /// By row and column: who sends, and who receives.
    pub cells: BTreeMap<(usize, usize), Sum>,
    /// Rows are hosts, though ranks or GPUs were asked for.
    pub is_folded: bool,
    /// Ends that are left out, and what goes between them and others.
    pub left_out: (usize, Sum),
}

impl Picture {
    /// At most `fit` ends: folded to hosts if they are fewer, then the busiest. Steps are added up.
    pub fn of(matrix: &Matrix, unit: Unit, fit: impl Fn(&[String]) -> usize) -> Picture {
        let (ends, cells) = summed(matrix);
        let names = |ends: &[End]| ends.iter().map(label).collect::<Vec<_>>();
        if ends.len() <= fit(&names(&ends)) {
            return Picture::chosen(&ends, &cells, unit, usize::MAX, false);
        }
        let folded = matrix.by_host();
        let (hosts, by_host) = summed(&folded);
        match hosts.len() > 1 && hosts.len() < ends.len() {
            true => Picture::chosen(&hosts, &by_host, unit, fit(&names(&hosts)), true),
            false => Picture::chosen(&ends, &cells, unit, fit(&names(&ends)), false),
        }
    }

    fn chosen(
        ends: &[End],
        cells: &BTreeMap<(usize, usize), Sum>,
        unit: Unit,
        fit: usize,
        is_folded: bool,
    ) -> Picture {
        let mut busy = vec![0_u128; ends.len()];
        for (&(from, to), sum) in cells {
            for at in [from, to] {
                if let Some(all) = busy.get_mut(at) {
                    *all = all.saturating_add(unit.of(sum));
                }
            }
        }
        let mut order: Vec<usize> = (0..ends.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(busy.get(at).copied()));
        order.truncate(fit);
        order.sort_unstable();
        let place: BTreeMap<usize, usize> = order.iter().copied().zip(0..).collect();
        let mut picture = Picture {
            names: order
                .iter()
                .filter_map(|&at| ends.get(at))
                .map(label)
                .collect(),
            cells: BTreeMap::new(),
            is_folded,
            left_out: (ends.len() - order.len(), Sum::default()),
        };
        for ((from, to), sum) in cells {
            match place.get(from).zip(place.get(to)) {
                Some((&from, &to)) => {
                    picture.cells.insert((from, to), *sum);
                }
                None => picture.left_out.1.add(*sum),
            }
        }
        picture
    }

    /// The most of any cell.
    pub fn most(&self, unit: Unit) -> u128 {
        let all = self.cells.values().map(|sum| unit.of(sum));
        all.max().unwrap_or(0)
    }
}

/// The ends in order, and the cells by their places, over all steps and bases.
fn summed(matrix: &Matrix) -> (Vec<End>, BTreeMap<(usize, usize), Sum>) {
    let entries = matrix.entries();
    let mut ends: Vec<End> = entries
        .iter()
        .flat_map(|entry| [entry.from.clone(), entry.to.clone()])
        .collect();
    ends.sort();
    ends.dedup();
    let mut cells: BTreeMap<(usize, usize), Sum> = BTreeMap::new();
    for entry in &entries {
        let place = |end: &End| ends.binary_search(end).unwrap_or(0);
        let at = (place(entry.from), place(entry.to));
        cells.entry(at).or_default().add(entry.sum);
    }
    (ends, cells)
}

/// An end's name in a picture.
fn label(end: &End) -> String {
    if *end == End::Unknown {
        return "unknown".to_owned();
    }
    let text = printable(&String::from_utf8_lossy(&end.text()), false);
    let chars: Vec<char> = text.chars().collect();
    match chars.len() > LABEL {
        true => {
            let (head, tail) = (LABEL / 2 - 1, LABEL / 2);
            let first = chars.iter().take(head);
            let last = chars.iter().skip(chars.len() - tail);
            first.chain(['…'].iter()).chain(last).collect()
        }
        false => text,
    }
}

/// A number in at most five characters: bytes in units of 1024, calls of 1000.
pub fn short(n: u128, unit: Unit) -> String {
    let step = match unit {
        Unit::Bytes => 1024.0,
        Unit::Calls => 1000.0,
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

/// How much of the most a cell is, in four shades.
fn shade(n: u128, most: u128) -> char {
    match n.saturating_mul(4).checked_div(most) {
        None | Some(0) if n == 0 => '·',
        None | Some(0) => '░',
        Some(1) => '▒',
        Some(2) => '▓',
        Some(_) => '█',
    }
}

/// The columns of the names at the side, and how many cells fit beside them.
fn fits(names: &[String], width: usize) -> (usize, usize) {
    let longest = names.iter().map(|name| name.chars().count()).max();
    let longest = longest.unwrap_or(0).max("from".len());
    // Names that do not fit above a column have numbers.
    let number = match longest >= CELL {
        true => names.len().to_string().len() + 1,
        false => 0,
    };
    let side = longest + number;
    (side, (width.saturating_sub(side) / CELL).max(1))
}

/// The matrix as text.
/// What is no terminal has no width, and its sentences stay whole.
pub fn text(matrix: &Matrix, unit: Unit, terminal: Option<usize>) -> String {
    let width = terminal.unwrap_or(WIDTH);
    let picture = Picture::of(matrix, unit, |names| fits(names, width).1);
    let names = &picture.names;
    let (side, _) = fits(names, width);
    let is_numbered = names.iter().any(|name| name.chars().count() >= CELL);
    let mut out = String::new();
    let units = match unit {
        Unit::Bytes => "K is 1024",
        Unit::Calls => "K is 1000",
    };
    let head = format!(
        "{} from each row to each column, {units}; {}",
        unit.name(),
        totals(matrix, unit)
    );
    sentence(&head, terminal, &mut out);
    let _ = write!(out, "{:side$}", "from");
    for (at, name) in (1..).zip(names) {
        let head = if is_numbered {
            at.to_string()
        } else {
            name.clone()
        };
        let _ = write!(out, "{head:>CELL$}");
    }
    out.push('\n');
    let most = picture.most(unit);
    let digits = names.len().to_string().len();
    for (row, name) in names.iter().enumerate() {
        let head = match is_numbered {
            true => format!("{:>digits$} {name}", row + 1),
            false => name.clone(),
        };
        let _ = write!(out, "{head:side$}");
        for column in 0..names.len() {
            let sum = picture.cells.get(&(row, column)).copied();
            let n = sum.map_or(0, |sum| unit.of(&sum));
            let number = match sum {
                None => String::new(),
                Some(sum) if unit == Unit::Bytes && sum.unknown == sum.calls => "?".to_owned(),
                Some(_) => short(n, unit),
            };
            let _ = write!(out, " {} {number:>5}", shade(n, most));
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    if picture.is_folded {
        let folded = "ranks and GPUs are folded to hosts, so that they fit; --format csv has all";
        sentence(folded, terminal, &mut out);
    }
    let (ends, sum) = picture.left_out;
    if ends > 0 {
        let less = format!(
            "the busiest rows and columns; {ends} more are left out, with {} {} from or to them; \
             --format csv has all",
            short(unit.of(&sum), unit),
            unit.name()
        );
        sentence(&less, terminal, &mut out);
    }
    out
}

/// A sentence in lines that fit.
fn sentence(text: &str, terminal: Option<usize>, out: &mut String) {
    for line in wrapped(text, terminal.unwrap_or(usize::MAX)) {
        out.push_str(&line);
        out.push('\n');
    }
}

/// What each basis comes to.
pub fn totals(matrix: &Matrix, unit: Unit) -> String {
    let all = matrix.totals();
    let all = all.iter().map(|(basis, sum)| {
        let n = short(unit.of(sum), unit);
        format!("{} {n}", basis.name())
    });
    all.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::matrix::cells::Basis;
    use crate::stages::matrix::ends::Name;

    fn ring(ranks: u32, hosts: u32) -> Matrix {
        let mut matrix = Matrix::default();
        let ends: Vec<_> = (0..ranks)
            .map(|rank| {
                let host = format!("node{}", rank * hosts / ranks);
                matrix.end(End::Rank(rank), &Name::of(host.as_bytes()))
            })
            .collect();
        for (at, &from) in ends.iter().enumerate() {
            let to = ends[(at + 1) % ends.len()];
            let bytes = 1000 * (at as u128 + 1);
            matrix.add(None, (from, to), Basis::Sent, Sum::of(1, Some(bytes)));
        }
        matrix
    }

    #[test]
    fn eight_ranks_fit_eighty_columns() {
        let text = text(&ring(8, 1), Unit::Bytes, Some(WIDTH));
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH),
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
        let folded = text(&ring(16, 2), Unit::Bytes, Some(WIDTH));
        assert!(folded.contains("node0") && folded.contains("folded to hosts"));
        let one = text(&ring(16, 1), Unit::Bytes, Some(WIDTH));
        assert!(
            one.contains("7 more are left out") && one.contains("\n15 "),
            "{one}"
        );
        for text in [folded, one] {
            let widest = text.lines().take(10).map(|line| line.chars().count()).max();
            assert!(widest <= Some(WIDTH), "{text}");
        }
    }

    #[test]
    fn numbers_are_short() {
        let of = |n| short(n, Unit::Bytes);
        assert_eq!(
            (of(0), of(999), of(1000)),
            ("0".into(), "999".into(), "1.0K".into())
        );
        assert_eq!(
            (of(1023 * 1024), of(1 << 20)),
            ("1.0M".into(), "1.0M".into())
        );
        assert_eq!((of(102_400), of(u128::MAX)), ("100K".into(), "many".into()));
        assert_eq!(short(12_345, Unit::Calls), "12.3K");
        for n in 0..200_000 {
            assert!(of(n).len() <= 5);
        }
    }
}
