//! The matrix as a heat map in SVG.

use super::cells::{Matrix, Unit};
use super::map::{Picture, short, totals};
use crate::output::svg::picture;
use crate::output::svg::plot::{Mark, Plot, Strip, map};

/// Ends that a picture shows at most.
const MOST: usize = 256;

/// The heat map, with lines for above it; none of an empty matrix. More ends than it can show are folded
/// to hosts, or the busiest are shown.
pub(crate) fn plot(matrix: &Matrix, unit: Unit) -> (Vec<String>, Option<Plot>) {
    let picture = Picture::of(matrix, unit, |_| MOST);
    let mut notes = vec![totals(matrix, unit)];
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
    let mut rows: Vec<Strip> = names
        .iter()
        .map(|name| Strip {
            name: name.clone(),
            marks: vec![Mark::default(); names.len()],
        })
        .collect();
    for (&(from, to), sum) in &picture.cells {
        let mark = rows.get_mut(from).and_then(|row| row.marks.get_mut(to));
        let (Some(mark), Some(sender), Some(receiver)) = (mark, names.get(from), names.get(to))
        else {
            continue;
        };
        let n = unit.of(sum);
        mark.value = n as f64;
        mark.class = "c1";
        mark.text = short(n, unit);
        mark.title = format!("{sender} to {receiver}: {n} {}", unit.name());
    }
    let name = format!("{} from each row to each column", unit.name());
    (notes, map(&name, &rows, names))
}

/// The heat map as a file of its own; of an empty matrix only its head.
pub fn svg(matrix: &Matrix, unit: Unit) -> String {
    let (notes, plot) = plot(matrix, unit);
    let plots: Vec<Plot> = plot.into_iter().collect();
    picture(&notes, &plots)
}
