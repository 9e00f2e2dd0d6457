//! The matrix as a graph for Graphviz: a node for each end, an edge for each cell.

use super::cells::{MatrixCell, TrafficBasis, TrafficMatrix, TrafficSum, TrafficUnit};
use super::endpoints::Endpoint;
use super::text_map::short_number;
use crate::error::{Error, Result};
use crate::report::escape_for_terminal;
use std::collections::BTreeMap;
use std::io::Write;

/// Writes the graph, with all steps together. An edge's width is in proportion to its `unit`; modelled edges
/// are dashed.
///
/// # Errors
/// The output cannot be written.
pub fn write_dot(matrix: &TrafficMatrix, unit: TrafficUnit, out: &mut dyn Write) -> Result<()> {
    write_dot_lines(matrix, unit, out).map_err(Error::Output)
}

fn write_dot_lines(
    matrix: &TrafficMatrix,
    unit: TrafficUnit,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let entries = matrix.entries();
    let mut ends: Vec<&Endpoint> = entries
        .iter()
        .flat_map(|entry| [entry.from, entry.to])
        .collect();
    ends.sort();
    ends.dedup();
    let mut edges: BTreeMap<(usize, usize, TrafficBasis), TrafficSum> = BTreeMap::new();
    for MatrixCell {
        from,
        to,
        basis,
        sum,
        ..
    } in &entries
    {
        let place = |end: &Endpoint| ends.binary_search(&end).unwrap_or(0);
        let edge = (place(from), place(to), *basis);
        edges.entry(edge).or_default().add_sum(*sum);
    }
    let most = edges
        .values()
        .map(|sum| unit.value_of(sum))
        .max()
        .unwrap_or(0);
    writeln!(out, "digraph matrix {{")?;
    writeln!(out, "  node [shape=box];")?;
    for (number, end) in ends.iter().enumerate() {
        writeln!(
            out,
            "  n{number} [label=\"{}\"];",
            quoted_endpoint_name(end)
        )?;
    }
    for ((from, to, basis), sum) in edges {
        let n = unit.value_of(&sum);
        // Hundredths of the widest edge.
        let width = n.saturating_mul(100).checked_div(most).unwrap_or(0).max(10);
        let style = if basis.is_model() {
            ", style=dashed"
        } else {
            ""
        };
        writeln!(
            out,
            "  n{from} -> n{to} [label=\"{} {}\", weight={width}, penwidth={}.{:02}{style}];",
            short_number(n, unit),
            basis.name(),
            width / 25,
            width % 25 * 4
        )?;
    }
    writeln!(out, "}}")
}

/// Returns an end's name for a quoted string.
fn quoted_endpoint_name(end: &Endpoint) -> String {
    let text = match end {
        Endpoint::Unknown => b"unknown".to_vec(),
        end => end.to_text(),
    };
    let text = escape_for_terminal(&String::from_utf8_lossy(&text), false);
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
