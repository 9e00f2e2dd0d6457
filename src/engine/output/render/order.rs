//! Rows in another order, and only the first of them.

use super::{Grid, TableCell};
use crate::error::{Error, Result};
use std::cmp::Ordering;

/// A column that rows are sorted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey {
    /// Its name.
    pub column: String,
    /// The largest value comes first.
    pub is_falling: bool,
}

impl std::str::FromStr for SortKey {
    type Err = String;

    fn from_str(text: &str) -> Result<SortKey, String> {
        let rest = text.strip_prefix('-');
        let column = rest.unwrap_or(text).trim();
        if column.is_empty() {
            return Err("expected the name of a column, such as calls or -calls".to_owned());
        }
        Ok(SortKey {
            column: column.to_owned(),
            is_falling: rest.is_some(),
        })
    }
}

/// Which rows come first, and how many of them are written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowOrder {
    /// The columns, the most important one first.
    pub by: Vec<SortKey>,
    /// How many rows are kept.
    pub top: Option<u64>,
}

impl RowOrder {
    /// Returns true if rows stay as they are.
    pub fn is_nothing(&self) -> bool {
        self.by.is_empty() && self.top.is_none()
    }

    /// Sorts the rows and keeps the first; gives the number of those that were left out. Equal rows
    /// keep their order, and a value that is not known comes last either way.
    ///
    /// # Errors
    /// A column that the rows do not have.
    pub fn apply_order(&self, grid: &mut Grid) -> Result<u64> {
        let keys: Vec<(usize, bool)> = self
            .by
            .iter()
            .map(|key| Ok((find_column(&grid.columns, &key.column)?, key.is_falling)))
            .collect::<Result<_>>()?;
        grid.rows.sort_by(|a, b| {
            let each = keys
                .iter()
                .map(|&(at, falls)| compare_directed(a.get(at), b.get(at), falls));
            each.fold(Ordering::Equal, Ordering::then)
        });
        let top = self.top.and_then(|top| usize::try_from(top).ok());
        let kept = top.map_or(grid.rows.len(), |top| top.min(grid.rows.len()));
        let left = grid.rows.len() - kept;
        grid.rows.truncate(kept);
        Ok(left as u64)
    }
}

/// Returns the place of a column.
fn find_column(columns: &[String], name: &str) -> Result<usize> {
    columns.iter().position(|is| is == name).ok_or_else(|| {
        Error::Usage(format!(
            "--sort {name}: expected one of the columns {}",
            columns.join(", ")
        ))
    })
}

/// Compares two values of a column; unknown ones come last.
fn compare_directed(a: Option<&TableCell<'_>>, b: Option<&TableCell<'_>>, falls: bool) -> Ordering {
    let known = |cell: Option<&TableCell<'_>>| !matches!(cell, None | Some(TableCell::Empty));
    match (a, b) {
        (Some(a), Some(b)) if known(Some(a)) && known(Some(b)) => {
            let order = compare_cells(a, b);
            if falls { order.reverse() } else { order }
        }
        _ => known(b).cmp(&known(a)),
    }
}

/// Compares numbers by size and before texts, texts by bytes.
fn compare_cells(a: &TableCell<'_>, b: &TableCell<'_>) -> Ordering {
    use TableCell::{Float, Int, Share, Text};
    match (a, b) {
        (Int(a), Int(b)) => a.cmp(b),
        (Float(a) | Share(a), Float(b) | Share(b)) => a.total_cmp(b),
        (Int(a), Float(b) | Share(b)) => compare_whole_fraction(*a, *b),
        (Float(a) | Share(a), Int(b)) => compare_whole_fraction(*b, *a).reverse(),
        (Text(a), Text(b)) => a.cmp(b),
        (Text(_), _) => Ordering::Greater,
        (_, Text(_)) => Ordering::Less,
        (TableCell::Empty, _) | (_, TableCell::Empty) => Ordering::Equal,
    }
}

