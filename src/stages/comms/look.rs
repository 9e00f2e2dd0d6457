//! The call table on a terminal: the columns that are looked at most.

use crate::output::table::Row;

/// The columns to look at, and how wide.
const LOOK: [(&str, usize); 12] = [
    ("step", 6),
    ("host", 18),
    ("pid", 8),
    ("rank", 5),
    ("nranks", 6),
    ("comm", 15),
    ("seq", 7),
    ("op", 14),
    ("count", 12),
    ("datatype", 9),
    ("bytes", 13),
    ("calls", 6),
];

pub(super) fn header() -> Vec<u8> {
    look(LOOK.map(|(name, _)| name.to_owned()))
}

pub(super) fn row(row: &Row<'_>, out: &mut Vec<u8>) {
    fn number(n: Option<impl ToString>) -> String {
        n.map_or(String::new(), |n| n.to_string())
    }
    let text = |t: &[u8]| crate::report::printable(&String::from_utf8_lossy(t), false);
    out.extend(look([
        number(row.step),
        text(row.host),
        number(row.pid),
        number(row.rank),
        number(row.nranks),
        row.comm.map_or(String::new(), |c| format!("0x{c:x}")),
        number(row.seq),
        text(row.op),
        row.count.to_string(),
        number(row.datatype),
        number(row.bytes()),
        row.calls.to_string(),
    ]));
}

fn look(cells: [String; LOOK.len()]) -> Vec<u8> {
    let mut line = String::new();
    for (cell, (_, width)) in cells.iter().zip(LOOK) {
        line.push_str(&format!("{cell:>width$}  "));
    }
    let mut line = line.trim_end().as_bytes().to_vec();
    line.push(b'\n');
    line
}
