//! The picture of the ranks' last calls: a row for each rank, a box for each call. Alike calls of different ranks have
//! one column. The page's script draws a part of it larger.

use super::super::last_calls::{DrawnCall, LastCalls, RankRow};
use super::super::limits::{
    CALLS_PICTURE_WIDTH, MAX_CALL_BOX_WIDTH, MAX_LISTED_WAITS, MAX_TALL_ROWS, RANK_NAMES_WIDTH,
    RANK_ROW_HEIGHTS, STEP_LABEL_WIDTH,
};
use crate::error::escape::escape_markup as escaped;
use crate::output::svg::plot::cut_label;
use crate::report::count_phrase;
use crate::stages::pictures::colour_purposes;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Writes the section.
pub(super) fn write_last_calls(last: &LastCalls, out: &mut String) {
    out.push_str(
        "<section aria-labelledby=\"last_calls\"><h2 id=\"last_calls\">Last calls of the ranks</h2>\n",
    );
    if last.is_stuck {
        write_waits(last, out);
    } else {
        let (drawn, all) = (last.ranks.len(), last.ranks.len() + last.left_out);
        let all = count_phrase(all as u64, "rank");
        let of = match last.left_out {
            0 => String::new(),
            _ => format!("{drawn} of "),
        };
        let _ = writeln!(out, "<details><summary>{of}{all}, call by call</summary>");
    }
    let picture = CallsPicture::new(last);
    picture.write_legend(out);
    picture.write_svg(out);
    if last.left_out > 0 {
        let n = count_phrase(last.left_out as u64, "rank");
        let _ = writeln!(
            out,
            "<p class=\"note\">{n} left out: the picture has those that an error names or others wait for, those \
             that wait where the fewest wait, and the lowest of the others.</p>"
        );
    }
    write_table(last, out);
    out.push_str(if last.is_stuck {
        "</section>\n"
    } else {
        "</details></section>\n"
    });
}

/// Writes the ranks that stopped, and the calls that others wait in.
fn write_waits(last: &LastCalls, out: &mut String) {
    for rank in last.ranks.iter().filter(|rank| rank.mark.is_some()) {
        let call = rank.last.as_ref().map(|call| &call.text.with_step[..]);
        let _ = writeln!(
            out,
            "<p><strong>{} {}</strong>; its last call: {}.</p>",
            escaped(&rank.name),
            rank.mark.unwrap_or_default(),
            call.unwrap_or_default()
        );
    }
    if last.is_ahead {
        out.push_str(
            "<p>These calls do not show where the job hangs: a call is logged when its host enqueues it, which \
             may be long before its GPU begins it.</p>\n",
        );
    }
    if last.waits.is_empty() {
        return;
    }
    out.push_str(
        "<p>Hosts enqueue calls ahead of their GPUs. Of each rank that waits, the first call that not all members of its \
         communicator have made alike:</p>\n<ul>",
    );
    for (call, ranks) in last.waits.iter().take(MAX_LISTED_WAITS) {
        let _ = write!(out, "<li>{}: {}</li>", escaped(ranks), escaped(call));
    }
    let more = last.waits.len().saturating_sub(MAX_LISTED_WAITS);
    if more > 0 {
        let more = count_phrase(more as u64, "more call");
        let _ = write!(out, "<li>... {more}</li>");
    }
    out.push_str("</ul>\n");
}

/// The picture, its sizes and colours.
struct CallsPicture<'a> {
    last: &'a LastCalls,
    /// The class and the letter of each kind of communicators.
    looks: Vec<(&'static str, char)>,
    row_height: f64,
    box_width: f64,
    /// Where the box of each column begins, and its middle.
    places: Vec<(String, String)>,
}