/// Compares a whole number and one with a fraction, exactly: a sort must not see `a < b` if both
/// equal a third.
fn compare_whole_fraction(whole: u128, x: f64) -> Ordering {
    // Rust's conversion is clamped to the limits.
    let of_x = x.trunc() as u128;
    match whole.cmp(&of_x) {
        _ if x.is_sign_negative() => Ordering::Greater,
        _ if !x.is_finite() || x >= u128::MAX as f64 => Ordering::Less,
        Ordering::Equal if x.fract() > 0.0 => Ordering::Less,
        order => order,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Values near each other, so that many are equal.
    fn cell() -> impl Strategy<Value = TableCell<'static>> {
        let near = (1_u128 << 53) - 2..(1_u128 << 53) + 3;
        prop_oneof![
            (0_u128..5).prop_map(TableCell::Int),
            near.clone().prop_map(TableCell::Int),
            near.prop_map(|n| TableCell::Float(n as f64)),
            (-4_i32..20).prop_map(|n| TableCell::Float(f64::from(n) / 4.0)),
            (0_u32..5).prop_map(|n| TableCell::Share(f64::from(n) / 4.0)),
            "[ab]{0,2}".prop_map(TableCell::from),
            Just(TableCell::Empty),
        ]
    }

    /// The naive twin: how many of the others come before a value, by the plain words of the help.
    fn is_before(a: &TableCell<'_>, b: &TableCell<'_>, falls: bool) -> bool {
        let number = |cell: &TableCell<'_>| match cell {
            // Quarters: exact for all values above.
            TableCell::Int(n) => Some(i128::try_from(*n).unwrap() * 4),
            TableCell::Float(x) | TableCell::Share(x) => Some((x * 4.0) as i128),
            _ => None,
        };
        let text = |cell: &TableCell<'_>| match cell {
            TableCell::Text(text) => Some(text.to_vec()),
            _ => None,
        };
        if *a == TableCell::Empty || *b == TableCell::Empty {
            return *a != TableCell::Empty && *b == TableCell::Empty;
        }
        let rising = match (number(a), number(b), text(a), text(b)) {
            (Some(a), Some(b), ..) => a.cmp(&b),
            (.., Some(a), Some(b)) => a.cmp(&b),
            (Some(_), ..) => Ordering::Less,
            _ => Ordering::Greater,
        };
        rising
            == if falls {
                Ordering::Greater
            } else {
                Ordering::Less
            }
    }

    proptest! {
        #[test]
        fn rows_are_sorted_as_a_naive_sort_does(
            rows in prop::collection::vec((cell(), cell()), 0..40),
            falls in any::<(bool, bool)>(),
            top in prop::option::of(0_u64..50),
        ) {
            let number = |(n, (a, b)): (usize, &(TableCell<'static>, TableCell<'static>))| {
                vec![a.clone(), b.clone(), TableCell::Int(n as u128)]
            };
            let mut grid = Grid {
                columns: ["a", "b", "n"].map(str::to_owned).to_vec(),
                rows: rows.iter().enumerate().map(number).collect(),
            };
            // An insertion sort: a row goes after all that do not come after it.
            let mut naive: Vec<Vec<TableCell<'static>>> = Vec::new();
            for row in &grid.rows {
                let after = |other: &Vec<TableCell<'static>>| {
                    is_before(&row[0], &other[0], falls.0)
                        || !is_before(&other[0], &row[0], falls.0)
                            && is_before(&row[1], &other[1], falls.1)
                };
                let at = naive.iter().position(after).unwrap_or(naive.len());
                naive.insert(at, row.clone());
            }
            let kept = top.map_or(naive.len(), |top| naive.len().min(top as usize));
            let left = (naive.len() - kept) as u64;
            naive.truncate(kept);
            let by = [("a", falls.0), ("b", falls.1)];
            let order = RowOrder {
                by: by.map(|(name, falls)| {
                    format!("{}{name}", if falls { "-" } else { "" }).parse().unwrap()
                }).to_vec(),
                top,
            };
            prop_assert_eq!(order.apply_order(&mut grid).unwrap(), left);
            prop_assert_eq!(grid.rows, naive);
        }
    }

    #[test]
    fn a_column_that_is_not_there_is_named_with_those_that_are() {
        let mut grid = Grid {
            columns: vec!["op".to_owned(), "calls".to_owned()],
            rows: Vec::new(),
        };
        let order = RowOrder {
            by: vec!["-bytes".parse().unwrap()],
            top: None,
        };
        let error = order.apply_order(&mut grid).unwrap_err().to_string();
        assert_eq!(error, "--sort bytes: expected one of the columns op, calls");
        assert!("-".parse::<SortKey>().is_err() && "".parse::<SortKey>().is_err());
    }

    #[test]
    fn the_largest_numbers_are_told_apart() {
        for (whole, x, order) in [
            (0, -0.5, Ordering::Greater),
            (0, 0.0, Ordering::Equal),
            (1, 1.5, Ordering::Less),
            (2, 1.5, Ordering::Greater),
            (u128::MAX, 1e39, Ordering::Less),
            (u128::MAX, 1e38, Ordering::Greater),
            ((1 << 53) + 1, 9_007_199_254_740_992.0, Ordering::Greater),
        ] {
            assert_eq!(compare_whole_fraction(whole, x), order, "{whole} {x}");
        }
    }
}
