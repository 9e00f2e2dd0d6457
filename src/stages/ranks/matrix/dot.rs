//! The matrix as a graph for Graphviz: a node for each end, an edge for each cell.

use super::cells::{Basis, Entry, Matrix, Sum, Unit};
use super::ends::End;
use super::map::short;
use crate::error::{Error, Result};
use crate::report::printable;
use std::collections::BTreeMap;
use std::io::Write;

/// Writes the graph. Steps are added up. The wider an edge, the more of the `unit` it carries; what is a
/// model is dashed.
///
/// # Errors
/// The output cannot be written.
pub fn write(matrix: &Matrix, unit: Unit, out: &mut dyn Write) -> Result<()> {
    lines(matrix, unit, out).map_err(Error::Output)
}

fn lines(matrix: &Matrix, unit: Unit, out: &mut dyn Write) -> std::io::Result<()> {
    let entries = matrix.entries();
    let mut ends: Vec<&End> = entries
        .iter()
        .flat_map(|entry| [entry.from, entry.to])
        .collect();
    ends.sort();
    ends.dedup();
    let mut edges: BTreeMap<(usize, usize, Basis), Sum> = BTreeMap::new();
    for Entry {
        from,
        to,
        basis,
        sum,
        ..
    } in &entries
    {
        let place = |end: &End| ends.binary_search(&end).unwrap_or(0);
        let edge = (place(from), place(to), *basis);
        edges.entry(edge).or_default().add(*sum);
    }
    let most = edges.values().map(|sum| unit.of(sum)).max().unwrap_or(0);
    writeln!(out, "digraph matrix {{")?;
    writeln!(out, "  node [shape=box];")?;
    for (number, end) in ends.iter().enumerate() {
        writeln!(out, "  n{number} [label=\"{}\"];", name(end))?;
    }
    for ((from, to, basis), sum) in edges {
        let n = unit.of(&sum);
        // In hundredths of the widest.
        let width = n.saturating_mul(100).checked_div(most).unwrap_or(0).max(10);
        let style = if basis.is_model() {
            ", style=dashed"
        } else {
            ""
        };
        writeln!(
            out,
            "  n{from} -> n{to} [label=\"{} {}\", weight={width}, penwidth={}.{:02}{style}];",
            short(n, unit),
            basis.name(),
            width / 25,
            width % 25 * 4
        )?;
    }
    writeln!(out, "}}")
}

/// An end's name inside a quoted string.
fn name(end: &End) -> String {
    let text = match end {
        End::Unknown => b"unknown".to_vec(),
        end => end.text(),
    };
    let text = printable(&String::from_utf8_lossy(&text), false);
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