impl<'a> CallsPicture<'a> {
    fn new(last: &'a LastCalls) -> CallsPicture<'a> {
        let labels: Vec<&str> = last.kinds.iter().map(|kind| kind.label).collect();
        let letters = choose_letters(&labels);
        let [tall, low] = RANK_ROW_HEIGHTS;
        // An outline at the end needs a little room.
        let room = CALLS_PICTURE_WIDTH - RANK_NAMES_WIDTH - 2.0;
        let box_width = (room / last.columns.max(1) as f64).min(MAX_CALL_BOX_WIDTH);
        let place = |column: usize| {
            let x = column as f64 * box_width;
            let middle = x + (box_width - 1.0) / 2.0;
            (format!("{x:.2}"), format!("{middle:.2} "))
        };
        CallsPicture {
            last,
            places: (0..last.columns).map(place).collect(),
            looks: colour_purposes(&labels).into_iter().zip(letters).collect(),
            row_height: if last.ranks.len() <= MAX_TALL_ROWS {
                tall
            } else {
                low
            },
            box_width,
        }
    }

    fn write_legend(&self, out: &mut String) {
        out.push_str("<ul class=\"legend\">");
        for (kind, (class, letter)) in self.last.kinds.iter().zip(&self.looks) {
            let text = escaped(&kind.describe_group());
            let _ = write!(
                out,
                "<li><b style=\"background:var(--{class})\">{letter}</b> {text}</li>"
            );
        }
        if self.last.ranks.iter().any(|rank| rank.unmet.is_some()) {
            out.push_str(
                "<li><b class=\"unmet\"></b> first call that not all members have made alike</li>\
                 <li><b class=\"behind\"></b> calls after it</li>",
            );
        }
        if self.last.ranks.iter().any(|rank| !rank.missing.is_empty()) {
            out.push_str(
                "<li><b class=\"gone\"></b> not made by this rank, and others wait in it</li>",
            );
        }
        out.push_str("</ul>\n");
    }

    fn write_svg(&self, out: &mut String) {
        let (last, top) = (self.last, 24.0);
        let high = top + self.row_height * last.ranks.len() as f64 + 4.0;
        let wide = self.box_width * last.columns as f64 + 2.0;
        let marked = last
            .ranks
            .iter()
            .filter_map(|rank| Some((&rank.name, rank.mark?)));
        let marked: Vec<String> = marked
            .map(|(name, mark)| format!("; {name} {mark}"))
            .collect();
        let _ = writeln!(
            out,
            "<figure><svg class=\"calls\" viewBox=\"0 0 {CALLS_PICTURE_WIDTH} {high}\" role=\"img\" tabindex=\"0\" \
             aria-label=\"The last calls of {}{}. A table below has the last call of each.\">",
            count_phrase(last.ranks.len() as u64, "rank"),
            escaped(&marked.concat())
        );
        for (at, rank) in last.ranks.iter().enumerate() {
            let y = top + (at as f64 + 0.5) * self.row_height + 4.0;
            self.write_name(rank, y, out);
        }
        let _ = writeln!(
            out,
            "<svg x=\"{RANK_NAMES_WIDTH}\" width=\"{wide}\" height=\"{high}\">"
        );
        self.write_steps(out);
        for (at, rank) in last.ranks.iter().enumerate() {
            let y = top + at as f64 * self.row_height;
            let _ = writeln!(out, "<g transform=\"translate(0 {y})\">");
            self.write_row(rank, out);
            out.push_str("</g>\n");
        }
        out.push_str(
            "</svg></svg><figcaption class=\"note\">Each box is a call; its place is its order, not its time: the \
             logs have no durations. Click the picture to zoom with the wheel or + and -, to move with the arrow \
             keys; 0 shows all.</figcaption></figure>\n",
        );
    }

    fn write_name(&self, rank: &RankRow, y: f64, out: &mut String) {
        let x = RANK_NAMES_WIDTH - 8.0;
        let (class, shown) = match rank.mark {
            Some(mark) => (" class=\"marked\"", format!("{} {mark}", rank.name)),
            None => ("", format!("{} {}", rank.name, rank.host)),
        };
        let _ = writeln!(
            out,
            "<text{class} x=\"{x}\" y=\"{y}\" text-anchor=\"end\"><title>{} on {}</title>{}</text>",
            escaped(&rank.name),
            escaped(&rank.host),
            escaped(&cut_label(&shown, x))
        );
    }

    /// Writes where steps begin, and where calls of no known step follow; a label without room is hidden until
    /// the script makes room.
    fn write_steps(&self, out: &mut String) {
        let mut first: BTreeMap<(bool, Option<u64>), usize> = BTreeMap::new();
        for call in self.last.ranks.iter().flat_map(|rank| &rank.calls) {
            let at = first
                .entry((call.text.step.is_none(), call.text.step))
                .or_insert(call.column);
            *at = call.column.min(*at);
        }
        let steps: Vec<(Option<u64>, f64)> = first
            .into_iter()
            .map(|((_, step), column)| (step, column as f64 * self.box_width))
            .collect();
        for (at, &(step, x)) in steps.iter().enumerate() {
            let last = at.checked_sub(1).and_then(|before| steps[before].0);
            let text = match (step, last) {
                (Some(step), _) => format!("step {step}"),
                (None, Some(last)) => format!("after step {last}"),
                (None, None) => continue,
            };
            let next = steps.get(at + 1).map_or(f64::MAX, |next| next.1);
            let hidden = match next >= x + STEP_LABEL_WIDTH {
                true => "",
                false => " visibility=\"hidden\"",
            };
            let _ = writeln!(
                out,
                "<text class=\"step\" x=\"{x:.2}\" y=\"14\"{hidden}>\u{21a6} {text}</text>"
            );
        }
    }

    fn write_row(&self, rank: &RankRow, out: &mut String) {
        let (wide, high) = (self.box_width - 1.0, self.row_height - 3.0);
        let size = format!("y=\"1\" width=\"{wide:.2}\" height=\"{high}\"><title>");
        let name = escaped(&rank.name);
        let mut letters: [(String, String); 2] = Default::default();
        for (at, call) in rank.calls.iter().enumerate() {
            let (class, letter) = self.looks.get(call.kind).copied().unwrap_or(("c0", '?'));
            let Some((x, middle)) = self.places.get(call.column) else {
                continue;
            };
            let state = match rank.unmet.map(|unmet| at.cmp(&unmet)) {
                Some(std::cmp::Ordering::Equal) => " unmet",
                Some(std::cmp::Ordering::Greater) => " behind",
                _ => "",
            };
            let parts = [
                "<rect class=\"",
                class,
                state,
                "\" x=\"",
                x,
                "\" ",
                &size,
                &name,
                ": ",
                &call.text.with_step,
                "</title></rect>\n",
            ];
            parts.into_iter().for_each(|part| out.push_str(part));
            let (places, text) = &mut letters[usize::from(state == " behind")];
            places.push_str(middle);
            text.push(letter);
        }
        for (column, call) in &rank.missing {
            let x = self.places.get(*column).map_or("0", |(x, _)| x);
            let call = escaped(call);
            let _ = writeln!(
                out,
                "<rect class=\"gone\" x=\"{x}\" {size}{name} has not made {call}</title></rect>"
            );
        }
        for ((places, text), class) in letters.iter().zip(["letters", "letters behind"]) {
            let y = high / 2.0 + 4.5;
            if !text.is_empty() {
                let _ = writeln!(
                    out,
                    "<text class=\"{class}\" text-anchor=\"middle\" x=\"{places}\" y=\"{y}\">{text}</text>"
                );
            }
        }
    }
}

/// Chooses a letter for each kind: its own first letter, or else the next free one.
fn choose_letters(labels: &[&str]) -> Vec<char> {
    let mut free: Vec<char> = ('A'..='Z').collect();
    let mut chosen = Vec::new();
    for label in labels {
        let first = label.chars().next().map(|c| c.to_ascii_uppercase());
        let at = free.iter().position(|&letter| Some(letter) == first);
        chosen.push(match free.is_empty() {
            true => '+',
            false => free.remove(at.unwrap_or(0)),
        });
    }
    chosen
}

/// Returns the cells of a rank's row in the table, as markup.
fn list_cells(last: &LastCalls, rank: &RankRow) -> [String; 5] {
    let words = |call: &DrawnCall| call.text.without_step().to_owned();
    let made = rank.last.as_ref();
    let unmet = rank.unmet.filter(|_| last.is_stuck);
    let unmet = unmet.and_then(|at| rank.calls.get(at));
    [
        escaped(format!("{} {}", rank.name, rank.mark.unwrap_or_default()).trim_end()),
        escaped(&rank.host),
        made.map_or(String::new(), words),
        made.and_then(|call| call.text.step)
            .map_or(String::new(), |step| step.to_string()),
        unmet.map_or(String::new(), words),
    ]
}

/// Writes the last call of each rank as a table, without the columns that are empty in every row.
fn write_table(last: &LastCalls, out: &mut String) {
    out.push_str(
        "<details class=\"table\"><summary>The last call of each rank as a table</summary>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"The last call of each rank, table\"><table>\
         <thead><tr>",
    );
    let heads = [
        ("<td>", "rank"),
        ("<td>", "host"),
        ("<td class=w>", "last call"),
        ("<td class=i>", "step"),
        ("<td class=w>", "first call that not all members made alike"),
    ];
    let rows: Vec<[String; 5]> = last
        .ranks
        .iter()
        .map(|rank| list_cells(last, rank))
        .collect();
    let is_known = |at: &usize| rows.iter().any(|row| !row[*at].is_empty());
    let known: Vec<usize> = (0..heads.len()).filter(is_known).collect();
    for &at in &known {
        let _ = write!(
            out,
            "<th scope=\"col\"><button type=\"button\">{}</button></th>",
            heads[at].1
        );
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &rows {
        out.push_str("<tr>");
        for &at in &known {
            let _ = write!(out, "{}{}", heads[at].0, row[at]);
        }
        out.push('\n');
    }
    out.push_str("</tbody></table></div></details>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_letter_of_its_own() {
        let letters = choose_letters(&["tensor", "data", "data", "unknown"]);
        assert_eq!(letters, ['T', 'D', 'A', 'U']);
        assert_eq!(choose_letters(&["a"; 30])[26..], ['+'; 4]);
    }
}
