//! The lines of the page for a terminal: cut and wrapped to its width.

use crate::output::render::cut::cut_text;
use crate::report::escape_for_terminal;

/// The lines of a page.
pub(super) struct PageLines {
    pub(super) width: usize,
    pub(super) lines: Vec<String>,
}

impl PageLines {
    pub(super) fn new(width: usize) -> PageLines {
        let lines = Vec::new();
        PageLines { width, lines }
    }

    pub(super) fn push(&mut self, line: String) {
        self.lines.push(line);
    }
}

/// Cuts a line to a width; a cut line ends in `…`.
pub(in crate::stages::page) fn cut_to_width(line: &str, width: usize) -> String {
    cut_text(escape_for_terminal(line, false).trim_end(), width).into_owned()
}

/// Writes `text` after `begin` on at most `most` lines; the last one may be too long and is cut later.
pub(super) fn write_wrapped(begin: &str, text: &str, most: usize, out: &mut PageLines) {
    let under = " ".repeat(begin.chars().count());
    let text = escape_for_terminal(text, false);
    let mut now = begin.to_owned();
    let mut lines = 1;
    for (at, word) in text.split(' ').enumerate() {
        let fits = now.chars().count() + 1 + word.chars().count() <= out.width;
        match (at, fits || lines == most) {
            (0, _) => {}
            (_, true) => now.push(' '),
            (_, false) => {
                out.push(std::mem::replace(&mut now, under.clone()));
                lines += 1;
            }
        }
        now += word;
    }
    out.push(now);
}
