//! The stages' tables in HTML, their cells as they are in CSV: the page's script draws long numbers in
//! groups of three.

use super::super::Of;
use crate::error::escape::markup as escaped;
use crate::output::render::cells::plain;
use crate::output::render::{Cell, Sheet};
use std::fmt::Write as _;

/// A longer table is cut: the program that makes it has all rows.
pub(super) const ROWS: usize = 300;

/// A longer text has room for several words in a line.
const SENTENCE: usize = 40;

/// Columns that are empty in every row are left out of the page, and named.
pub(super) fn table(sheet: &Sheet<'_>, of: Of, out: &mut String) {
    let (mut rows, mut all) = (Vec::new(), 0);
    let mut is_known = vec![false; sheet.columns.len()];
    sheet.each(|columns, own| {
        let row = columns.iter().chain(own);
        for (is_known, cell) in is_known.iter_mut().zip(row.clone()) {
            *is_known |= *cell != Cell::Empty;
        }
        if all < ROWS {
            rows.push(row.cloned().map(Cell::into_owned).collect::<Vec<_>>());
        }
        all += 1;
    });
    let (known, empty): (Vec<usize>, Vec<usize>) =
        (0..is_known.len()).partition(|&at| is_known[at]);
    let key = of.key();
    let title = of.title();
    let _ = write!(
        out,
        "<details class=\"table\"{}><summary>{} as a table</summary>\n\
         <button type=\"button\" class=\"csv\" data-name=\"{key}\">Save as CSV</button>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{title}, table\"><table>\
         <thead><tr>",
        if all <= 12 { " open" } else { "" },
        rows_of(all),
    );
    for &at in &known {
        let name = escaped(&sheet.columns[at]);
        let _ = write!(
            out,
            "<th scope=\"col\"><button type=\"button\">{name}</button></th>"
        );
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &rows {
        out.push_str("<tr>");
        for &at in &known {
            let cell = row.get(at).unwrap_or(&Cell::Empty);
            let is_number = matches!(cell, Cell::Int(_) | Cell::Float(_) | Cell::Share(_));
            let text = plain(cell);
            out.push_str(match is_number {
                true => "<td class=n>",
                // A sentence is not to be a column of single words.
                false if text.len() > SENTENCE => "<td class=w>",
                false => "<td>",
            });
            out.push_str(&escaped(&text));
        }
        out.push('\n');
    }
    out.push_str("</tbody></table></div>\n");
    if all > ROWS {
        let more = rows_of(all - ROWS).replacen(' ', " more ", 1);
        let _ = writeln!(
            out,
            "<p class=\"note\">... {more}: <code>{}</code></p>",
            of.command()
        );
    }
    if !empty.is_empty() {
        let names: Vec<String> = empty
            .iter()
            .map(|&at| escaped(&sheet.columns[at]))
            .collect();
        let _ = writeln!(
            out,
            "<p class=\"note\">Not known: {}.</p>",
            names.join(", ")
        );
    }
    out.push_str("</details>\n");
}

fn rows_of(n: usize) -> String {
    crate::report::counted(n as u64, "row")
}
