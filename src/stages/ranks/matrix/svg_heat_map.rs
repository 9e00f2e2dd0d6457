//! The matrix as a heat map in SVG.

use super::cells::{TrafficMatrix, TrafficUnit};
use super::text_map::{FittedMatrix, describe_totals, short_number};
use crate::output::render::units::{group_digits, short_bytes};
use crate::output::svg::draw_picture;
use crate::output::svg::plot::ColumnAxis;
use crate::output::svg::plot::{LegendEntry, Plot, PlotMark, PlotStrip, draw_map};
use crate::stages::matrix::limits::MAX_PICTURE_ENDPOINTS;

/// Returns the heat map and lines above it; no map of an empty matrix. If there are too many ends, folds them
/// to hosts, or shows the busiest.
pub(crate) fn plot_matrix(
    matrix: &TrafficMatrix,
    unit: TrafficUnit,
) -> (Vec<String>, Option<Plot>) {
    let picture = FittedMatrix::fit_matrix(matrix, unit, |_| MAX_PICTURE_ENDPOINTS);
    let words = |n: u128| match unit {
        TrafficUnit::Bytes => short_bytes(n as f64),
        TrafficUnit::Calls => short_number(n, unit),
    };
    let mut notes = vec![describe_totals(matrix, unit, words)];
    if picture.is_folded {
        notes.push("ranks and GPUs are folded to hosts".to_owned());
    }
    if picture.left_out.0 > 0 {
        notes.push(format!(
            "the busiest; {} more are left out",
            picture.left_out.0
        ));
    }
    let names = &picture.names;
    let mut rows: Vec<PlotStrip> = names
        .iter()
        .map(|name| PlotStrip {
            name: format!("from {}{name}", picture.kind),
            marks: vec![PlotMark::default(); names.len()],
        })
        .collect();
    for (&(from, to), sum) in &picture.cells {
        let mark = rows.get_mut(from).and_then(|row| row.marks.get_mut(to));
        let (Some(mark), Some(sender), Some(receiver)) = (mark, names.get(from), names.get(to))
        else {
            continue;
        };
        let n = unit.value_of(sum);
        let modelled = picture.modelled.get(&(from, to));
        let modelled = modelled.map_or(0, |sum| unit.value_of(sum));
        mark.value = n as f64;
        mark.is_round = 2 * modelled > n;
        mark.class = if mark.is_round { "c3" } else { "c1" };
        mark.text = words(n);
        let source = match modelled {
            0 => String::new(),
            _ if modelled == n => ", modelled".to_owned(),
            _ => format!(", {modelled} of them modelled"),
        };
        let exact = format!("{} {}", group_digits(n), unit.name());
        let amount = match n {
            0..1024 => exact,
            _ => format!("{} ({exact})", words(n)),
        };
        mark.title = format!("{sender} to {receiver}: {amount}{source}");
    }
    let looks = [
        ("c1", false, "recorded, or by the definition of the call"),
        (
            "c3",
            true,
            "mostly modelled: a collective's rings and trees",
        ),
    ];
    let marks = || rows.iter().flat_map(|row| &row.marks);
    let is_there = |class: &str| marks().any(|mark| mark.class == class);
    let looks = looks.into_iter().filter(|(class, ..)| is_there(class));
    let legend: Vec<LegendEntry> = looks
        .map(|(class, is_round, words)| LegendEntry {
            is_round,
            ..LegendEntry::new(class, words)
        })
        .collect();
    let (least, most) = picture.cell_range(unit);
    let name = format!(
        "{} from each row to each column; stronger = more (logarithmic scale), {} to {}",
        unit.name(),
        words(least),
        words(most)
    );
    let axis = ColumnAxis {
        name: format!("to {}", picture.kind).trim_end().to_owned(),
        labels: names.clone(),
    };
    (notes, draw_map(&name, &rows, &axis, &legend))
}

/// Returns the heat map as a file; only its head if the matrix is empty.
pub fn draw_matrix_svg(matrix: &TrafficMatrix, unit: TrafficUnit) -> String {
    let (notes, plot) = plot_matrix(matrix, unit);
    let plots: Vec<Plot> = plot.into_iter().collect();
    draw_picture(&notes, &plots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::matrix::cells::{TrafficBasis, TrafficSum};
    use crate::stages::matrix::endpoints::{Endpoint, HostLabel};

    #[test]
    fn modelled_cells_look_unlike_recorded_ones() {
        let mut matrix = TrafficMatrix::default();
        let host = HostLabel::from_host(b"a");
        let [from, to] = [0, 1].map(|rank| matrix.intern_endpoint(Endpoint::Rank(rank), &host));
        let sum = |bytes| TrafficSum::from_calls(1, Some(bytes));
        matrix.add_to_cell(None, from, to, TrafficBasis::Sent, sum(10));
        matrix.add_to_cell(None, to, from, TrafficBasis::Ring, sum(20));
        matrix.add_to_cell(None, to, from, TrafficBasis::Sent, sum(5));
        let svg = draw_matrix_svg(&matrix, TrafficUnit::Bytes);
        // A cell and its entry in the legend.
        assert_eq!(svg.matches("rx=").count(), 2, "{svg}");
        for text in [
            ">0 to 1: 10 bytes<",
            ">from rank 0<",
            ">to rank<",
            ">25 B<",
            "10 B to 25 B",
            "1 to 0: 25 bytes, 20 of them modelled",
            "recorded, or by",
        ] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
    }
}
