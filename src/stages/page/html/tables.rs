//! The stages' tables in HTML, their cells as they are in CSV: the page's script draws long numbers in
//! groups of three, but for those that are names.

use super::super::PageSection;
use super::super::limits::{MAX_HTML_ROWS, MIN_SENTENCE_BYTES};
use crate::error::escape::escape_markup as escaped;
use crate::output::render::cells::plain_text;
use crate::output::render::look::is_name_column;
use crate::output::render::{Sheet, TableCell};
use crate::pool;
use std::fmt::Write as _;
use std::ops::Range;

/// Reads rows: the first of them, how many there are, and which columns have values.
fn read_rows(
    sheet: &Sheet<'_>,
    parts: &[Range<usize>],
) -> (Vec<Vec<TableCell<'static>>>, usize, Vec<bool>) {
    let (mut rows, mut all) = (Vec::new(), 0);
    let mut is_known = vec![false; sheet.columns.len()];
    for part in parts {
        sheet.each_row(part, |columns, own| {
            let row = columns.iter().chain(own);
            for (is_known, cell) in is_known.iter_mut().zip(row.clone()) {
                *is_known |= *cell != TableCell::Empty && *cell != "".into();
            }
            if all < MAX_HTML_ROWS {
                rows.push(row.cloned().map(TableCell::into_owned).collect());
            }
            all += 1;
        });
    }
    (rows, all, is_known)
}

/// Writes a table; a short one is open, too. Columns that are empty in every row are left out, and named.
pub(super) fn write_table(
    sheet: &Sheet<'_>,
    of: PageSection,
    is_open: bool,
    jobs: usize,
    out: &mut String,
) {
    // Tens of thousands of rows are made to count them.
    let (half, rest) = sheet.parts.split_at(sheet.parts.len().div_ceil(2));
    let jobs = if rest.is_empty() { 1 } else { jobs };
    let ((mut rows, mut all, mut is_known), more) =
        pool::run_both(jobs, || read_rows(sheet, half), || read_rows(sheet, rest));
    rows.extend(more.0.into_iter().take(MAX_HTML_ROWS - rows.len()));
    all += more.1;
    let both = is_known.iter_mut().zip(more.2);
    both.for_each(|(is_known, there)| *is_known |= there);
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
        if is_open || all <= 12 { " open" } else { "" },
        describe_rows(all),
    );
    for &at in &known {
        let name = escaped(&sheet.columns[at]);
        let is_number = rows
            .iter()
            .filter_map(|row| row.get(at))
            .any(is_number_cell);
        let class = if is_number { " class=n" } else { "" };
        let _ = write!(
            out,
            "<th scope=\"col\"{class}><button type=\"button\">{name}</button></th>"
        );
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &rows {
        out.push_str("<tr>");
        for &at in &known {
            let cell = row.get(at).unwrap_or(&TableCell::Empty);
            let text = plain_text(cell);
            out.push_str(match is_number_cell(cell) {
                // The script groups no digits of class `i`: a process's number is pasted elsewhere.
                true if is_name_column(&sheet.columns[at]) => "<td class=i>",
                true if matches!(cell, TableCell::Share(_)) => "<td class=\"n share\">",
                true => "<td class=n>",
                // Class `w` keeps a sentence from becoming a column of single words.
                false if text.len() > MIN_SENTENCE_BYTES => "<td class=w>",
                false => "<td>",
            });
            out.push_str(&escaped(&text));
        }
        out.push('\n');
    }
    out.push_str("</tbody></table></div>\n");
    if all > MAX_HTML_ROWS {
        let more = describe_rows(all - MAX_HTML_ROWS).replacen(' ', " more ", 1);
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
            "<p class=\"note\">Empty columns: {}.</p>",
            names.join(", ")
        );
    }
    out.push_str("</details>\n");
}

fn is_number_cell(cell: &TableCell<'_>) -> bool {
    matches!(
        cell,
        TableCell::Int(_) | TableCell::Float(_) | TableCell::Share(_)
    )
}

fn describe_rows(n: usize) -> String {
    crate::report::count_phrase(n as u64, "row")
}
